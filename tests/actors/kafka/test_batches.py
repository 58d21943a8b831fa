"""Batches of several partitions come in turn, and each partition's have its messages in their order."""

from dataclasses import replace

import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords

from actors.kafka.batches import MessageBatches, Records
from actors.kafka.gathered_rows import MessageRows
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.errors import TopicRefusal
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer

COUNT = 3


def test_a_request_can_have_a_batch_of_each_partition() -> None:
    texts = [f"{number:04}" for number in range(600)]
    said = pa.array([number % COUNT for number in range(600)], pa.int32())
    records = Records("t", pa.array(texts), pa.array(texts), partitions=said)
    settings = KafkaSinkSettings(("k:1",), "p", batch_bytes=1024)
    found: dict[int, list[str]] = {partition: [] for partition in range(COUNT)}
    order = []
    for batch in MessageBatches(settings).batches_of([records], COUNT, 1):
        order.append(batch.partition)
        batch.records._set_producer_state(1, 1, 1)
        read = MemoryRecords(bytes(batch.records._build())).next_batch()
        assert read is not None
        found[batch.partition] += [record.value.decode() for record in read]
    assert len(order) > 3 * COUNT and order == [number % COUNT for number in range(len(order))]
    assert found == {partition: texts[partition::COUNT] for partition in range(COUNT)}


@pytest.mark.parametrize("number", [COUNT, -1, 1 << 40])
def test_a_partition_that_is_not_there_is_its_topics_refusal(number: int) -> None:
    said = pa.array([0, number], pa.int64())
    records = Records("t", pa.array(["a", "b"]), pa.array(["a", "b"]), partitions=said)
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    with pytest.raises(TopicRefusal, match="t: it has 3 partitions, and a message names another one"):
        next(making.batches_of([records], COUNT, 1))


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("Integer value 4711 not in range"), OverflowError("4711"), RecursionError()]
)
def test_no_error_of_a_tables_values_is_one_of_all_topics(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    schema = TableSchema(
        TableId("shop", "t"), (Column("id", Integer(4, unsigned=False), nullable=False),), (0,)
    )
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    monkeypatch.setattr(MessageBatches, "messages", fails)
    with pytest.raises(TopicRefusal, match=r"a row of shop\.t makes no message.*kafka\.tables") as refusal:
        making.records(MessageRows(schema, pa.record_batch({"id": [1]}), None), 1)
    assert refusal.value.topic == "p.shop.t" and type(error).__name__ in refusal.value.reason
    assert "4711" not in refusal.value.reason


def test_statements_are_narrowed_like_tables() -> None:
    def of(what: SchemaObject, database: str, *names: str) -> SchemaStatement:
        tables = tuple(TableId(database, name) for name in names)
        return SchemaStatement(what, database, tables, names, "")

    renamed, other = of(SchemaObject.TABLE, "shop", "b", "a"), of(SchemaObject.TABLE, "shop", "b")
    near, far = of(SchemaObject.DATABASE, "shop"), of(SchemaObject.DATABASE, "attic")
    settings = KafkaSinkSettings(("kafka:1",), "p", tables=TableFilter((r"shop\.a",)))
    assert [MessageBatches(settings).wants(each) for each in (renamed, other, near, far)] == [
        True, False, True, False,
    ]  # fmt: skip
    assert MessageBatches(replace(settings, tables=None)).wants(far)
