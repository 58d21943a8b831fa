"""Every metric as data: its name, labels and meaning. Tests compare dashboards, alerts and docs with it.

Names follow Prometheus' conventions: the prefix, the measured thing, the base unit, and `_total` if it only grows.
Moments are exported as timestamps, never as ages, so that the metrics of a hung process show that it hangs.

**Bounded.** Labels have few values, except `table`. No histogram has that label: it would be some 17 series for each
table. Only the first `MOST_TABLES` tables have series of their own. The counters of the others are summed under the
table `OTHERS`. Their gauges are left out, except those that alerts watch: `Gauge.of_others` makes one value of them,
under `OTHERS` too. Whether a table has stopped, and whether its snapshot has failed, is also counted over all tables.

Source: Prometheus, "Metric and label naming", "Instrumentation" (timestamps, not time since; avoid missing metrics).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

METRIC_PREFIX = "tidemark_"

# The units. Each name ends with one of these (before `_total`).
UNITS = (
    "bytes",
    "chunks",
    "consumers",
    "dates",
    "errors",
    "failovers",
    "files",
    "findings",
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
    "verifications",
    "waits",
    "windows",
)

# How many tables have series of their own, and the table of the others' counters.
MOST_TABLES = 1000
OTHERS = "*"

# Upper bounds of buckets in seconds: freshness is about a second, a MERGE takes many.
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that only grows. Its name ends with `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that rises and falls.

    `of_others`: what makes one value of those of the tables without series of their own, as far as they aren't 0; None
    leaves them out.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    of_others: Callable[[Iterable[float]], float] | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution. `buckets` are upper bounds in the unit of the name."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


Metric = Counter | Gauge | Histogram

# The service

PIPELINE = Gauge("tidemark_pipeline_info", "1. The label names this pipeline.", ("pipeline",))
UNLISTED = Gauge(
    "tidemark_unlisted_tables",
    f"Tables beyond the first {MOST_TABLES}, which have no series of their own.",
)

CERTIFICATE_END = Gauge(
    "tidemark_http_certificate_end_timestamp_seconds",
    "When the certificate ends that HTTP is served with. NaN without HTTPS.",
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
    "Messages that the actor has handled. Outcome is done, failed or cancelled.",
    ("actor", "message", "outcome"),
)
HANDLING = Histogram(
    "tidemark_actor_handling_seconds",
    "Time to handle one message, including waits for a full mailbox.",
    ("actor", "message"),
)
RESTARTS = Counter(
    "tidemark_actor_restarts_total", "Times that the supervisor restarted the actor.", ("actor",)
)
PROGRESS = Gauge(
    "tidemark_actor_progress_timestamp_seconds", "When the actor last made progress.", ("actor",)
)
UP = Gauge(
    "tidemark_actor_up_state",
    "1 while the actor runs, 0 while it's being restarted or has ended.",
    ("actor",),
)
ERRORS = Counter(
    "tidemark_errors_total",
    "Failures of actors. Kind is transient, definite, invariant, hang or unforeseen.",
    ("actor", "kind"),
)
MEASURING_ERRORS = Counter(
    "tidemark_measuring_errors_total",
    "Failures of code that only measures or reports. The work continues, and the log has the first one of each kind.",
)

# Capture

BINLOG_POSITION = Gauge(
    "tidemark_binlog_position_bytes", "The reader's offset in its present binlog file.", ("file",)
)
BINLOG_READ = Counter("tidemark_binlog_read_bytes_total", "Bytes of the binlog read from the server.")
SOURCE_INFO = Gauge(
    "tidemark_source_info",
    "1. The labels say which server's log is read.",
    ("host", "port", "server"),
)
FAILOVERS = Counter("tidemark_source_failovers_total", "Times that capture continued at another server.")
SOURCE_UP = Gauge("tidemark_source_up_state", "1 while the source answers the query for its position.")
LAG_TRANSACTIONS = Gauge(
    "tidemark_source_lag_transactions",
    "Transactions that the source has executed and the journal hasn't sealed. Without GTIDs it has no value.",
)
LAG_BYTES = Gauge("tidemark_source_lag_bytes", "Bytes of the source's log after the reader's position.")
REPLICATION_LAG = Gauge(
    "tidemark_source_replication_lag_seconds",
    "How far the source, as a replica, lags its own source. 0 if it has none, +Inf if it doesn't replicate.",
)
SOURCE_COMMIT = Gauge(
    "tidemark_source_commit_timestamp_seconds",
    "When the source committed the newest transaction that the reader has read.",
)
PURGE = Gauge(
    "tidemark_source_purge_timestamp_seconds",
    "The earliest moment at which the source may purge the next part of its log. +Inf means never.",
)
SOURCE_LAG = Gauge(
    "tidemark_source_lag_seconds",
    "Age of the newest commit when the reader read it. 0 when caught up.",
)
LAST_EVENT = Gauge(
    "tidemark_binlog_event_timestamp_seconds", "When the last event or heartbeat of the log came."
)
TRANSACTIONS = Counter(
    "tidemark_transactions_total", "Transactions read from the log, including filtered ones."
)
ROWS_READ = Counter(
    "tidemark_images_total",
    "Row images read from the log. Kind is insert, update_before, update_after or delete.",
    ("table", "kind"),
)
IMPOSSIBLE_DATES = Counter(
    "tidemark_impossible_dates_total",
    "Dates that are null in the lake because no calendar has them (zero and partial dates). Part is changes or chunks.",
    ("table", "part"),
)
STATEMENTS = Counter(
    "tidemark_statement_transactions_total", "Transactions that were statements, such as DDL."
)
SCHEMA_CHANGES = Counter(
    "tidemark_schema_change_transactions_total",
    "Statements that changed a captured table's schema.",
    ("table",),
)
TABLE_RESTARTS = Counter(
    "tidemark_table_restarts_total",
    "Times that a table's mirror began a new generation because rows changed without events in the log.",
    ("table",),
)
TABLE_STOPPED = Gauge(
    "tidemark_table_stopped_state",
    "1 when the table is stopped. Part is capture or lake. Capture leaves out what the configuration leaves out.",
    ("table", "part"),
)
STOPPED_TABLES = Gauge(
    "tidemark_stopped_tables",
    "Stopped tables that the configuration captures. Part is capture, lake, or kafka (topics that are set aside). A "
    "table that the sink tries again counts in the lake from its third failure in a row.",
    ("part",),
)
PAUSED = Gauge("tidemark_reading_paused_state", "1 while the coordinator keeps the binlog reader paused.")

# Snapshots

WINDOWS_OPEN = Gauge(
    "tidemark_open_windows",
    "Open windows. A window is open from the order to read a chunk until its rows are in the stream.",
)
OLDEST_WINDOW = Gauge(
    "tidemark_oldest_window_timestamp_seconds",
    "When the coordinator ordered the chunk of the oldest open window. NaN while none is open.",
)
CHUNKS = Counter(
    "tidemark_snapshot_chunks_total", "Chunks by outcome: emitted or failed.", ("table", "outcome")
)
CHUNK_READ = Histogram(
    "tidemark_snapshot_chunk_read_seconds", "Time to read one chunk, including its watermarks."
)
PHASE = Histogram(
    "tidemark_snapshot_phase_seconds",
    "Parts of a chunk's time. The phases low, select and high read it. The phase wait lasts until the stream passes "
    "the high watermark. The phase emit compares its rows and sends them to the journal.",
    ("phase",),
)
WINDOW = Histogram(
    "tidemark_snapshot_window_seconds",
    "Time from the order of a chunk until its window closes, or a statement or a stop ends it.",
)
SNAPSHOT_TABLES = Gauge(
    "tidemark_snapshot_tables",
    "Captured tables by the state of their last snapshot. State is waiting, chunking, completed, stopped or failed. "
    "One that failed because the table was dropped doesn't count.",
    ("state",),
)
SNAPSHOT_ROWS = Counter("tidemark_snapshot_read_rows_total", "Rows that chunks have read.", ("table",))
ROWS_READ_AGAIN = Counter(
    "tidemark_reread_rows_total",
    "Rows that Tidemark read again because their changes lack columns.",
    ("table",),
)
ROWS_UNREAD = Gauge(
    "tidemark_unread_rows",
    "Rows that Tidemark still has to read again. The lake hides them until then.",
    ("table",),
)
ROWS_GIVEN_UP = Counter(
    "tidemark_snapshot_given_up_rows_total",
    "Chunk rows that were dropped because a transaction changed their key within the window.",
    ("table",),
)
ROWS_EXPECTED = Gauge(
    "tidemark_snapshot_expected_rows", "Rows of the table, as the server estimates them.", ("table",)
)
ROWS_DONE = Gauge("tidemark_snapshot_done_rows", "Emitted rows of the running or last snapshot.", ("table",))
RANGES = Gauge("tidemark_snapshot_ranges", "Ranges of the table in the running or last snapshot.", ("table",))
RANGES_DONE = Gauge("tidemark_snapshot_done_ranges", "Ranges that are completely emitted.", ("table",))
SNAPSHOT_LEFT = Gauge(
    "tidemark_snapshot_left_seconds",
    "Estimated time until the table's snapshot ends, by its rate and the server's estimate of rows; not with a filter, "
    "and not of a verification.",
    ("table",),
)
SNAPSHOT_PROGRESS = Gauge(
    "tidemark_snapshot_progress_timestamp_seconds",
    "When a table of an unfinished snapshot or verification last came further, or the first of them began. NaN while "
    "none is unfinished.",
)
SOURCE_BUSY = Gauge(
    "tidemark_source_busy_state",
    "1 while the coordinator requests no chunk because the source is overloaded, or not ready.",
)

# Journal

SEGMENTS_SEALED = Counter("tidemark_journal_sealed_segments_total", "Segments sealed.")
SEALING = Histogram("tidemark_journal_sealing_seconds", "Time to write, sync and publish one segment.")
JOURNAL_WRITTEN = Counter("tidemark_journal_written_bytes_total", "Bytes written into segments.")
JOURNAL_FILES = Counter(
    "tidemark_journal_written_files_total", "Files of sealed segments, and their entries' files."
)
JOURNAL_SIZE = Gauge(
    "tidemark_journal_size_bytes", "Bytes of all segments in the journal, and of their entries."
)
JOURNAL_QUOTA = Gauge(
    "tidemark_journal_quota_bytes",
    "The size of the journal at which capture waits for the consumers. +Inf means no limit.",
)
SEALED_SEGMENT = Gauge("tidemark_sealed_segments", "Number of the last sealed segment.")
SEALED_COMMIT = Gauge(
    "tidemark_journal_commit_timestamp_seconds",
    "When the source committed the newest transaction with rows in the journal.",
)
CONSUMER_BEHIND = Gauge(
    "tidemark_consumer_behind_segments", "Sealed segments that a consumer hasn't confirmed.", ("consumer",)
)
JOURNAL_FULL = Gauge("tidemark_journal_full_state", "1 while capture waits because the journal has no room.")
JOURNAL_ROWS = Counter(
    "tidemark_journal_rows_total", "Sealed rows. Part is changes or chunks.", ("table", "part")
)
COMMIT_TO_JOURNAL = Histogram(
    "tidemark_commit_to_journal_seconds",
    "Time from the commit on the source until its segment is sealed, for the oldest commit of each segment.",
)

# Delivery

SPARK_UP = Gauge("tidemark_spark_up_state", "1 while a Spark session is open.")
SPARK_BATCH = Histogram("tidemark_spark_batch_seconds", "Time to append one batch of segments to the lake.")
DELIVERED = Counter(
    "tidemark_delivered_rows_total",
    "Rows appended to lake tables. Tier is changelog or mirror.",
    ("table", "tier"),
)
DELIVERED_FILES = Counter(
    "tidemark_delivered_files_total",
    "Journal files appended to lake tables. Tier is changelog or mirror.",
    ("tier",),
)
DELIVERED_BYTES = Counter(
    "tidemark_delivered_bytes_total",
    "Bytes of journal files appended to lake tables. Tier is changelog or mirror.",
    ("tier",),
)
LAKE_FILES_WRITTEN = Counter(
    "tidemark_lake_written_files_total",
    "Files written into lake tables: of rows, of deletion vectors, and two of Delta's log for each such commit. "
    "Kind is deliver, complete, merge, compact or trim.",
    ("kind",),
)
LAKE_REWRITTEN = Counter(
    "tidemark_lake_rewritten_bytes_total",
    "Bytes that work beside the batches wrote into lake tables: rows and deletion vectors. "
    "Kind is complete, merge, compact or trim.",
    ("kind",),
)
DELIVERED_COMMIT = Gauge(
    "tidemark_lake_commit_timestamp_seconds",
    "When the source committed the newest transaction with readable rows in the lake.",
)
DELIVERED_SEGMENT = Gauge("tidemark_delivered_segments", "Number of the last completely delivered segment.")
MERGE = Histogram("tidemark_merge_seconds", "Time to merge a table's pending changes into its mirror.")
MIRROR_PENDING = Gauge(
    "tidemark_mirror_pending_rows", "Changes that the mirror hasn't merged yet.", ("table",)
)
MIRROR_REBUILDING = Gauge(
    "tidemark_mirror_rebuilding_timestamp_seconds",
    "When a snapshot began to fill the mirror. Readers see its earlier state meanwhile. 0 once it is complete, "
    "and of a table that the configuration leaves out.",
    ("table",),
    of_others=min,
)
MAINTENANCE = Histogram(
    "tidemark_maintenance_seconds",
    "Time to maintain a lake table. "
    "Kind is complete (a filled mirror is shown), verify, checkpoint, compact, trim or vacuum.",
    ("kind",),
)
LAKE_FILES = Gauge("tidemark_lake_files", "Files of a lake table's newest version.", ("table", "tier"))
FILES_COME = Gauge(
    "tidemark_uncompacted_files",
    "Files added to a lake table since its last compaction. All of its files if that was before the start.",
    ("table", "tier"),
)
CONFLICTS = Counter(
    "tidemark_lake_conflict_errors_total",
    "Conflicts in which Delta refused work on a lake table. The sink tries it again. "
    "Kind is complete, merge, verify, checkpoint, compact, trim or vacuum.",
    ("kind",),
)
WORK_FAILED = Counter(
    "tidemark_lake_work_errors_total",
    "Failures of work on a lake table. The sink tries it again. Kind is as above.",
    ("kind",),
)
FINDINGS = Gauge(
    "tidemark_verification_findings",
    "Rows of a lake table that differ from the source's, as the last verification that could be judged found them. "
    "0 of a table that was dropped or that the configuration leaves out. Kind is missing, extra, different or "
    "duplicate.",
    ("table", "kind"),
    of_others=sum,
)
VERIFIED_AT = Gauge(
    "tidemark_verified_timestamp_seconds",
    "When a verification last found the table equal to the source.",
    ("table",),
)
UNJUDGED_IN_A_ROW = Gauge(
    "tidemark_unjudged_verifications",
    "Verifications of a table in a row that couldn't be judged, since the last one that could. Those that "
    "the configuration leaves out don't count.",
    ("table",),
    of_others=max,
)
FRESHNESS = Histogram(
    "tidemark_freshness_seconds",
    "Time from the commit on the source until the changelog has it, for the oldest commit of each batch.",
)

# Kafka

KAFKA_UP = Gauge("tidemark_kafka_up_state", "1 while the KafkaSink is connected to its brokers.")
KAFKA_TRANSACTION = Histogram(
    "tidemark_kafka_transaction_seconds", "Time of one Kafka transaction, from its first row to its commit."
)
KAFKA_SENT = Counter(
    "tidemark_kafka_messages_total",
    "Messages in committed Kafka transactions, including tombstones.",
    ("table",),
)
KAFKA_BYTES = Counter(
    "tidemark_kafka_sent_bytes_total", "Bytes of these messages' batches before compression."
)
KAFKA_SEGMENT = Gauge(
    "tidemark_kafka_segments", "Number of the last segment that the topics have completely."
)
KAFKA_COMMIT = Gauge(
    "tidemark_kafka_commit_timestamp_seconds",
    "When the source committed the newest transaction with messages in the topics.",
)
KAFKA_FRESHNESS = Histogram(
    "tidemark_kafka_freshness_seconds",
    "Time from the commit on the source until the topics have it, for the oldest commit of each Kafka transaction.",
)

# Control

SIGNALS = Counter(
    "tidemark_signals_total",
    "Signals by channel. Outcome is accepted, rejected, malformed, or busy: rejected while its tables are verified "
    "already.",
    ("channel", "outcome"),
)
SIGNALS_UNANSWERED = Gauge("tidemark_unanswered_signals", "Signals without an answer so far.")
WAITS = Gauge("tidemark_applied_open_waits", "Requests that wait until transactions have been applied.")
WAITED = Counter(
    "tidemark_applied_ended_waits_total",
    "Such requests that were answered. Consumer is journal, lake or kafka; outcome is applied, never or timeout.",
    ("consumer", "outcome"),
)
WAIT = Histogram(
    "tidemark_applied_wait_seconds",
    "Time that such a request waited until its transactions had been applied.",
)
CHANGES_READERS = Gauge("tidemark_changes_consumers", "Requests that read the stream of changes.")
CHANGES_ROWS = Counter(
    "tidemark_changes_sent_rows_total",
    "Rows that were sent to them. Format is json, arrow or avro.",
    ("format",),
)
CHANGES_BYTES = Counter(
    "tidemark_changes_sent_bytes_total",
    "Bytes that were sent to them. Format is json, arrow or avro, or file for the journal's own files.",
    ("format",),
)


def catalogue() -> tuple[Metric, ...]:
    """Returns all metrics, in the order of a row's way through the service."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
