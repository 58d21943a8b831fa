"""A reader begins exactly after its place, and a place that the journal can't continue from is refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.place import (
    PlaceGone,
    ReadPlace,
    UnknownTables,
    UnreachedPlace,
    check_tables,
    choose_of,
    find_place,
)
from pipeline.journal.changes.query import NamedPlace, Since
from pipeline.journal.changes.row_choice import RowChoice
from pipeline.schema.table_schema import TableId
from tests.pipeline.journal.changes.uneven_journal import (
    UnevenSegment,
    after_gtids,
    after_scn,
    delivered,
    uneven_entries,
    uneven_journals,
    uneven_range,
)
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS, SOURCE, entry, retained

THERE = retained(3, 7)  # the SCNs 21 to 70


def gtids(last: int) -> GtidSet:
    return GtidSet.parse(f"{SOURCE}:1-{last}")


@given(st.integers(20, 70))
def test_an_scn_leaves_exactly_what_comes_after_it(scn: int) -> None:
    place = find_place(scn, THERE, entry)
    read = [
        each
        for segment in range(place.segment, THERE.last + 1)
        for each in range(entry(segment).first_scn, entry(segment).last_scn + 1)
        if segment > place.segment or each > place.scn
    ]
    assert read == list(range(scn + 1, 71))


@given(st.integers(31, 70))
def test_a_gtid_set_begins_with_the_first_segment_that_has_others(last: int) -> None:
    place = find_place(gtids(last), THERE, entry)
    assert place.segment == last // 10 + 1
    if place.segment <= THERE.last:
        assert choose_of(entry(place.segment), place, None).without == str(gtids(last))
        assert place.after(entry(place.segment)) == ReadPlace(place.segment + 1)


@given(uneven_journals(), st.data())
def test_a_gtid_set_leaves_nothing_out_that_comes_after_it(
    journal: tuple[UnevenSegment, ...], data: st.DataObject
) -> None:
    """Several segments may have one position: rows that were read again have no GTID, and nor have notices."""
    last = data.draw(st.integers(1, journal[-1].transactions))
    first = data.draw(st.integers(1, len(journal)))
    since, needed = gtids(last), after_gtids(journal, last)
    begins = min((each.segment for each in needed), default=len(journal) + 1)
    there = uneven_range(journal, first)
    try:
        place = find_place(since, there, uneven_entries(journal))
    except PlaceGone:
        assert 1 < first >= begins
        return
    got = delivered(journal, place)
    assert needed <= got
    assert [each for each in got if each.gtid and each.gtid <= last] == []
    assert first == 1 or first < begins
    assert place.segment == begins


@given(uneven_journals(), st.data())
def test_an_scn_leaves_nothing_out_that_comes_after_it(
    journal: tuple[UnevenSegment, ...], data: st.DataObject
) -> None:
    scn = data.draw(st.integers(0, journal[-1].last_scn))
    place = find_place(scn, uneven_range(journal, 1), uneven_entries(journal))
    assert delivered(journal, place) == after_scn(journal, scn)


def test_transactions_that_may_still_come_stay_excluded() -> None:
    place = ReadPlace(4, 0, gtids(55))
    assert place.after(entry(4)) == ReadPlace(5, 0, gtids(55))
    assert place.after(entry(6)) == ReadPlace(7)


@pytest.mark.parametrize(
    ("since", "place"),
    [
        (NamedPlace.NOW, ReadPlace(8)),
        (NamedPlace.EARLIEST, ReadPlace(3)),
        (ChangesCheckpoint("j1", 5, 44, gtids(60)), ReadPlace(5, 44, gtids(60))),
        (ChangesCheckpoint("j1", 8), ReadPlace(8)),
    ],
)
def test_other_places(since: Since, place: ReadPlace) -> None:
    assert find_place(since, THERE, entry) == place


@pytest.mark.parametrize(
    ("since", "error", "said"),
    [
        (71, UnreachedPlace, "the SCN 71 comes after 70, the journal's last one; since=now"),
        (19, PlaceGone, "begins with segment 3, whose first SCN is 21.*the SCN 19 has gone.*since=j1.3.0"),
        (gtids(71), UnreachedPlace, "doesn't have 3e11fa47-71ca-11e1-9e33-c80aa9429562:71 yet"),
        (gtids(15), PlaceGone, "what comes after 3e11fa47.* has gone"),
        (ChangesCheckpoint("j2", 5), UnreachedPlace, "the journal j2, and this one is j1"),
        (ChangesCheckpoint("j1", 8, 75), UnreachedPlace, "in segment 8, and the last one is 7"),
        (ChangesCheckpoint("j1", 2, 14), PlaceGone, "the checkpoint j1.2.14 has gone"),
    ],
)
def test_a_place_that_is_not_there_is_named(since: Since, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        find_place(since, THERE, entry)


def test_the_end_cuts_the_last_segment() -> None:
    place = ReadPlace(5, 43)
    assert choose_of(entry(5), place, 47) == RowChoice(44, 47)
    assert choose_of(entry(5), place, 50) == RowChoice(44)
    assert choose_of(entry(5), ReadPlace(5), gtids(47)) == RowChoice(only=str(gtids(47)))


def test_a_table_that_is_not_captured_is_named() -> None:
    known = (ORDERS.table, ITEMS.table)
    check_tables(known, known)
    with pytest.raises(UnknownTables, match=r"shop.order is no captured table; did you mean shop.orders\?"):
        check_tables((TableId("shop", "order"),), known)
