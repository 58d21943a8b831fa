"""Records in runs that hold what they may; what is in them is read by another reader in `test_record_batch`."""

import numpy as np
import pyarrow as pa

from pipeline.kafka.messages.records import HEAD_BYTES, NO_VALUE, encoded_headers, record_runs

TIMES = np.ones(10, np.int64)


def test_a_run_ends_where_the_next_record_would_be_too_much() -> None:
    values = pa.array([b"x" * 100] * 10)
    keys = pa.nulls(10, pa.binary())
    runs = list(record_runs(keys, values, None, TIMES, np.arange(10), 400))
    assert [run.count for run in runs] == [3, 3, 3, 1]
    assert all(len(run.data) <= HEAD_BYTES + 400 for run in runs)
    assert [run.count for run in record_runs(keys, values, None, TIMES, np.arange(10), 1)] == [1] * 10
    assert list(record_runs(keys, values, None, TIMES, np.arange(0), 400)) == []


def test_headers_are_counted_and_named() -> None:
    assert encoded_headers([]) == b"\0"
    assert encoded_headers([("a", NO_VALUE)]) == b"\x02\x02a\x01"
    assert (
        encoded_headers([("a", b"bc"), ("é", b"x" * 100)])
        == b"\x04\x02a\x04bc\x04\xc3\xa9\xc8\x01" + b"x" * 100
    )
