"""Every property that Debezium's MySQL connector has is known by name."""

import subprocess

import pytest

from deploy.toolchain import debezium as jars
from deploy.toolchain.parts import Parts
from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind, NotTakenOver
from pipeline.config.debezium.properties import FAMILIES, UNKNOWN_PROPERTY, VERDICTS, present_name, verdict
from tests.pipeline.config.debezium.connectors import CONNECTORS, LEAST

KNOWN = (CONNECTORS / "properties-3.6.3.txt").read_text().split()


def test_every_property_of_debezium_is_known() -> None:
    """It's described, or in the file, or the connector is refused; it's never unknown."""

    def unknown(name: str) -> bool:
        try:
            taken = take_over(LEAST | {name: LEAST.get(name, "1")})
        except NotTakenOver:
            return False
        return any(note.why == UNKNOWN_PROPERTY.why for note in taken.notes)

    assert len(KNOWN) > 100
    assert [name for name in KNOWN if verdict(name) is UNKNOWN_PROPERTY and unknown(name)] == []


def test_a_property_that_nobody_knows_is_told_so() -> None:
    [note] = [
        note
        for note in take_over(LEAST | {"no.such.property": "1"}).notes
        if note.why == UNKNOWN_PROPERTY.why
    ]
    assert (note.kind, note.name) == (NoteKind.OTHERWISE, "no.such.property")


@pytest.mark.full
def test_these_are_the_properties_of_debezium(parts: Parts) -> None:
    folder = jars.setup(parts.python)
    said = subprocess.run(
        [parts.java_home / "bin" / "java", "-cp", f"{folder}/*", CONNECTORS / "Properties.java"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(set(said.stdout.split())) == KNOWN


def test_the_longest_family_that_fits_holds() -> None:
    assert verdict("database.useSSL") is FAMILIES["database."]
    assert verdict("database.ssl.keystore") is VERDICTS["database.ssl.keystore"]
    assert verdict("column.mask.with.3.chars") is FAMILIES["column.mask."]


def test_old_names_are_understood() -> None:
    assert present_name("database.whitelist") == "database.include.list"
    assert present_name("database.history.kafka.topic") == "schema.history.internal.kafka.topic"
    assert present_name("snapshot.mode") == "snapshot.mode"
