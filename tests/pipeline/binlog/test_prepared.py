"""What is prepared waits, up to a bound."""

import numpy as np
import pytest

from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.prepared import Prepared, PreparedTransactions
from pipeline.binlog.slice import Held, Transaction
from pipeline.watermark import Coordinates


def prepared(number: int, size: int) -> Prepared:
    return Prepared(
        Transaction(0, number, 10, 0),
        Coordinates("binlog.000001", 90),
        Held(np.zeros(size, np.uint8), np.zeros((5, 0), np.int64)),
    )


def test_each_is_taken_once() -> None:
    waiting = PreparedTransactions(100)
    one = prepared(1, 10)
    waiting.put("X'61',X'',1", one)
    assert waiting.take("X'62',X'',1") is None
    assert waiting.take("X'61',X'',1") is one
    assert waiting.take("X'61',X'',1") is None


def test_together_with_what_is_open_they_may_not_be_too_large() -> None:
    waiting = PreparedTransactions(2 << 20)
    waiting.put("a", prepared(1, 1 << 20))
    waiting.check(1 << 20)
    with pytest.raises(UndecodableError, match="have 3 MiB of rows, and 2 MiB are held back"):
        waiting.check(2 << 20)
    with pytest.raises(UndecodableError, match="held back"):
        waiting.put("b", prepared(2, (1 << 20) + 1))
