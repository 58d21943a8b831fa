"""XA transactions between their phases."""

import numpy as np

from pipeline.binlog.slice import HeldRows, Transaction
from pipeline.binlog.xa_transactions import Prepared, PreparedTransactions
from pipeline.gtid.coordinates import Coordinates
from pipeline.snapshot.prepared_xa import XaPrepared
from tests.pipeline.builders import ORDERS, gtids

A, B = "X'61',X'',1", "X'62',X'',1"
NOTED = XaPrepared(A, 10, (ORDERS.table,), gtids("a:1"))


def prepared(number: int, size: int) -> Prepared:
    held = HeldRows(np.zeros(size, np.uint8), np.zeros((5, 0), np.int64))
    return Prepared(Transaction(0, number, 10, 0), Coordinates("binlog.000001", 90), held, ())


def test_each_is_taken_once() -> None:
    transactions, one = PreparedTransactions(100), prepared(1, 10)
    transactions.note(NOTED)
    transactions.hold(A, one)
    assert transactions.take(B) is None
    assert transactions.noted == (NOTED,)
    assert transactions.take(A) is one
    assert transactions.take(A) is None
    assert not transactions.noted


def test_of_one_that_was_noted_before_the_rows_are_not_at_hand() -> None:
    transactions = PreparedTransactions(100, [NOTED])
    assert list(transactions.waiting()) == []
    assert transactions.take(A) is NOTED


def test_a_name_that_is_used_again_is_the_later_ones() -> None:
    transactions, later = PreparedTransactions(100), XaPrepared(A, 20, ())
    transactions.note(NOTED)
    transactions.hold(A, prepared(1, 10))
    transactions.note(later)
    assert transactions.take(A) is later


def test_only_so_much_waits() -> None:
    transactions = PreparedTransactions(100)
    transactions.hold(A, prepared(1, 60))
    assert transactions.has_room(40)
    assert not transactions.has_room(41)
