"""An SCN of Databus names its journal, and has the order of the journal's own."""

import json

import pytest

from pipeline.journal.changes.query import NamedPlace
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus.stream_query import WindowPlace
from pipeline.kafka.databus.window_scn import ForeignWindow, first_window, own_place, own_scn

JOURNALS = [f"{number:032x}" for number in range(200)]


def test_an_scn_is_exact_as_a_double_and_has_the_journals_generation() -> None:
    begins = [first_window(journal) for journal in JOURNALS]
    assert len(set(begins)) > 190, "of 4095 generations"
    for journal, begin in zip(JOURNALS, begins, strict=True):
        assert 0 < begin < begin + (1 << 41) <= 1 << 53
        for scn in (0, 7, (1 << 41) - 1):
            assert own_scn(begin + scn, journal) == own_scn(scn, journal) == scn
            assert json.loads(json.dumps(begin + scn), parse_int=float) == begin + scn
    for other in set(begins) - {begins[0]}:
        with pytest.raises(ForeignWindow, match=f"the SCN {other + 7} is of another journal"):
            own_scn(other + 7, JOURNALS[0])


def test_a_place_has_the_journals_own_scns() -> None:
    journal, begin = JOURNALS[0], first_window(JOURNALS[0])
    for plain in (WindowPlace(0), WindowPlace(345), WindowPlace(344, 345, 2), WindowPlace(0, 1, 2)):
        assert isinstance(plain.since, int)
        first = begin + plain.first if plain.first else 0
        assert own_place(WindowPlace(begin + plain.since, first, plain.skipped), journal) == plain
        assert own_place(plain, journal) == plain
    assert own_place(WindowPlace(NamedPlace.EARLIEST), journal) == WindowPlace(NamedPlace.EARLIEST)
    with pytest.raises(MalformedRequest, match="windowOffset has to be -1"):
        own_place(WindowPlace(begin - 1, begin, 2), journal)
