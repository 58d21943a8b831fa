"""Failover: the findings about each server, the decision about them, and the evidence of a log's order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.settings import SnapshotMode
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.schema.table_schema import TableId
from pipeline.source import failover
from pipeline.source.failover import (
    COMMITTING_S,
    Behind,
    CanContinue,
    CandidateVerdict,
    ContinueAt,
    Decision,
    NoneServes,
    NoneServesYet,
    Purged,
    Refused,
    ServerHistory,
    StillCommitting,
    TransactionOrder,
    Unreachable,
    WaitForServers,
)
from tests.pipeline.builders import gtid, gtids

A, B = (gtid(f"{server}:1").source.uuid for server in "ab")
POSITION = gtids("a:1-9")
FITS = ServerHistory(B, gtids("a:1-12"), gtids("a:1-5"), replica=True)
FAILOVER_AFTER_S = 10


@pytest.mark.parametrize("purged", ["", "a:1-9", "a:3"])
def test_a_server_serves_that_has_what_passed_and_still_has_the_rest(purged: str) -> None:
    assert failover.candidate_verdict(POSITION, replace(FITS, purged=gtids(purged)), A) == CanContinue(B)


def test_what_a_server_lacks_is_named() -> None:
    behind = replace(FITS, executed=gtids("a:1-4,a:6-7"))
    assert failover.candidate_verdict(POSITION, behind, A) == Behind(B, gtids("a:5,a:8-9"), replica=True)
    gone = replace(FITS, purged=gtids("a:1-10,c:1"), executed=gtids("a:1-12,c:1"))
    assert failover.candidate_verdict(POSITION, gone, A) == Purged(B, gtids("a:10,c:1"))


@pytest.mark.parametrize("replica", [False, True])
def test_a_server_that_still_commits_what_passed_lacks_nothing(replica: bool) -> None:
    told = replace(FITS, executed=gtids("a:1-7"), owned=gtids("a:8-11,c:1"), replica=replica)
    assert failover.candidate_verdict(POSITION, told, A) == StillCommitting(B, gtids("a:8-9"))
    lost = replace(told, owned=gtids("a:9-11"))
    assert failover.candidate_verdict(POSITION, lost, A) == Behind(B, gtids("a:8-9"), replica)


def test_another_history_is_not_one_that_was_purged() -> None:
    other = ServerHistory(B, gtids("b:1-7"), gtids("b:1-7"), replica=False)
    assert failover.candidate_verdict(POSITION, other, A) == Behind(B, POSITION, replica=False)


@pytest.mark.parametrize(
    ("executed", "doubtful"),
    [
        ("a:1-12", ""),  # the primary's own, which are the stream's
        ("a:1-12,b:1-2", "b:1-2"),
        ("a:1-12,b:tag:1", "b:tag:1"),
        ("a:1-12,c:4", "c:4"),  # by way of a third one
        ("a:1-12,a:tag:4", ""),
    ],
)
def test_what_may_have_been_written_on_a_replica_is_doubtful(executed: str, doubtful: str) -> None:
    told = replace(FITS, executed=gtids(executed), purged=NO_GTIDS)
    assert failover.candidate_verdict(POSITION, told, A) == CanContinue(B, gtids(doubtful))
    # Of the server that the position comes from nothing is.
    assert failover.candidate_verdict(POSITION, told, B) == CanContinue(B)
    assert failover.candidate_verdict(POSITION, told, "") == CanContinue(B)


def test_what_a_server_wrote_when_it_was_the_primary_before_is_no_excuse() -> None:
    told = replace(FITS, executed=gtids("a:1-12,b:1-3"), purged=NO_GTIDS)
    assert failover.candidate_verdict(gtids("a:1-9,b:1-2"), told, A) == CanContinue(B, gtids("b:3"))


SERVES, GONE, REFUSED = CanContinue(B), Purged(B, gtids("a:6")), Refused("it's MariaDB")
AWAY = Unreachable("refused")
COMMITS = StillCommitting(B, gtids("a:9"))
LATE, OTHER = Behind(B, POSITION, replica=True), Behind(B, POSITION, replica=False)


def decided(
    *verdicts: CandidateVerdict,
    at: int | None = 0,
    waited: float = 0,
    stood: float | None = None,
    mode: SnapshotMode = SnapshotMode.INITIAL,
) -> Decision:
    """What's decided when it's been waited for so long, by default with nothing changing."""
    return failover.choose_server(
        verdicts, at, waited, waited if stood is None else stood, FAILOVER_AFTER_S, mode
    )


def test_the_server_that_we_are_at_is_kept_if_it_serves() -> None:
    assert decided(SERVES, SERVES, at=1) == ContinueAt(1)
    assert decided(SERVES, SERVES, at=None) == ContinueAt(0)


@pytest.mark.parametrize(
    ("present", "grace"),
    [
        (AWAY, 10),
        (OTHER, COMMITTING_S),
        (LATE, COMMITTING_S),
        (COMMITS, COMMITTING_S),
        (GONE, 0),
        (REFUSED, 0),
    ],
)
def test_another_one_is_taken_when_ours_has_had_its_time(present: CandidateVerdict, grace: float) -> None:
    if grace:
        assert decided(present, SERVES, waited=grace - 0.1) == WaitForServers()
    assert decided(present, SERVES, waited=grace) == ContinueAt(1)
    assert decided(SERVES, present, REFUSED, SERVES, at=1, waited=grace) == ContinueAt(0)


@pytest.mark.parametrize(
    ("other", "worth"), [(AWAY, 60), (LATE, 60), (OTHER, COMMITTING_S), (GONE, 0), (REFUSED, 0)]
)
def test_where_none_serves_one_that_may_is_waited_for_while_it_gets_nearer(
    other: CandidateVerdict, worth: float
) -> None:
    if worth:
        assert decided(REFUSED, other, waited=worth - 0.1) == WaitForServers()
        assert decided(REFUSED, other, waited=10 * worth, stood=worth - 0.1) == WaitForServers()
    assert decided(REFUSED, other, waited=worth) == NoneServes()


@pytest.mark.parametrize("mode", SnapshotMode)
def test_a_server_that_commits_is_never_given_up(mode: SnapshotMode) -> None:
    assert decided(COMMITS, waited=COMMITTING_S - 0.1, mode=mode) == WaitForServers()
    assert decided(COMMITS, waited=10_000, mode=mode) == NoneServesYet()
    assert decided(REFUSED, GONE, COMMITS, waited=10_000, mode=mode) == NoneServesYet()
    assert decided(COMMITS, SERVES, waited=COMMITTING_S, mode=mode) == ContinueAt(1)


def test_a_purged_log_is_begun_anew_where_that_is_wanted_and_nothing_better_may_come() -> None:
    assert decided(REFUSED, GONE) == NoneServes()
    assert decided(REFUSED, GONE, mode=SnapshotMode.WHEN_NEEDED) == ContinueAt(1)
    assert decided(AWAY, GONE, waited=59, mode=SnapshotMode.WHEN_NEEDED) == WaitForServers()
    assert decided(AWAY, GONE, waited=60, mode=SnapshotMode.WHEN_NEEDED) == ContinueAt(1)
    assert decided(OTHER, mode=SnapshotMode.WHEN_NEEDED, waited=60) == NoneServes()


def test_after_a_start_we_are_at_the_server_that_the_position_comes_from() -> None:
    assert failover.last_server([CanContinue(A), SERVES], B) == 1
    assert failover.last_server([CanContinue(A), AWAY], B) == 1
    assert failover.last_server([AWAY, LATE], B) == 1
    assert failover.last_server([CanContinue(A), CanContinue(A)], B) is None
    assert failover.last_server([AWAY, SERVES], "") == 0


def test_why_a_server_will_not_do_is_told_with_what_to_do() -> None:
    assert "hasn't executed" in failover.explain_verdict(
        LATE
    ) and "let it catch up" in failover.explain_verdict(LATE)
    assert "divergent server" in failover.explain_verdict(OTHER)
    assert "semi-synchronous" in failover.explain_verdict(COMMITS)
    assert failover.explain_verdict(GONE).startswith(f"the binlog that we need was purged: {gtids('a:6')}; ")
    assert failover.explain_verdict(AWAY) == "refused"


def test_a_server_that_folds_names_has_tables_under_other_ones() -> None:
    mixed, small, other = TableId("Shop", "Orders"), TableId("shop", "orders"), TableId("shop", "items")
    assert failover.folded_names([mixed, other], {mixed, other}) is None
    assert failover.folded_names([mixed, other], {other}) is None, "it is gone"
    assert failover.folded_names([small, other], {small, other}) is None
    told = failover.folded_names([other, mixed], {small, other})
    assert told is not None
    assert "Shop.Orders is called shop.orders" in told


def run(text: str) -> Transactions:
    """Transactions in a log's order, as "a:1 b:1"."""
    return Transactions.of([(gtid(each), 0) for each in text.split()])


@pytest.mark.parametrize(
    ("log", "errant"),
    [
        ("a:5 a:6 b:1 b:2", ""),
        ("a:5 b:1 a:6 b:2", "b:1"),
        ("b:1 a:5 a:6", "b:1"),
        ("b:1 a:7 a:6 b:2 a:5 b:3", "b:1-2"),
        ("a:5 a:6 a:7 b:1 a:8", ""),  # the primary's that haven't passed here may be anywhere
        ("c:1 b:1 a:5 c:2 a:6", "b:1"),
    ],
)
def test_a_doubtful_transaction_is_errant_if_something_behind_it_has_passed(log: str, errant: str) -> None:
    order = TransactionOrder(gtids("b:1-9"), ahead=gtids("a:5-6"))
    assert order.followed_by(run(log)).errant == gtids(errant)
    piecemeal = order
    for each in log.split():
        piecemeal = piecemeal.followed_by(run(each))
    assert piecemeal == order.followed_by(run(log))
    assert piecemeal.ahead == NO_GTIDS


@given(st.permutations(["a:1", "a:2", "a:3", "b:1", "b:2", "c:1"]), st.integers(0, 6))
def test_the_order_does_not_depend_on_how_the_log_is_cut(log: list[str], cut: int) -> None:
    order = TransactionOrder(gtids("b:1-2"), ahead=gtids("a:1-2"))
    whole = order.followed_by(run(" ".join(log)))
    assert order.followed_by(run(" ".join(log[:cut]))).followed_by(run(" ".join(log[cut:]))) == whole
    last = max(log.index("a:1"), log.index("a:2"))
    expected = [each for each in log[:last] if each.startswith("b")]
    assert whole.errant == GtidSet.parse(",".join(str(gtid(each)) for each in expected))
