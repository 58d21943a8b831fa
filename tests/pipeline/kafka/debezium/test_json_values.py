"""Values as JSON texts: what Python's own libraries read back is what was given, in the form that Java gives it."""

import base64
import json
import math
import struct
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config.message_handling import BinaryHandling, DecimalHandling, Handling, TimePrecision
from pipeline.kafka.debezium.json_values import json_objects, json_text, json_values
from pipeline.schema.table_schema import Column
from pipeline.types import column_types as t

PLAIN = Handling()


def texts(
    kind: t.ColumnType, values: list[object], handling: Handling = PLAIN, *, nullable: bool = True
) -> list[str]:
    """The JSON of these values, of a slice of a longer array, since an offset is easily forgotten."""
    array = pa.array([values[0], *values, values[-1]], t.arrow_type(kind)).slice(1, len(values))
    found: list[str] = json_values(Column("c", kind, nullable), array, handling).to_pylist()
    return found


def of_java(value: float, digits: str) -> str:
    """A double as Java's `Double.toString`, out of its shortest decimal digits, as Python prints them."""
    sign, rest = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    number = Number(rest)
    if value == 0:
        return f"{sign}0.0"
    if 10**-3 <= abs(value) < 10**7:
        plain = f"{number:f}"
        return sign + (plain if "." in plain else f"{plain}.0")
    _, figures, exponent = number.normalize().as_tuple()
    first, *others = map(str, figures)
    assert isinstance(exponent, int)
    return f"{sign}{first}.{''.join(others) or '0'}E{exponent + len(figures) - 1}"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
@example(["😀\U0010ffff", '\x00\x1f\x7f"\\/\b\t\n\f\r', "", "ü€"])
def test_texts_are_read_back(values: list[object]) -> None:
    found = texts(t.Text("utf8mb4"), values)
    assert [json.loads(text) for text in found] == values


def test_escapes_are_jacksons() -> None:
    assert texts(t.Text("utf8mb4"), ['\x00\x1f\b\t\n\f\r"\\/\x7f', "ü€😀", None]) == [
        '"\\u0000\\u001F\\b\\t\\n\\f\\r\\"\\\\/\x7f"',
        '"ü€\\uD83D\\uDE00"',
        "null",
    ]
    assert json_text('a"b') == '"a\\"b"'


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\x7f")
@example("\x1f")
def test_a_single_text_is_as_one_of_a_column(text: str) -> None:
    assert [json_text(text)] == texts(t.Text("utf8mb4"), [text])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@example(
    [
        1e-3,
        9.999999999999999e-4,
        9999999.999999998,
        1e7,
        0.0,
        -0.0,
        1.7976931348623157e308,
        2.2250738585072014e-308,
    ]
)
def test_doubles_are_javas(values: list[float]) -> None:
    values = [value for value in values if abs(value) >= 1e-320 or value == 0] or [0.0]
    assert texts(t.Double(), list(values)) == [of_java(value, repr(value)) for value in values]


def test_floats_have_their_own_digits() -> None:
    values: list[object] = [1.1, 1e16, 0.001, 3.4028234663852886e38, 16777216.0, None]
    assert texts(t.Float(), values) == ["1.1", "1.0E16", "0.001", "3.4028235E38", "1.6777216E7", "null"]


@given(st.data(), st.integers(1, 65))
def test_decimals_are_read_back_in_each_mode(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, min(precision, 30)))
    unscaled = data.draw(st.lists(st.integers(1 - 10**precision, 10**precision - 1), min_size=1))
    plain = [in_full(each, scale) for each in unscaled]
    kind = t.Decimal(precision, scale)
    values: list[object] = list(plain) if precision > 38 else [Number(each) for each in plain]
    assert texts(kind, values, Handling(decimal=DecimalHandling.STRING)) == [f'"{each}"' for each in plain]
    doubles = texts(kind, values, Handling(decimal=DecimalHandling.DOUBLE))
    assert [float(each) for each in doubles] == [float(each) for each in plain]
    for text, number in zip(texts(kind, values), unscaled, strict=True):
        found = base64.b64decode(json.loads(text))
        assert int.from_bytes(found, "big", signed=True) == number
        assert (
            len(found) == (number if number >= 0 else ~number).bit_length() // 8 + 1
        )  # BigInteger.toByteArray


def in_full(unscaled: int, scale: int) -> str:
    """A decimal with all digits of its scale, as the server prints it."""
    digits = f"{abs(unscaled):0{scale + 1}}"
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{fraction}"


@given(st.lists(st.binary(), min_size=1))
def test_binaries_are_read_back_in_each_mode(values: list[object]) -> None:
    plain = [bytes(value) for value in values if isinstance(value, bytes)]
    standard = [json.dumps(base64.b64encode(value).decode()) for value in plain]
    assert texts(t.Binary(), values) == standard
    assert texts(t.Binary(), values, Handling(binary=BinaryHandling.BASE64)) == standard
    safe = [json.dumps(base64.urlsafe_b64encode(value).decode()) for value in plain]
    assert texts(t.Binary(), values, Handling(binary=BinaryHandling.BASE64_URL_SAFE)) == safe
    assert texts(t.Binary(), values, Handling(binary=BinaryHandling.HEX)) == [
        json.dumps(v.hex()) for v in plain
    ]


def test_a_zero_date_that_may_not_be_null_is_the_epoch() -> None:
    for kind, text in ((t.Date(), "0"), (t.DateTime(6), "0"), (t.Timestamp(0), '"1970-01-01T00:00:00Z"')):
        assert texts(kind, [None], nullable=False) == [text]
        assert texts(kind, [None]) == ["null"]


def test_moments_before_the_epoch_are_rounded_down() -> None:
    values: list[object] = [-1, -1_000, -1_001, 1_999]
    assert texts(t.DateTime(3), values) == ["-1", "-1", "-2", "1"]


def test_a_moment_beyond_the_nanoseconds_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        texts(t.DateTime(6), [10**17], Handling(time=TimePrecision.NANOSECONDS))


def test_geometries_have_their_srid() -> None:
    values: list[object] = [struct.pack("<I", 4326) + b"abc", struct.pack("<I", 0) + b"", None]
    assert texts(t.Geometry(), values) == ['{"wkb":"YWJj","srid":4326}', '{"wkb":"","srid":null}', "null"]


def test_a_geometry_of_zero_bytes_has_no_srid_and_takes_no_others() -> None:
    other = struct.pack("<I", 4326) + b"abc"
    assert texts(t.Geometry(), [b"", other, b""]) == [
        '{"wkb":"","srid":null}', '{"wkb":"YWJj","srid":4326}', '{"wkb":"","srid":null}',
    ]  # fmt: skip


def test_vectors_are_arrays_of_floats() -> None:
    assert texts(t.Vector(), [[1, 2.5, -3e-10], [], None]) == ["[1.0,2.5,-3.0E-10]", "[]", "null"]


def test_unsigned_bigints_wrap_as_debeziums_do() -> None:
    values: list[object] = [Number(2**64 - 1), Number(2**63 - 1), Number(0), None]
    assert texts(t.Integer(8, unsigned=True), values) == ["-1", str(2**63 - 1), "0", "null"]


def test_objects_have_their_columns_in_order() -> None:
    columns = [
        Column("b", t.Integer(4, unsigned=False), nullable=True),
        Column('a"', t.Text("utf8mb4"), nullable=True),
    ]
    rows = pa.record_batch({'a"': ["x", None], "b": pa.array([1, None], pa.int32())})
    assert json_objects(columns, rows, PLAIN).to_pylist() == ['{"b":1,"a\\"":"x"}', '{"b":null,"a\\"":null}']
    assert json_objects([], rows, PLAIN).to_pylist() == ["{}", "{}"]
    assert math.isclose(json.loads(json_objects(columns, rows, PLAIN)[0].as_py())["b"], 1)


def test_a_time_at_the_end_of_a_day_is_the_next_ones_midnight_in_iso() -> None:
    day_us = 86_400_000_000
    times: list[object] = [0, day_us - 1, day_us, day_us + 1, -1]
    assert texts(t.Time(6), times, Handling(time=TimePrecision.ISOSTRING)) == [
        '"00:00:00Z"', '"23:59:59.999999Z"', '"00:00:00Z"', "null", "null",
    ]  # fmt: skip
