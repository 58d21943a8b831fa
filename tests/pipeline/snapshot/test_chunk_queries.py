"""Chunk queries: their text, their parameters, and that they cut a table into pieces without gap or overlap."""

import re
import sqlite3
from itertools import pairwise, product

from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.chunk_queries import (
    first_after,
    first_key,
    key_alone,
    key_places,
    last_key,
    last_through,
    select_boundary,
    select_by_keys,
    select_chunk,
)
from pipeline.source.statement import Statement
from pipeline.types.column_types import Binary, Bit, ColumnType, Enum, Integer, Set, Text, Year
from tests.pipeline.builders import primary_index

INT = Integer(4, unsigned=False)
NUMBER = Integer(8, unsigned=True)


def table(*key: ColumnType, rest: tuple[Column, ...] = ()) -> TableSchema:
    columns = tuple(Column("abcdef"[i], kind, nullable=False) for i, kind in enumerate(key))
    return TableSchema(TableId("shop", "orders"), columns + rest, tuple(range(len(key))))


def test_a_key_of_one_column() -> None:
    schema = table(INT)
    first = select_chunk(schema, primary_index(schema), None, (9,), 100)
    assert first.sql == (
        "SELECT `a` FROM `shop`.`orders` FORCE INDEX (`PRIMARY`) WHERE `a` <= %s ORDER BY `a` LIMIT 100"
    )
    assert first.parameters == (9,)
    later = select_chunk(schema, primary_index(schema), (3,), (9,), 100)
    assert "WHERE `a` > %s AND `a` <= %s ORDER BY" in later.sql
    assert later.parameters == (3, 9)


def test_a_composite_key_is_compared_lexicographically_and_by_ranges() -> None:
    schema = table(INT, Text("latin1"))
    statement = select_chunk(schema, primary_index(schema), (3, "x"), (9, "y"), 5)
    assert "WHERE (`a` >= %s AND (`a` > %s OR (`a` = %s AND `b` > %s)))" in statement.sql
    assert "AND (`a` <= %s AND (`a` < %s OR (`a` = %s AND `b` <= %s)))" in statement.sql
    assert statement.parameters == (3, 3, 3, "x", 9, 9, 9, "y")


def test_a_walk_has_its_own_index_columns_and_order() -> None:
    schema = TableSchema(TableId("d", "t"), table(INT, Year(), INT).columns, (0,))
    walk = ChunkIndex("u", (2, 1), (False, True), (None, None))
    statement = select_chunk(schema, walk, None, (7, 1999), 5)
    assert statement.sql == (
        "SELECT `a`, `b`, `c` FROM `d`.`t` FORCE INDEX (`u`)"
        " WHERE (`c` <= %s AND (`c` < %s OR (`c` = %s AND `b` >= %s))) ORDER BY `c`, `b` DESC LIMIT 5"
    )
    assert statement.parameters == (7, 7, 7, 1999)
    order = "SELECT `c`, `b` FROM `d`.`t` FORCE INDEX (`u`) ORDER BY"
    assert last_key(schema, walk).sql == f"{order} `c` DESC, `b` LIMIT 1"
    assert first_key(schema, walk).sql == f"{order} `c`, `b` DESC LIMIT 1"


def test_names_are_quoted() -> None:
    schema = TableSchema(TableId("a`b", "50%"), (Column("`%s", INT, nullable=False),), (0,))
    assert last_key(schema, primary_index(schema)).marked == (
        "SELECT ```%s` FROM `a``b`.`50%` FORCE INDEX (`PRIMARY`) ORDER BY ```%s` DESC LIMIT 1"
    )
    assert select_chunk(schema, primary_index(schema), None, (1,), 2).marked.endswith(
        "WHERE ```%s` <= ? ORDER BY ```%s` LIMIT 2"
    )


def test_the_numbers_of_enums_and_sets_come_behind_the_columns() -> None:
    schema = table(Enum(("x",)), INT, Set(("y",)), rest=(Column("n", Text("gbk"), nullable=True),))
    walk = primary_index(schema)
    statement = select_chunk(schema, walk, None, (1, 2, 0), 5)
    assert "SELECT `a`, `b`, `c`, `n`, CAST(`a` AS UNSIGNED), CAST(`c` AS UNSIGNED) FROM" in statement.sql
    assert key_places(schema, walk) == ((NUMBER, 4), (INT, 1), (NUMBER, 5))
    assert "SELECT CAST(`a` AS UNSIGNED), `b`, CAST(`c` AS UNSIGNED) FROM" in last_key(schema, walk).sql
    assert key_alone(schema, walk) == ((NUMBER, 0), (INT, 1), (NUMBER, 2))


def test_text_that_is_not_all_of_unicode_is_read_as_bytes() -> None:
    schema = table(Text("gbk"), Text("latin1"), Bit(3))
    assert key_alone(schema, primary_index(schema)) == ((Binary(), 0), (Text("latin1"), 1), (Bit(3), 2))


def test_a_condition_is_one_part_of_the_chunks() -> None:
    schema = table(INT)
    statement = select_chunk(schema, primary_index(schema), (1,), (9,), 5, ("`a` = %s OR `a` = %s", (3, 4)))
    assert "WHERE `a` > %s AND `a` <= %s AND (`a` = %s OR `a` = %s) ORDER BY" in statement.sql
    assert statement.parameters == (1, 9, 3, 4)


def test_any_cut_of_a_composite_key_gives_each_row_once() -> None:
    schema = table(INT, INT, INT)
    for descending in product((False, True), repeat=3):
        walk = ChunkIndex("PRIMARY", (0, 1, 2), descending, (None,) * 3)
        signs = [-1 if turned else 1 for turned in descending]
        ascending = product(range(3), repeat=3)
        rows = sorted(ascending, key=lambda row: [v * sign for v, sign in zip(row, signs, strict=True)])
        with sqlite3.connect(":memory:") as lite:
            lite.execute("CREATE TABLE orders (a INT, b INT, c INT, PRIMARY KEY (a, b, c))")
            lite.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)

            def ask(statement: Statement) -> list[tuple[int, ...]]:
                sql = re.sub(r"`shop`\.| FORCE INDEX \(`PRIMARY`\)", "", statement.marked)
                return lite.execute(sql, statement.parameters).fetchall()

            def select(after: Key | None, end: Key) -> list[tuple[int, ...]]:
                return ask(select_chunk(schema, walk, after, end, 1000))  # noqa: B023

            assert ask(first_key(schema, walk)) == rows[:1]
            assert ask(last_key(schema, walk)) == rows[-1:]
            assert select(None, rows[-1]) == rows
            for low, high in pairwise([rows[i] for i in (0, 1, 5, 8, 9, 17, 26)]):
                assert select(None, low) + select(low, high) + select(high, rows[-1]) == rows
            for (i, after), (j, end) in product(enumerate(rows), enumerate(rows)):
                assert select(after, end) == rows[i + 1 : j + 1]
                assert ask(select_boundary(schema, walk, after, end, 2)) == rows[i + 1 : j + 1][1:2]
            for i, bound, last in product((0, 10, 26), rows[::4], (9, 26)):
                through = [place for place, row in enumerate(rows) if row[:2] == bound[:2]][-1]
                found = ask(last_through(schema, walk, rows[i], bound[:2], rows[last]))
                assert found == rows[i + 1 : min(through, last) + 1][-1:]
                assert ask(first_after(schema, walk, bound[:2], rows[i])) == rows[through + 1 : i + 1][:1]
        lite.close()


def test_keys_come_in_as_few_statements_as_a_server_takes() -> None:
    schema, packet = table(Text("utf8mb4"), INT), 1 << 20
    few: list[Key] = [("x", number) for number in range(1000)]
    many: list[Key] = [("\u00e4" * 700, number) for number in range(1000)]
    [whole] = select_by_keys(schema, few, ())
    assert whole.parameters == tuple(part for key in few for part in key)
    several = list(select_by_keys(schema, many, ()))
    assert [part for each in several for part in each.parameters] == [part for key in many for part in key]
    assert all(each.size < packet for each in several)
    assert 2 <= len(several) <= 4
    assert len(list(select_by_keys(schema, [("x" * packet, 1)], ()))) == 1
