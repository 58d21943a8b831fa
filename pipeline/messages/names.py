"""The names under which messages are exported: values of the metric label `message`.

A class may be renamed. Its name here stays, since dashboards and alerts refer to it.
"""

from collections.abc import Mapping
from typing import Final

from pipeline.coordinator.consistent_state import CloseTransactions, OpenTransactions, TransactionsOpened
from pipeline.coordinator.reselect_keys import ReadKeys
from pipeline.journal.quota import RoomEnded, RoomMade
from pipeline.lake.missing_generations import MirrorsLacked
from pipeline.messages import inboxes as messages
from pipeline.signals.outcomes import CheckpointSealed
from pipeline.source.throttle import SourceEased, SourceStrained

NAMES: Final[Mapping[type, str]] = {
    messages.Append: "Append",
    messages.AppendRows: "AppendRows",
    messages.ChangesVerified: "ChangesVerified",
    messages.ChunkFailed: "ChunkFailed",
    messages.ChunkOutdated: "ChunkOutdated",
    messages.ChunkRead: "ChunkRead",
    messages.CreationRead: "CreationRead",
    messages.LogAdvanced: "LogAdvanced",
    messages.LogRead: "LogRead",
    messages.PauseReading: "PauseReading",
    messages.PlanFailed: "PlanFailed",
    messages.PlanTable: "PlanTable",
    messages.ReadChunk: "ReadChunk",
    messages.ReadingPaused: "ReadingPaused",
    messages.ResumeReading: "ResumeReading",
    messages.SchemaChanged: "SchemaChanged",
    messages.SchemaVerified: "SchemaVerified",
    messages.SegmentSealed: "SegmentSealed",
    messages.SignalAccepted: "SignalAccepted",
    messages.SignalReceived: "SignalReceived",
    messages.SignalRejected: "SignalRejected",
    messages.StatementRead: "StatementRead",
    messages.TablePlanned: "TablePlanned",
    messages.TableRestarted: "TableRestarted",
    messages.TableStopped: "TableStopped",
    messages.TransactionPartRead: "TransactionPartRead",
    messages.TransactionPartVerified: "TransactionPartVerified",
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
