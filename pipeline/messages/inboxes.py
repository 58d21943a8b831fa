"""Everything that crosses from one actor to another, in the order a row meets it.

Facts are in the past tense, orders in the imperative. All are frozen; the big ones carry Arrow columns, never rows.

The log crosses in *slices*: runs of whole transactions in commit order, which make the flow columnar. All that the
window rules ask for happens between two slices, which is between two transactions. A transaction that's larger than a
slice comes in *parts*, before it has passed. Behind a part come only further ones (or a pause), and then the slice
whose first transaction it is, with the rows that are left, perhaps none.
"""

from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    PauseReading,
    ReadingPaused,
    ResumeReading,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    ChunkSchemaChanged,
    CloseTransactions,
    OpenTransactions,
    PlanFailed,
    PlanTable,
    ReadChunk,
    ReselectRows,
    SourceOverloaded,
    SourceRecovered,
    TablePlanned,
    TransactionsOpened,
)
from pipeline.messages.journal import (
    Append,
    AppendRows,
    CheckpointSealed,
    JournalFull,
    JournalHasSpace,
    MirrorDataExpired,
    SegmentSealed,
)
from pipeline.messages.signals import SignalAccepted, SignalReceived, SignalRejected

# BinlogReader -> SchemaVerifier


# SchemaVerifier -> WatermarkCoordinator (which also gets LogAdvanced and ReadingPaused, passed on in order)


# WatermarkCoordinator <-> ChunkSelector


# SignalListener <-> WatermarkCoordinator (the answer comes by the JournalWriter, once it's durable)


# WatermarkCoordinator -> BinlogReader


# WatermarkCoordinator -> JournalWriter


# JournalWriter -> SparkSink


ToSchemaVerifier = (
    TransactionsRead | TransactionPartRead | DdlRead | CreateTableSelectRead | LogAdvanced | ReadingPaused
)
ToChunkSelector = PlanTable | ReadChunk | ReselectRows | OpenTransactions | CloseTransactions
ToBinlogReader = PauseReading | ResumeReading
_OfTables = SchemaVerified | SchemaChanged | MirrorInvalidated | TableStopped
_OfTheLog = ChangesVerified | TransactionPartVerified | LogAdvanced | ReadingPaused
_OfChunks = TablePlanned | PlanFailed | ChunkRead | ChunkFailed | ChunkSchemaChanged
_OfTheSource = SourceOverloaded | SourceRecovered | TransactionsOpened
_OfTheJournal = MirrorDataExpired | JournalFull | JournalHasSpace
ToWatermarkCoordinator = _OfTheLog | _OfTables | _OfChunks | _OfTheSource | _OfTheJournal | SignalReceived
ToJournalWriter = AppendRows | Append
ToSignalListener = SignalAccepted | SignalRejected | CheckpointSealed
ToSparkSink = SegmentSealed
ToKafkaSink = SegmentSealed
