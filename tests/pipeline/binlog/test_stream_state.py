"""The memory that Python and the compiled parser share."""

import numpy as np

from pipeline.binlog.stream_state import StreamState, widened


def test_the_state_is_plain_numbers_in_one_record() -> None:
    state = StreamState(most_transactions=7, most_bytes=100, most_cells=50)
    assert (state.checksum_bytes, state.most_transactions, state.most_bytes, state.phase) == (4, 7, 100, 0)
    state.offset += 2**40
    assert state.offset == 2**40
    assert state.record["offset"] == 2**40


def test_tables_widen_by_doubling() -> None:
    table = np.arange(6).reshape(2, 3)
    assert widened(table, 3) is table
    assert widened(table, 4).shape == (2, 6)
    assert widened(table, 9)[:, :3].tolist() == table.tolist()
