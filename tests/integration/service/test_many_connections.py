"""A whole service with few descriptors, to whose HTTP server thousands connect who send half a request."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp

from actors.runtime.supervisor import ExitCode
from deploy.toolchain.mysql_server import MysqlServer
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.executed import executed

# As many descriptors as the process may have; 1,000 connections of either kind are more.
DESCRIPTORS = 300
HALF_OPEN = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hal"
SLOW = (
    b"POST /signals HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


@contextmanager
def few_descriptors(config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tidemark run` with a small soft limit, and a hard one that's not much larger."""
    limits = ["prlimit", f"--nofile=100:{DESCRIPTORS}"]
    command = [*limits, "setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "actors", "run", str(config)]
    with log.open("ab") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.kill()


def connect_thousand(stack: ExitStack, url: str, data: bytes) -> None:
    """Connections that send half a request; the server may cut any of them."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    for _ in range(1_000):
        try:
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(data)
        except ConnectionError:
            continue


async def signalled(url: str, token: str) -> int:
    """The answer's status to a signal with this token, from who hasn't asked too often."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession(headers=headers) as session:
        while True:
            try:
                async with session.post(f"{url}/signals", json={"type": "pause-snapshot"}) as answer:
                    if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                        return answer.status
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.05)


def resumes(config: Path) -> bool:
    """Whether the command line's signal is accepted."""
    command = [sys.executable, "-m", "actors", "signal", str(config), "resume"]
    return subprocess.run(command, check=False).returncode == 0


def said(file: Path) -> str:
    """What a file says, once it's there."""
    return file.read_text() if file.exists() else ""


async def sealed_all(url: str, mysql: MysqlServer) -> None:
    """Until the journal has all that the server has executed by now. Asks again where the connection is cut."""
    asked = {"gtid_set": str(executed(mysql)), "through": "journal", "timeout_s": str(WITHIN_S)}
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession(raise_for_status=True) as session:
        while True:
            try:
                async with session.get(f"{url}/applied", params=asked):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def test_capture_does_not_notice_who_sends_half_a_request(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    account = mysql.create_capture_user(database)
    (tmp_path / "password").write_text(account.password)
    config, log, address = tmp_path / "shop.toml", tmp_path / "log", tmp_path / "journal" / "http.json"
    # A broker that nobody reaches needs no Spark, and capture runs without it.
    config.write_text(f"""name = "shop"
tables = ["{database}\\\\..*"]
journal = {{ path = "journal" }}
kafka = {{ bootstrap_servers = ["127.0.0.1:1"], topic_prefix = "shop" }}
snapshot = {{ mode = "no_data" }}

[source]
host = "{mysql.host}"
port = {mysql.port}
user = "{account.user}"
password_file = "password"
server_id = 77
tls = {{ mode = "disabled" }}
""")
    with few_descriptors(config, log) as process, ExitStack() as stack:
        url = json.loads(
            await until(lambda: said(address), "it listens", 120, lambda: process.poll() is not None)
        )
        await sealed_all(url["url"], mysql)
        for number, data in enumerate((HALF_OPEN, SLOW)):
            connect_thousand(stack, url["url"], data)
            mysql.sql(f"INSERT INTO t VALUES ({number})", database=database)
            await sealed_all(url["url"], mysql)
        # The service has made a token, which the command line finds.
        token = address.with_name("http-token").read_text().strip()
        assert [await signalled(url["url"], given) for given in ("", token)] == [401, 200]
        assert resumes(config)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == ExitCode.GAVE_UP, "the broker lacks what is sealed"
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {event["who"] for event in events if event["event"] == "failed"} == {"KafkaSink"}
    assert [event for event in events if event["event"] == "request failed"] == []
    made = [address.parent, *address.parent.rglob("*")]
    assert {path: oct(path.stat().st_mode) for path in made if path.stat().st_mode & 0o077} == {}
