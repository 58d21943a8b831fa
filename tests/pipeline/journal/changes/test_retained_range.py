"""The first segment for which something holds is found, wherever it begins to hold."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import RetainedRange, first_segment_where, is_through
from tests.pipeline.lake.stream.entries import SOURCE, entry


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 50))
def test_it_is_found(first: int, more: int, begins: int) -> None:
    there = RetainedRange("j1", "/journal", first, first + more, 1)
    expected = next((segment for segment in range(first, first + more + 1) if segment >= begins), None)
    assert first_segment_where(there, lambda segment: segment >= begins) == expected


@pytest.mark.parametrize(
    ("place", "first"),
    [
        (20, 2),
        (21, 3),
        (GtidSet.parse(f"{SOURCE}:1-20"), 2),
        (GtidSet.parse(f"{SOURCE}:1-21"), 3),
        (GtidSet.parse(f"{SOURCE}:5:21"), 3),
    ],
)
def test_a_place_is_complete_with_the_first_segment_that_has_all_of_it(
    place: int | GtidSet, first: int
) -> None:
    reached = [is_through(entry(segment), place) for segment in range(first - 1, first + 2)]
    assert reached == [False, True, True]


def test_an_offset_of_spark_needs_neither_numba_nor_the_entries() -> None:
    said = (
        "import sys, pipeline.lake.stream.segment_offset\n"
        "print({'numba', 'pipeline.journal.entry'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, check=True).stdout == b"set()\n"
