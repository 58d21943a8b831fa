"""The position of the KafkaSink, and its JSON, which a Kafka transaction stores with its messages."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from pipeline.config.message_routes import TopicRoute
from pipeline.errors import Definite
from pipeline.kafka.topics import Routing
from pipeline.kafka.transaction_endings import RecordEnds

# What a position's digest ends with if earlier settings route some of what topics lack. An earlier version refuses it.
_ROUTED_BEFORE: Final = "+"

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, order=True)
class KafkaPosition:
    """The topics have everything through `segment`.

    Of the next segment they have everything through `scn`, and `rows` rows of the portion that follows. These are the
    first rows of one source transaction that is too large for one Kafka transaction, in the order of the stream. That
    order is the journal's, whatever the settings are. `by_table`: an earlier version sent them, table by table, in an
    order that depends on which tables share a topic.
    """

    segment: int
    scn: int = 0
    rows: int = 0
    by_table: bool = False


@dataclass(frozen=True, slots=True)
class NamedPosition:
    """The position that the position topic `topic` has."""

    topic: str
    position: KafkaPosition


@dataclass(frozen=True, slots=True)
class SetAside:
    """A topic that has everything through `position` and lacks what follows, and why it refuses that.

    `beats`: it is a topic of heartbeats, and lacks nothing that the journal has.
    """

    position: KafkaPosition
    reason: str
    beats: bool = False


@dataclass(frozen=True, slots=True)
class FormerRouting:
    """Earlier settings, by which rows through the segment `through` have their topics."""

    through: int
    routing: Routing


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """All topics have everything through `position`, except those that are set aside, by their names.

    `routing`: by which settings those lack what they lack. In a position of an earlier version it is a digest
    (`Routing.digest`), or "". `former`: the settings before, in their order, for the segments that they still apply to.
    """

    position: KafkaPosition
    set_aside: Mapping[str, SetAside] = field(default_factory=dict)
    routing: Routing | str = ""
    former: tuple[FormerRouting, ...] = ()


def to_json(at: SinkPosition, ends: RecordEnds | None = None) -> bytes:
    """Returns the value of a position's message; `ends`: where the records of its Kafka transaction end."""
    value = _position_json(at.position)
    if at.set_aside:
        value["set_aside"] = {topic: _set_aside_json(each) for topic, each in at.set_aside.items()}
        value |= _routings_json(at.routing, at.former)
    if ends:
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(ends.items()):
            by_topic.setdefault(topic, {})[str(partition)] = end
        value["ends"] = by_topic
    return json.dumps(value).encode()


def from_json(text: bytes) -> SinkPosition:
    """Parses the position that `to_json` returned. Raises Definite for anything else."""
    return _parsed(text, _sink_position_of)


def named_to_json(at: NamedPosition) -> dict[str, Any]:
    """Returns the position as the journal's file of the consumer has it; `named_from_json` is the inverse."""
    return {"topic": at.topic, **_position_json(at.position)}


def named_from_json(value: Mapping[str, Any]) -> NamedPosition:
    """Parses what `named_to_json` returned. Raises KeyError, TypeError and ValueError for anything else."""
    return NamedPosition(str(value["topic"]), _position_of(value))


def ends_from_json(text: bytes) -> RecordEnds:
    """Parses the ends that `to_json` wrote; none are in a position of an earlier version. Raises Definite."""
    return _parsed(text, _ends_of)


def _parsed(text: bytes, parse: Callable[[Mapping[str, Any]], Parsed]) -> Parsed:
    """Returns what a position's text says. Raises Definite for another text."""
    try:
        return parse(json.loads(text))
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise Definite(
            "the position topic has a message that is no position; name another topic with kafka.position_topic"
        ) from error


def _sink_position_of(value: Mapping[str, Any]) -> SinkPosition:
    aside = {
        topic: SetAside(_position_of(each), str(each["reason"]), bool(each.get("beats", False)))
        for topic, each in value.get("set_aside", {}).items()
    }
    former = tuple(
        FormerRouting(int(each["through"]), _routing_of(each["settings"])) for each in value.get("former", ())
    )
    routing = _routing_of(value["settings"]) if "settings" in value else str(value.get("routing", ""))
    return SinkPosition(_position_of(value), aside, routing, former)


def _set_aside_json(aside: SetAside) -> dict[str, Any]:
    value = {**_position_json(aside.position), "reason": aside.reason}
    return {**value, "beats": True} if aside.beats else value


def _routings_json(routing: Routing | str, former: tuple[FormerRouting, ...]) -> dict[str, Any]:
    if not isinstance(routing, Routing):
        return {"routing": routing} if routing else {}
    settings: dict[str, Any] = {"routing": routing.digest, "settings": asdict(routing)}
    if former:
        settings["routing"] += _ROUTED_BEFORE
        settings["former"] = [{"through": each.through, "settings": asdict(each.routing)} for each in former]
    return settings


def _routing_of(value: Mapping[str, Any]) -> Routing:
    routes = tuple(TopicRoute(**route) for route in value["routes"])
    return Routing(str(value["prefix"]), str(value["delimiter"]), routes)


def _ends_of(value: Mapping[str, Any]) -> RecordEnds:
    return {
        (topic, int(partition)): int(end)
        for topic, parts in value.get("ends", {}).items()
        for partition, end in parts.items()
    }


def _position_json(position: KafkaPosition) -> dict[str, Any]:
    # An earlier version would take rows in the order of the stream for others. It refuses a position without `rows`.
    rows = "stream_rows" if position.rows and not position.by_table else "rows"
    return {"segment": position.segment, "scn": position.scn, rows: position.rows}


def _position_of(value: Mapping[str, Any]) -> KafkaPosition:
    segment, scn = int(value["segment"]), int(value["scn"])
    if "stream_rows" in value:
        return KafkaPosition(segment, scn, int(value["stream_rows"]))
    rows = int(value["rows"])
    return KafkaPosition(segment, scn, rows, by_table=rows > 0)
