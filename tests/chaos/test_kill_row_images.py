"""SIGKILL while rows of which the log has a part are read again: a new start finds in the journal what's unread."""

import json
import signal
from pathlib import Path

import pytest

from actors.service.config_file import load
from deploy.demo.service import Service, write_config
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.chaos.broken import Deed
from tests.integration.service.test_row_images import created, settled, writing
from tests.servers.awaiting import WITHIN_S
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.service import running

STEPS = ("selected, no high", "append taken, not sealed", "files written, no entry")
# The how-manieth time.
NTH = 12


@pytest.mark.usefixtures("small_ranges")
async def test_killed_while_rows_are_read_again(
    open_shop: MysqlServer, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, journal, signals = tmp_path / "shop.toml", tmp_path / "journal", tmp_path / "signals"
    monkeypatch.setenv("TIDEMARK__JOURNAL__SEAL_AFTER_MS", "20")
    monkeypatch.setenv("TIDEMARK__SIGNALS__FILE", str(signals))
    table = created(open_shop, "shop")
    write_config(config, open_shop, open_shop.create_capture_user("shop"), parts, tmp_path)
    data = {"type": "incremental", "data-collections": [r"shop\.t"], "chunk-rows": 20}
    signals.write_text(json.dumps({"id": "s", "type": "execute-snapshot", "data": data}) + "\n")
    with writing(open_shop, "shop", "MINIMAL"):
        for step in STEPS:
            program = ("-m", "tests.chaos.broken", "--without-lake", "--at", step, str(NTH), Deed.KILL)
            service = Service(config, journal, tmp_path / "log", program)
            try:
                service.launch()
                assert service.wait(WITHIN_S) == -signal.SIGKILL
            finally:
                service.kill()
    assert any(entry.checkpoint.unread for entry in entries(journal))
    async with running(load(config)) as resumed:
        await resumed.completed("s")
        await settled(resumed, open_shop)
        await resumed.stop()
    assert unequal(open_shop, journal, table) == []
    assert any(change.op == "r" for change in replay(journal, table).changes)
