"""Row images into columns: an event that MySQL 9.7 logged, encoders of the stored forms, and damaged bytes."""

import random
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.binlog.rows import cells, columns, row_events
from pipeline.binlog.rows import stored_values as stored
from pipeline.binlog.rows.json import document as json
from pipeline.binlog.rows.row_events import (
    OrderedImages,
    RowsEvents,
    images_of_events,
    images_of_tables,
    locate_images,
)
from pipeline.errors import InvariantBroken, UndecodableError
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableImages, TableUnreadable
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types import column_types as t
from pipeline.types import packed_decimal as stored_decimals
from pipeline.types import value_kernels
from pipeline.types.buffers import SLACK
from pipeline.types.field_types import FieldType, Storage, stored_width
from pipeline.types.text.charsets import TextError
from tests.pipeline.binlog.rows_events import Body, images, located, located_together

WIDE = Context(prec=65)
WRITE, UPDATE, DELETE = 30, 31, 32
WRITE_V1, UPDATE_V1, DELETE_V1 = 23, 24, 25
PARTLY = 39

INT = (t.Integer(4, unsigned=False), Storage(FieldType.LONG, 0))
VARCHAR = (t.Text("utf8mb4"), Storage(FieldType.VARCHAR, 80))

# CREATE TABLE t (id INT, a TINYINT, b SMALLINT UNSIGNED, … z CHAR(20) CHARSET latin1), and the event of
# INSERT INTO t VALUES (1, -1, 65535, …), (2, NULL, …).
LOGGED: list[tuple[t.ColumnType, Storage, Any]] = [
    (*INT, 1),
    (t.Integer(1, unsigned=False), Storage(1, 0), -1),
    (t.Integer(2, unsigned=True), Storage(2, 0), 65535),
    (t.Integer(3, unsigned=False), Storage(9, 0), -8388608),
    (t.Integer(8, unsigned=True), Storage(8, 0), Number(2**64 - 1)),
    (t.Decimal(10, 2), Storage(246, 522), Number("-12.34")),
    (t.Decimal(65, 30), Storage(246, 7745), "-1.500000000000000000000000000000"),
    (*VARCHAR, "abc"),
    (t.Text("utf8mb4"), Storage(15, 1200), "dé"),
    (t.Text("utf8mb4"), Storage(252, 2), "text"),
    (t.FixedBinary(5), Storage(254, 1534), b"\x01\x02\x00\x00\x00"),
    (t.Enum(("x", "y")), Storage(254, 503), 2),
    (t.Set(("p", "q")), Storage(254, 504), 3),
    (t.DateTime(3), Storage(18, 3), datetime(2020, 2, 29, 1, 2, 3, 456000)),  # noqa: DTZ001 - it has no zone
    (t.Timestamp(6), Storage(17, 6), datetime(2021, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    (t.Time(1), Storage(19, 1), -((838 * 60 + 59) * 60 + 58) * 1_000_000 - 900_000),
    (t.Date(), Storage(10, 0), date(1999, 12, 31)),
    (t.Json(), Storage(245, 4), '{"a": [1, 2.5, null, "x"]}'),
    (t.Bit(1), Storage(16, 1), True),
    (t.Bit(17), Storage(16, 513), b"\x01\x00\x01"),
    (t.Year(), Storage(13, 0), 2024),
    (t.Float(), Storage(4, 4), 1.5),
    (t.Double(), Storage(5, 8), -2.5),
    (t.Vector(), Storage(242, 4), [1.0, 2.0, 3.0]),
    (t.Geometry(), Storage(255, 4), struct.pack("<IBIdd", 0, 1, 1, 1, 2)),
    (t.Text("latin1"), Storage(254, 5374), "zé"),
]
LOGGED_BODY = bytes.fromhex(
    "7a0000000000110002001affffffff0000000001000000ffffff000080ffffffffffffffff7ffffff3dd7fffffffffffffffffff"
    "fffffffffffee2329affffffffffffffffffffff03616263030064c3a9040074657874020102020399a5ba108311d05fee660001"
    "e2404b9105a69f9f0f2700000000010026000b000100020c006104001a000501000b10000400000c180000000000000004400178"
    "010100017c0000c03f00000000000004c00c0000000000803f000000400000404019000000000000000101000000000000000000"
    "f03f0000000000000040027ae9feffff0302000000"
)


def table_map(*described: tuple[t.ColumnType, Storage]) -> TableMap:
    return TableMap(
        TableId("shop", "t"),
        tuple(column for column, _ in described),
        tuple(storage for _, storage in described),
        (True,) * len(described),
        MinimalMetadata(),
    )


LOGGED_MAP = table_map(*((column, storage) for column, storage, _ in LOGGED))


def bitmap(bits: Sequence[bool]) -> bytes:
    return np.packbits(np.array(bits, np.bool_), bitorder="little").tobytes()


def image(*cells: bytes | None) -> bytes:
    return bitmap([cell is None for cell in cells]) + b"".join(cell or b"" for cell in cells)


def body(code: int, count: int, *images: bytes, extra: bytes = b"", present: bytes | None = None) -> bytes:
    head = bytes(8) + (struct.pack("<H", 2 + len(extra)) + extra if code >= WRITE else b"")
    number = bytes([count]) if count < 251 else b"\xfc" + struct.pack("<H", count)
    bitmaps = (
        present if present is not None else bitmap([True] * count) * (2 if code in (UPDATE, UPDATE_V1) else 1)
    )
    return head + number + bitmaps + b"".join(images)


def column_of(column: t.ColumnType, storage: Storage, *cells: bytes | None) -> pa.Array:
    """The decoded column of images of one column."""
    decoded = images(table_map((column, storage)), [Body(body(WRITE, 1, *map(image, cells)), WRITE)]).rows
    decoded.validate(full=True)
    return decoded["0"]


# -- the event of a server


def test_an_event_of_the_server() -> None:
    table = images(LOGGED_MAP, [Body(LOGGED_BODY, WRITE, transaction=3)], first_ordinal=5)
    assert table.images.schema == IMAGE_FIELDS
    assert table.images.drop_columns("source").to_pylist() == [
        {"kind": ImageKind.INSERT, "transaction": 3, "ordinal": 5, "absent": None},
        {"kind": ImageKind.INSERT, "transaction": 3, "ordinal": 6, "absent": None},
    ]
    first, second = table.rows.to_pylist()
    assert first == {str(i): value for i, (_, _, value) in enumerate(LOGGED)}
    assert second == {"0": 2} | {str(i): None for i in range(1, len(LOGGED))}
    assert table.rows.schema.types == [columns.rows_type(column) for column, _, _ in LOGGED]
    assert table.impossible_dates == 0


# -- images


@pytest.mark.parametrize(
    ("storage", "width"),
    [
        (Storage(15, 255), -1),
        (Storage(15, 256), -2),
        (Storage(254, 0xFE | 255 << 8), -1),
        (Storage(254, (0xFE ^ 0x10) | 0 << 8), -2),  # 256
        (Storage(254, (0xFE ^ 0x30) | 252 << 8), -2),  # 1020
        (Storage(246, 38 | 19 << 8), 18),
        (Storage(246, 65 | 30 << 8), 30),
        (Storage(19, 0), 3),
        (Storage(17, 1), 5),
        (Storage(18, 6), 8),
        (Storage(16, 1 | 2 << 8), 3),
    ],
)
def test_widths_of_stored_values(storage: Storage, width: int) -> None:
    assert stored_width(storage) == width


def number(value: int) -> bytes:
    return struct.pack("<i", value)


@pytest.mark.parametrize("codes", [(WRITE, UPDATE, DELETE), (WRITE_V1, UPDATE_V1, DELETE_V1)])
def test_kinds_transactions_and_ordinals_of_many_events(codes: tuple[int, int, int]) -> None:
    write, update, delete = codes
    found = located(
        table_map(INT),
        [
            Body(body(write, 1, image(number(1)), image(number(2))), write, 0),
            Body(body(update, 1, *(image(number(n)) for n in (1, 3, 2, 4))), update, 1),
            Body(body(delete, 1, image(number(3))), delete, 2),
        ],
    )
    assert found.images.tolist() == [2, 4, 1]
    table = images_of_events(found, np.array([0, 7, 0]))
    assert table.rows["0"].to_pylist() == [1, 2, 1, 3, 2, 4, 3]
    assert table.images["kind"].to_pylist() == [0, 0, 1, 2, 1, 2, 3]
    assert table.images["transaction"].to_pylist() == [0, 0, 1, 1, 1, 1, 2]
    assert table.images["ordinal"].to_pylist() == [0, 1, 7, 8, 9, 10, 0]
    assert table.images["absent"].null_count == 7


def test_tables_of_few_images_share_memory_and_each_says_its_part() -> None:
    few = [Body(body(WRITE, len(LOGGED), LOGGED_BODY[15:]), WRITE)]
    tables = [(LOGGED_MAP, few), (table_map(INT), []), (LOGGED_MAP, few * 3)]
    found = [OrderedImages(each, np.arange(len(each.images))) for each in located_together(tables)]
    alone = [images_of_events(*each) for each in found]
    together = images_of_tables(found)
    assert together == alone
    first, _, last = together
    assert isinstance(first, TableImages) and isinstance(last, TableImages)
    assert first.rows["0"].buffers()[1].address == last.rows["0"].buffers()[1].address
    for each in alone:
        held, columns = each.images.nbytes + each.rows.nbytes, each.rows.num_columns + 12
        assert 0 <= held - each.bytes <= columns * (8 + len(each.rows) // 8), "but for the bits of NULLs"


def test_a_value_that_is_none_makes_its_own_table_unreadable_alone() -> None:
    bit = (t.Bit(1), Storage(16, 1))
    tables = [
        (replace(table_map(bit), table=TableId("shop", name)), [Body(body(WRITE, 1, image(value)), WRITE)])
        for name, value in (("a", b"\1"), ("b", b"\7"), ("c", b"\0"))
    ]
    found = [OrderedImages(each, np.zeros(1, np.int64)) for each in located_together(tables)]
    first, second, third = images_of_tables(found)
    assert isinstance(first, TableImages) and isinstance(third, TableImages)
    assert first.rows["0"].to_pylist() + third.rows["0"].to_pylist() == [True, False]
    assert second == TableUnreadable(TableId("shop", "b"), "shop.b.0: a value in the log isn't a BIT(1)")


def test_no_events_give_columns_without_rows() -> None:
    table = images(LOGGED_MAP, [])
    assert (table.images.num_rows, table.rows.num_rows, table.rows.num_columns) == (0, 0, len(LOGGED))


def test_many_events_of_texts_and_nulls() -> None:
    texts = [str(n) * (n % 50) for n in range(5000)]
    kept = [n for n in range(5000) if len(texts[n]) < 256]
    cells = {n: bytes([len(texts[n])]) + texts[n].encode() if n % 3 else None for n in kept}
    bodies = [
        Body(body(WRITE, 2, *(image(number(n), cells[n]) for n in kept if n // 1000 == part)), WRITE)
        for part in range(5)
    ]
    decoded = images(table_map(INT, VARCHAR), bodies).rows
    expected = [(n, texts[n] if n % 3 else None) for n in kept]
    assert list(zip(decoded["0"].to_pylist(), decoded["1"].to_pylist(), strict=True)) == expected


def test_images_of_nothing_but_nulls_find_more_room() -> None:
    """There are more of them than the bytes would hold of any others."""
    bodies = [Body(body(WRITE, 3, *[image(None, None, None)] * 700), WRITE)] * 3
    table = images(table_map(INT, INT, VARCHAR), bodies)
    assert [column.null_count for column in table.rows.columns] == [2100] * 3
    assert table.images["ordinal"].to_pylist() == list(range(2100))


@pytest.mark.parametrize("count", [1, 8, 9, 250, 251, 1000])
def test_any_number_of_columns(count: int) -> None:
    cells = [number(n) if n % 5 else None for n in range(count)]
    event = Body(body(WRITE, count, image(*cells), image(*cells[::-1])), WRITE)
    decoded = images(table_map(*[INT] * count), [event]).rows
    values = [n if n % 5 else None for n in range(count)]
    assert [column.to_pylist() for column in decoded.columns] == [
        list(pair) for pair in zip(values, values[::-1], strict=True)
    ]


def test_extra_row_data_is_passed_over() -> None:
    event = Body(body(WRITE, 1, image(number(9)), extra=b"\x01\x05abc"), WRITE)
    assert images(table_map(INT), [event]).rows["0"].to_pylist() == [9]


# -- values


DECIMALS = st.integers(1, 65).flatmap(
    lambda precision: st.tuples(st.just(precision), st.integers(0, min(precision, 30)))
)


def encode_decimal(unscaled: int, precision: int, scale: int) -> bytes:
    digits = f"{abs(unscaled):0{precision}}"
    out, at = b"", 0
    for size, count in stored_decimals.groups(precision, scale):
        out += int(digits[at : at + count]).to_bytes(size, "big")
        at += count
    out = bytes([out[0] | 0x80]) + out[1:]
    return out if unscaled >= 0 else bytes(byte ^ 0xFF for byte in out)


@given(DECIMALS, st.data())
def test_decimals_of_every_precision_and_scale(shape: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = shape
    numbers = data.draw(st.lists(st.integers(1 - 10**precision, 10**precision - 1), min_size=1, max_size=5))
    cells = [encode_decimal(unscaled, precision, scale) for unscaled in numbers]
    decoded = column_of(
        t.Decimal(precision, scale), Storage(246, precision | scale << 8), *cells, None
    ).to_pylist()
    exact = [Number(unscaled).scaleb(-scale, context=WIDE) for unscaled in numbers]
    assert [None if value is None else Number(value) for value in decoded] == [*exact, None]
    if precision > 38:
        assert decoded[:-1] == [f"{value:f}" for value in exact]


def encode_datetime(year: int, month: int, day: int, clock: tuple[int, int, int, int], digits: int) -> bytes:
    hour, minute, second, microsecond = clock
    whole = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    return (whole | 1 << 39).to_bytes(5, "big") + encode_fraction(microsecond, digits)


def encode_fraction(microsecond: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    unit: int = 10 ** (6 - 2 * size)
    return (microsecond // unit).to_bytes(size, "big")


@given(st.datetimes(), st.integers(0, 6))
@example(datetime(2000, 2, 29), 0)  # noqa: DTZ001 - it has no zone
@example(datetime(1900, 3, 1), 0)  # noqa: DTZ001
def test_datetimes(moment: datetime, digits: int) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    clock = (moment.hour, moment.minute, moment.second, moment.microsecond)
    cell = encode_datetime(moment.year, moment.month, moment.day, clock, digits)
    assert column_of(t.DateTime(digits), Storage(18, digits), cell, None).to_pylist() == [moment, None]
    if digits == 0:
        old = struct.pack("<Q", int(moment.strftime("%Y%m%d%H%M%S").zfill(14)))
        assert column_of(t.DateTime(0), Storage(12, 0), old, None).to_pylist() == [moment, None]
    day = struct.pack("<I", moment.year << 9 | moment.month << 5 | moment.day)[:3]
    assert column_of(t.Date(), Storage(10, 0), day, None).to_pylist() == [moment.date(), None]


@given(st.integers(1, 2**32 - 1), st.integers(0, 999_999), st.integers(0, 6))
def test_timestamps(seconds: int, microsecond: int, digits: int) -> None:
    microsecond = microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    cell = seconds.to_bytes(4, "big") + encode_fraction(microsecond, digits)
    decoded = column_of(t.Timestamp(digits), Storage(17, digits), cell, None)
    assert decoded.cast(pa.int64()).to_pylist() == [seconds * 1_000_000 + microsecond, None]
    if digits == 0:
        old = column_of(t.Timestamp(0), Storage(7, 0), struct.pack("<I", seconds), None)
        assert old.cast(pa.int64()).to_pylist() == [seconds * 1_000_000, None]


@given(st.integers(-3020399, 3020399), st.integers(0, 999_999), st.integers(0, 6))
@example(-1, 0, 0)
@example(-1, 999_999, 6)
def test_times(seconds: int, microsecond: int, digits: int) -> None:
    size = (digits + 1) // 2
    microsecond = microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    whole = abs(seconds)
    packed = whole // 3600 << 12 | whole // 60 % 60 << 6 | whole % 60
    packed = packed << 8 * size | microsecond // 10 ** (6 - 2 * size)
    sign = -1 if seconds < 0 else 1
    cell = (sign * packed + (1 << (23 + 8 * size))).to_bytes(3 + size, "big")
    span = sign * (whole * 1_000_000 + microsecond)
    assert column_of(t.Time(digits), Storage(19, digits), cell, None).to_pylist() == [span, None]
    if digits == 0:
        old = sign * (whole // 3600 * 10000 + whole // 60 % 60 * 100 + whole % 60)
        cell = old.to_bytes(3, "little", signed=True)
        assert column_of(t.Time(0), Storage(11, 0), cell, None).to_pylist() == [span, None]


def test_dates_that_no_calendar_has_become_null_and_are_counted() -> None:
    days = [
        (0, 0, 0),
        (2024, 0, 0),
        (2024, 5, 0),
        (2023, 2, 29),
        (2024, 4, 31),
        (1900, 2, 29),
        (2024, 2, 29),
        (0, 1, 1),
    ]
    described = table_map(
        (t.Date(), Storage(10, 0)),
        (t.DateTime(2), Storage(18, 2)),
        (t.DateTime(0), Storage(12, 0)),
        (t.Timestamp(0), Storage(17, 0)),
        (t.Timestamp(0), Storage(7, 0)),
    )
    dated = [
        image(
            struct.pack("<I", year << 9 | month << 5 | day)[:3],
            encode_datetime(year, month, day, (1, 2, 3, 0), 2),
            struct.pack("<Q", (year * 10000 + month * 100 + day) * 1_000_000),
            struct.pack(">I", year),
            struct.pack("<I", year),
        )
        for year, month, day in days
    ]
    table = images(described, [Body(body(WRITE, 5, *dated, image(*[None] * 5)), WRITE)])
    decoded = table.rows
    nulls = [i for i, exists in enumerate(decoded["0"].is_valid().to_pylist()) if not exists]
    assert nulls == [0, 1, 2, 3, 4, 5, 8]
    assert decoded["1"].is_valid().equals(decoded["0"].is_valid())
    assert decoded["2"].is_valid().equals(decoded["0"].is_valid())
    assert decoded["3"].null_count == decoded["4"].null_count == 3
    assert table.impossible_dates == 3 * 6 + 2 * 2
    assert decoded["0"].cast(pa.int32())[7].as_py() == -719528  # the first day of the year 0


@given(st.lists(st.none() | st.binary(max_size=300), max_size=20), st.integers(1, 4))
def test_values_behind_lengths_of_every_size(values: list[bytes | None], prefix: int) -> None:
    if prefix == 1:
        values = [None if value is None else value[:255] for value in values]
    cells = [None if value is None else len(value).to_bytes(prefix, "little") + value for value in values]
    assert column_of(t.Binary(), Storage(252, prefix), *cells).to_pylist() == values


@given(st.lists(st.none() | st.binary(max_size=300), max_size=20))
def test_binary_is_filled_up_to_its_width(values: list[bytes | None]) -> None:
    wide = [None if value is None else struct.pack("<H", len(value)) + value for value in values]
    # A length of 300 has its upper bits, inverted, in the type's byte.
    storage = Storage(254, (0xFE ^ 0x10) | (300 & 0xFF) << 8)
    expected = [None if value is None else value.ljust(300, b"\0") for value in values]
    assert column_of(t.FixedBinary(300), storage, *wide).to_pylist() == expected


# -- what isn't read


@pytest.mark.parametrize(
    ("described", "cell", "why"),
    [
        ((t.Date(), Storage(10, 0)), b"\xff\xff\xff", "DATE"),
        ((t.DateTime(0), Storage(12, 0)), struct.pack("<Q", 2024_13_01_000000), "DATETIME"),
        *[
            ((t.DateTime(0), Storage(12, 0)), struct.pack("<Q", digits), "DATETIME")
            for digits in (
                10000_01_01_000000,
                2024_01_32_000000,
                2024_01_01_240000,
                2024_01_01_006000,
                2024_01_01_000060,
            )
        ],
        ((t.DateTime(0), Storage(12, 0)), struct.pack("<q", -1), "DATETIME"),
        ((t.DateTime(0), Storage(18, 0)), encode_datetime(10_000, 0, 0, (0, 0, 0, 0), 0), "DATETIME"),
        ((t.DateTime(0), Storage(18, 0)), encode_datetime(2024, 1, 1, (0, 60, 0, 0), 0), "DATETIME"),
        ((t.DateTime(0), Storage(18, 0)), encode_datetime(2024, 1, 1, (0, 0, 60, 0), 0), "DATETIME"),
        ((t.DateTime(0), Storage(18, 0)), encode_datetime(2024, 1, 1, (24, 0, 0, 0), 0), "DATETIME"),
        ((t.DateTime(2), Storage(18, 2)), encode_datetime(2024, 1, 1, (0, 0, 0, 0), 0) + b"\x64", "DATETIME"),
        ((t.DateTime(0), Storage(18, 0)), b"\0" * 5, "DATETIME"),
        ((t.Timestamp(2), Storage(17, 2)), b"\0\0\0\1\x64", "TIMESTAMP"),
        ((t.Time(0), Storage(19, 0)), b"\xff\xff\xff", "TIME"),
        ((t.Time(0), Storage(19, 0)), (1 << 23 | 839 << 12).to_bytes(3, "big"), "TIME"),
        ((t.Time(0), Storage(19, 0)), (1 << 23 | 60 << 6).to_bytes(3, "big"), "TIME"),
        ((t.Time(0), Storage(19, 0)), ((1 << 23) - 60).to_bytes(3, "big"), "TIME"),
        ((t.Time(2), Storage(19, 2)), b"\x80\0\0\x64", "TIME"),
        ((t.Time(0), Storage(11, 0)), (839_00_00).to_bytes(3, "little"), "TIME"),
        ((t.Time(0), Storage(11, 0)), (60_00).to_bytes(3, "little"), "TIME"),
        ((t.Date(), Storage(10, 0)), struct.pack("<I", 10_000 << 9 | 1 << 5 | 1)[:3], "DATE"),
        ((t.Time(0), Storage(11, 0)), b"\x63\0\0", "TIME"),
        ((t.Date(), Storage(10, 0)), struct.pack("<I", 2024 << 9 | 13 << 5 | 1)[:3], "DATE"),
        ((t.Decimal(4, 0), Storage(246, 4)), (10000 | 0x8000).to_bytes(2, "big"), "DECIMAL"),
        ((t.Decimal(40, 0), Storage(246, 40)), b"\x80" + bytes(13) + (10**9).to_bytes(4, "big"), "DECIMAL"),
        ((t.FixedBinary(2), Storage(254, 254 | 2 << 8)), b"\x03abc", "value of 2 bytes"),
        ((t.Vector(), Storage(242, 4)), b"\x05\0\0\0abcde", "VECTOR"),
        ((t.Json(), Storage(245, 4)), b"\x01\0\0\0\xff", "JSON"),
        ((t.Bit(1), Storage(16, 1)), b"\x02", r"BIT\(1\)"),
        ((t.Bit(17), Storage(16, 1 | 2 << 8)), b"\x02\0\0", r"BIT\(17\)"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_refused_by_name(
    described: tuple[t.ColumnType, Storage], cell: bytes, why: str
) -> None:
    with pytest.raises(UndecodableError, match=rf"^shop\.t\.0: .*{why}"):
        column_of(*described, None, cell)


def test_a_value_that_is_longer_than_its_column_is_not_copied_before_it_is_refused() -> None:
    value = np.frombuffer(bytearray(b"\xfa" + b"a" * 250 + bytes(SLACK)), np.uint8)
    memory = np.zeros(512, np.uint8)
    of_two_bytes = memory[: 2 + SLACK]
    assert (
        value_kernels.join_values(value, np.zeros(1, np.int32), 1, 2, np.empty(2, np.int32), of_two_bytes)
        == 0
    )
    assert not memory.any()


def test_text_of_another_character_set_is_refused_by_name() -> None:
    named = TableMap(TableId("shop", "t"), (VARCHAR[0],), (VARCHAR[1],), (True,), FullMetadata(("note",), ()))
    with pytest.raises(TextError, match=r"^shop\.t\.note: "):
        images(named, [Body(body(WRITE, 1, image(b"\1\xff")), WRITE)])


# -- images that leave columns out


def partial(cells: dict[int, bytes | None]) -> bytes:
    """An image of these columns: a bit of NULL for each of them, and no more."""
    return image(*(cells[column] for column in sorted(cells)))


def given_of(table: TableImages, i: int) -> dict[int, Any]:
    """The values that are there of a row image, by column."""
    bits = table.images["absent"][i].as_py()
    row = [column[i].as_py() for column in table.rows.columns]
    if bits is None:
        return dict(enumerate(row))
    absent = {column for column in range(len(row)) if bits[column // 8] >> column % 8 & 1}
    assert absent, "all columns are there, which is told by null"
    assert len(bits) == (len(row) + 7) // 8
    assert all(row[column] is None for column in absent)
    return {column: value for column, value in enumerate(row) if column not in absent}


CELLS = st.none() | st.integers(-(2**31), 2**31 - 1)


@st.composite
def rows_events(draw: st.DrawFn, columns: int) -> tuple[Body, list[dict[int, int | None]]]:
    """Returns an event of any kind whose images have any of the columns, and the values of each image."""
    code = draw(st.sampled_from([WRITE, UPDATE, DELETE, WRITE_V1, UPDATE_V1, DELETE_V1]))
    update = code in (UPDATE, UPDATE_V1)
    subsets = st.just(set(range(columns))) | st.sets(st.integers(0, columns - 1), min_size=1)
    sets = [draw(subsets), *([draw(subsets | st.just(set()))] if update else [])]
    images, meant = [], []
    for _ in range(draw(st.integers(0, 4))):
        last: dict[int, int | None] = {}
        for present in sets:
            values = {column: draw(CELLS) for column in present}
            images.append(partial({c: None if v is None else number(v) for c, v in values.items()}))
            last = {**last, **values}
            meant.append(last)
    bitmaps = b"".join(bitmap([column in present for column in range(columns)]) for present in sets)
    return Body(body(code, columns, *images, present=bitmaps), code), meant


@given(
    st.sampled_from([1, 3, 8, 9, 20]).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(rows_events(n), max_size=4))
    )
)
def test_what_is_absent_is_told_and_an_after_image_has_it_from_its_before(
    case: tuple[int, list[tuple[Body, list[dict[int, int | None]]]]],
) -> None:
    columns, events = case
    table = images(table_map(*[INT] * columns), [event for event, _ in events])
    meant = [values for _, of_event in events for values in of_event]
    assert [given_of(table, i) for i in range(table.images.num_rows)] == [
        dict(sorted(values.items())) for values in meant
    ]


def counted(table_map: TableMap, event: Body) -> int:
    """The cells of an event, over a buffer without a byte to spare."""
    forms = cells.column_forms(table_map)
    buffer = np.frombuffer(bytearray(event.bytes + b"\xff" * SLACK), np.uint8)
    counted_forms = np.array([len(forms), *forms], np.int64)
    return int(cells.count_cells(buffer, 0, len(event.bytes), event.code, counted_forms, 0))


@given(st.sampled_from([1, 3, 4, 5, 8, 9, 20]).flatmap(lambda n: st.tuples(st.just(n), rows_events(n))))
def test_cells_are_counted_where_an_event_may_have_more_than_bytes(
    case: tuple[int, tuple[Body, list[dict[int, int | None]]]],
) -> None:
    columns, (event, meant) = case
    number = columns * len(meant)
    whole = event.bytes[len(body(event.code, columns, present=b"")) :].startswith(
        bitmap([True] * columns) * (2 if event.code in (UPDATE, UPDATE_V1) else 1)
    )
    described = table_map(*[INT] * columns)
    assert counted(described, event) == (0 if whole and columns < 5 else number)
    assert counted(replace(described, nullable=(False,) * columns), event) == (0 if whole else number)


def test_cells_of_all_kinds_of_columns_are_counted() -> None:
    described = table_map(*((column, storage) for column, storage, _ in LOGGED))
    event = LOGGED_BODY[:10] + bytes([len(LOGGED)]) + LOGGED_BODY[11:]
    assert counted(described, Body(event, WRITE)) == 2 * len(LOGGED)
    present = [column != 3 for column in range(len(LOGGED))]
    some = [None if column % 2 else bytes(4) for column in range(len(LOGGED)) if present[column]]
    short = body(
        WRITE, len(LOGGED), image(*[None] * len(some)), image(*[None] * len(some)), present=bitmap(present)
    )
    assert counted(described, Body(short, WRITE)) == 2 * len(LOGGED)


def test_cells_of_damaged_events_are_counted_without_an_error() -> None:
    present = bitmap([column == 1 for column in range(9)])
    event = body(UPDATE, 9, *[image(number(1)), image(number(2))] * 3, present=present * 2)
    wide = table_map(*[INT] * 9)
    found = [counted(wide, Body(event[:end], UPDATE)) for end in range(8, len(event) + 1)]
    assert found[-1] == 6 * 9 and sorted(found) == found
    assert counted(table_map(*[INT] * 8), Body(event, UPDATE)) == 0
    assert counted(wide, Body(body(WRITE, 9, present=bytes(2)), WRITE)) == 9
    assert counted(wide, Body(body(WRITE, 9, b"rest", present=bytes(2)), WRITE)) == 9


def test_dates_and_texts_of_absent_columns_are_null_and_not_counted() -> None:
    described = table_map(*((column, storage) for column, storage, _ in LOGGED))
    present = bitmap([column == 0 for column in range(len(LOGGED))])
    table = images(described, [Body(body(WRITE, len(LOGGED), image(number(7)), present=present), WRITE)])
    assert given_of(table, 0) == {0: 7}
    assert table.impossible_dates == 0


def test_values_that_arrows_offsets_do_not_reach_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of some bytes stand for 2 GiB; an after image has again what it leaves out."""
    described = table_map(INT, (t.Binary(), Storage(252, 4)))
    before = image(number(1), struct.pack("<I", 6) + b"abcdef")
    bitmaps = bitmap([True, True]) + bitmap([True, False])
    update = Body(body(UPDATE, 2, before, partial({0: number(2)}), present=bitmaps), UPDATE)
    monkeypatch.setattr(stored, "LONGEST_DATA", 12)
    assert images(described, [update]).rows["1"].to_pylist() == [b"abcdef"] * 2
    monkeypatch.setattr(stored, "LONGEST_DATA", 11)
    with pytest.raises(UndecodableError, match=r"^shop\.t\.1: more than 2 GiB"):
        images(described, [update])


def test_json_that_arrows_offsets_do_not_reach_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    document = b"\x0c\x03\0\0\0"
    event = Body(body(WRITE, 1, image(struct.pack("<I", len(document)) + document)), WRITE)
    described = table_map((t.Json(), Storage(245, 4)))
    monkeypatch.setattr(json, "LONGEST_DATA", 20)
    assert images(described, [event]).rows["0"].to_pylist() == ['"\\u0000\\u0000\\u0000"']
    monkeypatch.setattr(json, "LONGEST_DATA", 19)
    with pytest.raises(UndecodableError, match=r"^shop\.t\.0: more than 2 GiB"):
        images(described, [event])
    monkeypatch.setattr(json, "_LARGEST_ROOM", 0)
    many = b"\x0c\x80\x08" + bytes(1024)
    event = Body(body(WRITE, 1, image(struct.pack("<I", len(many)) + many)), WRITE)
    with pytest.raises(UndecodableError, match=r"^shop\.t\.0: more than 2 GiB"):
        images(described, [event])


def test_a_buffer_that_cells_do_not_reach_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Body(body(WRITE, 1, image(number(1))), WRITE)
    monkeypatch.setattr(cells, "LARGEST_BUFFER", len(event.bytes) + SLACK)
    assert located(table_map(INT), [event]).images.tolist() == [1]
    monkeypatch.setattr(cells, "LARGEST_BUFFER", len(event.bytes) + SLACK - 1)
    with pytest.raises(InvariantBroken, match="more than a cell can point to"):
        located(table_map(INT), [event])


def test_an_event_outside_of_the_buffer_breaks_an_invariant() -> None:
    buffer = np.zeros(20 + SLACK, np.uint8)
    for start, end in ((-1, 20), (0, 21), (20, 0)):
        events = RowsEvents(
            np.array([start], np.int64),
            np.array([end], np.int64),
            np.array([WRITE], np.uint8),
            np.zeros(1, np.int32),
            np.full((5, 1), -1),
            ("",),
        )
        with pytest.raises(InvariantBroken, match="outside"):
            locate_images(table_map(INT), buffer, events)


def test_slices_are_decoded_in_threads_beside_each_other() -> None:
    bodies = [[Body(body(WRITE, len(LOGGED), *[LOGGED_BODY[15:]] * n), WRITE)] * 50 for n in range(1, 5)]
    alone = [images(LOGGED_MAP, each) for each in bodies]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            beside = list(threads.map(lambda each: images(LOGGED_MAP, each), bodies))
            assert [each.rows for each in beside] == [each.rows for each in alone]
            assert [each.images for each in beside] == [each.images for each in alone]


@pytest.mark.parametrize("code", [WRITE, UPDATE, DELETE, WRITE_V1])
def test_an_image_that_is_not_of_its_columns_is_refused(code: int) -> None:
    for missing in range(9):
        present = bitmap([column != missing for column in range(9)])
        bitmaps = present * (2 if code == UPDATE else 1)
        event = body(code, 9, *[image(*[number(1)] * 9)] * 2, present=bitmaps)
        with pytest.raises(UndecodableError, match="ends inside"):
            located(table_map(*[INT] * 9), [Body(event, code)])


@pytest.mark.parametrize("code", [WRITE, UPDATE, DELETE, WRITE_V1])
def test_images_of_no_columns_are_refused_and_not_read_for_ever(code: int) -> None:
    bitmaps = bitmap([False] * 9) * (2 if code == UPDATE else 1)
    with pytest.raises(UndecodableError, match="ends inside"):
        located(table_map(*[INT] * 9), [Body(body(code, 9, b"\0", present=bitmaps), code)])


def test_an_insert_of_nothing_but_defaults_has_no_column_and_no_bytes() -> None:
    """As MySQL 9.7 logs INSERT INTO t () VALUES () with binlog_row_image=MINIMAL."""
    event = Body(bytes(8) + bytes.fromhex("02 00 02 00"), WRITE)
    table = images(table_map(INT, INT), [event, Body(body(WRITE, 2, image(number(1), None)), WRITE)])
    assert [given_of(table, i) for i in range(table.images.num_rows)] == [{}, {0: 1, 1: None}]


# -- JSON in part (what diffs do is in test_json_diffs)

JSON = (t.Json(), Storage(245, 4))
NINE = b"\x05\x09\0"
# Replace $.n by 9.
DIFF = b"\0\x03$.n\x03" + NINE


def behind_length(stored: bytes) -> bytes:
    return struct.pack("<I", len(stored)) + stored


def partly(*images: bytes, present_after: Sequence[bool] = (True,) * 4) -> Body:
    """An event of a table of an INT and three JSON columns; each after image has its value options before it."""
    present = bitmap([True] * 4) + bitmap(present_after)
    return Body(body(PARTLY, 4, *images, present=present), PARTLY)


OF_1 = bytes.fromhex("00 01 00 0c 00 0b 00 01 00 05 01 00 6e".replace(" ", ""))  # {"n": 1}
BEFORE = image(number(1), *[behind_length(OF_1)] * 3)


def test_bits_of_diffs_are_those_of_all_json_columns() -> None:
    """Also of those that the after image leaves out."""
    after = image(number(2), behind_length(DIFF), behind_length(NINE))
    event = partly(
        BEFORE, b"\x01" + bitmap([True, True, False]) + after, present_after=[True, False, True, True]
    )
    table = images(table_map(INT, JSON, JSON, JSON), [event])
    assert [list(row.values()) for row in table.rows.to_pylist()] == [
        [1, '{"n": 1}', '{"n": 1}', '{"n": 1}'],
        [2, '{"n": 1}', '{"n": 9}', "9"],
    ]
    assert table.images["kind"].to_pylist() == [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER]
    assert table.images["absent"].null_count == 2


@pytest.mark.parametrize("documents", [1, 7, 8, 9, 16])
def test_bits_of_diffs_take_whole_bytes(documents: int) -> None:
    before = image(*[behind_length(OF_1)] * documents)
    after = image(*[behind_length(NINE)] * (documents - 1), behind_length(DIFF))
    options = b"\x01" + bitmap([False] * (documents - 1) + [True])
    event = body(PARTLY, documents, before, options + after, present=bitmap([True] * documents) * 2)
    table = images(table_map(*[JSON] * documents), [Body(event, PARTLY)])
    assert list(table.rows.to_pylist()[1].values()) == ["9"] * (documents - 1) + ['{"n": 9}']


def test_cells_of_diffs_are_counted() -> None:
    described = table_map(INT, JSON, JSON, JSON)
    after = image(number(2), behind_length(DIFF), behind_length(NINE))
    bits = b"\x01" + bitmap([True, True, False])
    event = partly(*[BEFORE, bits + after] * 3, present_after=[True, False, True, True])
    assert counted(described, event) == 6 * 4
    bare = partly(
        *[BEFORE, b"\0" + image(number(2), None, None)] * 2, present_after=[True, True, False, True]
    )
    assert counted(described, bare) == 4 * 4


def test_an_after_image_without_value_options_has_no_bits() -> None:
    event = partly(BEFORE, b"\0" + image(number(2), None, behind_length(NINE), None))
    table = images(table_map(INT, JSON, JSON, JSON), [event])
    assert list(table.rows.to_pylist()[1].values()) == [2, None, "9", None]


def test_value_options_that_are_not_known_are_refused() -> None:
    event = partly(BEFORE, b"\x02" + image(number(2), None, None, None))
    with pytest.raises(UndecodableError, match="value options"):
        located(table_map(INT, JSON, JSON, JSON), [event])


def test_every_truncation_of_diffs_is_refused() -> None:
    after = image(number(2), behind_length(DIFF), None, None)
    whole = partly(BEFORE, b"\x01" + bitmap([True, False, False]) + after).bytes
    ends = {len(partly().bytes), len(whole)}  # an event may hold no image at all
    for end in range(len(whole) + 1):
        if end not in ends:
            with pytest.raises(UndecodableError):
                located(table_map(INT, JSON, JSON, JSON), [Body(whole[:end], PARTLY)])
    assert located(table_map(INT, JSON, JSON, JSON), [Body(whole, PARTLY)]).images.tolist() == [2]


# -- what can't be located


@pytest.mark.parametrize("count", [1, 3, 251])
def test_another_number_of_columns_is_refused(count: int) -> None:
    with pytest.raises(UndecodableError, match="another number of columns"):
        located(table_map(INT, INT), [Body(body(WRITE, count, image(*[None] * count)), WRITE)])


@pytest.mark.parametrize("count", [251, 253, 254, 255])
def test_a_number_of_columns_in_a_form_that_it_has_not_is_refused(count: int) -> None:
    event = bytes(8) + bytes([count]) + bitmap([True] * count) + image(*[None] * count)
    with pytest.raises(UndecodableError, match="another number of columns"):
        located(table_map(*[INT] * count), [Body(event, WRITE_V1)])


@pytest.mark.parametrize("length", [0, 1])
def test_extra_row_data_shorter_than_its_own_length_is_refused(length: int) -> None:
    lying = bytes(8) + struct.pack("<H", length) + body(WRITE_V1, 1, image(number(1)))[8:]
    with pytest.raises(UndecodableError):
        located(table_map(INT), [Body(lying, WRITE)])


def test_an_update_with_half_a_pair_is_refused() -> None:
    with pytest.raises(UndecodableError, match="ends inside"):
        located(table_map(INT), [Body(body(UPDATE, 1, *[image(number(1))] * 3), UPDATE)])


@pytest.mark.parametrize(
    "storage", [Storage(0, 0), Storage(6, 0), Storage(20, 0), Storage(245, 5), Storage(252, 0)]
)
def test_unknown_storage_is_refused(storage: Storage) -> None:
    with pytest.raises(UndecodableError, match=f"type code {storage.code}"):
        located(table_map((INT[0], storage)), [])


@pytest.mark.parametrize(
    ("column", "storage"),
    [
        (t.Integer(4, unsigned=False), Storage(FieldType.SHORT, 0)),
        (t.Decimal(10, 2), Storage(246, 10 | 3 << 8)),
        (t.Bit(9), Storage(16, 2 | 1 << 8)),
        (t.FixedBinary(4), Storage(254, 254 | 5 << 8)),
        (t.DateTime(3), Storage(18, 2)),
        (t.Text("utf8mb4"), Storage(254, 247 | 1 << 8)),
        (t.Json(), Storage(252, 4)),
    ],
)
def test_a_type_that_is_not_the_storages_breaks_an_invariant(column: t.ColumnType, storage: Storage) -> None:
    with pytest.raises(InvariantBroken):
        located(table_map((column, storage)), [])


# -- damage


def decoded_or_refused(damaged: bytes, code: int) -> bool:
    """Whether the bytes could be decoded; they may end in nothing but whole columns or the typed errors."""
    try:
        table = images(LOGGED_MAP, [Body(damaged, code)])
    except (UndecodableError, TextError):
        return False
    table.images.validate(full=True)
    table.rows.validate(full=True)
    return True


def damage(seed: int) -> tuple[bytes, int]:
    dice = random.Random(seed)
    damaged = bytearray(LOGGED_BODY)
    for _ in range(dice.randrange(4)):
        damaged[dice.randrange(len(damaged))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
    if dice.random() < 0.3:
        del damaged[dice.randrange(len(damaged)) :]
    if dice.random() < 0.2:
        at = dice.randrange(len(damaged) + 1)
        damaged[at:at] = dice.randbytes(dice.randrange(9))
    return bytes(damaged), dice.choice([WRITE, WRITE, WRITE, UPDATE, DELETE, WRITE_V1])


def test_every_truncation_is_refused() -> None:
    # Behind the first image, and between the header and it, an event may end.
    first = len(LOGGED_BODY) - len(image(number(2), *[None] * (len(LOGGED) - 1)))
    whole = {15, first, len(LOGGED_BODY)}
    for end in range(len(LOGGED_BODY) + 1):
        assert decoded_or_refused(LOGGED_BODY[:end], WRITE) == (end in whole), end


def test_thousands_of_damaged_events_end_in_columns_or_the_typed_error() -> None:
    outcomes = [decoded_or_refused(*damage(seed)) for seed in range(5000)]
    assert {True, False} == set(outcomes)


@settings(max_examples=500)
@given(st.binary(max_size=80), st.sampled_from([WRITE, UPDATE, DELETE, WRITE_V1, UPDATE_V1]))
def test_any_bytes_end_in_columns_or_the_typed_error(behind: bytes, code: int) -> None:
    count = len(LOGGED)
    decoded_or_refused(behind, code)
    decoded_or_refused(body(code, count, behind), code)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_no_kernel_reads_or_writes_outside_of_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_events, "_SMALLEST_ROOM", 1)
    assert decoded_or_refused(LOGGED_BODY, WRITE)
    for end in range(len(LOGGED_BODY)):
        decoded_or_refused(LOGGED_BODY[:end], WRITE)
    for seed in range(400):
        decoded_or_refused(*damage(seed))


@pytest.mark.usefixtures("interpreted")
def test_bitmaps_of_many_columns_are_not_read_beyond_the_event() -> None:
    """Bits that are all set look like present columns and like NULLs, so that nothing else would end the pass."""
    whole = body(WRITE, 100, image(*[None] * 100))
    header = len(body(WRITE, 100))  # an event may hold no image at all
    for end in {*range(len(whole))} - {header}:
        with pytest.raises(UndecodableError, match="ends inside"):
            located(table_map(*[INT] * 100), [Body(whole[:end], WRITE)])
