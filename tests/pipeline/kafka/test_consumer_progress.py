"""What a committed position says of the topics."""

from dataclasses import replace

from pipeline.config.outbox import Outbox
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.applied.progress import BEGINS_AGAIN, SegmentEnd, TableProgress
from pipeline.kafka.consumer_progress import KafkaConsumerProgress
from pipeline.kafka.position import FormerRouting, KafkaPosition, SetAside, SinkPosition
from pipeline.kafka.topics import Routing, topic_of_heartbeats
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from tests.pipeline.builders import ITEMS, ORDERS, gtids

CHECKPOINT = Checkpoint(gtids("a:1-9"), 40)


def test_a_topic_that_is_set_aside_lacks_something_and_a_table_without_one_takes_nothing() -> None:
    settings = KafkaSinkSettings(("broker:9092",), "p", tables=TableFilter((r"shop\..*",)))
    aside = {"p.shop.orders": SetAside(KafkaPosition(2), "too large")}
    told = KafkaConsumerProgress(settings, SinkPosition(KafkaPosition(4, 39, 2), aside), CHECKPOINT)
    assert told.whole == told.furthest == SegmentEnd(4, gtids("a:1-9"), 40)
    assert told.of(ORDERS.table).lacks == "its topic p.shop.orders was set aside: too large"
    assert told.of(ITEMS.table).lacks is None
    assert (told.takes(ORDERS.table), told.takes(TableId("other", "t"))) == (True, False)


def test_a_table_lacks_what_its_topic_by_earlier_settings_lacks() -> None:
    settings = KafkaSinkSettings(("broker:9092",), "p")
    former = (FormerRouting(3, Routing("q")),)
    at = SinkPosition(
        KafkaPosition(4), {"q.shop.orders": SetAside(KafkaPosition(2), "too large")}, "", former
    )
    told = KafkaConsumerProgress(settings, at, CHECKPOINT)
    assert told.of(ORDERS.table).lacks == "its topic q.shop.orders was set aside: too large"
    assert told.of(ITEMS.table).lacks is None


def test_a_table_that_begins_again_after_a_stop_lacks_what_it_had_not_at_the_stop() -> None:
    settings = KafkaSinkSettings(("broker:9092",), "p")
    stopped = replace(CHECKPOINT, stopped={ORDERS.table: "no such column"})
    told = KafkaConsumerProgress(settings, SinkPosition(KafkaPosition(4, 39, 2), {}), stopped)
    assert told.of(ORDERS.table).lacks == BEGINS_AGAIN
    assert told.of(ITEMS.table).lacks is None


def test_a_table_that_a_snapshot_fills_and_one_with_rows_to_read_again_say_from_where() -> None:
    settings = KafkaSinkSettings(("broker:9092",), "p")
    mirrors: dict[TableId, Mirror] = {ORDERS.table: Filling(31), ITEMS.table: Ready(20)}
    partly = replace(CHECKPOINT, mirrors=mirrors, unread={ITEMS.table: 35})
    told = KafkaConsumerProgress(settings, SinkPosition(KafkaPosition(4, 39, 2), {}), partly)
    assert told.of(ORDERS.table) == TableProgress(told.whole, filling=31)
    assert told.of(ITEMS.table) == TableProgress(told.whole, unread=35)


def test_an_outbox_lacks_what_a_topic_of_its_events_refuses() -> None:
    outbox = TableId("shop", "outbox")
    settings = KafkaSinkSettings(("broker:9092",), "p", outboxes=(Outbox(TableFilter((r"shop\.outbox",))),))
    known = {table.table: table for table in (ORDERS, ITEMS, replace(ORDERS, table=outbox))}

    def lacks(table: TableId, *refusing: str, former: tuple[FormerRouting, ...] = ()) -> str | None:
        aside = {topic: SetAside(KafkaPosition(2), "too large") for topic in refusing}
        at = SinkPosition(KafkaPosition(4, 39, 2), aside, former=former)
        return KafkaConsumerProgress(settings, at, replace(CHECKPOINT, schemas=known)).of(table).lacks

    assert lacks(outbox, "outbox.event.order") == "its topic outbox.event.order was set aside: too large"
    assert lacks(outbox, "p.shop.outbox") == "its topic p.shop.outbox was set aside: too large"
    beats = topic_of_heartbeats(settings.topic_heartbeat_prefix, "p")
    assert lacks(outbox, "p.shop.orders", beats) is lacks(ORDERS.table, "outbox.event.order") is None
    former = (FormerRouting(3, Routing("q")),)
    before = topic_of_heartbeats(settings.topic_heartbeat_prefix, "q")
    assert lacks(outbox, "q.shop.orders", before, former=former) is None
    assert lacks(outbox, "q.shop.orders", "outbox.event.order", former=former)
