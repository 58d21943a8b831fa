"""A program's request to a service: what it sends, and whom it trusts."""

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from actors.http.changes.client import ChangesInterrupted, changes
from actors.http.connections import ConnectionLimits
from actors.journal import served_files, service_connection
from actors.journal.served_files import ServedFiles
from actors.journal.service_connection import Trust, ask_service, request_service
from actors.lake.read_your_writes import NotApplied, wait_until_applied
from pipeline.config.settings import HttpSettings, HttpTlsSettings, Secret
from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import Through
from tests.actors.http.served_actors import Bench, served
from tests.pipeline.builders import gtids
from tests.pipeline.journal.applied.progress import delivered, sealed
from tests.servers.awaiting import until
from tests.servers.certificates import certificate

TOKEN = "0123456789abcdef"
ABSENT = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"

# Asks together with its fork. Each of the two ends with 1 if it gets an answer that isn't its own.
FORKED = """
import json, os, sys
from actors.journal.service_connection import ask_service

def ask(what):
    body = ask_service(sys.argv[1], f"/applied?{what}=1", 10, None, None)[1]
    return json.loads(body)["error"].startswith(f"{what}: ")

assert ask("first")
child = os.fork()
mine = all([ask("child" if child == 0 else "parent") for _ in range(100)])
if child == 0:
    os._exit(not mine)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not mine)
"""


def opened(bench: Bench) -> int:
    """How many connections the service has."""
    connections = bench.server._connections
    assert connections is not None
    return len(connections)


def asked(bench: Bench, parameter: str = "what", times: int = 1) -> bool:
    """Whether each answer is the one to this request, which names a parameter that there isn't."""
    answers = [
        ask_service(bench.server.url, f"/applied?{parameter}=1", 10, None, None)[1] for _ in range(times)
    ]
    return all(json.loads(each)["error"].startswith(f"{parameter}: there is no") for each in answers)


async def test_it_sends_the_token_to_a_path_below_the_address(tmp_path: Path) -> None:
    settings = HttpSettings(host="0.0.0.0", token=Secret(TOKEN))
    async with served(tmp_path, settings=settings) as bench:

        def status(service: str, token: str | None) -> int:
            with closing(request_service(service, "/position", 10, token, None)) as connection:
                return connection.getresponse().status

        for service, token, told in (
            (bench.server.url, TOKEN, 200),
            (bench.server.url + "/", TOKEN, 200),
            (bench.server.url + "/below", TOKEN, 404),
            (bench.server.url, None, 401),
        ):
            assert await asyncio.to_thread(status, service, token) == told


async def test_who_waits_for_transactions_trusts_what_it_names(tmp_path: Path) -> None:
    certificate(tmp_path, "127.0.0.1")
    settings = HttpSettings(tls=HttpTlsSettings(tmp_path / "server.pem"))
    async with served(tmp_path, settings=settings) as bench:

        def wait(tls: Trust) -> None:
            wait_until_applied(bench.server.url, ABSENT, timeout_s=0.1, tls=tls)

        with pytest.raises(NotApplied, match=f"{ABSENT} hasn't been applied"):
            await asyncio.to_thread(wait, tmp_path / "ca.pem")
        with pytest.raises(NotApplied, match="certificate verify failed"):
            await asyncio.to_thread(wait, None)
        with pytest.raises(Definite, match=r"tls: .* has no certificates in PEM"):
            await asyncio.to_thread(wait, tmp_path / "http.json")


@pytest.mark.parametrize("status", [b"502 Bad Gateway", b"504 Gateway Time-out"])
@pytest.mark.parametrize("body", [b"<html></html>", b'{"message": "no healthy upstream"}', b"[]"])
async def test_a_service_that_a_proxy_does_not_reach_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch, status: bytes, body: bytes
) -> None:
    """As while it restarts. Whoever takes that for a refusal ends."""
    monkeypatch.setattr(served_files, "AGAIN_WITHIN_S", 0.0)

    async def answer(request: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        await request.readuntil(b"\r\n\r\n")
        to.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        await to.drain()
        to.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as proxy:
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        with pytest.raises(ChangesInterrupted):
            await asyncio.to_thread(lambda: list(changes(url)))
        with pytest.raises(Transient, match=f"the service at {url} answers 50"):
            await asyncio.to_thread(lambda: ServedFiles(url).listed("manifest"))
        with pytest.raises(NotApplied):
            await asyncio.to_thread(lambda: wait_until_applied(url, ABSENT))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_requests_follow_each_other_over_one_connection(tmp_path: Path, encrypted: bool) -> None:
    certificate(tmp_path, "127.0.0.1")
    tls = HttpTlsSettings(tmp_path / "server.pem") if encrypted else None
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:

        def ask() -> int:
            trust = tmp_path / "ca.pem" if encrypted else None
            return ask_service(bench.server.url, "/position", 10, None, trust)[0].status

        assert [await asyncio.to_thread(ask) for _ in range(3)] == [200] * 3
        assert opened(bench) == 1


async def test_a_connection_is_kept_for_a_while_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as bench:
        assert await asyncio.to_thread(asked, bench)
        first = service_connection._kept._idle[-1][1]
        monkeypatch.setattr(service_connection, "_KEPT_S", 0.0)
        assert await asyncio.to_thread(asked, bench)
        assert first.sock is None
        await until(lambda: opened(bench) == 1, "the first one is closed")


async def test_no_more_are_kept_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_connection, "_MOST_KEPT", 2)
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))

        def wait() -> None:
            wait_until_applied(bench.server.url, str(gtids("a:8")))

        waits = [asyncio.create_task(asyncio.to_thread(wait)) for _ in range(4)]
        await until(lambda: opened(bench) == 4, "all of them wait")
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        await asyncio.gather(*waits)
        await until(lambda: opened(bench) == 2, "two are closed")


async def test_a_service_may_restart_between_two_requests(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        assert await asyncio.to_thread(asked, bench)
        port = int(bench.server.url.rpartition(":")[2])
    async with served(tmp_path, settings=HttpSettings(port=port)) as bench:
        assert await asyncio.to_thread(asked, bench)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.to_thread(asked, bench)


async def test_a_service_may_close_an_idle_connection(tmp_path: Path) -> None:
    limits = ConnectionLimits(500, 500, headers_within_s=0.1)
    async with served(tmp_path, limits=limits) as bench:
        assert await asyncio.to_thread(asked, bench)
        await until(lambda: opened(bench) == 0, "it's closed")
        assert await asyncio.to_thread(asked, bench)


async def test_each_thread_gets_its_own_answers(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        gate = threading.Barrier(2)

        def ask(parameter: str) -> bool:
            gate.wait(10)
            return asked(bench, parameter, 100)

        assert await asyncio.gather(*(asyncio.to_thread(ask, each) for each in ("one", "two"))) == [True] * 2


async def test_what_comes_after_the_time_is_up_answers_no_other_request(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        assert await asyncio.to_thread(asked, bench)
        path = f"/applied?gtid_set={gtids('a:8')}"
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(ask_service, bench.server.url, path, 0.1, None, None)
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        assert await asyncio.to_thread(asked, bench)


async def test_a_forked_process_uses_connections_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        program = [sys.executable, "-c", FORKED, bench.server.url]
        done = await asyncio.to_thread(subprocess.run, program, check=False, timeout=60)
        assert done.returncode == 0
