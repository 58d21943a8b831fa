"""The compiled loops that write JSON values as Jackson writes them, which is what Kafka Connect's JsonConverter uses.

The values of a column lie end to end in `data`, value i at data[ends[i]:ends[i + 1]]. The texts are laid end to end in
`out`, text i before out_ends[i]. Each function of sizes says how many bytes all texts take; `out` has so many, and no
loop writes beyond its end.

Source: Jackson 2, `UTF8JsonGenerator` and `CharTypes` (escapes), `Base64Variants.MIME_NO_LINEFEEDS`; Java SE 19,
`Double.toString` (JDK-4511638: the shortest digits).
"""

from typing import Final

import numpy as np
from numba import types, uint8
from numpy.typing import NDArray

from pipeline.types.buffers import Bytes, Ends, Int
from pipeline.types.jit import READ_BYTES, READ_ENDS, READ_LONGS, compiled, inlined

_OUT: Final = uint8[::1]
_OUT_ENDS: Final = types.int32[::1]

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_MINUS: Final = ord("-")
_DOT: Final = ord(".")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")
_SPACE: Final = ord(" ")

# The letter after the backslash of a control character; 0 if it is written as \u00XX.
SHORT_ESCAPES: Final = np.zeros(32, np.uint8)
for _control, _letter in {8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}.items():
    SHORT_ESCAPES[_control] = ord(_letter)

HEX_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)

# A character beyond U+FFFF begins with this byte of UTF-8 or a greater one. Two escapes stand for it.
_FOUR_BYTES: Final = 0xF0


@inlined
def _width(byte: Int, short: Bytes) -> Int:
    """Returns how many bytes the text has for this byte of UTF-8."""
    if byte >= _FOUR_BYTES:
        return 9  # twelve for the two escapes, less the three bytes that follow and count as one each
    if byte in (_QUOTE, _BACKSLASH):
        return 2
    if byte < _SPACE:
        return 2 if short[byte] else 6
    return 1


# How many bytes the loop reads before it looks whether one of them needs an escape.
_LOOK: Final = 1 << 12


@compiled(types.boolean(READ_BYTES))
def is_plain(data: Bytes) -> bool:
    """Returns whether no byte of UTF-8 needs an escape."""
    for begin in range(0, len(data), _LOOK):
        found = False
        for i in range(np.uint64(begin), np.uint64(min(begin + _LOOK, len(data)))):
            byte = data[i]
            found |= (byte >= _FOUR_BYTES) | (byte < _SPACE) | (byte == _QUOTE) | (byte == _BACKSLASH)
        if found:
            return False
    return True


@compiled(types.int64(READ_BYTES, READ_BYTES))
def size_of_escaped(data: Bytes, short: Bytes) -> Int:
    """Returns how many bytes the texts take with escapes, without quotes; `short` is SHORT_ESCAPES."""
    size = np.int64(0)
    for i in range(len(data)):
        size += _width(data[i], short)
    return size


@inlined
def _put_unit(out: Bytes, to: Int, unit: Int, digits: Bytes) -> Int:
    """Writes a unit of UTF-16 as an escape. Returns the place after it."""
    out[to] = _BACKSLASH
    out[to + 1] = ord("u")
    out[to + 2] = digits[unit >> 12 & 15]
    out[to + 3] = digits[unit >> 8 & 15]
    out[to + 4] = digits[unit >> 4 & 15]
    out[to + 5] = digits[unit & 15]
    return to + 6


@inlined
def _put_byte(out: Bytes, to: Int, byte: Int, short: Bytes, digits: Bytes) -> Int:
    """Writes a byte of a character up to U+FFFF. Returns the place after it."""
    if byte in (_QUOTE, _BACKSLASH):
        out[to] = _BACKSLASH
        out[to + 1] = byte
        return to + 2
    if byte >= _SPACE:
        out[to] = byte
        return to + 1
    if short[byte]:
        out[to] = _BACKSLASH
        out[to + 1] = short[byte]
        return to + 2
    return _put_unit(out, to, byte, digits)


@compiled(types.void(READ_BYTES, READ_ENDS, READ_BYTES, READ_BYTES, _OUT, _OUT_ENDS))
def escape(data: Bytes, ends: Ends, short: Bytes, digits: Bytes, out: Bytes, out_ends: Ends) -> None:
    """Write each text with escapes and in quotes. The texts are valid UTF-8, as Arrow's are."""
    to: Int = np.int64(0)
    for i in range(len(ends) - 1):
        out[to] = _QUOTE
        to += 1
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        while at < end:
            byte = np.int64(data[at])
            if byte >= _FOUR_BYTES and at + 3 < end:
                point = (byte & 7) << 18 | np.int64(data[at + 1] & 0x3F) << 12
                point |= np.int64(data[at + 2] & 0x3F) << 6 | np.int64(data[at + 3] & 0x3F)
                point -= 0x10000
                to = _put_unit(out, to, 0xD800 | point >> 10, digits)
                to = _put_unit(out, to, 0xDC00 | point & 0x3FF, digits)
                at += 4
            else:
                to = _put_byte(out, to, byte, short, digits)
                at += 1
        out[to] = _QUOTE
        to += 1
        out_ends[i] = to


_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
BASE64: Final = np.frombuffer(_BASE64, np.uint8)
BASE64_URL_SAFE: Final = np.frombuffer(_BASE64[:-2] + b"-_", np.uint8)
_PADDING: Final = ord("=")


@compiled(types.void(READ_BYTES, READ_ENDS, READ_BYTES, _OUT, _OUT_ENDS))
def quoted_base64(data: Bytes, ends: Ends, alphabet: Bytes, out: Bytes, out_ends: Ends) -> None:
    """Write each value in base64, with padding and in quotes: 2 bytes, and 4 for each 3 that it begins."""
    to = np.int64(0)
    for i in range(len(ends) - 1):
        out[to] = _QUOTE
        to += 1
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        while at < end:
            second = np.int64(data[at + 1]) if at + 1 < end else np.int64(0)
            third = np.int64(data[at + 2]) if at + 2 < end else np.int64(0)
            bits = np.int64(data[at]) << 16 | second << 8 | third
            out[to] = alphabet[bits >> 18]
            out[to + 1] = alphabet[bits >> 12 & 63]
            out[to + 2] = alphabet[bits >> 6 & 63] if at + 1 < end else _PADDING
            out[to + 3] = alphabet[bits & 63] if at + 2 < end else _PADDING
            to += 4
            at += 3
        out[to] = _QUOTE
        to += 1
        out_ends[i] = to


_HEX: Final = b"0123456789abcdef"
HEX: Final = np.frombuffer(_HEX, np.uint8)


@compiled(types.void(READ_BYTES, READ_ENDS, READ_BYTES, _OUT, _OUT_ENDS))
def hexadecimal(data: Bytes, ends: Ends, digits: Bytes, out: Bytes, out_ends: Ends) -> None:
    """Write each value in hexadecimal digits and in quotes: 2 bytes, and 2 for each."""
    to = np.int64(0)
    for i in range(len(ends) - 1):
        out[to] = _QUOTE
        to += 1
        for at in range(np.int64(ends[i]), np.int64(ends[i + 1])):
            out[to] = digits[data[at] >> 4]
            out[to + 1] = digits[data[at] & 15]
            to += 2
        out[to] = _QUOTE
        to += 1
        out_ends[i] = to


# Numbers


@inlined
def _put_two(out: Bytes, to: Int, value: Int) -> None:
    """Write a number of two digits."""
    out[to] = _ZERO + value // 10
    out[to + 1] = _ZERO + value % 10


@compiled(types.void(READ_LONGS, types.int64, _OUT))
def instants(moments: NDArray[np.int64], digits: Int, out: Bytes) -> None:
    """Write moments (µs since the epoch, years 0 to 9999) as `"YYYY-MM-DDThh:mm:ss.ffffffZ"` with so many digits.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    """
    to = np.int64(0)
    for i in range(len(moments)):
        days = moments[i] // 86_400_000_000
        within = moments[i] - days * 86_400_000_000
        shifted = days + 719_468
        era = shifted // 146_097
        of_era = shifted - era * 146_097
        year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year + year // 4 - year // 100)
        month = (5 * of_year + 2) // 153
        day = of_year - (153 * month + 2) // 5 + 1
        month = month + 3 if month < 10 else month - 9
        year += era * 400 + (month <= 2)
        out[to] = _QUOTE
        _put_two(out, to + 1, year // 100)
        _put_two(out, to + 3, year % 100)
        out[to + 5] = _MINUS
        _put_two(out, to + 6, month)
        out[to + 8] = _MINUS
        _put_two(out, to + 9, day)
        out[to + 11] = ord("T")
        seconds = within // 1_000_000
        _put_two(out, to + 12, seconds // 3_600)
        out[to + 14] = ord(":")
        _put_two(out, to + 15, seconds // 60 % 60)
        out[to + 17] = ord(":")
        _put_two(out, to + 18, seconds % 60)
        to += 20
        if digits:
            out[to] = _DOT
            power = np.int64(100_000)
            for k in range(digits):
                out[to + 1 + k] = _ZERO + within // power % 10
                power //= 10
            to += 1 + digits
        out[to] = ord("Z")
        out[to + 1] = _QUOTE
        to += 2


# The longest text of a double: a sign, 17 digits, a point, a zero, E, a sign and 3 digits.
LONGEST_DOUBLE: Final = 26
DIGITS: Final = 32
_E: Final = ord("e")
# Up to this power of ten a number has no exponent, and from this one on.
_LEAST_PLAIN: Final = -2
_MOST_PLAIN: Final = 7


@inlined
def _put_digits(digits: Bytes, count: Int, first: Int, end: Int, out: Bytes, to: Int) -> Int:
    """Writes the digits from `first` to `end`, and zeros beyond `count`. Returns the place after them."""
    for k in range(first, end):
        out[to] = digits[k] if 0 <= k < count else _ZERO
        to += 1
    return to


@inlined
def _put_exponent(exponent: Int, out: Bytes, to: Int) -> Int:
    out[to] = ord("E")
    to += 1
    if exponent < 0:
        out[to] = _MINUS
        to += 1
        exponent = -exponent
    if exponent >= 100:
        out[to] = _ZERO + exponent // 100
        to += 1
    if exponent >= 10:
        out[to] = _ZERO + exponent // 10 % 10
        to += 1
    out[to] = _ZERO + exponent % 10
    return to + 1


@inlined
def _put_double(shown: Bytes, at: Int, end: Int, digits: Bytes, out: Bytes, to: Int) -> Int:
    """Writes the decimal number in shown[at:end] as Java does. Returns the place after it."""
    if shown[at] == _MINUS:
        out[to] = _MINUS
        at += 1
        to += 1
    # The number is 0.DIGITS * 10 ** point.
    count, point, exponent = np.int64(0), np.int64(0), np.int64(0)
    fraction, negative = False, False
    while at < end and shown[at] != _E:
        if shown[at] == _DOT:
            fraction = True
        elif count > 0 or shown[at] != _ZERO:
            digits[count] = shown[at]
            count += 1
            point += not fraction
        elif fraction:
            point -= 1
        at += 1
    for k in range(at + 1, end):
        if shown[k] == _MINUS:
            negative = True
        elif _ZERO <= shown[k] <= _NINE:
            exponent = exponent * 10 + np.int64(shown[k]) - _ZERO
    point += -exponent if negative else exponent
    if count == 0:
        point = np.int64(1)
    while count > 1 and digits[count - 1] == _ZERO:
        count -= 1
    if not _LEAST_PLAIN <= point <= _MOST_PLAIN:
        to = _put_digits(digits, count, np.int64(0), np.int64(1), out, to)
        out[to] = _DOT
        to = _put_digits(digits, count, np.int64(1), max(count, np.int64(2)), out, to + 1)
        return _put_exponent(point - 1, out, to)
    if point <= 0:
        out[to] = _ZERO
        out[to + 1] = _DOT
        return _put_digits(digits, count, point, count, out, to + 2)
    to = _put_digits(digits, count, np.int64(0), point, out, to)
    out[to] = _DOT
    return _put_digits(digits, count, point, max(count, point + 1), out, to + 1)


@compiled(types.void(READ_BYTES, READ_ENDS, _OUT, _OUT, _OUT_ENDS))
def doubles(shown: Bytes, ends: Ends, digits: Bytes, out: Bytes, out_ends: Ends) -> None:
    """Write numbers, given in decimal with the fewest digits, as Java does. `digits` has room for `DIGITS`."""
    to: Int = np.int64(0)
    for i in range(len(ends) - 1):
        if ends[i] < ends[i + 1]:
            to = _put_double(shown, np.int64(ends[i]), np.int64(ends[i + 1]), digits, out, to)
        out_ends[i] = to


# Decimals

# 65 digits are less than 2 ** 216.
WIDEST_DECIMAL: Final = 28


@inlined
def _put_big_endian(value: Bytes, out: Bytes, to: Int) -> Int:
    """Write a little-endian number in two's complement with the fewest bytes, the highest first."""
    high = len(value) - 1
    while high > 0 and (
        (value[high] == 0 and value[high - 1] < 0x80) or (value[high] == 0xFF and value[high - 1] >= 0x80)
    ):
        high -= 1
    for k in range(high, -1, -1):
        out[to] = value[k]
        to += 1
    return to


@compiled(types.void(READ_BYTES, types.boolean[::1], types.int64, _OUT, _OUT_ENDS))
def unscaled(data: Bytes, exists: NDArray[np.bool_], width: Int, out: Bytes, out_ends: Ends) -> None:
    """Write integers of `width` bytes as Java's BigInteger.toByteArray does; nothing where there is none."""
    to: Int = np.int64(0)
    for i in range(len(exists)):
        if exists[i]:
            to = _put_big_endian(data[i * width : (i + 1) * width], out, to)
        out_ends[i] = to


@compiled(types.void(READ_BYTES, READ_ENDS, _OUT, _OUT, _OUT_ENDS))
def unscaled_of_text(data: Bytes, ends: Ends, value: Bytes, out: Bytes, out_ends: Ends) -> None:
    """The same of decimals in text, whose point doesn't count. `value` has room for WIDEST_DECIMAL bytes."""
    to: Int = np.int64(0)
    for i in range(len(ends) - 1):
        value[:] = 0
        for at in range(np.int64(ends[i]), np.int64(ends[i + 1])):
            if _ZERO <= data[at] <= _NINE:
                carry = np.int64(data[at]) - _ZERO
                for k in range(len(value)):
                    carry += np.int64(value[k]) * 10
                    value[k] = carry & 0xFF
                    carry >>= 8
        if ends[i] < ends[i + 1]:
            if data[ends[i]] == _MINUS:
                carry = np.int64(1)
                for k in range(len(value)):
                    carry += np.int64(value[k] ^ 0xFF)
                    value[k] = carry & 0xFF
                    carry >>= 8
            to = _put_big_endian(value, out, to)
        out_ends[i] = to


@compiled(types.void(READ_BYTES, READ_ENDS, types.int64, _OUT, _OUT_ENDS))
def plain_decimals(data: Bytes, ends: Ends, scale: Int, out: Bytes, out_ends: Ends) -> None:
    """Write unscaled integers, given in decimal, with a point before their last `scale` digits, and in quotes."""
    to = np.int64(0)
    for i in range(len(ends) - 1):
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        if at < end:
            out[to] = _QUOTE
            to += 1
            if data[at] == _MINUS:
                out[to] = _MINUS
                to += 1
                at += 1
            before = max(end - scale, at)
            if end - at <= scale:
                out[to] = _ZERO
                to += 1
            for k in range(at, before):
                out[to] = data[k]
                to += 1
            if scale:
                out[to] = _DOT
                to += 1
            for _ in range(scale - (end - before)):
                out[to] = _ZERO
                to += 1
            for k in range(before, end):
                out[to] = data[k]
                to += 1
            out[to] = _QUOTE
            to += 1
        out_ends[i] = to
