"""Which changes a request for `/changes` wants, and in which form."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.journal.changes.checkpoint import (
    ChangesCheckpoint,
    MalformedCheckpoint,
    is_long,
    parse_checkpoint,
)
from pipeline.journal.changes.key_filter import KeyFilter, WrongKeyFilter, parse_key_filter
from pipeline.journal.request_parameters import MalformedRequest, check_names, tables_named
from pipeline.schema.table_schema import TableId

_PARAMETERS: Final = ("tables", "since", "through", "key_range", "key_modulo", "format", "compression")

_Choice = TypeVar("_Choice", bound=StrEnum)


class NamedPlace(StrEnum):
    """A place in the journal that has no number."""

    NOW = "now"
    EARLIEST = "earliest"


class ChangesFormat(StrEnum):
    """The form of the changes: lines of JSON, or Arrow's IPC streams."""

    JSON = "json"
    ARROW = "arrow"


class BufferCompression(StrEnum):
    """How the buffers of Arrow's batches are compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


Since = NamedPlace | int | GtidSet | ChangesCheckpoint
ThroughPlace = NamedPlace | int | GtidSet


@dataclass(frozen=True, slots=True)
class ChangesQuery:
    """The changes of these tables (of all captured ones, if none is named) after `since`.

    They end with `through`. None has no end: they follow the journal. `keys`: only these; None for all.
    """

    tables: tuple[TableId, ...]
    since: Since
    through: ThroughPlace | None
    format: ChangesFormat
    compression: BufferCompression
    keys: KeyFilter | None = None


def parse_changes_query(parameters: Mapping[str, str]) -> ChangesQuery:
    """Returns what a request's parameters ask. Raises MalformedRequest."""
    check_names(parameters, *_PARAMETERS)
    format_ = _one_of(ChangesFormat, "format", parameters)
    compression = _one_of(BufferCompression, "compression", parameters)
    if format_ is ChangesFormat.JSON and compression is not BufferCompression.NONE:
        raise MalformedRequest("compression: lines of JSON have none; ask for format=arrow")
    return ChangesQuery(
        tables_named(parameters["tables"]) if "tables" in parameters else (),
        parse_since(parameters.get("since", NamedPlace.NOW)),
        _through(parameters["through"]) if "through" in parameters else None,
        format_,
        compression,
        _keys(parameters.get("key_range"), parameters.get("key_modulo")),
    )


def parse_since(text: str) -> Since:
    """Returns the place that a parameter names. Raises MalformedRequest."""
    if text in set(NamedPlace):
        return NamedPlace(text)
    if "." in text:
        try:
            return parse_checkpoint(text)
        except MalformedCheckpoint as error:
            raise MalformedRequest(f"since: {error}") from error
    return _place("since", text, "now, earliest, a checkpoint")


def _keys(key_range: str | None, key_modulo: str | None) -> KeyFilter | None:
    try:
        return parse_key_filter(key_range, key_modulo)
    except WrongKeyFilter as error:
        raise MalformedRequest(str(error)) from error


def _through(text: str) -> ThroughPlace:
    return NamedPlace.NOW if text == NamedPlace.NOW else _place("through", text, "now")


def _place(parameter: str, text: str, besides: str) -> int | GtidSet:
    if is_long(text):
        return int(text)
    remedy = f"give {besides}, an SCN as 12345, or a GTID set as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"
    try:
        gtids = GtidSet.parse(text)
    except MalformedGtid as error:
        raise MalformedRequest(f"{parameter}: {text!r} is no place in the journal; {remedy}") from error
    if not gtids:
        raise MalformedRequest(f"{parameter}: the GTID set is empty; {remedy}")
    return gtids


def _one_of(kind: type[_Choice], parameter: str, parameters: Mapping[str, str]) -> _Choice:
    """Returns the choice that a parameter names, the first one if it's missing."""
    values = list(kind)
    text = parameters.get(parameter, values[0])
    if text not in set(values):
        raise MalformedRequest(f"{parameter}: {text!r} is none of {', '.join(values)}")
    return kind(text)
