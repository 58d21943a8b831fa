"""Columns that round what they are compared with: where in an index their values are looked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.parameters import comparison
from pipeline.source.result_columns import UNSIGNED, ResultColumn
from pipeline.source.rounding import Rounding, rounding
from pipeline.types import column_types as t

CENTS = Rounding(10, 2, unsigned=False, single=False)


def stored(value: float, rounded: Rounding) -> float:
    """A constant as the server puts it into the column, in whatever direction it rounds a half."""
    whole = np.floor(value)
    power = float(f"1e{rounded.decimals}")
    fraction = np.rint((value - whole) * power) / power
    number = whole + fraction
    return float(np.float32(number) if rounded.single else number)


@given(
    st.floats(-(2.0**70), 2.0**70, allow_subnormal=False),
    st.integers(0, 30),
    st.booleans(),
)
def test_bounds_contain_the_value_rounded_or_not(value: float, behind: int, single: bool) -> None:
    rounded = Rounding(60, behind, unsigned=False, single=single)
    kept = float(np.float32(value)) if single else value
    least, greatest = rounded.least_bound(kept), rounded.greatest_bound(kept)
    assert least is not None and greatest is not None
    assert least <= kept <= greatest
    assert stored(least, rounded) <= kept <= stored(greatest, rounded)


@pytest.mark.parametrize(
    ("operator", "sql", "values"),
    [
        (">", "(`a` >= %s AND `a` + 0e0 > %s)", [4.993]),
        (">=", "(`a` >= %s AND `a` + 0e0 >= %s)", [4.993]),
        ("<", "(`a` <= %s AND `a` + 0e0 < %s)", [5.013]),
        ("<=", "(`a` <= %s AND `a` + 0e0 <= %s)", [5.013]),
        ("=", "(`a` >= %s AND `a` <= %s AND `a` + 0e0 = %s)", [4.993, 5.013]),
    ],
)
def test_the_kept_value_is_compared_within_bounds(operator: str, sql: str, values: list[float]) -> None:
    found = comparison("`a`", t.Double(), operator, 5.003, None, CENTS)
    assert found == (sql, (*(pytest.approx(bound) for bound in values), 5.003))


@given(st.floats(-(2.0**70), 2.0**70, allow_subnormal=False), st.integers(0, 30), st.booleans())
def test_a_constant_is_kept_if_the_server_would_not_change_it(
    value: float, behind: int, single: bool
) -> None:
    rounded = Rounding(60, behind, unsigned=False, single=single)
    for constant in (value, stored(value, rounded)):
        assert rounded.keeps(constant) == (stored(constant, rounded) == constant)


def test_what_the_server_leaves_as_it_is_is_compared_plainly() -> None:
    assert comparison("`a`", t.Double(), ">", 5.01, None, CENTS) == ("`a` > %s", (5.01,))
    assert comparison("`a`", t.Double(), "=", 7, None, CENTS) == ("`a` = %s", (7,))
    assert not CENTS.keeps(1e8), "the column has no such value"


def test_a_key_of_a_column_that_was_a_decimal_is_a_text() -> None:
    assert comparison("`a`", t.Double(), "=", "1.503", None, CENTS) == ("`a` = %s", ("1.503",))


def test_a_bound_that_the_column_would_change_is_left_out() -> None:
    narrow = Rounding(4, 2, unsigned=True, single=False)
    assert (narrow.least_bound(0.001), narrow.greatest_bound(99.99)) == (None, None)
    assert comparison("`a`", t.Double(), "=", 1e20, None, narrow) == ("(`a` + 0e0 = %s)", (1e20,))


def test_only_a_column_with_digits_rounds() -> None:
    told = ResultColumn(5, UNSIGNED, 63, 10, 2)
    assert rounding(t.Double(), told) == Rounding(10, 2, unsigned=True, single=False)
    assert rounding(t.Float(), told) == Rounding(10, 2, unsigned=True, single=True)
    assert rounding(t.Double(), ResultColumn(5, 0, 63, 22, 31)) is None
    assert rounding(t.Decimal(10, 2), told) is None
