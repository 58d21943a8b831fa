"""Bytes from a real socket into the reader's own memory, on both event loops."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any, cast

import pytest
import uvloop

from actors.source.receive_buffer import ReceiveBuffer

LARGE = 1 << 20


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """A test on Python's own event loop and on the one that the service runs on."""

    @pytest.mark.parametrize("loop", LOOPS)
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    return test


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[socket.socket, asyncio.Transport, ReceiveBuffer]]:
    """The far end of a connection, and the near end with its buffer."""
    listener = socket.create_server(("127.0.0.1", 0))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    far, _ = listener.accept()
    listener.close()
    far.setblocking(False)
    try:
        buffer = await ReceiveBuffer.instead_of(reader, writer)
        yield far, cast("asyncio.Transport", writer.transport), buffer
    finally:
        writer.transport.close()
        far.close()
        await asyncio.sleep(0)


async def send(far: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(far, data)


def room(size: int) -> memoryview:
    return memoryview(bytearray(size))


@on_both_loops
async def test_bytes_come_out_in_their_order_whatever_is_asked_for() -> None:
    sent = os.urandom(20_000_000)
    sizes = (1, 2, 4, 5, 100, 4, 70_000, LARGE, 5, 3 * LARGE, 65_535, 65_536, 65_537)
    async with joined() as (far, _, buffer):
        sending = asyncio.create_task(send(far, sent))
        got = bytearray()
        asked = cycle(sizes)
        while left := len(sent) - len(got):
            size = min(next(asked), left)
            if size % 2:
                got += await buffer.readexactly(size)
            else:
                mine = room(size)
                got += mine[: await buffer.receive(mine)]
        await sending
        assert got == sent


@on_both_loops
async def test_what_is_there_is_given_at_once() -> None:
    async with joined() as (far, _, buffer):
        for size in (4, LARGE):
            await send(far, b"abc")
            mine = room(size)
            assert bytes(mine[: await buffer.receive(mine)]) == b"abc"


@on_both_loops
async def test_large_rooms_are_written_by_the_socket_itself() -> None:
    async with joined() as (far, _, buffer):
        mine = room(LARGE)
        receiving = asyncio.create_task(buffer.receive(mine))
        await asyncio.sleep(0)
        assert buffer.get_buffer(-1).obj is mine.obj
        await send(far, b"abc")
        assert await receiving == 3
        assert buffer.get_buffer(-1).obj is not mine.obj


@on_both_loops
async def test_a_sender_is_held_back_only_by_a_reader_that_does_not_keep_up() -> None:
    async with joined() as (far, near, buffer):
        await send(far, b"abc")
        assert await buffer.readexactly(1) == b"a"
        assert near.is_reading()  # two bytes wait here, and no reader takes them
        sent = os.urandom(50_000_000)
        sending = asyncio.create_task(send(far, sent))
        while near.is_reading():  # noqa: ASYNC110 - a pause has no event
            await asyncio.sleep(0)
        assert await buffer.readexactly(2 + len(sent)) == b"bc" + sent
        assert near.is_reading()
        await sending


@on_both_loops
async def test_the_end_is_told_behind_the_last_byte_and_ever_after() -> None:
    async with joined() as (far, _, buffer):
        await send(far, b"abc")
        assert await buffer.readexactly(1) == b"a"
        far.close()
        assert await buffer.readexactly(2) == b"bc"
        assert [await buffer.receive(room(size)) for size in (1, LARGE)] == [0, 0]


@on_both_loops
async def test_an_end_in_the_midst_of_what_was_asked_for() -> None:
    async with joined() as (far, _, buffer):
        await send(far, b"abc")
        far.close()
        with pytest.raises(asyncio.IncompleteReadError) as ended:
            await buffer.readexactly(4)
        assert (ended.value.partial, ended.value.expected) == (b"abc", 4)


@on_both_loops
async def test_a_failure_of_the_connection_is_raised() -> None:
    async with joined() as (far, _, buffer):
        receiving = asyncio.create_task(buffer.receive(room(LARGE)))
        await asyncio.sleep(0)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()  # with a reset
        with pytest.raises(ConnectionResetError):
            await receiving


@on_both_loops
async def test_who_waits_when_the_connection_is_closed_here_is_told_the_end() -> None:
    async with joined() as (_, near, buffer):
        receiving = asyncio.create_task(buffer.receive(room(LARGE)))
        await asyncio.sleep(0)
        near.close()
        assert await receiving == 0


@on_both_loops
async def test_the_room_of_a_cancelled_reader_is_not_written_any_more() -> None:
    async with joined() as (far, _, buffer):
        mine = room(LARGE)
        receiving = asyncio.create_task(buffer.receive(mine))
        await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.wait([receiving])
        await send(far, b"abc")
        assert await buffer.readexactly(3) == b"abc"
        assert not any(mine)


@on_both_loops
async def test_what_the_driver_had_read_ahead_comes_first() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    far, _ = listener.accept()
    far.sendall(b"abcdef")
    assert await reader.readexactly(2) == b"ab"
    buffer = await ReceiveBuffer.instead_of(reader, writer)
    far.sendall(b"gh")
    assert await buffer.readexactly(6) == b"cdefgh"
    for end in (writer.transport, far, listener):
        end.close()
    await asyncio.sleep(0)


@on_both_loops
async def test_a_connection_that_had_ended_before() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    for closed in (False, True):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        far, _ = listener.accept()
        far.close()
        assert await reader.read() == b""
        if closed:
            writer.close()
            await writer.wait_closed()
        buffer = await ReceiveBuffer.instead_of(reader, writer)
        assert await buffer.receive(room(LARGE)) == 0
        writer.transport.close()
    listener.close()
    await asyncio.sleep(0)
