"""A seed says all that happens, and each kind of fault has its turn."""

import random
from collections import Counter

from pipeline.messages.topology import ActorName
from tests.chaos.plan import ActorStruck, Deed, JvmKilled, Process, ProcessStruck, deck, plan


def test_a_seed_gives_the_same_plan_and_another_one_another() -> None:
    assert plan(7, 90.0) == plan(7, 90.0)
    assert plan(7, 90.0) != plan(8, 90.0)


def test_a_longer_plan_begins_with_the_shorter_one() -> None:
    short, long = plan(7, 30.0), plan(7, 300.0)
    assert long[: len(short)] == short


def test_each_kind_of_fault_has_its_turn() -> None:
    cards = deck(random.Random(0))
    struck = Counter((card.actor, card.deed) for card in cards if isinstance(card, ActorStruck))
    assert struck == Counter(
        (actor, deed) for actor in ActorName if actor is not ActorName.KAFKA_SINK for deed in Deed
    )
    assert {type(card) for card in cards} == {type(step.fault) for step in plan(0, 600.0)}
    assert cards.count(ProcessStruck(Process.KILLED)) == 5


def test_without_a_lake_nobody_is_asked_for_who_is_not_there() -> None:
    faults = [step.fault for step in plan(0, 300.0, lake=False)]
    assert JvmKilled() not in faults
    assert not [
        fault for fault in faults if isinstance(fault, ActorStruck) and fault.actor is ActorName.SPARK_SINK
    ]


def test_a_plan_takes_as_long_as_it_should() -> None:
    steps = plan(3, 90.0)
    assert sum(step.takes_s for step in steps[:-1]) < 90.0 <= sum(step.takes_s for step in steps)
