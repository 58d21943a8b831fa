"""DuckDB with its own reader of Delta tables, without any network."""

from pathlib import Path

import duckdb
import duckdb_extension_delta


def engine() -> duckdb.DuckDBPyConnection:
    """A DuckDB in this process, in UTC."""
    folder = Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.execute(f"LOAD '{folder / 'delta.duckdb_extension'}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection
