"""Runs of transactions: functions on all at once equal functions on each."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions

A = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
B = Tsid("a0b1c2d3-0000-4000-8000-000000000001")
TAGGED = Tsid(A.uuid, "batch")

gtids = st.builds(Gtid, st.sampled_from([A, B, TAGGED]), st.integers(1, 30))
runs = st.lists(gtids, unique=True, max_size=25)


def of(run: list[Gtid]) -> Transactions:
    return Transactions.of((gtid, 1_000 + i) for i, gtid in enumerate(run))


def gtid_set(run: list[Gtid]) -> GtidSet:
    return GtidSet.parse(",".join(map(str, run)))


@given(runs)
def test_a_run_gives_back_what_it_was_made_of(run: list[Gtid]) -> None:
    transactions = of(run)
    assert len(transactions) == len(run)
    assert [transactions.gtid(i) for i in range(len(run))] == run
    assert transactions.commit_time.tolist() == [1_000 + i for i in range(len(run))]
    assert transactions.gtid_texts().type == pa.string()
    assert transactions.gtid_texts().to_pylist() == [str(gtid) for gtid in run]


@given(st.lists(runs, min_size=1, max_size=4))
def test_joined_runs_are_one_behind_the_other(each: list[list[Gtid]]) -> None:
    joined = Transactions.joined([Transactions.of((gtid, 7) for gtid in run) for run in each])
    assert [joined.gtid(i) for i in range(len(joined))] == [gtid for run in each for gtid in run]
    assert len(set(joined.sources)) == len(joined.sources)
    assert joined.commit_time.tolist() == [7] * len(joined)


@given(runs, runs)
def test_missing_from_a_set_is_told_of_each(run: list[Gtid], others: list[Gtid]) -> None:
    assert of(run).not_in(gtid_set(others)).tolist() == [gtid not in others for gtid in run]


@given(runs, runs)
def test_a_position_grows_by_the_run_that_passes(run: list[Gtid], passed: list[Gtid]) -> None:
    new = [gtid for gtid in run if gtid not in passed]
    assert of(new).added_to(gtid_set(passed)) == gtid_set(passed + new)


@given(runs.filter(bool), runs)
def test_what_had_passed_before_breaks_an_invariant(run: list[Gtid], passed: list[Gtid]) -> None:
    again = run[len(run) // 2]
    with pytest.raises(InvariantBroken, match="had passed before"):
        of(run).added_to(gtid_set([*passed, again]))


def test_the_story_names_the_first_transaction_that_came_again_and_the_position() -> None:
    run = of([Gtid(B, 1), Gtid(A, 7), Gtid(A, 8)])
    with pytest.raises(InvariantBroken) as broken:
        run.added_to(GtidSet.parse(f"{A}:1-9"))
    assert f"{A}:7" in str(broken.value)
    assert f"{A}:1-9" in str(broken.value)


@given(runs.filter(bool))
def test_what_comes_twice_in_a_run_breaks_an_invariant(run: list[Gtid]) -> None:
    twice = run[len(run) // 2]
    with pytest.raises(InvariantBroken, match=f"{twice} comes twice"):
        of([*run, twice]).added_to(GtidSet())


def test_the_run_of_none() -> None:
    none = Transactions.empty()
    assert len(none) == 0
    assert none.gtid_texts() == pa.array([], type=pa.string())
    assert none.not_in(GtidSet()).tolist() == []
    assert none.added_to(GtidSet.parse(f"{A}:1-5")) == GtidSet.parse(f"{A}:1-5")
