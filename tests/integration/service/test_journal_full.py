"""A journal at its quota: capture waits for the slowest consumer, reports it, loses nothing, and continues by
itself."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from tests.servers.executed import executed
from tests.servers.service import Running, pipeline, running

ROWS = 8_000  # of 400 bytes that can't be compressed: three times the quota


@dataclass
class Consumer:
    """Takes what's in the journal, when allowed: the first snapshot's rows, and over them the changes."""

    reader: JournalReader
    segment: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    changes: dict[int, int] = field(default_factory=dict)

    def take(self) -> None:
        """Takes what's there, and reports it."""
        last = self.reader.last_segment()
        for entry in self.reader.entries(self.segment, last):
            for file in entry.files:
                found = pq.read_table(self.reader.path(entry, file)).to_pylist()
                into = self.changes if "__op" in found[0] else self.rows
                into |= {row["id"]: row["v"] for row in found}
        self.segment = last
        self.reader.consumers.record_progress("lake", last)

    async def go_on(self) -> None:
        """Takes whatever comes, until it's cancelled."""
        while True:
            self.take()
            await asyncio.sleep(0.05)

    @property
    def all(self) -> dict[int, int]:
        return self.rows | self.changes


def waits(service: Running) -> Any:
    """Why capture waits, once the reader does."""
    reader, coordinator = service.status(Name.BINLOG_READER), service.status()
    return reader.get("paused") and coordinator.get("no_room")


async def test_capture_waits_at_the_quota_and_goes_on_when_a_consumer_has_got_on(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, filler VARBINARY(400))",
        "SET SESSION cte_max_recursion_depth = 10000",
        "INSERT INTO t WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < "
        f"{ROWS}) SELECT id, 0, RANDOM_BYTES(400) FROM n",
        database=database,
    )
    settings = pipeline(mysql, tmp_path, database, chunk_rows=200)
    journal = replace(settings.journal, keep_mib=0, keep_hours=0, quota_mib=1)
    async with running(replace(settings, journal=journal)) as service:
        await service.begun()
        consumer = Consumer(JournalReader(journal.path))
        consumer.reader.consumers.record_progress("lake", 0)
        mysql.sql("UPDATE t SET filler = RANDOM_BYTES(400)", database=database)
        reason = await service.until(lambda: waits(service), "capture waits")
        assert "journal.quota_mib" in reason
        assert "'lake'" in reason
        mysql.sql("UPDATE t SET v = 1 WHERE id % 3 = 0", "DELETE FROM t WHERE id = 7", database=database)
        # Signals are still answered, and nothing is read for them.
        await service.execute("s", chunk_rows=200)
        assert not executed(mysql) <= GtidSet.parse(service.status()["position"])
        assert service.tables("s")["t"]["state"] == "waiting"
        taking = asyncio.create_task(consumer.go_on())
        await service.completed("s")
        await service.caught_up(mysql)
        taking.cancel()
        consumer.take()
        await service.until(lambda: not service.status(Name.JOURNAL_WRITER)["no_room"], "there's room")
        assert service.assembly.metrics.value(catalogue.RESTARTS, actor=Name.BINLOG_READER) == 0
        await service.stop()
        consumer.take()
    assert consumer.all.keys() == set(range(1, ROWS + 1))
    assert {key: v for key, v in consumer.all.items() if key != 7} == {
        key: int(key % 3 == 0) for key in range(1, ROWS + 1) if key != 7
    }
