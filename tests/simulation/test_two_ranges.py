"""Two windows at once, on two ranges of one table, between which rows move: all that can happen, walked through."""

from collections.abc import Mapping

import numpy as np
import pytest

from pipeline.coordinator import window
from tests.simulation import small_model
from tests.simulation.small_model import Histories, Model, Outcome
from tests.simulation.two_ranges import FIRST_RANGE, TwoRanges, Walk, pairs, violations

Outcomes = Mapping[tuple[Outcome, Outcome], frozenset[int]]

TRANSACTIONS = 2
KEYS = 3


@pytest.fixture(scope="module")
def walk() -> Walk:
    """Every way in which the chunks of two ranges can be emitted while two transactions happen."""
    return TwoRanges(TRANSACTIONS).both()


def first_violation(histories: Histories, outcomes: Outcomes) -> tuple[Outcome, Outcome] | None:
    return next((o for o, beside in sorted(outcomes.items()) if violations(histories, o, beside)), None)


def test_two_windows_keep_the_promise_whatever_moves_between_them(walk: Walk) -> None:
    assert first_violation(Histories(KEYS, TRANSACTIONS), walk.outcomes) is None


def test_any_two_outcomes_keep_the_promise_together() -> None:
    assert first_violation(Histories(2, 3), pairs(Model(3))) is None


def test_the_walk_is_as_large_as_it_should_be(walk: Walk) -> None:
    both = [(one.window, other.window) for one, other in walk.outcomes]
    assert any(one.seen == 0 and other.seen == 3 for one, other in both), (
        "all happened between the two SELECTs"
    )
    assert any(one.came <= other.at for one, other in both), "one after the other"
    assert any(one.at < other.came and other.at < one.came for one, other in both), "both at once"
    assert set(walk.outcomes) <= pairs(Model(TRANSACTIONS)).keys()
    assert walk.states == 131_016


def test_rows_move_between_the_ranges() -> None:
    touched = Histories(KEYS, TRANSACTIONS).touched
    first, second = touched[:, :, :FIRST_RANGE].any(axis=2), touched[:, :, FIRST_RANGE:].any(axis=2)
    assert (first & second).any()


# Each rule left out


def test_emitting_whole_chunks_breaks_the_promise(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "untouched_rows", lambda closing: closing.rows)
    assert first_violation(Histories(KEYS, TRANSACTIONS), walk.outcomes) is not None


def test_forgetting_where_a_row_came_from_breaks_the_promise(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that moves is told to the window of its new key alone."""
    histories = Histories(KEYS, TRANSACTIONS)
    after = histories.rows[:, 1:] != small_model.ABSENT
    told = Histories(KEYS, TRANSACTIONS)
    moves = histories.touched.sum(axis=2, keepdims=True) > 1
    told.touched = np.where(moves, histories.touched & after, histories.touched)
    original = small_model._passed
    monkeypatch.setattr(small_model, "_passed", lambda _histories, i: original(told, i))
    assert first_violation(histories, walk.outcomes) is not None
