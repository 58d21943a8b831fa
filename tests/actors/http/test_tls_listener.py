"""HTTPS over real sockets: connections whose handshake comes, comes in part, or does not come."""

import asyncio
import ssl
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop

from actors.http import tls_listener
from actors.http.access import Allowance, TokenBucket
from actors.http.connections import ConnectionLimits
from actors.http.tls_listener import HANDSHAKES, HANDSHAKES_OF_ADDRESS, HandshakeShares, TlsListener
from pipeline.config.settings import HttpSettings, HttpTlsSettings
from tests.actors.http.served_actors import served
from tests.actors.http.test_certificate import HOST, livez
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.certificates import certificate


@pytest.fixture
def tls(tmp_path: Path) -> HttpTlsSettings:
    certificate(tmp_path, HOST)
    return HttpTlsSettings(tmp_path / "server.pem")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_it_serves_by_tls_alone_on_either_event_loop(
    tmp_path: Path, tls: HttpTlsSettings, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def ask() -> None:
        async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
            assert bench.server.url.startswith("https://127.0.0.1:")
            assert await livez(bench, tmp_path / "ca.pem") == "alive\n"
            with pytest.raises(OSError, match=r"reset|closed|Remote end"):
                await asyncio.to_thread(
                    urllib.request.urlopen, bench.server.url.replace("https", "http") + "/livez"
                )

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(
    tmp_path: Path, tls: HttpTlsSettings, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def ask() -> None:
        limits = ConnectionLimits(9, 9, linger_s=0.05)
        async with served(tmp_path, settings=HttpSettings(tls=tls), limits=limits) as bench:
            host, port = bench.server.url.removeprefix("https://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
            peer = ssl.create_default_context(cafile=str(tmp_path / "ca.pem")).wrap_bio(
                coming, going, server_hostname=HOST
            )
            while True:
                try:
                    peer.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(going.read())
                    coming.write(await reader.read(1 << 16))
            peer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            writer.write(going.read())  # the last message of the handshake, and the request
            coming.write(await ended(reader))
            answer = b""
            with suppress(ssl.SSLWantReadError):
                while more := peer.read():
                    answer += more
            assert answer.startswith(b"HTTP/1.1 200 OK") and answer.endswith(b"alive\n")
            writer.transport.abort()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


@pytest.mark.parametrize(
    "limits",
    [
        ConnectionLimits(500, 500, headers_within_s=0.05, cut_after_s=1000),
        ConnectionLimits(500, 500, headers_within_s=1000, cut_after_s=0.05),
    ],
    ids=["its own", "of all that are idle"],
)
async def test_a_handshake_that_does_not_come_has_a_deadline(
    tmp_path: Path, tls: HttpTlsSettings, limits: ConnectionLimits
) -> None:
    async with served(tmp_path, settings=HttpSettings(tls=tls), limits=limits) as bench:
        host, port = bench.server.url.removeprefix("https://").split(":")
        for sent in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            assert b"HTTP" not in await ended(reader)
            writer.transport.abort()
        connections = bench.server._connections
        assert connections is not None and len(connections) == 0


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_those_that_begin_no_handshake_count_and_make_room(
    tmp_path: Path, tls: HttpTlsSettings, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def half_open() -> None:
        limits = ConnectionLimits(20, 20)
        async with served(tmp_path, settings=HttpSettings(tls=tls), limits=limits) as bench:
            connections = bench.server._connections
            assert connections is not None
            host, port = bench.server.url.removeprefix("https://").split(":")
            writers = []
            for _ in range(100):
                writers.append((await asyncio.open_connection(host, int(port)))[1])
                writers[-1].write(b"\x16\x03\x01")
                assert len(connections) <= limits.most
            await until(lambda: len(connections) == limits.most, "as many are open as may be")
            assert await livez(bench, tmp_path / "ca.pem") == "alive\n"
            assert len(connections) <= limits.most
            for writer in writers:
                writer.transport.abort()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(half_open())


async def test_handshakes_are_bounded_by_a_rate(tmp_path: Path, tls: HttpTlsSettings) -> None:
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
        listener = bench.server._listening
        assert isinstance(listener, TlsListener)
        listener._handshakes._in_all = TokenBucket(Allowance(2, 1e-9))
        assert [await livez(bench, tmp_path / "ca.pem") for _ in range(2)] == ["alive\n"] * 2
        with pytest.raises(OSError, match=r"reset|closed|EOF"):
            await livez(bench, tmp_path / "ca.pem")


def test_an_address_takes_no_more_than_its_share_of_the_handshakes() -> None:
    now = 0.0
    shares = HandshakeShares(lambda: now)
    burst, per_s = HANDSHAKES_OF_ADDRESS
    begun = [shares.take("192.0.2.1") for _ in range(10 * HANDSHAKES.burst)]
    assert begun == [True] * burst + [False] * (len(begun) - burst)
    # What it was refused was taken from no other, and loopback has what is left of all.
    assert shares.take("192.0.2.2")
    assert sum(shares.take("127.0.0.1") for _ in range(HANDSHAKES.burst)) == HANDSHAKES.burst - burst - 1
    assert not shares.take("192.0.2.3")
    now = 1.0
    assert [shares.take("192.0.2.1") for _ in range(int(per_s) + 1)] == [True] * int(per_s) + [False]


def test_the_shares_of_so_many_addresses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_listener, "ADDRESSES", 2)
    monkeypatch.setattr(tls_listener, "HANDSHAKES_OF_ADDRESS", Allowance(1, 1.0))
    shares = HandshakeShares(lambda: 0.0)
    assert [shares.take(address) for address in ("a", "b", "a", "c", "a")] == [True, True, False, True, False]
    assert len(shares._of_address) == 2
    assert shares.take("b"), "it was unused for longest"


async def test_a_connection_that_fails_in_an_unknown_way_concerns_no_other(
    tmp_path: Path, tls: HttpTlsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
        listener, connections = bench.server._listening, bench.server._connections
        assert isinstance(listener, TlsListener) and connections is not None
        host, port = bench.server.url.removeprefix("https://").split(":")
        with monkeypatch.context() as patched:
            patched.setattr(listener, "_serve", 7)  # so that counting it succeeds, and beginning it doesn't
            for _ in range(2):
                reader, writer = await asyncio.open_connection(host, int(port))
                async with asyncio.timeout(WITHIN_S):
                    assert await ended(reader) == b""
                writer.transport.abort()
        assert len(connections) == 0
        assert await livez(bench, tmp_path / "ca.pem") == "alive\n"


async def ended(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""
