"""The statement that merges; what it does is shown on a real Spark, in tests/integration/lake/test_lake.py."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql import Row

from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.merge import FEW_CHANGES, FEW_WITH_TEXT, Merge, pending_sql
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Date, Integer, Text

DAYS = TableSchema(
    TableId("shop", "days"),
    (Column("day", Date(), False), Column("id", Integer(8, unsigned=False), False)),
    (0, 1),
)


def test_a_key_that_may_be_null_here_is_compared_so_that_null_equals_null() -> None:
    merge = Merge("lake", DAYS, MirrorPosition(0, 1), 2)
    for text in (
        merge.statement(),
        merge.places(3),
        replace(merge, reached=MirrorPosition(0, 1, partial=True)).rows(3),
    ):
        assert (
            "ON (`mirror `.`day` IS NOT DISTINCT FROM `changed `.`day`) AND `mirror `.`id` = `changed `.`id`"
            in text
        )


def test_only_the_changes_between_two_segments_are_merged() -> None:
    merge = Merge("lake", DAYS, MirrorPosition(7, 3), 5)
    for text in (merge.statement(), merge.places(3), merge.rows(3)):
        assert (
            "WHERE `__segment` > 3 AND `__scn` > 7 AND `__op` NOT IN ('b', 't') AND `__segment` <= 5" in text
        )


@pytest.mark.parametrize(("changes", "few"), [(None, False), (FEW_CHANGES, True), (FEW_CHANGES + 1, False)])
def test_changes_are_few_if_they_are_known_to_be(changes: int | None, few: bool) -> None:
    assert Merge("lake", DAYS, MirrorPosition(7, 3), 5, changes).few is few


def test_changes_of_incomplete_rows_are_never_few() -> None:
    assert not Merge("lake", DAYS, MirrorPosition(7, 3, partial=True), 5, 1).few


def test_changes_may_be_gathered_from_the_changelog() -> None:
    text = Merge("lake", DAYS, MirrorPosition(7, 3), 5, gathered="changes").rows(3)
    assert "FROM changes WHERE `__segment` > 3" in text and "changelog" not in text


def test_of_keys_with_text_fewer_fit_into_memory() -> None:
    named = replace(DAYS, columns=(DAYS.columns[0], Column("name", Text("utf8mb4"), False)))
    for changes, few in ((FEW_WITH_TEXT, True), (FEW_WITH_TEXT + 1, False)):
        assert Merge("lake", named, MirrorPosition(7, 3), 5, changes).few is few


def test_the_mirror_is_read_at_the_version_that_the_transaction_has() -> None:
    merge = Merge("lake", DAYS, MirrorPosition(7, 3, partial=True), 5)
    for text in (merge.places(11), merge.rows(11)):
        assert text.count("mirror` VERSION AS OF 11") == 1


def test_the_mirror_is_asked_for_no_other_keys_than_have_changed() -> None:
    merge = Merge("lake", DAYS, MirrorPosition(0, 1, partial=True), 2)
    extent = merge.extent()
    assert extent is not None
    assert extent.startswith("SELECT min(`id`), max(`id`) FROM delta.`lake/shop/days/changelog` WHERE `__seg")
    within = merge.within((3, Decimal(18446744073709551615)))
    for text in (within.statement(), within.places(3), within.rows(3)):
        assert (
            "`mirror `.`id` = `changed `.`id` AND `mirror `.`id` BETWEEN 3 AND 18446744073709551615" in text
        )
    assert merge.within((None, None)) == merge
    # Spark's row, in which `in` looks for a name.
    assert merge.within(Row(least=None, most=None)) == merge


def test_a_key_of_which_no_part_has_an_order_has_no_extent() -> None:
    assert Merge("lake", replace(DAYS, key=(0,)), MirrorPosition(0, 1), 2).extent() is None


def test_what_is_pending_is_counted_from_where_the_mirror_is() -> None:
    text = pending_sql("lake", DAYS.table, MirrorPosition(7, 3))
    assert text.endswith(
        "FROM delta.`lake/shop/days/changelog` WHERE `__segment` > 3 AND `__scn` > 7 AND `__op` NOT IN ('b', 't')"
    )
