"""All measuring and reporting fails, at every step of every actor, and capture continues as if nothing were."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actors
from actors.runtime import measuring
from actors.runtime.actor import Actor
from actors.runtime.recent_events import RecentEvents
from actors.status.status_board import StatusBoard
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.messages.topology import ActorName as Name
from tests.servers.journal_oracle import unequal
from tests.servers.service import pipeline, running
from tests.servers.shop import TABLES, writing

# Those of the service in the test's process, which has no Spark.
MEASURE = {
    "Metrics",
    "BinlogReader",
    "SchemaVerifier",
    "SnapshotMetrics",
    "AppliedWatch",
    "ChangesReaders",
    "JournalWriter",
    "SignalListener",
}


def measured() -> Iterator[tuple[Any, str, Callable[..., None]]]:
    """Each function that's guarded, and where it's found."""
    folder = Path(actors.__path__[0])
    for path in sorted(folder.rglob("[!_]*.py")):
        module = ".".join(("actors", *path.relative_to(folder).with_suffix("").parts))
        here = importlib.import_module(module)
        classes = (each for _, each in inspect.getmembers(here, inspect.isclass))
        holders = [here, *(each for each in classes if each.__module__ == module)]
        for holder in holders:
            for name, function in vars(holder).items():
                if getattr(function, "__code__", None) is GUARDED and function.__module__ == here.__name__:
                    yield holder, name, function


@measuring.contain_errors
def _example() -> None:
    pass


GUARDED = _example.__code__


def raising(function: Callable[..., None], broken: set[str]) -> Callable[..., None]:
    """The same, guarded as it was, which raises in its midst."""

    def raises(*_: Any, **__: Any) -> None:
        broken.add(function.__qualname__)
        raise LookupError("nothing can be measured")

    raises.__qualname__ = function.__qualname__
    return measuring.contain_errors(raises)


@pytest.mark.measuring_fails
async def test_capture_goes_on_while_nothing_can_be_measured_or_told(
    open_shop: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: set[str] = set()
    for holder, name, function in list(measured()):
        monkeypatch.setattr(holder, name, raising(function, broken))

    def silent(actor: Actor[Any]) -> dict[str, Any]:
        raise LookupError(f"{actor.name} has nothing to say")

    async with running(pipeline(open_shop, tmp_path, "shop")) as service:
        with writing(open_shop):
            await service.begun()
            await service.execute("s1", r"shop\.(orders|order_items|customers)")
            await service.completed("s1")
        await service.caught_up(open_shop)
        told = service.supervisor.actors
        monkeypatch.setattr(type(told[Name.CHUNK_SELECTOR]), "status", silent)
        board = StatusBoard(
            "test", service.supervisor, service.assembly.mailboxes, service.assembly.metrics, RecentEvents()
        )
        board.look(0.0, 0.0)
        assert board.status()["position"]
        assert service.supervisor.failures == {}
        await service.stop()
    assert {place.split(".")[0] for place in broken} >= MEASURE
    for table in TABLES:
        assert unequal(open_shop, tmp_path / "journal", table) == []
