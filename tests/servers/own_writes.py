"""Writers that wait for their own commits in the lake, and a judge that reads the live view as they were told to."""

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pymysql

from actors.lake.read_your_writes import SESSION_TRACK, read_your_writes
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.lake.live_view import Versions
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.timed_commits import TimedCommits

COLUMNS = "id BIGINT PRIMARY KEY, writer INT NOT NULL, n INT NOT NULL"


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A commit's key, its writer and the writer's count; the versions that were answered.

    `asked` and `answered`: when (s since the epoch).
    """

    key: int
    writer: int
    n: int
    at: Versions
    asked: float
    answered: float


@dataclass
class OwnWrites:
    """What the writers have committed and been answered."""

    table: TableId
    written: list[OwnWrite] = field(default_factory=list)

    def write(
        self, server: MysqlServer, service: str, writers: int, each: int, *, reads_s: float = 0.0
    ) -> None:
        """Has so many writers commit so often, each waiting for its own commit before the next one.

        `reads_s`: how long each of them then reads the lake, on another machine, before its next transaction.
        """
        with ThreadPoolExecutor(writers) as pool:
            works = [
                pool.submit(self._write, server, service, writer, each, reads_s) for writer in range(writers)
            ]
            for work in works:
                self.written += work.result()

    def _write(
        self, server: MysqlServer, service: str, writer: int, each: int, reads_s: float
    ) -> list[OwnWrite]:
        """Inserts a row and raises the writer's own count, in one transaction."""
        done = []
        with closing(
            pymysql.connect(unix_socket=str(server.socket), user="root", client_flag=SESSION_TRACK)
        ) as connection:
            for n in range(1, each + 1):
                key = writer * 1_000_000 + n
                with read_your_writes(connection, service) as written:
                    with connection.cursor() as cursor:
                        cursor.execute(f"INSERT INTO {self.table} VALUES (%s, %s, %s)", (key, writer, n))
                        cursor.execute(f"UPDATE {self.table} SET n = %s WHERE id = %s", (n, -writer - 1))
                    connection.commit()
                asked = time.time()
                at = written.versions(self.table, 120)
                assert at is not None
                done.append(OwnWrite(key, writer, n, at, asked, time.time()))
                # Stands for a read that takes the processors of another machine.
                time.sleep(reads_s)
        return done

    def begin(self, server: MysqlServer, writers: int) -> None:
        """Makes the table, with the writers' counts."""
        server.sql(f"CREATE TABLE {self.table} ({COLUMNS})")
        for writer in range(writers):
            server.sql(f"INSERT INTO {self.table} VALUES ({-writer - 1}, {writer}, 0)")

    def misses(self, lake: str) -> list[OwnWrite]:
        """The commits that the live view lacks at the versions that were answered, read with DuckDB."""
        by_versions = defaultdict[Versions, list[OwnWrite]](list)
        for write in self.written:
            by_versions[write.at].append(write)
        missed: list[OwnWrite] = []
        with closing(engine()) as duckdb:
            for at, writes in by_versions.items():
                query = live_view_text(lake, str(self.table), Dialect.DUCKDB, at=at)
                rows = {key: n for key, _, n in duckdb.execute(query).fetchall()}
                missed += [
                    write
                    for write in writes
                    if rows.get(write.key) != write.n or rows.get(-write.writer - 1, -1) < write.n
                ]
        return missed

    def beyond_delivery(self, lake: str, commits: TimedCommits) -> list[float]:
        """How long (s) each answer came after its commit was delivered and asked for, in rising order."""
        with closing(engine()) as duckdb:
            changelog = location(lake, self.table, Tier.CHANGELOG)
            query = f"SELECT id, __segment FROM delta_scan('file://{changelog}') WHERE __op = 'c'"
            segments = dict(duckdb.execute(query).fetchall())
        return sorted(
            write.answered - max(write.asked, commits.delivered_at(segments[write.key]))
            for write in self.written
        )
