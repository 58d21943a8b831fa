"""Heartbeats; `test_against_debezium` compares them with Debezium's own."""

import json

from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JSON, JsonFormat


def test_it_names_the_server_and_the_millisecond() -> None:
    made = heartbeat("p", 1_234_567, JSON)
    assert (made.keys.to_pylist(), made.values.to_pylist()) == (['{"serverName":"p"}'], ['{"ts_ms":1234}'])


def test_it_can_have_its_schema() -> None:
    made = heartbeat("p", 1_234_567, JsonFormat(schemas=True))
    key, value = (json.loads(texts[0].as_py()) for texts in (made.keys, made.values))
    assert (key["payload"], value["payload"]) == ({"serverName": "p"}, {"ts_ms": 1234})
    assert value["schema"]["name"] == "io.debezium.connector.common.Heartbeat"
