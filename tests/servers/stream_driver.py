"""A driver of Spark that streams the changes of a journal into a Delta table, in a process that may be killed.

Its executors get Tidemark as an archive of Python, as a user sends them its wheel.
"""

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from actors.journal.stream.data_source import TidemarkSource
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from deploy.toolchain.cache import REPOSITORY
from pipeline.config.settings import SparkSettings
from pipeline.errors import Transient

_CONSUMER: Final = "driver"
_LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class Streaming:
    """What a driver does. `folder` has its log and its output."""

    master: str
    conf: Mapping[str, str]
    jars: tuple[str, ...]
    folder: str
    journal: str
    table: str

    @property
    def out(self) -> str:
        """The Delta table."""
        return f"{self.folder}/out"

    @property
    def commits(self) -> int:
        """How many commits the Delta table has."""
        return len(list(Path(self.out, "_delta_log").glob("*.json")))


class StreamDriver:
    """The process."""

    def __init__(self, streaming: Streaming) -> None:
        self.streaming = streaming
        self._process: subprocess.Popen[bytes] | None = None
        Path(streaming.folder).mkdir(parents=True, exist_ok=True)
        _archive(Path(streaming.folder, "tidemark.zip"))

    def start(self) -> None:
        """Starts it, and waits for nothing."""
        told = json.dumps(asdict(self.streaming))
        with Path(self.streaming.folder, "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", __name__, told],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
            )

    def runs(self) -> bool:
        """Returns whether it has been started, and hasn't ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kills it. Its JVM ends a moment later."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        return Path(self.streaming.folder, "driver.log").read_text(errors="replace")[-4000:]


def _archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for top in ("actors", "pipeline"):
            for source in (REPOSITORY / top).rglob("*.py"):
                archive.write(source, source.relative_to(REPOSITORY))


def _started(streaming: Streaming) -> Spark:
    settings = SparkSettings(
        jars=tuple(map(Path, streaming.jars)), master=streaming.master, conf=dict(streaming.conf)
    )
    while True:
        try:
            return spark_session.start_local(settings, Path(streaming.folder, "spark"))
        except Transient:  # the JVM of the driver before hasn't ended yet
            time.sleep(_LOOK_EVERY_S)


def main() -> None:
    """Stream until the query ends."""
    streaming = Streaming(**json.loads(sys.argv[1]))
    spark = _started(streaming)
    session = spark.session
    session.sparkContext.addPyFile(f"{streaming.folder}/tidemark.zip")
    session.dataSource.register(TidemarkSource)
    changes = (
        session.readStream.format("tidemark")
        .option("journal", streaming.journal)
        .option("table", streaming.table)
        .option("consumer", _CONSUMER)
        .load()
    )
    writing = changes.writeStream.format("delta").option(
        "checkpointLocation", f"{streaming.folder}/checkpoint"
    )
    try:
        writing.start(streaming.out).awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
