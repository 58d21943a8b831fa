"""Witnesses: the last transaction of each source, and when one of the same name is another transaction."""

from pipeline.gtid import witness
from pipeline.gtid.transactions import Transactions
from pipeline.gtid.witness import Witness, add_transactions
from tests.pipeline.builders import gtid


def passed(*names: str) -> Transactions:
    return Transactions.of([(gtid(name), 100 * gtid(name).number) for name in names])


def of(name: str) -> Witness:
    return Witness(gtid(name), 100 * gtid(name).number, 0)


def test_the_last_one_of_each_source_is_kept_and_the_last_of_all_comes_last() -> None:
    first = add_transactions((), passed("a:1", "b:5", "a:2"))
    assert first == (of("b:5"), of("a:2"))
    assert add_transactions(first, passed("c:1")) == (*first, of("c:1"))
    assert add_transactions(first, passed("b:4")) == (of("a:2"), of("b:4"))


def test_those_that_passed_long_ago_are_let_go() -> None:
    found: tuple[Witness, ...] = ()
    for number in range(1, 2 * witness.MOST_SOURCES):
        found = add_transactions(found, Transactions.of([(gtid(f"a:tag{number}:7"), 1)]))
    assert len(found) == witness.MOST_SOURCES
    assert found[-1].gtid == gtid(f"a:tag{2 * witness.MOST_SOURCES - 1}:7")


def test_the_first_servers_time_decides_where_both_know_it() -> None:
    ours = Witness(gtid("a:7"), 20, 10)
    assert not ours.differs(Witness(gtid("a:7"), 99, 10), same_server=True)
    assert not ours.differs(Witness(gtid("a:7"), 99, 10), same_server=False)
    assert ours.differs(Witness(gtid("a:7"), 20, 11), same_server=True)
    assert ours.differs(Witness(gtid("a:7"), 20, 11), same_server=False)


def test_without_it_only_the_same_server_can_be_compared() -> None:
    ours = Witness(gtid("a:7"), 20, 0)
    assert ours.differs(Witness(gtid("a:7"), 21, 0), same_server=True)
    assert not ours.differs(Witness(gtid("a:7"), 20, 0), same_server=True)
    assert not ours.differs(Witness(gtid("a:7"), 21, 0), same_server=False)
    assert not ours.differs(Witness(gtid("a:7"), 21, 21), same_server=False)


def test_what_is_told_names_the_transaction_and_both_times() -> None:
    told = Witness(gtid("a:7"), 1, 1_700_000_000_000_001).contradicted(
        Witness(gtid("a:7"), 1, 1_700_000_000_000_002)
    )
    assert f"{gtid('a:7')}, which has passed here" in told
    assert "22:13:20.000001 UTC" in told and "22:13:20.000002 UTC" in told


def test_a_place_at_which_none_begins_is_named_with_the_time() -> None:
    told = Witness(gtid("a:7"), 1_700_000_000_000_001, 0).unmatched()
    assert f"{gtid('a:7')}, which has passed here, was committed at 2023-11-14T22:13:20.000001 UTC" in told
    assert "no transaction begins at that place of its log; it was reset" in told


def test_a_witness_comes_back_from_json() -> None:
    there = Witness(gtid("a:tag:7"), 20, 10)
    assert witness.from_json(witness.to_json(there)) == there
