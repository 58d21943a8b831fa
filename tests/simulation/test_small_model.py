"""The window rule, proven for everything that can happen with few keys and few transactions."""

from math import factorial

import numpy as np
import pytest

from pipeline.coordinator import window
from tests.simulation.small_model import (
    ABSENT,
    High,
    Histories,
    Model,
    Outcome,
    Server,
    SetModel,
    Walk,
    emitted,
    pair,
)

TRANSACTIONS = 4
KEYS = 2


@pytest.fixture(scope="module")
def histories() -> Histories:
    """Every history of two keys through four transactions, from every start."""
    return Histories(KEYS, TRANSACTIONS)


@pytest.fixture(scope="module")
def walk() -> Walk:
    """Every way in which a chunk can be emitted while four transactions happen."""
    return Model(TRANSACTIONS).walk()


def violations(histories: Histories, outcome: Outcome, beside: frozenset[int]) -> int:
    """In how many histories the outcome breaks the promise.

    The promise: a row that's emitted equals the source's row at that very position; and from there on, at each
    transaction's end, the rows emitted with the last change of each key that has changed since the chunk was asked
    for are the source's rows.
    """
    chunk = outcome.window
    rows = emitted(histories, chunk, outcome.at)
    truth = histories.rows
    wrong = ((rows != ABSENT) & (rows != truth[:, outcome.at])).any(axis=1)
    for end in range(outcome.at, histories.transactions + 1):
        view = np.where(histories.changed_in(chunk.at, end), truth[:, end], rows)
        wrong |= (view != truth[:, end]).any(axis=1)
    return int((wrong & histories.possible(beside)).sum())


def first_violation(histories: Histories, walk: Walk) -> Outcome | None:
    """The outcome that breaks the promise, the simplest first."""
    return next((o for o, beside in sorted(walk.outcomes.items()) if violations(histories, o, beside)), None)


def test_nothing_that_can_happen_breaks_the_promise(walk: Walk, histories: Histories) -> None:
    assert first_violation(histories, walk) is None


def test_the_walk_is_as_large_as_it_should_be(walk: Walk, histories: Histories) -> None:
    """That no step has been lost from the model: what it reaches, among it the cases that decide."""
    chunks = [(o.window, o.at) for o in walk.outcomes]
    assert any(c.seen & ~c.low for c, _ in chunks), "a SELECT saw more than the low watermark"
    assert any(c.low.bit_length() > c.low.bit_count() for c, _ in chunks), "an executed set with a gap"
    assert any(c.came < at for c, at in chunks), "changes passed behind the chunk"
    assert any(c.came > c.at for c, _ in chunks), "changes passed before the chunk"
    assert any(at > c.high for c, at in chunks), "a slice ended behind the high watermark"
    assert any(at == c.at == c.high for c, at in chunks), "an idle source"
    # Those that were logged before a transaction was visible are the next ones behind it, be it none or all.
    assert len(frozenset[int]().union(*walk.outcomes.values())) == factorial(TRANSACTIONS)
    assert walk.states == 949_938
    assert len(histories) == 712


def test_a_set_as_the_high_watermark_keeps_the_promise_as_well() -> None:
    """Chunks of another server have one, since its places aren't those of the stream."""
    walk = SetModel(3).walk()
    assert any(outcome.at > outcome.window.came for outcome in walk.outcomes)
    assert first_violation(Histories(KEYS, 3), walk) is None


def test_conflicting_transactions_are_never_beside_each_other() -> None:
    histories = Histories(1, 2)
    assert (histories.conflicts == pair(0, 1)).all()


# Each rule left out


class AnyLow(Model):
    """Takes the executed set as it is."""

    def usable(self, low: int, at: int) -> bool:
        del low, at
        return True


class HighFromTheExecutedSet(Model):
    """Waits for as many transactions as the executed set has, the seeds' high watermark."""

    def high(self, server: Server) -> int:
        return server.executed.bit_length()


class ClosesAtOnce(Model):
    """Doesn't wait for the high watermark."""

    def closes(self, chunk: High, stream: int) -> bool:
        del chunk, stream
        return True


class SetThatIsNotWhole(SetModel):
    """Takes the executed set as it is for the high watermark."""

    def high(self, server: Server) -> int:
        return server.executed


@pytest.mark.parametrize("model", [HighFromTheExecutedSet, ClosesAtOnce, SetThatIsNotWhole])
def test_a_model_without_one_of_its_rules_breaks_the_promise(model: type[Model]) -> None:
    assert first_violation(Histories(KEYS, 2), model(2).walk()) is not None


def test_any_low_watermark_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "is_usable_low", lambda _low, _ordered_at: True)
    assert first_violation(Histories(KEYS, 2), AnyLow(2).walk()) is not None


def test_forgetting_what_passed_before_the_chunk_came_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = window.pass_keys
    monkeypatch.setattr(
        window, "pass_keys", lambda w, keys: w if isinstance(w, window.Reading) else original(w, keys)
    )
    assert first_violation(Histories(KEYS, 2), Model(2).walk()) is not None


def test_emitting_the_whole_chunk_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "untouched_rows", lambda closing: closing.rows)
    assert first_violation(Histories(KEYS, 2), Model(2).walk()) is not None
