"""The service beside many tables, in a process of its own that ends at SIGTERM, as `tidemark run` does.

It writes what it has seen to a file of JSON: when every table could be read, how old each sampled change was when it
could, and what the journal and the lake have got.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import uvloop

from actors.http.server import HttpServer
from actors.lake.spark.spark_session import Spark
from actors.runtime.metrics import Metrics
from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import LifeState
from actors.service import warm_up
from actors.service.assembly import Assembly
from actors.spark_sink import SparkSink
from actors.status.status_board import StatusBoard
from bench._lake import JVM_MEMORY
from bench._service import noted, source
from deploy.toolchain.parts import locate
from pipeline import metrics as catalogue
from pipeline.config.settings import (
    HttpSettings,
    JournalSettings,
    LakeSettings,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SparkSettings,
)
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from pipeline.metrics import Histogram
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Ready
from tests.servers.service import Running, running

_LOOK_EVERY_S: Final = 0.05
_MIB: Final = 1 << 20

# As `tidemark run` begins.
_PROGRAM: Final = """
import sys
from actors.runtime import malloc; from actors.service import no_pandas

malloc.use_one_arena()
no_pandas.block_pandas()

from bench import _tables

_tables.main(sys.argv[1])
"""


@dataclass(frozen=True, slots=True)
class Order:
    """The service captures the tables that match, `count` of them, in `folder`; `port` leads to the server.

    `data`: it takes a first snapshot of them. `serves`: it has an HTTP server. `merge_after_s` as in its settings.
    """

    port: int
    folder: str
    tables: str
    count: int
    data: bool = True
    serves: bool = False
    merge_after_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the service has seen so far: the JVM's process id, when every table could be read (s since the epoch, None
    before), the position that the lake has, and the ages (s) of sampled changes when they could be read. `url`: of its
    HTTP server, if it has one. `files` and `mib`: what has been written into the journal and into the lake, where a
    linked file counts as written; and how long (s) each merge took.

    Without data a table can be read as soon as all actors are ready: its first change makes it.
    """

    jvm: int | None
    readable: float | None
    position: str
    freshness: list[float]
    url: str | None = None
    files: dict[str, float] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=dict)
    merges_s: list[float] = field(default_factory=list)


class Service:
    """A service that runs in a process of its own."""

    def __init__(self, order: Order) -> None:
        self.began = time.time()
        self._folder = Path(order.folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        _seen_file(self._folder).unlink(missing_ok=True)
        program = [sys.executable, "-c", _PROGRAM, json.dumps(asdict(order))]
        self._process = subprocess.Popen(program, stdout=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        """Returns its process id."""
        return self._process.pid

    def seen(self) -> Seen:
        """Returns what it has seen. Raises AssertionError if it has ended."""
        assert self._process.poll() is None, f"the service ended: {self._process.returncode}"
        file = _seen_file(self._folder)
        return Seen(**json.loads(file.read_text())) if file.exists() else Seen(None, None, "", [])

    def has(self, executed: str) -> bool:
        """Returns whether the lake has what the server had executed."""
        return GtidSet.parse(executed) <= GtidSet.parse(self.seen().position)

    def stop(self, within_s: float) -> float:
        """Sends SIGTERM, and returns how long (s) it took to end; infinity if it was killed after that time."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return float("inf")
        assert code == 0, f"the service ended with {code}"
        return time.monotonic() - began

    def kill(self) -> None:
        """Ends it at once; its JVM ends with it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(order: Order) -> Iterator[Service]:
    """Runs it. What's left of it afterwards is killed."""
    service = Service(order)
    try:
        yield service
    finally:
        service.kill()


def _seen_file(folder: Path) -> Path:
    return folder / "seen.json"


def main(order: str) -> None:
    """Runs the service of this order (JSON) until SIGTERM."""
    os.environ["JAVA_HOME"] = str(locate().java_home)
    warm_up.import_all()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(Order(**json.loads(order))))


def _settings(order: Order) -> Settings:
    return Settings(
        "bench",
        TableFilter((order.tables,)),
        source(order.port),
        JournalSettings(f"{order.folder}/journal"),
        LakeSettings(f"{order.folder}/lake", merge_after_s=order.merge_after_s),
        SnapshotSettings(mode=SnapshotMode.INITIAL if order.data else SnapshotMode.NO_DATA),
        spark=SparkSettings(jars=locate().jars, driver_memory=JVM_MEMORY),
    )


async def _run(order: Order) -> None:
    async with running(_settings(order), Assembly) as service, AsyncExitStack() as stack:
        url = await stack.enter_async_context(_served(service, order)) if order.serves else None
        metrics = service.assembly.metrics
        observed = noted(metrics, catalogue.FRESHNESS, catalogue.MERGE)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, service.supervisor.stop)
        readable: float | None = None
        while not service.outcome.done():
            if (sink := _sink(service)) is not None:
                if readable is None and _is_readable(service, sink, order):
                    readable = time.time()
                _write(Path(order.folder), _seen(sink, readable, url, metrics, observed))
            await asyncio.wait({service.outcome}, timeout=_LOOK_EVERY_S if readable is None else 0.5)
    outcome = service.outcome.result()
    sys.exit(outcome.code)


@asynccontextmanager
async def _served(service: Running, order: Order) -> AsyncIterator[str]:
    """The address of the service's HTTP server."""
    assembly, supervisor = service.assembly, service.supervisor
    board = StatusBoard("bench", supervisor, assembly.mailboxes, assembly.metrics, RecentEvents())
    address = Path(order.folder, "http.json")
    server = HttpServer(
        HttpSettings(),
        address,
        board,
        assembly.metrics,
        assembly.requests,
        assembly.applied,
        assembly.changes,
    )
    async with server as served:
        yield served.url


def _sink(service: Running) -> SparkSink | None:
    sink: Any = service.supervisor.actors.get(Name.SPARK_SINK)
    return sink if isinstance(sink, SparkSink) and sink.not_ready() is None else None


def _is_readable(service: Running, sink: SparkSink, order: Order) -> bool:
    if order.data:
        return _all_readable(sink, order.count)
    supervisor = service.supervisor
    there = {name for name, state in supervisor.states.items() if state is not LifeState.ABSENT}
    return all(
        supervisor.states[name] is LifeState.RUNNING and supervisor.actors[name].not_ready() is None
        for name in there
    )


def _all_readable(sink: SparkSink, count: int) -> bool:
    # What `status` says of all tables takes longer, and is asked again and again.
    so_far, mirrors = sink._state.so_far, sink._state.so_far.checkpoint.mirrors
    if len(so_far.tables) < count or len(mirrors) < count or sink._state.background.rebuilding:
        return False
    return all(
        table in so_far.tables and so_far.tables[table].generation is not None and isinstance(mirror, Ready)
        for table, mirror in mirrors.items()
    )


def _seen(
    sink: SparkSink,
    readable: float | None,
    url: str | None,
    metrics: Metrics,
    observed: dict[Histogram, list[float]],
) -> Seen:
    assert sink._up is not None
    spark, so_far = sink._up.spark, sink._state.so_far
    into_lake = metrics.total(catalogue.DELIVERED_BYTES) + metrics.total(catalogue.LAKE_REWRITTEN)
    return Seen(
        spark.pid if isinstance(spark, Spark) else None,
        readable,
        str((so_far.ahead or so_far).checkpoint.position),
        observed[catalogue.FRESHNESS],
        url,
        {
            "journal": metrics.total(catalogue.JOURNAL_FILES),
            "lake": metrics.total(catalogue.LAKE_FILES_WRITTEN),
        },
        {"journal": metrics.total(catalogue.JOURNAL_WRITTEN) / _MIB, "lake": into_lake / _MIB},
        observed[catalogue.MERGE],
    )


def _write(folder: Path, seen: Seen) -> None:
    beside = _seen_file(folder).with_suffix(".new")
    beside.write_text(json.dumps(asdict(seen)))
    beside.replace(_seen_file(folder))
