"""What a portion's messages need is read before the first of them is sent; brokers are in `tests/integration/kafka`."""

from typing import Any

import pytest

from actors.journal.store import JournalStore
from actors.kafka.portion_sender import PortionSender, routing_of
from actors.kafka.segment_rows import SegmentRows
from actors.kafka.topics import KafkaTopics
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.entry import Entry
from pipeline.kafka import rows_in_step
from pipeline.kafka.facts import PortionSent
from pipeline.kafka.orders import SendPortion
from pipeline.kafka.portions import Portion
from pipeline.kafka.state import AllTopicsBut
from tests.actors.kafka.test_segment_rows import entry, store
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


async def test_heartbeats_go_to_no_topic_where_there_are_none(store: JournalStore) -> None:
    for every_ms, topic in ((0, None), (1000, "__debezium-heartbeat.shop")):
        settings = KafkaSinkSettings(("localhost:9092",), "shop", heartbeat_interval_ms=every_ms)
        calls = Calling().calls
        rows, topics = SegmentRows(store), KafkaTopics(settings, "test")
        assert PortionSender(settings, store, rows, topics, calls).heartbeat_topic == topic
