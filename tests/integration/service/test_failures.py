"""Each actor raises, and each hangs, in the middle of a snapshot under writes; then all is as if nothing had been."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.binlog_reader import BinlogReader
from actors.chunk_selector import ChunkSelector
from actors.journal_writer import JournalWriter
from actors.runtime.actor import Actor
from actors.runtime.supervisor import ExitCode, LifeState
from actors.schema_verifier import SchemaVerifier
from actors.signal_listener import SignalListener
from actors.signals.rest import Unanswered
from actors.watermark_coordinator import WatermarkCoordinator
from deploy.demo import shop
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.errors import Definite, InvariantBroken
from pipeline.messages.topology import ActorName as Name
from tests.servers.journal_oracle import unequal, untrue
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running
from tests.servers.shop import SIZE, TABLES, writing
from tests.servers.source import cut

# Of each actor a step of its work, and the how-manieth time it fails. The sink has its turn in tests/chaos.
STEPS: dict[type[Actor[Any]], tuple[str, int]] = {
    SignalListener: ("handle", 1),
    BinlogReader: ("_give", 10),
    SchemaVerifier: ("handle", 10),
    WatermarkCoordinator: ("handle", 10),
    ChunkSelector: ("handle", 10),
    JournalWriter: ("handle", 10),
}


def breaks(
    monkeypatch: pytest.MonkeyPatch, kind: type[Actor[Any]], failure: Exception | None
) -> asyncio.Event:
    """Let an actor fail at its step, once: raise this, or hang. The event is set when it does."""
    step, nth = STEPS[kind]
    original, broken, came = getattr(kind, step), asyncio.Event(), 0

    async def breaking(actor: Actor[Any], *arguments: Any) -> None:
        nonlocal came
        came += 1
        if came == nth:
            broken.set()
            if failure is not None:
                raise failure
            vars(actor)["patience"] = 0.1  # so that the supervisor needn't be waited for
            await asyncio.Event().wait()
        await original(actor, *arguments)

    monkeypatch.setattr(kind, step, breaking)
    return broken


async def execute(service: Running, id_: str) -> None:
    """As an operator does who gets no answer: once more with the same id."""
    try:
        await service.execute(id_)
    except Unanswered:
        await service.execute(id_)


def restarted(service: Running, kind: type[Actor[Any]]) -> bool:
    """Returns whether the actor has restarted, and with it all of its group."""
    restarts = service.assembly.metrics.value(catalogue.RESTARTS, actor=kind.name)
    return restarts == 1 and service.supervisor.states[kind.name] is LifeState.RUNNING


# In `make test` one actor raises, and the next one hangs; what all consumers depend on does both.
@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        pytest.param(
            kind,
            RuntimeError("made to fail") if raises else None,
            id=f"{kind.__name__}-{'raises' if raises else 'hangs'}",
            marks=() if kind is JournalWriter or raises is (at % 2 == 0) else pytest.mark.full,
        )
        for at, kind in enumerate(STEPS)
        for raises in (True, False)
    ],
)
async def test_an_actor_fails_and_nothing_is_lost(
    open_shop: MysqlServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Actor[Any]],
    failure: Exception | None,
) -> None:
    broken = breaks(monkeypatch, kind, failure)
    async with running(pipeline(open_shop, tmp_path, "shop")) as service:
        await service.begun()
        with writing(open_shop) as tally:
            await execute(service, "s")
            await broken.wait()
            # What capture says of the snapshot before that isn't sealed, and may be forgotten with it.
            await service.until(lambda: restarted(service, kind), "a restart")
            await service.completed("s")
        await service.caught_up(open_shop)
        assert str(failure or "more than 0.1 s") in service.supervisor.failures[kind.name]
        await service.stop()
    assert unequal(open_shop, tmp_path / "journal", *TABLES) == []
    assert untrue(tmp_path / "journal", tally, *TABLES) == []


async def test_connections_that_the_server_ends_are_made_anew(open_shop: MysqlServer, tmp_path: Path) -> None:
    async with running(pipeline(open_shop, tmp_path, "shop")) as service:
        await service.begun()
        with writing(open_shop) as tally:
            await service.execute("s")
            await service.until(lambda: service.tables("s")["orders"]["chunks"], "a chunk")
            assert cut(open_shop) >= 2
            await service.completed("s")
        await service.caught_up(open_shop)
        await service.stop()
    assert unequal(open_shop, tmp_path / "journal", *TABLES) == []
    assert untrue(tmp_path / "journal", tally, *TABLES) == []


async def test_what_trying_again_cannot_mend_stops_the_service_by_its_name(
    open_shop: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, SchemaVerifier, Definite("it can't go on like this"))
    async with running(pipeline(open_shop, tmp_path, "shop")) as service:
        await service.begun()
        with writing(open_shop):
            outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert outcome.message == "SchemaVerifier: it can't go on like this"


async def test_a_broken_invariant_ends_it_at_once(
    open_shop: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, WatermarkCoordinator, InvariantBroken("two and two are five"))
    settings = pipeline(open_shop, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        with writing(open_shop) as tally:
            outcome = await service.end()
        assert outcome.code is ExitCode.INVARIANT
        assert outcome.message == "WatermarkCoordinator: two and two are five"
    async with running(settings) as service:
        await execute(service, "s")
        await service.completed("s")
        await service.caught_up(open_shop)
        assert set(service.supervisor.states.values()) == {LifeState.RUNNING, LifeState.ABSENT}
        await service.stop()
    assert unequal(open_shop, tmp_path / "journal", *TABLES) == []
    assert untrue(tmp_path / "journal", tally, *TABLES) == []


async def test_the_server_goes_and_comes_back(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    shop.fill(server, SIZE)
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.until(lambda: service.tables("s")["orders"]["chunks"], "a chunk")
        server.kill()
        await service.until(lambda: Name.BINLOG_READER in service.supervisor.failures, "it has been noticed")
        server.start()
        server.sql("UPDATE shop.orders SET version = 2 WHERE id % 3 = 0")
        await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", *TABLES) == []
