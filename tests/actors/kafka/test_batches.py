"""Batches of several partitions come in turn, and each partition's have its messages in their order."""

from dataclasses import replace

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from actors.kafka.batches import MessageBatches, Records
from pipeline.config.settings import KafkaSinkSettings
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

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
