"""The window by itself: what touches its chunk's rows, when it closes, and what it emits."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator import window
from pipeline.coordinator.partial_rows import PartialRows
from pipeline.coordinator.window import PassedKeys, Reading, Reconciling, SliceKeys
from pipeline.gtid.gtid_set import Gtid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.chunks import ReadChunk, ReselectRows
from pipeline.messages.journal import ChunkPart
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.snapshot.snapshot import WHOLE_TABLE, ChunkId
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    gtid,
    gtids,
    insert,
    lacks,
    passed,
    place,
    primary_index,
    read,
    rows,
    table,
    wrote,
)

ORDERED_AT = "a:1-5"


def reading(ordered_at: str = ORDERED_AT) -> Reading:
    """Returns the window of a chunk that was ordered at this position."""
    chunk = ChunkId("s1", ORDERS.table, 1)
    return Reading(
        ReadChunk(chunk, ORDERS, primary_index(ORDERS), WHOLE_TABLE, 0, None, (9,), 5, gtids(ordered_at))
    )


def of_one_row() -> Reading:
    """The window of a chunk that can't be smaller."""
    opened = reading()
    assert isinstance(opened.order, ReadChunk)
    return replace(opened, order=replace(opened.order, limit=1))


def reconciling(*keys: int, low: str = ORDERED_AT) -> Reconciling:
    """The window with a chunk of these keys."""
    opened = reading()
    return window.take_chunk(opened, read(opened.order, *keys, low=low, high=15))


def touching(schema: TableSchema = ORDERS, **keys: int) -> SliceKeys:
    """Transactions with the key that each touched: `a6=1` is a:6, `a_tag_6=1` is a:tag:6."""
    names = [name.replace("_", ":") if "_" in name else f"{name[0]}:{name[1:]}" for name in keys]
    run = Transactions.of((gtid(name), 0) for name in names)
    indices = pa.array(range(len(run)), pa.int32()).to_numpy()
    return SliceKeys(run, indices, key_tokens(rows(schema, keys.values()), schema.key))


def emitted(closing: window.Window) -> list[int]:
    """The keys that the window emits."""
    assert isinstance(closing, Reconciling)
    kept: list[int] = window.untouched_rows(closing)["id"].to_pylist()
    return kept


# What's kept


def test_slices_stay_in_their_order_and_become_few_with_few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window may wait for hours while slices of one key pass. Each takes far more than its key."""
    monkeypatch.setattr(window, "SLICES_APART", 4)
    copied, join = 0, SliceKeys.joined

    def joined(several: Iterable[SliceKeys]) -> SliceKeys:
        nonlocal copied
        made = join(several)
        copied += len(made)
        return made

    monkeypatch.setattr(SliceKeys, "joined", joined)
    before, slices = PassedKeys(), PassedKeys()
    some = [touching(ORDERS, **{f"a{n}": n, f"b{n}": n}) for n in range(6, 306)]
    for number, keys in enumerate(some, 1):
        before, slices = slices, slices.appended(keys)
        assert len(list(slices)) < 4 + number.bit_length()
    tokens = [token for keys in slices for token in keys.tokens]
    assert tokens == [token for keys in some for token in keys.tokens]
    assert [str(t) for t in gtids_of(slices)] == [str(t) for t in gtids_of(some)]
    assert copied <= 2 * len(some) * len(some).bit_length()
    assert sum(map(len, before)) == 2 * (len(some) - 1), "what was before is as it was"


def gtids_of(slices: Iterable[SliceKeys]) -> list[Gtid]:
    """The transaction of each key."""
    return [keys.transactions.gtid(i) for keys in slices for i in keys.transaction]


# Emission


def test_a_chunk_that_nothing_touched_is_emitted_as_it_came() -> None:
    closing = window.pass_keys(reconciling(1, 2, low="a:1-6"), touching(a6=1))
    assert isinstance(closing, Reconciling)
    assert window.untouched_rows(closing) is closing.rows


def test_an_empty_chunk_emits_nothing_whatever_was_touched() -> None:
    assert emitted(window.pass_keys(reconciling(), touching(a6=1))) == []


def test_a_window_keeps_no_more_keys_than_it_has_rows() -> None:
    closing = reconciling(1, 2, 3, 4, 5)
    for number in range(6, 30):
        keys = {f"a{number}": number % 3 + 2, f"b{number}": 7}
        after = window.pass_keys(closing, touching(ORDERS, **keys))
        assert isinstance(after, Reconciling)
        assert after.key_count == sum(len(keys.tokens) for keys in after.passed_keys) <= len(after.rows)
        closing = after
    assert emitted(closing) == [1, 5]
    assert len(closing.rows) + closing.superseded == 5


def test_a_row_is_touched_by_its_whole_key() -> None:
    lines = table("lines", "order", "line", key=(0, 1))
    columns = [pa.array([1, 1, 2], pa.int64()), pa.array([1, 2, 1], pa.int64())]
    chunk = pa.RecordBatch.from_arrays(columns, schema=lines.arrow)
    opened = reading()
    opened = replace(opened, order=replace(opened.order, schema=lines))
    closing = window.take_chunk(opened, replace(read(reading().order), rows=chunk))
    run = Transactions.of([(gtid("a:6"), 0)])
    second = SliceKeys(run, pa.array([0], pa.int32()).to_numpy(), key_tokens(chunk.slice(1, 1), lines.key))
    kept = window.pass_keys(closing, second)
    assert isinstance(kept, Reconciling)
    assert window.untouched_rows(kept).to_pydict() == {"order": [1, 2], "line": [1, 1]}


# Other high watermarks


def test_a_window_keeps_the_bytes_of_the_keys_that_passed_while_its_chunk_is_read() -> None:
    kept = window.pass_keys(window.pass_keys(reading(), touching(a6=1, a7=2)), touching(a8=3))
    assert isinstance(kept, Reading)
    first, second = touching(a6=1, a7=2), touching(a8=3)
    transactions = 3 * (4 + 4 + 3 * 8)
    assert kept.kept_bytes == first.tokens.nbytes + second.tokens.nbytes + transactions


def reselecting(*keys: int) -> Reading:
    """The window of rows that are read by these keys."""
    asked = rows(ORDERS, keys)
    tokens = key_tokens(asked, ORDERS.key)
    chunk = ChunkId("reread", ORDERS.table, 1)
    return Reading(ReselectRows(chunk, ORDERS, asked.select([0]), tokens, 1, gtids(ORDERED_AT)))


@pytest.mark.parametrize("opened", [reselecting(1, 2, 3, 9), of_one_row()], ids=["by keys", "a single row"])
def test_a_window_that_cannot_be_smaller_keeps_the_last_change_of_each_key(
    opened: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "FEW_KEYS", 8)
    kept: window.Window = opened
    for number in range(6, 506):
        kept = window.pass_keys(kept, touching(ORDERS, **{f"a{number}": number % 2 + 1, f"b{number}": 3}))
        assert isinstance(kept, Reading)
        assert kept.key_count == sum(map(len, kept.passed_keys)) <= 2 * 3 + 8
        assert kept.kept_bytes == sum(each.nbytes for each in kept.passed_keys)
    assert isinstance(kept, Reading)
    # Key 2 was changed by a:505, and key 1 by a:504.
    closing = window.take_chunk(kept, read(kept.order, 1, 2, 3, 9, low="a:1-504,b:1-505"))
    assert emitted(closing) == [1, 3, 9]
    assert emitted(window.take_chunk(kept, read(kept.order, 1, 2, 3, 9, low="a:1-5,b:1-505"))) == [3, 9]


def changing(key: int, value: int) -> SliceKeys:
    """A change of one column of a row that leaves it under its key."""
    row = pa.RecordBatch.from_pylist([{"id": key, "value": value}], ORDERS.arrow)
    absent = pa.array([lacks(ORDERS, {"id"})], pa.binary())
    return replace(touching(), partial=PartialRows(key_tokens(row, ORDERS.key), absent, row))


def test_a_window_that_cannot_be_smaller_keeps_few_bytes_of_partial_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few hundred rows may weigh gigabytes. What the last changes weigh doesn't have them sorted at each slice."""
    keys, changes, often = 50, 1000, 0
    last_changes = SliceKeys.last_changes

    def counted(self: SliceKeys) -> SliceKeys:
        nonlocal often
        often += 1
        return last_changes(self)

    monkeypatch.setattr(SliceKeys, "last_changes", counted)
    one = changing(1, 0).nbytes
    monkeypatch.setattr(window, "FEW_BYTES", 10 * one)
    kept: window.Window = of_one_row()
    for number in range(changes):
        kept = window.pass_keys(kept, changing(number % keys, number))
        assert isinstance(kept, Reading)
        assert kept.kept_bytes == sum(each.nbytes for each in kept.passed_keys) <= 3 * keys * one
    assert 0 < often <= 2 * changes / keys
    found = SliceKeys.joined(kept.passed_keys).last_changes().partial
    assert found is not None
    assert sorted(found.rows["value"].to_pylist()) == list(range(changes - keys, changes))


def test_a_window_that_can_be_smaller_keeps_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunk is ordered again if they take too much, and nothing sorts them until then."""
    monkeypatch.setattr(window, "FEW_KEYS", 8)
    kept: window.Window = reading()
    for number in range(6, 106):
        kept = window.pass_keys(kept, touching(ORDERS, **{f"a{number}": 1}))
    assert isinstance(kept, Reading)
    assert kept.key_count == 100


def test_of_a_slice_a_window_keeps_the_transactions_that_touched_its_table_and_no_others() -> None:
    """Of a thousand transactions two change the table, and one of these twice."""
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    changes = {105: [insert(1), insert(2)], 205: [insert(3)]}
    capture.give(passed(20, *(wrote(f"a:{number}", *changes.get(number, [])) for number in range(6, 1006))))
    (opened,) = capture.state.windows
    (kept,) = opened.passed_keys
    assert [str(kept.transactions.gtid(i)) for i in range(len(kept.transactions))] == [
        str(gtid("a:105")),
        str(gtid("a:205")),
    ]
    capture.give(read(order, 1, 3, low="a:1-105", high=30), LogAdvanced(place(30)))
    (rows_of_chunk,) = [part.rows for part in capture.parts if isinstance(part, ChunkPart)]
    assert rows_of_chunk["id"].to_pylist() == [1], "the second transaction isn't in the low watermark"


def test_a_replicas_set_passes_though_an_xa_transaction_stays_prepared() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    prepared = XaPrepared("x", 1, (ITEMS.table,), gtids("a:6"))
    capture.give(replace(passed(20, wrote("a:7")), prepared=(prepared,)))
    capture.give(read(order, 1, low="a:1-7", high=gtids("a:1-8")))
    assert capture.state.windows, "the second phase hasn't passed"
    capture.give(replace(passed(21, wrote("a:8")), prepared=(prepared,)))
    assert not capture.state.windows
