"""Verifications, on the lake's side: what is compared, when, and what the result is.

**What is compared.** A file of a verification has rows that the source had, each at an SCN s
(`pipeline.coordinator.verification.comparability`). Let b be a segment through which the lake has everything, and s in
a segment up to b. A key without a change in (s, b] has at b the row that it had at s. So the live view at b has exactly
this row, or it is wrong. Keys with a change after s are left out. So it doesn't matter how late the comparison comes,
and what was merged before it.

**What is too much.** A verification of a table begins after the SCN `since`. Each of its chunks sees all changes up to
there. Take a key of the live view at b without a change after `since`. If the live view is right, the source had the
row all the time. Then the chunk of its range returned it, and no change superseded it, so its key is among those that
the verification has read. A key that isn't among them is extra. This needs no order of keys, so any collation will do.
The keys that were read lie beside the lake until the table's verification ends, keys only.

**What can't be judged**: files of another schema than the live view's, and a verification of a mirror that has begun
again since. Nor can one that capture ended with a reason.

**What is repaired.** A verification may have a repair (`pipeline.coordinator.verification.repair`). The sink reports
the keys of what it found, batch by batch, and repeats a report until the checkpoint has the batch. If it can't read
them, it tries a few times, and other repairs come first. Then it reports why, and the repair ends. The rows that
capture reads to compare them have a run of their own. A key without a row is among them, with its SCN s too. So the
first argument holds for it: at b the live view has no row of it. The result of this second run is the repair's result.

The comparison is work beside the batches (`pipeline.lake.background`). It reads versions of the two lake tables that
belong together, so neither batches nor merges disturb it. Changes after `since` aren't trimmed until it ends.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pipeline.errors import Backoff
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import (
    DROPPED,
    REPAIRED,
    VERIFIED_ALREADY,
    Chunking,
    Completed,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
    progress,
)

# So many rows of a table are compared at once, or those of so many bytes, unless they wait so long (s). If that is all
# of it, one query is enough. Otherwise each comparison keeps its keys, and another query looks for what only the lake
# has: with ten million rows that takes minutes, where one query takes half of one.
ROWS_AT_ONCE: Final = 16_000_000
BYTES_AT_ONCE: Final = 2 << 30
LONGEST_RUN_WAIT_S: Final = 600.0

# From the beginning of a comparison to that of the next one that BYTES_AT_ONCE make due: so many times what it took,
# and LONGEST_RUN_WAIT_S at most. So it leaves most of the time to the other work. Where bytes come fast, each
# comparison would take longer than the one before it. So MOST_BYTES don't wait. More lies beside the lake only where it
# comes while the next comparison waits for its turn and runs.
_TIMES_TAKEN: Final = 4
MOST_BYTES: Final = 4 * BYTES_AT_ONCE

# So often the keys of a batch to repair are tried, with these pauses. Then the repair ends.
MOST_FINDINGS_TRIES: Final = 5
_FINDINGS_BACKOFF: Final = Backoff(1.0, 60.0)

# Why nothing can be told.
NO_MIRROR: Final = "the lake has no complete mirror of the table, or gets nothing more of it"
MIRROR_CHANGED: Final = "the table's mirror has begun again: verify it once that is complete"
COLUMNS_CHANGED: Final = "the table's columns have changed meanwhile: verify it again"
ROWS_LOST: Final = "rows that it read are no longer there: verify the table again"
STOPPED: Final = "a signal stopped it"


class LakeVerdict(StrEnum):
    """The result of a verification of a table."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNJUDGED = "unjudged"


class FindingKind(StrEnum):
    """How a row of the lake differs from the source's."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class VerificationRun:
    """The verification of one table, as capture has it: `run` is the id of its signal.

    `ended`: whether all chunks are in the stream. `reason`: why it ended without them; empty if it didn't. `rows`:
    those that capture has read and no change superseded. `narrowed`: whether only some rows are read. `of`: of the run
    that compares what a repair has read again, the verification. `awaits`: the batch of keys that the repair needs
    next; None if it needs none.
    """

    run: str
    table: TableId
    since: int
    narrowed: bool
    ended: bool
    reason: str
    rows: int
    of: str | None = None
    awaits: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for one table: a statement about its rows at `position`, a GTID set.

    `found` counts the findings by their kind. `at`: when it was judged (s since the epoch). `reason`: why there is no
    result, or empty.
    """

    run: str
    table: TableId
    verdict: LakeVerdict
    rows: int
    found: Mapping[FindingKind, int]
    position: str
    at: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows of a table that lie beside the lake to be compared, and when (s) the first of them came.

    `bytes`: of the journal's files that brought them. `took`: how long (s) the comparison took that began at `since`; 0
    if there was none.
    """

    rows: int
    since: float
    bytes: int = 0
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class UnreadFindings:
    """The keys of a batch to repair couldn't be read, for this reason, so many `times`.

    `again`: when (s) they are requested again.
    """

    reason: str
    times: int
    again: float


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What the sink knows of verifications: rows that wait, and the results by run and table.

    `unread`: the repairs whose next batch of keys couldn't be read. `in_a_row`: how many verifications of a table were
    unjudged since the last one that wasn't (`_in_a_row`).
    """

    pending: Mapping[TableId, PendingRows] = field(default_factory=dict)
    judged: Mapping[tuple[str, TableId], Judgement] = field(default_factory=dict)
    unread: Mapping[VerificationRun, UnreadFindings] = field(default_factory=dict)
    in_a_row: Mapping[TableId, int] = field(default_factory=dict)

    def with_rows(self, table: TableId, rows: int, now: float, bytes_: int = 0) -> "Comparisons":
        """Returns it with more rows of a table that wait, from files with so many bytes."""
        if not rows:
            return self
        known = self.pending.get(table)
        waiting = PendingRows(rows, now, bytes_)
        if known is not None:
            waiting = replace(known, rows=known.rows + rows, bytes=known.bytes + bytes_)
        return replace(self, pending={**self.pending, table: waiting})

    def compared(
        self,
        table: TableId,
        rows: int,
        began: float,
        judgements: Iterable[Judgement],
        bytes_: int = 0,
        took: float = 0.0,
    ) -> "Comparisons":
        """Returns it after a comparison that `began` (s) with so many rows, from files with so many bytes, and `took`
        so long (s).

        `judgements`: the results for the table, the earliest first.
        """
        pending = {other: waiting for other, waiting in self.pending.items() if other != table}
        waited = self.pending.get(table)
        if waited is not None and waited.rows > rows:
            pending[table] = PendingRows(waited.rows - rows, began, waited.bytes - bytes_, took)
        judged, times = dict(self.judged), self.in_a_row.get(table, 0)
        for each in judgements:
            judged[each.run, each.table] = each
            times = _in_a_row(times, each)
        return replace(self, pending=pending, judged=judged, in_a_row={**self.in_a_row, table: times})

    def only(self, runs: Sequence[VerificationRun]) -> "Comparisons":
        """Returns it without what belongs to other runs, or to tables without any."""
        known, tables = {(each.run, each.table) for each in runs}, {each.table for each in runs}
        of_known = self.judged.keys() <= known and all(run in runs for run in self.unread)
        if of_known and self.in_a_row.keys() <= tables:
            return self
        return replace(
            self,
            judged={of: each for of, each in self.judged.items() if of in known},
            unread={run: each for run, each in self.unread.items() if run in runs},
            in_a_row={table: times for table, times in self.in_a_row.items() if table in tables},
        )

    def findings_failed(self, run: VerificationRun, reason: str, now: float) -> "Comparisons":
        """Returns it after the keys of a repair's next batch couldn't be read."""
        times = self.unread[run].times + 1 if run in self.unread else 1
        failed = UnreadFindings(reason, times, now + _FINDINGS_BACKOFF.pause_s(times))
        return replace(self, unread={**self.unread, run: failed})

    def requested_again(self, now: float) -> "Comparisons":
        """Returns it after the requests that are due again were made: unless they succeed, they come again later."""
        after = {
            run: each
            if each.again > now
            else replace(each, again=now + _FINDINGS_BACKOFF.pause_s(each.times))
            for run, each in self.unread.items()
        }
        return replace(self, unread=after)

    def rests(self, run: VerificationRun, now: float) -> bool:
        """Returns whether a repair's request pauses after a failure."""
        return run in self.unread and self.unread[run].again > now

    def given_up(self, run: VerificationRun) -> str:
        """Returns why a repair's keys aren't tried any more; an empty text if they are."""
        failed = self.unread.get(run)
        return "" if failed is None or failed.times < MOST_FINDINGS_TRIES else failed.reason

    def unjudged(self, runs: Iterable[VerificationRun], table: TableId) -> tuple[VerificationRun, ...]:
        """Returns those of the runs that are about a table and have no result."""
        return tuple(run for run in runs if run.table == table and (run.run, table) not in self.judged)


def runs_of(checkpoint: Checkpoint) -> tuple[VerificationRun, ...]:
    """Returns the verifications that a checkpoint knows, table by table."""
    return tuple(
        run
        for snapshot in checkpoint.snapshots
        if (verification := snapshot.verification) is not None
        for table, state in snapshot.tables.items()
        for run in _runs(snapshot, verification, table, state)
    )


@dataclass(frozen=True, slots=True)
class TableResult:
    """The result of a verification of a table, and of its repair: None if it has or needs none."""

    found: Judgement
    repaired: Judgement | None = None


def results(
    runs: Sequence[VerificationRun], comparisons: Comparisons
) -> dict[tuple[str, TableId], TableResult | None]:
    """Returns what is known of each verification of a table: None until it has a result and its repair has ended."""
    judged = comparisons.judged
    repairs = {(run.of, run.table): judged.get((run.run, run.table)) for run in runs if run.of is not None}
    found: dict[tuple[str, TableId], TableResult | None] = {}
    for run in runs:
        if run.of is None:
            of = run.run, run.table
            first, under_way = judged.get(of), run.awaits is not None or (of in repairs and not repairs[of])
            if first is None or under_way:
                found[of] = None
            else:
                reason = first.reason or run.reason  # a repair that ended early has a reason too
                found[of] = TableResult(replace(first, reason=reason), repairs.get(of))
    return found


def repairs_due(
    runs: Iterable[VerificationRun], comparisons: Comparisons, incomplete: Collection[TableId]
) -> Iterator[VerificationRun]:
    """Yields the runs whose repair needs keys, except those of tables that lack something in the lake."""
    for run in runs:
        judged = (run.run, run.table) in comparisons.judged
        if judged and run.awaits is not None and run.table not in incomplete:
            yield run


def comparison_due_at(pending: PendingRows | None, *, ended: bool) -> float | None:
    """Returns when (s) a table's rows are to be compared; None if there's nothing to do.

    BYTES_AT_ONCE wait until four times what the last comparison took has passed since it began. MOST_BYTES wait for
    nothing, and neither do ROWS_AT_ONCE.

    `ended`: whether a verification of the table has ended that isn't judged.
    """
    if ended:
        return float("-inf")
    if pending is None or not pending.rows:
        return None
    if pending.rows >= ROWS_AT_ONCE or pending.bytes >= MOST_BYTES:
        return float("-inf")
    many = pending.bytes >= BYTES_AT_ONCE
    wait = min(_TIMES_TAKEN * pending.took, LONGEST_RUN_WAIT_S) if many else LONGEST_RUN_WAIT_S
    return pending.since + wait


def _in_a_row(times: int, last: Judgement) -> int:
    """Returns how many verifications of a table in a row were unjudged, after one more.

    One that left the table to another one doesn't count. A table that was dropped isn't waiting for a result.
    """
    if last.verdict is not LakeVerdict.UNJUDGED or last.reason.startswith(DROPPED):
        return 0
    return times if last.reason.startswith(VERIFIED_ALREADY) else times + 1


def _runs(
    snapshot: Snapshot, verification: Verification, table: TableId, state: TableSnapshot
) -> tuple[VerificationRun, ...]:
    """Returns the run of a table's verification, and that of its repair if it has begun."""
    first = _first_run(snapshot, verification, table, state)
    if not isinstance(state, Repairing | Completed) or not state.batches:
        return (first,)
    repair = replace(
        first,
        run=f"{snapshot.id}{REPAIRED}",
        narrowed=True,
        ended=isinstance(state, Completed),
        rows=state.reread,
        of=snapshot.id,
        awaits=None,
    )
    return first, repair


def _first_run(
    snapshot: Snapshot, verification: Verification, table: TableId, state: TableSnapshot
) -> VerificationRun:
    match state:
        case SnapshotFailed(reason):
            pass
        case SnapshotStopped():
            reason = STOPPED
        case _:
            reason = ""
    return VerificationRun(
        snapshot.id,
        table,
        verification.since,
        table in verification.narrowed,
        not isinstance(state, SnapshotWaiting | Chunking),
        reason,
        progress(state).rows,
        awaits=state.batches + 1 if isinstance(state, Repairing) else None,
    )
