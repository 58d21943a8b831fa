"""What a portion's messages need is read before the first of them is sent; brokers are in `tests/integration/kafka`."""

from dataclasses import replace
from typing import Any

import pytest

from actors.journal.store import JournalStore
from actors.kafka.portion_sender import PortionSender, routing_of
from actors.kafka.segment_rows import SegmentRows
from actors.kafka.topics import KafkaTopics
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.entry import Entry
from pipeline.kafka import rows_in_step
from pipeline.kafka.errors import TableRefusal
from pipeline.kafka.facts import PortionSent
from pipeline.kafka.orders import SendPortion
from pipeline.kafka.portions import Portion
from pipeline.kafka.state import AllTopicsBut
from pipeline.schema.table_filter import TableFilter
from tests.actors.kafka.test_segment_rows import Content, entry, sealed_with_early_files, store
from tests.actors.kafka.test_sink_calls import Calling

__all__ = ["entry", "store"]


async def test_what_comes_before_a_portions_rows_is_read_before_the_first_message(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start within a segment reads over the rows that were sent. The broker's time must not run meanwhile."""
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", 1)
    settings = KafkaSinkSettings(("localhost:9092",), "shop", provide_transaction_metadata=True)
    actor, done = Calling(), list[str]()
    rows = SegmentRows(store, lambda: done.append("read"))
    sender = PortionSender(settings, store, rows, KafkaTopics(settings, "test"), actor.calls)

    async def send(*_: object) -> None:
        done.append("sent")

    monkeypatch.setattr(sender, "_send_records", send)
    order = SendPortion(AllTopicsBut(frozenset()), 1, Portion(3, 3, 10), 0, most=100)
    connected: Any = None
    sent = await sender.send_portion(connected, entry, order, routing_of(settings))
    assert sent == PortionSent(10, ended=True)
    after = done[done.index("sent") :]
    assert after.count("read") <= 10 < done.count("read") // 2
    await actor.calls.end()


async def test_a_table_whose_rows_have_no_known_order_is_refused_until_it_is_left_out(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of an earlier version doesn't say which of two rows files has a chunk."""
    parts = [Content("f", 0), Content("c", 1), Content("f", 1)]
    written = sealed_with_early_files(store, parts, {(1, "f")}, 3)
    entry = replace(written, chunks=tuple(replace(each, version=None) for each in written.chunks))
    settings, done = KafkaSinkSettings(("localhost:9092",), "shop"), list[object]()

    async def send(_: object, gathered: list[object]) -> None:
        done.extend(gathered)

    async def sent(entry: Entry, settings: KafkaSinkSettings, but: frozenset[str]) -> PortionSent:
        actor = Calling()
        sender = PortionSender(
            settings, store, SegmentRows(store), KafkaTopics(settings, "test"), actor.calls
        )
        monkeypatch.setattr(sender, "_send_rows", send)
        order = SendPortion(AllTopicsBut(but), 1, Portion(1, 100, 9), 0, most=100)
        connected: Any = None
        try:
            return await sender.send_portion(connected, entry, order, routing_of(settings))
        finally:
            await actor.calls.end()

    with pytest.raises(TableRefusal, match="several versions of the table's columns") as refused:
        await sent(entry, settings, frozenset())
    assert refused.value.topic == "shop.shop.items"
    without = replace(settings, tables=TableFilter((r"shop\.orders",)))
    whole = PortionSent(9, ended=True)
    assert await sent(entry, settings, frozenset({"shop.shop.items"})) == whole
    assert await sent(entry, without, frozenset()) == whole
    assert done == []
    assert await sent(written, settings, frozenset()) == whole


async def test_heartbeats_go_to_no_topic_where_there_are_none(store: JournalStore) -> None:
    for every_ms, topic in ((0, None), (1000, "__debezium-heartbeat.shop")):
        settings = KafkaSinkSettings(("localhost:9092",), "shop", heartbeat_interval_ms=every_ms)
        calls = Calling().calls
        rows, topics = SegmentRows(store), KafkaTopics(settings, "test")
        assert PortionSender(settings, store, rows, topics, calls).heartbeat_topic == topic
