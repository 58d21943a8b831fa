"""Debezium's embedded engine in a JVM of its own, the peer: it catches up with a log, or snapshots a table."""

import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bench._logs import DATABASE, Log
from bench._report import Peer
from bench._snapshots import Cost, Meter
from deploy.toolchain import debezium
from deploy.toolchain.parts import Parts

_PROGRAM: Final = Path(__file__).with_name("CatchUp.java")

# What a program may use in memory and time, in MiB and seconds.
_HEAP_MIB: Final = 512
_LONGEST_S: Final = 300

# The part of the rows that goes before the clock starts: the JVM is compiling, and that's once for a service's life.
_WARMING: Final = 0.2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How fast an incremental snapshot was, in rows per second, how long its first row took (s) and what it cost.

    `cost` is what the server did for `rows` of them.
    """

    rate: float
    waited_s: float
    rows: int
    cost: Cost


def catch_up(parts: Parts, log: Log, rows: int, form: str, brokers: str = "") -> Peer:
    """Rows per second of a log's first rows, as `json`, as `connect` records, or in `topics` of these brokers."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        settings = _properties(log, Path(folder)) | {"bench.format": form, "bench.brokers": brokers}
        rate = _rate(list(_marks(parts, settings, rows, Path(folder))))
    return Peer(f"Debezium 3.6.3 to {_FORMS[form]}, rows {int(_WARMING * rows):,} to {rows:,}", rate)


def incremental_snapshot(parts: Parts, log: Log, rows: int, chunk_rows: int, meter: Meter) -> Snapshot:
    """The first rows of the log's table by a read-only incremental snapshot to JSON, in chunks of `chunk_rows`.

    Nothing else comes by the log, so that all that's handed over are its rows.
    """
    costs: list[tuple[int, Cost]] = []
    marks: list[Mark] = []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        signal = Path(folder) / "signals"
        data = {"type": "INCREMENTAL", "data-collections": [f"{DATABASE}.{log.table}"]}
        signal.write_text(json.dumps({"id": "bench", "type": "execute-snapshot", "data": data}) + "\n")
        settings = _properties(log, Path(folder)) | {
            "bench.format": "json",
            "incremental.snapshot.chunk.size": str(chunk_rows),
            "read.only": "true",
            "signal.enabled.channels": "file",
            "signal.file": str(signal),
            "signal.poll.interval.ms": "100",
        }
        launched = time.monotonic()
        waited_s = 0.0
        for mark in _marks(parts, settings, rows, Path(folder)):
            marks.append(mark)
            if not waited_s:
                waited_s = time.monotonic() - launched
            if len(costs) < 1 + (mark.rows >= rows) and mark.rows >= _WARMING * rows:
                costs.append((mark.rows, meter.cost()))
    (first, before), (last, after) = costs
    return Snapshot(_rate(marks), waited_s, last - first, after - before)


_MARK: Final = re.compile(r"(\d+) (\d+)\n")
_FORMS: Final = {"json": "JSON", "connect": "Connect records", "topics": "topics"}


class Mark(NamedTuple):
    """How many rows have come, and when: nanoseconds since the first."""

    rows: int
    at: int


def _marks(parts: Parts, settings: Mapping[str, str], rows: int, folder: Path) -> Iterator[Mark]:
    """What the program tells until so many rows have come. Raises RuntimeError if they don't."""
    jars = debezium.setup(parts.python)
    properties, errors = folder / "engine.properties", folder / "errors"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = [str(parts.java_home / "bin" / "java"), f"-Xmx{_HEAP_MIB}m", "-cp", f"{jars}/*"]
    with (
        errors.open("w") as told,
        subprocess.Popen(
            [*java, str(_PROGRAM), str(properties), str(rows)], text=True, stdout=subprocess.PIPE, stderr=told
        ) as engine,
    ):
        assert engine.stdout is not None
        too_long = threading.Timer(_LONGEST_S, engine.kill)
        too_long.start()
        for line in engine.stdout:
            if (mark := _MARK.fullmatch(line)) is not None:
                yield Mark(int(mark[1]), int(mark[2]))
            else:  # the engine's libraries speak there, too
                print(line, end="", file=told, flush=True)
        too_long.cancel()
        too_long.join()
    if engine.returncode != 0:
        raise RuntimeError(f"Debezium failed:\n{errors.read_text()[-5000:]}")


def _rate(marks: Sequence[Mark]) -> float:
    """Rows per second behind the warming up."""
    last, end = marks[-1]
    first, begun = next(mark for mark in marks if mark.rows >= _WARMING * last)
    return (last - first) / (end - begun) * 1e9


def _properties(log: Log, folder: Path) -> dict[str, str]:
    """A connector as it would be set up for this, with nothing on that costs time and isn't asked for.

    `recovery` reads the tables' schemas at the start, which is as if it had run before the log began.
    """
    return {
        "name": "bench",
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": "bench",
        "database.hostname": log.source.host,
        "database.port": str(log.source.port),
        "database.user": log.source.user,
        "database.password": log.source.password.value,
        "database.server.id": str(log.source.server_id),
        "database.ssl.mode": "disabled",
        "database.include.list": DATABASE,
        "table.include.list": f"{DATABASE}.{log.table}",
        "include.schema.changes": "false",
        "tombstones.on.delete": "false",
        "snapshot.mode": "recovery",
        "snapshot.locking.mode": "none",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "60000",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "converter.schemas.enable": "false",
        "errors.max.retries": "0",
        "bench.file": log.begin.file,
        "bench.offset": str(log.begin.offset),
        "bench.gtids": log.gtids,
    }
