"""Tidemark's capture half as it runs, in a process of its own: a snapshot from its signal to the sealed journal.

All that's told comes from the journal itself, as any consumer would see it: a segment's rows count from the moment at
which it was sealed. Only how long windows were open comes from the service's own metrics. Nothing is delivered to a
lake, which would want the processors for itself.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np
import pymysql
import uvloop

from actors.journal.store import JournalReader
from actors.runtime.metrics import Metrics
from actors.service import warm_up
from bench._logs import DATABASE
from bench._snapshots import TABLE, Cost, Meter
from deploy.toolchain.mysql_server import CAPTURE
from pipeline import metrics as catalogue
from pipeline.config.settings import (
    JournalSettings,
    LakeSettings,
    Secret,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SourceSettings,
    TlsMode,
    TlsSettings,
)
from pipeline.journal.entry import Entry
from pipeline.metrics import Histogram
from pipeline.schema.table_filter import TableFilter
from tests.servers.service import Running, running

_ID: Final = "bench"
_LOOK_EVERY_S: Final = 0.1
_US: Final = 1e6
# What isn't counted of the time before a snapshot, in which the service comes up.
_SETTLING_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A snapshot to be run: `port` leads to the server, of which `pid` is the process.

    Before it the log is followed for `quiet_s`, and it's broken off `longest_s` after it was asked for.
    """

    port: int
    pid: int
    snapshot: SnapshotSettings
    quiet_s: float = 0.0
    longest_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it. Moments in s since the epoch; `sealed` are those of the segments with rows of chunks.

    `before` and `meanwhile`: from commits until their segment was sealed (s), without the snapshot and with it.
    `windows`: how long each was open (s), and `waited` how much of that behind the reading of its chunk. `processor_s`
    is the service's.
    """

    asked: float
    sealed: tuple[tuple[float, int], ...]
    before: tuple[float, ...]
    meanwhile: tuple[float, ...]
    transactions: int
    windows: tuple[float, ...]
    waited: tuple[float, ...]
    processor_s: float
    cost: Cost

    @property
    def rows(self) -> int:
        """All rows in the journal."""
        return sum(rows for _, rows in self.sealed)

    @property
    def seconds(self) -> float:
        """From the signal until the last row was in the journal."""
        return self.sealed[-1][0] - self.asked

    @property
    def rate(self) -> float:
        """Rows per second of all that time."""
        return self.rows / self.seconds

    @property
    def flow(self) -> float:
        """Rows per second behind the first segment with rows, so that it doesn't count how long that took to come."""
        (first, already), *later = self.sealed
        return (self.rows - already) / (later[-1][0] - first) if later else self.rate


def run(asked: Asked) -> Ran:
    """Run it in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_run, asked).result()


def settings(port: int, folder: Path, snapshot: SnapshotSettings) -> Settings:
    """A pipeline for the benchmark's table, with the least rights; only what's asked for is snapshotted."""
    return Settings(
        "bench",
        TableFilter((rf"{DATABASE}\.{TABLE}",)),
        source(port),
        JournalSettings(str(folder / "journal")),
        LakeSettings(str(folder / "lake")),
        replace(snapshot, mode=SnapshotMode.NO_DATA),
    )


def source(port: int) -> SourceSettings:
    """The server that this port leads to."""
    return SourceSettings(
        "127.0.0.1",
        CAPTURE.user,
        port,
        Secret(CAPTURE.password),
        TlsSettings(TlsMode.DISABLED),
        read_timeout_s=120.0,  # where the log comes late, nothing at all comes in the meantime
        server_id=4_711,
    )


def _run(asked: Asked) -> Ran:
    warm_up.import_all()  # all is imported already; nothing of that is ever looked at again
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_ran(asked, settings(asked.port, Path(folder), asked.snapshot)))


async def _ran(asked: Asked, pipeline: Settings) -> Ran:
    with closing(_connection(asked.port)) as connection:
        meter = Meter(connection, asked.pid)
        async with running(pipeline) as service:
            observed = noted(service.assembly.metrics, catalogue.WINDOW, catalogue.CHUNK_READ)
            await service.begun()
            quiet = time.time()
            await asyncio.sleep(asked.quiet_s)
            cost, processor, begun = meter.cost(), time.process_time(), time.time()
            await service.execute(_ID, rf"{DATABASE}\.{TABLE}")
            while not _over(service) and time.time() < begun + asked.longest_s:  # noqa: ASYNC110 - a state
                await asyncio.sleep(_LOOK_EVERY_S)
            cost, processor = meter.cost() - cost, time.process_time() - processor
            await service.stop()
    reader = JournalReader(pipeline.journal.path)
    entries = list(reader.entries(0, reader.last_segment()))
    windows, reads = observed[catalogue.WINDOW], observed[catalogue.CHUNK_READ]
    rows = sealed(entries)
    return Ran(
        asked=begun,
        sealed=rows,
        before=latencies(entries, quiet + _SETTLING_S, begun),
        meanwhile=latencies(entries, begun, rows[-1][0]),
        transactions=sum(
            entry.transactions for entry in entries if begun <= entry.sealed_at / _US <= rows[-1][0]
        ),
        windows=tuple(windows),
        waited=tuple(of_window - of_read for of_window, of_read in zip(windows, reads, strict=False)),
        processor_s=processor,
        cost=cost,
    )


def sealed(entries: Sequence[Entry]) -> tuple[tuple[float, int], ...]:
    """When each segment with rows of chunks was sealed (s since the epoch), and how many."""
    counted = [(entry.sealed_at / _US, sum(chunk.rows for chunk in entry.chunks)) for entry in entries]
    return tuple((at, rows) for at, rows in counted if rows)


def latencies(entries: Sequence[Entry], begin: float, end: float) -> tuple[float, ...]:
    """From commit to seal (s), of the commits that the segments sealed between two moments have kept."""
    return tuple(
        (entry.sealed_at - commit) / _US
        for entry in entries
        if entry.commit_times is not None and begin <= entry.sealed_at / _US <= end
        for commit in entry.commit_times.samples
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them doesn't exceed."""
    return float(np.quantile(values, share))


def _over(service: Running) -> bool:
    assert not service.outcome.done(), f"the service ended: {service.outcome.result()}"
    states = {table["state"] for table in service.tables(_ID).values()}
    assert "failed" not in states, service.tables(_ID)
    return states == {"completed"}


def noted(metrics: Metrics, *histograms: Histogram) -> dict[Histogram, list[float]]:
    """Every value of these histograms from now on, which by themselves only count."""
    observed: dict[Histogram, list[float]] = {histogram: [] for histogram in histograms}
    observe = metrics.observe

    def noting(metric: Histogram, value: float, **labels: str) -> None:
        observe(metric, value, **labels)
        if metric in observed:
            observed[metric].append(value)

    metrics.observe = noting  # type: ignore[method-assign]
    return observed


def _connection(port: int) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host="127.0.0.1", port=port, user=CAPTURE.user, password=CAPTURE.password, autocommit=True
    )
