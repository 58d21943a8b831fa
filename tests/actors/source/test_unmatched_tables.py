"""The commonest mistakes in `tables`, and what was meant."""

import re
from dataclasses import replace

import pytest

from actors.source.unmatched_tables import (
    idle_pattern_finding,
    idle_patterns,
    key_findings,
    pattern_hints,
    protection_findings,
    type_findings,
)
from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.config.column_rules import MessageKey
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.source.finding import Severity
from pipeline.types.column_types import Integer
from tests.pipeline.config.test_validation import SETTINGS, TOPICS

TABLES = [TableId("wp", "wp_posts"), TableId("wp", "wp_users"), TableId("sakila", "customer")]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        (r"wpp\..*", r"'wpp\\\\..*' names a database that the user doesn't see: did you mean 'wp\\\\..*'\?"),
        ("customer", r"'customer' has no database before a dot: did you mean 'sakila\\\\.customer'\?"),
        ("wp_*", r"'wp_\*' is a glob, .* did you mean 'wp\\\\.wp_\.\*'\?"),
        ("wp.wp_*", r"'wp.wp_\*' is a glob, .* did you mean 'wp\\\\.wp_\.\*'\?"),
        (r"shop\.orders", r"matches no table of the databases sakila, wp$"),
        (
            r"sakila\.costumer",
            r"'sakila\\\\.costumer' matches no table: did you mean 'sakila\\\\.customer'\?",
        ),
    ],
)
def test_a_mistake_is_named_with_what_was_meant(pattern: str, hint: str) -> None:
    (told,) = pattern_hints((pattern, r"wp\.wp_posts"), TABLES)
    assert re.search(hint, told), told


def test_without_a_table_the_right_is_what_is_missing() -> None:
    assert list(pattern_hints((".*",), [])) == ["the user sees no table at all: grant SELECT"]


def test_patterns_that_match_need_no_hint() -> None:
    assert list(pattern_hints((r"wp\..*", "sakila.customer"), TABLES)) == []


def test_a_pattern_that_matches_nothing_is_found_beside_those_that_match() -> None:
    """Without a word, the table that a mistyped one means would not be captured."""
    patterns = (r"wp\..*", r"sakila\.customers", *(rf"crm\.t{number}" for number in range(10)))
    idle = idle_patterns(patterns, TABLES)
    assert idle == patterns[1:]
    finding = idle_pattern_finding(idle, TABLES)
    assert finding.severity is Severity.WARNING
    assert finding.wrong.startswith(
        r"tables: 'sakila\\.customers' matches no table: did you mean 'sakila\\.customer'?; 'crm\\.t0' matches no"
    )
    assert finding.wrong.endswith(
        "'crm\\\\.t8' matches no table of the databases sakila, wp; and 1 more patterns match none"
    )


def test_a_rule_for_types_that_changes_no_column_is_told_by_its_place() -> None:
    def rule(columns: str, type_: LakeType, tables: str = ".*") -> LakeTypeRule:
        return LakeTypeRule(TableFilter((tables,)), (columns,), type_)

    schema = TableSchema(TableId("shop", "people"), (Column("Id", Integer(8, unsigned=True), False),), (0,))
    rules = [
        rule("id", LakeType.LONG),
        rule("idd", LakeType.LONG),
        rule("id", LakeType.UUID),
        rule("id", LakeType.LONG, r"shop\.poeple"),
        rule("id", LakeType.DECIMAL),
    ]
    found = [finding.wrong for finding in type_findings(rules, [schema])]
    assert [wrong.partition(":")[0] for wrong in found] == ["lake.types[2]", "lake.types[3]", "lake.types[4]"]
    assert 'that id matches and whose type can be "uuid" in the lake' in found[1]


def test_a_rule_for_columns_of_no_table_is_told_by_its_place() -> None:
    """A mistyped one would protect nothing, and nothing would show it."""
    rules = tuple(
        ProtectionRule(TableFilter((pattern,)), ("email",), Treatment.EXCLUDE)
        for pattern in (r"shop\.people", r"shop\.poeple")
    )
    (found,) = protection_findings(Protection(rules=rules), [TableId("shop", "people")])
    assert found.severity is Severity.WARNING
    assert found.wrong.startswith(r"protection.rules[2].tables: no captured table matches shop\.poeple")


def test_a_key_of_messages_that_a_rule_blurs_is_named_for_each_table_of_two_expressions() -> None:
    rule = ProtectionRule(TableFilter((".*",)), ("Email",), Treatment.MASK, length=8)
    key = MessageKey(TableFilter((r"shop\..*",)), ("email",))
    settings = replace(
        SETTINGS,
        tables=TableFilter((".*",)),
        protection=Protection(rules=(rule,)),
        kafka=replace(TOPICS, message_keys=(key,)),
    )
    (found,) = key_findings(settings, [TableId("crm", "people"), TableId("shop", "people")])
    assert found.severity is Severity.WARNING
    assert found.wrong.startswith("kafka.message_keys[1]: protection.rules[1] has")
    assert "'email' of shop.people, and a key of that does not tell rows apart" in found.wrong
    assert not list(key_findings(replace(settings, kafka=None), [TableId("shop", "people")]))
