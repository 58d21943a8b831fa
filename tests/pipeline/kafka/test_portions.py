"""Portions of whole SCNs, none larger than it may be."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.column_protection import UNPROTECTED
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import Entry
from pipeline.journal.segment import seal
from pipeline.kafka.portions import (
    Capacity,
    Portion,
    divide_scns,
    merge_portions,
    plan_portions,
    unsent,
    with_bytes,
)
from pipeline.messages.journal import Append, StatementPart
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.snapshot.checkpoint import Checkpoint


def portions(scns: list[int], most: int, *, split: bool = False) -> tuple[Portion, ...]:
    return divide_scns(np.array(scns, np.int64), most, split=split)


def test_portions_end_between_scns() -> None:
    assert portions([5, 3, 3, 4, 5], 3) == (Portion(3, 4, 3), Portion(5, 5, 2))
    assert portions([3, 4, 5], 9) == (Portion(3, 5, 3),)
    assert portions([], 9) == ()


def test_an_scn_that_is_too_large_is_alone() -> None:
    assert portions([1, 2, 2, 2, 3], 2) == (Portion(1, 1, 1), Portion(2, 2, 3), Portion(3, 3, 1))


def test_an_scn_that_was_begun_is_alone() -> None:
    assert portions([2, 2, 3, 4], 9, split=True) == (Portion(2, 2, 2), Portion(3, 4, 2))


def test_portions_are_joined_as_far_as_there_is_room() -> None:
    each = tuple(Portion(scn, scn, 2, 10) for scn in range(1, 5))
    assert merge_portions(each, Capacity(6, 100)) == (Portion(1, 3, 6, 30), each[3])
    assert merge_portions(each, Capacity(9, 25)) == (Portion(1, 2, 4, 20), *each[2:])
    assert merge_portions(each, Capacity(1, 1)) == each


def test_portions_have_their_share_of_the_bytes() -> None:
    whole = Portion(1, 2, 4, 100)
    assert with_bytes((Portion(1, 1, 3), Portion(2, 2, 1)), whole) == (
        Portion(1, 1, 3, 75),
        Portion(2, 2, 1, 25),
    )
    assert Capacity(9, 50).rows_of(whole) == 2
    assert Capacity(1, 50).rows_of(whole) == 1
    assert Capacity(9, 100).rows_of(whole) == 9


def entry_with_statements(*scns: int) -> Entry:
    """A segment without a row, and with a statement at each of these SCNs."""
    statement = SchemaStatement(SchemaObject.TABLE, "shop", (), (), "ALTER TABLE t ADD c INT")
    parts = tuple(StatementPart(scn, None, 0, None, 1, statement) for scn in scns)
    append = Append((), Checkpoint(GtidSet(), scn=max(scns, default=1)), statements=parts)
    return seal(1, [append], (), None, 0, UNPROTECTED)


def test_statements_are_planned_like_rows() -> None:
    entry = entry_with_statements(3, 5, 5)
    assert (
        plan_portions(entry_with_statements(), 0, Capacity(9), lambda: np.empty(0, np.int64), split=False)
        == ()
    )
    (whole,) = plan_portions(entry, 0, Capacity(9), lambda: np.array([4, 5]), split=False)
    assert whole.rows == 3
    after = plan_portions(entry, 3, Capacity(3), lambda: np.array([4, 5]), split=False)
    assert [(portion.first_scn, portion.last_scn, portion.rows) for portion in after] == [
        (4, 4, 1),
        (5, 5, 3),
    ]


def test_statements_come_before_the_rows_of_a_run_and_are_not_sent_again() -> None:
    entry, portion = entry_with_statements(3, 5, 5), Portion(5, 5, 4)
    first, second = entry.statements[1:]
    assert unsent(entry, portion, 0) == ((first, second), 0)
    assert unsent(entry, portion, 1) == ((second,), 0)
    assert unsent(entry, portion, 3) == ((), 1)


@given(st.lists(st.integers(1, 12)), st.integers(1, 9), st.booleans())
def test_portions_have_every_row_once(scns: list[int], most: int, split: bool) -> None:
    found = portions(scns, most, split=split)
    assert sum(portion.rows for portion in found) == len(scns)
    for portion in found:
        assert portion.rows == sum(portion.first_scn <= scn <= portion.last_scn for scn in scns) > 0
        assert portion.rows <= most or portion.first_scn == portion.last_scn
    for one, other in pairwise(found):
        assert one.last_scn < other.first_scn
        begun = split and one is found[0]
        first_of_other = sum(scn == other.first_scn for scn in scns)
        assert begun or one.rows + first_of_other > most or one.rows > most
