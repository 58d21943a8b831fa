"""The server of the lake's benchmark makes so many scattered changes, and writers of three tables work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import lake
from bench._logs import DATABASE
from bench._snapshots import TABLE, filled_server, writers
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts

ROWS = 12_000


@pytest.fixture(scope="module")
def server(parts: Parts) -> Iterator[MysqlServer]:
    with filled_server(parts, ROWS) as filled:
        lake._prepare(filled)
        yield filled


def customers(server: MysqlServer, table: str) -> int:
    [(found,)] = server.sql(f"SELECT SUM(customer) FROM {table}", database=DATABASE)
    return int(found)


def test_so_many_rows_are_changed_once_each_and_far_from_each_other(
    server: MysqlServer, parts: Parts, tmp_path: Path
) -> None:
    server.sql(f"CREATE TABLE before_it SELECT id, customer FROM {TABLE}", database=DATABASE)
    lake._scatter(lake.Bench(parts, server, ROWS, changes=5_000, scale=1.0, folder=tmp_path))
    changed = server.sql(
        f"SELECT id FROM {TABLE} JOIN before_it AS b USING (id) WHERE {TABLE}.customer = b.customer + 1 ORDER BY id",
        database=DATABASE,
    )
    assert [int(id_) for (id_,) in changed] == [
        row for row in range(ROWS) if row % (ROWS // 1_000) in range(5)
    ]


@pytest.mark.parametrize(
    ("procedure", "first"), [("write_three_small_1", "small_1"), (f"write_three_{TABLE}", TABLE)]
)
def test_writers_write_to_three_tables_in_turn(server: MysqlServer, procedure: str, first: str) -> None:
    tables = (first, "small_2", "small_3")
    before = [customers(server, table) for table in tables]
    with writers(server, lake._SMALL_ROWS, 300, procedure):
        while any(customers(server, table) == then for table, then in zip(tables, before, strict=True)):
            pass
