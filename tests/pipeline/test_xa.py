"""XA transactions as a checkpoint remembers them."""

from pipeline import xa
from pipeline.xa import XaPrepared
from tests.pipeline.builders import ITEMS, ORDERS, gtids

PASSED = XaPrepared("X'61',X'',1", 1_700_000_000_000_000, ())
WAITING = XaPrepared("X'62',X'',1", 1_700_000_000_000_001, (ITEMS.table, ORDERS.table), gtids("a:7"))


def test_they_come_back_from_json() -> None:
    assert [xa.from_json(xa.to_json(each)) for each in (PASSED, WAITING)] == [PASSED, WAITING]


def test_what_the_position_lacks_for_them() -> None:
    other = XaPrepared("X'63',X'',1", 0, (ORDERS.table,), gtids("b:2"))
    assert xa.left_out([PASSED, WAITING, other]) == gtids("a:7,b:2")
    assert not xa.left_out([PASSED])
