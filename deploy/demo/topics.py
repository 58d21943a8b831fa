"""The verdict on topics: each change once per key and in order, and the rows that MySQL has.

A consumer reads what is committed, from the beginning. It shares nothing with Tidemark but the client of Kafka.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from deploy.demo.shop import DATABASE
from deploy.oracle.changes import Written, tally_of, untrue_changes
from deploy.oracle.source import source_table
from deploy.oracle.tables import TOLD
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId

PREFIX: Final = "demo"
PARTITIONS: Final = 3

# A key of a row: the column's values, joined by `|`; a version and the number of the change that wrote it.
State = tuple[int, int]


@dataclass
class Topic:
    """What was found in a table's topic. `rows`: of each key, what its last message says, unless that's a delete.

    `reread`: keys that may be read more than once, by a repair.
    """

    name: str
    key: Sequence[str]
    reread: Collection[str]
    partitions: int = 0
    messages: int = 0
    tombstones: int = 0
    changes: list[Written] = field(default_factory=list)
    rows: dict[str, State] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def take(self, record: ConsumerRecord) -> None:
        """Replay the next message."""
        self.messages += 1
        if record.value is None:
            self.tombstones += 1
            return
        value: dict[str, Any] = json.loads(record.value)
        row = value["after"] or value["before"]
        key = "|".join(str(row[column]) for column in self.key)
        state, known = (int(row["version"]), int(row["op_no"])), self.rows.get(key)
        if value["op"] == "r":
            again = key in self.read and key not in self.reread
            if again or (known is not None and known != state):
                self.faults.append(f"{self.name}: {key} is read as {state} after {known}")
            self.read.add(key)
        else:
            moved = any(name == "__debezium.oldkey" for name, _ in record.headers)
            self.changes.append(Written("u" if moved else value["op"], key, *state))
        if value["after"] is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = state

    def __str__(self) -> str:
        """The counts."""
        return (
            f"topic {self.name}, {self.partitions} partitions: {self.messages:,} messages, of them {len(self.read):,} "
            f"rows of the snapshot, {len(self.changes):,} changes, {self.tombstones:,} tombstones"
        )

    def untrue(self, tally: pa.Table, source: pa.Table) -> list[str]:
        """Where it differs from what the writer has committed, or from the rows that MySQL has now."""
        lines = zip(*(column.to_pylist() for column in tally.columns), strict=True)
        table = TableId(DATABASE, self.name.rpartition(".")[2])
        wrong = [*self.faults[:TOLD], *untrue_changes(self.name, self.changes, tally_of(table, lines))]
        rows = _states(source, self.key)
        different = [key for key in rows.keys() | self.rows.keys() if rows.get(key) != self.rows.get(key)]
        return wrong + [
            f"{self.name}: {key} is {self.rows.get(key)} at the end, and {rows.get(key)} in MySQL"
            for key in different[:TOLD]
        ]


def read_topic(address: str, table: str, key: Sequence[str], reread: Collection[str]) -> Topic:
    """All committed messages of a table's topic, replayed."""
    return asyncio.run(_replayed(address, Topic(f"{PREFIX}.{DATABASE}.{table}", key, reread)))


def untrue_topic(topic: Topic, server: MysqlServer, tally: pa.Table) -> list[str]:
    """Its differences from the source and from the writer's tally."""
    table = TableId(DATABASE, topic.name.rpartition(".")[2])
    return topic.untrue(tally, source_table(server, table))


async def _replayed(address: str, topic: Topic) -> Topic:
    async with AIOKafkaConsumer(
        bootstrap_servers=address,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in _committed(consumer, topic):
            topic.take(record)
    return topic


async def _committed(consumer: AIOKafkaConsumer, topic: Topic) -> AsyncIterator[ConsumerRecord]:
    partitions = [TopicPartition(topic.name, number) for number in range(PARTITIONS)]
    topic.partitions = len(partitions)
    consumer.assign(partitions)
    ends = await consumer.end_offsets(partitions)
    while behind := [each for each in partitions if await consumer.position(each) < ends[each]]:
        for records in (await consumer.getmany(*behind, timeout_ms=1_000)).values():
            for record in records:
                yield record


def _states(source: pa.Table, key: Sequence[str]) -> dict[str, State]:
    *keys, versions, numbers = (source[name].to_pylist() for name in (*key, "version", "op_no"))
    names = (b"|".join(parts).decode() for parts in zip(*keys, strict=True))
    states = ((int(version), int(number)) for version, number in zip(versions, numbers, strict=True))
    return dict(zip(names, states, strict=True))
