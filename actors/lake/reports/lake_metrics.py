"""What the metrics and the log report of the SparkSink's batches, its work beside them, and its tables."""

import time
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.lake.background.work import BackgroundWork, MergeMirror
from pipeline.lake.batch import Batch, Pieces
from pipeline.lake.facts import (
    BeginningFound,
    CursorFound,
    Fact,
    GapFound,
    TableDelivered,
    TablesFound,
    WorkDone,
)
from pipeline.lake.files.written_files import FILES_OF_A_COMMIT, WrittenFiles
from pipeline.lake.state import TIMES_TO_TELL, Failed, State
from pipeline.lake.tables.maintenance import Chore
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import FindingKind, Judgement, LakeVerdict
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import DROPPED

log = structlog.get_logger()

# The kinds of work beside the batches that write rows again.
_REWRITING: Final = ("complete", "merge", Chore.COMPACT, Chore.TRIM)


class LakeMetrics:
    """Derives the metrics from the sink's facts, and from its state before and after each.

    `captured`: the tables that the configuration captures. What alerts watch leaves the others out: nobody waits for
    them. `freshness`: the age (s) of the oldest change of the last batch when it could be read in the lake.
    """

    def __init__(self, metrics: Metrics, captured: TableFilter) -> None:
        self._metrics = metrics
        self._captured = captured
        self.freshness: float | None = None

    def begin(self) -> None:
        """Begins each counter of the work beside the batches at 0."""
        for kind in ("complete", "merge", "verify", *Chore):
            self._metrics.count(catalogue.CONFLICTS, 0, kind=kind)
            self._metrics.count(catalogue.WORK_FAILED, 0, kind=kind)
        for kind in _REWRITING:
            self._metrics.count(catalogue.LAKE_FILES_WRITTEN, 0, kind=kind)
            self._metrics.count(catalogue.LAKE_REWRITTEN, 0, kind=kind)

    def record(self, fact: Fact, before: State, now: State) -> None:
        """Records what a fact has changed."""
        self._report_failures(before.so_far.failed, now.so_far.failed)
        if now.so_far.failed is not before.so_far.failed:
            self.count_stopped(now)
        self._measure_fact(fact, before, now)

    @contain_errors
    def count_stopped(self, state: State) -> None:
        """Records how many tables get no more in the lake."""
        stopped = sum(map(self._captured.match, state.so_far.stopped_tables))
        self._metrics.set(catalogue.STOPPED_TABLES, stopped, part="lake")

    @contain_errors
    def measure_batch(self, batch: Batch, seconds: float, state: State) -> None:
        """Records a batch that all tables have, and how long it took."""
        now = time.time()
        self.count_stopped(state)
        if state.so_far.ahead is not None:
            return  # a table catches up with the others
        if batch.newest is not None:
            self._metrics.set(catalogue.DELIVERED_COMMIT, batch.newest / 1e6)
        if batch.commit_times:
            self.freshness = round(now - min(batch.commit_times) / 1e6, 3)
        for committed in batch.commit_times:
            self._metrics.observe(catalogue.FRESHNESS, max(0.0, now - committed / 1e6))
        self._metrics.observe(catalogue.SPARK_BATCH, seconds)
        self._metrics.set(catalogue.DELIVERED_SEGMENT, batch.through)

    @contain_errors
    def measure_delivered(self, table: str, pieces: Pieces) -> None:
        """Records the rows and files that a batch has brought to a table."""
        for tier, files in ((Tier.CHANGELOG, pieces.changes), (Tier.MIRROR, pieces.rows)):
            rows, size = sum(piece.rows for piece in files), sum(piece.bytes for piece in files)
            self._metrics.count(catalogue.DELIVERED, rows, table=table, tier=tier.value)
            self._metrics.count(catalogue.DELIVERED_FILES, len(files), tier=tier.value)
            self._metrics.count(catalogue.DELIVERED_BYTES, size, tier=tier.value)
            if files:
                written = len(files) + FILES_OF_A_COMMIT
                self._metrics.count(catalogue.LAKE_FILES_WRITTEN, written, kind="deliver")

    @contain_errors
    def measure_work(self, work: BackgroundWork, seconds: float, written: WrittenFiles) -> None:
        """Records how long work beside the batches took, and what it has written."""
        if written.files:
            self._metrics.count(catalogue.LAKE_FILES_WRITTEN, written.files, kind=work.kind)
            self._metrics.count(catalogue.LAKE_REWRITTEN, written.bytes, kind=work.kind)
        if isinstance(work, MergeMirror):
            self._metrics.observe(catalogue.MERGE, seconds)
        else:
            self._metrics.observe(catalogue.MAINTENANCE, seconds, kind=work.kind)

    @contain_errors
    def _report_failures(self, was: Mapping[TableId, Failed], now: Mapping[TableId, Failed]) -> None:
        for table, each in now.items():
            if each is was.get(table):
                continue
            log.warning("a table failed in the lake", table=str(table), times=each.times, reason=each.reason)
            if each.times == TIMES_TO_TELL:
                log.error("the table was stopped", table=str(table), part="lake", reason=each.reason)
            if each.times >= TIMES_TO_TELL:
                self._metrics.set(catalogue.TABLE_STOPPED, 1, table=str(table), part="lake")

    @contain_errors
    def _measure_fact(self, fact: Fact, before: State, now: State) -> None:
        match fact:
            case TablesFound(found):
                for table in found:
                    self._measure_mirror(table, now)
            case TableDelivered(table):
                self._measure_mirror(table, now)
            case WorkDone(judgements=judgements) if (done := before.background.under_way) is not None:
                self._measure_mirror(done.work.table, now)
                self._measure_verified(judgements)
                unjudged: dict[tuple[str, ...], float] = {
                    (str(table),): times
                    for table, times in now.unjudged_in_a_row.items()
                    if self._captured.match(table)
                }
                self._metrics.replace(catalogue.UNJUDGED_IN_A_ROW, unjudged)
            case CursorFound() | GapFound() | BeginningFound() if now.so_far.ahead is None:
                self._metrics.set(catalogue.DELIVERED_SEGMENT, now.so_far.segment)
            case _:
                pass

    @contain_errors
    def _measure_verified(self, judgements: Iterable[Judgement]) -> None:
        for each in judgements:
            of = str(each.table)
            # Nobody mends these. The mirror of a dropped table is empty.
            gone = each.reason.startswith(DROPPED) or not self._captured.match(each.table)
            if gone or each.verdict is not LakeVerdict.UNJUDGED:  # what was found before may still be there
                for kind in FindingKind:
                    count = 0 if gone else each.found.get(kind, 0)
                    self._metrics.set(catalogue.FINDINGS, count, table=of, kind=kind.value)
            if each.verdict is LakeVerdict.EQUAL:
                self._metrics.set(catalogue.VERIFIED_AT, each.at, table=of)
            else:
                found = ", ".join(f"{count} {kind.value}" for kind, count in each.found.items())
                reason = "; ".join(filter(None, (found, each.reason)))
                log.warning(
                    "a verification didn't find the table equal", id=each.run, table=of, reason=reason
                )

    @contain_errors
    def _measure_mirror(self, table: TableId, state: State) -> None:
        background, name = state.background, str(table)
        since = background.rebuilding.get(table, 0.0) if self._captured.match(table) else 0.0
        self._metrics.set(catalogue.MIRROR_REBUILDING, since, table=name)
        if (mirrored := background.mirrored.get(table)) is not None:
            self._metrics.set(catalogue.MIRROR_PENDING, mirrored.pending, table=name)
        for tier in Tier:
            if (kept := background.kept.get((table, tier))) is not None:
                self._metrics.set(catalogue.FILES_COME, kept.come, table=name, tier=tier.value)
                self._metrics.set(catalogue.LAKE_FILES, kept.size.files, table=name, tier=tier.value)
