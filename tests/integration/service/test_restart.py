"""Signals to a service, and its work, outlive it."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.chunk_selector import ChunkSelector
from actors.journal.store import JournalReader, JournalStore
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import Settings
from pipeline.errors import Definite
from pipeline.journal.entry import SealedChunk
from pipeline.messages.chunks import ReadChunk
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import Chunking
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

# Rows of a table that has twenty chunks, the last one half full.
ROWS = 1_950
CHUNK_ROWS = 100
TABLE = TableId("shop", "t")
# How many chunks of each of four ranges are read before the crash.
CHUNKS_OF_RANGE = (3, 0, 1, 2)


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """A server that writes down all that it's asked, with a table on it."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    rows = ", ".join(f"({key}, 0)" for key in range(1, ROWS + 1))
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",  # by its estimate it's divided
        "SET GLOBAL general_log = ON",
    )
    return server


@pytest.fixture
def settings(server: MysqlServer, tmp_path: Path) -> Settings:
    """All of a table is one range."""
    return pipeline(server, tmp_path, "shop", ranges=1)


class Orders:
    """The ordered chunks, by where each begins; `stop_at` of them are read, and the next one never is.

    `most` says the same of single ranges, by their numbers: so many chunks of it are read.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after: list[Key | None] = []
        self.of_range: dict[int, list[Key | None]] = defaultdict(list)
        self.stop_at: int | None = None
        self.most: dict[int, int] = {}
        original = ChunkSelector.select

        async def select(selector: ChunkSelector, source: Any, order: ReadChunk) -> Any:
            self.after.append(order.after)
            self.of_range[order.range].append(order.after)
            enough = len(self.of_range[order.range]) > self.most.get(order.range, ROWS)
            if enough or len(self.after) == self.stop_at:
                await asyncio.Event().wait()
            return await original(selector, source, order)

        monkeypatch.setattr(ChunkSelector, "select", select)

    def forget(self) -> None:
        """As at the start."""
        self.after.clear()
        self.of_range.clear()
        self.most.clear()
        self.stop_at = None


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(monkeypatch)


def sealed_chunks(settings: Settings) -> list[SealedChunk]:
    """The chunks in the journal."""
    return [chunk for entry in entries(Path(settings.journal.path)) for chunk in entry.chunks]


def chunk_selects(server: MysqlServer) -> int:
    """How many chunks' SELECTs have reached the server."""
    ours = [command.text for command in server.logged() if command.kind == "Execute"]
    return sum(text.startswith("SELECT `id`, `v`") and "FROM `shop`.`t`" in text for text in ours)


async def test_a_restart_goes_on_behind_the_keys_that_are_done(
    server: MysqlServer, settings: Settings, orders: Orders, tmp_path: Path
) -> None:
    orders.stop_at = 8
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: len(sealed_chunks(settings)) == 7, "seven chunks are sealed")
    assert chunk_selects(server) == 7
    orders.forget()
    server.sql("UPDATE shop.t SET v = 1 WHERE id % 7 = 0")
    async with running(settings) as service:
        await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    assert orders.after == [(done,) for done in range(700, ROWS, 100)]
    assert chunk_selects(server) == 20
    assert unequal(server, tmp_path / "journal", TABLE) == []


@pytest.mark.usefixtures("small_ranges")
async def test_each_range_goes_on_by_itself(
    server: MysqlServer, settings: Settings, orders: Orders, tmp_path: Path
) -> None:
    settings = replace(
        settings, snapshot=replace(settings.snapshot, ranges=4, windows=8, connections=len(CHUNKS_OF_RANGE))
    )
    orders.most = dict(enumerate(CHUNKS_OF_RANGE))
    read = sum(CHUNKS_OF_RANGE)
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: len(sealed_chunks(settings)) == read, "they are sealed")
    (snapshot,) = entries(tmp_path / "journal")[-1].checkpoint.snapshots
    state = snapshot.tables[TABLE]
    assert isinstance(state, Chunking)
    done = {each.number: each.done for each in state.ranges}
    begun_at = {number: after[0] for number, after in orders.of_range.items()}
    assert [number for number in done if done[number] == begun_at[number]] == [CHUNKS_OF_RANGE.index(0)]
    orders.forget()
    server.sql("UPDATE shop.t SET v = 1 WHERE id % 7 = 0")
    async with running(settings) as service:
        await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    assert {number: after[0] for number, after in orders.of_range.items()} == done
    asked = [chunk for after in orders.of_range.values() for chunk in after]
    assert len(set(asked)) == len(asked)
    assert chunk_selects(server) == read + len(asked)
    assert unequal(server, tmp_path / "journal", TABLE) == []


async def test_a_signal_is_taken_once_and_so_for_ever(server: MysqlServer, settings: Settings) -> None:
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.completed("s")
        again = await service.tell("execute-snapshot", "s", ".*")
        assert again == SignalAccepted(
            "s", "a signal with this id has been taken before; nothing was done again"
        )
        await service.stop()
    selects = chunk_selects(server)
    async with running(settings) as service:
        await service.begun()
        assert await service.tell("execute-snapshot", "s", ".*") == again
        await service.stop()
    assert chunk_selects(server) == selects == 20


async def test_a_paused_snapshot_stays_paused_over_a_restart(
    server: MysqlServer, settings: Settings, orders: Orders, tmp_path: Path
) -> None:
    orders.stop_at = 5
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: len(orders.after) == 5, "the fifth chunk is asked for")
        assert isinstance(await service.tell("pause-snapshot", "p"), SignalAccepted)
    orders.forget()
    async with running(settings) as service:
        await service.begun()
        assert service.status()["paused"]
        # It orders these at its start, before it takes the first change.
        server.sql("UPDATE shop.t SET v = 2 WHERE id = 1")
        await service.caught_up(server)
        assert service.tables("s")["t"]["state"] == "chunking"
        assert orders.after == []
        assert isinstance(await service.tell("resume-snapshot", "r"), SignalAccepted)
        await service.completed("s")
        await service.stop()
    assert orders.after[0] == (400,)
    assert unequal(server, tmp_path / "journal", TABLE) == []


async def test_a_stopped_snapshot_does_not_come_back(settings: Settings, orders: Orders) -> None:
    orders.stop_at = 5
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: len(orders.after) == 5, "the fifth chunk is asked for")
        stopped = await service.tell("stop-snapshot", "stop", r"shop\.t")
        assert stopped == SignalAccepted("stop", "stopped the snapshot of shop.t")
        assert service.tables("s")["t"]["state"] == "stopped"
    orders.forget()
    async with running(settings) as service:
        await service.begun()
        again = await service.tell("stop-snapshot", "again", r"shop\.t")
        assert again == SignalRejected("again", r"no snapshot of shop\.t is under way")
        assert orders.after == []
        await service.stop()


async def test_a_second_instance_on_the_same_journal_is_refused(settings: Settings) -> None:
    async with running(settings) as service:
        await service.begun()
        with pytest.raises(Definite, match=r"is being written to by process .* stop that one first"):
            JournalStore.open_single_writer(Path(settings.journal.path), settings.name)
        await service.stop()


async def test_a_log_that_was_purged_before_the_first_start_is_none_to_go_on_from(
    server: MysqlServer, settings: Settings, tmp_path: Path
) -> None:
    server.purge_binlogs()
    assert server.sql("SELECT @@GLOBAL.gtid_purged") != [("",)]
    async with running(settings) as service:
        await service.begun()
        server.sql("UPDATE shop.t SET v = 1 WHERE id = 1")
        await service.caught_up(server)
    async with running(settings) as service:
        server.sql("UPDATE shop.t SET v = 2 WHERE id = 1")
        await service.begun()
        await service.caught_up(server)
        await service.stop()
    changes = replay(tmp_path / "journal", TABLE).changes
    assert [change.row["v"] for change in changes] == [1, 2]


async def test_a_start_has_consumers_compare_their_output_with_where_the_journal_ended(
    server: MysqlServer, settings: Settings
) -> None:
    async def changed(service: Running, v: int) -> int:
        await service.begun()
        server.sql(f"UPDATE shop.t SET v = {v} WHERE id = 1")
        await service.caught_up(server)
        return await service.sealed()

    async with running(settings) as service:
        ended = await changed(service, 1)
        await service.stop()
    consumers = JournalReader(settings.journal.path).consumers
    consumers.record_progress("lake", 0)
    consumers.checked("lake")  # as the sink does, which has found it empty
    for v in (2, 3):  # no lake is there to compare, so what the first start has found counts
        async with running(settings) as service:
            assert await changed(service, v) > ended
            assert JournalReader(settings.journal.path).consumers.all()["lake"].unchecked_end == ended
            await service.stop()
