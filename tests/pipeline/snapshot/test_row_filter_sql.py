"""What a request asks for, as SQL whose values are bound."""

import pytest

from pipeline.schema.row_keys import KeyPart
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.row_filter import InvalidRowFilter
from pipeline.snapshot.row_filter_sql import requested_condition
from pipeline.snapshot.snapshot import WHOLE_TABLE, Request
from pipeline.types.column_types import ColumnType, Date, DateTime, Decimal, Double, Integer, Text, Time

COLUMNS: dict[str, ColumnType] = {
    "id": Integer(4, unsigned=False),
    "big": Integer(8, unsigned=True),
    "price": Decimal(9, 2),
    "ratio": Double(),
    "na`me": Text("utf8mb4"),
    "day": Date(),
    "at": DateTime(3),
    "long": Time(0),
}
SCHEMA = TableSchema(
    TableId("d", "t"), tuple(Column(name, kind, nullable=True) for name, kind in COLUMNS.items()), (0,)
)


@pytest.mark.parametrize(
    ("text", "sql", "values"),
    [
        ("ID = 3", "`id` = %s", (3,)),
        ("id <> -3", "`id` <> %s", (-3,)),
        ("ratio >= 1e-3", "`ratio` + 0e0 >= %s", (0.001,)),
        ("price < 12.505", "`price` < CAST(CAST(%s AS CHAR) AS DECIMAL(5, 3))", ("12.505",)),
        ("price > -0.05", "`price` > CAST(CAST(%s AS CHAR) AS DECIMAL(3, 2))", ("-0.05",)),
        ("big = 18446744073709551615", "`big` = %s", (2**64 - 1,)),
        (
            "big < 18446744073709551616",
            "`big` < CAST(CAST(%s AS CHAR) AS DECIMAL(20, 0))",
            ("18446744073709551616",),
        ),
        ("`na``me` = 'it''s; DROP TABLE t'", "`na``me` = %s", ("it's; DROP TABLE t",)),
        ("`na``me` NOT LIKE 'a%_'", "`na``me` NOT LIKE %s ESCAPE %s", ("a%_", "\\")),
        ("day = '2024-02-29'", "`day` = CAST(CAST(%s AS CHAR) AS DATE)", ("2024-02-29",)),
        (
            "at < '2024-02-29 10:00:00'",
            "`at` < CAST(CAST(%s AS CHAR) AS DATETIME(6))",
            ("2024-02-29 10:00:00",),
        ),
        ("`long` > '-10:00:00'", "`long` > CAST(CAST(%s AS CHAR) AS TIME(6))", ("-10:00:00",)),
        ("id IN (1, 2)", "`id` IN (%s, %s)", (1, 2)),
        ("id NOT BETWEEN 1 AND 2", "`id` NOT BETWEEN %s AND %s", (1, 2)),
        ("id IS NOT NULL", "`id` IS NOT NULL", ()),
        ("id <=> NULL", "`id` <=> NULL", ()),
        (
            "NOT (id = 1 OR id = 2) AND big = 3",
            "(NOT ((`id` = %s) OR (`id` = %s))) AND (`big` = %s)",
            (1, 2, 3),
        ),
    ],
)
def test_a_condition_is_names_and_marks(text: str, sql: str, values: tuple[KeyPart, ...]) -> None:
    assert requested_condition(SCHEMA, Request(condition=text)) == (f"({sql})", values)


def test_keys_are_a_list() -> None:
    assert requested_condition(SCHEMA, Request(keys=((1,), (2,)))) == ("(`id` IN (%s, %s))", (1, 2))


def test_keys_of_several_parts_are_alternatives() -> None:
    schema = TableSchema(SCHEMA.table, SCHEMA.columns, (0, 2))
    sql = "`id` = %s AND `price` = CAST(CAST(%s AS CHAR) AS DECIMAL(9, 2))"
    assert requested_condition(schema, Request(keys=((1, "2.50"), (3, "4.00")))) == (
        f"(({sql}) OR ({sql}))",
        (1, "2.50", 3, "4.00"),
    )


def test_keys_and_a_condition_both_hold() -> None:
    assert requested_condition(SCHEMA, Request(condition="big = 7", keys=((1,),))) == (
        "(`id` IN (%s)) AND (`big` = %s)",
        (1, 7),
    )


def test_all_of_a_table_needs_no_condition() -> None:
    assert requested_condition(SCHEMA, WHOLE_TABLE) is None


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(condition="nothing = 1"), "there is no column 'nothing'"),
        (Request(condition="day = 'tomorrow'"), "compared with a date"),
        (Request(keys=((1, 2),)), "the primary key of d.t has the parts id"),
    ],
)
def test_what_is_not_about_the_table_is_refused(request_: Request, reason: str) -> None:
    with pytest.raises(InvalidRowFilter, match=reason):
        requested_condition(SCHEMA, request_)
