"""Rows of operations that are skipped, and rows that belong together."""

import pyarrow as pa
import pytest

from pipeline.kafka.operations import whole_rows, without

ROWS = "crbududdt"  # an insert, a read, an update, a delete, nothing, ...


def batch(letters: str) -> pa.RecordBatch:
    return pa.record_batch({"__op": pa.array(list(letters)), "place": pa.array(range(len(letters)))})


@pytest.mark.parametrize(
    ("skipped", "left"),
    [
        (("t",), [0, 1, 2, 3, 4, 5, 6, 7]),
        (("none",), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (("u",), [0, 1, 6, 7, 8]),
        (("d", "t"), [0, 1, 2, 3, 4, 5]),
        (("c",), [1, 2, 3, 4, 5, 6, 7, 8]),
        (("c", "u", "d", "t"), [1]),
    ],
)
def test_an_update_is_skipped_with_what_it_found(skipped: tuple[str, ...], left: list[int]) -> None:
    assert without(batch(ROWS), skipped).column("place").to_pylist() == left


@pytest.mark.parametrize(
    ("letters", "whole"), [("", 0), ("cb", 1), ("cd", 1), ("bu", 2), ("d", 0), ("cr", 2)]
)
def test_the_last_row_waits_where_another_may_belong_to_it(letters: str, whole: int) -> None:
    assert whole_rows(batch(letters)) == whole
