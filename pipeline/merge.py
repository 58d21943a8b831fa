"""MERGE: the statement that brings a mirror up to a segment, out of the changelog."""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from pipeline.lake_tables import SEGMENT, Tier, location, quoted, table_at
from pipeline.live_view import OP, Reached, last_changes, listed, same_key
from pipeline.schema import TableId, TableSchema


def merge_sql(lake: str, schema: TableSchema, reached: Reached, through: int) -> str:
    """The statement that brings the mirror from where it is to segment `through`.

    `schema` is the one that the lake tables have taken on; its table has a primary key.
    """
    names = [c.name for c in schema.columns]
    assignments = ", ".join(f"m.{quoted(name)} = c.{quoted(name)}" for name in names)
    inserted, values = listed(names), ", ".join(f"c.{quoted(name)}" for name in names)
    changelog = table_at(location(lake, schema.table, Tier.CHANGELOG))
    return f"""MERGE INTO {table_at(location(lake, schema.table, Tier.MIRROR))} AS m
USING (
{last_changes(schema, changelog, f"{reached.condition} AND {quoted(SEGMENT)} <= {through}")}
) AS c
ON {same_key(schema)}
WHEN MATCHED AND c.{quoted(OP)} = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND c.{quoted(OP)} <> 'd' THEN INSERT ({inserted}) VALUES ({values})"""


def pending_sql(lake: str, table: TableId, reached: Reached) -> str:
    """The query that counts the changes that the mirror hasn't merged."""
    changelog = table_at(location(lake, table, Tier.CHANGELOG))
    return f"SELECT count(*) FROM {changelog} WHERE {reached.condition}"
