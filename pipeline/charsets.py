"""MySQL's character sets into UTF-8, as the server itself converts them.

Most have a codec of Python's that agrees with the server on every code but a few, which are listed here: what the
integration test finds on a live server for each code is what this file says. A code that the server has no
character for (it prints a question mark) is refused, since a question mark would hide it.

Source: MySQL 9.7 Reference Manual, chapter "Character Sets, Collations, Unicode".
"""

import codecs
import re
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import Definite


class TextError(Definite):
    """Text that isn't of its column's character set, or a character set that Tidemark has no exact table of."""


# Their bytes are UTF-8 already.
_UTF_8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})

# One byte, one character.
_SINGLE: Final = {
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "hp8": "hp-roman8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "macce": "mac-latin2",
    "macroman": "mac-roman",
    "tis620": "tis-620",
}

# ASCII, and more bytes for what isn't.
_MULTIPLE: Final = {
    "big5": "big5",
    "cp932": "cp932",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift-jis",
    "ujis": "euc-jp",
}

_WIDE: Final = {
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}

# Where the server differs from Python; None is a code that the server has no character for.
_EXCEPTIONS: Final[dict[str, dict[bytes, str | None]]] = {
    "big5": {
        **dict.fromkeys(
            (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"),
            "\ufffd",
        ),
        **{bytes([0xF9, 0xD6 + i]): character for i, character in enumerate("碁銹裏墻恒粧嫺")},
    },
    "cp1256": {bytes([code]): None for code in (0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF)},
    "cp866": {b"\xfc": "ⁿ", b"\xfd": "²"},
    "cp932": dict.fromkeys((b"\x80", b"\xa0", b"\xfd", b"\xfe", b"\xff")),
    "gb18030": {b"\xa8\xbc": "\u1e3f", b"\x81\x35\xf4\x37": "\ue7c7"},
    "greek": {b"\xa1": "\u02bd", b"\xa2": "\u02bc", b"\xa4": None, b"\xa5": None, b"\xaa": None},
    "hebrew": {b"\xaf": "\u203e"},
    "koi8u": {b"\x95": "\u2022"},
    "latin1": {bytes([code]): chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "sjis": {b"\x81\x5f": "\\"},
    "tis620": {bytes([code]): "\ufffd" for code in (0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100))},
    "ujis": {
        b"\xa1\xc0": "\\",
        # Rows of the user's own characters, in both of the set's planes.
        **{bytes([0xF5 + i // 94, 0xA1 + i % 94]): chr(0xE000 + i) for i in range(940)},
        **{bytes([0x8F, 0xF5 + i // 94, 0xA1 + i % 94]): chr(0xE3AC + i) for i in range(940)},
    },
}

_UNDEFINED: Final = "\ufffe"  # what `codecs.charmap_decode` takes for a byte without a character


def to_strings(values: pa.Array, charset: str, column: str) -> pa.Array:
    """pa.binary() values in MySQL's `charset` as pa.string(), over the same memory where they're UTF-8 already.

    Raises TextError, which names `column`.
    """
    if charset not in _UTF_8 and not any(charset in codecs for codecs in (_SINGLE, _MULTIPLE, _WIDE)):
        raise TextError(
            f"{column}: Tidemark has no exact table of the character set {charset}; change the column to utf8mb4 or"
            " leave its table out of the capture"
        )
    try:
        if charset in _WIDE:
            return _by_value(values, charset)
        if charset in _UTF_8 or _data(values).max(initial=0) < 0x80:
            return _as_utf8(values)
        return _by_byte(values, charset) if charset in _SINGLE else _by_value(values, charset)
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise TextError(f"{column}: a value isn't text in {charset}: {error}") from error


def to_text(value: bytes, charset: str) -> str:
    """One value in MySQL's `charset`, such as an ENUM's label. Raises TextError."""
    return str(to_strings(pa.array([value], pa.binary()), charset, repr(value))[0].as_py())


def _ends(values: pa.Array) -> NDArray[np.int32]:
    """Where values begin and end in the data: one entry more than there are values."""
    ends = np.frombuffer(values.buffers()[1], np.int32)
    return ends[values.offset : values.offset + len(values) + 1]


def _data(values: pa.Array) -> NDArray[np.uint8]:
    """All values end to end."""
    ends, data = _ends(values), values.buffers()[2]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]


def _as_utf8(values: pa.Array) -> pa.Array:
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    text.validate(full=True)
    return text


def _by_byte(values: pa.Array, charset: str) -> pa.Array:
    """All values at once; each byte's length in UTF-8 says where they end."""
    characters, lengths = _table(charset)
    ends, data = _ends(values), _data(values)
    text, _ = codecs.charmap_decode(data.tobytes(), "strict", characters)
    grown = np.zeros(len(data) + 1, np.int32)
    np.cumsum(lengths[data], out=grown[1:])
    valid = values.is_valid().buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(
        pa.string(), len(values), [valid, pa.py_buffer(grown[ends - ends[0]]), pa.py_buffer(text.encode())]
    )


@cache
def _table(charset: str) -> tuple[str, NDArray[np.int32]]:
    """The character of each byte, and its length in UTF-8."""
    characters = [_decoded_or(_UNDEFINED, bytes([byte]), charset) for byte in range(256)]
    return "".join(characters), np.array([len(character.encode()) for character in characters], np.int32)


def _decoded_or(other: str, code: bytes, charset: str) -> str:
    exceptions = _EXCEPTIONS.get(charset, {})
    if code in exceptions:
        return exceptions[code] or other
    try:
        return code.decode(_SINGLE[charset])
    except UnicodeDecodeError:
        return other


def _by_value(values: pa.Array, charset: str) -> pa.Array:
    """Each distinct value once."""
    distinct = values.dictionary_encode()
    texts = [_decoded(value, charset) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _decoded(value: bytes, charset: str) -> str:
    codec = _WIDE.get(charset) or _MULTIPLE[charset]
    exceptions = _EXCEPTIONS.get(charset, {})
    if not exceptions or not _exception_in(charset).search(value):
        return value.decode(codec)
    decoder = codecs.getincrementaldecoder(codec)()
    text, code = "", b""
    for place, byte in enumerate(value):
        code += bytes([byte])
        if code in exceptions:
            character = exceptions[code]
            if character is None:
                raise UnicodeDecodeError(codec, value, place, place + 1, "no character of MySQL's")
            decoder.reset()
        else:
            character = decoder.decode(bytes([byte]))
        if character:
            text, code = text + character, b""
    return text + decoder.decode(b"", final=True)


@cache
def _exception_in(charset: str) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(code) for code in _EXCEPTIONS[charset]))
