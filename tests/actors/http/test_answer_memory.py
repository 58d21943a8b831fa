"""Answers that their clients don't take have a bounded part of memory, and are given once there's room again."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import uvloop

from actors.http import answer_memory, journal_files
from actors.http.answer_memory import MADE_AT_ONCE, AnswerMemory, NoRoomForAnswer, SharedAnswer
from actors.http.databus_relay import DatabusRelay
from pipeline import metrics as catalogue
from pipeline.config.settings import HttpSettings, HttpTlsSettings
from pipeline.journal.applied.progress import Through
from tests.actors.http.changes.journals import Tapped, tapped
from tests.actors.http.served_actors import applied_path
from tests.pipeline.journal.applied.progress import delivered, sealed
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.certificates import certificate

# More than the kernel takes for a client that reads nothing.
PART_BYTES = 16 << 20
ROOM_BYTES = 2 * PART_BYTES


FILE = "/journal/file?name=segments/large"
STREAM = "/stream?sources=shop.items&size=1000&output=json&streamFromLatestScn=true"


@asynccontextmanager
async def tapped_with_large_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tls: HttpTlsSettings | None = None
) -> AsyncIterator[Tapped]:
    monkeypatch.setattr(answer_memory, "MOST_HELD_BYTES", ROOM_BYTES)
    monkeypatch.setattr(journal_files, "MOST_ANSWER_BYTES", PART_BYTES)
    async with tapped(folder, HttpSettings(tls=tls)) as tap:
        tap.commit()
        tap.seal()
        with (tap.history.store.directory / "segments" / "large").open("wb") as file:
            file.truncate(PART_BYTES)
        yield tap


class Clients:
    """Clients that read no more of an answer than its status."""

    def __init__(self, url: str, trust: ssl.SSLContext | None) -> None:
        self._address = urlsplit(url)
        self._trust = trust
        self._open = ExitStack()

    async def ask(self, path: str) -> int:
        """Returns an answer's status."""
        return await asyncio.to_thread(self._ask, path)

    def leave(self) -> None:
        """Closes their connections."""
        self._open.close()

    def _ask(self, path: str) -> int:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(WITHIN_S)
        client.connect((self._address.hostname, self._address.port))
        if self._trust is not None:
            client = self._trust.wrap_socket(client, server_hostname=self._address.hostname)
        self._open.enter_context(client)
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return int(client.recv(12).split()[1])


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_answers_that_no_client_takes_have_so_much_memory_and_no_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loop: Callable[[], asyncio.AbstractEventLoop],
    encrypted: bool,
) -> None:
    tls, trust = None, None
    if encrypted:
        certificate(tmp_path, "127.0.0.1")
        tls = HttpTlsSettings(tmp_path / "server.pem")
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    async def ask() -> None:
        async with tapped_with_large_file(tmp_path, monkeypatch, tls) as tap:
            clients, memory = Clients(tap.url, trust), tap.bench.server._memory
            statuses = await asyncio.gather(*(clients.ask(FILE) for _ in range(24)))
            assert sorted(statuses) == [206, 206] + [429] * 22
            assert memory.held == ROOM_BYTES
            assert await clients.ask(STREAM) == 429
            # A small answer takes hardly any memory.
            assert [await clients.ask(path) for path in ("/livez", "/status")] == [200, 200]
            clients.leave()
            await until(lambda: memory.held == 0, "the clients have left")
            assert [await clients.ask(path) for path in (FILE, STREAM)] == [206, 200]
            clients.leave()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


async def test_a_large_answer_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tapped_with_large_file(tmp_path, monkeypatch) as tap:
        content = tap.history.store.directory / "segments" / "large"
        content.write_bytes(bytes(range(256)) * 1001)
        async with aiohttp.ClientSession() as session:
            for _ in range(2):  # by the same connection
                async with session.get(tap.url + FILE) as answer:
                    assert await answer.read() == content.read_bytes()


async def test_what_all_have_together_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a report's clients sends the same bytes, so a refusal would save nothing."""
    async with tapped_with_large_file(tmp_path, monkeypatch) as tap:
        monkeypatch.setattr(answer_memory, "PIECE_BYTES", 16)
        counted = list[int]()
        write, memory = SharedAnswer.write, tap.bench.server._memory

        async def written(answer: SharedAnswer, data: bytes) -> None:
            counted.append(memory.held)
            await write(answer, data)

        monkeypatch.setattr(SharedAnswer, "write", written)
        memory.held = ROOM_BYTES
        for path in ("/tables", "/status", "/metrics", "/"):
            assert (await tap.bench.get(path))[0] == 200
        assert set(counted) == {ROOM_BYTES}
        for path in (STREAM, "/register"):
            status, text = await tap.bench.get(path)
            assert status == 429 and "haven't taken yet have 32 MiB" in json.loads(text)["error"]


async def test_an_answer_to_who_has_waited_needs_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers are sent before it's asked whether there's room."""
    async with tapped_with_large_file(tmp_path, monkeypatch) as tap:
        monkeypatch.setattr(answer_memory, "PIECE_BYTES", 16)
        tap.bench.server._memory.held = ROOM_BYTES
        tap.bench.applied.journal_progressed(sealed(5, "a:1-9"))
        tap.bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        status, text = await tap.bench.get(applied_path("a:8", tables="shop.orders"))
        assert (status, json.loads(text)["segment"]) == (200, 5)


@pytest.mark.parametrize("path", [FILE, STREAM])
async def test_a_refused_answer_is_not_counted_as_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async with tapped_with_large_file(tmp_path, monkeypatch) as tap:
        monkeypatch.setattr(answer_memory, "PIECE_BYTES", 16)
        memory, changes = tap.bench.server._memory, tap.bench.changes
        making = memory.making

        @asynccontextmanager
        async def filled_meanwhile(few: asyncio.Semaphore) -> AsyncIterator[None]:
            async with making(few):
                yield
                memory.held = ROOM_BYTES

        monkeypatch.setattr(memory, "making", filled_meanwhile)
        assert (await tap.bench.get(path))[0] == 429
        assert not changes.sent
        for name in (catalogue.CHANGES_ROWS, catalogue.CHANGES_BYTES):
            assert tap.bench.metrics.total(name) == 0


async def test_a_few_answers_are_made_at_once() -> None:
    memory, makes, made = AnswerMemory(), 0, asyncio.Event()
    few = asyncio.Semaphore(MADE_AT_ONCE)

    async def make() -> None:
        nonlocal makes
        async with memory.making(few):
            makes += 1
            await made.wait()
            makes -= 1
            if makes == 0:
                memory.held = answer_memory.MOST_HELD_BYTES

    async with asyncio.timeout(10):
        making = [asyncio.create_task(make()) for _ in range(3 * MADE_AT_ONCE)]
        await asyncio.sleep(0)
        assert makes == MADE_AT_ONCE
        made.set()
        ended = await asyncio.gather(*making, return_exceptions=True)
    assert {type(each) for each in ended} == {type(None), NoRoomForAnswer}


async def test_pages_that_are_made_delay_no_file_and_who_leaves_waits_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended, may_end, page = 0, 0, asyncio.Event(), DatabusRelay._page

    async def slow_page(*asked: Any) -> Any:
        nonlocal begun, ended
        begun += 1
        try:
            await may_end.wait()
            return await page(*asked)
        finally:
            ended += 1

    async with tapped_with_large_file(tmp_path, monkeypatch) as tap, aiohttp.ClientSession() as session:
        monkeypatch.setattr(DatabusRelay, "_page", slow_page)
        changes = tap.bench.changes
        asking = [asyncio.create_task(session.get(tap.url + STREAM)) for _ in range(MADE_AT_ONCE)]
        await until(lambda: begun == MADE_AT_ONCE, "a few are made")
        waiting = asyncio.create_task(session.get(tap.url + STREAM))
        await until(lambda: changes.count == MADE_AT_ONCE + 1, "one waits")
        async with session.get(tap.url + FILE) as answer:
            assert answer.status == 206
        waiting.cancel()
        await until(lambda: changes.count == MADE_AT_ONCE, "it has left")
        asking.pop().cancel()
        await until(lambda: changes.count == MADE_AT_ONCE - 1, "one whose page is made has left too")
        assert (begun, ended) == (MADE_AT_ONCE, 1)
        may_end.set()
        assert [(await each).status for each in asking] == [200] * (MADE_AT_ONCE - 1)
        assert begun == ended == MADE_AT_ONCE
