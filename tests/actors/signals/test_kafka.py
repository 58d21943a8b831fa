"""The Kafka channel over a real broker: order, offsets, answers, and a broker or topics that aren't there."""

import asyncio
import gc
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import OffsetAndMetadata

from actors.runtime.secret_files import read_secret
from actors.signals import kafka as channels
from actors.signals.channel import IncomingSignal
from actors.signals.kafka import SignalKafka, check_broker
from deploy.toolchain.kafka_broker import PROPERTIES, KafkaBroker
from deploy.toolchain.parts import Parts
from pipeline.config.settings import KafkaSecurity, KafkaSettings, SaslMechanism, Secret
from pipeline.errors import Backoff
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot, SnapshotWaiting
from tests.pipeline.builders import ORDERS, gtids
from tests.servers.awaiting import until
from tests.servers.certificates import certificate
from tests.servers.kafka import Told, committed, create_topic, remake_topic, send
from tests.servers.stopped import stop

PAUSE = json.dumps({"id": "p", "type": "pause-snapshot"})
RESUME = json.dumps({"id": "r", "type": "resume-snapshot"})
GROUP = "tidemark-shop"

_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"signals-{next(_numbers)}"


@asynccontextmanager
async def listening(
    broker: KafkaBroker, topic: str, *, answers: str | None = None
) -> AsyncIterator[SignalKafka]:
    channel = SignalKafka(
        KafkaSettings((broker.address,), topic, answers), "shop", backoff=Backoff(0.05, 30.0)
    )
    try:
        async with asyncio.timeout(300):
            yield channel
    finally:
        await channel.close()


async def offset_is(broker: KafkaBroker, topic: str, offset: int) -> None:
    """Waits until this has been committed; the broker has no event for that."""
    while await committed(broker, topic, GROUP) != offset:  # noqa: ASYNC110 - there's no event across processes
        await asyncio.sleep(0.05)


async def set_back(broker: KafkaBroker, topic: str) -> None:
    """Puts another offset in the place of the committed one, as if it had been forgotten."""
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.address, group_id=GROUP, enable_auto_commit=False
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): 0})


async def test_signals_of_this_pipeline_come_in_order(kafka: KafkaBroker, topic: str) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE), ("other", "{"), (None, PAUSE), ("shop", None), ("shop", RESUME))
    async with listening(kafka, topic) as channel:
        first, second, third = [await channel.receive() for _ in range(3)]
        assert [first.text, second.text, third.text] == [PAUSE.encode(), b"", RESUME.encode()]
        assert str(first.default_id).startswith(f"{topic}-0-1")
        assert str(third.default_id).startswith(f"{topic}-4-1")
        assert channel.status()["connected"]


async def test_an_offset_is_committed_once_all_before_it_are_answered(kafka: KafkaBroker, topic: str) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE), ("shop", RESUME), ("other", PAUSE), ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        first, second, _ = [await channel.receive() for _ in range(3)]
        await second.answer(SignalAccepted("r", "snapshots are resumed"))
        await until(lambda: not channel._news.is_set(), "it has looked")
        assert await committed(kafka, topic, GROUP) is None
        await first.answer(SignalAccepted("p", "snapshots are paused"))
        await offset_is(kafka, topic, 3)
    async with listening(kafka, topic) as channel:
        again = await channel.receive()
        assert str(again.default_id).startswith(f"{topic}-3-1")


async def test_an_offset_is_committed_again_before_the_broker_forgets_it(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a later start would read all signals again, and take those that were rejected."""
    monkeypatch.setattr(channels, "BROKER_EVERY_S", 0.05)
    monkeypatch.setattr(channels, "COMMIT_EVERY_S", 0.1)
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        await (await channel.receive()).answer(SignalRejected("p", "so"))
        await offset_is(kafka, topic, 1)
        await set_back(kafka, topic)
        await offset_is(kafka, topic, 1)
    async with listening(kafka, topic) as channel:  # which gets no further signal
        receiving = asyncio.create_task(channel.receive())
        await until(lambda: channel.status()["connected"], "it listens")
        await set_back(kafka, topic)
        await offset_is(kafka, topic, 1)
        receiving.cancel()


async def test_what_is_unanswered_at_a_crash_comes_again(kafka: KafkaBroker, topic: str) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        first = await channel.receive()
    async with listening(kafka, topic) as channel:
        again = await channel.receive()
    assert (again.text, again.default_id) == (PAUSE.encode(), first.default_id)


async def test_signals_of_a_topic_that_is_made_again_have_other_ids(kafka: KafkaBroker, topic: str) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        first = await channel.receive()
        await first.answer(SignalAccepted("p", "snapshots are paused"))
        await offset_is(kafka, topic, 1)
    await remake_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        assert (await channel.receive()).default_id != first.default_id


@pytest.mark.parametrize("forgotten", [False, True])
async def test_what_an_earlier_version_may_have_accepted_keeps_its_id_beside_the_new_one(
    kafka: KafkaBroker, topic: str, *, forgotten: bool
) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE), ("shop", RESUME))
    if not forgotten:  # by the broker
        await set_back(kafka, topic)  # as the earlier version commits
    async with listening(kafka, topic) as channel:
        first, second = await channel.receive(), await channel.receive()
        assert [first.former_id, second.former_id] == [f"{topic}-0", f"{topic}-1"]
        await send(kafka, topic, ("shop", PAUSE))
        later = await channel.receive()
        assert str(later.default_id).startswith(f"{topic}-2-1")
        assert later.former_id is None
        await first.answer(SignalAccepted("p", "snapshots are paused"))
        await offset_is(kafka, topic, 1)
    async with listening(kafka, topic) as channel:
        again = [await channel.receive() for _ in range(2)]
    assert [each.former_id for each in again] == [f"{topic}-1", None]
    assert [each.default_id for each in again] == [second.default_id, later.default_id]


@pytest.mark.parametrize(
    ("last", "former"),
    [
        (None, ["signals-0", "signals-1", None]),
        (OffsetAndMetadata(0, ""), ["signals-0", "signals-1", None]),
        (OffsetAndMetadata(0, "1"), ["signals-0", None, None]),
        (OffsetAndMetadata(3, ""), [None, None, None]),
    ],
)
async def test_only_records_that_an_earlier_version_may_have_read_have_its_ids(
    last: OffsetAndMetadata | None, former: list[str | None]
) -> None:
    """Without a broker: a topic that had two records at the start, and the offset that was committed last."""
    partition = TopicPartition("signals", 0)
    records = [
        SimpleNamespace(topic="signals", offset=offset, timestamp=17, key=b"shop", value=PAUSE.encode())
        for offset in range(3)
    ]
    consumer = SimpleNamespace(
        _coordinator=SimpleNamespace(fetch_committed_offsets=AsyncMock(return_value={partition: last})),
        end_offsets=AsyncMock(return_value={partition: 2}),
        commit=AsyncMock(),
        getone=AsyncMock(side_effect=[*records, KafkaConnectionError()]),
    )
    channel = SignalKafka(KafkaSettings(("localhost:1",), "signals"), "shop")
    channel._arrived = asyncio.Queue()
    await channel._find_place(cast(AIOKafkaConsumer, consumer))
    with pytest.raises(KafkaConnectionError):
        await channel._read(cast(AIOKafkaConsumer, consumer))
    taken = [channel._arrived.get_nowait() for _ in range(3)]
    assert [each.former_id for each in taken] == former
    assert [each.default_id for each in taken] == ["signals-0-17", "signals-1-17", "signals-2-17"]


async def test_the_offset_of_another_topic_of_this_name_is_not_committed_again(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals that come while the service is down would be passed over."""
    monkeypatch.setattr(channels, "COMMIT_EVERY_S", 0.0)
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        await (await channel.receive()).answer(SignalAccepted("p", "snapshots are paused"))
        await offset_is(kafka, topic, 1)
        receiving = asyncio.create_task(channel.receive())
        await remake_topic(kafka, topic)
        await channel.sealed(Checkpoint(gtids("a:1-5")))
        await until(lambda: channel._place is None and not channel._news.is_set(), "it has looked")
        assert await committed(kafka, topic, GROUP) is None
        await send(kafka, topic, ("shop", RESUME))
        assert (await receiving).text == RESUME.encode()


async def test_answers_and_notifications_go_to_their_topic_before_the_offset_is_committed(
    kafka: KafkaBroker, topic: str
) -> None:
    answers = f"{topic}-answers"
    await create_topic(kafka, topic)
    await create_topic(kafka, answers)
    await send(kafka, topic, ("shop", PAUSE), ("shop", "{"))
    async with listening(kafka, topic, answers=answers) as channel, Told(kafka, answers) as told:
        first, second = await channel.receive(), await channel.receive()
        await second.answer(SignalRejected("", "it isn't JSON"))
        assert await told.next() == {"id": "", "outcome": "rejected", "reason": "it isn't JSON", "offset": 1}
        await first.answer(SignalAccepted("p", "snapshots are paused"))
        assert await told.next() == {
            "id": "p",
            "outcome": "accepted",
            "detail": "snapshots are paused",
            "offset": 0,
        }
        await offset_is(kafka, topic, 2)
        await channel.sealed(of(SnapshotWaiting()))
        assert (await told.next())["type"] == "STARTED"
        assert await told.next() == {"id": "s1", "outcome": "running", "detail": "shop.orders"}
        await channel.sealed(of(Completed(Progress(rows=7))))
        scanned = await told.next()
        assert scanned["aggregate_type"] == "Incremental Snapshot"
        assert scanned["additional_data"] == {
            "connector_name": "shop",
            "data_collections": "shop.orders",
            "scanned_collection": "shop.orders",
            "total_rows_scanned": "7",
            "status": "SUCCEEDED",
        }
        assert (await told.next())["type"] == "COMPLETED"
        assert await told.next() == {"id": "s1", "outcome": "done", "detail": "shop.orders"}


def of(state: SnapshotWaiting | Completed) -> Checkpoint:
    return Checkpoint(gtids("a:1-5"), snapshots=(Snapshot("s1", {ORDERS.table: state}),))


async def test_a_topic_that_is_not_there_is_named_and_waited_for(kafka: KafkaBroker, topic: str) -> None:
    async with listening(kafka, topic, answers=f"{topic}-answers") as channel:
        receiving = asyncio.create_task(channel.receive())
        await until(lambda: f"no topic {topic} and" in str(channel.status()["problem"]), "it's named")
        await create_topic(kafka, topic)
        await until(lambda: f"no topic {topic}-answers" in str(channel.status()["problem"]), "it's named")
        assert not channel.status()["connected"]
        await create_topic(kafka, f"{topic}-answers")
        await send(kafka, topic, ("shop", PAUSE))
        assert (await receiving).text == PAUSE.encode()
        assert channel.status()["problem"] is None


async def test_a_topic_of_several_partitions_is_refused_by_name(kafka: KafkaBroker, topic: str) -> None:
    await create_topic(kafka, topic, partitions=2)
    async with listening(kafka, topic) as channel:
        receiving = asyncio.create_task(channel.receive())
        await until(lambda: "has 2 partitions" in str(channel.status()["problem"]), "it's named")
        receiving.cancel()


async def test_a_broker_may_come_late_and_go(
    parts: Parts, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert parts.kafka is not None
    broker = KafkaBroker(parts.kafka, tmp_path_factory.mktemp("kafka"))
    async with listening(broker, topic) as channel:
        receiving: asyncio.Task[IncomingSignal] = asyncio.create_task(channel.receive())
        await until(lambda: channel.status()["problem"] is not None, "it isn't there")
        await asyncio.to_thread(broker.start)
        try:
            await create_topic(broker, topic)
            await send(broker, topic, ("shop", PAUSE))
            first = await receiving
            await asyncio.to_thread(broker.stop)
            await first.answer(SignalAccepted("p", "snapshots are paused"))
            await asyncio.to_thread(broker.start)
            await offset_is(broker, topic, 1)
            await send(broker, topic, ("shop", RESUME))
            assert (await channel.receive()).text == RESUME.encode()
        finally:
            await asyncio.to_thread(broker.kill)


async def test_a_commit_that_is_broken_off_leaves_no_error_that_nobody_handles(
    kafka: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(kafka, topic)
    await send(kafka, topic, ("shop", PAUSE))
    async with listening(kafka, topic) as channel:
        first = await channel.receive()
        stop(kafka.pid)
        try:
            await first.answer(SignalAccepted("p", "snapshots are paused"))
            await until(lambda: committing() != [], "the commit is under way")
            await channel.close()
        finally:
            os.kill(kafka.pid, signal.SIGCONT)
    await until(lambda: committing() == [], "its request has ended")
    gc.collect()
    assert [line.getMessage() for line in caplog.records if line.name == "asyncio"] == []


def committing() -> list[asyncio.Task[Any]]:
    """The requests of commits that are under way."""
    return [task for task in asyncio.all_tasks() if "_do_commit_offsets" in repr(task)]


async def found(settings: KafkaSettings, wrong: str) -> str:
    """What's to be done about this; a topic that was just created isn't known at once."""
    async with asyncio.timeout(60):
        while not (  # noqa: ASYNC110 - there's no event across processes
            remedies := [f.remedy for f in await check_broker(settings, "shop") if wrong in f.wrong]
        ):
            await asyncio.sleep(0.05)
    return remedies[0]


async def test_what_is_wrong_with_the_topics_is_found_without_listening(
    kafka: KafkaBroker, topic: str
) -> None:
    settings = KafkaSettings((kafka.address,), topic, f"{topic}-answers")
    assert await found(settings, "the broker has no topic") == "create it with a single partition"
    await create_topic(kafka, topic, 2)
    await create_topic(kafka, f"{topic}-answers")
    assert await found(settings, f"{topic} has 2 partitions") == "name one that has a single partition"
    assert await check_broker(replace(settings, topic=f"{topic}-answers"), "shop") == []
    [gone] = await check_broker(replace(settings, bootstrap_servers=("127.0.0.1:1",)), "shop")
    assert "127.0.0.1:1 can't be reached" in gone.wrong


async def test_a_broker_that_is_spoken_to_by_tls_and_wants_a_password(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    certificate(tmp_path, "127.0.0.1")
    with KafkaBroker(parts.kafka, tmp_path / "kafka", secured(tmp_path)) as broker:
        settings = KafkaSettings(
            (broker.address,),
            "signals",
            security_protocol=KafkaSecurity.SASL_SSL,
            ca=tmp_path / "ca.pem",
            sasl_mechanism=SaslMechanism.PLAIN,
            sasl_username="tidemark",
            sasl_password=Secret("right"),
        )
        [missing] = await check_broker(settings, "shop")  # it was let in
        assert "the broker has no topic signals" in missing.wrong
        for changed in ({"sasl_password": Secret("wrong")}, {"ca": None}):
            [refused] = await check_broker(replace(settings, **changed), "shop")
            assert "can't be reached" in refused.wrong
        file = tmp_path / "password"
        file.write_text("wrong\n")
        changing = replace(settings, sasl_password=read_secret(file))
        assert "can't be reached" in (await check_broker(changing, "shop"))[0].wrong
        file.write_text("right\n")  # it's read again for each connection
        assert "the broker has no topic" in (await check_broker(changing, "shop"))[0].wrong


def secured(folder: Path) -> str:
    """The properties of a broker that has this folder's certificate, and knows one user besides itself."""
    users = 'username="broker" password="own" user_broker="own" user_tidemark="right"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    return (
        PROPERTIES.replace("PLAINTEXT://", "SECURE://")
        + f"""
listener.security.protocol.map=SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SECURE
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={login}
ssl.keystore.type=PEM
ssl.keystore.location={folder / "server.pem"}
ssl.truststore.type=PEM
ssl.truststore.location={folder / "ca.pem"}
"""
    )
