"""The judge of a lake: what another engine than Spark reads in it, by the rules of the journal's judge."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from actors.service.live_view_text import live_view_text
from deploy.demo.writer import Line
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.journal.change_rows import META
from pipeline.lake.sql_dialects import Dialect
from pipeline.lake.tables import Tier, location
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.forms import rows_of
from tests.servers.journal_oracle import Change, primary_key, unequal_view, untrue_changes

_ORDER: Final = "__scn, __ordinal"


def unequal_lake(server: MysqlServer, lake: str, *tables: TableId, key: Sequence[str] = ()) -> list[str]:
    """Where the live views aren't the source's tables; `key`: the columns of their key, if it isn't the primary one."""
    return [
        text
        for table in tables
        for text in unequal_view(server, table, _read(live_view_text(lake, str(table), Dialect.DUCKDB)), key)
    ]


def untrue_lake(server: MysqlServer, lake: str, tally: Sequence[Line], *tables: TableId) -> list[str]:
    """Where the changelogs aren't just what the demo's writer committed, once each and in order."""
    return [text for table in tables for text in untrue_changes(table, _changes(server, lake, table), tally)]


def _changes(server: MysqlServer, lake: str, table: TableId) -> list[Change]:
    key, path = primary_key(server, table), location(lake, table, Tier.CHANGELOG)
    rows = _read(f"SELECT * FROM delta_scan('file://{path}') ORDER BY {_ORDER}")
    return [_change(key, row) for row in rows]


def _change(key: Sequence[str], row: dict[str, Any]) -> Change:
    meta = {name: row.pop(name) for name in META.names}
    return Change(
        meta["__op"],
        meta["__scn"],
        meta["__ordinal"],
        meta["__segment"],
        tuple(row[name] for name in key),
        row,
        gtid=meta["__gtid"],
    )


def _read(query: str) -> list[dict[str, Any]]:
    with closing(engine()) as connection:
        return rows_of(connection.sql(query).to_arrow_table())
