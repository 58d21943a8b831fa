"""The SQL of the engines that read the lake, as far as they differ in what the live view needs.

Spark and DuckDB read a Delta table by its path. Trino reads what its catalog knows: a table's changelog and mirror are
registered once, as `<table>_changelog` and `<table>_mirror` in the schema that is named after the database
(`registration`). Trino's names have only small letters, so `Orders` would be the same as `orders`. A name with other
letters is written in small ones, followed by a digest.

Sources: Spark SQL reference (Identifiers, Literals), DuckDB: Delta extension (`delta_scan`), Trino: Delta Lake
connector (`register_table`, time travel).
"""

from enum import StrEnum
from hashlib import sha256

from pipeline.lake.tables import Tier, literal, location, quoted, table_at
from pipeline.schema.table_schema import TableId

# The default name of Trino's catalog.
TRINO_CATALOG = "delta"


class Dialect(StrEnum):
    """An engine's SQL."""

    SPARK = "spark"
    DUCKDB = "duckdb"
    TRINO = "trino"

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
                return f"delta_scan({self.text(path)}{'' if version is None else f', version := {version}'})"
            case Dialect.TRINO:
                known = ".".join(map(self.name_of, (TRINO_CATALOG, *_in_trino(table, tier))))
                return known + ("" if version is None else f" FOR VERSION AS OF {version}")

    def has(self, names: str, name: str) -> str:
        """Returns the condition that the array of texts `names` contains this one."""
        has = "contains" if self is Dialect.TRINO else "array_contains"
        return f"{has}({names}, {self.text(name)})"

    def array(self, value: str) -> str:
        """Returns an array of this one value."""
        return f"array({value})" if self is Dialect.SPARK else f"ARRAY[{value}]"

    def only(self, array: str) -> str:
        """Returns the value in an array of one."""
        return f"{array}[{0 if self is Dialect.SPARK else 1}]"


def registration(lake: str, table: TableId) -> tuple[str, ...]:
    """Returns the statements that register the two lake tables of a table in Trino, once."""
    trino = Dialect.TRINO
    return tuple(
        f"CALL {trino.name_of(TRINO_CATALOG)}.system.register_table(schema_name => {trino.text(database)}, "
        f"table_name => {trino.text(name)}, table_location => {trino.text(location(lake, table, tier))})"
        for tier in Tier
        for database, name in [_in_trino(table, tier)]
    )


def _in_trino(table: TableId, tier: Tier) -> tuple[str, str]:
    """Returns a lake table's schema and its name in Trino."""
    return _small(table.database), f"{_small(table.name)}_{tier}"


def _small(name: str) -> str:
    small = name.lower()
    return name if name == small else f"{small}_{sha256(name.encode()).hexdigest()[:8]}"
