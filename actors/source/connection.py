"""The source server, queried by SQL: connections, watermarks, schemas, facts, and the raw rows of a SELECT.

Nothing here writes, locks or leaves a transaction open. Every session is READ ONLY with autocommit, so each statement
is a transaction of its own and a consistent read. Its settings are the session's, never the server's. They also make a
value's text the same on every server: UTC, utf8mb4, an empty sql_mode.

The driver's errors end at this border (`actors.source.errors`).

aiomysql makes Python objects of rows, so chunks bypass it: a `QueryResult` takes the packets from the socket itself.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from enum import Enum, auto
from functools import reduce
from operator import or_
from typing import Any, Final, TypeVar

import pymysql

from actors.runtime.secret_files import current_secret
from actors.source.errors import AnotherServer, Locked, raise_for_skipped, translate_errors
from actors.source.protocol import ProtocolConnection
from pipeline.config.settings import ServerSettings, TlsMode
from pipeline.errors import Definite, Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import MERGEABLE
from pipeline.source import information_schema
from pipeline.source.information_schema import Descriptions, IndexPart, TableDescription
from pipeline.source.prerequisites import server_version
from pipeline.source.replication_filters import ReplicaState, ReplicationFilters
from pipeline.source.replication_lag import SECONDS_BEHIND, replication_lag_s
from pipeline.source.result_columns import ResultColumn
from pipeline.source.result_set import ResultRows, RowPackets
from pipeline.source.statement import Statement
from pipeline.source.throttle import Load

# How much longer than the server's own limit an answer is waited for, in seconds.
_GRACE_S: Final = 5.0

# The settings of a session, in one statement, because each statement is a round trip of every connection. Text comes as
# it's stored, not converted with losses. The comments are for the servers that know the setting. InnoDB itself
# estimates a table's rows; otherwise the server may write the estimate to its cache. The range optimizer has no limit
# of memory: with one, a long list of keys or of an ENUM's numbers would read the whole index. No result is cut, however
# large it is: rows, columns and tables that a server leaves out are missing without a sign. A sort takes a whole key: a
# MEMORY table's index may have no order, and keys that begin alike would come in any. A secondary engine may lag. A
# ROLLBACK ends no connection.
_SESSION: Final = (
    (
        "SET NAMES utf8mb4, character_set_results = NULL, time_zone = '+00:00', sql_mode = '', autocommit = 1,"
        " sql_select_limit = 18446744073709551615, sql_big_selects = 1, max_sort_length = 65536,"
        " sql_quote_show_create = 1, completion_type = 0, lock_wait_timeout = {timeout_s:d}"
        " /*!80013 , use_secondary_engine = OFF */"
        " /*!80003 , information_schema_stats_expiry = 0 */"
        " /*!80030 , show_gipk_in_create_table_and_information_schema = ON */"
        " /*!50708 , max_execution_time = {timeout_ms:d} */"
        " /*!50709 , range_optimizer_max_mem_size = 0 */"
    ),
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
)
# Before MySQL 8.0 a warning says that an answer lacks tables (`Source.ask`). Broken views give any number of others.
_ALL_WARNINGS: Final = "SET SESSION max_error_count = 65535"

# A table that is locked may stay so for long, and the others needn't wait for it.
_WAIT_BRIEFLY: Final = "SET @tidemark_waits = @@SESSION.lock_wait_timeout, SESSION lock_wait_timeout = 1"
_WAIT_AS_BEFORE: Final = "SET SESSION lock_wait_timeout = @tidemark_waits"

_OPENED_AT_ONCE: Final = 50

# The place of Retrieved_Gtid_Set among the columns of SHOW REPLICA STATUS, the same in each version since MySQL 5.6.
_RETRIEVED: Final = 51

Found = TypeVar("Found")


class _Opened(Enum):
    """Whether a table was opened; `LATER`: another session has it locked."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()


class Source:
    """One connection to the source. A failure leaves it closed where its stream can't be trusted any more.

    `server`: what the server that it leads to calls itself in the GTIDs of its own transactions (server_uuid).
    """

    def __init__(self, settings: ServerSettings, server: str | None) -> None:
        self.server = server or ""  # until it's connected
        self.settings = settings
        self._in_transaction = False
        self._wire = ProtocolConnection(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            charset="utf8mb4",
            autocommit=None,
            ssl=_tls(settings),
            program_name="tidemark",
        )

    @staticmethod
    async def connect(settings: ServerSettings, server: str | None = None) -> "Source":
        """A new connection with its session set up. Raises Transient or Definite.

        `server`: the one that it has to lead to, None where that isn't known yet; AnotherServer if it leads elsewhere.
        """
        source = Source(settings, server)
        await source._open()
        return source

    async def _open(self) -> None:
        timeout_s = max(1, int(self.settings.read_timeout_s))
        with translate_errors(f"connecting to {self.settings.host}:{self.settings.port}"):
            try:
                async with asyncio.timeout(self.settings.connect_timeout_s):
                    await self._wire.open(current_secret(self.settings.password))
                    for statement in _SESSION:
                        text = statement.format(timeout_s=timeout_s, timeout_ms=timeout_s * 1000)
                        await self._wire.small(Statement(text))
                    if self.version < (8, 0):
                        await self._wire.small(Statement(_ALL_WARNINGS))
                    [(server,)] = await self._wire.small(Statement("SELECT LOWER(@@GLOBAL.server_uuid)"))
                if server != (self.server or server):
                    raise AnotherServer(self.settings, self.server, server)
                self.server = server
            except BaseException:
                self._wire.close()
                raise

    @property
    def usable(self) -> bool:
        """Whether the connection is still open, and nothing unasked for has come, as far as is known without asking."""
        return not self._wire.closed and not self._wire.disturbed

    def close(self) -> None:
        """Close without ado."""
        self._wire.close()

    async def sizes(self) -> dict[TableId, tuple[int, int]]:
        """The server's estimates of each table: its rows, and the bytes of its rows and indexes."""
        rows = await self.ask(information_schema.SIZES)
        return {
            TableId(database, name): (int(count or 0), int(size or 0)) for database, name, count, size in rows
        }

    async def executed(self) -> GtidSet:
        """The server's executed GTID set; before MySQL 5.7 not all of it need be visible yet."""
        [(text,)] = await self.ask(Statement("SELECT @@GLOBAL.gtid_executed"))
        return GtidSet.parse(text)

    async def visible(self) -> GtidSet:
        """Returns a low watermark, which the next SELECT sees: the executed set without the owned transactions.

        In this order; `pipeline.snapshot.watermark` says why.
        """
        executed = await self.executed()
        return executed - await self.owned()

    async def owned(self) -> GtidSet:
        """The transactions that the server's sessions are executing, by names that they have already."""
        [(text,)] = await self.ask(Statement("SELECT @@GLOBAL.gtid_owned"))
        return GtidSet.parse_owned(text)

    async def purged(self) -> GtidSet:
        """The transactions that the server has executed and whose binary log is gone."""
        [(text,)] = await self.ask(Statement("SELECT @@GLOBAL.gtid_purged"))
        return GtidSet.parse(text)

    async def end_of_log(self) -> tuple[Coordinates, GtidSet]:
        """Returns a high watermark, the end of the server's binary log, and the executed set of the same answer."""
        rows = await self.ask(Statement(self.log_status))
        if not rows:
            raise Definite("the source has no binary log; start it with log_bin")
        file, offset, _, _, executed = rows[0]
        return Coordinates(file, int(offset)), GtidSet.parse(executed)

    async def logs(self) -> dict[str, int]:
        """The files of the binary log that the server still has, oldest first, and their bytes; one at the least."""
        return {name: int(size) for name, size, *_ in await self.ask(Statement("SHOW BINARY LOGS"))}

    async def oldest_log(self) -> str:
        """The name of the oldest file of the binary log. The server opens no other file for it."""
        [(name, *_)] = await self.ask(Statement("SHOW BINLOG EVENTS LIMIT 1"))
        return str(name)

    async def logged_before(self, file: str) -> GtidSet:
        """Returns the transactions that were in the log before this file, from its head (PREVIOUS_GTIDS)."""
        head = await self.ask(Statement("SHOW BINLOG EVENTS IN %s LIMIT 3", (file,)))
        told = (info for _, _, kind, _, _, info in head if kind == "Previous_gtids")
        return GtidSet.parse(next(told, ""))

    async def describe(self, tables: Sequence[TableId]) -> Mapping[TableId, TableDescription]:
        """The present schemas of those of these tables that exist, that the user may see, and that can be captured."""
        return (await self.descriptions(tables)).described

    async def descriptions(
        self, tables: Sequence[TableId], before: Descriptions | None = None, *, brief: bool = False
    ) -> Descriptions:
        """What the server says of those of these tables that exist and that the user may see.

        `before`: an earlier answer, which is returned if the server says the same. `brief`: a locked table that has to
        be opened for its keys doesn't hold up the others (`Descriptions.locked`), and the answer says which MERGE table
        has which one in its UNION. Without it a locked table raises Locked, and the answer leaves out the UNIONs.
        """
        if not tables:
            return Descriptions({}, {})
        wanted, rows = frozenset(tables), list[information_schema.ColumnRow]()
        for first in range(0, len(tables), information_schema.MOST_DESCRIBED):
            some = tables[first : first + information_schema.MOST_DESCRIBED]
            told = await self.ask(information_schema.describe(some))
            rows += (row for row in told if (row[0], row[1]) in wanted)
        if before is not None and before.rows and rows == before.rows:
            return before
        ambiguous = information_schema.ambiguous_key_tables(rows)
        doubtful = information_schema.stale_tables(rows)
        opened = sorted({*ambiguous, *doubtful})
        keys = await self._open_each(opened, self._keys, brief=brief)
        listed = {table: [index for _, _, index, *_ in keys.get(table, ())] for table in ambiguous}
        plain = {
            table
            for table, virtual in doubtful.items()
            if table in keys and not information_schema.has_computed_index(keys[table], virtual)
        }
        found = information_schema.describe_tables(rows, listed)
        found = information_schema.without_stale_columns(found, plain)
        found = replace(found, locked=frozenset(opened) - keys.keys())
        if not brief or all(each.traits.engine != MERGEABLE for each in found.described.values()):
            return found if opened else replace(found, rows=rows)
        return information_schema.with_merge_tables(
            found, await self._merge_tables(), folds=bool(await self.lower_case_table_names())
        )

    async def _merge_tables(self) -> dict[TableId, frozenset[TableId] | None]:
        """The MERGE tables that the user may see, with the tables in the UNION of each; None: it's locked."""
        merges = [TableId(*row) for row in await self.ask(information_schema.MERGE_TABLES)]
        return {**dict.fromkeys(merges), **await self._open_each(merges, self._union, brief=True)}

    async def _union(self, merge: TableId) -> frozenset[TableId]:
        """Returns the tables in the UNION of a MERGE table."""
        try:
            [(_, text)] = await self.ask(information_schema.show_create_table(merge))
        except Definite:  # it's gone, or may not be read, or nothing can go through it as it is
            return frozenset()
        return information_schema.merged_tables(merge, text)

    async def _open_each(
        self, tables: Sequence[TableId], look: Callable[[TableId], Awaitable[Found]], *, brief: bool
    ) -> dict[TableId, Found]:
        """Returns what each look that opens a table has found, if it's to be `brief` without the locked tables."""
        if not brief or not tables:
            return {table: await look(table) for table in tables}
        found: dict[TableId, Found] = {}
        async with self.waiting_briefly():
            for table in tables:
                with suppress(Locked):
                    found[table] = await look(table)
        return found

    async def _keys(self, table: TableId) -> list[tuple[Any, ...]]:
        """Returns the rows of SHOW KEYS; none if the table is gone."""
        try:
            await self.ask(information_schema.show_create_table(table))
            return await self.ask(information_schema.show_keys(table))
        except Definite:
            return []

    async def unlogged(
        self, described: Collection[TableId], missing: Collection[TableId] = ()
    ) -> frozenset[TableId]:
        """Returns the tables that the server may have shown with the work of a statement before its log has that
        statement: of those that it described, and of those that it didn't show at all. All that it said of the others
        before this call is in the log by now.

        Such a statement is one whose DDL isn't atomic. A table may even be missing while it works. It releases its
        exclusive metadata lock only after the log has it (MySQL Reference Manual, "Metadata Locking"). So a table that
        can be opened is in order. A locked one is waited for for a second. LOCK TABLES takes no exclusive lock. Before
        MySQL 8.0 information_schema itself opens the tables.
        """
        if self.version < (8, 0) or not (described or missing):
            return frozenset()
        rows = await self.ask(information_schema.WITHOUT_ATOMIC_DDL)
        looked_at, found = sorted({TableId(*row) for row in rows}.intersection(described)), list[TableId]()
        if not (looked_at or missing):
            return frozenset()
        async with self.waiting_briefly():
            for first in range(0, len(looked_at), _OPENED_AT_ONCE):
                found += await self._locked(looked_at[first : first + _OPENED_AT_ONCE])
            found += [table for table in missing if await self._open_table(table) is not _Opened.NEVER]
        return frozenset(found)

    async def _locked(self, tables: Sequence[TableId]) -> list[TableId]:
        try:
            await self.ask(information_schema.open_tables(tables))
        except (Definite, Transient):
            if not self.usable:
                raise
            return [table for table in tables if await self._open_table(table) is _Opened.LATER]
        return []

    async def _open_table(self, table: TableId) -> "_Opened":
        try:
            await self.ask(information_schema.show_create_table(table))
        except Locked:
            return _Opened.LATER
        except (Definite, Transient):  # it's gone, or damaged; the server has had its lock
            if not self.usable:
                raise
            return _Opened.NEVER
        return _Opened.NOW

    @asynccontextmanager
    async def waiting_briefly(self) -> AsyncIterator[None]:
        """Statements wait for a metadata lock for a second, and then raise Locked."""
        await self.ask(Statement(_WAIT_BRIEFLY))
        yield
        await self.ask(Statement(_WAIT_AS_BEFORE))

    async def indexes(self, table: TableId) -> dict[str, tuple[IndexPart, ...]]:
        """The unique indexes of a table with their parts in order."""
        return information_schema.unique_indexes(await self.ask(information_schema.indexes(table)))

    async def tables(self) -> tuple[TableId, ...]:
        """All tables that the user may see, without views and the server's own."""
        rows = await self.ask(information_schema.TABLES)
        return tuple(TableId(database, name) for database, name in rows)

    async def estimate(self, table: TableId) -> int:
        """The server's estimate of the table's rows."""
        rows = await self.ask(information_schema.estimate(table))
        return int(rows[0][0] or 0) if rows else 0

    async def load(self, lag: bool = True) -> Load:
        """Returns how busy the server is, and its lag if it's a replica; the largest lag of several channels.

        `lag`: whether to read the lag.
        """
        [(_, running)] = await self.ask(Statement("SHOW GLOBAL STATUS LIKE 'Threads_running'"))
        if not lag:
            return Load(int(running))
        channels = await self.ask(Statement(f"SHOW {self.replica} STATUS"))
        lags = [channel[SECONDS_BEHIND] for channel in channels]
        return Load(int(running), None if None in lags else float(max(lags, default=0)))

    async def replication_lag_s(self) -> float:
        """How far the server lags its own source; 0 if it has none, infinity if it doesn't replicate."""
        channels = await self.ask(Statement(f"SHOW {self.replica} STATUS"))
        return replication_lag_s(channels, await self.read_only()) if channels else 0.0

    async def as_replica(self) -> ReplicaState | None:
        """What the server receives as a replica, by all of its channels; None if it's none."""
        channels = await self.ask(Statement(f"SHOW {self.replica} STATUS"))
        if not channels:
            return None
        received = reduce(or_, (GtidSet.parse(channel[_RETRIEVED]) for channel in channels))
        return ReplicaState(received, tuple(map(ReplicationFilters.of_channel, channels)))

    @property
    def thread(self) -> int:
        """The number of the server's thread for this connection, as `threads` has it."""
        number: int = self._wire.thread_id()
        return number

    async def threads(self) -> dict[int, str]:
        """What the server's threads for our user are at, in its words, by their numbers."""
        rows = await self.ask(Statement("SHOW PROCESSLIST"))
        # The server greets with the lowest 32 bits of a thread's number.
        return {number % 2**32: state or "" for number, _, _, _, _, _, state, *_ in rows}

    async def read_only(self) -> bool:
        """Whether the server takes no writes but those that it receives as a replica."""
        [(read_only,)] = await self.ask(Statement("SELECT @@GLOBAL.read_only"))
        return bool(read_only)

    async def lower_case_table_names(self) -> int:
        """How the server takes the names of tables: exactly (0), stored in small letters (1), or in any case (2)."""
        [(how,)] = await self.ask(Statement("SELECT @@GLOBAL.lower_case_table_names"))
        return int(how)

    async def utc_since(self) -> int | None:
        """Returns since when (µs since the epoch, by its clock) the server has had UTC as the time zone of its system.

        That's since it was started, and up to two seconds later. None if it has another time zone.
        """
        [(zone,)] = await self.ask(Statement("SELECT @@GLOBAL.system_time_zone"))
        if zone != "UTC":
            return None
        [(_, uptime_s)] = await self.ask(Statement("SHOW GLOBAL STATUS LIKE 'Uptime'"))
        [(now_s,)] = await self.ask(Statement("SELECT UNIX_TIMESTAMP()"))
        return (int(now_s) - int(uptime_s) + 1) * 1_000_000

    async def variables(self, names: tuple[str, ...]) -> dict[str, str]:
        """Those of these global variables that the server has."""
        places = ", ".join(["%s"] * len(names))
        asked = Statement(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", names)
        return dict(await self.ask(asked))

    async def cascading(self) -> tuple[ForeignKey, ...]:
        """The foreign keys that change or delete rows along with another table's."""
        return information_schema.foreign_keys(await self.ask(information_schema.CASCADING))

    @property
    def version(self) -> tuple[int, ...]:
        """The server's version, as (9, 7, 4)."""
        return server_version(self.version_text)

    @property
    def version_text(self) -> str:
        """The server's version in its own words."""
        text: str = self._wire.get_server_info()
        return text

    @property
    def replica(self) -> str:
        """The server's word for a replica."""
        return "REPLICA" if self.version >= (8, 0, 22) else "SLAVE"

    @property
    def log_status(self) -> str:
        """Returns the statement that shows where the server's log ends."""
        return f"SHOW {'BINARY LOG' if self.version >= (8, 4) else 'MASTER'} STATUS"

    async def ask(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a small result, as Python values.

        Raises Locked where tables are left out because another session has them locked, and Transient where the server
        couldn't open them. Before MySQL 8.0 information_schema opens the tables. It waits for a lock up to
        lock_wait_timeout, or not at all in a transaction that has read a table. Then it has no rows of the table, or
        NULLs, and a warning.
        """
        warnings: list[tuple[Any, ...]] = []
        with translate_errors(statement.sql):
            async with self._answer_in_time():
                rows = await self._wire.small(statement)
                if self._wire.warned and self.version < (8, 0):
                    warnings = await self._wire.small(Statement("SHOW WARNINGS"))
        raise_for_skipped(warnings, statement.sql)
        return rows

    @asynccontextmanager
    async def select(self, statement: Statement) -> AsyncIterator["QueryResult"]:
        """Runs any SELECT, in a separate transaction, and yields its result.

        If the caller leaves it before its end, the connection is replaced, because the server can't be stopped. Within
        a transaction the rest is read and discarded instead.
        """
        with translate_errors(statement.sql):
            async with self._answer_in_time():
                columns, packets = await self._wire.select(statement)
        try:
            yield QueryResult(self, statement, columns, packets)
        except BaseException:
            if not packets.ended:
                self.close()
            raise
        if not packets.ended and self._in_transaction:
            while not packets.ended:
                await self.fill(packets, statement)
                packets.take()
        elif not packets.ended:
            self.close()
            await self._open()

    async def fill(self, packets: RowPackets, statement: Statement) -> None:
        """Read on in the statement's result until `packets` are full. Raises the server's error if that's its end."""
        clock = asyncio.get_running_loop().time
        with translate_errors(statement.sql):
            async with self._answer_in_time() as limit:
                while not packets.full:
                    packets.filled(await self._wire.receive(packets.room()))
                    limit.reschedule(clock() + self._patience_s)
                if packets.ended:
                    self._wire.check_end(packets.tail)

    async def begin(self) -> None:
        """Open a transaction that sees the source as it is now, until the connection is closed or `leave` is called."""
        await self.ask(Statement("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"))
        self._in_transaction = True

    async def leave(self) -> None:
        """End the transaction."""
        self._in_transaction = False
        await self.ask(Statement("ROLLBACK"))

    async def command(self, code: int, payload: bytes) -> None:
        """Send a command of the protocol that the server answers with OK."""
        with translate_errors(f"command {code:#04x} of the protocol"):
            async with self._answer_in_time():
                await self._wire.command(code, payload)
                await self._wire.ok()

    async def stream(self, code: int, payload: bytes) -> None:
        """Send a command that is answered with packets without end: `receive` reads them, the first has number 1."""
        with translate_errors(f"command {code:#04x} of the protocol"):
            await self._wire.command(code, payload)

    async def receive(self, room: memoryview) -> int:
        """Wait for the next bytes of such an answer, put what is there into `room`, and return how many bytes.

        `room`: writable, of bytes, not empty. Raises Transient if the connection is lost; cancelled, it's closed.
        """
        with translate_errors("reading from the source"):
            try:
                return await self._wire.receive(room)
            except BaseException:
                self._wire.close()
                raise

    @asynccontextmanager
    async def _answer_in_time(self) -> AsyncIterator[asyncio.Timeout]:
        """Close the connection if the answer doesn't come in time, or isn't waited for: its stream is out of step."""
        try:
            async with asyncio.timeout(self._patience_s) as limit:
                yield limit
        except pymysql.Error:
            raise  # the server's answer is complete
        except BaseException:
            self._wire.close()
            raise

    @property
    def _patience_s(self) -> float:
        """How long an answer, or the next piece of one, is waited for."""
        return self.settings.read_timeout_s + _GRACE_S


class KeptSource:
    """A connection that is kept from one question to the next."""

    def __init__(self) -> None:
        self._source: Source | None = None

    async def connect(self, settings: ServerSettings) -> Source:
        """The connection that there is, or a new one in its place where it isn't usable or leads elsewhere.

        Raises as `Source.connect` does.
        """
        kept = self._source
        if kept is None or not kept.usable or kept.settings != settings:
            self.close()
            kept = self._source = await Source.connect(settings)
        return kept

    def close(self) -> None:
        """Close it without ado, if there is one."""
        if self._source is not None:
            self._source.close()
            self._source = None


class QueryResult:
    """The result of a SELECT: its columns, and its rows as they come."""

    def __init__(
        self, source: Source, statement: Statement, columns: tuple[ResultColumn, ...], packets: RowPackets
    ) -> None:
        self.columns = columns
        self._source = source
        self._statement = statement
        self._packets = packets

    async def rows(self) -> ResultRows | None:
        """Returns the next rows, some megabytes of them; None after the last. Raises Transient or Definite."""
        await self._source.fill(self._packets, self._statement)
        return self._packets.take()


def _tls(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.tls.mode is TlsMode.DISABLED:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls.ca)
    except OSError as error:  # which an SSLError is
        why = (
            "has no certificate in PEM"
            if isinstance(error, ssl.SSLError)
            else f"can't be read: {error.strerror}"
        )
        raise Definite(
            f"source.tls.ca: {settings.tls.ca} {why}; name a file with the authority's certificate"
        ) from error
    if settings.tls.mode is TlsMode.REQUIRED:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
