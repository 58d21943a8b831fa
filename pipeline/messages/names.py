"""The names under which messages are exported: values of the metric label `message`.

A class may be renamed. Its name here stays, since dashboards and alerts refer to it.
"""

from collections.abc import Mapping
from typing import Final

from pipeline.messages.binlog import (
    CreationRead,
    LogAdvanced,
    LogRead,
    PauseReading,
    ReadingPaused,
    ResumeReading,
    StatementRead,
    TransactionPartRead,
)
from pipeline.messages.changes import (
    ChangesVerified,
    SchemaChanged,
    SchemaVerified,
    TableRestarted,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkOutdated,
    ChunkRead,
    CloseTransactions,
    OpenTransactions,
    PlanFailed,
    PlanTable,
    ReadChunk,
    ReadKeys,
    SourceEased,
    SourceStrained,
    TablePlanned,
    TransactionsOpened,
)
from pipeline.messages.journal import (
    Append,
    AppendRows,
    CheckpointSealed,
    MirrorsLacked,
    RoomEnded,
    RoomMade,
    SegmentSealed,
)
from pipeline.messages.signals import SignalAccepted, SignalReceived, SignalRejected

NAMES: Final[Mapping[type, str]] = {
    Append: "Append",
    AppendRows: "AppendRows",
    ChangesVerified: "ChangesVerified",
    ChunkFailed: "ChunkFailed",
    ChunkOutdated: "ChunkOutdated",
    ChunkRead: "ChunkRead",
    CreationRead: "CreationRead",
    LogAdvanced: "LogAdvanced",
    LogRead: "LogRead",
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
    StatementRead: "StatementRead",
    TablePlanned: "TablePlanned",
    TableRestarted: "TableRestarted",
    TableStopped: "TableStopped",
    TransactionPartRead: "TransactionPartRead",
    TransactionPartVerified: "TransactionPartVerified",
    CheckpointSealed: "CheckpointSealed",
    CloseTransactions: "CloseTransactions",
    MirrorsLacked: "MirrorsLacked",
    OpenTransactions: "OpenTransactions",
    ReadKeys: "ReadKeys",
    RoomEnded: "RoomEnded",
    RoomMade: "RoomMade",
    SourceEased: "SourceEased",
    SourceStrained: "SourceStrained",
    TransactionsOpened: "TransactionsOpened",
}

# A message that has no name yet: metrics never fail an actor.
UNNAMED: Final = "unnamed"


def name_of(message: object) -> str:
    """The exported name of a message."""
    return NAMES.get(type(message), UNNAMED)
