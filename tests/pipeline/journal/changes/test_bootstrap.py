"""A consumer is sent to the lake only where all tables have exactly the same changes."""

import pytest

from pipeline.journal.applied.progress import TableProgress
from pipeline.journal.changes.bootstrap import (
    LakeBehind,
    LakePlace,
    LakeWithout,
    lake_place,
    parse_bootstrap,
)
from pipeline.journal.changes.query import MalformedRequest
from pipeline.schema.table_schema import TableId
from tests.pipeline.builders import ITEMS, ORDERS
from tests.pipeline.journal.applied.test_waiters import at, delivered

BOTH = (ORDERS.table, ITEMS.table)


def test_the_place_has_the_versions_of_the_tables_that_are_asked_for() -> None:
    lake = delivered(4, "a:1-7", items=TableProgress(at(4, "a:1-7")))
    assert lake_place(lake, BOTH, {}) == LakePlace(
        at(4, "a:1-7"), {ITEMS.table: None, ORDERS.table: {"changelog": 4}}
    )
    assert list(lake_place(lake, BOTH[:1], {}).read_at) == [ORDERS.table]


def test_a_table_that_lacks_something_is_named_if_it_is_asked_for() -> None:
    filling = TableProgress(at(4, "a:1-7"), lacks="its mirror is being filled")
    stopped = TableProgress(at(4, "a:1-7"), stopped="no key")
    with pytest.raises(
        LakeBehind, match=r"tables: shop.items can't be read .* yet: its mirror is being filled"
    ):
        lake_place(delivered(4, "a:1-7", items=filling), BOTH, {})
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: no key; recapture it"):
        lake_place(delivered(4, "a:1-7", items=stopped), BOTH, {})
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: a MERGE table"):
        lake_place(delivered(4, "a:1-7"), BOTH, {ITEMS.table: "a MERGE table"})
    assert lake_place(delivered(4, "a:1-7", items=filling), BOTH[:1], {}).reached.segment == 4
    with pytest.raises(LakeBehind, match="nothing is known of the lake yet"):
        lake_place(None, BOTH, {})


def test_a_request_names_tables_and_nothing_else() -> None:
    assert parse_bootstrap({}) == ()
    assert parse_bootstrap({"tables": "shop.a,shop.b"}) == (TableId("shop", "a"), TableId("shop", "b"))
    with pytest.raises(MalformedRequest, match="since: there is no such parameter; there is tables"):
        parse_bootstrap({"since": "1"})
    with pytest.raises(MalformedRequest, match=r"tables: 'a' isn't database.table"):
        parse_bootstrap({"tables": "a"})
