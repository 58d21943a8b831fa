"""Topics' names."""

import pytest

from pipeline.config.message_routes import TopicRoute
from pipeline.kafka.topics import Destination, destination_of, routing_digest, topic_of
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


def test_a_digest_changes_with_what_decides_which_tables_a_topic_has() -> None:
    routes = (TopicRoute("a", "b"), TopicRoute("c", "d"))
    found = routing_digest("p", ".", routes)
    assert routing_digest("p", ".", list(routes)) == found
    assert routing_digest("p", ".", (TopicRoute("a", "b", key_enforce_uniqueness=False), routes[1])) == found
    others = [("q", ".", routes), ("p", "-", routes), ("p", ".", routes[::-1]), ("p", ".", routes[:1])]
    assert len({found, *(routing_digest(*each) for each in others)}) == 5


def test_the_first_route_that_matches_leads_to_another_topic() -> None:
    table = TableId("shop", "orders_7")
    routes = (TopicRoute("x", "y"), TopicRoute(r"(.*)\.orders_\d", "$1.orders"), TopicRoute(".*", "all"))
    to = destination_of(table, "p", ".", routes)
    assert to == Destination(
        "p.shop.orders", "p.shop.orders", ("__dbz__physicalTableIdentifier", "p.shop.orders_7"), routed=True
    )
    assert destination_of(table, "p", "-", ()) == Destination("p-shop-orders_7", "p.shop.orders_7")
