"""Errors: three kinds, and every error that the core raises on purpose is of just one of them."""

import importlib
import pkgutil

import pytest

import pipeline
from pipeline.errors import (
    Backoff,
    Definite,
    InvariantBroken,
    TidemarkError,
    Transient,
    expect,
    worst_error,
)

KINDS = (Transient, Definite, InvariantBroken)


def below(error: type[TidemarkError]) -> set[type[TidemarkError]]:
    """All that derives from the error."""
    return {derived for child in error.__subclasses__() for derived in {child, *below(child)}}


def test_there_are_three_kinds() -> None:
    assert set(TidemarkError.__subclasses__()) == set(KINDS)


def test_every_error_of_the_core_is_of_one_kind() -> None:
    for module in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        importlib.import_module(module.name)
    for error in below(TidemarkError):
        assert sum(issubclass(error, kind) for kind in KINDS) == 1, error


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_not_caught_as_another(kind: type[TidemarkError]) -> None:
    others = tuple(other for other in KINDS if other is not kind)
    assert not issubclass(kind, others)
    assert str(kind("the binlog was purged")) == "the binlog was purged"


def test_of_errors_that_come_together_the_worst_is_acted_on_and_of_equals_the_first() -> None:
    by_urgency = [InvariantBroken("a"), Definite("b"), ValueError("c"), Transient("d")]
    for urgent in range(len(by_urgency)):
        left = by_urgency[urgent:]
        assert worst_error(reversed(left)) is left[0]
    first = Definite("first")
    assert worst_error([Transient("a"), first, Definite("second")]) is first


def test_the_pause_doubles_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 30.0)
    assert [backoff.pause_s(n) for n in (1, 2, 3, 7, 8, 10_000)] == [0.5, 1.0, 2.0, 30.0, 30.0, 30.0]


def test_a_fact_answers_what_a_machine_does() -> None:
    assert expect(int, 7, "came") == 7
    with pytest.raises(InvariantBroken, match=r"^str came while 7$"):
        expect(float, 7, "came")
