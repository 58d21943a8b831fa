"""The small model with two windows at once, on two ranges of one table: all that can happen to both of them.

The windows know nothing of each other, and what they emit goes into one stream. A row may move from the range of one
into the range of the other at any time: before either has been read, between the two SELECTs, or behind both.

With a third transaction the states are too many to be walked through. But what's possible for two windows is among all
pairs of what's possible for one (`pairs`), and these aren't.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.simulation.small_model import (
    ABSENT,
    Asked,
    High,
    Histories,
    Low,
    Model,
    Outcome,
    Selected,
    Server,
    emitted,
    walked,
)

# The keys of the first range; the other ones are of the second.
FIRST_RANGE = 1

Window = Asked | Low | Selected | High | Outcome | None


class State(NamedTuple):
    """`stream`: how many transactions have passed. `windows`: those of the ranges, and at last what came of them."""

    server: Server
    stream: int = 0
    windows: tuple[Window, Window] = (None, None)
    crashed: bool = False


class Walk(NamedTuple):
    """How many states there were, and the outcomes of both, each with the server's `beside` in the runs to it."""

    states: int
    outcomes: dict[tuple[Outcome, Outcome], frozenset[int]]


class TwoRanges(Model):
    """All that can happen with so many transactions, two windows at a time and one crash."""

    def both(self) -> Walk:
        """Go through all states."""
        outcomes: dict[tuple[Outcome, Outcome], set[int]] = {}
        states = 0
        for state in walked(State(Server()), self._next):
            states += 1
            match state.windows:
                case (Outcome() as one, Outcome() as other):
                    outcomes.setdefault((one, other), set()).add(state.server.beside)
        return Walk(states, {outcome: frozenset(beside) for outcome, beside in outcomes.items()})

    def _next(self, state: State) -> Iterator[State]:
        one, other = state.windows
        if isinstance(one, Outcome) and isinstance(other, Outcome):
            return
        server, stream, windows, crashed = state
        for served in self._served(server):
            yield State(served, stream, windows, crashed)
        if stream < server.log:
            yield State(server, stream + 1, windows, crashed)
        if not crashed:
            for sealed in range(stream + 1):
                yield State(server, sealed, crashed=True)
        for after in self._of(state, one):
            yield State(server, stream, (after, other), crashed)
        for after in self._of(state, other):
            yield State(server, stream, (one, after), crashed)

    def _of(self, state: State, window: Window) -> Iterator[Window]:
        match window:
            case Outcome():
                pass
            case High():
                if self.closes(window, state.stream):
                    yield Outcome(window, state.stream)
            case _:
                yield from self._window_steps(state.server, state.stream, window)


def pairs(model: Model) -> dict[tuple[Outcome, Outcome], frozenset[int]]:
    """All pairs of what can be emitted by one window, among them those of two windows in one run."""
    outcomes = model.walk().outcomes
    return {
        (one, other): shared
        for one, beside in outcomes.items()
        for other, others in outcomes.items()
        if (shared := beside & others)
    }


def violations(histories: Histories, outcome: tuple[Outcome, Outcome], beside: frozenset[int]) -> int:
    """In how many histories the rows of the two windows break the promise.

    The promise: what each emits is the source's at its place; and at each transaction's end behind both, the rows of
    both with the last change of each key that has changed since its range was asked for are the source's, no row
    missing and none under two keys.
    """
    truth = histories.rows
    wrong = np.zeros(len(histories), np.bool_)
    for each, keys in zip(outcome, _ranges(histories), strict=True):
        rows = _emitted(histories, each)[:, keys]
        wrong |= ((rows != ABSENT) & (rows != truth[:, each.at, keys])).any(axis=1)
    for end in range(max(each.at for each in outcome), histories.transactions + 1):
        wrong |= (view(histories, outcome, end) != truth[:, end]).any(axis=1)
    return int((wrong & histories.possible(beside)).sum())


def view(histories: Histories, outcome: tuple[Outcome, Outcome], end: int) -> npt.NDArray[np.int64]:
    """[h, k]: the rows of both windows and the changes since, when so many transactions have passed."""
    found = []
    for each, keys in zip(outcome, _ranges(histories), strict=True):
        rows = _emitted(histories, each)
        changed = histories.changed_in(each.window.at, end)
        found.append(np.where(changed, histories.rows[:, end], rows)[:, keys])
    return np.concatenate(found, axis=1)


@cache
def _emitted(histories: Histories, outcome: Outcome) -> npt.NDArray[np.int64]:
    return emitted(histories, outcome.window, outcome.at)


def _ranges(histories: Histories) -> tuple[slice, slice]:
    return slice(0, FIRST_RANGE), slice(FIRST_RANGE, histories.keys)
