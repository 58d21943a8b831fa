"""Rows between two places are chosen one by one, whatever else is in their segment."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.journal.changes.row_choice import ALL_ROWS, RowChoice, choose_rows

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "00000000-0000-0000-0000-00000000000b"
SOURCES = (Tsid(A), Tsid(B), Tsid(A, "tag"))
GTIDS = st.builds(Gtid, st.sampled_from(SOURCES), st.integers(1, 9))


def rows(*gtids: str | None) -> pa.RecordBatch:
    """Rows with these GTIDs, and the SCNs 1, 2, 3 …"""
    return pa.record_batch(
        {
            "__scn": pa.array(range(1, len(gtids) + 1), pa.int64()),
            "__gtid": pa.array(gtids, pa.string()),
        }
    )


def scns(choice: RowChoice, *gtids: str | None) -> list[int]:
    found: list[int] = choose_rows(rows(*gtids), choice).column("__scn").to_pylist()
    return found


def test_both_ends_are_read() -> None:
    four = (f"{A}:1", f"{A}:2", f"{A}:3", f"{A}:4")
    assert not ALL_ROWS
    assert scns(ALL_ROWS, *four) == [1, 2, 3, 4]
    assert scns(RowChoice(first=2), *four) == [2, 3, 4]
    assert scns(RowChoice(last=3), *four) == [1, 2, 3]
    assert scns(RowChoice(first=2, last=3), *four) == [2, 3]
    assert scns(RowChoice(first=5), *four) == []


def test_rows_of_a_snapshot_have_no_transaction_and_stay() -> None:
    mixed = (None, f"{A}:1", f"{B}:1", f"{A}:tag:1")
    assert scns(RowChoice(without=f"{A}:1"), *mixed) == [1, 3, 4]
    assert scns(RowChoice(only=f"{A}:1"), *mixed) == [1, 2]
    assert scns(RowChoice(without=f"{A}:tag:1", only=f"{A}:1:tag:1"), *mixed) == [1, 2]
    assert scns(RowChoice(only=f"{A}:1"), None, None) == [1, 2]
    assert scns(RowChoice(only=f"{A}:1")) == []


@given(st.lists(st.none() | GTIDS, max_size=12), st.lists(GTIDS, max_size=5), st.lists(GTIDS, max_size=5))
def test_a_row_is_chosen_by_its_own_transaction(
    there: list[Gtid | None], without: list[Gtid], only: list[Gtid]
) -> None:
    def of(gtids: list[Gtid]) -> GtidSet:
        found = GtidSet()
        for gtid in gtids:
            found = found.with_gtid(gtid)
        return found

    choice = RowChoice(without=str(of(without)), only=str(of(only)))
    expected = [
        scn
        for scn, gtid in enumerate(there, 1)
        if gtid is None or (gtid not in of(without) and gtid in of(only))
    ]
    assert scns(choice, *(None if gtid is None else str(gtid) for gtid in there)) == expected


@pytest.mark.parametrize("choice", [RowChoice(first=1), RowChoice(without=f"{A}:1")])
def test_a_choice_that_can_exclude_rows_is_true(choice: RowChoice) -> None:
    assert choice
