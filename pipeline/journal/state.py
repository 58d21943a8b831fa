"""What the JournalWriter has in hand, and what its thread is at (`pipeline.journal.step`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule
from pipeline.journal.entry import Entry, File
from pipeline.journal.segment import EarlyFile, OpenTransactionRows, Unsealed
from pipeline.messages.journal import Append, ChangePart, ChunkPart, HasSpace, Room
from pipeline.signals.outcomes import SignalState
from pipeline.snapshot.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Seal:
    """Write the rest of a segment, sync and publish it.

    `ahead`: its files that are written already. `before`: the checkpoint of the segment before, None for the first.
    """

    segment: int
    waiting: Unsealed
    ahead: tuple[EarlyFile, ...]
    before: Checkpoint | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish a segment, whose files are all there."""

    segment: int
    waiting: Unsealed
    files: tuple[File, ...]
    before: Checkpoint | None


@dataclass(frozen=True, slots=True)
class FlushEarly:
    """Write rows of a segment that isn't due; it has `first` files by now. `scn`: as of `EarlyFile`."""

    segment: int
    parts: Sequence[ChangePart | ChunkPart]
    first: int
    scn: int | None


@dataclass(frozen=True, slots=True)
class ApplyRetention:
    """Remove old segments. Then restore the reserve file if it's missing, unless other data waits for that room.

    If there is no room for either, remove younger ones too.
    """

    reserve: bool


Writing = Seal | Publish | FlushEarly
Work = Writing | ApplyRetention


@dataclass(frozen=True, slots=True)
class ThreadIdle:
    """The thread has nothing to do."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The thread is at a piece of work, `since` a moment (s)."""

    work: Work
    since: float


@dataclass(frozen=True, slots=True)
class AwaitingSpace:
    """There was no space for the `left` part of a piece of work. It is tried again at a moment (s)."""

    left: Writing
    again_at: float


@dataclass(frozen=True, slots=True)
class FreeingSpace:
    """The thread removes old segments. After that there may be space for the `left` part."""

    left: Writing
    again_at: float


Thread = ThreadIdle | Busy | AwaitingSpace | FreeingSpace


@dataclass(frozen=True, slots=True)
class InboxOpen:
    """Messages are taken, as far as there's room for them in memory."""


@dataclass(frozen=True, slots=True)
class InboxHeld:
    """None is taken until all that came before this append is sealed: it begins a segment."""

    append: Append


@dataclass(frozen=True, slots=True)
class InboxClosed:
    """No more will come."""


Taking = InboxOpen | InboxHeld | InboxClosed


@dataclass(frozen=True, slots=True)
class State:
    """The open segment, and everything around it.

    `last`: the entry of the last sealed segment, None before the first. `begun`: the number of the last segment that
    was begun, sealed or not, and `checkpoint` the state at its end. Of the open segment, `waiting` is what came,
    `unfinished` the rows of a transaction that hasn't ended, `ahead` the files that are written. `retention_at`: when
    (s) to remove old segments next. `signal_outcomes`: the outcomes of the last signals that came as rows of the signal
    table. `chunk_scn`: the SCN of the last chunk, None once it's reported (`ChunksFlushed`). `paused_until`: until when
    (s) no segment is sealed because of its age.
    """

    settings: JournalSettings
    rules: tuple[LakeRule, ...]
    last: Entry | None
    begun: int
    checkpoint: Checkpoint | None
    waiting: Unsealed | None = None
    unfinished: OpenTransactionRows = field(default_factory=OpenTransactionRows)
    ahead: tuple[EarlyFile, ...] = ()
    thread: Thread = field(default_factory=ThreadIdle)
    taking: Taking = field(default_factory=InboxOpen)
    room: Room = field(default_factory=HasSpace)
    retention_at: float = 0.0
    signal_outcomes: tuple[SignalState, ...] = ()
    chunk_scn: int | None = None
    paused_until: float = 0.0
