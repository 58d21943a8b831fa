"""Many readers of a service's `/changes`, in a process of their own that only takes bytes from sockets."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Final
from urllib.parse import urlsplit

import uvloop

_AT_ONCE: Final = 1 << 18
_PATH: Final = "/changes?since=now&format=arrow"


@contextmanager
def consumers(url: str, number: int) -> Iterator[None]:
    """Meanwhile so many connections follow the changes from now on. Raises AssertionError if one gets nothing."""
    if not number:
        yield
        return
    context = get_context("spawn")
    connected, ended = context.Event(), context.Event()
    process = context.Process(target=_follow, args=(url, number, connected, ended))
    process.start()
    try:
        assert connected.wait(60), "the consumers have no answer"
        yield
    finally:
        ended.set()
        process.join()
    assert process.exitcode == 0, "a consumer got nothing"


def _follow(url: str, number: int, connected: Event, ended: Event) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_followed(url, number, connected, ended))


async def _followed(url: str, number: int, connected: Event, ended: Event) -> None:
    place = urlsplit(url)
    assert place.hostname is not None
    request = f"GET {_PATH} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    streams = [await asyncio.open_connection(place.hostname, place.port) for _ in range(number)]
    for _, writer in streams:
        writer.write(request)
    for reader, _ in streams:
        assert b" 200 " in await reader.readline()
    connected.set()
    tasks = [asyncio.create_task(_take(reader)) for reader, _ in streams]
    await asyncio.to_thread(ended.wait)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result


async def _take(reader: asyncio.StreamReader) -> None:
    assert len(await reader.readexactly(4096)) == 4096
    while await reader.read(_AT_ONCE):
        pass
    raise AssertionError("the stream has ended")
