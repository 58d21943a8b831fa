"""Sends a portion's messages, heartbeats and notifications in the Kafka transaction that is open.

`pipeline.kafka.step` decides what comes next. Here rows become messages, and messages become batches. The thread makes
the next messages while the batches before are on their way.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actors.journal.store import JournalReader
from actors.kafka.batches import MessageBatches
from actors.kafka.producer import KafkaProducer
from actors.kafka.refusals import position_refused, refused_as_messages
from actors.kafka.schema_registry import SchemaRegistry
from actors.kafka.segment_rows import SegmentRows
from actors.kafka.sink_calls import SinkCalls
from actors.kafka.topics import KafkaTopics
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.journal.entry import Entry
from pipeline.kafka.debezium.transactions import MessageOrders
from pipeline.kafka.errors import TableRefusal
from pipeline.kafka.facts import PortionSent
from pipeline.kafka.messages.message_rows import Gathered, GatheredRows, MessageRows
from pipeline.kafka.messages.topic_records import Records
from pipeline.kafka.orders import SendPortion
from pipeline.kafka.portions import Portion, unsent
from pipeline.kafka.rows_in_step import InStep, all_in_step, unplaced_tables
from pipeline.kafka.state import Topics, includes
from pipeline.kafka.topics import Routing
from pipeline.kafka.transaction_endings import TopicPart
from pipeline.messages.journal import StatementPart
from pipeline.signals.notifications import find_notifications


class OpenRecords(Exception):
    """A topic has open records of a Kafka transaction that has ended, in these partitions."""

    def __init__(self, parts: frozenset[TopicPart]) -> None:
        super().__init__(f"records are open in {len(parts)} partitions")
        self.parts = parts


@dataclass(slots=True)
class BrokerConnection:
    """What exists while the sink is connected to a broker; `looked_at`: the topics without open records."""

    producer: KafkaProducer
    position_topic: str
    looked_at: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TransactionContent:
    """The content of the open Kafka transaction: how many messages by table, and their bytes."""

    messages: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Transactions:
    """What messages to these topics say of a portion's transactions: each row's number, and BEGIN and END if wanted."""

    portion: Portion
    topics: Topics
    orders: MessageOrders | None = None
    marks: Records | None = None


class PortionSender:
    """Makes messages as the settings define, and sends them to their topics."""

    def __init__(
        self,
        settings: KafkaSinkSettings,
        journal: JournalReader,
        rows: SegmentRows,
        topics: KafkaTopics,
        calls: SinkCalls,
    ) -> None:
        self._settings = settings
        self._journal = journal
        self._topics = topics
        self._calls = calls
        self._rows = rows
        self.content = TransactionContent()
        self._made_now = self._making = MessageBatches(settings)
        self._gathered = GatheredRows()
        # What the messages of a portion that is split say of its transaction.
        self._transactions: _Transactions | None = None
        avro = settings.converter is ConverterKind.AVRO
        self._registry = SchemaRegistry(settings) if avro else None
        # `_making` is one of these, by the settings that the segment goes by that is being sent.
        self._made_by = {routing_of(settings): self._made_now}
        # The bytes of a batch, for topics that take no larger ones.
        self._batch_bytes: Mapping[str, int] = {}
        # A topic of events, or one that a row names, is set aside as its table's topic.
        self._set_aside_as: dict[str, str] = {}

    @property
    def heartbeat_topic(self) -> str | None:
        """Returns where heartbeats go, None without any."""
        return self._made_now.heartbeat_topic if self._settings.heartbeat_interval_ms > 0 else None

    def begin(self, batch_bytes: Mapping[str, int]) -> None:
        """Begins with nothing sent, and drops what an earlier Kafka transaction has left.

        `batch_bytes`: the bytes of a batch, for topics that take no larger ones.
        """
        self.content, self._gathered = TransactionContent(), GatheredRows()
        self._batch_bytes = batch_bytes

    def set_aside_as(self, topic: str) -> str:
        """Returns the topic that is set aside if this one refuses its messages."""
        return self._set_aside_as.get(topic, topic)

    async def send_portion(
        self, connected: BrokerConnection, entry: Entry, order: SendPortion, by: Routing
    ) -> PortionSent:
        """Sends the statements and the rows of a portion of this segment; `by`: the settings for their topics."""
        self._making = self._making_of(by)
        self._refuse_unplaced(entry, order.topics)
        statements, skip = unsent(entry, order.portion, order.skip)
        rows, one_scn = len(statements), order.portion.first_scn == order.portion.last_scn
        sharing = all_in_step if one_scn and not order.by_table else self._making.sharing
        in_step = self._rows.rows(entry, order.portion, sharing, skip)
        # Both may read all rows of the portion. From the first message on the broker's time runs.
        parts = await self._calls.in_thread(next, in_step, None)
        transactions = await self._transactions_of(entry, order)
        await self._send_statements(connected, statements, order.topics)
        if one_scn and not order.skip:
            await self._mark(connected, transactions.marks, slice(0, 1))
        while parts is not None:
            if one_scn and rows >= order.most:
                in_step.put_back(parts)
                return PortionSent(rows, ended=False)
            rows += sum(part.rows.num_rows for part in parts)
            due, parts = await self._calls.in_thread(
                self._gather, parts, in_step, transactions.orders, order.topics
            )
            await self._send_rows(connected, due)
        await self._mark(connected, transactions.marks, slice(1, None) if one_scn else slice(None))
        self._transactions = None
        return PortionSent(rows, ended=True)

    async def send_heartbeat(self, connected: BrokerConnection, topics: Topics) -> None:
        """Sends a heartbeat of this moment, if its topic is one of these."""
        self._making = self._made_now
        now = time.time_ns() // 1000
        records = self._making.heartbeat(now)
        if includes(topics, records.topic):
            await self._send_records(connected, [records], now)

    async def send_notifications(
        self, connected: BrokerConnection, topics: Topics, entry: Entry, by: Routing
    ) -> None:
        """Sends the changes of snapshots between the checkpoints of the previous segment and of this one."""
        self._making = self._making_of(by)
        topic = self._settings.notification_sink_topic_name
        if topic is None or not includes(topics, topic):
            return
        segment = entry.segment
        # Retention keeps the segment before for us, unless the topic wasn't wanted until now.
        if segment > 1 and segment <= await self._calls.in_thread(self._journal.consumers.first):
            return
        before = await self._calls.in_thread(self._journal.entry, segment - 1) if segment > 1 else None
        notifications = find_notifications(None if before is None else before.checkpoint, entry.checkpoint)
        if notifications:
            records = await self._calls.in_thread(self._making.notifications, notifications, entry.sealed_at)
            await self._send_records(connected, [records], entry.sealed_at)

    async def send_gathered(self, connected: BrokerConnection) -> None:
        """Sends the rows that wait for more of their topic."""
        await self._send_rows(connected, await self._calls.in_thread(self._gathered.all))

    def _making_of(self, by: Routing) -> MessageBatches:
        """Returns what makes messages by these settings: the present ones, or earlier ones for what topics lack."""
        if by not in self._made_by:
            earlier = replace(
                self._settings,
                topic_prefix=by.prefix,
                topic_delimiter=by.delimiter,
                topic_routes=by.routes,
            )
            self._made_by[by] = MessageBatches(earlier)
        return self._made_by[by]

    def _refuse_unplaced(self, entry: Entry, topics: Topics) -> None:
        """Raises TableRefusal if the order of a table's rows isn't known."""
        making = self._making
        for table in sorted(unplaced_tables(entry)):
            if making.wanted(table) and includes(topics, making.topic(table)):
                raise TableRefusal(
                    making.topic(table),
                    f"segment {entry.segment} has rows of a first snapshot in several versions of the table's columns, "
                    "and an earlier version of Tidemark didn't note their places among the changes; leave the table "
                    "out with kafka.tables; once that has started, take it in and request a snapshot",
                )

    async def _send_statements(
        self, connected: BrokerConnection, statements: Sequence[StatementPart], topics: Topics
    ) -> None:
        """Sends statements on the schema, if their topic is one of these."""
        wanted = [each for each in statements if self._making.wants(each.statement)]
        if not self._settings.include_schema_changes or not wanted:
            return
        if includes(topics, self._making.schema_change_topic):
            now = time.time_ns() // 1000
            records = await self._calls.in_thread(self._making.schema_changes, wanted, now)
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
            changed = await self._calls.in_thread(self._rows.changed, entry, portion, counted)
            wanted = includes(order.topics, making.transaction_topic)
            marks = await self._calls.in_thread(making.marks, changed) if wanted else None
            orders = await self._calls.in_thread(MessageOrders, changed)
            transactions = _Transactions(portion, order.topics, orders, marks)
        self._transactions = transactions
        return transactions

    async def _mark(self, connected: BrokerConnection, marks: Records | None, which: slice) -> None:
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

    async def _send_rows(self, connected: BrokerConnection, gathered: list[Gathered]) -> None:
        """Sends the messages of these rows."""
        for parts in gathered:
            now = time.time_ns() // 1000
            made, owners = dict[str, list[Records]](), dict[str, str]()
            for rows in parts:
                own = self._making.topic(rows.schema.table)
                for records in await self._calls.in_thread(self._making.records, rows, now):
                    owners[records.topic] = own
                    made.setdefault(records.topic, []).append(records)
                    self.content.messages[str(rows.schema.table)] += len(records.keys)
            for topic, of_topic in made.items():
                await self._send_records(connected, of_topic, now, owners[topic])

    async def _send_records(
        self,
        connected: BrokerConnection,
        parts: Sequence[Records],
        now_us: int,
        set_aside_as: str | None = None,
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
        partitions = await self._calls.at_broker(self._topics.partitions(topic))
        await self._look_at(connected, topic, partitions)
        making = self._making.batches_of(named, partitions, now_us // 1000, self._batch_bytes.get(topic))
        while (batch := await self._calls.in_thread(next, making, None)) is not None:
            await self._calls.at_broker(connected.producer.send(batch))
            self.content.bytes += batch.records.size()

    async def _identified(self, records: Records) -> Records:
        """Returns the messages with the ids of their schemas, if they need any."""
        if self._registry is None or not (nameless := records.nameless):
            return records
        with refused_as_messages(records.topic):
            asked = (self._registry.id_of(records.topic, *each) for each in nameless)
            ids = [await self._calls.answered(each, "the schema registry") for each in asked]
            return await self._calls.in_thread(records.identified, ids)

    async def _look_at(self, connected: BrokerConnection, topic: str, partitions: int) -> None:
        """Looks whether a topic has open records before its first batch of this start.

        `pipeline.kafka.transaction_endings` says why.
        """
        if topic in connected.looked_at:
            return
        if opened := await self._calls.at_broker(connected.producer.opened(topic, partitions)):
            raise OpenRecords(opened)
        connected.looked_at.add(topic)


def routing_of(settings: KafkaSinkSettings) -> Routing:
    """Returns the settings that decide which tables a topic has."""
    return Routing(settings.topic_prefix, settings.topic_delimiter, settings.topic_routes)
