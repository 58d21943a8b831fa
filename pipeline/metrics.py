"""Every metric as data: its name, labels and meaning, so that dashboards, alerts and docs can be held against it.

Names follow Prometheus' conventions: the prefix, what's measured, the base unit, and `_total` where it only grows.
Moments are exported as timestamps, never as ages, so that a process that hangs is seen to.
"""

from dataclasses import dataclass

PREFIX = "tidemark_"

# What a number may be counted in; each name ends with one of these (before `_total`).
UNITS = (
    "bytes",
    "chunks",
    "dates",
    "errors",
    "files",
    "images",
    "messages",
    "ranges",
    "restarts",
    "rows",
    "seconds",
    "segments",
    "signals",
    "state",
    "transactions",
    "windows",
)

# A second is what freshness is promised in; seconds are what a MERGE takes.
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Counter:
    """What only grows; its name ends with `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gauge:
    """What goes up and down."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """What is spread out; `buckets` are upper bounds in the unit of the name."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


Metric = Counter | Gauge | Histogram

# Every actor

MAILBOX_DEPTH = Gauge(
    "tidemark_mailbox_depth_messages", "Messages that wait in the actor's mailbox.", ("actor",)
)
MAILBOX_CAPACITY = Gauge(
    "tidemark_mailbox_capacity_messages", "Messages that fit into the mailbox.", ("actor",)
)
HANDLED = Counter(
    "tidemark_actor_handled_messages_total",
    "Messages that the actor has handled; outcome is done, failed or cancelled.",
    ("actor", "message", "outcome"),
)
HANDLING = Histogram(
    "tidemark_actor_handling_seconds",
    "Time taken by one message, waiting for room included.",
    ("actor", "message"),
)
RESTARTS = Counter("tidemark_actor_restarts_total", "Times that the actor was built anew.", ("actor",))
PROGRESS = Gauge(
    "tidemark_actor_progress_timestamp_seconds", "When the actor last got on with its work.", ("actor",)
)
UP = Gauge(
    "tidemark_actor_up_state",
    "1 while the actor runs, 0 while it's being restarted or has ended.",
    ("actor",),
)
ERRORS = Counter(
    "tidemark_errors_total",
    "Failures of actors; kind is transient, definite, invariant, hang or unforeseen.",
    ("actor", "kind"),
)

# Capture

BINLOG_POSITION = Gauge(
    "tidemark_binlog_position_bytes", "Offset in the binlog file that the reader is in.", ("file",)
)
BINLOG_READ = Counter("tidemark_binlog_read_bytes_total", "Bytes of the binlog read from the server.")
SOURCE_LAG = Gauge(
    "tidemark_source_lag_seconds",
    "Age of the newest commit read from the log, when it was read; 0 when caught up.",
)
LAST_EVENT = Gauge(
    "tidemark_binlog_event_timestamp_seconds", "When the log (or its heartbeat) was last heard of."
)
TRANSACTIONS = Counter(
    "tidemark_transactions_total", "Transactions read from the log, filtered ones included."
)
ROWS_READ = Counter(
    "tidemark_images_total",
    "Row images read from the log; kind is insert, update_before, update_after or delete.",
    ("table", "kind"),
)
IMPOSSIBLE_DATES = Counter(
    "tidemark_impossible_dates_total",
    "Dates that are null in the lake because no calendar has them (zero and partial ones); part is changes or chunks.",
    ("table", "part"),
)
STATEMENTS = Counter(
    "tidemark_statement_transactions_total", "Transactions that were statements (DDL and its like)."
)
SCHEMA_CHANGES = Counter(
    "tidemark_schema_change_transactions_total",
    "Statements that changed a captured table's schema.",
    ("table",),
)
TABLE_RESTARTS = Counter(
    "tidemark_table_restarts_total",
    "Times that a table's rows changed without the log telling, so that its mirror begins anew.",
    ("table",),
)
TABLE_STOPPED = Gauge(
    "tidemark_table_stopped_state", "1 when the table can't be captured any more.", ("table",)
)
PAUSED = Gauge("tidemark_reading_paused_state", "1 while the coordinator keeps the binlog reader paused.")

# Snapshots

WINDOWS_OPEN = Gauge(
    "tidemark_open_windows", "Windows that are open, from the order of a chunk to its close."
)
CHUNKS = Counter(
    "tidemark_snapshot_chunks_total", "Chunks by outcome: emitted or failed.", ("table", "outcome")
)
CHUNK_READ = Histogram(
    "tidemark_snapshot_chunk_read_seconds", "Time to read one chunk, watermarks included.", ("table",)
)
WINDOW = Histogram(
    "tidemark_snapshot_window_seconds",
    "Time from the order of a chunk to its window's close, or to its end by a statement or a stop.",
    ("table",),
)
SNAPSHOT_ROWS = Counter("tidemark_snapshot_read_rows_total", "Rows that chunks have read.", ("table",))
ROWS_READ_AGAIN = Counter(
    "tidemark_reread_rows_total",
    "Rows that were read again, since their changes lack columns.",
    ("table",),
)
ROWS_UNREAD = Gauge(
    "tidemark_unread_rows",
    "Rows that are to be read again, which the lake doesn't show until then.",
    ("table",),
)
ROWS_GIVEN_UP = Counter(
    "tidemark_snapshot_given_up_rows_total",
    "Chunk rows that gave way to a change in their window.",
    ("table",),
)
ROWS_EXPECTED = Gauge(
    "tidemark_snapshot_expected_rows", "Rows of the table by the server's own estimate.", ("table",)
)
ROWS_DONE = Gauge(
    "tidemark_snapshot_done_rows", "Rows of the running or last snapshot that are emitted.", ("table",)
)
RANGES = Gauge(
    "tidemark_snapshot_ranges", "Ranges that the running or last snapshot divided the table into.", ("table",)
)
RANGES_DONE = Gauge(
    "tidemark_snapshot_done_ranges", "How many of these are emitted through their end.", ("table",)
)
SNAPSHOT_LEFT = Gauge(
    "tidemark_snapshot_left_seconds",
    "How long the table's running snapshot still takes at its present pace, by the server's estimate of its rows.",
    ("table",),
)
SOURCE_BUSY = Gauge(
    "tidemark_source_busy_state", "1 while no chunk is asked for, since the source has enough to do."
)

# Journal

SEGMENTS_SEALED = Counter("tidemark_journal_sealed_segments_total", "Segments sealed.")
SEALING = Histogram("tidemark_journal_sealing_seconds", "Time to write, sync and publish one segment.")
JOURNAL_WRITTEN = Counter("tidemark_journal_written_bytes_total", "Bytes written into segments.")
JOURNAL_SIZE = Gauge("tidemark_journal_size_bytes", "Bytes of all segments that are kept.")
JOURNAL_FULL = Gauge("tidemark_journal_full_state", "1 while capture waits, since the journal has no room.")
JOURNAL_ROWS = Counter(
    "tidemark_journal_rows_total", "Rows sealed; part is changes or chunks.", ("table", "part")
)
COMMIT_TO_JOURNAL = Histogram(
    "tidemark_commit_to_journal_seconds",
    "From the commit on the source to the sealed segment, the oldest of each.",
)

# Delivery

SPARK_UP = Gauge("tidemark_spark_up_state", "1 while there's a Spark session.")
SPARK_BATCH = Histogram("tidemark_spark_batch_seconds", "Time to append one batch of segments to the lake.")
DELIVERED = Counter(
    "tidemark_delivered_rows_total",
    "Rows appended to lake tables; tier is changelog or mirror.",
    ("table", "tier"),
)
DELIVERED_SEGMENT = Gauge(
    "tidemark_delivered_segments", "Number of the last segment that is wholly delivered."
)
MERGE = Histogram(
    "tidemark_merge_seconds", "Time to merge a table's pending changes into its mirror.", ("table",)
)
MIRROR_PENDING = Gauge(
    "tidemark_mirror_pending_rows", "Changes that the mirror hasn't merged yet.", ("table",)
)
MAINTENANCE = Histogram(
    "tidemark_maintenance_seconds",
    "Time to maintain a lake table; kind is compact, trim or vacuum.",
    ("table", "tier", "kind"),
)
FILES_COME = Gauge(
    "tidemark_uncompacted_files",
    "Files that a lake table has got since it was compacted, or in all where that was before the start.",
    ("table", "tier"),
)
CONFLICTS = Counter(
    "tidemark_lake_conflict_errors_total",
    "Times that Delta gave work up, which is tried again; kind is merge, compact, trim or vacuum.",
    ("table", "kind"),
)
FRESHNESS = Histogram(
    "tidemark_freshness_seconds",
    "From the commit on the source to readable in the lake, the oldest of each batch.",
)

# Control

SIGNALS = Counter(
    "tidemark_signals_total",
    "Signals by channel and outcome: accepted, rejected or malformed.",
    ("channel", "outcome"),
)
SIGNALS_UNANSWERED = Gauge("tidemark_unanswered_signals", "Signals that have come and aren't answered yet.")


def catalogue() -> tuple[Metric, ...]:
    """All metrics, in the order in which a row meets them."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
