"""When the reader cuts a slice: tests of its rule. `tests.integration.binlog` has those with a server."""

import pytest

from actors.binlog_reader import gathering_s


@pytest.mark.parametrize(
    ("came", "within_s", "took_s", "tables", "waits_s"),
    [
        (300, 0.02, 0.001, 1, 0.02),
        (6_000, 0.02, 0.03, 60, 0.24),  # many tables: eight times as long as the decoding took
        (36_000, 0.12, 0.05, 95, 0.4),
        (36_000, 0.12, 0.1, 95, 0.8),
        (36_000, 2.0, 0.5, 1_000, 2.0),
        (36_000, 0.12, 0.5, 60, 1.2),
        (36_000, 0.12, 0.1, 3, 0.06),
        (100, 0.02, 1.0, 1, 0.02),  # behind a large transaction of one table
        (1 << 16, 0.001, 0.03, 60, 0.0),  # it comes fast
        (1 << 16, 0.02, 0.03, 60, 0.0),
        (1 << 16, 0.2, 0.03, 60, 0.24),  # no faster than it trickles
        (10 << 16, 0.2, 0.03, 60, 0.0),
        (300, 0.02, 0.001, 0, 0.02),  # before the first slice
        (1 << 16, 3_600.0, 0.03, 60, 0.02),  # after an hour of silence
    ],
)
def test_a_trickling_stream_is_gathered_for_as_long_as_decoding_costs(
    came: int, within_s: float, took_s: float, tables: int, waits_s: float
) -> None:
    assert gathering_s(came, within_s, took_s, tables) == pytest.approx(waits_s)
