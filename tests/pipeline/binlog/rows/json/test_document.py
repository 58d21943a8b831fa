"""Binary JSON: documents as MySQL 9.7 logged them, an encoder's own by the format's description, and damaged ones."""

import json
import struct
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.binlog.rows.json import text_kernels
from pipeline.binlog.rows.json.document import decode_documents
from pipeline.binlog.rows.stored_values import StoredColumn
from pipeline.errors import UndecodableError
from pipeline.types import packed_decimal
from pipeline.types.buffers import NULL, SLACK
from pipeline.types.text.charsets import TextError
from tests.pipeline.binlog import json_reference


def printed(documents: Sequence[bytes | None]) -> list[str | None]:
    """Returns the texts of a column of documents, after lengths of 4 bytes and with no spare bytes around them."""
    buffer, cells = bytearray(), []
    for document in documents:
        cells.append(NULL if document is None else len(buffer))
        buffer += b"" if document is None else struct.pack("<I", len(document)) + document
    stored = StoredColumn(
        np.frombuffer(buffer + b"\xff" * SLACK, np.uint8), np.array(cells, np.int32), "shop.t.j", len(buffer)
    )
    column = decode_documents(4, stored)
    column.validate(full=True)
    return list(column.to_pylist())


def text(document: bytes) -> str:
    (shown,) = printed([document])
    assert shown is not None
    return shown


def double(number: float) -> str:
    return text(b"\x0b" + struct.pack("<d", number))


LOGGED = [
    (
        (
            "0003004000190001001a0001001b000200021d00050100002c006162616103000f000401000400000c0d000178010014000b00"
            "01000b0c006e000000000000f8bf"
        ),
        '{"a": [true, null, "x"], "b": 1, "aa": {"n": -1.5}}',
    ),
    ("0203001d00070d000711000a1500ff7fffff000001000000000000000080", "[-32769, 65536, 9223372036854775808]"),
    (
        (
            "02060044000f16000f1f000f29000f33000f3d000f4000f6070b027ffffff3dd0a080000000000bab2190b08e05ef84737ffff"
            "ff0c08010000fb7ebbb2190f01050f0200ff"
        ),
        (
            '[-12.34, "2024-02-29", "-12:34:56.500000", "2024-02-29 23:59:59.000001",'
            ' "base64:type15:BQ==", "base64:type15:AP8="]'
        ),
    ),
    ("000100d6000b0001000c0c0073c801" + "78" * 200, '{"s": "' + "x" * 200 + '"}'),
    ("0f0f39" + "78" * 57, '"base64:type15:' + "eHh4" * 19 + '"'),
    ("0f0f3a" + "78" * 58, '"base64:type15:' + "eHh4" * 19 + '\\neA=="'),
    ("050100", "1"),
    ("", "null"),
]


@pytest.mark.parametrize(("logged", "printed"), LOGGED)
def test_documents_of_the_server(logged: str, printed: str) -> None:
    assert text(bytes.fromhex(logged)) == printed


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1125899906842624.25, "1125899906842624.2"),
        (-1125899906842173.2, "-1125899906842173.2"),
        (1125899906842624.0, "1.125899906842624e15"),
        (123456789012345678.0, "1.2345678901234568e17"),
        (1e-4, "0.0001"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (-1.5e300, "-1.5e300"),
        (5e-324, "5e-324"),
    ],
)
def test_doubles_as_the_server_prints_them(number: float, printed: str) -> None:
    assert double(number) == printed


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_lose_nothing_and_never_look_like_integers(number: float) -> None:
    printed = double(number)
    assert struct.pack("<d", float(printed)) == struct.pack("<d", number)
    assert "." in printed or "e" in printed


# -- an encoder by the description in json_binary.h


def encode(value: Any, *, large: bool) -> tuple[int, bytes]:
    """The type and the bytes of a value."""
    match value:
        case None | True | False:
            return 4, bytes([[None, True, False].index(value)])
        case int():
            for kind, (low, high, form) in INTEGERS.items():
                if low <= value < high:
                    return kind, struct.pack(form, value)
            raise ValueError(value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            stored = value.encode()
            return 12, length(len(stored)) + stored
        case list():
            return 2 + large, container([], value, large=large)
        case dict():
            return 0 + large, container(list(value), list(value.values()), large=large)
        case _:
            raise TypeError(value)


INTEGERS = {
    5: (-(2**15), 2**15, "<h"),
    6: (2**15, 2**16, "<H"),
    7: (-(2**31), 2**31, "<i"),
    8: (2**31, 2**32, "<I"),
    9: (-(2**63), 2**63, "<q"),
    10: (2**63, 2**64, "<Q"),
}


def length(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + length(rest) if rest else bytes([low])


def container(keys: list[str], values: list[Any], *, large: bool) -> bytes:
    word = 4 if large else 2
    head = 2 * word + len(keys) * (word + 2) + len(values) * (word + 1)
    names = [key.encode() for key in keys]
    entries, rest = b"", b"".join(names)
    at = head
    for name in names:
        entries += at.to_bytes(word, "little") + struct.pack("<H", len(name))
        at += len(name)
    for value in values:
        kind, stored = encode(value, large=large)
        if kind in (4, 5, 6) or (large and kind in (7, 8)):
            entries += bytes([kind]) + stored.ljust(word, b"\0")
        else:
            entries += bytes([kind]) + (head + len(rest)).to_bytes(word, "little")
            rest += stored
    size = head + len(rest)
    return len(values).to_bytes(word, "little") + size.to_bytes(word, "little") + entries + rest


def document(value: Any, *, large: bool) -> bytes:
    kind, stored = encode(value, large=large)
    return bytes([kind]) + stored


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
)


@given(VALUES, st.booleans())
def test_text_is_the_documents_json(value: Any, large: bool) -> None:
    stored = document(value, large=large)
    shown = text(stored)
    assert json.loads(shown) == value
    assert shown == json_reference.text(stored)
    if not contains_float(value):
        # Only doubles, the delete character and beyond ASCII are printed otherwise than by Python.
        assert shown == json.dumps(value, ensure_ascii=False)


@given(st.lists(st.none() | st.tuples(VALUES, st.booleans()), max_size=30))
def test_a_column_of_documents(values: list[tuple[Any, bool] | None]) -> None:
    documents = [None if value is None else document(value[0], large=value[1]) for value in values]
    assert printed(documents) == [None if d is None else json_reference.text(d) for d in documents]


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40), max_size=40))
def test_doubles_go_into_the_holes_that_they_left(values: list[list[float]]) -> None:
    """More of them than there's room for at first, too."""
    documents = [document({"a": numbers, "b": "x"}, large=False) for numbers in values]
    assert printed(documents) == [json_reference.text(d) for d in documents]


@pytest.mark.parametrize("plain", ["\0" * 100_000, '"' * 99_999, "a" * 1_000_000, "é\n" * 50_001])
def test_texts_that_need_more_room_than_their_documents(plain: str) -> None:
    assert printed([document([plain], large=True)] * 3) == [json.dumps([plain], ensure_ascii=False)] * 3


@given(st.text(max_size=40), st.integers(0, 9))
def test_escapes_at_every_place_of_a_word(plain: str, before: int) -> None:
    shown = "x" * before + plain
    assert text(document(shown, large=False)) == json_reference.text(document(shown, large=False))


OPAQUE = (
    st.tuples(st.integers(1, 65), st.integers(0, 30), st.integers()).map(lambda shape: decimal(*shape))
    | st.binary(max_size=400).map(lambda data: b"\x0f" + length(len(data)) + data)
    | st.datetimes().map(
        lambda moment: packed(12, moment.year * 13 + moment.month, moment.day, *clock(moment))
    )
    | st.dates().map(lambda day: packed(10, day.year * 13 + day.month, day.day, 0, 0, 0, 0))
    | st.tuples(st.integers(-838, 838), st.integers(0, 59), st.integers(0, 999_999)).map(
        lambda span: packed(11, 0, 0, abs(span[0]), span[1], span[1], span[2], negative=span[0] < 0)
    )
)


def clock(moment: datetime) -> tuple[int, int, int, int]:
    return moment.hour, moment.minute, moment.second, moment.microsecond


def packed(
    kind: int,
    months: int,
    day: int,
    hour: int,
    minute: int,
    second: int,
    fraction: int,
    *,
    negative: bool = False,
) -> bytes:
    whole = ((months << 5 | day) << 17 | hour << 12 | minute << 6 | second) << 24 | fraction
    return bytes([kind, 8]) + struct.pack("<q", -whole if negative else whole)


def decimal(precision: int, scale: int, number: int) -> bytes:
    scale = min(scale, precision)
    digits = f"{abs(number) % 10**precision:0{precision}}"
    stored, at = b"", 0
    for size, count in packed_decimal.groups(precision, scale):
        stored += int(digits[at : at + count]).to_bytes(size, "big")
        at += count
    stored = bytes([stored[0] | 0x80]) + stored[1:]
    if number < 0:
        stored = bytes(byte ^ 0xFF for byte in stored)
    return bytes([246, 2 + len(stored), precision, scale]) + stored


@given(OPAQUE)
def test_values_that_only_sql_has(stored: bytes) -> None:
    assert text(b"\x0f" + stored) == json_reference.text(b"\x0f" + stored)


def contains_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(contains_float, value.values()))
    return any(map(contains_float, value)) if isinstance(value, list) else isinstance(value, float)


# -- damage


@given(VALUES, st.data())
def test_damaged_documents_end_in_text_or_the_typed_error(value: Any, data: st.DataObject) -> None:
    stored = bytearray(document(value, large=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(stored)))
    assert outcome(bytes(stored[:cut])) in (None, reference(bytes(stored[:cut])))


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_end_in_text_or_the_typed_error(stored: bytes) -> None:
    assert outcome(stored) in (None, reference(stored))


def outcome(stored: bytes) -> str | None:
    """The text, which is JSON, or None if the bytes are refused."""
    try:
        shown = text(stored)
    except (UndecodableError, TextError):
        return None
    json.loads(shown)
    return shown


def reference(stored: bytes) -> str | None:
    """What plain Python, which is laxer about dates, makes of the bytes."""
    try:
        return json_reference.text(stored)
    except UndecodableError:
        return None


def test_every_truncation_is_refused() -> None:
    stored = document({"a": [1, 2**40, "text"], "b": {"c": 1.5}}, large=False)
    for cut in range(1, len(stored)):
        with pytest.raises(UndecodableError):
            text(stored[:cut])


def test_values_that_share_their_bytes_are_refused_and_not_multiplied() -> None:
    """Each array's two elements are one and the same array: 2**60 elements in some hundred bytes."""
    array = container([], [1], large=False)
    for _ in range(60):
        head = struct.pack("<HHBHBH", 2, 10 + len(array), 2, 10, 2, 10)
        array = head + array
    with pytest.raises(UndecodableError, match="overlap"):
        text(b"\x02" + array)


def test_an_element_that_is_its_own_array_is_refused() -> None:
    with pytest.raises(UndecodableError):
        text(b"\x02" + struct.pack("<HHBH", 1, 7, 2, 0))


@pytest.mark.parametrize(("depth", "fits"), [(100, True), (101, False)])
def test_nesting_ends_where_the_server_ends_it(depth: int, fits: bool) -> None:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    if fits:
        assert text(document(value, large=False)) == "[" * depth + "]" * depth
    else:
        with pytest.raises(UndecodableError, match="nested"):
            text(document(value, large=False))


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"\x03", "ends"),
        (b"\x0d\x00", "of a type"),
        (b"\x04\x03", "literal that"),
        (b"\x0b" + struct.pack("<d", float("nan")), "is no number"),
        (b"\x0b" + struct.pack("<d", float("-inf")), "is no number"),
        (b"\x0c\x02\xc3\x28", "utf8mb4"),
        (b"\x0c\xff\xff\xff\xff\xff", "more than 5 bytes"),
        (b"\x0f\xf6\x01\x05", "DECIMAL"),
        (b"\x0f\xf6\x03\x02\x05\x80", "DECIMAL"),
        (b"\x0f\xf6\x03\x01\x00\x8a", "DECIMAL"),  # a group of one digit that is 10
        (b"\x0f\xf6\x04\x01\x00\x81\x00", "DECIMAL"),  # a byte more than one digit has
        (b"\x0f\xf6\x27\x52\x00\x80" + bytes(36), "DECIMAL"),  # 82 digits
        (b"\x0f\x0a\x02\x00\x00", "date or time"),
        (b"\x0f" + packed(10, 13 * 10000 + 1, 1, 0, 0, 0, 0), "date or time"),
        (b"\x0f" + packed(11, 0, 0, 839, 0, 0, 0), "date or time"),
        (b"\x0f" + packed(10, 13, 1, 0, 0, 0, 0, negative=True), "date or time"),
        (b"\x0f" + packed(12, 13, 1, 24, 0, 0, 0), "date or time"),
        (b"\x0f" + packed(12, 13, 1, 0, 60, 0, 0), "date or time"),
        (b"\x0f" + packed(12, 13, 1, 0, 0, 60, 0), "date or time"),
        (b"\x0f" + packed(12, 13, 1, 0, 0, 0, 1_000_000), "date or time"),
        (b"\x0f\x0b\x08" + struct.pack("<q", -(2**63)), "date or time"),
    ],
)
def test_what_is_wrong_is_said(stored: bytes, why: str) -> None:
    with pytest.raises((UndecodableError, TextError), match=rf"^shop\.t\.j: .*{why}"):
        text(stored)


def array(size: int, *elements: tuple[int, int], rest: bytes) -> bytes:
    """A small array that says it has so many bytes, with the type and place of each element, and what they lie in."""
    entries = b"".join(struct.pack("<BH", kind, at) for kind, at in elements)
    return struct.pack("<HH", len(elements), size) + entries + rest


@pytest.mark.parametrize(
    "element",
    [(7, b"\1\0\0\0"), (11, bytes(8)), (12, b"\2xy"), (15, b"\x10\2xy"), (2, b"\0\0\4\0")],
    ids=["integer", "double", "string", "opaque", "array"],
)
def test_an_element_ends_where_its_container_ends(element: tuple[int, bytes]) -> None:
    """The document around the container continues, with bytes that no other value has."""
    kind, stored = element
    inner = array(7 + len(stored), (kind, 7), rest=stored)
    assert text(b"\2" + array(7 + len(inner) + 1, (2, 7), rest=inner + b"\0")).startswith("[[")
    cut = array(7 + len(stored) - 1, (kind, 7), rest=stored)
    with pytest.raises(UndecodableError, match=r"ends|beyond"):
        text(b"\2" + array(7 + len(cut) + 1, (2, 7), rest=cut + b"\0"))


def test_a_key_ends_where_its_object_ends() -> None:
    inner = struct.pack("<HHHHBH", 1, 13, 11, 2, 4, 0) + b"ab"
    assert text(b"\2" + array(7 + 14, (0, 7), rest=inner + b"\0")) == '[{"ab": null}]'
    cut = struct.pack("<HHHHBH", 1, 12, 11, 2, 4, 0) + b"ab"
    with pytest.raises(UndecodableError, match="ends"):
        text(b"\2" + array(7 + 14, (0, 7), rest=cut + b"\0"))


def test_keys_that_share_their_bytes_are_refused_and_not_multiplied() -> None:
    count, key = 50, b"x" * 1000
    head = 4 + 7 * count
    keys = struct.pack("<HH", head, len(key)) * count
    stored = struct.pack("<HH", count, head + len(key)) + keys + b"\4\0\0" * count + key
    with pytest.raises(UndecodableError, match="overlap"):
        text(b"\0" + stored)


def test_a_length_may_have_five_bytes() -> None:
    assert text(b"\x0c\x82\x80\x80\x80\x00xy") == '"xy"'


def test_every_character_that_is_escaped() -> None:
    for code in [*range(33), 34, 92, 127]:
        plain = chr(code)
        assert json.loads(text(document(plain, large=False))) == plain
        assert text(document(plain * 9, large=False)) == json_reference.text(document(plain * 9, large=False))


@pytest.mark.parametrize("precision", [65, 81])
def test_the_longest_decimals(precision: int) -> None:
    assert text(b"\x0f" + decimal(precision, 0, 1 - 10**precision)) == "-" + "9" * precision


@pytest.mark.parametrize(("hours", "shown"), [(0, "00"), (9, "09"), (99, "99"), (100, "100"), (838, "838")])
def test_hours_of_two_and_of_three_digits(hours: int, shown: str) -> None:
    assert text(b"\x0f" + packed(11, 0, 0, hours, 59, 59, 0)) == f'"{shown}:59:59.000000"'


# -- memory


@pytest.mark.parametrize("plain", ["", "x", "\0", "\x1f", "\n", '"', "\\", 'é\0"x'])
def test_the_room_of_a_text_is_what_is_written(plain: str) -> None:
    stored = np.frombuffer(bytearray(plain.encode() + bytes(SLACK)), np.uint8)
    size = len(plain.encode())
    room = text_kernels.quoted_room(stored, 0, size)
    assert room == text_kernels.quote_json(stored, 0, size, np.empty(room + SLACK, np.uint8), 0)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(
    "value",
    [{"\0" * 1000: None}, ["\0" * 1000] * 3, [False] * 1000, [{"": False}] * 300],
    ids=["key", "strings", "literals", "objects"],
)
def test_more_room_is_found_before_it_is_written_to(value: Any) -> None:
    assert printed([document(value, large=False)]) == [json.dumps(value)]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_more_room_is_found_for_base64_behind_a_long_text() -> None:
    plain, blob = b"\0" * 300, bytes(600)
    head = 4 + 3 * 2
    rest = length(len(plain)) + plain, b"\x10" + length(len(blob)) + blob
    stored = array(head + sum(map(len, rest)), (12, head), (15, head + len(rest[0])), rest=b"".join(rest))
    assert printed([b"\2" + stored]) == [json_reference.text(b"\2" + stored)]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.tuples(VALUES, st.booleans()), max_size=4), OPAQUE, st.data())
def test_nothing_outside_of_the_documents_is_read_or_written(
    values: list[tuple[Any, bool] | None], opaque: bytes, data: st.DataObject
) -> None:
    documents = [None if value is None else document(value[0], large=value[1]) for value in values]
    documents += [b"\x0f" + opaque]
    assert printed(documents) == [None if d is None else json_reference.text(d) for d in documents]
    damaged = bytearray(data.draw(st.sampled_from([d for d in documents if d])))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
    assert outcome(cut) in (None, reference(cut))
