"""Kafka's classes as the JVM has them in memory, for tests: a broker that finds them there costs half as much to start.

`actors.lake.spark.java` says why, and what becomes of an archive that doesn't fit.

    python -m deploy.toolchain.kafka_classes ARCHIVE      makes it; needs aiokafka, so it runs in the environment
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from deploy.toolchain import java, kafka
from deploy.toolchain.cache import REPOSITORY, ToolchainError, ensure, locked, run
from deploy.toolchain.kafka_broker import JAVA, KafkaBroker, features

_TOPIC = "work"


def setup(java_home: Path, python: Path) -> None:
    """Make the archive if need be by a broker that does a little of everything. Kafka is there."""

    def build() -> None:
        archive = kafka.archive(java_home)
        command: list[str | Path] = ["env", f"JAVA_HOME={java_home}", python]
        run([*command, "-m", "deploy.toolchain.kafka_classes", archive], REPOSITORY)

    features(_parts(java_home))  # the broker would wait for the cache, which is held here
    with locked():
        ensure("Kafka's classes", kafka.classes_folder(java_home), build)


async def work(address: str) -> None:
    """Do a little of what tests have a broker do."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    await admin.create_topics([NewTopic(_TOPIC, 1, 1)])
    await admin.close()
    async with (
        AIOKafkaProducer(bootstrap_servers=address, transactional_id=_TOPIC) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait(_TOPIC, b"value", key=b"key")
    async with AIOKafkaConsumer(
        _TOPIC, bootstrap_servers=address, group_id=_TOPIC, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getone()
        await consumer.commit()


def make(archive: Path, scratch: Path) -> None:
    """Make the archive at the end of a broker that has worked in the folder `scratch`."""

    class Archiving(KafkaBroker):
        options = (*JAVA, "-Xlog:cds*=off", f"-XX:ArchiveClassesAtExit={archive}")

    with Archiving(_parts(java.home()), scratch / "kafka") as broker:
        asyncio.run(work(broker.address))
        broker.stop()


def _parts(java_home: Path | None) -> kafka.KafkaParts:
    parts = None if java_home is None else kafka.find(java_home)
    if parts is None:
        raise ToolchainError("Kafka isn't here yet: run `make setup-tests`")
    return parts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as there:
        make(Path(sys.argv[1]), Path(there))
