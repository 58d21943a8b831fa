"""When a look at the server contradicts the stream of its log, and when it doesn't."""

from dataclasses import replace
from typing import Final

import pytest

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.source.log_continuity import LogLook, contradicts_stream

ONE: Final = GtidSet.parse("00000000-0000-0000-0000-000000000001:1-5")
MORE: Final = GtidSet.parse("00000000-0000-0000-0000-000000000001:1-7")


def at(offset: int, number: int = 2) -> Coordinates:
    return Coordinates(f"binlog.{number:06}", offset)


RESTING: Final = LogLook(at(500), True, True, "binlog.000001", at(500), ONE)


@pytest.mark.parametrize("end", [at(499), at(900, 1), Coordinates("mysql-bin.000009", 900)])
def test_a_log_that_ends_before_what_was_read_was_reset(end: Coordinates) -> None:
    reason = contradicts_stream(None, replace(RESTING, end=end))
    assert reason == f"the source's log ends at {end}, and it was read up to binlog.000002:500: it was reset"


def test_a_log_under_another_name_ends_after_the_files_of_its_former_name() -> None:
    other = replace(RESTING, resting=False, end=Coordinates("mysql-bin.000001", 900))
    assert contradicts_stream(RESTING, replace(other, renamed=True)) is None
    assert contradicts_stream(RESTING, other) is not None


def test_a_stream_that_rests_before_the_end_of_the_log_has_lost_it() -> None:
    reason = contradicts_stream(replace(RESTING, end=at(600)), replace(RESTING, end=at(700)))
    assert reason is not None
    assert reason.startswith("the source's log goes on to binlog.000002:600, and the source sends nothing")


@pytest.mark.parametrize(
    "now",
    [
        replace(RESTING, end=at(700), position=at(600)),  # it came on
        replace(RESTING, end=at(700), resting=False),  # it's amid a transaction, or paused
        replace(RESTING, end=at(700), heard=False),  # if nothing comes at all, the reader notices
    ],
)
def test_a_stream_that_may_still_come_to_the_end_has_not(now: LogLook) -> None:
    assert contradicts_stream(replace(RESTING, end=at(600)), now) is None


def test_the_log_may_have_grown_since_the_last_heartbeat() -> None:
    assert contradicts_stream(RESTING, replace(RESTING, end=at(700))) is None


def test_what_is_executed_and_was_never_in_the_log_is_named() -> None:
    reason = contradicts_stream(RESTING, replace(RESTING, purged=MORE))
    assert reason is not None
    assert reason.endswith("were never in its log: 00000000-0000-0000-0000-000000000001:6-7")


def test_without_gtids_a_replica_that_logs_no_updates_is_named() -> None:
    reason = contradicts_stream(None, replace(RESTING, unlogged=True))
    assert reason == "the source has become a replica, and doesn't log what it receives"


def test_what_a_purge_takes_was_in_the_log() -> None:
    assert contradicts_stream(RESTING, replace(RESTING, purged=MORE, oldest="binlog.000002")) is None


def test_before_the_first_event_nothing_is_known() -> None:
    silent = LogLook(None, False, False, "binlog.000001", at(4, 1), NO_GTIDS)
    assert contradicts_stream(silent, silent) is None
