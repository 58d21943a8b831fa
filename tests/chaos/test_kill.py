"""SIGKILL at each step of capture, in the middle of a snapshot under writes: a new start loses and doubles nothing.

A service is killed once, or dies at all steps one after the other, before it may end what it began.
"""

import json
import signal
from pathlib import Path

import pytest

from actors.journal.store import JournalReader
from actors.service.config_file import load
from deploy.demo.service import write_config
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.chaos.broken import CAPTURE, Deed
from tests.chaos.forks import ForkedService
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.journal_oracle import entries, unequal, untrue
from tests.servers.service import running
from tests.servers.shop import FEW_PER_S, TABLES, writing

# The how-manieth time a step isn't survived: all are taken so often before the snapshot has ended.
NTH = 4
CHUNK_ROWS = 50
# A snapshot has chunks enough for so many lives.
LIVES = 3


def dying_at(step: str) -> tuple[str, ...]:
    """The arguments of a service that kills itself there."""
    return ("--without-lake", "--at", step, str(NTH), Deed.KILL)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(tuple(CAPTURE), id="all of them"),
        *(pytest.param((step,), id=step, marks=pytest.mark.full) for step in CAPTURE),
    ],
)
async def test_killed_and_started_again(
    open_shop: MysqlServer,
    parts: Parts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: tuple[str, ...],
) -> None:
    config, journal, signals = tmp_path / "shop.toml", tmp_path / "journal", tmp_path / "signals"
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__CONNECTIONS", "4")
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__WINDOWS", "8")
    monkeypatch.setenv("TIDEMARK__JOURNAL__SEAL_AFTER_MS", "20")
    monkeypatch.setenv("TIDEMARK__SIGNALS__FILE", str(signals))
    write_config(config, open_shop, open_shop.create_capture_user("shop"), parts, tmp_path)
    service, ids = ForkedService(config, journal, tmp_path / "log"), list[str]()

    def signal_snapshot() -> None:
        ids.append(f"s{len(ids)}")
        data = {"type": "incremental", "data-collections": [".*"], "chunk-rows": CHUNK_ROWS}
        with signals.open("a") as file:
            file.write(json.dumps({"id": ids[-1], "type": "execute-snapshot", "data": data}) + "\n")

    try:
        service.program = dying_at(steps[0])
        service.start()
        await until(JournalReader(journal).last_segment, "the first segment")
        with writing(open_shop, FEW_PER_S) as tally:
            for i, step in enumerate(steps):
                if i > 0:
                    service.program = dying_at(step)
                    service.launch()
                if i % LIVES == 0:
                    signal_snapshot()
                assert service.wait(WITHIN_S) == -signal.SIGKILL, step
                snapshots = entries(journal)[-1].checkpoint.snapshots
                assert not any(each.ended for each in snapshots if each.id == ids[-1]), step
            async with running(load(config)) as resumed:
                for id_ in ids:
                    await resumed.completed(id_)
    finally:
        service.close()
    async with running(load(config)) as resumed:
        for id_ in ids:
            await resumed.completed(id_)
        await resumed.caught_up(open_shop)
        await resumed.stop()
    assert unequal(open_shop, journal, *TABLES) == []
    assert untrue(journal, tally, *TABLES) == []
