"""Chunk queries: their text, their parameters, and that they cut a table into pieces without gap or overlap."""

import sqlite3
from itertools import pairwise, product

import pytest

from pipeline.chunks import chunk, last_key, refusal
from pipeline.keys import Key
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Integer,
    Set,
    Text,
    Time,
    Timestamp,
    Year,
)

INT = Integer(4, unsigned=False)


def table(*key: ColumnType, rest: tuple[Column, ...] = ()) -> TableSchema:
    columns = tuple(Column("abcdef"[i], kind, nullable=False) for i, kind in enumerate(key))
    return TableSchema(TableId("shop", "orders"), columns + rest, tuple(range(len(key))))


def test_a_key_of_one_column() -> None:
    first = chunk(table(INT), None, (9,), 100)
    assert first.sql == (
        "SELECT /*+ INDEX(t PRIMARY) */ `a` FROM `shop`.`orders` t WHERE `a` <= %s ORDER BY `a` LIMIT 100"
    )
    assert first.parameters == (9,)
    later = chunk(table(INT), (3,), (9,), 100)
    assert "WHERE `a` > %s AND `a` <= %s ORDER BY" in later.sql
    assert later.parameters == (3, 9)


def test_a_composite_key_is_compared_lexicographically_and_by_ranges() -> None:
    statement = chunk(table(INT, Text("latin1")), (3, "x"), (9, "y"), 5)
    assert "WHERE (`a` >= %s AND (`a` > %s OR (`a` = %s AND `b` > %s)))" in statement.sql
    assert "AND (`a` <= %s AND (`a` < %s OR (`a` = %s AND `b` <= %s)))" in statement.sql
    assert statement.parameters == (3, 3, 3, "x", 9, 9, 9, "y")


def test_the_key_may_have_another_order_than_the_columns() -> None:
    schema = TableSchema(TableId("d", "t"), table(INT, Year()).columns, (1, 0))
    statement = chunk(schema, None, (1999, 7), 5)
    assert statement.sql.startswith("SELECT /*+ INDEX(t PRIMARY) */ `a`, `b` FROM")
    assert statement.sql.endswith("ORDER BY `b`, `a` LIMIT 5")
    assert statement.parameters == (1999, 1999, 1999, 7)
    assert last_key(schema).sql == (
        "SELECT /*+ INDEX(t PRIMARY) */ `b`, `a` FROM `d`.`t` t ORDER BY `b` DESC, `a` DESC LIMIT 1"
    )


def test_names_are_quoted() -> None:
    schema = TableSchema(TableId("a`b", "50%"), (Column("`%s", INT, nullable=False),), (0,))
    assert last_key(schema).sql % () == (
        "SELECT /*+ INDEX(t PRIMARY) */ ```%s` FROM `a``b`.`50%` t ORDER BY ```%s` DESC LIMIT 1"
    )
    assert chunk(schema, None, (1,), 2).sql % "7" == (
        "SELECT /*+ INDEX(t PRIMARY) */ ```%s` FROM `a``b`.`50%` t WHERE ```%s` <= 7 ORDER BY ```%s` LIMIT 2"
    )


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        (Decimal(65, 30), "CAST(%s AS DECIMAL(65, 30))"),
        (Date(), "CAST(%s AS DATE)"),
        (Time(3), "CAST(%s AS TIME(3))"),
        (DateTime(6), "CAST(%s AS DATETIME(6))"),
        (Timestamp(0), "CAST(%s AS DATETIME(0))"),
    ],
)
def test_parameters_have_the_columns_type(kind: ColumnType, parameter: str) -> None:
    assert f"`a` <= {parameter} " in chunk(table(kind), None, ("…",), 1).sql


def test_any_cut_of_a_composite_key_gives_each_row_once() -> None:
    rows = list(product(range(3), repeat=3))
    schema = table(INT, INT, INT)
    with sqlite3.connect(":memory:") as lite:
        lite.execute("CREATE TABLE orders (a INT, b INT, c INT, PRIMARY KEY (a, b, c))")
        lite.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)

        def select(after: Key | None, end: Key) -> list[tuple[int, ...]]:
            statement = chunk(schema, after, end, 1000)
            sql = statement.sql.replace("%s", "?").replace("`shop`.", "")
            return lite.execute(sql, statement.parameters).fetchall()

        assert select(None, rows[-1]) == rows
        for low, high in pairwise([rows[i] for i in (0, 1, 5, 8, 9, 17, 26)]):
            assert select(None, low) + select(low, high) + select(high, rows[-1]) == rows
        for after, end in product(rows, rows):
            assert select(after, end) == [row for row in rows if after < row <= end]
    lite.close()


def test_without_a_primary_key_there_are_no_chunks() -> None:
    why = refusal(table(rest=(Column("x", INT, nullable=True),)))
    assert why == "shop.orders has no primary key to walk along; its changes still stream"


@pytest.mark.parametrize(
    "kind",
    [
        *(Integer(size, unsigned) for size in (1, 2, 3, 4, 8) for unsigned in (False, True)),
        Decimal(65, 30),
        Year(),
        Date(),
        Time(6),
        DateTime(6),
        Timestamp(6),
        Text("utf8mb4"),
        Text("latin1"),
        FixedBinary(16),
        Binary(),
    ],
)
def test_keys_that_can_be_walked(kind: ColumnType) -> None:
    assert refusal(table(INT, kind)) is None


@pytest.mark.parametrize(
    "kind", [Enum(("a",)), Set(("a",)), Bit(1), Float(), Double(), Text("cp932"), Text("gbk")]
)
def test_keys_that_cannot_be_walked_are_refused_by_name(kind: ColumnType) -> None:
    why = refusal(table(INT, kind))
    assert why is not None
    assert why.startswith("column b of the primary key of shop.orders ")
    assert why.endswith("; its changes still stream")


def test_a_key_that_holds_only_prefixes_is_refused() -> None:
    schema = table(Text("utf8mb4"))
    assert refusal(schema, prefixed=["b"]) is None
    why = refusal(schema, prefixed=["a"])
    assert why is not None
    assert "column a of the primary key of shop.orders is in it with a prefix only" in why
