"""The section `[kafka]` for a connector: its options of topics and messages, under our names.

A consumer then sees the same messages. The report names each property that Tidemark doesn't support. If the connector
hides columns from the readers of its topics, Tidemark hides them too.

Source: Debezium 3.6's documentation, "MySQL connector configuration properties"; Kafka 4.3's documentation, "Kafka
Connect", "Producer Configs".
"""

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final

from pipeline.config.column_rules import HashAlgorithm
from pipeline.config.debezium.conversion import Conversion, NoteKind, NotTakenOver, TomlValue, items_of
from pipeline.config.debezium.converters import converters
from pipeline.config.debezium.tables import javas_class, listed_expressions
from pipeline.config.debezium.transformations import transformations
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.config.settings import Compression, KafkaSecurity, SaslMechanism
from pipeline.schema.table_filter import TableFilter, mistake_in
from pipeline.schema.table_schema import TableId

_STRATEGIES: Final = (
    "io.debezium.schema.SchemaTopicNamingStrategy",
    "io.debezium.schema.DefaultTopicNamingStrategy",
)

_CHOICES: Final[Mapping[str, tuple[str, type[StrEnum]]]] = {
    "decimal.handling.mode": ("decimal_handling_mode", DecimalHandling),
    "time.precision.mode": ("time_precision_mode", TimePrecision),
    "bigint.unsigned.handling.mode": ("bigint_unsigned_handling_mode", UnsignedBigintHandling),
    "binary.handling.mode": ("binary_handling_mode", BinaryHandling),
    "producer.override.compression.type": ("compression_type", Compression),
}
_SWITCHES: Final = {
    "tombstones.on.delete": "tombstones_on_delete",
    "provide.transaction.metadata": "provide_transaction_metadata",
}
_TEXTS: Final = {
    "topic.transaction": "topic_transaction",
    "topic.heartbeat.prefix": "topic_heartbeat_prefix",
    "heartbeat.topics.prefix": "topic_heartbeat_prefix",
    "unavailable.value.placeholder": "unavailable_value_placeholder",
}

_PRODUCERS: Final = ("producer.override.", "schema.history.internal.producer.")
_JAAS_USER: Final = re.compile(r'username\s*=\s*"([^"]*)"')

_CREATED: Final = "topic.creation.default."
_MASKED: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_CUT: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_HASHED: Final = re.compile(r"column\.mask\.hash(\.v2)?\.([^.]+)\.with\.salt\.(.+)", re.DOTALL)
_KEYS: Final = "message.key.columns"
_KEY_OF_TABLE: Final = re.compile(r"\s*([^\s:,]+)\s*:([^:]+)")
_PLAIN_COLUMN: Final = re.compile(r"[\w-]+")


def messages(work: Conversion, prefix: str | None, brokers: str | None) -> None:
    """Write `[kafka]`, with the topics' prefix. `brokers`: where signals come from, if they come from Kafka."""
    _brokers(work, brokers)
    if prefix is not None:
        work.put("kafka", "topic_prefix", prefix)
    else:
        work.tell(NoteKind.TO_DO, "topic.prefix", "give kafka.topic_prefix")
    producer = [each for each in _PRODUCERS if f"{each}security.protocol" in work.properties]
    login(work, "kafka", producer[0] if producer else _PRODUCERS[0])
    _topics(work)
    _form(work)
    _columns(work)
    transformations(work)


def _brokers(work: Conversion, of_signals: str | None) -> None:
    """The connector's own JSON needn't name its topics' brokers, since Kafka Connect's worker has them."""
    own = work.take("producer.override.bootstrap.servers")
    history = "schema.history.internal.kafka.bootstrap.servers"
    others = {history: work.properties.get(history), "signal.kafka.bootstrap.servers": of_signals}
    found = {name: given for name, given in others.items() if given}
    if own is not None:
        work.put("kafka", "bootstrap_servers", items_of(own))
    elif found:
        [name, *_] = found
        work.put("kafka", "bootstrap_servers", items_of(found[name]))
        why = f"these are from {name}: see whether Kafka Connect's worker has the same, which isn't in this JSON"
        work.tell(NoteKind.TO_DO, "kafka.bootstrap_servers", why)
    else:
        why = "give those that Kafka Connect's worker has, or remove [kafka]"
        work.tell(NoteKind.TO_DO, "kafka.bootstrap_servers", why)


def login(work: Conversion, section: str, prefix: str) -> None:
    """How brokers are spoken to, by the properties of a client of Kafka's with this prefix."""
    for name, key, among in (
        ("security.protocol", "security_protocol", KafkaSecurity),
        ("sasl.mechanism", "sasl_mechanism", SaslMechanism),
    ):
        if (chosen := work.choice(prefix + name, among)) is not None:
            work.put(section, key, chosen.value)
    name = f"{prefix}sasl.jaas.config"
    if jaas := work.take(name):
        if user := _JAAS_USER.search(jaas):
            work.put(section, "sasl_username", user[1])
        work.put(section, "sasl_password_file", "/run/secrets/kafka-password")
        why = f"put its password into the file that {section}.sasl_password_file names"
        work.tell(NoteKind.TO_DO, name, why)


def _topics(work: Conversion) -> None:
    strategy = work.take("topic.naming.strategy")
    if strategy is not None and strategy not in _STRATEGIES:
        work.tell(NoteKind.OTHERWISE, "topic.naming.strategy", "topics are named prefix.database.table")
    if (delimiter := work.take("topic.delimiter")) is not None:
        if re.fullmatch(r"[._-]{1,4}", delimiter):
            work.put("kafka", "topic_delimiter", delimiter)
        else:
            work.tell(NoteKind.OTHERWISE, "topic.delimiter", "choose from ., _ and -")
    for name in [name for name in work.properties if name.startswith(_CREATED)]:
        given, option = work.take(name), name.removeprefix(_CREATED)
        if given is None or (option in ("partitions", "replication.factor") and given == "-1"):
            continue  # the broker's default
        if option in ("partitions", "replication.factor"):
            if not given.isdecimal():
                raise NotTakenOver(f"{name}: its value isn't a whole number")
            work.put("kafka", option.removesuffix(".factor"), int(given))
        else:
            work.put("kafka.topic_config", option, given)
    fixed = work.take("topic.heartbeat.name")
    if (interval := work.number("heartbeat.interval.ms")) is not None:
        work.put("kafka", "heartbeat_interval_ms", interval)
    if fixed:
        work.tell(
            NoteKind.OTHERWISE,
            "topic.heartbeat.name",
            "heartbeats go to topic_heartbeat_prefix and the topics' prefix",
        )
    if work.switch("include.schema.changes") is not False:  # Debezium has it by default
        work.put("kafka", "include_schema_changes", True)


def _form(work: Conversion) -> None:
    for name, (key, among) in _CHOICES.items():
        if (chosen := work.choice(name, among)) is not None:
            work.put("kafka", key, chosen.value)
    for name, key in _SWITCHES.items():
        if (given := work.switch(name)) is not None:
            work.put("kafka", key, given)
    for name, key in _TEXTS.items():
        if (text := work.take(name)) is not None:
            work.put("kafka", key, text)
    if (skipped := work.take("skipped.operations")) is not None:
        work.put("kafka", "skipped_operations", items_of(skipped.lower()))
        if {*items_of(skipped.lower())} - {"t", "none"}:
            work.keep_from_topics("skipped.operations")
    converters(work)


def _columns(work: Conversion) -> None:
    for name, key in (
        ("column.include.list", "column_include_list"),
        ("column.exclude.list", "column_exclude_list"),
    ):
        if given := work.take(name):
            work.put("kafka", key, _patterns(name, given))
            work.keep_from_topics(name)
    for name, rule in _column_rules(work):
        given = work.take(name)
        if given:
            work.add("kafka", "columns", {"columns": _patterns(name, given), **rule})
            work.keep_from_topics(name)
    _message_keys(work)


def _message_keys(work: Conversion) -> None:
    """Takes over keys that aren't primary keys. Raises NotTakenOver for expressions in place of columns' names.

    Debezium takes the columns of all items that match a table, in their order.
    """
    keys: dict[str, list[str]] = {}
    for item in filter(str.strip, (work.take(_KEYS) or "").split(";")):
        if (found := _KEY_OF_TABLE.fullmatch(item)) is None:
            raise NotTakenOver(f"{_KEYS}: it isn't `table:column,column;table:…`")
        columns = keys.setdefault(found[1], [])
        columns += [column for column in items_of(found[2]) if column not in columns]
        if unnamed := [column for column in columns if not _PLAIN_COLUMN.fullmatch(column)]:
            raise NotTakenOver(
                f"{_KEYS}: {unnamed[0]!r} is an expression, and a key names its columns here; write their names"
            )
    for table, columns in keys.items():
        work.add("kafka", "message_keys", {"tables": _patterns(_KEYS, f"(?i){table}"), "columns": columns})
    if _may_overlap(keys):
        why = "the first item that matches a table holds; with Debezium a key has the columns of all that match it"
        work.tell(NoteKind.OTHERWISE, _KEYS, why)


def _may_overlap(expressions: Collection[str]) -> bool:
    """Returns whether a table may match two of these expressions. That is unknown of two that are no tables' names."""
    filters = [TableFilter((f"(?i){each}",)) for each in expressions]
    named = [TableId(name.database.lower(), name.name.lower()) for each in filters for name in each.named]
    others = [each for each in filters if not each.named]
    matched = any(each.match(table) for each in others for table in named)
    return len({*named}) < len(named) or len(others) > 1 or matched


def _column_rules(work: Conversion) -> Iterator[tuple[str, dict[str, TomlValue]]]:
    """The properties that change columns, in the order in which Debezium tries them, and ours for each."""
    names = list(work.properties)
    for pattern, key in ((_CUT, "truncate_to_length"), (_MASKED, "mask_with_length")):
        for name in names:
            if (length := pattern.fullmatch(name)) is not None:
                yield name, {key: int(length[1])}
    salts = 0
    for name in names:
        if (found := _HASHED.fullmatch(name)) is None or found[2] not in list(HashAlgorithm):
            continue
        salts += 1
        file = f"/run/secrets/kafka-salt-{salts}"
        work.tell(NoteKind.TO_DO, name, f"put its salt into the file {file}")
        version: dict[str, TomlValue] = {} if found[1] else {"hash_version": 1}
        yield name, {"hash": found[2], "salt_file": file, **version}


def _patterns(name: str, given: str) -> list[str]:
    found = listed_expressions(given)
    if wrong := mistake_in(found) or javas_class(found):
        raise NotTakenOver(f"{name}: {wrong}")
    return found
