"""The flow as data: who sends what to whom, how much may wait, what happens when the mailbox is full, and who restarts
together.

A cycle of full mailboxes in which every edge waits is a deadlock. So every cycle here has an edge that can't wait. By
protocol no more messages can be under way on it than fit (BOUNDED), or only the newest counts (NEWEST). A test follows
all cycles.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from pipeline.config.settings import MOST_WINDOWS
from pipeline.messages import binlog, changes, chunks, inboxes, journal, signals


class ActorName(StrEnum):
    """The actors, in the order in which a row meets them."""

    SIGNAL_LISTENER = "SignalListener"
    BINLOG_READER = "BinlogReader"
    SCHEMA_VERIFIER = "SchemaVerifier"
    WATERMARK_COORDINATOR = "WatermarkCoordinator"
    CHUNK_SELECTOR = "ChunkSelector"
    JOURNAL_WRITER = "JournalWriter"
    SPARK_SINK = "SparkSink"
    KAFKA_SINK = "KafkaSink"


@dataclass(frozen=True, slots=True)
class Group:
    """Actors that restart together.

    `alone`: no failure except a broken invariant affects other groups, and the group is always built again. `lacks`:
    what lacks the segments sealed since, when the group can't be built again before a stop.
    """

    name: str
    actors: tuple[ActorName, ...]
    alone: bool = False
    lacks: str | None = None


# One chain of state from the log to the journal: it's built again from the last sealed segment.
CAPTURE = Group(
    "capture",
    (
        ActorName.BINLOG_READER,
        ActorName.SCHEMA_VERIFIER,
        ActorName.WATERMARK_COORDINATOR,
        ActorName.CHUNK_SELECTOR,
        ActorName.JOURNAL_WRITER,
    ),
)
DELIVERY = Group("delivery", (ActorName.SPARK_SINK,), lacks="the lake lacks")
KAFKA = Group("kafka", (ActorName.KAFKA_SINK,), alone=True, lacks="the topics lack")
CONTROL = Group("control", (ActorName.SIGNAL_LISTENER,))
GROUPS = (CAPTURE, DELIVERY, KAFKA, CONTROL)


class WhenFull(StrEnum):
    """What a sender meets when the receiver's mailbox has no room."""

    # It waits: back-pressure.
    WAIT = "wait"
    # The protocol bounds what is under way, so this can't happen. If it does, an invariant is broken.
    BOUNDED = "bounded"
    # The waiting message is replaced, since the newest says it all.
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the flow. `why` argues for BOUNDED and NEWEST.

    It's full with `bound` messages, or when those that wait weigh `bytes` (`pipeline.messages.message_size`), where
    that's said. One message more may be heavier than that, since it can't be divided.
    """

    sender: ActorName
    receiver: ActorName
    messages: tuple[type, ...]
    bound: int
    when_full: WhenFull
    why: str = ""
    bytes: int | None = None


# How many signals may be unanswered at once; the SignalListener takes no further one before.
MOST_SIGNALS = 64

# How many bytes of rows out of the log may wait on each of the edges that they take: a full slice, and one more comes.
ROWS_WAITING = 4 << 20

EDGES = (
    Edge(
        ActorName.SIGNAL_LISTENER,
        ActorName.WATERMARK_COORDINATOR,
        (signals.SignalReceived,),
        MOST_SIGNALS,
        WhenFull.WAIT,
    ),
    Edge(
        ActorName.BINLOG_READER,
        ActorName.SCHEMA_VERIFIER,
        get_args(inboxes.ToSchemaVerifier),
        8,
        WhenFull.WAIT,
        bytes=ROWS_WAITING,
    ),
    Edge(
        ActorName.SCHEMA_VERIFIER,
        ActorName.WATERMARK_COORDINATOR,
        (
            changes.ChangesVerified,
            changes.TransactionPartVerified,
            changes.SchemasVerified,
            changes.SchemaChanged,
            changes.EnginesSurveyed,
            changes.ForeignKeysFollowed,
            changes.MirrorInvalidated,
            changes.TableStopped,
            binlog.LogAdvanced,
            binlog.ReadingPaused,
        ),
        8,
        WhenFull.WAIT,
        bytes=ROWS_WAITING,
    ),
    Edge(
        ActorName.WATERMARK_COORDINATOR,
        ActorName.CHUNK_SELECTOR,
        get_args(inboxes.ToChunkSelector),
        2 * MOST_WINDOWS,
        WhenFull.BOUNDED,
        "one order for each window or planned table, no more of these than MOST_WINDOWS each; one for rows that are "
        "read by their keys, one for transactions, and one for a scan",
    ),
    Edge(
        ActorName.CHUNK_SELECTOR,
        ActorName.WATERMARK_COORDINATOR,
        (
            chunks.TablePlanned,
            chunks.PlanFailed,
            chunks.ChunkRead,
            chunks.ChunkFailed,
            chunks.ChunkSchemaChanged,
            chunks.SourceOverloaded,
            chunks.SourceRecovered,
            chunks.TransactionsOpened,
            chunks.ScanOpened,
            chunks.ScanRead,
            chunks.ScanFailed,
        ),
        2 * MOST_WINDOWS,
        WhenFull.WAIT,
    ),
    Edge(
        ActorName.WATERMARK_COORDINATOR,
        ActorName.BINLOG_READER,
        get_args(inboxes.ToBinlogReader),
        4,
        WhenFull.BOUNDED,
        "a pause is ordered only while reading, a resume only while paused, and ReadingPaused lies between",
    ),
    Edge(
        ActorName.WATERMARK_COORDINATOR,
        ActorName.JOURNAL_WRITER,
        get_args(inboxes.ToJournalWriter),
        8,
        WhenFull.WAIT,
        bytes=ROWS_WAITING,
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.WATERMARK_COORDINATOR,
        (journal.JournalFull, journal.JournalHasSpace),
        1,
        WhenFull.NEWEST,
        "the last one says how it is",
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.WATERMARK_COORDINATOR,
        (journal.ChunksFlushed,),
        1,
        WhenFull.NEWEST,
        "a later SCN includes the earlier ones",
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.SIGNAL_LISTENER,
        get_args(signals.SignalAnswer),
        2 * MOST_SIGNALS,
        WhenFull.BOUNDED,
        "one answer for each signal, and no more than MOST_SIGNALS unanswered",
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.SIGNAL_LISTENER,
        (journal.CheckpointSealed,),
        1,
        WhenFull.NEWEST,
        "a later checkpoint says all that has happened",
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.SPARK_SINK,
        (journal.SegmentSealed,),
        1,
        WhenFull.NEWEST,
        "a later segment number includes the earlier ones",
    ),
    Edge(
        ActorName.JOURNAL_WRITER,
        ActorName.KAFKA_SINK,
        (journal.SegmentSealed,),
        1,
        WhenFull.NEWEST,
        "a later segment number includes the earlier ones",
    ),
    Edge(
        ActorName.SPARK_SINK,
        ActorName.WATERMARK_COORDINATOR,
        (journal.MirrorDataExpired,),
        1,
        WhenFull.NEWEST,
        "it names everything that is missing, and the sink repeats it until that has come",
    ),
    Edge(
        ActorName.SPARK_SINK,
        ActorName.WATERMARK_COORDINATOR,
        (journal.DifferencesReported,),
        1,
        WhenFull.NEWEST,
        "it names the batch of keys that is next, and the sink repeats it until that has passed",
    ),
)


def inbox(receiver: ActorName) -> tuple[Edge, ...]:
    """The edges that end at the receiver; its mailbox has room for the sum of their bounds."""
    return tuple(edge for edge in EDGES if edge.receiver is receiver)
