"""However the rows of a segment lie in its files, they come out once, in the order of commits, and whole."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import chunk_table
from pipeline.journal.changes.commit_order import (
    CutRows,
    LaneBatch,
    OrderedRows,
    cut_transactions,
    merge_lanes,
)
from pipeline.messages.journal import ChunkPart
from pipeline.snapshot.snapshot import ChunkId
from tests.pipeline.builders import ORDERS, place
from tests.pipeline.builders import rows as rows_with

# A row: its SCN, whether a snapshot has read it, its ordinal, its lane.
Row = tuple[int, bool, int, int]


@st.composite
def segments(draw: st.DrawFn) -> list[Row]:
    """The rows of a segment in their order: transactions over three lanes, and chunks of each after some."""
    rows: list[Row] = []
    for scn in range(1, draw(st.integers(1, 6)) + 1):
        count = draw(st.integers(0, 7))
        rows += [(scn, False, ordinal, draw(st.integers(0, 2))) for ordinal in range(count)]
        for lane in sorted(draw(st.lists(st.integers(0, 2), max_size=3))):
            rows += [(scn, True, ordinal, lane) for ordinal in range(draw(st.integers(1, 3)))]
    return rows


def lane_of(rows: list[Row], lane: int, size: int) -> Iterator[LaneBatch]:
    """A lane's rows in batches of this size; `id` is the place in all rows."""
    own = [(place, row) for place, row in enumerate(rows) if row[3] == lane]
    for begin in range(0, len(own), size):
        batch = own[begin : begin + size]
        columns = {
            "__op": pa.array(["r" if row[1] else "c" for _, row in batch], pa.string()),
            "__scn": pa.array([row[0] for _, row in batch], pa.int64()),
            "__ordinal": pa.array([row[2] for _, row in batch], pa.int32()),
            "id": pa.array([place for place, _ in batch], pa.int64()),
        }
        yield LaneBatch(pa.record_batch(columns), is_last=begin + size >= len(own))


def ids(rows: OrderedRows) -> list[int]:
    found: dict[int, int] = {}
    for part, places in rows.taken():
        found |= dict(zip(places.tolist(), part.rows.column("id").to_pylist(), strict=True))
    return [found[place] for place in range(len(rows))]


def pieces(rows: list[Row], size: int, most: int, most_bytes: int = 1 << 20) -> list[CutRows]:
    lanes = [lane_of(rows, lane, size) for lane in range(3)]
    return list(cut_transactions(merge_lanes(lanes), most, most_bytes))


@given(segments(), st.integers(1, 9), st.integers(1, 9))
def test_the_rows_come_once_and_in_the_order_of_commits(rows: list[Row], size: int, most: int) -> None:
    found = [rows[id_] for piece in pieces(rows, size, most) for id_ in ids(piece.rows)]
    # Rows of two tables' chunks after one transaction may come in either order.
    assert [row if not row[1] else row[:2] for row in found] == [
        row if not row[1] else row[:2] for row in rows
    ]
    for lane in range(3):
        assert [row for row in found if row[3] == lane] == [row for row in rows if row[3] == lane]


@given(segments(), st.integers(1, 9), st.integers(1, 9))
def test_a_piece_that_is_complete_ends_with_a_transaction_and_the_last_one_is(
    rows: list[Row], size: int, most: int
) -> None:
    found = pieces(rows, size, most)
    passed = 0
    for piece in found:
        passed += len(piece.rows)
        following = {row[0] for row in rows[passed:]}
        if piece.complete is not None:
            assert piece.complete == rows[passed - 1][0] and piece.complete not in following
        else:
            assert rows[passed - 1][0] in following and len(piece.rows) >= most
    assert not found or found[-1].complete is not None


@given(segments(), st.integers(1, 9))
def test_small_transactions_are_never_divided(rows: list[Row], size: int) -> None:
    assert all(piece.complete is not None for piece in pieces(rows, size, len(rows) + 1))


@given(segments(), st.integers(1, 9), st.integers(1, 9))
def test_a_piece_is_no_larger_than_wanted_unless_one_transaction_is(
    rows: list[Row], size: int, most: int
) -> None:
    for piece in pieces(rows, size, most):
        assert len(piece.rows) <= most or len(set(piece.rows.scn.tolist())) == 1


@given(segments(), st.integers(1, 9))
def test_small_pieces_come_together(rows: list[Row], size: int) -> None:
    assert len(pieces(rows, size, 2 * len(rows) + 1)) == (1 if rows else 0)


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize(("most", "most_bytes"), [(20, 1 << 30), (1 << 30, 500)])
def test_a_large_transaction_is_held_piece_by_piece(lanes: int, most: int, most_bytes: int) -> None:
    size, batches = 40, 50
    rows = [(1, False, ordinal, ordinal % lanes) for ordinal in range(lanes * size * batches)]
    one_batch = next(lane_of(rows, 0, size)).rows.get_total_buffer_size()
    found = pieces(rows, size, most, most_bytes)
    assert [id_ for piece in found for id_ in ids(piece.rows)] == list(range(len(rows)))
    assert len(found) >= batches
    for piece in found:
        # Two batches of each lane at most, and the row that was left over, which has no batch any more.
        assert len(piece.rows.parts) <= 2 * lanes + 1
        held = sum(part.rows.get_total_buffer_size() for part in piece.rows.parts)
        assert held < (2 * lanes + 0.5) * one_batch
    for piece in found[1:] if lanes == 1 else ():
        assert sum(part.rows.get_total_buffer_size() for part in piece.rows.parts) < 1.5 * one_batch


def test_rows_in_between_keep_no_part_without_them() -> None:
    lanes = [lane_of([(scn, False, 0, scn % 3) for scn in range(9)], lane, 9) for lane in range(3)]
    rows = list(merge_lanes(lanes))
    [ordered] = [each for each in rows if len(each) > 3]
    for begin in range(len(ordered)):
        for end in range(begin, len(ordered) + 1):
            between = ordered.between(begin, end)
            assert ids(between) == ids(ordered)[begin:end]
            assert len(between.parts) == min(3, end - begin)


def test_a_repairs_deletions_and_rows_come_once() -> None:
    gone, found = pa.record_batch({"id": pa.array([1, 2], pa.int64())}), rows_with(ORDERS, (3, 4))
    part = ChunkPart(
        ChunkId("v1", ORDERS.table, 1), ORDERS, found, GtidSet(), place(4), 7, first=False, gone=gone
    )
    [all_rows] = chunk_table(1, part).combine_chunks().to_batches()
    lane = iter([LaneBatch(all_rows, is_last=True)])
    pieces_ = [piece.rows for piece in cut_transactions(merge_lanes([lane]), 9, 1 << 20)]
    assert [id_ for rows in pieces_ for id_ in ids(rows)] == [1, 2, 3, 4]
