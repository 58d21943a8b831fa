"""One value, one form: random tables on a live server, whose values come from four sources.

The server answers to an expression, we decode a chunk's SELECT and the log, and mysqlbinlog prints the log. All four
have to agree on every value: after an insert, after an update from another value, and in a delete's image. What the log
leaves out has to be absent, for us and for mysqlbinlog alike, and may be so only if it didn't change.

For a document that is logged in part mysqlbinlog prints the calls that change it. The test only counts them.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
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
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import ChangesVerified, SchemaVerified, TableStopped
from pipeline.messages.row_images import ImageKind
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.verifier.step import FromVerifier
from tests.servers.log import read_log
from tests.servers.mysql import parts56
from tests.servers.mysqlbinlog import Printed, printed_rows
from tests.servers.random_json_parts import partly_changed
from tests.servers.random_kinds import UNPRINTED
from tests.servers.random_tables import CHANGES, Table, plain, some_tables
from tests.servers.random_texts import documents
from tests.servers.source import connected, read_whole

DATABASE: Final = "random"
CAPTURED: Final = TableFilter((rf"{DATABASE}\..*",))


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


# How mysqlbinlog prints a document's diffs: the calls that make them, or the column's name if there's none.
IN_PART: Final = (b"JSON_", b"@")

# Returns a row's values by column: from the server, and as mysqlbinlog prints them.
Row = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What the server says of a table's rows, in the order of their keys."""

    values: list[Row]
    printed: list[Row]


@dataclass(frozen=True)
class Image:
    """A row image of ours; `absent` are the columns that the log doesn't have."""

    kind: ImageKind
    row: Row
    absent: frozenset[str]


def told(cursor: Cursor, table: Table, name: str) -> Told:
    """The server's own answer."""
    asked = [
        expression.format(c=c.name) for c in table.columns for expression in (c.kind.told, c.kind.logged)
    ]
    cursor.execute(f"SELECT {table.key}, {CHANGES}, {', '.join(asked)} FROM {name} ORDER BY {table.key}")
    answer = Told([], [])
    for key, changes, *values in cursor.fetchall():
        answer.values.append({table.key: key, CHANGES: changes})
        answer.printed.append({table.key: key, CHANGES: changes})
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
                found.append(Image(ImageKind(image["kind"]), row, frozenset(image["absent"] or ())))
    return found


def parts(cursor: Cursor, table: Table, name: str, key: int, dice: Random) -> dict[str, str]:
    """Expressions that change the row's documents in part, by column."""
    columns = [column.name for column in table.written if column.kind.definition == "JSON"]
    asked = ", ".join(f"CAST({column} AS CHAR)" for column in columns)
    cursor.execute(f"SELECT {asked} FROM {name} WHERE {table.key} = {key}")
    (row,) = cursor.fetchall()
    return {
        column: partly_changed(dice, column, json.loads(text))
        for column, text in zip(columns, row, strict=True)
        if text is not None
    }


def check_images(table: Table, rows: list[Row], after: list[Row], images: list[Image]) -> None:
    """Checks that each row was inserted, updated, and deleted; what's absent didn't change."""
    count = len(rows)
    kinds = (
        [ImageKind.INSERT] * count
        + [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER] * count
        + [ImageKind.DELETE] * count
    )
    assert [image.kind for image in images] == kinds
    updates = [row for pair in zip(rows, after, strict=True) for row in pair]
    for image, expected in zip(images, [*rows, *updates, *after], strict=True):
        assert image.row == {name: None if name in image.absent else v for name, v in expected.items()}
        assert table.key not in image.absent
    for old, new, image in zip(rows, after, images[count + 1 : 3 * count : 2], strict=True):
        assert image.absent == {name for name in image.absent if old[name] == new[name]}


def check_printed(
    table: Table,
    names: list[str],
    rows: list[Row],
    after: list[Row],
    images: list[Image],
    printed: list[Printed],
) -> None:
    """Checks the same for mysqlbinlog's output: it has our values, and lacks what we call absent."""
    count = len(rows)
    readers = {column.name: column.kind.printed for column in table.columns} | {table.key: int, CHANGES: int}

    def check(image: dict[int, bytes], expected: Row) -> frozenset[str]:
        """Hold the printed values against these, and return which columns have none."""
        found = {
            names[i]: None if v == b"NULL" else readers[names[i]](v)
            for i, v in image.items()
            if not v.startswith(IN_PART)
        }
        assert found == {name: expected[name] for name in found}
        return frozenset(names) - {names[i] for i in image}

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


def run(
    server: MysqlServer, tables: list[Table], log: Log, mysqlbinlog: Path, dice: Random | None = None
) -> int:
    """Write the tables' history, and hold against each other what all say of it.

    With `dice`, documents are changed and logged in part. Returns how many were.
    """
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
        settings.append(f"SET binlog_row_value_options = '{'PARTIAL_JSON' if dice else ''}'")
        settings.append("SET sql_generate_invisible_primary_key = ON")
    with closing(server.connect(database=DATABASE)) as connection, connection.cursor() as cursor:
        for statement in settings:
            cursor.execute(statement)
        try:
            return asyncio.run(written_and_read(server, cursor, tables, mysqlbinlog, dice))
        finally:
            for i, _ in enumerate(tables):
                cursor.execute(f"DROP TABLE IF EXISTS t{i}")


async def written_and_read(
    server: MysqlServer, cursor: Cursor, tables: list[Table], mysqlbinlog: Path, dice: Random | None
) -> int:
    ids = [TableId(DATABASE, f"t{i}") for i, _ in enumerate(tables)]
    for table, id_ in zip(tables, ids, strict=True):
        cursor.execute(table.create(id_.name))
    account = server.create_capture_user(DATABASE)
    async with connected(server, DATABASE) as source:
        schemas = {id_: found.schema for id_, found in (await source.describe(ids)).items()}
        cursor.execute("FLUSH BINARY LOGS")
        position = GtidSet.parse(server.executed())
        before, after = {}, {}
        for table, id_ in zip(tables, ids, strict=True):
            cursor.execute(table.insert(id_.name))
            before[id_] = told(cursor, table, id_.name)
            selected = await read_whole(source, schemas[id_])
            columns = {name: plain(selected.column(name)) for name in selected.schema.names}
            assert [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ] == before[id_].values
            for key in range(1, len(table.rows) + 1):
                others = parts(cursor, table, id_.name, key, dice) if dice else {}
                cursor.execute(table.update(id_.name, key, others))
            after[id_] = told(cursor, table, id_.name)
            cursor.execute(f"DELETE FROM {id_.name} ORDER BY {table.key}")
    changes = await read_log(server, account, CAPTURED, position, KnownSchemas(schemas, position))
    *_, (file, *_) = server.sql("SHOW BINARY LOGS")
    printed = printed_rows(mysqlbinlog, server.data / file)
    for table, id_ in zip(tables, ids, strict=True):
        images = images_of(changes, id_)
        check_images(table, before[id_].values, after[id_].values, images)
        if all(column.kind.logged != UNPRINTED for column in table.columns):
            names = [column.name for column in schemas[id_].columns]
            rows = [row for row in printed if row.table == id_.name]
            check_printed(table, names, before[id_].printed, after[id_].printed, images, rows)
    return sum(value.startswith(b"JSON_") for row in printed for value in row.set.values())


NEW: Final = st.lists(some_tables((9, 7, 4)), min_size=1, max_size=4)
WITH_DOCUMENTS: Final = st.lists(some_tables((9, 7, 4), documents()), min_size=1, max_size=3)
OLD: Final = st.lists(some_tables((5, 6, 24)), min_size=1, max_size=4)

FEW: Final = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
FEWER: Final = settings(FEW, max_examples=20)
FEWEST: Final = settings(FEW, max_examples=8)
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


@pytest.mark.parametrize("compression", ["OFF", "ON"])
@pytest.mark.parametrize("image", ["FULL", "NOBLOB"])
def test_documents_logged_in_part_have_the_same_form(
    server: MysqlServer, mysqlbinlog: Path, image: str, compression: str
) -> None:
    assert changed_in_part(server, mysqlbinlog, FEWEST, image, compression)


def changed_in_part(
    server: MysqlServer, mysqlbinlog: Path, many: settings, image: str, compression: str
) -> int:
    """Run it for so many random tables; returns how many documents were logged in part."""
    in_part = 0

    @many
    @given(WITH_DOCUMENTS, st.sampled_from(["FULL", "MINIMAL"]), st.randoms(use_true_random=False))
    def changed(tables: list[Table], metadata: str, dice: Random) -> None:
        nonlocal in_part
        in_part += run(server, tables, Log(metadata, image, compression, "CRC32"), mysqlbinlog, dice)

    changed()
    return in_part


async def test_a_document_that_is_not_there_before_its_diffs_stops_the_table_by_name(
    server: MysqlServer,
) -> None:
    server.sql("SET GLOBAL binlog_row_metadata = FULL")
    table = f"{DATABASE}.minimal"
    server.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSON)",
        f"INSERT INTO {table} VALUES (1, JSON_OBJECT('n', 1, 's', REPEAT('x', 99)))",
    )
    position = GtidSet.parse(server.executed())
    server.sql(
        "SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON",
        f"UPDATE {table} SET j = JSON_SET(j, '$.n', 2)",
    )
    account = server.create_capture_user(DATABASE)
    told = await read_log(server, account, CAPTURED, position, KnownSchemas({}, position))
    (stopped,) = [message for message in told if isinstance(message, TableStopped)]
    assert stopped.table == TableId(DATABASE, "minimal")
    assert "minimal.j: " in stopped.reason and "binlog_row_value_options=''" in stopped.reason
    server.sql(f"DROP TABLE {table}")


@pytest.mark.full
@pytest.mark.parametrize("compression", ["OFF", "ON"])
@pytest.mark.parametrize("image", ["FULL", "NOBLOB"])
def test_documents_of_many_tables_logged_in_part_have_the_same_form(
    server: MysqlServer, mysqlbinlog: Path, image: str, compression: str
) -> None:
    assert changed_in_part(server, mysqlbinlog, settings(FEW, max_examples=1000), image, compression)


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
