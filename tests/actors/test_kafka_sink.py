"""What a KafkaSink asks of its journal, without a broker."""

import asyncio
import queue
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.journal.store import JournalStore
from actors.kafka import segment_rows
from actors.kafka_sink import KafkaSink
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.kafka.portions import Portion
from pipeline.kafka.state import AllTopicsBut
from pipeline.kafka.step import PortionSent, SendPortion
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.topology import ActorName, inbox
from tests.actors.kafka.test_segment_rows import entry, store
from tests.servers.awaiting import WITHIN_S

__all__ = ["entry", "store"]


def sink_of(store: JournalStore, **more: Any) -> KafkaSink:
    settings = KafkaSinkSettings(("localhost:9092",), "shop", **more)
    mailbox: Mailbox[ToKafkaSink] = Mailbox(inbox(ActorName.KAFKA_SINK))
    return KafkaSink(mailbox, Metrics(), settings, "test", store, lambda _: None)


@pytest.mark.usefixtures("entry")
async def test_what_comes_before_a_portions_rows_is_read_before_the_first_message(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start within a segment reads over the rows that were sent. The broker's time must not run meanwhile."""
    monkeypatch.setattr(segment_rows, "ROWS_CONVERTED_TOGETHER", 1)
    sink, done = sink_of(store, provide_transaction_metadata=True), list[str]()
    monkeypatch.setattr(sink._rows, "_advanced", lambda: done.append("read"))

    async def send(*_: object) -> None:
        done.append("sent")

    monkeypatch.setattr(sink, "_send_records", send)
    order = SendPortion(AllTopicsBut(frozenset()), 1, Portion(3, 3, 10), 0, most=100)
    connected: Any = None
    assert await sink._send(connected, order) == PortionSent(10, ended=True)
    after = done[done.index("sent") :]
    assert after.count("read") <= 10 < done.count("read") // 2
    await sink.release()


async def test_a_thread_that_advances_is_no_hang_and_ends_once_the_actor_does(tmp_path: Path) -> None:
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as store:
        sink = sink_of(store)
        turns, waits = queue.Queue[float](), asyncio.Queue[None]()
        loop = asyncio.get_running_loop()

        def work() -> None:
            while True:
                loop.call_soon_threadsafe(waits.put_nowait, None)
                sink._busy_since = turns.get()
                sink._advanced()

        working = asyncio.ensure_future(sink._in_thread(work))
        await waits.get()
        turns.put(0.0)  # it began long ago
        await waits.get()
        assert not sink.hung()
        working.cancel()
        sink.rest()
        released = asyncio.create_task(sink.release())
        await asyncio.sleep(0)
        turns.put(0.0)
        async with asyncio.timeout(WITHIN_S):
            await released


def test_it_knows_where_the_journal_ended_before_its_writer_began(tmp_path: Path) -> None:
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as store:
        store.consumers.record_progress(KAFKA_CONSUMER, 3, 3)
        store.leave_unchecked(KAFKA_CONSUMER)
        sink = sink_of(store)
        bounds = sink._bounds()
        assert (bounds.unchecked_end, bounds.joined, bounds.confirmed) == (0, 3, True)
        store.consumers.checked(KAFKA_CONSUMER)
        assert sink._bounds().unchecked_end is None
