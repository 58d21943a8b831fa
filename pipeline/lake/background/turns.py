"""What Spark does beside the batches, one at a time. It completes or merges a mirror, maintains a lake table, or
compares rows with the source's.

No reader waits for it: the live view is right with it and without it. A generation of a mirror that has all its rows
becomes visible as soon as possible. A mirror is merged when it has enough changes pending, or old ones: how old follows
what merges cost (`merge_ages`). `pipeline.lake.tables.maintenance` defines when the rest is due. The work that has been
due for the longest comes first. So if there is more to do than time, all of it comes late and none of it starves.
Somebody may wait for a verification, so every second turn is a comparison's, if one is due. One that many bytes make
due leaves most of the time to the other work, unless they are very many (`pipeline.lake.verification.runs`). A
comparison reads all changes that aren't merged and each file that isn't compacted. So in its turn the table is merged
and compacted first where that is due. Among thousands of small files the comparison takes minutes, in which as many
come again. A merge reads the keys of the whole mirror. So it comes after a comparison of far more rows than it would
merge. Maintenance of a mirror never runs during its merge. Work that was given up, because another writer committed
meanwhile or because the mirror's columns have to come first, is tried again after a pause. Work that failed pauses
longer each time.

Times are in seconds.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from pipeline.config.table_rules import rule_of
from pipeline.lake.background.state import Background, LakeTables, Mirrored, UnderWay
from pipeline.lake.background.work import (
    BackgroundWork,
    ChoreDue,
    ComparisonDue,
    CompleteMirror,
    CompletionDue,
    Due,
    MaintainTable,
    MergeDue,
    MergeMirror,
    VerifyRows,
)
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, Policy, TableUpkeep, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import comparison_due_at
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Ready

# A comparison of so many times more rows doesn't wait for the merge of the others.
_FEWER_TO_MERGE: Final = 32


def next_work(
    background: Background, lake: LakeTables, through: int, position: str, now: float
) -> tuple[Background, BackgroundWork | None]:
    """Begins the work whose turn it is, unless work is under way. Returns None if nothing begins.

    Batches have come `through` a segment, whose end has this position.
    """
    background = replace(background, verified=background.verified.only(lake.runs))
    due = [each for each, at in _due_at(background, lake) if at <= now]
    background = replace(background, due={each: background.due.get(each, now) for each in due})
    rested = [each for each in background.due if background.resting.get(each, now) <= now]
    if background.under_way is not None or not rested:
        return background, None
    turn = not background.compared
    chosen = min(rested, key=lambda each: (isinstance(each, ComparisonDue) is not turn, background.due[each]))
    first = _first_for(background, chosen, [each for each in rested if each not in background.prepared])
    # What becomes due meanwhile counts from then.
    left = {each: since for each, since in background.due.items() if each != first}
    work = _work(background, lake, first, through, position, now)
    full = isinstance(work, MergeMirror) and work.changes >= lake.settings.merge_rows
    background = replace(background, due=left, under_way=UnderWay(work, now, full))
    if first != chosen:
        return replace(background, prepared=background.prepared | {first}), work
    return replace(background, compared=isinstance(first, ComparisonDue), prepared=frozenset()), work


def _first_for(background: Background, chosen: Due, rested: Sequence[Due]) -> Due:
    """Returns what comes before this work, or the work itself: its table's merge and compaction before a comparison."""
    if not isinstance(chosen, ComparisonDue):
        return chosen
    compactions = [ChoreDue(Chore.COMPACT, chosen.table, tier) for tier in (Tier.CHANGELOG, Tier.MIRROR)]
    before: list[Due] = (
        [*compactions] if _merges_few(background, chosen.table) else [MergeDue(chosen.table), *compactions]
    )
    return next((each for each in before if each in rested), chosen)


def _merges_few(background: Background, table: TableId) -> bool:
    """Returns whether far more rows of a table wait to be compared than changes to be merged."""
    waiting, mirrored = background.verified.pending.get(table), background.mirrored.get(table)
    return waiting is not None and mirrored is not None and mirrored.pending * _FEWER_TO_MERGE <= waiting.rows


def background_due_at(background: Background, lake: LakeTables) -> float | None:
    """Returns when (s) something is due; None if time alone makes nothing due, or if work is under way."""
    if background.under_way is not None:
        return None
    if not background.resting:
        return min((at for _, at in _due_at(background, lake)), default=None)
    due_at = _due_at(background, lake)
    return min((max(at, background.resting.get(due, at)) for due, at in due_at), default=None)


def completable_tables(background: Background, lake: LakeTables) -> list[TableId]:
    """Returns the tables whose mirror has a generation with all its rows, which readers don't see yet."""
    return [
        table
        for table in background.rebuilding
        if lake.mirrors.get(table) == Ready(background.mirrored[table].reached.generation)
        and not lake.stopped(table)
    ]


def mergeable_tables(background: Background, lake: LakeTables) -> list[tuple[TableId, Mirrored]]:
    """Returns the tables whose mirrors have changes to merge."""
    return [
        (table, mirrored)
        for table, mirrored in background.mirrored.items()
        if mirrored.pending
        and table not in background.rebuilding
        and isinstance(lake.mirrors.get(table), Ready)
        and not lake.stopped(table)
        and (had := lake.tables[table]).generation is not None
        and had.schema is not None
        and had.schema.key
    ]


def merge_ages(merges_s: Sequence[float], least: float, share: float) -> list[float]:
    """Returns how old (s) the oldest change of each mirror is when it's merged, by what its last merge took.

    It's `least`, or more where merges would take more than this `share` of the time. Let d be what a mirror's merge
    takes, and T its age. Its readers pay for changes in proportion to T, and d / T is its part of the time. Of all ages
    for which these parts add up to the share, T = sqrt(d) * (the sum of all sqrt(d)) / share has the least sum.
    """
    roots = [math.sqrt(seconds) for seconds in merges_s]
    each = sum(roots) / share
    return [max(least, root * each) for root in roots]


def _due_at(background: Background, lake: LakeTables) -> Iterator[tuple[Due, float]]:
    """Returns each piece of work, and when (s) it is or will be due."""
    settings = lake.settings
    for table in completable_tables(background, lake):
        yield CompletionDue(table), -math.inf
    mergeable = mergeable_tables(background, lake)
    merges_s = [mirrored.merge_s for _, mirrored in mergeable]
    ages = merge_ages(merges_s, settings.merge_after_s, settings.merge_share)
    for (table, mirrored), age in zip(mergeable, ages, strict=True):
        full = mirrored.pending >= settings.merge_rows
        yield MergeDue(table), -math.inf if full else mirrored.since + age
    policy = Policy(settings.compact_files, settings.merge_rows)
    for kept in background.kept.values():
        if not lake.stopped(kept.table):
            for chore, when in maintenance.due_at(kept, policy).items():
                yield ChoreDue(chore, kept.table, kept.tier), when
    for table in dict.fromkeys([*background.verified.pending, *(run.table for run in lake.runs)]):
        if (compared_at := _comparison_due_at(background, lake, table)) is not None:
            yield ComparisonDue(table), compared_at


def _comparison_due_at(background: Background, lake: LakeTables, table: TableId) -> float | None:
    """Returns when (s) a table's verified rows are due. It isn't due while the lake lacks what it will soon have.

    A comparison takes the rows of all of the table's verifications. One that began after its mirror has to wait until
    readers see that mirror. So the others wait too.
    """
    runs = background.verified.unjudged(lake.runs, table)
    if table in lake.incomplete or not (runs or table in background.verified.pending):
        return None
    mirror = lake.mirrors.get(table)
    waits = not runs or any(mirror is not None and mirror.since < run.since for run in runs)
    if table in background.rebuilding and isinstance(mirror, Ready) and waits:
        return None
    ended = any(run.ended for run in runs)
    return comparison_due_at(background.verified.pending.get(table), ended=ended)


def _work(
    background: Background, lake: LakeTables, due: Due, through: int, position: str, now: float
) -> BackgroundWork:
    match due:
        case CompletionDue(table):
            mirrored = background.mirrored[table]
            return CompleteMirror(
                table,
                mirrored.reached.generation,
                through,
                position,
                mirrored.pending,
                background.rebuilding[table],
            )
        case MergeDue(table):
            mirrored = background.mirrored[table]
            # After a table has failed batches may begin before what others have merged.
            through = max(through, mirrored.reached.merged)
            return MergeMirror(table, mirrored.reached, through, position, mirrored.pending)
        case ComparisonDue(table):
            pending = background.verified.pending.get(table)
            return VerifyRows(
                table,
                background.verified.unjudged(lake.runs, table),
                through,
                position,
                0 if pending is None else pending.rows,
                lake.unread.get(table),
                table in lake.tables and lake.stopped(table),
                0 if pending is None else pending.bytes,
            )
        case ChoreDue(chore, table, tier):
            kept = background.kept[table, tier]
            hours = maintenance.versions_h(tier, lake.settings.vacuum_hours)
            with_results = chore is Chore.TRIM and background.results_due <= now
            runs = frozenset(run.run for run in lake.runs) if with_results else None
            return MaintainTable(chore, kept, _trim(background, lake, kept, through), hours, runs)
        case _:
            assert_never(due)


def _trim(background: Background, lake: LakeTables, kept: TableUpkeep, through: int) -> Trim | None:
    """Returns what is trimmed from a changelog: nothing that a verification still needs."""
    had = lake.tables[kept.table]
    if had.changes > through:  # batches come again, and may lead to a verification that isn't known yet
        return None
    schema = had.schema
    rule = rule_of(lake.settings.rules, kept.table)
    keyed = schema is not None and bool(schema.key)
    trim = maintenance.trim_of(kept, rule, keyed, lake.settings.keep_changelog_hours)
    since = (run.since for run in background.verified.unjudged(lake.runs, kept.table))
    trim = maintenance.bound_trim(trim, lake.newest)
    return trim and replace(trim, scn=min(since, default=None))
