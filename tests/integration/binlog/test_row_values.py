"""Every type's edge values: what the decoder makes of the log, against what the server prints for the same rows."""

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.messages.row_images import ImageKind
from tests.integration.logging_session import Session


@pytest.fixture
def session(mysql: MysqlServer, database: str) -> Iterator[Session]:
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        session = Session(mysql, cursor)
        session.run(
            "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', cte_max_recursion_depth = 100000"
        )
        yield session


# How a value of a column is compared: an expression for the server, and a function for ours.
Shown = Callable[[pa.Array], list[Any]]


def as_is(values: pa.Array) -> list[Any]:
    return list(values.to_pylist())


def date_text(values: pa.Array) -> list[Any]:
    return [None if v is None else str(np.datetime64(v, "D")) for v in values.cast(pa.int32()).to_pylist()]


def datetime_text(digits: int) -> Shown:
    def shown(values: pa.Array) -> list[Any]:
        end = 19 if digits == 0 else 20 + digits
        numbers = values.cast(pa.int64()).to_pylist()
        texts = [None if v is None else str(np.datetime64(v, "us")).replace("T", " ") for v in numbers]
        assert all(text is None or set(text[end:]) <= set("0.") for text in texts), (
            "more digits than declared"
        )
        return [None if text is None else text[:end] for text in texts]

    return shown


def time_text(digits: int) -> Shown:
    def text(microseconds: int) -> str:
        seconds, fraction = divmod(abs(microseconds), 1_000_000)
        shown = (
            f"{'-' if microseconds < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        )
        return shown + (f".{fraction:06}"[: 1 + digits] if digits else "")

    return lambda values: [None if v is None else text(v) for v in values.to_pylist()]


def possible(texts: list[Any]) -> list[Any]:
    """What the server prints of dates, with None for those that no calendar has."""

    def exists(text: str) -> bool:
        try:
            np.datetime64(text[:10], "D")
        except ValueError:
            return False
        return True

    return [text if text is not None and exists(text) else None for text in texts]


@dataclass(frozen=True)
class Case:
    """A column's definition and SQL values; `server` is the expression that's compared with `ours`."""

    definition: str
    values: tuple[str, ...]
    server: str = "c"
    ours: Shown = as_is
    theirs: Callable[[list[Any]], list[Any]] = field(default=list)


def integers(name: str, bits: int) -> Iterator[Case]:
    top = 1 << (bits - 1)
    yield Case(name, tuple(map(str, (0, 1, -1, 127, -128, top - 1, -top, top // 3))))
    yield Case(f"{name} UNSIGNED", tuple(map(str, (0, 1, 200, top - 1, top, 2 * top - 1))))


def decimals(precision: int, scale: int) -> Case:
    whole = precision - scale
    numbers = ["0", "1" if whole else "0.5"]
    for digit in "19":
        number = f"{digit * whole or '0'}{'.' + digit * scale if scale else ''}"
        numbers += [number, f"-{number}"]
    if scale:
        numbers += [f"0.{'0' * (scale - 1)}1", f"-0.{'0' * (scale - 1)}1", f"0.{'1' * scale}"]
    if whole:
        numbers += [f"1{'0' * (whole - 1)}", f"-{'1234567890' * 7}"[: whole + 1]]
    definition = f"DECIMAL({precision},{scale})"
    if precision > 38:
        return Case(definition, tuple(numbers), "CAST(c AS CHAR)")
    return Case(definition, tuple(numbers))


DATES = (
    "'0000-00-00'", "'2024-00-00'", "'2024-05-00'", "'0000-01-01'", "'0001-01-01'", "'1000-01-01'", "'1582-10-10'",
    "'1600-02-29'", "'1899-12-31'", "'1900-02-28'", "'1900-03-01'", "'1969-12-31'", "'1970-01-01'", "'2000-02-29'",
    "'2023-02-29'", "'2024-02-29'", "'2024-04-31'", "'2038-01-19'", "'9999-12-31'",
)  # fmt: skip
FRACTIONS = (".0", ".1", ".12", ".123", ".1234", ".12345", ".123456", ".999999", ".000001", ".9", ".99")
CLOCKS = ("00:00:00", "23:59:59", "12:34:56")
TIMES = (
    "00:00:00",
    "-00:00:00",
    "00:00:01",
    "-00:00:01",
    "24:00:00",
    "-24:00:01",
    "838:59:58",
    "-838:59:58",
    "100:59:59",
)


def temporals(digits: int) -> Iterator[Case]:
    moments = [f"'{day[1:-1]} {clock}'" for day in DATES for clock in CLOCKS]
    moments += [f"'2024-02-28 23:59:58{fraction}'" for fraction in FRACTIONS]
    yield Case(f"DATETIME({digits})", tuple(moments), "CAST(c AS CHAR)", datetime_text(digits), possible)
    instants = [f"'1970-01-01 00:00:01{f}'" for f in FRACTIONS] + [
        f"'2038-01-19 03:14:06{f}'" for f in FRACTIONS
    ]
    instants += ["'0000-00-00 00:00:00'", "'2024-02-29 12:34:56'"]
    yield Case(
        f"TIMESTAMP({digits}) NULL", tuple(instants), "CAST(c AS CHAR)", datetime_text(digits), possible
    )
    spans = [f"'{time}{fraction}'" for time in TIMES for fraction in ("", *FRACTIONS)]
    yield Case(f"TIME({digits})", tuple(spans), "CAST(c AS CHAR)", time_text(digits))


def numbers(last: int, columns: str) -> str:
    """A query of that many rows, with n from 1."""
    return f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {last}) SELECT {columns} FROM r"


DOUBLES = (
    "0",
    "-0e0",
    "1",
    "-1.5",
    "1e-300",
    "1.7976931348623157e308",
    "-2.2250738585072014e-308",
    "5e-324",
    "0.1",
)
TEXTS = (
    "''",
    "'a'",
    "'naïve'",
    "'日本語 😀'",
    "' both '",
    "'tail  '",
    "REPEAT('x', 60)",
    "'\\\\\\'\\\"\\n\\0\\t'",
)
BINARIES = ("x''", "x'00'", "x'0001'", "x'0100'", "x'FF'", "x'FF00FE00'", "x'2020'")
LONG = ("REPEAT('é', 255)", "REPEAT('y', 256)", "REPEAT('z', 300)")
HUGE = ("REPEAT('a', 65535)", "REPEAT('b', 65536)", "REPEAT('c', 1000000)")
JSONS = (
    "'null'", "'true'", "'false'", "'0'", "'-1'", "'32767'", "'32768'", "'-32768'", "'-32769'", "'65535'", "'65536'",
    "'2147483648'", "'-2147483649'", "'4294967295'", "'9223372036854775807'", "'9223372036854775808'",
    "'-9223372036854775808'", "'18446744073709551615'", "'18446744073709551616'",
    "'[32767, 32768, 65535, 65536, 2147483647, 4294967295, 4294967296, true, null, false]'",
    "'{}'", "'[]'", "'[[], {}, [[]], {\"\": {}}]'", "'\"\"'", "'{\"b\": 1, \"a\": 2, \"aa\": [1, \"x\", 1.5, null]}'",
    "JSON_ARRAY('\\\"', '\\\\', '/', '\\b\\f\\n\\r\\t', CHAR(1, 31, 127 USING utf8mb4), 'é😀', UNHEX('E280A8'))",
    "JSON_OBJECT('k\\n\\\"', 1)",
    "JSON_ARRAY(1125899906842624.25e0, -1125899906842173.2e0, 1125899906842624e0, 1e14, 1e15, 1e-14, 1e-15)",
    "JSON_ARRAY(CAST(-12.3400 AS DECIMAL(10,4)), CAST(0 AS DECIMAL(1,0)), CAST(0.5 AS DECIMAL(3,3)))",
    "CAST(CAST(12.50 AS DECIMAL(10,2)) AS JSON)",
    "JSON_ARRAY(CAST(REPEAT('9', 65) AS DECIMAL(65,0)), CAST(-0.1 AS DECIMAL(65,30)))",
    "CAST(REPEAT('9', 65) AS JSON)",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('0000-00-00' AS DATE), CAST('9999-12-31' AS DATE))",
    "JSON_ARRAY(CAST('-838:59:58.9' AS TIME(6)), CAST('00:00:01' AS TIME), CAST('100:00:00' AS TIME))",
    "JSON_ARRAY(CAST('2024-02-29 23:59:59.000001' AS DATETIME(6)), CAST('1000-01-01' AS DATETIME))",
    "JSON_ARRAY(b'101', x'00FF', CAST('text' AS BINARY), CAST(REPEAT('x', 200) AS BINARY), CAST('' AS BINARY))",
    "JSON_ARRAY(CAST(REPEAT('x', 57) AS BINARY), CAST(REPEAT('x', 58) AS BINARY), CAST(2024 AS YEAR))",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "CAST(CONCAT(REPEAT('[', 100), REPEAT(']', 100)) AS JSON)",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('y', 128), REPEAT('z', 16383), REPEAT('é', 8192))",
    "JSON_OBJECT('s', REPEAT('x', 65000), 't', REPEAT('y', 65000), 'n', JSON_ARRAY(70000, -70000, 1, 1e100))",
    f"({numbers(20000, 'JSON_ARRAYAGG(n)')})", f"({numbers(9000, 'JSON_OBJECTAGG(n, n)')})",
)  # fmt: skip


def json_doubles() -> str:
    """Doubles of all sizes and digits, some by their bits and some short in decimal."""
    dice = random.Random(7)
    numbers = [struct.unpack("<d", dice.randbytes(8))[0] for _ in range(2000)]
    numbers += [round(dice.uniform(-1e6, 1e6), dice.randrange(9)) for _ in range(500)]
    numbers += [float(f"{dice.randrange(1, 10 ** dice.randrange(1, 17))}e{e}") for e in range(-40, 40)]
    numbers += [10.0**e for e in range(-20, 25)] + [-0.0, 5e-324, 2.0**-44, 2.0**53 + 2, 9007199254740993.0]
    return ", ".join(
        f"{number!r}e0" if "e" not in repr(number) else repr(number) for number in numbers if isfinite(number)
    )


def floats(values: pa.Array) -> list[Any]:
    return [None if v is None else struct.pack("<d", v) for v in values.to_pylist()]


def packed(values: list[Any]) -> list[Any]:
    return [None if v is None else struct.pack("<d", v) for v in values]


def vectors(values: pa.Array) -> list[Any]:
    return [None if v is None else struct.pack(f"<{len(v)}f", *v).hex().upper() for v in values.to_pylist()]


CASES = [
    *(case for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
      for case in integers(name, bits)),
    *(decimals(p, s) for p, s in ((1, 0), (1, 1), (5, 2), (9, 9), (10, 0), (12, 2), (18, 9), (19, 10), (20, 0))),
    *(decimals(p, s) for p, s in ((27, 13), (30, 30), (37, 5), (38, 0), (38, 19), (38, 30))),
    *(decimals(p, s) for p, s in ((39, 0), (50, 20), (65, 0), (65, 30))),
    Case("FLOAT", (*DOUBLES[:6], "3.4028234663852886e38", "1e-45", "16777217"), "CAST(c AS DOUBLE)", floats, packed),
    Case("DOUBLE", DOUBLES, "c", floats, packed),
    Case("BIT(1)", ("0", "1"), "c + 0"),
    *(Case(f"BIT({n})", ("0", "1", str((1 << n) - 1), str(1 << (n - 1)))) for n in (2, 7, 8, 9, 17, 63, 64)),
    Case("YEAR", ("0", "1901", "2155", "2024")),
    Case("DATE", DATES, "CAST(c AS CHAR)", date_text, possible),
    *(case for digits in range(7) for case in temporals(digits)),
    Case("CHAR(60)", TEXTS), Case("CHAR(0)", ("''",)), Case("CHAR(255)", (*TEXTS, LONG[0])),
    Case("CHAR(20) CHARSET latin1", ("''", "'naïve €'", "x'818D8F909D'")),
    Case("CHAR(255) CHARSET latin1", ("'x'", "REPEAT('é', 255)")),
    Case("VARCHAR(60)", TEXTS), Case("VARCHAR(300)", (*TEXTS, *LONG)), Case("VARCHAR(0)", ("''",)),
    Case("VARCHAR(255) CHARSET latin1", ("REPEAT('é', 255)",)), Case("VARCHAR(256) CHARSET latin1", LONG[:2]),
    Case("VARCHAR(63)", ("REPEAT('😀', 63)",)), Case("VARCHAR(64)", ("REPEAT('😀', 64)",)),
    *(Case(f"VARCHAR(20) CHARSET {charset}", ("'plain'", text)) for charset, text in (
        ("utf8mb3", "'naïve'"), ("ascii", "'~'"), ("cp1251", "'Привет'"), ("koi8r", "'Привет'"), ("greek", "'λόγος'"),
        ("sjis", "'日本\\\\'"), ("ujis", "'日本'"), ("cp932", "'日本①'"), ("gbk", "'中文'"), ("big5", "'中文'"),
        ("euckr", "'한국'"), ("gb18030", "'中文😀'"), ("ucs2", "'中文'"), ("utf16", "'中😀'"), ("utf16le", "'中😀'"),
        ("utf32", "'中😀'"), ("latin2", "'Łódź'"), ("hebrew", "'שלום'"))),
    Case("TINYTEXT", (*TEXTS, "REPEAT('a', 255)")), Case("TEXT", (*TEXTS, *LONG, HUGE[0])),
    Case("MEDIUMTEXT", (*TEXTS, *HUGE)), Case("LONGTEXT", (*TEXTS, *HUGE)),
    Case("BINARY(4)", BINARIES), Case("BINARY(255)", (*BINARIES, "REPEAT('a', 255)")), Case("BINARY(0)", ("''",)),
    Case("VARBINARY(4)", BINARIES), Case("VARBINARY(300)", (*BINARIES, *LONG[1:])),
    Case("TINYBLOB", (*BINARIES, "REPEAT('a', 255)")), Case("BLOB", (*BINARIES, HUGE[0])),
    Case("MEDIUMBLOB", (*BINARIES, *HUGE)), Case("LONGBLOB", (*BINARIES, *HUGE)),
    Case("ENUM('x', 'y', 'é')", ("'x'", "'é'", "''"), "c + 0"),
    Case(f"ENUM({', '.join(repr(str(i)) for i in range(1000))})", ("'0'", "'254'", "'255'", "'999'"), "c + 0"),
    *(Case(f"SET({', '.join(repr(str(i)) for i in range(n))})", ("''", "'0'", f"'0,{n - 1}'"), "CAST(c AS SIGNED)")
      for n in (2, 8, 9, 17, 33, 64)),
    Case("JSON", JSONS, "CAST(c AS CHAR)"), Case("JSON", (f"JSON_ARRAY({json_doubles()})",), "CAST(c AS CHAR)"),
    Case("GEOMETRY", ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326)")),
    Case("POINT", ("ST_GeomFromText('POINT(1.5 -2)')",)),
    Case("VECTOR(3)", ("TO_VECTOR('[1,2.5,-3e10]')", "TO_VECTOR('[0]')"), "HEX(c)", vectors),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.definition[:40] for case in CASES])
def test_values_are_the_servers_own(case: Case, session: Session) -> None:
    session.run(f"CREATE TABLE t (id INT PRIMARY KEY, c {case.definition}, n INT NOT NULL)")
    values = ["NULL", *case.values, "NULL"]
    rows = ", ".join(f"({i}, {value}, 0)" for i, value in enumerate(values))
    (inserted,) = session.logged(f"INSERT INTO t VALUES {rows}")
    printed = [value for (value,) in session.run(f"SELECT {case.server} FROM t ORDER BY id")]
    expected = case.theirs(printed)
    assert case.ours(inserted.rows["1"]) == expected
    assert inserted.rows["0"].to_pylist() == list(range(len(values)))
    assert inserted.impossible_dates == expected.count(None) - printed.count(None)
    assert inserted.rows.validate(full=True) is None

    (updated,) = session.logged("UPDATE t SET n = 1")
    shown = case.ours(updated.rows["1"])
    assert (shown[::2], shown[1::2]) == (expected, expected)
    assert updated.rows["2"].to_pylist() == [0, 1] * len(values)
    assert updated.images["kind"].to_pylist() == [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER] * len(
        values
    )

    (deleted,) = session.logged("DELETE FROM t")
    assert case.ours(deleted.rows["1"]) == expected
    assert set(deleted.images["kind"].to_pylist()) == {ImageKind.DELETE}
    assert deleted.images["ordinal"].to_pylist() == list(range(len(values)))


def test_json_changed_in_place_is_the_servers_own(session: Session) -> None:
    session.run("CREATE TABLE t (id INT PRIMARY KEY, c JSON)")
    session.run(
        """INSERT INTO t VALUES (1, '{"a": "long enough text", "b": [1, 2, {"c": 1.5}], "d": 100000}')"""
    )
    for change in (
        "JSON_SET(c, '$.a', 'short')",
        "JSON_SET(c, '$.b[2].c', 2)",
        "JSON_REPLACE(c, '$.d', NULL)",
        "JSON_REMOVE(c, '$.b[0]')",
        "JSON_SET(c, '$.d', CAST(1.50 AS DECIMAL(4,2)))",
        "JSON_REMOVE(c, '$.a')",
        "JSON_SET(c, '$.a', REPEAT('x', 70000))",
        "JSON_SET(c, '$.a', 1)",
    ):
        (before,) = session.run("SELECT CAST(c AS CHAR) FROM t")
        (updated,) = session.logged(f"UPDATE t SET c = {change}")
        (after,) = session.run("SELECT CAST(c AS CHAR) FROM t")
        assert updated.rows["1"].to_pylist() == [*before, *after], change


def test_columns_of_all_kinds_beside_each_other(session: Session) -> None:
    """Wide tables have their column count in three bytes; each column's type, sign and charset is its own."""
    definitions = [case.definition for case in CASES if "JSON" not in case.definition][:150]
    columns = ", ".join(f"c{i} {definition}" for i, definition in enumerate(definitions))
    session.run(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) ROW_FORMAT = DYNAMIC")
    for i, _ in enumerate(definitions):
        case = next(case for case in CASES if case.definition == definitions[i])
        (inserted,) = session.logged(f"REPLACE INTO t (id, c{i}) VALUES ({i}, {case.values[-1]})")
        printed = session.run(f"SELECT {case.server.replace('c', f'c{i}', 1)} FROM t WHERE id = {i}")
        assert case.ours(inserted.rows[str(i + 1)]) == case.theirs([value for (value,) in printed])
        assert [column.null_count for column in inserted.rows.columns].count(0) == 2


def test_more_columns_than_a_byte_counts(session: Session) -> None:
    for count in (249, 250, 251, 252, 300, 1000):
        session.run(f"CREATE TABLE t{count} ({', '.join(f'c{i} INT' for i in range(count))})")
        (inserted,) = session.logged(f"INSERT INTO t{count} VALUES ({', '.join(map(str, range(count)))})")
        assert inserted.rows.to_pylist() == [{str(i): i for i in range(count)}]


def test_text_behind_a_vector_keeps_its_character_set(session: Session) -> None:
    session.run(
        "CREATE TABLE t (v VECTOR(2), a CHAR(200), b VARBINARY(9), c TEXT CHARSET latin1, j JSON, p POINT)"
    )
    (inserted,) = session.logged("INSERT INTO t (a, b, c) VALUES ('naïve', x'FF', 'naïve')")
    assert [column.to_pylist() for column in inserted.rows.columns[1:4]] == [["naïve"], [b"\xff"], ["naïve"]]


def test_generated_and_hidden_columns(session: Session) -> None:
    session.run(
        "CREATE TABLE t (a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) STORED, d INT INVISIBLE, j JSON,"
        " KEY ((a * 3)), KEY ((CAST(j->'$' AS UNSIGNED ARRAY))))"
    )
    (inserted,) = session.logged("INSERT INTO t (a, d, j) VALUES (10, 20, '[1, 2]')")
    assert inserted.rows.to_pylist() == [{"0": 10, "1": 11, "2": 12, "3": 20, "4": "[1, 2]"}]


def test_events_of_many_rows_and_tables_keep_their_places(session: Session) -> None:
    session.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(200))")
    session.run("CREATE TABLE u LIKE t")
    rows = numbers(3000, "n, REPEAT(n, 9)")
    t, u = session.logged(
        "BEGIN", f"INSERT INTO t {rows}", f"INSERT INTO u {rows}", "UPDATE t SET c = ''", "COMMIT"
    )
    assert t.rows["0"].to_pylist()[:3000] == u.rows["0"].to_pylist() == list(range(1, 3001))
    assert t.rows["0"].to_pylist()[3000:] == [n for n in range(1, 3001) for _ in range(2)]
    assert (
        t.images["kind"].to_pylist()
        == [ImageKind.INSERT] * 3000 + [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER] * 3000
    )
