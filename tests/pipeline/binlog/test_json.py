"""Binary JSON: documents as MySQL 9.7 logged them, an encoder's own by the format's description, and damaged ones."""

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.json import double, text

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
    printed = text(document(value, large=large))
    assert json.loads(printed) == value
    if not contains_float(value):
        # Only doubles, the delete character and beyond ASCII are printed otherwise than by Python.
        assert printed == json.dumps(value, ensure_ascii=False)


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
    try:
        printed = text(bytes(stored[:cut]))
    except UndecodableError:
        return
    json.loads(printed)


@given(st.binary(max_size=60))
def test_any_bytes_end_in_text_or_the_typed_error(stored: bytes) -> None:
    with contextlib.suppress(UndecodableError):
        json.loads(text(stored))


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
        (b"\x0d\x00", "type 13"),
        (b"\x04\x03", "literal 3"),
        (b"\x0b" + struct.pack("<d", float("nan")), "no number"),
        (b"\x0c\x02\xc3\x28", "UTF-8"),
        (b"\x0c\xff\xff\xff\xff\xff", "more than 5 bytes"),
        (b"\x0f\xf6\x01\x05", "too short"),
        (b"\x0f\xf6\x03\x02\x05\x80", "DECIMAL"),
        (b"\x0f\x0a\x02\x00\x00", "8 bytes"),
    ],
)
def test_what_is_wrong_is_said(stored: bytes, why: str) -> None:
    with pytest.raises(UndecodableError, match=why):
        text(stored)
