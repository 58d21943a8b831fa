"""What Spark does beside the batches: a mirror is completed or merged, or a lake table maintained, one at a time.

Nobody waits for it: the live view is right with it and without it. A generation of a mirror whose rows are all there is
shown to readers as soon as can be. A mirror is merged when it has enough changes pending, or old ones;
`pipeline.lake.maintenance` says when the rest is due. What has been due for the longest comes first,
whatever it is: where there's more to do than time all of it gets late, and none of it starves. A table is never
maintained beside a MERGE into it. Where somebody else, a user's OPTIMIZE say, had committed meanwhile, so that Delta
gave the work up, it's tried again after a rest.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, ParamSpec, Protocol, TypeVar, assert_never

import structlog

from actors.lake.delta_table import Conflict
from actors.lake.lake import Lake
from actors.lake.spark_session import SparkLost
from actors.runtime.metrics import Metrics
from actors.runtime.redaction import safe_message
from pipeline import metrics as catalogue
from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import rule_of
from pipeline.lake import maintenance
from pipeline.lake.batch import LakeTableState, Pieces
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.maintenance import Chore, Policy, TableSize, TableUpkeep, Trim
from pipeline.lake.tables import Tier
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Mirror, Ready

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

log = structlog.get_logger()

# How long (s) work rests at most that has failed again and again.
_LONGEST_REST_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mirror: where it is, the changes that it hasn't merged, and when (s) the first of these came."""

    reached: MirrorPosition
    pending: int
    since: float


@dataclass(frozen=True, slots=True)
class MergeDue:
    """A table whose mirror is to be merged."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CompletionDue:
    """A table of whose mirror a generation is all there, and isn't shown yet."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ChoreDue:
    """A chore, and the lake table that needs it."""

    chore: Chore
    table: TableId
    tier: Tier


Due = CompletionDue | MergeDue | ChoreDue


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE of these changes of a table, through this segment."""

    table: TableId
    through: int
    changes: int

    @property
    def due(self) -> Due:
        """What it was due as."""
        return MergeDue(self.table)


@dataclass(frozen=True, slots=True)
class Complete:
    """A generation of a table's mirror is shown, with these changes of the table, through this segment."""

    table: TableId
    through: int
    changes: int

    @property
    def due(self) -> Due:
        """What it was due as."""
        return CompletionDue(self.table)


@dataclass(frozen=True, slots=True)
class Maintain:
    """A chore at a lake table, which was so when it began."""

    chore: Chore
    kept: TableUpkeep

    @property
    def due(self) -> Due:
        """What it was due as."""
        return ChoreDue(self.chore, self.kept.table, self.kept.tier)


@dataclass(frozen=True, slots=True)
class Work:
    """What is under way; the task gives the lake table's size afterwards."""

    task: asyncio.Task[TableSize | None]
    what: Complete | Merge | Maintain
    began: float

    @property
    def name(self) -> str:
        """`complete`, `merge`, or the chore."""
        match self.what:
            case Complete():
                return "complete"
            case Merge():
                return "merge"
            case Maintain(chore):
                return chore.value
            case _:
                assert_never(self.what)

    @property
    def table(self) -> TableId:
        """Whose lake table it is."""
        return self.what.due.table


class InThread(Protocol):
    """Calls what blocks, in a thread of the sink's."""

    def __call__(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Awaitable[Result]:
        """Await what the function gives."""


class Background:
    """What's known of the lake tables, for deciding what to do to them, and what is being done."""

    def __init__(self, settings: LakeSettings, metrics: Metrics, lake: Lake, run: InThread) -> None:
        self._settings = settings
        self._policy = Policy(settings.compact_files, settings.merge_rows)
        self._metrics = metrics
        self._lake = lake
        self._run = run
        self._mirrored: dict[TableId, Mirrored] = {}
        self._rebuilding: dict[TableId, float] = {}  # and since when (s since the epoch)
        self._delivered: dict[TableId, LakeTableState] = {}
        self._kept: dict[tuple[TableId, Tier], TableUpkeep] = {}
        self._due: dict[Due, float] = {}  # and since when (s)
        self._resting: dict[Due, float] = {}  # what was given up, and until when
        self._failed: dict[Due, int] = {}  # and how often in a row
        self.work: Work | None = None
        for kind in ("complete", "merge", *Chore):
            metrics.count(catalogue.CONFLICTS, 0, kind=kind)
            metrics.count(catalogue.WORK_FAILED, 0, kind=kind)

    def found(
        self, table: TableId, delivered: LakeTableState, sizes: Mapping[Tier, TableSize | None]
    ) -> None:
        """A table is met at the start, or for the first time, with the lake tables that it has."""
        now = time.monotonic()
        reached = MirrorPosition(delivered.generation or 0, delivered.merged, delivered.partial)
        self._mirrored[table] = Mirrored(reached, delivered.pending, now)
        self._delivered[table] = delivered
        self._rebuilds(table, delivered.rebuilding)
        for tier, size in sizes.items():
            if size is not None:
                self._kept[table, tier] = maintenance.found(table, tier, size, now, delivered.merged)

    def delivered(self, table: TableId, after: LakeTableState, pieces: Pieces) -> None:
        """A batch has brought these files."""
        now, mirrored, before = time.monotonic(), self._mirrored[table], self._delivered[table]
        self._delivered[table] = after
        generation = after.generation or 0
        if (after.generation, after.rebuilding) != (before.generation, before.rebuilding):
            self._rebuilds(table, after.rebuilding)
            if after.rebuilding is None:
                self._kept.pop((table, Tier.MIRROR), None)
        self._mirrored[table] = replace(
            mirrored,
            reached=replace(mirrored.reached, generation=generation, partial=after.partial),
            pending=mirrored.pending + sum(piece.rows for piece in pieces.changes),
            since=mirrored.since if mirrored.pending else now,
        )
        for tier, files in ((Tier.CHANGELOG, pieces.changes), (Tier.MIRROR, pieces.rows)):
            if tier is Tier.MIRROR and (after.generation is None or table in self._rebuilding):
                continue
            kept = self._kept.get((table, tier))
            if kept is None:
                kept = maintenance.found(table, tier, TableSize(), now, mirrored.reached.merged)
            came = replace(
                kept.size, files=kept.size.files + len(files), commits=kept.size.commits + bool(files)
            )
            self._keep(replace(kept, size=came))
        pending = self._mirrored[table].pending
        self._metrics.set(catalogue.MIRROR_PENDING, pending, table=str(table))

    def begin_if_due(self, mirrors: Mapping[TableId, Mirror], through: int, position: str) -> None:
        """Begin what has been due for the longest, if nothing is under way; batches have come `through` a segment."""
        if self.work is not None and self.work.task.done():
            self.ended()
        now = time.monotonic()
        due = [each for each, at in self._due_at(mirrors).items() if at <= now]
        self._due = {each: self._due.get(each, now) for each in due}
        rested = [each for each in self._due if self._resting.get(each, now) <= now]
        if self.work is not None or not rested:
            return
        longest = min(rested, key=self._due.__getitem__)
        del self._due[longest]  # what comes while it's under way isn't due for as long
        match longest:
            case CompletionDue(table):
                complete = Complete(table, through, self._mirrored[table].pending)
                self._begin(complete, self._complete(table, through, position))
            case MergeDue(table):
                # After a table has failed batches may begin before what others have merged.
                through = max(through, self._mirrored[table].reached.merged)
                merge = Merge(table, through, self._mirrored[table].pending)
                self._begin(merge, self._merge(table, through, position))
            case ChoreDue(chore, table, tier):
                kept = self._kept[table, tier]
                self._begin(Maintain(chore, kept), self._do(chore, kept))
            case _:
                assert_never(longest)

    def ended(self) -> None:
        """The work has ended; raises what it raised, unless it's to be tried again."""
        assert self.work is not None
        work, self.work = self.work, None
        now, table = time.monotonic(), str(work.table)
        try:
            size = work.task.result()
        except Conflict as error:
            log.warning(
                "another writer committed first; retrying", work=work.name, table=table, reason=str(error)
            )
            self._metrics.count(catalogue.CONFLICTS, kind=work.name)
            self._resting[work.what.due] = now + maintenance.REST_S
            return
        except SparkLost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it's this table's alone
            times = self._failed[work.what.due] = self._failed.get(work.what.due, 0) + 1
            pause = min(_LONGEST_REST_S, maintenance.REST_S * 2 ** (times - 1))
            log.error(
                "work on a lake table failed",
                work=work.name,
                table=table,
                times=times,
                reason=safe_message(error),
            )
            self._metrics.count(catalogue.WORK_FAILED, kind=work.name)
            self._resting[work.what.due] = now + pause
            return
        self._resting.pop(work.what.due, None)
        self._failed.pop(work.what.due, None)
        match work.what:
            case Complete() as complete:
                self._metrics.observe(catalogue.MAINTENANCE, now - work.began, kind="complete")
                self._rebuilds(complete.table, None)
                self._merged(complete, work.began, size or TableSize())
            case Merge() as merge:
                self._metrics.observe(catalogue.MERGE, now - work.began)
                self._merged(merge, work.began, size or TableSize())
            case Maintain(chore, kept):
                self._metrics.observe(catalogue.MAINTENANCE, now - work.began, kind=chore.value)
                self._done(chore, kept, now, size or TableSize())
            case _:
                assert_never(work.what)

    def time_left(self, mirrors: Mapping[TableId, Mirror]) -> float | None:
        """Seconds until something is due by time alone, None where nothing will be."""
        due_at = self._due_at(mirrors).items()
        moments = [max(at, self._resting.get(due, at)) for due, at in due_at]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def status(self, table: TableId) -> dict[str, Any]:
        """How far a table's mirror is, and the files that wait for compaction."""
        mirrored = self._mirrored.get(table)
        return {
            "merged": None if mirrored is None else mirrored.reached.merged,
            "pending": 0 if mirrored is None else mirrored.pending,
            "rebuilding_since": self._rebuilding.get(table),
            "uncompacted": {
                tier.value: self._kept[table, tier].come for tier in Tier if (table, tier) in self._kept
            },
        }

    @property
    def _all(self) -> list[TableUpkeep]:
        return [kept for kept in self._kept.values() if self._delivered[kept.table].stopped is None]

    def _begin(self, what: Complete | Merge | Maintain, does: Coroutine[Any, Any, TableSize | None]) -> None:
        self.work = Work(asyncio.create_task(does), what, time.monotonic())

    async def _complete(self, table: TableId, through: int, position: str) -> TableSize | None:
        generation = self._mirrored[table].reached.generation
        await self._run(self._lake.complete, table, generation, through, position)
        return await self._size(table, Tier.MIRROR)

    async def _merge(self, table: TableId, through: int, position: str) -> TableSize | None:
        await self._run(self._lake.merge, table, self._mirrored[table].reached, through, position)
        return await self._size(table, Tier.MIRROR)

    async def _do(self, chore: Chore, kept: TableUpkeep) -> TableSize | None:
        upkeep, table, tier = self._lake.upkeep, kept.table, kept.tier
        match chore:
            case Chore.CHECKPOINT:
                await self._run(upkeep.checkpoint, table, tier)
            case Chore.COMPACT:
                await self._run(upkeep.compact, table, tier)
            case Chore.TRIM:
                await self._run(upkeep.trim, table, self._trim(kept))
            case Chore.VACUUM:
                hours = maintenance.versions_h(tier, self._settings.vacuum_hours)
                await self._run(upkeep.vacuum, table, tier, hours)
            case _:
                assert_never(chore)
        return await self._size(table, tier)

    async def _size(self, table: TableId, tier: Tier) -> TableSize | None:
        return await self._run(self._lake.upkeep.size, table, tier)

    def _rebuilds(self, table: TableId, since: float | None) -> None:
        if since is None:
            self._rebuilding.pop(table, None)
        else:
            self._rebuilding[table] = since
        self._metrics.set(catalogue.MIRROR_REBUILDING, since or 0.0, table=str(table))

    def _merged(self, merge: Complete | Merge, began: float, size: TableSize) -> None:
        mirrored = self._mirrored[merge.table]
        reached = replace(mirrored.reached, merged=merge.through)
        left = mirrored.pending - merge.changes
        self._mirrored[merge.table] = Mirrored(reached, left, began)
        self._metrics.set(catalogue.MIRROR_PENDING, left, table=str(merge.table))
        kept = self._kept.get((merge.table, Tier.MIRROR))
        if kept is None:
            kept = maintenance.found(merge.table, Tier.MIRROR, size, time.monotonic(), reached.merged)
        self._keep(replace(kept, size=size))

    def _done(self, chore: Chore, before: TableUpkeep, now: float, size: TableSize) -> None:
        kept = self._kept.get((before.table, before.tier))
        if kept is None:
            return
        match chore:
            case Chore.CHECKPOINT:
                kept = replace(kept, size=replace(kept.size, commits=size.commits))
            case Chore.COMPACT:
                # What came meanwhile may not have been taken.
                left = replace(size, files=max(0, size.files - (kept.size.files - before.size.files)))
                kept = replace(kept, size=size, left=left)
            case Chore.TRIM:
                merged = self._mirrored[kept.table].reached.merged
                removed = max(0, kept.size.files - size.files)
                left = replace(kept.left, files=max(0, kept.left.files - removed))
                kept = replace(kept, size=size, left=left, trimmed=now, merged=merged)
            case Chore.VACUUM:
                kept = replace(kept, vacuumed=now)
            case _:
                assert_never(chore)
        self._keep(kept)

    def _keep(self, kept: TableUpkeep) -> None:
        self._kept[kept.table, kept.tier] = kept
        table, tier = str(kept.table), kept.tier.value
        self._metrics.set(catalogue.FILES_COME, kept.come, table=table, tier=tier)
        self._metrics.set(catalogue.LAKE_FILES, kept.size.files, table=table, tier=tier)

    def _trim(self, kept: TableUpkeep) -> Trim | None:
        schema = self._delivered[kept.table].schema
        rule = rule_of(self._settings.rules, kept.table)
        keyed = schema is not None and bool(schema.key)
        return maintenance.trim_of(kept, rule, keyed, self._settings.keep_changelog_hours)

    def _completable(self, mirrors: Mapping[TableId, Mirror]) -> list[TableId]:
        """The tables of whose mirrors a generation is all there, and isn't shown yet."""
        return [
            table
            for table in self._rebuilding
            if mirrors.get(table) == Ready(self._mirrored[table].reached.generation)
            and self._delivered[table].stopped is None
        ]

    def _mergeable(self, mirrors: Mapping[TableId, Mirror]) -> list[tuple[TableId, Mirrored]]:
        return [
            (table, mirrored)
            for table, mirrored in self._mirrored.items()
            if mirrored.pending
            and table not in self._rebuilding
            and isinstance(mirrors.get(table), Ready)
            and (delivered := self._delivered[table]).stopped is None
            and delivered.generation is not None
            and delivered.schema is not None
            and delivered.schema.key
        ]

    def _due_at(self, mirrors: Mapping[TableId, Mirror]) -> dict[Due, float]:
        """When (s) what is or will be due."""
        at: dict[Due, float] = {CompletionDue(table): -math.inf for table in self._completable(mirrors)}
        for table, mirrored in self._mergeable(mirrors):
            full = mirrored.pending >= self._settings.merge_rows
            at[MergeDue(table)] = -math.inf if full else mirrored.since + self._settings.merge_after_s
        for kept in self._all:
            for chore, when in maintenance.due_at(kept, self._policy).items():
                at[ChoreDue(chore, kept.table, kept.tier)] = when
        return at
