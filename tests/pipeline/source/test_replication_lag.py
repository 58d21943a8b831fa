"""How far a replica lags, by what SHOW REPLICA STATUS says of its channels."""

import math
from typing import Any

import pytest

from pipeline.source.replication_lag import replication_lag_s


def channel(receives: str, applies: str, behind: int | None, *name: str) -> tuple[Any, ...]:
    """The row of a channel; without a name as MySQL 5.6 has it."""
    columns: list[Any] = [None] * 55
    columns[10:12], columns[32] = (receives, applies), behind
    return (*columns, *name)


WELL, LATE = channel("Yes", "Yes", 0, ""), channel("Yes", "Yes", 7, "two")
AWAY, FAILED = channel("Connecting", "Yes", None, ""), channel("Yes", "No", None, "")
STOPPED, JOINED = channel("No", "No", None, ""), channel("No", "No", None, "group_replication_recovery")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("channels", "lag_s"),
    [
        ([], 0),
        ([WELL], 0),
        ([WELL, LATE], 7),
        ([channel("Connecting", "Yes", 9)], 9),  # it still applies
        ([channel("Connecting", "Yes", 0)], math.inf),
        ([LATE, AWAY], math.inf),
        ([FAILED], math.inf),
        ([channel("No", "Yes", None)], math.inf),
        ([WELL, JOINED], 0),
    ],
)
def test_what_a_replica_lacks(channels: list[tuple[Any, ...]], lag_s: float, read_only: bool) -> None:
    assert replication_lag_s(channels, read_only) == lag_s


def test_a_server_that_has_taken_over_lacks_nothing() -> None:
    for each in (STOPPED, channel("No", "No", None)):
        assert replication_lag_s([each], read_only=False) == 0
        assert replication_lag_s([each], read_only=True) == math.inf
