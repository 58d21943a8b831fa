"""A table without a primary key in the lake: from a scan on, the query that `tidemark sql` prints is the table."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from actors.journal.store import JournalStore
from actors.lake.lake import Lake
from actors.lake.spark.spark_session import Spark
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.lake.batch import next_batch
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.schema.table_schema import TableId
from tests.servers import delta_rs
from tests.servers.bank import TOTAL, open_bank, writing
from tests.servers.duckdb_engine import engine
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running

LOG = TableId("bank", "log")


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = engine()
    yield connection
    connection.close()


async def journal_of(server: MysqlServer, folder: Path) -> None:
    """A journal in which two scans of the table are, under writes, and changes in a segment before."""
    settings = pipeline(server, folder, "bank")
    async with running(settings) as service:
        await service.begun()
        before = server.executed()
        with writing(server):
            await service.until(lambda: server.executed() != before, "there are changes")
            await service.caught_up(server)
            await service.sealed()
            for id_ in ("first", "second"):
                await service.execute(id_, str(LOG), type="blocking")
                await service.completed(id_)
        await service.caught_up(server)
        await service.stop()


async def test_the_query_is_the_table_from_the_scan_on(
    spark: Spark, duck: duckdb.DuckDBPyConnection, mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = open_bank(mysql_factory({**GTIDS, **FULL_METADATA}))
    await journal_of(server, tmp_path)
    root = str(tmp_path / "lake")
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as store:
        lake, delivered, last = Lake(spark.session, root, store), 0, store.last_segment()
        scanned = {e.segment for e in store.entries(0, last) if any(c.chunk.table == LOG for c in e.chunks)}
        assert len(scanned) == 2
        stops = sorted({*(s - 1 for s in scanned), *scanned, (max(scanned) + last) // 2, last})
        sums: dict[int, int] = {}
        rows: list[tuple[int, int, str, int]] = []
        for through in stops:
            while delivered < through:
                batch = next_batch(store.entries(delivered, through))
                lake.deliver(LOG, lake.find(LOG), batch)
                delivered = batch.through
            text = live_view_text(root, str(LOG), Dialect.DUCKDB)
            assert "since its last snapshot" in text
            rows = duck.execute(text).fetchall()
            sums[through] = sum(amount * count for _, amount, _, count in rows)
            if through >= min(scanned):
                assert min(count for *_, count in rows) > 0
    assert {sums[through] for through in stops if through >= min(scanned)} == {TOTAL}
    assert sums[min(scanned) - 1] != TOTAL, "before it, it's only what changed"
    told = [row for *row, count in rows for _ in range(count)]
    assert sorted(map(tuple, told)) == sorted(server.sql("SELECT account, amount, pad FROM bank.log"))
    others = delta_rs.execute(live_view_text(root, str(LOG), Dialect.DELTA_RS)).to_pylist()
    assert sorted(tuple(row.values()) for row in others) == sorted(rows)
