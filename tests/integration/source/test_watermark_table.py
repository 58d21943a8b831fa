"""Watermarks as rows of a signal table: what's written, what hinders it, and that nothing else is written."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.source.preflight import preflight
from actors.source.watermark_table import SignalTable
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import Settings, SignalSettings, Watermark
from pipeline.errors import Definite
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER
from pipeline.source.finding import Severity
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running
from tests.servers.source import connected

SIGNALS = TableId("tidemark", "signals")
COLUMNS = "id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048)"


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """With a table of the shop, and the signal table in a database of its own."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    account = server.create_capture_user("shop")
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        f"INSERT INTO shop.t VALUES {', '.join(f'({key})' for key in range(250))}",
        "CREATE DATABASE tidemark",
        f"CREATE TABLE tidemark.signals ({COLUMNS})",
        f"GRANT SELECT, INSERT ON tidemark.signals TO '{account.user}'@'%'",
        "SET GLOBAL general_log = ON",
    )
    return server


def by_table(server: MysqlServer, folder: Path) -> Settings:
    """The pipeline whose watermarks are rows."""
    settings = pipeline(server, folder, "shop", watermark=Watermark.SIGNAL_TABLE)
    return replace(settings, signals=SignalSettings(table=SIGNALS))


async def test_nothing_is_written_but_two_rows_for_each_select(server: MysqlServer, tmp_path: Path) -> None:
    async with running(by_table(server, tmp_path)) as service:
        await service.begun()
        await service.execute("s", chunk_rows=100)
        await service.completed("s")
        await service.stop()
    rows = server.sql("SELECT id, type, data FROM tidemark.signals")
    assert len({id_ for id_, *_ in rows}) == len(rows)
    kinds = [(kind, data) for _, kind, data in rows]
    for number in (1, 2, 3):
        assert kinds.count((OPEN_MARKER, f"s/shop.t/{number}")) == 1
        assert kinds.count((CLOSE_MARKER, f"s/shop.t/{number}")) == 1
    connections = {c.connection for c in server.logged() if c.kind == "Connect" and "tidemark@" in c.text}
    ours = [c.text for c in server.logged() if c.connection in connections and c.kind in ("Query", "Execute")]
    written = [
        text
        for text in ours
        if not text.lstrip("/*!0123456789 (").startswith(("SELECT", "SHOW", "SET", "EXPLAIN"))
    ]
    inserts = [
        text for text in written if text.startswith("INSERT") and "INTO `tidemark`.`signals` VALUES" in text
    ]
    assert set(written) - set(inserts) == {"START TRANSACTION READ WRITE", "ROLLBACK"}  # what the start tries
    assert len(inserts) == len(rows) + written.count("ROLLBACK")
    assert unequal(server, tmp_path / "journal", TableId("shop", "t")) == []


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        ("REVOKE INSERT ON tidemark.signals FROM 'tidemark'@'%'", "INSERT command denied"),
        ("ALTER TABLE tidemark.signals MODIFY data VARCHAR(20)", "Data too long for column 'data'"),
        ("ALTER TABLE tidemark.signals MODIFY id VARCHAR(20)", "Data too long for column 'id'"),
        ("SET GLOBAL super_read_only = ON", "--read-only option"),
        ("SET GLOBAL binlog_order_commits = OFF", "binlog_order_commits is OFF"),
    ],
)
async def test_what_hinders_it_is_told_by_name_and_nothing_is_left(
    server: MysqlServer, tmp_path: Path, prepare: str, told: str
) -> None:
    settings = by_table(server, tmp_path)
    fit = await preflight(settings)
    fit.raise_errors()
    server.sql(prepare)
    [finding] = [each for each in (await preflight(settings)).findings if each.severity is Severity.ERROR]
    assert told in finding.wrong
    assert server.sql("SELECT COUNT(*) FROM tidemark.signals") == [(0,)]


async def test_a_connection_may_write_a_marker_and_no_more(server: MysqlServer) -> None:
    table = SignalTable(SIGNALS)
    async with connected(server, "shop") as source:
        await table.open(source, "s/shop.t/1")
        marker = await table.close(source, "s/shop.t/1")
        with pytest.raises(Definite, match="READ ONLY transaction"):
            await source.ask(table._row("again", CLOSE_MARKER, ""))
    rows = server.sql("SELECT id, type, data FROM tidemark.signals ORDER BY type DESC")
    assert [(kind, data) for _, kind, data in rows] == [
        (OPEN_MARKER, "s/shop.t/1"),
        (CLOSE_MARKER, "s/shop.t/1"),
    ]
    assert rows[1][0] == marker.id
