"""Orders: what the KafkaSink does next, as its machine decides (`pipeline.kafka.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.kafka.portions import Capacity, Portion
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.state import Topics
from pipeline.kafka.transaction_endings import TopicPart


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin a Kafka transaction. `batch_bytes`: the bytes of a batch, for topics that take no larger ones."""

    batch_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanSegment:
    """Divide the rows of a segment after an SCN into portions for which there's capacity.

    `split`: rows of the first SCN were sent before, so that it is a portion of its own.
    """

    segment: int
    after_scn: int
    split: bool
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class SendPortion:
    """Send the rows of a segment's portion after the first `skip` ones, to these topics.

    `skip` and PortionSent count the rows of all topics. A portion of a single SCN may end after `most` rows or a few
    more; then PortionSent says that it hasn't ended. So its rows come in the order of the stream, or table by table
    where those before did (`by_table`).
    """

    topics: Topics
    segment: int
    portion: Portion
    skip: int
    most: int
    by_table: bool = False


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat, if its topic is one of these, in the Kafka transaction that is open."""

    topics: Topics


@dataclass(frozen=True, slots=True)
class SendNotifications:
    """Send to these topics what a segment reports of snapshots, in the Kafka transaction that is open.

    All rows of the segment were sent, in this Kafka transaction or an earlier one.
    """

    topics: Topics
    segment: int


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """Send the position, in the same Kafka transaction, and commit it."""

    at: SinkPosition


@dataclass(frozen=True, slots=True)
class BeginAgain:
    """Abort the Kafka transaction, and find the position again, with a new epoch.

    End first what is open in `open_parts`.
    """

    open_parts: frozenset[TopicPart] = frozenset()


@dataclass(frozen=True, slots=True)
class ConfirmSegment:
    """Tell the journal that no topic lacks anything of this segment, and that we need nothing through `needless`."""

    segment: int
    needless: int


@dataclass(frozen=True, slots=True)
class ReportSetAside:
    """Log that a topic was set aside, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReportCaughtUp:
    """Log that a topic that was set aside is one of the others again."""

    topic: str


@dataclass(frozen=True, slots=True)
class BreakOff:
    """Break off the orders that are under way. What isn't committed never happened."""


@dataclass(frozen=True, slots=True)
class ReportRest:
    """Log that the next start sends the rest.

    `segment`: the topics have everything through it. None if the sink doesn't know its position.
    """

    segment: int | None


# What is ordered only once the sink has found its position.
ConnectedOrder = (
    BeginTransaction | SendPortion | SendHeartbeat | SendNotifications | CommitTransaction | ConfirmSegment
)
Order = PlanSegment | BeginAgain | ReportSetAside | ReportCaughtUp | BreakOff | ReportRest | ConnectedOrder
