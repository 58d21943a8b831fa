"""One service after the other that doesn't survive a step of delivery, and at last one that stops cleanly.

They share a source that is written to all the time, a journal and a lake, since each start of Spark takes seconds.
"""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.judge import judge
from deploy.demo.service import Service, write_config
from deploy.demo.view import View
from deploy.demo.writer import save
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS
from deploy.toolchain.parts import Parts
from pipeline.gtid import GtidSet
from pipeline.topology import Actor as Name
from tests.chaos.broken import DELIVERY, SINK, Deed
from tests.servers.mysql import MysqlFactory
from tests.servers.shop import stocked, writer_by_hand

WITHIN_S = 120.0

# What befalls a service at which steps; the last one of a row stops cleanly.
Life = tuple[tuple[str, str, Deed], ...]
(NEWS,) = SINK
KILLED: tuple[Life, ...] = tuple(((step, "1", Deed.KILL),) for step in DELIVERY)
FAILING: Life = ((NEWS, "1", Deed.RAISE), (NEWS, "2", Deed.HANG))
LIVES = [
    pytest.param(((("merging", "1", Deed.KILL),), FAILING), id="killed while it merges, raises, hangs"),
    pytest.param((*KILLED, FAILING), id="killed at each step", marks=pytest.mark.full),
]


def wait_for(service: Service, told: Callable[[dict[str, Any]], bool]) -> None:
    """Until the service's status says so."""
    # Over HTTP there's nothing that could be awaited.
    deadline = time.monotonic() + WITHIN_S
    while not told(service.status()):
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {service.last_words()}"
        time.sleep(0.1)


def restarted(times: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the sink has been built anew so many times, and is at work."""
    return lambda status: bool(status["ready"] and status["actors"][Name.SPARK_SINK]["restarts"] == times)


@pytest.mark.parametrize("lives", LIVES)
def test_delivery_is_exactly_once_through_whatever_happens(
    mysql_factory: MysqlFactory,
    parts: Parts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lives: tuple[Life, ...],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__CHUNK_ROWS", "100")
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_ROWS", "50")
    monkeypatch.setenv("TIDEMARK__SPARK__DRIVER_MEMORY", "1g")
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    with stocked(server), writer_by_hand(server) as by_hand:
        server.sql("SET GLOBAL general_log = ON")
        account = server.create_capture_user("shop")
        config = tmp_path / "tidemark.toml"
        write_config(config, server, account, parts, tmp_path)

        def service(*broken: str) -> Service:
            program = ("-m", "tests.chaos.broken", *broken)
            return Service(config, tmp_path / "journal", tmp_path / "log", program)

        def write() -> None:
            for _ in range(50):
                by_hand.transaction()

        running = service("--without-lake")
        try:
            running.start()
            running.tell("execute", "--id", "s")
            running.kill()
            for life in lives:
                write()
                running = service(*(word for broken in life for word in ("--at", *broken)))
                with suppress(RuntimeError):  # it may not live to be ready
                    running.start()
                write()
                if Deed.KILL in life[0]:
                    assert running.wait(WITHIN_S) == -signal.SIGKILL, running.last_words()
                    continue
                for times in range(1, len(life) + 1):
                    wait_for(running, restarted(times))
                    write()
            # What's captured when it's told to stop is in the lake when it has stopped.
            executed = GtidSet.parse(server.executed())
            wait_for(running, lambda s: s["ready"] and executed <= GtidSet.parse(s["position"]))
            assert running.stop() == 0
        finally:
            running.kill()
        save(by_hand.tally, tmp_path / "tally.parquet")
        assert judge(server, account, parts, tmp_path, View())
