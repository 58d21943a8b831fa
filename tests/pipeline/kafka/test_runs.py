"""Runs of whole SCNs, none larger than it may be."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.runs import Run, divided


def runs(scns: list[int], most: int, *, split: bool = False) -> tuple[Run, ...]:
    return divided(np.array(scns, np.int64), most, split=split)


def test_runs_end_between_scns() -> None:
    assert runs([5, 3, 3, 4, 5], 3) == (Run(3, 4, 3), Run(5, 5, 2))
    assert runs([3, 4, 5], 9) == (Run(3, 5, 3),)
    assert runs([], 9) == ()


def test_an_scn_that_is_too_large_is_alone() -> None:
    assert runs([1, 2, 2, 2, 3], 2) == (Run(1, 1, 1), Run(2, 2, 3), Run(3, 3, 1))


def test_an_scn_that_was_begun_is_alone() -> None:
    assert runs([2, 2, 3, 4], 9, split=True) == (Run(2, 2, 2), Run(3, 4, 2))


@given(st.lists(st.integers(1, 12)), st.integers(1, 9), st.booleans())
def test_runs_have_every_row_once(scns: list[int], most: int, split: bool) -> None:
    found = runs(scns, most, split=split)
    assert sum(run.rows for run in found) == len(scns)
    for run in found:
        assert run.rows == sum(run.first_scn <= scn <= run.last_scn for scn in scns) > 0
        assert run.rows <= most or run.first_scn == run.last_scn
    for one, other in pairwise(found):
        assert one.last_scn < other.first_scn
        begun = split and one is found[0]
        first_of_other = sum(scn == other.first_scn for scn in scns)
        assert begun or one.rows + first_of_other > most or one.rows > most
