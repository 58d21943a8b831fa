"""MERGE: the statement that brings a mirror up to a segment, out of the changelog.

It does to the mirror's rows what the live view does to those that it shows (`pipeline.live_view`), so that what's seen
is the same before and after. A row of a partial table that isn't whole is removed, and comes back with the whole row
that capture reads again.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from pipeline.dialects import Dialect
from pipeline.lake_tables import SEGMENT, WHOLE, Tier, location, quoted, table_at
from pipeline.live_view import OP, Reached, Values, last_changes, same_key
from pipeline.schema import TableId, TableSchema


def merge_sql(lake: str, schema: TableSchema, reached: Reached, through: int) -> str:
    """The statement that brings the mirror from where it is to segment `through`.

    `schema` is the one that the lake tables have taken on; its table has a primary key.
    """
    changelog = Dialect.SPARK.table(lake, schema.table, Tier.CHANGELOG)
    where = f"{reached.condition()} AND {quoted(SEGMENT)} <= {through}"
    return f"""MERGE INTO {table_at(location(lake, schema.table, Tier.MIRROR))} AS m
USING (
{last_changes(schema, changelog, reached, where)}
) AS c
ON {same_key(schema)}
{_clauses(schema, reached)}"""


def _clauses(schema: TableSchema, reached: Reached) -> str:
    """What to do with each key that changed."""
    if reached.partial:
        values, whole = Values(schema), f"c.{quoted(WHOLE)}"
        return f"""WHEN MATCHED AND NOT {whole} THEN DELETE
WHEN MATCHED THEN UPDATE SET {_assigned(values.laid_over)}
WHEN NOT MATCHED AND {whole} THEN INSERT {_inserted(values.told)}"""
    of_change = {column.name: f"c.{quoted(column.name)}" for column in schema.columns}
    return f"""WHEN MATCHED AND c.{quoted(OP)} = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {_assigned(of_change)}
WHEN NOT MATCHED AND c.{quoted(OP)} <> 'd' THEN INSERT {_inserted(of_change)}"""


def _assigned(values: dict[str, str]) -> str:
    return ", ".join(f"{quoted(name)} = {value}" for name, value in values.items())


def _inserted(values: dict[str, str]) -> str:
    return f"({', '.join(map(quoted, values))}) VALUES ({', '.join(values.values())})"


def pending_sql(lake: str, table: TableId, reached: Reached) -> str:
    """The query that counts the changes that the mirror hasn't merged."""
    changelog = Dialect.SPARK.table(lake, table, Tier.CHANGELOG)
    return f"SELECT count(*) FROM {changelog} WHERE {reached.condition()}"
