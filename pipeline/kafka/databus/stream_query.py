"""What a request for `/stream` wants, in Databus' parameters.

A window is a transaction, and its SCN the transaction's. A checkpoint has `windowScn` and `windowOffset`: so many
events of that window have come, or all of it (-1). A `windowScn` of -1 is the beginning of what there is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pipeline.journal.changes.checkpoint import is_long
from pipeline.journal.changes.key_filter import KeyFilter, parse_key_filter
from pipeline.journal.changes.query import NamedPlace, Since
from pipeline.journal.request_parameters import MalformedRequest, check_names
from pipeline.kafka.databus.source_filters import SourceFilters, parse_source_filters
from pipeline.kafka.databus.subscriptions import parse_partition_checkpoint, parse_subscriptions
from pipeline.schema.table_names import split_names

# The most that an answer may take (bytes).
LARGEST: Final = 32 << 20

_WHOLE: Final = -1
_BEGINNING: Final = -1
_NEEDED: Final = ("size", "output")
_PARAMETERS: Final = (
    "sources",
    "subs",
    *_NEEDED,
    "checkPoint",
    "checkPointMult",
    "streamFromLatestScn",
    "filters",
    "key_range",
    "key_modulo",
)
# Databus' clients say with these which formats they know. Events here are of its first version.
IGNORED: Final = frozenset({"v", "maxev", "protocolVersion"})


class EventEncoding(StrEnum):
    """The form of events: lines of JSON with values in Avro, or a container file of Avro."""

    JSON = "json"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """The place after `since`, and then after `skipped` events of the window `first`."""

    since: Since
    first: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The events of these sources after a place: at most `size` bytes of them.

    `sources`: numbers or names; all without any. `keys`, `filters`: only these keys. One of the two is None.
    """

    sources: tuple[str, ...]
    place: WindowPlace
    size: int
    output: EventEncoding
    keys: KeyFilter | None
    filters: SourceFilters | None = None


def parse_stream_query(parameters: Mapping[str, str]) -> StreamQuery:
    """Returns what a request's parameters ask. Raises MalformedRequest or WrongKeyFilter."""
    check_names(parameters.keys() - IGNORED, *_PARAMETERS)
    for name in _NEEDED:
        if not parameters.get(name):
            raise MalformedRequest(f"{name}: it is missing")
    output = parameters["output"].lower()
    if output not in set(EventEncoding):
        raise MalformedRequest(f"output: {output!r} is none of {', '.join(EventEncoding)}")
    size = _size(parameters["size"])
    keys = parse_key_filter(parameters.get("key_range"), parameters.get("key_modulo"))
    filters = parse_source_filters(parameters["filters"]) if "filters" in parameters else None
    if keys is not None and filters is not None:
        raise MalformedRequest("filters: give either it, or key_range and key_modulo")
    return StreamQuery(_sources(parameters), _place(parameters), size, EventEncoding(output), keys, filters)


def parse_window(text: str) -> WindowPlace:
    """Returns the place that a checkpoint in JSON means. Raises MalformedRequest."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"checkPoint: it isn't JSON ({error}); {_REMEDY}") from error
    if not isinstance(document, dict):
        raise MalformedRequest(f"checkPoint: it is no object; {_REMEDY}")
    scn, offset = _number(document, "windowScn"), _number(document, "windowOffset")
    if scn == _BEGINNING:
        return WindowPlace(NamedPlace.EARLIEST)
    if offset == _WHOLE:
        return WindowPlace(scn)
    if scn == 0:
        raise MalformedRequest("checkPoint: there is no window 0, so windowOffset has to be -1")
    return WindowPlace(scn - 1, scn, offset)


_REMEDY: Final = 'give {"windowScn": 345, "windowOffset": -1}'


def _number(document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 63:
        raise MalformedRequest(
            f"checkPoint: {name} is {json.dumps(value)}, and no number from -1 on; {_REMEDY}"
        )
    return value


def _sources(parameters: Mapping[str, str]) -> tuple[str, ...]:
    _check_one_of(parameters, "sources", "subs")
    if parameters.get("sources"):
        return tuple(split_names(parameters["sources"]))
    if parameters.get("subs"):
        return parse_subscriptions(parameters["subs"])
    raise MalformedRequest("sources: it is missing; give it or subs")


def _check_one_of(parameters: Mapping[str, str], one: str, other: str) -> None:
    if one in parameters and other in parameters:
        raise MalformedRequest(f"{other}: give either {one} or {other}")


def _place(parameters: Mapping[str, str]) -> WindowPlace:
    latest = parameters.get("streamFromLatestScn", "false").lower()
    if latest not in ("true", "false"):
        raise MalformedRequest(f"streamFromLatestScn: {latest!r} is neither true nor false")
    if latest == "true":
        return WindowPlace(NamedPlace.NOW)
    _check_one_of(parameters, "checkPoint", "checkPointMult")
    if "checkPointMult" in parameters:
        return parse_window(parse_partition_checkpoint(parameters["checkPointMult"]))
    if "checkPoint" not in parameters:
        raise MalformedRequest(f"checkPoint: it is missing; {_REMEDY}, or streamFromLatestScn=true")
    return parse_window(parameters["checkPoint"])


def _size(text: str) -> int:
    if not (is_long(text) and 0 < int(text) <= LARGEST):
        raise MalformedRequest(f"size: {text!r} is no number of bytes from 1 to {LARGEST}")
    return int(text)
