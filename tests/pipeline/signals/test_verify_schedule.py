"""The schedule of verifications: one signal for each slot."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.settings import VerifySettings
from pipeline.schema.table_filter import TableFilter
from pipeline.signals.signal import VerifyTables, parse_signal
from pipeline.signals.verify_schedule import REJECTED_PAUSE_S, left_until, retry_rejected_at, scheduled_signal

DAILY = VerifySettings(24.0, TableFilter((r"shop\.orders",)), repair=True, rows_per_s=9)
DAY = 86_400.0


def test_a_slot_has_one_signal() -> None:
    first, later, next_ = (scheduled_signal(DAILY, at) for at in (3 * DAY, 4 * DAY - 1, 4 * DAY))
    assert first == later
    assert first.next_at == 4 * DAY
    signal, another = (parse_signal(each.text) for each in (first, next_))
    assert (signal.id, another.id) == ("verify-every-86400s-3", "verify-every-86400s-4")
    assert signal == VerifyTables(signal.id, TableFilter((r"shop\.orders",)), repair=True, rows_per_s=9)


def test_all_tables_are_verified_by_default() -> None:
    assert parse_signal(scheduled_signal(VerifySettings(0.5), 0.0).text) == VerifyTables(
        "verify-every-1800s-0"
    )


@given(st.floats(0.01, 1e5), st.floats(0, 4e9))
def test_the_next_slot_comes_later_and_is_another(every_hours: float, now: float) -> None:
    settings = VerifySettings(every_hours)
    scheduled = scheduled_signal(settings, now)
    assert now < scheduled.next_at <= now + every_hours * 3600 + 2e-3
    assert scheduled_signal(settings, scheduled.next_at).text != scheduled.text


def test_a_rejected_signal_comes_again_within_its_slot() -> None:
    scheduled = scheduled_signal(DAILY, 3 * DAY)
    assert retry_rejected_at(scheduled, 3 * DAY) == 3 * DAY + REJECTED_PAUSE_S
    assert retry_rejected_at(scheduled, 4 * DAY - 1) == 4 * DAY


def test_a_signal_is_due_at_its_time_or_once_the_clock_proves_to_have_been_ahead() -> None:
    assert left_until(4 * DAY, DAILY, 3 * DAY) == DAY
    assert left_until(4 * DAY, DAILY, 4 * DAY) == left_until(4 * DAY, DAILY, 5 * DAY) == 0
    assert left_until(4 * DAY, DAILY, 3 * DAY - REJECTED_PAUSE_S) == DAY + REJECTED_PAUSE_S
    assert left_until(4 * DAY, DAILY, 2 * DAY) == 0
