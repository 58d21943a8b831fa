"""The ChunkSelector on a real server: plans, watermarks, failures and its end."""

import asyncio
import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from structlog.testing import capture_logs

from actors import chunk_selector
from actors.chunk_selector import ChunkSelector
from actors.runtime.mailbox import Closed
from actors.source import connection as source_module
from actors.source.connection import Source
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.errors import Backoff, InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.gtid_set import Tsid as Origin
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    ChunkSchemaChanged,
    CloseTransactions,
    OpenTransactions,
    PlanFailed,
    PlanTable,
    ReadByKeys,
    ReadChunk,
    RepairRows,
    ReselectRows,
    SourceOverloaded,
    SourceRecovered,
    TablePlanned,
    TransactionsOpened,
    WithoutRows,
)
from pipeline.messages.inboxes import ToChunkSelector
from pipeline.schema.row_keys import Key, key_tokens
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import WHOLE_TABLE, ChunkId, Request
from pipeline.snapshot.watermark import High
from pipeline.source.statement import Statement
from tests.integration.snapshot import large_rows
from tests.servers.awaiting import until
from tests.servers.mysql import MysqlFactory
from tests.servers.selector import Bench, bench, divided
from tests.servers.source import connections, cut, settings


async def test_a_plan_of_an_empty_table(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
    assert plan.ranges == WithoutRows()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("a INT", "has no primary key"),
        ("a TEXT, PRIMARY KEY (a(10))", "column a of the primary key of .* is in it with a prefix only"),
        ("a VARCHAR(99), PRIMARY KEY (a(10))", "is in it with a prefix only"),
        ("a ENUM('x', '') PRIMARY KEY", "has an empty label"),
        (None, "doesn't exist, or the user of the source may not SELECT from it"),
    ],
)
async def test_a_table_that_cannot_be_read_in_chunks_is_refused_at_once(
    mysql: MysqlServer, database: str, columns: str | None, reason: str
) -> None:
    if columns:
        mysql.sql(f"CREATE TABLE t ({columns})", database=database)
    async with bench(mysql, database) as running:
        await running.order(PlanTable(TableId(database, "t"), WHOLE_TABLE, 1, GtidSet()))
        answer = await running.answer()
    assert isinstance(answer, PlanFailed)
    assert (answer.table, answer.gone) == (TableId(database, "t"), columns is None)
    assert pytest.raises(ValueError, match=reason).matches(ValueError(answer.reason))


# -- watermarks


class Held(ChunkSelector):
    """A selector that a test can hold before its SELECT and before its high watermark."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.at_select, self.select_now = asyncio.Event(), asyncio.Event()
        self.at_high, self.high_now = asyncio.Event(), asyncio.Event()

    async def select(self, source: Source, order: ReadChunk) -> tuple[pa.RecordBatch, Key | None, int]:
        self.at_select.set()
        await self.select_now.wait()
        return await super().select(source, order)

    async def high(self, source: Source, order: PlanTable | ReadChunk | ReadByKeys) -> High:
        if isinstance(order, ReadChunk):
            self.at_high.set()
            await self.high_now.wait()
        return await super().high(source, order)


async def test_a_chunk_lies_between_its_watermarks(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    async with bench(mysql, database, kind=Held) as running:
        assert isinstance(running.selector, Held)
        plan = await running.plan(TableId(database, "t"))
        before = GtidSet.parse(mysql.executed())
        order = running.chunk(plan, None, (9,), 10)
        await running.order(order)
        await running.selector.at_select.wait()
        mysql.sql("INSERT INTO t VALUES (1)", database=database)
        running.selector.select_now.set()
        await running.selector.at_high.wait()
        mysql.sql("INSERT INTO t VALUES (2)", database=database)
        [(file, offset, *_)] = mysql.sql("SHOW BINARY LOG STATUS")
        running.selector.high_now.set()
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead)
    assert chunk.low == before
    assert chunk.rows.column("a").to_pylist() == [1, 9]
    assert chunk.high == Coordinates(file, offset)


async def test_dates_that_no_calendar_has_are_counted(mysql: MysqlServer, database: str) -> None:
    values = "(1, '0000-00-00', NULL), (2, '2024-00-01', '2024-01-01'), (3, '2024-02-29', '0000-00-00')"
    mysql.sql(
        "SET sql_mode = ''",
        "CREATE TABLE t (a INT PRIMARY KEY, d DATE, e DATETIME)",
        f"INSERT INTO t VALUES {values}",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        await running.read(running.chunk(plan, None, (9,), 10))
        told = running.selector.metrics.value(
            catalogue.IMPOSSIBLE_DATES, table=f"{database}.t", part="chunks"
        )
    assert told == 3


async def test_a_chunk_of_several_buffers_is_one(mysql: MysqlServer, database: str) -> None:
    mysql.sql(
        "SET SESSION cte_max_recursion_depth = 100000",
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200))",
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
        " SELECT i, REPEAT('x', i % 201) FROM n",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        chunk = await running.read(running.chunk(plan, None, (60_000,), 59_999))
    assert chunk.rows["a"].to_pylist() == list(range(1, 60_000))
    assert pc.binary_length(chunk.rows["b"]).to_pylist() == [i % 201 for i in range(1, 60_000)]
    assert chunk.upto == (59_999,)


def test_large_rows_end_a_chunk_before_they_take_the_memory(mysql_factory: MysqlFactory) -> None:
    size, count = 64 << 20, 6
    server = mysql_factory({**GTIDS, "max_allowed_packet": "128M"})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB)")
    for a in range(count):
        server.sql("SET SESSION sql_log_bin = 0", f"INSERT INTO d.t VALUES ({a}, REPEAT('{a}', {size}))")
    account = server.create_capture_user("d")
    at = (server.host, str(server.port), server.uuid, account.user, account.password)
    command = [sys.executable, "-m", large_rows.__name__, *at, str(count)]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert told["read"] == [[a, size] for a in range(count)]
    # A row in the buffer, which has grown for it, in its column, and the next one's beginning; all have 384 MiB.
    assert told["taken"] < 320 << 20


@pytest.mark.parametrize("kind", [ReselectRows, RepairRows])
async def test_more_keys_than_a_packet_has_room_for_are_read(
    mysql_factory: MysqlFactory, kind: type[ReselectRows | RepairRows]
) -> None:
    """A server with a small max_allowed_packet refuses a statement with all of them."""
    server = mysql_factory({**GTIDS, "max_allowed_packet": "1M"})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a VARCHAR(750) PRIMARY KEY, b INT)")
    keys = [f"{number:04}" + "x" * 700 for number in range(2000)]
    for first in range(0, len(keys), 500):
        rows = ", ".join(f"('{key}', 1)" for key in keys[first : first + 500 : 2])
        server.sql(f"INSERT INTO d.t VALUES {rows}")
    async with bench(server, "d") as running:
        plan = await running.plan(TableId("d", "t"))
        named = pa.RecordBatch.from_arrays([pa.array(keys)], schema=pa.schema([plan.schema.arrow.field(0)]))
        chunk, tokens = ChunkId("s1", TableId("d", "t"), 1), key_tokens(named, [0])
        reread = ReselectRows(chunk, plan.schema, named, tokens, 1, GtidSet())
        repair = RepairRows(chunk, plan.schema, named, tokens, False, GtidSet())
        await running.order(reread if kind is ReselectRows else repair)
        answer = await running.answer()
    assert isinstance(answer, ChunkRead), answer
    assert sorted(answer.rows.column("a").to_pylist()) == keys[::2]


async def test_a_low_watermark_waits_for_what_the_stream_has_passed(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    asked = asyncio.Event()

    class Watched(ChunkSelector):
        async def low(self, source: Source, order: PlanTable | ReadChunk | ReadByKeys) -> GtidSet:
            if isinstance(order, ReadChunk):
                asked.set()
            return await super().low(source, order)

    async with bench(mysql, database, kind=Watched) as running:
        plan = await running.plan(TableId(database, "t"))
        executed = GtidSet.parse(mysql.executed())
        own = Origin(mysql.uuid)
        passed = executed.with_numbers(own, executed.intervals[own].edges[-1:])
        plain = running.chunk(plan, None, (9,), 10)
        await running.order(replace(plain, ordered_at=passed))
        await asked.wait()
        assert running.answers.depth == 0
        mysql.sql("INSERT INTO t VALUES (1)", database=database)
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead)
    assert passed <= chunk.low
    assert chunk.rows.column("a").to_pylist() == [1, 9]


async def test_a_position_that_never_becomes_visible_fails_the_chunk(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "VISIBLE_WITHIN_S", 0.01)
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 10.0))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        plain = running.chunk(plan, None, (9,), 10)
        foreign = GtidSet.parse("11111111-1111-1111-1111-111111111111:1")
        await running.order(replace(plain, ordered_at=foreign))
        answer = await running.answer()
    assert answer == ChunkFailed(
        plain.chunk, f"transactions of the log aren't visible in the source: {foreign}"
    )


def owned(server: MysqlServer) -> str:
    """Returns the transactions that sessions of the server own."""
    [(text,)] = server.sql("SELECT @@GLOBAL.gtid_owned")
    return str(text)


async def test_a_commit_that_waits_for_an_acknowledgement_is_waited_for_however_long_it_takes(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It's in the log, and the stream has it, while no SELECT sees it."""
    monkeypatch.setattr(chunk_selector, "VISIBLE_WITHIN_S", 0.01)
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 0.01))
    server = mysql_factory({**GTIDS, "plugin_load_add": "semisync_source.so"})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (9)")
    server.sql(
        "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
    )
    looks: list[Source] = []

    class Watched(ChunkSelector):
        async def low(self, source: Source, order: PlanTable | ReadChunk | ReadByKeys) -> GtidSet:
            looks.append(source)
            return await super().low(source, order)

    async with bench(server, "d", kind=Watched) as running:
        plan = await running.plan(TableId("d", "t"))
        executed = GtidSet.parse(server.executed())
        own = Origin(server.uuid)
        passed = executed.with_numbers(own, executed.intervals[own].edges[-1:])
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON")
        committing = asyncio.create_task(asyncio.to_thread(server.sql, "INSERT INTO d.t VALUES (1)"))
        try:
            await until(lambda: owned(server), "it's in the log")
            await running.order(replace(running.chunk(plan, None, (9,), 10), ordered_at=passed))
            strained = await running.answer()
            assert isinstance(strained, SourceOverloaded) and "still committing" in str(strained.unready)
            await until(
                lambda: len(looks) > 2 * chunk_selector.TRIES, "it's looked at more often than it fails"
            )
        finally:
            server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            await committing
        answers = [await running.answer(), await running.answer()]
    assert SourceRecovered() in answers
    assert [each.rows["a"].to_pylist() for each in answers if isinstance(each, ChunkRead)] == [[1, 9]]


async def test_a_chunk_under_way_keeps_its_own_watermarks_when_a_consistent_snapshot_begins(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    async with bench(mysql, database, kind=Held) as running:
        assert isinstance(running.selector, Held)
        plan = await running.plan(TableId(database, "t"))
        await running.order(running.chunk(plan, None, (9,), 10))
        await running.selector.at_select.wait()
        await running.order(OpenTransactions(1, 0))
        opened = await running.answer()
        assert isinstance(opened, TransactionsOpened)
        mysql.sql("INSERT INTO t VALUES (1)", database=database)
        running.selector.select_now.set()
        running.selector.high_now.set()
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead) and isinstance(chunk.high, Coordinates)
    assert chunk.rows["a"].to_pylist() == [1, 9]
    assert not opened.at.reaches(chunk.high), "high is before what the SELECT saw"


async def test_a_chunk_under_way_of_an_altered_table_has_an_end_when_a_consistent_snapshot_begins(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (9, 9)", database=database)
    async with bench(mysql, database, kind=Held) as running:
        assert isinstance(running.selector, Held)
        plan = await running.plan(TableId(database, "t"))
        await running.order(running.chunk(plan, None, (9,), 10))
        await running.selector.at_select.wait()
        await running.order(OpenTransactions(1, 0))
        assert isinstance(await running.answer(), TransactionsOpened)
        mysql.sql("ALTER TABLE t DROP COLUMN b", database=database)
        running.selector.select_now.set()
        running.selector.high_now.set()
        answer = await running.answer()
    assert isinstance(answer, ChunkSchemaChanged) and isinstance(answer.high, Coordinates)


@pytest.mark.parametrize("kind", [ReselectRows, RepairRows])
async def test_rows_by_their_keys_of_an_altered_table_have_an_end_beside_a_consistent_snapshot(
    mysql: MysqlServer, database: str, kind: type[ReselectRows | RepairRows]
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (9, 9)", database=database)
    async with bench(mysql, database) as running:
        schema = (await running.plan(TableId(database, "t"))).schema
        await running.order(OpenTransactions(1, 0))
        assert isinstance(await running.answer(), TransactionsOpened)
        mysql.sql("ALTER TABLE t DROP COLUMN b", database=database)
        keys = pa.RecordBatch.from_pydict({"a": pa.array([9], schema.arrow.field("a").type)})
        tokens = key_tokens(keys, (0,))
        await running.order(kind(ChunkId("s", schema.table, 1), schema, keys, tokens, False, GtidSet()))
        answer = await running.answer()
    assert isinstance(answer, ChunkSchemaChanged) and isinstance(answer.high, Coordinates)


# -- failures


async def test_a_lost_connection_is_tried_again_with_a_new_low(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 10.0))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (99)", database=database)
    lows: list[GtidSet] = []

    class Struck(ChunkSelector):
        async def low(self, source: Source, order: PlanTable | ReadChunk | ReadByKeys) -> GtidSet:
            low = await super().low(source, order)
            if isinstance(order, PlanTable):
                return low
            lows.append(low)
            if len(lows) < chunk_selector.TRIES:
                mysql.sql(f"INSERT INTO t VALUES ({len(lows)})", database=database)
                source.close()
            return lows[-1]

    async with bench(mysql, database, kind=Struck) as running:
        plan = await running.plan(TableId(database, "t"))
        chunk = await running.read(running.chunk(plan, None, (99,), 1 << 20))
    assert chunk.rows.column("a").to_pylist() == [*range(1, chunk_selector.TRIES), 99]
    assert chunk.low == lows[-1]
    assert len(lows) == len(set(lows)) == chunk_selector.TRIES


async def test_a_server_that_is_away_for_a_while_fails_no_chunk(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (9)")
    async with bench(server, "d") as running:
        plan = await running.plan(TableId("d", "t"))
        server.kill()
        with capture_logs() as logs:
            await running.order(running.chunk(plan, None, (9,), 10))
            await until(lambda: sum(log.get("pause_s", 0.0) for log in logs) > 5.0, "some tries")
        server.start()
        chunk = await running.answer()
    assert isinstance(chunk, ChunkRead)
    assert chunk.rows["a"].to_pylist() == [9]


@pytest.mark.parametrize("asked", [WHOLE_TABLE, Request(condition="a <> 1")])
async def test_a_chunk_that_takes_too_long_is_tried_again_with_fewer_rows(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch, asked: Request
) -> None:
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 10.0))
    rows = ", ".join(f"({a})" for a in range(10))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", f"INSERT INTO t VALUES {rows}", database=database)

    class Slow(ChunkSelector):
        async def select(self, source: Source, order: ReadChunk) -> tuple[pa.RecordBatch, Key | None, int]:
            if order.limit > 3:
                with monkeypatch.context() as impatient:
                    impatient.setattr(source_module, "_GRACE_S", 0.1 - 30.0)
                    await source.ask(Statement("DO SLEEP(3600)"))
            return await super().select(source, order)

    async with bench(mysql, database, kind=Slow, read_timeout_s=30.0) as running:
        plan = await running.plan(TableId(database, "t"))
        chunk = await running.read(running.chunk(plan, None, (9,), 10, asked))
    assert chunk.rows["a"].to_pylist() == ([0, 1] if asked.whole else [0])
    assert (chunk.upto, chunk.scanned) == ((1,), 2)


async def test_a_locked_table_fails_after_all_tries_with_the_servers_words(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "TRIES", 2)
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    tries = 0

    class Counted(ChunkSelector):
        async def select(self, source: Source, order: ReadChunk) -> tuple[pa.RecordBatch, Key | None, int]:
            nonlocal tries
            tries += 1
            return await super().select(source, order)

    async with bench(mysql, database, kind=Counted, read_timeout_s=1.0) as running:
        plan = await running.plan(TableId(database, "t"))
        with closing(mysql.connect(database=database)) as locker, locker.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
            order = running.chunk(plan, None, (9,), 10)
            await running.order(order)
            answer = await running.answer()
            cursor.execute("UNLOCK TABLES")
        assert isinstance(answer, ChunkFailed)
        assert answer.chunk == order.chunk
        assert "Lock wait timeout exceeded" in answer.reason or "interrupted" in answer.reason
        assert tries == 2
        assert (await running.read(order)).rows.num_rows == 1


@pytest.mark.parametrize("kind", [ReselectRows, RepairRows])
async def test_rows_of_a_locked_table_that_are_read_by_their_keys_fail_and_the_selector_continues(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch, kind: type[ReselectRows | RepairRows]
) -> None:
    monkeypatch.setattr(chunk_selector, "TRIES", 2)
    monkeypatch.setattr(chunk_selector, "FEW_TRIES", 1)
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    async with bench(mysql, database, read_timeout_s=1.0) as running:
        schema = (await running.plan(TableId(database, "t"))).schema
        keys = pa.RecordBatch.from_pydict({"a": pa.array([9], schema.arrow.field("a").type)})
        chunk = ChunkId("s", schema.table, 1)
        order = kind(chunk, schema, keys, key_tokens(keys, (0,)), False, GtidSet())
        with closing(mysql.connect(database=database)) as locker, locker.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
            await running.order(order)
            answer = await running.answer()
            cursor.execute("UNLOCK TABLES")
        assert isinstance(answer, ChunkFailed)
        assert (answer.chunk, answer.again) == (chunk, kind is ReselectRows)
        await running.order(order)
        answer = await running.answer()
        assert isinstance(answer, ChunkRead)
        assert answer.rows.num_rows == 1


@pytest.mark.parametrize(
    "deed",
    [
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t MODIFY b BIGINT",
        "ALTER TABLE t ADD UNIQUE u (a), DROP PRIMARY KEY",
    ],
)
async def test_a_table_that_was_altered_is_told_at_once(
    mysql: MysqlServer, database: str, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(3600.0, 3600.0))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (9, 9)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        mysql.sql(deed, database=database)
        order = running.chunk(plan, None, (9,), 10)
        await running.order(order)
        answer = await running.answer()
        assert isinstance(answer, ChunkSchemaChanged) and answer.chunk == order.chunk
        assert isinstance(answer.high, Coordinates) and answer.reason


class Altering(ChunkSelector):
    """A selector that has its table altered once it knows its schema."""

    server: MysqlServer
    deeds: tuple[str, ...] = ()

    async def _plan_with_schema(
        self, source: Source, order: PlanTable, schema: TableSchema, walk: ChunkIndex
    ) -> TablePlanned:
        deeds, self.deeds = self.deeds, ()
        self.server.sql(*deeds, database=order.table.database)
        return await super()._plan_with_schema(source, order, schema, walk)


@pytest.mark.parametrize(
    "deeds",
    [
        ("ALTER TABLE t MODIFY a DATETIME",),
        ("ALTER TABLE t RENAME COLUMN a TO c",),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",),
        (
            "ALTER TABLE t DROP PRIMARY KEY, MODIFY a DATE, ADD PRIMARY KEY (b), ADD INDEX (a)",
            "INSERT INTO t VALUES (NULL, 10)",
        ),
    ],
)
async def test_a_table_that_is_altered_while_it_is_planned_is_planned_again(
    mysql: MysqlServer, database: str, deeds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql.sql(
        "CREATE TABLE t (a DATE PRIMARY KEY, b INT NOT NULL)",
        "INSERT INTO t VALUES ('2024-02-29', 9)",
        database=database,
    )
    monkeypatch.setattr(Altering, "server", mysql, raising=False)
    monkeypatch.setattr(Altering, "deeds", deeds)
    async with bench(mysql, database, kind=Altering) as running:
        plan = await running.plan(TableId(database, "t"))
        assert sum(rows.num_rows for rows in await running.walk(plan, 10)) == len(deeds)


async def test_what_will_not_pass_fails_at_once(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(3600.0, 3600.0))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (9, 9)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        mysql.sql(f"REVOKE SELECT ON `{database}`.* FROM tidemark".replace("_", r"\_"), database=database)
        order = running.chunk(plan, None, (9,), 10)
        await running.order(order)
        answer = await running.answer()
    assert isinstance(answer, ChunkFailed)
    assert answer.chunk == order.chunk
    assert "SELECT command denied" in answer.reason


async def test_a_key_without_a_calendar_day_is_null_in_the_rows_and_the_next_chunk_begins_behind_it(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(
        "SET sql_mode = ''",
        "CREATE TABLE t (a DATE PRIMARY KEY)",
        "INSERT INTO t VALUES ('2024-00-00'), ('2024-01-01')",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        assert divided(plan).end == ("2024-01-01",)
        await running.order(running.chunk(plan, None, divided(plan).end, 1))
        answer = await running.answer()
    assert isinstance(answer, ChunkRead)
    assert answer.rows["a"].to_pylist() == [None]
    assert answer.upto == ("2024-00-00",)


async def test_what_is_not_foreseen_ends_the_actor(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)

    class Broken(ChunkSelector):
        async def high(self, source: Source, order: PlanTable | ReadChunk | ReadByKeys) -> High:
            if isinstance(order, PlanTable):
                return await super().high(source, order)
            raise InvariantBroken(f"on purpose, at {await source.executed()}, for {order.chunk}")

    running = Bench(settings(mysql, mysql.create_capture_user(database)), mysql.uuid, Broken)
    plan = await running.plan(TableId(database, "t"))
    await running.order(running.chunk(plan, None, (9,), 10))
    with pytest.raises(InvariantBroken, match="on purpose"):
        await running.task


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced_without_a_try(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "TRIES", 1)
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        [idle] = running.selector._pool._idle
        cut(mysql)
        reader = idle._wire._reader
        if not reader.disturbed:
            await reader._wait_for_bytes()
        assert not idle.usable
        assert (await running.read(running.chunk(plan, None, (9,), 10))).rows.num_rows == 1


# -- the actor


async def test_chunks_that_come_meanwhile_are_no_sign_of_life_of_an_order_that_hangs(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    go_on = asyncio.Event()

    class Hangs(Held):
        async def handle(self, message: ToChunkSelector) -> None:
            if isinstance(message, CloseTransactions):
                await go_on.wait()
            await super().handle(message)

    async with bench(mysql, database, kind=Hangs) as running:
        assert isinstance(running.selector, Hangs)
        plan = await running.plan(TableId(database, "t"))
        await running.order(running.chunk(plan, None, (9,), 10))
        await running.selector.at_select.wait()
        await running.order(CloseTransactions())
        since = await until(lambda: running.selector._busy_since, "it's at the order")
        running.selector.select_now.set()
        running.selector.high_now.set()
        assert isinstance(await running.answer(), ChunkRead)
        assert running.selector._busy_since == since
        go_on.set()


async def test_orders_beyond_the_connections_wait(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    begun: list[asyncio.Event] = [asyncio.Event(), asyncio.Event()]
    go = asyncio.Event()
    under_way = 0
    most = 0

    class Counted(ChunkSelector):
        async def select(self, source: Source, order: ReadChunk) -> tuple[pa.RecordBatch, Key | None, int]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            begun[under_way - 1].set()
            await go.wait()
            under_way -= 1
            return await super().select(source, order)

    async with bench(mysql, database, kind=Counted) as running:
        plan = await running.plan(TableId(database, "t"))
        ordered = [running.chunk(plan, None, (9,), 10) for _ in range(6)]
        for order in ordered:
            await running.order(order)
        await asyncio.gather(*(event.wait() for event in begun))
        go.set()
        answers = [await running.answer() for _ in ordered]
    assert {answer.chunk for answer in answers if isinstance(answer, ChunkRead)} == {o.chunk for o in ordered}
    assert most == 2


async def test_a_clean_stop_answers_what_was_ordered(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    running = Bench(settings(mysql, mysql.create_capture_user(database)), mysql.uuid)
    plan = await running.plan(TableId(database, "t"))
    for _ in range(5):
        await running.order(running.chunk(plan, None, (9,), 10))
    running.orders.close()
    await running.task
    assert running.answers.depth == 5


async def test_a_clean_stop_waits_for_no_quiet_moment(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql.sql("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)", database=database)
    begin = Source.begin

    async def disturbed(source: Source) -> None:
        await begin(source)
        await asyncio.to_thread(mysql.sql, "INSERT INTO t VALUES ()", database=database)

    monkeypatch.setattr(Source, "begin", disturbed)
    running = Bench(settings(mysql, mysql.create_capture_user(database)), mysql.uuid)
    await running.order(OpenTransactions(1, 0))
    await until(lambda: running.selector.status()["waits"], "it found no moment")
    running.orders.close()
    async with asyncio.timeout(60):
        await running.task
    assert running.answers.depth == 0


def ids(server: MysqlServer) -> set[int]:
    """Of the user's connections at the server."""
    return {connection.id for connection in connections(server)}


async def test_a_cancellation_leaves_no_connection(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (9)", database=database)
    others = ids(mysql)  # connections of tests before, which the server hasn't missed yet
    running = Bench(settings(mysql, mysql.create_capture_user(database)), mysql.uuid, Held)
    assert isinstance(running.selector, Held)
    plan = await running.plan(TableId(database, "t"))
    await running.order(running.chunk(plan, None, (9,), 10))
    await running.selector.at_select.wait()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    async with asyncio.timeout(60):
        while not others.issuperset(await asyncio.to_thread(ids, mysql)):
            pass


async def test_answers_that_nobody_takes_any_more_end_the_actor(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", database=database)
    running = Bench(settings(mysql, mysql.create_capture_user(database)), mysql.uuid)
    running.answers.close()
    await running.order(PlanTable(TableId(database, "t"), WHOLE_TABLE, 1, GtidSet()))
    with pytest.raises(Closed):
        await running.task
