"""Settings: defaults within their own bounds, secrets that don't show, contradictions that are found."""

import dataclasses
import re
from pathlib import PurePath

import pytest

from pipeline.settings import (
    HttpSettings,
    JournalSettings,
    LakeSettings,
    Mistake,
    Secret,
    Settings,
    SnapshotSettings,
    SourceSettings,
    SparkSettings,
    TlsMode,
    TlsSettings,
    contradictions,
)
from pipeline.signals import Tables

SETTINGS = Settings(
    name="shop",
    tables=Tables(("shop\\..*",)),
    source=SourceSettings(host="db", user="tidemark", server_id=7, password=Secret("geheim")),
    journal=JournalSettings(PurePath("/var/lib/tidemark")),
    lake=LakeSettings("s3a://lake"),
)


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
        HttpSettings("localhost"),
        HttpSettings("127.3.2.1"),
        HttpSettings("::1"),
        SparkSettings(conf={"spark.ui.enabled": "true"}),
        SETTINGS,
    ],
)
def test_what_is_right_is_let_through(section: object) -> None:
    found: list[Mistake] = list(contradictions(section))
    assert found == []
