"""Rows that have come under their key lack what the log may have of an earlier row, and no others do."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ChangesVerified
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges, images_with
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.types.column_types import ColumnType, Integer, Json, Text
from pipeline.verifier.stale_values import withhold_stale_values
from tests.pipeline.verifier.small_log import ORDERS, SCHEMA, fresh, run, slice_

NAMES = ("id", "a", "title", "tags")
KINDS: tuple[ColumnType, ...] = (
    Integer(4, unsigned=False),
    Integer(4, unsigned=False),
    Text("utf8mb4"),
    Json(),
)
TABLE = TableSchema(
    TableId("shop", "items"),
    tuple(Column(name, kind, True) for name, kind in zip(NAMES, KINDS, strict=True)),
    (0,),
)
STALE = frozenset({"title", "tags"})
INSERT, BEFORE, AFTER, DELETE, EMPTIED = ImageKind
ROW = {"id": 1, "a": 5, "title": "t", "tags": "[1]"}


def changes(schema: TableSchema, *images: tuple[ImageKind, dict[str, Any], int | None]) -> TableChanges:
    fields = [
        {"kind": int(kind), "transaction": 0, "ordinal": n, "absent": None if bits is None else bytes([bits])}
        for n, (kind, _, bits) in enumerate(images)
    ]
    rows = pa.RecordBatch.from_pylist([row for _, row, _ in images], schema.arrow)
    return TableChanges.unshared(schema, pa.RecordBatch.from_pylist(fields, IMAGE_FIELDS), rows)


def lacking(found: TableChanges) -> list[str]:
    """The columns that each image lacks."""
    absent = found.images.column("absent")
    given = [images_with(absent, i) for i in range(len(NAMES))]
    return [
        " ".join(name for name, has in zip(NAMES, given, strict=True) if not has[row])
        for row in range(len(absent))
    ]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([(INSERT, ROW, None)], ["title tags"]),
        ([(INSERT, {"id": 1, "title": "t"}, 0b1010)], ["a title tags"]),
        ([(DELETE, ROW, None), (INSERT, ROW, None)], ["", "title tags"]),
        ([(BEFORE, ROW, None), (AFTER, ROW | {"a": 6}, None)], ["", ""]),
        ([(BEFORE, ROW, None), (AFTER, ROW | {"id": 2}, None)], ["", "title tags"]),
        ([(BEFORE, {"id": 1}, 0b1110), (AFTER, {"id": 2, "a": 7}, 0b1100)], ["a title tags", "title tags"]),
        ([(EMPTIED, {}, None)], [""]),
        (
            [
                (INSERT, ROW, None),
                (BEFORE, ROW, None),
                (AFTER, ROW, None),
                (BEFORE, ROW, None),
                (AFTER, ROW | {"id": 9}, None),
            ],
            ["title tags", "", "", "", "title tags"],
        ),
    ],
)
def test_which_rows_lack_which_columns(
    images: list[tuple[ImageKind, dict[str, Any], int | None]], expected: list[str]
) -> None:
    given = changes(TABLE, *images)
    found = withhold_stale_values(given, STALE)
    assert lacking(found) == expected
    assert found.images.schema == IMAGE_FIELDS and found.rows.schema == TABLE.arrow
    for row, names in enumerate(expected):
        kept = {
            name: value
            for name, value in given.rows.slice(row, 1).to_pylist()[0].items()
            if name not in names.split()
        }
        assert found.rows.slice(row, 1).to_pylist()[0] == dict.fromkeys(NAMES) | kept


def test_a_table_without_a_key_has_no_earlier_rows() -> None:
    given = changes(TableSchema(TABLE.table, TABLE.columns, ()), (INSERT, ROW, None))
    assert withhold_stale_values(given, STALE) is given


def test_columns_that_are_gone_change_nothing() -> None:
    given = changes(TABLE, (INSERT, ROW, None))
    assert withhold_stale_values(given, frozenset({"former"})) is given


def test_the_verifier_leaves_out_what_the_server_names() -> None:
    traits = {ORDERS: Traits("innodb", generated=True, stale=frozenset({"tags"}))}
    known = KnownSchemas({ORDERS: SCHEMA}, GtidSet(), traits=traits)
    [(_, absent)] = [
        (change.rows, change.images.column("absent").to_pylist())
        for message in run(fresh(known, new=SCHEMA), slice_(1))
        if isinstance(message, ChangesVerified)
        for change in message.tables
    ]
    assert absent == [bytes([0b100])]
