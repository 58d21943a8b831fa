"""The BinlogReader, with the SchemaVerifier after it, on a real server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from actors.binlog_reader import BinlogReader
from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.schema_verifier import SchemaVerifier
from actors.source.preflight import query_tables
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.config.settings import TlsMode, TlsSettings
from pipeline.errors import Definite, Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import (
    DdlRead,
    LogAdvanced,
    PauseReading,
    ReadingPaused,
    ResumeReading,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import ChangesVerified, SchemaChanged, SchemasVerified
from pipeline.messages.inboxes import ToBinlogReader, ToSchemaVerifier
from pipeline.messages.topology import EDGES, ActorName, inbox
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.verifier.step import start
from tests.pipeline.builders import decoded
from tests.servers.mysql import MysqlFactory
from tests.servers.source import connected, process_list, settings
from tests.servers.stopped import stop

WITHIN_S = 60.0

VERIFIER = next(edge for edge in EDGES if edge.sender is ActorName.BINLOG_READER)
COORDINATOR = next(edge for edge in EDGES if edge.sender is ActorName.SCHEMA_VERIFIER)
ORDERS = next(edge for edge in EDGES if edge.receiver is ActorName.BINLOG_READER)


class Following:
    """A reader at work, and what came out of it."""

    def __init__(self, reader: BinlogReader, orders: Mailbox[ToBinlogReader], out: Mailbox[Any]) -> None:
        self.reader = reader
        self.task = asyncio.create_task(reader.run())
        self.orders = orders
        self.out = out
        self.position = GtidSet()

    async def next(self, wanted: type | tuple[type, ...]) -> Any:
        """The next message of these types, others passed over; raises what the reader has ended with."""
        async with asyncio.timeout(WITHIN_S):
            while not isinstance(message := await self._next(), wanted):
                pass
            return message

    async def _next(self) -> Any:
        came = asyncio.create_task(self.out.get())
        try:
            await asyncio.wait({came, self.task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()
        if not came.done():
            self.task.result()
            raise AssertionError("the reader has ended")
        message = came.result()
        if isinstance(message, TransactionsRead):
            self.position = message.transactions.added_to(self.position)
        if isinstance(message, DdlRead):
            self.position = self.position.with_gtid(message.gtid)
        return message

    async def failure(self) -> BaseException:
        """What the reader ends with; all its messages are passed over."""
        try:
            while True:
                await self.next(object)
        except (Definite, Transient) as error:
            return error

    async def order(self, order: ToBinlogReader) -> None:
        await self.orders.put(ORDERS, order)


@asynccontextmanager
async def following(
    server: MysqlServer,
    *databases: str,
    position: GtidSet | None = None,
    **changes: Any,
) -> AsyncIterator[Following]:
    """A reader of all tables of these databases, from what the server has executed now, or from a position.

    It's the user with the least rights; `changes` are of its SourceSettings.
    """
    source = settings(server, server.create_capture_user(*databases), **changes)
    captured = TableFilter(tuple(rf"{database}\..*" for database in databases))
    orders = Mailbox[ToBinlogReader](inbox(ActorName.BINLOG_READER))
    out = Mailbox[ToSchemaVerifier](inbox(ActorName.SCHEMA_VERIFIER))
    at = GtidSet.parse(server.executed()) if position is None else position
    reader = BinlogReader(orders, Metrics(), source, captured, at, Sender(VERIFIER, out))
    follow = Following(reader, orders, out)
    follow.position = at
    try:
        yield follow
    finally:
        follow.task.cancel()
        await asyncio.gather(follow.task, return_exceptions=True)


def rows(message: TransactionsRead | TransactionPartRead, database: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        images.map.table.name: [tuple(row.values()) for row in images.rows.to_pylist()]
        for images in decoded(message.tables)
        if images.map.table.database == database
    }


# -- what comes


async def test_transactions_over_several_tables_with_their_gtids(mysql: MysqlServer, database: str) -> None:
    mysql.sql(
        f"CREATE TABLE {database}.a (id INT PRIMARY KEY)", f"CREATE TABLE {database}.b (id INT PRIMARY KEY)"
    )
    async with following(mysql, database) as follow:
        await follow.next(LogAdvanced)
        mysql.sql(
            "BEGIN", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)", "DELETE FROM a", "COMMIT",
            "SET gtid_next = 'AUTOMATIC:sales'", "INSERT INTO b VALUES (3)",
            database=database,
        )  # fmt: skip
        first = await follow.next(TransactionsRead)
        while "sales" not in str(follow.position):
            await follow.next(TransactionsRead)
        assert follow.position == GtidSet.parse(mysql.executed())
        assert rows(first, database)["a"] == [(1,), (1,)]
        assert first.tables[0].images.drop_columns("source").to_pydict() == {
            "kind": [0, 3],
            "transaction": [0, 0],
            "ordinal": [0, 2],
            "absent": [None, None],
        }
        assert rows(first, database)["b"][0] == (2,)


async def test_transactions_that_trickle_in_are_gathered(mysql: MysqlServer, database: str) -> None:
    mysql.sql(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        """CREATE PROCEDURE trickle() BEGIN
            DECLARE n INT DEFAULT 0;
            WHILE n < 100 DO
                INSERT INTO a VALUES (n);
                SET n = n + 1 + SLEEP(0.003);
            END WHILE;
        END""",
        database=database,
    )
    async with following(mysql, database) as follow:
        await follow.next(LogAdvanced)
        begun = asyncio.get_running_loop().time()
        writing = asyncio.create_task(asyncio.to_thread(mysql.sql, "CALL trickle()", database=database))
        came = [len((await follow.next(TransactionsRead)).transactions)]
        while sum(came) < 100:
            came.append(len((await follow.next(TransactionsRead)).transactions))
        took_s = asyncio.get_running_loop().time() - begun
        await writing
    assert len(came) <= 2 + took_s / 0.02


async def test_commit_times_are_the_servers_and_the_end_is_its_end_of_log(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
    async with connected(mysql, database) as source, following(mysql, database) as follow:
        [(before,)] = mysql.sql("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
        mysql.sql(f"INSERT INTO {database}.a VALUES (1)")
        [(after,)] = mysql.sql("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
        read = await follow.next(TransactionsRead)
        assert before <= int(read.transactions.commit_time[-1]) <= after
        end, executed = await source.end_of_log()
        assert read.end == end
        assert follow.position == executed
        assert follow.reader.not_ready() is None
        assert follow.reader.metrics.value(catalogue.TRANSACTIONS) == 1
        assert follow.reader.metrics.value(catalogue.ROWS_READ, table=f"{database}.a", kind="insert") == 1
        assert follow.reader.metrics.value(catalogue.BINLOG_POSITION, file=end.file) == end.offset


async def test_dates_that_no_calendar_has_are_counted(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY, d DATE)")
    async with following(mysql, database) as follow:
        mysql.sql(
            "SET sql_mode = ''",
            f"INSERT INTO {database}.a VALUES (1, '0000-00-00'), (2, NULL), (3, '2024-05-00')",
        )
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(1, None), (2, None), (3, None)]}
        counted = follow.reader.metrics.value(
            catalogue.IMPOSSIBLE_DATES, table=f"{database}.a", part="changes"
        )
        assert counted == 2


async def test_a_created_and_filled_table(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)", f"INSERT INTO {database}.a VALUES (1), (2)")
    async with verifying(mysql, database) as verify:
        mysql.sql(f"CREATE TABLE {database}.copy AS SELECT * FROM {database}.a")
        changes = await verify(ChangesVerified)
        assert [str(change.schema.table) for change in changes.tables] == [f"{database}.copy"]
        assert changes.tables[0].rows.to_pylist() == [{"id": 1}, {"id": 2}]


async def test_rotations_and_heartbeats_say_where_the_log_is(mysql: MysqlServer, database: str) -> None:
    async with connected(mysql, database) as source, following(mysql, database) as follow:
        mysql.sql("FLUSH BINARY LOGS")
        end, _ = await source.end_of_log()
        while not (await follow.next(LogAdvanced)).end.reaches(end):
            pass
        # Nothing of it is captured; it passes, and with it the place.
        mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
        assert (await follow.next(DdlRead)).end == (await source.end_of_log())[0]


async def test_a_heartbeat_tells_the_place_behind_what_was_skipped(mysql: MysqlServer, database: str) -> None:
    """All is in the position, so nothing comes but heartbeats, and these reach the end of the log."""
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    mysql.sql(f"INSERT INTO {database}.a VALUES (1)")
    async with connected(mysql, database) as source, following(mysql, database) as follow:
        end, _ = await source.end_of_log()
        while not (await follow.next(LogAdvanced)).end.reaches(end):
            pass


async def test_it_resumes_in_the_middle_with_what_has_not_passed(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
    start = GtidSet.parse(mysql.executed())
    statements = [f"INSERT INTO {database}.a VALUES ({n})" for n in range(10)]
    mysql.sql(*statements[:5], "FLUSH BINARY LOGS", *statements[5:])
    # The last of the first five is missing from the position, and the last five.
    missing = GtidSet.parse(f"{mysql.uuid}:{_last(start, mysql.uuid) + 5}")
    position = _through(start, mysql.uuid, 6) - missing
    got: list[tuple[Any, ...]] = []
    async with following(mysql, database, position=position) as follow:
        while len(got) < 5:
            got += rows(await follow.next(TransactionsRead), database).get("a", [])
    assert got == [(4,), (6,), (7,), (8,), (9,)]


def _last(gtids: GtidSet, server: str) -> int:
    return int(str(gtids & GtidSet.parse(f"{server}:1-999999")).split(":")[-1].split("-")[-1])


def _through(gtids: GtidSet, server: str, more: int) -> GtidSet:
    return gtids | GtidSet.parse(f"{server}:1-{_last(gtids, server) + more}")


async def test_a_prepared_transaction_survives_a_restart_between_its_phases(
    mysql_factory: MysqlFactory,
) -> None:
    # A server of its own: what is prepared and left so keeps its locks.
    mysql, database = mysql_factory({**GTIDS, **FULL_METADATA}), "shop"
    mysql.sql("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY)")
    mysql.create_capture_user(database)
    xid = f"'{database}'"
    async with following(mysql, database) as follow:
        mysql.sql(
            f"XA START {xid}", "INSERT INTO a VALUES (1)", f"XA END {xid}", f"XA PREPARE {xid}",
            database=database,
        )  # fmt: skip
        mysql.sql(f"INSERT INTO {database}.a VALUES (2)")
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(2,)]}
        position = follow.position
    assert (GtidSet.parse(mysql.executed()) - position).count() == 1
    async with following(mysql, database, position=position) as follow:
        mysql.sql(f"XA COMMIT {xid}")
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(1,)]}
        assert follow.position == GtidSet.parse(mysql.executed())


async def test_events_larger_than_a_packet(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY, v LONGBLOB)")
    size = 2**24 + 1000
    async with following(mysql, database) as follow:
        await asyncio.to_thread(
            mysql.sql, f"INSERT INTO {database}.a VALUES (1, REPEAT('x', {size})), (2, 'y')"
        )
        part = await follow.next(TransactionPartRead)
        assert [(id_, len(value)) for id_, value in rows(part, database)["a"]] == [(1, size)]
        assert rows(await follow.next(TransactionsRead), database)["a"] == [(2, b"y")]


async def test_a_pause_lets_nothing_through_and_a_resume_everything(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
    async with following(mysql, database) as follow:
        mysql.sql(f"INSERT INTO {database}.a VALUES (1)")
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(1,)]}
        await follow.order(PauseReading())
        await follow.next(ReadingPaused)
        mysql.sql(f"INSERT INTO {database}.a VALUES (2)")
        # A heartbeat later there would be a message, if there were any.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await follow.out.get()
        assert follow.reader.status()["paused"] is True
        await follow.order(ResumeReading())
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(2,)]}


MANY = (
    "CREATE PROCEDURE fill() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 5000 DO INSERT INTO a VALUES (i);"
    " SET i = i + 1; END WHILE; END"
)


async def test_a_paused_reader_gives_what_it_had_read_first(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", MANY, database=database)
    async with following(mysql, database) as follow:
        filling = asyncio.create_task(asyncio.to_thread(mysql.sql, "CALL fill()", database=database))
        got = rows(await follow.next(TransactionsRead), database).get("a", [])
        await follow.order(PauseReading())
        while not isinstance(message := await follow.next((TransactionsRead, ReadingPaused)), ReadingPaused):
            got += rows(message, database).get("a", [])
        await filling
        assert got == [(n,) for n in range(len(got))]
        assert follow.out.depth == 0
        await follow.order(ResumeReading())
        while len(got) < 5000:
            got += rows(await follow.next(TransactionsRead), database).get("a", [])
        assert got == [(n,) for n in range(5000)]


@pytest.mark.parametrize("rotated", [False, True])
async def test_a_reader_pauses_at_a_place_in_the_log(
    mysql: MysqlServer, database: str, rotated: bool
) -> None:
    """Also if the events after it have come along with those before it."""
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", database=database)
    position = GtidSet.parse(mysql.executed())
    mysql.sql("INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (2), (3)", database=database)
    if rotated:
        mysql.sql("FLUSH BINARY LOGS", "INSERT INTO a VALUES (4)", database=database)
    place, there = end_of_log(mysql)
    mysql.sql(*(f"INSERT INTO a VALUES ({n})" for n in range(5, 9)), database=database)
    async with following(mysql, database, position=position) as follow:
        got = []
        await follow.order(PauseReading(place))
        while not isinstance(message := await follow.next((TransactionsRead, ReadingPaused)), ReadingPaused):
            got += rows(message, database).get("a", [])
            assert message.end.reaches(place) is (message.end == place)
        assert got == [(n,) for n in range(1, 5 if rotated else 4)]
        assert follow.position == there
        assert follow.reader.status()["paused"] is True
        await follow.order(ResumeReading())
        while len(got) < (8 if rotated else 7):
            got += rows(await follow.next(TransactionsRead), database).get("a", [])
        assert got[-4:] == [(n,) for n in range(5, 9)]
        # There already: at once.
        place, there = end_of_log(mysql)
        while follow.reader.status()["log"] != str(place):
            await follow.next(object)
        await follow.order(PauseReading(place))
        await follow.next(ReadingPaused)


def end_of_log(server: MysqlServer) -> tuple[Coordinates, GtidSet]:
    """Returns the end of the server's log, and what's in it."""
    [(file, offset, _, _, executed)] = server.sql("SHOW BINARY LOG STATUS")
    return Coordinates(file, int(offset)), GtidSet.parse(executed)


async def test_a_cancelled_reader_leaves_no_thread_at_its_slices(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", MANY, database=database)
    before = set(threading.enumerate())
    async with following(mysql, database) as follow:
        filling = asyncio.create_task(asyncio.to_thread(mysql.sql, "CALL fill()", database=database))
        await follow.next(TransactionsRead)
        at_work = {t for t in threading.enumerate() if t.name.startswith("decoding")} - before
        assert at_work
        follow.task.cancel()
        await asyncio.gather(follow.task, return_exceptions=True)
        for thread in at_work:
            await asyncio.to_thread(thread.join, WITHIN_S)
        assert not any(thread.is_alive() for thread in at_work)
        await filling


async def test_a_clean_stop_gives_what_is_whole_and_ends(mysql: MysqlServer, database: str) -> None:
    async with following(mysql, database) as follow:
        await follow.next(LogAdvanced)
        follow.orders.close()
        async with asyncio.timeout(WITHIN_S):
            await follow.task


async def test_over_tls(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
    async with following(mysql, database, tls=TlsSettings(TlsMode.REQUIRED)) as follow:
        mysql.sql(f"INSERT INTO {database}.a VALUES (1)")
        assert rows(await follow.next(TransactionsRead), database) == {"a": [(1,)]}


# -- what doesn't


async def test_a_lost_connection_is_transient(mysql: MysqlServer) -> None:
    async with following(mysql) as follow:
        await follow.next(LogAdvanced)
        # The last one is ours: one of a test before may not have gone yet.
        dump = max(each.id for each in process_list(mysql) if each.command == "Binlog Dump GTID")
        mysql.sql(f"KILL {dump}")
        assert isinstance(await follow.failure(), Transient)


async def test_a_silent_connection_is_transient(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    async with following(server, read_timeout_s=4.0) as follow:
        await follow.next(LogAdvanced)
        stop(server.pid)
        error = await follow.failure()
    assert isinstance(error, Transient)
    assert "silent for 4.0 s" in str(error)


async def test_a_purged_binlog_names_what_is_gone_and_is_judged_by_the_next_start(
    mysql_factory: MysqlFactory,
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY)")
    server.create_capture_user("d")
    server.purge_binlogs()
    executed, position = GtidSet.parse(server.executed()), GtidSet.parse(f"{server.uuid}:1")
    async with following(server, "d", position=position) as follow:
        error = await follow.failure()
    assert isinstance(error, Transient)
    assert str(error) == f"the binlog that we need was purged: {executed - position}"


async def test_a_server_that_lacks_what_has_passed_is_judged_by_the_next_start(mysql: MysqlServer) -> None:
    elsewhere = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"
    position = GtidSet.parse(mysql.executed()) | GtidSet.parse(elsewhere)
    async with following(mysql, position=position) as follow:
        error = await follow.failure()
    assert isinstance(error, Transient)
    assert str(error) == f"the source hasn't executed {elsewhere}, which has passed here"


async def test_a_server_without_gtids_is_definite(mysql_factory: MysqlFactory) -> None:
    async with following(mysql_factory({"gtid_mode": "OFF"})) as follow:
        error = await follow.failure()
    assert isinstance(error, Definite)
    assert "gtid_mode is OFF" in str(error)


async def test_a_change_that_is_logged_as_a_statement_is_told_with_its_database(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    async with following(mysql, database) as follow:
        await follow.next(LogAdvanced)
        mysql.sql("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (2)", database=database)
        [unread] = (await follow.next(TransactionsRead)).unread
    assert unread.databases == {database}
    assert "binlog_format=ROW" in unread.reason


# -- with the verifier after it


@asynccontextmanager
async def verifying(
    server: MysqlServer, database: str, known: KnownSchemas | None = None
) -> AsyncIterator[Callable[[type | tuple[type, ...]], Any]]:
    """Reader and verifier from what the server has executed now; gives what the coordinator would get next."""
    async with following(server, database) as follow:
        state, news = start(
            TableFilter((rf"{database}\..*",)),
            known or KnownSchemas({}, GtidSet()),
            Checkpoint(follow.position),
        )
        out = Mailbox[Any](inbox(ActorName.WATERMARK_COORDINATOR))
        ask = partial(query_tables, settings(server, server.create_capture_user(database)), server.uuid)
        verifier = SchemaVerifier(follow.out, Metrics(), state, news, Sender(COORDINATOR, out), ask)
        task = asyncio.create_task(verifier.run())

        async def told(wanted: type | tuple[type, ...]) -> Any:
            async with asyncio.timeout(WITHIN_S):
                while not isinstance(message := await out.get(), wanted):
                    pass
                return message

        try:
            yield told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


KINDS = """
  id BIGINT UNSIGNED, si SMALLINT UNSIGNED NOT NULL, y YEAR, de DECIMAL(10,3) UNSIGNED, fl FLOAT, do DOUBLE,
  b1 BIT, b9 BIT(9), da DATE, t3 TIME(3), dt6 DATETIME(6), ts2 TIMESTAMP(2) NULL,
  c CHAR(10), cl CHAR(20) CHARACTER SET latin1, v VARCHAR(300), bi BINARY(4), vb VARBINARY(9), bl BLOB,
  tx TEXT CHARACTER SET latin1, e ENUM('a','b''c','ü'), el ENUM('ä','z') CHARACTER SET latin1, s SET('x','y'),
  j JSON, g GEOMETRY, ve VECTOR(5), `weird ``näme` INT INVISIBLE, vg INT AS (si + 1) VIRTUAL,
  PRIMARY KEY (si, v(3)), INDEX ((si * 2))"""


async def test_the_logs_schema_is_the_servers(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.t ({KINDS})")
    table = TableId(database, "t")
    async with connected(mysql, database) as source, verifying(mysql, database) as told:
        mysql.sql(
            f"INSERT INTO {database}.t (si, v, e, el, s) VALUES (1, 'k', 'ü', 'ä', 'x,y'), (2, 'l', 1, NULL, '')"
        )
        [schema] = (await told(SchemasVerified)).schemas
        assert schema == (await source.describe([table]))[table].schema
        [change] = (await told(ChangesVerified)).tables
        assert [(row["e"], row["el"], row["s"]) for row in change.rows.to_pylist()] == [
            ("ü", "ä", "x,y"),
            ("a", None, ""),
        ]
        mysql.sql(f"ALTER TABLE {database}.t RENAME COLUMN y TO year, ADD z INT FIRST")
        assert (await told(SchemaChanged)).tables >= {table}
        mysql.sql(f"UPDATE {database}.t SET z = 5")
        [schema] = (await told(SchemasVerified)).schemas
        assert schema == (await source.describe([table]))[table].schema
        assert schema.columns[0].name == "z"


async def test_minimal_metadata_with_the_servers_schema(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql("CREATE DATABASE d", f"CREATE TABLE d.t ({KINDS})", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    tables = [TableId("d", "t"), TableId("d", "u")]
    async with connected(server, "d") as source:
        at = await source.executed()
        known = KnownSchemas({t: d.schema for t, d in (await source.describe(tables)).items()}, at)
    async with verifying(server, "d", known) as told:
        server.sql("INSERT INTO d.t (si, v, e) VALUES (1, 'k', 'ü')")
        assert set((await told(SchemasVerified)).schemas) == set(known.schemas.values())
        [change] = (await told(ChangesVerified)).tables
        assert change.rows.column("e").to_pylist() == ["ü"]
        # A column changes its name: in the log only the statement says so.
        server.sql("ALTER TABLE d.u RENAME COLUMN id TO key_", "INSERT INTO d.u VALUES (1)")
        assert tables[1] in (await told(SchemaChanged)).tables
        [renamed] = (await told(SchemasVerified)).schemas
        assert renamed.key_names == ("key_",)
        while not (changes := await told(ChangesVerified)).tables:
            pass
        assert changes.tables[0].schema == renamed
        server.sql("INSERT INTO d.t (si, v, e) VALUES (2, 'k', 'a')")
        while not (changes := await told(ChangesVerified)).tables:
            pass
        assert changes.tables[0].schema == known.schemas[tables[0]]
