"""The driver and our own reading on one connection to a real server, plain and through TLS, on both event loops."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import TlsMode, TlsSettings
from pipeline.source.statement import Statement
from tests.servers.source import ask, connected, select


@pytest.mark.parametrize("mode", [TlsMode.DISABLED, TlsMode.REQUIRED])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_rows_and_answers_in_turn(
    mysql: MysqlServer, mode: TlsMode, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def turns() -> None:
        async with connected(mysql, tls=TlsSettings(mode)) as source:
            for letter in ("a", "b"):
                _, [rows] = await select(source, Statement(f"SELECT REPEAT('{letter}', 9000000), 1"))
                assert rows.value(0, 0) == letter.encode() * 9_000_000
                assert await ask(source, f"SELECT REPEAT('{letter}', 200000), 2") == [(letter * 200_000, 2)]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(turns())
