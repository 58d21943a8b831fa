"""Which columns are meant, and under which key."""

import pytest

from pipeline.config.column_rules import ColumnRule, MessageColumns, MessageKey
from pipeline.schema.table_filter import TableFilter, mistake_in
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer

COLUMNS = tuple(Column(name, Integer(4, unsigned=False), nullable=True) for name in ("id", "B", "c"))
SCHEMA = TableSchema(TableId("shop", "t"), COLUMNS, (0,))


def names(columns: tuple[Column, ...]) -> list[str]:
    return [column.name for column in columns]


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        (MessageColumns(), ["id", "B", "c"]),
        (MessageColumns(include=(r"shop\.t\.(b|id)",)), ["id", "B"]),
        (MessageColumns(exclude=(r"SHOP\.T\.b", r"shop\.other\..*")), ["id", "c"]),
        (MessageColumns(exclude=(r"shop\.t",)), ["id", "B", "c"]),
    ],
)
def test_columns_are_meant_by_their_whole_names_in_any_case(columns: MessageColumns, left: list[str]) -> None:
    assert names(columns.values_of(SCHEMA)) == left


def test_a_key_has_its_columns_in_the_order_that_is_said() -> None:
    keys = (MessageKey(TableFilter((r"shop\.t",)), ("c", "b")), MessageKey(TableFilter((".*",)), ("id",)))
    assert names(MessageColumns(keys=keys).key_of(SCHEMA)) == ["c", "B"]
    assert names(MessageColumns(keys=keys[1:]).key_of(SCHEMA)) == ["id"]
    assert names(MessageColumns().key_of(SCHEMA)) == ["id"]
    none = (MessageKey(TableFilter((".*",)), ("x",)),)
    assert names(MessageColumns(keys=none).key_of(SCHEMA)) == ["id"]


def test_the_first_rule_that_matches_holds() -> None:
    one, other = ColumnRule((r".*\.c",), mask_with_length=1), ColumnRule((".*",), truncate_to_length=2)
    rules = MessageColumns(rules=(one, other)).rules_of(SCHEMA)
    assert rules == {"id": other, "B": other, "c": one}


def test_what_is_no_expression_is_told() -> None:
    assert mistake_in(("a.*",)) is None
    assert "isn't a regular expression" in (mistake_in(("a", "(")) or "")
    assert "isn't a regular expression" in (mistake_in((r"\Qa",)) or "")
