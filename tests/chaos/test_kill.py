"""SIGKILL at each step of capture, in the middle of a snapshot under writes: a new start loses and doubles nothing."""

import json
import signal
from pathlib import Path

import pytest

from actors.journal.store import JournalReader
from actors.service.config_file import load
from deploy.demo.service import Service, write_config
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.chaos.broken import CAPTURE, Deed
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.journal_oracle import entries, unequal, untrue
from tests.servers.service import running
from tests.servers.shop import FEW_PER_S, TABLES, writing

# The how-manieth time a step isn't survived: all are taken so often before the snapshot has ended.
NTH = 4
CHUNK_ROWS = 50


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=pytest.mark.full if at % 2 else ()) for at, step in enumerate(CAPTURE)],
)
async def test_killed_and_started_again(
    open_shop: MysqlServer, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    config, journal, signals = tmp_path / "shop.toml", tmp_path / "journal", tmp_path / "signals"
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__CONNECTIONS", "4")
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__WINDOWS", "8")
    monkeypatch.setenv("TIDEMARK__JOURNAL__SEAL_AFTER_MS", "20")
    monkeypatch.setenv("TIDEMARK__SIGNALS__FILE", str(signals))
    write_config(config, open_shop, open_shop.create_capture_user("shop"), parts, tmp_path)
    program = ("-m", "tests.chaos.broken", "--without-lake", "--at", step, str(NTH), Deed.KILL)
    service = Service(config, journal, tmp_path / "log", program)
    try:
        service.start()
        await until(JournalReader(journal).last_segment, "the first segment")
        with writing(open_shop, FEW_PER_S) as tally:
            data = {"type": "incremental", "data-collections": [".*"], "chunk-rows": CHUNK_ROWS}
            signals.write_text(json.dumps({"id": "s", "type": "execute-snapshot", "data": data}) + "\n")
            assert service.wait(WITHIN_S) == -signal.SIGKILL
            assert not any(snapshot.ended for snapshot in entries(journal)[-1].checkpoint.snapshots)
            async with running(load(config)) as resumed:
                await resumed.completed("s")
    finally:
        service.kill()
    async with running(load(config)) as resumed:
        await resumed.completed("s")
        await resumed.caught_up(open_shop)
        await resumed.stop()
    assert unequal(open_shop, journal, *TABLES) == []
    assert untrue(journal, tally, *TABLES) == []
