"""Snapshots under writes, judged on the journal: every row and every change, in each mode of each server."""

from pathlib import Path
from typing import Any, Final

import pytest

from deploy.demo.writer import TRANSACTIONS_PER_SECOND
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.config.settings import Watermark
from tests.servers.journal_oracle import unequal, untrue
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running
from tests.servers.shop import FEW_PER_S, TABLES, stocked, writing


@pytest.fixture(scope="module", params=["FULL", "MINIMAL"])
def server(request: pytest.FixtureRequest, module_mysql_factory: MysqlFactory) -> MysqlServer:
    """A server that says as much of its tables in the log."""
    return module_mysql_factory({**GTIDS, "binlog_row_metadata": request.param})


# So many windows are open at once that rows of theirs change all the time.
MANY: Final = 16
ALONE: Final = "one window after the other"
WAYS: Final[dict[str, dict[str, Any]]] = {
    ALONE: {"windows": 1, "connections": 1, "ranges": 1},
    "many windows on many ranges": {"windows": MANY, "connections": 4, "ranges": 8},
    "in pauses": {"watermark": Watermark.PAUSE, "ranges": 8},
}


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    ("server", "way"),
    [
        pytest.param(
            metadata, way, marks=() if (metadata == "MINIMAL") == (way == ALONE) else pytest.mark.full
        )
        for metadata in ("FULL", "MINIMAL")
        for way in WAYS
    ],
    indirect=["server"],
)
async def test_a_snapshot_under_writes_equals_the_source(
    server: MysqlServer, tmp_path: Path, way: str
) -> None:
    settings = pipeline(server, tmp_path, "shop", **WAYS[way])
    with stocked(server):
        async with running(settings) as service:
            await service.begun()
            per_s = TRANSACTIONS_PER_SECOND if WAYS[way].get("windows") == MANY else FEW_PER_S
            with writing(server, per_s) as tally:
                for snapshot in ("first", "second"):
                    await service.execute(snapshot, chunk_rows=100)
                    await service.completed(snapshot)
                    divided = [table["ranges"] for table in service.tables(snapshot).values()]
                    assert max(divided) == WAYS[way]["ranges"], divided
            await service.caught_up(server)
            await service.stop()
        assert unequal(server, tmp_path / "journal", *TABLES) == []
        assert untrue(tmp_path / "journal", tally, *TABLES) == []
