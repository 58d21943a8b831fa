"""The statements that create and alter the lake's tables."""

from collections.abc import Mapping

from pipeline.lake.tables.columns import META_COLUMNS, META_COMMENTS, LakeColumn
from pipeline.lake.tables.properties import MAPPING, Property, need_mapping, properties_of
from pipeline.lake.tables.spark_sql import literal, quoted, table_at
from pipeline.lake.tables.tier import Tier


def create_sql(path: str, tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    """Returns the statement that creates a lake table if there is none.

    It takes a log without a version, as a kill may leave it, for a table.
    """
    described = ", ".join(
        f"{quoted(c.name)} {c.type}"
        + (f" COMMENT {literal(META_COMMENTS[c.name])}" if c in META_COLUMNS else "")
        for c in of
    )
    return f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({described}) USING delta {_settings(tier, of, properties)}"


def begin_sql(
    path: str,
    tier: Tier,
    of: tuple[LakeColumn, ...],
    properties: Mapping[str, str],
    rows: str | None = None,
) -> str:
    """Returns the statement that replaces whatever exists by a lake table with these columns, and a query's rows or
    none.

    Delta executes only the form with a query at most once for an application's transaction.
    """
    if rows is None:
        nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in of)
        rows = f"SELECT {nothing} WHERE false"
    return f"CREATE OR REPLACE TABLE {table_at(path)} USING delta {_settings(tier, of, properties)} AS {rows}"


def _settings(tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    mapping = {MAPPING: "name"} if need_mapping(column.name for column in of) else {}
    return _properties(properties_of(tier, {**mapping, **properties}))


def set_properties_sql(path: str, properties: Mapping[str, str]) -> str:
    """Returns the statement that sets table properties."""
    return f"ALTER TABLE {table_at(path)} SET {_properties(properties)}"


def _properties(properties: Mapping[str, str]) -> str:
    if (about := properties.get(Property.ABOUT)) is not None:
        properties = {**properties, "comment": about}  # Delta's description of the table
    pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"
