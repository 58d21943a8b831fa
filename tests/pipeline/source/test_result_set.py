"""Row packets into columns: framing at any cut, and every type's values at its edges.

The packets here are made by hand. The integration test shows that the server's are the same.
"""

import datetime as dt
import decimal
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.schema.row_keys import KeyPart
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.source import result_set
from pipeline.source.result_columns import ResultColumn
from pipeline.source.result_set import ResultRows, RowPackets, decode_rows, row_key
from pipeline.types import column_types as t
from pipeline.types.buffers import SLACK
from pipeline.types.field_types import INTEGERS, FieldType
from pipeline.types.text.charsets import TextError
from tests.fuzz.guarded import Guarded

LARGEST = 0xFFFFFF
EOF = b"\xfe\x00\x00\x02\x00"
Value = bytes | None
Row = list[Value]
BLOB = ResultColumn(252, 0, 63, 0, 0)


def lenenc(value: bytes) -> bytes:
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    if size < 1 << 16:
        return b"\xfc" + struct.pack("<H", size) + value
    if size < 1 << 24:
        return b"\xfd" + struct.pack("<I", size)[:3] + value
    return b"\xfe" + struct.pack("<Q", size) + value


def payload(row: Row) -> bytes:
    """Returns a row's values as they are sent, after the bits of those that are NULL."""
    bits = sum(1 << column + 2 for column, value in enumerate(row) if value is None)
    return b"\0" + bits.to_bytes((len(row) + 9) // 8, "little") + b"".join(filter(None, row))


def packets(payloads: list[bytes]) -> bytes:
    out, sequence = bytearray(), 5
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
    return packets([*map(payload, rows), end])


def fed(taken: RowPackets, stream: bytes, cuts: list[int] | None = None) -> Iterator[ResultRows]:
    """The rows that come out while the stream goes in, in pieces that are cut there, or smaller ones."""
    for begin, end in pairwise([0, *sorted(cuts or []), len(stream)]):
        left = memoryview(stream)[begin:end]
        while left:
            if taken.full and (rows := taken.take()):
                yield rows
            room = taken.room()
            size = min(len(left), len(room))
            room[:size] = left[:size]
            left = left[size:]
            taken.filled(size)
    if rows := taken.take():
        yield rows


def values(rows: Iterable[ResultRows], columns: int) -> list[Row]:
    """All rows of a result of so many BLOBs."""
    return [
        [None if located.cells[c, r] < 0 else located.value(c, r) for c in range(columns)]
        for located in (some.located([BLOB] * columns) for some in rows)
        for r in range(located.cells.shape[1])
    ]


def as_sent(rows: list[Row]) -> list[Row]:
    return [[None if value is None else lenenc(value) for value in row] for row in rows]


TOLD = {
    t.Float: FieldType.FLOAT,
    t.Double: FieldType.DOUBLE,
    t.Year: FieldType.YEAR,
    t.Date: FieldType.DATE,
    t.Time: FieldType.TIME,
    t.DateTime: FieldType.DATETIME,
    t.Timestamp: FieldType.TIMESTAMP,
}


def told(kind: t.ColumnType) -> ResultColumn:
    """The definition of a column as far as it's looked at: its code, and utf8mb4 where it's text."""
    code = INTEGERS[kind.bytes] if isinstance(kind, t.Integer) else TOLD.get(type(kind), FieldType.BLOB)
    collations = {"latin1": 8, "utf8mb4": 255}
    return ResultColumn(code, 0, collations[kind.charset] if isinstance(kind, t.Text) else 255, 0, 0)


def one_column(kind: t.ColumnType, sent: Row) -> pa.Array:
    schema = TableSchema(TableId("shop", "orders"), (Column("x", kind, nullable=True),), ())
    [rows] = fed(RowPackets(5), result([[value] for value in sent]))
    batch = decode_rows(schema, rows.located([told(kind)]))
    batch.validate(full=True)
    assert batch.schema == schema.arrow
    return batch.column(0)


cell = st.none() | st.binary(max_size=4) | st.integers(249, 253).map(bytes) | st.just(bytes(70_000))


@given(st.lists(st.lists(cell, min_size=3, max_size=3), max_size=300), st.data())
def test_rows_come_out_as_they_went_in_wherever_the_stream_is_cut(
    rows: list[Row], data: st.DataObject
) -> None:
    stream = result(as_sent(rows))
    taken = RowPackets(5)
    assert values(fed(taken, stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8))), 3) == rows
    assert taken.ended
    assert taken.tail == EOF


def test_the_end_is_seen_only_when_it_is_whole() -> None:
    stream = result([[b"\1x"]])
    taken = RowPackets(5)
    for i in range(len(stream)):
        assert not taken.ended
        assert values(fed(taken, stream[i : i + 1]), 1) == ([[b"x"]] if i == 7 else [])
    assert taken.ended


@pytest.mark.parametrize("beyond", [-9, -8, -6, -5, -4, 0, LARGEST])
def test_rows_of_several_packets(beyond: int) -> None:
    # With the bytes before it, the first value ends before, at, and after the first packet's end.
    rows: list[Row] = [
        [bytes(LARGEST + beyond), b"a"],
        [None, b"b"],
        [b"", bytes(LARGEST) + b"c"],
        [b"d", b"e"],
    ]
    stream = result(as_sent(rows))
    assert values(fed(RowPackets(5), stream, [1_000_000, LARGEST + 2, LARGEST + 5]), 2) == rows


def test_an_error_in_the_midst_of_the_rows_ends_them() -> None:
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    taken = RowPackets(5)
    assert values(fed(taken, result([[b"\1x"], [b"\1y"]], end=error)), 1) == [[b"x"], [b"y"]]
    assert taken.ended
    assert taken.tail == error


def test_a_buffer_grows_for_a_large_row_only_and_no_further_than_to_its_end() -> None:
    small, large = as_sent([[bytes(1000)]])[0], as_sent([[bytes(10_000_000)]])[0]
    stream = result([*[small] * 5000, large, *[small] * 5000])
    taken = list(fed(RowPackets(5), stream, list(range(0, len(stream), 100_000))))
    assert sorted(len(rows.buffer) for rows in taken)[-2:] == [1 << 22, 1 << 24]
    assert max(rows.end for rows in taken) < 11_500_000


def test_a_packet_out_of_sequence_is_a_lost_connection() -> None:
    stream = bytearray(result([[b"\1x"], [b"\1y"]]))
    stream[11] = 0
    with pytest.raises(Transient, match="out of sequence"):
        list(fed(RowPackets(5), bytes(stream)))


def test_sequence_numbers_wrap() -> None:
    rows: list[Row] = [[b"%d" % i] for i in range(1000)]
    assert values(fed(RowPackets(5), result(as_sent(rows))), 1) == rows


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\x01a",
        b"\1\0\x01a\x01b",
        b"\0\0\x01a\x01bc",
        b"\0\0\x01a\xfc\x05",
        b"\0\0\x01a\xfe" + b"\xff" * 8,
        b"\0\0\x01a\xfb",
        b"\0\0\x01a\xff\x01" + bytes(7) + b"b",
        b"\0\0\x01a\x09",
        b"\0\x08\x01a\x01b",
        b"\xfe" + bytes(8),  # too long for an EOF packet
    ],
)
def test_a_row_that_is_not_whole_is_never_read(broken: bytes) -> None:
    [rows] = fed(RowPackets(5), packets([payload([b"\x01a", b"\x01b"]), broken, EOF]))
    with pytest.raises(InvariantBroken, match=r"row \d of a result set doesn't have 2 whole values"):
        rows.located([BLOB, BLOB])


@pytest.mark.parametrize("length", [b"\2", b"\xfc\2\0", b"\xfd\2\0\0", b"\xfe\2" + bytes(7)])
def test_each_form_of_a_length(length: bytes) -> None:
    assert values(fed(RowPackets(5), result([[length + b"xy", b"\1z"]])), 2) == [[b"xy", b"z"]]


@pytest.mark.parametrize("columns", [1, 5, 6, 7, 13, 14, 15])
def test_bits_of_nulls_begin_with_the_third(columns: int) -> None:
    rows: list[Row] = [[None if null == c else b"%d" % c for c in range(columns)] for null in range(columns)]
    assert values(fed(RowPackets(5), result(as_sent(rows))), columns) == rows


@pytest.mark.parametrize("first", [0xFE, 0xFF])
def test_a_packet_that_goes_on_with_a_row_is_neither_eof_nor_err(first: int) -> None:
    # Before the value are the row's first byte, its bitmap, and a length of 4 bytes.
    rows: list[Row] = [[bytes(LARGEST - 6) + bytes([first, 1, 2])], [b"a"]]
    assert values(fed(RowPackets(5), result(as_sent(rows))), 1) == rows


def test_a_row_that_no_buffer_holds_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of 8 MiB stands for 2 GiB."""
    monkeypatch.setattr(result_set, "LARGEST_ROW", 1 << 23)
    rows = as_sent([[bytes(8_000_000)]])
    assert [some.number for some in fed(RowPackets(5), result(rows))] == [1]
    with pytest.raises(Definite, match="more than 2 GiB"):
        list(fed(RowPackets(5), result(as_sent([[bytes(9_000_000)]]))))


INTEGER_TYPES = [
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


@pytest.mark.parametrize(("size", "unsigned", "arrow"), INTEGER_TYPES)
def test_integers(size: int, unsigned: bool, arrow: pa.DataType) -> None:
    bits = 8 * size
    least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    width = 4 if size == 3 else size
    sent: Row = [i.to_bytes(width, "little", signed=not unsigned) for i in (least, most, 0, 7)]
    found = one_column(t.Integer(size, unsigned), [None, *sent])
    assert found.type == arrow
    assert found.to_pylist() == [None, least, most, 0, 7]


@given(
    st.integers(0, 30), st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20)
)
def test_decimals(scale: int, numbers: list[int | None]) -> None:
    def sent(number: int | None) -> Value:
        if number is None:
            return None
        digits = str(abs(number)).rjust(scale + 1, "0")
        point = len(digits) - scale
        return lenenc(
            f"{'-' if number < 0 else ''}{digits[:point]}{'.' if scale else ''}{digits[point:]}".encode()
        )

    found = one_column(t.Decimal(38, scale), [sent(number) for number in numbers])
    expected = [
        None if n is None else decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
        for n in numbers
    ]
    assert found.to_pylist() == expected


def test_decimals_beyond_38_digits_stay_text() -> None:
    text = b"-" + b"9" * 35 + b"." + b"9" * 30
    assert one_column(t.Decimal(65, 30), [lenenc(text), None]).to_pylist() == [text.decode(), None]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1, max_size=20))
def test_doubles_are_exact(numbers: list[float | None]) -> None:
    found = one_column(t.Double(), [None if n is None else struct.pack("<d", n) for n in numbers])
    assert list(map(repr, found.to_pylist())) == list(map(repr, numbers))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20))
def test_floats_are_exact(numbers: list[float]) -> None:
    found = one_column(t.Float(), [struct.pack("<f", n) for n in numbers])
    assert found.to_numpy(zero_copy_only=False).tobytes() == np.array(numbers, np.float32).tobytes()


def date(year: int, month: int, day: int, *time: int) -> bytes:
    """A date, with its time in hour, minute, second and microsecond as far as it isn't zero."""
    return lenenc(struct.pack("<HBB", year, month, day) + struct.pack("<BBBI"[: 1 + len(time)], *time))


def time(negative: bool, days: int, *clock: int) -> bytes:
    return lenenc(struct.pack("<?I", negative, days) + struct.pack("<BBBI"[: 1 + len(clock)], *clock))


def test_dates_and_those_that_no_calendar_has() -> None:
    sent: Row = [date(1000, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(2024, 2, 29), None]
    never: Row = [b"\0", date(2024, 0, 0), date(2024, 5, 0), date(2023, 2, 29), date(2024, 4, 31)]
    days = one_column(t.Date(), [*sent, date(0, 1, 1), *never]).cast(pa.int32()).to_pylist()
    epoch = dt.date(1970, 1, 1)
    assert days[:2] == [(dt.date(1000, 1, 1) - epoch).days, (dt.date(9999, 12, 31) - epoch).days]
    assert days[2:6] == [0, (dt.date(2024, 2, 29) - epoch).days, None, -719528]
    assert days[6:] == [None] * 5


@pytest.mark.parametrize(("kind", "zone"), [(t.DateTime(6), None), (t.Timestamp(6), dt.UTC)])
def test_datetimes(kind: t.ColumnType, zone: dt.tzinfo | None) -> None:
    sent: Row = [
        date(2024, 2, 29),
        date(2024, 2, 29, 23, 59, 59),
        date(2024, 2, 29, 23, 59, 59, 900_000),
        date(1969, 12, 31, 23, 59, 59, 999_999),
    ]
    found = one_column(kind, [*sent, None, b"\0", date(2024, 2, 0, 1, 2, 3, 0)])
    assert found.to_pylist() == [
        dt.datetime(2024, 2, 29, tzinfo=zone),
        dt.datetime(2024, 2, 29, 23, 59, 59, tzinfo=zone),
        dt.datetime(2024, 2, 29, 23, 59, 59, 900_000, tzinfo=zone),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("sent", "microseconds"),
    [
        (b"\0", 0),
        (time(True, 0, 0, 0, 0, 1), -1),
        (time(False, 0, 1, 2, 3, 500_000), 3_723_500_000),
        (time(False, 34, 22, 59, 59), 3_020_399_000_000),
        (time(True, 34, 22, 59, 59, 0), -3_020_399_000_000),
        (None, None),
    ],
)
def test_times(sent: Value, microseconds: int | None) -> None:
    assert one_column(t.Time(6), [sent]).to_pylist() == [microseconds]


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        (
            t.Decimal(50, 2),
            [b"0000.50", b"0000.00", b"0012.50", b"-0.50", None],
            ["0.50", "0.00", "12.50", "-0.50", None],
        ),
        (t.Decimal(50, 0), [b"000", b"0100", b"7", None], ["0", "100", "7", None]),
        (t.Bit(1), [b"\x00", b"\x01", None], [False, True, None]),
        (t.Bit(10), [b"\x03\xff", None], [b"\x03\xff", None]),
        (t.Text("latin1"), ["ü€".encode("cp1252"), b"", None], ["ü€", "", None]),
        (t.Text("utf8mb4"), ["ü€😀".encode(), b"", None], ["ü€😀", "", None]),
        (t.FixedBinary(3), [b"a\0\0", None], [b"a\0\0", None]),
        (t.Binary(), [b"", b"\xff", None], [b"", b"\xff", None]),
        (t.Enum(("a",)), [b"a", b"", None], ["a", "", None]),
        (t.Set(("a", "b")), [b"a,b", b"", None], ["a,b", "", None]),
        (t.Json(), [b'{"a": [1.0, null]}', None], ['{"a": [1.0, null]}', None]),
        (t.Geometry(), [b"\0\0\0\0\x01", None], [b"\0\0\0\0\x01", None]),
        (t.Vector(), [struct.pack("<2f", 1, -2.5), None, struct.pack("<f", 3)], [[1, -2.5], None, [3]]),
    ],
)
def test_other_types(kind: t.ColumnType, texts: Row, expected: list[Any]) -> None:
    assert (
        one_column(kind, [None if text is None else lenenc(text) for text in texts]).to_pylist() == expected
    )


def test_years() -> None:
    sent: Row = [struct.pack("<H", year) for year in (0, 1901, 2155)]
    assert one_column(t.Year(), [*sent, None]).to_pylist() == [0, 1901, 2155, None]


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (t.Decimal(9, 2), lenenc(b"1")),
        (t.Decimal(9, 2), lenenc(b".25")),
        (t.Decimal(9, 2), lenenc(b"1.2x")),
        (t.Decimal(9, 0), lenenc(b"")),
        (t.Decimal(9, 0), lenenc(b"-")),
        (t.Date(), date(2024, 13, 1)),
        (t.Date(), date(10_000, 1, 1)),
        (t.Date(), date(2024, 1, 1, 0, 0, 0)),
        (t.Date(), lenenc(b"\1")),
        (t.DateTime(0), date(2024, 1, 32)),
        (t.DateTime(0), date(2024, 1, 1, 25, 0, 0)),
        (t.DateTime(6), date(2024, 1, 1, 5, 0, 0, 1_000_000)),
        (t.DateTime(0), date(2024, 1, 1, 5)),
        (t.DateTime(0), lenenc(bytes(300))),
        (t.Time(0), time(False, 0, 1)),
        (t.DateTime(0), date(2024, 1, 1, 5, 60, 0)),
        (t.DateTime(0), date(2024, 1, 1, 5, 0, 60)),
        (t.DateTime(0), date(2024, 1, 1, 24, 0, 0)),
        (t.Date(), date(2024, 1, 32)),
        (t.Time(0), time(False, 0, 24, 0, 0)),
        (t.Time(0), time(False, 0, 1, 0, 60)),
        *[(t.Time(0), lenenc(bytes(size))) for size in (1, 7, 9, 10, 11, 13)],
        *[(t.DateTime(0), lenenc(bytes(size))) for size in (1, 3, 5, 6, 8, 10, 12)],
        (t.Time(0), time(False, 0, 1, 60, 0)),
        (t.Time(0), time(False, 35, 0, 0, 0)),
        (t.Time(0), b"\x08\x02" + bytes(7)),
    ],
)
def test_a_value_that_the_type_does_not_have_stops_with_the_columns_name(
    kind: t.ColumnType, sent: bytes
) -> None:
    with pytest.raises(
        Definite, match=r"the source gave a value of shop\.orders\.x that isn't of the column's type"
    ):
        one_column(kind, [None, sent])


def test_text_of_another_character_set_stops_with_the_columns_name() -> None:
    with pytest.raises(TextError, match=r"shop\.orders\.x"):
        one_column(t.Text("utf8mb4"), [lenenc(b"\xff")])


def test_a_key_is_as_it_is_bound_again() -> None:
    kinds: dict[t.ColumnType, tuple[bytes, KeyPart]] = {
        t.Text("latin1"): (lenenc(b"\xdf"), "ß"),
        t.Integer(8, unsigned=True): (b"\xff" * 8, 2**64 - 1),
        t.Integer(3, unsigned=False): (b"\xfe\xff\xff\xff", -2),
        t.Binary(): (lenenc(b"\xff"), b"\xff"),
        t.Decimal(5, 2): (lenenc(b"-1.50"), "-1.50"),
        t.Year(): (struct.pack("<H", 1999), 1999),
        t.Bit(9): (lenenc(b"\x01\x02"), 258),
        t.Float(): (struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        t.Double(): (struct.pack("<d", 0.1), 0.1),
        t.Date(): (date(2024, 0, 0), "2024-00-00"),
        t.DateTime(0): (date(2024, 1, 1), "2024-01-01 00:00:00"),
        t.DateTime(3): (date(2024, 1, 1, 2, 3, 4, 5000), "2024-01-01 02:03:04.005"),
        t.Timestamp(6): (date(2024, 1, 1, 2, 3, 4), "2024-01-01 02:03:04.000000"),
        t.Time(0): (time(True, 34, 22, 59, 59), "-838:59:59"),
        t.Time(2): (b"\0", "00:00:00.00"),
    }
    order = (1, 0, *range(2, len(kinds)))
    [rows] = fed(RowPackets(5), result([[sent for sent, _ in kinds.values()]]))
    bound = [part for _, part in kinds.values()]
    located = rows.located([told(kind) for kind in kinds])
    found = row_key(located, 0, [(list(kinds)[i], i) for i in order])
    assert found == tuple(bound[i] for i in order)


SOUND: dict[t.ColumnType, bytes] = {
    t.Integer(8, unsigned=True): b"\xff" * 8,
    t.Integer(4, unsigned=False): b"\xfe\xff\xff\xff",
    t.Double(): struct.pack("<d", 0.1),
    t.Float(): struct.pack("<f", 0.1),
    t.Decimal(20, 2): lenenc(b"-123456789012345678.50"),
    t.Date(): date(2024, 2, 29),
    t.DateTime(3): date(2024, 2, 29, 23, 59, 59, 999_000),
    t.Time(6): time(True, 34, 22, 59, 59, 1),
    t.Text("latin1"): lenenc(b"\xdf" * 300),
    t.Json(): lenenc('[1, "ß"]'.encode()),
    t.Vector(): lenenc(struct.pack("<2f", 1, 2)),
    t.Bit(1): b"\1\1",
}


def damaged(stream: bytes, random: Random) -> bytes:
    """The stream with a few bytes changed, taken away or put in, or without its end."""
    out = bytearray(stream)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out))
        match random.randrange(5):
            case 0:
                out[at] ^= 1 << random.randrange(8)
            case 1:
                out[at] = random.choice((0, 1, 250, 251, 252, 253, 254, 255))
            case 2:
                del out[max(at, 1) : at + random.randint(1, 8)]
            case 3:
                out[at:at] = random.randbytes(random.randint(1, 8))
            case _:
                del out[max(at, 1) :]
    return bytes(out)


def test_damaged_packets_end_in_an_error_of_ours_or_in_valid_columns() -> None:
    random, memory = Random(0), Guarded(1 << 16)
    columns = tuple(Column(f"c{i}", kind, nullable=True) for i, kind in enumerate(SOUND))
    schema = TableSchema(TableId("d", "t"), columns, ())
    row: Row = list(SOUND.values())
    stream = result([row, [None] * len(row), row])
    ends: Counter[str] = Counter()
    for _ in range(20_000):
        taken = RowPackets(5)
        try:
            for rows in fed(taken, damaged(stream, random), [random.randrange(20)]):
                # A page without access follows this memory.
                exactly = memory.holding(rows.buffer[: rows.end].tobytes(), b"\xff" * SLACK)
                batch = decode_rows(
                    schema, rows._replace(buffer=exactly).located([told(kind) for kind in SOUND])
                )
                batch.validate(full=True)
            ends["ended" if taken.ended else "cut short"] += 1
        except (Transient, Definite, InvariantBroken) as error:
            ends[type(error).__name__] += 1
    assert set(ends) == {"ended", "cut short", "Transient", "TextError", "Definite", "InvariantBroken"}
