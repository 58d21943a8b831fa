"""One value, one form: tables on live servers, whose values come from five sources.

The server answers to an expression, we decode a chunk's SELECT and the log, mysqlbinlog prints the log, and
mysql-replication decodes it. All have to agree on every value: after an insert, after an update from another value, in
a delete's image, in a table that CREATE TABLE ... SELECT makes, and in the journal of the complete service. What the
log leaves out has to be absent, for us and for mysqlbinlog alike, and may be so only if it didn't change.

The values are all edges of all types (`tests/servers/value_tables.py`), and random ones. For a document that is logged
in part mysqlbinlog prints the calls that change it. The test only counts them.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.cursors import Cursor
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import (
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    SMALL_AND_QUICK_56,
    Account,
    MysqlServer,
)
from deploy.toolchain.parts import Parts
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ChangesVerified, TableStopped, TransactionPartVerified
from pipeline.messages.row_images import ImageKind, images_with
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.verifier.state import FromVerifier
from tests.servers import text_kinds as texts
from tests.servers.log import read_log
from tests.servers.mysql import parts56
from tests.servers.mysqlbinlog import Printed, printed_rows
from tests.servers.random_json_parts import partly_changed
from tests.servers.service import pipeline, running
from tests.servers.source import connected, read_whole
from tests.servers.value_kinds import UNPRINTED
from tests.servers.value_tables import ALL, CHANGES, Table, edge_tables, plain, some_tables

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


NEWEST, OLDEST = (9, 7, 4), (5, 6, 24)
_BARRACUDA: Final = {"innodb_file_format": "Barracuda"}  # 5.6 keeps long values off their page only so
SERVERS: Final = {
    "9.7": {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA},
    "5.6": {**SMALL_AND_QUICK_56, **GTIDS_56, **_BARRACUDA},
    "5.6 as 5.5": {**SMALL_AND_QUICK_56, **GTIDS_56, **_BARRACUDA, "log_bin_use_v1_row_events": "ON"},
}


@pytest.fixture(scope="module")
def servers(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MysqlServer]]:
    """Servers of these tests' own, since they change their settings."""
    started = {}
    with ExitStack() as stack:
        for name, options in SERVERS.items():
            of = parts.mysql if name == "9.7" else parts56(parts)
            folder = tmp_path_factory.mktemp("values")
            started[name] = stack.enter_context(MysqlServer(of, folder, options))
            started[name].sql(f"CREATE DATABASE {DATABASE}")
        yield started


@pytest.fixture(scope="module")
def server(servers: dict[str, MysqlServer]) -> MysqlServer:
    return servers["9.7"]


@pytest.fixture(scope="module")
def server56(servers: dict[str, MysqlServer]) -> MysqlServer:
    return servers["5.6"]


@pytest.fixture(scope="module")
def mysqlbinlog(parts: Parts) -> Path:
    """The program, of the newest MySQL, which reads the logs of all but rows events of version 1."""
    return parts.mysql.bin / "mysqlbinlog"


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
        # A generated key is a BIGINT UNSIGNED.
        answer.values.append({table.key: Decimal(key) if table.key_at is None else key, CHANGES: changes})
        answer.printed.append({table.key: key, CHANGES: changes})
        for column, value, logged in zip(table.columns, values[::2], values[1::2], strict=True):
            answer.values[-1][column.name] = None if value is None else column.kind.read(value)
            answer.printed[-1][column.name] = None if logged is None else column.kind.as_printed(logged)
    return answer


def images_of(changes: list[FromVerifier], table: TableId) -> list[Image]:
    """The table's row images in the log's order."""
    found = []
    for slice_ in changes:
        assert not isinstance(slice_, TableStopped), slice_
        if not isinstance(slice_, ChangesVerified | TransactionPartVerified):
            continue
        for part in slice_.tables:
            if part.schema.table != table:
                continue
            columns = {name: plain(part.rows.column(name)) for name in part.rows.schema.names}
            given = [images_with(part.images.column("absent"), at) for at in range(len(part.schema.columns))]
            for i, kind in enumerate(part.images.column("kind").to_pylist()):
                row = {name: values[i] for name, values in columns.items()}
                absent = {
                    each.name for each, has in zip(part.schema.columns, given, strict=True) if not has[i]
                }
                found.append(Image(ImageKind(kind), row, frozenset(absent)))
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
    # A row's values are printed up to four times, and some have thousands of escaped bytes.
    readers = {c.name: cache(c.kind.printed) for c in table.columns} | {
        table.key: cache(int),
        CHANGES: cache(int),
    }

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


def check_library(table: Table, images: list[Image], theirs: list[tuple[ImageKind, Row]]) -> None:
    """Checks that mysql-replication has the same images with the same values."""
    assert [image.kind for image in images] == [kind for kind, _ in theirs]
    for image, (_, row) in zip(images, theirs, strict=True):
        for column in table.columns:
            agrees = column.kind.library
            mine, other = image.row[column.name], row[column.name]
            assert agrees is not None
            assert (mine is None and other is None) or agrees(mine, other), (column.kind, mine, other)


def by_library(
    server: MysqlServer, account: Account, position: GtidSet
) -> dict[str, list[tuple[ImageKind, Row]]]:
    """What mysql-replication makes of the log after the position, by table."""
    reader = BinLogStreamReader(
        {"host": server.host, "port": server.port, "user": account.user, "password": account.password},
        server_id=8,
        auto_position=str(position),
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[DATABASE],
        enable_logging=False,
    )
    found: dict[str, list[tuple[ImageKind, Row]]] = {}
    with closing(reader):
        for event in reader:
            rows = found.setdefault(event.table, [])
            for row in event.rows:
                match event:
                    case WriteRowsEvent():
                        rows.append((ImageKind.INSERT, row["values"]))
                    case UpdateRowsEvent():
                        rows.append((ImageKind.UPDATE_BEFORE, row["before_values"]))
                        rows.append((ImageKind.UPDATE_AFTER, row["after_values"]))
                    case DeleteRowsEvent():
                        rows.append((ImageKind.DELETE, row["values"]))
    return found


@dataclass(frozen=True)
class Readers:
    """Who else reads the log: mysqlbinlog, where it knows the events, and mysql-replication, where it's asked to.

    `copies`: whether each table is also made again by CREATE TABLE ... SELECT.
    """

    mysqlbinlog: Path | None
    library: bool = False
    copies: bool = False


def run(
    server: MysqlServer, tables: list[Table], log: Log, readers: Readers, dice: Random | None = None
) -> int:
    """Write the tables' history, and hold against each other what all say of it.

    With `dice`, documents are changed and logged in part. Returns how many were.
    """
    with session(server, tables, log, dice is not None) as cursor:
        return asyncio.run(written_and_read(server, cursor, tables, readers, dice))


@contextmanager
def session(server: MysqlServer, tables: list[Table], log: Log, partial: bool = False) -> Iterator[Cursor]:
    """A session that writes as `log` says; the tables are gone after it."""
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
        settings.append(f"SET binlog_row_value_options = '{'PARTIAL_JSON' if partial else ''}'")
        settings.append("SET sql_generate_invisible_primary_key = ON, cte_max_recursion_depth = 100000")
    with closing(server.connect(database=DATABASE)) as connection, connection.cursor() as cursor:
        for statement in settings:
            cursor.execute(statement)
        try:
            yield cursor
        finally:
            for i, _ in enumerate(tables):
                cursor.execute(f"DROP TABLE IF EXISTS t{i}, copy{i}")


async def written_and_read(
    server: MysqlServer, cursor: Cursor, tables: list[Table], readers: Readers, dice: Random | None
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
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            assert same(rows, before[id_].values)
            if readers.copies:
                names = ", ".join(columns)
                cursor.execute("SET sql_generate_invisible_primary_key = OFF")
                cursor.execute(
                    f"CREATE TABLE copy{id_.name[1:]} SELECT {names} FROM {id_.name} ORDER BY {table.key}"
                )
            for key in range(1, len(table.rows) + 1):
                others = parts(cursor, table, id_.name, key, dice) if dice else {}
                cursor.execute(table.update(id_.name, key, others))
            after[id_] = told(cursor, table, id_.name)
            cursor.execute(f"DELETE FROM {id_.name} ORDER BY {table.key}")
    changes = await read_log(server, account, CAPTURED, position, KnownSchemas(schemas, position))
    *_, (file, *_) = server.sql("SHOW BINARY LOGS")
    printed = printed_rows(readers.mysqlbinlog, server.data / file) if readers.mysqlbinlog else []
    theirs = by_library(server, account, position) if readers.library else {}
    for table, id_ in zip(tables, ids, strict=True):
        images = images_of(changes, id_)
        check_images(table, before[id_].values, after[id_].values, images)
        if readers.mysqlbinlog and all(column.kind.logged != UNPRINTED for column in table.columns):
            in_order = [column.name for column in schemas[id_].columns]
            of_table = [row for row in printed if row.table == id_.name]
            check_printed(table, in_order, before[id_].printed, after[id_].printed, images, of_table)
        if readers.library:
            check_library(table, images, theirs[id_.name])
        if readers.copies:
            copied = images_of(changes, TableId(DATABASE, f"copy{id_.name[1:]}"))
            assert {image.kind for image in copied} == {ImageKind.INSERT}
            assert same([image.row for image in copied], before[id_].values)
    return sum(value.startswith(b"JSON_") for row in printed for value in row.set.values())


def same(rows: list[Row], expected: list[Row]) -> bool:
    """Whether all values are equal and of the same types; says which is not."""
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        wrong = {
            name: (value, other[name])
            for name, value in row.items()
            if value != other[name] or type(value) is not type(other[name])
        }
        assert wrong == {}
        assert row.keys() == other.keys()
    return True


BY_DEFAULT: Final = Log("FULL", "FULL", "OFF", "CRC32")
BY_DEFAULT_56: Final = Log("", "FULL", "", "CRC32")


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("9.7", BY_DEFAULT),
        ("9.7", Log("MINIMAL", "MINIMAL", "ON", "NONE")),
        pytest.param("9.7", Log("FULL", "NOBLOB", "ON", "CRC32"), marks=pytest.mark.full),
        ("5.6", BY_DEFAULT_56),
        ("5.6", Log("", "MINIMAL", "", "NONE")),
        pytest.param("5.6", Log("", "NOBLOB", "", "CRC32"), marks=pytest.mark.full),
        ("5.6 as 5.5", Log("", "FULL", "", "NONE")),
    ],
    ids=str,
)
def test_every_edge_has_one_form(
    servers: dict[str, MysqlServer], mysqlbinlog: Path, name: str, log: Log
) -> None:
    tables = edge_tables(NEWEST if name == "9.7" else OLDEST)
    readers = Readers(None if name == "5.6 as 5.5" else mysqlbinlog, copies=log == BY_DEFAULT)
    run(servers[name], tables, log, readers)


def _exists(literal: str) -> bool:
    return not any(day in literal for day in ("2023-02-29", "2024-04-31"))


@pytest.mark.filterwarnings("ignore:.db. is deprecated:DeprecationWarning")  # by the library itself
def test_mysql_replication_reads_every_edge_that_it_knows(server: MysqlServer) -> None:
    # It fails at a day that no calendar has, where it isn't zero.
    kinds = [replace(kind, edges=tuple(filter(_exists, kind.edges))) for kind in ALL if kind.library]
    run(server, edge_tables(NEWEST, kinds), BY_DEFAULT, Readers(None, library=True))


def test_a_value_of_more_than_one_packet_has_one_form(server: MysqlServer, mysqlbinlog: Path) -> None:
    longest = replace(texts.text("utf8mb4", "LONGTEXT", 1), edges=("REPEAT('x', 17000000)",))
    run(server, edge_tables(NEWEST, [longest]), BY_DEFAULT, Readers(mysqlbinlog))


@pytest.mark.parametrize("name", ["9.7", "5.6"])
async def test_the_journal_has_every_edge(servers: dict[str, MysqlServer], tmp_path: Path, name: str) -> None:
    """Through the complete service: rows of a chunk, of inserts, of updates and of deletes."""
    server, log = servers[name], BY_DEFAULT if name == "9.7" else BY_DEFAULT_56
    tables = edge_tables(NEWEST if name == "9.7" else OLDEST)
    with session(server, tables, log) as cursor:
        before, after = [], []
        for i, table in enumerate(tables):
            cursor.execute(table.create(f"t{i}"))
            cursor.execute(table.insert(f"t{i}"))
            before.append(told(cursor, table, f"t{i}").values)
        async with running(pipeline(server, tmp_path, DATABASE)) as service:
            await service.begun()
            await service.execute("s")
            await service.completed("s")
            for i, table in enumerate(tables):
                for key in range(1, len(table.rows) + 1):
                    cursor.execute(table.update(f"t{i}", key, {}))
                after.append(told(cursor, table, f"t{i}").values)
                cursor.execute(f"DELETE FROM t{i} ORDER BY {table.key}")
                cursor.execute(table.insert(f"t{i}"))
            await service.caught_up(server)
            await service.stop()
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        found = journal_rows(tmp_path / "journal", TableId(DATABASE, f"t{i}"))
        assert all(same(found[op], rows) for op, rows in (("r", old), ("u", new), ("d", new), ("c", old)))


def journal_rows(journal: Path, table: TableId) -> dict[str, list[Row]]:
    """The table's rows by what was done, in the order of the stream; "r" are those of chunks."""
    reader = JournalReader(journal)
    rows: dict[str, list[Row]] = {}
    for entry in reader.entries(0, reader.last_segment()):
        for file in entry.files:
            if file.table != table:
                continue
            read = pq.read_table(reader.path(entry, file)).combine_chunks()
            columns = {
                name: plain(column.combine_chunks())
                for name, column in zip(read.column_names, read.columns, strict=True)
            }
            done = columns.get("__op", ["r"] * read.num_rows)
            values = {name: column for name, column in columns.items() if not name.startswith("__")}
            for i, op in enumerate(done):
                rows.setdefault(op, []).append({name: column[i] for name, column in values.items()})
    return rows


NEW: Final = st.lists(some_tables(NEWEST), min_size=1, max_size=4)
WITH_DOCUMENTS: Final = st.lists(some_tables(NEWEST, texts.documents()), min_size=1, max_size=3)
OLD: Final = st.lists(some_tables(OLDEST), min_size=1, max_size=4)

# Few in each run, since the edges come first; `make test-full` tries thousands.
FEW: Final = settings(
    max_examples=24, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
FEWER: Final = settings(FEW, max_examples=12)
FEWEST: Final = settings(FEW, max_examples=4)
MANY: Final = settings(FEW, max_examples=5000)


@FEW
@given(NEW, st.sampled_from(LOGS))
def test_every_value_has_one_form(
    server: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server, tables, log, Readers(mysqlbinlog))


@FEWER
@given(OLD, st.sampled_from(LOGS_56))
def test_every_value_has_one_form_on_mysql_56(
    server56: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server56, tables, log, Readers(mysqlbinlog))


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
        in_part += run(server, tables, Log(metadata, image, compression, "CRC32"), Readers(mysqlbinlog), dice)

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
    run(server, tables, log, Readers(mysqlbinlog))


@pytest.mark.full
@MANY
@given(OLD, st.sampled_from(LOGS_56))
def test_every_value_of_many_tables_has_one_form_on_mysql_56(
    server56: MysqlServer, mysqlbinlog: Path, tables: list[Table], log: Log
) -> None:
    run(server56, tables, log, Readers(mysqlbinlog))
