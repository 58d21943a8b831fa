"""Who waits is answered as soon as that can be said, and not before, whatever the order of what is reported."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.file_positions import all_before
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import JournalProgress, TableProgress, Through
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied, NotYetApplied
from pipeline.journal.applied.waiters import Waiters
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror
from tests.pipeline.builders import ITEMS, ORDERS, gtids
from tests.pipeline.journal.applied.progress import (
    JOURNAL,
    LAKE,
    TABLES,
    Delivered,
    at,
    delivered,
    query,
    sealed,
)


def waiters(*reported: JournalProgress | Delivered) -> Waiters:
    made = Waiters(TableFilter((r"shop\..*",)))
    for each in reported:
        if isinstance(each, JournalProgress):
            made.journal_progressed(each)
        else:
            made.consumer_reached(LAKE, each)
    return made


def test_what_is_sealed_and_delivered_is_answered_at_once_with_where_to_read() -> None:
    made = waiters(sealed(5, "a:1-9"), delivered(4, "a:1-7"))
    assert made.ask(1, query("a:6", LAKE, ORDERS.table)) == Applied(
        at(4, "a:1-7"), {ORDERS.table: {"changelog": 4}}
    )
    assert made.ask(2, query("a:9", JOURNAL)) == Applied(at(5, "a:1-9"))
    assert made.ask(3, query("a:9")) is None
    assert len(made) == 1


def test_it_waits_for_the_journal_then_for_the_consumer_then_for_the_table() -> None:
    made = waiters(sealed(1, "a:1-4:6,b:1"), delivered(1, "a:1-4:6,b:1"))
    assert made.ask(7, query("a:5-6:9,b:2", LAKE, ORDERS.table)) is None
    assert made.journal_progressed(sealed(2, "a:1-6:9,b:1")) == []
    assert made.consumer_reached(LAKE, delivered(2, "a:1-6:9,b:1")) == []
    assert made.journal_progressed(sealed(3, "a:1-9,b:1-2")) == []
    pending = TableProgress(at(2, "a:1-6:9,b:1"))
    landed = TableProgress(at(3, "a:1-9,b:1-2"), read_at={"changelog": 8})
    assert made.consumer_reached(LAKE, delivered(2, "a:1-6:9,b:1", orders=pending, items=landed)) == []
    [(waiter, answer)] = made.consumer_reached(LAKE, delivered(2, "a:1-6:9,b:1", orders=landed))
    assert (waiter, answer) == (7, Applied(landed.reached, {ORDERS.table: {"changelog": 8}}))
    assert len(made) == 0


def test_of_several_tables_the_place_is_that_of_the_one_that_is_least_far() -> None:
    further = TableProgress(at(5, "a:1-9"))
    made = waiters(sealed(5, "a:1-9"), delivered(4, "a:1-7", orders=further))
    told = made.ask(1, query("a:7"))
    assert isinstance(told, Applied)
    assert told.reached == at(4, "a:1-7")
    assert made.ask(1, query("a:7", LAKE, ORDERS.table)) == Applied(further.reached, {ORDERS.table: None})


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (TableProgress(at(5, "a:1-9"), lacks="its mirror is being filled"), "its mirror is being filled"),
        (TableProgress(at(5, "a:1-9"), unread=49), "rows that the log had in part are being read again"),
    ],
)
def test_a_table_whose_readers_do_not_see_it_yet_is_waited_for(held: TableProgress, reason: str) -> None:
    made = waiters(sealed(5, "a:1-9"), delivered(5, "a:1-9", orders=held))
    assert made.ask(1, query("a:7", LAKE, ORDERS.table)) is None
    assert isinstance(made.ask(2, query("a:7", LAKE, ITEMS.table)), Applied)
    assert made.withdraw(1) == NotYetApplied(at(5, "a:1-9"), GtidSet(), f"{ORDERS.table}: {reason}")
    assert made.ask(3, query("a:7")) is None
    whole = delivered(5, "a:1-9", orders=TableProgress(at(5, "a:1-9"), unread=50))
    [(waiter, answer)] = made.consumer_reached(LAKE, whole)
    assert (waiter, type(answer)) == (3, Applied)


def test_of_a_table_that_a_snapshot_fills_only_what_came_before_is_waited_for() -> None:
    """Also when the consumer comes to it before it's known, and when a later snapshot begins."""
    filling, wait = TableProgress(at(5, "a:1-9"), filling=47), AppliedQuery(gtids("a:7"), LAKE, None)
    made = waiters(
        sealed(4, "a:1-6"),
        sealed(5, "a:1-7", mirrors={ORDERS.table: Filling(47)}),
        sealed(6, "a:1-9", mirrors={ORDERS.table: Filling(47), ITEMS.table: Filling(55)}),
        delivered(5, "a:1-9", orders=filling),
    )
    assert made.ask(1, wait) is None
    assert isinstance(made.ask(2, query("a:8-9", LAKE, ORDERS.table)), Applied)
    assert made.ask(3, query("a:7-8", LAKE, ORDERS.table)) is None
    later = replace(filling, filling=61)
    assert made.consumer_reached(LAKE, delivered(6, "a:1-9", orders=later)) == []
    assert made.ask(4, query("a:9", LAKE, ORDERS.table)) is None
    assert (
        made.withdraw(3).reason
        == "shop.orders: its snapshot is being read, which has what was committed before it"
    )
    whole = delivered(7, "a:1-9", orders=TableProgress(at(7, "a:1-9")))
    assert {number for number, answer in made.consumer_reached(LAKE, whole)} == {1, 4}


def test_a_snapshot_with_which_capture_begins_has_what_came_before_there_and_nothing_later() -> None:
    """Also at the second try, which begins further on."""
    last, begun = sealed(4, "a:1-6"), dict[TableId, Mirror]({ORDERS.table: Filling(40)})
    made = waiters()
    for at_ in ("a:1-6", "a:1-7"):
        assert made.capture_begins(last, Checkpoint(gtids(at_), 40, mirrors=begun)) == []
    assert made.capture_begins(None, Checkpoint(gtids("a:1-7"), 40)) == []
    made.journal_progressed(sealed(5, "a:1-9", mirrors=dict(begun)))
    filling = TableProgress(at(5, "a:1-9"), filling=40)
    made.consumer_reached(LAKE, delivered(5, "a:1-9", orders=filling))
    assert isinstance(made.ask(1, query("a:8", LAKE, ORDERS.table)), Applied)
    assert made.ask(2, query("a:7", LAKE, ORDERS.table)) is None
    made.capture_begins(
        sealed(5, "a:1-9", mirrors=dict(begun)), Checkpoint(gtids("a:1-9"), 50, mirrors=begun)
    )
    assert isinstance(made.ask(3, query("a:8", LAKE, ORDERS.table)), Applied)


NO_GTIDS = all_before("aaaaaaaa-0000-0000-0000-000000000000", Coordinates("binlog.000001", 400))


@pytest.mark.parametrize(
    ("journal", "asked", "said"),
    [
        (sealed(5, "a:1-9"), query("a:1", LAKE, TableId("other", "t")), "other.t isn't captured"),
        (sealed(5, "a:1-9"), query("a:1", LAKE, TableId("shop", "t")), "the source has no table shop.t"),
        (
            sealed(5, "a:1-9", stopped={ORDERS.table: "a column has no type"}),
            query("a:1", LAKE, ORDERS.table),
            "shop.orders was stopped: a column has no type",
        ),
        (
            sealed(5, "a:1-9", stopped={ORDERS.table: "it"}),
            query("a:1"),
            "shop.orders was stopped: it; name the tables that you mean",
        ),
        (sealed(5, NO_GTIDS), query("a:1", JOURNAL), "the source has no GTIDs"),
    ],
)
def test_what_can_never_come_is_refused_at_once_and_while_it_waits(
    journal: JournalProgress, asked: AppliedQuery, said: str
) -> None:
    refused = waiters(journal, delivered(5, "a:1-9")).ask(1, asked)
    assert isinstance(refused, NeverApplied)
    assert refused.reason.startswith(said)
    made = waiters()
    assert made.ask(1, asked) is None
    assert made.journal_progressed(journal) == [(1, refused)]


def test_what_a_consumer_leaves_out_is_refused_if_it_is_named_and_else_left_out() -> None:
    made = waiters(sealed(5, "a:1-9"), replace(delivered(5, "a:1-9"), left_out=ORDERS.table))
    assert made.ask(1, query("a:1", LAKE, ORDERS.table)) == NeverApplied(
        "shop.orders isn't delivered: `lake.tables` leaves it out"
    )
    told = made.ask(2, query("a:1"))
    assert isinstance(told, Applied)
    assert set(told.read_at) == {ITEMS.table}


@pytest.mark.parametrize("through", [LAKE, JOURNAL])
def test_a_table_that_the_configuration_leaves_out_keeps_nobody_waiting_who_does_not_name_it(
    through: Through,
) -> None:
    """It has stopped, and its part of the lake lacks what came since."""
    left_out = TableId("old", "orders")
    lacking = {left_out: TableProgress(at(5, "a:1-9"), lacks="it begins again")}
    made = waiters(
        sealed(5, "a:1-9", schemas={**TABLES, left_out: ORDERS}, stopped={left_out: "it was left out"}),
        replace(delivered(5, "a:1-9"), tables=lacking),
    )
    told = made.ask(1, query("a:1", through))
    assert isinstance(told, Applied)
    assert left_out not in told.read_at
    refused = made.ask(2, query("a:1", through, left_out))
    assert isinstance(refused, NeverApplied)
    assert refused.reason.startswith("old.orders isn't captured")


def test_a_table_that_stops_in_the_lake_meanwhile_refuses_those_who_wait_for_it() -> None:
    made = waiters(sealed(5, "a:1-9"), delivered(4, "a:1-7"))
    assert made.ask(1, query("a:9", LAKE, ORDERS.table)) is None
    gone = TableProgress(at(5, "a:1-9"), stopped="INT to VARCHAR")
    [(_, answer)] = made.consumer_reached(LAKE, delivered(5, "a:1-9", orders=gone))
    assert answer == NeverApplied("shop.orders was stopped: INT to VARCHAR")


def test_the_first_of_several_stopped_tables_are_named_with_their_reasons() -> None:
    stopped = {TableId("shop", name): f"for {name}" for name in "edcba"}
    captured = dict.fromkeys(stopped, ORDERS)
    made = waiters(sealed(5, "a:1-9", stopped=stopped, schemas=captured), delivered(5, "a:1-9"))
    named = made.ask(1, query("a:1", LAKE, TableId("shop", "b"), TableId("shop", "d")))
    assert named == NeverApplied("shop.b was stopped: for b; shop.d was stopped: for d")
    assert made.ask(2, query("a:1")) == NeverApplied(
        "shop.a was stopped: for a; shop.b was stopped: for b; shop.c was stopped: for c; 2 more were stopped; "
        "name the tables that you mean: in the request with `tables`, on the command line with --tables"
    )


def test_all_tables_that_stopped_in_the_lake_are_named_before_what_another_one_lacks() -> None:
    gone, late = (
        TableProgress(at(5, "a:1-9"), stopped="why"),
        TableProgress(at(5, "a:1-9"), lacks="it begins"),
    )
    made = waiters(sealed(5, "a:1-9"), delivered(5, "a:1-9", items=late, orders=gone))
    assert made.ask(1, query("a:1", LAKE, ORDERS.table, ITEMS.table)) == NeverApplied(
        "shop.orders was stopped: why"
    )
    made = waiters(sealed(5, "a:1-9"), delivered(5, "a:1-9", items=gone, orders=gone))
    assert made.ask(1, query("a:1", LAKE, ORDERS.table, ITEMS.table)) == NeverApplied(
        "shop.items was stopped: why; shop.orders was stopped: why"
    )


def test_only_what_the_source_has_not_executed_is_refused_and_nothing_at_a_replica() -> None:
    made = waiters(sealed(5, "a:1-9"), delivered(4, "a:1-7"))
    assert not made.unconfirmed(gtids("a:9"))
    assert made.unconfirmed(gtids("a:12"))
    for waiter, asked in enumerate(["a:12", "a:10", "a:14"]):
        assert made.ask(waiter, query(asked)) is None
    assert not made.lack(gtids("a:1-12"), [0, 1, 99])
    assert made.lack(gtids("a:1-11"), [0, 1])
    assert made.executed_found(gtids("a:1-11"), [0, 1], replica=True) == []
    assert made.executed_found(gtids("a:1-11"), [0, 1, 99], replica=False) == [
        (0, NeverApplied(f"the source hasn't executed {gtids('a:12')}"))
    ]
    assert not made.unconfirmed(gtids("a:11"))
    assert made.withdraw(1) == NotYetApplied(
        at(4, "a:1-7"), gtids("a:10"), f"the journal hasn't reached {gtids('a:10')}"
    )
    made.withdraw(2)
    assert len(made) == 0


def test_before_anything_is_known_it_waits() -> None:
    made = waiters()
    for waiter in (1, 2):
        assert made.ask(waiter, query("a:1")) is None
    assert made.withdraw(1).reason.startswith("nothing is known of the journal yet")
    assert made.journal_progressed(sealed(1, "a:1")) == []
    assert made.withdraw(2).reason == "nothing is known of the lake yet"


POSITIONS = ["a:1", "a:1-2", "a:1:3", "a:1-3", "a:1-3,b:1", "a:1-5,b:1", "a:1-5,b:1-2,a:t:1"]
WANTED = ["a:1", "a:3", "a:2,b:1", "a:t:1", "a:4-5"]
steps = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(WANTED), st.sampled_from([(), (ORDERS.table,), tuple(TABLES)])),
    st.tuples(st.just("journal"), st.integers(0, 6), st.none()),
    st.tuples(st.just("lake"), st.integers(0, 6), st.sampled_from([None, "orders", "lacks", "unread"])),
    st.tuples(st.just("leave"), st.integers(0, 9), st.none()),
)


@given(st.lists(steps, max_size=25))
def test_each_is_answered_when_it_holds_and_not_before(script: list[tuple[str, object, object]]) -> None:
    """The lake may be reported again with less, as after a restart of the sink."""
    made, asked = waiters(sealed(1, "a:1")), dict[int, AppliedQuery]()
    journal, lake, reached = 0, -1, dict[TableId, TableProgress]()

    def holds(wanted: AppliedQuery) -> bool:
        tables = wanted.tables if wanted.tables is not None else frozenset(TABLES)
        if lake < 0 or not wanted.gtid_set <= gtids(POSITIONS[journal]):
            return False
        told = [reached.get(t, TableProgress(at(lake + 1, POSITIONS[lake]))) for t in tables]
        return all(wanted.gtid_set <= each.reached.position and each.lacks is None for each in told)

    for kind, what, more in script:
        answers: list[tuple[int, Answer]] = []
        match kind, what, more:
            case "ask", str(wanted), tuple(tables):
                number = max(asked, default=0) + 1
                new = query(wanted, LAKE, *tables)
                answer = made.ask(number, new)
                assert (answer is not None) == holds(new)
                if answer is None:
                    asked[number] = new
            case "journal", int(to), _:
                journal = max(journal, to)
                answers = made.journal_progressed(sealed(journal + 1, POSITIONS[journal]))
            case "lake", int(to), how:
                lake = min(to, journal)
                less = at(max(0, lake - 1) + 1, POSITIONS[max(0, lake - 1)])
                own = at(lake + 1, POSITIONS[lake])
                reached = {
                    "orders": {ORDERS.table: TableProgress(less)},
                    "lacks": {ITEMS.table: TableProgress(own, lacks="it fills")},
                    "unread": {ITEMS.table: TableProgress(own, unread=1000)},
                }.get(str(how), {})
                answers = made.consumer_reached(LAKE, Delivered(own, own, reached))
            case "leave", int(which), _:
                if which in asked:
                    made.withdraw(which)
                    del asked[which]
        for number, answer in answers:
            assert isinstance(answer, Applied)
            assert holds(asked.pop(number))
        assert not any(map(holds, asked.values()))
        assert len(made) == len(asked)


def test_a_waiter_costs_nothing_until_what_it_waits_for_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    inner: Callable[..., object] = Waiters._answer_or_lack

    def look(made: Waiters, waiting: object) -> object:
        nonlocal looked
        looked += 1
        return inner(made, waiting)

    monkeypatch.setattr(Waiters, "_answer_or_lack", look)
    made = waiters(sealed(1, "a:1"), delivered(1, "a:1"))
    for waiter in range(10_000):
        made.ask(waiter, query(f"a:{waiter + 100}"))
    looked = 0
    for segment in range(2, 99):
        made.journal_progressed(sealed(segment, f"a:1-{segment}"))
        made.consumer_reached(LAKE, delivered(segment, f"a:1-{segment}"))
    assert looked == 0
    made.journal_progressed(sealed(100, "a:1-102"))
    assert looked == 3
