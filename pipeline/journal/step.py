"""Turns appended data into segments: the JournalWriter's decisions, without a thread or a disk.

One segment is sealed at a time, while the next one fills. When that one is full too, the writer takes no further
message. So segments are published in the order of the appends. An append that begins a segment, because it alters
columns, waits until everything before it is sealed.

A segment is due at an age. Each table in it costs a file here and a commit in the lake. So after a segment of many
tables the next one waits longer, and has more rows of each table (`pause_after` and `rest_after` of
`pipeline.journal.segment`).

While a segment fills and isn't due, large pieces, above all chunks, are flushed early (`pipeline.journal.segment`).
Then a commit waits for one such piece at most, and not for the writing of everything that came with it.

Rows of a transaction that hasn't ended fill the next segment like all other rows. Once they fill it, they're flushed
early and leave memory. Complete data that came before them is sealed first. A transaction whose end doesn't come before
the mailbox is closed hasn't happened. The next recovery removes its files.

So memory holds two segments at most, each with one message more than fits, and no transaction changes that. The thread
works on one segment, and no more than another one fills beside it. The rows of an early file that the thread is writing
count until the segment is sealed.

In between, the thread removes old segments. If the journal reaches its quota nevertheless, or its filesystem is full,
the writer reports that, and reports again when there is room (`pipeline.journal.quota`). Only the work that had no room
is repeated, before any other work, so that all stays in order. Later messages fill the next segment, and then wait. At
the end the writer doesn't wait for room.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule
from pipeline.errors import InvariantBroken
from pipeline.journal import segment as segments
from pipeline.journal.change_rows import turn_chunks_into_changes
from pipeline.journal.entry import Entry
from pipeline.journal.quota import quota_reached
from pipeline.journal.segment import EarlyFile, OpenTransactionRows, Unsealed
from pipeline.journal.state import (
    ApplyRetention,
    AwaitingSpace,
    Busy,
    FlushEarly,
    FreeingSpace,
    InboxClosed,
    InboxHeld,
    InboxOpen,
    Publish,
    Seal,
    State,
    Thread,
    ThreadIdle,
    Work,
)
from pipeline.messages.inboxes import ToJournalWriter
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart, Full, HasSpace, Room
from pipeline.messages.message_size import of_part
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.signals.outcomes import SignalState

_ROWS_REMEMBERED: Final = 100

# How often (seconds) old segments are removed, and how soon that and what there was no room for is done again.
RETENTION_EVERY_S: Final = 5.0
PUBLISH_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class MailboxClosed:
    """No more messages will come."""


@dataclass(frozen=True, slots=True)
class JournalTimerFired:
    """The moment of `timer_at` has come, or any other."""


@dataclass(frozen=True, slots=True)
class Published:
    """A segment is sealed; the journal has so many `bytes`."""

    entry: Entry
    bytes: int


@dataclass(frozen=True, slots=True)
class FlushedEarly:
    """Files are there that no entry names."""

    files: tuple[EarlyFile, ...]


@dataclass(frozen=True, slots=True)
class RetentionApplied:
    """Old segments are removed: so many, and the journal now has so many `bytes`.

    `kept_for`: the consumer for which the oldest segment is kept, None if it's kept for none. `reserved`: whether the
    filesystem has room, so that the reserve file exists; `where` the journal is.
    """

    removed: int
    kept_for: str | None
    reserved: bool
    bytes: int
    where: str


@dataclass(frozen=True, slots=True)
class SpaceLacked:
    """There was no room for a piece of work, and why; this is `left` of it."""

    reason: str
    left: Work


Worked = Published | FlushedEarly | RetentionApplied | SpaceLacked
Fact = ToJournalWriter | MailboxClosed | JournalTimerFired | Worked


@dataclass(frozen=True, slots=True)
class ReportSpace:
    """Tell the coordinator, and people, that there's none any more, or some again."""

    room: Room


@dataclass(frozen=True, slots=True)
class ReportSealed:
    """Tell those who wait for it that a segment is durable, `answers` to signals first; `signal_outcomes`: as of
    State."""

    entry: Entry
    answers: tuple[SignalAccepted | SignalRejected, ...]
    signal_outcomes: tuple[SignalState, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End, since there's no room for the rest."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportChunks:
    """Tell the coordinator that no change waits for the rows of the chunks through this SCN."""

    scn: int


Order = Work | ReportSpace | ReportSealed | ReportChunks | GiveUp
_Next = tuple[State, tuple[Order, ...]]


def start(settings: JournalSettings, rules: tuple[LakeRule, ...], last: Entry | None) -> State:
    """Returns the state at a start, after the last sealed segment."""
    return State(settings, rules, last, last.segment if last else 0, last.checkpoint if last else None)


def step(state: State, fact: Fact, now: float) -> _Next:
    """Returns the state after a fact, and the orders, in this sequence; `now` in s."""
    state, orders = _take(state, fact, now)
    if any(isinstance(order, GiveUp) for order in orders):
        return state, orders
    state, work = _begin_next_work(state, now)
    state, report = _report_chunks(state)
    return state, (*orders, *work, *report)


def takes_messages(state: State) -> bool:
    """Whether another message may come."""
    return isinstance(state.taking, InboxOpen) and (
        isinstance(state.thread, ThreadIdle) or not _is_full(state)
    )


def timer_at(state: State) -> float | None:
    """Returns when (s) the next work is due by time alone; None while the thread is at work."""
    match state.thread:
        case Busy() | FreeingSpace():
            return None
        case AwaitingSpace(_, again_at):
            return min(state.retention_at, again_at)
        case ThreadIdle() if state.waiting is not None:
            return min(state.retention_at, _seal_at(state, state.waiting))
        case ThreadIdle():
            return state.retention_at
        case _:
            assert_never(state.thread)


def bytes_to_write(work: Work) -> int:
    """Returns how many bytes of rows the thread has to write."""
    match work:
        case Seal(waiting=waiting):
            return sum(waiting.unwritten.values())
        case FlushEarly(parts=parts):
            return sum(map(of_part, parts))
        case Publish() | ApplyRetention():
            return 0
        case _:
            assert_never(work)


def has_ended(state: State) -> bool:
    """Whether all is sealed that ever came."""
    return isinstance(state.taking, InboxClosed) and _is_idle(state)


def _take(state: State, fact: Fact, now: float) -> _Next:
    match fact:
        case AppendRows():
            return replace(state, unfinished=segments.add_rows(state.unfinished, fact)), ()
        case Append() if fact.alterations and not _is_idle(state):
            return replace(state, taking=InboxHeld(fact)), ()
        case Append():
            return _append(state, fact, now), ()
        case MailboxClosed():
            if not isinstance(state.taking, InboxOpen):
                raise InvariantBroken(f"the mailbox closed while {state.taking}")
            return replace(state, taking=InboxClosed()), ()
        case JournalTimerFired():
            return state, ()
        case Published(entry, size):
            return _publish(state, entry, size, now)
        case FlushedEarly(files):
            return replace(state, thread=ThreadIdle(), ahead=(*state.ahead, *files)), ()
        case RetentionApplied():
            return _apply_retention(state, fact, now)
        case SpaceLacked(reason, left):
            return _wait_for_space(state, reason, left, now)
        case _:
            assert_never(fact)


def _append(state: State, append: Append, now: float) -> State:
    """With an append, and the rows that came for it before."""
    whole = segments.end_transaction(state.unfinished, turn_chunks_into_changes(append, state.rules))
    waiting = segments.add_append(state.waiting, whole, state.checkpoint, now)
    scn = max((part.scn for part in append.parts if isinstance(part, ChunkPart)), default=state.chunk_scn)
    return replace(state, waiting=waiting, unfinished=OpenTransactionRows(), chunk_scn=scn)


def _report_chunks(state: State) -> _Next:
    """Reports the chunks that came, once no change has to wait for the writing of their rows."""
    if state.chunk_scn is None:  # else each step would look through all that waits
        return state, ()
    waits = state.waiting is not None and segments.holds_up_changes(state.waiting)
    if waits or _writes_chunks(state.thread):
        return state, ()
    return replace(state, chunk_scn=None), (ReportChunks(state.chunk_scn),)


def _writes_chunks(thread: Thread) -> bool:
    match thread:
        case Busy(work, _) | AwaitingSpace(work, _) | FreeingSpace(work, _):
            match work:
                case FlushEarly(parts=parts):
                    return any(isinstance(part, ChunkPart) for part in parts)
                case Seal(waiting=waiting):
                    return segments.holds_up_changes(waiting)
                case Publish() | ApplyRetention():
                    return False
                case _:
                    assert_never(work)
        case ThreadIdle():
            return False
        case _:
            assert_never(thread)


def _publish(state: State, entry: Entry, size: int, now: float) -> _Next:
    match state.thread:
        case Busy(Seal(waiting=waiting) | Publish(waiting=waiting), since):
            answers = [answer for append in waiting.appends for answer in append.answers]
        case other:
            raise InvariantBroken(f"segment {entry.segment} was published while {other}")
    given = tuple(each for each in answers if isinstance(each, SignalAccepted | SignalRejected))
    outcomes = (*state.signal_outcomes, *(each for each in answers if isinstance(each, SignalState)))[
        -_ROWS_REMEMBERED:
    ]
    full = isinstance(state.room, Full) or size >= state.settings.quota_mib << 20 > 0
    state = replace(
        state,
        last=entry,
        signal_outcomes=outcomes,
        thread=ThreadIdle(),
        retention_at=now if full else state.retention_at,
        paused_until=max(state.paused_until, now + segments.rest_after(waiting, now - since)),
    )
    return state, (ReportSealed(entry, given, outcomes),)


def _apply_retention(state: State, kept: RetentionApplied, now: float) -> _Next:
    """See whether there's room, once all has gone that may go."""
    thread: Thread
    match state.thread:
        case FreeingSpace(left, again_at):
            thread = AwaitingSpace(left, now if kept.removed else again_at)
        case Busy(ApplyRetention()):
            thread = ThreadIdle()
        case other:
            raise InvariantBroken(f"the journal was kept small while {other}")
    state = replace(state, thread=thread)
    if kept.removed:
        # What was left of the work may have room by now. So no more goes than has to.
        freed = isinstance(thread, AwaitingSpace)
        return replace(state, retention_at=now + PUBLISH_AGAIN_S) if freed else state, ()
    state = replace(
        state, retention_at=now + (PUBLISH_AGAIN_S if isinstance(state.room, Full) else RETENTION_EVERY_S)
    )
    if kept.reserved:
        of = state.settings
        reason = quota_reached(of.quota_mib, of.keep_mib, kept.bytes, kept.kept_for, state.room)
        return _with_room(state, HasSpace() if reason is None else Full(reason))
    if isinstance(state.room, HasSpace):
        return _with_room(state, Full(f"the filesystem of {kept.where} is full"))
    return state, ()


def _wait_for_space(state: State, reason: str, left: Work, now: float) -> _Next:
    again_at = now + PUBLISH_AGAIN_S
    match state.thread, left:
        case FreeingSpace(undone, _), ApplyRetention():
            state = replace(state, thread=AwaitingSpace(undone, again_at), retention_at=again_at)
        case Busy(), ApplyRetention():
            state = replace(state, thread=ThreadIdle(), retention_at=again_at)
        case Busy(), Seal() | Publish() | FlushEarly():
            if isinstance(state.taking, InboxClosed):
                return state, (GiveUp(reason),)
            state = replace(state, thread=AwaitingSpace(left, again_at), retention_at=now)
        case other, _:
            raise InvariantBroken(f"there was no room while {other}")
    return _with_room(state, Full(reason))


def _with_room(state: State, room: Room) -> _Next:
    """Returns the state with this room, and a report if it has changed."""
    tell = (ReportSpace(room),) if type(room) is not type(state.room) else ()
    return replace(state, room=room), tell


def _begin_next_work(state: State, now: float) -> _Next:
    """Gives the thread its next work, unless it's at work or nothing is due."""
    match state.thread:
        case Busy() | FreeingSpace():
            return state, ()
        case AwaitingSpace(left, again_at):
            if now >= state.retention_at:
                return replace(state, thread=FreeingSpace(left, again_at)), (ApplyRetention(reserve=False),)
            return _begin_work(state, left, now) if now >= again_at else (state, ())
        case ThreadIdle():
            match state.taking:
                case InboxHeld(append) if state.waiting is None:
                    return _begin_next_work(_append(replace(state, taking=InboxOpen()), append, now), now)
                case _:
                    return _work_when_idle(state, now)
        case _:
            assert_never(state.thread)


def _work_when_idle(state: State, now: float) -> _Next:
    waiting, at_once = state.waiting, not isinstance(state.taking, InboxOpen)
    if waiting is None:
        if _is_full(state) and not isinstance(state.taking, InboxClosed):
            after = replace(state, unfinished=segments.drop_written_rows(state.unfinished))
            return _flush_early(after, state.unfinished.parts, None, now)
    elif at_once or _is_full(state) or now >= _seal_at(state, waiting):
        seal = Seal(state.begun + 1, waiting, state.ahead, state.checkpoint)
        checkpoint = waiting.appends[-1].checkpoint
        paused_until = max(state.paused_until, now + segments.pause_after(waiting))
        after = replace(
            state,
            begun=seal.segment,
            checkpoint=checkpoint,
            waiting=None,
            ahead=(),
            paused_until=paused_until,
        )
        return _begin_work(after, seal, now)
    else:
        left, large = segments.split_early_parts(waiting)
        if large:
            scn = waiting.appends[-1].checkpoint.scn
            return _flush_early(replace(state, waiting=left), large, scn, now)
    if now >= state.retention_at and not at_once:
        return _begin_work(state, ApplyRetention(reserve=True), now)
    return state, ()


def _flush_early(state: State, parts: Sequence[ChangePart | ChunkPart], scn: int | None, now: float) -> _Next:
    return _begin_work(state, FlushEarly(state.begun + 1, parts, len(state.ahead), scn), now)


def _begin_work(state: State, work: Work, now: float) -> _Next:
    return replace(state, thread=Busy(work, now)), (work,)


def _seal_at(state: State, waiting: Unsealed) -> float:
    """Returns when (s) what waits is sealed because of its age."""
    return max(segments.seal_at(waiting, state.settings), state.paused_until)


def _is_full(state: State) -> bool:
    return segments.is_full(state.waiting, state.unfinished, state.settings)


def _is_idle(state: State) -> bool:
    """Whether nothing waits, and nothing is under way."""
    return state.waiting is None and isinstance(state.thread, ThreadIdle)
