"""Which ended snapshots the checkpoint remembers."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipeline.coordinator.state import State, with_checkpoint
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling, Mirror
from pipeline.snapshot.snapshot import Snapshot, SnapshotFailed, SnapshotStopped, is_dropped

# How many ended snapshots the checkpoint keeps, and how many ended verifications, beyond those that say why a mirror
# lacks rows.
SNAPSHOTS_REMEMBERED = 10


def forget_old_snapshots(state: State) -> State:
    """Returns the state without the snapshots that ended long ago, in which the ends since are numbered.

    What has ended since stays, however much it is: no checkpoint has its end yet. The ends of verifications count by
    themselves, because the lake compares their rows later. A snapshot that failed, or that a signal stopped, stays
    while a mirror lacks rows because of that. So its alert lasts, and no statement begins again what was stopped. If
    the table was dropped, nothing is lacking.
    """
    before = state.checkpoint.snapshots
    known = max((snapshot.end_number for snapshot in before), default=0)
    snapshots = _number_ends(before, known)
    old = {snapshot.id for snapshot in _beyond_remembered(snapshots) if snapshot.end_number <= known}
    if old:
        reads = (snapshot for snapshot in snapshots if snapshot.verification is None)
        last = {table: snapshot.id for snapshot in reads for table in snapshot.tables}
        mirrors = state.checkpoint.mirrors
        snapshots = tuple(s for s in snapshots if s.id not in old or _explains_lack(s, last, mirrors))
    return state if snapshots == before else with_checkpoint(state, snapshots=snapshots)


def _number_ends(snapshots: tuple[Snapshot, ...], known: int) -> tuple[Snapshot, ...]:
    """Returns the snapshots with the numbers of their ends. So many (`known`) are given, and 0 is that of no end."""
    numbers = itertools.count(known + 1)
    return tuple(
        replace(snapshot, end_number=next(numbers) if snapshot.ended else 0)
        if snapshot.ended is not (snapshot.end_number > 0)
        else snapshot
        for snapshot in snapshots
    )


def _beyond_remembered(snapshots: tuple[Snapshot, ...]) -> Iterator[Snapshot]:
    """Yields the ended snapshots, and the ended verifications, except the last ones that ended."""
    by_end = sorted((snapshot for snapshot in snapshots if snapshot.ended), key=lambda each: each.end_number)
    yield from [each for each in by_end if each.verification is None][:-SNAPSHOTS_REMEMBERED]
    yield from [each for each in by_end if each.verification is not None][:-SNAPSHOTS_REMEMBERED]


def _explains_lack(ended: Snapshot, last: Mapping[TableId, str], mirrors: Mapping[TableId, Mirror]) -> bool:
    """Returns whether a mirror lacks rows because of it; `last`: the id of each table's last snapshot.

    A verification of the table, which says that the mirror isn't complete, is none.
    """
    return any(
        isinstance(state, SnapshotStopped | SnapshotFailed)
        and not is_dropped(state)
        and isinstance(mirrors.get(table), Filling)
        and last.get(table) == ended.id
        for table, state in ended.tables.items()
    )
