"""The live view: a query that returns a table as it was in the source at the last delivered segment.

It returns the mirror's rows without the keys that changed since, and the last change of each such key unless that is a
delete. It is right at any time, whatever was merged.

**Symbols.** m: the segment through which the mirror has merged all changes. n >= m: the last segment of the changelog.
A change has its place in the order of the source's commits (`__scn`, then `__ordinal`).

**Proof** for a mirror that is complete:

1. A key that no change touched in (m, n] has in the mirror what the source had at n.
2. A key that a change touched in (m, n] has its complete last row in the changelog, because changes have complete rows.
3. Counting changes from a segment before m does no harm: the last change of a key stays the same.

**While a snapshot fills a mirror** nothing is merged (m = 0), and every change counts. A chunk's row is the source's
row at the chunk's place in the stream. A last change before that place equals it, because the chunk saw it. A last
change after that place is newer, and wins. A row that was deleted after its chunk has a last change `d`. One that was
deleted before isn't in the chunk. When all chunks have come, the changes through a segment are merged into them
(`filled_sql`). Only then readers get the mirror. So they always see a state of the source.

**A generation** of a mirror begins empty after an SCN. Changes up to that SCN don't count for it, here or in a merge,
because they no longer tell what its rows are. All of the above holds for the changes after that SCN.

**Readers and generations.** A text may run at any time, and an engine may read the two tables in any order. Let g be
the generation of a text. The text is right, or fails, because the lake (`actors.lake.lake`) ensures four things:

1. Each version of the mirror that readers may see has a column, its *pin*, whose name only that generation has. The pin
   comes and goes in the commits that bring and remove the generation's rows. So a text that finds its pin in the mirror
   reads complete rows of g.
2. The changelog has a pin too. It becomes the pin of a later generation g' before the changelog gets any change after
   g'. So a text that finds its pin in the changelog reads no change that isn't g's.
3. A text looks for the pin of g in both tables, whatever they had when it was printed. If it finds both, it reads a
   mirror of g and changes of g, as above. Otherwise it fails.
4. Before a generation is filled beside the mirror, all changes of the segments before it are merged into the mirror. If
   some of these wait for columns of the mirror (`belong_together`), only those before the columns are. Then the mirror
   is *frozen*. A text printed from then on reads only the mirror, and is bound to its pin. It returns the source at the
   end of the last of these segments. Later columns of the changelog don't concern it.

A query that is bound to versions of the tables that belong together needs no pins.

**Constants.** A mirror that owes columns (`pipeline.lake.tables.report.Constant`) is the mirror of the table without
these columns. A text of it doesn't name them, so all of the above holds. The mirror is written again as of a segment n,
in its own generation (`filled_sql`). A key without a change up to n had its row before the columns came, so it has
their constants. A change of a segment before a column's segment has the constant too. A later change has its own value.
So the result is the complete table as of n. An earlier text stays right: for the columns that it names, this is a
merge.

Rows for the image before an update (`b`) and for an emptied table (`t`) change no key. The view skips them.

**Partial rows.** If the source logs incomplete rows, changes lack columns (`__absent`), and a *partial* table is merged
column by column. Of the changes of a key that count, the *base* is the last one that isn't an update which lacks
columns. It is a complete row, a delete, or an insert which lacks some.

1. The base is a complete row. After it come only updates which lack columns, and no delete. So each column has the
   value of the last change that has it, at the base or after it.
2. There is no base. Then all changes that count are updates which lack columns, of a row that existed before and stays.
   A column that one of them has is as the last such change says. Any other is as in the mirror. A column of the mirror
   may be later than m (from a chunk, or because counting began too early). Then the last change that has the column is
   either still later, or the one that gave the mirror its value.
3. The base is a delete, or an insert which lacks columns. Then the key has no row, or a row with an unknown value. The
   view leaves it out, because a NULL would be a guess. Capture reads such a row again, and it comes as a complete one
   (`r`).

A key without a base that has no row in the mirror is left out too. So the result doesn't depend on what was merged:
`pipeline.lake.mirrors.merge` keeps a row in the mirror, removes it or leaves it out by the same three cases.

Keys are compared for equality of their bytes, never for order, so any collation works. A part of a key that may be null
here (a zero date has no other form) is compared so that null equals null.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.errors import Definite
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.columns import PIN_TYPE, SEGMENT
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.report import Constant, TableReport, without_constants
from pipeline.lake.tables.spark_sql import spark_type, table_at
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.column_types import Date, DateTime, Double, Float, Timestamp

# Names in our queries. MySQL refuses a name that ends with a space, so no table and no column has one of these. MIRROR
# and CHANGED: a table's mirror, and the last state of its changed keys. RANK: the place of a change among those of its
# key; the last one has 1. WHOLE: in a table whose changes may lack columns, what they leave of a row: null, the
# mirror's row with other values in some columns; true, a complete row; false, no row that could be shown.
MIRROR, CHANGED, RANK, WHOLE = "mirror ", "changed ", "rank ", "whole "

OP = "__op"
_SCN, _ORDINAL, _ABSENT = "__scn", "__ordinal", "__absent"


@dataclass(frozen=True, slots=True)
class MirrorPosition:
    """Where a mirror is: its generation, and a segment whose changes it has all merged.

    `partial`: whether its changelog has ever had rows that lack columns. `pin`: the column that texts are bound to,
    None if it has none yet. `frozen`: whether another generation is being filled, so that readers see only the mirror.
    """

    generation: int = 0
    merged: int = 0
    partial: bool = False
    pin: str | None = None
    frozen: bool = False

    @staticmethod
    def from_reports(mirror: TableReport, changelog: TableReport) -> "MirrorPosition":
        """Returns where a mirror is, by the reports of the two tables."""
        return MirrorPosition(
            mirror.generation,
            mirror.merged,
            Property.PARTIAL in changelog.properties,
            mirror.pin,
            mirror.frozen,
        )

    def condition(self, dialect: Dialect = Dialect.SPARK) -> str:
        """Returns the SQL condition for the changes that count in addition to the mirror."""
        segment, scn, op = map(dialect.name_of, (SEGMENT, _SCN, OP))
        return f"{segment} > {self.merged} AND {scn} > {self.generation} AND {op} NOT IN ('b', 't')"


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions (of Delta's log) of the two tables that a query is to read; without a mirror, of the changelog."""

    mirror: int | None
    changelog: int

    def or_later(self, other: "Versions | None") -> "Versions":
        """Of each table the later version. The mirror's isn't ahead then either, as long as neither pair's is."""
        if other is None:
            return self
        mirrors = [version for version in (self.mirror, other.mirror) if version is not None]
        return Versions(max(mirrors, default=None), max(self.changelog, other.changelog))


# Why a table can't be read at two versions.
LACKS_CHANGES: Final = (
    "at these versions the live view of {table} lacks changes, which came after columns that its mirror doesn't have; "
    "read later versions, which have them"
)

# Why nothing can be read of a table; `what` is the table, or names it by its place.
STOPPED_EMPTY: Final = "{what} was stopped before the lake had anything of it: {reason}"

# Why a table has no live view.
NO_KEY: Final = "has no primary key: it has a changelog and no live view"


def check_complete(mirror: TableReport, table: TableId) -> None:
    """Raises Definite if a mirror has never been complete, so that it has no live view yet."""
    if mirror.first:
        raise Definite(
            f"the first snapshot of {table} isn't in the lake yet: it has a live view as soon as that is complete"
        )


def belong_together(mirrored: TableReport, changelog: TableReport) -> bool:
    """Returns whether a live view may read these versions of the two tables together.

    The changelog gets new columns before the mirror does. Until the mirror has them, only an earlier version of the
    changelog means the same by a column's name. A frozen mirror is read alone.
    """
    return mirrored.frozen or not (changelog.since > mirrored.since or changelog.altering)


def live_view_sql(
    lake: str,
    schema: TableSchema,
    reached: MirrorPosition,
    at: Versions | None = None,
    dialect: Dialect = Dialect.SPARK,
) -> str:
    """Returns the query for a table's rows as of the last delivered segment, or as of the segment where a rebuild
    began.

    The text stays right while merges run. It only reads more changes than it has to. It fails once the mirror has
    another generation, because the column that it is bound to is gone. Print it again too when the table's columns
    change, or when it becomes partial. Without `at` it reads the newest versions, the mirror first, so that the mirror
    isn't ahead of the changelog. Raises Definite for a table without a primary key.
    """
    if not schema.key:
        raise Definite(f"{schema.table} {NO_KEY}")
    pin = None if at else reached.pin
    mirror = dialect.table(lake, schema.table, Tier.MIRROR, at.mirror if at else None)
    mirror += _bound(" WHERE", pin, dialect)
    if reached.frozen:
        return f"SELECT {_names(schema, dialect)} FROM {mirror}"
    changelog = dialect.table(lake, schema.table, Tier.CHANGELOG, at.changelog if at else None)
    where = f"{reached.condition(dialect)}{_bound(' AND', pin, dialect)}"
    return _laid_over(
        schema, mirror, last_changes(schema, changelog, reached, where, dialect), reached, dialect
    )


def filled_sql(
    lake: str,
    schema: TableSchema,
    reached: MirrorPosition,
    through: int,
    filled: str,
    constants: tuple[Constant, ...] = (),
    at: Versions | None = None,
) -> str:
    """Returns the query, in Spark's SQL, for a generation that was filled: its rows as of the segment `through`.

    `reached`: its position, with the pin that it gets. `filled`: the path of the table that has its rows, without
    `constants`. `at`: the versions to read of that table and of the changelog.
    """
    spark = Dialect.SPARK
    assert reached.pin is not None
    has = _names(without_constants(schema, constants), spark)
    types = {field.name: spark_type(field.type) for field in schema.arrow}
    owed = "".join(f", {each.sql(types[each.name])} AS {spark.name_of(each.name)}" for each in constants)
    version = "" if at is None else f" VERSION AS OF {at.mirror}"
    mirror = f"(SELECT {has}{owed} FROM {table_at(filled)}{version})"
    rows = f"SELECT {_names(schema, spark)} FROM {mirror}"
    if schema.key:
        changelog = spark.table(lake, schema.table, Tier.CHANGELOG, at.changelog if at else None)
        changelog = _with_constants(changelog, schema, constants, types)
        where = f"{reached.condition()} AND {spark.name_of(SEGMENT)} <= {through}"
        changes = last_changes(schema, changelog, reached, where)
        rows = _laid_over(schema, mirror, changes, reached, spark)
    return f"SELECT *, CAST(NULL AS {PIN_TYPE}) AS {spark.name_of(reached.pin)} FROM (\n{rows}\n)"


def _with_constants(
    changelog: str, schema: TableSchema, constants: tuple[Constant, ...], types: Mapping[str, str]
) -> str:
    """Returns the changelog in which rows from before a column came have its constant."""
    if not constants:
        return changelog
    spark = Dialect.SPARK
    names = [spark.name_of(name) for name in (SEGMENT, _SCN, _ORDINAL, OP, _ABSENT)]
    of = {each.name: each for each in constants}
    for column in schema.columns:
        name, constant = spark.name_of(column.name), of.get(column.name)
        if constant is not None:
            value = constant.sql(types[column.name])
            name = f"CASE WHEN {names[0]} < {constant.segment} THEN {value} ELSE {name} END AS {name}"
        names.append(name)
    return f"(SELECT {', '.join(names)} FROM {changelog})"


def _laid_over(
    schema: TableSchema, mirror: str, changes: str, reached: MirrorPosition, dialect: Dialect
) -> str:
    same, (m, c) = same_key(schema, dialect), map(dialect.name_of, (MIRROR, CHANGED))
    mirror = f"(SELECT * FROM {mirror}) AS {m}"
    if reached.partial:
        values, whole = Values(schema, dialect), f"{c}.{dialect.name_of(WHOLE)}"
        return f"""WITH {c} AS (
{changes}
)
SELECT {values.listed(values.laid_over)} FROM {mirror} LEFT JOIN {c} ON {same}
WHERE {whole} IS NULL
UNION ALL
SELECT {values.listed(values.told)} FROM {c} WHERE {whole}"""
    names = _names(schema, dialect)
    return f"""WITH {c} AS (
{changes}
)
SELECT {names} FROM {mirror}
WHERE NOT EXISTS (SELECT 1 FROM {c} WHERE {same})
UNION ALL
SELECT {names} FROM {c} WHERE {dialect.name_of(OP)} <> 'd'"""


def sum_sql(lake: str, schema: TableSchema, dialect: Dialect) -> str:
    """Returns the query for the rows of a table without a key: each distinct row, and how often it exists (`__rows`).

    It sums the changes since the table was last emptied, or read all at once. Without either it's the sum since
    capture began.
    """
    changelog = dialect.table(lake, schema.table, Tier.CHANGELOG)
    scn, op = map(dialect.name_of, (_SCN, OP))
    names = ", ".join(dialect.name_of(column.name) for column in schema.columns)
    rows = f"sum(CASE WHEN {op} = 'd' THEN -1 ELSE 1 END)"
    return f"""SELECT {names}, {rows} AS {dialect.name_of("__rows")} FROM {changelog}
WHERE {op} IN ('c', 'd', 'r') AND {scn} > (SELECT coalesce(max({scn}), 0) FROM {changelog} WHERE {op} = 't')
GROUP BY {names}
HAVING {rows} <> 0"""


def _names(schema: TableSchema, dialect: Dialect) -> str:
    return ", ".join(dialect.name_of(column.name) for column in schema.columns)


def _bound(word: str, pin: str | None, dialect: Dialect) -> str:
    return "" if pin is None else f"{word} {dialect.name_of(pin)} IS NULL"


def last_changes(
    schema: TableSchema, changelog: str, reached: MirrorPosition, where: str, dialect: Dialect = Dialect.SPARK
) -> str:
    """Returns the query for the last state of each key, by those rows of a changelog for which `where` holds.

    It has the last change's `__op` and columns. For a partial table it has the key and WHOLE. For each other column it
    has an array with the last known value, null if there was none. A group of equal keys may have zeros with both
    signs, and Spark gives all of them the plus sign: so a FLOAT or a DOUBLE of the key is that of the last change.
    """
    key = ", ".join(map(dialect.name_of, schema.key_names))
    scn, ordinal, op, absent = map(dialect.name_of, (_SCN, _ORDINAL, OP, _ABSENT))
    if reached.partial:
        order, signed = (scn, ordinal), signed_keys(schema)
        wholes = dialect.last(f"{op} <> 'd' AND {absent} IS NULL", order, f"{op} <> 'u' OR {absent} IS NULL")
        told = [f"{wholes} AS {dialect.name_of(WHOLE)}"]
        for column in schema.columns:
            if column.name not in schema.key_names:
                name = dialect.name_of(column.name)
                there = f"{absent} IS NULL OR NOT {dialect.has(absent, column.name)}"
                told.append(f"{dialect.last(dialect.array(name), order, there)} AS {name}")
        keys = [
            f"{dialect.last(named, order, 'true')} AS {named}" if name in signed else named
            for name, named in zip(schema.key_names, map(dialect.name_of, schema.key_names), strict=True)
        ]
        listed = ",\n    ".join([", ".join(keys), *told])
        return f"  SELECT {listed}\n  FROM {changelog} WHERE {where} GROUP BY {key}"
    names, rank = ", ".join(dialect.name_of(c.name) for c in schema.columns), dialect.name_of(RANK)
    return f"""  SELECT {op}, {names} FROM (
    SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {scn} DESC, {ordinal} DESC) AS {rank}
    FROM {changelog} WHERE {where}
  ) WHERE {rank} = 1"""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a row in SQL, by the name of their column, from `last_changes` of a partial table."""

    schema: TableSchema
    dialect: Dialect = Dialect.SPARK

    @property
    def told(self) -> dict[str, str]:
        """Returns the values of a key whose changes result in a complete row."""
        return {name: self._told(name) for name in self._names}

    @property
    def laid_over(self) -> dict[str, str]:
        """Returns the values of a key whose changes modify the mirror's row, or which has no change."""
        mirror = {name: self._of(MIRROR, name) for name in self._names}
        mirror |= {
            name: f"coalesce({self._of(CHANGED, name)}, {mirror[name]})" for name in signed_keys(self.schema)
        }
        return {
            name: value
            if name in self.schema.key_names
            else f"CASE WHEN {self._of(CHANGED, name)} IS NULL THEN {value} ELSE {self._told(name)} END"
            for name, value in mirror.items()
        }

    def listed(self, values: Mapping[str, str]) -> str:
        """Returns values as the columns of a query."""
        return ", ".join(f"{value} AS {self.dialect.name_of(name)}" for name, value in values.items())

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.schema.columns]

    def _told(self, name: str) -> str:
        column = self._of(CHANGED, name)
        return column if name in self.schema.key_names else self.dialect.only(column)

    def _of(self, table: str, name: str) -> str:
        return f"{self.dialect.name_of(table)}.{self.dialect.name_of(name)}"


def signed_keys(schema: TableSchema) -> tuple[str, ...]:
    """Returns the columns of the key in which two equal values may differ: zeros have a sign."""
    return tuple(column.name for column in schema.key_columns if isinstance(column.type, Float | Double))


def same_key(schema: TableSchema, dialect: Dialect = Dialect.SPARK) -> str:
    """Returns the condition that a row of the mirror and a change have the same key."""
    parts, (m, c) = [], map(dialect.name_of, (MIRROR, CHANGED))
    for column in schema.key_columns:
        name = dialect.name_of(column.name)
        if isinstance(column.type, Date | DateTime | Timestamp):
            # DataFusion takes a whole AND for the second side, unless there are parentheses.
            parts.append(f"({m}.{name} IS NOT DISTINCT FROM {c}.{name})")
        else:
            parts.append(f"{m}.{name} = {c}.{name}")
    return " AND ".join(parts)
