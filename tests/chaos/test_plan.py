"""The plan that `make test` carries out has something of everything."""

import random

from tests.chaos.plan import Fault, deck, plan
from tests.chaos.test_chaos import QUICK


def kinds(faults: list[Fault]) -> set[tuple[str, ...]]:
    """What is struck, and how where one thing can be struck in several ways."""
    ways = ("actor", "link", "how")
    return {
        (type(each).__name__, *(str(getattr(each, way)) for way in ways if hasattr(each, way)))
        for each in faults
    }


def test_the_quick_plan_has_every_kind_of_fault() -> None:
    seed, seconds = QUICK
    planned = kinds([step.fault for step in plan(seed, seconds)])
    every = kinds(deck(random.Random(1)))
    assert len(every) == 20
    assert {kind for kind in every if kind not in planned} == set()
