"""A client of Kafka that is given up while it connects."""

import asyncio

import pytest

from actors.kafka.client import administrating
from deploy.toolchain.kafka_broker import KafkaBroker
from pipeline.config.settings import BrokerSettings

WITHIN_S = 20.0


async def forward_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A request or an answer, which begins with its length."""
    length = await reader.readexactly(4)
    writer.write(length + await reader.readexactly(int.from_bytes(length)))
    await writer.drain()


async def test_a_client_that_is_given_up_while_it_starts_leaves_no_connection(kafka: KafkaBroker) -> None:
    asked, connections = asyncio.Event(), set[asyncio.Task[None] | None]()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The broker's answer to the first request, and none to the second one."""
        connections.add(asyncio.current_task())
        answers, broker = await asyncio.open_connection(kafka.host, kafka.port)
        await forward_one(reader, broker)
        await forward_one(answers, writer)
        await forward_one(reader, broker)
        asked.set()
        await reader.read()  # until the client closes
        for end in (broker, writer):
            end.close()
            await end.wait_closed()

    async def start(port: int) -> None:
        async with administrating(BrokerSettings((f"127.0.0.1:{port}",)), "shop"):
            raise AssertionError

    async with (
        asyncio.timeout(WITHIN_S),
        await asyncio.start_server(answer_once, "127.0.0.1", 0) as server,
    ):
        starting = asyncio.ensure_future(start(server.sockets[0].getsockname()[1]))
        await asked.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await asyncio.gather(*filter(None, connections))
