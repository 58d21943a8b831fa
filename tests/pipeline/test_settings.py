"""Settings: defaults within their own bounds, secrets that don't show, contradictions that are found."""

import dataclasses
import re
import types
import typing
from pathlib import Path, PurePath

import pytest

from pipeline.lake_rules import LakeRule, Tiers
from pipeline.schema import TableId
from pipeline.settings import (
    HttpSettings,
    JournalSettings,
    KafkaSecurity,
    KafkaSettings,
    LakeSettings,
    Mistake,
    Secret,
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
    contradictions,
)
from pipeline.signals import Tables

SETTINGS = Settings(
    name="shop",
    tables=Tables(("shop\\..*",)),
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
BY_TABLE = SnapshotSettings(watermark=Watermark.SIGNAL_TABLE)


def test_a_secret_does_not_show() -> None:
    assert "geheim" not in repr(SETTINGS)
    assert "geheim" not in f"{SETTINGS.source.password} {SETTINGS.source.password!r}"
    assert SETTINGS.source.password.value == "geheim"


@pytest.mark.parametrize(
    "section",
    [SETTINGS.source, SnapshotSettings(), SETTINGS.journal, SETTINGS.lake, SparkSettings(), HttpSettings()],
)
def test_defaults_are_within_their_bounds(section: object) -> None:
    assert list(contradictions(section)) == []
    for field in dataclasses.fields(section):  # type: ignore[arg-type]
        value = getattr(section, field.name)
        if value is None:
            continue  # it isn't said
        match dict(field.metadata):
            case {"least": least, "most": most}:
                assert least <= value <= most
            case {"least": least}:
                assert least <= value
            case {"pattern": pattern, "words": _}:
                assert re.fullmatch(pattern, value)
            case {"location": True}:
                pass
            case other:
                assert not other, f"{field.name} has metadata that nobody reads"


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (TlsSettings(TlsMode.REQUIRED, PurePath("ca.pem")), "ca"),
        (HttpSettings("0.0.0.0"), "host"),
        (HttpSettings("::"), "host"),
        (HttpSettings("db.example"), "host"),
        (SparkSettings(conf={"spark.jars": "x.jar"}), "conf"),
        (dataclasses.replace(SETTINGS, tables=Tables(())), "tables"),
        (SnapshotSettings(chunk_mib=64, memory_mib=63), "chunk_mib"),
        (SnapshotSettings(mode=SnapshotMode.WHEN_NEEDED, allow_lock=True), "allow_lock"),
        (SnapshotSettings(mode=SnapshotMode.CONSISTENT, source=REPLICA), "source"),
        (SnapshotSettings(watermark=Watermark.SIGNAL_TABLE, source=REPLICA), "source"),
        (JournalSettings("journal", keep_mib=100, quota_mib=100), "quota_mib"),
        (KafkaSettings((), "signals"), "bootstrap_servers"),
        (LakeRule(Tables(())), "tables"),
        (LakeRule(Tables((".*",)), Tiers.MIRROR, before_images=True), "before_images"),
        (dataclasses.replace(SETTINGS, snapshot=BY_TABLE), "snapshot.watermark"),
        (KafkaSettings(("kafka:9092",), "signals", ca=PurePath("ca.pem")), "ca"),
        (dataclasses.replace(SECURED, sasl_username=None), "security_protocol"),
        (dataclasses.replace(SECURED, sasl_password=Secret("")), "security_protocol"),
        (dataclasses.replace(SECURED, security_protocol=KafkaSecurity.SSL), "sasl_username"),
    ],
)
def test_contradictions_name_the_key(section: object, key: str) -> None:
    (mistake,) = contradictions(section)
    assert mistake.key == key
    assert str(mistake) == f"{key}: {mistake.wrong}; {mistake.remedy}"


def test_a_table_is_divided_by_the_connections_unless_it_is_said() -> None:
    assert SnapshotSettings(connections=3).most_ranges == 6
    assert SnapshotSettings(connections=3, ranges=1).most_ranges == 1


@pytest.mark.parametrize(
    "section",
    [
        TlsSettings(TlsMode.VERIFY, PurePath("ca.pem")),
        HttpSettings("localhost"),
        HttpSettings("127.3.2.1"),
        HttpSettings("::1"),
        SparkSettings(conf={"spark.ui.enabled": "true"}),
        SnapshotSettings(chunk_mib=64, memory_mib=64),
        SnapshotSettings(mode=SnapshotMode.CONSISTENT, allow_lock=True),
        SnapshotSettings(watermark=Watermark.PAUSE, source=REPLICA),
        KafkaSettings(("kafka:9092",), "signals"),
        dataclasses.replace(SECURED, ca=PurePath("ca.pem")),
        dataclasses.replace(SECURED, security_protocol=KafkaSecurity.SASL_PLAINTEXT),
        KafkaSettings(("kafka:9092",), "signals", ca=PurePath("ca.pem"), security_protocol=KafkaSecurity.SSL),
        LakeRule(Tables((".*",)), Tiers.CHANGELOG, before_images=True),
        dataclasses.replace(
            SETTINGS, snapshot=BY_TABLE, signals=SignalSettings(table=TableId("tidemark", "signals"))
        ),
        SETTINGS,
    ],
)
def test_what_is_right_is_let_through(section: object) -> None:
    found: list[Mistake] = list(contradictions(section))
    assert found == []


def keys(kind: type[object]) -> set[str]:
    """All keys that a section and those below it have, as the file spells them."""
    found: set[str] = set()
    for name, hint in typing.get_type_hints(kind).items():
        within = isinstance(hint, types.UnionType) or typing.get_origin(hint) is tuple
        below = typing.get_args(hint)[0] if within else hint
        if (
            isinstance(below, type)
            and dataclasses.is_dataclass(below)
            and below not in (Tables, TableId, Secret)
        ):
            found |= keys(below)
        found.add(f"{name}_file" if hint is Secret else name)
    return found


def test_the_reference_tells_every_key() -> None:
    told = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [key for key in sorted(keys(Settings)) if f"`{key}`" not in told and f"{key}]`" not in told] == []
