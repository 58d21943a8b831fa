"""Where a reader's changes begin and end in the journal, and what of each segment is between."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from pipeline.errors import Definite
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.query import NamedPlace, Since, ThroughPlace
from pipeline.journal.changes.retained_range import (
    Entries,
    RetainedRange,
    first_segment_after_gtids,
    first_segment_after_scn,
    is_through,
)
from pipeline.journal.changes.row_choice import RowChoice, choose_between
from pipeline.journal.entry import Entry
from pipeline.schema.table_names import not_captured
from pipeline.schema.table_schema import TableId


class UnreachedPlace(Definite):
    """A place that the journal doesn't have yet, or that is of another journal."""


class PlaceGone(Definite):
    """The journal doesn't have the changes any more that the reader has still to read."""


class UnknownTables(Definite):
    """The journal has no columns of a table that is asked for."""


@dataclass(frozen=True, slots=True)
class ReadPlace:
    """What comes next: `segment` without its SCNs through `scn`, without the transactions in `without`."""

    segment: int
    scn: int = 0
    without: GtidSet | None = None

    def after(self, entry: Entry) -> "ReadPlace":
        """Returns the place after this segment."""
        has_passed = self.without is None or is_through(entry, self.without)
        return ReadPlace(entry.segment + 1, 0, None if has_passed else self.without)


def find_place(since: Since, there: RetainedRange, entry: Entries) -> ReadPlace:
    """Returns the place after `since`. Raises UnreachedPlace or PlaceGone."""
    match since:
        case NamedPlace.NOW:
            return ReadPlace(there.last + 1)
        case NamedPlace.EARLIEST:
            return ReadPlace(there.first)
        case int():
            return _after_scn(since, there, entry)
        case GtidSet():
            return _after_transactions(since, there, entry)
        case ChangesCheckpoint():
            return _after_checkpoint(since, there)
        case _:
            assert_never(since)


def place_gone(needed: str, there: RetainedRange) -> PlaceGone:
    """Returns the error for a reader that needs what retention has removed; `needed` says what that is."""
    return PlaceGone(
        f"since: the journal begins with segment {there.first}, whose first SCN is {there.scn}, and what comes after "
        f"{needed} has gone. Read the lake and continue as GET /bootstrap says. Or read the lake's changelog WHERE "
        f"__segment < {there.first} and continue with since={there.id}.{there.first}.0"
    )


def check_through(through: ThroughPlace | None, there: RetainedRange, entry: Entries) -> None:
    """Raises UnreachedPlace if a GTID set is of no use with this source."""
    if isinstance(through, GtidSet):
        _check_kind("through", through, there, entry)


def choose_of(entry: Entry, place: ReadPlace, through: int | GtidSet | None) -> RowChoice:
    """Returns which rows of the segment at `place` are wanted."""
    return choose_between(entry, place.scn + 1 if place.scn else None, place.without, through)


def check_tables(wanted: Iterable[TableId], known: Collection[TableId]) -> None:
    """Raises UnknownTables if a table isn't captured."""
    for table, hint in not_captured(wanted, known):
        raise UnknownTables(f"tables: {table} is no captured table; {hint}")


def _after_scn(scn: int, there: RetainedRange, entry: Entries) -> ReadPlace:
    reached = entry(there.last).last_scn if there.last else 0
    if scn > reached:
        raise UnreachedPlace(
            f"since: the SCN {scn} comes after {reached}, the journal's last one; since=now gives what comes next"
        )
    if scn < there.scn - 1 and there.first > 1:
        raise place_gone(f"the SCN {scn}", there)
    found = first_segment_after_scn(scn, there, entry)
    if found is None:
        return ReadPlace(there.last + 1)
    return ReadPlace(found, scn if entry(found).first_scn <= scn else 0)


def _after_transactions(gtids: GtidSet, there: RetainedRange, entry: Entries) -> ReadPlace:
    _check_kind("since", gtids, there, entry)
    position = entry(there.last).checkpoint.position if there.last else GtidSet()
    if not gtids <= position:
        missing = (gtids - position).on_one_line
        raise UnreachedPlace(
            f"since: the journal doesn't have {missing} yet; wait for it with GET /applied?through=journal"
        )
    found = first_segment_after_gtids(gtids, there, entry)
    if found is None:
        raise place_gone(f"{gtids.on_one_line} (as far as the journal can tell)", there)
    return ReadPlace(found, without=gtids if found <= there.last else None)


def _after_checkpoint(checkpoint: ChangesCheckpoint, there: RetainedRange) -> ReadPlace:
    if checkpoint.journal != there.id:
        raise UnreachedPlace(
            f"since: the checkpoint is of the journal {checkpoint.journal}, and this one is {there.id}; ask the "
            "service that the checkpoint is of, or begin with a GTID set"
        )
    if checkpoint.segment > there.last + (1 if checkpoint.scn == 0 else 0):
        raise UnreachedPlace(
            f"since: the checkpoint is in segment {checkpoint.segment}, and the last one is {there.last}: an older "
            "copy of the journal was restored; begin with an SCN or a GTID set"
        )
    if checkpoint.segment < there.first:
        raise place_gone(f"the checkpoint {replace(checkpoint, without=None)}", there)
    return ReadPlace(checkpoint.segment, checkpoint.scn, checkpoint.without)


def _check_kind(parameter: str, gtids: GtidSet, there: RetainedRange, entry: Entries) -> None:
    if there.last and not file_positions.are_comparable(gtids, entry(there.last).checkpoint.position):
        raise UnreachedPlace(f"{parameter}: the source has no GTIDs; give an SCN or a checkpoint")
