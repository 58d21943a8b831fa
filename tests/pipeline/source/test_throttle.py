"""The throttle: bounds, with some distance between strained and eased, and a rate that holds over time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.throttle import UNBOUNDED, Debt, Load, SourceLimits, owe_more, pay_debt, reached_limit

NONE = Debt(0, 0)


def test_without_bounds_nothing_strains() -> None:
    assert reached_limit(SourceLimits(), Load(10_000, None), Debt(1e9, 0), strained=False) is None
    assert not SourceLimits(rows_per_s=1).looked_at
    assert SourceLimits(threads_running=1).looked_at and SourceLimits(replica_lag_s=0.5).looked_at


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (Load(41), "41 threads run on it (most_threads_running = 40)"),
        (Load(40), None),
        (Load(1, 10.5), "it's 10.5 s behind its source (most_replica_lag_s = 10)"),
        (Load(1, 10.0), None),
        (Load(1, None), "it's a replica that doesn't apply what its source has done"),
    ],
)
def test_a_server_beyond_a_bound_is_strained(load: Load, reason: str | None) -> None:
    assert reached_limit(SourceLimits(0, 40, 10.0), load, NONE, strained=False) == reason


def test_it_is_eased_well_within_its_bounds_only() -> None:
    bounds = SourceLimits(0, 40, 10.0)
    assert reached_limit(bounds, Load(31), NONE, strained=True) and reached_limit(
        bounds, Load(0, 7.6), NONE, strained=True
    )
    assert reached_limit(bounds, Load(30, 7.5), NONE, strained=True) is None


def test_rows_are_paid_by_time() -> None:
    bounds = SourceLimits(rows_per_s=1000)
    owed = Debt(5000, 10.0)
    assert reached_limit(bounds, Load(), owed, strained=False) == (
        "5,000 rows were read ahead of their time (rows_per_s = 1000)"
    )
    assert reached_limit(bounds, Load(), pay_debt(bounds, owed, 14.9), strained=True) is not None
    assert reached_limit(bounds, Load(), pay_debt(bounds, owed, 15.0), strained=True) is None
    assert pay_debt(bounds, owed, 100.0) == Debt(-1000, 100.0)


@given(
    st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 5), st.integers(0, 3000)), min_size=1, max_size=50)
)
def test_over_a_long_time_the_rate_holds(rate: int, chunks: list[tuple[float, int]]) -> None:
    bounds, debt, read, last = SourceLimits(rows_per_s=rate), NONE, 0, 0
    for after, rows in chunks:
        debt = pay_debt(bounds, debt, debt.at + after)
        if reached_limit(bounds, Load(), debt, strained=False) is None:
            debt, read, last = Debt(debt.rows + rows, debt.at), read + rows, rows
    assert read - last <= rate * (debt.at + 1) + 1e-6


def test_what_is_owed_takes_as_long_at_another_rate() -> None:
    bounds, debt = owe_more(UNBOUNDED, NONE, 25_000, 100_000, 5.0)
    assert (bounds.rows_per_s, debt) == (100_000, Debt(25_000, 5.0))
    bounds, debt = owe_more(bounds, debt, 3, 10, 5.1)
    assert reached_limit(bounds, Load(), pay_debt(bounds, debt, 5.5), strained=True) is not None
    assert reached_limit(bounds, Load(), pay_debt(bounds, debt, 5.6), strained=True) is None
    bounds, debt = owe_more(bounds, pay_debt(bounds, debt, 60.0), 150_000, 100_000, 60.0)
    assert debt.rows == 50_000, "a second is saved up, at whichever rate"


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.integers(0, 3000), st.sampled_from([1, 10, 1000])),
        min_size=1,
        max_size=50,
    )
)
def test_over_a_long_time_each_row_takes_its_time(chunks: list[tuple[float, int, int]]) -> None:
    bounds, debt, read_s, last_s = UNBOUNDED, NONE, 0.0, 0.0
    for after, rows, rate in chunks:
        now = debt.at + after
        debt = pay_debt(bounds, debt, now)
        if reached_limit(bounds, Load(), debt, strained=False) is None:
            bounds, debt = owe_more(bounds, debt, rows, rate, now)
            read_s, last_s = read_s + rows / rate, rows / rate
    assert read_s - last_s <= debt.at + 1 + 1e-6
