"""How far the topics are, for those who wait for transactions in them (`pipeline.journal.applied`).

While a table's mirror is being filled, its topic has what was committed since that began. A snapshot brings the rest.
"""

from dataclasses import dataclass

from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.applied.progress import BEGINS_AGAIN, SegmentEnd, TableProgress
from pipeline.kafka.state import SinkPosition
from pipeline.kafka.topics import destination_of, topic_of_heartbeats
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling


@dataclass(frozen=True, slots=True)
class KafkaConsumerProgress:
    """A Kafka transaction that brought the topics `at` a position is committed; its segment has this checkpoint."""

    settings: KafkaSinkSettings
    at: SinkPosition
    checkpoint: Checkpoint

    @property
    def whole(self) -> SegmentEnd:
        """Every topic has everything through here, but for those that are set aside."""
        return SegmentEnd.at(self.at.position.segment, self.checkpoint)

    @property
    def furthest(self) -> SegmentEnd:
        """The same: a Kafka transaction has all topics."""
        return self.whole

    def takes(self, table: TableId) -> bool:
        """Whether the table has a topic."""
        tables = self.settings.tables
        return tables is None or tables.match(table)

    def of(self, table: TableId) -> TableProgress:
        """How far a table's topic is, or those of an outbox's events."""
        if table in self.checkpoint.stopped:
            return TableProgress(self.whole, lacks=BEGINS_AGAIN)
        mirror = self.checkpoint.mirrors.get(table)
        return TableProgress(
            self.whole,
            lacks=self._refusal(table),
            unread=self.checkpoint.unread.get(table),
            filling=mirror.since if isinstance(mirror, Filling) else None,
        )

    def _refusal(self, table: TableId) -> str | None:
        """Which topic of the table is set aside, and why."""
        aside = self.at.set_aside
        if not aside:
            return None
        topics = {self._topic(table)}
        if self._is_outbox(table):
            # A row says where its event goes: to any topic but those of tables and of heartbeats.
            to, tables = self.settings, self.checkpoint.schemas
            others = {self._topic(other) for other in tables if not self._is_outbox(other)}
            topics |= (
                aside.keys() - others - {topic_of_heartbeats(to.topic_heartbeat_prefix, to.topic_prefix)}
            )
        refusing = min(topics & aside.keys(), default=None)
        return refusing and f"its topic {refusing} was set aside: {aside[refusing].reason}"

    def _topic(self, table: TableId) -> str:
        to = self.settings
        return destination_of(table, to.topic_prefix, to.topic_delimiter, to.topic_routes).topic

    def _is_outbox(self, table: TableId) -> bool:
        return any(outbox.tables.match(table) for outbox in self.settings.outboxes)
