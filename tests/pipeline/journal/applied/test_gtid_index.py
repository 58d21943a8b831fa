"""A position finds exactly the waiters under transactions that it has and the one before hadn't."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.journal.applied.gtid_index import GtidIndex, first_lacked
from tests.pipeline.builders import gtid, gtids

SOURCES = [Tsid(f"{letter * 8}-0000-0000-0000-000000000000", tag) for letter in "ab" for tag in ("", "t")]
names = st.builds(Gtid, st.sampled_from(SOURCES), st.integers(1, 12))


def test_a_gap_hides_its_waiters_and_no_others() -> None:
    index = GtidIndex()
    for waiter, name in enumerate(["a:3", "a:5", "a:5", "b:1", "a:t:3"]):
        index.add(gtid(name), waiter)
    assert index.advance(gtids("a:1-2:4-5")) == [1, 2]
    assert index.advance(gtids("a:1-2:4-9")) == []
    assert index.advance(gtids("a:1-9,a:t:1-3")) == [0, 4]
    index.remove(gtid("b:1"), 3)
    assert index.advance(gtids("a:1-9,b:1")) == []


def test_the_one_that_is_lacked_is_missing() -> None:
    missing = gtids("a:1-3:7,b:2")
    assert first_lacked(missing) in missing


@given(st.lists(st.tuples(st.sets(names), st.sets(names), st.sets(names)), max_size=6))
def test_each_is_found_once_and_when_it_comes(steps: list[tuple[set[Gtid], set[Gtid], set[Gtid]]]) -> None:
    """Positions may also go back; waiters come under what isn't there, and some leave."""
    index, position, under = GtidIndex(), GtidSet(), dict[int, Gtid]()
    for adds, leave, has in steps:
        for name in adds:
            if name not in position:
                fresh = max(under, default=0) + 1
                index.add(name, fresh)
                under[fresh] = name
        for waiter in [waiter for waiter, name in under.items() if name in leave]:
            index.remove(under.pop(waiter), waiter)
        position = GtidSet()
        for name in has:
            position = position.with_gtid(name)
        found = index.advance(position)
        assert sorted(found) == sorted(waiter for waiter, name in under.items() if name in position)
        for waiter in found:
            del under[waiter]
