"""Compiled pieces of JSON text: each writes into `out` from `to` on and returns where the next one goes.

The caller ensures the room: `PIECE` bytes for anything that has no length of its own, and for text
what `quoted_room` says. `out` may be written up to 8 bytes beyond the piece's end, since words are written whole.

Source: MySQL 9.7 source, sql-common/json_dom.cc (`double_quote`, `wrapper_to_string`), mysys/my_time.cc (packed dates).
"""

from typing import Final

import numpy as np

from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_kernels import put_word, word
from pipeline.types.jit import compiled

PIECE: Final = 128  # bytes: a DECIMAL has 83 at most, a date and time 28, and keys and separators come on top

QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_ZERO: Final = ord("0")
_MINUS: Final = ord("-")

# What follows the backslash for each byte: 0 if it isn't escaped at all, `u` if it's written as \u00XX.
_ESCAPES: Final = np.zeros(256, np.uint8)
_ESCAPES[:32] = ord("u")
for _plain, _letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True):
    _ESCAPES[ord(_plain)] = ord(_letter)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_LINE_OF_BASE64: Final = 57  # bytes that give 76 characters, after which MySQL begins a new line

_ONES: Final = 0x0101010101010101
_TOPS: Final = 0x8080808080808080


@compiled("uint64(uint64)")
def _needs_escape(bits: np.uint64) -> np.uint64:
    """Not zero if one of a word's bytes is a control character, a quote or a backslash.

    A byte minus n borrows from its top bit if it's below n (A. Mycroft's test of 1987 for a zero byte).
    """
    ones, tops = np.uint64(_ONES), np.uint64(_TOPS)
    quotes = bits ^ (ones * np.uint64(QUOTE))
    backslashes = bits ^ (ones * np.uint64(_BACKSLASH))
    controls = (bits - ones * np.uint64(32)) & ~bits
    return (controls | ((quotes - ones) & ~quotes) | ((backslashes - ones) & ~backslashes)) & tops


@compiled("int64(uint8[::1], int64, int64)")
def quoted_room(buffer: Bytes, at: Int, length: Int) -> Int:
    """The bytes that `quoted` writes of this text."""
    room = 2 + length
    for i in range(at, at + length):
        escape = _ESCAPES[buffer[i]]
        if escape:
            room += 5 if escape == 117 else 1  # u
    return room


@compiled("int64(uint8, uint8[::1], int64)")
def _character(byte: Int, out: Bytes, to: Int) -> Int:
    escape = _ESCAPES[byte]
    if escape == 0:
        out[to] = byte
        return to + 1
    out[to] = _BACKSLASH
    out[to + 1] = escape
    to += 2
    if escape == 117:  # u
        out[to] = _ZERO
        out[to + 1] = _ZERO
        out[to + 2] = _HEX[byte >> 4]
        out[to + 3] = _HEX[byte & 15]
        to += 4
    return to


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64)")
def quote_json(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """The text of `length` bytes at buffer[at:], in quotes and with escapes. `buffer` may be read 8 bytes beyond it."""
    out[to] = QUOTE
    to += 1
    end = at + length
    while at < end:
        count = min(np.int64(8), end - at)
        bits = word(buffer, at)
        shown = bits
        if count < 8:  # bytes that aren't the text's don't count
            mask = (np.uint64(1) << np.uint64(8 * count)) - np.uint64(1)
            shown = (bits & mask) | (np.uint64(_TOPS) & ~mask)
        if _needs_escape(shown) == 0:
            put_word(out, to, bits)
            at += count
            to += count
            continue
        for i in range(at, at + count):
            to = _character(buffer[i], out, to)
        at += count
    out[to] = QUOTE
    return to + 1


@compiled("int64(uint64, int64, uint8[::1], int64)", inlined=True)
def padded(number: np.uint64, digits: Int, out: Bytes, to: Int) -> Int:
    """A number in that many digits, with zeros before it."""
    ten, zero = np.uint64(10), np.uint64(_ZERO)
    for i in range(digits):
        out[to + digits - 1 - i] = np.uint8(zero + number % ten)
        number //= ten
    return to + digits


@compiled("int64(uint64, uint8[::1], int64)", inlined=True)
def natural(number: np.uint64, out: Bytes, to: Int) -> Int:
    """A number without a sign."""
    digits, rest = np.int64(1), number // np.uint64(10)
    while rest:
        digits += 1
        rest //= np.uint64(10)
    return padded(number, digits, out, to)


@compiled("int64(int64, uint8[::1], int64)")
def signed_integer(number: Int, out: Bytes, to: Int) -> Int:
    """A number with its sign."""
    if number >= 0:
        return natural(np.uint64(number), out, to)
    out[to] = _MINUS
    return natural(~np.uint64(number) + np.uint64(1), out, to + 1)


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64)")
def base64(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    r"""Bytes as base64 in lines of 76 characters, between which a new line is escaped (\n)."""
    line = np.int64(0)
    end = at + length
    while at < end:
        if line == _LINE_OF_BASE64:
            out[to] = _BACKSLASH
            out[to + 1] = 110  # n
            to += 2
            line = np.int64(0)
        count = min(np.int64(3), end - at)
        bits = np.int64(0)
        for k in range(count):
            bits |= np.int64(buffer[at + k]) << (16 - 8 * k)
        for k in range(4):
            out[to + k] = _BASE64[(bits >> (18 - 6 * k)) & 63] if k <= count else 61  # =
        at += count
        to += 4
        line += 3
    return to


@compiled("int64(int64)")
def base64_room(length: Int) -> Int:
    """The bytes that `base64` writes of so many."""
    return (length + 2) // 3 * 4 + length // _LINE_OF_BASE64 * 2
