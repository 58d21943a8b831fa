"""The names under which messages are exported: values of the metric label `message`.

A class may be renamed. Its name here stays, since dashboards and alerts refer to it.
"""

from collections.abc import Mapping
from typing import Final

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

NAMES: Final[Mapping[type, str]] = {
    Append: "Append",
    AppendRows: "AppendRows",
    ChangesVerified: "ChangesVerified",
    ChunkFailed: "ChunkFailed",
    ChunkSchemaChanged: "ChunkOutdated",
    ChunkRead: "ChunkRead",
    CreateTableSelectRead: "CreationRead",
    LogAdvanced: "LogAdvanced",
    TransactionsRead: "LogRead",
    PauseReading: "PauseReading",
    PlanFailed: "PlanFailed",
    PlanTable: "PlanTable",
    ReadChunk: "ReadChunk",
    ReadingPaused: "ReadingPaused",
    ResumeReading: "ResumeReading",
    SchemaChanged: "SchemaChanged",
    SchemaVerified: "SchemaVerified",
    SegmentSealed: "SegmentSealed",
    SignalAccepted: "SignalAccepted",
    SignalReceived: "SignalReceived",
    SignalRejected: "SignalRejected",
    DdlRead: "StatementRead",
    TablePlanned: "TablePlanned",
    MirrorInvalidated: "TableRestarted",
    TableStopped: "TableStopped",
    TransactionPartRead: "TransactionPartRead",
    TransactionPartVerified: "TransactionPartVerified",
    CheckpointSealed: "CheckpointSealed",
    CloseTransactions: "CloseTransactions",
    MirrorDataExpired: "MirrorsLacked",
    OpenTransactions: "OpenTransactions",
    ReselectRows: "ReadKeys",
    JournalFull: "RoomEnded",
    JournalHasSpace: "RoomMade",
    SourceRecovered: "SourceEased",
    SourceOverloaded: "SourceStrained",
    TransactionsOpened: "TransactionsOpened",
}

# A message that has no name yet: metrics never fail an actor.
UNNAMED: Final = "unnamed"


def name_of(message: object) -> str:
    """The exported name of a message."""
    return NAMES.get(type(message), UNNAMED)
