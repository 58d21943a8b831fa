"""The plan that `make test` carries out has something of everything."""

import random

from tests.chaos.plan import ActorStruck, Deed, deck, each_kind_once, kind
from tests.chaos.test_chaos import QUICK


def test_the_quick_plan_has_every_kind_of_fault_once() -> None:
    planned = [kind(step.fault) for step in each_kind_once(QUICK)]
    assert sorted(planned) == sorted({kind(fault) for fault in deck(random.Random(1))})
    assert len(planned) == 20


def test_the_quick_plan_has_each_deed() -> None:
    faults = [step.fault for step in each_kind_once(QUICK)]
    assert {fault.deed for fault in faults if isinstance(fault, ActorStruck)} == set(Deed)
