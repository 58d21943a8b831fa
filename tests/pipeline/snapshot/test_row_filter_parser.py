"""The text of conditions: what each form parses to, what's refused and where, and that nothing else ever happens."""

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.snapshot import row_filter
from pipeline.snapshot.row_filter_parser import DEEPEST, LONGEST_FILTER, MOST_LITERALS, parse_filter
from tests.pipeline.printed_conditions import printed
from tests.pipeline.random_conditions import broken_texts, conditions

A, B, C = (row_filter.Compare(name, row_filter.Operator.EQUAL, 1) for name in "abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", A),
        ("\t`a`\n=\r1 ", A),
        ("`a``b c` = 1", row_filter.Compare("a`b c", row_filter.Operator.EQUAL, 1)),
        ("naïve <> 1", row_filter.Compare("naïve", row_filter.Operator.UNEQUAL, 1)),
        ("a != 1", row_filter.Compare("a", row_filter.Operator.UNEQUAL, 1)),
        ("a <=> NULL", row_filter.Compare("a", row_filter.Operator.SAME, None)),
        ("a < 1", row_filter.Compare("a", row_filter.Operator.LESS, 1)),
        ("a <= 1", row_filter.Compare("a", row_filter.Operator.AT_MOST, 1)),
        ("a > 1", row_filter.Compare("a", row_filter.Operator.GREATER, 1)),
        ("a >= 1", row_filter.Compare("a", row_filter.Operator.AT_LEAST, 1)),
        ("a in (1, 'x', null)", row_filter.In("a", (1, "x", None), negated=False)),
        ("a NOT IN (1)", row_filter.In("a", (1,), negated=True)),
        ("a BETWEEN 1 AND 2 AND b = 1", row_filter.And((row_filter.Between("a", 1, 2, negated=False), B))),
        ("a NOT BETWEEN 1 AND 2", row_filter.Between("a", 1, 2, negated=True)),
        ("a LIKE 'x%'", row_filter.Like("a", "x%", "\\", negated=False)),
        ("a NOT LIKE 'x!%' ESCAPE '!'", row_filter.Like("a", "x!%", "!", negated=True)),
        ("a LIKE 'x' ESCAPE ''", row_filter.Like("a", "x", "", negated=False)),
        ("a IS NULL", row_filter.IsNull("a", negated=False)),
        ("a is not null", row_filter.IsNull("a", negated=True)),
        ("a = 1 OR b = 1 AND c = 1", row_filter.Or((A, row_filter.And((B, C))))),
        ("(a = 1 OR b = 1) AND c = 1", row_filter.And((row_filter.Or((A, B)), C))),
        ("a = 1 AND (b = 1 AND c = 1)", row_filter.And((A, row_filter.And((B, C))))),
        ("NOT a = 1 AND b = 1", row_filter.And((row_filter.Not(A), B))),
        ("NOT (a = 1 AND b = 1)", row_filter.Not(row_filter.And((A, B)))),
        ("NOT NOT a = 1", row_filter.Not(row_filter.Not(A))),
        ("date = DATE'2026-01-31'", row_filter.Compare("date", row_filter.Operator.EQUAL, date(2026, 1, 31))),
    ],
)
def test_forms_and_precedence(text: str, expected: row_filter.Condition) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("- 5", -5),
        ("+5", 5),
        ("18446744073709551616", 2**64),
        ("1.50", Decimal("1.50")),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
        ("-1e3", -1000.0),
        ("1.5E-3", 0.0015),
        ("TRUE", True),
        ("false", False),
        ("NULL", None),
        ("''", ""),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'\\'", "\\"),
        (r"'\0\b\n\r\t\Z\"\q'", '\0\b\n\r\t\x1a"q'),
        (r"'100\% a\_b'", r"100\% a\_b"),
        (r"'\''''", "''"),
        ("'a\nb'", "a\nb"),
        ("X'4D00ff'", b"M\0\xff"),
        ("x''", b""),
        ("date '2026-01-31'", date(2026, 1, 31)),
        ("TIMESTAMP'2026-01-31 10:30:00'", datetime.fromisoformat("2026-01-31T10:30:00")),
        ("TIMESTAMP'2026-01-31T10:30:00.25'", datetime.fromisoformat("2026-01-31T10:30:00.25")),
    ],
)
def test_literals_are_read_as_mysql_reads_them(text: str, value: object) -> None:
    condition = parse_filter(f"a = {text}")
    assert isinstance(condition, row_filter.Compare)
    assert (type(condition.value), condition.value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a column at its end"),
        ("a", "expected a comparison, IN, BETWEEN, LIKE or IS at its end"),
        ("a = b", "columns are compared with literals only) at character 5"),
        ("1 = a", "expected a column at character 1"),
        ("a = 1 b = 2", "expected AND, OR or the end at character 7 ('b = 2')"),
        ("lower(a) = 'x'", "expected a comparison, IN, BETWEEN, LIKE or IS at character 6"),
        ("a = lower('x')", "expected a literal"),
        ("a = (SELECT 1)", "expected a literal"),
        ("a IN (SELECT 1)", "expected a literal"),
        ("select * from t where a = 1", "only what would come after its WHERE"),
        ("a = 1 -- all of it", "expected AND, OR or the end at character 7"),
        ("a = 1 # all of it", "this can't be read at character 7"),
        ("a = 1 /* all of it */", "this can't be read at character 7"),
        ("a = 1; DROP TABLE t", "this can't be read at character 6"),
        ('a = "x"', "this can't be read at character 5"),
        ("t.a = 1", "this can't be read at character 2"),
        ("a = @@version", "this can't be read"),
        ("a = %s", "this can't be read"),
        ("a = 'x", "this can't be read at character 5"),
        (r"a = 'x\'", "this can't be read at character 5"),
        ("`a = 1", "this can't be read at character 1"),
        ("`` = 1", "this can't be read at character 1"),
        ("a = 'x' 'y'", "expected AND, OR or the end"),
        ("a = _utf8mb4'x'", "expected a literal"),
        ("a = 1x", "this can't be read at character 5"),
        ("1a = 1", "this can't be read at character 1"),
        ("a = x'4'", "expected a literal"),
        ("a = 0x4d", "this can't be read"),
        ("a = -'x'", "expected a number"),
        ("a = 1e999", "out of a DOUBLE's range at character 5"),
        ("a = 0." + "1" * 31, "more digits than a DECIMAL(65, 30) at character 5"),
        ("a = " + "1" * 66, "more digits"),
        ("a = DATE'2026-02-30'", "'2026-02-30' isn't a DATE at character 5"),
        ("a = DATE'2026-01-31 10:30:00'", "isn't a DATE"),
        ("a = TIMESTAMP'2026-01-31'", "isn't a TIMESTAMP"),
        ("a = TIMESTAMP'2026-01-31 10:30:00+01:00'", "isn't a TIMESTAMP"),
        ("a IS TRUE", "expected NULL"),
        ("a NOT = 1", "expected a comparison"),
        ("a LIKE 1", "expected text in single quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", "ESCAPE takes one character"),
        ("a IN ()", "expected a literal"),
        ("a IN (1", "expected ) at its end"),
        ("a BETWEEN 1 OR 2", "expected AND"),
        ("a = 1 && b = 1", "this can't be read"),
        ("a = 1 XOR b = 1", "expected AND, OR or the end"),
        ("a REGEXP 'x'", "expected a comparison"),
        ("and = 1", "expected a column"),
        ("(a = 1", "expected ) at its end"),
        ("a = 1)", "expected AND, OR or the end"),
        ("a = 1\u00a0", "this can't be read"),
        ("a = '\ud800'", "half a surrogate pair"),
        ("(" * (DEEPEST + 1) + "a = 1", f"deeper than {DEEPEST}"),
        ("NOT " * (DEEPEST + 1) + "a = 1", f"deeper than {DEEPEST}"),
        ("(" * 8_000, f"deeper than {DEEPEST}"),
        ("a = " + "1" * LONGEST_FILTER, f"longer than {LONGEST_FILTER}"),
        (f"a IN ({', '.join(['1'] * (MOST_LITERALS + 1))})", f"more than {MOST_LITERALS} literals"),
    ],
)
def test_all_else_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(row_filter.InvalidRowFilter) as refused:
        parse_filter(text)
    assert reason in str(refused.value)


def test_the_deepest_is_not_too_deep() -> None:
    assert parse_filter("(" * DEEPEST + "a = 1" + ")" * DEEPEST) == A
    deepest = parse_filter("NOT " * DEEPEST + "a = 1")
    assert parse_filter(printed(deepest)) == deepest


@given(conditions)
def test_what_is_printed_parses_to_itself(condition: row_filter.Condition) -> None:
    assert repr(parse_filter(printed(condition))) == repr(condition)


@settings(max_examples=200)
@given(broken_texts() | st.text("ab`'\\(),=<>!1.e-NOTIS \0", max_size=30) | st.text(max_size=30))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        condition = parse_filter(text)
    except row_filter.InvalidRowFilter:
        return
    assert repr(parse_filter(printed(condition))) == repr(condition)
