"""A private Kafka broker for tests: one node that is broker and controller (KRaft), on free ports of 127.0.0.1.

It needs little: 64 MB of heap, and two seconds to start. With a heap so small the log cleaner's buffer has to be made
small too, or the broker dies at its start. Topics aren't created by being asked for. No broker outlives its parent,
however that ends (`children`).
"""

import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Final

from deploy.toolchain import children
from deploy.toolchain.cache import ToolchainError, run
from deploy.toolchain.kafka import KafkaParts

READY_WITHIN: Final = 60.0  # seconds
STOPPED_WITHIN: Final = 60.0  # seconds

JAVA: Final = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

PROPERTIES: Final = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=8388608
"""

LOGGING: Final = """<Configuration>
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# ApiVersions, version 0, of a client without a name: what any broker answers.
_GREETING: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class KafkaBroker:
    """One broker: `start`, `stop` or `kill`, and again on the same data and port; as a context manager, for a while.

    Leaving the context kills the broker and removes its data; the log stays in `folder`.
    """

    def __init__(self, parts: KafkaParts, folder: Path) -> None:
        self.parts = parts
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "kafka.log"
        self.host = "127.0.0.1"
        self.port, self._controller = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start the broker and return when it answers; raises `ToolchainError` with its last words."""
        if self._process is not None:
            raise ToolchainError("this Kafka broker runs already")
        properties = self.folder / "server.properties"
        if not self.data.exists():
            self._write_settings(properties)
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            run([*self._java("kafka.tools.StorageTool"), "format", "-t", cluster, "-c", properties])
        self._process = children.start([*self._java("kafka.Kafka"), properties], self.log)
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker as its owner would: SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker as a crash would: SIGKILL."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> "KafkaBroker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.data)

    def _write_settings(self, properties: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        properties.write_text(PROPERTIES.format(port=self.port, controller=self._controller, data=self.data))
        (self.folder / "log4j2.xml").write_text(LOGGING)

    def _java(self, main: str) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        java = self.parts.java_home / "bin" / "java"
        return [java, *JAVA, logging, "-cp", f"{self.parts.jars}/*", main]

    def _wait_until_it_answers(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not _answers(self.host, self.port):
            if process.poll() is not None:
                raise ToolchainError(f"Kafka ended at its start:\n{self._last_words()}")
            if time.monotonic() > deadline:
                raise ToolchainError(f"Kafka doesn't answer:\n{self._last_words()}")
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            raise ToolchainError("this Kafka broker isn't running")
        process.send_signal(how)
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ToolchainError(f"Kafka didn't stop on {how.name}:\n{self._last_words()}") from None

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), READY_WITHIN) as probe:
            probe.sendall(_GREETING)
            return probe.recv(1) != b""
    except ConnectionError:
        return False
