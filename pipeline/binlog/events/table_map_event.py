"""The TABLE_MAP event: how a table's columns are stored, and with full metadata what they are called.

Its optional metadata are fields, each a number, a length and bytes. The numeric columns' signs and the text columns'
collations come with MINIMAL metadata as well; names, labels and the primary key with FULL only. Servers before MySQL
8.0.1 write no field at all. (With MINIMAL metadata a table that has neither numbers nor texts has none either, and
lacks nothing: no type of it is raw.)

Sources: MySQL 9.7 source documentation, class mysql::binlog::event::Table_map_event; WL#4618 (optional metadata);
`Field::do_save_field_metadata` of each type in sql/field.cc.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pipeline.errors import Definite, UndecodableError
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types import column_types as t
from pipeline.types.cursor import Cursor, utf8
from pipeline.types.enum_labels import NO_TEXT
from pipeline.types.field_types import (
    BLOBS,
    INTEGERS,
    FieldType,
    Storage,
    high_byte,
    low_byte,
    real_type,
    string_type,
)
from pipeline.types.text.charsets import to_text
from pipeline.types.text.collations import BINARY, charset

_POST_HEADER_BYTES: Final = 8  # table id (6 bytes) and flags (2 bytes)


class _Field(IntEnum):
    """The optional metadata's fields (Optional_metadata_field_type)."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11


_ONE_BYTE: Final = frozenset(
    {
        FieldType.FLOAT,
        FieldType.DOUBLE,
        *BLOBS,
        FieldType.JSON,
        FieldType.GEOMETRY,
        FieldType.VECTOR,
        FieldType.TIMESTAMP2,
        FieldType.DATETIME2,
        FieldType.TIME2,
    }
)
_TWO_BYTES: Final = frozenset(
    {
        FieldType.VARCHAR,
        FieldType.VAR_STRING,
        FieldType.STRING,
        FieldType.BIT,
        FieldType.NEWDECIMAL,
        FieldType.ENUM,
        FieldType.SET,
    }
)
_INTEGER_BYTES: Final = {code: size for size, code in INTEGERS.items()}
# Those that have a bit in SIGNEDNESS, and those that have a collation: the metadata counts them alone. Observed of
# MySQL 9.7: YEAR is among the first, VECTOR (with the collation `binary`) among the second.
_NUMERIC: Final = frozenset(
    {*_INTEGER_BYTES, FieldType.NEWDECIMAL, FieldType.FLOAT, FieldType.DOUBLE, FieldType.YEAR}
)
_STRINGS: Final = frozenset({FieldType.VARCHAR, FieldType.VAR_STRING, FieldType.STRING, *BLOBS})
_TEXTUAL: Final = _STRINGS | {FieldType.VECTOR}
_LABELLED: Final = frozenset({FieldType.ENUM, FieldType.SET})

_SIMPLE: Final[dict[int, t.ColumnType]] = {
    FieldType.FLOAT: t.Float(),
    FieldType.DOUBLE: t.Double(),
    FieldType.YEAR: t.Year(),
    FieldType.DATE: t.Date(),
    FieldType.JSON: t.Json(),
    FieldType.GEOMETRY: t.Geometry(),
    FieldType.VECTOR: t.Vector(),
}
_TEMPORAL: Final[dict[int, Callable[[int], t.ColumnType]]] = {
    FieldType.TIME: t.Time,
    FieldType.TIME2: t.Time,
    FieldType.DATETIME: t.DateTime,
    FieldType.DATETIME2: t.DateTime,
    FieldType.TIMESTAMP: t.Timestamp,
    FieldType.TIMESTAMP2: t.Timestamp,
}


def table_id(body: bytes) -> TableId:
    """The table that a TABLE_MAP event with this body is of. Raises UndecodableError."""
    return _table(Cursor(body, _POST_HEADER_BYTES))


def table_map(body: bytes) -> TableMap:
    """What a TABLE_MAP event with this body says. Raises UndecodableError, which names the table."""
    cursor = Cursor(body, _POST_HEADER_BYTES)
    table = _table(cursor)
    try:
        return _table_map(table, cursor)
    except Definite as error:
        raise UndecodableError(f"{table}: {error}") from error


def _table(cursor: Cursor) -> TableId:
    database = utf8(cursor.packed_bytes())
    cursor.take(1)  # both names end with a zero
    name = utf8(cursor.packed_bytes())
    cursor.take(1)
    return TableId(database, name)


def _table_map(table: TableId, cursor: Cursor) -> TableMap:
    count = cursor.packed()
    if count == 0:
        raise UndecodableError("it has no columns")
    codes = cursor.take(count)
    storage = tuple(_storage(codes, Cursor(cursor.packed_bytes())))
    nullable = _bits(cursor.take((count + 7) // 8), count, first=0x01)
    optional = dict(_optional(cursor))
    columns = _Columns(tuple(real_type(s) for s in storage), optional)
    return TableMap(table, columns.types(storage), storage, nullable, columns.metadata())


def _storage(codes: bytes, metadata: Cursor) -> Iterator[Storage]:
    for code in codes:
        if code in _ONE_BYTE:
            yield Storage(code, metadata.integer(1))
        elif code in _TWO_BYTES:
            yield Storage(code, metadata.integer(2))
        else:
            yield Storage(code, 0)
    if metadata.left:
        raise UndecodableError(f"its columns' metadata have {metadata.left} bytes that belong to no column")


def _optional(cursor: Cursor) -> Iterator[tuple[int, bytes]]:
    while cursor.left:
        yield cursor.integer(1), cursor.packed_bytes()


def _bits(packed: bytes, count: int, first: int) -> tuple[bool, ...]:
    """As many flags; in each byte the lowest bit comes `first`, or the highest."""
    if 8 * len(packed) < count:
        raise UndecodableError(f"{len(packed)} bytes can't hold the flags of {count} columns")
    order = range(8) if first == 0x01 else range(7, -1, -1)
    return tuple(bool(byte >> bit & 1) for byte in packed for bit in order)[:count]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns' real types (a CHAR, an ENUM and a SET share a code) and the optional metadata's fields."""

    real: tuple[int, ...]
    fields: dict[int, bytes]

    def types(self, storage: tuple[Storage, ...]) -> tuple[t.LogType, ...]:
        """Each column's type; signs, character sets and labels are given to those columns that have them."""
        if not self.fields:
            return tuple(_raw_type(real, stored) for real, stored in zip(self.real, storage, strict=True))
        unsigned = iter(self._unsigned())
        charsets = iter(self._charsets(_TEXTUAL, _Field.DEFAULT_CHARSET, _Field.COLUMN_CHARSET))
        labels = self._labels()
        return tuple(
            _type(
                real,
                stored,
                unsigned=real in _NUMERIC and next(unsigned),
                charset=next(charsets) if real in _TEXTUAL else "",
                labels=next(labels[real]) if real in labels else (),
            )
            for real, stored in zip(self.real, storage, strict=True)
        )

    def metadata(self) -> FullMetadata | MinimalMetadata | NoMetadata:
        """Names and key, if there are any names."""
        if not self.fields:
            return NoMetadata()
        if _Field.COLUMN_NAME not in self.fields:
            return MinimalMetadata()
        cursor = Cursor(self.fields[_Field.COLUMN_NAME])
        names = tuple(utf8(cursor.packed_bytes()) for _ in self.real)
        return FullMetadata(names, tuple(self._key()))

    def _unsigned(self) -> tuple[bool, ...]:
        count = sum(real in _NUMERIC for real in self.real)
        if count and _Field.SIGNEDNESS not in self.fields:
            raise UndecodableError("its metadata don't say which columns are unsigned")
        return _bits(self.fields.get(_Field.SIGNEDNESS, b""), count, first=0x80)

    def _charsets(self, of: frozenset[FieldType], default: _Field, each: _Field) -> tuple[str, ...]:
        count = sum(real in of for real in self.real)
        if default in self.fields:
            cursor = Cursor(self.fields[default])
            collations = [cursor.packed()] * count
            while cursor.left:
                index, collation = cursor.packed(), cursor.packed()
                if index >= count:
                    raise UndecodableError(f"there is a collation of the text column {index}, of {count}")
                collations[index] = collation
        elif each in self.fields or not count:
            cursor = Cursor(self.fields.get(each, b""))
            collations = [cursor.packed() for _ in range(count)]
        else:
            raise UndecodableError("its metadata don't say in which character sets texts are")
        return tuple(charset(collation) for collation in collations)

    def _labels(self) -> dict[int, Iterator[tuple[str, ...]]]:
        """Of ENUM and SET each, the labels of one column after the other."""
        if _Field.COLUMN_NAME not in self.fields:
            return {}
        charsets = self._charsets(
            _LABELLED, _Field.ENUM_AND_SET_DEFAULT_CHARSET, _Field.ENUM_AND_SET_COLUMN_CHARSET
        )
        of_column = iter(charsets)
        by_type: dict[int, list[str]] = {FieldType.ENUM: [], FieldType.SET: []}
        for real in self.real:
            if real in by_type:
                by_type[real].append(next(of_column))
        return {
            FieldType.ENUM: iter(self._label_texts(_Field.ENUM_STR_VALUE, by_type[FieldType.ENUM])),
            FieldType.SET: iter(self._label_texts(_Field.SET_STR_VALUE, by_type[FieldType.SET])),
        }

    def _label_texts(self, field: _Field, charsets: list[str]) -> list[tuple[str, ...]]:
        cursor = Cursor(self.fields.get(field, b""))
        return [
            tuple(_label(cursor.packed_bytes(), charset) for _ in range(cursor.packed()))
            for charset in charsets
        ]

    def _key(self) -> Iterator[int]:
        """The key's columns; a prefix of one (0 for the whole) doesn't matter, since a longer key is as unique."""
        simple = Cursor(self.fields.get(_Field.SIMPLE_PRIMARY_KEY, b""))
        prefixed = Cursor(self.fields.get(_Field.PRIMARY_KEY_WITH_PREFIX, b""))
        indices: list[int] = []
        while simple.left:
            indices.append(simple.packed())
        while prefixed.left:
            indices.append(prefixed.packed())
            prefixed.packed()
        for index in indices:
            if index >= len(self.real):
                raise UndecodableError(f"its primary key has the column {index}, of {len(self.real)}")
            yield index


def _label(stored: bytes, charset: str) -> str:
    if charset != BINARY:
        return to_text(stored, charset)
    try:
        return stored.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(NO_TEXT.format(label=stored.hex())) from error


def _raw_type(real: int, storage: Storage) -> t.LogType:
    match real:
        case code if code in _INTEGER_BYTES:
            return t.RawInteger(_INTEGER_BYTES[FieldType(code)])
        case FieldType.STRING:
            return t.RawChar(string_type(storage)[1])
        case code if code in _STRINGS:
            return t.RawString()
        case code:
            return _type(code, storage, unsigned=False, charset="", labels=())


def _type(
    real: int, storage: Storage, *, unsigned: bool, charset: str, labels: tuple[str, ...]
) -> t.ColumnType:
    match real:
        case code if code in _INTEGER_BYTES:
            return t.Integer(_INTEGER_BYTES[FieldType(code)], unsigned)
        case code if code in _SIMPLE:
            return _SIMPLE[code]
        case code if code in _TEMPORAL:
            return _TEMPORAL[code](storage.meta)
        case FieldType.NEWDECIMAL:
            return t.Decimal(low_byte(storage), high_byte(storage))
        case FieldType.BIT:
            return t.Bit(8 * high_byte(storage) + low_byte(storage))
        case FieldType.ENUM:
            return t.Enum(labels)
        case FieldType.SET:
            return t.Set(labels)
        case code if code in _TEXTUAL and charset != BINARY:
            return t.Text(charset)
        case FieldType.STRING:
            return t.FixedBinary(string_type(storage)[1])
        case code if code in _TEXTUAL:
            return t.Binary()
        case code:
            raise UndecodableError(
                f"it has a column of the type {code}, which isn't known; leave the table out of the capture"
            )
