"""The size of chunks: it approaches a time and a number of bytes, step by step, with any input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.settings import SnapshotSettings
from pipeline.coordinator.chunk_size import ChunkLimits, ChunkSize, halve, resize
from pipeline.messages.chunks import ChunkRead, ReadChunk
from pipeline.snapshot.snapshot import ChunkId, Request
from tests.pipeline.builders import ORDERS, gtids, place, primary_index, rows

LIMITS = ChunkLimits(chunk_rows=1000, chunk_us=100_000, chunk_bytes=1 << 20)


def order(limit: int, chunk_rows: int | None = None) -> ReadChunk:
    """An order for so many rows."""
    request, chunk = Request(chunk_rows=chunk_rows), ChunkId("s1", ORDERS.table, 1)
    return ReadChunk(chunk, ORDERS, primary_index(ORDERS), request, 0, None, (9,), limit, gtids(""))


def chunk(count: int, took: int, size: int, more: bool = True, scanned: int | None = None) -> ChunkRead:
    """A chunk of so many rows, which took so many µs and bytes; with a filter it went over more than these."""
    upto = (9,) if more else None
    found = rows(ORDERS, range(count))
    over = count if scanned is None else scanned
    return ChunkRead(ChunkId("s1", ORDERS.table, 1), gtids(""), found, upto, place(4), took, size, over)


@pytest.mark.parametrize(("rows_per_s", "most"), [(0, 0), (300, 150), (1, 1), (3, 2)])
def test_the_first_chunks_have_no_more_rows_than_a_second_may(rows_per_s: int, most: int) -> None:
    limits = ChunkLimits.of(SnapshotSettings(rows_per_s=rows_per_s, connections=2))
    assert limits.most_rows == most
    assert limits.bound_rows(50_000) == (most or 50_000)


def test_a_chunk_fits_into_the_memory_for_rows_that_wait() -> None:
    limits = [ChunkLimits.of(SnapshotSettings(memory_mib=mib)) for mib in (1, 8, 256)]
    assert [each.chunk_bytes >> 20 for each in limits] == [1, 8, 8]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (chunk(1000, took=80_000, size=50_000), 1250),  # a quarter more takes as long as it should
        (chunk(1000, took=1_000, size=50_000), 2000),  # a hundred times as much would, but that's no step
        (chunk(1000, took=125_000, size=50_000), 800),
        (chunk(1000, took=10_000_000, size=50_000), 500),
        (chunk(1000, took=1_000, size=1000 << 10), 1024),  # more rows would be too many bytes
        (chunk(1000, took=1_000, size=2000 << 10), 512),
        (chunk(10, took=90_000, size=500, more=False), 1000),  # the rest says nothing of time
        (chunk(10, took=1, size=500, more=False), 1000),
        (chunk(10, took=1, size=20 << 10, more=False), 512),  # but of bytes
        (chunk(0, took=90_000, size=0, more=False), 1000),
    ],
)
def test_a_chunk_has_as_many_rows_as_take_the_time_and_the_bytes_that_it_may(
    read: ChunkRead, expected: int
) -> None:
    assert resize(ChunkSize(1000), order(1000), read, LIMITS).rows == expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (chunk(10, took=80_000, size=500, scanned=1000), 1250),  # the time is that of all that it went over
        (chunk(10, took=200_000, size=500, scanned=1000), 500),
        (chunk(10, took=1, size=10 << 10, scanned=1000), 1024),  # more wouldn't fit if all of them matched
        (chunk(10, took=1, size=20 << 10, scanned=1000), 1000),  # but the first chunk had as many
        (chunk(10, took=1, size=1 << 20, scanned=1000), 1000),
        (chunk(10, took=1, size=2 << 20, scanned=1000), 500),  # what came doesn't fit
        (chunk(0, took=1, size=0, scanned=1000), 2000),  # the rows before it were small
        (chunk(0, took=125_000, size=0, scanned=1000), 800),
    ],
)
def test_with_a_filter_a_chunk_has_as_many_rows_as_it_goes_over(read: ChunkRead, expected: int) -> None:
    assert resize(ChunkSize(1000, 10.0), order(1000), read, LIMITS).rows == expected


def test_before_a_row_has_matched_no_chunk_is_larger_than_the_first() -> None:
    assert resize(ChunkSize(1000), order(1000), chunk(0, took=1, size=0, scanned=1000), LIMITS).rows == 1000


@given(
    rows=st.integers(1, 10**6),
    every=st.integers(1, 10**4),
    row_bytes=st.integers(64, 1 << 20),
    row_us=st.floats(0.1, 100),
    once_us=st.integers(0, 50_000),
)
def test_few_rows_that_match_make_no_chunk_smaller(
    rows: int, every: int, row_bytes: int, row_us: float, once_us: int
) -> None:
    """However few rows match, chunks settle where they take the time or the bytes, or at the first one's rows.

    They settle at no more than that either.
    """
    size = ChunkSize(rows)
    for _ in range(40):
        count = size.rows // every
        took = once_us + round(size.rows * row_us)
        # A few rows stand for all that match, with the bytes of these.
        read = chunk(min(count, 1), took, count * row_bytes, scanned=size.rows)
        size = resize(size, order(size.rows), read, LIMITS)
    in_time = (LIMITS.chunk_us - once_us) / row_us
    in_bytes = LIMITS.chunk_bytes * every / row_bytes
    assert size.rows >= min(LIMITS.chunk_rows, in_time, in_bytes) / 4 - 1
    assert size.rows <= 2 * in_time
    assert size.rows // every * row_bytes <= 2 * LIMITS.chunk_bytes


@given(
    before=st.integers(1, 10**7),
    count=st.integers(0, 50),
    took=st.integers(0, 10**9),
    size=st.integers(0, 10**9),
    more=st.booleans(),
    others=st.integers(0, 10**7),
)
def test_whatever_comes_the_next_chunk_has_rows_and_at_most_twice_as_many(
    before: int, count: int, took: int, size: int, more: bool, others: int
) -> None:
    read = chunk(count, took, size, more, scanned=count + others)
    after = resize(ChunkSize(before), order(before), read, LIMITS)
    assert max(1, before // 2) <= after.rows <= 2 * before


def test_a_size_that_was_asked_for_stays() -> None:
    pinned = order(100, chunk_rows=100)
    assert resize(ChunkSize(100), pinned, chunk(100, took=1, size=5000), LIMITS).rows == 100
    assert resize(ChunkSize(100), pinned, chunk(100, took=10**9, size=5 << 30), LIMITS).rows == 100


def test_a_size_that_was_asked_for_comes_back_after_it_was_halved() -> None:
    pinned = order(30, chunk_rows=100)
    assert resize(ChunkSize(30), pinned, chunk(30, took=1, size=1500), LIMITS).rows == 60
    assert resize(ChunkSize(60), pinned, chunk(60, took=1, size=3000), LIMITS).rows == 100


def test_a_chunk_is_taken_to_be_as_large_as_it_may_be_before_one_has_come() -> None:
    assert ChunkSize(10).bytes(10, LIMITS) == LIMITS.chunk_bytes
    known = resize(ChunkSize(10), order(10), chunk(10, took=1, size=1000), LIMITS)
    assert known.bytes(30, LIMITS) == 3000


def test_a_row_takes_what_it_takes_in_memory_if_that_is_more_than_in_packets() -> None:
    one = chunk(10, took=1, size=10)
    assert resize(ChunkSize(10), order(10), one, LIMITS).bytes(10, LIMITS) == one.rows.nbytes


def test_half_of_an_order_is_a_row_at_least() -> None:
    assert halve(ChunkSize(50, 8.0), order(50)) == ChunkSize(25, 8.0)
    assert halve(ChunkSize(50, 8.0), order(1)) == ChunkSize(1, 8.0)


def test_an_older_order_that_is_given_again_makes_no_later_one_larger() -> None:
    assert halve(ChunkSize(10, 8.0), order(50)) == ChunkSize(10, 8.0)
