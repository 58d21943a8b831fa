"""Everything that crosses from one actor to another, in the order a row meets it.

Facts are in the past tense, orders in the imperative. All are frozen; the big ones carry Arrow columns, never rows.

The log crosses in *slices*: several whole transactions in commit order, which make the flow columnar. All that the
window rules ask for happens between two slices, which is between two transactions. A transaction that's larger than a
slice comes in *parts*, before it has passed. After a part come only further ones (or a pause). Then comes the slice
whose first transaction it is, with the rows that are left, perhaps none.
"""

from pipeline.messages import binlog, changes, chunks, journal, signals

ToSchemaVerifier = (
    binlog.TransactionsRead
    | binlog.TransactionPartRead
    | binlog.DdlRead
    | binlog.CreateTableSelectRead
    | binlog.LogAdvanced
    | binlog.ReadingPaused
)
ToChunkSelector = (
    chunks.PlanTable
    | chunks.ReadChunk
    | chunks.ReselectRows
    | chunks.RepairRows
    | chunks.OpenTransactions
    | chunks.CloseTransactions
    | chunks.OpenScan
    | chunks.ReadScan
    | chunks.CloseScan
)
ToBinlogReader = binlog.PauseReading | binlog.ResumeReading
_OfTables = (
    changes.SchemasVerified
    | changes.SchemaChanged
    | changes.EnginesSurveyed
    | changes.ForeignKeysFollowed
    | changes.MirrorInvalidated
    | changes.TableStopped
)
_OfTheLog = (
    changes.ChangesVerified | changes.TransactionPartVerified | binlog.LogAdvanced | binlog.ReadingPaused
)
_OfChunks = (
    chunks.TablePlanned
    | chunks.PlanFailed
    | chunks.ChunkRead
    | chunks.ChunkFailed
    | chunks.ChunkSchemaChanged
)
_OfScans = chunks.ScanOpened | chunks.ScanRead | chunks.ScanFailed
_OfTheSource = chunks.SourceOverloaded | chunks.SourceRecovered | chunks.TransactionsOpened
_OfTheJournal = (
    journal.MirrorDataExpired | journal.JournalFull | journal.JournalHasSpace | journal.ChunksFlushed
)
_OfTheLake = journal.DifferencesReported
ToWatermarkCoordinator = (
    _OfTheLog
    | _OfTables
    | _OfChunks
    | _OfScans
    | _OfTheSource
    | _OfTheJournal
    | _OfTheLake
    | signals.SignalReceived
)
ToJournalWriter = journal.AppendRows | journal.Append
ToSignalListener = signals.SignalAccepted | signals.SignalRejected | journal.CheckpointSealed
ToSparkSink = journal.SegmentSealed
ToKafkaSink = journal.SegmentSealed
