"""How far the topics are, for those who wait for transactions in them (`pipeline.journal.applied`).

While a table's mirror is being filled, its topic has what was committed since that began. A snapshot brings the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.applied.progress import BEGINS_AGAIN, SegmentEnd, TableProgress
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.topics import Routing, topic_of_heartbeats
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
        topics = self._topics(table)
        if self._is_outbox(table):
            topics |= aside.keys() - self._topics_without_events()
        refusing = min(topics & aside.keys(), default=None)
        return refusing and f"its topic {refusing} was set aside: {aside[refusing].reason}"

    def _topics_without_events(self) -> set[str]:
        """The topics of tables and of heartbeats. A row of an outbox says where its event goes: to any other one."""
        tables = (table for table in self.checkpoint.schemas if not self._is_outbox(table))
        beats = {
            topic_of_heartbeats(self.settings.topic_heartbeat_prefix, each.prefix)
            for each in self._routings()
        }
        return beats.union(*map(self._topics, tables))

    def _topics(self, table: TableId) -> set[str]:
        """The topics that have rows of the table, or lack some."""
        return {each.topic(table) for each in self._routings()}

    def _routings(self) -> Iterator[Routing]:
        """The present settings, and earlier ones that still apply to something."""
        to = self.settings
        yield Routing(to.topic_prefix, to.topic_delimiter, to.topic_routes)
        yield from (each.routing for each in self.at.former)

    def _is_outbox(self, table: TableId) -> bool:
        return any(outbox.tables.match(table) for outbox in self.settings.outboxes)
