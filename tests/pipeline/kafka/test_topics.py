"""Topics' names."""

import pytest

from pipeline.config.message_routes import TopicRoute
from pipeline.kafka.topics import Destination, Routing, destination_of, topic_of
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
    found = Routing("p", ".", routes)
    same = Routing("p", ".", (TopicRoute("a", "b", key_enforce_uniqueness=False), routes[1]))
    assert same.digest == found.digest
    others = [Routing("q", ".", routes), Routing("p", "-", routes), Routing("p", ".", routes[::-1])]
    others.append(Routing("p", ".", routes[:1]))
    assert len({found.digest, *(each.digest for each in others)}) == 5


def test_settings_say_which_topic_a_table_has() -> None:
    routing = Routing("p", "-", (TopicRoute(r"(.*)\d", "$1"),))
    assert [routing.topic(TableId("shop", name)) for name in ("a1", "b")] == ["p-shop-a", "p-shop-b"]


def test_the_first_route_that_matches_leads_to_another_topic() -> None:
    table = TableId("shop", "orders_7")
    routes = (TopicRoute("x", "y"), TopicRoute(r"(.*)\.orders_\d", "$1.orders"), TopicRoute(".*", "all"))
    to = destination_of(table, "p", ".", routes)
    assert to == Destination(
        "p.shop.orders", "p.shop.orders", ("__dbz__physicalTableIdentifier", "p.shop.orders_7"), routed=True
    )
    assert destination_of(table, "p", "-", ()) == Destination("p-shop-orders_7", "p.shop.orders_7")
