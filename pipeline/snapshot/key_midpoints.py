"""Keys between two keys, proposed without asking the server.

A proposal is only that: the server alone orders keys, and says which of its own is there. So any value of the column's
type will do. A bad one costs a question and makes parts uneven, but never loses a row. It's from a collation that sorts
quite otherwise than characters are numbered. A text has only characters of the column's character set: the server
refuses to compare the column with any other.

Of a composite key only the first part that differs is looked at; the proposal ends with it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal as Exact
from decimal import localcontext
from typing import Final

from pipeline.schema.row_keys import Key, KeyPart
from pipeline.snapshot.key_literals import time_microseconds, time_text
from pipeline.source.parameters import label_numbers
from pipeline.types import column_types as t
from pipeline.types.text.charsets import code_points

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_RANKS: Final = {letter: rank for rank, letter in enumerate(_ALPHABET)} | {"": 0}
# How many characters or bytes after the first difference count: beyond the 64 bits of a UUID's half.
_DIGITS: Final = 12
_FINENESS: Final = 1 << 30
_EPOCH: Final = datetime(1, 1, 1)  # noqa: DTZ001 - what DATETIME says has no zone
_MICROSECOND: Final = timedelta(microseconds=1)


def key_between(kinds: tuple[t.ColumnType, ...], low: Key, high: Key, fraction: float) -> Key | None:
    """Returns the beginning of a key about this `fraction` of the way from `low` to `high`; None if none is known.

    `kinds`: the types of the key's columns. The result is after `low`, or equals its beginning.
    """
    for place, (kind, least, most) in enumerate(zip(kinds, low, high, strict=False)):
        if least != most:
            found = _between(kind, least, most, fraction)
            return None if found is None else (*low[:place], found)
    return None


def _between(kind: t.ColumnType, low: KeyPart, high: KeyPart, fraction: float) -> KeyPart | None:
    match kind, low, high:
        case ((t.Integer() | t.Year() | t.Bit()), int(), int()):
            return _part(low, high, fraction)
        case ((t.Enum() | t.Set()), int(), int()):
            # Where its numbers can't be listed, each question would read the index from its beginning.
            return None if label_numbers(kind) is None else _part(low, high, fraction)
        case ((t.Float() | t.Double()), float(), float()):
            return low * (1 - fraction) + high * fraction
        case t.Decimal(_, scale), str(), str():
            with localcontext(prec=70):
                ends = [int(Exact(end).scaleb(scale)) for end in (low, high)]
                return str(Exact(_part(ends[0], ends[1], fraction)).scaleb(-scale))
        case ((t.Date() | t.DateTime() | t.Timestamp()), str(), str()):
            return _moment(low, high, fraction)
        case t.Time(), str(), str():
            return time_text(_part(time_microseconds(low), time_microseconds(high), fraction))
        case _, bytes(), bytes():
            return _binary(low, high, fraction)
        case t.Text(charset), str(), str():
            return _text(charset, low, high, fraction)
        case _:
            return None


def _part(low: int, high: int, fraction: float) -> int:
    """Exact for integers of any size, and never beyond one of the two."""
    way = abs(high - low) * round(fraction * _FINENESS) // _FINENESS
    return low + way if low < high else low - way


def _moment(low: str, high: str, fraction: float) -> str | None:
    try:
        ends = [(datetime.fromisoformat(end) - _EPOCH) // _MICROSECOND for end in (low, high)]
    except ValueError:
        return None  # a date that no calendar has
    moment = _EPOCH + _part(ends[0], ends[1], fraction) * _MICROSECOND
    return moment.isoformat(" ", "microseconds")[: len(low)]


def _binary(low: bytes, high: bytes, fraction: float) -> bytes:
    same = _same(low, high)
    ends = [int.from_bytes(end[same : same + _DIGITS].ljust(_DIGITS, b"\0")) for end in (low, high)]
    return low[:same] + _part(ends[0], ends[1], fraction).to_bytes(_DIGITS)


def _text(charset: str, low: str, high: str, fraction: float) -> str:
    """Letters and digits are counted as a number that's written with them, all else by the code points of the set."""
    same = _same(low, high)
    rests = [end[same : same + _DIGITS] for end in (low, high)]
    if all(rest[:1].lower() in _RANKS for rest in rests):
        ends = [_number([_RANKS.get(each, 0) for each in rest.lower()], len(_ALPHABET)) for rest in rests]
        digits = _digits(_part(ends[0], ends[1], fraction), len(_ALPHABET))
        found = "".join(_ALPHABET[digit] for digit in digits)
        return low[:same] + (found.upper() if any(rest[:1].isupper() for rest in rests) else found)
    points = code_points(charset)
    ends = [_number([bisect_left(points, ord(each)) for each in rest], len(points)) for rest in rests]
    first, second, *_ = _digits(_part(ends[0], ends[1], fraction), len(points))
    return low[:same] + _character(points[first]) + _character(points[second])


def _same(low: Sequence[object], high: Sequence[object]) -> int:
    """How many elements the two have in common at their beginning."""
    pairs = zip(low, high, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(low), len(high)))


def _number(digits: list[int], base: int) -> int:
    number = 0
    for digit in [*digits, *[0] * (_DIGITS - len(digits))]:
        number = number * base + digit
    return number


def _digits(number: int, base: int) -> list[int]:
    digits = []
    for _ in range(_DIGITS):
        number, digit = divmod(number, base)
        digits.append(digit)
    return digits[::-1]


def _character(code: int) -> str:
    """Returns the character with this code point; the next one after the surrogates for these, which are no
    characters."""
    return chr(0xE000) if 0xD800 <= code < 0xE000 else chr(code)
