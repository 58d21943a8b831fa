"""The properties of Debezium's MySQL connector, and of Kafka Connect around it, that have no key of ours.

Each is of one of three kinds. Most concern something that doesn't exist here: Kafka Connect, locks, Java. Some ask for
another behaviour than Tidemark's, unless their value asks for Tidemark's. Others hide data from the readers of the
topics in a way that Tidemark doesn't know, such as a filter of rows. A connector with one of these isn't converted. The
user has to remove it first, and so agrees that readers see all data.

The properties with a key of ours are in `connector`, `messages` and `transformations`.

Source: `MySqlConnector.config()` of Debezium 3.6.3, whose names a test compares with these; Debezium's documentation,
"MySQL connector configuration properties", "Transformations"; Kafka 4.3's documentation, "Kafka Connect".
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pointless:
    """What it configures doesn't exist here."""

    why: str


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Tidemark doesn't support it. With one of the values `so`, in lower case, it is as here."""

    why: str
    so: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withheld:
    """It hides data, which readers would see here; not with one of the values `so`, in lower case."""

    why: str
    so: tuple[str, ...] = ()


Verdict = Pointless | Otherwise | Withheld

_CREATED: Final = Otherwise("all topics are created in one way: topic.creation.default is taken over")
_ROUTED_TOPICS: Final = Otherwise("[[kafka.topic_routes]] route topics by such expressions")
_RECORDS: Final = Otherwise(
    "messages are as Debezium's MySQL connector and JsonConverter make them by default"
)
_CONNECT: Final = Pointless("there's no Kafka Connect")
_JAVA: Final = Pointless("it's of Debezium's or Java's inside")
_HISTORY: Final = Pointless("no history of schemas is kept: the log describes itself, or the server is asked")
_LOCKS: Final = Pointless("nothing is locked")
_LOST: Final = Pointless("a connection that's silent for source.read_timeout_s is opened again")
_QUEUES: Final = Pointless("queues are bounded by messages and bytes by themselves")
_CHUNKS: Final = Pointless("a chunk has as many rows as are read in snapshot.chunk_target_ms")
_RETRIES: Final = Pointless("what may pass is tried again, with pauses that grow")
_POLLING: Final = Pointless("signals are taken as they come")
_ALWAYS: Final = Pointless("it's always so")
_NAMES: Final = Otherwise(
    "names are those of the source in JSON, and as mode `avro` makes them in Avro", ("none", "avro")
)
_NEVER_SKIPPED: Final = Otherwise(
    "what can't be read stops its table or the pipeline by name, and is never skipped", ("fail",)
)
_LINEAGE: Final = Otherwise("no lineage is exported")
_MASKED: Final = Withheld("columns are masked by asterisks, or by MD5, SHA-1, SHA-256, SHA-384 or SHA-512")

VERDICTS: Final[dict[str, Verdict]] = {
    # Kafka Connect's own.
    "tasks.max": _CONNECT,
    "tasks.max.enforce": _CONNECT,
    "config.action.reload": _CONNECT,
    "exactly.once.support": Pointless("each change reaches topics and lake exactly once"),
    "transaction.boundary": _CONNECT,
    "transaction.boundary.interval.ms": _CONNECT,
    "offsets.storage.topic": Pointless("the journal's last segment is the position"),
    "errors.tolerance": Otherwise("an error is never passed over", ("none",)),
    "errors.retry.timeout": _RETRIES,
    "errors.retry.delay.max.ms": _RETRIES,
    "errors.log.enable": Pointless("errors are in the log"),
    "errors.log.include.messages": Otherwise("no row's values are in the log", ("false",)),
    "errors.max.retries": _RETRIES,
    "retriable.restart.connector.wait.ms": _RETRIES,
    "custom.retriable.exception": _RETRIES,
    # What is captured, and what is kept back.
    "table.ignore.builtin": Otherwise("the server's own tables are never captured", ("true",)),
    "database.exclude.list": Withheld("`tables` names what's captured; say it with table.include.list"),
    "table.exclude.list": Withheld("`tables` names what's captured; say it with table.include.list"),
    "gtid.source.includes": Withheld("the transactions of all servers in the log are read"),
    "gtid.source.excludes": Withheld("the transactions of all servers in the log are read"),
    "gtid.source.filter.dml.events": Pointless("the transactions of all servers in the log are read"),
    "snapshot.query.mode": Withheld("a snapshot reads all of a table's rows", ("select_all",)),
    "snapshot.query.mode.custom.name": _JAVA,
    "snapshot.select.statement.overrides": Withheld(
        "a snapshot reads all of a table's rows; one of some rows is had by a signal (`additional-conditions`)"
    ),
    "skip.messages.without.change": Otherwise("each change is in the changelog", ("false",)),
    "guardrail.collections.max": Otherwise("there's no bound on the number of tables", ("0",)),
    "guardrail.collections.limit.action": Pointless("there's no bound on the number of tables"),
    # Snapshots.
    "snapshot.locking.mode": _LOCKS,
    "snapshot.locking.mode.custom.name": _LOCKS,
    "snapshot.lock.timeout.ms": _LOCKS,
    "snapshot.mode.custom.name": _JAVA,
    "snapshot.mode.configuration.based.snapshot.schema": _HISTORY,
    "snapshot.mode.configuration.based.start.stream": Otherwise("the log is always followed", ("true",)),
    "snapshot.mode.configuration.based.snapshot.on.schema.error": _HISTORY,
    "snapshot.mode.configuration.based.snapshot.on.data.error": Otherwise(
        'a purged log is a stop, unless snapshot.mode = "when_needed"', ("false",)
    ),
    "snapshot.max.threads.multiplier": Pointless("snapshot.ranges is twice the connections"),
    "legacy.snapshot.max.threads": _JAVA,
    "snapshot.fetch.size": _CHUNKS,
    "query.fetch.size": _CHUNKS,
    "min.row.count.to.stream.results": _CHUNKS,
    "incremental.snapshot.chunk.size": _CHUNKS,
    "incremental.snapshot.allow.schema.changes": _ALWAYS,
    "incremental.snapshot.watermarking.strategy": Pointless("watermarks are read, not written"),
    "snapshot.scan.all.columns.force": _HISTORY,
    "snapshot.delay.ms": Otherwise("it begins at once", ("0",)),
    "streaming.delay.ms": Otherwise("it begins at once", ("0",)),
    "snapshot.tables.order.by.row.count": Otherwise(
        "several tables are read at the same time; a signal's `priority` says which is first", ("disabled",)
    ),
    "read.only": Pointless(
        'watermarks are read, not written; a server without GTIDs needs snapshot.watermark = "signal_table"'
    ),
    # The connection.
    "database.query.timeout.ms": _LOST,
    "database.connectionTimeZone": Pointless("times are read in UTC"),
    "database.initial.statements": Otherwise("no statement of others is sent to the source"),
    "database.jdbc.driver": _JAVA,
    "database.protocol": _JAVA,
    "database.server.id.offset": _JAVA,
    "database.ssl.keystore": Otherwise("there are no certificates of clients; a password says who it is"),
    "database.ssl.keystore.password": Pointless("there are no certificates of clients"),
    "database.ssl.truststore": Otherwise(
        "source.tls.ca is a file of PEM certificates: `keytool -exportcert -rfc` writes them"
    ),
    "database.ssl.truststore.password": Pointless("a file of PEM certificates has no password"),
    "connection.validation.timeout.ms": _LOST,
    "connect.keep.alive": _LOST,
    "connect.keep.alive.interval.ms": _LOST,
    "binlog.net.read.timeout": _LOST,
    "binlog.net.write.timeout": _LOST,
    "use.nongraceful.disconnect": _LOST,
    "binlog.buffer.size": Pointless("transactions of any size pass in parts"),
    "log.position.check.enable": _ALWAYS,
    "gtid.ignore.on.recovery": _JAVA,
    # What a change looks like.
    "enable.time.adjuster": Pointless("years are those that the server has stored"),
    "include.schema.comments": Pointless("comments aren't kept"),
    "column.propagate.source.type": _RECORDS,
    "datatype.propagate.source.type": _RECORDS,
    "field.name.adjustment.mode": _NAMES,
    "schema.name.adjustment.mode": _NAMES,
    "custom.sanitize.pattern": _RECORDS,
    "sourceinfo.struct.maker": _RECORDS,
    "transaction.metadata.factory": _RECORDS,
    "extended.headers.enabled": Otherwise("there are no headers `__debezium.context.*`", ("false",)),
    "event.processing.failure.handling.mode": _NEVER_SKIPPED,
    "event.deserialization.failure.handling.mode": _NEVER_SKIPPED,
    "event.converting.failure.handling.mode": _NEVER_SKIPPED,
    "inconsistent.schema.handling.mode": _NEVER_SKIPPED,
    # Topics.
    "topic.cache.size": _JAVA,
    "heartbeat.action.query": Otherwise("nothing is ever written to the source"),
    # Signals and notifications.
    "signal.poll.interval.ms": _POLLING,
    "signal.kafka.groupId": _POLLING,
    "signal.kafka.poll.timeout.ms": _POLLING,
    # Debezium's inside.
    "ddl.parser.type": _HISTORY,
    "max.batch.size": _QUEUES,
    "max.queue.size": _QUEUES,
    "max.queue.size.in.bytes": _QUEUES,
    "poll.interval.ms": _QUEUES,
    "queue.provider.type": _QUEUES,
    "executor.shutdown.timeout.ms": _JAVA,
    "memory.management.schemas.class": _JAVA,
    "memory.management.tables.class": _JAVA,
    "statistics.metrics.enabled": Pointless("docs/metrics.md has the metrics"),
    "advanced.metrics.enable": Pointless("docs/metrics.md has the metrics"),
    "custom.metric.tags": Otherwise("metrics have the labels of docs/metrics.md"),
}

# Whole families, by what their names begin with; the longest that fits holds.
FAMILIES: Final[dict[str, Verdict]] = {
    "key.converter.": _RECORDS,
    "value.converter.": _RECORDS,
    "header.converter.": _RECORDS,
    "producer.override.": Otherwise("[kafka] has no key for it"),
    "consumer.override.": _CONNECT,
    "admin.override.": _CONNECT,
    "topic.creation.": _CREATED,
    "topic.key.": _ROUTED_TOPICS,
    "topic.regex": _ROUTED_TOPICS,
    "topic.replacement": _ROUTED_TOPICS,
    "schema.history.internal": _HISTORY,
    "openlineage.integration.": _LINEAGE,
    "column.mask.": _MASKED,
    "column.truncate.": _MASKED,
    "snapshot.select.statement.overrides.": VERDICTS["snapshot.select.statement.overrides"],
    "signal.consumer.": Otherwise("[signals.kafka] has no key for it"),
    "database.": Pointless("it's for the JDBC driver, which isn't here"),
    "driver.": Pointless("it's for the JDBC driver, which isn't here"),
    "internal.": _JAVA,
}

_SHAPED: Final = Otherwise(
    "values are as the options of [kafka] have them, and in the lake as the source has them"
)
_ROUTED: Final = Otherwise("a message goes to its table's topic, or where [[kafka.topic_routes]] send it")
_HIDDEN: Final = Withheld("nothing is left out of a captured table, neither rows nor columns")

# What transformations do, by their classes.
TRANSFORMATIONS: Final[dict[str, Verdict]] = {
    "io.debezium.transforms.ExtractChangedRecordState": Otherwise(
        "a changelog with before_images shows which columns have changed"
    ),
    "io.debezium.transforms.ContentBasedRouter": _ROUTED,
    "io.debezium.transforms.partitions.PartitionRouting": Otherwise(
        "a key's partition is that of Java's default partitioner"
    ),
    "io.debezium.transforms.tracing.ActivateTracingSpan": _RECORDS,
    "io.debezium.transforms.EnforceRecordSize": _RECORDS,
    "io.debezium.transforms.ExtractSchemaToNewRecord": _RECORDS,
    "io.debezium.transforms.GeometryFormatTransformer": _SHAPED,
    "io.debezium.transforms.HeaderToValue": _SHAPED,
    "io.debezium.transforms.SwapGeometryCoordinates": _SHAPED,
    "io.debezium.transforms.TimezoneConverter": _SHAPED,
    "io.debezium.transforms.VectorToJsonConverter": _SHAPED,
    "io.debezium.transforms.SchemaChangeEventFilter": Otherwise(
        "the topic of schema changes has each statement on captured tables"
    ),
    "io.debezium.transforms.Filter": _HIDDEN,
    "io.debezium.connector.mysql.transforms.ReadToInsertEvent": Otherwise("a snapshot's rows are `r`"),
    "org.apache.kafka.connect.transforms.TimestampRouter": _ROUTED,
    "org.apache.kafka.connect.transforms.Cast$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.Cast$Value": _SHAPED,
    "org.apache.kafka.connect.transforms.Flatten$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.Flatten$Value": _SHAPED,
    "org.apache.kafka.connect.transforms.HoistField$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.HoistField$Value": _SHAPED,
    "org.apache.kafka.connect.transforms.InsertField$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.InsertField$Value": _SHAPED,
    "org.apache.kafka.connect.transforms.InsertHeader": _SHAPED,
    "org.apache.kafka.connect.transforms.DropHeaders": _RECORDS,
    "org.apache.kafka.connect.transforms.SetSchemaMetadata$Key": _RECORDS,
    "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value": _RECORDS,
    "org.apache.kafka.connect.transforms.TimestampConverter$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.TimestampConverter$Value": _SHAPED,
    "org.apache.kafka.connect.transforms.ValueToKey": _SHAPED,
    "org.apache.kafka.connect.transforms.ExtractField$Key": _SHAPED,
    "org.apache.kafka.connect.transforms.ExtractField$Value": _HIDDEN,
    "org.apache.kafka.connect.transforms.Filter": _HIDDEN,
    "org.apache.kafka.connect.transforms.MaskField$Key": _HIDDEN,
    "org.apache.kafka.connect.transforms.MaskField$Value": _HIDDEN,
    "org.apache.kafka.connect.transforms.ReplaceField$Key": _HIDDEN,
    "org.apache.kafka.connect.transforms.ReplaceField$Value": _HIDDEN,
}

# What makes values of columns, by classes: Debezium's own. Another one may do anything.
CONVERTERS: Final[dict[str, Verdict]] = {
    "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter": Otherwise(
        "TINYINT(1) is an integer"
    ),
    "io.debezium.connector.binlog.converters.JdbcSinkDataTypesConverter": _SHAPED,
    "io.debezium.connector.binlog.converters.ZeroDateFallbackConverter": Otherwise("a zero date is null"),
    "io.debezium.connector.mysql.converters.TinyIntOneToBooleanConverter": Otherwise(
        "TINYINT(1) is an integer"
    ),
    "io.debezium.connector.mysql.converters.JdbcSinkDataTypesConverter": _SHAPED,
    "io.debezium.connector.mysql.converters.ZeroDateFallbackConverter": Otherwise("a zero date is null"),
    "io.debezium.processors.reselect.ReselectColumnsPostProcessor": Pointless(
        "a value that wasn't logged is read again"
    ),
}

# A class of the user's may mask any data.
UNKNOWN_CLASS: Final = Withheld("Tidemark can't know what this class does to the data")
UNKNOWN_PROPERTY: Final = Otherwise("no property of Debezium's MySQL connector has this name")

# What properties were called before, and in Debezium 1.
OLD_NAMES: Final = {
    "database.server.name": "topic.prefix",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "incremental.snapshot.allow.schema.change": "incremental.snapshot.allow.schema.changes",
}
_OLD_FAMILIES: Final = {"database.history": "schema.history.internal"}


def present_name(name: str) -> str:
    """What a property is called now."""
    for old, new in _OLD_FAMILIES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return OLD_NAMES.get(name, name)


def verdict(name: str) -> Verdict:
    """What becomes of a property by its present name."""
    if (found := VERDICTS.get(name)) is not None:
        return found
    families = [family for family in FAMILIES if name.startswith(family)]
    return FAMILIES[max(families, key=len)] if families else UNKNOWN_PROPERTY
