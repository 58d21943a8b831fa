"""Schemas: through JSON and back, and versions that differ where schemas do."""

import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.schema import table_schema as schemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Decimal, Enum, Integer, Set, Text
from pipeline.types.lake_forms import LakeForm
from tests.pipeline.declarations import declared, is_value
from tests.pipeline.strategies import column_types, names, table_ids, table_schemas

LINES = TableSchema(
    TableId("shop", "lines"),
    (
        Column("order", Integer(8, unsigned=True), nullable=False),
        Column("line", Integer(2, unsigned=False), nullable=False),
        Column("note", Text("utf8mb4"), nullable=True),
        Column("price", Decimal(10, 2), nullable=True),
    ),
    (0, 1),
)
ORDER, LINE, NOTE, PRICE = LINES.columns


def with_columns(*columns: Column) -> TableSchema:
    """The table with other columns."""
    return replace(LINES, columns=columns)


@given(table_schemas())
def test_a_schema_comes_back_from_json(schema: TableSchema) -> None:
    assert schemas.from_json(json.loads(json.dumps(schemas.to_json(schema)))) == schema


# The same few tables, so that equal schemas come up.
few = table_schemas(st.just(TableId("a", "b")))


@given(few, few)
def test_versions_are_equal_if_and_only_if_schemas_are(one: TableSchema, other: TableSchema) -> None:
    assert (one.version == other.version) == (one == other)
    assert replace(one).version == one.version


def test_a_schema_keeps_its_version_however_many_there_are() -> None:
    schema = replace(LINES, table=TableId("shop", "kept"))
    version = schema.version
    schemas._version.cache_clear()
    assert schema.version == version
    assert schemas._version.cache_info().currsize == 0
    assert (schema, repr(schema)) == (replace(schema), repr(replace(schema)))


@given(table_schemas(), st.data())
def test_any_difference_changes_the_version(schema: TableSchema, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(schema.columns) - 1))
    column = schema.columns[at]
    changed = data.draw(
        st.sampled_from(["name", "type", "nullable"]).flatmap(
            lambda part: {
                "name": names.map(lambda name: replace(column, name=name)),
                "type": column_types.map(lambda kind: replace(column, type=kind)),
                "nullable": st.just(replace(column, nullable=not column.nullable)),
            }[part]
        )
    )
    columns = (*schema.columns[:at], changed, *schema.columns[at + 1 :])
    other = replace(schema, columns=columns)
    assert (other.version == schema.version) == (other == schema)


@given(table_schemas(), table_ids)
def test_the_same_columns_of_another_table_are_another_version(schema: TableSchema, other: TableId) -> None:
    assert (replace(schema, table=other).version == schema.version) == (other == schema.table)


def test_the_versions_of_ten_thousand_tables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment needs them all."""
    tables = [replace(LINES, table=TableId("many", f"t{number}")) for number in range(10_000)]
    versions = [table.version for table in tables]
    monkeypatch.setattr(schemas, "to_json", None)
    assert [table.version for table in tables] == versions


def test_a_version_is_the_same_on_any_machine_and_in_any_run() -> None:
    assert LINES.version == "120b8e47b8689979"


# Keys

SAME_KEY = {
    "a column more": with_columns(ORDER, LINE, NOTE, PRICE, replace(NOTE, name="more")),
    "a column less": with_columns(ORDER, LINE, NOTE),
    "another column renamed": with_columns(ORDER, LINE, replace(NOTE, name="remark"), PRICE),
    "columns in another order": replace(with_columns(PRICE, LINE, NOTE, ORDER), key=(3, 1)),
}

OTHER_KEY = {
    "its columns in another order": replace(LINES, key=(1, 0)),
    "a column less": replace(LINES, key=(0,)),
    "a column more": replace(LINES, key=(0, 1, 2)),
    "a column of another type": with_columns(replace(ORDER, type=Integer(8, False)), LINE, NOTE, PRICE),
    "a column renamed": with_columns(replace(ORDER, name="number"), LINE, NOTE, PRICE),
    "none": replace(LINES, key=()),
    "another table's": replace(LINES, table=TableId("shop", "old_lines")),
}


@pytest.mark.parametrize("schema", SAME_KEY.values(), ids=SAME_KEY.keys())
def test_keys_go_on_comparing_where_the_primary_key_is_untouched(schema: TableSchema) -> None:
    assert schema.version != LINES.version
    assert schema.key_version == LINES.key_version


@pytest.mark.parametrize("schema", OTHER_KEY.values(), ids=OTHER_KEY.keys())
def test_keys_do_not_compare_where_the_primary_key_is_another(schema: TableSchema) -> None:
    assert schema.key_version != LINES.key_version


def test_the_names_of_a_key_come_in_the_keys_order() -> None:
    assert replace(LINES, key=(1, 0)).key_names == ("line", "order")
    assert replace(LINES, key=(1, 0)).key_columns == (LINE, ORDER)


# Arrow and names


def test_every_column_may_be_null_in_arrow_whatever_the_table_says() -> None:
    assert LINES.arrow == pa.schema(
        [
            ("order", pa.decimal128(20, 0)),
            ("line", pa.int16()),
            ("note", pa.string()),
            ("price", pa.decimal128(10, 2)),
        ]
    )
    assert all(field.nullable for field in LINES.arrow)


_SIGNS = st.text("a.`", min_size=1, max_size=5)


@given(_SIGNS, _SIGNS, _SIGNS, _SIGNS)
@example("a.b", "c", "a", "b.c")
@example("`a`", "`b`", "a", "b")
def test_two_tables_never_have_one_text(database: str, name: str, other: str, others: str) -> None:
    """Metrics, the status, paths of HTTP and the ids of snapshots have a table by its text."""
    one, two = TableId(database, name), TableId(other, others)
    assert (str(one) == str(two)) == (one == two)
    assert TableFilter((re.escape(one.dotted),)).match(one)


def test_a_name_with_a_dot_is_told_in_quotes() -> None:
    assert str(TableId("shop", "it's")) == "shop.it's"
    assert str(TableId("a.b", "c`d")) == "`a.b`.`c``d`"
    assert TableId("a.b", "c").dotted == "a.b.c"


def test_a_table_is_told_and_sorted_by_database_then_name() -> None:
    tables = [TableId("shop", "orders"), TableId("crm", "users"), TableId("shop", "items")]
    assert [str(table) for table in sorted(tables)] == ["crm.users", "shop.items", "shop.orders"]


def test_labels_keep_their_order() -> None:
    small, large = Enum(("s", "l")), Enum(("l", "s"))
    versions = {
        with_columns(ORDER, Column("size", kind, True)).version for kind in (small, large, Set(("s", "l")))
    }
    assert len(versions) == 3


def spoiled(**changes: Any) -> dict[str, Any]:
    """Returns the table's JSON with these changes, None for a missing key."""
    value = {**schemas.to_json(LINES), **changes}
    return {name: part for name, part in value.items() if part is not None}


@pytest.mark.parametrize(
    "value",
    [
        spoiled(columns=None),
        spoiled(key=None),
        spoiled(database=None),
        spoiled(key="0"),
        spoiled(columns=[{"name": "id", "nullable": True}]),
        spoiled(columns=[{"name": "id", "nullable": True, "type": {"kind": "Money"}}]),
        spoiled(columns=[{"name": "id", "nullable": True, "type": {"kind": "arrow_type", "column": 1}}]),
        spoiled(columns=[{"name": "id", "nullable": True, "type": {"kind": "Integer"}}]),
    ],
)
def test_what_is_no_schema_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        schemas.from_json(value)


@pytest.mark.parametrize("declaration", declared(schemas))
def test_tables_columns_and_schemas_are_values(declaration: type) -> None:
    assert is_value(declaration)
    assert declaration.__hash__ is not None


def test_a_form_is_part_of_a_schema_only_where_there_is_one() -> None:
    formed = with_columns(replace(ORDER, form=LakeForm.LONG), LINE)
    assert schemas.from_json(json.loads(json.dumps(schemas.to_json(formed)))) == formed
    assert formed.formed and formed.version != formed.unformed.version
    assert formed.unformed == with_columns(ORDER, LINE)
    assert "form" not in json.dumps(schemas.to_json(LINES))
    assert formed.arrow.field("order").type == pa.int64()
