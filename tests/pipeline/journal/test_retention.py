"""Which segments of a journal may go."""

from collections.abc import Iterator

import pytest

from pipeline.config.settings import JournalSettings
from pipeline.journal.retention import MOST_AT_ONCE, RetainedSegment, removable

MIB = 1 << 20
HOUR = 3600 * 1_000_000
NOW = 100 * HOUR
SETTINGS = JournalSettings("journal", keep_hours=24, keep_mib=10)


def kept(number: int) -> RetainedSegment:
    """The n-th segment: a MiB, ten SCNs, and sealed n hours after the epoch."""
    return RetainedSegment(number, MIB, 10 * number, number * HOUR)


def going(
    last: int = 99,
    consumers: tuple[int, ...] = (99,),
    unread: int | None = None,
    size: int = 0,
    first: int = 1,
    oldest: int = 70,
    full: bool = False,
) -> list[int]:
    segments = (kept(number) for number in range(oldest, last + 1))
    found = removable(segments, first, last, consumers, unread, size * MIB, SETTINGS, NOW, full=full)
    return [each.segment for each in found]


def test_those_that_are_too_old_go_oldest_first() -> None:
    assert going() == [70, 71, 72, 73, 74, 75]


def test_as_many_go_as_the_journal_is_too_large_by() -> None:
    assert going(oldest=90, size=12) == [90, 91]
    assert going(oldest=90, size=10) == []


def test_what_a_consumer_lacks_stays_whatever_its_age_and_the_size() -> None:
    assert going(consumers=(99, 72), size=1000) == [70, 71]
    assert going(consumers=(0, 99), size=1000) == []


def test_on_a_full_filesystem_all_goes_that_is_not_needed() -> None:
    assert going(oldest=90, full=True) == list(range(90, 99))
    assert going(oldest=90, full=True, consumers=(93, 99)) == [90, 91, 92]
    assert going(oldest=90, full=True, unread=919) == [90, 91]


def test_without_consumers_age_and_size_decide() -> None:
    assert going(consumers=()) == [70, 71, 72, 73, 74, 75]


def test_rows_that_capture_looks_for_after_a_restart_stay() -> None:
    assert going(unread=719) == [70, 71]
    assert going(unread=720) == [70, 71, 72]


def test_the_last_segment_stays() -> None:
    assert going(last=72, consumers=(72,), size=1000) == [70, 71]


def test_what_was_given_up_goes_unless_somebody_came_who_needs_it() -> None:
    assert going(oldest=90, first=93) == [90, 91, 92]
    assert going(oldest=90, first=93, consumers=(91,)) == [90]


def test_a_few_go_at_once_and_no_more_is_read_than_needed() -> None:
    read: list[int] = []

    def segments() -> Iterator[RetainedSegment]:
        for number in range(1, 99):
            read.append(number)
            yield kept(number)

    found = list(removable(segments(), 1, 99, (99,), None, 0, SETTINGS, NOW))
    assert [each.segment for each in found] == list(range(1, MOST_AT_ONCE + 1))
    assert len(read) <= MOST_AT_ONCE + 1


@pytest.mark.parametrize("nothing", [[], [kept(99)]])
def test_nothing_to_remove(nothing: list[RetainedSegment]) -> None:
    assert not list(removable(nothing, 1, 99, (99,), None, 0, SETTINGS, NOW))
