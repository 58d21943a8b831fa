"""The steps at which delivery to the lake can be cut off, each a call of the product's that's wrapped.

`before` and `behind` are the moments just before a call and when its work is done; `amid` is when a file has appeared
in one of the table's folders, or gone, while it's under way, so that what is cut off is half done.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, Final

from actors.journal.consumers import Consumers
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.files.file_placement import LakeFiles
from actors.lake.generations import Generations
from actors.lake.lake import Lake
from actors.lake.live_view import CatalogViews
from actors.lake.maintenance import Upkeep
from actors.lake.reports.lake_metrics import LakeMetrics
from actors.lake.table_commits import TableCommits
from actors.lake.transaction_log.own_log import OwnLog
from actors.spark_sink import SparkSink
from pipeline.lake.tables.maintenance import Trim
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

LOOK_EVERY_S: Final = 0.002


class Moment(StrEnum):
    """When."""

    BEFORE = "before"
    BEHIND = "behind"
    AMID = "amid"


@dataclass(frozen=True, slots=True)
class Step:
    """A method, and which of its calls count, by their arguments. `where`: the lake table's folder, of a call."""

    owner: type
    method: str
    moment: Moment
    concerns: Callable[..., bool] = lambda *_: True
    where: Callable[..., str] | None = None


def _appends(tier: Tier) -> Callable[..., bool]:
    return lambda table, *_: f"/{tier}" in str(table.path)


def _places(tier: Tier) -> Callable[..., bool]:
    return lambda _files, _path, placed, *_: placed is tier


def _made_by(caller: str) -> Callable[..., bool]:
    """Calls that this function makes, or what it calls."""
    return lambda *_: any(frame.function == caller for frame in inspect.stack(0))


def _keeps_up(tier: Tier) -> Callable[..., bool]:
    return lambda _upkeep, _table, kept, *_: kept is tier


def _trims(_upkeep: Upkeep, _table: TableId, trim: Trim | None) -> bool:
    return trim is not None


def _mirror(lake: Lake | Generations, table: TableId, *_: object) -> str:
    return location(lake._root, table, Tier.MIRROR)


def _kept(upkeep: Upkeep, table: TableId, tier: Tier, *_: object) -> str:
    return location(upkeep._root, table, tier)


def _changelogs_log(upkeep: Upkeep, table: TableId, *_: object) -> str:
    return f"{location(upkeep._root, table, Tier.CHANGELOG)}/_delta_log"


def _log(table: DeltaTable, *_: object) -> str:
    return f"{table.path}/_delta_log"


BATCH: Final = {
    "batch read": Step(SparkSink, "_read_batch", Moment.BEHIND),
    "view held": Step(CatalogViews, "hold", Moment.BEHIND),
    "changelog's schema not evolved": Step(TableCommits, "evolve_changelog", Moment.BEFORE),
    "schema prepared, not altered": Step(DeltaTable, "alter", Moment.BEFORE),
    "changelog's schema evolved, mirror's not": Step(TableCommits, "evolve_changelog", Moment.BEHIND),
    "mirror's schema evolved": Step(Generations, "evolve", Moment.BEHIND),
    "mirror frozen": Step(Generations, "_freeze", Moment.BEHIND),
    "mirror begun": Step(Generations, "begin", Moment.BEHIND),
    "changes not placed": Step(LakeFiles, "place", Moment.BEFORE, concerns=_places(Tier.CHANGELOG)),
    "a file linked, no other": Step(LakeFiles, "_linked", Moment.BEHIND),
    "a file placed": Step(LakeFiles, "_place", Moment.BEHIND),
    "changes placed, not committed": Step(
        LakeFiles, "place", Moment.BEHIND, concerns=_places(Tier.CHANGELOG)
    ),
    "commit written, not named": Step(OwnLog, "_named", Moment.BEFORE),
    "commit named, without a checksum": Step(OwnLog, "_named", Moment.BEHIND),
    "committing": Step(DeltaTable, "append", Moment.AMID, where=_log),
    "changes committed": Step(DeltaTable, "append", Moment.BEHIND, concerns=_appends(Tier.CHANGELOG)),
    "commit durable": Step(LakeFiles, "sync_commit", Moment.BEHIND),
    "rows not placed": Step(LakeFiles, "place", Moment.BEFORE, concerns=_places(Tier.MIRROR)),
    "rows placed, not committed": Step(LakeFiles, "place", Moment.BEHIND, concerns=_places(Tier.MIRROR)),
    "rows committed": Step(DeltaTable, "append", Moment.BEHIND, concerns=_appends(Tier.MIRROR)),
    "view not followed": Step(CatalogViews, "follow", Moment.BEFORE),
    "a table delivered, others not": Step(Lake, "deliver", Moment.BEHIND),
    "batch delivered, progress not recorded": Step(LakeMetrics, "measure_batch", Moment.BEFORE),
    "progress recorded": Step(Consumers, "record_progress", Moment.BEHIND),
    "not completing": Step(Generations, "complete", Moment.BEFORE),
    "swapping": Step(Generations, "_swap", Moment.AMID, where=_mirror),
    "swapped, not swept": Step(TableCommits, "sweep", Moment.BEFORE, concerns=_made_by("_swap")),
    "completed": Step(Generations, "complete", Moment.BEHIND),
    "not merging": Step(Lake, "merge", Moment.BEFORE),
    "merging": Step(Lake, "merge", Moment.AMID, where=_mirror),
    "merge committed, view not followed": Step(
        CatalogViews, "follow", Moment.BEFORE, concerns=_made_by("merge")
    ),
    "merged": Step(Lake, "merge", Moment.BEHIND),
}
MAINTENANCE: Final = {
    "not compacting": Step(Upkeep, "compact", Moment.BEFORE),
    "compacting a changelog": Step(
        Upkeep, "compact", Moment.AMID, concerns=_keeps_up(Tier.CHANGELOG), where=_kept
    ),
    "compacting a mirror": Step(Upkeep, "compact", Moment.AMID, concerns=_keeps_up(Tier.MIRROR), where=_kept),
    "compacted": Step(Upkeep, "compact", Moment.BEHIND),
    "not trimming": Step(Upkeep, "trim", Moment.BEFORE, concerns=_trims),
    "trimming": Step(Upkeep, "trim", Moment.AMID, concerns=_trims, where=_changelogs_log),
    "trimmed": Step(Upkeep, "trim", Moment.BEHIND, concerns=_trims),
    "not vacuuming": Step(Upkeep, "vacuum", Moment.BEFORE),
    "vacuuming": Step(Upkeep, "vacuum", Moment.AMID, where=_kept),
    "vacuumed": Step(Upkeep, "vacuum", Moment.BEHIND),
}
STEPS: Final = {**BATCH, **MAINTENANCE}

# What's to happen at a step when it's come to; nothing if None is given.
Deed = Callable[[], None]


def watch(come_to: Callable[[str], Deed | None], awaits: Callable[[str], bool]) -> None:
    """Wrap all steps for the rest of this process.

    `come_to` is asked at each one, by its name, what's to be done; `awaits` says whether anything will be.
    """
    for name, step in STEPS.items():
        setattr(step.owner, step.method, _watched(name, step, come_to, awaits))


def _watched(
    name: str, step: Step, come_to: Callable[[str], Deed | None], awaits: Callable[[str], bool]
) -> Callable[..., Any]:
    original = getattr(step.owner, step.method)

    @wraps(original)
    def watched(*arguments: Any, **named: Any) -> Any:
        counts = step.concerns(*arguments)
        if counts and step.moment is Moment.BEFORE:
            _do(come_to(name))
        if counts and step.where is not None and awaits(name):
            with _amid(Path(step.where(*arguments)), lambda: _do(come_to(name))):
                return original(*arguments, **named)
        result = original(*arguments, **named)
        if counts and step.moment is Moment.BEHIND:
            _do(come_to(name))
        return result

    return watched


def _do(deed: Deed | None) -> None:
    if deed is not None:
        deed()


@contextmanager
def _amid(folder: Path, deed: Deed) -> Iterator[None]:
    """Do it as soon as a file has appeared or gone, if that happens before the end."""
    before, ended = _files(folder), threading.Event()

    def look() -> None:
        at_the_end = False
        while _files(folder) == before:
            if at_the_end:
                return
            at_the_end = ended.wait(LOOK_EVERY_S)
        deed()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


def _files(folder: Path) -> frozenset[Path]:
    return frozenset(folder.glob("*"))
