"""The KafkaSink's decisions, one by one; `tests/simulation` has its lives with kills and predecessors."""

from dataclasses import replace

import pytest

from pipeline.errors import InvariantBroken
from pipeline.kafka import position as positions
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.facts import (
    BatchDivided,
    Fact,
    KafkaStopRequested,
    KafkaTimerFired,
    OpenRecordsFound,
    PlacesFound,
    PortionSent,
    SegmentPlanned,
    StopTimePassed,
    TopicRefused,
    TransactionCommitted,
)
from pipeline.kafka.orders import (
    BeginAgain,
    BeginTransaction,
    BreakOff,
    CommitTransaction,
    ConfirmSegment,
    Order,
    PlanSegment,
    ReportCaughtUp,
    ReportRest,
    ReportSetAside,
    SendHeartbeat,
    SendNotifications,
    SendPortion,
)
from pipeline.kafka.portions import MOST_PORTION_BYTES, Capacity, Portion
from pipeline.kafka.position import FormerRouting, KafkaPosition, NamedPosition, SetAside, SinkPosition
from pipeline.kafka.state import (
    AllSent,
    AllTopicsBut,
    FindingPosition,
    JournalBounds,
    OneTopic,
    SendingPortion,
    State,
    includes,
)
from pipeline.kafka.step import (
    AGAIN_AFTER_S,
    COMMITS_WITHIN_S,
    SENDS_FOR_S,
    PositionLost,
    RoutesChanged,
    sets_aside,
    timer_at,
)
from pipeline.kafka.topics import Routing
from pipeline.messages.journal import SegmentSealed

BOUNDS = JournalBounds("j", 1, 9, 0, False)


EVERY = AllTopicsBut(frozenset())
CAPACITY = Capacity(4)


def found(position: KafkaPosition | None = None, of: str | None = "j", **journal: object) -> PlacesFound:
    bounds = JournalBounds(**{**{f: getattr(BOUNDS, f) for f in BOUNDS.__dataclass_fields__}, **journal})
    if position is None:
        return PlacesFound(None, None, bounds)
    return PlacesFound(SinkPosition(position), of, bounds)


def step(state: State, fact: Fact, now: float = 0.0) -> tuple[State, tuple[Order, ...]]:
    return kafka_sink.step(state, fact, now)


def beat(state: State) -> tuple[State, tuple[Order, ...]]:
    """It is time for a heartbeat, and for no topic."""
    later = dict.fromkeys(state.at.set_aside, 2.0)
    return step(replace(state, heartbeat_at=1.0, again=later), KafkaTimerFired(1), 1.0)


def due(state: State, topic: str, first: int = 1) -> tuple[State, tuple[Order, ...]]:
    """It is time for this topic, and for no other one."""
    later = dict.fromkeys(state.at.set_aside, 2.0)
    return step(replace(state, again={**later, topic: 1.0}), KafkaTimerFired(first), 1.0)


def idle(**set_aside: SetAside) -> State:
    return State(4, SinkPosition(KafkaPosition(3 if set_aside else 0), set_aside), AllSent())


def test_a_start_continues_where_the_topic_says() -> None:
    state, orders = step(State(4), found(KafkaPosition(3, 7, 2)))
    assert state.at == SinkPosition(KafkaPosition(3, 7, 2), routing=Routing())
    assert orders == (ConfirmSegment(3, 3), BeginTransaction(), PlanSegment(4, 7, True, CAPACITY))
    state, orders = step(State(4), found(joined=5))
    assert (state.at.position, orders) == (
        KafkaPosition(5),
        (BeginTransaction(), PlanSegment(6, 0, False, CAPACITY)),
    )
    assert step(State(4), found(KafkaPosition(9)))[1] == (ConfirmSegment(9, 9),)
    _, orders = step(State(4), found(KafkaPosition(4, 7, 2), unchecked_end=5))
    assert orders[0] == ConfirmSegment(4, 4)


ONE, OTHER, THIRD = Routing("one"), Routing("other"), Routing("third")


def test_topics_that_lack_rows_keep_their_tables() -> None:
    """By other settings a topic would miss rows of tables that are elsewhere now, and get rows that were sent."""
    aside = {"p.a": SetAside(KafkaPosition(1), "too large")}
    there = SinkPosition(KafkaPosition(3), aside, ONE)
    state, _ = step(State(4, routing=OTHER), PlacesFound(there, "j", BOUNDS))
    assert state.at == SinkPosition(KafkaPosition(3), aside, OTHER, (FormerRouting(3, ONE),))
    assert [state.routing_of(segment) for segment in (2, 3, 4)] == [ONE, ONE, OTHER]
    # Settings change again in the middle of a segment, which goes on by those with which it began.
    amid = replace(state.at, position=KafkaPosition(5, 7, 2))
    state, _ = step(State(4, routing=THIRD), PlacesFound(amid, "j", BOUNDS))
    assert [state.routing_of(segment) for segment in (3, 4, 6, 7)] == [ONE, OTHER, OTHER, THIRD]
    # What nobody lacks is of no more use.
    state, _ = step(State(4, routing=OTHER), PlacesFound(replace(amid, set_aside={}), "j", BOUNDS))
    assert state.at.former == ()
    beats = State(4, heartbeat_topic="p.a", routing=OTHER)
    marked = {"p.a": replace(aside["p.a"], beats=True)}
    at = step(beats, PlacesFound(there, "j", BOUNDS))[0].at
    assert at == replace(there, set_aside=marked, routing=OTHER)


def test_what_an_earlier_version_did_not_note_is_not_guessed() -> None:
    aside = {"p.a": SetAside(KafkaPosition(1), "too large")}
    there = SinkPosition(KafkaPosition(3), aside, ONE.digest)
    with pytest.raises(
        RoutesChanged, match=r"p\.a was set aside \(too large\).*kafka\.topic_routes.*put them back"
    ):
        step(State(4, routing=OTHER), PlacesFound(there, "j", BOUNDS))
    for at, routing in [
        (there, ONE),
        (replace(there, routing=""), OTHER),
        (replace(there, set_aside={}), OTHER),
    ]:
        state, _ = step(State(4, routing=routing), PlacesFound(at, "j", BOUNDS))
        assert state.at == replace(at, routing=routing)


def test_no_kafka_transaction_has_rows_of_two_settings() -> None:
    """And the earlier ones are known for as long as a topic lacks rows that went by them."""
    aside = {"p.a": SetAside(KafkaPosition(2), "too large")}
    former = (FormerRouting(3, ONE),)
    state = State(9, SinkPosition(KafkaPosition(5), aside, OTHER, former), AllSent(), routing=OTHER)
    state, orders = due(state, "p.a")
    assert orders == (BeginTransaction(), PlanSegment(3, 0, False, Capacity(9)))
    state, _ = step(state, SegmentPlanned((Portion(1, 1, 1),)))
    state, orders = step(state, PortionSent(1, ended=True))
    lacking = replace(aside["p.a"], position=KafkaPosition(3))
    after = SinkPosition(KafkaPosition(5), {"p.a": lacking}, OTHER)
    assert orders[-1] == CommitTransaction(after), "it ends where the others begin"
    state, _ = step(state, TransactionCommitted())
    state, orders = due(state, "p.a")
    assert orders[-1] == PlanSegment(4, 0, False, Capacity(9))
    # A Kafka transaction without a row may go on.
    state = State(9, SinkPosition(KafkaPosition(5), aside, OTHER, former), AllSent(), routing=OTHER)
    state, _ = due(state, "p.a")
    state, orders = step(state, SegmentPlanned(()))
    assert orders[-1] == PlanSegment(4, 0, False, Capacity(9))


def test_earlier_settings_say_which_topic_lacks_what_the_journal_has_no_more() -> None:
    aside = {"p.a": SetAside(KafkaPosition(1), "too large")}
    former = (FormerRouting(3, ONE),)
    state = State(9, SinkPosition(KafkaPosition(5), aside, OTHER, former), AllSent(), routing=OTHER)
    state, orders = due(state, "p.a", 5)
    assert "the journal begins with 5" in state.at.set_aside["p.a"].reason
    assert orders == (ConfirmSegment(5, 5),), "the journal keeps nothing for it"
    state, _ = step(state, SegmentSealed(6))
    state, _ = step(state, SegmentPlanned((Portion(1, 1, 1),)))
    state, orders = step(state, PortionSent(1, ended=True))
    assert isinstance(orders[-1], CommitTransaction)
    assert orders[-1].at.former == former


def test_rows_of_an_earlier_version_continue_table_by_table_to_the_end_of_their_transaction() -> None:
    at = KafkaPosition(0, 7, 8, by_table=True)
    state, _ = step(State(4, next_rows=4), found(at))
    state, (send,) = step(state, SegmentPlanned((Portion(8, 8, 9), Portion(9, 9, 9))))
    assert send == SendPortion(EVERY, 1, Portion(8, 8, 9), 8, 4, by_table=True)
    split, orders = step(state, PortionSent(4, ended=False))
    assert orders == (CommitTransaction(SinkPosition(replace(at, rows=12), routing=Routing())),)
    state, _ = step(split, TransactionCommitted())
    state, _ = step(state, PortionSent(1, ended=True))
    state, orders = step(state, TransactionCommitted())
    assert orders[-1] == SendPortion(EVERY, 1, Portion(9, 9, 9), 0, 4)


def test_a_topic_that_refuses_is_set_aside_where_all_were() -> None:
    state, _ = step(idle(), SegmentSealed(1))
    state, _ = step(state, SegmentPlanned((Portion(1, 2, 3),)))
    state, orders = step(state, TopicRefused("a", "too large"))
    assert state.doing == FindingPosition({"a": "too large"})
    assert orders == (ReportSetAside("a", "too large"), BeginAgain())
    state, orders = step(state, found(KafkaPosition(0), last=1))
    assert state.at.set_aside == {"a": SetAside(KafkaPosition(0), "too large")}
    assert orders == (ConfirmSegment(0, 0), BeginTransaction(), PlanSegment(1, 0, False, CAPACITY))
    state, (send,) = step(state, SegmentPlanned((Portion(1, 2, 3),)))
    assert isinstance(send, SendPortion)
    assert [topic for topic in ("a", "b") if includes(send.topics, topic)] == ["b"]
    state, (reports, commit) = step(state, PortionSent(3, ended=True))
    assert reports == SendNotifications(send.topics, 1)
    assert commit == CommitTransaction(replace(state.at, position=KafkaPosition(1)))
    # Retention keeps what the topic lacks.
    assert step(state, TransactionCommitted())[1] == (ConfirmSegment(0, 0),)


def test_a_refusal_comes_from_topics_that_are_sent_to() -> None:
    """The sink sets no other topic aside: it would be tried again at once, without end."""
    aside = {"a": SetAside(KafkaPosition(2), "too large")}
    state = idle(**aside)
    assert state.sending_to is None and State(4).sending_to is None
    assert not sets_aside(state, TopicRefused("a", "no")) and not sets_aside(state, TopicRefused("b", "no"))
    for begun, topics, taken, refused in (
        (step(state, SegmentSealed(4))[0], AllTopicsBut(frozenset("a")), "b", "a"),
        (due(state, "a")[0], OneTopic("a"), "a", "b"),
    ):
        assert begun.sending_to == topics
        assert sets_aside(begun, TopicRefused(taken, "no", "events"))
        assert not sets_aside(begun, TopicRefused(refused, "no", taken))
        planned, _ = step(begun, SegmentPlanned((Portion(7, 7, 1),)))
        assert planned.sending_to == topics
        sent, (*_, commit) = step(planned, PortionSent(1, ended=True))
        assert isinstance(commit, CommitTransaction) and sent.sending_to == topics
        assert step(sent, TransactionCommitted())[0].sending_to is None


def test_the_topic_of_the_position_is_never_set_aside() -> None:
    """Unless it is that of a table, whose rows make no messages."""
    state, _ = step(replace(idle(), position_topic="position"), SegmentSealed(1))
    assert not sets_aside(state, TopicRefused("position", "no", "position"))
    assert not sets_aside(state, TopicRefused("a", "no", "position"))
    assert sets_aside(state, TopicRefused("position", "its rows go there"))


def sending(**set_aside: SetAside) -> State:
    state, _ = step(idle(**set_aside), SegmentSealed(4))
    return step(state, SegmentPlanned((Portion(7, 7, 1),)))[0]


def again(state: State) -> tuple[State, tuple[Order, ...]]:
    """It has begun again, and sends the same."""
    state, orders = step(state, PlacesFound(state.at, "j", replace(BOUNDS, last=4)))
    return step(state, SegmentPlanned((Portion(7, 7, 1),)))[0], orders


def test_open_records_are_ended_before_anything_is_sent_and_by_each_later_producer() -> None:
    aside = SetAside(KafkaPosition(2), "too large")
    state, orders = step(sending(a=aside), OpenRecordsFound(frozenset({("b", 0)})))
    assert (state.doing, orders) == (
        FindingPosition({"a": "too large"}),
        (BeginAgain(frozenset({("b", 0)})),),
    )
    state, _ = again(state)
    state, orders = step(state, OpenRecordsFound(frozenset({("c", 1)})))
    both = frozenset({("b", 0), ("c", 1)})
    assert orders == (BeginAgain(both),)
    # No marker can be written to a topic that refuses.
    state, _ = again(state)
    state, orders = step(state, TopicRefused("d", "no", "c"))
    assert orders == (ReportSetAside("d", "c: no"), BeginAgain(frozenset({("b", 0)})))


def test_a_batch_that_is_too_large_is_divided_until_the_topic_takes_it() -> None:
    state = sending(a=SetAside(KafkaPosition(2), "too large"))
    for size, most in ((1000, 500), (700, 250), (100, 50), (1, 1)):
        state, orders = step(state, BatchDivided("b", size))
        assert (state.doing, orders) == (FindingPosition({"a": "too large"}), (BeginAgain(),))
        state, orders = again(state)
        assert BeginTransaction({"b": most}) in orders
    state, _ = step(state, PortionSent(1, ended=True))
    state, _ = step(state, TransactionCommitted())
    assert beat(state)[1][0] == BeginTransaction({"b": 1})


def test_a_topic_that_refuses_is_tried_again_later_and_one_that_advances_at_once() -> None:
    """A start knows no time, so it tries them all."""
    aside = {"a": SetAside(KafkaPosition(1), "no"), "b": SetAside(KafkaPosition(2), "no")}
    state = idle(**aside)
    assert timer_at(state) == 0.0
    trying, orders = step(state, KafkaTimerFired(1), 5.0)
    assert orders[-1] == PlanSegment(2, 0, False, CAPACITY), "the first of those that are due"
    assert timer_at(trying) is None
    # It refuses again, and the other one is due.
    refused, _ = step(trying, TopicRefused("a", "still not"), 7.0)
    refused, _ = step(refused, PlacesFound(state.at, "j", replace(BOUNDS, last=3)), 8.0)
    assert refused.again == {"a": 7.0 + AGAIN_AFTER_S} and timer_at(refused) == 0.0
    other, orders = step(refused, KafkaTimerFired(1), 9.0)
    assert orders[-1] == PlanSegment(3, 0, False, CAPACITY)
    other, _ = step(other, SegmentPlanned(()), 10.0)
    other, orders = step(other, TransactionCommitted(), 11.0)
    assert orders == (ConfirmSegment(1, 1), ReportCaughtUp("b"))
    assert timer_at(other) == 7.0 + AGAIN_AFTER_S
    assert step(other, KafkaTimerFired(1), 7.0 + AGAIN_AFTER_S - 0.001) == (other, ()), "it isn't due yet"
    # It takes some, and there is more: it is due at once, after all that have waited.
    advanced, _ = step(other, KafkaTimerFired(1), 40.0)
    advanced, _ = step(advanced, SegmentPlanned((Portion(5, 6, 3), Portion(7, 9, 3))), 41.0)
    advanced, _ = step(advanced, PortionSent(3, ended=True), 42.0)
    advanced, orders = step(advanced, TransactionCommitted(), 43.0)
    assert advanced.at.set_aside["a"].position == KafkaPosition(1, 6)
    assert orders == (ConfirmSegment(1, 1),) and timer_at(advanced) == 43.0
    # What the journal doesn't have any more doesn't come at once either.
    gone, _ = step(other, KafkaTimerFired(3), 40.0)
    assert timer_at(gone) == 40.0 + AGAIN_AFTER_S


def test_a_heartbeat_is_due_so_long_after_the_last_one_has_ended() -> None:
    beats = State(4, heartbeat_topic="beats", heartbeat_s=10.0)
    state, _ = step(beats, found(KafkaPosition(9)), 1.0)
    assert timer_at(state) == 11.0
    assert step(state, KafkaTimerFired(1), 10.9) == (state, ())
    beating, orders = step(state, KafkaTimerFired(1), 11.5)
    assert orders == (BeginTransaction(), SendHeartbeat(EVERY), CommitTransaction(state.at))
    assert timer_at(beating) is None
    assert timer_at(step(beating, TransactionCommitted(), 14.0)[0]) == 24.0
    # What is sealed meanwhile doesn't put it off.
    sealed, _ = step(state, SegmentSealed(10), 5.0)
    sealed, _ = step(sealed, SegmentPlanned(()), 6.0)
    assert timer_at(step(sealed, TransactionCommitted(), 7.0)[0]) == 11.0
    # Its topic is set aside: it is the topic that is tried.
    alone = replace(state, at=replace(state.at, set_aside={"beats": SetAside(KafkaPosition(9), "no")}))
    alone = replace(alone, again={"beats": 41.0})
    assert step(alone, KafkaTimerFired(1), 11.5) == (replace(alone, heartbeat_at=21.5), ())


def test_what_has_been_due_longest_comes_first() -> None:
    aside = SinkPosition(KafkaPosition(9), {"a": SetAside(KafkaPosition(1), "no")})
    state = State(4, aside, AllSent(), heartbeat_at=11.0)
    heartbeat = (
        BeginTransaction(),
        SendHeartbeat(AllTopicsBut(frozenset("a"))),
        CommitTransaction(aside),
    )
    tried = (BeginTransaction(), PlanSegment(2, 0, False, CAPACITY))
    for again, orders in (
        ({}, tried),
        ({"a": 10.9}, tried),
        ({"a": 11.0}, heartbeat),
        ({"a": 11.1}, heartbeat),
    ):
        assert step(replace(state, again=again), KafkaTimerFired(1), 11.5)[1] == orders


def test_heartbeats_and_a_topic_that_catches_up_alternate_if_each_takes_longer_than_the_interval() -> None:
    """As with a journal in an object store, where ConfirmSegment and a look for the first segment take long."""
    aside = SinkPosition(KafkaPosition(5), {"a": SetAside(KafkaPosition(1), "no")})
    state = State(1, aside, AllSent(), next_rows=1, heartbeat_s=0.1, heartbeat_at=0.0, again={"a": 30.0})
    now, came = 30.0, ""
    while state.at.set_aside:
        now += 1.0
        state, orders = step(state, KafkaTimerFired(1), now)
        came += "heartbeat " if any(isinstance(each, SendHeartbeat) for each in orders) else "a "
        if isinstance(orders[-1], PlanSegment):
            state, _ = step(state, SegmentPlanned((Portion(7, 7, 1),)), now)
            state, _ = step(state, PortionSent(1, ended=True), now)
        state, _ = step(state, TransactionCommitted(), now)
        assert len(came) < 100, came
    assert came.split() == ["heartbeat", "a"] * 4


def test_the_journal_keeps_the_segment_before_for_what_the_next_one_reports() -> None:
    for notifies, needless in ((False, 9), (True, 8)):
        _, orders = step(State(4, notifies=notifies), found(KafkaPosition(9)))
        assert orders == (ConfirmSegment(9, needless),)
    assert step(State(4, notifies=True), found(KafkaPosition(0), last=0))[1] == (ConfirmSegment(0, 0),)


def test_a_topic_that_was_set_aside_catches_up_alone_and_is_one_of_them_again() -> None:
    state, orders = due(idle(a=SetAside(KafkaPosition(2), "too large")), "a")
    assert orders == (BeginTransaction(), PlanSegment(3, 0, False, CAPACITY))
    state, (send,) = step(state, SegmentPlanned((Portion(5, 6, 3),)))
    assert send == SendPortion(OneTopic("a"), 3, Portion(5, 6, 3), 0, 4)
    assert [topic for topic in ("a", "b") if includes(OneTopic("a"), topic)] == ["a"]
    state, orders = step(state, PortionSent(3, ended=True))
    assert orders == (SendNotifications(OneTopic("a"), 3), CommitTransaction(SinkPosition(KafkaPosition(3))))
    state, orders = step(state, TransactionCommitted())
    assert state == State(4, SinkPosition(KafkaPosition(3)), AllSent())
    assert orders == (ConfirmSegment(3, 3), ReportCaughtUp("a"))


def test_a_topic_that_refuses_again_stays_where_it_was() -> None:
    aside = {"a": SetAside(KafkaPosition(2), "too large"), "b": SetAside(KafkaPosition(1), "no right")}
    state, _ = due(idle(**aside), "a")
    state, _ = step(state, SegmentPlanned((Portion(5, 6, 3),)))
    state, _ = step(state, TopicRefused("a", "still too large"))
    there = SinkPosition(KafkaPosition(3), aside)
    state, orders = step(state, PlacesFound(there, "j", replace(BOUNDS, last=3)))
    assert state.at.set_aside == {**aside, "a": SetAside(KafkaPosition(2), "still too large")}
    assert orders == (ConfirmSegment(1, 1),)


def test_a_topic_whose_messages_the_journal_no_longer_has_is_not_guessed() -> None:
    """Nor does the journal keep anything for it: what it lacks won't come back."""
    state, orders = due(idle(a=SetAside(KafkaPosition(1), "too large")), "a", 3)
    assert orders == (ConfirmSegment(3, 3),)
    assert "the journal begins with 3" in state.at.set_aside["a"].reason
    assert state.at.set_aside["a"].position == KafkaPosition(1)
    there = SinkPosition(KafkaPosition(9), {"a": SetAside(KafkaPosition(1), "too large")})
    for first, through in ((2, 1), (3, 9)):
        bounds = replace(BOUNDS, first=first)
        assert step(State(4), PlacesFound(there, "j", bounds))[1] == (ConfirmSegment(through, through),)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (found(confirmed=True), "the position topic is empty"),
        (found(KafkaPosition(3), "another"), "of the journal another"),
        (found(KafkaPosition(10)), "restored from a copy"),
        (found(KafkaPosition(6), unchecked_end=5), "ended with 5 before this service continued it"),
        (found(KafkaPosition(5, 7), unchecked_end=5), "the topics have segment 6"),
        (found(KafkaPosition(3), first=5), "the journal begins with 5"),
        (
            found(KafkaPosition(3), joined=4),
            "the topics have segment 3, and the consumer kafka was forgotten",
        ),
        (found(KafkaPosition(3, 7), joined=5), "joined the journal again after segment 5"),
        (
            found(KafkaPosition(3, 7), sent=NamedPosition("newer", KafkaPosition(4))),
            "have segment 4 by newer, .* set kafka.position_topic = 'newer'",
        ),
        (found(KafkaPosition(3, 7), sent=NamedPosition("newer", KafkaPosition(3, 8))), "sent twice"),
        (found(KafkaPosition(3, 7, 1), sent=NamedPosition("newer", KafkaPosition(3, 7, 2))), "sent twice"),
    ],
)
def test_a_position_that_does_not_fit_is_no_guess(places: PlacesFound, words: str) -> None:
    with pytest.raises(PositionLost, match=words):
        step(State(4), places)


def test_what_the_topics_have_when_the_consumer_joins_again_fits() -> None:
    """The journal has all of it as the topics need it."""
    for position, confirmed, joined in (
        (KafkaPosition(4), False, 4),
        (KafkaPosition(3, 7), False, 4),
        (KafkaPosition(3), True, 4),
    ):
        state, _ = step(State(4), found(position, confirmed=confirmed, joined=joined))
        assert state.at.position == position


def test_another_position_topic_that_is_as_far_fits_and_so_does_the_same_one_set_back() -> None:
    """With its own topics, a broker that is set back lacks what comes after its position."""
    reported, older = KafkaPosition(3, 7), KafkaPosition(2)
    for position, topic in ((reported, "newer"), (KafkaPosition(4), "newer"), (older, "same")):
        places = found(position, confirmed=True, sent=NamedPosition(topic, reported))
        assert step(State(4, position_topic="same"), places)[0].at.position == position


def test_a_fact_that_answers_nothing_is_no_fact() -> None:
    with pytest.raises(InvariantBroken, match="TransactionCommitted came while"):
        step(idle(), TransactionCommitted())


def test_what_waits_comes_in_one_transaction_up_to_a_bound() -> None:
    state, orders = step(idle(), SegmentSealed(3))
    assert orders == (BeginTransaction(), PlanSegment(1, 0, False, CAPACITY))
    state, orders = step(state, SegmentPlanned((Portion(1, 2, 3),)))
    assert orders == (SendPortion(EVERY, 1, Portion(1, 2, 3), 0, 4),)
    state, orders = step(state, PortionSent(3, ended=True))
    assert orders == (SendNotifications(EVERY, 1), PlanSegment(2, 0, False, CAPACITY))
    state, orders = step(state, SegmentPlanned((Portion(3, 4, 2), Portion(5, 5, 4))))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(1))),)
    state, orders = step(state, TransactionCommitted())
    assert orders == (ConfirmSegment(1, 1), BeginTransaction(), SendPortion(EVERY, 2, Portion(3, 4, 2), 0, 4))
    state, orders = step(state, PortionSent(2, ended=True))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(1, 4))),)


def test_a_start_takes_little_and_each_further_transaction_twice_as_much() -> None:
    state, orders = step(State(10, next_rows=2), found(last=1))
    assert orders[-1] == PlanSegment(1, 0, False, Capacity(2, MOST_PORTION_BYTES // 5))
    state, (first,) = step(state, SegmentPlanned(tuple(Portion(scn, scn, 1) for scn in range(1, 20))))
    sent = []
    while isinstance(first, SendPortion):
        sent.append(first.portion)
        state, _ = step(state, PortionSent(first.portion.rows, ended=True))
        state, orders = step(state, TransactionCommitted())
        first = orders[-1]
    assert sent == [Portion(1, 2, 2), Portion(3, 6, 4), Portion(7, 14, 8), Portion(15, 19, 5)]


def test_a_start_takes_little_of_a_source_transaction_that_is_split() -> None:
    state, _ = step(State(10, next_rows=2), found(last=1))
    state, (order,) = step(state, SegmentPlanned((Portion(1, 1, 25),)))
    most = []
    while isinstance(order, SendPortion):
        most.append(order.most)
        state, _ = step(state, PortionSent(order.most, ended=sum(most) >= 25))
        state, orders = step(state, TransactionCommitted())
        order = orders[-1]
    assert most == [2, 4, 8, 10, 10]
    state, _ = step(State(10, next_rows=2), found(last=1))
    whole = SendPortion(EVERY, 1, Portion(1, 1, 10), 0, 10)
    assert step(state, SegmentPlanned((whole.portion,)))[1] == (whole,)


def test_a_transaction_has_room_for_so_many_bytes() -> None:
    half = MOST_PORTION_BYTES // 2
    state, _ = step(State(100), found(last=1))
    state, (send,) = step(
        state, SegmentPlanned((Portion(1, 1, 9, half), Portion(2, 2, 1, half), Portion(3, 3, 1, 1)))
    )
    assert send == SendPortion(EVERY, 1, Portion(1, 2, 10, MOST_PORTION_BYTES), 0, 100)
    at = replace(state.at, position=KafkaPosition(0, 2))
    assert step(state, PortionSent(10, ended=True))[1] == (CommitTransaction(at),)


def test_a_source_transaction_of_too_many_bytes_is_split() -> None:
    state, _ = step(State(100), found(last=1))
    state, (send,) = step(state, SegmentPlanned((Portion(1, 1, 9, 3 * MOST_PORTION_BYTES),)))
    assert send == SendPortion(EVERY, 1, Portion(1, 1, 9, 3 * MOST_PORTION_BYTES), 0, 3)


def test_a_heartbeat_comes_with_the_position_that_holds() -> None:
    at = SinkPosition(KafkaPosition(2, 7, 1))
    state, orders = beat(State(4, at, AllSent()))
    assert orders == (BeginTransaction(), SendHeartbeat(EVERY), CommitTransaction(at))
    state, orders = step(state, TransactionCommitted())
    assert (state.at, state.doing) == (at, AllSent())
    with pytest.raises(InvariantBroken, match="KafkaTimerFired came while"):
        beat(step(state, SegmentSealed(4))[0])


def test_a_refused_topic_of_heartbeats_is_tried_with_heartbeats_alone_and_holds_no_segment() -> None:
    beats, table = SetAside(KafkaPosition(1), "no"), SetAside(KafkaPosition(2), "no")
    state = replace(idle(beats=beats, table=table), heartbeat_topic="beats")
    assert beat(state) == (replace(state, again={"beats": 2.0, "table": 2.0}), ())
    trying, orders = due(state, "beats", 9)
    after = replace(state.at, set_aside={"table": table})
    assert orders == (BeginTransaction(), SendHeartbeat(OneTopic("beats")), CommitTransaction(after))
    # It refuses again: it stays where it is, and the journal keeps what the table's topic lacks, and no more.
    refused, orders = step(trying, TopicRefused("beats", "still not"))
    assert orders == (BeginAgain(),)
    refused, orders = step(refused, PlacesFound(state.at, "j", replace(BOUNDS, last=3)))
    still = SetAside(KafkaPosition(1), "still not", beats=True)
    assert refused.at.set_aside == {"beats": still, "table": table}
    assert orders == (ConfirmSegment(2, 2),)
    # It takes one.
    taken, orders = step(trying, TransactionCommitted())
    assert (taken.at, taken.doing) == (after, AllSent())
    assert orders == (ConfirmSegment(2, 2), ReportCaughtUp("beats"))
    assert beat(taken)[1][1] == SendHeartbeat(AllTopicsBut(frozenset({"table"})))


@pytest.mark.parametrize("now", [None, "q-beats"])
def test_a_refused_topic_of_heartbeats_that_none_go_to_any_more_is_forgotten(now: str | None) -> None:
    """The journal has no segment any more from where it was set aside, and other routes lack nothing of it."""
    bounds, table = replace(BOUNDS, first=5, last=9), SetAside(KafkaPosition(6), "no")
    earlier = SetAside(KafkaPosition(1), "no")  # as an earlier version wrote it
    there = SinkPosition(KafkaPosition(9), {"beats": earlier, "table": table})
    state, _ = step(State(4, heartbeat_topic="beats"), PlacesFound(there, "j", bounds))
    assert state.at.set_aside == {"beats": replace(earlier, beats=True), "table": table}
    then = positions.from_json(positions.to_json(state.at))
    state, orders = step(State(4, heartbeat_topic=now), PlacesFound(then, "j", bounds))
    assert state.at.set_aside == {"table": table}
    assert orders == (ConfirmSegment(6, 6),)
    alone = replace(then, set_aside={"beats": then.set_aside["beats"]}, routing="0123")
    state, _ = step(State(4, heartbeat_topic=now), PlacesFound(alone, "j", bounds))
    assert (state.at.set_aside, state.at.former) == ({}, ())
    # A topic of a table that refuses meanwhile stays what it is.
    state, _ = step(replace(state, doing=FindingPosition({"table": "no"})), PlacesFound(then, "j", bounds))
    assert state.at.set_aside == {"table": table}


def test_segments_without_rows_are_passed_in_one_transaction() -> None:
    state, _ = step(idle(), SegmentSealed(2))
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (SendNotifications(EVERY, 1), PlanSegment(2, 0, False, CAPACITY))
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (SendNotifications(EVERY, 2), CommitTransaction(SinkPosition(KafkaPosition(2))))
    assert step(state, TransactionCommitted())[1] == (ConfirmSegment(2, 2),)


def test_a_run_of_several_source_transactions_is_never_split() -> None:
    state = idle()
    state, _ = step(state, SegmentSealed(1))
    state, _ = step(state, SegmentPlanned((Portion(1, 2, 3),)))
    assert isinstance(state.doing, SendingPortion)
    with pytest.raises(InvariantBroken, match="was split"):
        step(state, PortionSent(2, ended=False))


STOP: float = 10.0
SENT_BY = STOP + SENDS_FOR_S
COMMITTED_BY = SENT_BY + COMMITS_WITHIN_S


def stopping(state: State) -> State:
    """A stop has begun."""
    state, orders = step(state, KafkaStopRequested(STOP), STOP)
    assert orders == ()
    return state


def committing_last(state: State) -> State:
    """A stop has lasted so long that nothing more is sent."""
    state, orders = step(stopping(state), StopTimePassed(), SENT_BY)
    assert orders == ()
    return state


def test_a_stop_sends_for_a_while_then_commits_what_it_has_sent_and_leaves_the_rest() -> None:
    state, _ = step(idle(), SegmentSealed(3))
    state = stopping(state)
    assert timer_at(state) == SENT_BY
    assert step(state, StopTimePassed(), STOP) == (state, ())
    state, orders = step(state, SegmentPlanned((Portion(1, 2, 2),)))
    assert orders == (SendPortion(EVERY, 1, Portion(1, 2, 2), 0, 4),)
    state, orders = step(state, StopTimePassed(), SENT_BY)
    assert (timer_at(state), orders) == (COMMITTED_BY, ())
    state, orders = step(state, PortionSent(2, ended=True))
    assert orders == (SendNotifications(EVERY, 1), CommitTransaction(SinkPosition(KafkaPosition(1))))
    state, orders = step(state, TransactionCommitted())
    assert (timer_at(state), orders) == (None, (ConfirmSegment(1, 1), ReportRest(1)))


def test_a_stop_that_has_lasted_long_enough_begins_no_kafka_transaction() -> None:
    assert step(committing_last(idle()), SegmentSealed(3))[1] == (ReportRest(0),)
    finding = committing_last(State(4))
    assert step(finding, found(KafkaPosition(3)))[1] == (ConfirmSegment(3, 3), ReportRest(3))
    state, orders = step(finding, found(KafkaPosition(9)))
    assert (state.doing, orders) == (AllSent(), (ConfirmSegment(9, 9),))
    assert timer_at(stopping(replace(idle(), heartbeat_at=1.0))) == SENT_BY


def committing() -> State:
    state, _ = step(idle(), SegmentSealed(4))
    state, _ = step(state, SegmentPlanned((Portion(7, 7, 4),)))
    state, orders = step(state, PortionSent(4, ended=True))
    assert isinstance(orders[-1], CommitTransaction)
    return state


@pytest.mark.parametrize(
    ("state", "segment"),
    [
        (State(4), None),
        (step(idle(), SegmentSealed(3))[0], 0),
        (sending(), 0),
        (committing(), 0),
    ],
    ids=["finding", "planning", "sending", "committing"],
)
def test_what_is_under_way_when_a_stop_has_lasted_too_long_is_broken_off(
    state: State, segment: int | None
) -> None:
    state, orders = step(committing_last(state), StopTimePassed(), COMMITTED_BY)
    assert orders == (BreakOff(), ReportRest(segment))
    assert step(state, TransactionCommitted()) == (state, ())
