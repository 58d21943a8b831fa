"""Which columns can have which form in the lake, and as what."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.types import column_types as t
from pipeline.types.lake_forms import LakeForm, form_fits, lake_arrow_type, time_texts

KINDS: list[t.ColumnType] = [
    t.Integer(8, unsigned=True),
    t.Integer(8, unsigned=False),
    t.Integer(1, unsigned=True),
    t.Integer(1, unsigned=False),
    t.Integer(4, unsigned=True),
    t.Time(0),
    t.FixedBinary(16),
    t.FixedBinary(8),
    t.Binary(),
    t.Geometry(),
    t.Json(),
    t.Text("utf8mb4"),
]


@pytest.mark.parametrize(
    ("form", "kinds", "type_"),
    [
        (LakeForm.LONG, KINDS[:1], pa.int64()),
        (LakeForm.BOOLEAN, KINDS[2:4], pa.bool_()),
        (LakeForm.TEXT, [t.Time(0)], pa.string()),
        (LakeForm.UUID, [t.FixedBinary(16)], pa.string()),
        (LakeForm.SWAPPED_UUID, [t.FixedBinary(16)], pa.string()),
        (LakeForm.WKB, [t.Geometry()], pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])),
    ],
)
def test_a_form_is_for_columns_of_its_types(
    form: LakeForm, kinds: list[t.ColumnType], type_: pa.DataType
) -> None:
    assert [kind for kind in KINDS if form_fits(form, kind)] == kinds
    assert lake_arrow_type(kinds[0], form) == type_


def test_without_a_form_a_column_is_as_in_the_journal() -> None:
    assert [lake_arrow_type(kind, None) for kind in KINDS] == list(map(t.arrow_type, KINDS))


@given(st.lists(st.integers(-3_020_399_999_999, 3_020_399_999_999), unique=True))
@example([-3_600_000_000, 360_000_000_000, 86_400_000_000, 0, -1])
def test_two_times_have_two_texts(times: list[int]) -> None:
    texts = time_texts(pa.array([None, *times], pa.int64()))
    assert texts[0].as_py() is None
    assert len(set(texts.to_pylist())) == 1 + len(times)
    assert time_texts(pa.array([360_000_000_000, -500_000])).to_pylist() == ["100:00:00", "-00:00:00.5"]


def test_stored_names_never_change() -> None:
    assert {form.value for form in LakeForm} == {"long", "boolean", "text", "uuid", "uuid-swapped", "wkb"}
