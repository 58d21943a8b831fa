"""The text of a position."""

import json
from dataclasses import replace

import pytest

from pipeline.config.message_routes import TopicRoute
from pipeline.errors import Definite
from pipeline.kafka import position as positions
from pipeline.kafka.position import FormerRouting, KafkaPosition, SetAside, SinkPosition
from pipeline.kafka.topics import Routing


def test_a_position_is_read_as_it_was_written() -> None:
    at = SinkPosition(KafkaPosition(3, 4, 5), {"p.a.b": SetAside(KafkaPosition(2, 1, 0), "too large")})
    assert positions.from_json(positions.to_json(at)) == at
    beats = SinkPosition(KafkaPosition(3), {"b": SetAside(KafkaPosition(2), "no", beats=True)})
    assert positions.from_json(positions.to_json(beats)) == beats
    earlier = replace(at, routing="0123")
    assert positions.from_json(positions.to_json(earlier)) == earlier
    routes = (TopicRoute("a", "b"), TopicRoute("c", "d", False, "k", "e", "f"))
    routed = replace(at, routing=Routing("p", "-", routes))
    assert positions.from_json(positions.to_json(routed)) == routed
    rerouted = replace(routed, former=(FormerRouting(1, Routing("p")), FormerRouting(3, Routing("q"))))
    assert positions.from_json(positions.to_json(rerouted)) == rerouted
    # An earlier version compares the digest alone, and may not continue by the present settings.
    said = [json.loads(positions.to_json(each))["routing"] for each in (routed, rerouted)]
    assert said[0] == Routing("p", "-", routes).digest != said[1]


def test_the_ends_of_a_kafka_transaction_are_beside_its_position() -> None:
    at, ends = SinkPosition(KafkaPosition(3)), {("p.a.b", 1): 7, ("p.a.b", 0): 9, ("p.a", 0): 2}
    text = positions.to_json(at, ends)
    assert (positions.from_json(text), positions.ends_from_json(text)) == (at, ends)
    assert positions.ends_from_json(positions.to_json(at)) == {}


def test_a_position_without_topics_that_are_set_aside_is_as_it_always_was() -> None:
    text = b'{"segment": 3, "scn": 4, "rows": 0}'
    assert positions.from_json(text) == SinkPosition(KafkaPosition(3, 4))
    assert positions.to_json(SinkPosition(KafkaPosition(3, 4))) == text


def test_rows_of_an_earlier_version_stay_what_they_are_and_it_takes_none_of_ours() -> None:
    text = b'{"segment": 3, "scn": 4, "rows": 5}'
    at = SinkPosition(KafkaPosition(3, 4, 5, by_table=True))
    assert positions.from_json(text) == at
    assert positions.to_json(at) == text
    ours = positions.to_json(SinkPosition(KafkaPosition(3, 4, 5), {"a": SetAside(at.position, "too large")}))
    assert positions.from_json(ours).position == KafkaPosition(3, 4, 5)
    assert positions.from_json(ours).set_aside["a"].position == at.position
    assert "rows" not in json.loads(ours)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"segment": 1, "scn": null, "rows": 0}',
        b'{"segment": 1, "scn": 0, "rows": 0, "set_aside": []}',
    ],
)
def test_any_other_text_is_refused(text: bytes) -> None:
    with pytest.raises(Definite, match=r"kafka\.position_topic"):
        positions.from_json(text)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"ends": [1]}', b'{"ends": {"t": {"x": 1}}}'])
def test_other_ends_are_refused(text: bytes) -> None:
    with pytest.raises(Definite, match=r"kafka\.position_topic"):
        positions.ends_from_json(text)
