"""Why the high watermark is a position in the log, and the low one what's visible: on servers that commit in groups.

Sessions count up one row each as fast as they can, so a row's value says which transaction a SELECT saw. The log, read
afterwards by mysql-replication, says which GTID that was and where it ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Final, NamedTuple

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, XidEvent
from pymysqlreplication.row_event import UpdateRowsEvent

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, MysqlServer
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from tests.servers.mysql import MysqlFactory
from tests.servers.source import ask, connected

WRITERS: Final = 24
TRANSACTIONS_EACH: Final = 500
# It's for the scheduler to bring a read between a commit and its group's end: on a busy machine not each time.
MOST_TIMES: Final = 20


class Read(NamedTuple):
    """What a SELECT saw of each writer, and what was read after it: the end of the log and the executed set."""

    counts: list[tuple[int, int]]
    end: Coordinates
    executed: GtidSet


class Logged(NamedTuple):
    """A transaction in the log, and where it ends."""

    gtid: Gtid
    end: Coordinates


def prepare(server: MysqlServer) -> None:
    """Make the counters, and what counts them up."""
    server.sql(
        "CREATE DATABASE d",
        "CREATE TABLE d.counters (writer INT PRIMARY KEY, n INT NOT NULL)",
        f"INSERT INTO d.counters VALUES {', '.join(f'({writer}, 0)' for writer in range(WRITERS))}",
        "CREATE PROCEDURE d.count_up(IN own INT, IN times INT) BEGIN WHILE times > 0 DO"
        " UPDATE d.counters SET n = n + 1 WHERE writer = own; SET times = times - 1; END WHILE; END",
    )


def counting(server: MysqlServer, times: int) -> list[Thread]:
    """The writers, not started, which count up so many times each."""
    return [
        Thread(target=server.sql, args=(f"CALL d.count_up({writer}, {times})",)) for writer in range(WRITERS)
    ]


async def _reads_beside_writers(server: MysqlServer) -> list[Read]:
    writers = counting(server, TRANSACTIONS_EACH)
    reads: list[Read] = []
    async with connected(server, "d") as source:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            counts = await ask(source, "SELECT writer, n FROM d.counters")
            reads.append(Read([(int(w), int(n)) for w, n in counts], *await source.end_of_log()))
    for writer in writers:
        writer.join()
    return reads


def logged(server: MysqlServer, since: str) -> Iterator[tuple[tuple[int, int], Logged]]:
    """Each count that a writer set in a transaction that isn't in this GTID set, with that transaction."""
    gtid: Gtid | None = None
    counts: list[tuple[int, int]] = []
    account = server.create_capture_user("d")
    connection = {
        "host": server.host,
        "port": server.port,
        "user": account.user,
        "password": account.password,
    }
    wanted = [GtidEvent, UpdateRowsEvent, XidEvent]
    with closing(
        BinLogStreamReader(connection, 99, only_events=wanted, auto_position=since, enable_logging=False)
    ) as stream:
        for event in stream:
            match event:
                case GtidEvent():
                    gtid, counts = Gtid.parse(event.gtid), []
                case UpdateRowsEvent():
                    counts = [(row["after_values"]["writer"], row["after_values"]["n"]) for row in event.rows]
                case XidEvent():
                    assert gtid is not None
                    end = Coordinates(stream.log_file, event.packet.log_pos)
                    for writer, n in counts:
                        yield (writer, n), Logged(gtid, end)


@pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")  # mysql-replication's own
def test_a_select_sees_what_the_executed_set_lacks_but_nothing_behind_the_end_of_the_log(
    mysql_factory: MysqlFactory,
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    prepare(server)
    told: dict[tuple[int, int], Logged] = {}
    reads = ahead_of_the_set = 0
    for times in range(1, MOST_TIMES + 1):
        since = server.executed()
        read_now = asyncio.run(_reads_beside_writers(server))
        reads += len(read_now)
        told |= logged(server, since)
        assert len(told) == WRITERS * TRANSACTIONS_EACH * times
        for read in read_now:
            seen = [told[count] for count in read.counts if count[1]]
            ahead_of_the_set += any(transaction.gtid not in read.executed for transaction in seen)
            assert all(read.end.reaches(transaction.end) for transaction in seen)
        if ahead_of_the_set:
            break
    assert ahead_of_the_set > 0, f"not one of {reads} reads was ahead of the executed set"


# Each commit waits for the disk, between its flush and its being visible.
SLOW_COMMITS: Final = {"sync_binlog": "1"}
SLOW_TRANSACTIONS_EACH: Final = 100


async def _ahead_of_the_select(server: MysqlServer) -> tuple[int, int]:
    """How often a SELECT lacked what was in the executed set before it, and what was visible by `Source.visible`."""
    writers = counting(server, SLOW_TRANSACTIONS_EACH)
    ahead = [0, 0]
    async with connected(server, "d") as source:
        [(already,)] = await ask(source, "SELECT CAST(SUM(n) AS SIGNED) FROM d.counters")
        others = (await source.executed()).count() - already
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            for which, low in enumerate((source.executed, source.visible)):
                before = await low()
                [(seen,)] = await ask(source, "SELECT CAST(SUM(n) AS SIGNED) FROM d.counters")
                ahead[which] += before.count() - others > seen
        assert await source.visible() == await source.executed()
    for writer in writers:
        writer.join()
    return ahead[0], ahead[1]


@pytest.mark.parametrize("version", ["5.6", "9.7"])
def test_what_is_visible_is_what_a_select_sees_but_not_the_executed_set(
    mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory, version: str
) -> None:
    old = version == "5.6"
    server = (
        mysql56_factory({**GTIDS_56, **SLOW_COMMITS}) if old else mysql_factory({**GTIDS, **SLOW_COMMITS})
    )
    prepare(server)
    executed_ahead = 0
    for _ in range(MOST_TIMES if old else 1):
        executed_ahead, visible_ahead = asyncio.run(_ahead_of_the_select(server))
        assert visible_ahead == 0
        if executed_ahead:
            break
    assert (executed_ahead > 0) == old
