"""The judge of a lake: what another engine than Spark reads in it, by the rules of the journal's judge."""

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from actors.service.live_view_text import live_view_text
from deploy.demo.writer import Line
from deploy.oracle.changes import tally_of, untrue_changes, written
from deploy.oracle.forms import forms
from deploy.oracle.source import primary_key, source_table
from deploy.oracle.tables import unequal_rows
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine


def unequal_lake(server: MysqlServer, lake: str, *tables: TableId, key: Sequence[str] = ()) -> list[str]:
    """Where the live views aren't the source's tables; `key`: the columns of their key, if it isn't the primary one."""
    return [
        text
        for table in tables
        for text in unequal_view(server, table, _read(live_view_text(lake, str(table), Dialect.DUCKDB)), key)
    ]


def unequal_view(server: MysqlServer, table: TableId, rows: pa.Table, key: Sequence[str] = ()) -> list[str]:
    """Where a live view's rows aren't the source's; `key`: the columns of its key, where that isn't the primary one."""
    key = key or primary_key(server, table)
    return unequal_rows(str(table), forms(rows), source_table(server, table), key)


def untrue_lake(server: MysqlServer, lake: str, tally: Sequence[Line], *tables: TableId) -> list[str]:
    """Where the changelogs aren't just what the demo's writer committed, once each and in order."""
    found: list[str] = []
    for table in tables:
        changes = _read(f"SELECT * FROM delta_scan('file://{location(lake, table, Tier.CHANGELOG)}')")
        of_writer = changes.filter(~pc.field("__op").isin(["b", "r", "t"]))
        told = written(of_writer, primary_key(server, table))
        found += untrue_changes(str(table), told, tally_of(table, tally))
    return found


def _read(query: str) -> pa.Table:
    with closing(engine()) as connection:
        return connection.sql(query).to_arrow_table()
