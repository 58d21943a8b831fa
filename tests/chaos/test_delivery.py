"""A service whose sink fails, and then hangs: it's built anew each time, and each change is in the lake once.

Where the process or Spark's JVM dies is told by `test_lake_kills`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.judge import judge
from deploy.demo.service import Service, write_config
from deploy.demo.view import View
from deploy.demo.writer import save
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS
from deploy.toolchain.parts import Parts
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from tests.chaos.broken import SINK, Deed
from tests.servers.mysql import MysqlFactory
from tests.servers.service_process import delivered, until
from tests.servers.shop import stocked, writer_by_hand

WITHIN_S = 120.0

(NEWS,) = SINK
FAILING = ((NEWS, "1", Deed.RAISE), (NEWS, "2", Deed.HANG))


def restarted(times: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the sink has been built anew so many times, and is at work."""
    return lambda status: bool(status["ready"] and status["actors"][Name.SPARK_SINK]["restarts"] == times)


@pytest.mark.full
def test_a_sink_that_fails_and_one_that_hangs_are_built_anew_and_nothing_comes_twice(
    mysql_factory: MysqlFactory, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__CHUNK_ROWS", "100")
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_ROWS", "50")
    monkeypatch.setenv("TIDEMARK__LAKE__DRAIN_S", "60")
    monkeypatch.setenv("TIDEMARK__SPARK__DRIVER_MEMORY", "1g")
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    with stocked(server), writer_by_hand(server) as by_hand:
        server.sql("SET GLOBAL general_log = ON")
        account = server.create_capture_user("shop")
        config = tmp_path / "tidemark.toml"
        write_config(config, server, account, parts, tmp_path)

        def write() -> None:
            for _ in range(50):
                by_hand.transaction()

        def service(*broken: str) -> Service:
            program = ("-m", "tests.chaos.broken", *broken)
            return Service(config, tmp_path / "journal", tmp_path / "log", program)

        running = service("--without-lake")
        try:
            running.start()
            running.tell("execute", "--id", "s")
            running.kill()
            write()
            running = service(*(word for broken in FAILING for word in ("--at", *broken)))
            running.start()
            write()
            for times in range(1, len(FAILING) + 1):
                until(running, restarted(times), WITHIN_S)
                write()
            until(running, delivered(server), WITHIN_S)  # its mirrors are complete
            write()
            # What's captured when it's told to stop is in the lake when it has stopped.
            executed = GtidSet.parse(server.executed())
            until(running, lambda s: s["ready"] and executed <= GtidSet.parse(s["position"]), WITHIN_S)
            assert running.stop() == 0
        finally:
            running.kill()
        save(by_hand.tally, tmp_path / "tally.parquet")
        assert judge(server, account, parts, tmp_path, View())
