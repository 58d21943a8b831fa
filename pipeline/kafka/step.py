"""How the journal gets into topics, exactly once: the KafkaSink's decisions, without Kafka.

A Kafka transaction holds messages and, in the position topic, the position in the journal that they bring the topics
to. One commit makes both visible, or neither. So a reader of committed messages that finds a position has exactly the
messages up to it.

**A start** finds the position in that topic and nowhere else. By then our transactional id has a new epoch: the broker
has ended a predecessor's open transaction, and accepts nothing from it any more. So nothing can be added after the sink
has read the position.

**A Kafka transaction** takes all that waits, up to a bound (`State.most_rows`, `portions.MOST_PORTION_BYTES`). It ends
between two source transactions. Only a source transaction that alone exceeds the bound is split.

**The first Kafka transaction** of a start takes few rows, and each further one twice as many. So a short life, or a
slow broker, still brings the topics forward: the next life begins after the last commit of this one.

**A failure** of the broker aborts the Kafka transaction and ends the actor. The next start continues from the last
committed one. It knows only the position, and so such a failure is no fact here. What a topic alone has is one:
TopicRefused, OpenRecordsFound and BatchDivided.

**A topic that refuses** doesn't delay any other topic. The sink aborts the Kafka transaction, begins again and sets the
topic aside: the position records what this topic has. The others continue. Now and then the sink sends the topic what
it lacks, in separate Kafka transactions, until it is where the others are. So each topic has a prefix of its messages
at any moment, each once. The journal keeps what the last of them lacks. A refusal ends the actor if to set that topic
aside would change nothing (`sets_aside`).

**Settings** decide which tables a topic has (`pipeline.kafka.topics.Routing`). If they change while topics are set
aside, these still lack the rows that earlier settings routed to them. So the position keeps the earlier settings, with
the last segment that they apply to, until no topic lacks anything of it. A row's segment decides where it goes, and so
each row goes to one topic, once. No Kafka transaction has rows of two settings.

**A stop** ends when all is sent, or after `SENDS_FOR_S`. Then the sink begins no further Kafka transaction, and commits
the one that is open with what it has. If that takes longer than `COMMITS_WITHIN_S`, as where a broker doesn't answer,
the sink breaks it off. That leaves the topics as a kill does: the next start continues from the last committed one.

**Facts** say what has happened. `step` returns the orders that follow from a fact, in their order. The last of them
brings a fact, unless it is ConfirmSegment or a report. No order before it does. A refusal, open records and a batch
that is too large end the orders that follow from the same fact.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from pipeline.errors import Definite, InvariantBroken, expect
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
from pipeline.kafka.portions import Capacity, Portion, merge_portions
from pipeline.kafka.position import FormerRouting, KafkaPosition, SetAside, SinkPosition
from pipeline.kafka.state import (
    AllSent,
    AllTopicsBut,
    Committing,
    CommittingLast,
    FindingPosition,
    OneTopic,
    OpenTransaction,
    PlanningSegment,
    RestLeft,
    SendingPortion,
    SendingRest,
    State,
    Topics,
    includes,
)
from pipeline.kafka.topics import Routing
from pipeline.messages.journal import SegmentSealed

# After so long (s) a topic that was set aside is tried again.
AGAIN_AFTER_S: Final = 30.0

# How long (s) a stop sends what is sealed, and how long the last commit may take then.
SENDS_FOR_S: Final = 4.0
COMMITS_WITHIN_S: Final = 2.0

Next = tuple[State, tuple[Order, ...]]


class PositionLost(Definite):
    """The position in the topics doesn't fit the journal. The text has the remedy."""


class RoutesChanged(Definite):
    """Topics lack rows by other settings than the present ones, which are unknown. The text has the remedy."""


def step(state: State, fact: Fact, now: float) -> Next:
    """Returns the state after a fact, and the orders that follow; `now` in s.

    Raises PositionLost if the topics don't fit the journal, and InvariantBroken for a fact that answers no order.
    """
    if isinstance(state.doing, RestLeft):
        return state, ()  # what was under way has ended, or was broken off
    state, orders = _handle(state, fact, now)
    if isinstance(state.doing, AllSent) and state.heartbeat_at is None and state.heartbeat_s:
        state = replace(state, heartbeat_at=now + state.heartbeat_s)
    return state, orders


def timer_at(state: State) -> float | None:
    """Returns when (s) a heartbeat or a topic that was set aside is due, None for neither or amid other work.

    In a stop, returns when its present part has lasted long enough.
    """
    if state.stop is not None:
        return None if isinstance(state.doing, RestLeft) else state.stop.until
    if not isinstance(state.doing, AllSent):
        return None
    moments = [state.due_at(topic) for topic in state.at.set_aside]
    moments += [] if state.heartbeat_at is None else [state.heartbeat_at]
    return min(moments, default=None)


def sets_aside(state: State, refused: TopicRefused) -> bool:
    """Returns whether the sink sets the topic aside that refuses.

    Without the position's topic nothing can be committed. A topic that the sink doesn't send to would be tried again at
    once, without end.
    """
    sending_to = state.sending_to
    return (
        refused.by != state.position_topic and sending_to is not None and includes(sending_to, refused.topic)
    )


def _handle(state: State, fact: Fact, now: float) -> Next:
    match fact:
        case PlacesFound():
            return _continue_from(state, fact, expect(FindingPosition, state.doing, fact))
        case SegmentSealed(segment):
            expect(AllSent, state.doing, fact)
            if segment <= state.at.position.segment:
                return state, ()
            return _begin_transaction(state, segment, _other_topics(state), ())
        case SegmentPlanned(portions):
            planning = expect(PlanningSegment, state.doing, fact)
            if not portions:
                return _segment_ended(state, planning.sealed, planning.open)
            return _send_next(state, planning.sealed, planning.open, portions)
        case PortionSent():
            return _portion_sent(state, fact, expect(SendingPortion, state.doing, fact))
        case TransactionCommitted():
            return _committed(state, expect(Committing, state.doing, fact), now)
        case TopicRefused():
            return _topic_refused(state, fact, now)
        case OpenRecordsFound(parts):
            return _begin_again(replace(state, open_parts=state.open_parts | parts), {})
        case BatchDivided(topic, size):
            before = state.batch_bytes.get(topic, size)
            smaller = {**state.batch_bytes, topic: max(1, min(before, size) // 2)}
            return _begin_again(replace(state, batch_bytes=smaller), {})
        case KafkaTimerFired(first):
            expect(AllSent, state.doing, fact)
            return _do_due(state, first, now)
        case KafkaStopRequested(at):
            return replace(state, stop=SendingRest(at + SENDS_FOR_S)), ()
        case StopTimePassed():
            return _shorten_stop(state, now)
        case _:
            assert_never(fact)


def _shorten_stop(state: State, now: float) -> Next:
    """Sends no more from now on, or leaves even what is under way."""
    match state.stop:
        case SendingRest(until) if until <= now:
            return replace(state, stop=CommittingLast(now + COMMITS_WITHIN_S)), ()
        case CommittingLast(until) if until <= now:
            state, orders = _leave_rest(state)
            return state, (BreakOff(), *orders)
        case _:
            return state, ()


def _leave_rest(state: State) -> Next:
    segment = None if isinstance(state.doing, FindingPosition) else state.at.position.segment
    return replace(state, doing=RestLeft()), (ReportRest(segment),)


def _begin_again(state: State, refused: Mapping[str, str]) -> Next:
    """Begins again, with the topics that were set aside and those that have refused now."""
    known = {name: each.reason for name, each in state.at.set_aside.items()}
    return replace(state, doing=FindingPosition({**known, **refused})), (BeginAgain(state.open_parts),)


def _topic_refused(state: State, refused: TopicRefused, now: float) -> Next:
    """Begins again without the topic that refuses, which is tried again later."""
    topic, by, reason = refused.topic, refused.by or refused.topic, refused.reason
    reason = reason if by == topic else f"{by}: {reason}"
    left_open = frozenset(part for part in state.open_parts if part[0] != by)
    after = replace(_later(state, topic, now), open_parts=left_open)
    after, orders = _begin_again(after, {topic: reason})
    known = topic in state.at.set_aside
    return after, (*(() if known else (ReportSetAside(topic, reason),)), *orders)


def _later(state: State, topic: str, now: float) -> State:
    return replace(state, again={**state.again, topic: now + AGAIN_AFTER_S})


def _do_due(state: State, first: int, now: float) -> Next:
    """Sends a heartbeat, or what a topic that was set aside lacks. The journal has every segment from `first` on.

    What has been due longest comes first. Otherwise heartbeats with a short interval would keep topics waiting for
    ever, or a topic that catches up would keep heartbeats waiting.
    """
    due = timer_at(state)
    if due is None or due > now:
        return state, ()
    if due == state.heartbeat_at:
        state = replace(state, heartbeat_at=None)
        if state.heartbeat_topic in state.at.set_aside:
            return state, ()
        return _send_heartbeat(state, _other_topics(state), state.at)
    topic = min(state.at.set_aside, key=state.due_at)
    return _retry_topic(_later(state, topic, now), topic, first)


def _continue_from(state: State, found: PlacesFound, finding: FindingPosition) -> Next:
    """Continues from the position that the sink found."""
    position = _checked_position(state, found)
    there = {} if found.at is None else _still_set_aside(state, found.at)
    former = () if found.at is None else _former_routings(state, replace(found.at, set_aside=there))
    refused = {
        topic: SetAside(
            there[topic].position if topic in there else position, reason, topic == state.heartbeat_topic
        )
        for topic, reason in finding.refused.items()
    }
    at = SinkPosition(position, {**there, **refused}, state.routing, former)
    state = replace(state, at=at, doing=AllSent(), first=found.journal.first)
    confirm = () if found.at is None else (_confirmation(state),)
    if found.journal.last <= position.segment:
        return state, confirm
    state, orders = _begin_transaction(state, found.journal.last, _other_topics(state), ())
    return state, (*confirm, *orders)


def _still_set_aside(state: State, at: SinkPosition) -> dict[str, SetAside]:
    """Returns the topics that are set aside, without a topic of heartbeats that none go to any more.

    Its name alone does not say what it was, so it is marked. A position of an earlier version has no mark.
    """
    return {
        topic: replace(each, beats=topic == state.heartbeat_topic)
        for topic, each in at.set_aside.items()
        if not each.beats or topic == state.heartbeat_topic
    }


def _former_routings(state: State, at: SinkPosition) -> tuple[FormerRouting, ...]:
    """Returns the earlier settings by which topics lack rows. Raises RoutesChanged if an earlier version wrote `at`.

    By other settings a topic that is set aside has other tables. It would miss rows of some that another topic doesn't
    get either, and get rows of others that were sent before.
    """
    lacking = [topic for topic in at.set_aside if topic != state.heartbeat_topic]
    if not lacking or not at.routing:
        return ()
    if isinstance(at.routing, Routing):
        if at.routing.digest == state.routing.digest:
            return at.former
        begun = at.position.scn > 0 or at.position.rows > 0
        return (*at.former, FormerRouting(at.position.segment + begun, at.routing))
    if at.routing != state.routing.digest:
        topic = min(lacking)
        raise RoutesChanged(
            f"{topic} was set aside ({at.set_aside[topic].reason}) and lacks rows of its tables; since then "
            "kafka.topic_prefix, kafka.topic_delimiter or kafka.topic_routes have changed, and an earlier version of "
            "Tidemark didn't note what they were; put them back, and change them once this version has committed "
            "messages"
        )
    return ()


def _checked_position(state: State, found: PlacesFound) -> KafkaPosition:
    """Returns the position to continue from. Raises PositionLost."""
    journal, position = found.journal, None if found.at is None else found.at.position
    if position is None and journal.confirmed:
        raise PositionLost(
            "the position topic is empty, though messages were sent before: restore it, or drop the consumer with "
            "tidemark forget-consumer FILE kafka, and request snapshots"
        )
    if found.of is not None and found.of != journal.journal:
        raise PositionLost(
            f"the position topic is of the journal {found.of}, and this one is {journal.journal}: name another "
            "position topic with kafka.position_topic"
        )
    if position is None:
        position = KafkaPosition(journal.joined)
    elif (
        (sent := journal.sent) is not None and sent.topic != state.position_topic and position < sent.position
    ):
        raise PositionLost(
            f"the position topic {state.position_topic} has segment {position.segment}, and the topics have segment "
            f"{sent.position.segment} by {sent.topic}, which kafka.position_topic named since: what is between would "
            f"be sent twice; set kafka.position_topic = {sent.topic!r}"
        )
    begun = position.scn > 0 or position.rows > 0
    if position.segment + begun > journal.end:
        raise PositionLost(
            f"the topics have segment {position.segment + begun}, and the journal ended with {journal.end} before this "
            "service continued it: it was restored from a copy; restore a newer one, or name another position topic "
            "with kafka.position_topic and request snapshots"
        )
    if position.segment + 1 < journal.first:
        raise PositionLost(
            f"the topics have everything through segment {position.segment}, and the journal begins with "
            f"{journal.first}: name another position topic with kafka.position_topic, and request snapshots"
        )
    if not journal.confirmed and position.segment + begun < journal.joined:
        # Until the consumer was registered again, nothing asked the journal for the rows before updates.
        raise PositionLost(
            f"the topics have segment {position.segment + begun}, and the consumer kafka was forgotten and joined the "
            f"journal again after segment {journal.joined}: name another position topic with kafka.position_topic, "
            "and request snapshots"
        )
    return position


def _other_topics(state: State) -> Topics:
    """Returns the topics that aren't set aside."""
    return AllTopicsBut(frozenset(state.at.set_aside))


def _send_heartbeat(state: State, topics: Topics, after: SinkPosition) -> Next:
    """Sends a heartbeat, in a Kafka transaction of its own."""
    doing = Committing(state.at.position.segment, topics, after, ())
    begin = BeginTransaction(state.batch_bytes)
    return replace(state, doing=doing), (begin, SendHeartbeat(topics), CommitTransaction(after))


def _confirmation(state: State) -> ConfirmSegment:
    """Returns what the journal needs to know. What a segment reports follows from it and from the one before."""
    segment = _unneeded_through(state)
    return ConfirmSegment(segment, max(0, segment - state.notifies))


def _unneeded_through(state: State) -> int:
    """Returns the segment through which no topic needs anything.

    The topic of heartbeats never does, nor does one that lacks what the journal doesn't have any more.
    """
    at = state.at
    lacking = [
        each.position.segment for topic, each in at.set_aside.items() if topic != state.heartbeat_topic
    ]
    return min([at.position.segment, *(each for each in lacking if each + 1 >= state.first)])


def _still_former(state: State, after: SinkPosition) -> tuple[FormerRouting, ...]:
    """Returns the earlier settings by which a topic still lacks something, once the topics are at this position.

    Also if the journal doesn't have it any more: who waits for such rows must learn which topic lacks them.
    """
    lacking = (each.position for topic, each in after.set_aside.items() if topic != state.heartbeat_topic)
    through = min(each.segment for each in (after.position, *lacking))
    return tuple(each for each in after.former if each.through > through)


def _begin_transaction(state: State, sealed: int, topics: Topics, portions: tuple[Portion, ...]) -> Next:
    """Begins a Kafka transaction at the position of these topics, unless a stop leaves the rest."""
    if isinstance(state.stop, CommittingLast):
        return _leave_rest(state)
    at = state.at
    reached = at.set_aside[topics.topic].position if isinstance(topics, OneTopic) else at.position
    state, orders = _send_next(state, sealed, OpenTransaction(topics, state.capacity, reached), portions)
    return state, (BeginTransaction(state.batch_bytes), *orders)


def _send_next(state: State, sealed: int, opened: OpenTransaction, portions: tuple[Portion, ...]) -> Next:
    """Sends the next portion, plans the next segment, or commits."""
    if isinstance(state.stop, CommittingLast):
        return _commit(state, sealed, opened, portions)
    reached, capacity = opened.reached, opened.capacity
    if portions and (opened.empty or capacity.fits(portions[0])):
        portions = portions if reached.rows else merge_portions(portions, capacity)
        room = Capacity(state.most_rows)
        # A source transaction that has to be split is split as small as a start's first Kafka transactions are.
        most = (room if room.fits(portions[0]) else state.capacity).rows_of(portions[0])
        of = reached.segment + 1
        order = SendPortion(opened.topics, of, portions[0], reached.rows, most, reached.by_table)
        return replace(state, doing=SendingPortion(sealed, opened, portions)), (order,)
    rerouted = not opened.empty and any(each.through == reached.segment for each in state.at.former)
    if (
        not portions
        and not rerouted
        and capacity.rows > 0
        and capacity.bytes > 0
        and reached.segment < sealed
    ):
        plan = PlanSegment(reached.segment + 1, reached.scn, reached.rows > 0, state.capacity)
        return replace(state, doing=PlanningSegment(sealed, opened)), (plan,)
    return _commit(state, sealed, opened, portions)


def _commit(state: State, sealed: int, opened: OpenTransaction, portions: tuple[Portion, ...]) -> Next:
    """Commits the open Kafka transaction, with the position to which it brings its topics."""
    at = state.at
    match opened.topics:
        case AllTopicsBut():
            after = replace(at, position=opened.reached)
        case OneTopic(topic):
            aside = {name: each for name, each in at.set_aside.items() if name != topic}
            if opened.reached != at.position:
                aside[topic] = replace(at.set_aside[topic], position=opened.reached)
            after = replace(at, set_aside=aside)
        case _:
            assert_never(opened.topics)
    after = replace(after, former=_still_former(state, after))
    return replace(state, doing=Committing(sealed, opened.topics, after, portions)), (
        CommitTransaction(after),
    )


def _portion_sent(state: State, fact: PortionSent, sending: SendingPortion) -> Next:
    portion, rest = sending.portions[0], sending.portions[1:]
    reached = sending.open.reached
    opened = replace(
        sending.open, capacity=sending.open.capacity.without(fact.rows, portion.bytes), empty=False
    )
    if not fact.ended:
        if portion.first_scn != portion.last_scn:
            raise InvariantBroken(f"a portion of several source transactions was split: {portion}")
        # A start plans the rest of the segment again, from here on.
        split = replace(reached, rows=reached.rows + fact.rows)
        return _commit(state, sending.sealed, replace(opened, reached=split), sending.portions)
    if not rest:
        return _segment_ended(state, sending.sealed, opened)
    reached = KafkaPosition(reached.segment, portion.last_scn)
    return _send_next(state, sending.sealed, replace(opened, reached=reached), rest)


def _segment_ended(state: State, sealed: int, opened: OpenTransaction) -> Next:
    """Sends what the segment reports, and whatever comes next."""
    segment = opened.reached.segment + 1
    reached = replace(opened, reached=KafkaPosition(segment))
    state, orders = _send_next(state, sealed, reached, ())
    return state, (SendNotifications(opened.topics, segment), *orders)


def _committed(state: State, done: Committing, now: float) -> Next:
    """Begins the next Kafka transaction, unless these topics have everything. A topic that catches up waits for its
    turn.
    """
    more = 1 if state.next_rows >= state.most_rows else 2
    before = state.at
    state = replace(state, at=done.at, doing=AllSent(), next_rows=more * state.next_rows)
    confirm = (_confirmation(state),)
    if isinstance(done.topics, OneTopic):
        state, report = _topic_advanced(state, done.topics.topic, before, now)
        return state, (*confirm, *report)
    if done.at.position.segment >= done.sealed:
        return state, confirm
    state, orders = _begin_transaction(state, done.sealed, done.topics, done.portions)
    return state, (*confirm, *orders)


def _topic_advanced(state: State, topic: str, before: SinkPosition, now: float) -> Next:
    """Makes a topic due that has more than before, after all that are due already. Reports one that has everything."""
    aside = state.at.set_aside.get(topic)
    if aside is not None and aside.position <= before.set_aside[topic].position:
        return state, ()
    if aside is not None:
        return replace(state, again={**state.again, topic: now}), ()
    state = replace(state, again={name: each for name, each in state.again.items() if name != topic})
    return state, (ReportCaughtUp(topic),)


def _retry_topic(state: State, topic: str, first: int) -> Next:
    """Sends a topic that was set aside what it lacks, up to a Kafka transaction's bound.

    The topic of heartbeats lacks nothing that the journal has. Only a heartbeat shows whether it takes one.
    """
    aside = state.at.set_aside[topic]
    if topic == state.heartbeat_topic:
        others = {name: each for name, each in state.at.set_aside.items() if name != topic}
        return _send_heartbeat(state, OneTopic(topic), replace(state.at, set_aside=others))
    if aside.position.segment + 1 < first:
        gone = replace(
            aside,
            reason=f"it has everything through segment {aside.position.segment}, and the journal begins with "
            f"{first}; it gets nothing more until you name another position topic with kafka.position_topic and "
            "request snapshots",
        )
        aside_now = {**state.at.set_aside, topic: gone}
        state = replace(state, at=replace(state.at, set_aside=aside_now), first=first)
        return state, (_confirmation(state),)
    return _begin_transaction(state, state.at.position.segment, OneTopic(topic), ())
