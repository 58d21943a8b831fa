"""A place's other forms are the same place: they begin with the same changes."""

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.file_positions import all_before
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import META
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.place import PlaceGone, UnreachedPlace, find_place
from pipeline.journal.changes.query import NamedPlace, Since
from pipeline.journal.changes.translation import Translation, parse_translated_place, translate
from pipeline.journal.entry import Entry
from pipeline.journal.request_parameters import MalformedRequest
from tests.pipeline.journal.changes.uneven_journal import (
    StreamThing,
    UnevenSegment,
    changes_in,
    delivered,
    uneven_entries,
    uneven_journals,
    uneven_range,
)
from tests.pipeline.lake.stream.entries import SOURCE, entry, retained

THERE = retained(3, 7)  # the SCNs 21 to 70
NONE = GtidSet()


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(f"{SOURCE}:{text}")


def changes_of(here: Entry) -> pa.Table:
    """Each transaction has a change, but for those whose number ends with 9; the last ones come first."""
    scns = [scn for scn in range(here.last_scn, here.first_scn - 1, -1) if scn % 10 != 9]
    schema = pa.schema([META.field("__scn"), META.field("__gtid")])
    return pa.table([scns, [f"{SOURCE}:{scn}" for scn in scns]], schema=schema)


def translated(since: Since) -> Translation:
    return translate(since, THERE, entry, changes_of)


@given(st.integers(20, 70).filter(lambda scn: scn % 10 not in (8, 9)))
def test_an_scn_and_its_gtid_set_are_one_place(scn: int) -> None:
    found = translated(scn)
    assert (found.scn, found.beyond) == (scn, NONE)
    # The transactions without a change don't matter, so the set may have them early.
    assert gtids(f"1-{scn}") <= (found.gtid_set or NONE)
    assert (found.gtid_set or NONE) - gtids(f"1-{scn}") <= gtids("29,39,49,59,69".replace(",", ":"))
    for form in (found.checkpoint, found.gtid_set):
        assert form is not None
        if scn > 30:
            assert translated(form).scn == scn


@given(uneven_journals(), st.data())
def test_no_form_of_a_place_leaves_out_what_comes_after_it(
    journal: tuple[UnevenSegment, ...], data: st.DataObject
) -> None:
    """Also where segments raise no position, or no SCN, or only transactions without changes raise it."""
    first = data.draw(st.integers(1, len(journal)))
    there, entries = uneven_range(journal, first), uneven_entries(journal)
    since: Since = data.draw(
        st.integers(there.scn - 1, journal[-1].last_scn)
        | st.integers(first, len(journal) + 1).map(lambda segment: ChangesCheckpoint("j1", segment))
        | st.integers(1, journal[-1].transactions).map(lambda last: gtids(f"1-{last}"))
    )
    try:
        place = find_place(since, there, entries)
    except PlaceGone:
        return
    needed = delivered(journal, place)
    found = translate(since, there, entries, partial(changes_in, journal))
    assert delivered(journal, find_place(found.checkpoint, there, entries)) == needed
    here = journal[min(place.segment, len(journal)) - 1]
    if "t" in here.things and (found.scn, found.checkpoint.segment) == (here.last_scn, here.segment):
        # All rows of the segment have come. The SCN with which it ends says that of its notices too.
        needed -= {StreamThing(here.segment, None)}
    # Only the journal's first segment doesn't say what the position was before it.
    assert found.gtid_set is not None or found.checkpoint.segment == first
    for form in (found.scn, found.gtid_set or found.scn):
        try:
            assert needed <= delivered(journal, find_place(form, there, entries))
        except PlaceGone:
            assert form == found.gtid_set
            assert first > 1


def test_a_set_with_gaps_has_the_scn_before_the_first_one_that_it_lacks() -> None:
    found = translated(gtids("1-43:46:48"))
    assert (found.scn, found.gtid_set) == (43, gtids("1-43:49"))
    assert found.beyond == gtids("46:48")
    assert found.checkpoint == ChangesCheckpoint("j1", 5, 0, gtids("1-43:46:48"))


def test_what_only_transactions_without_changes_lack_is_the_end_of_the_segment() -> None:
    assert translated(gtids("1-48:50")).scn == 50


def test_a_checkpoint_that_leaves_transactions_out() -> None:
    found = translated(ChangesCheckpoint("j1", 5, 42, gtids("44")))
    assert (found.scn, found.beyond) == (42, gtids("44"))


@pytest.mark.parametrize(("since", "scn"), [(NamedPlace.NOW, 70), (NamedPlace.EARLIEST, 20), (70, 70)])
def test_both_ends(since: Since, scn: int) -> None:
    assert translated(since).scn == scn


def test_a_source_without_gtids_has_no_set() -> None:
    place = all_before(SOURCE, Coordinates("binlog.000001", 400))

    def without(segment: int) -> Entry:
        return replace(entry(segment), checkpoint=replace(entry(segment).checkpoint, position=place))

    for since in (44, NamedPlace.NOW):
        assert translate(since, THERE, without, changes_of).gtid_set is None


@pytest.mark.parametrize(
    ("since", "error", "said"),
    [
        (71, UnreachedPlace, "the SCN 71 comes after 70"),
        (19, PlaceGone, "what comes after the SCN 19 has gone"),
        (gtids("1-15"), PlaceGone, "has gone"),
        (gtids("1-71"), UnreachedPlace, "doesn't have .*:71 yet"),
    ],
)
def test_a_place_that_is_not_there_is_named(since: Since, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        translated(since)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "since: it is missing; give an SCN"),
        ({"scn": "7"}, "scn: there is no such parameter; there is since"),
        ({"since": "7x"}, "since: '7x' is no place in the journal"),
        ({"since": "a.b.c"}, "since: 'a.b.c' is no checkpoint"),
    ],
)
def test_a_wrong_request_is_named(asked: dict[str, str], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_translated_place(asked)


def test_each_form_can_be_asked_for() -> None:
    assert parse_translated_place({"since": "44"}) == 44
    assert parse_translated_place({"since": f"{SOURCE}:1-44"}) == gtids("1-44")
    assert parse_translated_place({"since": "j1.5.44"}) == ChangesCheckpoint("j1", 5, 44)
