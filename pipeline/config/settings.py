"""The configuration file as values. Units are in the names; a field's name is the key in the file.

A field's `metadata` has more about its value: `least` and `most` (both allowed), a `pattern` with the words that
describe it, that a text `may_be_empty` or is a `location`, or that a secret `may_be_here`, in the file.

`pipeline.config.validation` finds what is wrong with a whole section. `actors.service.config_file` reads the file.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.config.column_rules import ColumnRule, MessageColumns, MessageKey
from pipeline.config.lake_types import LakeTypeRule
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.config.message_routes import TopicRoute
from pipeline.config.outbox import Outbox
from pipeline.config.secret import NO_SECRET
from pipeline.config.secret import Secret as Secret  # noqa: PLC0414 - it is imported from here
from pipeline.config.table_rules import LakeRule
from pipeline.config.unwrapping import MAY_BE_EMPTY, Unwrap
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

# What the name of a pipeline can be, and that of a consumer of its journal (`fullmatch`).
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
NAME_WORDS: Final = "a-z, 0-9, _ and -, a letter first, at most 63"

# How many windows may be open at once.
MOST_WINDOWS = 1024


class TlsMode(StrEnum):
    """How the connection to the source is protected."""

    DISABLED = "disabled"
    REQUIRED = "required"  # encrypted, and any server is accepted
    VERIFY = "verify"  # encrypted, and the server's certificate and name are checked


class SnapshotMode(StrEnum):
    """What is snapshotted without a signal."""

    INITIAL = "initial"  # captured tables that are new, while the log flows on
    CONSISTENT = "consistent"  # the same ones, all at one position of the log
    NO_DATA = "no_data"  # nothing
    WHEN_NEEDED = "when_needed"  # as initial, and all tables again if the server purged the needed log


class Watermark(StrEnum):
    """What a chunk's watermarks are, and what the log does meanwhile."""

    GTID = "gtid"  # GTID set and end of the log; the log flows on, and many windows are open at once
    PAUSE = "pause"  # the same; the log waits while a chunk is read, and one window is open at a time
    SIGNAL_TABLE = "signal_table"  # rows that are written into the signal table; the log flows on


class KafkaSecurity(StrEnum):
    """How Tidemark connects to a broker, by Kafka's own names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Returns whether the connection uses TLS."""
        return self in (KafkaSecurity.SSL, KafkaSecurity.SASL_SSL)

    @property
    def authenticated(self) -> bool:
        """Returns whether the broker asks for a login."""
        return self in (KafkaSecurity.SASL_PLAINTEXT, KafkaSecurity.SASL_SSL)


class SaslMechanism(StrEnum):
    """How Tidemark logs in at a broker."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class ForeignKeys(StrEnum):
    """What Tidemark does about tables that a foreign key changes without an event in the log."""

    REFUSE = "refuse"  # they can't be captured
    REREAD = "reread"  # their rows are read again when a row that they refer to goes or gets another key


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`ca`: a file of certificates (PEM) to trust; without it, those that the machine trusts."""

    mode: TlsMode = TlsMode.VERIFY
    ca: PurePath | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A MySQL server, and how Tidemark connects to it.

    Tidemark waits `read_timeout_s` for an answer. The connection to the log counts as lost after two missed heartbeats.
    """

    host: str
    user: str
    port: int = field(default=3306, metadata={"least": 1, "most": 65535})
    password: Secret = NO_SECRET
    tls: TlsSettings = TlsSettings()
    connect_timeout_s: float = field(default=10.0, metadata={"least": 0.1, "most": 3600})
    read_timeout_s: float = field(default=30.0, metadata={"least": 1, "most": 86400})


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server. All else about it is as for the first one."""

    host: str
    port: int = field(default=3306, metadata={"least": 1, "most": 65535})


@dataclass(frozen=True, slots=True)
class SourceSettings(ServerSettings):
    """The server whose log is read. `server_id` must be unique among all replicas of it.

    `others`: servers that may take its place, when it has been unreachable for `failover_after_s`. If none can
    continue, but one may be able to later, Tidemark waits for it until nothing has changed for a minute. A new journal
    begins after the GTID set `begin_after`, if it is given. `keep_statements`: whether the journal keeps the texts of
    statements in the log (binlog_rows_query_log_events).
    """

    server_id: int = field(kw_only=True, metadata={"least": 1, "most": 2**32 - 1})
    others: tuple[ServerAddress, ...] = ()
    failover_after_s: float = field(default=10.0, metadata={"least": 0, "most": 86400})
    begin_after: str | None = None
    keep_statements: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """How tables are read in chunks.

    At most `windows` chunks are under way at the same time, over at most `connections` connections. With `watermark =
    "pause"` there is one at a time, whatever `windows` is. A table is divided into at most `ranges` (by default twice
    the connections).

    A table's first chunk has `chunk_rows`, and later ones as many as one SELECT reads in `chunk_target_ms`. Rows that
    wait for their windows to close take `memory_mib` at most.

    0 is no bound for `rows_per_s`, and for `most_threads_running` and `most_replica_lag_s`, beyond which Tidemark
    requests no chunk. `source`: another server of the same history that chunks are read from. `allow_lock`: a
    consistent snapshot may lock the source for a moment if there is no other way.
    """

    mode: SnapshotMode = SnapshotMode.INITIAL
    watermark: Watermark = Watermark.GTID
    windows: int = field(default=4, metadata={"least": 1, "most": MOST_WINDOWS})
    connections: int = field(default=2, metadata={"least": 1, "most": 256})
    ranges: int | None = field(default=None, metadata={"least": 1, "most": 4096})
    chunk_rows: int = field(default=50_000, metadata={"least": 1, "most": 10_000_000})
    chunk_target_ms: int = field(default=200, metadata={"least": 1, "most": 600_000})
    memory_mib: int = field(default=256, metadata={"least": 1, "most": 1 << 20})
    rows_per_s: int = field(default=0, metadata={"least": 0})
    most_threads_running: int = field(default=0, metadata={"least": 0})
    most_replica_lag_s: float = field(default=0.0, metadata={"least": 0})
    source: ServerSettings | None = None
    foreign_keys: ForeignKeys = ForeignKeys.REFUSE
    allow_lock: bool = False

    @property
    def most_ranges(self) -> int:
        """Returns the most ranges that a table is divided into."""
        return 2 * self.connections if self.ranges is None else self.ranges


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """`path`: the journal's place, a local folder or any URI of a filesystem that pyarrow reaches.

    A segment is sealed when it is `seal_after_ms` old or has `seal_mib`. After one of many tables the next one waits
    longer (`pause_after` and `rest_after` of `pipeline.journal.segment`). The journal keeps a segment until all
    consumers have it. Then it keeps it for `keep_hours`, as long as the journal isn't larger than `keep_mib`. Capture
    waits while consumers lag and the journal is larger than `quota_mib`; 0 is no bound.
    """

    path: str = field(metadata={"location": True})
    seal_after_ms: int = field(default=200, metadata={"least": 1, "most": 600_000})
    seal_mib: int = field(default=32, metadata={"least": 1, "most": 4096})
    keep_hours: float = field(default=24.0, metadata={"least": 0})
    keep_mib: int = field(default=10_240, metadata={"least": 0})
    quota_mib: int = field(default=16_384, metadata={"least": 0})


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`path`: the folder of all lake tables, a local one or any URI that Spark can write to.

    A mirror merges its pending changes at `merge_rows` of them, or when the oldest is `merge_after_s` old. It's older
    where merges would take more than `merge_share` of the time. A lake table is compacted after `compact_files` (0:
    never). A changelog is kept for `keep_changelog_hours` (0: for good), and a file that no newest version has for
    `vacuum_hours`. A clean stop delivers what is sealed for `drain_s` at most. `rules`: what the lake keeps of tables
    that differ from the default. The first matching rule holds. `types`: which columns it has in other types than the
    usual ones. `catalog`: the catalog of Spark that has each table's live view as a view.
    """

    path: str = field(metadata={"location": True})
    merge_rows: int = field(default=1_000_000, metadata={"least": 1})
    merge_after_s: float = field(default=300.0, metadata={"least": 0})
    merge_share: float = field(default=0.1, metadata={"least": 0.001, "most": 1})
    compact_files: int = field(default=500, metadata={"least": 0})
    keep_changelog_hours: float = field(default=0.0, metadata={"least": 0})
    vacuum_hours: float = field(default=168.0, metadata={"least": 1})
    drain_s: float = field(default=4.0, metadata={"least": 0})
    rules: tuple[LakeRule, ...] = ()
    types: tuple[LakeTypeRule, ...] = ()
    catalog: str | None = None


# What each session of Spark's has, wherever it is. With other values rows would be lost or changed, so `spark.conf`
# can't give any.
SESSION_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Dates before 1582 stay as the file has them.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # A dollar and braces in a name mean no variable, and a quoted name is no pattern.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # A file that is damaged or gone is an error, and not no rows. Nor does a value that doesn't fit become NULL.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # A merge reads all changes that this process has committed, and not those that Spark knew some time ago.
    "spark.databricks.delta.stalenessLimit": "0",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`jars`: jar files, or folders of them, that PySpark lacks. `conf` wins over Tidemark's own settings, except
    `SESSION_SETTINGS`."""

    master: str = field(
        default="local[*]",
        metadata={
            "pattern": r"local(\[(\*|[1-9][0-9]*)(\s*,\s*[0-9]+)?\])?|local-cluster\[.+\]|yarn|[a-z][a-z0-9]*://.+",
            "words": "local[2], or a cluster's as spark://host:7077, or a Spark Connect server's as sc://host:15002",
        },
    )
    jars: tuple[PurePath, ...] = ()
    driver_memory: str = field(
        default="1g", metadata={"pattern": "[1-9][0-9]*[mg]", "words": "a size as 512m or 4g"}
    )
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def by_connect(self) -> bool:
        """Returns whether it is a Spark that others run, reached through Spark Connect."""
        return self.master.startswith("sc://")


@dataclass(frozen=True, slots=True)
class HttpTlsSettings:
    """Files in PEM: the server's `certificate`, those that lead to its authority, and its `key` (or in the same file).

    With `client_ca` a client needs a certificate of these authorities. The command line shows `client_certificate`,
    whose key is in the same file.
    """

    certificate: PurePath
    key: PurePath | None = None
    client_ca: PurePath | None = None
    client_certificate: PurePath | None = None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where to listen. Port 0 takes a free one, which `http.json` in the journal's folder then names.

    A client with `token` may do everything. A client with `read_token` may only read. With `tls` it is HTTPS.
    """

    host: str = "127.0.0.1"
    port: int = field(default=0, metadata={"least": 0, "most": 65535})
    token: Secret = NO_SECRET
    read_token: Secret = NO_SECRET
    tls: HttpTlsSettings | None = None


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A Kafka cluster, and how Tidemark connects to its brokers.

    `ca`: a file of certificates (PEM) to trust; without it, those that the machine trusts.
    """

    bootstrap_servers: tuple[str, ...]
    security_protocol: KafkaSecurity = field(kw_only=True, default=KafkaSecurity.PLAINTEXT)
    ca: PurePath | None = field(kw_only=True, default=None)
    sasl_mechanism: SaslMechanism = field(kw_only=True, default=SaslMechanism.SCRAM_SHA_512)
    sasl_username: str | None = field(kw_only=True, default=None)
    sasl_password: Secret = field(kw_only=True, default=NO_SECRET)


@dataclass(frozen=True, slots=True)
class KafkaSettings(BrokerSettings):
    """Signals from Kafka: `topic`, of one partition; `answers_topic`: the topic for answers, if there is one."""

    topic: str
    answers_topic: str | None = None


class Compression(StrEnum):
    """How batches of messages are compressed, by Kafka's own names."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class ConverterKind(StrEnum):
    """How keys and values are written: as JsonConverter or as AvroConverter does."""

    JSON = "json"
    AVRO = "avro"


class HeaderConverterKind(StrEnum):
    """How headers are written: as JsonConverter or as SimpleHeaderConverter does."""

    JSON = "json"
    SIMPLE = "simple"


_TOPIC_PART = {"pattern": r"[a-zA-Z0-9._-]{1,120}", "words": "a-z, A-Z, 0-9, ., _ and -, at most 120"}


@dataclass(frozen=True, slots=True)
class KafkaSinkSettings(BrokerSettings):
    """Where Debezium's messages go, and their form. Each option is Debezium's of that name, with dots for underscores.

    `tables`: the captured tables that have a topic; all by default. If `create_topics` allows it, missing topics are
    created with `partitions`, `replication` (0: the broker's default) and `topic_config`. `position_topic`: where the
    position in the journal is kept (by default `tidemark-position-` and the pipeline's name). A Kafka transaction holds
    at most `transaction_rows` rows of the journal, unless a source transaction alone has more. A heartbeat is sent
    every `heartbeat_interval_ms` (0: never). With `converter` = avro a registry at `schema_registry_url` has the
    schemas; `schema_registry_ca` is a file of certificates (PEM) to trust there. Without `auto_register_schemas` the
    sink only looks schemas up.
    """

    topic_prefix: str = field(metadata=_TOPIC_PART)
    topic_delimiter: str = field(default=".", metadata={"pattern": r"[._-]{1,4}", "words": "., _ or -"})
    tables: TableFilter | None = None
    create_topics: bool = True
    partitions: int = field(default=1, metadata={"least": 1, "most": 10_000})
    replication: int = field(default=0, metadata={"least": 0, "most": 32_767})
    topic_config: dict[str, str] = field(default_factory=dict)
    position_topic: str | None = None
    compression_type: Compression = Compression.NONE
    transaction_rows: int = field(default=200_000, metadata={"least": 1})
    transaction_timeout_s: float = field(default=60.0, metadata={"least": 1, "most": 900})
    batch_bytes: int = field(default=900_000, metadata={"least": 1_000, "most": 1 << 30})
    max_request_bytes: int = field(default=104_857_600, metadata={"least": 1_000_000, "most": (1 << 31) - 1})
    converter: ConverterKind = ConverterKind.JSON
    schema_registry_url: str | None = field(
        default=None,
        metadata={"pattern": r"https?://[^\s@?#]+", "words": "an address of http or https without a user"},
    )
    schema_registry_ca: PurePath | None = None
    schema_registry_username: str | None = None
    schema_registry_password: Secret = NO_SECRET
    auto_register_schemas: bool = True
    header_converter: HeaderConverterKind = HeaderConverterKind.JSON
    schemas_enable: bool = False
    tombstones_on_delete: bool = True
    skipped_operations: tuple[str, ...] = ("t",)
    column_include_list: tuple[str, ...] = ()
    column_exclude_list: tuple[str, ...] = ()
    columns: tuple[ColumnRule, ...] = ()
    message_keys: tuple[MessageKey, ...] = ()
    unavailable_value_placeholder: str = field(default="__debezium_unavailable_value", metadata=MAY_BE_EMPTY)
    topic_routes: tuple[TopicRoute, ...] = ()
    unwrap: Unwrap | None = None
    outboxes: tuple[Outbox, ...] = ()
    provide_transaction_metadata: bool = False
    topic_transaction: str = field(default="transaction", metadata=_TOPIC_PART)
    heartbeat_interval_ms: int = field(default=0, metadata={"least": 0, "most": 86_400_000})
    topic_heartbeat_prefix: str = field(default="__debezium-heartbeat", metadata=_TOPIC_PART)
    notification_sink_topic_name: str | None = field(default=None, metadata=_TOPIC_PART)
    include_schema_changes: bool = False
    decimal_handling_mode: DecimalHandling = DecimalHandling.PRECISE
    time_precision_mode: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    bigint_unsigned_handling_mode: UnsignedBigintHandling = UnsignedBigintHandling.LONG
    binary_handling_mode: BinaryHandling = BinaryHandling.BYTES

    @property
    def handling(self) -> Handling:
        """Returns how values are represented."""
        return Handling(
            self.decimal_handling_mode,
            self.time_precision_mode,
            self.bigint_unsigned_handling_mode,
            self.binary_handling_mode,
        )

    @property
    def message_columns(self) -> MessageColumns:
        """Returns which columns become messages, and how."""
        return MessageColumns(
            self.column_include_list, self.column_exclude_list, self.columns, self.message_keys
        )


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """`file`: signals may be appended to it, one JSON object a line; answers go into a file beside it (`.answers`), and
    the place reached into another one (`.place`).

    `table`: a table of the source, of three columns (id, type and data), into which signals may be inserted.
    """

    file: PurePath | None = None
    table: TableId | None = None
    kafka: KafkaSettings | None = None


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """The lake is verified `every_hours`, and what differs is repaired if `repair` is set. Without `tables`: all.

    `rows_per_s`: the most that it reads of the source; 0 is no bound.
    """

    every_hours: float = field(metadata={"least": 0.01})
    tables: TableFilter | None = None
    repair: bool = False
    rows_per_s: int = field(default=0, metadata={"least": 0, "most": 1_000_000_000})


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """`webhook`: the URL that alerts are posted to (`pipeline.signals.alerts.step`). Whoever has it may post there."""

    webhook: Secret = field(default=NO_SECRET, metadata={"may_be_here": True})


@dataclass(frozen=True, slots=True)
class Settings:
    """One pipeline. `tables`: regular expressions over `database.table` that match the whole name.

    `lake` and `kafka` are the two readers of its journal; there's one at least. `protection`: which columns the journal
    doesn't have as they are.
    """

    name: str = field(metadata={"pattern": NAME.pattern, "words": NAME_WORDS})
    tables: TableFilter
    source: SourceSettings
    journal: JournalSettings
    lake: LakeSettings | None = None
    snapshot: SnapshotSettings = SnapshotSettings()
    spark: SparkSettings = SparkSettings()
    http: HttpSettings = HttpSettings()
    signals: SignalSettings = SignalSettings()
    kafka: KafkaSinkSettings | None = None
    verify: VerifySettings | None = None
    alerts: AlertSettings | None = None
    protection: Protection = UNPROTECTED
    umask: str = field(
        default="077",
        metadata={"pattern": "[0-7]{3}", "words": "three octal digits, as in 077 or 027"},
    )

    @property
    def keeps_statements_on(self) -> TableFilter | None:
        """Returns the tables on whose schema the journal keeps statements, None if it keeps none."""
        return self.tables if self.kafka is not None and self.kafka.include_schema_changes else None

    @property
    def lake_rules(self) -> tuple[LakeRule, ...]:
        """Returns the lake's rules; none if there is no lake."""
        return () if self.lake is None else self.lake.rules

    @property
    def lake_types(self) -> tuple[LakeTypeRule, ...]:
        """Returns the rules for types of the lake's columns; none if there is no lake."""
        return () if self.lake is None else self.lake.types

    @property
    def read(self) -> TableFilter:
        """The tables whose rows are read from the log: the captured ones, and the signal table."""
        table = self.signals.table
        return self.tables if table is None else TableFilter((*self.tables.patterns, re.escape(table.dotted)))
