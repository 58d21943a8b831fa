"""One promise, kept in every mode: the journal of each table equals the table, whatever happened meanwhile.

Each mode reads the same shop from the same server under the same load: inserts, updates, new keys for old rows, deletes
and re-inserts on tables with different keys. Once, in the middle, the service is killed with SIGKILL.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from actors.service.config_file import load
from deploy.demo.service import Service, write_config
from deploy.demo.writer import TRANSACTIONS_PER_SECOND
from deploy.toolchain.mysql_server import WITHOUT_GTIDS, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SnapshotMode, Watermark
from tests.chaos.broken import Deed
from tests.servers.awaiting import WITHIN_S
from tests.servers.journal_oracle import entries, unequal, untrue
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, running
from tests.servers.shop import FEW_PER_S, TABLES, stocked, writing

EACH = list(product(Watermark, (SnapshotMode.NO_DATA, SnapshotMode.INITIAL), (True,)))
# A consistent snapshot has no watermarks of its own.
EACH.append((Watermark.GTID, SnapshotMode.CONSISTENT, True))
# The one way to capture from a server without GTIDs.
EACH += product((Watermark.SIGNAL_TABLE,), (SnapshotMode.NO_DATA, SnapshotMode.INITIAL), (False,))
# `make test` has each mode, servers with and without GTIDs, and the watermarks that test_snapshot.py and test_windows
# lack. `make test-full` has all of them.
QUICK = (
    (Watermark.GTID, SnapshotMode.CONSISTENT, True),
    (Watermark.PAUSE, SnapshotMode.NO_DATA, True),
    (Watermark.SIGNAL_TABLE, SnapshotMode.INITIAL, False),
)
MODES = [pytest.param(*each, marks=() if each in QUICK else pytest.mark.full) for each in EACH]

# Which SELECT of a chunk isn't survived; there are some twenty at the least.
NTH = 9


@pytest.fixture
def shop(mysql: MysqlServer, mysql_factory: MysqlFactory, gtids: bool) -> Iterator[MysqlServer]:
    """The session's server with the shop on it, or one without GTIDs."""
    server = mysql if gtids else mysql_factory(WITHOUT_GTIDS)
    with stocked(server):
        yield server


@pytest.fixture
def signal_table(shop: MysqlServer) -> Iterator[str]:
    """A table for watermarks, which the user that captures may write to."""
    account = shop.create_capture_user("shop")
    shop.sql(
        "CREATE DATABASE tidemark",
        "CREATE TABLE tidemark.signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
        f"GRANT SELECT, INSERT ON tidemark.signals TO '{account.user}'@'%'",
    )
    yield "tidemark.signals"
    shop.sql("DROP DATABASE tidemark", f"REVOKE SELECT, INSERT ON tidemark.signals FROM '{account.user}'@'%'")


@pytest.mark.parametrize(("watermark", "mode", "gtids"), MODES)
async def test_the_journal_equals_the_source(
    shop: MysqlServer,
    signal_table: str,
    parts: Parts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    watermark: Watermark,
    mode: SnapshotMode,
) -> None:
    config, journal, signals = tmp_path / "shop.toml", tmp_path / "journal", tmp_path / "signals"
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__MODE", SnapshotMode.NO_DATA)
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__WATERMARK", watermark)
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__CHUNK_ROWS", "25")
    monkeypatch.setenv("TIDEMARK__JOURNAL__SEAL_AFTER_MS", "20")
    monkeypatch.setenv("TIDEMARK__SIGNALS__FILE", str(signals))
    monkeypatch.setenv("TIDEMARK__SIGNALS__TABLE", signal_table)
    write_config(config, shop, shop.create_capture_user("shop"), parts, tmp_path)
    async with running(load(config)) as begun:  # from here on every write is to be found in the journal
        await begun.begun()
        await begun.stop()
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__MODE", mode)
    if mode is SnapshotMode.NO_DATA:
        data = {"type": "incremental", "data-collections": [".*"], "chunk-rows": 60}
        signals.write_text(json.dumps({"id": "s", "type": "execute-snapshot", "data": data}) + "\n")
    step = ("low read, not selected", str(NTH), Deed.KILL)
    service = Service(
        config, journal, tmp_path / "log", ("-m", "tests.chaos.broken", "--without-lake", "--at", *step)
    )
    with ExitStack() as under_load:
        # A GTID window in which nothing changes closes at once: the kill would come before the first segment is sealed.
        per_s = TRANSACTIONS_PER_SECOND if watermark is Watermark.GTID else FEW_PER_S
        tally = under_load.enter_context(writing(shop, per_s))
        try:
            service.launch()
            assert service.wait(WITHIN_S) == -signal.SIGKILL
        finally:
            service.kill()
        last = entries(journal)[-1].checkpoint
        assert last.snapshots
        assert not any(snapshot.ended for snapshot in last.snapshots)
        async with running(load(config)) as resumed:
            await ended(resumed)
            under_load.close()
            await resumed.caught_up(shop)
            await resumed.stop()
    assert unequal(shop, journal, *TABLES) == []
    assert untrue(journal, tally, *TABLES) == []


async def ended(service: Running) -> None:
    """Until all snapshots have ended; each must have completed."""
    await service.until(lambda: service.status().get("snapshots"), "a snapshot")
    for snapshot in service.status()["snapshots"]:
        await service.completed(snapshot["id"])
