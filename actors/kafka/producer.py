"""A transactional producer of Kafka's that takes complete batches.

Its transactional id is the pipeline's. `start` gives it a new epoch: the broker ends a predecessor's open transaction,
and accepts nothing more from it. A batch counts once the broker has acknowledged it, and a commit once the broker has
written its markers: `commit` waits for both.

After any failure the sink closes the producer and starts another one.
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import getcoroutinelocals, iscoroutine
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from actors.kafka.batches import PartitionBatch
from actors.kafka.broker_answers import is_final
from actors.kafka.client import client_options
from actors.kafka.end_offsets import Isolation, end_offsets
from actors.kafka.missing_partitions import missing_partitions, unknown_partitions
from actors.runtime.redaction import safe_message
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.errors import BatchTooLarge, KafkaRefused, KafkaUnavailable, TopicRefusal, classed
from pipeline.kafka.transaction_endings import Ending, RecordEnds, TopicPart, open_parts

# How long a start may take, a question, and each of the two steps of an end (s).
STARTS_WITHIN_S: Final = 30.0
ANSWERS_WITHIN_S: Final = 5.0
ENDS_WITHIN_S: Final = 1.0

# After so long (s) without an answer to a batch the partitions of all batches are looked for.
LOOK_AFTER_S: Final = 2.0

# The broker writes the markers of a commit within milliseconds (s).
_MARKED_WITHIN_S: Final = 5.0
# Another writer's short Kafka transaction ends within this time (s).
_PASSES_WITHIN_S: Final = 0.5
_LOOK_FIRST_S: Final = 0.001
_LOOK_LAST_S: Final = 0.1

# A request's own bytes, and those of each batch beside its topic's name (more than either has).
_REQUEST_HEAD: Final = 1024
_BATCH_HEAD: Final = 64

# What aiokafka's producer raises. The last two are how it says that its transaction has failed.
_FAILURES: Final = (KafkaError, OSError, TimeoutError, AssertionError, IllegalOperation)

# What a client knows as the leader of a partition that has none.
_NO_LEADER: Final = (None, -1)

# What a broker answers to a batch that is larger than its topic's messages or segments may be.
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

Result = TypeVar("Result")


def failure(error: BaseException, *topics: str) -> KafkaUnavailable | KafkaRefused:
    """Returns our error for an error of Kafka's or of the network's, or for a time-out.

    `topics`: those that it may concern. If the error names one of them, it concerns that one.
    """
    concerned = [topic for topic in topics if topic in error.args] or topics
    return classed(type(error).__name__, safe_message(error), *concerned, final=is_final(error))


def _topics_of(parts: Iterable[TopicPart]) -> list[str]:
    return sorted({topic for topic, _ in parts})


def transactional_id(pipeline: str) -> str:
    """Returns the id by which a pipeline's producer fences its predecessor."""
    return f"tidemark-{pipeline}"


@dataclass(frozen=True, slots=True)
class _Sending:
    """A batch that the broker has not acknowledged yet."""

    topic: str
    partition: int
    count: int
    bytes: int
    future: asyncio.Future[Any]


def _under_way(sender: asyncio.Task[None]) -> set[asyncio.Task[Any]]:
    """Returns the tasks that a sender has begun, which nothing but its coroutine knows.

    aiokafka 0.14 has no other way to end them. A sender that is cancelled waits for them. They try until a broker
    answers, and wait forever for the metadata of a client that is closed.
    """
    routine = sender.get_coro()
    assert iscoroutine(routine)
    return set(getcoroutinelocals(routine).get("tasks", ()))


class _NoBrokers(set[int]):
    """The brokers that the sender waits for: none, so that a broker has the next request while it answers one.

    The sender still has one batch of a partition on its way, so each partition's order stays.
    """

    def add(self, broker: int) -> None:
        """Does nothing."""

    def remove(self, broker: int) -> None:
        """Does nothing."""


class KafkaProducer:
    """Sends batches in Kafka transactions. Raises KafkaUnavailable and KafkaRefused."""

    def __init__(self, settings: KafkaSinkSettings, pipeline: str) -> None:
        self._timeout_s = settings.transaction_timeout_s
        self._most_bytes = settings.max_request_bytes - _REQUEST_HEAD
        self._deadline = 0.0
        self._sent: list[_Sending] = []
        self._ends: dict[TopicPart, int] = {}
        # Somebody else's records may be open here, so that the stable offset does not say whether ours are.
        self._shared: set[TopicPart] = set()
        # Our marker is here, so that nothing of a predecessor's is open.
        self._marked: set[TopicPart] = set()
        # Whether aiokafka waits for a partition that does not exist, so that its transaction never ends.
        self._stuck = False
        self._producer = AIOKafkaProducer(
            **client_options(settings, pipeline),
            transactional_id=transactional_id(pipeline),
            transaction_timeout_ms=int(1000 * settings.transaction_timeout_s),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
        )
        self._producer._sender._in_flight = _NoBrokers()  # noqa: SLF001 - there's no option for it

    async def start(self) -> None:
        """Connects, and fences a predecessor."""
        self._deadline = self._now() + STARTS_WITHIN_S
        await self._in_time(self._producer.start())

    async def begin(self) -> None:
        """Begins a Kafka transaction. The broker aborts one that isn't committed in time after its first batch."""
        self._sent, self._ends = [], {}
        self._deadline = self._now() + self._timeout_s
        await self._in_time(self._producer.begin_transaction())

    async def send(self, batch: PartitionBatch) -> None:
        """Sends a batch; returns when it is queued. Raises TopicRefusal if no request has room for it."""
        topic, partition = batch.topic, batch.partition
        if not self._sent and not self._ends:
            self._deadline = self._now() + self._timeout_s
        size = batch.records.size() + len(topic) + _BATCH_HEAD
        await self._room(topic, size)
        await self._in_time(self._known(topic, partition), topic)
        await self._in_time(self._drained(topic, partition), topic)
        sending = self._producer.send_batch(batch.records, topic, partition=partition)
        count = batch.records.record_count()
        self._sent.append(_Sending(topic, partition, count, size, await self._in_time(sending, topic)))
        self._failed()

    async def acknowledged(self) -> RecordEnds:
        """Waits until the broker has acknowledged all batches. Returns where they end."""
        for each in self._sent:
            await self._in_time(self._acknowledged(each), each.topic)
        self._failed()
        return dict(self._ends)

    async def commit(self) -> None:
        """Waits until the broker has acknowledged all batches, commits them, and waits for their markers."""
        ends = await self.acknowledged()
        await self._in_time(self._producer.commit_transaction())
        if unmarked := await self._in_time(self._open_before(ends, _MARKED_WITHIN_S), *_topics_of(ends)):
            raise KafkaUnavailable(
                f"the broker ended a Kafka transaction and left {len(unmarked)} partitions without its marker; "
                "the next start ends it there"
            )

    async def end(self, parts: Collection[TopicPart], ending: Ending) -> None:
        """Ends what is open of ours in these partitions, by a Kafka transaction without a message."""
        await self.begin()
        await self._in_time(self._ended(parts, ending), *_topics_of(parts))

    async def opened(self, topic: str, partitions: int) -> frozenset[TopicPart]:
        """Returns in which partitions of a topic records of ours may be open. Ask before the first batch to it.

        Those are open before the partition's present end, and stay so. What ends by itself is another writer's.
        """
        parts = {(topic, each) for each in range(partitions)} - self._marked
        # The ends come first. Whatever another writer adds after them does not count.
        ends = await self.offsets(parts, Isolation.UNCOMMITTED) if parts else {}
        return await self._in_time(self._open_before(ends, _PASSES_WITHIN_S), topic)

    async def offsets(self, parts: Collection[TopicPart], isolation: Isolation) -> dict[TopicPart, int]:
        """Returns the end of each of these partitions that exist, as such a consumer sees it."""
        self._deadline = max(self._deadline, self._now() + ANSWERS_WITHIN_S)
        return await self._in_time(end_offsets(self._producer.client, parts, isolation), *_topics_of(parts))

    async def close(self) -> None:
        """Closes it. Aborts the open Kafka transaction if the broker answers. Else the next start does."""
        if self._stuck or not await self._stopped():
            await self._drop()
        for each in self._sent:
            each.future.cancelled() or (each.future.done() and each.future.exception())

    async def _stopped(self) -> bool:
        """Returns whether the Kafka transaction was aborted and the producer has ended."""
        producer = self._producer
        manager = producer._txn_manager  # noqa: SLF001 - there's no other way to ask
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                if manager is not None and manager.is_in_transaction():
                    await producer.abort_transaction()
                await producer.stop()
        except _FAILURES:
            return False
        return True

    async def _drop(self) -> None:
        """Takes its tasks and its connections away: they wait for what never comes.

        A connection closes once the broker has taken what was written to it. One that hangs may never do so.
        """
        producer = self._producer
        producer._closed = True  # noqa: SLF001
        sender = producer._sender.sender_task  # noqa: SLF001
        tasks = set() if sender is None else {sender, *_under_way(sender)}
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN_S):
                if tasks:
                    await asyncio.wait(tasks)
                await producer.client.close()

    async def _room(self, topic: str, size: int) -> None:
        """Waits until a request with all batches that are on their way has room for one more.

        The client puts what waits for a broker into one request. A broker ends the connection of a larger one and gives
        no answer, and the client would repeat the request until the Kafka transaction's end.
        """
        if size > self._most_bytes:
            raise TopicRefusal(
                topic,
                f"a message of {size} bytes is larger than kafka.max_request_bytes; raise it, and "
                "socket.request.max.bytes of the brokers and max.message.bytes of the topic, or leave the column out "
                "with kafka.column_exclude_list",
            )
        while self._sent and sum(each.bytes for each in self._sent) + size > self._most_bytes:
            first = self._sent[0]
            await self._in_time(self._acknowledged(first), first.topic)
            self._failed()

    async def _known(self, topic: str, partition: int) -> None:
        """Waits until the client knows a partition. It may have asked a broker that hasn't heard of it yet."""
        part, client, until = (topic, partition), self._producer.client, self._now() + LOOK_AFTER_S
        while unknown_partitions(client, {part}):
            if self._now() > until:
                await self._look_for({part})
            client.add_topic(topic)
            await client.force_metadata_update()
            await asyncio.sleep(_LOOK_LAST_S)

    async def _drained(self, topic: str, partition: int) -> None:
        """Waits until the partition's batch before is on its way: aiokafka has no room for two."""
        queues, part = self._producer._message_accumulator._batches, TopicPartition(topic, partition)  # noqa: SLF001
        while queue := queues.get(part):
            await queue[-1].wait_drain(LOOK_AFTER_S)
            if part in queues:
                await self._look_for_all()

    async def _acknowledged(self, sending: _Sending) -> None:
        """Waits for a batch. Looks now and then whether the partitions of all batches exist.

        aiokafka asks the broker for all of them at once, forever. One that is gone keeps the others from being taken.
        """
        while not (await asyncio.wait({sending.future}, timeout=LOOK_AFTER_S))[0]:
            await self._look_for_all()
        if sending.future.exception() is not None:
            self._failed()

    async def _look_for_all(self) -> None:
        """Raises if a partition of a batch without an answer does not exist."""
        await self._look_for({(each.topic, each.partition) for each in self._sent if not each.future.done()})

    async def _look_for(self, parts: Collection[TopicPart]) -> None:
        """Raises if one of these partitions does not exist, as after a removal of its topic.

        Somebody may have made the topic again with fewer partitions.
        """
        client = self._producer.client
        try:
            missing = await missing_partitions(client, parts)
        except KafkaConnectionError:
            return
        if missing:
            self._stuck = True
            topic = min(missing)[0]
            denied = topic in client.cluster.unauthorized_topics
            raise failure(
                TopicAuthorizationFailedError(topic) if denied else UnknownTopicOrPartitionError(topic), topic
            )

    async def _open_before(self, ends: RecordEnds, within_s: float) -> frozenset[TopicPart]:
        """Waits until no record before these ends is open, for so long. Returns where one still is."""
        pause, until = _LOOK_FIRST_S, self._now() + within_s
        unsure = frozenset(ends.keys() - self._shared)
        while unsure:
            stable = await end_offsets(self._producer.client, unsure, Isolation.COMMITTED)
            unsure = open_parts({part: ends[part] for part in unsure}, stable)
            if not unsure or self._now() > until:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LOOK_LAST_S)
        return unsure

    async def _ended(self, parts: Collection[TopicPart], ending: Ending) -> None:
        manager = self._producer._txn_manager  # noqa: SLF001 - a partition can't be added without a record otherwise
        for topic, partition in parts:
            manager.maybe_add_partition_to_txn(TopicPartition(topic, partition))
        commits = ending is Ending.COMMIT
        end = self._producer.commit_transaction if commits else self._producer.abort_transaction
        ended = asyncio.ensure_future(end())
        try:
            while not (await asyncio.wait({ended}, timeout=LOOK_AFTER_S))[0]:
                await self._look_for(parts)
        finally:
            ended.cancel()
        await ended
        # Our marker comes. If a partition stays open, somebody else has records there.
        ends = await end_offsets(self._producer.client, parts, Isolation.UNCOMMITTED)
        self._shared |= await self._open_before(ends, _MARKED_WITHIN_S)
        self._marked |= set(parts)

    def _failed(self) -> None:
        """Raises a batch's failure as soon as it is known, and forgets the acknowledged batches."""
        self._denied()
        for each in self._sent:
            if not each.future.done():
                continue
            if (error := each.future.exception()) is not None:
                if isinstance(error, _TOO_LARGE) and each.count > 1:
                    raise BatchTooLarge(each.topic, each.bytes, type(error).__name__) from error
                raise failure(error, each.topic) from error
            offset = each.future.result().offset
            if offset < 0:  # it was sent twice, and the broker no longer knows where it put the first one
                raise KafkaUnavailable(
                    f"{each.topic}: the broker doesn't say where it put a batch; it's sent again"
                )
            part = each.topic, each.partition
            self._ends[part] = max(self._ends.get(part, 0), offset + each.count)
        self._sent = [each for each in self._sent if not each.future.done()]

    def _denied(self) -> None:
        """Raises the refusal of a topic whose partitions the broker keeps out of the Kafka transaction.

        The batches of all other topics then fail too, for another reason.
        """
        ended = self._producer._txn_manager._transaction_waiter  # noqa: SLF001 - only this knows the topic
        error = ended.exception() if ended is not None and ended.done() else None
        if isinstance(error, TopicAuthorizationFailedError):
            (topics,) = error.args
            raise failure(error, min(topics)) from error

    async def _in_time(self, work: Coroutine[Any, Any, Result], *topics: str) -> Result:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await work
        except _FAILURES as error:
            self._denied()
            late = self._without_leader(topics) if isinstance(error, TimeoutError) else ()
            raise failure(error, *(late or topics)) from error

    def _without_leader(self, topics: Iterable[str]) -> list[str]:
        """Returns which of these topics have a partition without a leader, as far as the client knows."""
        cluster = self._producer.client.cluster
        return [
            topic
            for topic in topics
            if any(
                cluster.leader_for_partition(TopicPartition(topic, each)) in _NO_LEADER
                for each in cluster.partitions_for_topic(topic) or ()
            )
        ]

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
