"""The KafkaSink: brings the journal's segments into topics as Debezium's messages, each change exactly once.

`pipeline.kafka.step` decides, and this actor performs it, at Kafka and at the journal.

The orders of one step are one work of the actor's loop. So the actor notices a stop while a broker doesn't answer.

It needs only the reading side of the journal. A failure here affects neither capture nor the lake.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, assert_never

import structlog

from actors.journal.store import JournalReader
from actors.kafka.portion_sender import BrokerConnection, OpenRecords, PortionSender, routing_of
from actors.kafka.position import last_position, position_batch
from actors.kafka.producer import KafkaProducer
from actors.kafka.segment_rows import SegmentRows
from actors.kafka.sink_calls import SinkCalls
from actors.kafka.topics import KafkaTopics, position_topic_of
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.tasks import broken_off
from pipeline import metrics as catalogue
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.journal.entry import Entry
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.consumer_progress import KafkaConsumerProgress
from pipeline.kafka.errors import BatchTooLarge, TableRefusal, TopicRefusal
from pipeline.kafka.facts import (
    BatchDivided,
    Fact,
    KafkaStopRequested,
    KafkaTimerFired,
    OpenRecordsFound,
    PlacesFound,
    SegmentPlanned,
    StopTimePassed,
    TopicRefused,
    TransactionCommitted,
)
from pipeline.kafka.orders import (
    BeginAgain,
    BeginTransaction,
    BreakOff,
    CommitTransaction,
    ConfirmSegment,
    ConnectedOrder,
    Order,
    PlanSegment,
    ReportCaughtUp,
    ReportRest,
    ReportSetAside,
    SendHeartbeat,
    SendNotifications,
    SendPortion,
)
from pipeline.kafka.position import NamedPosition, SinkPosition
from pipeline.kafka.state import AllSent, Committing, JournalBounds, OneTopic, RestLeft, State
from pipeline.kafka.transaction_endings import Ending, TopicPart
from pipeline.messages import topology
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.journal import SegmentSealed

log = structlog.get_logger()


def join_journal(journal: JournalReader) -> None:
    """Registers us as a consumer of the journal, from the next segment on, before any segment is sealed for us."""
    if KAFKA_CONSUMER not in journal.consumers.all():
        journal.consumers.record_progress(KAFKA_CONSUMER, journal.last_segment())


class KafkaSink(Actor[ToKafkaSink]):
    """Owns the topics of its prefix, by its transactional id."""

    name = topology.ActorName.KAFKA_SINK

    def __init__(
        self,
        mailbox: Mailbox[ToKafkaSink],
        metrics: Metrics,
        settings: KafkaSinkSettings,
        pipeline: str,
        journal: JournalReader,
        applied: Callable[[KafkaConsumerProgress], None],
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = settings
        self._pipeline = pipeline
        self._journal = journal
        self._applied = applied
        self._calls = SinkCalls(self)
        self._topics = KafkaTopics(settings, pipeline)
        self._rows = SegmentRows(journal, self._calls.advanced)
        self._sender = PortionSender(settings, journal, self._rows, self._topics, self._calls)
        self._state = State(
            settings.transaction_rows,
            heartbeat_topic=self._sender.heartbeat_topic,
            heartbeat_s=settings.heartbeat_interval_ms / 1000,
            routing=routing_of(settings),
            position_topic=position_topic_of(settings, pipeline),
            notifies=settings.notification_sink_topic_name is not None,
        )
        self._connected: BrokerConnection | None = None
        self._producer: KafkaProducer | None = None
        # The segment that is being sent, and the last one that the topics have wholly.
        self._entry: Entry | None = None
        self._reached: Entry | None = None
        # Since when the Kafka transaction is open, and when the source committed what its segments have (µs).
        self._began = 0.0
        self._source_committed: list[int] = []
        self._freshness: float | None = None
        # Whether the position wasn't compared with the journal's end yet.
        self._unchecked = True
        # The orders of one step are performed after those of the step before.
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Fences a predecessor, finds the position, and begins to send what the topics lack."""
        self.begin_work(self._wait_closed(), self._take_in)
        self.begin_work(self._performed((BeginAgain(),)), self._take_in)

    def takes(self) -> bool:
        """Takes further segments only after the topics have all earlier ones."""
        return isinstance(self._state.doing, AllSent)

    def next_at(self) -> float | None:
        """Returns when the next heartbeat is due, or a topic that was set aside, or the next part of a stop."""
        return kafka_sink.timer_at(self._state)

    async def time_came(self) -> None:
        """Sends a heartbeat, or what a topic that was set aside lacks. Brings a stop to its next part."""
        if self._state.stop is not None:
            await self._take_in(StopTimePassed())
            return
        first = await self._calls.in_thread(self._journal.consumers.first)
        await self._take_in(KafkaTimerFired(first))

    def ended(self) -> bool:
        """Ends when everything is sent, or what a stop leaves is left."""
        return super().ended() or (isinstance(self._state.doing, RestLeft) and not self._works)

    async def handle(self, message: SegmentSealed) -> None:
        """Sends everything through the segment."""
        await self._take_in(message)

    async def release(self) -> None:
        """Disconnects from the broker, and waits for the thread."""
        self._calls.release()
        self._break_off()
        for work in self._works:
            await broken_off(work)
        await self._leave()
        await self._calls.end()

    def status(self) -> dict[str, Any]:
        """Returns how far the topics are, by the last Kafka transaction, and how fresh that was.

        `waits`: who hasn't answered for a while, a broker or a schema registry; None if there's no such.
        """
        position, silent = self._state.at.position, self._calls.waited_for()
        return {
            "connected": self._connected is not None,
            "waits": None if silent is None else f"{silent} doesn't answer",
            "topics": self._settings.topic_prefix,
            "segment": position.segment,
            "within": {"scn": position.scn, "rows": position.rows} if position.scn or position.rows else None,
            "freshness_seconds": self._freshness,
            "set_aside": {topic: each.reason for topic, each in self._state.at.set_aside.items()},
        }

    def not_ready(self) -> str | None:
        """Returns why it isn't ready, None once it is connected to a broker."""
        return None if self._connected is not None else "Kafka doesn't answer yet"

    async def _wait_closed(self) -> Fact:
        """Returns when the service stops, even if the sink is sending."""
        await self.mailbox.wait_closed()
        return KafkaStopRequested(self.now())

    async def _places(self, opened: frozenset[TopicPart]) -> PlacesFound:
        """Connects, ends what is open in these partitions, and finds the position, with a new epoch."""
        self.beat()
        position_topic = await self._calls.at_broker(self._topics.position_topic())
        producer = self._producer = KafkaProducer(self._settings, self._pipeline)
        await self._calls.at_broker(producer.start())
        found = await self._calls.at_broker(
            last_position(self._settings, self._pipeline, position_topic, producer)
        )
        if opened:
            await self._calls.at_broker(producer.end(opened, Ending.ABORT))
        bounds = await self._calls.in_thread(self._bounds)
        of, at = (found.journal, found.at) if found is not None else (None, None)
        self._connected = BrokerConnection(producer, position_topic)
        self.metrics.set(catalogue.KAFKA_UP, 1)
        segment = bounds.joined if at is None else at.position.segment
        log.info("the topics are written from here on", segment=segment)
        return PlacesFound(at, of, bounds)

    async def _leave(self) -> None:
        self._connected, producer, self._producer = None, self._producer, None
        self.metrics.set(catalogue.KAFKA_UP, 0)
        if producer is not None:
            await producer.close()

    def _bounds(self) -> JournalBounds:
        join_journal(self._journal)
        known = self._journal.consumers.all()[KAFKA_CONSUMER]
        return JournalBounds(
            self._journal.identity.id,
            self._journal.consumers.first(),
            self._journal.last_segment(),
            known.segment,
            known.reported is not None,
            known.unchecked_end,
            known.sent,
        )

    async def _take_in(self, fact: Fact | None) -> None:
        """Begins the orders that follow from a fact. The fact that they bring comes later."""
        orders: tuple[Order, ...] = ()
        if fact is not None:
            self._state, orders = kafka_sink.step(self._state, fact, self.now())
            self._count_set_aside()
        if BreakOff() in orders:
            self._break_off()
        if orders:
            self.begin_work(self._performed(orders), self._take_in)
        elif isinstance(self._state.doing, AllSent):
            self.rest()

    def _break_off(self) -> None:
        for work in self._works:
            work.cancel()

    async def _performed(self, orders: tuple[Order, ...]) -> Fact | None:
        """Performs the orders of one step. Returns the fact that one brings, after which no other follows.

        Nothing follows from orders that a stop breaks off.
        """
        try:
            async with self._turn:
                for order in orders:
                    if (brought := await self._brought(order)) is not None:
                        return brought
        except asyncio.CancelledError:
            if not isinstance(self._state.doing, RestLeft):
                raise
        return None

    async def _brought(self, order: Order) -> Fact | None:
        """Returns the fact that an order brings. A topic's refusal is one if the topic is set aside."""
        try:
            return await self._carry_out(order)
        except OpenRecords as found:
            return OpenRecordsFound(found.parts)
        except BatchTooLarge as refused:
            log.warning("the topic gets smaller batches", topic=refused.topic, reason=str(refused))
            return BatchDivided(refused.topic, refused.bytes)
        except TopicRefusal as refusal:
            fact = self._refused(refusal)
            if not kafka_sink.sets_aside(self._state, fact):
                raise
            return fact

    def _refused(self, refusal: TopicRefusal) -> TopicRefused:
        if isinstance(refusal, TableRefusal):
            return TopicRefused(refusal.topic, refusal.reason)
        return TopicRefused(self._sender.set_aside_as(refusal.topic), refusal.reason, refusal.topic)

    @contain_errors
    def _count_set_aside(self) -> None:
        self.metrics.set(catalogue.STOPPED_TABLES, len(self._state.at.set_aside), part="kafka")

    async def _carry_out(self, order: Order) -> Fact | None:
        """Performs an order. Returns the fact that it brings, None if it brings none."""
        match order:
            case BeginAgain(opened):
                await self._leave()
                return await self._places(opened)
            case PlanSegment(segment, after_scn, split, capacity):
                entry = await self._entry_of(segment)
                portions = await self._calls.in_thread(
                    self._rows.plan, entry, after_scn, capacity, split=split
                )
                if entry.commit_times is not None:
                    self._source_committed += entry.commit_times.samples
                return SegmentPlanned(portions)
            case ReportSetAside(topic, reason):
                log.error("the topic was set aside", topic=topic, reason=reason)
            case ReportCaughtUp(topic):
                log.info("the topic takes its messages again", topic=topic)
            case ReportRest(segment):
                log.warning("the next start sends the rest", segment=segment)
            case BreakOff():
                pass  # that was done at once
            case _:
                assert self._connected is not None
                return await self._carry_out_connected(self._connected, order)
        return None

    async def _carry_out_connected(self, connected: BrokerConnection, order: ConnectedOrder) -> Fact | None:
        """Performs an order that needs the broker, or what it has said."""
        match order:
            case BeginTransaction(batch_bytes):
                if self._unchecked:  # before the topics have anything that a crash would find ahead of it
                    await self._calls.in_thread(self._journal.consumers.checked, KAFKA_CONSUMER)
                    self._unchecked = False
                self._began, self._source_committed = self.now(), []
                self._sender.begin(batch_bytes)
                await self._calls.at_broker(connected.producer.begin())
            case SendPortion():
                entry, by = await self._entry_of(order.segment), self._state.routing_of(order.segment)
                return await self._sender.send_portion(connected, entry, order, by)
            case SendHeartbeat(topics):
                await self._sender.send_heartbeat(connected, topics)
            case SendNotifications(topics, segment):
                entry, by = await self._entry_of(segment), self._state.routing_of(segment)
                await self._sender.send_notifications(connected, topics, entry, by)
            case CommitTransaction(at):
                await self._commit(connected, at)
                return TransactionCommitted()
            case ConfirmSegment(segment, needless):
                await self._report_position()
                record = self._journal.consumers.record_progress
                sent = NamedPosition(connected.position_topic, self._state.at.position)
                await self._calls.in_thread(record, KAFKA_CONSUMER, needless, segment, sent=sent)
                self.metrics.set(catalogue.KAFKA_SEGMENT, self._state.at.position.segment)
            case _:
                assert_never(order)
        return None

    async def _entry_of(self, segment: int) -> Entry:
        if self._entry is None or self._entry.segment != segment:
            self._entry = await self._calls.in_thread(self._journal.entry, segment)
        return self._entry

    async def _report_position(self) -> None:
        """Tell those who wait for transactions how far the topics are, if the journal still has that segment."""
        at = self._state.at
        segment = at.position.segment
        known = (
            each for each in (self._entry, self._reached) if each is not None and each.segment == segment
        )
        entry = next(known, None)
        if entry is None:
            if segment < max(1, await self._calls.in_thread(self._journal.consumers.first)):
                return
            entry = await self._calls.in_thread(self._journal.entry, segment)
        self._reached = entry
        self._applied(KafkaConsumerProgress(self._settings, at, entry.checkpoint))

    async def _commit(self, connected: BrokerConnection, at: SinkPosition) -> None:
        await self._sender.send_gathered(connected)
        ends = await self._calls.at_broker(connected.producer.acknowledged())
        now_ms = time.time_ns() // 1_000_000
        batch = position_batch(connected.position_topic, self._journal.identity.id, at, now_ms, ends)
        await self._calls.at_broker(connected.producer.send(batch))
        await self._calls.at_broker(connected.producer.commit())
        self._measure()

    @contain_errors
    def _measure(self) -> None:
        sent, committed, now = self._sender.content, self._source_committed, time.time()
        for table, count in sent.messages.items():
            self.metrics.count(catalogue.KAFKA_SENT, count, table=table)
        self.metrics.count(catalogue.KAFKA_BYTES, sent.bytes)
        self.metrics.observe(catalogue.KAFKA_TRANSACTION, self.now() - self._began)
        doing = self._state.doing
        catches_up = isinstance(doing, Committing) and isinstance(doing.topics, OneTopic)
        if committed and not catches_up:
            self.metrics.set(catalogue.KAFKA_COMMIT, max(committed) / 1e6)
            self._freshness = round(max(0.0, now - min(committed) / 1e6), 3)
            self.metrics.observe(catalogue.KAFKA_FRESHNESS, self._freshness)
