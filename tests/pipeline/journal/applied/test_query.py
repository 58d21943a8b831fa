"""A request says what it waits for, or the error names the parameter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journal.applied.progress import Through
from pipeline.journal.applied.query import AppliedQuery, parse_applied_query
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.schema.table_schema import TableId
from tests.pipeline.builders import gtids

THERE = frozenset({Through.JOURNAL, Through.LAKE})
SET = str(gtids("a:1-5:7,a:tag:3,b:2"))


def test_all_has_a_default_but_the_transactions() -> None:
    asked = parse_applied_query({"gtid_set": SET}, THERE)
    assert asked == AppliedQuery(gtids("a:1-5:7,a:tag:3,b:2"), Through.LAKE, None, 30.0)


def test_tables_are_listed_and_quoted_as_a_report_has_them() -> None:
    text = "shop.orders, `a.b`.`c``,d`,x.`y z`"
    asked = parse_applied_query(
        {"gtid_set": SET, "tables": text, "through": "journal", "timeout_s": "0"}, THERE
    )
    assert set(asked.tables or ()) == {TableId("shop", "orders"), TableId("a.b", "c`,d"), TableId("x", "y z")}
    assert (asked.through, asked.timeout_s) == (Through.JOURNAL, 0.0)


def test_one_with_many_bytes_of_parameters_counts_as_several() -> None:
    gaps = f"{gtids('a:1')}" + "".join(f":{number}" for number in range(101, 1000, 2))
    for text, count in ((SET, 1), (gaps, 4)):
        assert parse_applied_query({"gtid_set": text}, THERE).counts_as == count
    tables = ",".join(["shop.orders"] * 100)
    assert parse_applied_query({"gtid_set": SET, "tables": tables}, THERE).counts_as == 3


@given(st.sets(st.builds(TableId, st.text("ab.,` é", min_size=1), st.text("c.,`", min_size=1)), min_size=1))
def test_the_name_that_a_report_has_is_read(tables: set[TableId]) -> None:
    quoted = (".".join("`" + name.replace("`", "``") + "`" for name in (t.database, t.name)) for t in tables)
    asked = parse_applied_query({"gtid_set": SET, "tables": ",".join(quoted)}, THERE)
    assert set(asked.tables or ()) == tables


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "gtid_set: it has no transaction"),
        ({"gtid_set": " , "}, "gtid_set: it has no transaction"),
        ({"gtid_set": "a:1"}, "gtid_set: not a server's UUID in lower case: 'a'"),
        ({"gtid_set": SET + ":x-y"}, "gtid_set: neither a tag nor a range of numbers: 'x-y'"),
        ({"gtid_set": SET, "through": "spark"}, "through: 'spark' is none of journal, lake, kafka"),
        ({"gtid_set": SET, "through": "kafka"}, r"through: the configuration has no \[kafka\]"),
        ({"gtid_set": SET, "tables": "orders"}, "tables: 'orders' isn't database.table"),
        ({"gtid_set": SET, "tables": "a.b.c"}, "tables: 'a.b.c' isn't database.table"),
        ({"gtid_set": SET, "tables": "a.b,"}, "tables: '' isn't database.table"),
        ({"gtid_set": SET, "timeout_s": "soon"}, "timeout_s: 'soon' isn't a number"),
        ({"gtid_set": SET, "timeout_s": "-1"}, "timeout_s: '-1' isn't a number of seconds from 0 to 600"),
        ({"gtid_set": SET, "timeout_s": "601"}, "timeout_s: '601' isn't"),
        ({"gtid_set": SET, "timeout_s": "nan"}, "timeout_s: 'nan' isn't"),
        ({"gtid_set": SET, "table": "a.b"}, "table: there is no such parameter; there are gtid_set, through"),
    ],
)
def test_what_is_wrong_is_named(parameters: dict[str, str], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_applied_query(parameters, THERE)
