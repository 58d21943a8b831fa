"""MySQL 5.6, whose log has no metadata: every value, unchanged, through a snapshot and through each kind of event.

The complete service runs. The test compares the journal with the server's own answer for the same value.
"""

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.toolchain.mysql_server import GTIDS_56, MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import Row, replay
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running
from tests.servers.values import CASES, TEXT, Case, unhex, utf8

# What 5.6 doesn't have, needs too long for, or can't show (a label beyond U+FFFF, without metadata in its log).
_BEYOND = ("JSON", "VECTOR", " SRID ", "17000000", "ü😀'")

CASES_56 = [
    *(case for case in CASES if not any(word in str(case) for word in _BEYOND)),
    *(
        Case(kind, "HEX(c)", unhex, (f"GeomFromText('{text}', 4326)", f"GeomFromText('{text}')"))
        for kind, text in (("POINT", "POINT(1 2)"), ("GEOMETRY", "LINESTRING(0 0,1 2,3 4)"))
    ),
    # Whose lengths take two bytes, or nearly.
    Case("CHAR(255) CHARACTER SET utf8mb4", TEXT, utf8, ("REPEAT('漢', 255)", "'x'")),
    Case("VARCHAR(300) CHARACTER SET latin1", TEXT, utf8, ("REPEAT('ü', 300)", "'x'")),
    Case("BINARY(255)", "HEX(c)", unhex, ("REPEAT(x'ff', 255)", "'x'")),
    Case("VARBINARY(256)", "HEX(c)", unhex, ("REPEAT(x'00', 256)", "'x'")),
    # One of each family of character sets, in columns of each kind of string.
    *(
        Case(f"{kind} CHARACTER SET {charset}", TEXT, utf8, (f"'{text}'", "''", f"'{text}  '"))
        for kind in ("CHAR(9)", "VARCHAR(99)", "TEXT")
        for charset, text in {
            "ascii": "plain",
            "latin1": "naïve €",
            "latin2": "Łódź",
            "cp1251": "жук",
            "koi8r": "жук",
            "greek": "αβγ",
            "hebrew": "אבג",
            "utf8": "漢字ü",
            "utf8mb4": "😀 漢",
            "ucs2": "漢字",
            "utf16": "😀ü",
            "utf16le": "😀ü",
            "utf32": "😀ü",
            "gbk": "汉字",
            "gb2312": "汉字",
            "big5": "漢字",
            "sjis": "カタ",
            "cp932": "カタ①",
            "ujis": "カタ",
            "eucjpms": "カタ①",
            "euckr": "한글",
        }.items()
    ),
]

# What is added to the keys of rows that are inserted, and of those that are updated.
BY_INSERT, BY_UPDATE = 1000, 2000
ROWS = 1 + max(len(case.literals) for case in CASES_56)


def fill(server: MysqlServer, database: str) -> None:
    """A table with a column for each case; row 0 has NULLs, the others the cases' values, over and over."""
    columns = ", ".join(f"c{i} {case.column} NULL" for i, case in enumerate(CASES_56))
    rows = [["0"] + ["NULL"] * len(CASES_56)]
    rows += [
        [str(row), *(case.literals[row % len(case.literals)] for case in CASES_56)] for row in range(1, ROWS)
    ]
    server.sql(
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00', sql_mode = ''",
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4",
        f"INSERT INTO t VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)}",
        database=database,
    )


def change(server: MysqlServer, database: str) -> None:
    """Each row again: inserted, updated from another one, and both deleted."""
    names = [f"c{i}" for i in range(len(CASES_56))]
    after_other = ", ".join(f"new.{name} = old.{name}" for name in names)
    server.sql(
        "SET time_zone = '+00:00', sql_mode = ''",
        f"INSERT INTO t SELECT id + {BY_INSERT}, {', '.join(names)} FROM t WHERE id < {ROWS}",
        f"INSERT INTO t (id) SELECT id + {BY_UPDATE} FROM t WHERE id < {ROWS}",
        f"UPDATE t new JOIN t old ON new.id = old.id + {BY_UPDATE} SET {after_other}",
        f"DELETE FROM t WHERE id >= {BY_INSERT}",
        database=database,
    )


def told(server: MysqlServer, database: str) -> list[list[Any]]:
    """What the server says of each case's values, row by row."""
    said = ", ".join(re.sub(r"\bc\b", f"c{i}", case.told) for i, case in enumerate(CASES_56))
    rows = server.sql("SET time_zone = '+00:00'", f"SELECT {said} FROM t ORDER BY id", database=database)
    return [
        [None if text is None else case.read(text) for case, text in zip(CASES_56, row, strict=True)]
        for row in rows
    ]


def captured(row: Row) -> list[Any]:
    """Returns a row's values, dates and times as the server shows them."""
    return [as_number(row[f"c{i}"]) for i in range(len(CASES_56))]


def as_number(value: Any) -> Any:
    match value:
        case datetime():
            return int(np.datetime64(value, "us").astype(int))
        case date():
            return int(np.datetime64(value, "D").astype(int))
        case _:
            return value


LOGS = {
    "as by default": {},
    "rows events of version 1, without checksums": {
        "log_bin_use_v1_row_events": "ON",
        "binlog_checksum": "NONE",
    },
}


@pytest.mark.parametrize("log", LOGS)
async def test_every_value_is_what_the_server_says(
    mysql56_factory: MysqlFactory, tmp_path: Path, log: str
) -> None:
    server = mysql56_factory({**GTIDS_56, **LOGS[log]})
    server.sql("CREATE DATABASE shop")
    fill(server, "shop")
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        change(server, "shop")
        await service.caught_up(server)
        await service.stop()
    story = replay(tmp_path / "journal", TableId("shop", "t"))
    expected = told(server, "shop")
    assert len(expected) == ROWS
    found = {
        "select": {key: row for (key,), (_, row) in story.mirror.items()},
        "insert": {
            c.key[0] - BY_INSERT: c.row for c in story.changes if c.op == "c" and c.key[0] < BY_UPDATE
        },
        "update": {c.key[0] - BY_UPDATE: c.row for c in story.changes if c.op == "u"},
        "delete of an inserted one": {
            c.key[0] - BY_INSERT: c.row for c in story.changes if c.op == "d" and c.key[0] < BY_UPDATE
        },
        "delete of an updated one": {
            c.key[0] - BY_UPDATE: c.row for c in story.changes if c.op == "d" and c.key[0] >= BY_UPDATE
        },
    }
    for way, rows in found.items():
        # A row that an update leaves as it was isn't in the log.
        assert sorted(rows) == list(range(1 if way == "update" else 0, ROWS)), way
        wrong = [
            f"{case.column}: {mine!r} and not {theirs!r}"
            for number, row in rows.items()
            for case, mine, theirs in zip(CASES_56, captured(row), expected[number], strict=True)
            if (mine, type(mine)) != (theirs, type(theirs))
        ]
        assert wrong == [], way
