"""What becomes of values: equal ones stay equal, different ones different, NULL stays NULL, and nothing else stays."""

import hashlib
import hmac
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.errors import InvariantBroken
from pipeline.journal.change_rows import META
from pipeline.journal.protected_rows import protect_rows, protect_values
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Double,
    Enum,
    FixedBinary,
    Geometry,
    Integer,
    Json,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
)
from pipeline.types.column_types import (
    Decimal as DecimalType,
)

SALT = "a salt of sixteen"
ALL = TableFilter((".*",))
SCHEMA = TableSchema(
    TableId("shop", "people"),
    (
        Column("id", Integer(4, unsigned=False), nullable=False),
        Column("ssn", Text("utf8mb4"), nullable=True),
        Column("email", Text("utf8mb4"), nullable=True),
    ),
    key=(0,),
)
TEXTS = st.lists(st.none() | st.text())


def rule(
    treatment: Treatment, *columns: str, length: int | None = None, text: str | None = None
) -> ProtectionRule:
    return ProtectionRule(ALL, columns, treatment, length, text)


def protected(values: pa.Array, treatment: Treatment, **of: Any) -> list[Any]:
    found: list[Any] = protect_values(values, rule(treatment, **of), SALT).to_pylist()
    return found


@given(TEXTS)
def test_a_hash_is_the_standards_own_and_equal_for_equal_values_only(texts: list[str | None]) -> None:
    hashes = protected(pa.array(texts, pa.string()), Treatment.HASH)
    assert hashes == [
        None if text is None else hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()
        for text in texts
    ]
    assert len(set(hashes)) == len(set(texts))


@given(st.lists(st.none() | st.binary()))
def test_bytes_are_hashed_as_they_are(values: list[bytes | None]) -> None:
    hashes = protected(pa.array(values, pa.binary()), Treatment.HASH)
    assert [each is None for each in hashes] == [value is None for value in values]
    assert len(set(hashes)) == len(set(values))


@given(st.lists(st.decimals(-(10**9), 10**9, places=4)), st.integers(4, 12))
def test_numbers_keep_their_hashes_in_a_wider_type(numbers: list[Decimal], scale: int) -> None:
    narrow, wide = (pa.array(numbers, pa.decimal128(38, places)) for places in (4, scale))
    hashes = protected(narrow, Treatment.HASH)
    assert hashes == protected(wide, Treatment.HASH)
    assert len(set(hashes)) == len(set(numbers))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([1, -7], pa.int8()), pa.array([1, -7], pa.int64())),
        (pa.array([1, -7], pa.int64()), pa.array([1, -7], pa.decimal128(20, 0))),
        (pa.array([date(2026, 1, 31)]), pa.array([datetime(2026, 1, 31)], pa.timestamp("us"))),  # noqa: DTZ001
        (pa.array([1, -7], pa.int64()), pa.array(["1", "-7"])),
        (pa.array([100, 0], pa.int64()), pa.array([100, 0], pa.decimal128(30, 10))),
    ],
)
def test_equal_values_have_equal_hashes_whatever_their_types(narrow: pa.Array, wide: pa.Array) -> None:
    assert protected(narrow, Treatment.HASH) == protected(wide, Treatment.HASH)


def test_another_salt_makes_other_hashes() -> None:
    one, other = (
        protect_values(pa.array(["a"]), rule(Treatment.HASH), salt).to_pylist() for salt in (SALT, SALT + "!")
    )
    assert one != other


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["secret", None, ""]),
        pa.array([1, None, 2]),
        pa.array([1.5, None, 2.5]),
        pa.array([[1.0], None, []]),
    ],
    ids=lambda values: str(values.type),
)
def test_a_mask_is_one_text_for_all_that_is_not_null(values: pa.Array) -> None:
    assert protected(values, Treatment.MASK, length=4) == ["****", None, "****"]
    assert protected(values, Treatment.MASK, length=0) == ["", None, ""]
    assert protected(values, Treatment.MASK, text="gone") == ["gone", None, "gone"]


@given(TEXTS, st.integers(0, 9))
def test_a_truncation_leaves_the_first_characters(texts: list[str | None], length: int) -> None:
    left = protected(pa.array(texts, pa.string()), Treatment.TRUNCATE, length=length)
    assert left == [None if text is None else text[:length] for text in texts]


@given(st.lists(st.none() | st.binary()), st.integers(0, 9))
def test_a_truncation_leaves_the_first_bytes(values: list[bytes | None], length: int) -> None:
    left = protected(pa.array(values, pa.binary()), Treatment.TRUNCATE, length=length)
    assert left == [None if value is None else value[:length] for value in values]


ABSENT = st.none() | st.lists(st.sampled_from(["ssn", "email"]), min_size=1, unique=True)


@given(st.lists(ABSENT, min_size=1), st.data())
def test_excluded_columns_are_nowhere(absent: list[list[str] | None], data: st.DataObject) -> None:
    """Also in parts of a larger table, whose arrays have offsets."""
    count = len(absent)
    rows = pa.table(
        {
            "__absent": pa.array(absent, META.field("__absent").type),
            "id": pa.array(range(count), pa.int32()),
            "ssn": pa.array(["x"] * count),
            "email": pa.array(["y"] * count),
        }
    )
    start = data.draw(st.integers(0, count - 1))
    protection = Protection(
        Secret(SALT), (rule(Treatment.EXCLUDE, "SSN"), rule(Treatment.MASK, "email", length=1))
    )
    left = protect_rows(rows.slice(start), SCHEMA, protection)
    assert left.schema == pa.schema(
        [rows.schema.field("__absent"), rows.schema.field("id"), rows.schema.field("email")]
    )
    assert left["email"].to_pylist() == ["*"] * (count - start)
    expected = [names and ([name for name in names if name != "ssn"] or None) for names in absent[start:]]
    assert left["__absent"].to_pylist() == expected


def test_rows_of_a_refused_table_are_never_written() -> None:
    rows = pa.table({"id": [1], "ssn": ["x"], "email": ["y"]})
    with pytest.raises(InvariantBroken, match="it has no column 'iban'"):
        protect_rows(rows, SCHEMA, Protection(rules=(rule(Treatment.EXCLUDE, "iban"),)))


TYPED: list[tuple[ColumnType, set[Treatment]]] = [
    (Integer(8, unsigned=True), {Treatment.TRUNCATE}),
    (DecimalType(10, 2), {Treatment.TRUNCATE}),
    (DecimalType(65, 2), {Treatment.TRUNCATE}),
    (Double(), {Treatment.TRUNCATE, Treatment.HASH}),
    (Bit(1), {Treatment.TRUNCATE}),
    (Bit(9), {Treatment.TRUNCATE}),
    (Year(), {Treatment.TRUNCATE}),
    (Date(), {Treatment.TRUNCATE}),
    (Time(3), {Treatment.TRUNCATE}),
    (DateTime(6), {Treatment.TRUNCATE}),
    (Timestamp(0), {Treatment.TRUNCATE}),
    (Text("latin1"), set()),
    (FixedBinary(4), set()),
    (Binary(), set()),
    (Enum(("a", "b")), {Treatment.TRUNCATE}),
    (Set(("a", "b")), {Treatment.TRUNCATE}),
    (Json(), {Treatment.TRUNCATE}),
    (Geometry(), {Treatment.TRUNCATE}),
    (Vector(), {Treatment.TRUNCATE, Treatment.HASH}),
]


@pytest.mark.parametrize(("kind", "refused"), TYPED, ids=lambda of: getattr(of, "wire", ""))
@pytest.mark.parametrize("treatment", list(Treatment))
def test_rows_have_the_types_that_the_stored_schema_says(
    kind: ColumnType, refused: set[Treatment], treatment: Treatment
) -> None:
    column = Column("ssn", kind, nullable=True)
    schema = TableSchema(SCHEMA.table, (SCHEMA.columns[0], column, SCHEMA.columns[2]), SCHEMA.key)
    length = 2 if treatment in (Treatment.MASK, Treatment.TRUNCATE) else None
    protection = Protection(Secret(SALT), (rule(treatment, "ssn", length=length),))
    assert (protection.refusal(schema) is not None) == (treatment in refused)
    if treatment not in refused:
        rows = pa.Table.from_pylist([{"id": 1, "ssn": None, "email": "y"}], schema.arrow)
        assert protect_rows(rows, schema, protection).schema == protection.stored(schema).arrow
        assert protect_rows(rows.slice(1), schema, protection).schema == protection.stored(schema).arrow
