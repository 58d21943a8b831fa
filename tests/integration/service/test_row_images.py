"""Snapshots and changes where the log leaves columns out: folded column by column, the journal is the source."""

import random
import threading
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.integration.service.test_keys import KEYS
from tests.servers.at_work import at_work
from tests.servers.journal_oracle import replay, unequal
from tests.servers.service import Running, pipeline, running

# Defaults that the log doesn't have, columns that change by themselves, texts that NOBLOB leaves out, and one that may
# be an earlier row's.
TABLE = """CREATE TABLE t (
    id INT, part VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, a INT DEFAULT 5, b VARCHAR(20) DEFAULT (CONCAT('b', 'y')),
    c TEXT, d BLOB, doubled INT GENERATED ALWAYS AS (2 * a) STORED,
    g TEXT GENERATED ALWAYS AS (CONCAT('<', a, '>', COALESCE(b, ''))) VIRTUAL, INDEX (g(9)),
    e ENUM('x', 'y') NOT NULL DEFAULT 'y',
    changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), PRIMARY KEY (part, id)
)"""
ROWS = 400
THREADS = 3


def created(server: MysqlServer, database: str) -> TableId:
    rows = ", ".join(f"({n}, 'p{n % 3}', {n}, REPEAT('c', {n % 50}), x'00ff')" for n in range(ROWS))
    server.sql(TABLE, f"INSERT INTO t (id, part, a, c, d) VALUES {rows}", database=database)
    return TableId(database, "t")


def statement(dice: random.Random) -> str:
    """A change of about one row; keys change, and come back."""
    where = f"WHERE id = {dice.randrange(ROWS)} AND part = 'p{dice.randrange(3)}'"
    values = {"a": str(dice.randrange(99)), "b": "'b'", "c": "REPEAT('t', 99)", "d": "NULL", "e": "'x'"}
    chosen = [f"{name} = {value}" for name, value in values.items() if dice.random() < 0.3] or ["a = a + 1"]
    match dice.randrange(7):
        case 0 | 1:
            return f"INSERT IGNORE INTO t (id, part) VALUES ({dice.randrange(ROWS)}, 'p{dice.randrange(3)}')"
        case 2:
            return (
                f"REPLACE INTO t (id, part, b) VALUES ({dice.randrange(ROWS)}, 'P{dice.randrange(3)}', 'r')"
            )
        case 3:
            return f"DELETE FROM t {where}"
        case 4:
            return f"UPDATE IGNORE t SET part = 'P{dice.randrange(3)}' {where}"
        case _:
            return f"UPDATE t SET {', '.join(chosen)} {where}"


def writing(server: MysqlServer, database: str, row_image: str) -> AbstractContextManager[object]:
    """Sessions that write all the while; each has a few whole images among its others."""

    def write(seed: int, stop: threading.Event) -> None:
        dice = random.Random(seed)
        with closing(server.connect(database=database)) as connection, connection.cursor() as cursor:
            while not stop.wait(0.02):
                cursor.execute(
                    f"SET binlog_row_image = {dice.choice([row_image] * 6 + ['NOBLOB'] * 3 + ['FULL'])}"
                )
                for _ in range(dice.randrange(1, 20)):
                    cursor.execute("BEGIN")
                    cursor.execute(statement(dice))
                    cursor.execute("COMMIT")

    return at_work([partial(write, seed) for seed in range(THREADS)])


def segment(service: Running) -> int:
    """The last segment that's sealed."""
    return int(service.status(Name.JOURNAL_WRITER).get("segment", 0))


async def settled(service: Running, server: MysqlServer) -> None:
    await service.caught_up(server)
    await service.until(
        lambda: not service.status()["unread"], "all rows that were to be read again have come"
    )


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL", pytest.param("NOBLOB", marks=pytest.mark.full)])
async def test_a_snapshot_under_writes_equals_the_source_column_by_column(
    mysql: MysqlServer, database: str, tmp_path: Path, row_image: str
) -> None:
    table = created(mysql, database)
    settings = pipeline(mysql, tmp_path, database, chunk_rows=20, windows=4)
    with writing(mysql, database, row_image):
        async with running(settings) as service:
            await service.begun()
            await service.execute("s")
            await service.until(lambda: service.tables("s")["t"]["chunks"] > 3, "some chunks")
        async with running(settings) as service:  # as after a crash
            await service.completed("s")
            begun = segment(service)
            await service.until(lambda: segment(service) > begun + 20, "more changes")
        async with running(settings) as service:
            await service.begun()
            begun = segment(service)
            await service.until(lambda: segment(service) > begun + 20, "more changes")
    async with running(settings) as service:
        await service.begun()
        await settled(service, mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    story = replay(tmp_path / "journal", table)
    assert any(change.absent for change in story.changes)
    assert any(change.op == "r" for change in story.changes)


async def test_rows_that_were_inserted_in_part_are_read_again_and_counted(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    table = created(mysql, database)
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        rows = ", ".join(f"({ROWS + n}, 'new')" for n in range(1000))
        mysql.sql(
            "SET binlog_row_image = MINIMAL",
            f"INSERT INTO t (id, part) VALUES {rows}",
            "UPDATE t SET part = 'moved' WHERE part = 'p0'",
            database=database,
        )
        await settled(service, mysql)
        again = service.assembly.metrics.value(catalogue.ROWS_READ_AGAIN, table=str(table))
        assert again >= 1000
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_without_a_mirror_rows_are_partial_and_nothing_is_read_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    table = created(mysql, database)
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        insert = "INSERT INTO t (id, part) VALUES (1000, 'new')"
        mysql.sql("SET binlog_row_image = MINIMAL", insert, database=database)
        await service.caught_up(mysql)
        await service.stop()
    (change,) = replay(tmp_path / "journal", table).changes
    assert (change.op, "a" in change.absent) == ("c", True)


_LABELS = ", ".join(f"'m{member}'" for member in range(64))
# Kinds of keys beside those of `test_service_keys`.
MORE_KEYS = {
    "instant": ("k", "k TIMESTAMP(6)", ["'1970-01-01 00:00:01'", "'2024-02-29 23:59:59.999999'"]),
    "span": ("k", "k TIME(3)", ["'-838:59:59'", "'-00:00:00.001'", "'00:00:00'", "'838:59:59'"]),
    "year": ("k", "k YEAR", ["0", "1901", "2155"]),
    "single": ("k", "k FLOAT", ["-0.1", "0", "1.5", "3.4e38"]),
    "double": ("k", "k DOUBLE", ["-0.1", "0", "2.2250738585072014e-308", "1.7976931348623157e308"]),
    "bit": ("k", "k BIT(1)", ["b'0'", "b'1'"]),
    "bits": ("k", "k BIT(64)", ["0", "1", "18446744073709551615"]),
    "label": ("k", "k ENUM('b', 'a', 'ü')", ["'a'", "'b'", "'ü'"]),
    "labels": ("k", "k SET('b', 'a', 'ü')", ["''", "'a'", "'a,b'", "'a,b,ü'"]),
    "all labels": (
        "k",
        f"k SET({_LABELS})",
        ["1", "9223372036854775808", "18446744073709551615"],
    ),
    "long": ("k", "k DECIMAL(60, 5)", ["-1.5", "0", "1234567890123456789012345678901234567890.12345"]),
    "chinese": ("k", "k VARCHAR(9) CHARACTER SET gbk", ["'a'", "'中文'", "'錢'"]),
}


async def test_rows_with_keys_of_every_kind_are_read_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    keys = KEYS | MORE_KEYS
    for name, (names, columns, _) in keys.items():
        key = ", ".join(names)
        mysql.sql(
            f"CREATE TABLE `{name}` ({columns}, v INT DEFAULT 7, PRIMARY KEY ({key}))", database=database
        )
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        settings = ["SET binlog_row_image = MINIMAL", "SET time_zone = '+00:00'"]
        for name, (names, _, values) in keys.items():
            rows = ", ".join(f"({value})" for value in values)
            mysql.sql(
                *settings, f"INSERT INTO `{name}` ({', '.join(names)}) VALUES {rows}", database=database
            )
        await settled(service, mysql)
        await service.stop()
    journal = tmp_path / "journal"
    for name, (_, _, values) in keys.items():
        rows_seen = replay(journal, TableId(database, name)).live().values()
        assert [row["v"] for row in rows_seen] == [7] * len(values), name
    assert unequal(mysql, journal, *(TableId(database, name) for name in KEYS)) == []


# A column whose value InnoDB computes for its index, beside what it's computed of, and two values of that.
STALE = {
    "text": ("a INT, g TEXT AS (CONCAT('<', a, '>')) VIRTUAL, INDEX (g(9))", "5", "7"),
    "title": ("a JSON, g TEXT AS (a->>'$.t') VIRTUAL, INDEX (g(9))", '\'{"t": "old"}\'', '\'{"t": "new"}\''),
    "array": (
        "a JSON, g JSON AS (a->'$.x') VIRTUAL, INDEX ((CAST(g->'$[*]' AS UNSIGNED ARRAY)))",
        "'{\"x\": [5]}'",
        "'{\"x\": [7]}'",
    ),
    "second": (
        "a INT, g BLOB AS (REPEAT(a, 300)) VIRTUAL, l INT AS (LENGTH(g)) VIRTUAL, INDEX (l)",
        "5",
        "70",
    ),
}


async def test_a_value_that_the_log_has_of_an_earlier_row_is_read_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    """A row takes the key of one that is deleted and not yet purged: the log may have the deleted row's value."""
    tables = {name: TableId(database, name) for name in STALE}
    for name, (columns, old, _) in STALE.items():
        mysql.sql(
            f"CREATE TABLE `{name}` (id INT PRIMARY KEY, {columns})",
            f"INSERT INTO `{name}` (id, a) VALUES (1, {old}), (2, {old}), (3, {old})",
            database=database,
        )
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        for name, (_, old, new) in STALE.items():
            mysql.sql(
                "BEGIN",
                f"DELETE FROM `{name}` WHERE id < 3",
                f"INSERT INTO `{name}` (id, a) VALUES (1, {new})",
                f"UPDATE `{name}` SET a = {new} WHERE id = 3",
                f"UPDATE `{name}` SET id = 2 WHERE id = 3",
                f"INSERT INTO `{name}` (id, a) VALUES (4, {old})",
                "COMMIT",
                database=database,
            )
        await settled(service, mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", *tables.values()) == []
