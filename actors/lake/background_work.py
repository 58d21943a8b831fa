"""Performs the work beside the batches that `pipeline.lake.background` orders, at the lake's tables."""

from typing import assert_never

from actors.lake.lake import Lake
from pipeline.lake.background import BackgroundWork, CompleteMirror, MaintainTable, MergeMirror, VerifyRows
from pipeline.lake.live_view import Versions
from pipeline.lake.maintenance import Chore, TableSize
from pipeline.lake.tables import Tier
from pipeline.lake.verification.runs import Judgement


def do_work(lake: Lake, work: BackgroundWork) -> tuple[TableSize, Versions | None, tuple[Judgement, ...]]:
    """Does the work. Returns the size of the lake table afterwards, the versions for readers of the table, and the
    results of verifications.

    Raises Conflict if another writer committed first, or if the work has to wait for columns of the mirror.
    """
    if isinstance(work, VerifyRows):
        return TableSize(), None, lake.verification.verify(work)
    size = _done(lake, work)
    return size, lake.settled_versions(work.table), ()


def _done(lake: Lake, work: CompleteMirror | MergeMirror | MaintainTable) -> TableSize:
    match work:
        case CompleteMirror(table, generation, through, position):
            lake.generations.complete(table, generation, through, position)
            return lake.upkeep.size(table, Tier.MIRROR) or TableSize()
        case MergeMirror(table, reached, through, position, changes):
            lake.merge(table, reached, through, position, changes)
            return lake.upkeep.size(table, Tier.MIRROR) or TableSize()
        case MaintainTable(kept=kept):
            _maintain(lake, work)
            return lake.upkeep.size(kept.table, kept.tier) or TableSize()
        case _:
            assert_never(work)


def _maintain(lake: Lake, work: MaintainTable) -> None:
    upkeep, table, tier = lake.upkeep, work.kept.table, work.kept.tier
    match work.chore:
        case Chore.CHECKPOINT:
            upkeep.checkpoint(table, tier)
        case Chore.COMPACT:
            upkeep.compact(table, tier)
        case Chore.TRIM:
            upkeep.trim(table, work.trim)
            upkeep.trim_results(work.runs)
        case Chore.VACUUM:
            upkeep.vacuum(table, tier, work.versions_h)
        case _:
            assert_never(work.chore)
