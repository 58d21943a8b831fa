"""Connectors as people have them, and what becomes of each of their properties."""

import tomllib
from pathlib import Path

import pytest

from actors.service.config_file import load
from actors.service.debezium_file import properties
from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind, NotTakenOver
from pipeline.config.settings import SaslMechanism, SnapshotMode, TlsMode
from pipeline.gtid.gtid_set import GtidSet
from tests.pipeline.config.debezium.connectors import CONNECTORS, LEAST


@pytest.mark.parametrize("path", sorted(CONNECTORS.glob("*.json")), ids=lambda path: path.stem)
def test_connectors_as_people_have_them(path: Path) -> None:
    try:
        taken = take_over(properties(path))
    except NotTakenOver as refused:
        assert not path.with_suffix(".toml").exists()
        told = str(refused)
    else:
        assert taken.text == path.with_suffix(".toml").read_text()
        told = taken.report()
    assert told + "\n" == path.with_suffix(".txt").read_text()
    assert "canary" not in told


def test_each_property_of_a_connector_is_told_or_taken_over() -> None:
    given = properties(CONNECTORS / "incremental.json")
    taken = take_over(given)
    told = {note.name for note in taken.notes}
    silent = sorted(
        name for name in given if name not in told and not name.startswith(("transforms", "predicates"))
    )
    # What these say is in the file: they're all that isn't in the report.
    assert silent == [
        "bigint.unsigned.handling.mode",
        "boolean.selector",
        "connect.timeout.ms",
        "connector.class",
        "converters",
        "database.hostname",
        "database.include.list",
        "database.port",
        "database.ssl.mode",
        "database.user",
        "decimal.handling.mode",
        "heartbeat.interval.ms",
        "include.schema.changes",
        "key.converter",
        "name",
        "notification.sink.topic.name",
        "provide.transaction.metadata",
        "signal.consumer.sasl.mechanism",
        "signal.consumer.security.protocol",
        "signal.file",
        "signal.kafka.bootstrap.servers",
        "signal.kafka.topic",
        "skipped.operations",
        "snapshot.max.threads",
        "snapshot.mode",
        "table.include.list",
        "time.precision.mode",
        "tombstones.on.delete",
        "topic.creation.default.partitions",
        "topic.prefix",
        "value.converter",
        "value.converter.schema.registry.url",
    ]


def test_what_comes_out_is_a_configuration(tmp_path: Path) -> None:
    for secret in ("mysql-password", "kafka-password"):
        (tmp_path / secret).write_text("secret")
    text = (CONNECTORS / "incremental.toml").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "shop.toml").write_text(text)
    settings = load(tmp_path / "shop.toml", {})
    assert settings.source.tls.mode is TlsMode.VERIFY
    assert settings.snapshot.mode is SnapshotMode.NO_DATA
    assert settings.signals.kafka
    assert settings.signals.kafka.sasl_mechanism is SaslMechanism.SCRAM_SHA_512
    assert settings.kafka is not None and settings.kafka.partitions == 6


def test_a_connector_that_stopped_is_continued_without_a_snapshot() -> None:
    stopped = GtidSet.parse("aaaaaaaa-bbbb-bbbb-bbbb-cccccccccccc:1-7")
    text = take_over(properties(CONNECTORS / "first.json"), stopped).text
    assert 'begin_after = "aaaaaaaa-bbbb-bbbb-bbbb-cccccccccccc:1-7"' in text
    assert text.count('mode = "no_data"') == 1


def test_signals_come_from_the_topic_that_the_connector_reads_by_default() -> None:
    """Debezium names it for the topics' prefix, whose capitals the pipeline's name can't have."""
    given = {"topic.prefix": "Shop", "signal.enabled.channels": "kafka"}
    taken = tomllib.loads(take_over(LEAST | given).text)
    assert (taken["name"], taken["signals"]["kafka"]["topic"]) == ("shop", "Shop-signal")


def test_statements_are_kept_where_the_connector_tells_them() -> None:
    given = properties(CONNECTORS / "incremental.json")
    assert "keep_statements" not in take_over(given).text
    assert "keep_statements = true" in take_over({**given, "include.query": "true"}).text


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("decimal.handling.mode", "exact", NoteKind.OTHERWISE),
        ("extended.headers.enabled", "false", NoteKind.POINTLESS),
        ("extended.headers.enabled", "False", NoteKind.POINTLESS),
        ("extended.headers.enabled", "true", NoteKind.OTHERWISE),
        ("snapshot.query.mode", "select_all", NoteKind.POINTLESS),
        ("event.processing.failure.handling.mode", "skip", NoteKind.OTHERWISE),
        ("no.such.property", "1", NoteKind.OTHERWISE),
    ],
)
def test_what_is_so_anyway_is_no_difference(name: str, value: str, kind: NoteKind) -> None:
    [note] = [note for note in take_over(LEAST | {name: value}).notes if note.name == name]
    assert note.kind is kind


@pytest.mark.parametrize(
    "held_back",
    [
        {"column.mask.hash.SHA3-256.with.salt.x": "a.b.c"},
        {"column.mask.hash.v3.SHA-256.with.salt.x": "a.b.c"},
        {"table.exclude.list": "a.b"},
        {"database.exclude.list": "a"},
        {"gtid.source.excludes": "3e11fa47-71ca-11e1-9e33-c80aa9429562"},
        {"snapshot.query.mode": "custom"},
        {"transforms": "a", "transforms.a.type": "com.example.Own"},
        {"transforms": "a"},
        {"converters": "a", "a.type": "com.example.Own"},
        {"post.processors": "a", "a.type": "com.example.Own"},
    ],
    ids=str,
)
def test_nothing_that_was_kept_back_is_shown(held_back: dict[str, str]) -> None:
    with pytest.raises(NotTakenOver, match="keeps data back"):
        take_over(LEAST | held_back)


@pytest.mark.parametrize(
    "kept",
    [
        {"column.mask.with.3.chars": "a.b.c"},
        {"column.mask.hash.SHA-256.with.salt.x": "a.b.c"},
        {"column.truncate.to.3.chars": "a.b.c"},
        {"column.exclude.list": "a.b.c"},
        {"column.blacklist": "a.b.c"},
        {"column.include.list": "a.b.c"},
        {"skipped.operations": "t,d"},
    ],
    ids=str,
)
def test_no_lake_shows_what_was_kept_from_topics(kept: dict[str, str]) -> None:
    taken = take_over(LEAST | kept)
    assert "[lake]" not in taken.text and "[kafka]" in taken.text
    assert any(note.name == "lake.path" and note.kind is NoteKind.TO_DO for note in taken.notes)
    assert "[lake]" in take_over(LEAST | {"skipped.operations": "t"}).text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"}, "MariaDbConnector; only"),
        ({"heartbeat.interval.ms": "soon"}, "heartbeat.interval.ms: its value isn't a whole number"),
        ({"column.exclude.list": "shop.(?!orders).*"}, "column.exclude.list: .*isn't a regular expression"),
        ({"message.key.columns": "shop.orders"}, "message.key.columns: it isn't"),
        ({"database.port": "a"}, "database.port: its value isn't a whole number"),
        ({"table.include.list": "shop.(?!orders).*"}, "table.include.list: .*isn't a regular expression"),
        ({"database.include.list": "s.*", "table.include.list": "shop.orders"}, "without expressions"),
    ],
)
def test_what_cannot_be_read_is_told_by_name(wrong: dict[str, str], told: str) -> None:
    with pytest.raises(NotTakenOver, match=told):
        take_over(LEAST | wrong)
