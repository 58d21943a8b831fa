"""XA transactions as a checkpoint remembers them."""

from dataclasses import replace

from pipeline.snapshot import prepared_xa
from pipeline.snapshot.prepared_xa import XaPrepared
from tests.pipeline.builders import ITEMS, ORDERS, gtids

PASSED = XaPrepared("X'61',X'',1", 1_700_000_000_000_000, ())
WAITING = XaPrepared("X'62',X'',1", 1_700_000_000_000_001, (ITEMS.table, ORDERS.table), gtids("a:7"))


STATEMENTS = replace(PASSED, databases=frozenset({"shop", "other"}))
ANYWHERE = replace(PASSED, databases=None)
ALL = [PASSED, WAITING, STATEMENTS, ANYWHERE]


def test_they_come_back_from_json() -> None:
    assert [prepared_xa.from_json(prepared_xa.to_json(each)) for each in ALL] == ALL
    # As checkpoints have it that were written before `databases` was.
    assert len(prepared_xa.to_json(WAITING)) == 4


def test_what_the_position_lacks_for_them() -> None:
    other = XaPrepared("X'63',X'',1", 0, (ORDERS.table,), gtids("b:2"))
    assert prepared_xa.left_out([PASSED, WAITING, other]) == gtids("a:7,b:2")
    assert not prepared_xa.left_out([PASSED])
