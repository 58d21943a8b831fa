"""A list of tables in a text is read as a report writes it, and a wrong one is quoted."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.table_names import (
    MalformedTableName,
    not_captured,
    parse_table,
    parse_tables,
    split_names,
)
from pipeline.schema.table_schema import TableId

_NAMES = st.text(min_size=1, max_size=8)


@given(st.lists(st.builds(TableId, _NAMES, _NAMES), min_size=1, max_size=4))
def test_quoted_names_are_read_again(tables: list[TableId]) -> None:
    assert parse_tables(", ".join(table.quoted for table in tables)) == tuple(tables)
    assert [parse_table(table.quoted) for table in tables] == tables


def test_plain_names_need_no_quotes() -> None:
    assert parse_tables("shop.orders, `a.b`.c") == (TableId("shop", "orders"), TableId("a.b", "c"))


@pytest.mark.parametrize("signs", [",", "`,", ",``"])
def test_any_text_is_split_in_the_time_of_one_look_at_each_character(signs: str) -> None:
    """The service splits what a request names in the thread that captures. With a look at the rest of the text for each
    comma, these texts took a minute and more."""
    began = process_time()
    split_names(signs * 200_000)
    assert process_time() - began < 10.0


@pytest.mark.parametrize("text", ["", "orders", "a.b.c", "a.", "`a.b", "a.b, "])
def test_another_text_is_quoted(text: str) -> None:
    with pytest.raises(MalformedTableName, match=r"isn't database.table; quote names"):
        parse_tables(text)


def test_a_table_that_isnt_captured_comes_with_the_one_that_may_be_meant() -> None:
    known = {TableId("shop", "orders"), TableId("shop", "items")}
    wrong = [TableId("shop", "ordrs"), TableId("shop", "items"), TableId("x", "y")]
    assert list(not_captured(wrong, known)) == [
        (wrong[0], "did you mean shop.orders?"),
        (wrong[2], "there are shop.items, shop.orders"),
    ]
    assert list(not_captured(wrong[:1], ())) == [(wrong[0], "there are none so far")]
