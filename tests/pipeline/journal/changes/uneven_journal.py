"""Small journals with segments that raise no position, or no SCN, and what comes after a place in them."""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import META
from pipeline.journal.changes.place import ReadPlace
from pipeline.journal.changes.retained_range import Entries, RetainedRange
from pipeline.journal.entry import Entry
from tests.pipeline.lake.stream.entries import SOURCE, entry

# What a segment has, in its order: a transaction, one without changes (u), or a row that was read again.
_KINDS: Final = ("tt", "trt", "rtr", "tu", "ut", "uru", "ru", "u", "rr", "r", "")


@dataclass(frozen=True, slots=True)
class UnevenSegment:
    """A segment. Its things have the SCNs after `first_scn` - 1. `transactions`: of the journal, through this one."""

    segment: int
    things: str
    first_scn: int
    transactions: int

    @property
    def last_scn(self) -> int:
        return self.first_scn + len(self.things.replace("u", "")) - 1


@dataclass(frozen=True, slots=True, order=True)
class StreamThing:
    """What a reader gets of a segment: a row with its SCN, or by the SCN None the notices at the segment's end.

    `changed`: False for a transaction without changes, which it doesn't get.
    """

    segment: int
    scn: int | None
    gtid: int | None = None
    changed: bool = True


def uneven_journals() -> st.SearchStrategy[tuple[UnevenSegment, ...]]:
    """The first segment has transactions."""
    return st.lists(st.sampled_from(_KINDS), max_size=7).map(lambda kinds: _journal(("tt", *kinds)))


def _journal(kinds: tuple[str, ...]) -> tuple[UnevenSegment, ...]:
    scn, transactions, found = 1, 0, list[UnevenSegment]()
    for segment, things in enumerate(kinds, 1):
        transactions += things.count("t") + things.count("u")
        found.append(UnevenSegment(segment, things, scn, transactions))
        scn = found[-1].last_scn + 1
    return tuple(found)


def uneven_entries(journal: tuple[UnevenSegment, ...]) -> Entries:
    """The entries, as the journal seals them."""

    def of(segment: int) -> Entry:
        here, made = journal[segment - 1], entry(segment)
        position = GtidSet.parse(f"{SOURCE}:1-{here.transactions}")
        return replace(
            made,
            first_scn=here.first_scn,
            last_scn=here.last_scn,
            checkpoint=replace(made.checkpoint, position=position, scn=here.last_scn),
            position_stays=set(here.things) <= {"r"},
        )

    return of


def uneven_range(journal: tuple[UnevenSegment, ...], first: int) -> RetainedRange:
    """The journal from this segment on."""
    return RetainedRange("j1", "/journal", first, len(journal), journal[first - 1].first_scn)


def changes_in(journal: tuple[UnevenSegment, ...], here: Entry) -> pa.Table:
    """The rows of a segment."""
    rows = [each for each in _stream(journal) if each.segment == here.segment and each.scn is not None]
    gtids = [None if each.gtid is None else f"{SOURCE}:{each.gtid}" for each in rows]
    schema = pa.schema([META.field("__scn"), META.field("__gtid")])
    return pa.table([[each.scn for each in rows], gtids], schema=schema)


def after_scn(journal: tuple[UnevenSegment, ...], scn: int) -> set[StreamThing]:
    """What a reader lacks that has all through an SCN. With the last SCN of a segment it has the notices."""
    begun = {each.segment for each in journal if max(each.first_scn, each.last_scn) > scn}
    return {
        each for each in _stream(journal) if (each.segment in begun if each.scn is None else each.scn > scn)
    }


def after_gtids(journal: tuple[UnevenSegment, ...], last: int) -> set[StreamThing]:
    """What a reader lacks that has the transactions through this one, and what came until the segment's end if no
    transaction comes in between."""
    ends = next(each for each in journal if each.transactions >= last)
    complete = ends.transactions == last
    after, gtid = set[StreamThing](), 0
    for each in _with_unchanged(journal):
        if (
            gtid >= last
            and (each.gtid is None or each.changed)
            and not (complete and each.segment == ends.segment)
        ):
            after.add(each)
        gtid = each.gtid or gtid
    return after


def delivered(journal: tuple[UnevenSegment, ...], place: ReadPlace) -> set[StreamThing]:
    """What comes from a place on."""
    return {
        each
        for each in _stream(journal)
        if each.segment >= place.segment
        and not (each.segment == place.segment and each.scn is not None and each.scn <= place.scn)
        and not (
            each.gtid is not None
            and place.without is not None
            and GtidSet.parse(f"{SOURCE}:{each.gtid}") <= place.without
        )
    }


def _stream(journal: tuple[UnevenSegment, ...]) -> list[StreamThing]:
    return [each for each in _with_unchanged(journal) if each.changed]


def _with_unchanged(journal: tuple[UnevenSegment, ...]) -> list[StreamThing]:
    found, gtid = list[StreamThing](), 0
    for here in journal:
        scn = here.first_scn
        for thing in here.things:
            gtid += thing != "r"
            found.append(StreamThing(here.segment, scn, None if thing == "r" else gtid, thing != "u"))
            scn += thing != "u"
        found.append(StreamThing(here.segment, None))
    return found
