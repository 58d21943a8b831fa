"""Debezium's embedded engine, catching up with a log in a JVM of its own: the peer."""

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench._logs import DATABASE, Log
from bench._report import Peer
from deploy.toolchain import debezium
from deploy.toolchain.parts import Parts

_PROGRAM: Final = Path(__file__).with_name("CatchUp.java")

# What a program may use in memory and time, in MiB and seconds.
_HEAP_MIB: Final = 512
_LONGEST_S: Final = 300

# The part of the rows that goes before the clock starts: the JVM is compiling, and that's once for a service's life.
_WARMING: Final = 0.2


def catch_up(parts: Parts, log: Log, rows: int, form: str) -> Peer:
    """Rows per second of the first rows of the log, handed over as `json` or as `connect` records."""
    jars = debezium.setup(parts.python)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        properties = Path(folder) / "engine.properties"
        settings = _properties(log, Path(folder)) | {"bench.format": form}
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = [str(parts.java_home / "bin" / "java"), f"-Xmx{_HEAP_MIB}m", "-cp", f"{jars}/*"]
        done = subprocess.run(
            [*java, str(_PROGRAM), str(properties), str(rows)],
            text=True,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"Debezium failed:\n{done.stderr[-5000:]}")
    return Peer(
        f"Debezium 3.6.3 to {_FORMS[form]}, rows {int(_WARMING * rows):,} to {rows:,}", _rate(done.stdout)
    )


_FORMS: Final = {"json": "JSON", "connect": "Connect records"}


def _rate(told: str) -> float:
    """Rows per second behind the warming up, from lines of (rows so far, nanoseconds since the first)."""
    marks = [(int(rows), int(at)) for rows, at in (line.split() for line in told.splitlines())]
    last, end = marks[-1]
    first, begun = next((rows, at) for rows, at in marks if rows >= _WARMING * last)
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
