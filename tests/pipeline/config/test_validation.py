"""Contradictions: each is named by its key, and right settings pass."""

import dataclasses
from pathlib import PurePath

import pytest

from pipeline.config import (
    column_protection,
    column_rules,
    lake_types,
    message_routes,
    outbox,
    table_rules,
    unwrapping,
    validation,
)
from pipeline.config import settings as config
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

SETTINGS = config.Settings(
    name="shop",
    tables=TableFilter(("shop\\..*",)),
    source=config.SourceSettings(host="db", user="tidemark", server_id=7, password=config.Secret("geheim")),
    journal=config.JournalSettings("/var/lib/tidemark"),
    lake=config.LakeSettings("s3a://lake"),
)
REPLICA = config.ServerSettings("replica", "tidemark")
SECURED = config.KafkaSettings(
    ("kafka:9092",),
    "signals",
    security_protocol=config.KafkaSecurity.SASL_SSL,
    sasl_username="tidemark",
    sasl_password=config.Secret("geheim"),
)
EXPANDING = outbox.Outbox(TableFilter((".*",)), table_expand_json_payload=True)
TOPICS = config.KafkaSinkSettings(("kafka:9092",), "p")
AVRO = dataclasses.replace(
    TOPICS, converter=config.ConverterKind.AVRO, schema_registry_url="http://registry:8081"
)
PEOPLE = TableFilter(("shop\\.people",))
EXCLUDING = column_protection.ProtectionRule(PEOPLE, ("ssn",), column_protection.Treatment.EXCLUDE)
LONG = lake_types.LakeTypeRule(PEOPLE, ("id", ".*_id"), lake_types.LakeType.LONG)
PROTECTED = dataclasses.replace(SETTINGS, protection=column_protection.Protection(rules=(EXCLUDING,)))
BY_TABLE = config.SnapshotSettings(watermark=config.Watermark.SIGNAL_TABLE)


def protecting(
    treatment: str, length: int | None = None, text: str | None = None
) -> column_protection.ProtectionRule:
    return column_protection.ProtectionRule(
        PEOPLE, ("email",), column_protection.Treatment(treatment), length, text
    )


def stored(journal: str, lake: str) -> config.Settings:
    return dataclasses.replace(
        SETTINGS, journal=config.JournalSettings(journal), lake=config.LakeSettings(lake)
    )


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (config.TlsSettings(config.TlsMode.REQUIRED, PurePath("ca.pem")), "ca"),
        (dataclasses.replace(SETTINGS.source, others=(config.ServerAddress("db"),)), "others"),
        (config.HttpSettings("0.0.0.0"), "host"),
        (config.HttpSettings("::"), "host"),
        (config.HttpSettings("db.example"), "host"),
        (config.SparkSettings(conf={"spark.jars": "x.jar"}), "conf"),
        (config.SparkSettings(conf={"spark.sql.files.ignoreCorruptFiles": "true"}), "conf"),
        (config.SparkSettings(conf={"spark.sql.session.timeZone": "Europe/Berlin"}), "conf"),
        (config.SparkSettings(conf={"spark.databricks.delta.stalenessLimit": "1h"}), "conf"),
        (
            config.SparkSettings(
                conf={
                    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration": "interval 1 day"
                }
            ),
            "conf",
        ),
        (dataclasses.replace(SETTINGS, tables=TableFilter(())), "tables"),
        (dataclasses.replace(SETTINGS, lake=None), "lake"),
        (stored("/var/tidemark", "/var/tidemark"), "lake.path"),
        (stored("/var/tidemark/", "/var/tidemark/lake"), "lake.path"),
        (stored("/var/tidemark/lake/journal", "/var/tidemark/lake"), "lake.path"),
        (stored("s3://bucket/x", "s3a://bucket/x/lake"), "lake.path"),
        (config.LakeSettings("s3a://bucket/lake?"), "path"),
        (config.LakeSettings("file:/var/lib/lake#1"), "path"),
        (
            dataclasses.replace(SETTINGS, lake=None, kafka=TOPICS, verify=config.VerifySettings(24.0)),
            "verify",
        ),
        (config.SnapshotSettings(mode=config.SnapshotMode.WHEN_NEEDED, allow_lock=True), "allow_lock"),
        (config.SnapshotSettings(mode=config.SnapshotMode.CONSISTENT, source=REPLICA), "source"),
        (config.SnapshotSettings(watermark=config.Watermark.SIGNAL_TABLE, source=REPLICA), "source"),
        (config.JournalSettings("journal", keep_mib=100, quota_mib=100), "quota_mib"),
        (config.KafkaSettings((), "signals"), "bootstrap_servers"),
        (table_rules.LakeRule(TableFilter(())), "tables"),
        (
            table_rules.LakeRule(TableFilter((".*",)), table_rules.Tiers.MIRROR, before_images=True),
            "before_images",
        ),
        (dataclasses.replace(SETTINGS, snapshot=BY_TABLE), "snapshot.watermark"),
        (config.KafkaSettings(("kafka:9092",), "signals", ca=PurePath("ca.pem")), "ca"),
        (dataclasses.replace(SECURED, sasl_username=None), "security_protocol"),
        (dataclasses.replace(SECURED, sasl_password=config.Secret("")), "security_protocol"),
        (dataclasses.replace(SECURED, security_protocol=config.KafkaSecurity.SSL), "sasl_username"),
        (dataclasses.replace(TOPICS, column_include_list=("(",)), "column_include_list"),
        (
            dataclasses.replace(TOPICS, column_include_list=("a",), column_exclude_list=("b",)),
            "column_exclude_list",
        ),
        (dataclasses.replace(TOPICS, schemas_enable=True, outboxes=(EXPANDING,)), "outboxes"),
        (dataclasses.replace(AVRO, outboxes=(EXPANDING,)), "outboxes"),
        (dataclasses.replace(AVRO, schemas_enable=True), "schemas_enable"),
        (dataclasses.replace(AVRO, schema_registry_url=None), "schema_registry_url"),
        (dataclasses.replace(AVRO, converter=config.ConverterKind.JSON), "schema_registry_url"),
        (dataclasses.replace(AVRO, schema_registry_ca=PurePath("ca.pem")), "schema_registry_ca"),
        (dataclasses.replace(AVRO, schema_registry_username="tidemark"), "schema_registry_username"),
        (dataclasses.replace(AVRO, schema_registry_password=config.Secret("s")), "schema_registry_username"),
        (dataclasses.replace(EXCLUDING, tables=TableFilter(())), "tables"),
        (dataclasses.replace(EXCLUDING, columns=()), "columns"),
        (dataclasses.replace(EXCLUDING, length=1), "length"),
        (dataclasses.replace(EXCLUDING, text="x"), "text"),
        (protecting("hash", length=1), "length"),
        (dataclasses.replace(LONG, tables=TableFilter(())), "tables"),
        (dataclasses.replace(LONG, columns=()), "columns"),
        (dataclasses.replace(LONG, columns=("id", "(")), "columns"),
        (dataclasses.replace(LONG, type=lake_types.LakeType.INTERVAL), "type"),
        (dataclasses.replace(LONG, type=lake_types.LakeType.VARIANT), "type"),
        (protecting("truncate"), "length"),
        (protecting("truncate", length=1, text="x"), "text"),
        (protecting("mask"), "length"),
        (protecting("mask", length=1, text="x"), "length"),
        (column_protection.Protection(rules=(protecting("hash"),)), "salt_file"),
        (column_protection.Protection(config.Secret("s" * 15), (protecting("hash"),)), "salt_file"),
        (column_protection.Protection(config.Secret("s" * 16), (EXCLUDING,)), "salt_file"),
        (
            dataclasses.replace(PROTECTED, source=dataclasses.replace(SETTINGS.source, keep_statements=True)),
            "source.keep_statements",
        ),
        (
            dataclasses.replace(PROTECTED, kafka=dataclasses.replace(TOPICS, include_schema_changes=True)),
            "kafka.include_schema_changes",
        ),
        (column_rules.ColumnRule((r"a\.b\.c",)), "columns"),
        (column_rules.ColumnRule((r"a\.b\.c",), mask_with_length=1, truncate_to_length=1), "columns"),
        (column_rules.ColumnRule(("(",), mask_with_length=1), "columns"),
        (column_rules.ColumnRule((r"a\.b\.c",), hash=column_rules.HashAlgorithm.MD5), "hash"),
        (column_rules.ColumnRule((r"a\.b\.c",), mask_with_length=1, salt=config.Secret("s")), "salt_file"),
        (column_rules.ColumnRule((), mask_with_length=1), "columns"),
        (column_rules.MessageKey(TableFilter(()), ("id",)), "tables"),
        (column_rules.MessageKey(PEOPLE, ()), "columns"),
        (column_rules.MessageKey(PEOPLE, ("id", "at", "ID")), "columns"),
        (outbox.Outbox(TableFilter(())), "tables"),
        (message_routes.TopicRoute("(a)", "$2"), "topic_regex"),
        (message_routes.TopicRoute("(a)", "$1", key_field_regex="("), "key_field_regex"),
        (unwrapping.Unwrap(add_fields=("source.nothing",)), "add_fields"),
        (unwrapping.Unwrap(add_headers=("nothing",)), "add_headers"),
        (outbox.Outbox(TableFilter((".*",)), route_topic_replacement="$x${y}"), "route_topic_regex"),
        (
            outbox.Outbox(TableFilter((".*",)), table_fields_additional_placement=("a:b",)),
            "table_fields_additional_placement",
        ),
    ],
)
def test_contradictions_name_the_key(section: object, key: str) -> None:
    (mistake,) = validation.contradictions(section)
    assert mistake.key == key
    assert str(mistake) == f"{key}: {mistake.wrong}; {mistake.remedy}"


@pytest.mark.parametrize(
    "section",
    [
        config.TlsSettings(config.TlsMode.VERIFY, PurePath("ca.pem")),
        dataclasses.replace(
            SETTINGS.source, others=(config.ServerAddress("db", 3307), config.ServerAddress("db2"))
        ),
        config.HttpSettings("localhost"),
        config.HttpSettings("127.3.2.1"),
        config.HttpSettings("::1"),
        config.SparkSettings(conf={"spark.ui.enabled": "true"}),
        config.SparkSettings(conf={"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "TRUE"}),
        config.SnapshotSettings(mode=config.SnapshotMode.CONSISTENT, allow_lock=True),
        config.SnapshotSettings(watermark=config.Watermark.PAUSE, source=REPLICA),
        config.KafkaSettings(("kafka:9092",), "signals"),
        dataclasses.replace(SECURED, ca=PurePath("ca.pem")),
        dataclasses.replace(SECURED, security_protocol=config.KafkaSecurity.SASL_PLAINTEXT),
        config.KafkaSettings(
            ("kafka:9092",), "signals", ca=PurePath("ca.pem"), security_protocol=config.KafkaSecurity.SSL
        ),
        table_rules.LakeRule(TableFilter((".*",)), table_rules.Tiers.CHANGELOG, before_images=True),
        EXCLUDING,
        protecting("hash"),
        protecting("truncate", length=0),
        protecting("mask", length=0),
        protecting("mask", text="gone"),
        column_protection.Protection(config.Secret("s" * 16), (EXCLUDING, protecting("hash"))),
        PROTECTED,
        dataclasses.replace(TOPICS, outboxes=(EXPANDING,)),
        AVRO,
        dataclasses.replace(
            AVRO,
            schema_registry_url="https://registry:8081",
            schema_registry_ca=PurePath("ca.pem"),
            schema_registry_username="tidemark",
            schema_registry_password=config.Secret("s"),
        ),
        column_rules.ColumnRule((r"a\.b\.c",), hash=column_rules.HashAlgorithm.MD5, salt=config.Secret("s")),
        message_routes.TopicRoute("(?<n>a)", "${n}"),
        unwrapping.Unwrap(add_fields=("op", "source.ts_ms", "table:t"), add_headers=("total_order",)),
        dataclasses.replace(
            SETTINGS, snapshot=BY_TABLE, signals=config.SignalSettings(table=TableId("tidemark", "signals"))
        ),
        dataclasses.replace(SETTINGS, lake=None, kafka=TOPICS),
        stored("/var/tidemark/lake-journal", "/var/tidemark/lake"),
        stored("s3://bucket/x", "s3a://other/x"),
        config.LakeSettings("/var/lib/lake?#[1]{a,b}*"),
        SETTINGS,
    ],
)
def test_what_is_right_is_let_through(section: object) -> None:
    found: list[validation.Mistake] = list(validation.contradictions(section))
    assert found == []


def keyed(*keys: tuple[str, str], rules: tuple[column_protection.ProtectionRule, ...]) -> list[str]:
    """The keys of mistakes in settings with these keys of messages."""
    messages = tuple(column_rules.MessageKey(TableFilter((table,)), (column,)) for table, column in keys)
    protection = column_protection.Protection(config.Secret("s" * 16), rules)
    kafka = dataclasses.replace(TOPICS, message_keys=messages)
    settings = dataclasses.replace(SETTINGS, protection=protection, kafka=kafka)
    return [each.key for each in validation.contradictions(settings)]


def test_a_key_of_messages_has_no_column_that_is_not_as_the_source_has_it() -> None:
    """All rows would have one key, or no key of their own: a compacted topic would lose them."""
    masking, hashing = protecting("mask", length=8), protecting("hash")
    everywhere = dataclasses.replace(masking, tables=TableFilter((".*",)))
    by_name, by_pattern = (r"shop\.people", "Email"), ("(?i)shop.p.*", "email")
    for rule in (masking, protecting("truncate", length=1), everywhere):
        assert keyed(by_name, rules=(rule,)) == ["kafka.message_keys[1]"]
    assert keyed((r"shop\.people", "ssn"), rules=(EXCLUDING,)) == ["kafka.message_keys[1]"]
    assert keyed(("crm.*", "email"), by_pattern, rules=(masking,)) == ["kafka.message_keys[2]"]
    # Another table's, another column's, and what an earlier rule or key says already.
    assert keyed((r"shop\.items", "email"), (r"shop\.people", "id"), rules=(masking,)) == []
    assert keyed((r"crm\.people", "email"), rules=(everywhere,)) == []
    assert keyed(by_name, rules=(hashing, everywhere)) == []
    assert keyed((".*", "id"), by_name, rules=(masking,)) == []
