"""Contradictions: each is named by its key, and right settings pass."""

import dataclasses
from pathlib import PurePath

import pytest

from pipeline.config.column_rules import ColumnRule, HashAlgorithm
from pipeline.config.message_routes import TopicRoute
from pipeline.config.outbox import Outbox
from pipeline.config.settings import (
    HttpSettings,
    JournalSettings,
    KafkaSecurity,
    KafkaSettings,
    KafkaSinkSettings,
    LakeSettings,
    Secret,
    ServerAddress,
    ServerSettings,
    Settings,
    SignalSettings,
    SnapshotMode,
    SnapshotSettings,
    SourceSettings,
    SparkSettings,
    TlsMode,
    TlsSettings,
    Watermark,
)
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.config.unwrapping import Unwrap
from pipeline.config.validation import Mistake, contradictions
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

SETTINGS = Settings(
    name="shop",
    tables=TableFilter(("shop\\..*",)),
    source=SourceSettings(host="db", user="tidemark", server_id=7, password=Secret("geheim")),
    journal=JournalSettings("/var/lib/tidemark"),
    lake=LakeSettings("s3a://lake"),
)
REPLICA = ServerSettings("replica", "tidemark")
SECURED = KafkaSettings(
    ("kafka:9092",),
    "signals",
    security_protocol=KafkaSecurity.SASL_SSL,
    sasl_username="tidemark",
    sasl_password=Secret("geheim"),
)
EXPANDING = Outbox(TableFilter((".*",)), table_expand_json_payload=True)
TOPICS = KafkaSinkSettings(("kafka:9092",), "p")
BY_TABLE = SnapshotSettings(watermark=Watermark.SIGNAL_TABLE)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (TlsSettings(TlsMode.REQUIRED, PurePath("ca.pem")), "ca"),
        (dataclasses.replace(SETTINGS.source, others=(ServerAddress("db"),)), "others"),
        (HttpSettings("0.0.0.0"), "host"),
        (HttpSettings("::"), "host"),
        (HttpSettings("db.example"), "host"),
        (SparkSettings(conf={"spark.jars": "x.jar"}), "conf"),
        (dataclasses.replace(SETTINGS, tables=TableFilter(())), "tables"),
        (SnapshotSettings(mode=SnapshotMode.WHEN_NEEDED, allow_lock=True), "allow_lock"),
        (SnapshotSettings(mode=SnapshotMode.CONSISTENT, source=REPLICA), "source"),
        (SnapshotSettings(watermark=Watermark.SIGNAL_TABLE, source=REPLICA), "source"),
        (JournalSettings("journal", keep_mib=100, quota_mib=100), "quota_mib"),
        (KafkaSettings((), "signals"), "bootstrap_servers"),
        (LakeRule(TableFilter(())), "tables"),
        (LakeRule(TableFilter((".*",)), Tiers.MIRROR, before_images=True), "before_images"),
        (dataclasses.replace(SETTINGS, snapshot=BY_TABLE), "snapshot.watermark"),
        (KafkaSettings(("kafka:9092",), "signals", ca=PurePath("ca.pem")), "ca"),
        (dataclasses.replace(SECURED, sasl_username=None), "security_protocol"),
        (dataclasses.replace(SECURED, sasl_password=Secret("")), "security_protocol"),
        (dataclasses.replace(SECURED, security_protocol=KafkaSecurity.SSL), "sasl_username"),
        (dataclasses.replace(TOPICS, column_include_list=("(",)), "column_include_list"),
        (
            dataclasses.replace(TOPICS, column_include_list=("a",), column_exclude_list=("b",)),
            "column_exclude_list",
        ),
        (dataclasses.replace(TOPICS, schemas_enable=True, outboxes=(EXPANDING,)), "outboxes"),
        (ColumnRule((r"a\.b\.c",)), "columns"),
        (ColumnRule((r"a\.b\.c",), mask_with_length=1, truncate_to_length=1), "columns"),
        (ColumnRule(("(",), mask_with_length=1), "columns"),
        (ColumnRule((r"a\.b\.c",), hash=HashAlgorithm.MD5), "hash"),
        (ColumnRule((r"a\.b\.c",), mask_with_length=1, salt=Secret("s")), "salt_file"),
        (TopicRoute("(a)", "$2"), "topic_regex"),
        (TopicRoute("(a)", "$1", key_field_regex="("), "key_field_regex"),
        (Unwrap(add_fields=("source.nothing",)), "add_fields"),
        (Unwrap(add_headers=("nothing",)), "add_headers"),
        (Outbox(TableFilter((".*",)), route_topic_replacement="$x${y}"), "route_topic_regex"),
        (
            Outbox(TableFilter((".*",)), table_fields_additional_placement=("a:b",)),
            "table_fields_additional_placement",
        ),
    ],
)
def test_contradictions_name_the_key(section: object, key: str) -> None:
    (mistake,) = contradictions(section)
    assert mistake.key == key
    assert str(mistake) == f"{key}: {mistake.wrong}; {mistake.remedy}"


@pytest.mark.parametrize(
    "section",
    [
        TlsSettings(TlsMode.VERIFY, PurePath("ca.pem")),
        dataclasses.replace(SETTINGS.source, others=(ServerAddress("db", 3307), ServerAddress("db2"))),
        HttpSettings("localhost"),
        HttpSettings("127.3.2.1"),
        HttpSettings("::1"),
        SparkSettings(conf={"spark.ui.enabled": "true"}),
        SnapshotSettings(mode=SnapshotMode.CONSISTENT, allow_lock=True),
        SnapshotSettings(watermark=Watermark.PAUSE, source=REPLICA),
        KafkaSettings(("kafka:9092",), "signals"),
        dataclasses.replace(SECURED, ca=PurePath("ca.pem")),
        dataclasses.replace(SECURED, security_protocol=KafkaSecurity.SASL_PLAINTEXT),
        KafkaSettings(("kafka:9092",), "signals", ca=PurePath("ca.pem"), security_protocol=KafkaSecurity.SSL),
        LakeRule(TableFilter((".*",)), Tiers.CHANGELOG, before_images=True),
        dataclasses.replace(TOPICS, outboxes=(EXPANDING,)),
        ColumnRule((r"a\.b\.c",), hash=HashAlgorithm.MD5, salt=Secret("s")),
        TopicRoute("(?<n>a)", "${n}"),
        Unwrap(add_fields=("op", "source.ts_ms", "table:t"), add_headers=("total_order",)),
        dataclasses.replace(
            SETTINGS, snapshot=BY_TABLE, signals=SignalSettings(table=TableId("tidemark", "signals"))
        ),
        SETTINGS,
    ],
)
def test_what_is_right_is_let_through(section: object) -> None:
    found: list[Mistake] = list(contradictions(section))
    assert found == []
