"""Heartbeats; `test_against_debezium` compares them with Debezium's own."""

import json

from pipeline.kafka.debezium.heartbeat import heartbeat


def test_it_names_the_server_and_the_millisecond() -> None:
    assert heartbeat("p", 1_234_567) == ('{"serverName":"p"}', '{"ts_ms":1234}')


def test_it_can_have_its_schema() -> None:
    key, value = (json.loads(text) for text in heartbeat("p", 1_234_567, schemas=True))
    assert (key["payload"], value["payload"]) == ({"serverName": "p"}, {"ts_ms": 1234})
    assert value["schema"]["name"] == "io.debezium.connector.common.Heartbeat"
