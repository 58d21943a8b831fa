"""Chunks from a replica: on two real servers, of which one applies what the other's 24 writers do."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
import structlog

from actors import chunk_selector
from actors.snapshot.replica_watermarks import ReplicaWatermarks
from actors.source.connection import Source
from actors.source.errors import SourceUnready
from deploy.demo import shop
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.errors import Backoff, Definite, Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    RepairRows,
    ReselectRows,
    SourceOverloaded,
    SourceRecovered,
)
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.snapshot import ChunkId
from tests.integration.source.test_group_commit import counting, logged, prepare
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.journal_oracle import unequal, untrue
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import caught_up, replicated
from tests.servers.selector import Bench, bench
from tests.servers.service import pipeline, running
from tests.servers.shop import SIZE, TABLES, stocked, writing
from tests.servers.source import ask, connected_with, settings

log = structlog.get_logger()

TRANSACTIONS_EACH = 150

T = TableId("d", "t")


class Read(NamedTuple):
    """What a SELECT on the replica saw of each writer, and the executed set and high that were read after it."""

    counts: list[tuple[int, int]]
    executed: GtidSet
    high: GtidSet


def with_row_9(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch, columns: str = "a INT PRIMARY KEY"
) -> tuple[MysqlServer, MysqlServer, Account]:
    """A server with a row in d.t, its replica, and an account on both. Failed tries follow each other at once."""
    for backoff in ("SELECT_BACKOFF", "FEW_BACKOFF"):
        monkeypatch.setattr(chunk_selector, backoff, Backoff(0.001, 0.01))
    source, server = replicated(mysql_factory)
    source.sql("CREATE DATABASE d", f"CREATE TABLE d.t ({columns})", "INSERT INTO d.t (a) VALUES (9)")
    account = source.create_capture_user("d")
    caught_up(source, server)
    return source, server, account


def asked_for_low(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """Gathers the connections that are asked for a low watermark."""
    asked: list[Source] = []
    original = ReplicaWatermarks.low

    async def low(self: ReplicaWatermarks, connection: Source) -> GtidSet:
        asked.append(connection)
        return await original(self, connection)

    monkeypatch.setattr(ReplicaWatermarks, "low", low)
    return asked


async def high_of(replica: ReplicaWatermarks, connection: Source) -> GtidSet:
    """The high, asked for again for as long as a transaction is on the replica before its own server counts it."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return await replica.high(connection, T)
            except Transient as error:
                if "don't share a history" not in str(error):
                    raise


@pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")  # mysql-replication's own
async def test_high_has_all_that_a_select_saw_on_a_replica(mysql_factory: MysqlFactory) -> None:
    source, server = replicated(mysql_factory)
    prepare(source)
    caught_up(source, server)
    writers = counting(source, TRANSACTIONS_EACH)
    account = source.create_capture_user("d")
    caught_up(source, server)
    since = source.executed()
    replica = ReplicaWatermarks(settings(server, account), settings(source, account))
    reads: list[Read] = []
    async with connected_with(server, account) as connection:
        for writer in writers:
            writer.start()
        end: GtidSet | None = None
        while end is None or not reads or not end <= reads[-1].executed:
            if end is None and not any(writer.is_alive() for writer in writers):
                end = GtidSet.parse(source.executed())
            counts = await ask(connection, "SELECT writer, n FROM d.counters")
            executed = await connection.executed()
            high = await high_of(replica, connection)
            reads.append(Read([(int(w), int(n)) for w, n in counts], executed, high))
    for writer in writers:
        writer.join()
    told = await asyncio.to_thread(lambda: dict(logged(source, since)))
    ahead = 0
    for read in reads:
        seen = [told[count].gtid for count in read.counts if count[1]]
        ahead += any(gtid not in read.executed for gtid in seen)
        assert all(gtid in read.high for gtid in seen)
    log.info("reads ahead of the executed set", ahead=ahead, reads=len(reads))


async def test_a_chunk_from_a_replica_lies_between_its_own_sets(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 10.0))
    source, server = replicated(mysql_factory)
    source.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (9)")
    account = source.create_capture_user("d")
    caught_up(source, server)
    elsewhere = settings(server, account)
    async with bench(source, "d", elsewhere=elsewhere) as running:
        caught_up(source, server)
        plan = await running.plan(T)
        assert plan.high == GtidSet.parse(source.executed())
        server.sql("STOP REPLICA SQL_THREAD")
        source.sql("INSERT INTO d.t VALUES (5)")
        passed = GtidSet.parse(source.executed())
        await running.order(replace(running.chunk(plan, None, (9,), 10), ordered_at=passed))
        server.sql("START REPLICA SQL_THREAD")
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead)
    assert chunk.rows["a"].to_pylist() == [1, 5, 9]
    assert passed <= chunk.low and isinstance(chunk.high, GtidSet) and passed <= chunk.high


async def test_high_has_what_is_received_and_may_be_visible_before_it_counts_as_executed(
    mysql_factory: MysqlFactory,
) -> None:
    source, server = replicated(mysql_factory)
    account = source.create_capture_user()
    caught_up(source, server)
    server.sql("STOP REPLICA SQL_THREAD")
    source.sql("CREATE DATABASE later")
    later = GtidSet.parse(source.executed())
    async with connected_with(server, account) as connection, asyncio.timeout(60):
        while (replica := await connection.as_replica()) is None or not later <= replica.received:
            pass
        high = await ReplicaWatermarks(settings(server, account), settings(source, account)).high(
            connection, T
        )
        assert not later <= await connection.executed()
    assert high == later


async def test_what_cannot_be_proven_is_refused_by_name(mysql_factory: MysqlFactory) -> None:
    source, server = replicated(mysql_factory)
    account = source.create_capture_user()
    caught_up(source, server)
    of_source, of_server = settings(source, account), settings(server, account)
    async with connected_with(source, account) as connection:
        with pytest.raises(SourceUnready, match="is no replica"):
            await ReplicaWatermarks(of_source, of_source).high(connection, T)
    async with connected_with(server, account) as connection:
        replica = ReplicaWatermarks(of_server, of_source)
        assert await replica.high(connection, T) == GtidSet.parse(source.executed())
        server.sql("SET GLOBAL read_only = OFF")
        with pytest.raises(SourceUnready, match="takes writes of its own"):
            await replica.high(connection, T)
        server.sql(
            "SET GLOBAL read_only = ON",
            "STOP REPLICA SQL_THREAD",
            "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (d.t)",
            "START REPLICA SQL_THREAD",
        )
        with pytest.raises(Definite, match=r"all changes of d\.t \(Replicate_Ignore_Table=d\.t\)"):
            await replica.high(connection, T)
        assert await replica.high(connection, TableId("d", "others")) == GtidSet.parse(source.executed())
        server.sql("CREATE DATABASE stray", "SET GLOBAL read_only = ON")
        with pytest.raises(Transient, match=f"{server.uuid}:1.*don't share a history"):
            await replica.low(connection)


async def test_orders_wait_while_the_replica_takes_writes_of_its_own(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For far more tries than an order has, also once it has a transaction that the stream's server lacks."""
    source, server, account = with_row_9(mysql_factory, monkeypatch)
    asked = asked_for_low(monkeypatch)
    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        plan = await running.plan(T)
        server.sql("SET GLOBAL read_only = OFF", "INSERT INTO d.t VALUES (1)")
        await running.order(running.chunk(plan, None, (9,), 10))
        strained = await running.answer()
        assert isinstance(strained, SourceOverloaded) and strained.unready
        assert "takes writes of its own" in strained.unready
        assert running.selector.status()["source"]["strained"] == strained.unready
        await until(lambda: len(set(asked)) > 2 * chunk_selector.TRIES, "it's looked at over new connections")
        source.sql(f"SET GTID_NEXT = '{server.uuid}:1'", "INSERT INTO d.t VALUES (1)")
        server.sql("SET GLOBAL read_only = ON")
        answers = [await running.answer(), await running.answer()]
    assert SourceRecovered() in answers
    assert [each.rows["a"].to_pylist() for each in answers if isinstance(each, ChunkRead)] == [[1, 9]]


async def test_a_replica_that_is_ready_again_and_lags_is_not_reported_as_unready(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "REPLICATED_WITHIN_S", 0.5)
    monkeypatch.setattr(chunk_selector, "TRIES", 100)
    source, server, account = with_row_9(mysql_factory, monkeypatch)
    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        plan = await running.plan(T)
        server.sql("STOP REPLICA SQL_THREAD", "SET GLOBAL read_only = OFF")
        source.sql("INSERT INTO d.t VALUES (1)")
        passed = GtidSet.parse(source.executed())
        await running.order(replace(running.chunk(plan, None, (9,), 10), ordered_at=passed))
        strained = await running.answer()
        assert isinstance(strained, SourceOverloaded) and strained.unready
        server.sql("SET GLOBAL read_only = ON")
        assert await running.answer() == SourceRecovered()
        server.sql("START REPLICA SQL_THREAD")
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead) and chunk.rows["a"].to_pylist() == [1, 9]


@pytest.mark.parametrize("kind", [ReselectRows, RepairRows])
async def test_rows_by_their_keys_do_not_wait_since_their_window_keeps_each_change_of_them(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch, kind: type[ReselectRows | RepairRows]
) -> None:
    source, server, account = with_row_9(mysql_factory, monkeypatch)
    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        schema = (await running.plan(T)).schema
        server.sql("SET GLOBAL read_only = OFF")
        await running.order(row_9(kind, schema))
        failed = await failure(running)
    assert failed.again is (kind is ReselectRows) and "takes writes of its own" in failed.reason


@pytest.mark.parametrize("kind", [ReselectRows, RepairRows])
async def test_rows_by_their_keys_do_not_wait_for_the_end_of_a_statement_either(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch, kind: type[ReselectRows | RepairRows]
) -> None:
    """The replica has a statement that the stream lacks, and is promoted just before the SELECT finds that."""
    source, server, account = with_row_9(mysql_factory, monkeypatch, "a INT PRIMARY KEY, b INT")
    original = ReplicaWatermarks.low

    async def low(self: ReplicaWatermarks, connection: Source) -> GtidSet:
        seen = await original(self, connection)
        server.sql("SET GLOBAL read_only = OFF")
        return seen

    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        schema = (await running.plan(T)).schema
        source.sql("ALTER TABLE d.t DROP COLUMN b")
        caught_up(source, server)
        monkeypatch.setattr(ReplicaWatermarks, "low", low)
        await running.order(row_9(kind, schema))
        failed = await failure(running)
    assert failed.again is (kind is ReselectRows) and "takes writes of its own" in failed.reason


async def test_rows_that_are_ordered_again_are_not_until_the_replica_is_ready(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the coordinator would order them, a plan and a pause again every few seconds, for hours."""
    source, server, account = with_row_9(mysql_factory, monkeypatch)
    asked = asked_for_low(monkeypatch)
    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        schema = (await running.plan(T)).schema
        server.sql("SET GLOBAL read_only = OFF")
        await running.order(row_9(ReselectRows, schema))
        await failure(running)
        recovered = asyncio.create_task(running.answer())
        tried = len(asked)
        await until(lambda: recovered.done() or len(asked) > tried + 20, "it's looked at again and again")
        assert not recovered.done()
        server.sql("SET GLOBAL read_only = ON")
        assert await recovered == SourceRecovered()
        await running.order(row_9(ReselectRows, schema))
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead) and chunk.rows["a"].to_pylist() == [9]


async def test_rows_that_are_ordered_again_are_not_until_the_replica_is_up(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, server, account = with_row_9(mysql_factory, monkeypatch)
    async with bench(source, "d", elsewhere=settings(server, account)) as running:
        caught_up(source, server)
        schema = (await running.plan(T)).schema
        server.stop()
        await running.order(row_9(ReselectRows, schema))
        failed, down = await failure(running), await running.answer()
        assert failed.again
        assert isinstance(down, SourceOverloaded) and down.unready and down.reason == down.unready
        server.start()
        assert await running.answer() == SourceRecovered()
        await running.order(row_9(ReselectRows, schema))
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead) and chunk.rows["a"].to_pylist() == [9]


def row_9(kind: type[ReselectRows | RepairRows], schema: TableSchema) -> ReselectRows | RepairRows:
    """An order to read the row with the key 9."""
    keys = pa.RecordBatch.from_pydict({"a": pa.array([9], schema.arrow.field("a").type)})
    return kind(ChunkId("s", schema.table, 1), schema, keys, key_tokens(keys, (0,)), False, GtidSet())


async def failure(running: Bench) -> ChunkFailed:
    """The next answer to an order, which has failed."""
    async with asyncio.timeout(WITHIN_S):
        while not isinstance(answer := await running.answer(), ChunkFailed):
            assert isinstance(answer, SourceOverloaded | SourceRecovered)
    return answer


async def test_a_replica_that_has_become_the_streams_server_has_its_watermarks(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    promoted = settings(mysql, mysql.create_capture_user(database))
    async with bench(mysql, database, elsewhere=promoted) as running:
        plan = await running.plan(TableId(database, "t"))
        assert isinstance(plan.high, Coordinates)
        chunk = await running.read(running.chunk(plan, None, (9,), 10))
    assert isinstance(chunk.high, Coordinates)


@pytest.mark.usefixtures("small_ranges")
async def test_a_snapshot_from_a_replica_under_writes_equals_the_source(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    source, server = replicated(mysql_factory)
    with stocked(source):
        # What the shop has at first isn't in the log: the replica is stocked by itself.
        server.sql("STOP REPLICA", "DROP DATABASE IF EXISTS shop")
        shop.fill(server, SIZE)
        purged = f"SET GLOBAL gtid_purged = '{source.executed()}'"
        server.sql("RESET BINARY LOGS AND GTIDS", purged, "START REPLICA")
        plain = pipeline(source, tmp_path, "shop", connections=4, ranges=4)
        elsewhere = replace(plain.source, host=server.host, port=server.port)
        async with running(replace(plain, snapshot=replace(plain.snapshot, source=elsewhere))) as service:
            await service.begun()
            with writing(source) as tally:
                await service.execute("first", chunk_rows=25)
                await service.completed("first")
            await service.caught_up(source)
            await service.stop()
        assert unequal(source, tmp_path / "journal", *TABLES) == []
        assert untrue(tmp_path / "journal", tally, *TABLES) == []


async def test_a_snapshot_from_a_replica_ends_while_an_xa_transaction_stays_prepared(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """The stream's position leaves the first phase out, and the replica has executed it."""
    source, server = replicated(mysql_factory)
    source.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (9)")
    plain = pipeline(source, tmp_path, "d")
    caught_up(source, server)
    elsewhere = replace(plain.source, host=server.host, port=server.port)
    async with running(replace(plain, snapshot=replace(plain.snapshot, source=elsewhere))) as service:
        await service.begun()
        source.sql("XA START 'x'", "INSERT INTO d.t VALUES (5)", "XA END 'x'", "XA PREPARE 'x'")
        caught_up(source, server)
        await service.execute("first")
        await service.completed("first")
        source.sql("XA COMMIT 'x'")
        await service.caught_up(source)
        await service.stop()
    assert unequal(source, tmp_path / "journal", T) == []
