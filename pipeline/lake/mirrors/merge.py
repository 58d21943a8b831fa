"""Brings a mirror to a segment, from the changelog, so that readers see the same before and after.

Whatever has changed of a key since the mirror's segment, its row is what the live view shows
(`pipeline.lake.live_view`), or there is none. So for each changed key the mirror's row goes, and the live view's row
comes if there is one. Of a partial table a row with unknown values goes. It comes back with the complete row that
capture reads again.

Three forms exist:

- If few changes are pending (`Merge.few`), this process gathers them (`actors.lake.files.gathered_changes`), and looks
  for their keys in the mirror's files (`pipeline.lake.mirrors.changed_keys`). `Merge.rows` is the query for the rows
  that come. One transaction of Delta's marks the found rows as deleted and adds the others
  (`actors.lake.delta.delta_table`). A merge reads only the key of the mirror, and each change once.
- `Merge.places` finds the rows of many keys, by a join in Spark. The rest is the same.
- `Merge.statement` is one MERGE, which decides row by row, for a writer that has no such transaction. It reads both
  tables twice, once to find the files that it touches and once to write them. It carries the mirror's complete rows
  through a join.

Most tables are written at one end: rows that change are young, and a new row's key is greater than all before. A first
snapshot writes the mirror's files in the order of keys, and Delta knows the least and the greatest value of each. So a
file without a changed key between the two isn't read, and a merge doesn't get slower with the number of old rows. For
Spark's forms a query first finds the extent of the changed keys (`Merge.extent`), and Spark reads no other keys of the
mirror. This uses those parts of a key that are integers, for which MySQL, Spark and Delta have the same order. A
changed key is always within the extent, whether the mirror has it or not. So the result for every row stays the same.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pipeline.lake.live_view import CHANGED, MIRROR, OP, WHOLE, MirrorPosition, Values, last_changes, same_key
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.columns import SEGMENT, ordered_key
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import quoted, table_at
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId, TableSchema

_M, _C = quoted(MIRROR), quoted(CHANGED)

# The keys of so many changes fit into this process's memory, if all values have a fixed size. A text may have 3,072
# bytes.
FEW_CHANGES: Final = 500_000
FEW_WITH_TEXT: Final = 50_000


@dataclass(frozen=True, slots=True)
class Merge:
    """A mirror goes from where it has `reached` to segment `through`.

    `schema` is the one that the lake tables have taken on; its table has a primary key. `changes`: how many there are,
    None if that isn't known. `bounds`: of parts of the key the least and greatest value in any key that has changed.
    `changelog`: the version of the changelog's log to read, None for the newest. `gathered`: a name for the changes, if
    they are gathered from the changelog.
    """

    lake: str
    schema: TableSchema
    reached: MirrorPosition
    through: int
    changes: int | None = None
    bounds: tuple[tuple[str, object, object], ...] = ()
    changelog: int | None = None
    gathered: str | None = None

    @property
    def few(self) -> bool:
        """Returns whether the changes are few enough to look for their keys without Spark, and of complete rows."""
        types = (self.schema.arrow.field(name).type for name in self.schema.key_names)
        fixed = all(pa.types.is_primitive(each) or pa.types.is_decimal(each) for each in types)
        most = FEW_CHANGES if fixed else FEW_WITH_TEXT
        return self.changes is not None and self.changes <= most and not self.reached.partial

    def extent(self) -> str | None:
        """The query for the row that `within` takes; None if no part of the key has an order."""
        ends = [f"min({name}), max({name})" for name in map(quoted, self.ordered)]
        return f"SELECT {', '.join(ends)} FROM {self._changelog} WHERE {self._where}" if ends else None

    def within(self, extent: Sequence[object]) -> "Merge":
        """Returns the same merge, which reads no other keys of the mirror than may have changed; all keys if none has
        changed."""
        if any(end is None for end in extent):  # `in` looks for a name in a row of Spark's
            return self
        return replace(self, bounds=tuple(zip(self.ordered, extent[::2], extent[1::2], strict=True)))

    def places(self, version: int) -> str:
        """The query for the rows of the mirror, at a version of its log, whose keys have changed.

        `path` is that of a row's file, and `row` its place in it. Spark hashes the changed keys, and passes the mirror
        by them unsorted: sorting it would take more memory than there is.
        """
        return f"""SELECT /*+ SHUFFLE_HASH({_C}) */ {_M}._metadata.file_path AS path, {_M}._metadata.row_index AS row
FROM {self._mirror(version)} AS {_M} LEFT SEMI JOIN (
  SELECT DISTINCT * FROM ({self.keys()})
) AS {_C} ON {self._same}"""

    def keys(self) -> str:
        """The query for the keys that have changed, some of them more than once."""
        key = ", ".join(map(quoted, self.schema.key_names))
        return f"SELECT {key} FROM {self._changelog} WHERE {self._where}"

    def rows(self, version: int) -> str:
        """The query for the rows that these keys have now, over the mirror at a version of its log."""
        changes = last_changes(self.schema, self._changelog, self.reached, self._where)
        if not self.reached.partial:
            names = ", ".join(quoted(column.name) for column in self.schema.columns)
            return f"SELECT {names} FROM (\n{changes}\n) WHERE {quoted(OP)} <> 'd'"
        values, whole = Values(self.schema), f"{_C}.{quoted(WHOLE)}"
        return f"""WITH {_C} AS (
{changes}
)
SELECT {values.listed(values.laid_over)} FROM (SELECT * FROM {self._mirror(version)}) AS {_M} JOIN {_C}
ON {self._same} WHERE {whole} IS NULL
UNION ALL
SELECT {values.listed(values.told)} FROM {_C} WHERE {whole}"""

    def statement(self) -> str:
        """The whole merge as one MERGE."""
        return f"""MERGE INTO {table_at(location(self.lake, self.schema.table, Tier.MIRROR))} AS {_M}
USING (
{last_changes(self.schema, self._changelog, self.reached, self._where)}
) AS {_C}
ON {self._same}
{_clauses(self.schema, self.reached)}"""

    @property
    def ordered(self) -> tuple[str, ...]:
        """Returns the parts of the key that have the same order in Spark."""
        return ordered_key(self.schema)

    @property
    def _same(self) -> str:
        bounds = (f"{_M}.{quoted(name)} BETWEEN {least} AND {most}" for name, least, most in self.bounds)
        return " AND ".join([same_key(self.schema), *bounds])

    @property
    def _changelog(self) -> str:
        whole = Dialect.SPARK.table(self.lake, self.schema.table, Tier.CHANGELOG, self.changelog)
        return self.gathered or whole

    def _mirror(self, version: int) -> str:
        return Dialect.SPARK.table(self.lake, self.schema.table, Tier.MIRROR, version)

    @property
    def _where(self) -> str:
        return f"{self.reached.condition()} AND {quoted(SEGMENT)} <= {self.through}"


def _clauses(schema: TableSchema, reached: MirrorPosition) -> str:
    """What to do with each changed key."""
    if reached.partial:
        values, whole = Values(schema), f"{_C}.{quoted(WHOLE)}"
        return f"""WHEN MATCHED AND NOT {whole} THEN DELETE
WHEN MATCHED THEN UPDATE SET {_assignments(values.laid_over)}
WHEN NOT MATCHED AND {whole} THEN INSERT {_insertion(values.told)}"""
    of_change = {column.name: f"{_C}.{quoted(column.name)}" for column in schema.columns}
    return f"""WHEN MATCHED AND {_C}.{quoted(OP)} = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {_assignments(of_change)}
WHEN NOT MATCHED AND {_C}.{quoted(OP)} <> 'd' THEN INSERT {_insertion(of_change)}"""


def _assignments(values: dict[str, str]) -> str:
    return ", ".join(f"{quoted(name)} = {value}" for name, value in values.items())


def _insertion(values: dict[str, str]) -> str:
    return f"({', '.join(map(quoted, values))}) VALUES ({', '.join(values.values())})"


def pending_sql(lake: str, table: TableId, reached: MirrorPosition) -> str:
    """The query that counts the changes that the mirror hasn't merged."""
    changelog = Dialect.SPARK.table(lake, table, Tier.CHANGELOG)
    return f"SELECT count(*) FROM {changelog} WHERE {reached.condition()}"
