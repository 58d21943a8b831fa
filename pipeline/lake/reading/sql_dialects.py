"""The SQL of the engines that read the lake, as far as they differ in what the live view needs.

Spark and DuckDB read a Delta table by its path. Trino reads what its catalog knows. A table's changelog and mirror are
registered once, as `<table>_changelog` and `<table>_mirror` in the schema that is named after the database
(`registration`). Trino's names have only small letters, so `Orders` would be the same as `orders`. A name with other
letters is written in small ones, followed by a digest. delta-rs reads what a program has registered in its
`QueryBuilder`, under any name: `"shop.orders.mirror"` (`registration`). Its SQL is DataFusion's.

Sources: Spark SQL reference (Identifiers, Literals), DuckDB: Delta extension (`delta_scan`), Trino: Delta Lake
connector (`register_table`, time travel), delta-rs: Querying (`QueryBuilder`), DataFusion: SQL reference.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

from pipeline.errors import Definite
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import literal, quoted, table_at
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# The default name of Trino's catalog.
TRINO_CATALOG = "delta"


class Dialect(StrEnum):
    """An engine's SQL."""

    SPARK = "spark"
    DUCKDB = "duckdb"
    TRINO = "trino"
    DELTA_RS = "delta-rs"

    def name_of(self, name: str) -> str:
        """Returns a name as an identifier."""
        return quoted(name) if self is Dialect.SPARK else '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """Returns a text as a literal."""
        return literal(value) if self is Dialect.SPARK else "'" + value.replace("'", "''") + "'"

    def table(self, lake: str, table: TableId, tier: Tier, version: int | None = None) -> str:
        """Returns a lake table at its newest version, or at this version of Delta's log."""
        path = location(lake, table, tier)
        match self:
            case Dialect.SPARK:
                return table_at(path) + ("" if version is None else f" VERSION AS OF {version}")
            case Dialect.DUCKDB:
                # By the name that Hadoop gives to S3 DuckDB finds no secret of S3.
                known = self.text(re.sub(r"^s3a://", "s3://", path))
                return f"delta_scan({known}{'' if version is None else f', version := {version}'})"
            case Dialect.TRINO:
                known = ".".join(map(self.name_of, (TRINO_CATALOG, *_in_trino(table, tier))))
                return known + ("" if version is None else f" FOR VERSION AS OF {version}")
            case Dialect.DELTA_RS:  # the program registers it at that version
                return self.name_of(f"{table}.{tier}")

    def has(self, names: str, name: str) -> str:
        """Returns the condition that the array of texts `names` contains this one."""
        match self:
            case Dialect.TRINO:
                has = "contains"
            case Dialect.DELTA_RS:
                has = "array_has"
            case _:
                has = "array_contains"
        return f"{has}({names}, {self.text(name)})"

    def array(self, value: str) -> str:
        """Returns an array of this one value."""
        return f"array({value})" if self is Dialect.SPARK else f"ARRAY[{value}]"

    def only(self, array: str) -> str:
        """Returns the value in an array of one."""
        return f"{array}[{0 if self is Dialect.SPARK else 1}]"

    def last(self, value: str, order: tuple[str, ...], where: str) -> str:
        """Returns the value of the last row, by these columns, of those rows of a group for which `where` holds."""
        if self is Dialect.DELTA_RS:
            return f"last_value({value} ORDER BY {', '.join(order)}) FILTER (WHERE {where})"
        return f"max_by({value}, ({', '.join(order)})) FILTER (WHERE {where})"


def registration(lake: str, table: TableId, tiers: Iterable[Tier] = Tier) -> tuple[str, ...]:
    """Returns the statements that register the lake tables of a table in Trino, once."""
    trino = Dialect.TRINO
    return tuple(
        f"CALL {trino.name_of(TRINO_CATALOG)}.system.register_table(schema_name => {trino.text(database)}, "
        f"table_name => {trino.text(name)}, table_location => {trino.text(location(lake, table, tier))})"
        for tier in tiers
        for database, name in [_in_trino(table, tier)]
    )


def registered_tables(
    lake: str, table: TableId, tiers: Iterable[Tier], versions: Mapping[Tier, int | None]
) -> tuple[str, ...]:
    """Returns the calls in Python that register lake tables in the QueryBuilder of delta-rs, before each query."""
    calls = []
    for tier in tiers:
        version = versions.get(tier)
        at = "" if version is None else f", version={version}"
        name = Dialect.DELTA_RS.table(lake, table, tier)
        calls.append(f"register({name!r}, DeltaTable({location(lake, table, tier)!r}{at}))")
    return tuple(calls)


def view_sql(table: TableId, query: str, dialect: Dialect) -> tuple[str, str]:
    """Returns the statements that create the schema of a table's database, and in it the view of this query.

    Raises Definite if the engine can't have a view of that name.
    """
    if dialect is Dialect.DELTA_RS:
        raise Definite("delta-rs keeps no views: take the queries of tidemark sql")
    if dialect is Dialect.SPARK and not is_catalog_name(table):
        raise Definite(
            f"{table} can't have a view, since names in Spark's catalogs have only letters, digits and _ of ASCII"
        )
    names = [table.database, table.name]
    if dialect is Dialect.TRINO:
        names = [TRINO_CATALOG, *map(_small, names)]
    schema, view = (".".join(map(dialect.name_of, part)) for part in (names[:-1], names))
    return f"CREATE SCHEMA IF NOT EXISTS {schema}", f"CREATE OR REPLACE VIEW {view} AS\n{query}"


def is_catalog_name(table: TableId) -> bool:
    """Returns whether each of Spark's catalogs takes the names of a table and of its database."""
    return all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in (table.database, table.name))


def _in_trino(table: TableId, tier: Tier) -> tuple[str, str]:
    """Returns a lake table's schema and its name in Trino."""
    return _small(table.database), f"{_small(table.name)}_{tier}"


def _small(name: str) -> str:
    small = name.lower()
    return name if name == small else f"{small}_{sha256(name.encode()).hexdigest()[:8]}"
