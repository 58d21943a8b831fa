"""A standalone Spark cluster on loopback: a master and two workers of one core each, from PySpark's own jars.

Programs in the executors begin with an empty environment: no PATH by which a Python could be found.

Source: Spark documentation, "Spark Standalone Mode".
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pyspark
import pytest

from deploy.toolchain.parts import Parts
from deploy.toolchain.ports import take_port
from deploy.toolchain.server_process import ServerProcess

__all__ = ["SparkCluster", "children", "spark_cluster"]

_SPARK: Final = Path(pyspark.__file__).parent
_JAVA: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_WORKERS: Final = 2


class _Daemon(ServerProcess):
    """A master or a worker. `said`: what its log says when it can be used."""

    program = "Spark"

    def __init__(self, java_home: Path, folder: Path, said: str, main: str, *arguments: str) -> None:
        super().__init__(folder / "data", folder / "spark.log")
        self._java_home = java_home
        self._said = said
        self._main = (f"org.apache.spark.deploy.{main}", "--host", "127.0.0.1", *arguments)

    def start(self) -> None:
        """Start it, and wait for what it says in this life."""
        self.log.unlink(missing_ok=True)
        super().start()

    def _make_data(self) -> None:
        self.data.mkdir(parents=True)

    def _command(self) -> list[str | Path]:
        environment = {
            "JAVA_HOME": self._java_home,
            "SPARK_HOME": _SPARK,
            "SPARK_SCALA_VERSION": "2.13",  # PySpark has no build for its launcher to look at
            "SPARK_LOCAL_IP": "127.0.0.1",  # where their pages listen
            "SPARK_LOCAL_DIRS": self.data,
        }
        java = self._java_home / "bin" / "java"
        told = (f"{name}={value}" for name, value in environment.items())
        return ["env", "-i", *told, java, *_JAVA, "-cp", f"{_SPARK / 'jars'}/*", *self._main]

    def _answers(self) -> bool:
        return self._said in self.log.read_text(errors="replace")


class _Master(_Daemon):
    what = "Spark master"

    def __init__(self, java_home: Path, folder: Path, port: int) -> None:
        arguments = ("--port", str(port), "--webui-port", "0")
        super().__init__(java_home, folder, "I have been elected leader", "master.Master", *arguments)


class _Worker(_Daemon):
    what = "Spark worker"

    def __init__(self, java_home: Path, folder: Path, master: str) -> None:
        size = ("--cores", "1", "--memory", "512m", "--webui-port", "0", "--work-dir", str(folder / "data"))
        super().__init__(
            java_home, folder, "Successfully registered with master", "worker.Worker", *size, master
        )


class SparkCluster:
    """The cluster, while it runs. `master` is its URL."""

    def __init__(self, java_home: Path, folder: Path) -> None:
        port = take_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._master = _Master(java_home, folder / "master", port)
        self._workers = tuple(_Worker(java_home, folder / f"worker{i}", self.master) for i in range(_WORKERS))
        for daemon in (self._master, *self._workers):
            daemon.log.parent.mkdir(parents=True)

    @property
    def conf(self) -> dict[str, str]:
        """What a driver needs, besides the URL, to be one of this cluster's on loopback."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            # Each worker takes a part, and each stage is planned again, as on a user's cluster.
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.shuffle.partitions": str(_WORKERS),
            "spark.databricks.delta.snapshotPartitions": str(_WORKERS),
        }

    @property
    def workers(self) -> tuple[int, ...]:
        """The workers' processes."""
        return tuple(worker.pid for worker in self._workers)

    @property
    def executors(self) -> list[int]:
        """The processes in which work is done now."""
        return [pid for worker in self.workers for pid in children(worker)]

    def mend(self, *killed: int) -> None:
        """Starts killed workers again, found by their processes."""
        for worker in self._workers:
            if worker.pid in killed:
                worker.kill()
                worker.start()

    def __enter__(self) -> "SparkCluster":
        with ExitStack() as started:
            for daemon in (self._master, *self._workers):
                started.enter_context(daemon)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        # Its executors end by themselves when a worker has gone, and would remove their files beside it.
        executors = self.executors
        for worker in self._workers:
            worker.kill()
        for pid in executors:
            kill_and_wait(pid)
        self._running.close()


def kill_and_wait(pid: int) -> None:
    """Kills a process that may have ended, and returns when it has."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [])
        finally:
            os.close(descriptor)


def children(pid: int) -> list[int]:
    """The processes that this one has started, and that haven't ended."""
    found = []
    for told in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(child) for child in told.read_text().split()]
    return found


def jvm_of(pid: int) -> int | None:
    """The JVM among the processes that this one has started."""
    for child in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if b"java" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0]:
                return child
    return None


@pytest.fixture(scope="module")
def spark_cluster(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster for a whole module."""
    with SparkCluster(parts.java_home, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
