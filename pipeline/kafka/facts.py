"""Facts: what has happened, as the KafkaSink's machine takes it (`pipeline.kafka.step`)."""

from dataclasses import dataclass

from pipeline.kafka.portions import Portion
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.state import JournalBounds
from pipeline.kafka.transaction_endings import TopicPart
from pipeline.messages.journal import SegmentSealed


@dataclass(frozen=True, slots=True)
class PlacesFound:
    """The position topic has `at`, None if it is empty, for the journal `of`. `journal`: the present journal."""

    at: SinkPosition | None
    of: str | None
    journal: JournalBounds


@dataclass(frozen=True, slots=True)
class SegmentPlanned:
    """The next segment has these portions after the SCN of the order; none if it has no row for us."""

    portions: tuple[Portion, ...]


@dataclass(frozen=True, slots=True)
class PortionSent:
    """The sink sent this many rows of the portion; `ended`: there are no more."""

    rows: int
    ended: bool


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """The broker has committed the Kafka transaction."""


@dataclass(frozen=True, slots=True)
class TopicRefused:
    """A table's topic lacks what it refuses, for this reason. Another attempt at once would fail again.

    `by`: the topic that refuses, where rows name another one; None if the rows make no messages.
    """

    topic: str
    reason: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class OpenRecordsFound:
    """Partitions have open records of a Kafka transaction that has ended (`pipeline.kafka.transaction_endings`)."""

    parts: frozenset[TopicPart]


@dataclass(frozen=True, slots=True)
class BatchDivided:
    """A topic takes no batch of so many bytes. From now on it gets smaller ones."""

    topic: str
    bytes: int


@dataclass(frozen=True, slots=True)
class KafkaTimerFired:
    """The time that `timer_at` returned has come. The journal has every segment from `first` on."""

    first: int


@dataclass(frozen=True, slots=True)
class KafkaStopRequested:
    """The service has been stopping since a moment (s): the journal seals no further segment."""

    at: float


@dataclass(frozen=True, slots=True)
class StopTimePassed:
    """A stop has come to the time that `timer_at` returned."""


Fact = (
    PlacesFound
    | SegmentSealed
    | SegmentPlanned
    | PortionSent
    | TransactionCommitted
    | TopicRefused
    | OpenRecordsFound
    | BatchDivided
    | KafkaTimerFired
    | KafkaStopRequested
    | StopTimePassed
)
