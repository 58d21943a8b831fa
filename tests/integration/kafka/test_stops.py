"""Clean stops while the topics lack something: they end soon, and the next start sends the rest, each message once."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from actors.kafka_sink import KafkaSink
from actors.runtime.supervisor import ExitCode, RunOutcome
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Settings
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.state import Committing, CommittingLast, SendingPortion, State
from pipeline.messages.topology import ActorName as Name
from tests.servers.awaiting import WITHIN_S
from tests.servers.kafka_messages import committed_messages
from tests.servers.kafka_pipeline import sent, to_topics
from tests.servers.service import Running, running
from tests.servers.stopped import stop

STOPS_WITHIN_S: Final = 10.0

# A backlog of several Kafka transactions.
ROWS: Final = 20

# More than the sockets between a client and a broker take.
LARGE: Final = 16 << 20


@pytest.fixture
def short_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop soon breaks off what is under way."""
    monkeypatch.setattr(kafka_sink, "SENDS_FOR_S", 0.1)
    monkeypatch.setattr(kafka_sink, "COMMITS_WITHIN_S", 0.1)


@contextmanager
def hanging(broker: KafkaBroker) -> Iterator[None]:
    """The broker is there, and answers nothing."""
    stop(broker.pid)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


async def stopped(service: Running) -> ExitCode:
    """Stops the service, which ends soon. Returns with what."""
    service.supervisor.stop()
    async with asyncio.timeout(STOPS_WITHIN_S):
        return (await asyncio.shield(service.outcome)).code


async def captured(service: Running, server: MysqlServer) -> int:
    """Until all that the server has executed is sealed. Returns the last segment."""
    await service.caught_up(server)
    return await service.sealed()


def sink_state(service: Running) -> State:
    """The state of the sink's machine."""
    sink = service.supervisor.actors[Name.KAFKA_SINK]
    assert isinstance(sink, KafkaSink)
    return sink._state


def sends(service: Running) -> bool:
    """Whether the sink has begun a Kafka transaction, and has rows for it."""
    return isinstance(sink_state(service).doing, SendingPortion | Committing)


def sends_the_last(service: Running) -> bool:
    """Whether the sink commits what it has sent, and begins no further Kafka transaction."""
    return isinstance(sink_state(service).stop, CommittingLast)


async def ids(settings: Settings, broker: KafkaBroker) -> list[int]:
    """Whose messages the topic has."""
    assert settings.kafka is not None
    records = await committed_messages(broker, f"{settings.kafka.topic_prefix}.shop.numbers")
    return sorted(json.loads(record.value)["after"]["id"] for record in records)


async def ids_after_a_start(settings: Settings, broker: KafkaBroker, server: MysqlServer) -> list[int]:
    """Starts the service, and returns whose messages the topic has once it has sent everything."""
    async with running(settings, Assembly) as service:
        await service.begun()
        await captured(service, server)
        await sent(service)
        await service.stop()
    return await ids(settings, broker)


@pytest.mark.usefixtures("short_stops")
@pytest.mark.parametrize("length", [1, LARGE], ids=["small", "large"])
async def test_a_stop_does_not_wait_for_a_broker_that_hangs(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, length: int
) -> None:
    open_shop.sql("CREATE TABLE shop.numbers (id INT PRIMARY KEY, filling LONGTEXT)")
    settings = to_topics(kafka, open_shop, tmp_path, topic_config={"max.message.bytes": str(2 * LARGE)})
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql("INSERT INTO shop.numbers VALUES (0, '')")
        before = await captured(service, open_shop)
        await sent(service)
        with hanging(kafka):
            open_shop.sql(f"INSERT INTO shop.numbers VALUES (1, REPEAT('x', {length})), (2, '')")
            assert await captured(service, open_shop) > before
            assert await stopped(service) is ExitCode.CLEAN
        assert service.status(Name.KAFKA_SINK)["segment"] == before
    assert await ids_after_a_start(settings, kafka, open_shop) == [0, 1, 2]


@pytest.mark.usefixtures("short_stops")
async def test_a_stop_does_not_wait_for_a_broker_that_hangs_before_the_first_message(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    open_shop.sql("CREATE TABLE shop.numbers (id INT PRIMARY KEY)")
    settings = to_topics(kafka, open_shop, tmp_path)
    with hanging(kafka):
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql("INSERT INTO shop.numbers VALUES (0)")
            await captured(service, open_shop)
            assert await stopped(service) is ExitCode.CLEAN
    assert await ids_after_a_start(settings, kafka, open_shop) == [0]


async def test_a_stop_does_not_wait_for_a_broker_that_is_gone(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path
) -> None:
    assert parts.kafka is not None
    open_shop.sql("CREATE TABLE shop.numbers (id INT PRIMARY KEY)")
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        settings = to_topics(broker, open_shop, tmp_path)
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql("INSERT INTO shop.numbers VALUES (0)")
            await captured(service, open_shop)
            await sent(service)
            await asyncio.to_thread(broker.kill)
            open_shop.sql("INSERT INTO shop.numbers VALUES (1)")
            await captured(service, open_shop)
            assert await stopped(service) in (ExitCode.CLEAN, ExitCode.GAVE_UP)
        await asyncio.to_thread(broker.start)
        assert await ids_after_a_start(settings, broker, open_shop) == [0, 1]


async def test_a_stop_leaves_a_backlog_between_two_kafka_transactions(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker hangs until the sink has noticed the stop. Then it answers, and takes what is under way."""
    open_shop.sql("CREATE TABLE shop.numbers (id INT PRIMARY KEY)")
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=2)
    with monkeypatch.context() as hurried:
        hurried.setattr(kafka_sink, "SENDS_FOR_S", 0.0)
        hurried.setattr(kafka_sink, "COMMITS_WITHIN_S", WITHIN_S)
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql("INSERT INTO shop.numbers VALUES (0)")
            before = await captured(service, open_shop)
            await sent(service)
            with hanging(kafka):
                open_shop.sql(*(f"INSERT INTO shop.numbers VALUES ({id_})" for id_ in range(1, ROWS)))
                assert await captured(service, open_shop) > before
                await service.until(lambda: sends(service), "the sink has begun a Kafka transaction")
                service.supervisor.stop()
                await service.until(lambda: sends_the_last(service), "the sink begins no further one")
            assert await service.end() == RunOutcome(ExitCode.CLEAN)
    assert 1 < len(await ids(settings, kafka)) < ROWS
    assert await ids_after_a_start(settings, kafka, open_shop) == [*range(ROWS)]
