"""Notifications as messages; `test_against_debezium` compares their schemas with Debezium's own."""

import io
import json

import fastavro

from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.notification import notification_messages
from pipeline.signals.notifications import VERIFICATION, Notification, NotificationType

NOTICES = (
    Notification("s1", NotificationType.STARTED, data={"data_collections": "shop.a,shop.b"}),
    Notification('s"1', NotificationType.COMPLETED, about=VERIFICATION),
)


def test_they_have_debeziums_form() -> None:
    made = notification_messages(NOTICES, "p", 1234, JSON)
    assert made.keys.to_pylist() == ['{"id":"s1"}', '{"id":"s\\"1"}']
    assert made.values[0].as_py() == (
        '{"id":"s1","type":"STARTED","aggregate_type":"Incremental Snapshot","additional_data":'
        '{"connector_name":"p","data_collections":"shop.a,shop.b"},"timestamp":1234}'
    )
    other = json.loads(made.values[1].as_py())
    assert (other["aggregate_type"], other["additional_data"]) == ("Verification", {"connector_name": "p"})


def test_avro_says_what_json_says() -> None:
    plain, avro = (notification_messages(NOTICES, "p", 1234, of) for of in (JSON, AVRO))
    schema = fastavro.parse_schema(json.loads(avro_text(avro.value_schema)))
    found = [fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in avro.values.to_pylist()]
    assert found == [json.loads(each) for each in plain.values.to_pylist()]
