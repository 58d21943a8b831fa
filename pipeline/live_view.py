"""The live view: a table in the lake as it was in the source at the last delivered segment, as a query.

It's the mirror without the keys that changed since, and the last of those changes of each key unless that's a delete.
It's right whatever the merges' timing:

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
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import Definite
from pipeline.lake_tables import RANK, SEGMENT, Tier, location, quoted, table_at
from pipeline.schema import TableSchema
from pipeline.types import Date, DateTime, Timestamp

OP, _SCN, _ORDINAL = "__op", "__scn", "__ordinal"


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
    names = listed(c.name for c in schema.columns)
    mirror, changelog = (
        table_at(location(lake, schema.table, tier)) for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    if at is not None:
        mirror, changelog = f"{mirror} VERSION AS OF {at.mirror}", f"{changelog} VERSION AS OF {at.changelog}"
    return f"""WITH c AS (
{last_changes(schema, changelog, reached.condition)}
)
SELECT {names} FROM (SELECT * FROM {mirror}) AS m
WHERE NOT EXISTS (SELECT 1 FROM c WHERE {same_key(schema)})
UNION ALL
SELECT {names} FROM c WHERE {quoted(OP)} <> 'd'"""


def last_changes(schema: TableSchema, changelog: str, where: str) -> str:
    """The query that gives the last change of each key, of those in a changelog for which `where` holds."""
    names, key = listed(c.name for c in schema.columns), listed(schema.key_names)
    order = f"{quoted(_SCN)} DESC, {quoted(_ORDINAL)} DESC"
    return f"""  SELECT {quoted(OP)}, {names} FROM (
    SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS {quoted(RANK)}
    FROM {changelog} WHERE {where}
  ) WHERE {quoted(RANK)} = 1"""


def same_key(schema: TableSchema) -> str:
    """The condition that a row of the mirror, m, and a change, c, have one key."""
    parts = []
    for index in schema.key:
        column = schema.columns[index]
        equals = "<=>" if isinstance(column.type, Date | DateTime | Timestamp) else "="
        parts.append(f"m.{quoted(column.name)} {equals} c.{quoted(column.name)}")
    return " AND ".join(parts)


def listed(names: Iterable[str]) -> str:
    """Names as a list of columns."""
    return ", ".join(map(quoted, names))
