"""Mailboxes: order, room for each sender, and what each policy does when there's none."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from actors.runtime.mailbox import Closed, Mailbox
from pipeline.errors import InvariantBroken
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import TransactionPartVerified
from pipeline.messages.message_size import weight
from pipeline.messages.topology import ActorName, Edge, WhenFull
from tests.pipeline.builders import insert, part, place

READER = Edge(ActorName.BINLOG_READER, ActorName.WATERMARK_COORDINATOR, (LogAdvanced,), 2, WhenFull.WAIT)
SELECTOR = Edge(
    ActorName.CHUNK_SELECTOR, ActorName.WATERMARK_COORDINATOR, (LogAdvanced,), 1, WhenFull.BOUNDED, "one each"
)
WRITER = Edge(
    ActorName.JOURNAL_WRITER,
    ActorName.WATERMARK_COORDINATOR,
    (LogAdvanced,),
    1,
    WhenFull.NEWEST,
    "the newest",
)


@pytest.fixture
def mailbox() -> Mailbox[str]:
    return Mailbox((READER, SELECTOR, WRITER))


async def drain(mailbox: Mailbox[str]) -> list[str]:
    mailbox.close()
    return [message async for message in mailbox]


async def test_messages_come_in_the_order_of_arrival(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    await mailbox.put(SELECTOR, "b")
    await mailbox.put(READER, "c")
    assert (mailbox.depth, mailbox.capacity) == (3, 4)
    assert await drain(mailbox) == ["a", "b", "c"]


async def test_a_full_edge_waits_and_leaves_room_to_others(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    await mailbox.put(READER, "b")
    waiting = asyncio.create_task(mailbox.put(READER, "c"))
    await mailbox.put(SELECTOR, "other")
    await asyncio.tasks.sleep(0)
    assert not waiting.done()
    assert await mailbox.get() == "a"
    await waiting
    assert await drain(mailbox) == ["b", "other", "c"]


async def test_an_edge_is_full_by_weight_as_well() -> None:
    rows = Edge(
        ActorName.SCHEMA_VERIFIER,
        ActorName.WATERMARK_COORDINATOR,
        (TransactionPartVerified,),
        3,
        WhenFull.WAIT,
    )
    message = part("a:6", insert(1))
    heavy = replace(rows, bytes=weight(message) + 1)
    boxes: list[Mailbox[Any]] = [Mailbox((heavy,)), Mailbox((rows,))]
    room = []
    for box, edge in zip(boxes, (heavy, rows), strict=True):
        await box.put(edge, message)
        await box.put(edge, message)
        room.append(box.has_room(edge))
        await box.get()
        assert box.has_room(edge)
        await box.put(edge, LogAdvanced(place(1)))
        assert box.has_room(edge)
    assert room == [False, True]
    boxes[0].empty()
    await boxes[0].put(heavy, message)
    assert boxes[0].has_room(heavy)


async def test_a_full_bounded_edge_breaks_an_invariant(mailbox: Mailbox[str]) -> None:
    await mailbox.put(SELECTOR, "a")
    with pytest.raises(
        InvariantBroken,
        match="more than 1 messages from ChunkSelector to WatermarkCoordinator under way, though one each",
    ):
        await mailbox.put(SELECTOR, "b")


async def test_on_a_newest_edge_the_older_message_gives_way(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    await mailbox.put(WRITER, "old")
    await mailbox.put(READER, "b")
    await mailbox.put(WRITER, "new")
    assert await drain(mailbox) == ["a", "b", "new"]


async def test_equal_messages_of_other_edges_are_not_taken_for_the_older_one(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "same")
    await mailbox.put(WRITER, "same")
    await mailbox.put(WRITER, "new")
    assert await drain(mailbox) == ["same", "new"]


async def test_a_closed_mailbox_gives_out_what_waits_and_takes_nothing_more(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    mailbox.close()
    mailbox.close()
    with pytest.raises(Closed):
        await mailbox.put(READER, "lost")
    await mailbox.put(SELECTOR, "void")
    await mailbox.put(WRITER, "void")
    assert await mailbox.get() == "a"
    with pytest.raises(Closed):
        await mailbox.get()


async def test_closing_wakes_all_who_wait() -> None:
    mailbox = Mailbox[str]((READER,))
    receiver = asyncio.create_task(mailbox.get())
    await asyncio.tasks.sleep(0)
    mailbox.close()
    with pytest.raises(Closed):
        await receiver
    full = Mailbox[str]((READER,))
    for _ in range(READER.bound):
        await full.put(READER, "x")
    sender = asyncio.create_task(full.put(READER, "y"))
    await asyncio.tasks.sleep(0)
    full.close()
    with pytest.raises(Closed):
        await sender


async def test_emptying_drops_what_waits_and_lets_in_who_waits_outside(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    await mailbox.put(READER, "b")
    outside = asyncio.create_task(mailbox.put(READER, "c"))
    told = asyncio.create_task(mailbox.wait_emptied(0))
    await asyncio.tasks.sleep(0)
    mailbox.empty()
    assert await told == 1
    await outside
    assert await drain(mailbox) == ["c"]


async def test_a_cancelled_put_has_left_nothing_and_a_cancelled_get_taken_nothing(
    mailbox: Mailbox[str],
) -> None:
    receiver = asyncio.create_task(mailbox.get())
    await asyncio.tasks.sleep(0)
    await mailbox.put(READER, "a")
    receiver.cancel()
    await asyncio.wait({receiver})
    await mailbox.put(READER, "b")
    sender = asyncio.create_task(mailbox.put(READER, "c"))
    await asyncio.tasks.sleep(0)
    sender.cancel()
    await asyncio.wait({sender})
    assert await drain(mailbox) == ["a", "b"]


async def test_whoever_waits_for_its_end_need_not_take_what_waits_in_it(mailbox: Mailbox[str]) -> None:
    await mailbox.put(READER, "a")
    waiting = asyncio.create_task(mailbox.wait_closed())
    await asyncio.sleep(0)
    assert not waiting.done()
    mailbox.close()
    await waiting
    assert await drain(mailbox) == ["a"]
