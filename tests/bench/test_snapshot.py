"""The snapshot benchmark counts its figures from the journal, and its server follows its orders."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bench import _service, snapshot
from bench._debezium import Snapshot
from bench._service import Ran
from bench._snapshots import TABLE, Cost, Meter, filled_server, writers
from deploy.toolchain.mysql_server import CAPTURE, MysqlServer
from deploy.toolchain.parts import Parts
from tests.servers.source import process_list

ROWS = 3_000
PER_S = 200

RAN = Ran(
    asked=100.0,
    sealed=((102.0, 1_000), (103.0, 2_000), (104.0, 3_000)),
    before=(0.1, 0.2),
    meanwhile=(0.2, 0.3),
    transactions=4_000,
    windows=(0.01,),
    waited=(0.001,),
    processor_s=0.012,
    cost=Cost(statements=6, examined=6_000, sent=600_000, processor_s=0.006),
)


def entry(sealed_at: float, rows: list[int], commits: tuple[float, ...] | None = None) -> Any:
    """What's counted of a segment's entry; moments in seconds."""
    times = None if commits is None else SimpleNamespace(samples=tuple(int(1e6 * at) for at in commits))
    chunks = tuple(SimpleNamespace(rows=number) for number in rows)
    return SimpleNamespace(sealed_at=int(1e6 * sealed_at), chunks=chunks, commit_times=times)


def test_rows_count_from_the_moment_at_which_their_segment_was_sealed() -> None:
    entries = [entry(1, []), entry(2, [10, 20]), entry(3, [0]), entry(4, [5])]
    assert _service.sealed(entries) == ((2.0, 30), (4.0, 5))


def test_the_rate_is_of_all_the_time_and_the_flow_of_that_behind_the_first_segment() -> None:
    assert RAN.rows == 6_000
    assert RAN.rate == 1_500  # in 4 s
    assert RAN.flow == 2_500  # 5,000 in 2 s
    late = replace(RAN, sealed=tuple((at + 30, rows) for at, rows in RAN.sealed))
    assert late.flow == RAN.flow
    at_once = replace(RAN, sealed=((102.0, 6_000),))
    assert at_once.flow == at_once.rate == 3_000


def test_latencies_are_those_of_the_commits_whose_segments_were_sealed_in_between() -> None:
    entries = [entry(1, [], (0.5,)), entry(2, [], (1.5, 1.75)), entry(3, [7]), entry(4, [], (3.0,))]
    assert _service.latencies(entries, 1.5, 3.5) == (0.5, 0.25)
    assert _service.latencies(entries, 0.0, 9.0) == (0.5, 0.5, 0.25, 1.0)


def test_figures_stand_against_what_they_are_compared_with() -> None:
    peer = Snapshot(rate=50.0, waited_s=50.0, rows=100, cost=Cost(100, 200, 20_000, 0.001))
    figures = {figure.name: figure for figure in snapshot._costs(RAN, {1_024: peer})}
    assert figures["a million rows: statements"].ratio == pytest.approx(1_000 / 1_000_000)
    assert figures["a million rows: rows examined"].ratio == pytest.approx(0.5)
    assert figures["a million rows: bytes sent"].value == pytest.approx(100)
    assert figures["a million rows: processor time of the server"].ratio == pytest.approx(0.1)
    busy = {figure.name: figure for figure in snapshot._busy("4 windows", replace(RAN, asked=98.0), RAN)}
    assert busy["4 windows, busy"].ratio == pytest.approx(1.5)
    assert busy["4 windows: commits meanwhile"].ratio == pytest.approx(1.0)
    assert busy["4 windows: commit to journal, p99"].ratio == pytest.approx(1.5, abs=0.02)


@pytest.fixture(scope="module")
def mysql(parts: Parts) -> Iterator[MysqlServer]:
    with filled_server(parts, ROWS) as running:
        yield running


def test_the_table_has_its_rows_and_the_log_has_none_of_them(mysql: MysqlServer) -> None:
    assert mysql.sql(f"SELECT COUNT(*), MAX(id) FROM bench.{TABLE}") == [(ROWS, ROWS - 1)]
    events = mysql.sql("SHOW BINLOG EVENTS LIMIT 1000")
    assert "Write_rows" in {event[2] for event in events}  # of the table of numbers
    assert not [event for event in events if f"bench.{TABLE}" in str(event[5]) and event[2] == "Table_map"]


def test_a_meter_tells_what_was_done_between_two_readings(mysql: MysqlServer) -> None:
    with closing(mysql.connect(CAPTURE)) as connection:
        meter = Meter(connection, mysql.pid)
        before = meter.cost()
        mysql.sql(f"SELECT * FROM bench.{TABLE} WHERE id < 100")
        cost = meter.cost() - before
    assert cost.examined == pytest.approx(100, abs=2)
    assert 100 * 100 < cost.sent < 100 * 1_000
    assert cost.statements >= 2 and cost.processor_s >= 0


def test_writers_commit_until_they_are_told_to_stop(mysql: MysqlServer) -> None:
    def changed() -> int:
        return int(mysql.sql("SHOW GLOBAL STATUS LIKE 'Innodb_rows_updated'")[0][1])

    with writers(mysql, ROWS, 0):
        assert len(process_list(mysql)) < 10
    before = changed()
    with writers(mysql, ROWS, PER_S):
        while changed() < before + 20:
            pass
    ended = changed()
    assert changed() == ended
