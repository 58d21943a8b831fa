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

Only `pipeline.lake.step` calls these functions. Times are in seconds.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import rule_of
from pipeline.errors import Backoff
from pipeline.lake.batch import LakeTableState, Pieces
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, Policy, TableSize, TableUpkeep, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import (
    ROWS_AT_ONCE,
    Comparisons,
    Judgement,
    VerificationRun,
    comparison_due_at,
)
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Mirror, Ready

# A comparison of so many times more rows doesn't wait for the merge of the others.
_FEWER_TO_MERGE: Final = 32

# How long (s) work that fails again and again pauses at most.
_LONGEST_REST_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mirror: where it is, how many changes it hasn't merged, and when (s) the first of these came.

    `merge_s`: how long its last merge of fewer than `merge_rows` changes took, 0 before the first one since the start.
    One of more may be exceptional, and says nothing of the next one.
    """

    reached: MirrorPosition
    pending: int
    since: float
    merge_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MergeDue:
    """A table whose mirror is due for a merge."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CompletionDue:
    """A table whose mirror has a generation with all its rows, which readers don't see yet."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ChoreDue:
    """A chore, and the lake table that needs it."""

    chore: Chore
    table: TableId
    tier: Tier


@dataclass(frozen=True, slots=True)
class ComparisonDue:
    """A table of which verifications have read rows, or have ended."""

    table: TableId


Due = CompletionDue | MergeDue | ChoreDue | ComparisonDue


@dataclass(frozen=True, slots=True)
class CompleteMirror:
    """Show readers a generation of a table's mirror, with these `changes` of the table, `through` a segment.

    `since`: when (s since the epoch) its filling began, which distinguishes it from a later one of the generation.
    """

    table: TableId
    generation: int
    through: int
    position: str
    changes: int
    since: float

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return CompletionDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "complete"


@dataclass(frozen=True, slots=True)
class MergeMirror:
    """Merge these `changes` of a table into its mirror, which has `reached` a place, `through` a segment."""

    table: TableId
    reached: MirrorPosition
    through: int
    position: str
    changes: int

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return MergeDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "merge"


@dataclass(frozen=True, slots=True)
class MaintainTable:
    """Do a chore for a lake table, which was in this state when the chore began.

    `trim`: what a TRIM deletes, None for nothing. `versions_h`: for how many hours a VACUUM keeps files. `runs`: if a
    TRIM trims the results of verifications too, the ids of those that it keeps.
    """

    chore: Chore
    kept: TableUpkeep
    trim: Trim | None
    versions_h: float
    runs: frozenset[str] | None

    @property
    def table(self) -> TableId:
        """Returns the table of the lake table."""
        return self.kept.table

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return ChoreDue(self.chore, self.kept.table, self.kept.tier)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return self.chore.value


@dataclass(frozen=True, slots=True)
class VerifyRows:
    """Compare what verifications have read of a table, `through` a segment, whose end has this position.

    `runs`: the verifications of the table that have no result. Those that have `ended` get one. `rows` wait to be
    compared, from files with so many `bytes`. `unread`: as of ComparedTable. `stopped`: whether the lake gets nothing
    more of the table.
    """

    table: TableId
    runs: tuple[VerificationRun, ...]
    through: int
    position: str
    rows: int
    unread: int | None
    stopped: bool = False
    bytes: int = 0

    @property
    def ended(self) -> tuple[VerificationRun, ...]:
        """Returns the verifications that get a result."""
        return tuple(run for run in self.runs if run.ended)

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return ComparisonDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "verify"


BackgroundWork = CompleteMirror | MergeMirror | MaintainTable | VerifyRows


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Work that began at a moment (s). `full`: whether it merges `merge_rows` changes or more."""

    work: BackgroundWork
    began: float
    full: bool


@dataclass(frozen=True, slots=True)
class Background:
    """What is known of the lake tables for this work, and what is under way; None if nothing is.

    `rebuilding`: the tables whose mirror's newest generation is being filled, and since when (s since the epoch).
    `verified`: what there is of verifications. `due`: what is due, and since when. `resting`: what was given up or
    failed, and until when it pauses. `failed`: how often in a row. `compared`: whether the last turn was a
    comparison's. `prepared`: what has been done first for the comparison whose turn it is, each at most once.
    `results_due`: the first TRIM from then on (s) trims the results of verifications too.
    """

    mirrored: Mapping[TableId, Mirrored] = field(default_factory=dict)
    rebuilding: Mapping[TableId, float] = field(default_factory=dict)
    kept: Mapping[tuple[TableId, Tier], TableUpkeep] = field(default_factory=dict)
    due: Mapping[Due, float] = field(default_factory=dict)
    resting: Mapping[Due, float] = field(default_factory=dict)
    failed: Mapping[Due, int] = field(default_factory=dict)
    under_way: UnderWay | None = None
    verified: Comparisons = field(default_factory=Comparisons)
    compared: bool = False
    prepared: frozenset[Due] = frozenset()
    results_due: float = -math.inf

    def keeping(self, kept: TableUpkeep) -> "Background":
        """Returns it with this state of a lake table."""
        return replace(self, kept={**self.kept, (kept.table, kept.tier): kept})

    def mirroring(self, table: TableId, mirrored: Mirrored) -> "Background":
        """Returns it with this state of a mirror."""
        return replace(self, mirrored={**self.mirrored, table: mirrored})

    def rebuilt(self, table: TableId, since: float | None) -> "Background":
        """Returns it with a mirror that is being filled `since` then, or complete."""
        others = {each: at for each, at in self.rebuilding.items() if each != table}
        return replace(self, rebuilding=others if since is None else {**others, table: since})


@dataclass(frozen=True, slots=True)
class LakeTables:
    """What the batches know: the lake's settings, what it has of each table, and which mirrors may be merged.

    `runs`: the verifications that capture knows there. `incomplete`: the tables that lack something of the segments.
    `unread`: as of the checkpoint. `newest`: as of the lake's progress.
    """

    settings: LakeSettings
    tables: Mapping[TableId, LakeTableState]
    mirrors: Mapping[TableId, Mirror]
    runs: tuple[VerificationRun, ...] = ()
    incomplete: frozenset[TableId] = frozenset()
    unread: Mapping[TableId, int] = field(default_factory=dict)
    newest: int | None = None

    def stopped(self, table: TableId) -> bool:
        """Returns whether the sink delivers nothing more to the table."""
        return self.tables[table].stopped is not None


def tables_met(
    background: Background,
    found: Mapping[TableId, LakeTableState],
    sizes: Mapping[tuple[TableId, Tier], TableSize],
    now: float,
) -> Background:
    """Adds tables with the lake tables that they have, at the start or when the sink first meets them."""
    mirrored = {
        table: Mirrored(MirrorPosition(each.generation or 0, each.merged, each.partial), each.pending, now)
        for table, each in found.items()
    }
    rebuilding = {table: each.rebuilding for table, each in found.items() if each.rebuilding is not None}
    others = {table: since for table, since in background.rebuilding.items() if table not in found}
    kept = {
        (table, tier): maintenance.found_table(table, tier, size, now, found[table].merged)
        for (table, tier), size in sizes.items()
    }
    verified = background.verified
    for table in (table for table, each in found.items() if each.uncompared):
        verified = verified.with_rows(table, ROWS_AT_ONCE, now)
    return replace(
        background,
        mirrored={**background.mirrored, **mirrored},
        rebuilding={**others, **rebuilding},
        kept={**background.kept, **kept},
        verified=verified,
    )


def files_delivered(
    background: Background,
    table: TableId,
    before: LakeTableState,
    after: LakeTableState,
    pieces: Pieces,
    now: float,
) -> Background:
    """Records that a batch has brought these files to a table."""
    mirrored = background.mirrored[table]
    if (after.generation, after.rebuilding) != (before.generation, before.rebuilding):
        background = background.rebuilt(table, after.rebuilding)
        if after.rebuilding is None:
            others = {key: kept for key, kept in background.kept.items() if key != (table, Tier.MIRROR)}
            background = replace(background, kept=others)
    reached = replace(mirrored.reached, generation=after.generation or 0, partial=after.partial)
    # A table without a mirror, such as one without a key, has nothing to merge.
    has_mirror = after.generation is not None
    pending = mirrored.pending + sum(piece.rows for piece in pieces.changes) if has_mirror else 0
    since = mirrored.since if mirrored.pending else now
    background = background.mirroring(table, Mirrored(reached, pending, since, mirrored.merge_s))
    read = sum(piece.rows for piece in pieces.verified)
    read_bytes = sum(piece.bytes for piece in pieces.verified)
    background = replace(background, verified=background.verified.with_rows(table, read, now, read_bytes))
    for tier, files in ((Tier.CHANGELOG, pieces.changes), (Tier.MIRROR, pieces.rows)):
        if tier is Tier.MIRROR and (after.generation is None or table in background.rebuilding):
            continue
        kept = background.kept.get((table, tier))
        if kept is None:
            kept = maintenance.found_table(table, tier, TableSize(), now, reached.merged)
        came = replace(kept.size, files=kept.size.files + len(files), commits=kept.size.commits + bool(files))
        background = background.keeping(replace(kept, size=came))
    return background


def work_done(
    background: Background, size: TableSize, now: float, judgements: Iterable[Judgement] = ()
) -> Background:
    """Records that the work under way has succeeded, that its lake table has this size, and the results that it
    brought."""
    under_way, background = _end_work(background)
    work = under_way.work
    background = replace(
        background,
        resting={due: until for due, until in background.resting.items() if due != work.due},
        failed={due: times for due, times in background.failed.items() if due != work.due},
    )
    match work:
        case CompleteMirror(table, generation, since=since):
            # A batch that came meanwhile may have begun the next one. If it was first, nothing was done, and readers
            # see the same frozen mirror since the same moment.
            if background.mirrored[table].reached.generation != generation:
                return background
            if background.rebuilding.get(table) == since:
                background = background.rebuilt(table, None)
            return _record_merge(background, work, under_way, size, now)
        case MergeMirror():
            return _record_merge(background, work, under_way, size, now)
        case MaintainTable(chore, before, runs=runs):
            if runs is not None:  # also if they couldn't be trimmed
                background = replace(background, results_due=now + maintenance.TRIM_EVERY_S)
            return _record_chore(background, chore, before, now, size)
        case VerifyRows(table, rows=rows, bytes=bytes_):
            began = under_way.began
            known = background.verified.compared(table, rows, began, judgements, bytes_, now - began)
            return replace(background, verified=known)
        case _:
            assert_never(work)


def work_given_up(background: Background, now: float) -> Background:
    """Records that the work under way was given up: it pauses."""
    under_way, background = _end_work(background)
    until = now + maintenance.REST_S
    return replace(background, resting={**background.resting, under_way.work.due: until})


def work_failed(background: Background, now: float) -> Background:
    """Records that the work under way has failed: it pauses longer each time."""
    under_way, background = _end_work(background)
    due = under_way.work.due
    times = background.failed.get(due, 0) + 1
    pause = Backoff(maintenance.REST_S, _LONGEST_REST_S).pause_s(times)
    return replace(
        background,
        failed={**background.failed, due: times},
        resting={**background.resting, due: now + pause},
    )


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


def _end_work(background: Background) -> tuple[UnderWay, Background]:
    assert background.under_way is not None, "nothing was under way"
    return background.under_way, replace(background, under_way=None)


def _record_merge(
    background: Background,
    work: CompleteMirror | MergeMirror,
    under_way: UnderWay,
    size: TableSize,
    now: float,
) -> Background:
    mirrored, began = background.mirrored[work.table], under_way.began
    reached = replace(mirrored.reached, merged=work.through)
    measured = isinstance(work, MergeMirror) and not under_way.full
    merge_s = now - began if measured else mirrored.merge_s
    mirrored = Mirrored(reached, mirrored.pending - work.changes, began, merge_s)
    background = background.mirroring(work.table, mirrored)
    kept = background.kept.get((work.table, Tier.MIRROR))
    if kept is None:
        kept = maintenance.found_table(work.table, Tier.MIRROR, size, now, reached.merged)
    return background.keeping(replace(kept, size=size))


def _record_chore(
    background: Background, chore: Chore, before: TableUpkeep, now: float, size: TableSize
) -> Background:
    kept = background.kept.get((before.table, before.tier))
    if kept is None:
        return background
    match chore:
        case Chore.CHECKPOINT:
            kept = replace(kept, size=replace(kept.size, commits=size.commits))
        case Chore.COMPACT:
            # What came meanwhile may not have been taken.
            left = replace(size, files=max(0, size.files - (kept.size.files - before.size.files)))
            kept = replace(kept, size=size, left=left)
        case Chore.TRIM:
            merged = background.mirrored[kept.table].reached.merged
            removed = max(0, kept.size.files - size.files)
            left = replace(kept.left, files=max(0, kept.left.files - removed))
            kept = replace(kept, size=size, left=left, trimmed=now, merged=merged)
        case Chore.VACUUM:
            kept = replace(kept, vacuumed=now)
        case _:
            assert_never(chore)
    return background.keeping(kept)
