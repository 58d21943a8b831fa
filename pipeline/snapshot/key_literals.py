"""Converts primary keys in a signal into the form that a statement binds (`pipeline.schema.row_keys`).

A key doesn't have its types, so each part is checked against its column. A part that can't be a value of it is refused
by name. Otherwise the server would convert it to another value.
"""

from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Any, Final, assert_never

import pyarrow as pa

from pipeline.errors import InvariantBroken
from pipeline.schema.row_keys import Key, KeyPart
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.snapshot import row_filter
from pipeline.types import column_types as t

# The whole numbers that a statement binds: as a BIGINT, with a sign or without.
_BOUND_INTEGERS: Final = range(-(1 << 63), 1 << 64)
# The most digits of a DECIMAL.
_DECIMAL_DIGITS: Final = 65


def bound_keys(schema: TableSchema, keys: pa.RecordBatch) -> tuple[Key, ...]:
    """Keys as they're bound, of the key's columns in their canonical form and order. Raises InvariantBroken."""
    parts = []
    for column, values in zip(schema.key_columns, keys.columns, strict=True):
        parts.append([_of_value(column, value) for value in _plain(column, values).to_pylist()])
    return tuple(zip(*parts, strict=True))


def _plain(column: Column, values: pa.Array) -> pa.Array:
    """Dates and moments as their text."""
    match column.type:
        case t.Timestamp():
            return values.cast(pa.timestamp("us")).cast(pa.string())
        case t.Date() | t.DateTime():
            return values.cast(pa.string())
        case _:
            return values


def _of_value(column: Column, value: Any) -> KeyPart:
    part: KeyPart | None
    match column.type:
        case t.Integer() | t.Year() | t.Float() | t.Double() | t.Text() | t.FixedBinary() | t.Binary():
            part = int(value) if isinstance(value, Number) else value
        case t.Date() | t.DateTime() | t.Timestamp() | t.Decimal():
            part = str(value) if isinstance(value, str) else f"{value:f}"
        case t.Bit():
            part = int.from_bytes(value) if isinstance(value, bytes) else int(value)
        case t.Time():
            part = time_text(value)
        case t.Enum(labels):
            part = labels.index(value) + 1 if value in labels else 0
        case t.Set(labels):
            part = _bits(labels, value)
        case t.Json() | t.Geometry() | t.Vector():  # these are in no key
            part = None
        case _:
            assert_never(column.type)
    if part is None:
        raise InvariantBroken(
            f"a {type(value).__name__} came as a key's {column.name}, which is {column.type}"
        )
    return part


def time_text(microseconds: int) -> str:
    """Returns a TIME as MySQL writes it, with six digits of a second."""
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    sign = "-" if microseconds < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def time_microseconds(text: str) -> int:
    """Returns the microseconds of a TIME as MySQL writes it."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Number(seconds) * 1_000_000)
    return -whole if text.startswith("-") else whole


def bound_key(schema: TableSchema, key: Key) -> Key:
    """The key as it's bound. Raises ValueError where it can't be a key of the table."""
    if len(key) != len(schema.key):
        columns = ", ".join(schema.key_names)
        raise ValueError(
            f"{list(key)} has {len(key)} parts, and the primary key of {schema.table} is {columns}"
        )
    return tuple(_part(column, given) for column, given in zip(schema.key_columns, key, strict=True))


def _part(column: Column, given: KeyPart) -> KeyPart:
    part = _value(column, given)
    if part is None:
        kind = column.type.wire.upper()
        raise ValueError(f"{given!r} is no value of the key's column {column.name}, which is {kind}")
    return part


def _value(column: Column, given: KeyPart) -> KeyPart | None:
    match column.type:
        case t.Integer() | t.Year() | t.Bit():
            return given if isinstance(given, int) and given in _BOUND_INTEGERS else None
        case t.Decimal():
            return _decimal(given)
        case t.Float() | t.Double():
            return _double(given)
        case t.Text():
            return given if isinstance(given, str) and _is_text(given) else None
        case t.FixedBinary() | t.Binary():
            return given.encode() if isinstance(given, str) else given if isinstance(given, bytes) else None
        case t.Date() | t.DateTime() | t.Timestamp():
            moment = row_filter.parse_moment(given) if isinstance(given, str) else None
            return None if moment is None else str(moment)
        case t.Time():
            return given if isinstance(given, str) and row_filter.TIME.fullmatch(given) else None
        case t.Enum(labels):
            return labels.index(given) + 1 if isinstance(given, str) and given in labels else None
        case t.Set(labels):
            return _bits(labels, given)
        case t.Json() | t.Geometry() | t.Vector():  # these are in no key
            return None
        case _:
            assert_never(column.type)


def _double(given: KeyPart) -> float | None:
    """A whole number of JSON's may be beyond the range of a DOUBLE."""
    try:
        return float(given) if isinstance(given, int | float) else None
    except OverflowError:
        return None


def _is_text(given: str) -> bool:
    """JSON can have half a surrogate pair, which no character set has."""
    return not any("\ud800" <= character <= "\udfff" for character in given)


def _decimal(given: KeyPart) -> str | None:
    """Not from a float, which says another number than was written.

    An exponent can stand for a billion digits, and a DECIMAL has few.
    """
    if not isinstance(given, int | str):
        return None
    try:
        number = Number(given)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _DECIMAL_DIGITS:
        return None
    return f"{number:f}"


def _bits(labels: tuple[str, ...], given: KeyPart) -> int | None:
    if not isinstance(given, str):
        return None
    chosen = set(given.split(",")) if given else set()
    if not chosen <= set(labels):
        return None
    return sum(1 << i for i, label in enumerate(labels) if label in chosen)
