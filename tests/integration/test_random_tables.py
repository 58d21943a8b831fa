"""One value, one form: random tables on a live server, whose values are told in four ways.

The server answers to an expression, we decode a chunk's SELECT and the log, and mysqlbinlog prints the log. All four
have to agree on every value: after an insert, after an update from something else, and in a delete's image. What the
log leaves out has to be absent, for us and for mysqlbinlog alike, and may be so only where it didn't change.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.cursors import Cursor

from deploy.toolchain.mysql_server import (
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    SMALL_AND_QUICK_56,
    MysqlServer,
)
from deploy.toolchain.parts import Parts
from pipeline.gtid import GtidSet
from pipeline.messages import ChangesVerified, Kind, LogAdvanced, SchemaVerified
from pipeline.schema import TableId
from pipeline.schema_verifier import FromVerifier, Known
from pipeline.signals import Tables
from tests.servers.log import read_log
from tests.servers.mysql import parts56
from tests.servers.mysqlbinlog import Printed, printed_rows
from tests.servers.random_kinds import UNPRINTED
from tests.servers.random_tables import CHANGES, Table, plain, some_tables
from tests.servers.source import connected, read_whole

DATABASE: Final = "random"
CAPTURED: Final = Tables((rf"{DATABASE}\..*",))


@dataclass(frozen=True)
class Log:
    """How the server logs, with "" where it doesn't know the setting.

    Checksums and metadata are set for all sessions, the others for the one that writes.
    """

    metadata: str
    image: str
    compression: str
    checksum: str


LOGS: Final = [
    Log(*each)
    for each in product(("FULL", "MINIMAL"), ("FULL", "NOBLOB", "MINIMAL"), ("OFF", "ON"), ("CRC32", "NONE"))
]
LOGS_56: Final = [
    Log("", image, "", sum_) for image, sum_ in product(("FULL", "NOBLOB", "MINIMAL"), ("CRC32", "NONE"))
]


@pytest.fixture(scope="module")
def server(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server of these tests' own, since they change its settings."""
    folder = tmp_path_factory.mktemp("random-tables")
    with MysqlServer(parts.mysql, folder, {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA}) as server:
        server.sql(f"CREATE DATABASE {DATABASE}")
        yield server


@pytest.fixture(scope="module")
def mysqlbinlog(parts: Parts) -> Path:
    """The program, of the newest MySQL, which reads the logs of all."""
    return parts.mysql.bin / "mysqlbinlog"


@pytest.fixture(scope="module")
def server56(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """The same of MySQL 5.6."""
    folder = tmp_path_factory.mktemp("random-tables-56")
    with MysqlServer(parts56(parts), folder, {**SMALL_AND_QUICK_56, **GTIDS_56}) as server:
        server.sql(f"CREATE DATABASE {DATABASE}")
        yield server


# A row's values by column: as they are told, and as mysqlbinlog prints them.
Row = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What the server says of a table's rows, in the order of their keys."""

    values: list[Row]
    printed: list[Row]


@dataclass(frozen=True)
class Image:
    """A row image of ours; `absent` are the columns that the log doesn't have."""

    kind: Kind
    row: Row
    absent: frozenset[str]


def told(cursor: Cursor, table: Table, name: str) -> Told:
    """The server's own answer."""
    asked = [
        expression.format(c=c.name) for c in table.columns for expression in (c.kind.told, c.kind.logged)
    ]
    cursor.execute(f"SELECT {table.key}, {', '.join(asked)} FROM {name} ORDER BY {table.key}")
    answer = Told([], [])
    for key, *values in cursor.fetchall():
        answer.values.append({table.key: key, CHANGES: 0})
        answer.printed.append({table.key: key, CHANGES: 0})
        for column, value, logged in zip(table.columns, values[::2], values[1::2], strict=True):
            answer.values[-1][column.name] = None if value is None else column.kind.read(value)
            answer.printed[-1][column.name] = None if logged is None else column.kind.as_printed(logged)
    return answer


def images_of(changes: list[FromVerifier], table: TableId) -> list[Image]:
    """The table's row images in the log's order."""
    found = []
    for slice_ in changes:
        assert isinstance(slice_, ChangesVerified | SchemaVerified | LogAdvanced), slice_
        if not isinstance(slice_, ChangesVerified):
            continue
        for part in slice_.tables:
            if part.schema.table != table:
                continue
            columns = {name: plain(part.rows.column(name)) for name in part.rows.schema.names}
            for i, image in enumerate(part.images.to_pylist()):
                row = {name: values[i] for name, values in columns.items()}
                found.append(Image(Kind(image["kind"]), row, frozenset(image["absent"] or ())))
    return found


def moved(rows: list[Row], table: Table) -> list[Row]:
    """The rows after `Table.updates`."""
    return [{**row, table.key: i, CHANGES: 1} for i, row in enumerate(rows[1:] + rows[:1], 1)]


def check_images(table: Table, rows: list[Row], images: list[Image]) -> None:
    """Each row was inserted, got the values of the row behind it, and was deleted; what's absent didn't change."""
    count, after = len(rows), moved(rows, table)
    kinds = [Kind.INSERT] * count + [Kind.UPDATE_BEFORE, Kind.UPDATE_AFTER] * count + [Kind.DELETE] * count
    assert [image.kind for image in images] == kinds
    updates = [row for pair in zip(rows, after, strict=True) for row in pair]
    for image, expected in zip(images, [*rows, *updates, *after], strict=True):
        assert image.row == {name: None if name in image.absent else v for name, v in expected.items()}
        assert table.key not in image.absent
    for old, new, image in zip(rows, after, images[count + 1 : 3 * count : 2], strict=True):
        assert image.absent == {name for name in image.absent if old[name] == new[name]}


def check_printed(
    table: Table, names: list[str], rows: list[Row], images: list[Image], printed: list[Printed]
) -> None:
    """The same of what mysqlbinlog prints: it has our values, and lacks what we call absent."""
    count, after = len(rows), moved(rows, table)
    readers = {column.name: column.kind.printed for column in table.columns} | {table.key: int, CHANGES: int}

    def check(image: dict[int, bytes], expected: Row) -> frozenset[str]:
        """Hold the printed values against these, and return which columns have none."""
        found = {names[i]: None if v == b"NULL" else readers[names[i]](v) for i, v in image.items()}
        assert found == {name: expected[name] for name in found}
        return frozenset(names) - found.keys()

    absent: list[frozenset[str]] = []
    for i, row in enumerate(printed):
        match i // count:
            case 0:
                absent.append(check(row.set, rows[i]))
            case 1:
                before = check(row.where, rows[i - count])
                absent += [before, before & check(row.set, after[i - count])]
            case _:
                absent.append(check(row.where, after[i - 2 * count]))
    assert absent == [image.absent for image in images]


def run(server: MysqlServer, tables: list[Table], log: Log, mysqlbinlog: Path) -> None:
    """Write the tables' history, and hold against each other what all say of it."""
    if server.sql("SELECT @@GLOBAL.binlog_checksum") != [(log.checksum,)]:
        server.sql(f"SET GLOBAL binlog_checksum = {log.checksum}")
    settings = [
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'",
        f"SET binlog_row_image = {log.image}",
    ]
    if log.metadata:
        server.sql(f"SET GLOBAL binlog_row_metadata = {log.metadata}")
        settings.append(f"SET binlog_transaction_compression = {log.compression}")
        settings.append("SET sql_generate_invisible_primary_key = ON")
    with closing(server.connect(database=DATABASE)) as connection, connection.cursor() as cursor:
        for statement in settings:
            cursor.execute(statement)
        try:
            asyncio.run(written_and_read(server, cursor, tables, mysqlbinlog))
        finally:
            for i, _ in enumerate(tables):
                cursor.execute(f"DROP TABLE IF EXISTS t{i}")


async def written_and_read(
    server: MysqlServer, cursor: Cursor, tables: list[Table], mysqlbinlog: Path
) -> None:
    ids = [TableId(DATABASE, f"t{i}") for i, _ in enumerate(tables)]
    for table, id_ in zip(tables, ids, strict=True):
        cursor.execute(table.create(id_.name))
    account = server.create_capture_user(DATABASE)
    async with connected(server, DATABASE) as source:
        schemas = {id_: found.schema for id_, found in (await source.describe(ids)).items()}
        cursor.execute("FLUSH BINARY LOGS")
        position = GtidSet.parse(server.executed())
        before = {}
        for table, id_ in zip(tables, ids, strict=True):
            cursor.execute(table.insert(id_.name))
            before[id_] = told(cursor, table, id_.name)
            selected = await read_whole(source, schemas[id_])
            columns = {name: plain(selected.column(name)) for name in selected.schema.names}
            assert [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ] == before[id_].values
            for statement in table.updates(id_.name):
                cursor.execute(statement)
            cursor.execute(f"DELETE FROM {id_.name} ORDER BY {table.key}")
    changes = await read_log(server, account, CAPTURED, position, Known(schemas, position))
    *_, (file, *_) = server.sql("SHOW BINARY LOGS")
    printed = printed_rows(mysqlbinlog, server.data / file)
    for table, id_ in zip(tables, ids, strict=True):
        images = images_of(changes, id_)
        check_images(table, before[id_].values, images)
        if all(column.kind.logged != UNPRINTED for column in table.columns):
            names = [column.name for column in schemas[id_].columns]
            rows = [row for row in printed if row.table == id_.name]
            check_printed(table, names, before[id_].printed, images, rows)


NEW: Final = st.lists(some_tables((9, 7, 4)), min_size=1, max_size=4)
OLD: Final = st.lists(some_tables((5, 6, 24)), min_size=1, max_size=4)

FEW: Final = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
FEWER: Final = settings(FEW, max_examples=20)
MANY: Final = settings(FEW, max_examples=5000)


@FEW
@given(NEW, st.sampled_from(LOGS))
def test_every_value_has_one_form(
    server: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server, tables, log, mysqlbinlog)


@FEWER
@given(OLD, st.sampled_from(LOGS_56))
def test_every_value_has_one_form_on_mysql_56(
    server56: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server56, tables, log, mysqlbinlog)


@pytest.mark.full
@MANY
@given(NEW, st.sampled_from(LOGS))
def test_every_value_of_many_tables_has_one_form(
    server: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server, tables, log, mysqlbinlog)


@pytest.mark.full
@MANY
@given(OLD, st.sampled_from(LOGS_56))
def test_every_value_of_many_tables_has_one_form_on_mysql_56(
    server56: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server56, tables, log, mysqlbinlog)
