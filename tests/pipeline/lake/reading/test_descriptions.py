"""What lake tables say of themselves: each kind something else, and what to read instead."""

import pytest

from pipeline.config.table_rules import Tiers
from pipeline.lake.reading.descriptions import describe_lake_table, describe_mirror
from pipeline.lake.tables.columns import META_COLUMNS, META_COMMENTS
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.statements import create_sql, set_properties_sql
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

ORDERS = TableId("shop", "orders")


def test_each_kind_of_lake_table_says_something_else_and_names_its_table() -> None:
    texts = {describe_mirror(ORDERS), describe_mirror(ORDERS, shadow=True)}
    for tiers in Tiers:
        for keyed in (False, True):
            texts |= {describe_lake_table(ORDERS, tier, tiers, keyed=keyed) for tier in Tier}
    assert len(texts) == 2 + len(Tiers) + 1
    assert all("shop.orders" in text for text in texts)


@pytest.mark.parametrize("tiers", [Tiers.BOTH, Tiers.MIRROR])
def test_who_finds_a_table_with_a_live_view_is_sent_there(tiers: Tiers) -> None:
    for tier in Tier:
        assert "`tidemark sql --lake PATH shop.orders`" in describe_lake_table(
            ORDERS, tier, tiers, keyed=True
        )


def test_the_property_is_the_description_of_the_delta_table_too() -> None:
    statement = set_properties_sql("/l", {Property.ABOUT: "it's", Property.SINCE: "1"})
    assert statement.count(r"'it\'s'") == 2
    assert r"'comment' = 'it\'s'" in statement
    assert "comment" not in set_properties_sql("/l", {Property.SINCE: "1"})


def test_each_column_that_tidemark_adds_to_a_changelog_says_what_it_is() -> None:
    assert META_COMMENTS.keys() == {column.name for column in META_COLUMNS}
    statement = create_sql("/l", Tier.CHANGELOG, META_COLUMNS, {})
    assert statement.count(" COMMENT '") == len(META_COLUMNS)
