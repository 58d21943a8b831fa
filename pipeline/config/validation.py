"""Finds mistakes in settings as a whole, where no single value is wrong: keys that exclude or need each other."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from pipeline.config import http_access
from pipeline.config.column_protection import LEAST_SALT, Protection, ProtectionRule, Treatment
from pipeline.config.column_rules import ColumnRule, MessageKey
from pipeline.config.lake_types import UNAVAILABLE, LakeTypeRule
from pipeline.config.message_routes import TopicRoute, mistake_in_rewriting
from pipeline.config.outbox import Outbox
from pipeline.config.settings import (
    SESSION_SETTINGS,
    AlertSettings,
    BrokerSettings,
    ConverterKind,
    HttpSettings,
    HttpTlsSettings,
    JournalSettings,
    KafkaSinkSettings,
    LakeSettings,
    Secret,
    ServerAddress,
    ServerSettings,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SourceSettings,
    SparkSettings,
    TlsMode,
    TlsSettings,
    Watermark,
)
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.config.unwrapping import KNOWN_PROPERTIES as KNOWN_FIELDS
from pipeline.config.unwrapping import Unwrap
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_filter import ALL_TABLES, OWN_DATABASES, mistake_in
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with the value of `key`, and what to do about it."""

    key: str
    wrong: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.wrong}; {self.remedy}"


_SAID_ELSEWHERE = {
    "spark.master": "spark.master",
    "spark.jars": "spark.jars",
    "spark.driver.memory": "spark.driver_memory",
}


def contradictions(section: object) -> Iterator[Mistake]:
    """What the types and bounds of single fields can't tell, with keys relative to the section."""
    match section:
        case TlsSettings(mode, ca):
            if ca is not None and mode is not TlsMode.VERIFY:
                yield Mistake("ca", f'it has no use with mode = "{mode}"', 'set mode = "verify"')
        case SourceSettings():
            yield from _of_source(section)
        case SnapshotSettings():
            yield from _of_snapshots(section)
        case LakeRule():
            yield from _of_rule(section)
        case LakeTypeRule():
            yield from _of_type_rule(section)
        case JournalSettings(keep_mib=kept, quota_mib=quota):
            if 0 < quota <= kept:
                yield Mistake(
                    "quota_mib",
                    f"{quota} MiB are reached by the {kept} MiB that are kept (keep_mib)",
                    "raise it, or lower keep_mib",
                )
        case LakeSettings(path):
            yield from _of_lake(path)
        case KafkaSinkSettings():
            yield from _of_broker(section)
            yield from _of_kafka_sink(section)
        case BrokerSettings():
            yield from _of_broker(section)
        case ColumnRule():
            yield from _of_columns(section)
        case MessageKey():
            yield from _of_message_key(section)
        case ProtectionRule():
            yield from _of_protection_rule(section)
        case Protection():
            yield from _of_protection(section)
        case TopicRoute():
            yield from _of_route(section)
        case Outbox():
            yield from _of_outbox(section)
        case Unwrap():
            yield from _of_unwrap(section)
        case AlertSettings(webhook):
            yield from _of_webhook(webhook.value)
        case HttpTlsSettings(client_ca=None, client_certificate=PurePath()):
            yield Mistake(
                "client_certificate", "without client_ca no client needs one", "remove it, or set client_ca"
            )
        case HttpSettings(host, _, token, read_token):
            tokens = (None if secret == Secret("") else secret.value for secret in (token, read_token))
            yield from (Mistake(*told) for told in http_access.mistakes(host, *tokens))
        case SparkSettings(conf=conf):
            yield from _of_spark(conf)
        case Settings():
            yield from _of_all(section)


# What lets Delta forget the versions of applications in each new table.
_FORGETTING: Final = "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration"

_WEB_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")


def _of_webhook(address: str) -> Iterator[Mistake]:
    if not address:
        yield Mistake("webhook", "there is no address", "give webhook or webhook_file, or remove [alerts]")
    elif not _WEB_ADDRESS.fullmatch(address):
        yield Mistake("webhook", "it isn't an address of HTTP", "give one as https://host/path")


def _of_source(source: SourceSettings) -> Iterator[Mistake]:
    servers: tuple[ServerSettings | ServerAddress, ...] = (source, *source.others)
    listed = [(server.host, server.port) for server in servers]
    for twice in sorted({server for server in listed if listed.count(server) > 1}):
        yield Mistake("others", f"{twice[0]}:{twice[1]} is there twice", "name each server once")
    if source.begin_after is not None:
        try:
            GtidSet.parse(source.begin_after)
        except MalformedGtid as error:
            yield Mistake("begin_after", str(error), "give a GTID set, as gtid_executed shows it")


def _of_snapshots(snapshot: SnapshotSettings) -> Iterator[Mistake]:
    if snapshot.allow_lock and snapshot.mode is not SnapshotMode.CONSISTENT:
        yield Mistake("allow_lock", f'it has no use with mode = "{snapshot.mode}"', 'set mode = "consistent"')
    if snapshot.source is None:
        return
    if snapshot.mode is SnapshotMode.CONSISTENT:
        yield Mistake(
            "source",
            "a consistent snapshot is read from the server whose log is followed",
            "remove [snapshot.source]",
        )
    if snapshot.watermark is Watermark.SIGNAL_TABLE:
        yield Mistake(
            "source",
            "watermarks in a table are written, and show, where the chunks are read",
            'remove [snapshot.source], or set watermark = "gtid"',
        )


def _of_lake(path: str) -> Iterator[Mistake]:
    is_uri = "://" in path or path.startswith("file:")
    if is_uri and any(sign in path for sign in "?#"):
        yield Mistake("path", "Spark and pyarrow read a URI with ? or # differently", "name another folder")


def _of_spark(conf: Mapping[str, str]) -> Iterator[Mistake]:
    for twice in sorted(conf.keys() & _SAID_ELSEWHERE.keys()):
        yield Mistake("conf", f"{twice} has a key of its own", f"say it with {_SAID_ELSEWHERE[twice]}")
    for fixed in sorted(conf.keys() & SESSION_SETTINGS.keys()):
        if conf[fixed].lower() != SESSION_SETTINGS[fixed].lower():
            yield Mistake("conf", f"with another {fixed} rows could be lost or changed", "remove it")
    if _FORGETTING in conf:
        wrong = f"with {_FORGETTING} Delta forgets how far the lake's tables are, and rows come twice"
        yield Mistake("conf", wrong, "remove it")


def _of_rule(rule: LakeRule) -> Iterator[Mistake]:
    if not rule.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.orders"]')
    if rule.before_images and rule.tiers is Tiers.MIRROR:
        yield Mistake(
            "before_images",
            f'with tiers = "{rule.tiers}" no table would have them',
            'remove it, or set tiers = "both"',
        )
    if not rule.deletion_vectors and rule.tiers is Tiers.CHANGELOG:
        yield Mistake(
            "deletion_vectors", f'with tiers = "{rule.tiers}" there is no mirror', "remove one of the two"
        )


def _of_type_rule(rule: LakeTypeRule) -> Iterator[Mistake]:
    if not rule.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\..*"]')
    if not rule.columns:
        yield Mistake("columns", "it's empty", 'name at least one, as in ["id", ".*_id"]')
    if wrong := mistake_in(rule.columns):
        yield Mistake("columns", wrong, 'match a column\'s name, as in ["id", ".*_id"]')
    if rule.type in UNAVAILABLE:
        yield Mistake("type", *UNAVAILABLE[rule.type])


def _of_broker(kafka: BrokerSettings) -> Iterator[Mistake]:
    protocol, said = kafka.security_protocol, kafka.sasl_username is not None
    if not kafka.bootstrap_servers:
        yield Mistake("bootstrap_servers", "it's empty", 'name at least one, as in ["kafka:9092"]')
    if kafka.ca is not None and not protocol.encrypted:
        yield Mistake("ca", f'it has no use with security_protocol = "{protocol}"', 'set "SSL" or "SASL_SSL"')
    if said and not protocol.authenticated:
        yield Mistake(
            "sasl_username",
            f'it has no use with security_protocol = "{protocol}"',
            'set "SASL_SSL" or "SASL_PLAINTEXT"',
        )
    if protocol.authenticated and not (said and kafka.sasl_password.value):
        yield Mistake(
            "security_protocol",
            f"with {protocol} the broker has to be told who we are",
            "say it with sasl_username and sasl_password_file",
        )


def _of_kafka_sink(kafka: KafkaSinkSettings) -> Iterator[Mistake]:
    known = ("c", "u", "d", "t", "none")
    for unknown in (each for each in kafka.skipped_operations if each not in known):
        yield Mistake(
            "skipped_operations", f"{unknown!r} isn't an operation", f"choose from {', '.join(known)}"
        )
    for key, patterns in (
        ("column_include_list", kafka.column_include_list),
        ("column_exclude_list", kafka.column_exclude_list),
    ):
        if wrong := mistake_in(patterns):
            yield Mistake(key, wrong, r'match "database.table.column", as in ["shop\\.customers\\.phone"]')
    yield from _of_converter(kafka)
    if kafka.column_include_list and kafka.column_exclude_list:
        yield Mistake("column_exclude_list", "column_include_list says it already", "keep one of the two")
    if "none" in kafka.skipped_operations and len(kafka.skipped_operations) > 1:
        yield Mistake("skipped_operations", "none excludes all others", 'write ["none"], or leave it out')


def _of_converter(kafka: KafkaSinkSettings) -> Iterator[Mistake]:
    avro = kafka.converter is ConverterKind.AVRO
    if any(outbox.table_expand_json_payload for outbox in kafka.outboxes) and (avro or kafka.schemas_enable):
        yield Mistake(
            "outboxes",
            "an expanded payload has no schema here",
            "set table_expand_json_payload = false, or send JSON with schemas_enable = false",
        )
    if avro and kafka.schemas_enable:
        yield Mistake("schemas_enable", "with Avro the schemas are in the registry", "remove it")
    if avro and kafka.schema_registry_url is None:
        yield Mistake(
            "schema_registry_url",
            "Avro needs a schema registry",
            'say where it is, as in "https://registry:8081"',
        )
    url = kafka.schema_registry_url or ""
    if url and not avro:
        yield Mistake(
            "schema_registry_url", "JSON needs no schema registry", 'remove it, or set converter = "avro"'
        )
    if kafka.schema_registry_ca is not None and not url.startswith("https://"):
        yield Mistake("schema_registry_ca", "it has no use without https", "see to schema_registry_url")
    if (kafka.schema_registry_username is None) != (not kafka.schema_registry_password.value):
        yield Mistake(
            "schema_registry_username",
            "a user and his password belong together",
            "set schema_registry_username and schema_registry_password_file, or neither",
        )


def _of_columns(rule: ColumnRule) -> Iterator[Mistake]:
    if not rule.columns:
        yield Mistake("columns", "it's empty", r'name at least one, as in ["shop\\.customers\\.phone"]')
    if wrong := mistake_in(rule.columns):
        yield Mistake("columns", wrong, r'match "database.table.column", as in ["shop\\.customers\\.phone"]')
    forms = ("mask_with_length", "truncate_to_length", "hash")
    said = [name for name in forms if getattr(rule, name) is not None]
    if len(said) != 1:
        yield Mistake(
            "columns",
            f"{' and '.join(said) or 'nothing'} is to become of them",
            "say one of " + ", ".join(forms),
        )
    if rule.hash is not None and not rule.salt.value:
        yield Mistake("hash", "without a salt anybody can try values", "give one with salt_file")
    if rule.hash is None and rule.salt.value:
        yield Mistake("salt_file", "it has no use without hash", "remove it, or say hash")


def _of_message_key(key: MessageKey) -> Iterator[Mistake]:
    if not key.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.customers"]')
    if not key.columns:
        yield Mistake("columns", "it's empty", 'name at least one, as in ["id"]')
    folded = [fold_name(name) for name in key.columns]
    if twice := next((name for name in key.columns if folded.count(fold_name(name)) > 1), None):
        yield Mistake("columns", f"{twice!r} is there twice", "name each column once")


def _of_protection_rule(rule: ProtectionRule) -> Iterator[Mistake]:
    if not rule.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.customers"]')
    if not rule.columns:
        yield Mistake("columns", "it's empty", 'name at least one, as in ["email"]')
    of = f'treatment = "{rule.treatment}"'
    measured = rule.treatment in (Treatment.MASK, Treatment.TRUNCATE)
    if rule.length is not None and not measured:
        yield Mistake("length", f"it has no use with {of}", "remove it")
    if rule.text is not None and rule.treatment is not Treatment.MASK:
        yield Mistake("text", f"it has no use with {of}", "remove it")
    if rule.treatment is Treatment.MASK and (rule.length is None) == (rule.text is None):
        yield Mistake("length", "a mask is so many asterisks or a text", "give either length or text")
    if rule.treatment is Treatment.TRUNCATE and rule.length is None:
        yield Mistake("length", f"it's missing with {of}", "say how much of a value stays")


def _of_protection(protection: Protection) -> Iterator[Mistake]:
    salt = protection.salt.value
    hashes = any(rule.treatment is Treatment.HASH for rule in protection.rules)
    if hashes and not salt:
        yield Mistake(
            "salt_file",
            "without a salt anybody can find values by their hashes",
            "give a file with a random text, or set TIDEMARK__PROTECTION__SALT",
        )
    elif hashes and len(salt) < LEAST_SALT:
        yield Mistake(
            "salt_file", f"the salt has {len(salt)} characters", f"give it {LEAST_SALT} at least, at random"
        )
    if salt and not hashes:
        yield Mistake("salt_file", "it has no use without a rule that hashes", "remove it")


def _of_route(route: TopicRoute) -> Iterator[Mistake]:
    if wrong := mistake_in_rewriting(route.topic_regex, route.topic_replacement):
        yield Mistake("topic_regex", wrong, "see to topic_regex and topic_replacement")
    if route.key_field_regex is not None and (
        wrong := mistake_in_rewriting(route.key_field_regex, route.key_field_replacement)
    ):
        yield Mistake("key_field_regex", wrong, "see to key_field_regex and key_field_replacement")


def _of_outbox(outbox: Outbox) -> Iterator[Mistake]:
    if not outbox.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.outbox"]')
    if wrong := mistake_in_rewriting(outbox.route_topic_regex, outbox.route_topic_replacement):
        yield Mistake("route_topic_regex", wrong, "see to route_topic_regex and route_topic_replacement")
    try:
        _ = outbox.placed
    except ValueError as error:
        yield Mistake(
            "table_fields_additional_placement",
            str(error),
            'write "column:header", or "column:envelope:name"',
        )


def _of_unwrap(unwrap: Unwrap) -> Iterator[Mistake]:
    for key, fields in (("add_fields", unwrap.fields), ("add_headers", unwrap.headers)):
        for each in fields:
            if each.told not in KNOWN_FIELDS:
                yield Mistake(
                    key, f"an envelope has no {each.told}", f"choose from {', '.join(KNOWN_FIELDS)}"
                )


def _of_all(settings: Settings) -> Iterator[Mistake]:
    if not settings.tables.patterns:
        yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.orders"]')
    if settings.lake is None and settings.kafka is None:
        yield Mistake("lake", "nothing would be delivered anywhere", "add [lake], [kafka] or both")
    if settings.lake is not None and _overlap(settings.lake.path, settings.journal.path):
        yield Mistake(
            "lake.path",
            "lake and journal are one folder, or one is in the other",
            "give them folders of their own",
        )
    if settings.protection.rules:
        yield from _beside_protection(settings)
    if settings.lake is None and settings.verify is not None:
        yield Mistake("verify", "there is no lake to verify", "add [lake], or remove [verify]")
    if settings.snapshot.watermark is Watermark.SIGNAL_TABLE and settings.signals.table is None:
        yield Mistake(
            "snapshot.watermark",
            "it needs a table to write watermarks into",
            'name one of three text columns (id, type, data) with signals.table, as in "tidemark.signals"',
        )
    if settings.signals.table is not None and settings.signals.table.database in OWN_DATABASES:
        yield Mistake(
            "signals.table",
            f"the database {settings.signals.table.database} has the server's own tables, whose rows aren't read",
            'create it in another one, as in "tidemark.signals"',
        )


def _overlap(lake: str, journal: str) -> bool:
    """Whether a path is another one or is in it. S3 has one namespace, by whatever scheme the URIs name it."""
    one, other = (PurePath(re.sub("^s3[an]?://", "s3://", path)) for path in (lake, journal))
    return one.is_relative_to(other) or other.is_relative_to(one)


def _beside_protection(settings: Settings) -> Iterator[Mistake]:
    """What would put values of protected columns into the journal in another way."""
    if settings.source.keep_statements:
        yield Mistake(
            "source.keep_statements",
            "the texts of statements have values of columns that [protection] protects",
            "remove it, or remove [protection]",
        )
    if settings.kafka is not None and settings.kafka.include_schema_changes:
        yield Mistake(
            "kafka.include_schema_changes",
            "the texts of statements may have values of columns that [protection] protects, as defaults",
            "remove it, or remove [protection]",
        )
    if settings.kafka is not None:
        keys, rules = settings.kafka.message_keys, settings.protection.rules
        filters = [*(each.tables for each in keys), *(each.tables for each in rules)]
        yield from blurred_keys(settings, {table for each in filters for table in each.named})


def blurred_keys(settings: Settings, tables: Iterable[TableId]) -> Iterator[Mistake]:
    """Yields the keys of messages that don't tell the rows of these tables apart, because [protection] protects them.

    A start can only know the tables that keys or rules name. Those that expressions match are the source's.
    """
    if settings.kafka is None:
        return
    keys, protection = settings.kafka.message_keys, settings.protection
    captured = settings.tables, settings.kafka.tables or ALL_TABLES
    for table in sorted(table for table in tables if all(each.match(table) for each in captured)):
        place, key = next(((at, key) for at, key in enumerate(keys, 1) if key.tables.match(table)), (0, None))
        for column in () if key is None else key.columns:
            rule = protection.rule_of_column(table, column)
            if rule is not None and rule.treatment is not Treatment.HASH:
                by = f"protection.rules[{protection.rules.index(rule) + 1}]"
                yield Mistake(
                    f"kafka.message_keys[{place}]",
                    f'{by} has treatment = "{rule.treatment}" for {column!r} of {table}, and a key of that does not '
                    "tell rows apart",
                    f'choose treatment = "hash" in {by}, or other columns for the key',
                )
