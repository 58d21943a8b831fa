"""Every metric as data: its name, labels and meaning, so that dashboards, alerts and docs can be held against it.

Names follow Prometheus' conventions: the prefix, what's measured, the base unit, and `_total` where it only grows.
Moments are exported as timestamps, never as ages, so that a process that hangs is seen to.

**Bounded.** Labels have few values, but for `table`. So no histogram has that one, which would be some 17 series for
each table, and only `MOST_TABLES` tables have series of their own, those that are met first. Of the others counters
are summed under the table `OTHERS`, and gauges, which can't be summed by setting them, are left out. What has to be
known of each table (whether it has stopped, whether its snapshot has failed) is counted over all of them besides.

Source: Prometheus, "Metric and label naming", "Instrumentation" (timestamps, not time since; avoid missing metrics).
"""

from dataclasses import dataclass

PREFIX = "tidemark_"

# What a number may be counted in; each name ends with one of these (before `_total`).
UNITS = (
    "bytes",
    "chunks",
    "dates",
    "errors",
    "failovers",
    "files",
    "images",
    "info",
    "messages",
    "ranges",
    "restarts",
    "rows",
    "seconds",
    "segments",
    "signals",
    "state",
    "tables",
    "transactions",
    "windows",
)

# How many tables have series of their own, and the table of the others' counters.
MOST_TABLES = 1000
OTHERS = "*"

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

# The service

PIPELINE = Gauge("tidemark_pipeline_info", "1; which pipeline this is.", ("pipeline",))
UNLISTED = Gauge(
    "tidemark_unlisted_tables",
    f"Tables beyond the first {MOST_TABLES}, which have no series of their own.",
)

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
RESTARTS = Counter(
    "tidemark_actor_restarts_total", "Times that the supervisor restarted the actor.", ("actor",)
)
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
MEASURING_ERRORS = Counter(
    "tidemark_measuring_errors_total",
    "Failures of code that only measures or reports. The work continues, and the log has the first one of each kind.",
)

# Capture

BINLOG_POSITION = Gauge(
    "tidemark_binlog_position_bytes", "Offset in the binlog file that the reader is in.", ("file",)
)
BINLOG_READ = Counter("tidemark_binlog_read_bytes_total", "Bytes of the binlog read from the server.")
SOURCE_INFO = Gauge(
    "tidemark_source_info",
    "1; where the server is whose log is read, and its UUID.",
    ("host", "port", "server"),
)
FAILOVERS = Counter(
    "tidemark_source_failovers_total", "Times that capture went on at another server than before."
)
SOURCE_UP = Gauge("tidemark_source_up_state", "1 while the source answers when it's asked how far it is.")
LAG_TRANSACTIONS = Gauge(
    "tidemark_source_lag_transactions",
    "Transactions that the source has executed and that aren't sealed yet; no value where it has no GTIDs.",
)
LAG_BYTES = Gauge("tidemark_source_lag_bytes", "Bytes of the source's log that the reader hasn't come to.")
SOURCE_COMMIT = Gauge(
    "tidemark_source_commit_timestamp_seconds",
    "When the newest transaction that has been read was committed at the source.",
)
PURGE = Gauge(
    "tidemark_source_purge_timestamp_seconds",
    "The earliest moment at which the source may purge the part of its log that comes next; +Inf for never.",
)
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
    "Times that a table's rows changed without events in the log, so that its mirror began a new generation.",
    ("table",),
)
TABLE_STOPPED = Gauge(
    "tidemark_table_stopped_state",
    "1 when the table has been stopped; part is capture or lake.",
    ("table", "part"),
)
STOPPED_TABLES = Gauge(
    "tidemark_stopped_tables", "How many tables have been stopped; part is capture or lake.", ("part",)
)
PAUSED = Gauge("tidemark_reading_paused_state", "1 while the coordinator keeps the binlog reader paused.")

# Snapshots

WINDOWS_OPEN = Gauge(
    "tidemark_open_windows", "Windows that are open, from the order of a chunk to its close."
)
OLDEST_WINDOW = Gauge(
    "tidemark_oldest_window_timestamp_seconds",
    "When the chunk of the oldest open window was ordered; NaN while none is open.",
)
CHUNKS = Counter(
    "tidemark_snapshot_chunks_total", "Chunks by outcome: emitted or failed.", ("table", "outcome")
)
CHUNK_READ = Histogram("tidemark_snapshot_chunk_read_seconds", "Time to read one chunk, watermarks included.")
PHASE = Histogram(
    "tidemark_snapshot_phase_seconds",
    "Parts of a chunk's time; phase is low, select or high (it's being read), wait (for the stream to pass the high "
    "watermark) or emit (its rows are compared and handed on).",
    ("phase",),
)
WINDOW = Histogram(
    "tidemark_snapshot_window_seconds",
    "Time from the order of a chunk to its window's close, or to its end by a statement or a stop.",
)
SNAPSHOT_TABLES = Gauge(
    "tidemark_snapshot_tables",
    "Tables by the state of their last snapshot; state is waiting, chunking, completed, stopped or failed.",
    ("state",),
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
JOURNAL_QUOTA = Gauge(
    "tidemark_journal_quota_bytes",
    "The size at which capture waits while a consumer lags; +Inf for none.",
)
SEALED_SEGMENT = Gauge("tidemark_sealed_segments", "Number of the last sealed segment.")
SEALED_COMMIT = Gauge(
    "tidemark_journal_commit_timestamp_seconds",
    "When the newest transaction with rows in the journal was committed at the source.",
)
CONSUMER_BEHIND = Gauge(
    "tidemark_consumer_behind_segments", "Sealed segments that a consumer hasn't confirmed.", ("consumer",)
)
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
DELIVERED_FILES = Counter(
    "tidemark_delivered_files_total",
    "Files of the journal that were appended to lake tables; tier is changelog or mirror.",
    ("tier",),
)
DELIVERED_BYTES = Counter(
    "tidemark_delivered_bytes_total",
    "Bytes of the journal's files that were appended to lake tables; tier is changelog or mirror.",
    ("tier",),
)
DELIVERED_COMMIT = Gauge(
    "tidemark_lake_commit_timestamp_seconds",
    "When the newest transaction with rows that can be read in the lake was committed at the source.",
)
DELIVERED_SEGMENT = Gauge(
    "tidemark_delivered_segments", "Number of the last segment that is wholly delivered."
)
MERGE = Histogram("tidemark_merge_seconds", "Time to merge a table's pending changes into its mirror.")
MIRROR_PENDING = Gauge(
    "tidemark_mirror_pending_rows", "Changes that the mirror hasn't merged yet.", ("table",)
)
MIRROR_REBUILDING = Gauge(
    "tidemark_mirror_rebuilding_timestamp_seconds",
    "Since when a snapshot has been filling the mirror, which readers see as it was before; 0 once it's complete.",
    ("table",),
)
MAINTENANCE = Histogram(
    "tidemark_maintenance_seconds",
    "Time to maintain a lake table; kind is complete (a filled mirror is shown), checkpoint, compact, trim or vacuum.",
    ("kind",),
)
LAKE_FILES = Gauge("tidemark_lake_files", "Files of a lake table's newest version.", ("table", "tier"))
FILES_COME = Gauge(
    "tidemark_uncompacted_files",
    "Files that a lake table has got since it was compacted, or in all where that was before the start.",
    ("table", "tier"),
)
CONFLICTS = Counter(
    "tidemark_lake_conflict_errors_total",
    "Times that Delta gave work up, which is tried again; kind is complete, merge, checkpoint, compact, trim, vacuum.",
    ("kind",),
)
WORK_FAILED = Counter(
    "tidemark_lake_work_errors_total",
    "Times that work on a lake table failed, which is tried again; kind is as above.",
    ("kind",),
)
FRESHNESS = Histogram(
    "tidemark_freshness_seconds",
    "From the commit on the source to readable in the lake, the oldest of each batch.",
)

# Kafka

KAFKA_UP = Gauge("tidemark_kafka_up_state", "1 while the KafkaSink is connected to its brokers.")
KAFKA_TRANSACTION = Histogram(
    "tidemark_kafka_transaction_seconds", "Time of one Kafka transaction, from its first row to its commit."
)
KAFKA_SENT = Counter(
    "tidemark_kafka_messages_total",
    "Messages in committed Kafka transactions, tombstones included.",
    ("table",),
)
KAFKA_BYTES = Counter(
    "tidemark_kafka_sent_bytes_total", "Bytes of these messages' batches, before they are compressed."
)
KAFKA_SEGMENT = Gauge(
    "tidemark_kafka_segments", "Number of the last segment of which the topics have everything."
)
KAFKA_COMMIT = Gauge(
    "tidemark_kafka_commit_timestamp_seconds",
    "When the newest transaction with messages in the topics was committed at the source.",
)
KAFKA_FRESHNESS = Histogram(
    "tidemark_kafka_freshness_seconds",
    "From the commit on the source to readable in the topics, the oldest of each Kafka transaction.",
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
