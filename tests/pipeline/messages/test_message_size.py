"""What messages weigh: the same rows the same all along their way."""

import pyarrow as pa

from pipeline.messages.binlog import LogAdvanced, TransactionPartRead, TransactionsRead
from pipeline.messages.journal import Append, AppendRows, ChangePart
from pipeline.messages.message_size import bytes_held, weight
from pipeline.messages.row_images import TableUnreadable
from tests.pipeline.builders import ITEMS, ORDERS, Capture, gtid, insert, part, passed, place, read, wrote


def test_a_slice_weighs_what_its_rows_do_on_all_of_its_way() -> None:
    slice_ = passed(20, wrote("a:6", insert(1), insert(2, ITEMS)), wrote("a:7", insert(3)))
    assert weight(slice_) == sum(table.images.nbytes + table.rows.nbytes for table in slice_.tables)
    capture = Capture(ORDERS, ITEMS)
    (append,) = capture.give(slice_)
    assert isinstance(append, Append)
    assert weight(append) == weight(slice_) > 3 * 8
    unreadable = TransactionsRead(slice_.transactions, (TableUnreadable(ORDERS.table, "so"),), slice_.end)
    assert weight(unreadable) == 0


def test_a_part_weighs_what_its_rows_do() -> None:
    verified = part("a:6", insert(1), insert(2))
    parts = AppendRows(
        tuple(ChangePart(changes, passed(20, wrote("a:6")).transactions, 1) for changes in verified.tables)
    )
    assert weight(verified) == weight(parts) > 2 * 8
    assert weight(TransactionPartRead(gtid("a:6"), 0, (TableUnreadable(ORDERS.table, "so"),))) == 0


def test_a_chunk_weighs_what_its_rows_do_and_all_else_nothing() -> None:
    capture = Capture(ORDERS)
    chunk = read(capture.begin(ORDERS), 1, 2, high=10)
    (append, _) = capture.give(chunk)
    assert weight(append) == bytes_held(chunk.rows)
    assert weight(LogAdvanced(place(30))) == 0


def test_rows_weigh_the_buffers_that_they_hold_each_once() -> None:
    numbers = pa.array(range(1000), pa.int64())
    assert bytes_held(pa.record_batch([numbers], ["a"])) == 8000
    assert bytes_held(pa.record_batch([numbers, numbers], ["a", "b"]).slice(10, 1)) == 8000
