"""The window by itself: what touches its chunk's rows, when it closes, and what it emits."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator import window
from pipeline.coordinator.window import PassedKeys, Reading, Reconciling, Runs
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.transactions import Transactions
from pipeline.messages.chunks import ReadChunk
from pipeline.schema.row_keys import tokens
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.chunk_index import primary
from pipeline.snapshot.snapshot import WHOLE, ChunkId
from pipeline.snapshot.watermark import MarkerRow, StreamPosition
from tests.pipeline import mutations
from tests.pipeline.builders import ORDERS, gtid, gtids, place, read, rows, table
from tests.pipeline.mutations import broken_by

ASKED_AT = "a:1-5"


def reading(asked_at: str = ASKED_AT) -> Reading:
    """The window of a chunk that was asked for at this position."""
    chunk = ChunkId("s1", ORDERS.table, 1)
    return Reading(ReadChunk(chunk, ORDERS, primary(ORDERS), WHOLE, 0, None, (9,), 5, gtids(asked_at)))


def reconciling(*keys: int, low: str = ASKED_AT, high: int = 15) -> Reconciling:
    """The window with a chunk of these keys."""
    opened = reading()
    return window.take_chunk(opened, read(opened.order, *keys, low=low, high=high))


def at(end: Coordinates | None, position: str = "") -> StreamPosition:
    """A stream that has come there."""
    return StreamPosition(end, gtids(position))


def touching(schema: TableSchema = ORDERS, **keys: int) -> PassedKeys:
    """Transactions with the key that each touched: `a6=1` is a:6, `a_tag_6=1` is a:tag:6."""
    names = [name.replace("_", ":") if "_" in name else f"{name[0]}:{name[1:]}" for name in keys]
    run = Transactions.of((gtid(name), 0) for name in names)
    indices = pa.array(range(len(run)), pa.int32()).to_numpy()
    return PassedKeys(run, indices, tokens(rows(schema, keys.values()), schema.key))


def emitted(closing: window.Window) -> list[int]:
    """The keys that the window emits."""
    assert isinstance(closing, Reconciling)
    kept: list[int] = window.untouched(closing)["id"].to_pylist()
    return kept


# Low


@broken_by(mutations.any_low_is_usable)
def test_a_low_watermark_that_lacks_what_had_passed_when_asked_breaks_an_invariant() -> None:
    opened = reading(asked_at="a:1-5,b:1")
    with pytest.raises(InvariantBroken, match="lacks transactions that had passed") as broken:
        window.take_chunk(opened, read(opened.order, 1, low="a:1-4:6-9,b:1"))
    assert str(broken.value).endswith(str(gtids("a:5")))
    assert "s1/shop.orders/1" in str(broken.value)


def test_a_low_watermark_ahead_of_the_stream_is_usable() -> None:
    assert emitted(reconciling(1, 2, low="a:1-9,b:1-3")) == [1, 2]


# What's kept


def test_runs_stay_in_their_order_and_one_more_copies_few_of_them() -> None:
    before, runs, copied = Runs(), Runs(), 0
    some = [touching(a6=key) for key in range(300)]
    for number, run in enumerate(some, 1):
        before, runs = runs, runs.and_then(run)
        kept = set(map(id, before.pieces))
        copied += sum(len(piece) for piece in runs.pieces if id(piece) not in kept)
        assert list(map(id, runs)) == list(map(id, some[:number]))
        assert len(runs.pieces) <= number.bit_length()
    assert copied <= len(some) * len(some).bit_length()
    assert len(list(before)) == len(some) - 1  # what was before is as it was


# What touches


@broken_by(mutations.keys_are_forgotten_while_reading)
def test_what_passes_before_the_chunk_comes_touches_it() -> None:
    opened = window.keys_passed(reading(), touching(a6=2))
    assert isinstance(opened, Reading)
    assert emitted(window.take_chunk(opened, read(opened.order, 1, 2, 3))) == [1, 3]


@broken_by(mutations.keys_are_forgotten_while_reconciling)
def test_what_passes_after_the_chunk_came_touches_it() -> None:
    assert emitted(window.keys_passed(reconciling(1, 2, 3), touching(a6=2))) == [1, 3]


@broken_by(mutations.keys_are_forgotten_while_reading, mutations.keys_are_forgotten_while_reconciling)
def test_runs_before_and_after_the_chunk_touch_together() -> None:
    opened = window.keys_passed(window.keys_passed(reading(), touching(a6=1)), touching(a7=2))
    assert isinstance(opened, Reading)
    closing: window.Window = window.take_chunk(opened, read(opened.order, 1, 2, 3, 4))
    closing = window.keys_passed(window.keys_passed(closing, touching(a8=3)), touching(b1=1))
    assert emitted(closing) == [4]


@broken_by(mutations.what_low_holds_touches_too)
def test_what_low_holds_touches_nothing_since_the_chunk_saw_it() -> None:
    before = window.keys_passed(reading(), touching(a6=1, a7=2))
    assert isinstance(before, Reading)
    after = window.take_chunk(before, read(before.order, 1, 2, 3, low="a:1-6"))
    assert emitted(after) == [1, 3]
    assert emitted(window.keys_passed(after, touching(a6=3))) == [1, 3]


@broken_by(mutations.inside_is_decided_by_the_latest)
def test_a_transaction_in_a_gap_of_low_touches() -> None:
    assert emitted(window.keys_passed(reconciling(1, 2, low="a:1-5:7-9"), touching(a6=1, a8=2))) == [2]


@broken_by(mutations.inside_is_decided_without_sources)
def test_each_server_is_asked_for_by_its_own_numbers() -> None:
    assert emitted(window.keys_passed(reconciling(1, 2, low="a:1-9"), touching(b7=1, a7=2))) == [2]


@broken_by(mutations.inside_is_decided_without_tags)
def test_a_tag_has_numbers_of_its_own() -> None:
    low = "a:1-9:tag:1-3"
    closing = window.keys_passed(reconciling(1, 2, 3, 4, low=low), touching(a_tag_7=1, a_tag_3=2))
    closing = window.keys_passed(closing, touching(a_other_1=3, a7=4))
    assert emitted(closing) == [2, 4]


# High


@broken_by(mutations.close_at_once)
def test_a_window_stays_open_while_the_stream_is_before_high() -> None:
    assert not window.closes(reconciling(1, high=15), at(place(14)))
    assert not window.closes(reconciling(1, high=15), at(None))


@broken_by(mutations.a_place_is_reached_from_behind_only)
def test_a_window_closes_when_the_stream_is_at_high() -> None:
    assert window.closes(reconciling(1, high=15), at(place(15)))


@broken_by(mutations.offsets_alone_are_compared)
def test_a_window_closes_when_the_stream_is_in_a_later_file() -> None:
    assert window.closes(reconciling(1, high=15), at(place(4, file=2)))


# Emission


@broken_by(mutations.touched_rows_are_emitted)
def test_a_touched_row_gives_way() -> None:
    assert emitted(window.keys_passed(reconciling(1, 2), touching(a6=1, a7=2))) == []


@broken_by(mutations.one_touched_row_gives_up_the_chunk)
def test_an_untouched_row_is_emitted_beside_touched_ones() -> None:
    assert emitted(window.keys_passed(reconciling(1, 2, 3), touching(a6=2, a7=7))) == [1, 3]


def test_a_chunk_that_nothing_touched_is_emitted_as_it_came() -> None:
    closing = window.keys_passed(reconciling(1, 2, low="a:1-6"), touching(a6=1))
    assert isinstance(closing, Reconciling)
    assert window.untouched(closing) is closing.rows


def test_an_empty_chunk_emits_nothing_whatever_was_touched() -> None:
    assert emitted(window.keys_passed(reconciling(), touching(a6=1))) == []


@broken_by(mutations.keys_are_kept_for_ever)
def test_a_window_keeps_no_more_keys_than_it_has_rows() -> None:
    closing = reconciling(1, 2, 3, 4, 5)
    for number in range(6, 30):
        keys = {f"a{number}": number % 3 + 2, f"b{number}": 7}
        after = window.keys_passed(closing, touching(ORDERS, **keys))
        assert isinstance(after, Reconciling)
        assert after.keys == sum(len(run.tokens) for run in after.passed) <= len(after.rows)
        closing = after
    assert emitted(closing) == [1, 5]
    assert len(closing.rows) + closing.given_up == 5


def test_the_keys_that_passed_while_a_chunk_was_read_are_not_kept_either() -> None:
    opened = window.keys_passed(reading(), touching(a6=1, a7=2, a8=8, a9=9))
    assert isinstance(opened, Reading)
    closing = window.take_chunk(opened, read(opened.order, 1, 2, 3))
    assert (closing.passed, closing.keys, closing.given_up) == (Runs(), 0, 2)
    assert emitted(closing) == [3]


def test_a_row_is_touched_by_its_whole_key() -> None:
    lines = table("lines", "order", "line", key=(0, 1))
    columns = [pa.array([1, 1, 2], pa.int64()), pa.array([1, 2, 1], pa.int64())]
    chunk = pa.RecordBatch.from_arrays(columns, schema=lines.arrow)
    opened = reading()
    opened = replace(opened, order=replace(opened.order, schema=lines))
    closing = window.take_chunk(opened, replace(read(reading().order), rows=chunk))
    run = Transactions.of([(gtid("a:6"), 0)])
    second = PassedKeys(run, pa.array([0], pa.int32()).to_numpy(), tokens(chunk.slice(1, 1), lines.key))
    kept = window.keys_passed(closing, second)
    assert isinstance(kept, Reconciling)
    assert window.untouched(kept).to_pydict() == {"order": [1, 2], "line": [1, 1]}


# Other high watermarks


@broken_by(mutations.every_set_has_passed)
def test_a_window_of_another_server_closes_when_its_set_is_in_the_position() -> None:
    opened = reading()
    other = window.take_chunk(opened, replace(read(opened.order, 1), high=gtids("a:1-7,b:2")))
    assert not window.closes(other, at(place(99), "a:1-9,b:1"))
    assert window.closes(other, at(None, "a:1-9,b:1-2"))


def test_a_window_of_a_signal_table_closes_when_its_row_has_passed() -> None:
    opened = reading()
    marked = window.take_chunk(opened, replace(read(opened.order, 1), high=MarkerRow("m1")))
    assert not window.closes(marked, StreamPosition(place(99), gtids("a:1-99"), frozenset({"m0"})))
    assert window.closes(marked, StreamPosition(None, gtids(""), frozenset({"m0", "m1"})))


def test_a_window_keeps_the_bytes_of_the_keys_that_passed_while_its_chunk_is_read() -> None:
    kept = window.keys_passed(window.keys_passed(reading(), touching(a6=1, a7=2)), touching(a8=3))
    assert isinstance(kept, Reading)
    assert kept.kept == touching(a6=1, a7=2).tokens.nbytes + touching(a8=3).tokens.nbytes > 0
