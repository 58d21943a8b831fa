"""Performs the work beside the batches (`pipeline.lake.background.work`) at the lake's tables."""

from functools import partial
from typing import assert_never

from actors.lake.lake import Lake
from actors.runtime.measuring import value_or
from pipeline.lake.background.work import (
    BackgroundWork,
    CompleteMirror,
    MaintainTable,
    MergeMirror,
    VerifyRows,
)
from pipeline.lake.files.written_files import WrittenFiles
from pipeline.lake.live_view import Versions
from pipeline.lake.tables.maintenance import Chore, TableSize
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import Judgement


def do_work(
    lake: Lake, work: BackgroundWork
) -> tuple[TableSize, Versions | None, tuple[Judgement, ...], WrittenFiles]:
    """Does the work. Returns the size of the lake table afterwards, the versions for readers of the table, the results
    of verifications, and what the work has written into the lake table.

    Raises Conflict if another writer committed first, or if the work has to wait for columns of the mirror.
    """
    if isinstance(work, VerifyRows):
        return TableSize(), None, lake.verification.verify(work), WrittenFiles()
    table, tier = work.table, work.kept.tier if isinstance(work, MaintainTable) else Tier.MIRROR
    before = lake.version(table, tier)
    _do(lake, work)
    after = lake.version(table, tier)  # batches commit while the rest is done
    lake.make_durable(table, tier)  # otherwise the next batch would have to
    size = lake.upkeep.size(table, tier) or TableSize()
    written = value_or(
        "written_between", partial(lake.written_between, table, tier, before, after), WrittenFiles()
    )
    return size, lake.settled_versions(table), (), written


def _do(lake: Lake, work: CompleteMirror | MergeMirror | MaintainTable) -> None:
    match work:
        case CompleteMirror(table, generation, through, position):
            lake.generations.complete(table, generation, through, position)
        case MergeMirror(table, reached, through, position, changes):
            with lake.work(table):
                lake.merge(table, reached, through, position, changes)
        case MaintainTable():
            with lake.work(work.kept.table):
                _maintain(lake, work)
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
        case Chore.VACUUM:
            upkeep.vacuum(table, tier, work.versions_h)
        case _:
            assert_never(work.chore)
