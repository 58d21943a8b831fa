"""Servers without GTIDs: positions are coordinates in their logs, and watermarks rows of the signal table."""

import random
import threading
from collections import defaultdict
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalReader
from actors.runtime.supervisor import ExitCode
from actors.source import gtid_history
from actors.source.connection import Source
from actors.source.preflight import UnfitSource, preflight
from actors.source.watermark_table import SignalTable
from deploy.toolchain.mysql_server import WITHOUT_GTIDS, WITHOUT_GTIDS_56, MysqlServer
from pipeline.config.settings import Settings, SignalSettings, SnapshotMode, Watermark
from pipeline.gtid import file_positions
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.watermark import OPEN_MARKER
from pipeline.source.finding import Severity
from tests.servers.at_work import at_work
from tests.servers.executed import executed
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running

T, OTHERS = TableId("shop", "t"), TableId("shop", "others")
SIGNALS = TableId("tidemark", "signals")
COLUMNS = "id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048)"


@pytest.fixture(params=["9.7", "5.6"])
def server(request: pytest.FixtureRequest) -> MysqlServer:
    """With a table of the shop, and the signal table."""
    factory: MysqlFactory
    if request.param == "5.6":
        factory = request.getfixturevalue("mysql56_factory")
        server = factory(WITHOUT_GTIDS_56)
    else:
        factory = request.getfixturevalue("mysql_factory")
        server = factory(WITHOUT_GTIDS)
    return stocked(server)


def stocked(server: MysqlServer) -> MysqlServer:
    """The same with its tables."""
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO shop.t VALUES {', '.join(f'({key}, 0)' for key in range(ROWS))}",
        "CREATE TABLE shop.others (id BIGINT PRIMARY KEY)",
        "CREATE TABLE shop.idle (id BIGINT PRIMARY KEY)",
        "CREATE DATABASE tidemark",
        f"CREATE TABLE tidemark.signals ({COLUMNS})",
    )
    return server


def settings(server: MysqlServer, folder: Path, **snapshot: Any) -> Settings:
    """Capture by the signal table."""
    made = pipeline(server, folder, "shop", **{"watermark": Watermark.SIGNAL_TABLE, **snapshot})
    server.sql(f"GRANT SELECT, INSERT ON tidemark.signals TO '{made.source.user}'@'%'")
    return replace(made, signals=SignalSettings(table=SIGNALS))


ROWS = 250
WRITERS = 3
_names = count()


def _files(folder: Path) -> set[int]:
    """The numbers of the log's files that the journal's positions are in."""
    ends = (file_positions.first_missing(entry.checkpoint.position) for entry in entries(folder / "journal"))
    return {file_positions.file_and_offset(end)[0] for end in ends}


def write(server: MysqlServer, seed: int, stop: threading.Event) -> None:
    """Writes transactions of all kinds, until it's stopped; each change of a row makes its `v` larger by one."""
    random_ = random.Random(seed)
    with closing(server.connect(database="shop")) as connection, connection.cursor() as cursor:
        while not stop.wait(0.004):
            low = random_.randrange(ROWS)
            change = f"UPDATE t SET v = v + 1 WHERE id = {low}"
            match random_.randrange(8):
                case 0:  # it waits between its phases, and others pass it
                    name = f"'w{seed}-{next(_names)}'"
                    cursor.execute(f"XA START {name}")
                    cursor.execute(change)
                    cursor.execute(f"XA END {name}")
                    cursor.execute(f"XA PREPARE {name}")
                    with closing(server.connect()) as other, other.cursor() as elsewhere:
                        for _ in range(random_.randrange(20)):
                            elsewhere.execute(f"INSERT INTO shop.others VALUES ({random_.randrange(2**60)})")
                    cursor.execute(f"XA {random_.choice(('COMMIT', 'ROLLBACK'))} {name}")
                case 1:
                    cursor.execute(
                        f"UPDATE t SET v = v + 1 WHERE id BETWEEN {low} AND {low + 40} ORDER BY id"
                    )
                case 2 if random_.random() < 0.2:
                    cursor.execute("FLUSH BINARY LOGS")
                case 3 if random_.random() < 0.2:
                    cursor.execute("ALTER TABLE idle COMMENT = 'altered'")
                case _:
                    cursor.execute("BEGIN")
                    cursor.execute(change)
                    cursor.execute(random_.choice(("COMMIT", "COMMIT", "ROLLBACK")))


def writing(server: MysqlServer) -> AbstractContextManager[object]:
    """Some writers at work."""
    return at_work([partial(write, server, seed) for seed in range(WRITERS)])


@pytest.mark.parametrize("server", ["9.7", pytest.param("5.6", marks=pytest.mark.full)], indirect=True)
async def test_each_change_comes_once_through_rotations_xa_transactions_statements_and_crashes(
    server: MysqlServer, tmp_path: Path
) -> None:
    made = settings(server, tmp_path)
    async with running(made) as service:  # before any preparation of one that's committed after its beginning
        await service.begun()
    with writing(server):
        for segments in (1, 15, 30, 45):
            async with running(made) as service:
                await service.begun()
                server.sql("FLUSH BINARY LOGS")
                if segments == 1:
                    await service.execute("s")
                await service.until(
                    lambda: service.status(Name.JOURNAL_WRITER).get("segment", 0) >= segments,  # noqa: B023
                    "more segments",
                )
                await service.drop()
    async with running(made) as service:
        await service.caught_up(server)
        await service.completed("s")
        await service.stop()
    assert unequal(server, tmp_path / "journal", T, OTHERS) == []
    versions: dict[Any, list[int]] = defaultdict(list)
    for change in replay(tmp_path / "journal", T, since=0).changes:
        versions[change.key].append(int(change.row["v"]))
    for key, had in versions.items():
        assert had == list(range(had[0], had[0] + len(had))), f"{key}: {had}"
    assert len(_files(tmp_path)) > 1, "the log wasn't rotated"


async def test_what_gtids_forbid_is_followed(server: MysqlServer, tmp_path: Path) -> None:
    """Tables that are made and filled, temporary tables, and two engines, each in one transaction."""
    async with running(settings(server, tmp_path)) as service:
        await service.begun()
        server.sql(
            "CREATE TABLE copy (PRIMARY KEY (id)) SELECT id, v FROM t",
            "CREATE TABLE plain (id INT PRIMARY KEY) ENGINE = MyISAM",
            *("BEGIN", "INSERT INTO copy VALUES (1000, 1)", "INSERT INTO plain VALUES (1)", "ROLLBACK"),
            *("BEGIN", "INSERT INTO copy VALUES (1001, 1)", "CREATE TEMPORARY TABLE tmp (id INT)"),
            *("DROP TEMPORARY TABLE tmp", "INSERT INTO copy VALUES (1002, 1)", "COMMIT"),
            "CREATE TEMPORARY TABLE tmp (id INT)",
            database="shop",
        )
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    copy, plain = TableId("shop", "copy"), TableId("shop", "plain")
    assert unequal(server, tmp_path / "journal", copy, plain) == []
    assert len(replay(tmp_path / "journal", copy).changes) == ROWS + 2


async def test_its_transactions_have_no_names_in_the_lake(server: MysqlServer, tmp_path: Path) -> None:
    async with running(settings(server, tmp_path)) as service:
        await service.begun()
        server.sql("UPDATE shop.t SET v = v + 1 WHERE id < 5")
        await service.caught_up(server)
        await service.stop()
    reader = JournalReader(tmp_path / "journal")
    names = [
        name
        for entry in entries(tmp_path / "journal")
        for file in entry.files
        for name in pq.read_table(reader.path(entry, file))["__gtid"].to_pylist()
    ]
    assert names == [None] * 5


async def test_other_watermarks_are_refused_with_what_to_do(server: MysqlServer, tmp_path: Path) -> None:
    for watermark in (Watermark.GTID, Watermark.PAUSE):
        found = await preflight(settings(server, tmp_path, watermark=watermark))
        with pytest.raises(UnfitSource, match=r"gtid_mode is OFF .* or set snapshot\.watermark"):
            found.raise_errors()
    found = await preflight(settings(server, tmp_path, mode=SnapshotMode.CONSISTENT))
    with pytest.raises(UnfitSource, match="a consistent snapshot needs GTIDs"):
        found.raise_errors()


async def test_what_it_costs_is_a_note(server: MysqlServer, tmp_path: Path) -> None:
    found = await preflight(settings(server, tmp_path))
    assert not [each for each in found.findings if each.severity is Severity.ERROR]
    assert any("capture can't continue at another server" in each.wrong for each in found.findings)
    assert found.known.at <= executed(server)


async def test_a_row_is_written_behind_the_end_of_the_log_that_is_said(
    server: MysqlServer, tmp_path: Path
) -> None:
    source = await Source.connect(settings(server, tmp_path).source)
    try:
        before = executed(server)
        assert await gtid_history.visible_transactions(source, SignalTable(SIGNALS)) == before
        assert server.sql("SELECT type FROM tidemark.signals") == [(OPEN_MARKER,)]
        assert before <= executed(server) != before
        assert await gtid_history.purged_transactions(source, by_coordinates=True) <= before
    finally:
        source.close()


async def test_another_server_is_refused_by_name(
    server: MysqlServer, mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    async with running(settings(server, tmp_path)) as service:
        await service.begun()
        await service.stop()
    other = stocked(mysql_factory(WITHOUT_GTIDS))
    async with running(settings(other, tmp_path)) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert f"the source is the server {other.uuid}" in outcome.message
    assert f"in the log of {server.uuid}" in outcome.message


@pytest.mark.parametrize("mode", [SnapshotMode.NO_DATA, SnapshotMode.WHEN_NEEDED])
async def test_a_purged_log_is_told_or_everything_begins_anew(
    server: MysqlServer, tmp_path: Path, mode: SnapshotMode
) -> None:
    async with running(settings(server, tmp_path)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        await service.stop()
    server.sql("UPDATE shop.t SET v = v + 1", "FLUSH BINARY LOGS", "UPDATE shop.t SET v = v + 1")
    server.purge_binlogs()
    async with running(settings(server, tmp_path, mode=mode)) as service:
        if mode is SnapshotMode.NO_DATA:
            outcome = await service.end()
            assert outcome.code is ExitCode.DEFINITE
            assert "the binlog that we need was purged" in str(outcome.message)
            return
        await service.until(lambda: service.status().get("snapshots"), "the snapshots")
        [anew] = [s["id"] for s in service.status()["snapshots"] if s["id"].startswith("anew-")]
        await service.completed(anew)
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", T) == []


@pytest.mark.parametrize("grown", [False, True])
async def test_a_log_that_was_begun_anew_is_told(server: MysqlServer, tmp_path: Path, grown: bool) -> None:
    """Also where it's as long again, unless by chance an event ends just where one did."""
    async with running(settings(server, tmp_path)) as service:
        await service.begun()
        server.sql("UPDATE shop.t SET v = v + 1")
        await service.caught_up(server)
        await service.stop()
    [(version,)] = server.sql("SELECT VERSION()")
    server.sql("RESET MASTER" if version.startswith("5.") else "RESET BINARY LOGS AND GTIDS")
    if grown:
        server.sql("CREATE TABLE shop.wide (id INT PRIMARY KEY, v LONGBLOB)")
        server.sql("INSERT INTO shop.wide VALUES (1, REPEAT('x', 1000000))")
    async with running(settings(server, tmp_path)) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert (
        ("binary log" in outcome.message or "binlog" in outcome.message)
        if grown
        else "RESET MASTER" in outcome.message
    )
