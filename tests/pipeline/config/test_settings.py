"""Settings: defaults within their own bounds, secrets that don't show."""

import dataclasses
import re
import types
import typing
from pathlib import Path

import pytest

from pipeline.config.settings import (
    HttpSettings,
    JournalSettings,
    KafkaSinkSettings,
    LakeSettings,
    Secret,
    Settings,
    SnapshotSettings,
    SourceSettings,
    SparkSettings,
)
from pipeline.config.validation import contradictions
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

SETTINGS = Settings(
    name="shop",
    tables=TableFilter(("shop\\..*",)),
    source=SourceSettings(host="db", user="tidemark", server_id=7, password=Secret("geheim")),
    journal=JournalSettings("/var/lib/tidemark"),
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


def test_a_table_is_divided_by_the_connections_unless_it_is_said() -> None:
    assert SnapshotSettings(connections=3).most_ranges == 6
    assert SnapshotSettings(connections=3, ranges=1).most_ranges == 1


def keys(kind: type[object]) -> set[str]:
    """All keys that a section and those below it have, as the file spells them."""
    found: set[str] = set()
    for name, hint in typing.get_type_hints(kind).items():
        within = isinstance(hint, types.UnionType) or typing.get_origin(hint) is tuple
        below = typing.get_args(hint)[0] if within else hint
        if (
            isinstance(below, type)
            and dataclasses.is_dataclass(below)
            and below not in (TableFilter, TableId, Secret)
        ):
            found |= keys(below)
        found.add(f"{name}_file" if hint is Secret else name)
    return found


def untold(kind: type, document: str) -> list[str]:
    """Keys that a document doesn't name."""
    told = (Path(__file__).parents[3] / "docs" / document).read_text(encoding="utf-8")
    return [
        key
        for key in sorted(keys(kind))
        if not any(each in told for each in (f"`{key}`", f"{key}]`", f"kafka.{key}]]`"))
    ]


def test_the_reference_tells_every_key() -> None:
    assert untold(Settings, "configuration.md") == []


def test_each_key_of_topics_is_compared_with_debeziums_option() -> None:
    assert untold(KafkaSinkSettings, "kafka.md") == []
