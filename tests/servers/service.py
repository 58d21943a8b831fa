"""The complete service in the test's own process. Every part is real except the lake, whose place the journal takes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from actors import chunk_selector
from actors.journal.store import JournalStore
from actors.runtime.actor import Actor
from actors.runtime.redaction import redacted_traceback
from actors.runtime.supervisor import ExitCode, RestartLimits, RunOutcome, Supervisor
from actors.service.assembly import Assembly
from actors.watermark_coordinator import WatermarkCoordinator
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config import settings as config
from pipeline.errors import Backoff
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.messages import topology
from pipeline.messages.journal import SegmentSealed
from pipeline.messages.signals import SignalAccepted, SignalAnswer
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Checkpoint
from tests.servers.awaiting import WITHIN_S, Value, until
from tests.servers.executed import executed
from tests.servers.source import settings as source_settings

# In place of the selector's own, where tests say so.
LEAST_ROWS_OF_RANGE: Final = 100


def pipeline(server: MysqlServer, folder: Path, database: str, **snapshot: Any) -> config.Settings:
    """Settings that capture a database with the least rights; `snapshot` are of SnapshotSettings.

    Nothing is snapshotted unasked, where they don't say so.
    """
    account = server.create_capture_user(database)
    return config.Settings(
        "test",
        TableFilter((rf"{database}\..*",)),
        source_settings(server, account),
        config.JournalSettings(str(folder / "journal"), seal_after_ms=20),
        config.LakeSettings(str(folder / "lake"), drain_s=60.0),
        config.SnapshotSettings(**{"mode": config.SnapshotMode.NO_DATA, "chunk_rows": 100, **snapshot}),
    )


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of some hundreds of rows are divided as large ones are."""
    monkeypatch.setattr(chunk_selector, "LEAST_ROWS_OF_RANGE", LEAST_ROWS_OF_RANGE)


class NoSink(Actor[SegmentSealed]):
    """In the sink's place: nothing reads the journal while the service runs."""

    name = topology.ActorName.SPARK_SINK

    async def handle(self, message: SegmentSealed) -> None:
        """Leave it."""


class WithoutLake(Assembly):
    """The service, without Spark."""

    async def _delivery(self) -> tuple[Actor[Any], ...]:
        return (NoSink(self.mailboxes[Name.SPARK_SINK], self.metrics),)


class Running:
    """A service that runs, and how to talk with it."""

    def __init__(self, settings: config.Settings, store: JournalStore, assembly: type[Assembly]) -> None:
        self.assembly = assembly(settings, store)
        limits = RestartLimits(Backoff(0.02, 0.1), look_every_s=0.05)
        self.supervisor = Supervisor(
            self.assembly.build, self.assembly.mailboxes, self.assembly.metrics, limits
        )
        self.outcome = asyncio.create_task(self.supervisor.run())

    def status(self, name: Name = Name.WATERMARK_COORDINATOR) -> dict[str, Any]:
        """What an actor says of itself; nothing before it's built."""
        return self.supervisor.actors[name].status() if name in self.supervisor.actors else {}

    def checkpoint(self) -> Checkpoint:
        """What the coordinator's status is made of; an empty one before it's built.

        Who waits asks all the time, and the status is long.
        """
        coordinator = self.supervisor.actors.get(Name.WATERMARK_COORDINATOR)
        if coordinator is None:
            return Checkpoint(NO_GTIDS)
        assert isinstance(coordinator, WatermarkCoordinator)
        return coordinator._state.checkpoint

    def has_passed(self, gtids: GtidSet) -> bool:
        """Whether all of these transactions have passed."""
        return gtids <= self.checkpoint().position

    async def until(self, told: Callable[[], Value], what: str, within_s: float = WITHIN_S) -> Value:
        """As `until`, for as long as the service runs. If it fails, the error has what each actor says of itself."""
        try:
            return await until(told, what, within_s, self.outcome.done)
        except AssertionError as error:
            for name, actor in self.supervisor.actors.items():
                failure = self.supervisor.failures.get(name, "")
                error.add_note(f"{name}, {self.supervisor.states[name]}: {actor.status()} {failure}")
            raise

    async def begun(self) -> None:
        """Until the first segment is sealed: from here on no change is missed."""
        await self.until(lambda: self.status(Name.JOURNAL_WRITER).get("segment"), "the first segment")

    async def tell(self, kind: str, id_: str, *tables: str, **more: Any) -> SignalAnswer:
        """Send a signal as the REST channel does, and wait for its answer; `more` is of its data."""
        data: dict[str, Any] = {key.replace("_", "-"): value for key, value in more.items()}
        if tables:
            data["data-collections"] = list(tables)
        if kind in ("execute-snapshot", "stop-snapshot"):
            data.setdefault("type", "incremental")
        text = json.dumps({"id": id_, "type": kind, "data": data})
        return await self.assembly.requests.ask(text.encode(), WITHIN_S)

    def tables(self, id_: str) -> dict[str, dict[str, Any]]:
        """The state of each table of a snapshot, by its name."""
        snapshots = {snapshot["id"]: snapshot for snapshot in self.status().get("snapshots", [])}
        return {table["table"]: table for table in snapshots.get(id_, {"tables": []})["tables"]}

    async def execute(self, id_: str, *tables: str, **more: Any) -> None:
        """Ask for a snapshot, of all tables unless some are named; `more` is of the signal's data."""
        answer = await self.tell("execute-snapshot", id_, *(tables or (".*",)), **more)
        assert isinstance(answer, SignalAccepted), answer

    async def completed(self, id_: str) -> None:
        """Until a snapshot has ended; it must have completed."""

        def told() -> bool:
            found = [each for each in self.checkpoint().snapshots if each.id == id_]
            return any(snapshot.tables and snapshot.ended for snapshot in found)

        await self.until(told, f"the end of snapshot {id_}")
        assert {table["state"] for table in self.tables(id_).values()} == {"completed"}, self.tables(id_)

    async def caught_up(self, server: MysqlServer) -> None:
        """Until all that the server has executed has passed."""
        all_of_it = executed(server)
        await self.until(lambda: self.has_passed(all_of_it), "all has passed")

    async def sealed(self) -> int:
        """The segment by which all that has passed by now is sealed, once it is."""
        passed = GtidSet.parse(self.status()["position"])
        return await self.until(lambda: self._segment_with(passed), f"what has passed is sealed: {passed}")

    def _segment_with(self, passed: GtidSet) -> int:
        journal = self.status(Name.JOURNAL_WRITER)
        return int(journal["segment"]) if passed <= GtidSet.parse(journal["position"] or "") else 0

    async def stop(self) -> None:
        """Stop it cleanly."""
        self.supervisor.stop()
        assert await self.end() == RunOutcome(ExitCode.CLEAN)

    async def end(self) -> RunOutcome:
        """How it ends by itself."""
        async with asyncio.timeout(WITHIN_S):
            return await asyncio.shield(self.outcome)

    async def drop(self) -> None:
        """End it as a crash would, as far as one process can: nothing that isn't sealed stays."""
        self.outcome.cancel()
        await asyncio.wait({self.outcome})
        await self.assembly.applied.close()


@asynccontextmanager
async def running(
    settings: config.Settings, assembly: type[Assembly] = WithoutLake
) -> AsyncIterator[Running]:
    """Runs the service; after the context it's dropped if it wasn't stopped."""
    store = JournalStore.open_single_writer(settings.journal.path, settings.name)
    with closing(store), _plain_log():
        service = Running(settings, store, assembly)
        try:
            yield service
        finally:
            await service.drop()


@contextmanager
def _plain_log() -> Iterator[None]:
    """As text, with failures in the service's own words."""
    before = structlog.get_config()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.ExceptionRenderer(lambda failed: redacted_traceback(failed[1])),
            structlog.processors.LogfmtRenderer(),
        ]
    )
    try:
        yield
    finally:
        structlog.configure(**before)
