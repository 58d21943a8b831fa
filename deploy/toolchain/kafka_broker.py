"""A private Kafka broker for tests: one node that is broker and controller (KRaft), on free ports of 127.0.0.1.

It needs little: 64 MB of heap, and a second or two to start. With a heap so small the log cleaner's buffer has to be
made small too, or the broker dies at its start. Topics aren't created by being asked for.
"""

import re
import socket
import struct
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import ClassVar, Final

from deploy.toolchain.cache import digest, ensure, is_complete, locked, root, run
from deploy.toolchain.kafka import KafkaParts
from deploy.toolchain.ports import take_port
from deploy.toolchain.server_process import READY_WITHIN, ServerProcess

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


class KafkaBroker(ServerProcess):
    """One broker, which keeps its port as well as its data."""

    what = "Kafka broker"
    program = "Kafka"
    options: ClassVar[tuple[str, ...]] = JAVA

    def __init__(
        self, parts: KafkaParts, folder: Path, properties: str = PROPERTIES, cluster: str | None = None
    ) -> None:
        super().__init__(folder / "data", folder / "kafka.log")
        self._cluster = cluster or cluster_id()
        self.parts = parts
        self._written = properties
        self.folder = folder
        self.host = "127.0.0.1"
        self.port, self._controller = take_port(), take_port()

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _make_data(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(
            self._written.format(port=self.port, controller=self._controller, data=self.data)
        )
        (self.folder / "log4j2.xml").write_text(LOGGING)
        self.data.mkdir()
        (self.data / "bootstrap.checkpoint").write_bytes(features(self.parts).read_bytes())
        [node] = re.findall(r"^node\.id=(\d+)$", self._written, re.MULTILINE)
        said = {"version": "1", "cluster.id": self._cluster, "node.id": node, "directory.id": cluster_id()}
        (self.data / "meta.properties").write_text("".join(f"{name}={text}\n" for name, text in said.items()))

    def _command(self) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        classes = self.parts.classes
        archive = [] if classes is None else [f"-XX:SharedArchiveFile={classes}"]
        return [*_java(self.parts, *archive, *self.options, logging), "kafka.Kafka", self._properties]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), READY_WITHIN) as probe:
                probe.sendall(_GREETING)
                return probe.recv(1) != b""
        except ConnectionError:
            return False


def cluster_id() -> str:
    """The id of a new cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _java(parts: KafkaParts, *options: str) -> list[str | Path]:
    return [parts.java_home / "bin" / "java", *options, "-cp", f"{parts.jars}/*"]


def features(parts: KafkaParts) -> Path:
    """Return what a new node's metadata begins with, the same for each: the versions of the cluster's features.

    Kafka's own tool makes it once. It takes a JVM, and writes of a cluster besides only what `_make_data` writes.
    """
    template = root() / f"kafka-data-{digest(str(parts.jars))}"
    made = template / "data" / "bootstrap.checkpoint"

    def build() -> None:
        properties = template / "server.properties"
        properties.write_text(PROPERTIES.format(port=1, controller=2, data=template / "data"))
        command = [*_java(parts, *JAVA), "kafka.tools.StorageTool", "format"]
        run([*command, f"--cluster-id={cluster_id()}", "-c", properties])

    if not is_complete(template):
        with locked():
            ensure("an empty Kafka data directory", template, build)
    return made
