"""What a committed position says of the topics."""

from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.applied.progress import Reached
from pipeline.kafka.reached import KafkaReached
from pipeline.kafka.state import KafkaPosition, SetAside, SinkPosition
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from tests.pipeline.builders import ITEMS, ORDERS, gtids

CHECKPOINT = Checkpoint(gtids("a:1-9"), 40)


def test_a_topic_that_is_set_aside_lacks_something_and_a_table_without_one_takes_nothing() -> None:
    settings = KafkaSinkSettings(("broker:9092",), "p", tables=TableFilter((r"shop\..*",)))
    aside = {"p.shop.orders": SetAside(KafkaPosition(2), "too large")}
    told = KafkaReached(settings, SinkPosition(KafkaPosition(4, 39, 2), aside), CHECKPOINT)
    assert told.whole == told.furthest == Reached(4, gtids("a:1-9"), 40)
    assert told.of(ORDERS.table).lacks == "its topic p.shop.orders was set aside: too large"
    assert told.of(ITEMS.table).lacks is None
    assert (told.takes(ORDERS.table), told.takes(TableId("other", "t"))) == (True, False)
