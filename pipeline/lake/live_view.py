"""The live view: a table in the lake as it was in the source at the last delivered segment, as a query.

It's the mirror without the keys that changed since, and the last of those changes of each key unless that's a delete.
It's right whatever the merges' timing:

- Let the mirror hold all changes through segment m, and the changelog those through n >= m. A key that didn't change
  in (m, n] has in the mirror what the source had at n. A key that did has in the changelog its whole last row, for
  changes carry whole rows and are in the order of the source's commits (`__scn`, then `__ordinal`).
- Counting changes from a segment before m does no harm: the last change of a key is the same one.
- While a snapshot fills a mirror nothing is merged (m = 0), and every change counts. A chunk's row stands there as the
  source had it at the chunk's place in the stream. A last change before that place is equal to it, since the chunk saw
  it; one after that place is newer, and wins. A row deleted after its chunk has a last change `d`; one deleted before
  isn't in the chunk. When all chunks have come, the changes through a segment are merged into it (`filled_sql`), and
  only then readers get it: so it's a state of the source.
- A mirror has *generations*. Each begins empty behind an SCN: what was said of the table up to there no longer tells
  what its rows are. Changes up to there don't count for it, neither here nor in a merge, and all of the above holds
  for those behind it.

**Readers and generations.** A text is run at any time, and an engine may read the two tables in any order. Let a text
be of generation g. That it's right, or fails, needs this of the lake (`actors.lake.lake`):

1. Each version of the mirror that readers may have holds a column, its *pin*, whose name only that generation has; it
   comes and goes in the commits that bring and take that generation's rows. A text that reads a mirror with its pin
   reads rows of g, which are complete.
2. The changelog has a pin too. It's changed to that of a later generation g' before the changelog gets any change
   behind g'. A text that reads a changelog with its pin reads no change that isn't g's.
3. A text looks for the pin of g in both tables, whatever they have when it's printed. So one that finds it reads a
   mirror of g, and changes of g: what is shown above. Any other one fails.
4. Before a generation is filled beside the mirror, all changes of the segments before it are merged into the mirror,
   which is *frozen* then. A text printed from then on reads the mirror alone, and is bound to its pin: it shows the
   source at the end of the last of these segments. What the changelog's columns become meanwhile doesn't concern it.

A query that's bound to versions of the tables that belong together needs no pins.

**Constants.** A mirror that owes columns (`pipeline.lake.tables.Constant`) is the one of the table without these, and a
text of it doesn't name them. So all of the above holds for it. It's written again as of a segment n, in its own
generation (`filled_sql`). A key that has no change up to n had its row before the columns came, so that it has their
constants. A change of a segment before a column's has the constant as well, and a later one has what it says. What's
written is the whole table as of n. A text of before is still right: for the columns that it names, that's a merge.

Rows that tell what was (`b`), or that the table was emptied (`t`), change no key and are passed over.

**Partial rows.** Where the source logs less than whole rows, changes lack columns (`__absent`), and a *partial* table
is merged column by column. Of the changes of a key that count, let the *base* be the last one that isn't an update
which lacks columns: a whole row, a delete, or an insert that lacks some.

- The base is a whole row. Behind it are only updates which lack columns, and none is a delete. So each column has the
  value of the last change that has it, which is found at the base or behind it.
- There's no base. Then all changes that count are updates which lack columns, of a row that was there before and stays.
  A column that one of them has is as the last such one says; any other is as in the mirror. A column of the mirror may
  be later than m says (a chunk's, or counting began too early): then the last change that has the column is either
  later still, or the one that gave the mirror its value.
- The base is a delete, or an insert that lacks columns. Then the key has no row, or one of which some value was never
  told; it isn't shown, since a NULL would be a guess. Capture reads such a row again, which comes as a whole one (`r`).

The same goes for a key without a base that has no row in the mirror. So what's shown doesn't depend on what was merged:
`pipeline.lake.merge` keeps a row in the mirror, removes it or leaves it out by the same three cases.

Keys are compared for equality of their bytes and never for order, so any collation will do. A part of a key that may
be null here (a zero date has no other form) is compared so that null equals null.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import Definite
from pipeline.lake.sql_dialects import Dialect
from pipeline.lake.tables import (
    CHANGED,
    MIRROR,
    PIN_TYPE,
    RANK,
    SEGMENT,
    WHOLE,
    Constant,
    Property,
    TableReport,
    Tier,
    spark_type,
    table_at,
    without_constants,
)
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.column_types import Date, DateTime, Timestamp

OP = "__op"
_SCN, _ORDINAL, _ABSENT = "__scn", "__ordinal", "__absent"


@dataclass(frozen=True, slots=True)
class MirrorPosition:
    """Where a mirror is: its generation, and a segment whose changes it has all merged.

    `partial`: whether its changelog has ever had rows that lack columns. `pin`: the column that texts are bound to,
    None where there's none yet. `frozen`: whether another generation is being filled, so that the mirror is all that's
    to be seen.
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
        """What holds for the changes that count beside it, in SQL."""
        segment, scn, op = map(dialect.name_of, (SEGMENT, _SCN, OP))
        return f"{segment} > {self.merged} AND {scn} > {self.generation} AND {op} NOT IN ('b', 't')"


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions (of Delta's log) of the two tables that a query is to read."""

    mirror: int
    changelog: int


def check_complete(mirror: TableReport, table: TableId) -> None:
    """Raise Definite where a mirror has never been complete, so that there's no live view of it yet."""
    if mirror.first:
        raise Definite(
            f"the first snapshot of {table} isn't in the lake yet: its live view is there as soon as that's complete"
        )


def live_view_sql(
    lake: str,
    schema: TableSchema,
    reached: MirrorPosition,
    at: Versions | None = None,
    dialect: Dialect = Dialect.SPARK,
) -> str:
    """The query that gives a table's rows as of the last delivered segment, or as of where a rebuild began.

    The text stays right while merges go on, only it reads more changes than it had to. It fails once the mirror has
    another generation, since a column that it's bound to is gone then. A new one is needed as well when the table's
    columns change, and when it becomes partial. Without `at` both tables are read at their newest, the mirror first, so
    that it isn't ahead of the changelog. Raises Definite for a table without a primary key.
    """
    if not schema.key:
        raise Definite(f"{schema.table} has no primary key: it has a changelog and no live view")
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
    """The query, in Spark's SQL, for the mirror of a generation that's filled: its rows as of the segment `through`.

    `reached` is its position, with the pin that it gets. `filled`: the path of the table that has its rows, without
    `constants`. `at`: the versions to be read of that and of the changelog.
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
    """The changelog whose rows of before a column came have its constant."""
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


def sum_sql(lake: str, schema: TableSchema, dialect: Dialect = Dialect.SPARK) -> str:
    """The query for the rows of a table without a key, by its changes since it was last emptied: each distinct row,
    and how often it's there (`__rows`).
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
    """The query for what has become of each key, by those rows of a changelog for which `where` holds.

    It has the last change's `__op` and columns. Of a partial table it has the key, WHOLE, and of each other column an
    array of the value that was told last, null where there was none.
    """
    key = ", ".join(map(dialect.name_of, schema.key_names))
    scn, ordinal, op, absent = map(dialect.name_of, (_SCN, _ORDINAL, OP, _ABSENT))
    if reached.partial:
        last = f"({scn}, {ordinal})"
        wholes = (
            f"max_by({op} <> 'd' AND {absent} IS NULL, {last}) FILTER (WHERE {op} <> 'u' OR {absent} IS NULL)"
        )
        told = [f"{wholes} AS {dialect.name_of(WHOLE)}"]
        for column in schema.columns:
            if column.name not in schema.key_names:
                name = dialect.name_of(column.name)
                there = f"{absent} IS NULL OR NOT {dialect.has(absent, column.name)}"
                told.append(f"max_by({dialect.array(name)}, {last}) FILTER (WHERE {there}) AS {name}")
        listed = ",\n    ".join([key, *told])
        return f"  SELECT {listed}\n  FROM {changelog} WHERE {where} GROUP BY {key}"
    names, rank = ", ".join(dialect.name_of(c.name) for c in schema.columns), dialect.name_of(RANK)
    return f"""  SELECT {op}, {names} FROM (
    SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {scn} DESC, {ordinal} DESC) AS {rank}
    FROM {changelog} WHERE {where}
  ) WHERE {rank} = 1"""


@dataclass(frozen=True, slots=True)
class Values:
    """A row's values by the name of their column, in SQL, out of `last_changes` of a partial table."""

    schema: TableSchema
    dialect: Dialect = Dialect.SPARK

    @property
    def told(self) -> dict[str, str]:
        """Of a key whose changes leave a whole row."""
        return {name: self._told(name) for name in self._names}

    @property
    def laid_over(self) -> dict[str, str]:
        """Of a key whose changes leave the mirror's row with other values; and of one without any change."""
        mirror = {name: self._of(MIRROR, name) for name in self._names}
        return {
            name: value
            if name in self.schema.key_names
            else f"CASE WHEN {self._of(CHANGED, name)} IS NULL THEN {value} ELSE {self._told(name)} END"
            for name, value in mirror.items()
        }

    def listed(self, values: Mapping[str, str]) -> str:
        """Values as the columns of a query."""
        return ", ".join(f"{value} AS {self.dialect.name_of(name)}" for name, value in values.items())

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.schema.columns]

    def _told(self, name: str) -> str:
        column = self._of(CHANGED, name)
        return column if name in self.schema.key_names else self.dialect.only(column)

    def _of(self, table: str, name: str) -> str:
        return f"{self.dialect.name_of(table)}.{self.dialect.name_of(name)}"


def same_key(schema: TableSchema, dialect: Dialect = Dialect.SPARK) -> str:
    """The condition that a row of the mirror and a change have one key."""
    parts, (m, c) = [], map(dialect.name_of, (MIRROR, CHANGED))
    for index in schema.key:
        column = schema.columns[index]
        equals = "IS NOT DISTINCT FROM" if isinstance(column.type, Date | DateTime | Timestamp) else "="
        name = dialect.name_of(column.name)
        parts.append(f"{m}.{name} {equals} {c}.{name}")
    return " AND ".join(parts)
