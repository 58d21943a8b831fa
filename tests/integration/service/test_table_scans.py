"""Tables without a primary key are read all at once while they're written, on real servers."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.chunk_selector import ChunkSelector
from actors.journal.store import JournalReader
from actors.snapshot import scan_transaction
from actors.snapshot.scan_transaction import TableScan
from actors.source.connection import Source
from deploy.demo.judge import reads_only
from deploy.toolchain.mysql_server import (
    CAPTURE,
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    WITHOUT_GTIDS_56,
    MysqlServer,
)
from pipeline.config.settings import Settings, SignalSettings, Watermark
from pipeline.coordinator.halted import table_scan
from pipeline.messages.signals import SignalRejected
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.verifier import signal_table
from tests.servers.bank import ROWS, TOTAL, open_bank, writing
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running
from tests.servers.source import cut, gives_log, process_list, waits_for_lock

LOG, PEOPLE = TableId("bank", "log"), TableId("bank", "people")
BLOCKING = {"type": "blocking"}

Bag = Counter[tuple[int, int]]


@pytest.fixture
def server(own_mysql: MysqlServer) -> MysqlServer:
    """The bank, as it is before any money has moved."""
    return open_bank(own_mysql)


def bags(journal: Path) -> Iterator[tuple[int, Bag]]:
    """The sum of the changes at the end of each segment from the first scan on, as the lake's query has it."""
    reader = JournalReader(journal)
    bag: Bag | None = None
    for entry in reader.entries(0, reader.last_segment()):
        rows = [row for file in entry.files if file.table == LOG for row in read(reader, entry, file.path)]
        for op, _, _, account, amount in sorted(rows, key=lambda row: row[1:3]):
            if op == "t":
                bag = Counter()
            elif bag is not None:
                bag[account, amount] += -1 if op == "d" else 1
        if bag is not None:
            yield entry.segment, Counter(bag)


def read(reader: JournalReader, entry: Any, path: str) -> Iterator[tuple[Any, ...]]:
    table = pq.read_table(
        reader.file(entry.segment, path), columns=["__op", "__scn", "__ordinal", "account", "amount"]
    )
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


def check(server: MysqlServer, journal: Path) -> None:
    """Each bag since the first scan has the sum, and the last one is the source's table."""
    found = list(bags(journal))
    assert found
    for segment, bag in found:
        assert min(bag.values()) >= 0, segment
        assert sum(amount * count for (_, amount), count in bag.items()) == TOTAL, segment
    ((_, last), source) = found[-1], Counter(server.sql("SELECT account, amount FROM bank.log"))
    assert +last == source


def ops(journal: Path) -> Counter[str]:
    """How many rows of each kind the journal has of the table."""
    reader = JournalReader(journal)
    return Counter(
        row[0]
        for entry in reader.entries(0, reader.last_segment())
        for file in entry.files
        if file.table == LOG
        for row in read(reader, entry, file.path)
    )


async def test_a_table_that_is_written_all_the_time_is_read_as_it_is_at_one_place(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        with writing(server):
            for id_ in ("first", "second"):
                await service.execute(id_, str(LOG), **BLOCKING)
                await service.completed(id_)
        await service.caught_up(server)
        assert service.tables("first")["log"]["rows"] >= ROWS
        assert service.status()["stopped"] == {}
        await service.stop()
    check(server, tmp_path / "journal")
    assert ops(tmp_path / "journal")["t"] == 2
    assert unequal(server, tmp_path / "journal") == []


@pytest.mark.parametrize(
    ("mode", "options"),
    [(Watermark.GTID, GTIDS_56), (Watermark.PAUSE, GTIDS_56), (Watermark.SIGNAL_TABLE, WITHOUT_GTIDS_56)],
)
async def test_the_same_with_mysql_56(
    mysql56_factory: MysqlFactory, tmp_path: Path, mode: Watermark, options: Mapping[str, str]
) -> None:
    server = open_bank(mysql56_factory(options))
    settings = pipeline(server, tmp_path, "bank", watermark=mode)
    if mode is Watermark.SIGNAL_TABLE:
        settings = with_signal_table(server, settings)
    # Without GTIDs the table mustn't change from the order on.
    pause_s = 0.2 if mode is Watermark.SIGNAL_TABLE else 0.01
    async with running(settings) as service:
        await service.begun()
        with writing(server, pause_s):
            await service.execute("s", **BLOCKING)
            await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    check(server, tmp_path / "journal")
    assert unequal(server, tmp_path / "journal", PEOPLE) == []


def with_signal_table(server: MysqlServer, settings: Settings) -> Settings:
    """Settings whose watermarks are rows of a table."""
    table = TableId("tidemark", "signals")
    server.sql("CREATE DATABASE tidemark", signal_table.CREATE_SIGNAL_TABLE.format(table=table))
    server.sql(f"GRANT SELECT, INSERT ON {table} TO '{settings.source.user}'@'%'")
    return replace(settings, signals=SignalSettings(table=table))


async def test_what_was_read_before_a_crash_does_not_count(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace_seal(pipeline(server, tmp_path, "bank"))
    with writing(server):
        reached, _ = hold_after(monkeypatch, 2)
        async with running(settings) as service:
            await service.begun()
            await service.execute("s", str(LOG), **BLOCKING)
            await reached.wait()
            await service.until(lambda: unnamed(tmp_path) > 0, "rows are in a file that no entry names")
        monkeypatch.undo()
        assert ops(tmp_path / "journal")["r"] == 0
        async with running(settings) as service:
            await service.completed("s")
            await service.caught_up(server)
            await service.stop()
    assert ops(tmp_path / "journal")["t"] == 1
    async with running(settings) as service:
        await service.begun()
        await service.caught_up(server)
        await service.stop()
    check(server, tmp_path / "journal")
    assert unnamed(tmp_path) == 0


async def test_a_lost_connection_begins_it_again(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, release = hold_after(monkeypatch, 2)
    async with running(replace_seal(pipeline(server, tmp_path, "bank"))) as service:
        await service.begun()
        with writing(server):
            await service.execute("s", str(LOG), **BLOCKING)
            await reached.wait()
            assert cut(server, lambda connection: not gives_log(connection))
            release()
            await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    check(server, tmp_path / "journal")
    assert ops(tmp_path / "journal")["t"] == 1


async def test_signals_end_it_at_once_and_the_source_is_free(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, release = hold_after(monkeypatch, 2)
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("s", str(LOG), **BLOCKING)
        await reached.wait()
        waits = service.status(Name.CHUNK_SELECTOR)["waits"]
        assert waits.startswith("all rows of bank.log are being read, ")
        waiting = asyncio.create_task(asyncio.to_thread(server.sql, "ALTER TABLE bank.log ADD COLUMN c INT"))
        await service.tell("pause-snapshot", "p")
        await waiting
        release()
        assert service.tables("s")["log"]["state"] == "waiting"
        await service.tell("resume-snapshot", "r")
        await service.completed("s")
        await service.execute("t", str(LOG), **BLOCKING)
        await service.tell("stop-snapshot", "st", str(LOG))
        await service.until(
            lambda: service.tables("t")["log"]["state"] in ("stopped", "completed"), "it ended"
        )
        server.sql("INSERT INTO bank.log VALUES (1, 0, '', 1)")
        await service.caught_up(server)
        await service.stop()
    check(server, tmp_path / "journal")


async def test_a_commit_that_waits_for_an_acknowledgement_keeps_neither_the_stream_nor_signals_nor_a_stop(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has it, and no SELECT sees it (semi-synchronous replication). A scan waits until one does."""
    monkeypatch.setattr(scan_transaction, "VISIBLE_WITHIN_S", 3600.0)
    server = open_bank(mysql_factory({**GTIDS, **FULL_METADATA, "plugin_load_add": "semisync_source.so"}))
    server.sql(
        "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
    )

    def scan() -> asyncio.Task[None] | None:
        selector = service.supervisor.actors[Name.CHUNK_SELECTOR]
        assert isinstance(selector, ChunkSelector)
        return selector._scans

    commits = list[asyncio.Task[object]]()

    async def commit() -> None:
        """A commit that doesn't end. The stream gets it all the same."""
        passed, id_ = service.checkpoint().position, len(commits) + 3
        text = f"INSERT INTO bank.people VALUES ({id_}, 'eve')"
        commits.append(asyncio.create_task(asyncio.to_thread(server.sql, text)))
        await service.until(lambda: service.checkpoint().position != passed, "the stream has it")
        assert not commits[-1].done()

    try:
        async with running(pipeline(server, tmp_path, "bank")) as service:
            await service.begun()
            await service.caught_up(server)
            server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON")
            await commit()
            await service.execute("s", str(LOG), **BLOCKING)
            waiting = await service.until(scan, "it's to be scanned")
            assert waiting is not None
            await commit()
            assert not waiting.done()
            await service.tell("pause-snapshot", "p")
            await service.until(waiting.done, "the scan has ended")
            await service.tell("resume-snapshot", "r")
            waiting = await service.until(scan, "it's to be scanned again")
            assert waiting is not None
            await service.tell("stop-snapshot", "st", str(LOG))
            await service.until(waiting.done, "the scan has ended")
            assert service.tables("s")["log"]["state"] == "stopped"
            await service.execute("t", str(LOG), **BLOCKING)
            await service.until(scan, "another is to be scanned")
            await service.stop()
    finally:
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        await asyncio.gather(*commits)
    assert ops(tmp_path / "journal") == Counter()


async def test_it_reads_no_faster_than_it_may(server: MysqlServer, tmp_path: Path) -> None:
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("s", str(LOG), rows_per_s=200, **BLOCKING)
        busy = await service.until(lambda: service.status().get("busy"), "it waits")
        assert service.tables("s")["log"]["state"] == "waiting"
        assert "200" in str(busy)
        await service.completed("s")
        await service.stop()
    check(server, tmp_path / "journal")


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE bank.log TO bank.log_old, bank.log_new TO bank.log",
        "ALTER TABLE bank.log EXCHANGE PARTITION p1 WITH TABLE bank.log_new",
        "ALTER TABLE bank.log DROP PARTITION p1",
    ],
)
async def test_rows_that_a_statement_brings_are_not_read_before_it_passes(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """It comes after the end of the log that the scan has seen, and before the rows are read: it waits for these.

    Then the changes don't add up to the rows any more, and the table stops.
    """
    server.sql(
        "USE bank",
        "ALTER TABLE log PARTITION BY RANGE (account) (PARTITION p0 VALUES LESS THAN (25), "
        "PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE log_new LIKE log",
        "ALTER TABLE log_new REMOVE PARTITIONING",
        "INSERT INTO log_new VALUES (30, 1, ''), (30, 2, '')",
    )
    altering: list[asyncio.Task[object]] = []
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        read_rows = ChunkSelector._read_scan

        async def late(selector: ChunkSelector, source: Source, scan: TableScan) -> None:
            if not altering:
                task = asyncio.create_task(asyncio.to_thread(server.sql, statement))
                altering.append(task)
                await service.until(lambda: task.done() or blocked(server), "the statement waits, or is over")
            await read_rows(selector, source, scan)

        monkeypatch.setattr(ChunkSelector, "_read_scan", late)
        await service.execute("s", str(LOG), **BLOCKING)
        await service.completed("s")
        await asyncio.gather(*altering)
        await service.caught_up(server)
        assert "without a primary key" in service.status()["stopped"][str(LOG)]
        await service.stop()
    (_, bag), *_ = bags(tmp_path / "journal")
    assert sum(amount * count for (_, amount), count in bag.items()) == TOTAL


async def test_the_server_keeps_a_transaction_for_as_long_as_the_log_takes_to_reach_it(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows, waited = ChunkSelector._read_scan, 0
    server.sql("SET GLOBAL wait_timeout = 1")
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()

        async def late(selector: ChunkSelector, source: Source, scan: TableScan) -> None:
            nonlocal waited
            waited += 1
            await service.until(lambda: idle_s(server) >= 2 or not source.usable, "the server has waited")
            await read_rows(selector, source, scan)

        monkeypatch.setattr(ChunkSelector, "_read_scan", late)
        await service.execute("s", str(LOG), **BLOCKING)
        await service.completed("s")
        await service.stop()
    assert waited == 1


def idle_s(server: MysqlServer) -> int:
    """For how long (s) the sessions of capture have asked nothing, the longest one."""
    told = server.sql("SHOW PROCESSLIST")
    return max(
        (time for _, user, _, _, command, time, *_ in told if (user, command) == (CAPTURE.user, "Sleep")),
        default=0,
    )


def blocked(server: MysqlServer) -> bool:
    """Whether a statement waits for a table that another session has."""
    return any(map(waits_for_lock, process_list(server)))


@pytest.mark.parametrize(
    ("statement", "stops"),
    [
        ("ALTER TABLE log ADD COLUMN c INT NOT NULL DEFAULT 5", True),
        ("ALTER TABLE log MODIFY amount VARCHAR(9) NOT NULL", True),
        ("ALTER TABLE log ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY", True),
        ("ALTER TABLE log ADD COLUMN c INT", False),
        ("ALTER TABLE log ADD INDEX (account)", False),
        ("TRUNCATE TABLE log", False),
    ],
)
async def test_where_changes_do_not_add_up_any_more_the_table_stops_by_name(
    server: MysqlServer, tmp_path: Path, statement: str, *, stops: bool
) -> None:
    settings = pipeline(server, tmp_path, "bank")
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", **BLOCKING)
        await service.completed("s")
        await service.stop()
    server.sql("USE bank", statement, "DELETE FROM log LIMIT 1", "INSERT INTO people VALUES (3, 'eve')")
    async with running(settings) as service:
        await service.begun()
        await service.caught_up(server)
        stopped = service.status()["stopped"]
        assert (["don't add up to its rows" in why for why in stopped.values()] == [True]) is stops
        await service.stop()
    assert unequal(server, tmp_path / "journal", PEOPLE) == []
    if not stops:
        *_, (_, bag) = bags(tmp_path / "journal")
        assert +bag == Counter(server.sql("SELECT account, amount FROM bank.log"))
        return
    async with running(settings) as service:
        await service.begun()
        await service.tell("recapture", "again", str(LOG))
    async with running(settings) as service:
        await service.begun()
        await service.until(lambda: not service.status()["stopped"], "it has begun again")
        await service.stop()


@pytest.mark.parametrize("row_image", ["MINIMAL", "NOBLOB"])
async def test_where_the_log_has_a_part_of_a_row_the_table_stops_by_name(
    server: MysqlServer, tmp_path: Path, row_image: str
) -> None:
    """The log doesn't have what the other columns got, which may be a default."""
    server.sql("ALTER TABLE bank.log MODIFY amount INT DEFAULT 7, MODIFY pad TEXT")
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("s", str(LOG), **BLOCKING)
        await service.completed("s")
        whole = [
            f"SET binlog_row_image = {row_image}",
            "INSERT INTO bank.log VALUES (1, 2, 'x')",
            "UPDATE bank.log SET amount = 3 WHERE pad = 'x'",
            "DELETE FROM bank.log WHERE account = 5 LIMIT 1",
        ]
        server.sql(*whole)
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    *_, (_, bag) = bags(tmp_path / "journal")
    assert +bag == Counter(server.sql("SELECT account, amount FROM bank.log"))
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        server.sql(whole[0], "INSERT INTO bank.log (account) VALUES (1)")
        await service.caught_up(server)
        (why,) = service.status()["stopped"].values()
        assert "set binlog_row_image=FULL" in why and "don't add up to its rows" in why
        await service.stop()


async def test_a_table_that_begins_again_is_scanned_though_nothing_changes_it(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.tell("recapture", "again", str(LOG))
        await service.until(lambda: service.tables("again"), "it has begun again")
        await service.execute("s", str(LOG), **BLOCKING)
        await service.completed("s")
        await service.stop()
    check(server, tmp_path / "journal")


async def test_an_unknown_transaction_may_have_changed_what_was_scanned(
    server: MysqlServer, tmp_path: Path
) -> None:
    """It was prepared before capture began. A table that wasn't scanned goes on: its changes don't add up anyway."""
    server.sql("CREATE TABLE bank.other LIKE bank.log")
    server.sql("XA START 'x'", "INSERT INTO bank.log VALUES (1, 7, '')", "XA END 'x'", "XA PREPARE 'x'")
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("s", str(LOG), str(PEOPLE), **BLOCKING)
        await service.completed("s")
        server.sql("XA COMMIT 'x'")
        await service.caught_up(server)
        [(table, why)] = service.status()["stopped"].items()
        assert table == str(LOG)
        assert "was committed here, and prepared before" in why
        await service.stop()


async def test_a_statement_between_two_scans_and_an_empty_table(server: MysqlServer, tmp_path: Path) -> None:
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("first", str(LOG), **BLOCKING)
        await service.completed("first")
        server.sql("TRUNCATE TABLE bank.log", "INSERT INTO bank.log VALUES (1, 7, 'x'), (1, 7, 'x')")
        await service.execute("second", str(LOG), **BLOCKING)
        await service.completed("second")
        assert service.tables("second")["log"]["rows"] == 2
        server.sql("DELETE FROM bank.log")
        await service.execute("third", str(LOG), **BLOCKING)
        await service.completed("third")
        assert service.tables("third")["log"]["rows"] == 0
        await service.caught_up(server)
        await service.stop()
    *_, (_, last) = bags(tmp_path / "journal")
    assert +last == Counter()


async def test_what_cannot_be_read_is_named(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that changes at each moment, an engine that shows no moment, and a snapshot that isn't blocking."""
    server.sql("CREATE TABLE bank.old (v INT) ENGINE = MyISAM", "INSERT INTO bank.old VALUES (1)")
    monkeypatch.setattr(table_scan, "MOST_TRIES", 5)
    begin = Source.begin

    async def disturbed(source: Source) -> None:
        await asyncio.to_thread(server.sql, "INSERT INTO bank.log VALUES (1, 0, '')")
        await begin(source)

    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        refused = await service.tell("execute-snapshot", "i", str(LOG))
        assert isinstance(refused, SignalRejected)
        assert "has no primary key" in refused.reason
        assert "of the type blocking" in refused.reason
        with monkeypatch.context() as never_quiet:
            never_quiet.setattr(Source, "begin", disturbed)
            await service.execute("s", **BLOCKING)
            await service.until(lambda: has_ended(service, "s"), "it ended")
        states = service.tables("s")
        assert states["people"]["state"] == "completed"
        assert states["log"]["state"] == states["old"]["state"] == "failed"
        assert "transactions changed it at each moment" in states["log"]["reason"]
        assert "(tried 5 times)" in states["log"]["reason"]
        assert "the engine of bank.old is myisam" in states["old"]["reason"]
        server.sql("INSERT INTO bank.old VALUES (2)")
        await service.caught_up(server)
        await service.stop()
    assert ops(tmp_path / "journal") == {"c": 6}
    assert unequal(server, tmp_path / "journal", PEOPLE) == []


async def test_only_reads_reach_the_source(server: MysqlServer, tmp_path: Path) -> None:
    server.sql("SET GLOBAL general_log = ON")
    async with running(pipeline(server, tmp_path, "bank")) as service:
        await service.begun()
        await service.execute("s", str(LOG), **BLOCKING)
        await service.completed("s")
        await service.stop()
    (beside_reads,) = reads_only(server.logged(), CAPTURE).differences
    assert beside_reads == "Query: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


def has_ended(service: Running, id_: str) -> bool:
    """Whether none of a snapshot's tables has anything left to do."""
    tables = service.tables(id_)
    over = {"completed", "failed", "stopped"}
    return bool(tables) and all(each["state"] in over for each in tables.values())


def replace_seal(settings: Settings) -> Settings:
    """Settings whose segments are full early, so that rows are written before their end has come."""
    return replace(settings, journal=replace(settings.journal, seal_mib=1))


def unnamed(folder: Path) -> int:
    """How many files are written that no entry names yet. A folder that gets its name meanwhile is passed over."""
    found = os.walk(folder / "journal" / "segments")
    return sum(len(files) for inside, _, files in found if inside.endswith(".tmp"))


def hold_after(monkeypatch: pytest.MonkeyPatch, nth: int) -> tuple[asyncio.Event, Callable[[], None]]:
    """Hold the nth read of a scan, until the function that's returned is called. The event: it has come to that."""
    reached, opened_again = asyncio.Event(), asyncio.Event()
    read_next = ChunkSelector._next
    count = 0

    async def held(selector: ChunkSelector, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth:
            reached.set()
        if count >= nth:
            await opened_again.wait()
        return await read_next(selector, *arguments)

    monkeypatch.setattr(ChunkSelector, "_next", held)
    return reached, opened_again.set
