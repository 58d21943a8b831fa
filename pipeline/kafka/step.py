"""How the journal gets into topics, exactly once: the KafkaSink's decisions, without Kafka.

A Kafka transaction holds messages and, in the position topic, the position in the journal that they bring the topics
to. Both become visible by one commit or not at all. So the position that a reader of committed messages finds says
which messages there are: no more and no fewer.

**A start** finds the position there and nowhere else. By then our transactional id has a new epoch: the broker has
ended what a predecessor had under way, and takes nothing from it any more. So nothing can be added after the position
was read.

**A Kafka transaction** takes all that waits, up to a bound (`State.most_rows`). It ends between two source
transactions. Only a source transaction that alone exceeds the bound is split.

**What fails** ends the Kafka transaction: it is aborted, and the next start continues from the last one that was
committed. That isn't a fact here, since a start knows nothing but the position.

**Facts** say what has happened, and `step` gives the orders that follow from one, in their order. Each order but
ConfirmSegment, BeginTransaction and SendHeartbeat brings a fact.
"""

from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from pipeline.errors import Definite, InvariantBroken
from pipeline.kafka.runs import Run
from pipeline.kafka.state import (
    AllSent,
    Committing,
    FindingPosition,
    JournalBounds,
    KafkaPosition,
    OpenTransaction,
    PlanningSegment,
    SendingRun,
    SinkDoing,
    State,
)
from pipeline.messages.journal import SegmentSealed


@dataclass(frozen=True, slots=True)
class PlacesFound:
    """The position topic says `position`, None where it's empty, of the journal `of`; and this is the journal."""

    position: KafkaPosition | None
    of: str | None
    journal: JournalBounds


@dataclass(frozen=True, slots=True)
class SegmentPlanned:
    """The next segment has these runs, after the SCN that was asked for; none where it has no row for us."""

    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class RunSent:
    """So many rows of the run were sent; `ended`: there are no more."""

    rows: int
    ended: bool


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """The broker has committed the Kafka transaction."""


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """The time for a heartbeat has come, and nothing is under way."""


Fact = PlacesFound | SegmentSealed | SegmentPlanned | RunSent | TransactionCommitted | HeartbeatDue


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin a Kafka transaction."""


@dataclass(frozen=True, slots=True)
class PlanSegment:
    """Divide the rows of a segment after an SCN into runs.

    `split`: rows of the first SCN were sent before, so that it is a run of its own.
    """

    segment: int
    after_scn: int
    split: bool


@dataclass(frozen=True, slots=True)
class SendRun:
    """Send the rows of a segment's run after the first `skip` ones.

    A run of a single SCN may end after `most` rows or a few more; then RunSent says that it hasn't ended.
    """

    segment: int
    run: Run
    skip: int
    most: int


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat, in the Kafka transaction that is open."""


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """Send the position, in the same Kafka transaction, and commit it."""

    position: KafkaPosition


@dataclass(frozen=True, slots=True)
class ConfirmSegment:
    """Tell the journal that we need nothing through this segment."""

    segment: int


Order = BeginTransaction | PlanSegment | SendRun | SendHeartbeat | CommitTransaction | ConfirmSegment
Next = tuple[State, tuple[Order, ...]]

_D = TypeVar("_D", bound=SinkDoing)


class PositionLost(Definite):
    """The topics' position isn't what it has to be; the text says what to do."""


def step(state: State, fact: Fact) -> Next:
    """The state after a fact, and what is to be done then.

    Raises PositionLost where the topics don't fit the journal, and InvariantBroken for a fact that answers no order.
    """
    match fact:
        case PlacesFound():
            _doing(FindingPosition, state, fact)
            position = _beginning(fact)
            confirm = () if fact.position is None else (ConfirmSegment(position.segment),)
            return replace(state, position=position, doing=AllSent()), confirm
        case SegmentSealed(segment):
            _doing(AllSent, state, fact)
            if segment <= state.position.segment:
                return state, ()
            return _begun(state, segment, ())
        case SegmentPlanned(runs):
            planning = _doing(PlanningSegment, state, fact)
            if not runs:
                reached = KafkaPosition(planning.open.reached.segment + 1)
                planning = replace(planning, open=replace(planning.open, reached=reached))
            return _going_on(state, planning.sealed, planning.open, runs)
        case RunSent():
            return _sent(state, fact, _doing(SendingRun, state, fact))
        case HeartbeatDue():
            _doing(AllSent, state, fact)
            doing = Committing(state.position.segment, state.position, ())
            return replace(state, doing=doing), (
                BeginTransaction(),
                SendHeartbeat(),
                CommitTransaction(state.position),
            )
        case TransactionCommitted():
            done = _doing(Committing, state, fact)
            state = replace(state, position=done.reached, doing=AllSent())
            confirm = (ConfirmSegment(done.reached.segment),)
            if done.reached.segment >= done.sealed:
                return state, confirm
            state, orders = _begun(state, done.sealed, done.runs)
            return state, (*confirm, *orders)
        case _:
            assert_never(fact)


def _doing(kind: type[_D], state: State, fact: Fact) -> _D:
    """What's under way, of the kind that the fact is an answer to."""
    if isinstance(state.doing, kind):
        return state.doing
    raise InvariantBroken(f"{type(fact).__name__} came while {state.doing}")


def _beginning(found: PlacesFound) -> KafkaPosition:
    """Where to go on."""
    journal, position = found.journal, found.position
    if position is None and journal.confirmed:
        raise PositionLost(
            "the position topic is empty, though messages were sent before: restore it, or drop the consumer with "
            "tidemark forget-consumer FILE kafka, and order snapshots"
        )
    if found.of is not None and found.of != journal.journal:
        raise PositionLost(
            f"the position topic is of the journal {found.of}, and this one is {journal.journal}: name another "
            "position topic with kafka.position_topic"
        )
    if position is None:
        position = KafkaPosition(journal.joined)
    if position.segment > journal.last:
        raise PositionLost(
            f"the topics have everything through segment {position.segment}, and the journal ends with "
            f"{journal.last}: it was restored from a copy; restore a newer one"
        )
    if position.segment + 1 < journal.first:
        raise PositionLost(
            f"the topics have everything through segment {position.segment}, and the journal begins with "
            f"{journal.first}: name another position topic with kafka.position_topic, and order snapshots"
        )
    return position


def _begun(state: State, sealed: int, runs: tuple[Run, ...]) -> Next:
    """With a Kafka transaction begun."""
    state, orders = _going_on(state, sealed, OpenTransaction(0, state.position), runs)
    return state, (BeginTransaction(), *orders)


def _going_on(state: State, sealed: int, opened: OpenTransaction, runs: tuple[Run, ...]) -> Next:
    """Send the next run, plan the next segment, or commit."""
    full = opened.rows >= state.most_rows
    if runs and (not opened.rows or opened.rows + runs[0].rows <= state.most_rows):
        order = SendRun(opened.reached.segment + 1, runs[0], opened.reached.rows, state.most_rows)
        return replace(state, doing=SendingRun(sealed, opened, runs)), (order,)
    if not runs and not full and opened.reached.segment < sealed:
        reached = opened.reached
        plan = PlanSegment(reached.segment + 1, reached.scn, reached.rows > 0)
        return replace(state, doing=PlanningSegment(sealed, opened)), (plan,)
    doing = Committing(sealed, opened.reached, runs)
    return replace(state, doing=doing), (CommitTransaction(opened.reached),)


def _sent(state: State, fact: RunSent, sending: SendingRun) -> Next:
    run, rest = sending.runs[0], sending.runs[1:]
    reached, rows = sending.open.reached, sending.open.rows + fact.rows
    if not fact.ended:
        if run.first_scn != run.last_scn:
            raise InvariantBroken(f"a run of several source transactions was split: {run}")
        # A start plans what's left of the segment again, from here on.
        split = replace(reached, rows=reached.rows + fact.rows)
        return replace(state, doing=Committing(sending.sealed, split, sending.runs)), (
            CommitTransaction(split),
        )
    reached = KafkaPosition(reached.segment, run.last_scn) if rest else KafkaPosition(reached.segment + 1)
    return _going_on(state, sending.sealed, OpenTransaction(rows, reached), rest)
