"""What the KafkaSink knows of its topics, and what it does (`pipeline.kafka.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from pipeline.kafka.portions import MOST_PORTION_BYTES, Capacity, Portion
from pipeline.kafka.position import KafkaPosition, NamedPosition, SinkPosition
from pipeline.kafka.topics import Routing
from pipeline.kafka.transaction_endings import TopicPart

# How many rows the first Kafka transaction of a start takes. Each committed one doubles it.
FIRST_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class JournalBounds:
    """The journal has every segment from `first` through `last`.

    `joined`: the segment through which we need nothing, as retention knows it. `confirmed`: whether the sink reported
    that after a Kafka transaction. `unchecked_end`: the segment with which the journal ended before its writer began,
    which the topics may not be ahead of; None if that was checked before. `sent`: the position that the sink last
    reported; None if it didn't, or if an earlier version did.
    """

    journal: str
    first: int
    last: int
    joined: int
    confirmed: bool
    unchecked_end: int | None = None
    sent: NamedPosition | None = None

    @property
    def end(self) -> int:
        """Returns the last segment that the topics may have."""
        return self.last if self.unchecked_end is None else self.unchecked_end


@dataclass(frozen=True, slots=True)
class AllTopicsBut:
    """All topics that aren't set aside."""

    set_aside: frozenset[str]


@dataclass(frozen=True, slots=True)
class OneTopic:
    """A topic that was set aside, and catches up with the others."""

    topic: str


Topics = AllTopicsBut | OneTopic


def includes(topics: Topics, topic: str) -> bool:
    """Returns whether a topic is one of these."""
    match topics:
        case AllTopicsBut(set_aside):
            return topic not in set_aside
        case OneTopic(one):
            return topic == one
        case _:
            assert_never(topics)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A Kafka transaction is open, with room for this much more. It brings these topics to `reached`."""

    topics: Topics
    capacity: Capacity
    reached: KafkaPosition
    empty: bool = True


@dataclass(frozen=True, slots=True)
class FindingPosition:
    """The sink doesn't know its position yet. These topics have refused, for these reasons."""

    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AllSent:
    """The topics have everything that is known to be sealed, except those that are set aside."""


@dataclass(frozen=True, slots=True)
class PlanningSegment:
    """The sink divides the next segment into portions. Segments are sealed through `sealed`."""

    sealed: int
    open: OpenTransaction


@dataclass(frozen=True, slots=True)
class SendingPortion:
    """The sink sends the first of these portions of a segment."""

    sealed: int
    open: OpenTransaction
    portions: tuple[Portion, ...]


@dataclass(frozen=True, slots=True)
class Committing:
    """The sink commits the Kafka transaction with this position. These portions of its last segment come next."""

    sealed: int
    topics: Topics
    at: SinkPosition
    portions: tuple[Portion, ...]


@dataclass(frozen=True, slots=True)
class RestLeft:
    """The sink sends nothing more. The next start sends the rest."""


SinkDoing = FindingPosition | AllSent | PlanningSegment | SendingPortion | Committing | RestLeft


@dataclass(frozen=True, slots=True)
class SendingRest:
    """The service stops. Until this moment (s) the sink sends what is sealed."""

    until: float


@dataclass(frozen=True, slots=True)
class CommittingLast:
    """The service stops. The sink commits what it has sent, and breaks off what isn't committed by this moment (s)."""

    until: float


StopPhase = SendingRest | CommittingLast


@dataclass(frozen=True, slots=True)
class State:
    """What the sink knows, and what it does. A Kafka transaction holds at most `most_rows`.

    `at`: what the topics have, by the last committed Kafka transaction, and which of them are set aside. `next_rows`:
    how many rows the next Kafka transaction takes; a start begins with few. `first`: the journal has no segment before
    it.

    By the settings: heartbeats go to `heartbeat_topic`, None without any, `heartbeat_s` after the last one. No table's
    messages go there. `routing` decides which tables a topic has. The position goes to `position_topic`. `notifies`:
    a topic gets what segments report of snapshots.

    `heartbeat_at`: when (s) the next heartbeat is due, None while one is under way. `again`: when (s) a topic that was
    set aside is tried again; one that isn't named is due at once. `batch_bytes`: the bytes of a batch, for topics that
    take no larger ones. `open_parts`: where a look found open records that no position knows. Each later producer
    leaves its marker there first. Otherwise each would find another writer's records there once more, and topics had to
    pass in one look. `stop`: None unless the service stops.
    """

    most_rows: int
    at: SinkPosition = field(default_factory=lambda: SinkPosition(KafkaPosition(0)))
    doing: SinkDoing = field(default_factory=FindingPosition)
    next_rows: int = FIRST_ROWS
    first: int = 0
    heartbeat_topic: str | None = None
    heartbeat_s: float = 0.0
    routing: Routing = field(default_factory=Routing)
    position_topic: str = ""
    notifies: bool = False
    heartbeat_at: float | None = None
    again: Mapping[str, float] = field(default_factory=dict)
    batch_bytes: Mapping[str, int] = field(default_factory=dict)
    open_parts: frozenset[TopicPart] = frozenset()
    stop: StopPhase | None = None

    def routing_of(self, segment: int) -> Routing:
        """Returns by which settings the rows of a segment have their topics."""
        former = (each.routing for each in self.at.former if segment <= each.through)
        return next(former, self.routing)

    @property
    def sending_to(self) -> Topics | None:
        """Returns the topics of the Kafka transaction that is under way, None if none is."""
        match self.doing:
            case PlanningSegment(open=opened) | SendingPortion(open=opened):
                return opened.topics
            case Committing(topics=topics):
                return topics
            case _:
                return None

    def due_at(self, topic: str) -> float:
        """Returns when (s) a topic that was set aside is tried again."""
        return self.again.get(topic, 0.0)

    @property
    def capacity(self) -> Capacity:
        """Returns the capacity of the next Kafka transaction."""
        rows = min(self.next_rows, self.most_rows)
        return Capacity(rows, max(1, MOST_PORTION_BYTES * rows // self.most_rows))
