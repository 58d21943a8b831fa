"""Values that are bound: each in a form that compares as its column does."""

import pytest

from pipeline.errors import Definite
from pipeline.schema.row_keys import KeyPart
from pipeline.source.parameters import LONGEST_LIST, comparison, key_storage, label_numbers, placeholder
from pipeline.types import column_types as t

THREE = t.Enum(("x", "y", "z"))


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (t.Integer(8, unsigned=True), 2**64 - 1, "%s"),
        (t.Bit(3), 5, "%s"),
        (t.Double(), 0.5, "%s"),
        (t.Text("latin1"), "x", "%s"),
        (t.Binary(), b"x", "%s"),
        (t.Decimal(65, 30), "1", "CAST(CAST(%s AS CHAR) AS DECIMAL(65, 30))"),
        (t.Date(), "2024-01-01", "CAST(CAST(%s AS CHAR) AS DATE)"),
        (t.Time(3), "00:00:00.000", "CAST(CAST(%s AS CHAR) AS TIME(3))"),
        (t.DateTime(6), "…", "CAST(CAST(%s AS CHAR) AS DATETIME(6))"),
        (t.Timestamp(0), "…", "CAST(CAST(%s AS CHAR) AS DATETIME(0))"),
        (t.Text("gbk"), b"x", "CONVERT(CAST(%s AS BINARY) USING gbk) COLLATE gbk_bin"),
    ],
)
def test_a_value_has_the_columns_type(kind: t.ColumnType, value: KeyPart, place: str) -> None:
    assert placeholder("`a`", kind, value, "gbk_bin") == place
    assert comparison("`a`", kind, "<", value, "gbk_bin") == (f"`a` < {place}", (value,))


@pytest.mark.parametrize(
    "day", ["2024-02-30", "2024-02-31", "2023-02-29", "1900-02-29", "0000-02-29", "2024-04-31"]
)
@pytest.mark.parametrize(("kind", "time"), [(t.Date(), ""), (t.DateTime(3), " 10:00:00.000")])
def test_a_day_past_its_months_end_is_refused_by_the_columns_name(
    kind: t.ColumnType, time: str, day: str
) -> None:
    for operator in ("<=", ">", "="):
        with pytest.raises(Definite, match="column `a` has a day past its month's end"):
            comparison("`a`", kind, operator, day + time, None)


@pytest.mark.parametrize(
    "day", ["0000-00-00", "2024-02-00", "2024-00-31", "2024-02-29", "0004-02-29", "9999-12-31"]
)
def test_zero_and_partial_days_are_bound_as_all_others(day: str) -> None:
    assert comparison("`a`", t.Date(), "<=", day, None)[1] == (day,)


@pytest.mark.parametrize(
    ("operator", "numbers"), [("<", (0,)), ("<=", (0, 1)), (">", (2, 3)), (">=", (1, 2, 3))]
)
def test_numbers_that_satisfy_a_comparison_are_listed(operator: str, numbers: tuple[int, ...]) -> None:
    marks = ", ".join(["%s"] * len(numbers))
    assert comparison("`a`", THREE, operator, 1, None) == (f"`a` IN ({marks})", numbers)


def test_a_comparison_that_no_number_satisfies_is_false() -> None:
    assert comparison("`a`", THREE, ">", 3, None) == ("FALSE", ())
    assert comparison("`a`", t.Set(("x", "y")), "<", 0, None) == ("FALSE", ())


def test_the_same_number_needs_no_list() -> None:
    assert comparison("`a`", THREE, "=", 1, None) == ("`a` = %s", (1,))


def test_a_list_has_its_longest() -> None:
    labels = tuple(map(str, range(LONGEST_LIST)))
    assert label_numbers(t.Enum(labels[1:])) == range(LONGEST_LIST)
    assert label_numbers(t.Enum(labels)) is None
    assert label_numbers(t.Set(labels[:10])) == range(LONGEST_LIST)
    assert label_numbers(t.Set(labels[:11])) is None
    assert comparison("`a`", t.Set(labels[:11]), "<", 7, None) == ("`a` < %s", (7,))
    assert comparison("`a`", t.Set(labels[:64]), "<", 7, None) == ("CAST(`a` AS UNSIGNED) < %s", (7,))


def test_text_that_is_not_all_of_unicode_goes_through_as_bytes() -> None:
    assert key_storage(t.Text("gbk")) == t.Binary()
    assert key_storage(t.Text("utf8mb4")) == t.Text("utf8mb4")
    assert key_storage(THREE) == THREE
