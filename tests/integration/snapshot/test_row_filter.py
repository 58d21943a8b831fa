"""Conditions on a real server: as they are bound they give the rows that their text gives there."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.source.connection import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.snapshot.row_filter import Condition, check_filter
from pipeline.snapshot.row_filter_parser import parse_filter
from pipeline.snapshot.row_filter_sql import requested_condition
from pipeline.snapshot.snapshot import Request
from pipeline.source.statement import Statement
from tests.pipeline.printed_conditions import printed
from tests.pipeline.random_conditions import CREATE, SAMPLES, conditions
from tests.servers.source import settings as source_settings

# Of each column some values, with which rows are made: every second one has a NULL in each place in turn.
VALUES = {
    "small": ["-128", "-1", "0", "1", "127"],
    "big": ["0", "1", "9223372036854775808", "18446744073709551615"],
    "price": ["-9.99", "0", "0.50", "12.50", "999999.99"],
    "ratio": ["-2.5e-3", "0", "0.5", "0.1", "1e3", "1e300"],
    "flags": ["0", "1", "5", "15"],
    "born": ["0", "1901", "1970", "1999", "2026", "2155"],
    "name": [
        "''",
        "'a'",
        "'A'",
        "'b'",
        "'ä'",
        "'ab'",
        "'a b'",
        "'a '",
        "'100%'",
        r"'it\'s'",
        r"'a\\b'",
        "'a_b'",
        "'ß'",
    ],
    "kind": ["'a'", "'b'", "'c'"],
    "tags": ["''", "'x'", "'y'", "'x,y'"],
    "code": ["''", "'a'", "X'00'", "X'FF00'", "'ab'", "'A'"],
    "day": ["'1970-01-01'", "'2026-01-31'", "'2000-02-29'", "'9999-12-31'"],
    "moment": ["'1970-01-01'", "'2026-01-31'", "'2026-01-31 10:30:00.5'", "'2000-01-01 00:00:00.001'"],
    "instant": ["'1970-01-01 00:00:01'", "'2026-01-31 10:30:00.5'", "'2038-01-19 03:14:07.999999'"],
    "clock": ["'00:00:00'", "'10:30:00'", "'10:30:00.5'", "'-10:30:00'", "'838:59:59'"],
    "doc": ["'{}'", "'null'"],
}
ROWS = 60


def row(number: int) -> str:
    """Values for an INSERT."""
    nulled = number // 2 % (2 * len(VALUES)) if number % 2 else None
    values = [
        "NULL" if i == nulled else choice[(number * (i + 3) // 2) % len(choice)]
        for i, choice in enumerate(VALUES.values())
    ]
    return f"({number}, {', '.join(values)})"


@pytest.fixture(scope="module")
def both(mysql: MysqlServer) -> Iterator[Callable[[Condition], tuple[list[int], list[int]]]]:
    """The ids of the rows that the server finds by a condition's text, and those by what is bound."""
    database = "conditions"
    mysql.sql(
        f"CREATE DATABASE {database}",
        CREATE.format(database=database),
        "SET time_zone = '+00:00'",
        f"INSERT INTO {database}.samples VALUES {', '.join(map(row, range(ROWS)))}",
    )
    account = mysql.create_capture_user(database)
    with asyncio.Runner() as runner, closing(mysql.connect(database=database)) as connection:
        source = runner.run(Source.connect(source_settings(mysql, account)))
        cursor = connection.cursor()
        cursor.execute("SET time_zone = '+00:00'")

        def found(condition: Condition) -> tuple[list[int], list[int]]:
            cursor.execute(
                f"SELECT id FROM samples WHERE {printed(condition)} ORDER BY id".replace("%", "%%"), ()
            )
            told = [id_ for (id_,) in cursor.fetchall()]
            where = requested_condition(SAMPLES, Request(condition=printed(condition)))
            assert where is not None
            select = f"SELECT id FROM {database}.samples WHERE {where[0]} ORDER BY id"
            return told, [id_ for (id_,) in runner.run(source.ask(Statement(select, where[1])))]

        yield found
        source.close()


@given(condition=conditions)
@settings(max_examples=250)
def test_a_condition_gives_the_rows_that_its_text_gives(
    both: Callable[[Condition], tuple[list[int], list[int]]], condition: Condition
) -> None:
    told, bound = both(condition)
    assert bound == told


@given(condition=conditions, data=st.data())
def test_a_text_in_other_words_gives_the_same_rows(
    both: Callable[[Condition], tuple[list[int], list[int]]], condition: Condition, data: st.DataObject
) -> None:
    """What the grammar says of cases, spaces and parentheses holds on the server."""
    text = printed(condition)
    other = data.draw(st.sampled_from([f"(({text}))", f"NOT (NOT ({text}))", f" \n\t{text}\n"]))
    assert both(check_filter(parse_filter(other), SAMPLES))[0] == both(condition)[1]
