"""Which tables have a mirror."""

from dataclasses import replace

from pipeline.config.table_rules import PLAIN, LakeRule, Tiers
from pipeline.lake.batch import DeliveryStop, Generation, LakeTableState, Piece, Pieces, next_batch
from pipeline.lake.mirrors.mirror_rules import (
    apply_rules,
    forbidden_mirror,
    forbidden_rows,
    has_mirror,
    tables_without_mirror,
)
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Ready
from tests.pipeline.lake.test_delivery import ITEMS, V1, entry

ORDERS = V1.table
RULES = (LakeRule(TableFilter(("shop\\.orders",)), Tiers.CHANGELOG),)
BATCH = replace(
    next_batch([entry(1, V1, ITEMS)]),
    generations={table: (Generation(3, 1, V1), Generation(7, 1, V1)) for table in (ORDERS, ITEMS.table)},
)


def test_a_table_that_has_no_mirror_by_its_rule_has_no_generations() -> None:
    assert list(apply_rules(BATCH, RULES).generations) == [ITEMS.table]
    assert apply_rules(BATCH, ()) == BATCH


def test_a_mirror_that_is_there_against_its_rule_is_refused_by_name() -> None:
    assert forbidden_mirror(LakeTableState(), ORDERS, RULES[0]) is None
    assert forbidden_mirror(LakeTableState(generation=0), ORDERS, PLAIN) is None
    why = forbidden_mirror(LakeTableState(generation=0), ORDERS, RULES[0])
    assert why is not None and why.startswith("shop.orders has a mirror in the lake")


def test_rows_that_wait_for_a_mirror_are_not_lost() -> None:
    rows = Pieces(rows=(Piece(1, 0, "rows", V1, 1, 100, False),))
    assert forbidden_rows(rows, ORDERS, PLAIN) is None
    assert forbidden_rows(Pieces(changes=rows.rows), ORDERS, RULES[0]) is None
    why = forbidden_rows(rows, ORDERS, RULES[0])
    assert why is not None and why.startswith("rows of the first snapshot of shop.orders wait for its mirror")


def test_a_mirror_that_has_gone_begins_with_a_generation_that_is_all_to_come() -> None:
    begun = {ORDERS: Ready(0)}
    for found in (LakeTableState(V1, changes=3), LakeTableState()):
        assert tables_without_mirror({ORDERS: found, ITEMS.table: LakeTableState()}, begun, ()) == {ORDERS}
        assert not tables_without_mirror({ORDERS: found}, begun, RULES)
        assert not tables_without_mirror({ORDERS: replace(found, generation=0)}, begun, ())
        assert tables_without_mirror({ORDERS: replace(found, generation=0)}, {ORDERS: Ready(3)}, ())
        assert not tables_without_mirror({ORDERS: replace(found, stopped=DeliveryStop("so", 0))}, begun, ())
    kept = apply_rules(BATCH, (), frozenset({ORDERS}), 4).generations
    assert [each.since for each in kept[ORDERS]] == [7]
    assert len(kept[ITEMS.table]) == 2
    assert ORDERS not in apply_rules(BATCH, (), frozenset({ORDERS}), 8).generations


def test_a_table_has_a_mirror_if_it_has_a_key_and_no_rule_is_against_it() -> None:
    assert has_mirror(ITEMS.table, ITEMS, RULES)
    assert has_mirror(ITEMS.table, None, RULES), "none has been seen"
    assert not has_mirror(ITEMS.table, replace(ITEMS, key=()), RULES)
    assert not has_mirror(ORDERS, V1, RULES)
