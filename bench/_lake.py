"""Tidemark as it runs, from the log or the tables into the lake, in a process of its own; and plain Spark beside it.

What's in the lake is counted there, in the live view, before a time is believed.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import uvloop

from actors.journal.store import JournalReader
from actors.lake.live_view import live_view
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.service import warm_up
from actors.service.assembly import Assembly
from actors.spark_sink import SparkSink
from bench._commits import plain_spark
from bench._logs import DATABASE
from bench._processes import processor_s, resident_mib
from bench._service import noted, source
from bench._snapshots import TABLE
from bench._topics import topics
from deploy.toolchain.parts import Parts, locate
from pipeline import metrics as catalogue
from pipeline.config.settings import (
    JournalSettings,
    LakeSettings,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SparkSettings,
)
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import FileKind
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import table_at
from pipeline.lake.tables.tier import Tier
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Ready
from tests.servers.service import Running, running

ELEVEN: Final = TableId(DATABASE, TABLE)
JVM_MEMORY: Final = SparkSettings().driver_memory
_LOOK_EVERY_S: Final = 0.05
_READY: Final = Ready.wire
# After this nobody waits any longer.
_LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a service is to do, in `folder`, with the tables that match; `port` leads to the server.

    It takes a first snapshot of those of them that match `snapshot`, if any do, delivers what the server has executed
    up to `through`, merges so many `rounds`, and then goes on for `watch_s`. `merge_rows` and `merge_after_s` as in its
    settings. `begun`: a file that's made when the last of these begins. Before each round but the first it makes the
    file `round_begun`, for whoever makes the changes for it. With `brokers` it sends all of it to topics as well, whose
    prefix is `topics`. It verifies the large table so many times, the last time behind all that and the others before
    `begun`. `store`: the path of a lake in S3. `server`: the server's process.
    """

    port: int
    folder: str
    tables: str
    snapshot: str = ""
    through: str = ""
    rounds: int = 0
    merge_rows: int = 1 << 40
    watch_s: float = 0.0
    merge_after_s: float = 3600.0
    begun: str | None = None
    brokers: str = ""
    topics: str = ""
    verifications: int = 0
    store: str = ""
    server: int = 0

    @property
    def lake(self) -> str:
        """The lake's path."""
        return self.store or f"{self.folder}/lake"


def round_begun(folder: str | Path, number: int) -> Path:
    """The file that's made in an order's folder before a round."""
    return Path(folder, f"round-{number}")


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a verification: its verdict, the rows that it read, seconds from its signal until they were in the
    stream and until the result, and samples of freshness (s) meanwhile. `processor_s`: of each process, in these
    seconds.
    """

    verdict: str
    rows: int
    read_s: float
    judged_s: float
    freshness: list[float] = field(repr=False)
    processor_s: dict[str, float]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What came of it: seconds from the snapshot's signal until the lake had all of it, from the service's start until
    the lake had what had been executed, and of each merge; samples of freshness (s), and the processor time of each
    process for each second of the watch; the greatest resident memory (MiB) of Python and of the JVM; rows and a sum of
    the live view at the end; and each verification.
    """

    snapshot_s: float
    through_s: float
    merges_s: list[float]
    freshness: list[float] = field(repr=False)
    watched_s: dict[str, float]
    python_mib: float
    jvm_mib: float
    rows: int
    customers: int
    verified: list[Verified]


# As `tidemark run` begins.
_PROGRAM: Final = """
import sys
from actors.runtime import malloc; from actors.service import no_pandas

malloc.use_one_arena()
no_pandas.block_pandas()

from bench import _lake

_lake.main(sys.argv[1])
"""


def deliver(order: Order) -> Delivered:
    """Do it in a program of its own, which begins as the service does."""
    program = [sys.executable, "-c", _PROGRAM, json.dumps(asdict(order))]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    came: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    verified = came.pop("verified")
    return Delivered(**came, verified=[Verified(**each) for each in verified])


def wait_for(begun: Path, service: "Future[Delivered]") -> None:
    """Waits until the service has made the file. Raises what it raised, if it ends before."""
    while not begun.exists():
        if service.done():
            service.result()
        time.sleep(0.1)


def main(order: str) -> None:
    """Do what this JSON says, and print what came of it, as JSON."""
    print(json.dumps(asdict(_deliver(Order(**json.loads(order))))))


def _in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def _settings(order: Order) -> Settings:
    return Settings(
        "bench",
        TableFilter((order.tables,)),
        source(order.port),
        JournalSettings(f"{order.folder}/journal"),
        LakeSettings(order.lake, order.merge_rows, order.merge_after_s, merge_share=1.0),
        SnapshotSettings(mode=SnapshotMode.NO_DATA),
        spark=SparkSettings(jars=_jars(order), driver_memory=JVM_MEMORY),
        kafka=topics(order.brokers, order.topics) if order.brokers else None,
    )


def _jars(order: Order) -> tuple[Path, ...]:
    parts = locate()
    assert parts.s3 is not None or not order.store, "run `make setup-s3`"
    return (*parts.jars, parts.s3) if order.store and parts.s3 else parts.jars


def _deliver(order: Order) -> Delivered:
    os.environ["JAVA_HOME"] = str(locate().java_home)
    warm_up.import_all()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_delivered(order))


async def _delivered(order: Order) -> Delivered:
    began = time.time()
    snapshot_s = through_s = 0.0
    async with running(_settings(order), Assembly) as service:
        observed = noted(service.assembly.metrics, catalogue.FRESHNESS, catalogue.MERGE)
        await service.begun()
        await _until(service, lambda sink: sink.not_ready() is None)
        if order.snapshot:
            asked = time.time()
            await service.execute(f"bench-{time.time_ns()}", order.snapshot)
            await _until(service, _all_ready)
            snapshot_s = time.time() - asked
        if order.through:
            executed = GtidSet.parse(order.through)
            await _until(service, lambda sink: executed <= GtidSet.parse(sink.status()["position"]))
            through_s = time.time() - began
        for number in range(order.rounds):
            if number:
                round_begun(order.folder, number).touch()
            await _until(service, partial(_has_merged, observed[catalogue.MERGE], number))
        verified = [
            await _verified(service, order, observed[catalogue.FRESHNESS])
            for _ in range(order.verifications - 1)
        ]
        if order.begun is not None:
            observed[catalogue.FRESHNESS].clear()
            await asyncio.to_thread(Path(order.begun).touch)
        before, since = _processor_s(service, order), time.time()
        await asyncio.sleep(order.watch_s)
        freshness = list(observed[catalogue.FRESHNESS])
        now, watched_s = _processor_s(service, order), time.time() - since
        watch = _spent(before, now, watched_s) if order.watch_s else {}
        if order.verifications:
            verified.append(await _verified(service, order, observed[catalogue.FRESHNESS]))
        sink = _sink(service)
        spark = _spark(sink)
        rows, customers = await asyncio.to_thread(_counted, spark.session, order.lake)
        jvm = resident_mib(spark.pid)
        # Not `getrusage`, which keeps the peak of the program that this process was before `exec`.
        python = resident_mib(os.getpid())
        await service.stop()
    merges_s = list(observed[catalogue.MERGE])
    return Delivered(
        snapshot_s, through_s, merges_s, freshness, watch, python, jvm, rows, customers, verified
    )


async def _verified(service: Running, order: Order, freshness: list[float]) -> Verified:
    """Verifies the large table; `freshness` is where its samples come."""
    id_ = f"bench-verify-{time.time_ns()}"
    freshness.clear()
    before, asked = _processor_s(service, order), time.time()
    answer = await service.tell("verify", id_, rf"{DATABASE}\.{TABLE}")
    assert isinstance(answer, SignalAccepted), answer
    await _until(service, lambda _: {each["state"] for each in service.tables(id_).values()} == {"completed"})
    read_s = time.time() - asked
    await _until(service, lambda sink: _result(sink, id_) is not None)
    judged_s = time.time() - asked
    result = _result(_sink(service), id_)
    assert result is not None
    spent = _spent(before, _processor_s(service, order), 1.0)
    return Verified(result["verdict"], result["rows"], read_s, judged_s, list(freshness), spent)


def _processor_s(service: Running, order: Order) -> dict[str, float]:
    """The processor time (s) that each process has taken since its start."""
    pids = {"Python": os.getpid(), "the JVM": _spark(_sink(service)).pid}
    pids |= {"MySQL": order.server} if order.server else {}
    return {who: processor_s(pid) for who, pid in pids.items()}


def _spent(before: dict[str, float], now: dict[str, float], each: float) -> dict[str, float]:
    """What each process has taken between two looks, divided by `each`."""
    return {who: (now[who] - before[who]) / each for who in now}


def _result(sink: SparkSink, id_: str) -> dict[str, Any] | None:
    found: dict[str, Any] = sink.status()["verifications"].get(id_, {})
    return found.get(str(ELEVEN))


def _sink(service: Running) -> SparkSink:
    sink = service.supervisor.actors[Name.SPARK_SINK]
    assert isinstance(sink, SparkSink)
    return sink


def _spark(sink: SparkSink) -> Spark:
    assert sink._up is not None
    assert isinstance(sink._up.spark, Spark)
    return sink._up.spark


async def _until(service: Running, told: Callable[[SparkSink], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while Name.SPARK_SINK not in service.supervisor.actors or not told(_sink(service)):
        assert not service.outcome.done(), f"the service ended: {service.outcome.result()}"
        assert time.monotonic() < deadline, f"not within {_LONGEST_S} s"
        await asyncio.sleep(_LOOK_EVERY_S)


def _all_ready(sink: SparkSink) -> bool:
    tables = [(table["mirror"], table["rebuilding_since"]) for table in sink.status()["tables"].values()]
    return bool(tables) and set(tables) == {(_READY, None)}


def _has_merged(merges: list[float], before: int, _: SparkSink) -> bool:
    return len(merges) > before


def _counted(session: Any, lake: str) -> tuple[int, int]:
    """The rows of the large table in the live view, and a sum over them; nothing before its first snapshot is there."""
    mirror = read_version(location(lake, ELEVEN, Tier.MIRROR))
    if mirror is None or mirror.first:
        return 0, 0
    row = live_view(session, lake, ELEVEN).selectExpr("count(*)", "sum(customer)").first()
    assert row is not None
    return int(row[0]), int(row[1])


def append(parts: Parts, folder: Path, kind: FileKind, after: int) -> tuple[int, float]:
    """Rows and seconds: plain Spark appends all files of the large table behind a segment to a new Delta table."""
    found: tuple[int, float] = _in_process(_append, parts, folder, kind, after)
    return found


def _append(parts: Parts, folder: Path, kind: FileKind, after: int) -> tuple[int, float]:
    os.environ["JAVA_HOME"] = str(parts.java_home)
    reader = JournalReader(folder / "journal")
    paths, rows = [], 0
    for entry in reader.entries(after, reader.last_segment()):
        for file in entry.files:
            if file.table == ELEVEN and file.kind is kind:
                paths.append(reader.file(entry.segment, file.path))
                rows += file.rows
    tier = Tier.CHANGELOG if kind is FileKind.CHANGES else Tier.MIRROR
    target = folder / f"plain-{kind}"
    with plain_spark(parts, folder / "plain") as spark:
        schema = spark.session.table(table_at(location(str(folder / "lake"), ELEVEN, tier))).schema
        # The first job of a JVM takes seconds that a long-lived one has behind it.
        spark.session.read.schema(schema).parquet(paths[0]).limit(1).write.format("delta").save(str(target))
        began = time.perf_counter()
        spark.session.read.schema(schema).parquet(*paths).write.format("delta").mode("append").save(
            str(target)
        )
        seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return rows, seconds


def linked(source: Path, target: Path) -> None:
    """A copy of lake tables that has the same files, to be changed in another way."""

    def copied(source: str, target: str) -> str:
        if source.endswith(".parquet") and "_delta_log" not in source:
            os.link(source, target)
            return target
        return str(shutil.copy2(source, target))

    shutil.copytree(source, target, copy_function=copied)


def merge(parts: Parts, folder: Path) -> float:
    """Seconds: plain Spark merges what is pending in the second lake, without deletion vectors."""
    seconds: float = _in_process(_merge, parts, folder)
    return seconds


def _merge(parts: Parts, folder: Path) -> float:
    os.environ["JAVA_HOME"] = str(parts.java_home)
    reader = JournalReader(folder / "journal")
    last = reader.last_segment()
    checkpoint = reader.entry(last).checkpoint
    schema, root = checkpoint.schemas[ELEVEN], str(folder / "plain-lake")
    with plain_spark(parts, folder / "plain") as spark:
        mirror = table_at(location(root, ELEVEN, Tier.MIRROR))
        spark.session.sql(f"ALTER TABLE {mirror} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
        reached = MirrorPosition(checkpoint.mirrors[ELEVEN].since, 0)
        began = time.perf_counter()
        spark.session.sql(Merge(root, schema, reached, last).statement())
        seconds = time.perf_counter() - began
    shutil.rmtree(folder / "plain-lake")
    return seconds
