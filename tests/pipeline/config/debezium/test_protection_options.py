"""Debezium's options for columns as rules: what they hide stays hidden, in the lake too, or they are refused."""

from pathlib import Path

import pytest

from actors.service.config_file import load
from pipeline.config.column_protection import ProtectionRule, Treatment
from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind, NotTakenOver
from pipeline.config.debezium.protection_options import SALT_FILE
from pipeline.schema.table_filter import TableFilter
from tests.pipeline.config.debezium.connectors import LEAST

HIDING = {
    "column.exclude.list": "hr.employees.ssn, hr\\.leads\\.ssn,hr[.]employees[.]iban",
    "column.mask.with.12.chars": "hr.employees.phone",
    "column.truncate.to.20.chars": "hr.employees.notes",
    "column.mask.hash.v2.SHA-256.with.salt.canary-salt": "hr.employees.email",
    "include.query": "true",
    "producer.override.bootstrap.servers": "kafka:9092",
}


def test_what_topics_lack_the_lake_lacks_too(tmp_path: Path) -> None:
    taken = take_over(LEAST | HIDING, protect=True)
    assert "canary" not in taken.text + taken.report()
    (tmp_path / "salt").write_text("0123456789abcdef")
    (tmp_path / "password").write_text("secret")
    text = taken.text.replace(SALT_FILE, "salt").replace("/run/secrets/mysql-password", "password")
    path = tmp_path / "shop.toml"
    path.write_text(text)
    settings = load(path, {})
    employees, leads = (TableFilter((rf"(?i)hr\.{name}",)) for name in ("employees", "leads"))
    assert settings.protection.rules == (
        ProtectionRule(employees, ("ssn", "iban"), Treatment.EXCLUDE),
        ProtectionRule(leads, ("ssn",), Treatment.EXCLUDE),
        ProtectionRule(employees, ("notes",), Treatment.TRUNCATE, 20),
        ProtectionRule(employees, ("phone",), Treatment.MASK, 12),
        ProtectionRule(employees, ("email",), Treatment.HASH),
    )
    assert settings.lake is not None
    assert settings.kafka is not None
    assert settings.kafka.columns == () and settings.kafka.column_exclude_list == ()
    assert not settings.source.keep_statements and not settings.kafka.include_schema_changes
    told = {note.name: note.kind for note in taken.notes}
    assert told["column.mask.hash.v2.SHA-256.with.salt.…"] is NoteKind.TO_DO
    assert told["include.query"] is told["include.schema.changes"] is NoteKind.OTHERWISE


@pytest.mark.parametrize(
    ("hiding", "told"),
    [
        ({"column.exclude.list": "hr.employees.mail.*"}, "column.exclude.list: 'hr.employees.mail"),
        ({"column.exclude.list": "hr.(a|b).ssn"}, "isn't database.table.column"),
        ({"column.include.list": "hr.employees.id"}, "column.include.list: rules name the columns"),
        (
            {"column.mask.hash.SHA-256.with.salt.canary": "hr.x"},
            "column.mask.hash.SHA-256.with.salt.…: 'hr.x'",
        ),
    ],
)
def test_what_rules_cannot_say_is_refused(hiding: dict[str, str], told: str) -> None:
    with pytest.raises(NotTakenOver) as refused:
        take_over(LEAST | hiding, protect=True)
    assert told in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("protect", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "column.exclude.list",
        "column.include.list",
        "column.mask.with.12.chars",
        "column.mask.hash.v2.SHA-256.with.salt.canary",
        "table.include.list",
        "database.include.list",
        "snapshot.include.collection.list",
        "skipped.operations",
    ],
)
def test_what_only_kafka_connect_knows_to_be_hidden_is_refused(name: str, protect: bool) -> None:
    with pytest.raises(NotTakenOver) as refused:
        take_over(LEAST | HIDING | {name: "${env:HIDDEN}"}, protect=protect)
    assert name.replace("canary", "…") in str(refused.value)


@pytest.mark.parametrize("protect", [False, True])
def test_an_expression_that_would_mean_other_columns_here_is_refused(protect: bool) -> None:
    with pytest.raises(NotTakenOver, match=r"column\.exclude\.list: "):
        take_over(LEAST | {"column.exclude.list": r"hr\.leads\.[a-z&&[^i]]+"}, protect=protect)


def test_a_connector_that_hides_nothing_is_the_same_with_it() -> None:
    assert take_over(LEAST, protect=True).text == take_over(LEAST).text
