"""The lake's tables: where they are, what columns they have, and the SQL that keeps the mirror and reads the truth.

Each captured table becomes two. The *changelog* takes every change as it comes, with the journal's meta columns. The
*mirror* has the table's own columns and equals the source at an older position: its first snapshot is appended to it,
and from then on changes are merged into it, rarely and many at a time.

The *live view* is the mirror without the keys that changed since, and the last of those changes of each key unless
that's a delete. It's right whatever the merges' timing:

- Let the mirror hold all changes through segment m, and the changelog those through n >= m. A key that didn't change
  in (m, n] has in the mirror what the source had at n. A key that did has in the changelog its whole last row, for
  changes carry whole rows and are in the order of the source's commits (`__scn`, then `__ordinal`).
- Counting changes from a segment before m does no harm: the last change of a key is the same one.
- While the first snapshot fills the mirror nothing is merged (m = 0), and every change counts. A chunk's row stands
  in the mirror as the source had it at the chunk's place in the stream. A last change before that place is equal to
  it, since the chunk saw it; one after that place is newer, and wins. A row deleted after its chunk has a last change
  `d`; one deleted before isn't in the chunk.
- A mirror may begin anew, empty, behind an SCN (its *generation*, which the mirror says of itself): what was said of
  the table up to there no longer tells what its rows are. Changes up to there don't count, neither here nor in a
  merge, and all of the above holds for those behind it.

Keys are compared for equality of their bytes and never for order, so any collation will do. A part of a key that may
be null here (a zero date has no other form) is compared so that null equals null.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from pipeline.change_rows import META
from pipeline.errors import Definite
from pipeline.schema import TableId, TableSchema
from pipeline.types import Date, DateTime, Timestamp

# The column that holds the number of the segment in which a change was sealed.
SEGMENT = "__segment"

_OP, _SCN, _ORDINAL = "__op", "__scn", "__ordinal"
_RANK = "__rank"
_OURS = {*META.names, _RANK}

# What a table's column may not have in its name without column mapping (Delta: Column mapping).
_UNFIT = set(" ,;{}()\n\t=")


class Tier(StrEnum):
    """The two lake tables of a captured table."""

    CHANGELOG = "changelog"
    MIRROR = "mirror"


class Property(StrEnum):
    """What a lake table says of itself, as table properties.

    JOURNAL: the id of the journal that it's fed from. SCHEMA: the source's schema that it has taken on, as JSON, and
    SINCE the segment that this came with. STOPPED: why nothing more is delivered to it.
    """

    JOURNAL = "tidemark.journal"
    SCHEMA = "tidemark.schema"
    SINCE = "tidemark.since"
    STOPPED = "tidemark.stopped"


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a mirror is: its generation, and a segment whose changes it has all merged."""

    generation: int = 0
    merged: int = 0

    @property
    def condition(self) -> str:
        """What holds for the changes that count beside it, in SQL."""
        return f"{quoted(SEGMENT)} > {self.merged} AND {quoted(_SCN)} > {self.generation}"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table; `type` as Spark's SQL writes it."""

    name: str
    type: str


def location(lake: str, table: TableId, tier: Tier) -> str:
    """The path of a lake table: LAKE/database/table/tier.

    In names, whatever isn't a letter, a digit, `-` or an inner `_` of ASCII is written as `~` and two hex digits for
    each byte of UTF-8. So no name is hidden (leading `_` or `.`), climbs (`..`), or means something to Hadoop (`%`,
    `*`, `=`), and two tables never share a path.
    """
    return "/".join((lake.rstrip("/"), _escaped(table.database), _escaped(table.name), tier))


def columns(schema: TableSchema, tier: Tier) -> tuple[LakeColumn, ...]:
    """A lake table's columns. Raises Definite where the source's can't be had under their names."""
    own = [LakeColumn(field.name, spark_type(field.type)) for field in schema.arrow]
    seen: set[str] = set()
    for column in own:
        name = column.name.lower()
        if name in _OURS:
            raise Definite(
                f"column {column.name!r} of {schema.table} has the name of a column that Tidemark adds"
            )
        if name in seen:
            raise Definite(f"column {column.name!r} of {schema.table} differs from another only by case")
        seen.add(name)
    return tuple(own) if tier is Tier.MIRROR else (*META_COLUMNS, *own)


def need_mapping(names: Iterable[str]) -> bool:
    """Whether a table with such column names needs Delta's column mapping, which is decided when it's made."""
    return any(_UNFIT & set(name) for name in names)


def spark_type(arrow: pa.DataType) -> str:
    """Spark's SQL name of a canonical Arrow type."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_type(arrow.value_type)}>"
    return _SPARK_TYPES[arrow]


_SPARK_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}

# The columns before the table's own in the journal's changes files, and in a changelog.
META_COLUMNS = tuple(LakeColumn(f.name, spark_type(f.type)) for f in META)


def ddl(of: Iterable[LakeColumn]) -> str:
    """Columns as CREATE TABLE and Spark's readers take them."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in of)


def create_sql(path: str, of: tuple[LakeColumn, ...], properties: Mapping[Property, str]) -> str:
    """The statement that makes a changelog where there's none.

    A checkpoint of Delta's log takes a second or two and holds the next commit up, so it comes only after many.
    """
    settings = _settings(of, {"delta.checkpointInterval": "100"}, properties)
    return f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(of)}) USING delta {_properties(settings)}"


def begin_sql(path: str, of: tuple[LakeColumn, ...], properties: Mapping[Property, str]) -> str:
    """The statement that makes an empty mirror with just these columns, whatever is there now.

    Deletion vectors keep a MERGE from writing each file anew in which it finds a key. Of the forms of this statement
    it's the one with a query that Delta makes but once for an application's transaction.
    """
    settings = {"delta.checkpointInterval": "20", "delta.enableDeletionVectors": "true"}
    nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in of)
    return (
        f"CREATE OR REPLACE TABLE {table_at(path)} USING delta {_properties(_settings(of, settings, properties))} "
        f"AS SELECT {nothing} WHERE false"
    )


def add_column_sql(path: str, column: LakeColumn, after: str | None) -> str:
    """The statement that adds a column behind another one, or as the first."""
    place = f"AFTER {quoted(after)}" if after is not None else "FIRST"
    return f"ALTER TABLE {table_at(path)} ADD COLUMNS ({ddl([column])} {place})"


def set_properties_sql(path: str, properties: Mapping[Property, str]) -> str:
    """The statement that sets table properties."""
    return f"ALTER TABLE {table_at(path)} SET {_properties(properties)}"


def merge_sql(lake: str, schema: TableSchema, reached: Reached, through: int) -> str:
    """The statement that brings the mirror from where it is to segment `through`.

    `schema` is the one that the lake tables have taken on; its table has a primary key.
    """
    names = [c.name for c in schema.columns]
    assignments = ", ".join(f"m.{quoted(name)} = c.{quoted(name)}" for name in names)
    inserted, values = _list(names), ", ".join(f"c.{quoted(name)}" for name in names)
    changelog = table_at(location(lake, schema.table, Tier.CHANGELOG))
    return f"""MERGE INTO {table_at(location(lake, schema.table, Tier.MIRROR))} AS m
USING (
{_last_changes(schema, changelog, f"{reached.condition} AND {quoted(SEGMENT)} <= {through}")}
) AS c
ON {_same_key(schema)}
WHEN MATCHED AND c.{quoted(_OP)} = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND c.{quoted(_OP)} <> 'd' THEN INSERT ({inserted}) VALUES ({values})"""


def pending_sql(lake: str, table: TableId, reached: Reached) -> str:
    """The query that counts the changes that the mirror hasn't merged."""
    changelog = table_at(location(lake, table, Tier.CHANGELOG))
    return f"SELECT count(*) FROM {changelog} WHERE {reached.condition}"


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions (of Delta's log) of the two tables that a query is to read."""

    mirror: int
    changelog: int


def live_view_sql(lake: str, schema: TableSchema, reached: Reached, at: Versions | None = None) -> str:
    """The query that gives a table's rows as of the last delivered segment, in Spark's SQL.

    The text stays right while merges go on, only it reads more changes than it had to; when the mirror begins anew, a
    new one is needed. Without `at` both tables are read at their newest, the mirror first, so that it isn't ahead of
    the changelog. Raises Definite for a table without a primary key.
    """
    if not schema.key:
        raise Definite(f"{schema.table} has no primary key: it has a changelog and no live view")
    names = _list(c.name for c in schema.columns)
    mirror, changelog = (
        table_at(location(lake, schema.table, tier)) for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    if at is not None:
        mirror, changelog = f"{mirror} VERSION AS OF {at.mirror}", f"{changelog} VERSION AS OF {at.changelog}"
    return f"""WITH c AS (
{_last_changes(schema, changelog, reached.condition)}
)
SELECT {names} FROM (SELECT * FROM {mirror}) AS m
WHERE NOT EXISTS (SELECT 1 FROM c WHERE {_same_key(schema)})
UNION ALL
SELECT {names} FROM c WHERE {quoted(_OP)} <> 'd'"""


def table_at(path: str) -> str:
    """How Spark's SQL names the Delta table at a path."""
    return f"delta.{quoted(path)}"


def quoted(name: str) -> str:
    """A name as an identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _last_changes(schema: TableSchema, changelog: str, where: str) -> str:
    names, key = _list(c.name for c in schema.columns), _list(schema.key_names)
    order = f"{quoted(_SCN)} DESC, {quoted(_ORDINAL)} DESC"
    return f"""  SELECT {quoted(_OP)}, {names} FROM (
    SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS {quoted(_RANK)}
    FROM {changelog} WHERE {where}
  ) WHERE {quoted(_RANK)} = 1"""


def _same_key(schema: TableSchema) -> str:
    parts = []
    for index in schema.key:
        column = schema.columns[index]
        equals = "<=>" if isinstance(column.type, Date | DateTime | Timestamp) else "="
        parts.append(f"m.{quoted(column.name)} {equals} c.{quoted(column.name)}")
    return " AND ".join(parts)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _settings(
    of: tuple[LakeColumn, ...], settings: Mapping[str, str], properties: Mapping[Property, str]
) -> dict[str, str]:
    mapping = {"delta.columnMapping.mode": "name"} if need_mapping(column.name for column in of) else {}
    return {**settings, **mapping, **{str(key): value for key, value in properties.items()}}


def _properties(properties: Mapping[str, str] | Mapping[Property, str]) -> str:
    pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _escaped(name: str) -> str:
    return "".join(
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) == "-" or (byte == 0x5F and at > 0))
        else f"~{byte:02X}"
        for at, byte in enumerate(name.encode())
    )
