"""What's due for which lake table."""

from dataclasses import replace

import pytest

from pipeline.config.table_rules import PLAIN, LakeRule, Tiers
from pipeline.lake.tables.maintenance import (
    AHEAD_US,
    CHECKPOINT_AFTER,
    TRIM_EVERY_S,
    VACUUM_EVERY_S,
    VACUUM_FIRST_S,
    Chore,
    Policy,
    TableSize,
    TableUpkeep,
    Trim,
    bound_trim,
    due_at,
    found_table,
    trim_of,
    versions_h,
)
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

POLICY = Policy(compact_files=10, merge_rows=100)
ORDERS = TableId("shop", "orders")


def kept(files: int = 0, hidden: int = 0, tier: Tier = Tier.CHANGELOG) -> TableUpkeep:
    return found_table(ORDERS, tier, TableSize(files, hidden), 1000.0, 7)


def due(kept: TableUpkeep, policy: Policy, now: float) -> list[Chore]:
    return [chore for chore, at in due_at(kept, policy).items() if at <= now]


def what_is_due(kept: TableUpkeep, now: float, policy: Policy = POLICY) -> Chore | None:
    chores = due(kept, policy, now)
    assert len(chores) <= 1
    return chores[0] if chores else None


def test_a_table_is_compacted_for_what_has_come_since_the_last_time() -> None:
    assert what_is_due(kept(9), 1000.0) is None
    assert what_is_due(kept(10), 1000.0) is Chore.COMPACT
    done = replace(kept(14), left=TableSize(5))
    assert what_is_due(done, 1000.0) is None
    assert what_is_due(replace(done, size=TableSize(15)), 1000.0) is Chore.COMPACT
    assert what_is_due(kept(10), 1000.0, Policy(0, 100)) is None, "0 is never"


def test_a_mirror_is_compacted_when_much_of_it_has_been_hidden_since() -> None:
    assert what_is_due(kept(2, 99), 1000.0) is None
    assert what_is_due(kept(2, 100), 1000.0) is Chore.COMPACT
    assert what_is_due(replace(kept(2, 100), left=TableSize(2, 40)), 1000.0) is None


def test_a_log_gets_a_checkpoint_after_so_many_commits() -> None:
    few, many = (
        replace(kept(), size=TableSize(commits=commits))
        for commits in (CHECKPOINT_AFTER - 1, CHECKPOINT_AFTER)
    )
    assert what_is_due(few, 1000.0) is None
    assert what_is_due(many, 1000.0) is Chore.CHECKPOINT


def test_time_brings_trimming_and_vacuum() -> None:
    hour = 1000.0 + TRIM_EVERY_S
    assert what_is_due(replace(kept(), vacuumed=1000.0), hour) is Chore.TRIM
    assert what_is_due(kept(tier=Tier.MIRROR), 1000.0 + VACUUM_FIRST_S) is Chore.VACUUM
    assert what_is_due(replace(kept(tier=Tier.MIRROR), vacuumed=hour), hour) is None
    assert due_at(replace(kept(), vacuumed=1000.0), POLICY)[Chore.TRIM] == 1000.0 + TRIM_EVERY_S
    mirror = replace(kept(tier=Tier.MIRROR), vacuumed=1000.0)
    assert due_at(mirror, POLICY) == {Chore.VACUUM: 1000.0 + VACUUM_EVERY_S}
    assert versions_h(Tier.MIRROR, 168) == 168
    assert [versions_h(Tier.CHANGELOG, hours) for hours in (168, 2)] == [24, 2]


def test_all_that_is_due_is_told() -> None:
    everything = replace(
        kept(), size=TableSize(10, commits=CHECKPOINT_AFTER), vacuumed=1000.0 - VACUUM_EVERY_S
    )
    assert due(everything, POLICY, 1000.0 + TRIM_EVERY_S) == list(Chore)
    assert due(everything, POLICY, 1000.0) == [Chore.CHECKPOINT, Chore.COMPACT, Chore.VACUUM]


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


def test_a_clock_that_is_far_ahead_makes_no_change_old() -> None:
    """An age counts until a day or a quarter of the hours after the source's newest commit, if that is before now."""
    assert bound_trim(Trim(3, 1.0), 7) == Trim(3, 1.0, until=7 + 900_000_000)
    assert bound_trim(Trim(3, 24.0), 7) == Trim(3, 24.0, until=7 + AHEAD_US // 4)
    assert bound_trim(Trim(3, 960.0), 7) == Trim(3, 960.0, until=7 + AHEAD_US)
    assert bound_trim(Trim(3, 1.0), None) is None, "none has come since the start"
    assert bound_trim(Trim(3, None), None) == Trim(3, None)
    assert bound_trim(None, 7) is None
