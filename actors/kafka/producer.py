"""A transactional producer of Kafka's that takes complete batches.

Its transactional id is the pipeline's. `start` gives it a new epoch: the broker ends a predecessor's open transaction,
and accepts nothing more from it. A batch counts once the broker has acknowledged it: `commit` waits for all of them.

After any failure the sink closes the producer and starts another one.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from actors.kafka.batches import PartitionBatch
from actors.kafka.client import client_options
from actors.runtime.redaction import safe_message
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, classed

# How long a start, and an end, may take (s).
STARTS_WITHIN_S: Final = 30.0
ENDS_WITHIN_S: Final = 5.0

# After so long (s) without an answer to a batch its topic is looked for.
LOOK_AFTER_S: Final = 2.0

Result = TypeVar("Result")


def failure(error: BaseException, topic: str | None = None) -> KafkaUnavailable | KafkaRefused:
    """Returns our error for an error of Kafka's or of the network's, or for a time-out."""
    return classed(type(error).__name__, safe_message(error), topic)


def transactional_id(pipeline: str) -> str:
    """Returns the id by which a pipeline's producer fences its predecessor."""
    return f"tidemark-{pipeline}"


class KafkaProducer:
    """Sends batches in Kafka transactions. Raises KafkaUnavailable and KafkaRefused."""

    def __init__(self, settings: KafkaSinkSettings, pipeline: str) -> None:
        self._timeout_s = settings.transaction_timeout_s
        self._deadline = 0.0
        self._sent: list[tuple[str, asyncio.Future[Any]]] = []
        self._producer = AIOKafkaProducer(
            **client_options(settings, pipeline),
            transactional_id=transactional_id(pipeline),
            transaction_timeout_ms=int(1000 * settings.transaction_timeout_s),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
        )

    async def start(self) -> None:
        """Connects, and fences a predecessor."""
        self._deadline = self._now() + STARTS_WITHIN_S
        await self._in_time(self._producer.start())

    async def begin(self) -> None:
        """Begins a Kafka transaction. It must be committed before the broker aborts it."""
        self._sent = []
        self._deadline = self._now() + self._timeout_s
        await self._in_time(self._producer.begin_transaction())

    async def send(self, batch: PartitionBatch) -> None:
        """Sends a batch; returns when it is queued."""
        sending = self._producer.send_batch(batch.records, batch.topic, partition=batch.partition)
        self._sent.append((batch.topic, await self._in_time(sending, batch.topic)))
        self._failed()

    async def commit(self) -> None:
        """Waits until the broker has acknowledged all batches, and commits them."""
        for topic, future in self._sent:
            await self._in_time(self._acknowledged(topic, future), topic)
        await self._in_time(self._producer.commit_transaction())

    async def close(self) -> None:
        """Closes it. Aborts the open Kafka transaction if the broker answers."""
        producer = self._producer
        manager = producer._txn_manager  # noqa: SLF001 - there's no other way to ask
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                if manager is not None and manager.is_in_transaction():
                    await producer.abort_transaction()
                await producer.stop()
        except (KafkaError, OSError, TimeoutError, AssertionError):
            # It waits for what never comes: take its task and its connections away.
            task = producer._sender.sender_task  # noqa: SLF001
            producer._closed = True  # noqa: SLF001
            if task is not None:
                task.cancel()
                await asyncio.wait({task}, timeout=ENDS_WITHIN_S)
            await producer.client.close()
        for _, future in self._sent:
            future.cancelled() or (future.done() and future.exception())

    async def _acknowledged(self, topic: str, future: asyncio.Future[Any]) -> None:
        """Waits for a batch. aiokafka retries forever if the topic was removed, so this looks whether it exists."""
        while not (await asyncio.wait({future}, timeout=LOOK_AFTER_S))[0]:
            await self._producer.client.force_metadata_update()
            if topic not in self._producer.client.cluster.topics():
                raise UnknownTopicOrPartitionError(topic)
        future.result()

    def _failed(self) -> None:
        """Raises a batch's failure as soon as it is known, and forgets the acknowledged batches."""
        for topic, future in self._sent:
            if future.done() and (error := future.exception()) is not None:
                raise failure(error, topic) from error
        self._sent = [(topic, future) for topic, future in self._sent if not future.done()]

    async def _in_time(self, work: Coroutine[Any, Any, Result], topic: str | None = None) -> Result:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await work
        except (KafkaError, OSError, TimeoutError, AssertionError) as error:
            raise failure(error, topic) from error

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
