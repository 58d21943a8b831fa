"""Topics' names."""

import pytest

from pipeline.kafka.topics import topic_of
from pipeline.schema.table_schema import TableId


@pytest.mark.parametrize(
    ("table", "delimiter", "topic"),
    [
        (TableId("shop", "orders"), ".", "p.shop.orders"),
        (TableId("shop", "orders"), "-", "p-shop-orders"),
        (TableId("sh op", "ordérs$"), ".", "p.sh_op.ord_rs_"),
    ],
)
def test_a_topic_is_named_by_its_table(table: TableId, delimiter: str, topic: str) -> None:
    assert topic_of(table, "p", delimiter) == topic
