"""Row packets into columns: framing at any cut, and every type's text at its edges.

The packets here are made by hand; that the server's are the same is for the integration test.
"""

import datetime as dt
import decimal
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvariantBroken, Transient
from pipeline.resultset import RowPackets, decode, key
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
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

LARGEST = 0xFFFFFF
EOF = b"\xfe\x00\x00\x02\x00"
Row = list[bytes | None]


def lenenc(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    if size < 1 << 16:
        return b"\xfc" + struct.pack("<H", size) + value
    if size < 1 << 24:
        return b"\xfd" + struct.pack("<I", size)[:3] + value
    return b"\xfe" + struct.pack("<Q", size) + value


def packets(payloads: list[bytes], sequence: int = 5) -> bytes:
    out = bytearray()
    for whole in payloads:
        left = whole
        while True:
            piece, left = left[:LARGEST], left[LARGEST:]
            out += struct.pack("<I", len(piece))[:3] + bytes([sequence % 256]) + piece
            sequence += 1
            if len(piece) < LARGEST:
                break
    return bytes(out)


def result(rows: list[Row], end: bytes = EOF) -> bytes:
    return packets([*(b"".join(map(lenenc, row)) for row in rows), end])


def fed(stream: bytes, cuts: list[int] | None = None) -> RowPackets:
    taken = RowPackets(5)
    places = [0, *sorted(cuts or []), len(stream)]
    for begin, end in pairwise(places):
        taken.feed(stream[begin:end])
    return taken


def values(taken: RowPackets, columns: int) -> list[Row]:
    cells = taken.cells(columns)
    return [
        [None if cells.lengths[c, r] < 0 else cells.text(c, r) for c in range(columns)]
        for r in range(taken.rows)
    ]


def one_column(kind: ColumnType, texts: Row) -> pa.Array:
    schema = TableSchema(TableId("shop", "orders"), (Column("x", kind, nullable=True),), ())
    batch = decode(schema, fed(result([[text] for text in texts])).cells(1))
    batch.validate(full=True)
    assert batch.schema == schema.arrow
    return batch.column(0)


cell = st.none() | st.binary(max_size=4) | st.integers(249, 253).map(bytes) | st.just(bytes(70_000))


@given(st.lists(st.lists(cell, min_size=3, max_size=3), max_size=300), st.data())
def test_rows_come_out_as_they_went_in_wherever_the_stream_is_cut(
    rows: list[Row], data: st.DataObject
) -> None:
    stream = result(rows)
    taken = fed(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    assert taken.ended
    assert taken.rows == len(rows)
    assert taken.tail[4:] == EOF
    assert values(taken, 3) == rows


def test_the_end_is_seen_only_when_it_is_whole() -> None:
    stream = result([[b"x"]])
    taken = RowPackets(5)
    for i in range(len(stream)):
        assert not taken.ended
        taken.feed(stream[i : i + 1])
    assert taken.ended


@pytest.mark.parametrize("beyond", [-6, -5, -4, 0, LARGEST])
def test_rows_of_several_packets(beyond: int) -> None:
    # With its prefix of 4 or 9 bytes, the first value ends before, at, and behind the first packet's end.
    rows: list[Row] = [
        [bytes(LARGEST + beyond), b"a"],
        [None, b"b"],
        [b"", bytes(LARGEST) + b"c"],
        [b"d", b"e"],
    ]
    assert values(fed(result(rows), [1_000_000, LARGEST + 2, LARGEST + 5]), 2) == rows


def test_an_error_in_the_midst_of_the_rows_ends_them() -> None:
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    taken = fed(result([[b"x"], [b"y"]], end=error))
    assert taken.ended
    assert taken.rows == 2
    assert taken.tail[4:] == error


def test_a_first_value_that_begins_like_an_end_is_a_row() -> None:
    rows: list[Row] = [[bytes(LARGEST + 1)]]
    assert result(rows)[4:5] == b"\xfe"
    assert values(fed(result(rows)), 1) == rows


def test_a_packet_out_of_sequence_is_a_lost_connection() -> None:
    stream = bytearray(result([[b"x"], [b"y"]]))
    stream[9] = 0
    with pytest.raises(Transient, match="out of sequence"):
        fed(bytes(stream))


def test_sequence_numbers_wrap() -> None:
    rows: list[Row] = [[b"%d" % i] for i in range(1000)]
    assert values(fed(result(rows)), 1) == rows


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x01", b"\x01a", b"\x01a\x01bc", b"\x01a\xfc\x05", b"\x01a\xfe" + b"\xff" * 8, b"\x01a\x09"],
)
def test_a_row_that_is_not_whole_is_never_read(payload: bytes) -> None:
    taken = fed(packets([b"\x01a\x01b", payload, EOF]))
    with pytest.raises(InvariantBroken, match=r"row \d of a result set doesn't have 2 whole values"):
        taken.cells(2)


INTEGERS = [
    (1, False, pa.int8()),
    (1, True, pa.int16()),
    (2, False, pa.int16()),
    (2, True, pa.int32()),
    (3, False, pa.int32()),
    (3, True, pa.int32()),
    (4, False, pa.int32()),
    (4, True, pa.int64()),
    (8, False, pa.int64()),
    (8, True, pa.decimal128(20, 0)),
]


@pytest.mark.parametrize(("size", "unsigned", "arrow"), INTEGERS)
def test_integers(size: int, unsigned: bool, arrow: pa.DataType) -> None:
    bits = 8 * size
    least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    found = one_column(Integer(size, unsigned), [b"%d" % least, None, b"%d" % most, b"000", b"7"])
    assert found.type == arrow
    assert found.to_pylist() == [least, None, most, 0, 7]


@given(st.integers(0, 30), st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=20))
def test_decimals(scale: int, numbers: list[int | None]) -> None:
    def text(number: int | None) -> bytes | None:
        if number is None:
            return None
        digits = str(abs(number)).rjust(scale + 1, "0")
        point = len(digits) - scale
        return f"{'-' if number < 0 else ''}{digits[:point]}{'.' if scale else ''}{digits[point:]}".encode()

    found = one_column(Decimal(38, scale), [text(number) for number in numbers])
    expected = [
        None if n is None else decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
        for n in numbers
    ]
    assert found.to_pylist() == expected


def test_decimals_beyond_38_digits_stay_text() -> None:
    text = b"-" + b"9" * 35 + b"." + b"9" * 30
    assert one_column(Decimal(65, 30), [text, None]).to_pylist() == [text.decode(), None]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=20))
def test_doubles_are_exact(numbers: list[float | None]) -> None:
    found = one_column(Double(), [None if n is None else repr(n).encode() for n in numbers])
    assert list(map(repr, found.to_pylist())) == list(map(repr, numbers))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=20))
def test_floats_are_exact(numbers: list[float]) -> None:
    found = one_column(Float(), [repr(n).encode() for n in numbers])
    assert found.to_numpy(zero_copy_only=False).tobytes() == np.array(numbers, np.float32).tobytes()


def test_dates_and_those_that_no_calendar_has() -> None:
    texts: Row = [b"1000-01-01", b"9999-12-31", b"1970-01-01", b"2024-02-29", None, b"0000-01-01"]
    found = one_column(
        Date(), [*texts, b"0000-00-00", b"2024-00-00", b"2024-05-00", b"2023-02-29", b"2024-04-31"]
    )
    days = found.cast(pa.int32()).to_pylist()
    epoch = dt.date(1970, 1, 1)
    assert days[:2] == [(dt.date(1000, 1, 1) - epoch).days, (dt.date(9999, 12, 31) - epoch).days]
    assert days[2:6] == [0, (dt.date(2024, 2, 29) - epoch).days, None, -719528]
    assert days[6:] == [None] * 5


@pytest.mark.parametrize(("kind", "zone"), [(DateTime(6), None), (Timestamp(6), dt.UTC)])
def test_datetimes(kind: ColumnType, zone: dt.tzinfo | None) -> None:
    texts: Row = [b"2024-02-29 23:59:59", b"2024-02-29 23:59:59.9", b"1969-12-31 23:59:59.999999", None]
    found = one_column(kind, [*texts, b"0000-00-00 00:00:00", b"2024-02-00 01:02:03.000000"])
    assert found.to_pylist() == [
        dt.datetime(2024, 2, 29, 23, 59, 59, tzinfo=zone),
        dt.datetime(2024, 2, 29, 23, 59, 59, 900_000, tzinfo=zone),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        (b"00:00:00", 0),
        (b"-00:00:00.000001", -1),
        (b"01:02:03.5", 3_723_500_000),
        (b"838:59:59", 3_020_399_000_000),
        (b"-838:59:59.000000", -3_020_399_000_000),
        (None, None),
    ],
)
def test_times(text: bytes | None, microseconds: int | None) -> None:
    assert one_column(Time(6), [text]).to_pylist() == [microseconds]


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        (Year(), [b"0000", b"1901", b"2155", None], [0, 1901, 2155, None]),
        (Bit(1), [b"\x00", b"\x01", None], [False, True, None]),
        (Bit(10), [b"\x03\xff", None], [b"\x03\xff", None]),
        (Text("latin1"), ["ü€😀".encode(), b"", None], ["ü€😀", "", None]),
        (FixedBinary(3), [b"a\0\0", None], [b"a\0\0", None]),
        (Binary(), [b"", b"\xff", None], [b"", b"\xff", None]),
        (Enum(("a",)), [b"a", b"", None], ["a", "", None]),
        (Set(("a", "b")), [b"a,b", b"", None], ["a,b", "", None]),
        (Json(), [b'{"a": [1.0, null]}', None], ['{"a": [1.0, null]}', None]),
        (Geometry(), [b"\0\0\0\0\x01", None], [b"\0\0\0\0\x01", None]),
        (Vector(), [struct.pack("<2f", 1, -2.5), None, struct.pack("<f", 3)], [[1, -2.5], None, [3]]),
    ],
)
def test_other_types(kind: ColumnType, texts: Row, expected: list[Any]) -> None:
    assert one_column(kind, texts).to_pylist() == expected


@pytest.mark.parametrize(
    "kind",
    [
        Integer(4, unsigned=False),
        Integer(8, unsigned=True),
        Decimal(9, 2),
        Double(),
        Bit(1),
        Date(),
        Time(0),
        DateTime(0),
        Timestamp(3),
        Text("utf8mb4"),
        Vector(),
    ],
)
def test_no_rows(kind: ColumnType) -> None:
    assert len(one_column(kind, [])) == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Integer(4, unsigned=False), b""),
        (Integer(4, unsigned=False), b"-"),
        (Integer(4, unsigned=False), b"1.5"),
        (Decimal(9, 2), b"1"),
        (Decimal(9, 2), b".25"),
        (Decimal(9, 2), b"1.2x"),
        (Date(), b"2024-13-01"),
        (Date(), b"2024/01/01"),
        (DateTime(0), b"2024-01-01T00:00:00"),
        (DateTime(0), b"2024-01-01 25:00:00"),
        (DateTime(6), b"2024-01-01 05:00:00.1234567"),
        (Time(0), b"1:00:00"),
        (Time(0), b"01:60:00"),
    ],
)
def test_a_text_that_the_type_does_not_have_stops_with_the_columns_name(
    kind: ColumnType, text: bytes
) -> None:
    with pytest.raises(InvariantBroken, match=r"the source printed a value of shop\.orders\.x as b'"):
        one_column(kind, [None, text])


def test_a_key_is_as_it_is_bound_again() -> None:
    kinds: list[ColumnType] = [
        Text("utf8mb4"),
        Integer(8, unsigned=True),
        Binary(),
        Decimal(5, 2),
        DateTime(0),
        Year(),
    ]
    columns = tuple(Column(f"c{i}", kind, nullable=False) for i, kind in enumerate(kinds))
    schema = TableSchema(TableId("d", "t"), columns, (1, 0, 2, 3, 4, 5))
    row: Row = ["ß".encode(), b"18446744073709551615", b"\xff", b"-1.50", b"2024-01-01 00:00:00", b"1999"]
    cells = fed(result([row])).cells(6)
    assert key(schema, cells, 0, schema.key) == (
        2**64 - 1,
        "ß",
        b"\xff",
        "-1.50",
        "2024-01-01 00:00:00",
        1999,
    )
