"""The form of rows: keys, masks, and values that the log left out; `test_against_debezium` compares with Debezium."""

import hashlib

import pyarrow as pa
import pytest

from pipeline.config.column_rules import ColumnRule, HashAlgorithm, MessageColumns, MessageKey
from pipeline.config.secret import Secret
from pipeline.journal.change_rows import META
from pipeline.kafka.debezium.shape import PLACEHOLDER, Shape, shape_of
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Binary, Integer, Text

SCHEMA = TableSchema(
    TableId("shop", "t"),
    (
        Column("id", Integer(4, unsigned=False), nullable=False),
        Column("v", Text("utf8mb4"), nullable=True),
        Column("b", Binary(), nullable=True),
    ),
    (0,),
)
ABSENT = META.field("__absent").type


def rows(
    letters: str, ids: list[int], texts: list[str | None], absent: list[list[str] | None] | None = None
) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "__op": list(letters),
            "__absent": pa.array(absent or [None] * len(letters), ABSENT),
            "id": pa.array(ids, pa.int32()),
            "v": pa.array(texts, pa.string()),
            "b": pa.array([b"12345"] * len(letters), pa.binary()),
        }
    )


def by_rules(*rules: ColumnRule) -> Shape:
    return Shape(SCHEMA, MessageColumns(rules=rules))


def test_an_update_is_by_the_messages_key() -> None:
    key = MessageColumns(keys=(MessageKey(TableFilter((".*",)), ("v",)),))
    shape = Shape(SCHEMA, key)
    changes = rows("cbubudud", [1, 1, 1, 1, 1, 1, 2, 2], ["a", "a", "a", "a", "b", "b", "b", None])
    assert shape.needed == ("v",)
    assert "".join(shape.with_keys(changes).column("__op").to_pylist()) == "cbudubud"
    assert Shape(SCHEMA).with_keys(changes) is changes and Shape(SCHEMA).needed == ()


def test_rules_change_texts() -> None:
    changes = rows("ccc", [1, 2, 3], ["äöü", None, "äöü"])
    truncated = by_rules(ColumnRule((".*",), truncate_to_length=2)).shaped(changes)
    assert truncated.column("v").to_pylist() == ["äö", None, "äö"]
    assert truncated.column("b").to_pylist() == [b"12"] * 3
    hashed = by_rules(ColumnRule((".*",), hash=HashAlgorithm.SHA_256, salt=Secret("s"))).shaped(changes)
    digest = hashlib.sha256("säöü".encode()).hexdigest()
    assert hashed.column("v").to_pylist() == [digest, None, digest]
    assert hashed.column("b").to_pylist() == [b"12345"] * 3
    assert by_rules(ColumnRule((".*",), mask_with_length=3)).shaped(changes).column("v")[0].as_py() == "***"


def test_schemas_say_what_was_done() -> None:
    shape = by_rules(ColumnRule((r".*\.v",), truncate_to_length=2), ColumnRule((".*",), mask_with_length=3))
    assert shape.parameters["v"] == {"truncateLength": "2"} and shape.parameters["id"] == {"masked": "true"}


def test_a_value_that_the_log_left_out_is_never_null() -> None:
    changes = rows("cuu", [1, 2, 3], ["a", None, None], [None, ["v", "b"], None])
    shaped = Shape(SCHEMA).shaped(changes)
    assert shaped.column("v").to_pylist() == ["a", PLACEHOLDER, None]
    assert shaped.column("b").to_pylist() == [b"12345", PLACEHOLDER.encode(), b"12345"]
    with pytest.raises(KafkaRefused, match=r"shop\.t has rows without id.*column_exclude_list"):
        Shape(SCHEMA).shaped(rows("c", [1], ["a"], [["id"]]))
    key = MessageColumns(keys=(MessageKey(TableFilter((".*",)), ("v",)),))
    with pytest.raises(KafkaRefused, match="rows without v"):
        Shape(SCHEMA, key).shaped(changes)


def test_an_excluded_column_may_be_left_out() -> None:
    columns = MessageColumns(exclude=(r".*\.v",))
    assert shape_of(SCHEMA, columns, "?").shaped(rows("u", [1], [None], [["v"]])).num_rows == 1
