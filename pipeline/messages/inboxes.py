"""Everything that crosses from one actor to another, in the order a row meets it.

Facts are in the past tense, orders in the imperative. All are frozen; the big ones carry Arrow columns, never rows.

The log crosses in *slices*: runs of whole transactions in commit order, which make the flow columnar. All that the
window rules ask for happens between two slices, which is between two transactions. A transaction that's larger than a
slice comes in *parts*, before it has passed. Behind a part come only further ones (or a pause), and then the slice
whose first transaction it is, with the rows that are left, perhaps none.
"""

from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa

from pipeline.coordinator.consistent_state import CloseTransactions, OpenTransactions, TransactionsOpened
from pipeline.coordinator.reselect_keys import ReadKeys
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.journal.quota import RoomEnded, RoomMade
from pipeline.lake.missing_generations import MirrorsLacked
from pipeline.schema.ddl.alter_table import Alteration, Altered
from pipeline.schema.row_keys import Key
from pipeline.schema.table_map import TableMap
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.outcomes import CheckpointSealed, SignalState
from pipeline.signals.signal import Signal, SourceSignal
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.chunk_index import Walk
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.snapshot.snapshot import ChunkId, Request
from pipeline.snapshot.watermark import High
from pipeline.source.throttle import SourceEased, SourceStrained


class Kind(IntEnum):
    """What a row image is: an update gives its before directly followed by its after; EMPTIED: all rows went away."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3
    EMPTIED = 4


@dataclass(frozen=True, slots=True)
class TableImages:
    """Row images of one table under one table map: `images` (`row_images.IMAGE_FIELDS`) beside `rows`, equally long.

    `rows` has one column for each column of the table, in the table's order, named "0", "1", … and of the canonical
    type, except for what the log may leave open: ENUM is its index (int32) and SET its bits (int64, by two's
    complement), without labels. Raw types (`pipeline.types.column_types.RawType`) are neutral: an integer has its bits
    read as a signed one (int8 to int64), a string the bytes that are stored (binary), which is BINARY without its
    padding. `impossible_dates`: how many dates in them are null because no calendar has them.
    """

    map: TableMap
    images: pa.RecordBatch
    rows: pa.RecordBatch
    impossible_dates: int = 0


@dataclass(frozen=True, slots=True)
class TableUnreadable:
    """In place of images: rows of this table came here that can't be decoded rightly, for this reason."""

    table: TableId
    reason: str


# BinlogReader -> SchemaVerifier


@dataclass(frozen=True, slots=True)
class RowsUnread:
    """Rows of `tables`, and of all captured tables of `databases`, may have changed; which, the log at hand can't tell.

    `databases` is None where that may be any captured table.
    """

    reason: str
    tables: frozenset[TableId] = frozenset()
    databases: frozenset[str] | None = frozenset()


@dataclass(frozen=True, slots=True)
class LogRead:
    """A slice of the log: its transactions, for each table map its images, and where the last transaction ends.

    `covered`, also below: without GTIDs, the places up to there where no transaction to come begins (`file_positions`).
    `prepared`, also below: the XA transactions that wait for their second phase there.
    """

    transactions: Transactions
    tables: tuple[TableImages | TableUnreadable, ...]
    end: Coordinates
    covered: GtidSet = NO_GTIDS
    unread: tuple[RowsUnread, ...] = ()
    prepared: tuple[XaPrepared, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionPartRead:
    """Rows of a transaction that hasn't ended; its index is 0, and the ordinals go on from part to part."""

    gtid: Gtid
    commit_time: int
    tables: tuple[TableImages | TableUnreadable, ...]


@dataclass(frozen=True, slots=True)
class StatementRead:
    """A transaction that is a statement and not rows; its text may hold a password, and is never told along.

    `strict`: whether the session's sql_mode is known to have refused values that don't fit.
    """

    gtid: Gtid
    commit_time: int
    database: str
    statement: str = field(repr=False)
    end: Coordinates
    covered: GtidSet = NO_GTIDS
    strict: bool = False
    original_time: int = 0


@dataclass(frozen=True, slots=True)
class CreationRead:
    """The statement of a transaction that creates a table and fills it (WL#13355); its rows come next."""

    database: str
    statement: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """The stream is at `end` with no transaction open: a heartbeat, a rotation, or nothing but filtered events."""

    end: Coordinates
    covered: GtidSet = NO_GTIDS
    prepared: tuple[XaPrepared, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingPaused:
    """No slice will follow until the reader is told to resume."""


# SchemaVerifier -> WatermarkCoordinator (which also gets LogAdvanced and ReadingPaused, passed on in order)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Row images under a proven schema: `images` (`row_images.CHANGE_FIELDS`) beside `rows` (`schema.arrow`)."""

    schema: TableSchema
    images: pa.RecordBatch
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class ChangesVerified:
    """A slice whose columns have proven names and types, rows of the signal table, and tables changed below the log."""

    transactions: Transactions
    tables: tuple[TableChanges, ...]
    end: Coordinates
    signals: tuple[SourceSignal, ...] = ()
    restarted: tuple["TableRestarted", ...] = ()
    covered: GtidSet = NO_GTIDS
    prepared: tuple[XaPrepared, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionPartVerified:
    """A part of a transaction that hasn't ended, its columns having proven names and types."""

    gtid: Gtid
    commit_time: int
    tables: tuple[TableChanges, ...]


@dataclass(frozen=True, slots=True)
class SchemaVerified:
    """From this place on the table has this schema; it's `restarted`, at once, where its rows can't stay under it."""

    schema: TableSchema
    restarted: tuple["TableRestarted", ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """A statement passed that may have changed `tables`, captured ones; some are `restarted`, some surely altered."""

    gtid: Gtid
    tables: frozenset[TableId]
    statement: str = field(repr=False)
    end: Coordinates
    restarted: tuple["TableRestarted", ...] = ()
    covered: GtidSet = NO_GTIDS
    alterations: tuple[Alteration, ...] = ()
    commit_time: int = 0
    original_time: int = 0


@dataclass(frozen=True, slots=True)
class TableRestarted:
    """What the mirror has of the table isn't so any more: it has no rows (`emptied`), or they're to be read anew.

    `gap`: changes of it that passed just before are missing from the stream, so that only another reading tells.
    """

    table: TableId
    emptied: bool
    reason: str
    gap: bool = False


@dataclass(frozen=True, slots=True)
class TableStopped:
    """From this place in the stream on, changes of the table can't be given rightly, for this reason."""

    table: TableId
    reason: str


# WatermarkCoordinator <-> ChunkSelector


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Find the table's schema and walk, and at most `ranges` (0: none), where all that passed at `asked_at` is seen."""

    table: TableId
    request: Request
    ranges: int
    asked_at: GtidSet


@dataclass(frozen=True, slots=True)
class TablePlanned:
    """The ranges end at `splits`, in order, and at `end`, the last key; `expected` rows by the server's estimate.

    `end` is None for an empty table, which it is once `high` has passed, and if no ranges were asked for.
    """

    schema: TableSchema
    walk: Walk
    end: Key | None
    splits: tuple[Key, ...]
    expected: int
    high: High


@dataclass(frozen=True, slots=True)
class PlanFailed:
    """The table can't be snapshotted, and why, after retries where these could help."""

    table: TableId
    reason: str


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read the next `limit` rows with `after` < key <= `end`, with a low watermark that contains `asked_at`."""

    chunk: ChunkId
    schema: TableSchema
    walk: Walk
    request: Request
    range: int
    after: Key | None
    end: Key
    limit: int
    asked_at: GtidSet


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """The chunk's rows, up to a key, or to the range's end (None); its SELECT's µs, and the bytes of its packets."""

    chunk: ChunkId
    low: GtidSet
    rows: pa.RecordBatch
    upto: Key | None
    high: High
    took: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ChunkFailed:
    """The chunk couldn't be read, and why, after retries where these could help."""

    chunk: ChunkId
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkOutdated:
    """The table doesn't have the columns any more that the chunk was ordered with; the stream is behind the source.

    `reason`: the source's words. `high`: once the stream has passed this, it has all that the source showed. None in a
    consistent snapshot.
    """

    chunk: ChunkId
    reason: str = "the table was altered"
    high: High | None = None


# SignalListener <-> WatermarkCoordinator (the answer goes by way of the JournalWriter, once it's durable)


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """A well-formed signal has come."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class SignalAccepted:
    """The signal has taken effect, durably; `detail` says what it did."""

    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class SignalRejected:
    """The signal has no effect, and why."""

    id: str
    reason: str


SignalAnswer = SignalAccepted | SignalRejected
Judged = SignalAnswer | SignalState  # the latter where nobody waits for an answer


# WatermarkCoordinator -> BinlogReader


@dataclass(frozen=True, slots=True)
class PauseReading:
    """Read no further slice once the stream has reached `at`, and say so with ReadingPaused, behind what was read."""

    at: Coordinates | None = None


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """Go on reading."""


# WatermarkCoordinator -> JournalWriter


@dataclass(frozen=True, slots=True)
class ChangePart:
    """Changes for the journal. The transaction with index i in the slice has the SCN `first_scn` + i."""

    changes: TableChanges
    transactions: Transactions
    first_scn: int


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """The rows of a chunk that didn't give way to changes, at their place in the stream.

    `first`: they go straight to the mirror; otherwise they are changes of their own (`op` = r) with this `scn`.
    """

    chunk: ChunkId
    schema: TableSchema
    rows: pa.RecordBatch
    low: GtidSet
    high: High
    scn: int
    first: bool


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Keep these rows of a transaction that hasn't ended: the next Append has them before its own."""

    parts: tuple[ChangePart, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Put the parts into the journal, with the checkpoint they complete, but no kept rows of `withdrawn` tables.

    Where tables were altered a segment begins: all that's in it came behind the statement.
    """

    parts: tuple[ChangePart | ChunkPart, ...]
    checkpoint: Checkpoint
    answers: tuple[Judged, ...] = ()
    withdrawn: frozenset[TableId] = frozenset()
    alterations: tuple[Altered, ...] = ()


# JournalWriter -> SparkSink


@dataclass(frozen=True, slots=True)
class SegmentSealed:
    """The journal holds all segments through this number, durably."""

    segment: int


ToSchemaVerifier = LogRead | TransactionPartRead | StatementRead | CreationRead | LogAdvanced | ReadingPaused
ToChunkSelector = PlanTable | ReadChunk | ReadKeys | OpenTransactions | CloseTransactions
ToBinlogReader = PauseReading | ResumeReading
_OfTables = SchemaVerified | SchemaChanged | TableRestarted | TableStopped
_OfTheLog = ChangesVerified | TransactionPartVerified | LogAdvanced | ReadingPaused
_OfChunks = TablePlanned | PlanFailed | ChunkRead | ChunkFailed | ChunkOutdated
_OfTheSource = SourceStrained | SourceEased | TransactionsOpened
_OfTheJournal = MirrorsLacked | RoomEnded | RoomMade
ToWatermarkCoordinator = _OfTheLog | _OfTables | _OfChunks | _OfTheSource | _OfTheJournal | SignalReceived
ToJournalWriter = AppendRows | Append
ToSignalListener = SignalAccepted | SignalRejected | CheckpointSealed
ToSparkSink = SegmentSealed
