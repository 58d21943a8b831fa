"""What's due for which lake table."""

from dataclasses import replace

import pytest

from pipeline.lake_rules import PLAIN, LakeRule, Tiers
from pipeline.lake_tables import Tier
from pipeline.maintenance import (
    CHECKPOINT_AFTER,
    REST_S,
    TRIM_EVERY_S,
    VACUUM_EVERY_S,
    VACUUM_FIRST_S,
    Chore,
    Kept,
    Policy,
    Size,
    Trim,
    due,
    due_in,
    first,
    found,
    trim_of,
    versions_h,
)
from pipeline.schema import TableId

POLICY = Policy(compact_files=10, merge_rows=100)
ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def kept(files: int = 0, hidden: int = 0, tier: Tier = Tier.CHANGELOG) -> Kept:
    return found(ORDERS, tier, Size(files, hidden), 1000.0, 7)


def test_a_table_is_compacted_for_what_has_come_since_the_last_time() -> None:
    assert due(kept(9), POLICY, 1000.0) is None
    assert due(kept(10), POLICY, 1000.0) is Chore.COMPACT
    done = replace(kept(14), left=Size(5))
    assert due(done, POLICY, 1000.0) is None
    assert due(replace(done, size=Size(15)), POLICY, 1000.0) is Chore.COMPACT
    assert due(kept(10), Policy(0, 100), 1000.0) is None, "0 is never"


def test_a_mirror_is_compacted_when_much_of_it_has_been_hidden_since() -> None:
    assert due(kept(2, 99), POLICY, 1000.0) is None
    assert due(kept(2, 100), POLICY, 1000.0) is Chore.COMPACT
    assert due(replace(kept(2, 100), left=Size(2, 40)), POLICY, 1000.0) is None


def test_a_log_gets_a_checkpoint_after_so_many_commits_before_all_else() -> None:
    few, many = (
        replace(kept(20), size=Size(20, commits=commits))
        for commits in (CHECKPOINT_AFTER - 1, CHECKPOINT_AFTER)
    )
    assert due(few, POLICY, 1000.0) is Chore.COMPACT
    assert due(many, POLICY, 1000.0) is Chore.CHECKPOINT
    assert first([(Chore.COMPACT, few), (Chore.CHECKPOINT, many)]) == (Chore.CHECKPOINT, many)


def test_time_brings_trimming_and_vacuum_and_a_rest_puts_all_off() -> None:
    hour = 1000.0 + TRIM_EVERY_S
    assert due(kept(), POLICY, hour) is Chore.TRIM
    assert due(kept(tier=Tier.MIRROR), POLICY, 1000.0 + VACUUM_FIRST_S) is Chore.VACUUM
    assert due(replace(kept(tier=Tier.MIRROR), vacuumed=hour), POLICY, hour) is None
    assert due(replace(kept(10), resting=hour + REST_S), POLICY, hour) is None
    assert due_in(replace(kept(10), resting=hour + REST_S), POLICY, hour) == REST_S
    assert due_in(kept(10), POLICY, 1000.0) == 0
    assert due_in(replace(kept(), vacuumed=1000.0), POLICY, 1010.0) == TRIM_EVERY_S - 10
    assert due_in(replace(kept(tier=Tier.MIRROR), vacuumed=1000.0), POLICY, 1010.0) == VACUUM_EVERY_S - 10
    assert versions_h(Tier.MIRROR, 168) == 168
    assert [versions_h(Tier.CHANGELOG, hours) for hours in (168, 2)] == [24, 2]


def test_what_has_most_to_compact_comes_first_and_then_what_has_waited() -> None:
    few, many = kept(10), replace(kept(20), table=ITEMS)
    old = replace(kept(), trimmed=1.0)
    assert first([]) is None
    assert first([(Chore.TRIM, old), (Chore.COMPACT, few), (Chore.COMPACT, many)]) == (Chore.COMPACT, many)
    assert first([(Chore.TRIM, kept()), (Chore.TRIM, old)]) == (Chore.TRIM, old)
    assert first([(Chore.VACUUM, replace(old, vacuumed=0.0)), (Chore.TRIM, old)]) == (Chore.TRIM, old)


@pytest.mark.parametrize(
    ("tiers", "keyed", "hours", "trimmed"),
    [
        (Tiers.MIRROR, True, 0, Trim(7, None)),
        (Tiers.MIRROR, True, 5, Trim(7, None)),
        (Tiers.MIRROR, False, 5, None),  # nothing has merged its changes
        (Tiers.BOTH, True, 0, None),
        (Tiers.BOTH, True, 5, Trim(7, 5)),
        (Tiers.BOTH, False, 5, None),
        (Tiers.CHANGELOG, False, 5, Trim(None, 5)),
        (Tiers.CHANGELOG, True, 0, None),
    ],
)
def test_what_is_trimmed_by_rule(tiers: Tiers, keyed: bool, hours: float, trimmed: Trim | None) -> None:
    rule = LakeRule(PLAIN.tables, tiers)
    assert trim_of(kept(), rule, keyed, hours) == trimmed
