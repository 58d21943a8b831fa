"""Signals from a Kafka topic, as Debezium takes them: the record's key is the pipeline's name, its value the signal.

    key: shop    value: {"id": "s1", "type": "pause-snapshot"}

The topic has one partition, so that signals have an order. A signal without an id gets that of its position in the
topic and of its time, in ms since the epoch. A topic that is made again has the same positions with other times.
Records with other keys are skipped.

**Offsets** are committed in the topic's order, each once its signal has been answered durably and the answer has been
sent. So a signal without an answer at a crash is read again, and the coordinator knows an accepted signal by its id.
A broker forgets an offset some days after its last commit (`offsets.retention.minutes`), because the partition is
assigned and the group has no members. A start would then take signals again that were rejected long ago. So an offset
is committed again and again, unless it is beyond the topic's end: then the topic was made again. An earlier version
named a record by its offset alone. Each commit says before which offset it may have read records. The coordinator knows
those of them that it accepted.

**Answers and notifications** go to another topic, if one is named. It gets the answer to each signal of this topic,
with its offset. It also gets the progress of each snapshot (`running`, `done`, `failed`), and Debezium's notifications.
They are sent at least once: after a restart everything known of the last snapshots is sent again.

**A broker that doesn't answer** delays only this channel, which retries without a limit, with growing pauses. The same
holds for a topic that doesn't exist or has more than one partition, because both can be repaired meanwhile. The status
has the problem.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from actors.kafka.client import BROKER_ANSWERS_WITHIN_S, administrating, client_options
from actors.runtime.retry import random_pause_s
from actors.runtime.tasks import first_end
from actors.signals.channel import IncomingSignal, signal_state
from pipeline.config.settings import KafkaSettings
from pipeline.errors import Backoff, Transient
from pipeline.messages.signals import SignalAnswer
from pipeline.signals import notifications
from pipeline.signals.outcomes import outcomes_of_notifications
from pipeline.signals.signal import record_id
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.source.finding import Finding, Severity

log = structlog.get_logger()


def _somebody_waits(line: logging.LogRecord) -> bool:
    """Filters asyncio's reports: leaves out a request that aiokafka shields from the end of its commit. Its error is
    logged here."""
    return "GroupCoordinator._do_commit_offsets()" not in line.getMessage()


logging.getLogger("asyncio").addFilter(_somebody_waits)

CONNECTION_BACKOFF: Final = Backoff(1.0, 60.0)

# The most time between two queries to the broker.
BROKER_EVERY_S: Final = 10.0

# The most time between two commits of an offset.
COMMIT_EVERY_S: Final = 3600.0


class UnusableTopic(Transient):
    """A topic can't be used as it is, and what to do."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(f"{wrong}; {remedy}")
        self.finding = Finding(Severity.ERROR, wrong, remedy)


@dataclass(slots=True)
class _Taken:
    """A record that was passed on: its value, its durable answer, and whether the answer has been sent."""

    value: bytes | None
    answer: SignalAnswer | None = None
    told: bool = False


class SignalKafka:
    """The channel; it connects when the first signal is requested."""

    name = "kafka"

    def __init__(self, settings: KafkaSettings, pipeline: str, backoff: Backoff = CONNECTION_BACKOFF) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._backoff = backoff
        self._partition = TopicPartition(settings.topic, 0)
        self._arrived: asyncio.Queue[IncomingSignal] = asyncio.Queue(1)
        # By offset, in their order, all that were passed on and aren't committed.
        self._taken: dict[int, _Taken] = {}
        # The offset that was committed last, and when; None if there is none.
        self._place: int | None = None
        self._committed_at = -math.inf
        # An earlier version may have read the records before this offset.
        self._former_until = 0
        self._checkpoint: Checkpoint | None = None
        self._notified: Checkpoint | None = None
        self._news = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._connected = False
        self._problem: str | None = None

    async def receive(self) -> IncomingSignal:
        """The next signal for this pipeline."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        receiving = asyncio.create_task(self._arrived.get())
        try:
            await asyncio.wait({receiving, self._serving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                self._serving.result()  # it ends only by an unforeseen error
            return receiving.result()
        finally:
            receiving.cancel()

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """Keeps the checkpoint until the events since the last reported one can be sent."""
        self._checkpoint = checkpoint
        self._news.set()

    async def close(self) -> None:
        """Leave the broker; what isn't committed is read again by the next one."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    def status(self) -> dict[str, Any]:
        """The topic, whether it's being read, and what is the matter."""
        return {
            "topic": self._settings.topic,
            "connected": self._connected,
            "problem": self._problem,
            "uncommitted": len(self._taken),
        }

    async def _serve(self) -> None:
        failures = 0
        while True:
            try:
                async with self._session() as (consumer, producer):
                    failures = 0
                    await first_end(self._read(consumer), self._publish(consumer, producer))
            except (KafkaError, OSError, TimeoutError, UnusableTopic) as error:
                self._problem = str(error) or type(error).__name__
                log.warning(
                    "the signals' topic can't be read", topic=self._settings.topic, error=self._problem
                )
            failures += 1
            await asyncio.sleep(random_pause_s(self._backoff, failures))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[AIOKafkaConsumer, AIOKafkaProducer | None]]:
        common = client_options(self._settings, self._pipeline)
        await _must_be_there(self._settings, self._pipeline)
        async with AsyncExitStack() as ends:
            ends.callback(setattr, self, "_connected", False)
            consumer = AIOKafkaConsumer(
                group_id=f"tidemark-{self._pipeline}",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                **common,
            )
            ends.push_async_callback(_stop, consumer)
            await consumer.start()
            consumer.assign([self._partition])
            await self._find_place(consumer)
            producer = None
            if self._settings.answers_topic is not None:
                producer = AIOKafkaProducer(acks="all", enable_idempotence=True, **common)
                ends.push_async_callback(producer.stop)
                await producer.start()
            self._connected, self._problem = True, None
            self._news.set()
            yield consumer, producer

    async def _find_place(self, consumer: AIOKafkaConsumer) -> None:
        """Finds the offset that was committed last, and before which one an earlier version may have read."""
        async with asyncio.timeout(BROKER_ANSWERS_WITHIN_S):
            # The public method leaves the text of the commit out.
            found = await consumer._coordinator.fetch_committed_offsets([self._partition])  # noqa: SLF001
            last = found.get(self._partition)
            end = await self._end(consumer)
            # If nothing is committed, the broker may have forgotten what an earlier version committed.
            self._place, self._former_until = None, end
            if last is None:
                return
            self._place = last.offset
            if end < last.offset:  # the topic was made again
                self._former_until = 0
            elif (last.metadata or "").isdigit():
                self._former_until = int(last.metadata)
            else:  # an earlier version committed it, and may have read everything since
                await self._commit_place(consumer, last.offset)

    async def _end(self, consumer: AIOKafkaConsumer) -> int:
        return int((await consumer.end_offsets([self._partition]))[self._partition])

    async def _commit_place(self, consumer: AIOKafkaConsumer, place: int) -> None:
        await consumer.commit({self._partition: (place, str(self._former_until))})

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        last = -1
        while True:
            record = await consumer.getone()
            if record.offset <= last:
                self._former_until = 0  # the topic was made again
                self._taken.clear()
            last = record.offset
            known = self._taken.get(record.offset)
            if known is not None and known.value == record.value:
                continue  # it was read before the connection was lost
            taken = _Taken(record.value)
            if record.key == self._pipeline.encode():
                default_id = record_id(record.topic, record.offset, record.timestamp)
                former_id = f"{record.topic}-{record.offset}" if record.offset < self._former_until else None
                await self._arrived.put(
                    IncomingSignal(record.value or b"", self._answerer(taken), default_id, former_id)
                )
            else:
                taken.told = True
                self._news.set()
            # Not before it was passed on: else it would be passed over when it's read again.
            self._taken[record.offset] = taken

    def _answerer(self, taken: _Taken) -> Callable[[SignalAnswer], Awaitable[None]]:
        async def answer(given: SignalAnswer) -> None:
            taken.answer = given
            self._news.set()

        return answer

    async def _publish(self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer | None) -> None:
        while True:
            self._news.clear()
            if producer is not None:
                await self._send_answers(producer)
                await self._send_progress(producer)
            await self._commit(consumer, without_telling=producer is None)
            try:
                async with asyncio.timeout(BROKER_EVERY_S):
                    await self._news.wait()
            except TimeoutError:
                async with asyncio.timeout(BROKER_ANSWERS_WITHIN_S):
                    await consumer.end_offsets([self._partition])

    async def _send_answers(self, producer: AIOKafkaProducer) -> None:
        for offset, taken in list(self._taken.items()):
            if taken.answer is not None and not taken.told:
                await self._send(producer, {**signal_state(taken.answer).to_json(), "offset": offset})
                taken.told = True

    async def _send_progress(self, producer: AIOKafkaProducer) -> None:
        if (now := self._checkpoint) is None or now is self._notified:
            return
        found = notifications.find_notifications(self._notified, now)
        for notification in found:
            at = time.time_ns() // 1_000_000
            await self._send(producer, notifications.to_json(notification, self._pipeline, at))
        for state in outcomes_of_notifications(found):
            await self._send(producer, state.to_json())
        self._notified = now

    async def _send(self, producer: AIOKafkaProducer, value: dict[str, Any]) -> None:
        text = json.dumps(value, ensure_ascii=False).encode()
        await producer.send_and_wait(self._settings.answers_topic, text, key=self._pipeline.encode())

    async def _commit(self, consumer: AIOKafkaConsumer, *, without_telling: bool) -> None:
        """Commit up to the first record that hasn't been dealt with, or the last offset again."""
        behind = None
        for offset, taken in self._taken.items():
            if not taken.told and not (without_telling and taken.answer is not None):
                break
            behind = offset
        place, now = self._place if behind is None else behind + 1, time.monotonic()
        if place is None or (behind is None and now - self._committed_at < COMMIT_EVERY_S):
            return
        async with asyncio.timeout(BROKER_ANSWERS_WITHIN_S):
            if behind is None and place > await self._end(consumer):  # the topic was made again
                self._place = None
                return
            await self._commit_place(consumer, place)
        self._place, self._committed_at = place, now
        self._taken = {offset: taken for offset, taken in self._taken.items() if offset >= place}


async def check_broker(settings: KafkaSettings, pipeline: str) -> list[Finding]:
    """What's wrong with the broker or its topics."""
    try:
        await _must_be_there(settings, pipeline)
    except UnusableTopic as unfit:
        return [unfit.finding]
    except (KafkaError, OSError, TimeoutError) as error:
        servers = ", ".join(settings.bootstrap_servers)
        wrong = f"the broker at {servers} can't be reached: {str(error) or type(error).__name__}"
        return [Finding(Severity.ERROR, wrong, "see to signals.kafka, or to the broker")]
    return []


async def _must_be_there(settings: KafkaSettings, pipeline: str) -> None:
    """Look at the topics. Raises UnusableTopic."""
    topics = [settings.topic] if settings.answers_topic is None else [settings.topic, settings.answers_topic]
    async with administrating(settings, pipeline) as admin:
        found = {topic["topic"]: topic for topic in await admin.describe_topics(topics)}
    for topic in topics:
        if not found.get(topic, {}).get("partitions"):
            raise UnusableTopic(
                f"the broker has no topic {topic} and doesn't create it",
                "create it with a single partition",
            )
    if (count := len(found[settings.topic]["partitions"])) > 1:
        raise UnusableTopic(
            f"the topic {settings.topic} has {count} partitions, in which signals have no order",
            "name one that has a single partition",
        )


async def _stop(consumer: AIOKafkaConsumer) -> None:
    """Stops it completely, and raises nothing.

    If a fetch fails while it's being stopped, aiokafka 0.14 raises a CancelledError without a cause, and leaves the
    connections open.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    await asyncio.wait({stopping})
    if stopping.cancelled() or stopping.exception() is not None:
        await consumer._client.close()  # noqa: SLF001 - there's no other way
