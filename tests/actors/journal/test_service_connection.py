"""A program's request to a service: what it sends, and whom it trusts."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from actors.journal.service_connection import Trust, request_service
from actors.lake.read_your_writes import NotApplied, wait_until_applied
from pipeline.config.settings import HttpSettings, HttpTlsSettings, Secret
from pipeline.errors import Definite
from tests.actors.http.test_server import served
from tests.servers.certificates import certificate

TOKEN = "0123456789abcdef"
ABSENT = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"


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
