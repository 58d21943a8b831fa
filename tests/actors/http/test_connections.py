"""Connections that send half a request, or nothing, or take no answer: by their rules, and over real sockets."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
import uvloop

from actors.http import server
from actors.http.access import Allowance, TokenBucket
from actors.http.connections import MOST_CONNECTIONS, RESERVE, ConnectionLimits, Connections, most_connections
from actors.http.static_files import StaticFile
from tests.actors.http.served_actors import Bench, served
from tests.servers.awaiting import until

HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hal"
SLOW = (
    b"POST /signals HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{"
)
WHOLE = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
GARBAGE = b"\x16\x03\x01\x02 garbage\r\n\r\n"
# They linger for no time, so that no task stays when a test ends.
ROOMY = ConnectionLimits(500, 500, 500, linger_s=0)


class Peer:
    """In a connection's place."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.was_cut = False

    def cut(self) -> None:
        self.was_cut = True


class House:
    """The rules alone, by a clock of its own."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.now = 100.0
        self.all = Connections(cast("Any", None), limits, lambda: self.now)

    def comes(self, address: str = "10.0.0.1") -> Peer | None:
        peer = Peer(address)
        return peer if self.all.admit(cast("Any", peer)) else None

    def works(self, peer: Peer) -> None:
        self.all._work(cast("Any", peer))


def test_the_one_that_is_idle_for_longest_makes_room() -> None:
    house = House(ConnectionLimits(3, 3))
    first, second, third = (house.comes() for _ in range(3))
    assert first and second and third
    house.works(first)
    fourth = house.comes("10.0.0.2")
    assert fourth
    assert [peer.was_cut for peer in (first, second, third, fourth)] == [False, True, False, False]
    assert len(house.all) == 3


def test_where_all_are_at_work_no_other_comes_in() -> None:
    house = House(ConnectionLimits(2, 2))
    peers = [house.comes() for _ in range(2)]
    for peer in peers:
        assert peer
        house.works(peer)
    assert house.comes() is None
    house.all.left(cast("Any", peers[0]))
    assert house.comes() is not None


def test_one_address_does_not_take_the_place_of_others() -> None:
    house = House(ConnectionLimits(100, 2))
    one, other = house.comes(), house.comes("10.0.0.2")
    two = house.comes()
    assert one and two and other
    assert house.comes() is not None
    assert (one.was_cut, two.was_cut, other.was_cut) == (True, False, False)
    assert all(house.comes("127.0.0.1") for _ in range(5))


def test_the_idle_ones_of_an_address_make_room_once_they_have_been_so_for_a_while() -> None:
    house = House(ConnectionLimits(100, 100, idle_of_address=2))
    first = house.comes()
    assert house.comes() and house.comes()
    assert first and not first.was_cut
    house.now += 5
    assert house.comes()
    assert first.was_cut


def test_an_idle_one_is_cut_at_its_deadline_and_one_at_work_is_not() -> None:
    house = House(ConnectionLimits(100, 100, cut_after_s=15))
    idle, busy = house.comes(), house.comes()
    assert idle and busy
    house.works(busy)
    house.now += 14
    late = house.comes()
    house.all.cut_idle()
    assert late and not idle.was_cut
    house.now += 1
    house.all.cut_idle()
    assert (idle.was_cut, busy.was_cut, late.was_cut) == (True, False, False)


def test_no_more_are_accepted_at_once_than_the_rate_permits() -> None:
    house = House(ROOMY)
    house.all._accepted = TokenBucket(Allowance(2, 1.0), lambda: house.now)
    assert [bool(house.comes()) for _ in range(3)] == [True, True, False]
    house.now += 1
    assert house.comes()


@pytest.mark.parametrize(
    ("descriptors", "most"),
    [
        (1, 1),
        (250, 125),
        (1024, 512),
        (4096, 4096 - RESERVE),
        (1 << 20, MOST_CONNECTIONS),
        (resource.RLIM_INFINITY, MOST_CONNECTIONS),
    ],
)
def test_descriptors_are_left_to_capture(descriptors: int, most: int) -> None:
    assert most_connections(descriptors) == most


async def opened(bench: Bench) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = bench.server.url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def sends(bench: Bench, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await opened(bench)
    writer.write(data)
    return reader, writer


@asynccontextmanager
async def many(bench: Bench, data: bytes, number: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections that send this and then nothing."""
    pairs = [await sends(bench, data) for _ in range(number)]
    try:
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.transport.abort()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that still comes, until the end."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def answered(bench: Bench, data: bytes) -> bytes:
    """All that comes for this, on a connection of its own."""
    reader, writer = await sends(bench, data)
    answer = await rest(reader)
    writer.close()
    return answer


@pytest.mark.parametrize("data", [b"", HALF], ids=["nothing", "half"])
async def test_half_a_request_is_waited_for_until_its_deadline(tmp_path: Path, data: bytes) -> None:
    limits = ConnectionLimits(500, 500, headers_within_s=0.05)
    async with served(tmp_path, limits=limits) as bench, many(bench, data, 5) as readers:
        assert [await rest(reader) for reader in readers] == [b""] * 5


async def test_drops_of_a_request_do_not_move_its_deadline(tmp_path: Path) -> None:
    async with served(tmp_path, limits=ConnectionLimits(500, 500, headers_within_s=0.05)) as bench:
        reader, writer = await sends(bench, HALF)
        ended = asyncio.create_task(rest(reader))
        while not ended.done():
            writer.write(b"f")
            await asyncio.wait({ended}, timeout=0.005)
        assert await ended == b""
        writer.close()


async def test_a_body_that_does_not_come_is_answered_and_its_connection_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BODY_WITHIN_S", 0.05)
    async with served(tmp_path, limits=ConnectionLimits(500, 500, linger_s=0.05)) as bench:
        async with many(bench, SLOW, 3) as readers:
            answers = [await rest(reader) for reader in readers]
        assert [answer.split(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 408 Request Timeout"] * 3


async def test_a_client_that_takes_no_answer_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FOLLOWER_PATIENCE_S", 0.05)
    async with served(tmp_path, limits=ROOMY) as bench:
        bench.server._files = {
            name: StaticFile(b"x" * (64 << 20), file.content_type)
            for name, file in bench.server._files.items()
        }
        reader, writer = await opened(bench)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(WHOLE.replace(b"/livez", b"/"))
        connections = bench.server._connections
        assert connections is not None
        await until(lambda: len(connections) == 1, "it's open")
        await until(lambda: len(connections) == 0, "it's cut")
        writer.transport.abort()


@pytest.mark.parametrize("data", [HALF, SLOW], ids=["half-open", "slow"])
async def test_a_thousand_that_send_half_leave_room_for_who_sends_all(tmp_path: Path, data: bytes) -> None:
    """Those whose body is slow are at work, until their deadline; so there's no more room than for them."""
    limits = ConnectionLimits(200 if data is HALF else 1_100, 2_000, linger_s=0)
    async with served(tmp_path, limits=limits) as bench, many(bench, data, 1_000):
        connections = bench.server._connections
        assert connections is not None
        assert [(await bench.get("/livez"))[0] for _ in range(20)] == [200] * 20
        assert len(connections) <= limits.most


def test_they_are_bounded_on_the_services_own_event_loop(tmp_path: Path) -> None:
    """uvloop's transports are of no class of asyncio's."""

    async def half_open() -> None:
        async with served(tmp_path, limits=ConnectionLimits(20, 20)) as bench, many(bench, HALF, 100):
            connections = bench.server._connections
            assert connections is not None
            assert (await bench.get("/livez"))[0] == 200
            assert len(connections) <= 20

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(half_open())


async def test_what_is_no_request_is_answered_in_few_words(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logged:
        async with served(tmp_path, limits=ROOMY) as bench:
            head, _, body = (await answered(bench, GARBAGE)).partition(b"\r\n\r\n")
            assert head.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
            assert json.loads(body) == {"error": "this is no HTTP request"}
            for text in (
                head,
                await answered(bench, WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")),
            ):
                assert b"aiohttp" not in text and b"Python" not in text
                assert b"Server: tidemark" in text
    assert [line["event"] for line in logged if line["log_level"] != "info"] == []


@pytest.mark.parametrize(
    "data", [GARBAGE, WHOLE.replace(b"livez", b"wp-login.php")], ids=["garbage", "unknown"]
)
async def test_beyond_a_rate_refusals_are_answered_no_more(tmp_path: Path, data: bytes) -> None:
    async with served(tmp_path, limits=ROOMY) as bench:
        connections = bench.server._connections
        assert connections is not None
        cast("Any", connections).refusals = TokenBucket(Allowance(2, 1e-9))
        told = []
        for _ in range(4):
            reader, writer = await sends(bench, data)
            told.append((await reader.readline() if data is not GARBAGE else await rest(reader))[:10])
            writer.transport.abort()
        assert [bool(each) for each in told] == [True, True, False, False]
        assert (await bench.get("/livez"))[0] == 200


async def test_a_request_that_is_broken_off_is_no_error(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logged:
        async with served(tmp_path, limits=ROOMY) as bench:
            connections = bench.server._connections
            assert connections is not None
            async with many(bench, SLOW, 20):
                await until(lambda: len(connections) == 20 and not connections._idle, "all are at work")
            await until(lambda: len(connections) == 0, "all have gone")
            assert (await bench.get("/livez"))[0] == 200
    assert [line["event"] for line in logged if line["log_level"] != "info"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["gzip", "deflate"],
)
async def test_a_body_that_cannot_be_decoded_is_no_error(
    body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anyone can send one, without a token too."""
    head = b"POST /signals HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    async with served(tmp_path, limits=replace(ROOMY, linger_s=2.0)) as bench:
        assert (await answered(bench, head + body)).startswith(b"HTTP/1.1 400")
        assert (await bench.get("/livez"))[0] == 200
    assert [record.getMessage() for record in caplog.records] == []


def test_limits_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(
        getrlimit=lambda _: (400, 400), RLIMIT_NOFILE=resource.RLIMIT_NOFILE, RLIM_INFINITY=-1
    )
    monkeypatch.setattr("actors.http.connections.resource", told)
    assert (ConnectionLimits.of_process().most, ConnectionLimits.of_process().of_address) == (200, 50)
