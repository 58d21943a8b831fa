"""The text of a JSON document by plain Python, one value after the other: what the compiled text is held against.

Source: MySQL 9.7 source, sql-common/json_binary.h (format), json_dom.cc (`wrapper_to_string`), strings/dtoa.cc
(`my_gcvt`), mysys/my_time.cc (packed dates).
"""

import struct
from base64 import b64encode
from decimal import Decimal
from enum import IntEnum
from math import isfinite
from typing import Final

from pipeline.errors import UndecodableError
from pipeline.types import packed_decimal
from pipeline.types.field_types import FieldType


class _Kind(IntEnum):
    """Types of values (JSONB_TYPE_ of json_binary.cc)."""

    SMALL_OBJECT = 0
    LARGE_OBJECT = 1
    SMALL_ARRAY = 2
    LARGE_ARRAY = 3
    LITERAL = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    STRING = 12
    OPAQUE = 15


# Bytes of an integer, and whether it has a sign.
_INTEGERS: Final[dict[int, tuple[int, bool]]] = {
    _Kind.INT16: (2, True),
    _Kind.UINT16: (2, False),
    _Kind.INT32: (4, True),
    _Kind.UINT32: (4, False),
    _Kind.INT64: (8, True),
    _Kind.UINT64: (8, False),
}
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}

_DEEPEST: Final = 100  # JSON_DOCUMENT_MAX_DEPTH
_LINE_OF_BASE64: Final = 57  # bytes that give 76 characters, after which MySQL begins a new line

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord(plain): escaped
    for plain, escaped in {
        '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    }.items()
}  # fmt: skip


def text(document: bytes) -> str:
    """Returns the text of a stored document. Raises UndecodableError; an empty document is null, as it is for the
    server."""
    if not document:
        return "null"
    return _Document(document).value(document[0], 1, len(document), 0)


class _Document:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._budget = len(data)

    def value(self, kind: int, at: int, end: int, depth: int) -> str:
        """The text of the value at data[at:end]."""
        match kind:
            case _Kind.SMALL_OBJECT | _Kind.LARGE_OBJECT | _Kind.SMALL_ARRAY | _Kind.LARGE_ARRAY:
                return self._container(kind, at, end, depth + 1)
            case _Kind.LITERAL:
                return _literal(self._take(at, 1, end)[0])
            case integer if integer in _INTEGERS:
                size, signed = _INTEGERS[integer]
                return str(int.from_bytes(self._take(at, size, end), "little", signed=signed))
            case _Kind.DOUBLE:
                (number,) = struct.unpack("<d", self._take(at, 8, end))
                return double(number)
            case _Kind.STRING:
                start, length = self._length(at, end)
                return _quoted(_utf8(self._take(start, length, end)))
            case _Kind.OPAQUE:
                kind = self._take(at, 1, end)[0]
                start, length = self._length(at + 1, end)
                return _opaque(kind, self._take(start, length, end))
            case _:
                raise UndecodableError(f"JSON has no values of type {kind}")

    def _container(self, kind: int, at: int, end: int, depth: int) -> str:
        if depth > _DEEPEST:
            raise UndecodableError(f"a JSON document is nested more than {_DEEPEST} times")
        large = kind in (_Kind.LARGE_OBJECT, _Kind.LARGE_ARRAY)
        word = 4 if large else 2
        count, size = self._integer(at, word, end), self._integer(at + word, word, end)
        if size > end - at:
            raise UndecodableError("a part of a JSON document reaches beyond it")
        end = at + size
        entries = at + 2 * word
        if kind in (_Kind.SMALL_ARRAY, _Kind.LARGE_ARRAY):
            return f"[{', '.join(self._elements(at, entries, count, end, depth, word))}]"
        keys = self._keys(at, entries, count, end, word)
        values = self._elements(at, entries + count * (word + 2), count, end, depth, word)
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"

    def _keys(self, at: int, entries: int, count: int, end: int, word: int) -> list[str]:
        keys: list[str] = []
        for entry in range(entries, entries + count * (word + 2), word + 2):
            start = at + self._integer(entry, word, end)
            length = self._integer(entry + word, 2, end)
            keys.append(_quoted(_utf8(self._take(start, length, end))))
        return keys

    def _elements(self, at: int, entries: int, count: int, end: int, depth: int, word: int) -> list[str]:
        elements: list[str] = []
        for entry in range(entries, entries + count * (word + 1), word + 1):
            kind = self._take(entry, 1, end)[0]
            if kind == _Kind.LITERAL:
                # As the server reads it.
                elements.append(_literal(self._integer(entry + 1, word, end) & 0xFF))
            elif kind in _INTEGERS and _INTEGERS[kind][0] <= word:
                size, signed = _INTEGERS[kind]
                inlined = self._take(entry + 1, word, end)[:size]
                elements.append(str(int.from_bytes(inlined, "little", signed=signed)))
            else:
                start = at + self._integer(entry + 1, word, end)
                elements.append(self.value(kind, start, end, depth))
        return elements

    def _take(self, at: int, size: int, end: int) -> bytes:
        if at + size > end:
            raise UndecodableError("a JSON document ends inside of a value")
        self._budget -= size
        if self._budget < 0:
            raise UndecodableError("values of a JSON document overlap")
        return self._data[at : at + size]

    def _integer(self, at: int, size: int, end: int) -> int:
        return int.from_bytes(self._take(at, size, end), "little")

    def _length(self, at: int, end: int) -> tuple[int, int]:
        """Returns where a value begins after its length, and the length: 7 bits to a byte, the lowest first."""
        length = 0
        for i in range(5):
            byte = self._take(at + i, 1, end)[0]
            length |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return at + i + 1, length
        raise UndecodableError("a length in a JSON document has more than 5 bytes")


def double(number: float) -> str:
    """A double as the server prints it in JSON: `my_gcvt` with room for all digits, and never like an integer."""
    if not isfinite(number):
        raise UndecodableError(f"a JSON document has no number {number}")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    point = len(shown) + exponent if number else 1
    minus = "-" if sign else ""
    if not (point > -15 and (point <= 15 or point < len(shown))):
        return f"{minus}{shown[0]}{'.' if len(shown) > 1 else ''}{shown[1:]}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{shown}"
    return f"{minus}{shown[:point].ljust(point, '0')}.{shown[point:] or '0'}"


def _literal(code: int) -> str:
    if code not in _LITERALS:
        raise UndecodableError(f"JSON has no literal {code}")
    return _LITERALS[code]


def _quoted(plain: str) -> str:
    return f'"{plain.translate(_ESCAPES)}"'


def _utf8(stored: bytes) -> str:
    try:
        return stored.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError("a string in a JSON document isn't UTF-8") from error


def _opaque(kind: int, stored: bytes) -> str:
    """A value that JSON has no type for, but SQL has."""
    match kind:
        case FieldType.NEWDECIMAL:
            if len(stored) < 3:
                raise UndecodableError("a DECIMAL in a JSON document is too short")
            return packed_decimal.decimal_text(stored[2:], stored[0], stored[1])
        case FieldType.DATE:
            return f'"{_date(_packed(stored))}"'
        case FieldType.TIME:
            packed = _packed(stored)
            return f'"{"-" if packed < 0 else ""}{_time(abs(packed), 0x3FF)}"'
        case FieldType.DATETIME | FieldType.TIMESTAMP:
            packed = _packed(stored)
            return f'"{_date(packed)} {_time(packed, 0x1F)}"'
        case _:
            lines = range(0, len(stored), _LINE_OF_BASE64)
            encoded = "\n".join(b64encode(stored[i : i + _LINE_OF_BASE64]).decode() for i in lines)
            return _quoted(f"base64:type{kind}:{encoded}")


def _packed(stored: bytes) -> int:
    if len(stored) != 8:
        raise UndecodableError("a date or time in a JSON document doesn't have 8 bytes")
    return int.from_bytes(stored, "little", signed=True)


def _date(packed: int) -> str:
    if packed < 0:
        raise UndecodableError("a date in a JSON document is negative")
    months, day = packed >> 46, packed >> 41 & 31
    return f"{months // 13:04}-{months % 13:02}-{day:02}"


def _time(packed: int, hours: int) -> str:
    """The time of day, or the span, in the packed form's lower bits; `hours` is the mask of its hours."""
    whole, fraction = packed >> 24, packed & 0xFFFFFF
    return f"{whole >> 12 & hours:02}:{whole >> 6 & 63:02}:{whole & 63:02}.{fraction:06}"
