"""Primary keys as a signal gives them, made into the form that they're bound to a statement in (`pipeline.keys`).

A key says nothing of its types, so each part is held against its column: a part that can't be a value of it is
refused by name rather than converted by the server to something that it isn't.
"""

from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import assert_never

from pipeline import conditions
from pipeline.keys import Key, KeyPart
from pipeline.schema import Column, TableSchema
from pipeline.types import (
    Binary,
    Bit,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Geometry,
    Integer,
    Json,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
)


def bound(schema: TableSchema, key: Key) -> Key:
    """The key as it's bound. Raises ValueError where it can't be a key of the table."""
    if len(key) != len(schema.key):
        columns = ", ".join(schema.key_names)
        raise ValueError(
            f"{list(key)} has {len(key)} parts, and the primary key of {schema.table} is {columns}"
        )
    return tuple(_part(schema.columns[i], given) for i, given in zip(schema.key, key, strict=True))


def _part(column: Column, given: KeyPart) -> KeyPart:
    part = _value(column, given)
    if part is None:
        kind = type(column.type).__name__.upper()
        raise ValueError(f"{given!r} is no value of the key's column {column.name}, which is {kind}")
    return part


def _value(column: Column, given: KeyPart) -> KeyPart | None:
    match column.type:
        case Integer() | Year() | Bit():
            return given if isinstance(given, int) else None
        case Decimal():
            return _decimal(given)
        case Float() | Double():
            return float(given) if isinstance(given, int | float) else None
        case Text():
            return given if isinstance(given, str) else None
        case FixedBinary() | Binary():
            return given.encode() if isinstance(given, str) else given if isinstance(given, bytes) else None
        case Date() | DateTime() | Timestamp():
            moment = conditions.moment(given) if isinstance(given, str) else None
            return None if moment is None else str(moment)
        case Time():
            return given if isinstance(given, str) and conditions.TIME.fullmatch(given) else None
        case Enum(labels):
            return labels.index(given) + 1 if isinstance(given, str) and given in labels else None
        case Set(labels):
            return _bits(labels, given)
        case Json() | Geometry() | Vector():  # these are in no key
            return None
        case _:
            assert_never(column.type)


def _decimal(given: KeyPart) -> str | None:
    """Not from a float, which says another number than was written."""
    if not isinstance(given, int | str):
        return None
    try:
        number = Number(given)
    except InvalidOperation:
        return None
    return f"{number:f}" if number.is_finite() else None


def _bits(labels: tuple[str, ...], given: KeyPart) -> int | None:
    chosen = set(given.split(",")) - {""} if isinstance(given, str) else {given}
    if not chosen <= set(labels):
        return None
    return sum(1 << i for i, label in enumerate(labels) if label in chosen)
