"""Definitions of columns in ALTER TABLE: whether it's certain what the rows of before have in such a column.

What is certain is listed: the types, and the attributes that give a row no value. A definition with anything else in it
may have changed rows.

A conversion (MODIFY, CHANGE) is looked at here as strict mode lets it pass: it fails where a value doesn't fit, so that
the types before it and after it say whether the values are the same (`pipeline.schema.compatibility`). `_EXACT` are the
new types of which this is so. It isn't of CHAR and BINARY, which say nothing of spaces and zero bytes at the end; of a
FLOAT with digits in parentheses, which rounds; nor of text that gets less room than it had: spaces at its end are cut
with a warning only. So what had been the room is needed as well (`pipeline.schema.table_traits`).

Source: MySQL 9.7 Reference Manual, "CREATE TABLE Statement", "Data Types", "Strict SQL Mode".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.schema.ddl.sql_lexer import Lexeme, LexemeKind, NotRead, Reader, lowercase_word
from pipeline.schema.table_traits import TextColumn, Traits

_NUMBERS = frozenset(
    {
        "tinyint", "smallint", "mediumint", "middleint", "int", "integer", "bigint",
        "int1", "int2", "int3", "int4", "int8", "bool", "boolean",
        "decimal", "dec", "numeric", "fixed", "bit",
    }
)  # fmt: skip
_APPROXIMATE = frozenset({"float", "double", "real", "float4", "float8"})
_TIMES = frozenset({"date", "time", "datetime", "timestamp", "year"})
_TEXTS = frozenset(
    {"char", "character", "nchar", "national", "varchar", "varcharacter", "nvarchar", "long"}
    | {"tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}
)
_BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"})
_SPATIAL = frozenset(
    {
        "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
        "geomcollection", "geometrycollection",
    }
)  # fmt: skip
_TYPES = _NUMBERS | _APPROXIMATE | _TIMES | _TEXTS | _BINARIES | _SPATIAL
# Types whose values stay the same if strict mode accepted them and the types say so.
_EXACT = (
    _NUMBERS
    | _TIMES
    | {"longtext", "enum", "set", "json"}
    | {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
)

# The bytes that fit into the shorter TEXT types.
_ROOM = {"tinytext": (1 << 8) - 1, "text": (1 << 16) - 1, "mediumtext": (1 << 24) - 1}
# The most that a character takes in any character set.
_CHARACTER_BYTES = 4

# Words that may continue a type's name.
_SECOND_WORDS = {
    "double": ("precision",),
    "national": ("char", "character", "varchar", "varcharacter"),
    "nchar": ("varchar", "varcharacter"),
    "long": ("varchar", "varbinary"),
}

# Attributes that set no value of a row, by how much comes after them.
_ALONE = frozenset({"unsigned", "signed", "zerofill", "null", "visible", "invisible", "enforced"})
_WITH_A_VALUE = frozenset(
    {"column_format", "storage", "srid", "comment", "engine_attribute"} | {"secondary_engine_attribute"}
)


@dataclass(frozen=True, slots=True)
class _Definition:
    """The type's first word, the number in parentheses after it, and the attributes that matter.

    `length`: None if the parentheses have anything else, or nothing. `charset`: "" if it isn't named.
    """

    type: str
    bare: bool
    length: int | None
    null: bool
    not_null: bool
    default: bool
    charset: str


def adds_nulls(definition: Sequence[Lexeme]) -> bool:
    """Whether a column that's added like this (its name first) is certain to be NULL in the rows that there were."""
    try:
        read = _read(Reader(definition))
    except NotRead:
        return False
    if read.not_null or read.default:
        return False
    # It's NOT NULL where explicit_defaults_for_timestamp is OFF.
    return read.type != "timestamp" or read.null


def converts_exactly(definition: Sequence[Lexeme], old: str, before: Traits) -> bool:
    """Returns whether the types decide everything in a column that gets this definition (its name first), in strict
    mode.

    `old`: the column's name in the table as it was `before`.
    """
    if old not in before.columns:
        return False
    try:
        read = _read(Reader(definition))
    except NotRead:
        return False
    match read.type:
        case (
            "timestamp"
        ):  # with explicit_defaults_for_timestamp OFF it's NOT NULL, and NULLs become the present
            return read.null
        case "float" | "double" | "real" | "float4" | "float8":
            return read.bare
        case "varchar" | "tinytext" | "text" | "mediumtext":
            room = before.columns[old]
            return room is None or _has_room(read, room, before.charset)
        case _:
            return read.type in _EXACT


def _has_room(read: _Definition, was: TextColumn, charset: str) -> bool:
    """Whether each text that the column had room for has room in the new one."""
    if read.type == "varchar":
        return read.length is not None and read.length >= was.characters
    same = (read.charset or charset) == was.charset
    needed = was.octets if same else _CHARACTER_BYTES * was.characters
    return read.bare and needed <= _ROOM[read.type]


def _read(reader: Reader) -> _Definition:
    """Raises NotRead where there's anything that isn't known to leave rows alone."""
    reader.name()
    kind = lowercase_word(reader.next)
    reader.expect(*_TYPES)
    reader.keyword(*_SECOND_WORDS.get(kind, ()))
    reader.keyword("varying")
    length, bare = None, not reader.sign("(")
    if not bare:
        if reader.next.text.isdecimal():
            length = int(reader.next.text)
        reader.leave_parentheses()
    found = dict(_attributes(reader))
    charset = found.get("charset") or found.get("collate", "").partition("_")[0]
    return _Definition(kind, bare, length, "null" in found, "not null" in found, "default" in found, charset)


def _attributes(reader: Reader) -> Iterator[tuple[str, str]]:
    """Those that matter, with the value of CHARACTER SET and COLLATE. Raises NotRead."""
    while reader.next.text and lowercase_word(reader.next) not in ("first", "after", "partition"):
        if lowercase_word(reader.next) in _ALONE:
            yield lowercase_word(reader.next), ""
            reader.value()
        elif reader.keyword(*_WITH_A_VALUE):
            reader.sign("=")
            reader.value()
        elif lowercase_word(reader.next) in ("character", "char", "charset", "collate"):
            yield _charset(reader)
        elif reader.keyword("unique"):
            reader.keyword("key")
        elif reader.keyword("not"):
            if reader.keyword("null"):
                yield "not null", ""
            else:
                reader.expect("enforced", "secondary")
        elif reader.keyword("default"):
            if not reader.keyword("null"):
                yield "default", ""
                _expression(reader)
        elif reader.keyword("on"):
            reader.expect("update")
            _expression(reader)
        else:
            _constraint(reader)


def _charset(reader: Reader) -> tuple[str, str]:
    """CHARACTER SET or COLLATE, with the name. Raises NotRead."""
    setting = "collate" if reader.keyword("collate") else "charset"
    if reader.keyword("character", "char"):
        reader.expect("set")
    else:
        reader.keyword("charset")
    name = reader.next.text.casefold()
    reader.value()
    return setting, name


def _expression(reader: Reader) -> None:
    """Reads a literal, a function or an expression in parentheses. Raises NotRead."""
    if reader.sign("("):
        reader.leave_parentheses()
        return
    _ = reader.sign("-") or reader.sign("+") or reader.sign(".")
    reader.value()
    while reader.sign("."):
        reader.value()
    if reader.next.kind is LexemeKind.STRING:  # of b'0' and _utf8mb4'text'
        reader.value()
    if reader.sign("("):
        reader.leave_parentheses()


def _constraint(reader: Reader) -> None:
    """Raises NotRead."""
    if reader.keyword("constraint") and lowercase_word(reader.next) != "check":
        reader.name()
    if reader.keyword("check"):
        reader.expect_sign("(")
        reader.leave_parentheses()
        return
    reader.expect("references")
    reader.table("")
    reader.expect_sign("(")
    reader.leave_parentheses()
    while reader.keyword("match", "on"):
        reader.keyword("delete", "update")
        if reader.keyword("set", "no"):
            reader.expect("null", "default", "action")
        else:
            reader.value()
