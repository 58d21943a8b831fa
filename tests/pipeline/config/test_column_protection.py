"""Which columns are protected, what the journal has of their tables, and which tables the rules refuse."""

from dataclasses import replace

import pytest

from pipeline.config.column_protection import UNPROTECTED, Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import (
    Binary,
    ColumnType,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Integer,
    Json,
    Text,
    Vector,
)

PEOPLE = TableId("shop", "people")
SHOP = TableFilter((r"shop\..*",))
NUMBER, TEXT = Integer(4, unsigned=False), Text("utf8mb3")
SCHEMA = TableSchema(
    PEOPLE,
    (
        Column("ssn", TEXT, nullable=False),
        Column("id", NUMBER, nullable=False),
        Column("Email", TEXT, nullable=True),
        Column("age", NUMBER, nullable=False),
        Column("code", FixedBinary(8), nullable=True),
    ),
    key=(1,),
)


def rule(treatment: Treatment, *columns: str, tables: TableFilter = SHOP) -> ProtectionRule:
    length = 3 if treatment in (Treatment.MASK, Treatment.TRUNCATE) else None
    return ProtectionRule(tables, columns, treatment, length)


def protection(*rules: ProtectionRule, salt: str = "s" * 16) -> Protection:
    return Protection(Secret(salt), rules)


def of_type(kind: ColumnType) -> TableSchema:
    return replace(SCHEMA, columns=(*SCHEMA.columns[:2], Column("x", kind, nullable=True)))


def test_the_journal_has_neither_excluded_columns_nor_the_types_of_others() -> None:
    rules = protection(
        rule(Treatment.EXCLUDE, "SSN"),
        rule(Treatment.HASH, "email"),
        rule(Treatment.MASK, "age"),
        rule(Treatment.TRUNCATE, "code"),
    )
    assert rules.refusal(SCHEMA) is None
    stored = rules.stored(SCHEMA)
    assert stored.columns == (
        Column("id", NUMBER, nullable=False),
        Column("Email", Text("utf8mb4"), nullable=True),
        Column("age", Text("utf8mb4"), nullable=False),
        Column("code", Binary(), nullable=True),
    )
    assert stored.key_names == SCHEMA.key_names
    assert stored.table == PEOPLE


def test_a_table_without_rules_stays_as_it_is() -> None:
    other = protection(rule(Treatment.EXCLUDE, "ssn", tables=TableFilter((r"shop\.orders",))))
    for rules in (UNPROTECTED, other):
        assert rules.stored(SCHEMA) is SCHEMA
        assert rules.refusal(SCHEMA) is None
        assert rules.digest(PEOPLE) is None
        assert not rules.protects(PEOPLE)


def test_the_first_rule_that_names_a_column_holds() -> None:
    first, second = rule(Treatment.HASH, "email"), rule(Treatment.EXCLUDE, "EMAIL", "ssn")
    rules = protection(first, second)
    assert rules.rules_of_columns(SCHEMA) == {0: second, 2: first}
    assert rules.rule_of_column(PEOPLE, "eMail") is first


@pytest.mark.parametrize("treatment", [Treatment.EXCLUDE, Treatment.MASK, Treatment.TRUNCATE])
def test_a_key_that_would_not_tell_rows_apart_is_refused_by_name(treatment: Treatment) -> None:
    why = protection(rule(Treatment.MASK, "age"), rule(treatment, "ID")).refusal(SCHEMA) or ""
    assert why.startswith("its column 'id' is in the primary key, and protection.rules[2] says")


def test_a_key_is_hashed_and_still_a_key() -> None:
    hashed = protection(rule(Treatment.HASH, "ID"))
    assert hashed.refusal(SCHEMA) is None
    assert hashed.hides_key(SCHEMA)
    assert not protection(rule(Treatment.HASH, "email")).hides_key(SCHEMA)
    stored = hashed.stored(SCHEMA)
    assert stored.key_names == ("id",)
    assert stored.columns[stored.key[0]].type == Text("utf8mb4")
    why = (
        hashed.refusal(replace(SCHEMA, columns=(SCHEMA.columns[0], Column("id", Double(), nullable=False))))
        or ""
    )
    assert "leave the table out" in why


def test_a_column_that_is_not_there_is_refused_unless_the_rule_allows_it() -> None:
    named = rule(Treatment.EXCLUDE, "ssn", "iban")
    why = protection(named).refusal(SCHEMA) or ""
    assert why.startswith("it has no column 'iban', which protection.rules[1] names")
    allowing = protection(replace(named, required=False))
    assert allowing.refusal(SCHEMA) is None
    assert "ssn" not in [column.name for column in allowing.stored(SCHEMA).columns]


@pytest.mark.parametrize(
    ("treatment", "kind", "fits"),
    [
        (Treatment.TRUNCATE, TEXT, True),
        (Treatment.TRUNCATE, Binary(), True),
        (Treatment.TRUNCATE, NUMBER, False),
        (Treatment.TRUNCATE, Json(), False),
        (Treatment.TRUNCATE, Enum(("a",)), False),
        (Treatment.HASH, Enum(("a",)), True),
        (Treatment.HASH, Decimal(5, 2), True),
        (Treatment.HASH, Float(), False),
        (Treatment.HASH, Double(), False),
        (Treatment.HASH, Vector(), False),
        (Treatment.MASK, Vector(), True),
        (Treatment.EXCLUDE, Double(), True),
    ],
)
def test_a_type_that_has_no_such_form_is_refused(treatment: Treatment, kind: ColumnType, fits: bool) -> None:
    why = protection(rule(treatment, "x")).refusal(of_type(kind))
    assert (why is None) == fits
    assert fits or "its column 'x' is a" in (why or "")


def test_the_digest_tells_other_rules_and_another_salt_and_nothing_else() -> None:
    hashing, masking = rule(Treatment.HASH, "email"), rule(Treatment.MASK, "age")
    digests = {
        protection(*rules, salt=salt).digest(PEOPLE)
        for salt in ("a" * 16, "b" * 16)
        for rules in ((hashing,), (masking,), (hashing, masking), (replace(masking, length=4),))
    }
    assert len(digests) == 6, "a mask has no salt"
    same = protection(
        replace(hashing, columns=("EMAIL",), tables=TableFilter(("shop.people",))), salt="a" * 16
    )
    assert same.digest(PEOPLE) == protection(hashing, salt="a" * 16).digest(PEOPLE)
    elsewhere = rule(Treatment.EXCLUDE, "x", tables=TableFilter((r"shop\.orders",)))
    assert protection(hashing, elsewhere).digest(PEOPLE) == protection(hashing).digest(PEOPLE)


def test_a_table_that_gets_another_ones_rows_has_the_same_rules_for_its_columns_or_differs() -> None:
    orders = TableId("shop", "orders")
    hashing = rule(Treatment.HASH, "email", tables=TableFilter((r"shop\.people",)))
    assert protection(hashing).differs(PEOPLE, orders, None)
    assert protection(hashing).differs(PEOPLE, orders, ["id", "EMAIL"])
    assert not protection(hashing).differs(PEOPLE, orders, ["id"])
    assert not protection(hashing).differs(orders, PEOPLE, None), "what has no rule may get one"
    assert not protection(replace(hashing, tables=SHOP)).differs(PEOPLE, orders, None)
    weaker = rule(Treatment.TRUNCATE, "email", tables=TableFilter((r"shop\.orders",)))
    assert protection(weaker, hashing).differs(PEOPLE, orders, None)
