"""Text in MySQL's character sets as Arrow's strings, which are UTF-8.

Both paths into Tidemark bring text as its column's own bytes and use this module, so both give the same text. The log
has these bytes anyway. For a SELECT the server is configured not to convert them. It would print a question mark for a
code without a character, and so make one text of many. A code that isn't a character of its set is refused, by the
column's name. Nothing replaces it. No error has its bytes, which are a row's: logs and the journal keep errors.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import Definite
from pipeline.types.text import charset_kernels as kernels
from pipeline.types.text.charset_tables import TABLED, code_tables


class TextError(Definite):
    """Text that isn't of its column's character set, or a character set that Tidemark doesn't know."""


class _Wide(NamedTuple):
    """A set of Unicode's with units of more than a byte; `pairs`: two units may make one character."""

    width: int
    little: bool = False
    pairs: bool = False


# Their bytes are UTF-8 already.
_UTF_8: Final = frozenset({"ascii", "utf8mb3", "utf8mb4"})
# The highest byte of those that aren't all of it.
_HIGHEST: Final = {"ascii": 0x7F, "utf8mb3": 0xEF}

# How many code points those have that aren't of the table, nor all of Unicode.
_CODES: Final = {"ascii": 0x80, "utf8mb3": 0x10000, "ucs2": 0x10000}

_WIDE: Final = {
    "ucs2": _Wide(2),
    "utf16": _Wide(2, pairs=True),
    "utf16le": _Wide(2, little=True, pairs=True),
    "utf32": _Wide(4),
}

# Sets of the table in which a byte below 0x80 isn't always the character of ASCII.
_NOT_ASCII: Final = frozenset({"swe7"})

KNOWN_CHARSETS: Final = _UTF_8 | frozenset(_WIDE) | TABLED

_MOST: Final = 2**31 - 1  # bytes, since Arrow's strings have 32-bit offsets


def to_strings(values: pa.Array, charset: str, column: str) -> pa.Array:
    """pa.binary() values in MySQL's `charset` as pa.string(), over the same memory where they're UTF-8 already.

    Raises TextError, which names `column`.
    """
    if charset in _UTF_8:
        return _utf8(values, charset, column)
    if charset in _WIDE:
        return _convert(values, charset, column)
    if charset not in TABLED:
        raise TextError(
            f"{column}: Tidemark doesn't know the character set {charset}; change the column to utf8mb4 or leave"
            " its table out of the capture"
        )
    plain = charset not in _NOT_ASCII and _data(values).max(initial=0) < 0x80
    return _utf8(values, charset, column) if plain else _convert(values, charset, column)


def to_text(value: bytes, charset: str) -> str:
    """One value in MySQL's `charset`, such as an ENUM's label. Raises TextError."""
    return str(to_strings(pa.array([value], pa.binary()), charset, repr(value))[0].as_py())


@cache
def ambiguous_characters(charset: str) -> frozenset[str]:
    """The characters of which MySQL's `charset` has more than one code, so that two texts in it can read alike."""
    if charset not in TABLED:
        return frozenset()
    found, times = np.unique(_tabled(charset), return_counts=True)
    return frozenset(map(chr, found[times > 1].tolist()))


@cache
def code_points(charset: str) -> Sequence[int]:
    """The code points that a text in MySQL's `charset` may have, in order, with the surrogates where it's one of
    Unicode's.
    """
    if charset in TABLED:
        return tuple(np.unique(_tabled(charset)).tolist())
    return range(_CODES.get(charset, 0x110000))


def _tabled(charset: str) -> NDArray[np.int32]:
    """The code points of all codes of a set of the table."""
    return np.concatenate([table[table >= 0] for table in code_tables(charset)])


def _ends(values: pa.Array) -> NDArray[np.int32]:
    """Where values begin and end in the data: one entry more than there are values."""
    ends = np.frombuffer(values.buffers()[1], np.int32)
    return ends[values.offset : values.offset + len(values) + 1]


def _data(values: pa.Array) -> NDArray[np.uint8]:
    """All values end to end."""
    ends, data = _ends(values), values.buffers()[2]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]


def _utf8(values: pa.Array, charset: str, column: str) -> pa.Array:
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise TextError(f"{column}: a value isn't text in {charset}: {error}") from error
    if charset in _HIGHEST and _data(values).max(initial=0) > (highest := _HIGHEST[charset]):
        raise TextError(f"{column}: a value isn't text in {charset}: it has a byte above {highest:#x}")
    return text


def _convert(values: pa.Array, charset: str, column: str) -> pa.Array:
    ends, data = _ends(values), _data(values)
    ends = ends - ends[0]
    out, out_ends = np.empty(kernels.GROWTH * len(data), np.uint8), np.empty(len(ends), np.int64)
    if charset in _WIDE:
        wide = _WIDE[charset]
        wrong = kernels.decode_by_unit(data, ends, wide.width, wide.little, wide.pairs, out, out_ends)
    else:
        wrong = kernels.decode_by_table(data, ends, *code_tables(charset), out, out_ends)
    if wrong != kernels.WHOLE_TEXT:
        place = int(wrong - ends[np.searchsorted(ends, wrong, "right") - 1])
        raise TextError(f"{column}: a value isn't text in {charset}: its byte {place} begins no character")
    if out_ends[-1] > _MOST:
        raise TextError(f"{column}: more than 2 GiB of text at once")
    valid = values.is_valid().buffers()[1] if values.null_count else None
    places = pa.py_buffer(out_ends.astype(np.int32))
    text = pa.py_buffer(out[: out_ends[-1]].copy())  # gives back the room that it didn't take
    return pa.Array.from_buffers(pa.string(), len(values), [valid, places, text])
