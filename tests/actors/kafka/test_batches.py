"""Batches of several partitions come in turn, and each partition's have its messages in their order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords

from actors.kafka import batches
from actors.kafka.batches import MessageBatches
from pipeline.config.message_routes import TopicRoute
from pipeline.config.outbox import Outbox
from pipeline.config.settings import KafkaSinkSettings
from pipeline.config.unwrapping import Unwrap
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.kafka.debezium.transactions import ChangedRows, MessageOrders
from pipeline.kafka.errors import TableRefusal, TopicRefusal
from pipeline.kafka.messages.message_rows import MessageRows
from pipeline.kafka.messages.topic_records import Records, StreamPlaces
from pipeline.kafka.rows_in_step import TableRows
from pipeline.kafka.state import AllTopicsBut, OneTopic
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


def test_messages_of_tables_of_one_topic_come_in_the_order_of_the_stream() -> None:
    def part(*places: tuple[int, int], headers: tuple[tuple[str, pa.Array], ...] = ()) -> Records:
        scns, ordinals = np.array(places).T
        texts = pa.array([f"{scn}.{ordinal}" for scn, ordinal in places])
        return Records("t", texts, texts, headers, places=StreamPlaces(scns, ordinals))

    # Two messages of one row stay in their order, whatever their keys.
    one = part((1, 0), (1, 4), (1, 4), (2, 1), headers=(("h", pa.array(["a", None, None, "d"])),))
    other = part((1, 1), (1, 2), (2, 0), (3, 0))
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    (batch,) = making.batches_of([one, other], 1, 1)
    batch.records._set_producer_state(1, 0, 0)
    read = MemoryRecords(bytes(batch.records._build())).next_batch()
    assert read is not None
    records = list(read)
    texts = ["1.0", "1.1", "1.2", "1.4", "1.4", "2.0", "2.1", "3.0"]
    assert [(record.key or b"").decode() for record in records] == texts
    assert [record.key for record in records if record.headers] == [b"1.0", b"2.1"]


def test_tables_share_a_topic_by_a_route_or_by_what_their_rows_say() -> None:
    one, two, three = (TableId("shop", name) for name in ("part_1", "part_2", "else"))
    route, box = TopicRoute(r"(.*)\.part_\d", "$1.parts"), Outbox(TableFilter((r"shop\.part_1",)))
    by_route = MessageBatches(KafkaSinkSettings(("k:1",), "p", topic_routes=(route,)))
    assert by_route.sharing(one) == by_route.sharing(two) != by_route.sharing(three)
    boxed = MessageBatches(
        KafkaSinkSettings(("k:1",), "p", outboxes=(box, replace(box, tables=TableFilter((r"shop\.part_2",)))))
    )
    assert boxed.sharing(one) == boxed.sharing(two) != boxed.sharing(three)
    by_rows = MessageBatches(KafkaSinkSettings(("k:1",), "p", unwrap=Unwrap(route_by_field="goes")))
    assert by_rows.sharing(one) == by_rows.sharing(two) == by_rows.sharing(three)
    plain = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    assert len({plain.sharing(table) for table in (one, two, three)}) == 3


ERRORS = [
    pa.ArrowInvalid("Integer value 4711 not in range"),
    OverflowError("4711"),
    RecursionError(),
    KeyError("4711"),
    MemoryError(),
]
TABLE = TableSchema(TableId("shop", "t"), (Column("id", Integer(4, unsigned=False), nullable=False),), (0,))
ROWS = TableRows(TABLE, pa.record_batch({"id": pa.array([1], pa.int32()), "__op": ["c"]}))


def failing(error: Exception) -> Callable[..., None]:
    def fails(*_: object) -> None:
        raise error

    return fails


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_of_a_tables_values_is_one_of_all_topics(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))

    def refused(work: Callable[[], object]) -> None:
        with pytest.raises(
            TableRefusal, match=r"a row of shop\.t makes no message.*kafka\.tables"
        ) as refusal:
            work()
        assert refusal.value.topic == "p.shop.t" and type(error).__name__ in refusal.value.reason
        assert "4711" not in refusal.value.reason

    with monkeypatch.context() as broken:
        broken.setattr(MessageBatches, "messages", failing(error))
        refused(lambda: making.records(MessageRows(TABLE, ROWS.rows), 1))
    with monkeypatch.context() as broken:
        broken.setattr(TableMapping, "with_keys", failing(error))
        refused(lambda: making.rows(ROWS))
    broken_orders = MessageOrders(ChangedRows.of([]))
    monkeypatch.setattr(broken_orders, "blocks", failing(error))
    refused(lambda: making.rows(ROWS, broken_orders))


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_of_making_a_topics_messages_is_one_of_all_topics(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p", notification_sink_topic_name="n"))
    records = Records("t", pa.array(["a"]), pa.array(["a"]))
    works: dict[tuple[str, str], Callable[[], object]] = {
        ("partitioned", "t"): lambda: list(making.batches_of([records], COUNT, 1)),
        ("record_runs", "t"): lambda: list(making.batches_of([records], COUNT, 1)),
        ("transaction_messages", "p.transaction"): lambda: making.marks(ChangedRows.of([])),
        ("notification_messages", "n"): lambda: making.notifications([], 1),
        ("schema_change_messages", "p"): lambda: making.schema_changes([], 1),
    }
    for (function, topic), work in works.items():
        with monkeypatch.context() as broken:
            broken.setattr(batches, function, failing(error))
            with pytest.raises(TopicRefusal, match="a message can't be made") as refusal:
                work()
            assert refusal.value.topic == topic and "4711" not in refusal.value.reason


def test_a_table_without_messages_is_counted_once_its_topic_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    monkeypatch.setattr(TableMapping, "with_keys", failing(pa.ArrowInvalid("4711")))
    for taking in (AllTopicsBut(frozenset({"p.shop.other"})), OneTopic("p.shop.t")):
        with pytest.raises(TableRefusal):
            making.counted_for(taking).narrowed(TABLE, ROWS.rows)
    for others in (AllTopicsBut(frozenset({"p.shop.t"})), OneTopic("p.shop.other")):
        assert making.counted_for(others).narrowed(TABLE, ROWS.rows) == ROWS.rows


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
