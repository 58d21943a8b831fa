"""Records what the batches bring, and how the work beside them ends. Times are in seconds."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, assert_never

from pipeline.errors import Backoff
from pipeline.lake.background.state import Background, Mirrored, UnderWay
from pipeline.lake.background.work import CompleteMirror, MaintainTable, MergeMirror, VerifyRows
from pipeline.lake.batch import LakeTableState, Pieces
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize, TableUpkeep
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import ROWS_AT_ONCE, Judgement
from pipeline.schema.table_schema import TableId

# How long (s) work that fails again and again pauses at most.
_LONGEST_REST_S: Final = 3600.0


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
        under_way=_counted_already(background.under_way, found),
        mirrored={**background.mirrored, **mirrored},
        rebuilding={**others, **rebuilding},
        kept={**background.kept, **kept},
        verified=verified,
    )


def _counted_already(under_way: UnderWay | None, found: Mapping[TableId, LakeTableState]) -> UnderWay | None:
    """Returns the work under way, without its changes if it has merged them by now: no count of a table that was found
    then has them.
    """
    work = None if under_way is None else under_way.work
    if under_way is None or not isinstance(work, CompleteMirror | MergeMirror) or work.table not in found:
        return under_way
    merged = found[work.table].merged >= work.through
    return replace(under_way, work=replace(work, changes=0)) if merged else under_way


def generation_delivered(
    background: Background, table: TableId, before: LakeTableState, after: LakeTableState
) -> Background:
    """Records the generation that a table's mirror has after a batch, also if the batch has stopped the table.

    The table may resume with that very generation, which then has still to be completed.
    """
    mirrored = background.mirrored[table]
    if (after.generation, after.rebuilding) != (before.generation, before.rebuilding):
        background = background.rebuilt(table, after.rebuilding)
        if after.rebuilding is None:
            others = {key: kept for key, kept in background.kept.items() if key != (table, Tier.MIRROR)}
            background = replace(background, kept=others)
    reached = replace(mirrored.reached, generation=after.generation or 0, partial=after.partial)
    return background.mirroring(table, replace(mirrored, reached=reached))


def files_delivered(
    background: Background,
    table: TableId,
    before: LakeTableState,
    after: LakeTableState,
    pieces: Pieces,
    now: float,
) -> Background:
    """Records that a batch has brought these files to a table."""
    background = generation_delivered(background, table, before, after)
    mirrored = background.mirrored[table]
    # A table without a mirror, such as one without a key, has nothing to merge.
    has_mirror = after.generation is not None
    pending = mirrored.pending + sum(piece.rows for piece in pieces.changes) if has_mirror else 0
    since = mirrored.since if mirrored.pending else now
    background = background.mirroring(table, replace(mirrored, pending=pending, since=since))
    read = sum(piece.rows for piece in pieces.verified)
    read_bytes = sum(piece.bytes for piece in pieces.verified)
    background = replace(background, verified=background.verified.with_rows(table, read, now, read_bytes))
    for tier, files in ((Tier.CHANGELOG, pieces.changes), (Tier.MIRROR, pieces.rows)):
        if tier is Tier.MIRROR and (after.generation is None or table in background.rebuilding):
            continue
        kept = background.kept.get((table, tier))
        if kept is None:
            kept = maintenance.found_table(table, tier, TableSize(), now, mirrored.reached.merged)
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
