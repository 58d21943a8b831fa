"""The names under which messages are exported: values of the metric label `message`.

A class may be renamed. Its name here stays, since dashboards and alerts refer to it.
"""

from collections.abc import Mapping
from typing import Final

from pipeline.messages import binlog, changes, chunks, journal, signals

MESSAGE_NAMES: Final[Mapping[type, str]] = {
    journal.Append: "Append",
    journal.AppendRows: "AppendRows",
    changes.ChangesVerified: "ChangesVerified",
    chunks.ChunkFailed: "ChunkFailed",
    chunks.ChunkSchemaChanged: "ChunkOutdated",
    chunks.ChunkRead: "ChunkRead",
    binlog.CreateTableSelectRead: "CreationRead",
    binlog.LogAdvanced: "LogAdvanced",
    binlog.TransactionsRead: "LogRead",
    binlog.PauseReading: "PauseReading",
    chunks.PlanFailed: "PlanFailed",
    chunks.PlanTable: "PlanTable",
    chunks.ReadChunk: "ReadChunk",
    binlog.ReadingPaused: "ReadingPaused",
    binlog.ResumeReading: "ResumeReading",
    changes.EnginesSurveyed: "EnginesSurveyed",
    changes.ForeignKeysFollowed: "ForeignKeysFollowed",
    changes.SchemaChanged: "SchemaChanged",
    changes.SchemasVerified: "SchemasVerified",
    journal.SegmentSealed: "SegmentSealed",
    signals.SignalAccepted: "SignalAccepted",
    signals.SignalReceived: "SignalReceived",
    signals.SignalRejected: "SignalRejected",
    binlog.DdlRead: "StatementRead",
    chunks.TablePlanned: "TablePlanned",
    changes.MirrorInvalidated: "TableRestarted",
    changes.TableStopped: "TableStopped",
    binlog.TransactionPartRead: "TransactionPartRead",
    changes.TransactionPartVerified: "TransactionPartVerified",
    journal.CheckpointSealed: "CheckpointSealed",
    journal.ChunksFlushed: "ChunksFlushed",
    chunks.CloseScan: "CloseScan",
    chunks.CloseTransactions: "CloseTransactions",
    journal.MirrorDataExpired: "MirrorsLacked",
    chunks.OpenScan: "OpenScan",
    chunks.OpenTransactions: "OpenTransactions",
    chunks.ReadScan: "ReadScan",
    chunks.ReselectRows: "ReadKeys",
    chunks.RepairRows: "RepairRows",
    journal.DifferencesReported: "DifferencesReported",
    journal.JournalFull: "RoomEnded",
    journal.JournalHasSpace: "RoomMade",
    chunks.ScanFailed: "ScanFailed",
    chunks.ScanOpened: "ScanOpened",
    chunks.ScanRead: "ScanRead",
    chunks.SourceRecovered: "SourceEased",
    chunks.SourceOverloaded: "SourceStrained",
    chunks.TransactionsOpened: "TransactionsOpened",
}

# A message that has no name yet: metrics never fail an actor.
UNNAMED: Final = "unnamed"


def name_of(message: object) -> str:
    """The exported name of a message."""
    return MESSAGE_NAMES.get(type(message), UNNAMED)
