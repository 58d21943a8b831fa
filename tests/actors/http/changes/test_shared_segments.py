"""What readers have in common is read once, as long as it is small."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pytest

from actors.http.changes import shared_segments
from actors.http.changes.segment_changes import SegmentChanges
from actors.http.changes.shared_segments import SharedSegments
from pipeline.journal.changes.commit_order import CutRows, LaneRows, OrderedRows
from pipeline.journal.changes.place import ReadPlace
from tests.actors.http.changes.journals import tapped
from tests.pipeline.lake.stream.entries import ORDERS

WITHIN_S = 20.0

TABLES = frozenset({ORDERS.table})


def piece(number: int) -> CutRows:
    rows = pa.RecordBatch.from_pydict({"n": [number] * 100})
    order = np.arange(100)
    return CutRows(OrderedRows((LaneRows(0, rows),), order, order), number)


class Read:
    """Pieces that are made when they are taken."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0

    def __call__(self) -> Iterator[CutRows]:
        for number in range(self.count):
            self.taken += 1
            yield piece(number)


def remove_files(journal: Path) -> None:
    for path in journal.rglob("*.parquet"):
        path.unlink()


def test_small_rows_are_read_once_for_each_choice_of_tables() -> None:
    shared, read = SharedSegments(), Read(3)
    for _ in range(2):
        assert [each.complete for each in shared.rows(1, TABLES, read)] == [0, 1, 2]
    assert read.taken == 3
    list(shared.rows(1, frozenset(), read))
    list(shared.rows(2, TABLES, read))
    assert read.taken == 9


def test_of_large_rows_no_more_is_read_than_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_segments, "KEPT_BYTES", 2500)
    shared, read = SharedSegments(), Read(100)
    for turn in (1, 2):
        pieces = iter(shared.rows(1, TABLES, read))
        assert [next(pieces).complete for _ in range(6)] == [*range(6)]
        assert read.taken == 6 * turn


def test_what_was_not_wanted_for_long_is_given_up() -> None:
    shared, read = SharedSegments(), Read(1)
    for segment in range(17):
        list(shared.rows(segment, TABLES, read))
    list(shared.rows(16, TABLES, read))
    assert read.taken == 17
    list(shared.rows(0, TABLES, read))
    assert read.taken == 18


def test_a_read_of_one_segment_holds_up_no_reader_of_another() -> None:
    shared, reading, ends, read = SharedSegments(), Event(), Event(), Read(3)

    def slow() -> Iterator[CutRows]:
        reading.set()
        assert ends.wait(WITHIN_S)
        return read()

    def rows(segment: int, pieces: Callable[[], Iterable[CutRows]]) -> int:
        return len(list(shared.rows(segment, TABLES, pieces)))

    rows(2, Read(1))
    with ThreadPoolExecutor(3) as threads:
        lagging = threads.submit(rows, 1, slow)
        assert reading.wait(WITHIN_S)
        try:
            assert threads.submit(rows, 2, Read(1)).result(WITHIN_S) == 1
            assert threads.submit(rows, 3, Read(1)).result(WITHIN_S) == 1
            same = threads.submit(rows, 1, read)
        finally:
            ends.set()
        assert (lagging.result(), same.result(), read.taken) == (3, 3, 3)


async def test_a_second_reader_needs_no_file_that_the_first_has_read(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(3, rows=4)
        tap.seal()
        journal, there = tap.bench.changes.tap.sealed()
        shared, place = tap.bench.changes.tap.shared, ReadPlace(1)
        first = list(SegmentChanges(journal, place, TABLES, shared=shared).read(there.last))
        remove_files(journal.directory)
        assert list(SegmentChanges(journal, place, TABLES, shared=shared).read(there.last)) == first
        with pytest.raises(Exception, match="parquet"):
            list(SegmentChanges(journal, place, TABLES).read(there.last))
