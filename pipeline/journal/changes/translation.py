"""What a place in the journal is in its other forms: as an SCN, as a GTID set, and as a checkpoint.

**SCN to GTID set.** A segment's position has all of its transactions. Less those that have changes after the SCN, it's
the set of a reader that has everything through the SCN. If none has, the segment may still have rows without a GTID
there, or notices at its end. Its position says that they have come. So the set is the position before it then.

**GTID set to SCN.** A set may have transactions of several servers, mixed with others in the stream. The SCN is the one
before the first change that the set lacks. A row that was read again has no GTID, so no set has it. A reader that
continues there misses nothing. `beyond` are the set's transactions that may come again then. The checkpoint leaves
these out, so it is exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.place import ReadPlace, find_place
from pipeline.journal.changes.query import Since, parse_since
from pipeline.journal.changes.retained_range import Entries, RetainedRange
from pipeline.journal.changes.row_choice import are_in, gtid_set_of
from pipeline.journal.entry import Entry
from pipeline.journal.request_parameters import MalformedRequest, check_names

# Returns `__scn` and `__gtid` of the changes in a segment, in any order.
ChangesOf = Callable[[Entry], pa.Table]


@dataclass(frozen=True, slots=True)
class Translation:
    """A place: everything through `scn`, which is everything in `gtid_set`; None if no set says it.

    That is so for a source without GTIDs, and before rows without a GTID in the first segment that the journal has.
    """

    scn: int
    gtid_set: GtidSet | None
    beyond: GtidSet
    checkpoint: ChangesCheckpoint


def parse_translated_place(parameters: Mapping[str, str]) -> Since:
    """Returns the place that a request for its translation names. Raises MalformedRequest."""
    check_names(parameters, "since")
    if "since" not in parameters:
        raise MalformedRequest("since: it is missing; give an SCN, a GTID set, a checkpoint, now or earliest")
    return parse_since(parameters["since"])


def translate(since: Since, there: RetainedRange, entry: Entries, changes_of: ChangesOf) -> Translation:
    """Returns the other forms of a place. Raises UnreachedPlace or PlaceGone, as `find_place` does."""
    place = find_place(since, there, entry)
    checkpoint = ChangesCheckpoint(there.id, place.segment, place.scn, place.without)
    if place.segment > there.last:
        last = entry(there.last)
        return Translation(last.last_scn, _named(last.checkpoint.position), GtidSet(), checkpoint)
    here = entry(place.segment)
    changes = changes_of(here)
    scn = _through(here, place, changes)
    after = changes.filter(pa.array(changes["__scn"].to_numpy() > scn))
    position = _named(here.checkpoint.position)
    through = None if position is None else position - gtid_set_of(after["__gtid"].combine_chunks())
    if position is not None and through == position:
        through = _before(here, there, entry, changes)
    beyond = (place.without or GtidSet()) - (through or GtidSet())
    return Translation(scn, through, beyond, checkpoint)


def _before(here: Entry, there: RetainedRange, entry: Entries, changes: pa.Table) -> GtidSet | None:
    """Returns the position before a segment, as far as the journal can tell."""
    if here.segment > there.first:
        return entry(here.segment - 1).checkpoint.position
    without = here.checkpoint.position - gtid_set_of(changes["__gtid"].combine_chunks())
    return None if without == here.checkpoint.position else without


def _through(here: Entry, place: ReadPlace, changes: pa.Table) -> int:
    """Returns the last SCN of the segment with which no change has come that the place lacks."""
    first = max(place.scn, here.first_scn - 1)
    if place.without is None or not len(changes):
        return first
    scn = changes["__scn"].to_numpy()
    had = are_in(changes["__gtid"].combine_chunks(), place.without, False)
    lacked = scn[~had & (scn > first)]
    return int(np.min(lacked)) - 1 if len(lacked) else here.last_scn


def _named(position: GtidSet) -> GtidSet | None:
    """Returns a position as a GTID set; None if it has places in a log without GTIDs."""
    return None if file_positions.server_of(position) is not None else position
