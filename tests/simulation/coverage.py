"""Which of the hard cases a run has reached: so that it's known what many runs have proven."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.coordinator.consistent_state import ApproachingPosition, AtPosition, OpeningTransactions
from pipeline.coordinator.schedule import _bytes_waiting
from pipeline.coordinator.state import FoundEmpty, InTransaction, SchemaDiffers, State, window_table
from pipeline.coordinator.window import Reading, Reconciling, Window
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import ChunkRead, ReadChunk, TablePlanned, TransactionsOpened
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Full, JournalFull
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import Signal
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import ChunkId, Chunking, SnapshotStopped, progress
from pipeline.snapshot.watermark import MarkerRow
from tests.simulation.selector import Selector
from tests.simulation.server import Change, Server, Statement, Transaction
from tests.simulation.world import Alteration

# Each of them must have been reached by the runs of the suite.
HARD = (
    "a chunk without rows",
    "a window in which nothing happened",
    "low is high",
    "an event ends exactly at high",
    "a window closes at once",
    "a window closes by a heartbeat",
    "a window closes by changes",
    "the low watermark was asked again",
    "SELECT saw what the executed set lacks",
    "a row changed in the window",
    "a row deleted in the window",
    "a row inserted in the window",
    "a row moved away in the window",
    "a row moved into the chunk in the window",
    "a row deleted and inserted anew in the window",
    "a row gave way, and others of its chunk didn't",
    "a whole chunk gave way",
    "touched by what low holds alone",
    "a statement before low",
    "a statement between low and SELECT",
    "a statement between SELECT and high",
    "a statement between high and close",
    "a statement is the first event after a restart",
    "a window dropped by a statement and asked again",
    "two windows of one table open",
    "windows of two tables open",
    "many windows open",
    "a chunk came before an older one",
    "a part of a transaction passed while a window was open",
    "a chunk came within a transaction",
    "a plan came within a transaction",
    "a signal came within a transaction",
    "a chunk came that nobody waited for",
    "a signal came twice",
    "a signal came after its snapshot had ended",
    "a crash",
    "a crash with open windows",
    "a crash between emission and seal",
    "a crash within a transaction",
    "a crash while paused",
    "a crash after a stop",
    "a snapshot goes on after a crash",
    "a range was done before one that comes before it",
    "another server took over",
    "began anew behind a purged log",
    "a table began anew",
    "a table was emptied",
    "a table was renamed away",
    "a table came back with rows",
    "a plan of a table that's gone",
    "a stopped table was recaptured",
    "the same GTIDs again were refused",
    "a table stopped",
    "a replica's SELECT saw what its executed set lacks",
    "a window closes by a marker",
    "a window closes by a set",
    "a set that holds what never comes",
    "a plan came under another schema",
    "a chunk was ordered again with fewer rows",
    "the budget of memory was used up",
    "a chunk while the source is strained",
    "the journal had no room within a transaction",
    "a chunk while the journal had no room",
    "a consistent snapshot while the journal had no room",
    "a blocking snapshot",
    "a snapshot of some rows",
    "a snapshot along another key",
    "no quiet moment was found",
    "a quiet moment was found",
    "the source was locked for a moment",
    "the stream wasn't where the transactions were opened",
    "the stream stood where the transactions were opened",
    "a crash while the stream stands",
    "a connection of a consistent snapshot was lost",
    "a consistent snapshot is complete",
    "a connection led to another server",
    "rows changed below the log",
    "rows changed below the log in a transaction of several parts",
    "a foreign key had a table read anew",
    "a foreign key's child stopped with its parent",
    "a table was found empty before its last deletes had passed",
    "a batch of several segments",
    "a batch was delivered again in part",
    "the sink was killed within a batch",
    "the lake was removed",
    "a client was answered at once",
    "a client was answered by a delivery",
    "a mirror in the lake was emptied",
    "changes were merged into a mirror",
    "a row was verified",
    "a key had changed behind its verification",
    "a verification found a table equal",
    "a verification found a row to differ",
    "a row too much was found",
    "a key without a row was verified",
    "a repair mended a table",
    "a source transaction was too large for a Kafka transaction",
    "the topics' sink was killed within a Kafka transaction",
    "a predecessor of the topics' sink was fenced",
    "a stop left to the next start what the topics lacked",
    "a stop broke off what the topics' sink did",
    "a topic refused its messages",
    "the topic of notifications refused",
    "a change was sent after a statement",
    "a start ended an open Kafka transaction: commit",
    "a start ended an open Kafka transaction: abort",
)


@dataclass
class _Window:
    """A window that's open: its chunk, once it has come, and the transactions that have passed meanwhile."""

    read: ChunkRead | None = None
    passed: list[Transaction] = field(default_factory=list)


class Coverage:
    """Counts into `reached`, from one start to the next crash."""

    def __init__(self, reached: Counter[str], server: Server) -> None:
        self.reached, self._server = reached, server
        self._windows: dict[ChunkId, _Window] = {}
        self._dropped: set[TableId] = set()
        self._log_begun = False

    def altered(self, statement: Statement, state: State, selector: Selector) -> None:
        """A statement is in the log."""
        for chunk in selector.chunks:
            if chunk.order.chunk.table == statement.table:
                self.reached[f"a statement {chunk.place}"] += 1
        if any(isinstance(w, Reconciling) and window_table(w) == statement.table for w in state.windows):
            self.reached["a statement between high and close"] += 1

    def swapped(self, statement: Statement) -> None:
        """A table was renamed away, or back."""
        away = statement.kind is Alteration.RENAME_AWAY
        self.reached.update(
            {"a table was renamed away": away, "a table came back with rows": bool(statement.rows)}
        )

    def crashed(self, state: State, sealed: Checkpoint, emitted: bool) -> None:
        """A crash took away what wasn't sealed; `emitted`: rows of a chunk among it."""
        facts = {
            "a crash": True,
            "a crash with open windows": bool(state.windows),
            "a crash between emission and seal": emitted,
            "a crash within a transaction": isinstance(state.phase, InTransaction),
            "a crash while paused": sealed.paused,
            "a crash after a stop": _any(sealed, SnapshotStopped),
            "a snapshot goes on after a crash": _any(sealed, Chunking),
            "a crash while the stream stands": isinstance(state.consistent_position, AtPosition),
        }
        self._count(facts)

    def repeated(self, signal: Signal, state: State) -> None:
        """A signal is sent once more."""
        ended = any(s.id == signal.id and s.ended for s in state.checkpoint.snapshots)
        self._count({"a signal came twice": True, "a signal came after its snapshot had ended": ended})

    def stepped(self, before: State, message: ToWatermarkCoordinator, after: State) -> None:
        """The coordinator took a step."""
        if isinstance(before.phase, InTransaction):
            self.reached[_WITHIN.get(type(message), "")] += 1
        match message:
            case TransactionsOpened():
                full = isinstance(before.room, Full)
                self._count(
                    {
                        "a quiet moment was found": True,
                        "a consistent snapshot while the journal had no room": full,
                    }
                )
            case JournalFull():
                within = isinstance(before.phase, InTransaction)
                self._count({"the journal had no room within a transaction": within})
            case (
                MirrorInvalidated(emptied=emptied)
                | SchemasVerified(restarted=(MirrorInvalidated(emptied=emptied), *_))
            ):
                self._count({"a table began anew": not emptied})
            case TableStopped(reason=reason):
                along = "a foreign key changes its rows along with those of" in reason
                self._count({"a table stopped": True, "a foreign key's child stopped with its parent": along})
            case ChangesVerified(run, restarted=restarted):
                passed = [self._server.by_gtid[run.gtid(i)] for i in range(len(run))]
                self._passed(before.windows, passed)
                below = any(transaction.cascades for transaction in passed)
                self._count(
                    {
                        "rows changed below the log": below,
                        "rows changed below the log in a transaction of several parts": isinstance(
                            before.phase, InTransaction
                        )
                        and bool(passed[0].cascades),
                        "a foreign key had a table read anew": bool(restarted),
                    }
                )
            case TransactionPartVerified() if before.windows:
                self.reached["a part of a transaction passed while a window was open"] += 1
            case SchemaChanged(_, tables, restarted=restarted):
                for each in restarted:
                    self._count({"a table was emptied": each.emptied, "a table began anew": not each.emptied})
                dropped = {window_table(w) for w in before.windows} & (
                    tables | {each.table for each in restarted}
                )
                self._dropped |= dropped
                self._count(
                    {
                        "a statement is the first event after a restart": not self._log_begun,
                        "windows dropped by a statement": bool(dropped),
                    }
                )
            case TablePlanned(schema):
                plan = after.plans.get(schema.table)
                early = isinstance(plan, FoundEmpty) and not after.passed.has(plan.high)
                self._count(
                    {
                        "a plan came under another schema": isinstance(plan, SchemaDiffers),
                        "a table was found empty before its last deletes had passed": early,
                    }
                )
            case ChunkRead():
                self._read(before, message)
            case _:
                pass
        self._log_begun |= isinstance(message, ChangesVerified | SchemaChanged | TransactionPartVerified)
        self._stood(before, after)
        self._closed(before, message, after)
        self._opened(after)
        self.reached["the budget of memory was used up"] += (
            bool(after.windows) and _bytes_waiting(after) > after.limits.memory
        )
        if after.checkpoint is not before.checkpoint:
            self.reached["a range was done before one that comes before it"] += _out_of_order(
                after.checkpoint
            )

    def _stood(self, before: State, after: State) -> None:
        complete = [s.id for s in after.checkpoint.snapshots if s.consistent and s.ended]
        was = [s.id for s in before.checkpoint.snapshots if s.consistent and s.ended]
        approached = isinstance(before.consistent_position, ApproachingPosition)
        self._count(
            {
                "the stream stood where the transactions were opened": approached
                and isinstance(after.consistent_position, AtPosition),
                "the stream wasn't where the transactions were opened": approached
                and isinstance(after.consistent_position, OpeningTransactions),
                "a consistent snapshot is complete": complete != was,
            }
        )

    def _count(self, facts: Mapping[str, bool]) -> None:
        for name, holds in facts.items():
            self.reached[name] += holds

    def _passed(self, windows: tuple[Window, ...], transactions: list[Transaction]) -> None:
        for window in windows:
            self._windows[window.order.chunk].passed += transactions

    def _read(self, state: State, read: ChunkRead) -> None:
        order = [w.order.chunk for w in state.windows if isinstance(w, Reading)]
        if read.chunk not in order:
            self.reached["a chunk came that nobody waited for"] += 1
            return
        self._windows[read.chunk].read = read
        self._count(
            {
                "a chunk while the source is strained": state.overloaded is not None,
                "a chunk while the journal had no room": isinstance(state.room, Full),
                "a chunk came before an older one": order[0] != read.chunk,
                "a chunk without rows": not read.rows.num_rows,
            }
        )

    def _opened(self, state: State) -> None:
        after = state.windows
        new = [w for w in after if w.order.chunk not in self._windows]
        for window in new:
            self._windows[window.order.chunk] = _Window()
        if not new:
            return
        tables = [window_table(window) for window in after]
        asked = {window.order.chunk.snapshot for window in new}
        requests = [window.order.request for window in new if isinstance(window.order, ReadChunk)]
        self._count(
            {
                "two windows of one table open": len(set(tables)) < len(tables),
                "windows of two tables open": len(set(tables)) > 1,
                "a blocking snapshot": any(s.blocking for s in state.checkpoint.snapshots if s.id in asked),
                "a snapshot of some rows": not all(request.whole for request in requests),
                "a snapshot along another key": any(request.surrogate for request in requests),
                "many windows open": len(tables) > 3,
                "a window dropped by a statement and asked again": bool(set(tables) & self._dropped),
            }
        )

    def _closed(self, before: State, message: ToWatermarkCoordinator, after: State) -> None:
        still = {window.order.chunk for window in after.windows}
        for window in before.windows:
            chunk = window.order.chunk
            if chunk not in still:
                seen = self._windows.pop(chunk)
                if _chunks(after, chunk) > _chunks(before, chunk) and seen.read is not None:
                    self._emitted(seen.read, seen.passed, message)
                elif isinstance(message, ChangesVerified | TransactionPartVerified):
                    self.reached["a chunk was ordered again with fewer rows"] += isinstance(window, Reading)

    def _emitted(self, read: ChunkRead, passed: list[Transaction], message: ToWatermarkCoordinator) -> None:
        table, keys = read.chunk.table, set(read.rows["id"].to_pylist())
        changes = [(t.gtid in read.low, c) for t in passed for c in t.changes if c.table == table]
        touching = [c for in_low, c in changes if not in_low and keys & set(c.keys)]
        touched = {key for change in touching for key in change.keys} & keys
        deleted = {c.before[0] for c in touching if c.before and not c.after}
        self._count(
            {
                "a window in which nothing happened": not passed,
                "a window closes by a marker": isinstance(read.high, MarkerRow),
                "a window closes by a set": isinstance(read.high, GtidSet),
                "a set that holds what never comes": isinstance(read.high, GtidSet)
                and bool(self._server.strays),
                "an event ends exactly at high": any(t.end == read.high for t in passed),
                "a window closes at once": isinstance(message, ChunkRead),
                "a window closes by a heartbeat": isinstance(message, LogAdvanced),
                "a window closes by changes": isinstance(message, ChangesVerified),
                "a row gave way, and others of its chunk didn't": bool(touched) and touched != keys,
                "a whole chunk gave way": bool(touched) and touched == keys,
                "a row deleted and inserted anew in the window": any(
                    c.after and not c.before and c.after[0] in deleted for c in touching
                ),
                "touched by what low holds alone": any(
                    in_low and keys & set(c.keys) - touched for in_low, c in changes
                ),
            }
            | {f"a row {how} in the window": True for how in {_how(c, keys) for c in touching}}
        )


_WITHIN: dict[type, str] = {
    ChunkRead: "a chunk came within a transaction",
    TablePlanned: "a plan came within a transaction",
    SignalReceived: "a signal came within a transaction",
}


def _how(change: Change, keys: set[int]) -> str:
    match change:
        case Change(_, None, _):
            return "inserted"
        case Change(_, _, None):
            return "deleted"
        case Change(_, (before, _), (after, _)) if before == after:
            return "changed"
        case Change(_, (before, _), _) if before in keys:
            return "moved away"
        case _:
            return "moved into the chunk"


def _chunks(state: State, chunk: ChunkId) -> int:
    found = [s.tables.get(chunk.table) for s in state.checkpoint.snapshots if s.id == chunk.snapshot]
    return progress(found[0]).chunks if found and found[0] else 0


def _any(checkpoint: Checkpoint, kind: type) -> bool:
    return any(isinstance(t, kind) for s in checkpoint.snapshots for t in s.tables.values())


def _out_of_order(checkpoint: Checkpoint) -> bool:
    tables = [t for s in checkpoint.snapshots for t in s.tables.values() if isinstance(t, Chunking)]
    return any(t.ranges and t.ranges[0].number < t.progress.ranges_done for t in tables)
