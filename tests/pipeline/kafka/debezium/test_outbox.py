"""Events of an outbox; `test_against_debezium` compares them with those of Debezium's EventRouter."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipeline.config.column_rules import ColumnRule, MessageColumns
from pipeline.config.message_handling import BinaryHandling, Handling
from pipeline.config.outbox import InvalidOperation, Missing, NullsInPayload, Outbox
from pipeline.journal.change_rows import META
from pipeline.kafka.debezium.outbox import OutboxEvents
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Binary, DateTime, Integer, Json, Text, arrow_type

NAMES = ("id", "aggregatetype", "aggregateid", "payload")
TEXTS = tuple(Column(name, Text("utf8mb4"), nullable=name != "id") for name in NAMES)
PART, AT = Column("part", Integer(4, unsigned=False), nullable=True), Column("at", DateTime(6), nullable=True)
SCHEMA = TableSchema(TableId("shop", "outbox"), (*TEXTS, PART, AT), (0,))
BOX = Outbox(TableFilter((".*",)))


def rows(letters: str, payloads: list[str | None], types: list[str | None] | None = None) -> pa.RecordBatch:
    count = len(letters)
    numbers = [str(number) for number in range(count)]
    return pa.record_batch(
        {
            "__op": list(letters),
            "__absent": pa.nulls(count, META.field("__absent").type),
            "id": numbers,
            "aggregatetype": pa.array(types or ["Order"] * count, pa.string()),
            "aggregateid": numbers,
            "payload": pa.array(payloads, pa.string()),
            "part": pa.array(range(count), pa.int32()),
            "at": pa.array([1_500] * count, pa.timestamp("us")),
        }
    )


def making(outbox: Outbox = BOX) -> OutboxEvents:
    return OutboxEvents(TableMapping(SCHEMA), outbox, Handling(), "p.shop.outbox")


def test_only_inserts_are_events() -> None:
    events = making().events(rows("cdbucrt", ["a"] * 7))
    assert events.keys.to_pylist() == ['"0"', '"4"'] and events.values.to_pylist() == ['"a"', '"a"']
    assert dict(events.headers)["id"].to_pylist() == ['"0"', '"4"']
    assert events.topics.to_pylist() == ["outbox.event.Order"] * 2
    assert making().updates(rows("cbu", ["a"] * 3)) == 1
    with pytest.raises(KafkaRefused, match="was updated"):
        making(replace(BOX, table_op_invalid_behavior=InvalidOperation.FATAL)).updates(rows("bu", ["a"] * 2))


def test_a_payload_is_cut_as_the_text_that_a_message_has() -> None:
    """A document and bytes in base64 are texts in Connect, so that a rule cuts them there, as in other topics."""
    columns = MessageColumns(rules=(ColumnRule((r".*\.payload",), truncate_to_length=6),))
    for type_, payload, wanted in (
        (Json(), '{"a": "long"}', '"{\\"a\\": "'),
        (Binary(), b"0123456789", '"MDEyMz"'),
    ):
        schema = replace(
            SCHEMA,
            columns=tuple(replace(c, type=type_) if c.name == "payload" else c for c in SCHEMA.columns),
        )
        mapping = TableMapping(schema, columns)
        events = OutboxEvents(mapping, BOX, Handling(binary=BinaryHandling.BASE64), "p.shop.outbox")
        changes = rows("c", ["a"])
        at = changes.schema.get_field_index("payload")
        held = pa.array([payload], arrow_type(type_))
        assert events.events(changes.set_column(at, "payload", held)).values.to_pylist() == [wanted]


def test_a_route_makes_a_topic() -> None:
    box = replace(BOX, route_topic_regex="(O)(.*)", route_topic_replacement="$2/$1")
    events = making(box).events(rows("ccc", ["a"] * 3, ["Order", "Bill", "Order"]))
    assert events.topics.to_pylist() == ["rder_O", "Bill", "rder_O"]
    with pytest.raises(KafkaRefused, match="without aggregatetype"):
        making().events(rows("c", ["a"], [None]))


def test_additional_columns_go_where_it_is_said() -> None:
    placement = ("part:partition", "part:header:p", "at:envelope", "x:header")
    box = replace(BOX, table_fields_additional_placement=placement, table_field_event_timestamp="at")
    with pytest.raises(KafkaRefused, match=r"has no column x; see to kafka\.outboxes"):
        making(box).events(rows("c", ["a"]))
    box = replace(box, table_field_additional_missing=Missing.IGNORE)
    events = making(box).events(rows("cc", ["a", "b"]))
    assert events.partitions is not None and events.partitions.to_pylist() == [0, 1]
    assert events.times is not None and events.times.to_pylist() == [1, 1]
    assert dict(events.headers)["p"].to_pylist() == ["0", "1"]
    assert events.values.to_pylist()[0] == '{"payload":"a","at":1500}'


def test_a_column_may_have_the_version_of_the_schema() -> None:
    box = replace(
        BOX,
        table_fields_additional_placement=("at:envelope",),
        table_field_event_schema_version="part",
    )
    changes = rows("cccc", ["a"] * 4, ["Order", "Bill", "Order", "Order"])
    parts = pa.array([3, None, 2, 3], pa.int32())
    changes = changes.set_column(changes.schema.get_field_index("part"), "part", parts)
    events = making(box).events(changes)
    schemas = [events.value_schemas[number] for number in events.value_schema_of]
    named = [(schema["name"].split(".")[-2], schema.get("version")) for schema in schemas]
    assert named == [("Order", 3), ("Bill", None), ("Order", 2), ("Order", 3)]
    assert len(making(box).events(changes.slice(0, 0)).values) == 0
    plain = replace(box, table_fields_additional_placement=())
    assert "version" not in making(plain).events(changes).value_schemas[0]
    with pytest.raises(KafkaRefused, match=r"id of the outbox shop\.outbox is no version"):
        making(replace(box, table_field_event_schema_version="id")).events(changes)


@pytest.mark.parametrize(
    ("of", "numbers", "found"),
    [
        (pa.int64(), [0, 1 << 31, -1, None], [0, 1 << 31, -1, None]),
        (pa.uint64(), [2, (1 << 64) - 1, None], [2, 1 << 40, None]),
    ],
)
def test_a_partitions_number_may_be_any(of: pa.DataType, numbers: list[Any], found: list[Any]) -> None:
    events = rows("c" * len(numbers), ["a"] * len(numbers))
    events = events.set_column(events.schema.get_field_index("part"), "part", pa.array(numbers, of))
    box = replace(BOX, table_fields_additional_placement=("part:partition",))
    partitions = making(box).events(events).partitions
    assert partitions is not None and partitions.to_pylist() == found


def test_an_empty_payload_may_be_a_tombstone() -> None:
    payloads = ["a", "", " ", None]
    assert making().events(rows("cccc", payloads)).values.to_pylist() == ['"a"', '""', '" "', "null"]
    tombstones = making(replace(BOX, route_tombstone_on_empty_payload=True))
    assert tombstones.events(rows("cccc", payloads)).values.to_pylist() == ['"a"', None, None, None]


def test_a_payload_may_be_expanded() -> None:
    box = replace(BOX, table_expand_json_payload=True)
    payloads = ['{"a": 1e20, "n": null, "l": ["x", 1.50], "e": []}', "text", "{broken", None]
    found = making(box).events(rows("cccc", payloads)).values.to_pylist()
    assert found == ['{"a":1.0E20,"l":["x",1.5]}', '"text"', '"{broken"', "null"]
    box = replace(box, table_json_payload_null_behavior=NullsInPayload.OPTIONAL_BYTES)
    assert making(box).events(rows("c", payloads[:1])).values[0].as_py().count("null") == 1


@pytest.mark.parametrize("broken", ['{"a": NaN}', '[-Infinity, {"a": Infinity}]', "[" * 1001 + "]" * 1001])
def test_a_payload_that_debezium_does_not_read_stays_a_text(broken: str) -> None:
    box = replace(BOX, table_expand_json_payload=True)
    assert making(box).events(rows("c", [broken])).values.to_pylist() == [json.dumps(broken)]


def test_what_jackson_reads_is_expanded() -> None:
    box = replace(BOX, table_expand_json_payload=True)
    payloads: list[str | None] = ['{"a": 1} and more', '{"a": 1e999, "b": -1e999}', "[" * 800 + "]" * 800]
    found = making(box).events(rows("ccc", payloads)).values.to_pylist()
    assert found == ['{"a":1}', '{"a":"Infinity","b":"-Infinity"}', payloads[2]]


def test_what_has_no_schema_in_connect_is_expanded() -> None:
    """Debezium's connector stops at the first two. It leaves the next two as texts, and has a null in the last one."""
    box = replace(BOX, table_expand_json_payload=True)
    payloads: list[str | None] = [
        '["a"]',
        '{"a":9223372036854775808}',
        '{"a":[1,"x",true]}',
        '{"a":[null]}',
        '{"a":[{"b":1},{"b":null}]}',
    ]
    found = making(box).events(rows("ccccc", payloads)).values.to_pylist()
    assert found == [*payloads[:4], '{"a":[{"b":1},{}]}']


def test_a_payload_that_nests_too_deeply_for_us_is_refused() -> None:
    box = replace(BOX, table_expand_json_payload=True)
    deep = '{"a": "[\\"[", "b": ' + "[" * 999 + "]" * 999 + "}"
    with pytest.raises(KafkaRefused, match=r"shop\.outbox has a payload that nests too deeply"):
        making(box).events(rows("c", [deep]))
