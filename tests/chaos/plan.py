"""What is done to the service, and when: a pure function of a seed.

The faults are a deck of cards. It's shuffled and dealt, and shuffled again when it's empty, so that each kind comes
before any comes twice as often as it should. A plan ends when its pauses and what its faults last add up to the time
asked for; what a fault costs besides (a start, a recovery) comes on top. The shortest plan has each kind once.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.messages.topology import ActorName
from tests.servers.proxy import Weather


class Deed(StrEnum):
    """What an actor is made to do at its next message."""

    RAISE = "raise"
    CANCEL = "cancel"
    HANG = "hang"
    SLOW = "slow"


class Link(StrEnum):
    """Between us and whom."""

    MYSQL = "MySQL"
    KAFKA = "Kafka"


class Source(StrEnum):
    """What becomes of the source."""

    RESTARTED = "restarted"
    KILLED = "killed"
    STALLED = "stalled"
    DUMP_ENDED = "dump thread killed"
    FAILED_OVER = "failed over"


class Process(StrEnum):
    """What becomes of a process of ours, by a signal."""

    KILLED = "killed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ActorStruck:
    """An actor does it at its next message; where it's slow, for so long."""

    actor: ActorName
    deed: Deed
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ProcessStruck:
    """The service's process as a whole."""

    how: Process
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JvmKilled:
    """Spark's."""


@dataclass(frozen=True, slots=True)
class SourceStruck:
    """The server whose log is read."""

    how: Source
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkStruck:
    """A link has this weather for a while."""

    link: Link
    weather: Weather
    lasts_s: float


@dataclass(frozen=True, slots=True)
class BrokerKilled:
    """And started again after a while."""

    lasts_s: float


@dataclass(frozen=True, slots=True)
class DiskFilled:
    """The filesystem of journal and lake has no byte left for a while."""

    lasts_s: float


@dataclass(frozen=True, slots=True)
class ClockMoved:
    """The wall clock is so far off from now on."""

    seconds: float


Fault = (
    ActorStruck
    | ProcessStruck
    | JvmKilled
    | SourceStruck
    | LinkStruck
    | BrokerKilled
    | DiskFilled
    | ClockMoved
)


@dataclass(frozen=True, slots=True)
class Step:
    """A pause, and then a fault."""

    after_s: float
    fault: Fault

    @property
    def takes_s(self) -> float:
        """At the least."""
        return self.after_s + getattr(self.fault, "lasts_s", 0.0)


LONGEST_PAUSE_S: Final = 1.5
# Where verifications are judged meanwhile: Spark needs some ten seconds to start, and as long for a comparison.
CALM_PAUSE_S: Final = 40.0
SHORTEST_S: Final = 0.5
LONGEST_S: Final = 3.0
HOUR_S: Final = 3600.0

# How often a fault is in the deck, where it isn't once.
_OFTEN: Final[dict[Fault, int]] = {
    ProcessStruck(Process.KILLED): 5,
    JvmKilled(): 3,
    SourceStruck(Source.KILLED): 2,
}


def deck(some: random.Random, *, lake: bool = True) -> list[Fault]:
    """All faults, in a random order, each as long as it happens to be. Without a lake there's no sink and no JVM."""

    def a_while() -> float:
        return round(some.uniform(SHORTEST_S, LONGEST_S), 1)

    absent = {ActorName.KAFKA_SINK} if lake else {ActorName.KAFKA_SINK, ActorName.SPARK_SINK}
    actors = [actor for actor in ActorName if actor not in absent]
    cards: list[Fault] = [
        *(ActorStruck(a, deed, a_while() if deed is Deed.SLOW else 0.0) for a in actors for deed in Deed),
        *(ProcessStruck(how, 0.0 if how is Process.KILLED else a_while()) for how in Process),
        *([JvmKilled()] if lake else []),
        *(SourceStruck(how, a_while() if how is Source.STALLED else 0.0) for how in Source),
        *(LinkStruck(link, weather, a_while()) for link in Link for weather in Weather),
        BrokerKilled(a_while()),
        DiskFilled(a_while()),
        ClockMoved(some.choice((-HOUR_S, HOUR_S))),
    ]
    cards += [card for card in cards for _ in range(_OFTEN.get(card, 1) - 1)]
    some.shuffle(cards)
    return cards


def kind(fault: Fault) -> tuple[str, ...]:
    """What is struck, and how where one thing can be struck in several ways."""
    ways = ("actor", "link", "how")
    return (type(fault).__name__, *(str(getattr(fault, way)) for way in ways if hasattr(fault, way)))


def each_kind_once(seed: int, *, lake: bool = True) -> tuple[Step, ...]:
    """The steps of the shortest run that has every kind of fault."""
    some = random.Random(seed)
    first: dict[tuple[str, ...], Fault] = {}
    for card in deck(some, lake=lake):
        first.setdefault(kind(card), card)
    return tuple(_behind_a_pause(some, card) for card in first.values())


def plan(
    seed: int, seconds: float, *, lake: bool = True, longest_pause_s: float = LONGEST_PAUSE_S
) -> tuple[Step, ...]:
    """The steps of a run, which take about so long."""
    return tuple(_dealt(random.Random(seed), seconds, lake, longest_pause_s))


def _dealt(some: random.Random, seconds: float, lake: bool, longest_pause_s: float) -> Iterator[Step]:
    cards: list[Fault] = []
    while seconds > 0:
        cards = cards or deck(some, lake=lake)
        step = _behind_a_pause(some, cards.pop(), longest_pause_s)
        seconds -= step.takes_s
        yield step


def _behind_a_pause(some: random.Random, fault: Fault, longest_s: float = LONGEST_PAUSE_S) -> Step:
    return Step(round(some.uniform(0.0, longest_s), 2), fault)
