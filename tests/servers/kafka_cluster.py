"""Two real Kafka brokers with a controller of their own, so that either of them can die."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiokafka.admin import NewTopic

from deploy.toolchain.kafka import KafkaParts
from deploy.toolchain.kafka_broker import PROPERTIES, KafkaBroker, cluster_id
from deploy.toolchain.ports import take_port
from tests.servers.kafka import administrating


@dataclass(frozen=True)
class KafkaCluster:
    """The brokers, by their node ids less one."""

    brokers: tuple[KafkaBroker, KafkaBroker]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where clients find them."""
        return tuple(broker.address for broker in self.brokers)

    async def leaders(self, topic: str) -> list[int]:
        """The node that leads each partition of a topic, as any broker tells."""
        return [partition["leader"] for partition in await self._partitions(topic)]

    async def in_sync(self, prefix: str) -> bool:
        """Whether both brokers have all of the topics with this prefix."""
        async with administrating(list(self.addresses)) as admin:
            names = [name for name in await admin.list_topics() if name.startswith(prefix)]
            topics = await admin.describe_topics(names)
        return all(len(each["isr"]) == 2 for topic in topics for each in topic["partitions"])

    async def create_topic_on(self, broker: KafkaBroker, name: str) -> None:
        """Creates a topic with one partition, of which this broker has the only replica."""
        node = self.brokers.index(broker) + 1
        async with administrating(list(self.addresses)) as admin:
            await admin.create_topics([NewTopic(name, -1, -1, {0: [node]})])

    async def _partitions(self, topic: str) -> list[dict[str, int]]:
        async with administrating(list(self.addresses)) as admin:
            (found,) = await admin.describe_topics([topic])
        return sorted(found["partitions"], key=lambda each: each["partition"])


@contextmanager
def two_brokers(parts: KafkaParts, folder: Path) -> Iterator[KafkaCluster]:
    """Runs the cluster; each of Kafka's own topics has two replicas."""
    cluster, controller = cluster_id(), take_port()
    with ExitStack() as running:
        # A controller answers its port as a broker does.
        settings = _properties(f"""process.roles=controller
node.id=9
controller.quorum.voters=9@127.0.0.1:{controller}
listeners=CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={{data}}
""")
        quorum = KafkaBroker(parts, folder / "controller", settings, cluster)
        quorum.port = controller
        running.enter_context(quorum)
        one, other = (
            running.enter_context(KafkaBroker(parts, folder / str(node), _broker(node, controller), cluster))
            for node in (1, 2)
        )
        yield KafkaCluster((one, other))


def _broker(node: int, controller: int) -> str:
    return _properties(f"""process.roles=broker
node.id={node}
controller.quorum.voters=9@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{{port}}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}}
controller.listener.names=CONTROLLER
log.dirs={{data}}
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
""")


def _properties(own: str) -> str:
    """A node's own properties, and for the rest those of a broker alone, with two replicas."""
    said = {line.partition("=")[0] for line in own.splitlines()}
    rest = [line for line in PROPERTIES.splitlines() if line.partition("=")[0] not in said]
    rest = [line for line in rest if "listeners" not in line or "PLAINTEXT" not in line]
    return own + "\n".join(line.replace("replication.factor=1", "replication.factor=2") for line in rest)
