"""Plays histories side by side, each in a database of its own, against one server and one service, and judges them.

At each rest of a history its tables are judged: each is in the journal as it is in the source, or stopped by name for
a reason that may be. With a lake, another engine than Spark judges what that has, at the end.
"""

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, Final, assert_never
from unittest.mock import patch

import pymysql
import structlog
import uvloop
from py4j.protocol import Py4JJavaError
from pymysql.cursors import Cursor
from pyspark.errors import PySparkException

from actors import chunk_selector
from actors.journal.store import JournalReader
from actors.lake.spark.spark_session import start_local
from actors.lake.transaction_log.delta_log import COMMIT, LOG, read_version
from actors.runtime.failure_kinds import FailureKind, kind_of
from actors.runtime.redaction import safe_message
from actors.runtime.supervisor import ExitCode
from actors.service.assembly import Assembly
from actors.spark_sink import SparkSink
from deploy.toolchain.mysql_server import CAPTURE, MysqlServer
from pipeline.config.settings import Settings as PipelineSettings
from pipeline.config.settings import SnapshotMode, SparkSettings
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import Entry
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import table_at
from pipeline.lake.tables.tier import Tier
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, stays_incomplete
from pipeline.snapshot.prepared_xa import left_out
from pipeline.snapshot.snapshot import Chunking, Completed, SnapshotFailed, SnapshotWaiting
from tests.histories.power import Power
from tests.histories.readers import Readers
from tests.histories.statements import Act, Captured, History, Metadata, Sql, Step, Version
from tests.histories.turns import Turns
from tests.servers.awaiting import WITHIN_S
from tests.servers.executed import executed
from tests.servers.journal_oracle import unequal
from tests.servers.lake_oracle import unequal_lake, unequal_view
from tests.servers.service import Running, WithoutLake, pipeline, running

# How long (s) nothing may happen before a rest, and how long what's wrong may take to become right. The first one is
# longer than the time between two heartbeats: on MySQL 5.6 a heartbeat alone ends what emptied a MEMORY table last.
REST_S: Final = 15.0
RIGHT_S: Final = 15.0
_LOOK_S: Final = 0.03
_LOOK_LAKE_S: Final = 0.3
_CAUGHT_UP_S: Final = 3.0
# How long (s) nothing may happen before a prepared transaction of another history counts as what is in the way.
_STALLED_S: Final = 1.0
# Acts that concern all histories: no other one acts meanwhile.
_OF_ALL: Final = frozenset(
    {
        Act.RESTART_SERVICE,
        Act.KILL_SERVICE,
        Act.RESTART_SERVER,
        Act.KILL_SERVER,
        Act.RESET_LOG,
        Act.NEW_JOURNAL,
        Act.PURGE_LOG,
        Act.POWER_CUT,
        Act.OLDER_JOURNAL,
        Act.RESTORE_TABLE,
        Act.OTHER_PIPELINE,
    }
)
_PAUSES: Final = {Act.SHORT: 0.005, Act.LONG: 0.08}
_FEW_ROWS: Final = 4
_READ_EVERY_S: Final = 0.3
_DELIVERED_S: Final = 240.0
_MERGED_S: Final = 240.0
_LAKE_ROWS_PER_S: Final = 100
# Spark's own catalog, which is gone with its session.
_CATALOG: Final = "spark_catalog"
# How many empty transactions are committed at once, for the sake of their GTIDs.
_AGAIN: Final = 100

# What alters a table in a calm history, by its name there.
_ALTERS: Final = re.compile(r"(?:ALTER TABLE|(?:CREATE|DROP) [A-Z ]*INDEX .* ON) `((?:[^`]|``)+)`", re.DOTALL)
# Where the copy of a journal is, beside it, and what a service says whose lake is ahead of its journal.
_COPY: Final = "journal-copy"
_AHEAD: Final = "before this service continued it"
# The name of a history's database has its place in the run.
_NAMED: Final = re.compile(r"\bh\d+x(\d+)\b")

# The names of tables that a catalog takes.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_]+")

_numbers = count(1)

# Why a table may stop: nothing can be made of its rows in the lake, or the log doesn't have them.
MAY_STOP: Final = re.compile(
    r"ENGINE=|engine is|has it in its UNION"
    r"|has the name of a column|has a name that Spark and Delta keep"
    r"|zero or partial date|two codes in its character set|a label that is two of its labels"
    r"|whose label has a question mark|the label x"
    r"|foreign key|only the beginning|is a GEOMETRY"
    # A change of it was logged as a statement.
    r"|it has no primary key, so that it can't be read again"
    # An INSERT that gives a column of the key no value, with binlog_row_image = MINIMAL or NOBLOB.
    r"|the log has rows of it without \S.* of its primary key"
    # DROP COLUMN and ADD COLUMN of the same name leave the name in the primary key, as a prefix if it's a text then.
    r"|is in it with a prefix only"
)

# With MINIMAL a table may also stop since statements came too closely after each other for the server to be asked in
# between: that's documented, and the signal `recapture` mends it.
_UNPROVEN: Final = "the log doesn't name "


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that's wrong: of a history by its place in the run, or of all of them."""

    history: int | None
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(slots=True)
class Result:
    """What a run has found; `stops`: why tables have stopped; `refused`, `passed`: how many statements were."""

    findings: list[Finding] = field(default_factory=list)
    stops: dict[TableId, str] = field(default_factory=dict)
    refused: int = 0
    passed: int = 0
    judged: int = 0

    def of(self, place: int) -> list[Finding]:
        """What's been found of one history, or of the service as a whole."""
        return [finding for finding in self.findings if finding.history in (place, None)]

    @property
    def suspects(self) -> set[int]:
        """The histories that something was found of, or whose database is named by what was found of the service."""
        named = {int(place) for finding in self.findings for place in _NAMED.findall(finding.text)}
        return named | {finding.history for finding in self.findings if finding.history is not None}


@dataclass(slots=True)
class Part:
    """A history as it's played: its database, what's left of it, and its sessions."""

    place: int
    history: History
    database: str
    left: list[Step]
    sessions: dict[int, "pymysql.Connection[Cursor]"] = field(default_factory=dict)
    # The generation of each mirror that was complete, and whether anything is known to be wrong.
    since: dict[TableId, int] = field(default_factory=dict)
    wrong: bool = False
    # Since the verifier last knew all of its tables: those altered, once for each statement, and whether it began anew.
    altered: list[str] = field(default_factory=list)
    begun_anew: bool = False
    # Whether an XA transaction that nobody knows may have all tables read again.
    all_reread: bool = False
    # How many of its statements the server took.
    passed: int = 0
    refused: int = 0

    def captures(self, name: str) -> bool:
        """Whether a table of its database is captured."""
        return self.history.captured is Captured.ALL or not name.startswith("_")

    def owns(self, shown: str) -> bool:
        """Whether a table, as the status shows it, is in its database."""
        return shown.lstrip("`").startswith((f"{self.database}.", f"{self.database}`"))

    def may_be_reread(self, table: TableId) -> bool:
        """Whether a widening may have the table read again, since the verifier may not have known what it was before.

        docs/lake.md says so: a statement on the same table hadn't been asked about, or capture began and lagged.
        """
        statements = self.altered.count(table.name)
        return statements > 1 or (statements == 1 and self.begun_anew)


class Player:
    """One run."""

    def __init__(
        self,
        server: MysqlServer,
        folder: Path,
        histories: Sequence[History],
        spark: SparkSettings | None = None,
    ) -> None:
        self.server = server
        self.folder = folder
        self.spark = spark
        self.result = Result()
        run = next(_numbers)
        self.parts = [
            Part(place, history, f"h{run}x{place}", list(history.steps))
            for place, history in enumerate(histories)
        ]
        self.service: Running | None = None
        self._turns = Turns()
        self._reading = Lock()
        self._some = Random(repr([history.seed for history in histories]))
        self._closing: Any = None
        self.readers: Readers | None = None
        self._chain: list[Entry] = []
        # How often the service began with a new journal, and whether it is to refuse what it finds just now.
        self._journal = 0
        self._refusing = False
        # What of the journal and the lake is durable; whether the log was purged since the journal was copied.
        self._power = Power()
        self._purged = False
        self._damaged = False
        self._others = 0

    async def play(self) -> Result:
        """Play it to its end, or to that of the service."""
        with self._power.noted():
            return await self._play_all()

    async def _play_all(self) -> Result:
        reading: asyncio.Task[None] | None = None
        try:
            await asyncio.to_thread(self._prepare)
            await self._start()
            if self.spark:
                self.readers = Readers(self.server, str(self._folder / "lake"), Random(self._some.random()))
                reading = asyncio.create_task(self._read(self.readers))
            async with asyncio.TaskGroup() as playing:
                for part in self.parts:
                    playing.create_task(self._play(part))
            if not self._over():
                await self._judge_lake()
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
            await self._drop()
            await asyncio.to_thread(self._clean)
        self.result.passed = sum(part.passed for part in self.parts)
        self.result.refused = sum(part.refused for part in self.parts)
        return self.result

    # -- the world

    @property
    def _folder(self) -> Path:
        """Where the journal and the lake are: others once the server has another history."""
        return self.folder / f"{self._journal or ''}"

    def _prepare(self) -> None:
        if self.parts[0].history.version is Version.NEW:
            metadata = self.parts[0].history.metadata
            self.server.options["binlog_row_metadata"] = metadata.value  # for when it's started again
            self.server.sql(f"SET GLOBAL binlog_row_metadata = {metadata}")
        self.server.create_capture_user()
        for part in self.parts:
            self.server.sql(
                f"CREATE DATABASE `{part.database}` CHARACTER SET utf8mb4",
                f"GRANT SELECT ON `{part.database}`.* TO '{CAPTURE.user}'@'%'",
            )

    def _clean(self) -> None:
        self._end_branches()
        for part in self.parts:
            for connection in part.sessions.values():
                with suppress(pymysql.err.Error):
                    connection.close()
            for name in (part.database, part.database.upper()):
                # A MySQL 5.6 that was killed may have left files there which it knows nothing of.
                with suppress(pymysql.err.OperationalError):
                    self.server.sql(f"DROP DATABASE IF EXISTS `{name}`")

    def _settings(self) -> PipelineSettings:
        settings = pipeline(
            self.server, self._folder, self.parts[0].database, mode=SnapshotMode.INITIAL, chunk_rows=_FEW_ROWS
        )
        patterns = tuple(
            rf"{part.database}\.{'.*' if part.history.captured is Captured.ALL else '[^_].*'}"
            for part in self.parts
        )
        settings = replace(settings, tables=TableFilter(patterns))
        if self.spark:
            assert settings.lake is not None
            lake = replace(settings.lake, merge_after_s=1.0, merge_share=1.0, catalog=_CATALOG)
            # Slowly, so that a mirror takes several batches to be filled, and readers could see it.
            snapshot = replace(settings.snapshot, rows_per_s=_LAKE_ROWS_PER_S)
            settings = replace(settings, lake=lake, spark=self.spark, snapshot=snapshot)
        return settings

    async def _start(self, assembly: type[Assembly] | None = None) -> None:
        self._begun_anew()
        whole = Assembly if self.spark else WithoutLake
        self._closing = _service(self._settings(), assembly or whole)
        try:
            self.service = await self._closing.__aenter__()
        except Definite as error:
            self._closing, self._damaged = None, True
            self._find(None, "the service ended", f"it does not start: {error}")
            return
        judge = self.service.supervisor._judge

        def judged(group: Any, who: str, error: Exception) -> None:
            if (kind := kind_of(error)) is not FailureKind.TRANSIENT and not self._refusing:
                self._find(None, f"failure, {kind.value}", f"{who}: {safe_message(error)}")
            judge(group, who, error)

        self.service.supervisor._judge = judged  # type: ignore[method-assign]
        with suppress(AssertionError):
            await self.service.begun()

    def _begun_anew(self) -> None:
        for part in self.parts:
            part.begun_anew = True

    async def _drop(self) -> None:
        if self._closing is not None:
            closing, self._closing, self.service = self._closing, None, None
            await closing.__aexit__(None, None, None)

    async def _stop(self) -> bool:
        """Stop the service; whether it has ended cleanly, and in time."""
        assert self.service is not None
        self.service.supervisor.stop()
        try:
            outcome = await self.service.end()
        except TimeoutError:
            self._find(None, "stop", f"the service doesn't stop within {WITHIN_S:.0f} s")
            return False
        return outcome.code is ExitCode.CLEAN or not self._over()

    def _find(self, part: Part | None, kind: str, text: str) -> None:
        if part:
            part.wrong = True
            text = text.replace(part.database, "{db}")
        finding = Finding(part.place if part else None, kind, text)
        if finding not in self.result.findings:
            self.result.findings.append(finding)

    def _over(self) -> bool:
        """Whether the service has ended by itself, or can't start."""
        if self._damaged:
            return True
        if self.service is None or not self.service.outcome.done():
            return False
        outcome = self.service.outcome.result()
        self._find(None, "the service ended", f"{outcome.code.name}: {outcome.message}")
        return True

    # -- readers of the lake

    async def _read(self, readers: Readers) -> None:
        """Read all the time."""
        while True:
            await asyncio.to_thread(readers.poll)
            await asyncio.sleep(_READ_EVERY_S)

    def _without_readers(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.readers is None else self.readers.without()

    def _look(self, part: Part) -> None:
        """Take down what the source has, for the readers."""
        if self.readers is not None:
            self.readers.look(sorted(self._tables(part)))

    # -- steps

    async def _play(self, part: Part) -> None:
        """Play a history beside the others, each of its acts in its turn."""
        while part.left and not self._over():
            alone = part.left[0] in _OF_ALL
            async with self._turns.alone() if alone else self._turns.beside_others():
                if not self._over():
                    try:
                        await self._move(part)
                    except Definite as error:  # what it reads of the journal is damaged
                        self._find(None, "journal", str(error))
                        part.left.clear()

    async def _move(self, part: Part) -> None:
        """The next act of a history, or its statements up to there in one go."""
        statements: list[Sql] = []
        while part.left and isinstance(step := part.left[0], Sql):
            statements.append(step)
            part.left.pop(0)
        if statements:
            await asyncio.to_thread(self._run, part, statements)
        elif part.left:
            act = part.left.pop(0)
            assert isinstance(act, Act)
            await self._act(part, act)

    def _run(self, part: Part, statements: Sequence[Sql]) -> None:
        for statement in statements:
            connection = self._session(part, statement.session)
            text = statement.text.replace("{db}", part.database).replace("{DB}", part.database.upper())
            try:
                with connection.cursor() as cursor:
                    cursor.execute(text)
                part.passed += 1
                if alters := _ALTERS.match(text):
                    part.altered.append(alters[1].replace("``", "`"))
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                part.refused += 1
                if not connection.open or error.args[0] in (0, 2006, 2013):
                    part.sessions.pop(statement.session, None)
            except (pymysql.err.MySQLError, UnicodeError):
                part.refused += 1
            self._look(part)

    def _session(self, part: Part, number: int) -> "pymysql.Connection[Cursor]":
        if number not in part.sessions:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                zone = "SYSTEM" if part.history.summer else "+00:00"
                cursor.execute(
                    f"SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, time_zone = '{zone}'"
                )
                with suppress(pymysql.err.MySQLError):
                    cursor.execute(f"USE `{part.database}`")
            part.sessions[number] = connection
        return part.sessions[number]

    async def _act(self, part: Part, act: Act) -> None:
        match act:
            case Act.SHORT | Act.LONG:
                # A pause is what the history asks for.
                await asyncio.sleep(_PAUSES[act])
            case Act.CAUGHT_UP:
                await self._catch_up(_CAUGHT_UP_S)
            case Act.REST:
                await self._rest(part)
            case Act.EXECUTE:
                await self._execute(part)
            case Act.RECAPTURE:
                await self._recapture(part)
            case Act.RESTART_SERVICE | Act.KILL_SERVICE | Act.POWER_CUT:
                await self._restart_service(act)
            case Act.OLDER_JOURNAL:
                await self._put_back_journal()
            case Act.RESTORE_TABLE:
                await self._restore_table(part)
            case Act.OTHER_PIPELINE:
                await self._run_other_pipeline()
            case Act.RESTART_SERVER | Act.KILL_SERVER:
                await asyncio.to_thread(self._restart_server, clean=act is Act.RESTART_SERVER)
            case Act.RESET_LOG:
                await self._reset_log()
            case Act.NEW_JOURNAL:
                if not self._over():
                    await self._drop()
                    for each in self.parts:
                        each.all_reread = True
                    await self._begin_journal()
                    await self._until(self._first_filled, REST_S, self._sealed)
            case Act.PURGE_LOG:
                await self._purge_log()
            case _:
                assert_never(act)

    async def _execute(self, part: Part) -> None:
        assert self.service is not None
        with suppress(AssertionError):  # refused where there's no table
            await self.service.tell("execute-snapshot", f"s{next(_numbers)}", rf"{part.database}\..*")

    async def _recapture(self, part: Part) -> None:
        """Begin again what has stopped of a history's tables, once all has passed."""
        assert self.service is not None
        await self._catch_up(_CAUGHT_UP_S)
        checkpoint = await asyncio.to_thread(self._checkpoint)
        assert checkpoint is not None
        stopped = [table for table in checkpoint.stopped if table.database == part.database]
        if not stopped:
            return
        signal = f"r{next(_numbers)}"
        patterns = [rf"\Q{table.dotted}\E" for table in stopped]
        answer = await self.service.tell("recapture", signal, *patterns)
        if not isinstance(answer, SignalAccepted):
            self._find(part, "recapture", f"{answer}")
        elif not await self._until(lambda: self._has_begun(signal), REST_S, self._sealed):
            self._find(part, "recapture", f"{', '.join(map(str, stopped))} don't begin again")

    def _has_begun(self, snapshot: str) -> bool:
        status = self.service.status() if self.service else {}
        return any(each["id"] == snapshot for each in status.get("snapshots", ()))

    async def _reset_log(self) -> None:
        """Give the same GTIDs to other transactions while the service is down: it has to refuse the server.

        Then it begins with a new journal, as whoever reads the refusal would.
        """
        if self._over():
            return
        assert self.service is not None
        await asyncio.to_thread(self._end_branches)
        await self._all_passes(await asyncio.to_thread(executed, self.server))
        position = GtidSet.parse(self.service.status()["position"])
        await self._stop()
        await self._drop()
        await asyncio.to_thread(self._written_again, position)
        self._refusing = True
        await self._start(WithoutLake)
        if not await self._refused():
            self._find(None, "another history", "the log was reset, and capture goes on")
        await self._drop()
        self._refusing = False
        await self._begin_journal()

    async def _begin_journal(self) -> None:
        """Start the service as for the first time."""
        self._journal += 1
        self._chain.clear()
        if self.readers is not None:
            self.readers.moved(str(self._folder / "lake"))
        for part in self.parts:
            part.since.clear()
        await self._start()

    async def _purge_log(self) -> None:
        """Purge all of the log that the service has read, whatever is prepared."""
        newest = await asyncio.to_thread(self.server.rotate_binlog)
        done = await asyncio.to_thread(executed, self.server)

        def sealed() -> bool:
            checkpoint = self._checkpoint()
            return checkpoint is not None and _has_read(checkpoint, done)

        if await self._until(lambda: asyncio.to_thread(sealed), REST_S, self._sealed):
            await asyncio.to_thread(self.server.sql, f"PURGE BINARY LOGS TO '{newest}'")
            self._purged = True
        elif not self._over():
            self._find(None, "no rest", "the log that is to be purged isn't sealed")

    def _written_again(self, position: GtidSet) -> None:
        """Reset the log, and write other transactions until all GTIDs of the position are used again."""
        self.server.sql("RESET BINARY LOGS AND GTIDS", "CREATE DATABASE again", "DROP DATABASE again")
        number = 2
        while not position <= executed(self.server):
            empty = [
                (f"SET GTID_NEXT = '{self.server.uuid}:{number + more}'", "BEGIN", "COMMIT")
                for more in range(1, _AGAIN + 1)
            ]
            self.server.sql(*(text for texts in empty for text in texts))
            number += _AGAIN

    async def _refused(self) -> bool:
        """Whether the service ends by itself, since the server has another history."""
        assert self.service is not None
        with suppress(TimeoutError):
            outcome = await self.service.end()
            return "another history" in outcome.message
        return False

    async def _restart_service(self, act: Act) -> None:
        if self._over():
            return
        assert self.service is not None
        if act is Act.RESTART_SERVICE:
            await self._stop()
        await self._drop()
        if act is Act.POWER_CUT:
            async with self._without_readers():
                await asyncio.to_thread(self._power.cut, self._folder / "journal", self._folder / "lake")
        await asyncio.to_thread(self._copy_journal)
        await self._start()

    # -- what somebody does to the journal and the lake

    def _copy_journal(self) -> None:
        """Keep a copy of the journal, while the service is down."""
        copy = self._folder / _COPY
        if copy.exists():
            shutil.rmtree(copy)
        shutil.copytree(self._folder / "journal", copy)
        self._purged = False

    async def _put_back_journal(self) -> None:
        """Put the last copy in the journal's place. The service refuses it if the lake is ahead, or the log too short.

        Then it begins with a new journal and a new lake, as whoever reads the refusal would.
        """
        if self._over() or not (self._folder / _COPY).exists():
            return
        await self._drop()
        sealed = JournalReader(self._folder / "journal").last_segment()
        await asyncio.to_thread(self._replace_journal)
        ends = JournalReader(self._folder / "journal").last_segment()
        self._chain.clear()
        for part in self.parts:
            part.since.clear()
        self._refusing = True
        await self._start()
        refused = await self._refuses_journal()
        self._refusing = False
        if refused is None:
            return
        if not (_AHEAD in refused and sealed > ends) and not (self._purged and "purged" in refused):
            self._find(None, "older journal", f"it ends with {ends}, and ended with {sealed}: {refused}")
        await self._drop()
        for part in self.parts:
            part.all_reread = True
        await self._begin_journal()

    def _replace_journal(self) -> None:
        journal = self._folder / "journal"
        shutil.rmtree(journal)
        shutil.copytree(self._folder / _COPY, journal)
        self._power.note_all(journal)

    async def _refuses_journal(self) -> str | None:
        """Why the service ends by itself, once it has looked at the lake; None if it doesn't."""
        if self._damaged:
            return None
        assert self.service is not None
        if self.spark:
            await self._until(lambda: self._in_lake() > 0, _DELIVERED_S)
        if not self.service.outcome.done():
            return None
        return self.service.outcome.result().message

    async def _restore_table(self, part: Part) -> None:
        """Set a table of a history's back in the lake, as Delta's RESTORE does, while the service is down.

        The service has to set it aside by name. Then the table's folder is removed, as whoever reads that would.
        """
        if self.spark is None or self._over():
            return
        checkpoint = await self._deliver(part)
        if checkpoint is None:
            return
        await self._drop()
        async with self._without_readers():
            table = await asyncio.to_thread(self._restored, self._complete_tables(part, checkpoint))
            await self._start()
            if table is not None:
                await self._remove_restored(table)

    async def _remove_restored(self, table: TableId) -> None:
        """Remove a table of the lake that's set aside since somebody has set it back."""

        def told() -> bool:
            return str(table) in self._sink().get("tables", {})

        await self._until(told, _DELIVERED_S, look_s=_LOOK_LAKE_S)
        why = self._sink().get("tables", {}).get(str(table), {}).get("stopped") or ""
        if "was set back by RESTORE" not in why:
            return  # what it lacks is seen when the lake is judged
        await self._drop()
        shutil.rmtree(Path(location(str(self._folder / "lake"), table, Tier.MIRROR)).parent)
        await self._start()

    def _restored(self, tables: Sequence[TableId]) -> TableId | None:
        """Set one of these tables back by some versions; which one it was."""
        assert self.spark is not None
        lake = str(self._folder / "lake")
        ways = [
            (table, tier, told) for table in tables for tier in Tier if (told := _versions(lake, table, tier))
        ]
        if not ways:
            return None
        table, tier, versions = self._some.choice(ways)
        at = table_at(location(lake, table, tier))
        spark = start_local(self.spark, self.folder / "spark-of-another")
        try:
            spark.session.sql(f"RESTORE TABLE {at} TO VERSION AS OF {self._some.choice(versions)}")
        except PySparkException:  # that version can't be had any more
            return None
        finally:
            spark.stop()
        return table

    async def _run_other_pipeline(self) -> None:
        """Another pipeline captures the same tables beside this one, until it has passed all, and with its server_id.

        Into the same lake it may deliver nothing.
        """
        if self._over():
            return
        self._others += 1
        settings = self._settings()
        journal = replace(settings.journal, path=str(self.folder / f"other-{self._others}"))
        settings = replace(settings, name="other", journal=journal)
        async with running(settings, WithoutLake) as other:
            done = await asyncio.to_thread(executed, self.server)
            passed = False
            for within_s in (_STALLED_S, REST_S):  # what is prepared may be in the way
                passed = await self._until(lambda: other.has_passed(done) or other.outcome.done(), within_s)
                if passed:
                    break
                await asyncio.to_thread(self._end_branches)
            if not passed or other.outcome.done():
                ended = other.outcome.result().message if other.outcome.done() else "it does not pass all"
                self._find(None, "other pipeline", ended)
        if self.spark:
            await self._refuse_other_pipeline(settings)

    async def _refuse_other_pipeline(self, settings: PipelineSettings) -> None:
        """Let another pipeline deliver into this one's lake tables while this one is down."""
        lake = str(self._folder / "lake")
        of_lake = [
            table
            for part in self.parts
            for table in sorted(self._tables(part))
            if read_version(location(lake, table, Tier.CHANGELOG)) is not None
        ]
        if not of_lake:
            return
        await self._drop()
        tables = TableFilter(tuple(re.escape(table.dotted) for table in of_lake))
        async with running(replace(settings, tables=tables), Assembly) as other:
            with suppress(TimeoutError):
                await other.end()
            said = other.outcome.result().message if other.outcome.done() else "it goes on"
            if "is fed from another journal" not in said:
                self._find(None, "other pipeline", f"into the lake of this one: {said}")
        await self._start()

    def _restart_server(self, *, clean: bool) -> None:
        for part in self.parts:
            part.sessions.clear()
        if clean:
            self.server.stop()
        else:
            self.server.kill()
        self.server.start()
        self._begun_anew()
        if self.parts[0].history.version is Version.OLD:
            self._roll_back_branches()
        for part in self.parts:
            self._look(part)

    def _roll_back_branches(self) -> None:
        """Before MySQL 5.7.7 the log doesn't have the commit of what was prepared before a crash."""
        for row in self.server.sql("XA RECOVER"):
            self.server.sql(f"XA ROLLBACK '{row[3]}'")

    # -- rest

    async def _until(
        self,
        so: Callable[[], bool | Awaitable[bool]],
        within_s: float,
        reached: Callable[[], int] | None = None,
        look_s: float = _LOOK_S,
    ) -> bool:
        """Whether it becomes so, while the service runs. It has this long, again each time that `reached` rises."""
        deadline, last = time.monotonic() + within_s, 0
        if self._damaged:
            return False
        assert self.service is not None
        while not (await answer if isinstance(answer := so(), Awaitable) else answer):
            if reached is not None and (now := reached()) > last:
                deadline, last = time.monotonic() + within_s, now
            if time.monotonic() > deadline or self.service.outcome.done():
                return False
            await asyncio.sleep(look_s)
        return True

    def _sealed(self) -> int:
        return int(self.service.status(Name.JOURNAL_WRITER).get("segment") or 0) if self.service else 0

    def _sealed_segments(self) -> list[Entry]:
        """All that's sealed; each segment is read once."""
        reader = JournalReader(self._folder / "journal")
        with self._reading:
            self._chain += reader.entries(len(self._chain), reader.last_segment())
            return list(self._chain)

    def _checkpoint(self) -> Checkpoint | None:
        """What the last sealed segment says."""
        chain = self._sealed_segments()
        return chain[-1].checkpoint if chain else None

    def _reached(self, executed: GtidSet) -> bool:
        return self.service is not None and _has_read(self.service.checkpoint(), executed)

    async def _catch_up(self, within_s: float) -> bool:
        """Whether all that the source has executed is read in that time."""
        done = await asyncio.to_thread(executed, self.server)
        return await self._until(lambda: self._reached(done), within_s)

    async def _all_passes(self, done: GtidSet) -> bool:
        """Whether these are read."""
        return await self._until_by_branches(lambda: self._reached(done))

    async def _until_by_branches(self, so: Callable[[], bool]) -> bool:
        """Whether it becomes so. What other histories have prepared is committed if it may be in the way."""
        if await self._until(so, _STALLED_S, self._sealed):
            return True
        await asyncio.to_thread(self._end_branches)
        return await self._until(so, REST_S, self._sealed)

    def _to_come(self, part: Part, done: GtidSet, checkpoint: Checkpoint | None) -> list[str]:
        """What's still to come in the journal of these transactions, and of a history's tables."""
        if checkpoint is None or not _has_read(checkpoint, done):
            return ["the log"]
        return _unfinished(part, checkpoint)

    def _filled(self, part: Part) -> bool:
        """Whether no snapshot of a history's tables is under way, by the service's own word."""
        if self.service is None or Name.WATERMARK_COORDINATOR not in self.service.supervisor.actors:
            return False
        return not _unfinished(part, self.service.checkpoint())

    def _first_filled(self) -> bool:
        """Whether the snapshots have ended that a new journal begins with, once they have begun."""
        if self.service is None:
            return False
        checkpoint = self.service.checkpoint()
        keyed = (table for table, schema in checkpoint.schemas.items() if schema.key)
        due = not checkpoint.stopped.keys() >= set(keyed)
        return bool(checkpoint.snapshots or not due) and all(map(self._filled, self.parts))

    async def _rest(self, part: Part) -> None:
        await asyncio.to_thread(self._run, part, [Sql("COMMIT"), Sql("UNLOCK TABLES")])
        await asyncio.to_thread(self._end_branches, part)
        done = await asyncio.to_thread(executed, self.server)
        if not (await self._all_passes(done) and await self._until_by_branches(lambda: self._filled(part))):
            if not self._over():
                checkpoint = await asyncio.to_thread(self._checkpoint)
                still = self._to_come(part, done, checkpoint)
                of_all = still == ["the log"]
                self._find(None if of_all else part, "no rest", f"waits for {', '.join(still)[:600]}")
            part.left.clear()
            return
        found: list[Finding] = []

        def right() -> bool:
            chain = self._sealed_segments()
            still = self._to_come(part, done, chain[-1].checkpoint if chain else None)
            found[:] = [] if still else self._wrong(part, chain)
            return not found and not still

        if not await self._until(lambda: asyncio.to_thread(right), RIGHT_S):
            for finding in found:
                self._find(part, finding.kind, finding.text)
        if self.readers is not None:
            for text in self.readers.judged(part.database):
                self._find(part, "reader", text[:600])
        self.result.judged += 1
        if self.spark and not part.wrong:
            # What comes next is to be seen by readers: so the lake has what has come up to here.
            await self._deliver(part)
        if part.wrong:
            part.left.clear()
        elif part.history.calm and await self._until(lambda: self._surveyed(part), RIGHT_S):
            part.altered.clear()
            part.begun_anew = False

    def _surveyed(self, part: Part) -> bool:
        """Whether the verifier knows all that it asks the server about a history's tables."""
        status = self.service.status(Name.SCHEMA_VERIFIER) if self.service else {}
        return bool(status) and not any(map(part.owns, status["asked"]))

    def _end_branches(self, part: Part | None = None) -> None:
        """Commit what is still prepared, of a history or of all: it would be missing in the position for good."""
        for row in self.server.sql("XA RECOVER"):
            if part is None or str(row[3]).startswith(f"{part.database}-"):
                with suppress(pymysql.err.MySQLError):
                    self.server.sql(f"XA COMMIT '{row[3]}'")
        for each in self.parts if part is None else [part]:
            self._look(each)

    def _tables(self, part: Part, kind: str = "BASE TABLE") -> set[TableId]:
        """The history's tables, or views, that the source has and that are captured."""
        told = self.server.sql(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA = '{part.database}' AND TABLE_TYPE = '{kind}'"
        )
        return {TableId(*row) for row in told if row[0] == part.database and part.captures(row[1])}

    def _wrong(self, part: Part, chain: Sequence[Entry]) -> list[Finding]:
        return list(self._differences(part, chain[-1].checkpoint, chain))

    def _differences(self, part: Part, checkpoint: Checkpoint, chain: Sequence[Entry]) -> Iterator[Finding]:
        there = self._tables(part)
        stopped = {table: why for table, why in checkpoint.stopped.items() if table.database == part.database}
        # What a first snapshot couldn't read is a table that has stopped, too, for who wants all of it. A table
        # without a key has no snapshot: it is judged no more.
        keyless = {t for t, schema in checkpoint.schemas.items() if not schema.key}
        unread = {t: why for t, why in _unread(chain).items() if t in there - stopped.keys() - keyless}
        for table, why in (*stopped.items(), *unread.items()):
            unnamed = why.replace(part.database, "{db}").replace(f"{{db}}.{table.name}", "{t}")
            self.result.stops[table] = unnamed
            if not _may_stop(part.history, why):
                yield Finding(part.place, "stopped", f"{table}: {why}")
        mirrors = {table for table in checkpoint.mirrors if table.database == part.database}
        judged: list[TableId] = []
        for table in sorted((there | mirrors) - stopped.keys() - unread.keys()):
            schema = checkpoint.schemas.get(table)
            if schema is None and table not in mirrors and table in there:
                yield Finding(part.place, "unknown", f"{table}: it isn't known")
            elif schema is not None and not schema.key:
                continue
            else:
                judged.append(table)
        differences = unequal(self.server, self._folder / "journal", *judged, chain=chain)
        yield from (Finding(part.place, "unequal", text[:600]) for text in differences)
        for view in self._tables(part, "VIEW") & (checkpoint.schemas.keys() | stopped.keys()):
            yield Finding(part.place, "view", f"{view}: a view is taken for a table")
        yield from self._needless(part, checkpoint)

    def _needless(self, part: Part, checkpoint: Checkpoint) -> Iterator[Finding]:
        """Mirrors that were begun anew though no statement of the history makes rows others."""
        since = {t: mirror.since for t, mirror in checkpoint.mirrors.items() if t.database == part.database}
        if part.history.calm and not part.all_reread:
            for table in part.since.keys() & since.keys():
                if part.may_be_reread(table):
                    part.since[table] = since[table]
                if since[table] != part.since[table]:
                    yield Finding(
                        part.place,
                        "needless",
                        f"{table}: its mirror was begun anew, and nothing called for it",
                    )
        part.since = since | part.since

    # -- the lake

    async def _deliver(self, part: Part | None = None) -> Checkpoint | None:
        """Wait until the lake has all that's sealed, and whole mirrors of one history or of all; what was sealed last.

        The mirror of a table that has stopped stays as it is.
        """
        chain = await asyncio.to_thread(self._sealed_segments)
        if not chain:
            return None
        checkpoint = chain[-1].checkpoint
        stopped = {str(table) for table in _incomplete(checkpoint)}

        def delivered() -> bool:
            sink = self._sink()
            if self._in_lake() < chain[-1].segment:
                return False
            filling = (
                name
                for name, table in sink["tables"].items()
                if table["rebuilding_since"] and not table["stopped"]
            )
            return not any(part is None or part.owns(name) for name in {*sink["late"], *filling} - stopped)

        if not await self._until(delivered, _DELIVERED_S, self._lake_progress, look_s=_LOOK_LAKE_S):
            self._find(part, "lake", f"isn't delivered: {self._sink()}"[:600])
        elif part is None and not await self._until(
            lambda: self._merged(stopped), _MERGED_S, self._lake_progress, look_s=_LOOK_LAKE_S
        ):
            self._find(None, "lake", f"isn't merged: {self._sink()}"[:600])
        return checkpoint

    def _sink(self) -> dict[str, Any]:
        """What the sink says of itself; nothing before it's built."""
        return self.service.status(Name.SPARK_SINK) if self.service else {}

    def _in_lake(self) -> int:
        """The segment through which the lake has everything."""
        return int(self._sink().get("segment") or 0)

    def _lake_progress(self) -> int:
        """How far the lake is: it grows with segments, merged segments, and mirrors that are complete."""
        tables = self._sink().get("tables", {}).values()
        merged = sum(table["merged"] or 0 for table in tables)
        return self._in_lake() + merged + sum(not table["rebuilding_since"] for table in tables)

    def _merged(self, but: Set[str]) -> bool:
        """Whether all mirrors have merged their changes, but for these."""
        tables = self._sink()["tables"]
        told = (tables[name] for name in tables.keys() - but)
        return not any(table["pending"] for table in told if table["mirror"] and not table["stopped"])

    async def _judge_lake(self) -> None:
        """Hold what the lake has against the source, once everything is in it."""
        if self.spark is None or self.service is None:
            return
        checkpoint = await self._deliver()
        assert checkpoint is not None
        told = self._sink()["tables"].items()
        stopped = {name: table["stopped"] for name, table in told if table["stopped"]}
        await asyncio.to_thread(self._judge_catalog, checkpoint)
        if self.readers is not None:
            await asyncio.to_thread(self.readers.poll)
            for part in self.parts:
                for text in self.readers.judged(part.database):
                    self._find(part, "reader", text[:600])
        if not await self._stop():
            return
        for part in self.parts:
            for table in self._complete_tables(part, checkpoint):
                if (why := stopped.get(str(table))) is not None:
                    if not _may_stop(part.history, why):
                        self._find(part, "stopped", f"{table}: in the lake: {why}"[:600])
                    continue
                key = checkpoint.schemas[table].key_names
                try:
                    found = await asyncio.to_thread(
                        unequal_lake, self.server, str(self._folder / "lake"), table, key=key
                    )
                except Exception as error:  # noqa: BLE001 - whatever a reader of the lake runs into
                    found = [f"{table}: {type(error).__name__}: {str(error)[:300]}"]
                for text in found:
                    self._find(part, "lake", text[:600])

    def _complete_tables(self, part: Part, checkpoint: Checkpoint) -> list[TableId]:
        """A history's tables whose mirrors have all rows."""
        return sorted(self._tables(part) & checkpoint.mirrors.keys() - _incomplete(checkpoint))

    def _judge_catalog(self, checkpoint: Checkpoint) -> None:
        """Hold the catalog's views against the source, but for those that the sink says a catalog can't have."""
        assert self.service is not None
        sink = self.service.supervisor.actors[Name.SPARK_SINK]
        assert isinstance(sink, SparkSink)
        if (up := sink._up) is None:
            return
        told = sink.status()["tables"]
        for part in self.parts:
            plain = (each for each in self._complete_tables(part, checkpoint) if _PLAIN.fullmatch(each.name))
            for table in plain:
                said = told.get(str(table), {})
                if said.get("stopped") or said.get("no_view"):
                    continue
                try:
                    rows = up.spark.session.table(f"{_CATALOG}.`{table.database}`.`{table.name}`").toArrow()
                except PySparkException as error:
                    found = [f"{table}: {str(error)[:300]}"]
                except Py4JJavaError as error:  # of a stage that failed; its own text asks the JVM, in vain
                    found = [f"{table}: {error.java_exception.getMessage()[:300]}"]
                else:
                    found = unequal_view(self.server, table, rows, checkpoint.schemas[table].key_names)
                for text in found:
                    self._find(part, "catalog", text[:600])


def _has_read(checkpoint: Checkpoint, done: GtidSet) -> bool:
    """Whether the service needs nothing more of these, with what its position lacks for XA transactions."""
    return done <= checkpoint.position | left_out(checkpoint.prepared)


def _unfinished(part: Part, checkpoint: Checkpoint) -> list[str]:
    """What snapshots have still to read of a history's tables."""
    return [
        f"{table} of snapshot {snapshot.id}: {state}"
        for snapshot in checkpoint.snapshots
        for table, state in snapshot.tables.items()
        if table.database == part.database and isinstance(state, SnapshotWaiting | Chunking)
    ]


def _may_stop(history: History, why: str) -> bool:
    return bool(MAY_STOP.search(why)) or (history.metadata is Metadata.MINIMAL and _UNPROVEN in why)


def _versions(lake: str, table: TableId, tier: Tier) -> list[int]:
    """The versions of a lake table before its present one, of which each is there by itself."""
    log = Path(location(lake, table, tier)) / LOG
    return sorted(int(match[1]) for path in log.glob("*.json") if (match := COMMIT.fullmatch(path.name)))[:-1]


def _incomplete(checkpoint: Checkpoint) -> Set[TableId]:
    """The tables that have stopped, and those whose mirrors lack rows that no snapshot will bring."""
    lacking = {table for table in checkpoint.mirrors if stays_incomplete(checkpoint, table)}
    return checkpoint.stopped.keys() | lacking


def _unread(chain: Sequence[Entry]) -> dict[TableId, str]:
    """The tables whose mirrors lack rows since their last snapshot has failed, and why.

    A checkpoint has only the last of the snapshots that ended.
    """
    failed: dict[TableId, str] = {}
    snapshots = {each.id: each for entry in chain for each in entry.checkpoint.snapshots}
    for snapshot in snapshots.values():
        for table, state in snapshot.tables.items():
            match state:
                case SnapshotFailed(reason):
                    failed[table] = reason
                case Completed():
                    failed.pop(table, None)
                case _:
                    pass
    checkpoint = chain[-1].checkpoint
    return {table: why for table, why in failed.items() if stays_incomplete(checkpoint, table)}


@asynccontextmanager
async def _service(settings: PipelineSettings, assembly: type[Assembly]) -> AsyncIterator[Running]:
    async with running(settings, assembly) as service:
        yield service


@contextmanager
def _log_into(path: Path) -> Iterator[None]:
    """What the service logs goes into a file."""
    before = structlog.get_config()
    with path.open("w") as file:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file))
        try:
            yield
        finally:
            structlog.configure(**before)


def played(
    server: MysqlServer, folder: Path, histories: Sequence[History], spark: SparkSettings | None = None
) -> Result:
    """Play these histories side by side; they're of one version and kind of metadata."""
    assert len({(history.version, history.metadata) for history in histories}) == 1
    assert histories[0].version is Version.NEW or histories[0].metadata is Metadata.MINIMAL
    folder.mkdir(parents=True)
    # The service runs on this loop.
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    small = patch.object(chunk_selector, "LEAST_ROWS_OF_RANGE", 2 * _FEW_ROWS)  # as large tables are divided
    with small, _log_into(folder / "log"), runner:
        return runner.run(Player(server, folder, histories, spark).play())
