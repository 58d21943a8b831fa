"""Conditions against their table: columns are spelt as its are, and literals fit them or are refused by name."""

from datetime import date, datetime

import pytest
from hypothesis import given

from pipeline.snapshot import row_filter, row_filter_parser
from tests.pipeline.random_conditions import SAMPLES, conditions


def of(text: str) -> row_filter.Condition:
    return row_filter.check_filter(row_filter_parser.parse_filter(text), SAMPLES)


def test_columns_are_spelt_as_the_table_spells_them() -> None:
    assert of("NOT (ID = 1 OR `Name` IN ('x')) OR DOC IS NULL") == row_filter.Or(
        (
            row_filter.Not(
                row_filter.Or(
                    (
                        row_filter.Compare("id", row_filter.Operator.EQUAL, 1),
                        row_filter.In("name", ("x",), negated=False),
                    )
                )
            ),
            row_filter.IsNull("doc", negated=False),
        )
    )


def test_every_column_that_is_compared_is_named() -> None:
    text = "NOT (a = 1 OR b IN ('x')) AND c IS NULL AND d LIKE 'x' AND e BETWEEN 1 AND 2 AND (f < 1 OR a > 1)"
    assert row_filter.compared_columns(row_filter_parser.parse_filter(text)) == set("abcdef")


def test_text_that_stands_for_a_date_becomes_one() -> None:
    assert of("day = '2026-01-31'") == row_filter.Compare("day", row_filter.Operator.EQUAL, date(2026, 1, 31))
    assert of("instant < '2026-01-31 10:30:00.5'") == row_filter.Compare(
        "instant", row_filter.Operator.LESS, datetime.fromisoformat("2026-01-31T10:30:00.5")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nam = 'x'", "there is no column 'nam'; the table has id, small, big"),
        ("id = 1 AND (nam IS NULL OR NOT nam = 'x')", "no column 'nam'"),
        ("id = '1'", "column id is INTEGER: it's compared with a number, not with '1'"),
        ("id IN (1, DATE'2026-01-31')", "column id is INTEGER"),
        ("id BETWEEN 1 AND 'x'", "column id is INTEGER"),
        ("price = X'00'", "column price is DECIMAL"),
        ("name = 1", "column name is TEXT: it's compared with text, not with 1"),
        ("name = TRUE", "column name is TEXT"),
        ("kind = 1", "column kind is ENUM"),
        ("name = X'00'", "column name is TEXT"),
        ("code = 1", "column code is BINARY: it's compared with text or hexadecimal"),
        ("day = 20260131", "column day is DATE: it's compared with a date as '2026-01-31'"),
        ("day = '2026-1-31'", "column day is DATE"),
        ("day = '0000-00-00'", "column day is DATE"),
        ("moment = 'yesterday'", "column moment is DATETIME"),
        ("clock = DATE'2026-01-31'", "column clock is TIME: it's compared with a time as '10:30:00'"),
        ("clock = '839:00:00'", "column clock is TIME"),
        ("doc = 'x'", "column doc is JSON: it can't be compared, but IS [NOT] NULL will do"),
        ("doc = NULL", "column doc is JSON"),
        ("id LIKE '1%'", "column id is INTEGER, and LIKE is for text"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(row_filter.InvalidRowFilter) as refused:
        of(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text", ["2026-01-31x", "2026-13-01", "20260131", "2026-01-31 24:00:00", "٢٠٢٦-01-31"]
)
def test_what_is_no_moment(text: str) -> None:
    assert row_filter.parse_moment(text) is None


@given(conditions)
def test_fitting_literals_are_left_as_they_are(condition: row_filter.Condition) -> None:
    assert repr(row_filter.check_filter(condition, SAMPLES)) == repr(condition)
