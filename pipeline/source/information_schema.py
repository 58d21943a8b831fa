"""Tables as the server's information_schema describes them.

The result equals, down to its `version`, what a TABLE_MAP event with full metadata says of the same table. So it has
only what such an event says: no display widths, no ZEROFILL, no DOUBLE(m, d), no collation beyond its character set.
Invisible and generated columns count, also virtual ones, because row images have them. The hidden columns of functional
indexes are in neither place.

The key is the primary key. Without one it is the server's own choice, which the log has too: its first unique index
without NULLs or prefixes. COLUMN_KEY marks that one's columns.

Two unique indexes may have the same columns. Then the server takes the one that SHOW KEYS lists first
(`ambiguous_key_tables`).

A table that can't be described comes with the reason (`Descriptions.refused`). The others are described all the same.

The columns and the key come from one statement, so that no ALTER TABLE can come between the two. Before MySQL 8.0 one
still can, because the server looks at the table once for each. A caller that needs to be sure repeats the query until
two answers are equal.

Source: MySQL 9.7 Reference Manual, "The INFORMATION_SCHEMA COLUMNS Table" and "… STATISTICS Table". How labels are
escaped in COLUMN_TYPE isn't documented: it's `append_unescaped` of the server's sql/field.cc. A label of CHARACTER SET
binary that isn't ASCII appears there as x'…' (observed of MySQL 9.7).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_filter import OWN_DATABASES
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.schema.table_traits import MERGEABLE, TextColumn, Traits
from pipeline.source.statement import Statement, quoted_table
from pipeline.types import column_types as t
from pipeline.types.enum_labels import NO_TEXT, UNKNOWN_CHARACTER

_DESCRIBE = """\
SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_TYPE, c.CHARACTER_SET_NAME, c.IS_NULLABLE,
       c.COLUMN_KEY, c.EXTRA, c.CHARACTER_MAXIMUM_LENGTH, c.CHARACTER_OCTET_LENGTH, t.ENGINE, t.TABLE_COLLATION,
       s.INDEX_NAME, s.SEQ_IN_INDEX, s.SUB_PART
FROM information_schema.COLUMNS c JOIN information_schema.TABLES t
  ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE'
     AND CAST(t.TABLE_SCHEMA AS BINARY) = CAST(c.TABLE_SCHEMA AS BINARY)
     AND CAST(t.TABLE_NAME AS BINARY) = CAST(c.TABLE_NAME AS BINARY)
  LEFT JOIN {statistics} s
  ON s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME AND s.COLUMN_NAME = c.COLUMN_NAME
     AND s.NON_UNIQUE = 0
     AND CAST(s.TABLE_SCHEMA AS BINARY) = CAST(c.TABLE_SCHEMA AS BINARY)
     AND CAST(s.TABLE_NAME AS BINARY) = CAST(c.TABLE_NAME AS BINARY)
     AND CAST(s.COLUMN_NAME AS BINARY) = CAST(c.COLUMN_NAME AS BINARY)
WHERE {tables}
ORDER BY CAST(c.TABLE_SCHEMA AS BINARY), CAST(c.TABLE_NAME AS BINARY), c.ORDINAL_POSITION"""

# A prepared statement takes 65,535 values.
MOST_DESCRIBED: Final = 5_000

# The names as they are compared, for the server's indexes; and byte for byte, since before MySQL 8.0 `t` equals `T`,
# and `a` equals `á`.
_ONE = (
    "({c}TABLE_SCHEMA = %s AND {c}TABLE_NAME = %s"
    " AND CAST({c}TABLE_SCHEMA AS BINARY) = CAST(%s AS BINARY)"
    " AND CAST({c}TABLE_NAME AS BINARY) = CAST(%s AS BINARY))"
)

_TYPE = re.compile(
    r"(?P<name>\w+)(?:\((?P<arguments>.*)\))?(?P<unsigned> unsigned)?(?: zerofill)?"
    r"(?: /\* 5\.5 binary format \*/)?",  # what show_old_temporals says of a column made before MySQL 5.6.4
    re.DOTALL,
)
_LABEL = re.compile(r"(?P<hex>x?)'(?P<label>(?:[^'\\]|''|\\.)*)'(?:,|$)", re.DOTALL)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r"}

_INTEGER_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_BINARIES = {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_SPATIAL = {
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
    "geometrycollection",
}
_WITHOUT_ARGUMENTS: dict[str, t.ColumnType] = {
    "float": t.Float(),
    "double": t.Double(),
    "date": t.Date(),
    "json": t.Json(),
    "vector": t.Vector(),
}
_LABELLED: dict[str, type[t.Enum] | type[t.Set]] = {"enum": t.Enum, "set": t.Set}
# Character sets that hold what utf8mb3, in which the server keeps COLUMN_TYPE, does not.
_BEYOND_UTF8MB3 = {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030", "binary"}

_NAME = "(?:[^`]|``)+"
_UNION_PART = re.compile(rf"(?:`(?P<database>{_NAME})`\.)?`(?P<name>{_NAME})`(?:,|$)")
_UNION = re.compile(rf"UNION=\((?P<tables>`{_NAME}`(?:[.,]`{_NAME}`)*)\)$")

# A row of `describe`: database, table, column, COLUMN_TYPE, character set or None, "YES" or "NO", "PRI" for a column of
# the key, EXTRA, the characters and the bytes that a text has room for; the table's engine and its default collation;
# then, once for each unique index that has the column: the index, the column's place in it (from 1) and, if the index
# holds only the beginning of the value, that one's length.
ColumnRow = tuple[
    str, str, str, str, str | None, str, str, str, int | None, int | None, str | None, str | None,
    str | None, int | None, int | None,
]  # fmt: skip
# What EXTRA says of a generated column, since MySQL 5.7; DEFAULT_GENERATED is a default that's an expression.
_VIRTUAL = "VIRTUAL GENERATED"
_GENERATED = (_VIRTUAL, "STORED GENERATED")
# The types whose values lie outside of the server's row, which only points to them.
_OUTSIDE_OF_ROWS = {
    *(_TEXTS - {"char", "varchar"}),
    *(_BINARIES - {"varbinary"}),
    *_SPATIAL,
    "json",
}
_STALE_ENGINE = "innodb"


class _Part(NamedTuple):
    """A column in an index: its place there, its number in the table, and whether only the value's beginning is in."""

    place: int
    column: int
    prefixed: bool


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table's schema and what it can't express.

    `prefixed`: columns with only a prefix in the primary key. `traits`: what the log doesn't say of the table.
    """

    schema: TableSchema
    prefixed: tuple[str, ...]
    traits: Traits = field(default_factory=lambda: Traits(""))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Returns the ENUM and SET columns with a label that isn't completely known (`UNKNOWN_CHARACTER`)."""
        return tuple(
            column.name
            for column in self.schema.columns
            if isinstance(column.type, t.Enum | t.Set)
            and any(UNKNOWN_CHARACTER in label for label in column.type.labels)
        )


@dataclass(frozen=True, slots=True)
class Descriptions:
    """What the server says of tables, and why some can't be captured as it describes them.

    `locked`: the tables of which something isn't known, since a session kept a table from being opened. Of that one
    it's open which of several equal indexes is the key, and which columns may be stale. If it's a MERGE table, its
    UNION isn't known, which may have these tables.
    `rows`: those that it was made of, if it follows from them alone. The same rows needn't be parsed again.
    """

    described: Mapping[TableId, TableDescription]
    refused: Mapping[TableId, str]
    locked: frozenset[TableId] = frozenset()
    rows: Sequence[ColumnRow] = field(default=(), compare=False, repr=False)


def differing_tables(first: Descriptions, second: Descriptions) -> frozenset[TableId]:
    """Returns the tables of which the server says something else the second time, but for those that are gone."""
    if first == second:
        return frozenset()
    there = second.described.keys() | second.refused.keys()
    return frozenset(
        table
        for table in there
        if first.described.get(table) != second.described.get(table)
        or first.refused.get(table) != second.refused.get(table)
    )


class Undescribed(ValueError):
    """A table can't be captured as the server describes it; the text says why and what to do."""


# The unique indexes of a table with the parts of each in order: rows of `IndexRow`. A part that is an expression has no
# column; an index that's invisible (since MySQL 8.0) is none that a statement can use.
_INDEXES = """\
SELECT s.INDEX_NAME, s.COLUMN_NAME, s.NULLABLE, s.SUB_PART, s.COLLATION, c.COLLATION_NAME
FROM information_schema.STATISTICS s LEFT JOIN {columns} c
  ON c.TABLE_SCHEMA = s.TABLE_SCHEMA AND c.TABLE_NAME = s.TABLE_NAME AND c.COLUMN_NAME = s.COLUMN_NAME
     AND CAST(c.TABLE_SCHEMA AS BINARY) = CAST(s.TABLE_SCHEMA AS BINARY)
     AND CAST(c.TABLE_NAME AS BINARY) = CAST(s.TABLE_NAME AS BINARY)
     AND CAST(c.COLUMN_NAME AS BINARY) = CAST(s.COLUMN_NAME AS BINARY)
WHERE s.NON_UNIQUE = 0 /*!80000 AND s.IS_VISIBLE = 'YES' */ AND {table}
ORDER BY s.INDEX_NAME, s.SEQ_IN_INDEX"""

# A row of `indexes`: the index, the part's column or None, "YES" where that may be NULL, the length of the prefix if it
# holds only that, "A" or "D" for its direction, and the column's collation.
IndexRow = tuple[str, str | None, str, int | None, str | None, str | None]


class IndexPart(NamedTuple):
    """A part of an index: its column (None: an expression), its order, and why it can't tell rows apart, if it
    can't."""

    column: str | None
    descending: bool
    collation: str | None
    nullable: bool
    prefixed: bool


# All tables but views and the server's own: rows of database and name.
TABLES = Statement(
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"  # noqa: S608 - names of our own
    f" AND TABLE_SCHEMA NOT IN {OWN_DATABASES} ORDER BY TABLE_SCHEMA, TABLE_NAME"
)


# The tables whose alteration may be seen before the log has it: rows of database and name. InnoDB alone has atomic DDL
# (MySQL Reference Manual, "Atomic Data Definition Statement Support"). A statement that takes a table from another
# engine to InnoDB hasn't either, but gives it a new CREATE_TIME when it begins. Few of them run for more than a day.
WITHOUT_ATOMIC_DDL = Statement(
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
    " AND (ENGINE IS NULL OR ENGINE <> 'InnoDB' OR CREATE_TIME > NOW() - INTERVAL 1 DAY)"
)


# All MERGE tables: rows of database and name.
MERGE_TABLES = Statement(
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE = 'MRG_MYISAM'"
    " ORDER BY TABLE_SCHEMA, TABLE_NAME"
)

# What the server estimates of all tables: rows, and the bytes of rows and indexes.
SIZES = Statement(
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE'"
)

# A wildcard in the name of a database that rights are granted on, and one that stands for itself.
_WILDCARD = re.compile(r"(?<!\\)[%_]")
_ESCAPED_WILDCARD = re.compile(r"\\([%_])")

# Foreign keys that change or delete rows along with another table's: rows of the child's database and name, the
# constraint, the parent's database and name, a column that's referred to, and whether it works on delete, on update.
CASCADING = Statement(
    "SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME,"
    " k.REFERENCED_COLUMN_NAME, r.DELETE_RULE IN ('CASCADE', 'SET NULL'), r.UPDATE_RULE IN ('CASCADE', 'SET NULL')"
    " FROM information_schema.REFERENTIAL_CONSTRAINTS r JOIN information_schema.KEY_COLUMN_USAGE k"
    " ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME"
    " AND k.TABLE_NAME = r.TABLE_NAME"
    " WHERE r.DELETE_RULE IN ('CASCADE', 'SET NULL') OR r.UPDATE_RULE IN ('CASCADE', 'SET NULL')"
    " ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION"
)


def describe(tables: Sequence[TableId]) -> Statement:
    """The statement that asks for these tables, at least one and at most MOST_DESCRIBED; its rows are `ColumnRow`s.

    If there are several, it also has rows of tables whose names the server takes for equal.
    """
    if len(tables) == 1:
        [table] = tables
        one = f"{_ONE.format(c='c.')} AND {_ONE.format(c='t.')}"
        asked = _DESCRIBE.format(statistics=_of_one("STATISTICS"), tables=one)
        return Statement(asked, 6 * (table.database, table.name))
    places = ", ".join(
        ["(%s, %s)"] * len(tables)
    )  # a sorted list: a condition for each takes 10 ms for each of 10,000
    return Statement(
        _DESCRIBE.format(
            statistics="information_schema.STATISTICS",
            tables=f"(c.TABLE_SCHEMA, c.TABLE_NAME) IN ({places})",
        ),
        tuple(part for table in tables for part in table),
    )


def _of_one(source: str) -> str:
    """What information_schema has of one table, so that older servers don't open all tables for a join."""
    return f"(SELECT * FROM information_schema.{source} WHERE {_ONE.format(c='')})"  # noqa: S608 - a name of our own


def selectable(user: str) -> Statement:
    """The statement that asks where an account (CURRENT_USER()) itself has the right to SELECT all columns of all
    tables. Its rows have the name of a database as it was granted; NULL stands for all databases.

    A right of some tables or columns, and one by a role, isn't among them.
    """
    name, _, host = user.rpartition("@")
    mine = "PRIVILEGE_TYPE = 'SELECT' AND CAST(GRANTEE AS BINARY) = CAST(%s AS BINARY)"
    return Statement(
        f"SELECT NULL FROM information_schema.USER_PRIVILEGES WHERE {mine} UNION ALL"  # noqa: S608 - no names in it
        f" SELECT TABLE_SCHEMA FROM information_schema.SCHEMA_PRIVILEGES WHERE {mine}",
        2 * (f"'{name}'@'{host}'",),
    )


def selectable_databases(rows: Iterable[tuple[Any, ...]], *, partial: bool) -> frozenset[str] | None:
    """The databases in the rows of `selectable` of which an account may surely SELECT everything; None is all.

    `partial`: whether rights may be revoked from one of all databases (partial_revokes). Then wildcards are no
    wildcards. Of several names that match, the server takes the one without wildcards. So a name with one says nothing
    for sure.

    Source: MySQL 9.7 Reference Manual, "GRANT Statement" and "Privilege Restriction Using Partial Revokes".
    """
    names = {name for (name,) in rows}
    if partial:
        return frozenset(names - {None})
    if None in names:
        return None
    return frozenset(_ESCAPED_WILDCARD.sub(r"\1", name) for name in names if not _WILDCARD.search(name))


def foreign_keys(rows: Iterable[tuple[Any, ...]]) -> tuple[ForeignKey, ...]:
    """The foreign keys in the rows of CASCADING."""
    found = []
    for _, of_key in groupby(rows, key=lambda row: row[:3]):
        parts = list(of_key)
        child, name, _, parent, parent_name, _, deletes, updates = parts[0]
        columns = tuple(part[5] for part in parts)
        of_parent = TableId(parent, parent_name)
        found.append(ForeignKey(TableId(child, name), of_parent, columns, bool(deletes), bool(updates)))
    return tuple(found)


def indexes(table: TableId) -> Statement:
    """The statement that asks for the unique indexes of a table; its rows are `IndexRow`s."""
    asked = _INDEXES.format(columns=_of_one("COLUMNS"), table=_ONE.format(c="s."))
    return Statement(asked, 4 * (table.database, table.name))


def unique_indexes(rows: Iterable[IndexRow]) -> dict[str, tuple[IndexPart, ...]]:
    """The unique indexes in these rows, by name."""
    return {
        name: tuple(
            IndexPart(column, direction == "D", collation, nullable == "YES", prefix is not None)
            for _, column, nullable, prefix, direction, collation in parts
        )
        for name, parts in groupby(rows, lambda row: row[0])
    }


def estimate(table: TableId) -> Statement:
    """The statement that asks for the server's estimate of a table's rows: one row with one column, maybe NULL."""
    return Statement(
        f"SELECT TABLE_ROWS FROM information_schema.TABLES WHERE {_ONE.format(c='')}",  # noqa: S608 - no names in it
        2 * (table.database, table.name),
    )


def describe_tables(
    rows: Iterable[ColumnRow], listed: Mapping[TableId, Sequence[str]] | None = None
) -> Descriptions:
    """The tables in these rows; one that isn't there doesn't exist, or is a view, or the user may not see it.

    `listed`: the indexes of contested tables as SHOW KEYS lists them.
    """
    found: dict[TableId, TableDescription] = {}
    refused: dict[TableId, str] = {}
    for table, columns in _by_table(rows):
        try:
            found[table] = _table(table, columns, (listed or {}).get(table, ()))
        except Undescribed as refusal:
            refused[table] = str(refusal)
    return Descriptions(found, refused)


def ambiguous_key_tables(rows: Iterable[ColumnRow]) -> tuple[TableId, ...]:
    """Returns the tables in these rows whose key is one of several unique indexes: SHOW KEYS says which."""
    return tuple(table for table, columns in _by_table(rows) if len(_candidates(*_key_columns(columns))) > 1)


def show_create_table(table: TableId) -> Statement:
    """The statement that opens a table, and waits for no lock of its rows.

    A restart empties MEMORY tables, and a server logs that when one is first opened. If it is first opened for its
    statistics (SHOW KEYS, TABLE_ROWS), MySQL 9.7 does not log it: neither Tidemark nor a replica hears of it.
    """
    return Statement(f"SHOW CREATE TABLE {quoted_table(table)}")


def open_tables(tables: Sequence[TableId]) -> Statement:
    """The statement that opens these tables, at least one, and reads no row. It also waits for LOCK TABLES … WRITE."""
    return Statement(
        " UNION ALL ".join(f"(SELECT 0 FROM {quoted_table(table)} LIMIT 0)" for table in tables)  # noqa: S608 - quoted names
    )


def merged_tables(merge: TableId, text: str) -> frozenset[TableId]:
    """The tables in the UNION of a MERGE table, by what SHOW CREATE TABLE says of it; the UNION comes last there."""
    union = _UNION.search(text)
    parts = _UNION_PART.finditer(union["tables"]) if union else ()
    return frozenset(
        TableId(_unquoted(part["database"]) if part["database"] else merge.database, _unquoted(part["name"]))
        for part in parts
    )


def with_merge_tables(
    told: Descriptions, merges: Mapping[TableId, Collection[TableId] | None], *, folds: bool
) -> Descriptions:
    """Returns the descriptions in which each MyISAM table names the first MERGE table that has it in its UNION.

    `merges`: the UNION of each, None if it can't be known. It may have any MyISAM table that no other has.
    `folds`: whether the server compares names without regard to case.
    """

    def compared(table: TableId) -> str:
        return str(table).casefold() if folds else str(table)

    by = {compared(table): merge for merge in sorted(merges, reverse=True) for table in merges[merge] or ()}
    mergeable = {table for table, found in told.described.items() if found.traits.engine == MERGEABLE}
    described = {
        table: replace(found, traits=replace(found.traits, merged_by=by.get(compared(table))))
        if table in mergeable
        else found
        for table, found in told.described.items()
    }
    doubtful = (
        {table for table in mergeable if compared(table) not in by} if None in merges.values() else set()
    )
    return replace(told, described=described, locked=told.locked | doubtful)


def stale_tables(rows: Iterable[ColumnRow]) -> dict[TableId, frozenset[str]]:
    """Returns the tables in these rows with a column that the log may have stale, and all virtual columns of each."""
    return {
        table: frozenset(row[2] for row in columns if _VIRTUAL in row[7])
        for table, columns in _by_table(rows)
        if any(map(_may_be_stale, columns))
    }


def has_computed_index(keys: Iterable[Sequence[Any]], virtual: Collection[str]) -> bool:
    """Returns whether an index has a virtual column or an expression. `keys`: the rows of SHOW KEYS."""
    return any(column is None or column in virtual for _, _, _, _, column, *_ in keys)


def without_stale_columns(told: Descriptions, tables: Collection[TableId]) -> Descriptions:
    """Returns the descriptions in which no column of these tables can be stale."""
    if not tables:
        return told
    described = {
        table: replace(found, traits=replace(found.traits, stale=frozenset())) if table in tables else found
        for table, found in told.described.items()
    }
    return replace(told, described=described)


def _unquoted(name: str) -> str:
    return name.replace("``", "`")


def show_keys(table: TableId) -> Statement:
    """The statement that lists a table's indexes in the server's order; the index is the third column of its rows."""
    return Statement(f"SHOW KEYS FROM {quoted_table(table)}")


def _by_table(rows: Iterable[ColumnRow]) -> Iterator[tuple[TableId, list[ColumnRow]]]:
    for table, columns in groupby(rows, lambda r: TableId(r[0], r[1])):
        yield table, list(columns)


def column_type(text: str, charset: str | None) -> t.ColumnType | None:
    """The type that COLUMN_TYPE and CHARACTER_SET_NAME name, or None for an unknown one. Raises Undescribed."""
    match = _TYPE.fullmatch(text)
    if match is None:
        return None
    name, arguments = match["name"], match["arguments"]
    if name in _INTEGER_BYTES:
        return t.Integer(_INTEGER_BYTES[name], unsigned=match["unsigned"] is not None)
    if name in _TEXTS:
        return t.Text(_charset(charset))
    if name in _BINARIES:
        return t.Binary()
    if name in _SPATIAL:
        return t.Geometry()
    if name in _LABELLED:
        return _LABELLED[name](tuple(_labels(arguments or "", charset)))
    return _WITHOUT_ARGUMENTS.get(name) or _with_arguments(name, arguments)


def _with_arguments(name: str, arguments: str | None) -> t.ColumnType | None:
    match name:
        case "decimal":
            precision, scale = (arguments or "").split(",")
            return t.Decimal(int(precision), int(scale))
        case "year" if arguments != "2":  # a YEAR(2) shows only half of the value in the log
            return t.Year()
        case "bit":
            return t.Bit(int(arguments or 1))
        case "time":
            return t.Time(int(arguments or 0))
        case "datetime":
            return t.DateTime(int(arguments or 0))
        case "timestamp":
            return t.Timestamp(int(arguments or 0))
        case "binary":
            return t.FixedBinary(int(arguments or 1))
        case _:
            return None


def _table(table: TableId, rows: Sequence[ColumnRow], listed: Sequence[str]) -> TableDescription:
    columns = tuple(_column(table, next(of_column)) for _, of_column in groupby(rows, lambda row: row[2]))
    key = _key(*_key_columns(rows), listed)
    schema = TableSchema(table, columns, tuple(part.column for part in key))
    prefixed = tuple(columns[part.column].name for part in key if part.prefixed)
    return TableDescription(schema, prefixed, _traits(rows))


def _column(table: TableId, row: ColumnRow) -> Column:
    _, _, name, text, charset, nullable, *_ = row
    try:
        kind = column_type(text, charset)
    except Undescribed as error:
        raise Undescribed(f"column {name} of {table}: {error}") from error
    if kind is None:
        raise Undescribed(f"column {name} of {table} has the type {text!r}, which isn't supported; change it")
    return Column(name, kind, nullable == "YES")


def _key_columns(rows: Iterable[ColumnRow]) -> tuple[set[int], dict[str, list[_Part]]]:
    """The numbers of the columns that are marked as the key's, and the parts of each unique index by its name."""
    marked: set[int] = set()
    indexes: dict[str, list[_Part]] = {}
    for number, (_, entries) in enumerate(groupby(rows, lambda row: row[2])):
        for row in entries:
            mark, (index, place, prefix) = row[6], row[-3:]
            if mark == "PRI":
                marked.add(number)
            if index is not None and place is not None:
                indexes.setdefault(index, []).append(_Part(place, number, prefix is not None))
    return marked, indexes


def _traits(rows: Sequence[ColumnRow]) -> Traits:
    columns: dict[str, TextColumn | None] = {}
    generated, numbered = False, ""
    for row in rows:
        name, charset, extra, characters, octets = row[2], row[4], row[7], row[8], row[9]
        room = None if characters is None else TextColumn(characters, octets or 0, charset or "binary")
        columns[name] = room
        generated = generated or any(words in extra for words in _GENERATED)
        numbered = name if "auto_increment" in extra else numbered
    engine, collation = rows[-1][10:12]
    charset = (collation or "").partition("_")[0]
    stale = frozenset(row[2] for row in rows if _may_be_stale(row))
    return Traits(
        (engine or "").casefold(), generated, charset, columns, auto_increment=numbered, stale=stale
    )


def _may_be_stale(row: ColumnRow) -> bool:
    if _VIRTUAL not in row[7] or (row[10] or "").casefold() != _STALE_ENGINE:
        return False
    of_type = _TYPE.fullmatch(row[3])
    return of_type is not None and of_type["name"] in _OUTSIDE_OF_ROWS


def _candidates(marked: set[int], indexes: Mapping[str, list[_Part]]) -> list[str]:
    """Those of the unique indexes that may be the key."""
    if "PRIMARY" in indexes:
        return ["PRIMARY"]
    return [name for name, parts in indexes.items() if {part.column for part in parts} == marked]


def _key(marked: set[int], indexes: Mapping[str, list[_Part]], listed: Sequence[str]) -> list[_Part]:
    """Returns the parts, in order, of the unique index that is the key: of several the one that's listed first.

    An index that isn't listed has come since. A caller that repeats the query until two answers are equal repeats it
    again.
    """
    candidates = _candidates(marked, indexes)
    first = min(
        candidates, key=lambda name: listed.index(name) if name in listed else len(listed), default=None
    )
    return [] if first is None else sorted(indexes[first])


def _charset(name: str | None) -> str:
    # Servers before 8.0.30 still call it by its old name.
    return "utf8mb3" if name == "utf8" else str(name)


def _labels(arguments: str, charset: str | None) -> Iterator[str]:
    """Returns the labels, with UNKNOWN for each question mark that may be a character beyond U+FFFF.

    Raises Undescribed if one isn't text.
    """
    for match in _LABEL.finditer(arguments):
        if match["hex"]:
            try:
                yield bytes.fromhex(match["label"]).decode()
            except UnicodeDecodeError as error:
                raise Undescribed(NO_TEXT.format(label=match["label"])) from error
        else:
            label = _ESCAPE.sub(_unescape, match["label"])
            yield label.replace("?", UNKNOWN_CHARACTER) if charset in _BEYOND_UTF8MB3 else label


def _unescape(match: re.Match[str]) -> str:
    letter = match[1]
    return "'" if letter is None else _ESCAPED.get(letter, letter)
