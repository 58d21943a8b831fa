"""The form of rows: keys, masks, and values that the log left out; `test_against_debezium` compares with Debezium."""

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal as PythonDecimal
from typing import Final

import pyarrow as pa
import pytest

from pipeline.config.column_rules import ColumnRule, HashAlgorithm, MessageColumns, MessageKey
from pipeline.config.message_handling import BinaryHandling, DecimalHandling, Handling, TimePrecision
from pipeline.config.secret import Secret
from pipeline.journal.change_rows import META
from pipeline.kafka.debezium.table_mapping import PLACEHOLDER, TableMapping, map_table
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import (
    Binary,
    ColumnType,
    Date,
    Decimal,
    FixedBinary,
    Integer,
    Json,
    Text,
    Timestamp,
)

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


def by_rules(*rules: ColumnRule) -> TableMapping:
    return TableMapping(SCHEMA, MessageColumns(rules=rules))


def test_an_update_is_by_the_messages_key() -> None:
    key = MessageColumns(keys=(MessageKey(TableFilter((".*",)), ("v",)),))
    mapping = TableMapping(SCHEMA, key)
    changes = rows("cbubudud", [1, 1, 1, 1, 1, 1, 2, 2], ["a", "a", "a", "a", "b", "b", "b", None])
    assert mapping.needed == ("v",)
    assert "".join(mapping.with_keys(changes).column("__op").to_pylist()) == "cbudubud"
    assert TableMapping(SCHEMA).with_keys(changes) is changes and TableMapping(SCHEMA).needed == ()


def test_rules_change_texts() -> None:
    changes = rows("ccc", [1, 2, 3], ["äöü", None, "äöü"])
    truncated = by_rules(ColumnRule((".*",), truncate_to_length=2)).mapped(changes)
    assert truncated.column("v").to_pylist() == ["äö", None, "äö"]
    assert truncated.column("b").to_pylist() == [b"12"] * 3
    hashed = by_rules(ColumnRule((".*",), hash=HashAlgorithm.SHA_256, salt=Secret("s"))).mapped(changes)
    digest = hashlib.sha256("säöü".encode()).hexdigest()
    assert hashed.column("v").to_pylist() == [digest, None, digest]
    assert hashed.column("b").to_pylist() == [b"12345"] * 3
    assert by_rules(ColumnRule((".*",), mask_with_length=3)).mapped(changes).column("v")[0].as_py() == "***"


MOMENT: Final = datetime(2024, 2, 29, 1, tzinfo=UTC)
STRINGS: Final = Handling(DecimalHandling.STRING, TimePrecision.ISOSTRING, binary=BinaryHandling.HEX)


@pytest.mark.parametrize(
    ("kind", "value", "most", "cut", "plain"),
    [
        (Json(), '{"a": "äöü"}', 8, '{"a": "ä', '{"a": "ä'),
        (Binary(), b"\x01\xab\xff", 4, "01ab", b"\x01\xab\xff"),
        (FixedBinary(3), b"\x01\xab\xff", 2, "01", b"\x01\xab"),
        (FixedBinary(3), b"\x01\xab\xff", 3, b"\x01\xab\xff", b"\x01\xab\xff"),
        (Decimal(10, 2), PythonDecimal("-1234.50"), 3, "-12", PythonDecimal("-1234.50")),
        (Decimal(10, 2), PythonDecimal("-1234.50"), 10, PythonDecimal("-1234.50"), PythonDecimal("-1234.50")),
        (Date(), date(2024, 2, 29), 7, "2024-02", date(2024, 2, 29)),
        (Timestamp(0), MOMENT, 4, "2024", "2024"),
        (Timestamp(3), MOMENT, 2, "20", "20"),
        (Timestamp(3), MOMENT, 3, MOMENT, MOMENT),
    ],
)
def test_a_cut_is_of_the_text_that_a_message_has(
    kind: ColumnType, value: object, most: int, cut: object, plain: object
) -> None:
    """As with Debezium: what a length in the definition bounds isn't cut. Without texts a value stays."""
    schema = TableSchema(TableId("shop", "t"), (Column("v", kind, nullable=True),), ())
    mapping = TableMapping(schema, MessageColumns(rules=(ColumnRule((".*",), truncate_to_length=most),)))
    values = pa.array([value, None], schema.arrow.field("v").type)
    changes = pa.record_batch({"v": values, "__absent": pa.nulls(2, pa.list_(pa.string()))})
    for handling, expected in ((STRINGS, cut), (Handling(), plain)):
        mapped = mapping.mapped(changes, handling).column("v")
        [column] = mapping.written(handling)
        found = mapped.to_pylist()
        assert found[1] is None and isinstance(column.type, Text) == isinstance(expected, str)
        assert (found[0].replace(tzinfo=UTC) if isinstance(found[0], datetime) else found[0]) == expected


def test_schemas_say_what_was_done() -> None:
    mapping = by_rules(ColumnRule((r".*\.v",), truncate_to_length=2), ColumnRule((".*",), mask_with_length=3))
    assert mapping.parameters["v"] == {"truncateLength": "2"} and mapping.parameters["id"] == {
        "masked": "true"
    }


def test_a_value_that_the_log_left_out_is_never_null() -> None:
    changes = rows("cuu", [1, 2, 3], ["a", None, None], [None, ["v", "b"], None])
    mapped = TableMapping(SCHEMA).mapped(changes)
    assert mapped.column("v").to_pylist() == ["a", PLACEHOLDER, None]
    assert mapped.column("b").to_pylist() == [b"12345", PLACEHOLDER.encode(), b"12345"]
    with pytest.raises(
        KafkaRefused, match=r"shop\.t has rows without id.*STORED if it is VIRTUAL.*column_exclude_list"
    ):
        TableMapping(SCHEMA).mapped(rows("c", [1], ["a"], [["id"]]))
    key = MessageColumns(keys=(MessageKey(TableFilter((".*",)), ("v",)),))
    with pytest.raises(KafkaRefused, match="rows without v"):
        TableMapping(SCHEMA, key).mapped(changes)


def test_an_excluded_column_may_be_left_out() -> None:
    columns = MessageColumns(exclude=(r".*\.v",))
    assert map_table(SCHEMA, columns, "?").mapped(rows("u", [1], [None], [["v"]])).num_rows == 1


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("plain", "a9781c451e106c67c47daa4c07e3b78b44061a563082fb52f29f8ed047ee2525"),
        ("\u20ac\u00e4", "2006a9bd1c752e7de5e8814fcb9778006fd3b5e6d0541887547c637e9f56767a"),
        ("a\0b", "67147effc828738b05a18b54e767b4e6c216eefaa1c8af584850cb9b7f647708"),
        ("x\U0001f600y", "35627c0e1538d009f8c3c966f62c896a26b6535f4191fc9af8aeb8d40ace7eb1"),
        ("a" * 65_535, "fd694bb7eaa7867930dd6d95895242b6fac3cc676c5fc158b848cde6faf0f18f"),
        ("a" * 65_536, "291f43bd5fff4c005d61dc3bc39ff5589eb7e5250cdfa4e467772419a5bbd187"),
        ("\U0001f600" * 10_923, "399f6ecacc495d66089c02d33f860ba37df197efe574bf62eb219e0fa942f1f2"),
        ("\0" * 32_768, "7192a10b2f4740b538b88df64a34dbd0f6e20cb8d0315732314755c7179e6cf8"),
    ],
)
def test_a_hash_of_the_first_version_is_of_what_java_serializes(text: str, digest: str) -> None:
    """Java 17 computed the digests, of the salt `s` and of what ObjectOutputStream.writeObject wrote of the text."""
    rule = ColumnRule((".*",), hash=HashAlgorithm.SHA_256, salt=Secret("s"), hash_version=1)
    assert by_rules(rule).mapped(rows("c", [1], [text])).column("v").to_pylist() == [digest]
