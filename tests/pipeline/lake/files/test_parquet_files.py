"""Which files a lake table takes unchanged, how the others are rewritten, and what Delta's log says of a file."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvariantBroken
from pipeline.journal.change_rows import changes_schema
from pipeline.lake.files.parquet_files import Bounds, Day, Link, Rewrite, Stored, add, fit, stats, wide_stats
from pipeline.lake.tables.columns import columns
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableSchema
from tests.pipeline.strategies import table_schemas

UNLIKE_OURS = table_schemas().filter(
    lambda schema: len({c.name.lower() for c in schema.columns}) == len(schema.columns)
)


@given(UNLIKE_OURS, st.booleans())
def test_a_lake_table_of_the_same_columns_takes_the_file_as_it_is(schema: TableSchema, small: bool) -> None:
    for tier, file in ((Tier.MIRROR, schema.arrow), (Tier.CHANGELOG, changes_schema(schema))):
        table = {c.name: Stored(c.name, c.type.lower() if small else c.type) for c in columns(schema, tier)}
        assert fit(file, table) == Link()
        table["one more"] = Stored("one more", "STRING")
        assert fit(file, table) == Link()


@given(UNLIKE_OURS, st.data())
def test_a_column_that_is_called_otherwise_is_renamed_and_nothing_else_changes(
    schema: TableSchema, data: st.DataObject
) -> None:
    names = [c.name for c in schema.columns]
    renamed = data.draw(st.sets(st.sampled_from(names), min_size=1))
    table = {
        field.name: Stored(f"col-{i}" if field.name in renamed else field.name, spark_type(field.type), i)
        for i, field in enumerate(schema.arrow)
    }
    found = fit(schema.arrow, table)
    assert isinstance(found, Rewrite)
    assert found.schema.names == [table[name].name for name in names]
    assert found.schema.types == schema.arrow.types
    numbers = [field.metadata[b"PARQUET:field_id"] for field in found.schema]
    assert numbers == [str(i).encode() for i in range(len(names))]


WIDENED = [
    (pa.int8(), "bigint", pa.int64()),
    (pa.int32(), "DOUBLE", pa.float64()),
    (pa.int64(), "decimal(20,0)", pa.decimal128(20, 0)),
    (pa.decimal128(9, 2), "decimal(12,4)", pa.decimal128(12, 4)),
    (pa.float32(), "double", pa.float64()),
    (pa.date32(), "timestamp_ntz", pa.timestamp("us")),
]


@pytest.mark.parametrize(("narrow", "spark", "wide"), WIDENED)
def test_a_column_that_is_wider_in_the_lake_is_cast(
    narrow: pa.DataType, spark: str, wide: pa.DataType
) -> None:
    found = fit(pa.schema([pa.field("a", narrow)]), {"A": Stored("A", spark)})
    assert found == Rewrite(pa.schema([pa.field("A", wide)]))


@given(table_schemas())
def test_every_type_of_the_lake_is_had_again_by_its_name(schema: TableSchema) -> None:
    for field in schema.arrow:
        found = fit(pa.schema([("a", pa.int8())]), {"a": Stored("b", spark_type(field.type).lower())})
        assert found == Rewrite(pa.schema([("b", field.type)]))


def test_a_column_that_the_lake_table_does_not_have_is_nothing_to_be_left_out() -> None:
    with pytest.raises(InvariantBroken, match="'b', which its lake table doesn't have; if somebody"):
        fit(pa.schema([("a", pa.int8()), ("b", pa.int8())]), {"a": Stored("a", "TINYINT")})


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**64) | st.none(), max_size=4), max_size=4),
    st.lists(st.dates() | st.none(), max_size=4),
)
def test_delta_is_told_the_least_and_the_greatest_of_all_parts(
    parts: list[list[int | None]], days: list[date | None]
) -> None:
    def bounds(column: str, values: list[Any]) -> Bounds:
        known = [value for value in values if value is not None]
        return Bounds(column, min(known, default=None), max(known, default=None), values.count(None))

    numbers = [value for part in parts for value in part]
    exact = [[None if v is None else Decimal(v) for v in part] for part in parts]
    numbered = [None if day is None else Day((day - date(1970, 1, 1)).days) for day in days]
    said = [*(bounds("a", part) for part in exact), bounds("b", numbered)]
    told = json.loads(stats(len(numbers), said))
    assert told["numRecords"] == len(numbers)
    known, dates = [v for v in numbers if v is not None], [v for v in days if v is not None]
    for bound, of in (("minValues", min), ("maxValues", max)):
        expected = {"a": of(known)} if known else {}
        assert told[bound] == expected | ({"b": of(dates).isoformat()} if dates else {})
    nulls = {"a": numbers.count(None)} if parts else {}
    assert told["nullCount"] == nulls | {"b": days.count(None)}


@pytest.mark.parametrize("day", [-719_529, -719_163, 2_932_897])
def test_a_day_that_engines_read_in_several_ways_leaves_its_column_without_bounds(day: int) -> None:
    """The year 0, the last day of it, and the first one behind the year 9999."""
    said = [Bounds("d", Day(0), Day(1), 0), Bounds("d", min(Day(day), Day(2)), max(Day(day), Day(2)), 0)]
    told = json.loads(stats(4, [*said, Bounds("a", 1, 2, 0)]))
    assert (told["minValues"], told["maxValues"]) == ({"a": 1}, {"a": 2})
    assert told["nullCount"] == {"d": 0, "a": 0}


def test_an_action_is_a_line_of_deltas_log() -> None:
    line = add("000000000007-0001-ab.parquet", 12, 1_700_000_000_000, '{"numRecords": 1}')
    assert "\n" not in line
    assert json.loads(line) == {
        "add": {
            "path": "000000000007-0001-ab.parquet",
            "partitionValues": {},
            "size": 12,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": '{"numRecords": 1}',
        }
    }


def test_a_file_of_before_a_column_was_set_aside_goes_into_that_one() -> None:
    """A segment may have rows of before a statement and of after it."""
    now = {"id": Stored("id", "bigint"), "v": Stored("col-2", "string"), "v__until_7": Stored("v", "int")}
    now["v__until_12_"] = Stored("col-1", "double")

    def taken(type_: pa.DataType) -> object:
        found = fit(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", type_)]), now)
        return found.schema.names if isinstance(found, Rewrite) else found

    assert [taken(type_) for type_ in (pa.int8(), pa.int32(), pa.float64())] == [["id", "col-1"]] * 3
    assert taken(pa.string()) == ["id", "col-2"]
    del now["v__until_12_"]
    assert taken(pa.int32()) == Link()


def test_the_parts_of_a_struct_have_their_own_names_in_files() -> None:
    type_ = pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])
    file, kind = pa.schema([pa.field("g", type_)]), spark_type(type_)
    plain = Stored("g", kind.lower(), None, (Stored("srid", "bigint"), Stored("wkb", "binary")))
    assert fit(file, {"g": plain}) == Link()
    parts = (Stored("col-2", "bigint", 2), Stored("col-3", "binary", 3))
    found = fit(file, {"g": Stored("col-1", kind.lower(), 1, parts)})
    assert isinstance(found, Rewrite)
    (field,) = found.schema
    assert [(part.name, part.metadata[b"PARQUET:field_id"]) for part in field.type] == [
        ("col-2", b"2"),
        ("col-3", b"3"),
    ]


def test_bounds_get_wide_as_they_are_written_and_only_counts_of_nulls_change() -> None:
    """The exact digits of a bound stay, which no float holds; by the rule of Delta's `updateStatsToWideBounds`."""
    told = (
        '{"numRecords": 10, "minValues": {"n": 1, "d": 12345678901234567890.125, "s": "a\\"}"},'
        ' "nullCount": {"n": 0, "d": 7, "p": {"all": 7, "some": 3}}, "tightBounds": true}'
    )
    wide = wide_stats(told, 10, hidden=3)
    assert '"d": 12345678901234567890.125, "s": "a\\"}"' in wide
    said = json.loads(wide)
    assert said["nullCount"] == {"n": 0, "d": 10, "p": {"all": 10, "some": 3}}
    assert said["tightBounds"] is False
    assert said["numRecords"] == 10
    # Once they are wide, the numbers of nulls tell of all rows already.
    assert json.loads(wide_stats(wide, 10, hidden=5)) == said
    # Another writer may have left them out.
    assert json.loads(wide_stats("{}", 2, 0)) == {
        "numRecords": 2,
        "nullCount": {},
        "tightBounds": False,
    }
