"""The KafkaSink: brings the journal's segments into topics as Debezium's messages, each change exactly once.

`pipeline.kafka.step` decides, and this actor performs it, at Kafka and at the journal. A thread makes messages of rows,
while the batches before are on their way.

It needs only the reading side of the journal. A failure here affects neither capture nor the lake.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, TypeVar, assert_never

import structlog

from actors.journal.store import JournalReader
from actors.kafka.batches import MessageBatches, Records
from actors.kafka.message_rows import Gathered, GatheredRows, MessageRows
from actors.kafka.position import last_position, position_batch
from actors.kafka.producer import KafkaProducer
from actors.kafka.refusals import position_refused, refused_as_messages
from actors.kafka.schema_registry import SchemaRegistry
from actors.kafka.segment_rows import InStep, SegmentRows, all_in_step
from actors.kafka.topics import KafkaTopics
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.journal.entry import Entry
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.consumer_progress import KafkaConsumerProgress
from pipeline.kafka.debezium.transactions import MessageOrders
from pipeline.kafka.errors import BatchTooLarge, TableRefusal, TopicRefusal
from pipeline.kafka.portions import Portion, unsent
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.state import Committing, JournalBounds, OneTopic, State, Topics, includes
from pipeline.kafka.step import (
    BatchDivided,
    BeginAgain,
    BeginTransaction,
    CommitTransaction,
    ConfirmSegment,
    Fact,
    HeartbeatDue,
    OpenRecordsFound,
    Order,
    PlacesFound,
    PlanSegment,
    PortionSent,
    SegmentPlanned,
    SendHeartbeat,
    SendNotifications,
    SendPortion,
    TopicDue,
    TopicRefused,
    TransactionCommitted,
)
from pipeline.kafka.topics import Routing
from pipeline.kafka.transaction_endings import Ending, TopicPart
from pipeline.messages import topology
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.journal import SegmentSealed, StatementPart
from pipeline.signals.notifications import find_notifications

log = structlog.get_logger()

# Who waits for a broker or a schema registry for longer (s) isn't waited for by a clean stop.
BROKER_PATIENCE_S: Final = 20.0

# After so long (s) a topic that was set aside is tried again.
AGAIN_AFTER_S: Final = 30.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _OpenRecords(Exception):
    """A topic has open records of a Kafka transaction that has ended."""


class _Released(Exception):
    """The thread works for an actor that has ended."""


@dataclass(slots=True)
class _Connected:
    """What exists while the sink is connected to a broker."""

    producer: KafkaProducer
    position_topic: str
    looked_at: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Wait:
    """For whom the sink waits, and since when."""

    whom: str
    since: float


@dataclass(frozen=True, slots=True)
class _Transactions:
    """What messages to these topics say of a portion's transactions: each row's number, and BEGIN and END if wanted."""

    portion: Portion
    topics: Topics
    orders: MessageOrders | None = None
    marks: Records | None = None


@dataclass(slots=True)
class _Sent:
    """The content of the open Kafka transaction: messages by table, their bytes, and when the source committed (µs)."""

    began: float
    messages: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    committed: list[int] = field(default_factory=list)


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
        self._threads = ThreadPoolExecutor(1, "kafka")
        self._released = threading.Event()
        self._rows = SegmentRows(journal, self._advanced)
        self._made_now = self._making = MessageBatches(settings)
        self._gathered = GatheredRows()
        # What the messages of a portion that is split say of its transaction.
        self._transactions: _Transactions | None = None
        self._topics = KafkaTopics(settings, pipeline)
        avro = settings.converter is ConverterKind.AVRO
        self._registry = SchemaRegistry(settings) if avro else None
        beats = settings.heartbeat_interval_ms > 0
        heartbeat_topic = self._making.heartbeat_topic if beats else None
        routing = Routing(settings.topic_prefix, settings.topic_delimiter, settings.topic_routes)
        # `_making` is one of these, by the settings that the segment goes by that is being sent.
        self._made_by = {routing: self._made_now}
        self._state = State(settings.transaction_rows, heartbeat_topic=heartbeat_topic, routing=routing)
        self._connected: _Connected | None = None
        self._producer: KafkaProducer | None = None
        # The segment that is being sent, and the last one that the topics have wholly.
        self._entry: Entry | None = None
        self._reached: Entry | None = None
        self._sent = _Sent(0.0)
        self._freshness: float | None = None
        self._wait: _Wait | None = None
        self._heartbeat_at: float | None = None
        self._due_at: dict[str, float] = {}
        # Whether the position wasn't compared with the journal's end yet.
        self._unchecked = True
        # Where a look found open records that no position knows. Each later producer leaves its marker there first.
        # Otherwise each would find another writer's records there once more, and topics had to pass in one look.
        self._open = frozenset[TopicPart]()
        # The bytes of a batch, for topics that take no larger ones.
        self._batch_bytes: dict[str, int] = {}
        # A topic of events, or one that a row names, is set aside as its table's topic.
        self._set_aside_as: dict[str, str] = {}

    async def begin(self) -> None:
        """Fences a predecessor, finds the position, and sends what the topics lack."""
        await self._take_in(await self._places())
        self._await_heartbeat()
        self.rest()

    def next_at(self) -> float | None:
        """Returns when the next heartbeat is due, or a topic that was set aside."""
        moments = [self._due(topic) for topic in self._state.at.set_aside]
        moments += [self._heartbeat_at] if self._heartbeat_at is not None else []
        return min(moments, default=None) if not self._drained else None

    async def time_came(self) -> None:
        """Sends a heartbeat, or what a topic that was set aside lacks."""
        now = self.now()
        if self._heartbeat_at is not None and self._heartbeat_at <= now:
            self.beat()
            await self._take_in(HeartbeatDue())
            self._await_heartbeat()
        elif topic := min(self._state.at.set_aside, key=self._due, default=None):
            await self._try_again(topic)
        self.rest()

    async def handle(self, message: SegmentSealed) -> None:
        """Sends everything through the segment."""
        await self._take_in(message)

    async def release(self) -> None:
        """Disconnects from the broker, and waits for the thread."""
        self._released.set()
        await self._leave()
        await asyncio.to_thread(self._threads.shutdown)

    def waits(self) -> str | None:
        """Returns what it waits for, None if nothing: a broker or a schema registry without an answer for a while."""
        if self._wait is None or self.now() - self._wait.since < BROKER_PATIENCE_S:
            return None
        return f"{self._wait.whom} doesn't answer"

    def status(self) -> dict[str, Any]:
        """Returns how far the topics are, by the last Kafka transaction, and how fresh that was."""
        position = self._state.at.position
        return {
            "connected": self._connected is not None,
            "waits": self.waits(),
            "topics": self._settings.topic_prefix,
            "segment": position.segment,
            "within": {"scn": position.scn, "rows": position.rows} if position.scn or position.rows else None,
            "freshness_seconds": self._freshness,
            "set_aside": {topic: each.reason for topic, each in self._state.at.set_aside.items()},
        }

    def not_ready(self) -> str | None:
        """Returns why it isn't ready, None once it is connected to a broker."""
        return None if self._connected is not None else "Kafka doesn't answer yet"

    async def _places(self) -> PlacesFound:
        """Connects, and finds the position, with a new epoch."""
        self.beat()
        position_topic = await self._at_broker(self._topics.position_topic())
        producer = self._producer = KafkaProducer(self._settings, self._pipeline)
        await self._at_broker(producer.start())
        found = await self._at_broker(last_position(self._settings, self._pipeline, position_topic, producer))
        if self._open:
            await self._at_broker(producer.end(self._open, Ending.ABORT))
        bounds = await self._in_thread(self._bounds)
        of, at = (found.journal, found.at) if found is not None else (None, None)
        self._connected = _Connected(producer, position_topic)
        self.metrics.set(catalogue.KAFKA_UP, 1)
        segment = bounds.joined if at is None else at.position.segment
        log.info("the topics are written from here on", segment=segment)
        return PlacesFound(at, of, bounds)

    async def _leave(self) -> None:
        self._connected, producer, self._producer = None, self._producer, None
        self.metrics.set(catalogue.KAFKA_UP, 0)
        if producer is not None:
            await producer.close()

    async def _try_again(self, topic: str) -> None:
        """Sends a topic that was set aside what it lacks. The topic is due again at once if there is more."""
        lacked = self._state.at.set_aside[topic].position
        self._later(topic)
        first = await self._in_thread(self._journal.consumers.first)
        await self._take_in(TopicDue(topic, first))
        now = self._state.at.set_aside.get(topic)
        if now is None:
            log.info("the topic takes its messages again", topic=topic)
        if now is None or now.position > lacked:
            del self._due_at[topic]

    def _due(self, topic: str) -> float:
        return self._due_at.get(topic, 0.0)

    def _later(self, topic: str) -> None:
        self._due_at[topic] = self.now() + AGAIN_AFTER_S

    def _await_heartbeat(self) -> None:
        if every := self._settings.heartbeat_interval_ms:
            self._heartbeat_at = self.now() + every / 1000

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
        )

    async def _take_in(self, fact: Fact) -> None:
        """Performs the orders that follow from a fact, and from the facts that these bring, until none follows."""
        facts = [fact]
        while facts:
            self._state, orders = kafka_sink.step(self._state, facts.pop(0))
            for order in orders:
                brought = await self._brought(order)
                facts += [brought] if brought is not None else []
                if isinstance(brought, TopicRefused | OpenRecordsFound | BatchDivided):
                    break
            self._count_set_aside()

    async def _brought(self, order: Order) -> Fact | None:
        """Returns the fact that an order brings. A topic's refusal is one, unless it is the position's topic."""
        try:
            return await self._carry_out(order)
        except _OpenRecords:
            return OpenRecordsFound()
        except BatchTooLarge as refused:
            before = self._batch_bytes.get(refused.topic, refused.bytes)
            self._batch_bytes[refused.topic] = max(1, min(before, refused.bytes) // 2)
            log.warning("the topic gets smaller batches", topic=refused.topic, reason=str(refused))
            return BatchDivided()
        except TopicRefusal as refusal:
            of_table = isinstance(refusal, TableRefusal)
            if self._connected is None or (not of_table and refusal.topic == self._connected.position_topic):
                raise
            topic = refusal.topic if of_table else self._set_aside_as.get(refusal.topic, refusal.topic)
            sending_to = self._state.sending_to
            if sending_to is None or not includes(sending_to, topic):
                raise  # to set it aside once more changes nothing: another attempt would fail at once
            reason = refusal.reason if topic == refusal.topic else str(refusal)
            if topic not in self._state.at.set_aside:
                log.error("the topic was set aside", topic=topic, reason=reason)
            self._later(topic)
            self._open = frozenset(part for part in self._open if part[0] != refusal.topic)
            return TopicRefused(topic, reason)

    @contain_errors
    def _count_set_aside(self) -> None:
        self.metrics.set(catalogue.STOPPED_TABLES, len(self._state.at.set_aside), part="kafka")

    async def _carry_out(self, order: Order) -> Fact | None:
        """Performs an order. Returns the fact that it brings, None if it brings none."""
        connected = self._connected
        assert connected is not None
        match order:
            case BeginTransaction():
                if self._unchecked:  # before the topics have anything that a crash would find ahead of it
                    await self._in_thread(self._journal.consumers.checked, KAFKA_CONSUMER)
                    self._unchecked = False
                self._sent, self._gathered = _Sent(self.now()), GatheredRows()
                await self._at_broker(connected.producer.begin())
            case PlanSegment(segment, after_scn, split, capacity):
                entry = await self._entry_of(segment)
                portions = await self._in_thread(self._rows.plan, entry, after_scn, capacity, split=split)
                if entry.commit_times is not None:
                    self._sent.committed += entry.commit_times.samples
                return SegmentPlanned(portions)
            case SendPortion():
                self._making = self._making_of(order.segment)
                return await self._send(connected, order)
            case SendHeartbeat(topics):
                self._making = self._made_now
                await self._send_heartbeat(connected, topics)
            case SendNotifications(topics, segment):
                self._making = self._making_of(segment)
                await self._send_notifications(connected, topics, segment)
            case CommitTransaction(at):
                await self._commit(connected, at)
                return TransactionCommitted()
            case BeginAgain():
                await self._leave()
                return await self._places()
            case ConfirmSegment(segment):
                await self._report_position()
                needless = segment - 1 if self._settings.notification_sink_topic_name else segment
                record = self._journal.consumers.record_progress
                await self._in_thread(record, KAFKA_CONSUMER, max(0, needless), segment)
                self.metrics.set(catalogue.KAFKA_SEGMENT, self._state.at.position.segment)
            case _:
                assert_never(order)
        return None

    def _making_of(self, segment: int) -> MessageBatches:
        """Returns what makes a segment's messages, by earlier settings if topics lack some of it by those."""
        by = self._state.routing_of(segment)
        if by not in self._made_by:
            earlier = replace(
                self._settings,
                topic_prefix=by.prefix,
                topic_delimiter=by.delimiter,
                topic_routes=by.routes,
            )
            self._made_by[by] = MessageBatches(earlier)
        return self._made_by[by]

    async def _entry_of(self, segment: int) -> Entry:
        if self._entry is None or self._entry.segment != segment:
            self._entry = await self._in_thread(self._journal.entry, segment)
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
            if segment < max(1, await self._in_thread(self._journal.consumers.first)):
                return
            entry = await self._in_thread(self._journal.entry, segment)
        self._reached = entry
        self._applied(KafkaConsumerProgress(self._settings, at, entry.checkpoint))

    async def _send(self, connected: _Connected, order: SendPortion) -> PortionSent:
        """Sends the statements and the rows of a portion."""
        entry = await self._entry_of(order.segment)
        statements, skip = unsent(entry, order.portion, order.skip)
        rows, one_scn = len(statements), order.portion.first_scn == order.portion.last_scn
        sharing = all_in_step if one_scn and not order.by_table else self._making.sharing
        in_step = self._rows.rows(entry, order.portion, sharing, skip)
        # Both may read all rows of the portion. From the first message on the broker's time runs.
        parts = await self._in_thread(next, in_step, None)
        transactions = await self._transactions_of(entry, order)
        await self._send_statements(connected, statements, order.topics)
        if one_scn and not order.skip:
            await self._mark(connected, transactions.marks, slice(0, 1))
        while parts is not None:
            if one_scn and rows >= order.most:
                in_step.put_back(parts)
                return PortionSent(rows, ended=False)
            rows += sum(part.rows.num_rows for part in parts)
            due, parts = await self._in_thread(
                self._gather, parts, in_step, transactions.orders, order.topics
            )
            await self._send_rows(connected, due)
        await self._mark(connected, transactions.marks, slice(1, None) if one_scn else slice(None))
        self._transactions = None
        return PortionSent(rows, ended=True)

    async def _send_statements(
        self, connected: _Connected, statements: Sequence[StatementPart], topics: Topics
    ) -> None:
        """Sends statements on the schema, if their topic is one of these."""
        wanted = [each for each in statements if self._making.wants(each.statement)]
        if not self._settings.include_schema_changes or not wanted:
            return
        if includes(topics, self._making.schema_change_topic):
            now = time.time_ns() // 1000
            records = await self._in_thread(self._making.schema_changes, wanted, now)
            await self._send_records(connected, [records], now)

    async def _transactions_of(self, entry: Entry, order: SendPortion) -> _Transactions:
        """Returns what messages say of the portion's transactions, kept while the portion is sent in parts."""
        portion, making = order.portion, self._making
        if not self._settings.provide_transaction_metadata:
            return _Transactions(portion, order.topics)
        transactions, self._transactions = self._transactions, None
        if (
            transactions is None
            or not order.skip
            or (transactions.portion, transactions.topics) != (portion, order.topics)
        ):
            counted = making.counted_for(order.topics)
            changed = await self._in_thread(self._rows.changed, entry, portion, counted)
            wanted = includes(order.topics, making.transaction_topic)
            marks = await self._in_thread(making.marks, changed) if wanted else None
            orders = await self._in_thread(MessageOrders, changed)
            transactions = _Transactions(portion, order.topics, orders, marks)
        self._transactions = transactions
        return transactions

    async def _mark(self, connected: _Connected, marks: Records | None, which: slice) -> None:
        """Sends these messages for the begin and end of transactions."""
        if marks is not None:
            records = replace(marks, keys=marks.keys[which], values=marks.values[which])
            await self._send_records(connected, [records], time.time_ns() // 1000)

    def _gather(
        self, parts: InStep, rest: Iterator[InStep], orders: MessageOrders | None, topics: Topics
    ) -> tuple[list[Gathered], InStep | None]:
        """Takes rows if their topic is one of these. Returns the rows to send now, and the next ones of `rest`."""
        making, wanted = self._making, dict[str, list[MessageRows]]()
        for part in parts:
            table = part.schema.table
            if making.wanted(table) and includes(topics, making.topic(table)):
                wanted.setdefault(making.sharing(table), []).append(making.rows(part, orders))
        due = [each for of_topic in wanted.items() for each in self._gathered.add(*of_topic)]
        return due, next(rest, None)

    async def _send_rows(self, connected: _Connected, gathered: list[Gathered]) -> None:
        """Sends the messages of these rows."""
        for parts in gathered:
            now = time.time_ns() // 1000
            made, owners = dict[str, list[Records]](), dict[str, str]()
            for rows in parts:
                own = self._making.topic(rows.schema.table)
                for records in await self._in_thread(self._making.records, rows, now):
                    owners[records.topic] = own
                    made.setdefault(records.topic, []).append(records)
                    self._sent.messages[str(rows.schema.table)] += len(records.keys)
            for topic, of_topic in made.items():
                await self._send_records(connected, of_topic, now, owners[topic])

    async def _send_records(
        self, connected: _Connected, parts: Sequence[Records], now_us: int, set_aside_as: str | None = None
    ) -> None:
        """Sends the messages of a topic, each batch while the next one is made.

        `set_aside_as`: the topic that is set aside if this one refuses them, None if it is this one.
        """
        if not (parts := [part for part in parts if len(part.keys)]):
            return
        topic = parts[0].topic
        if topic == connected.position_topic:
            raise position_refused(topic, set_aside_as)
        self._set_aside_as[topic] = set_aside_as or topic
        named = [await self._identified(part) for part in parts]
        partitions = await self._at_broker(self._topics.partitions(topic))
        await self._look_at(connected, topic, partitions)
        making = self._making.batches_of(named, partitions, now_us // 1000, self._batch_bytes.get(topic))
        while (batch := await self._in_thread(next, making, None)) is not None:
            await self._at_broker(connected.producer.send(batch))
            self._sent.bytes += batch.records.size()

    async def _identified(self, records: Records) -> Records:
        """Returns the messages with the ids of their schemas, if they need any."""
        if self._registry is None or not (nameless := records.nameless):
            return records
        with refused_as_messages(records.topic):
            asked = (self._registry.id_of(records.topic, *each) for each in nameless)
            ids = [await self._answered(each, "the schema registry") for each in asked]
            return await self._in_thread(records.identified, ids)

    async def _look_at(self, connected: _Connected, topic: str, partitions: int) -> None:
        """Looks whether a topic has open records before its first batch of this start.

        `pipeline.kafka.transaction_endings` says why.
        """
        if topic in connected.looked_at:
            return
        if opened := await self._at_broker(connected.producer.opened(topic, partitions)):
            self._open |= opened
            raise _OpenRecords
        connected.looked_at.add(topic)

    async def _send_heartbeat(self, connected: _Connected, topics: Topics) -> None:
        now = time.time_ns() // 1000
        records = self._making.heartbeat(now)
        if includes(topics, records.topic):
            await self._send_records(connected, [records], now)

    async def _send_notifications(self, connected: _Connected, topics: Topics, segment: int) -> None:
        """Sends the changes of snapshots between the checkpoints of the previous segment and of this one."""
        topic = self._settings.notification_sink_topic_name
        if topic is None or not includes(topics, topic):
            return
        entry = await self._entry_of(segment)
        # Retention keeps the segment before for us, unless the topic wasn't wanted until now.
        if segment > 1 and segment <= await self._in_thread(self._journal.consumers.first):
            return
        before = await self._in_thread(self._journal.entry, segment - 1) if segment > 1 else None
        notifications = find_notifications(None if before is None else before.checkpoint, entry.checkpoint)
        if notifications:
            records = await self._in_thread(self._making.notifications, notifications, entry.sealed_at)
            await self._send_records(connected, [records], entry.sealed_at)

    async def _commit(self, connected: _Connected, at: SinkPosition) -> None:
        await self._send_rows(connected, await self._in_thread(self._gathered.all))
        ends = await self._at_broker(connected.producer.acknowledged())
        now_ms = time.time_ns() // 1_000_000
        batch = position_batch(connected.position_topic, self._journal.identity.id, at, now_ms, ends)
        await self._at_broker(connected.producer.send(batch))
        await self._at_broker(connected.producer.commit())
        self._measure()

    @contain_errors
    def _measure(self) -> None:
        sent, now = self._sent, time.time()
        for table, count in sent.messages.items():
            self.metrics.count(catalogue.KAFKA_SENT, count, table=table)
        self.metrics.count(catalogue.KAFKA_BYTES, sent.bytes)
        self.metrics.observe(catalogue.KAFKA_TRANSACTION, self.now() - sent.began)
        doing = self._state.doing
        catches_up = isinstance(doing, Committing) and isinstance(doing.topics, OneTopic)
        if sent.committed and not catches_up:
            self.metrics.set(catalogue.KAFKA_COMMIT, max(sent.committed) / 1e6)
            self._freshness = round(max(0.0, now - min(sent.committed) / 1e6), 3)
            self.metrics.observe(catalogue.KAFKA_FRESHNESS, self._freshness)

    async def _at_broker(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Waits for the broker."""
        return await self._answered(work, "Kafka")

    async def _answered(self, work: Coroutine[Any, Any, Result], whom: str) -> Result:
        """Waits for another process. That isn't hanging: each such wait has its own time limit."""
        self.rest()
        self._wait = _Wait(whom, self.now())
        try:
            return await work
        finally:
            self._wait = None
            self.beat()

    async def _in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Calls a blocking function in the thread."""
        self.beat()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def _advanced(self) -> None:
        """Says in the thread that its work is getting on. Raises once the actor does not wait for the thread."""
        if self._released.is_set():
            raise _Released
        self.beat()
