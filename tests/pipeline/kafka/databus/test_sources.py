"""A source has one number anywhere, and is found by it or by its name."""

from unittest.mock import patch

import pytest

from pipeline.kafka.databus import sources
from pipeline.kafka.databus.sources import UnknownSource, find_sources, source_id
from pipeline.schema.table_names import split_names
from pipeline.schema.table_schema import TableId

ORDERS, ITEMS, ODD = TableId("shop", "orders"), TableId("shop", "items"), TableId("a.b", "c,d")
KNOWN = (ORDERS, ITEMS, ODD)


def test_a_number_is_the_same_in_any_run() -> None:
    assert [source_id(table) for table in (ORDERS, ITEMS)] == [841279768, 1898056]
    assert all(0 < source_id(TableId("shop", str(n))) < 1 << 31 for n in range(1000))


def test_sources_are_named_either_way_and_come_once() -> None:
    text = f"{source_id(ITEMS)}, shop.orders,`a.b`.`c,d`,shop.items"
    assert find_sources(split_names(text), KNOWN) == (ITEMS, ORDERS, ODD)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7", "sources: 7 is no source; GET /sources lists them"),
        ("9" * 5000, r"sources: .* isn't database\.table"),
        ("shop.order", r"sources: shop\.order is no source"),
        ("orders", r"sources: 'orders' isn't database\.table"),
    ],
)
def test_what_is_no_source_is_named(text: str, said: str) -> None:
    with pytest.raises(UnknownSource, match=said):
        find_sources([text], KNOWN)


def test_of_two_sources_with_one_number_each_has_to_be_named() -> None:
    with (
        patch.object(sources, "_ID", 1),
        pytest.raises(UnknownSource, match=r"is the number of .*; name them"),
    ):
        find_sources(["1"], KNOWN)
