"""What the KafkaSink knows of its topics, and what it's doing (`pipeline.kafka.step`)."""

import json
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import Definite
from pipeline.kafka.runs import Run


@dataclass(frozen=True, slots=True, order=True)
class KafkaPosition:
    """The topics have everything through `segment`.

    Of the segment that follows they have everything through `scn`, and `rows` rows of the run that follows that: the
    first rows of one source transaction that's too large for one Kafka transaction.
    """

    segment: int
    scn: int = 0
    rows: int = 0


def position_to_json(position: KafkaPosition) -> bytes:
    """The value of a position's message."""
    return json.dumps({"segment": position.segment, "scn": position.scn, "rows": position.rows}).encode()


def position_from_json(text: bytes) -> KafkaPosition:
    """The position that `position_to_json` wrote. Raises Definite for anything else."""
    try:
        value: dict[str, Any] = json.loads(text)
        return KafkaPosition(int(value["segment"]), int(value["scn"]), int(value["rows"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Definite(
            "the position topic has a message that is no position; name another one with kafka.position_topic"
        ) from error


@dataclass(frozen=True, slots=True)
class JournalBounds:
    """The journal: whole from the segment `first` on, `last` is its last one.

    `joined`: what retention knows of us, the segment through which we need nothing. `confirmed`: whether that was told
    after a Kafka transaction.
    """

    journal: str
    first: int
    last: int
    joined: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A Kafka transaction is open: it holds so many rows, and will say that the topics have everything to `reached`."""

    rows: int
    reached: KafkaPosition


@dataclass(frozen=True, slots=True)
class FindingPosition:
    """Nothing is known yet."""


@dataclass(frozen=True, slots=True)
class AllSent:
    """The topics have all that's known to be sealed."""


@dataclass(frozen=True, slots=True)
class PlanningSegment:
    """The next segment is divided into runs; segments are sealed through `sealed`."""

    sealed: int
    open: OpenTransaction


@dataclass(frozen=True, slots=True)
class SendingRun:
    """The first of these runs of a segment is sent."""

    sealed: int
    open: OpenTransaction
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Committing:
    """The Kafka transaction is committed; these runs of its last segment come in the next one."""

    sealed: int
    reached: KafkaPosition
    runs: tuple[Run, ...]


SinkDoing = FindingPosition | AllSent | PlanningSegment | SendingRun | Committing


@dataclass(frozen=True, slots=True)
class State:
    """What's known, and what's being done; a Kafka transaction holds at most `most_rows`.

    `position`: what the topics have, by a Kafka transaction that's committed.
    """

    most_rows: int
    position: KafkaPosition = KafkaPosition(0)
    doing: SinkDoing = field(default_factory=FindingPosition)
