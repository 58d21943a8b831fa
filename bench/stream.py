"""`make bench-stream`: how fast Spark reads the journal as a stream, beside plain Spark reading the same files.

A server writes a log, and Tidemark captures it into a journal. Then only Spark is at work, with as many tasks as there
are processors. `AvailableNow` reads all changes through the data source `tidemark`, with a checkpoint, into nothing
(`noop`) and into a Delta table. Plain Spark reads the same Parquet files by its own vectorized reader into the same.
Both take turns, and the first turn isn't counted, since the JVM compiles meanwhile. A query's time is all of it: its
start, Spark's Python processes, its micro-batches, its checkpoint.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

from actors.journal.store import JournalReader
from actors.journal.stream.data_source import TidemarkSource
from actors.lake.spark.spark_session import Spark
from bench import _topics
from bench._command import command_line
from bench._commits import plain_spark
from bench._logs import DATABASE, ELEVEN, server, write
from bench._report import Figure, Peer, say, told
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.parts import Parts, locate

_TIMES: Final = 3
_ROWS: Final = 4_000_000
_TRANSACTION: Final = 1_000
_ASKED_FOR: Final = 500_000.0
SINKS: Final = ("noop", "delta")


@dataclass(frozen=True, slots=True)
class Rates:
    """Changes in a second: by the data source, and by plain Spark."""

    stream: float
    plain: float


def main() -> None:
    """Measure both sinks, or the one that is named."""
    wanted = command_line(__doc__, SINKS)
    parts = locate()
    with told("stream") as figures, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        rows = int(_ROWS * wanted.scale)
        table = _capture(parts, rows, Path(folder))
        for sink in wanted.names:
            figures.extend(_figures(sink, measured(parts, Path(folder), table, sink, rows)))


def _capture(parts: Parts, rows: int, folder: Path) -> str:
    """Fills a journal; its table's name."""
    with server(parts) as mysql:
        log = write(mysql, ELEVEN, rows, _TRANSACTION)
        _topics.capture(log, mysql.executed().replace("\n", ""), folder)
    say(f"{rows:,} rows captured; load {os.getloadavg()[0]:.1f}")
    return log.table


def _figures(sink: str, rates: Rates) -> Iterator[Figure]:
    yield Figure(f"AvailableNow into {sink}", rates.stream, "changes/s", Peer("asked for", _ASKED_FOR))
    yield Figure(
        f"AvailableNow into {sink}", rates.stream, "changes/s", Peer("plain Spark, same files", rates.plain)
    )


def measured(parts: Parts, folder: Path, table: str, sink: str, rows: int) -> Rates:
    """Lets both read in turns, in a new process."""
    # Spark's Python processes import the data source from here.
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_measured, parts, folder, table, sink, rows).result()


def _measured(parts: Parts, folder: Path, table: str, sink: str, rows: int) -> Rates:
    journal = folder / "journal"
    files, there = _files(journal)
    with plain_spark(parts, folder / f"spark-{sink}") as spark:
        spark.session.dataSource.register(TidemarkSource)
        streams, plains = [], []
        for turn in range(_TIMES + 1):
            out = folder / f"{sink}{turn}"
            streams.append(_seconds(lambda out=out: _stream(spark, journal, table, sink, there, out)))  # type: ignore[misc]
            plains.append(_seconds(lambda out=out: _plain(spark, files, sink, out)))  # type: ignore[misc]
            shutil.rmtree(out, ignore_errors=True)
            say(f"  {sink}: {rows / streams[-1]:,.0f} changes/s, plain {rows / plains[-1]:,.0f}")
    return Rates(median(rows / each for each in streams[1:]), median(rows / each for each in plains[1:]))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _files(journal: Path) -> tuple[list[str], int]:
    """The journal's files, in their order, and the number of their rows: with a row from before each update."""
    reader = JournalReader(journal)
    entries = list(reader.entries(0, reader.last_segment()))
    files = [(entry.segment, file) for entry in entries for file in entry.files]
    return [reader.file(segment, file.path) for segment, file in files], sum(file.rows for _, file in files)


def _stream(spark: Spark, journal: Path, table: str, sink: str, rows: int, out: Path) -> None:
    """Reads all of a journal as a stream. Raises AssertionError if a row is missing, or one came twice."""
    changes = (
        spark.session.readStream.format("tidemark")
        .option("journal", str(journal))
        .option("table", f"{DATABASE}.{table}")
        .load()
    )
    query = (
        changes.writeStream.format(sink)
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start(*([] if sink == "noop" else [str(out / "stream")]))
    )
    query.awaitTermination()
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    assert read == rows, f"{read} rows came instead of {rows}"


def _plain(spark: Spark, files: list[str], sink: str, out: Path) -> None:
    """Reads the same files by Spark's own reader; `__source` is no column of the changelog."""
    changes: Any = spark.session.read.parquet(*files).drop("__source")
    writer = changes.write.format(sink).mode("overwrite")
    writer.save(*([] if sink == "noop" else [str(out / "plain")]))


if __name__ == "__main__":
    main()
