"""What a `read_committed` consumer finds in topics, and whether that's each change of the source once and in order."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from deploy.toolchain.kafka_broker import KafkaBroker
from tests.servers.kafka import administrating


async def topics(broker: KafkaBroker, prefix: str) -> list[str]:
    """The topics with this prefix."""
    async with administrating(broker.address) as admin:
        return sorted(topic for topic in await admin.list_topics() if topic.startswith(prefix))


async def committed_messages(broker: KafkaBroker, topic: str) -> list[ConsumerRecord]:
    """All committed messages of a topic, partition by partition, in their order there."""
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.address, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        await consumer._client._wait_on_metadata(topic)
        partitions = [
            TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        found: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in partitions}
        while True:
            behind = [each for each in partitions if await consumer.position(each) < ends[each]]
            if not behind:
                return [record for records in found.values() for record in records]
            for partition, records in (await consumer.getmany(*behind, timeout_ms=200)).items():
                found[partition] += records


@dataclass
class Judge:
    """Replays a topic's messages: each has to begin where the one before has ended.

    `read_value`: what a value says. `rows`: the row of each key, as far as messages have it. `faults`: messages that
    came twice, too early or not at all.
    """

    read_value: Callable[[bytes], Any] = json.loads
    rows: dict[bytes, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    changes: int = 0
    read: int = 0

    def judge(self, messages: Iterable[ConsumerRecord]) -> "Judge":
        """Replay them."""
        awaited: bytes | None = None  # the key of a delete whose tombstone comes next
        partition = None
        for message in messages:
            if message.partition != partition:
                partition, awaited = message.partition, None
            if message.value is None:
                self._fault(message.key == awaited, "a tombstone without its delete", message)
                awaited = None
                continue
            self._fault(awaited is None, "a delete without its tombstone", message)
            value = self.read_value(message.value)
            self._one(message, value)
            awaited = message.key if value["op"] == "d" else None
        return self

    def _one(self, message: ConsumerRecord, value: Mapping[str, Any]) -> None:
        key, op, before, after = message.key, value["op"], value["before"], value["after"]
        known = key in self.rows
        match op:
            case "c":
                self._fault(not known or self.rows[key] is None, "an insert of what is there", message)
            case "u" | "d":
                self._fault(not known or self.rows[key] == before, f"{op} of another row", message)
            case "r":
                self._fault(not known or self.rows[key] == after, "a snapshot's row that isn't so", message)
                self.read += 1
            case _:
                self._fault(False, f"op {op}", message)
        self.changes += op != "r"
        self.rows[key] = after

    def _fault(self, good: bool, what: str, message: ConsumerRecord) -> None:
        if not good:
            self.faults.append(
                f"{what}: {message.topic}-{message.partition}@{message.offset} {message.key!r}"
            )


@dataclass
class Transactions:
    """The events of each source transaction, by its id, against what the transaction topic says of them."""

    read_value: Callable[[bytes], Any] = json.loads
    orders: dict[str, list[int]] = field(default_factory=dict)

    def take(self, messages: Iterable[ConsumerRecord]) -> None:
        """Add a topic's messages."""
        for message in messages:
            of = self.read_value(message.value)["transaction"] if message.value is not None else None
            if of is not None:
                self.orders.setdefault(of["id"], []).append(of["total_order"])

    def faults(self, marks: Iterable[ConsumerRecord]) -> list[str]:
        """What isn't once: each event of a transaction, its BEGIN, and its END, which counts the events."""
        found: dict[str, list[tuple[str, int | None]]] = {}
        for mark in marks:
            value = self.read_value(mark.value)
            found.setdefault(value["id"], []).append((value["status"], value["event_count"]))
        return [
            f"{id_}: {found.get(id_)} and events {orders}"
            for id_, orders in self.orders.items()
            if sorted(orders) != list(range(1, len(orders) + 1))
            or found.get(id_) != [("BEGIN", None), ("END", len(orders))]
        ] + [f"{id_}: no event" for id_ in found if id_ not in self.orders]
