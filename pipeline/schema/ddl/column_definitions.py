"""Definitions of columns in ALTER TABLE: whether it's certain what the rows of before have in such a column.

What is certain is listed: the types, and the attributes that give a row no value. A definition with anything else in it
may have changed rows.

A column that is added has a *constant* in the rows of before in two cases. Its default is a literal, or it is NOT NULL
without one (`constant_column`). The constant is known if the literal is a value of the column's type just as it stands.
Nothing is rounded, cut, padded, or read by a time zone. Of texts only characters count that mean the same in each
character set: the statement's may be another one than the column's.

A conversion (MODIFY, CHANGE) is looked at here as strict mode lets it pass. It fails where a value doesn't fit. So the
types before it and after it say whether the values are the same (`pipeline.schema.compatibility`). `_EXACT` are the new
types of which this is so. It isn't of CHAR and BINARY, which say nothing of spaces and zero bytes at the end. It isn't
of a FLOAT with digits in parentheses, which rounds. Nor is it of text that gets less room than it had: spaces at its
end are cut with a warning only. MySQL 5.6 even cuts a BLOB that becomes a shorter one, without a word: of 303 bytes it
keeps 47. So what had been the room is needed as well (`pipeline.schema.table_traits`). CONVERT TO gives a TEXT more
bytes only if the new character set has longer characters than the old one (`converts_texts_exactly`). A column that
gets AUTO_INCREMENT has numbers in place of its zeros, and one that had it before keeps them (observed of MySQL 5.6 and
9.7).

Source: MySQL 9.7 Reference Manual, "CREATE TABLE Statement", "Data Types", "Strict SQL Mode".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pipeline.schema.ddl.sql_lexer import Lexeme, LexemeKind, NotRead, Reader, lowercase_word
from pipeline.schema.table_schema import Column
from pipeline.schema.table_traits import TextColumn, Traits
from pipeline.types import column_types as t

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
_EXACT = _NUMBERS | _TIMES | {"longtext", "enum", "set", "json"} | {"varbinary", "longblob"}

# The bytes that fit into the shorter TEXT types, and the shorter BLOB types.
_ROOM = {"tinytext": (1 << 8) - 1, "text": (1 << 16) - 1, "mediumtext": (1 << 24) - 1}
_BLOB_ROOM = {"tinyblob": (1 << 8) - 1, "blob": (1 << 16) - 1, "mediumblob": (1 << 24) - 1}
# The most that a character takes in any character set.
_CHARACTER_BYTES = 4
# The most that one takes in its character set, where it isn't one byte.
_LONGEST: Final = {
    "big5": 2, "cp932": 2, "eucjpms": 3, "euckr": 2, "gb18030": 4, "gb2312": 2, "gbk": 2, "sjis": 2, "ucs2": 2,
    "ujis": 3, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8": 3, "utf8mb3": 3, "utf8mb4": 4,
}  # fmt: skip
# Character sets in which the same text is the same bytes.
_UTF_8: Final = frozenset({"ascii", "utf8", "utf8mb3", "utf8mb4"})

# Words that may continue a type's name.
_SECOND_WORDS = {
    "double": ("precision",),
    "national": ("char", "character", "varchar", "varcharacter"),
    "nchar": ("varchar", "varcharacter"),
    "long": ("varchar", "varbinary"),
}

_NUMBERS_IN_LIST: Final = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})?")

# Attributes that set no value of a row, by how much comes after them.
_ALONE = frozenset(
    {"unsigned", "signed", "zerofill", "null", "visible", "invisible", "enforced", "auto_increment"}
)
_WITH_A_VALUE = frozenset(
    {"column_format", "storage", "srid", "comment", "engine_attribute"} | {"secondary_engine_attribute"}
)


@dataclass(frozen=True, slots=True)
class _Definition:
    """The column's name, the type's first word, the numbers in parentheses after it, and the attributes that matter.

    `arguments`: None if the parentheses have anything else; empty where there are none. `charset`: "" if it isn't
    named. `literal`: the default, as `_literal` gives it. `once`: whether no attribute is there twice. `numbered`:
    whether the server gives numbers (AUTO_INCREMENT).
    """

    name: str
    type: str
    arguments: tuple[int, ...] | None
    unsigned: bool
    null: bool
    not_null: bool
    default: bool
    literal: str
    charset: str
    once: bool
    numbered: bool

    @property
    def bare(self) -> bool:
        """Whether nothing is in parentheses after the type."""
        return self.arguments == ()

    @property
    def length(self) -> int | None:
        """The first number in parentheses."""
        return self.arguments[0] if self.arguments else None


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column that is added, with its `value` in all rows that there were, as text.

    Its type is as far as the definition says it: a text has some character set.
    """

    column: Column
    value: str


def adds_nulls(definition: Sequence[Lexeme]) -> bool:
    """Whether a column that's added like this (its name first) is certain to be NULL in the rows that there were."""
    try:
        read = _read(definition)
    except NotRead:
        return False
    if read.not_null or read.default or read.numbered:
        return False
    # It's NOT NULL where explicit_defaults_for_timestamp is OFF.
    return read.type != "timestamp" or read.null


def constant_column(definition: Sequence[Lexeme]) -> ConstantColumn | None:
    """The column that's added like this (its name first), if it's certain that all rows that there were have a constant
    in it.
    """
    try:
        read = _read(definition)
    except NotRead:
        return None
    kind = _type(read)
    if kind is None or not read.once or (read.null and read.not_null) or not (read.default or read.not_null):
        return None
    if read.numbered:
        return None
    value = _implicit(kind) if not read.default else _constant(kind, read)
    return None if value is None else ConstantColumn(Column(read.name, kind, not read.not_null), value)


_INTEGER_BYTES: Final = {
    **dict.fromkeys(("tinyint", "int1", "bool", "boolean"), 1),
    **dict.fromkeys(("smallint", "int2"), 2),
    **dict.fromkeys(("mediumint", "middleint", "int3"), 3),
    **dict.fromkeys(("int", "integer", "int4"), 4),
    **dict.fromkeys(("bigint", "int8"), 8),
}
# The most digits of a second that a time has.
_FRACTION_DIGITS: Final = 6
_CHARS: Final = ("char", "character", "nchar", "national", "varchar", "varcharacter", "nvarchar")
# What is the same character for each client and in each character set, as long as no space ends it.
_PLAIN_TEXT: Final = re.compile(r"(?:[A-Za-z0-9 _.,:;/+*=()!?%&<>-]*[A-Za-z0-9_.,:;/+*=()!?%&<>-])?")
_INTEGER: Final = re.compile(r"'?(-?[0-9]{1,20})")
_DECIMAL: Final = re.compile(r"'?(-?)([0-9]*)(?:\.([0-9]*))?")
_DATE: Final = re.compile(r"'([1-9][0-9]{3}-[0-9]{2}-[0-9]{2})( [0-9]{2}:[0-9]{2}:[0-9]{2})?")
_TIME: Final = re.compile(r"'([0-9]{2}):([0-5][0-9]):([0-5][0-9])")


def _type(read: _Definition) -> t.ColumnType | None:
    """The column's type, None where its constants can't be known."""
    arguments = read.arguments
    match read.type:
        case name if arguments is None:
            return None
        case name if name in _INTEGER_BYTES:
            return t.Integer(_INTEGER_BYTES[name], read.unsigned)
        case "decimal" | "dec" | "numeric" | "fixed":
            precision, scale = (*arguments, *(10, 0)[len(arguments) :])
            if (precision, scale) == (0, 0):  # DECIMAL(0) is a DECIMAL(10, 0)
                precision = 10
            fits = 0 < precision <= t.DECIMAL128_DIGITS and scale <= precision
            return t.Decimal(precision, scale) if fits else None
        case "float" | "float4" if read.bare:
            return t.Float()
        case "double" | "float8" if read.bare:
            return t.Double()
        case "year" if read.bare:
            return t.Year()
        case "date":
            return t.Date()
        case "datetime" | "time" if (read.length or 0) > _FRACTION_DIGITS:
            return None
        case "datetime":
            return t.DateTime(read.length or 0)
        case "time":
            return t.Time(read.length or 0)
        case name if name in _CHARS or name in (*_ROOM, "longtext"):
            return t.Text(read.charset or "utf8mb4") if read.charset != "binary" else None
        case "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return t.Binary()
        case _:
            return None


def _implicit(kind: t.ColumnType) -> str | None:
    """What NOT NULL alone gives to the rows that there were; MySQL calls it the implicit default."""
    match kind:
        case t.Integer() | t.Decimal() | t.Float() | t.Double():
            return "0"
        case t.Text() | t.Binary():
            return ""
        case _:
            return None


def _constant(kind: t.ColumnType, read: _Definition) -> str | None:
    """The value of a literal in a column of this type, None if that isn't the very same."""
    literal = read.literal
    match kind:
        case t.Integer(size, unsigned):
            bits = 8 * size
            least, most = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
            return _integer({"true": "1", "false": "0"}.get(literal, literal), least, most)
        case t.Year():
            return _integer(literal, 1901, 2155)
        case t.Float():
            return _integer(literal, -(1 << 24), 1 << 24)
        case t.Double():
            return _integer(literal, -(1 << 53), 1 << 53)
        case t.Decimal(precision, scale):
            return _decimal(literal, precision - scale, scale, signed=not read.unsigned)
        case t.Text():
            return _text(literal, read)
        case t.Binary():
            return "" if literal == "'" else None
        case t.Date() | t.DateTime():
            return _date(literal, kind)
        case t.Time():
            of_day = _TIME.fullmatch(literal)
            return of_day and str(
                sum(int(part) * unit for part, unit in zip(of_day.groups(), _UNITS, strict=True))
            )
        case _:
            return None


# The hours, minutes and seconds of a TIME in µs, which is how the lake has it.
_UNITS: Final = (3_600_000_000, 60_000_000, 1_000_000)


def _integer(literal: str, least: int, most: int) -> str | None:
    """`-0` is none: as a DOUBLE it isn't 0."""
    found = _INTEGER.fullmatch(literal)
    if found is None or not least <= (value := int(found[1])) <= most or (value == 0 and "-" in literal):
        return None
    return str(value)


def _decimal(literal: str, whole: int, scale: int, *, signed: bool) -> str | None:
    found = _DECIMAL.fullmatch(literal)
    if found is None or not any(map(str.isdecimal, literal)):
        return None
    sign, digits, after = found[1], found[2].lstrip("0"), (found[3] or "").rstrip("0")
    if len(digits) > whole or len(after) > scale or (sign and not signed):
        return None
    return f"{sign}{digits or '0'}.{after}" if after else f"{sign}{digits or '0'}"


def _text(literal: str, read: _Definition) -> str | None:
    text = literal.removeprefix("'")
    if text == literal or not _PLAIN_TEXT.fullmatch(text) or read.type not in _CHARS:
        return None
    return text if len(text) <= (1 if read.length is None else read.length) else None


def _date(literal: str, kind: t.Date | t.DateTime) -> str | None:
    found = _DATE.fullmatch(literal)
    if found is None or (isinstance(kind, t.Date) and found[2]):
        return None
    text = f"{found[1]}{found[2] or ' 00:00:00'}"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return found[1] if isinstance(kind, t.Date) else text


def converts_exactly(definition: Sequence[Lexeme], old: str, before: Traits) -> bool:
    """Returns whether the types decide everything in a column that gets this definition (its name first), in strict
    mode.

    `old`: the column's name in the table as it was `before`.
    """
    if old not in before.columns:
        return False
    try:
        read = _read(definition)
    except NotRead:
        return False
    if read.numbered and before.auto_increment != old:  # rows with 0 get numbers
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
        case "tinyblob" | "blob" | "mediumblob":
            room = before.columns[old]
            return room is None or (read.bare and room.octets <= _BLOB_ROOM[read.type])
        case _:
            return read.type in _EXACT


def converts_texts_exactly(charset: Sequence[Lexeme], before: Traits) -> bool:
    """Returns whether CONVERT TO this CHARACTER SET leaves each text as it is, in strict mode.

    A CHAR or a VARCHAR has room for as many characters as before. A TEXT has room for bytes. It gets more of them if
    the new set's characters may be longer than the old one's. Otherwise characters may take more bytes than they took.
    Spaces at the end of a text that is too long are cut with a warning only.
    """
    try:
        setting, new = _charset(Reader(charset))
    except NotRead:
        return False
    if setting != "charset":
        return False
    texts = (column for column in before.columns.values() if column is not None)
    return all(_keeps_room(column, new) for column in texts)


def _keeps_room(was: TextColumn, charset: str) -> bool:
    longest, new = _LONGEST.get(was.charset, 1), _LONGEST.get(charset, 1)
    by_characters = was.octets == longest * was.characters
    same = was.charset == charset or {was.charset, charset} <= _UTF_8
    return charset != "default" and (by_characters or same or new == 1 or longest < new)


def _has_room(read: _Definition, was: TextColumn, charset: str) -> bool:
    """Whether each text that the column had room for has room in the new one."""
    if read.type == "varchar":
        return read.length is not None and read.length >= was.characters
    same = (read.charset or charset) == was.charset
    needed = was.octets if same else _CHARACTER_BYTES * was.characters
    return read.bare and needed <= _ROOM[read.type]


def _read(definition: Sequence[Lexeme]) -> _Definition:
    """Raises NotRead where there's anything that isn't known to leave rows alone."""
    reader = Reader(definition)
    name, kind = reader.name(), lowercase_word(reader.next)
    reader.expect(*_TYPES)
    reader.keyword(*_SECOND_WORDS.get(kind, ()))
    reader.keyword("varying")
    arguments: tuple[int, ...] | None = ()
    if reader.sign("("):
        arguments = _numbers(_taken(reader, Reader.leave_parentheses)[:-1])
    attributes = list(_attributes(reader))
    found = dict(attributes)
    defaults = [value for setting, value in attributes if setting == "default" and value != "null"]
    return _Definition(
        name,
        kind,
        arguments,
        bool({"unsigned", "zerofill"} & found.keys()),
        "null" in found,
        "not null" in found,
        bool(defaults),
        "".join(defaults[-1:]),
        found.get("charset") or found.get("collate", "").partition("_")[0],
        max(Counter(setting for setting, _ in attributes).values(), default=1) == 1,
        "auto_increment" in found,
    )


def _taken(reader: Reader, take: Callable[[Reader], None]) -> Sequence[Lexeme]:
    """What the reader has taken when it has done this. Raises NotRead."""
    before = reader.rest()
    take(reader)
    return before[: len(before) - len(reader.rest())]


def _numbers(found: Sequence[Lexeme]) -> tuple[int, ...] | None:
    """The numbers between commas, None where there's anything else."""
    text = "".join(
        lexeme.text if lexeme.kind in (LexemeKind.WORD, LexemeKind.SIGN) else "?" for lexeme in found
    )
    return tuple(map(int, text.split(","))) if _NUMBERS_IN_LIST.fullmatch(text) else None


def _literal(found: Sequence[Lexeme]) -> str:
    """A string with a quotation mark before it, a number with its sign, or a word; empty for anything else."""
    match found:
        case [Lexeme(LexemeKind.STRING | LexemeKind.DOUBLE, text)]:
            return f"'{text}"
        case _ if all(lexeme.kind in (LexemeKind.WORD, LexemeKind.SIGN) for lexeme in found):
            return "".join(lexeme.text for lexeme in found).casefold().removeprefix("+")
        case _:
            return ""


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
            # A column may have several, so that NULL counts too.
            yield "default", "null" if reader.keyword("null") else _literal(_taken(reader, _expression))
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
    reader.table()
    reader.expect_sign("(")
    reader.leave_parentheses()
    while reader.keyword("match", "on"):
        reader.keyword("delete", "update")
        if reader.keyword("set", "no"):
            reader.expect("null", "default", "action")
        else:
            reader.value()
