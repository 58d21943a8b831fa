"""The arithmetic of the lag and of the time until the log is purged."""

import math

import pytest

from pipeline.gtid.coordinates import Coordinates
from pipeline.source.binlog_retention import bytes_behind, purged_at, retention_s

LOGS = {"log.000009": 1000, "log.000010": 5000, "log.000011": 700, "log.000012": 300}


@pytest.mark.parametrize(
    ("ours", "bytes_"),
    [
        (Coordinates("log.000012", 300), 0),
        (Coordinates("log.000012", 100), 200),
        (Coordinates("log.000011", 600), 100 + 300),
        (Coordinates("log.000009", 900), 100 + 5000 + 700 + 300),
        (Coordinates("log.000008", 50), 1000 + 5000 + 700 + 300),  # which is gone
        (Coordinates("log.000012", 400), 0),  # read since the query to the server
        (Coordinates("log.000013", 157), 0),
    ],
)
def test_bytes_behind_are_counted_over_all_files_between(ours: Coordinates, bytes_: int) -> None:
    assert bytes_behind(LOGS, Coordinates("log.000012", 300), ours) == bytes_


@pytest.mark.parametrize(
    ("ours", "bytes_"),
    [
        (Coordinates("log.000041", 600), 400 + 700 + 300),
        (Coordinates("log.000040", 600), 1000 + 700 + 300),  # which is gone
        (Coordinates("other.000001", 200), 500 + 300),
        (Coordinates("other.000003", 157), 0),
        (Coordinates("third.000001", 157), 0),  # read since the query to the server
    ],
)
def test_files_of_another_name_come_in_the_servers_order(ours: Coordinates, bytes_: int) -> None:
    logs = {"log.000041": 1000, "other.000001": 700, "other.000002": 300, "third.000001": 157}
    assert bytes_behind(logs, Coordinates("other.000002", 300), ours) == bytes_


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "3600", "binlog_expire_logs_auto_purge": "ON"}, 3600),
        ({"binlog_expire_logs_seconds": "3600", "binlog_expire_logs_auto_purge": "OFF"}, math.inf),
        ({"binlog_expire_logs_seconds": "0"}, math.inf),
        ({"binlog_expire_logs_seconds": "60", "expire_logs_days": "0.000000"}, 60),  # 8.0 has both
        ({"expire_logs_days": "3"}, 3 * 86400),  # 5.6 and 5.7 have days alone
        ({"expire_logs_days": "0"}, math.inf),
    ],
)
def test_for_how_long_the_log_is_kept(variables: dict[str, str], seconds: float) -> None:
    assert retention_s(variables) == seconds


def test_what_comes_next_is_kept_from_the_newest_commit_that_was_read() -> None:
    assert purged_at(1000.0, 60.0, 900.0, behind=True) == 960.0
    assert purged_at(1000.0, 60.0, 900.0, behind=False) == 1060.0
    assert purged_at(1000.0, math.inf, 900.0, behind=True) == math.inf
    assert math.isnan(purged_at(1000.0, 60.0, math.nan, behind=True))
