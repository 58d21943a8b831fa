"""Diffs of JSON documents: applied as MySQL 9.7 logged them, refused where they fit no document, and damaged ones."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.binlog.rows.cells import diffs_at
from pipeline.binlog.rows.json.document import decode_documents
from pipeline.binlog.rows.json.partial_update import apply_diffs
from pipeline.binlog.rows.stored_values import StoredColumn
from pipeline.errors import UndecodableError
from pipeline.types.buffers import ABSENT, NULL, SLACK
from pipeline.types.text.charsets import TextError
from tests.pipeline.binlog.rows.json.test_document import VALUES, document

REPLACE, INSERT, REMOVE = 0, 1, 2

LARGE = st.booleans()


def packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def diff(operation: int, path: str, value: bytes | None = None) -> bytes:
    stored = bytes([operation]) + packed(len(path.encode())) + path.encode()
    return stored if value is None else stored + packed(len(value)) + value


def after(before: bytes, *diffs: bytes) -> str | None:
    """The text of an after image whose diffs are of this document."""
    column = column_of([before, b"".join(diffs)], changed={1})
    return column[1]


def column_of(values: list[bytes], changed: set[int]) -> list[str | None]:
    """Returns the texts of documents and diffs."""
    return list(decode_documents(4, stored(values, changed)).to_pylist())


def stored(values: list[bytes], changed: set[int]) -> StoredColumn:
    """Documents and diffs, each after a length of 4 bytes, with no spare bytes around them."""
    buffer, cells = bytearray(), []
    for i, value in enumerate(values):
        cells.append(diffs_at(len(buffer)) if i in changed else len(buffer))
        buffer += struct.pack("<I", len(value)) + value
    return StoredColumn(
        np.frombuffer(buffer + b"\xff" * SLACK, np.uint8), np.array(cells, np.int32), "shop.t.j", len(buffer)
    )


BEFORE = document({"a": [1, 2, {"b": "text"}], "c": None, 'quo"te': {}}, large=False)
NINE = document(9, large=False)


@pytest.mark.parametrize(
    ("diffs", "meant"),
    [
        ([], {"a": [1, 2, {"b": "text"}], "c": None, 'quo"te': {}}),
        ([diff(REPLACE, "$.a", NINE)], {"a": 9, "c": None, 'quo"te': {}}),
        ([diff(REPLACE, "$.a[2].b", NINE)], {"a": [1, 2, {"b": 9}], "c": None, 'quo"te': {}}),
        ([diff(REPLACE, "$.a[last]", NINE)], {"a": [1, 2, 9], "c": None, 'quo"te': {}}),
        ([diff(REPLACE, "$.a[last-2]", NINE)], {"a": [9, 2, {"b": "text"}], "c": None, 'quo"te': {}}),
        ([diff(INSERT, "$.a[1]", NINE)], {"a": [1, 9, 2, {"b": "text"}], "c": None, 'quo"te': {}}),
        ([diff(INSERT, "$.a[3]", NINE)], {"a": [1, 2, {"b": "text"}, 9], "c": None, 'quo"te': {}}),
        ([diff(INSERT, "$.a[99]", NINE)], {"a": [1, 2, {"b": "text"}, 9], "c": None, 'quo"te': {}}),
        ([diff(INSERT, "$.a[last-3]", NINE)], {"a": [9, 1, 2, {"b": "text"}], "c": None, 'quo"te': {}}),
        ([diff(INSERT, "$.a[last-1]", NINE)], {"a": [1, 9, 2, {"b": "text"}], "c": None, 'quo"te': {}}),
        (
            [diff(INSERT, '$."quo\\"te"."é"', NINE)],
            {"a": [1, 2, {"b": "text"}], "c": None, 'quo"te': {"é": 9}},
        ),
        ([diff(INSERT, "$.bb", NINE)], {"a": [1, 2, {"b": "text"}], "c": None, "bb": 9, 'quo"te': {}}),
        ([diff(INSERT, "$.b", NINE)], {"a": [1, 2, {"b": "text"}], "b": 9, "c": None, 'quo"te': {}}),
        (
            [diff(INSERT, "$.b\x85\xa0b", NINE)],
            {"a": [1, 2, {"b": "text"}], "c": None, "b\x85\xa0b": 9, 'quo"te': {}},
        ),
        ([diff(REMOVE, "$.a[0]")], {"a": [2, {"b": "text"}], "c": None, 'quo"te': {}}),
        (
            [diff(REMOVE, "$.c"), diff(INSERT, "$.c", NINE)],
            {"a": [1, 2, {"b": "text"}], "c": 9, 'quo"te': {}},
        ),
        (
            [diff(REPLACE, "$.c", document([[]], large=True)), diff(INSERT, "$.c[0][0]", NINE)],
            {"a": [1, 2, {"b": "text"}], "c": [[9]], 'quo"te': {}},
        ),
    ],
)
def test_diffs_are_applied(diffs: list[bytes], meant: Any) -> None:
    assert after(BEFORE, *diffs) == json.dumps(meant, ensure_ascii=False)


@given(VALUES, VALUES, LARGE, LARGE)
def test_any_value_goes_into_any_container(inner: Any, other: Any, small: bool, large: bool) -> None:
    before = document({"x": [other, {"y": other}], "z": other}, large=large)
    value = document(inner, large=small)
    shown = after(
        before, diff(REPLACE, "$.x[1].y", value), diff(INSERT, "$.x[0]", value), diff(REMOVE, "$.z")
    )
    assert shown is not None
    assert json.loads(shown) == {"x": [inner, other, {"y": inner}]}


def test_values_beyond_a_small_containers_reach() -> None:
    """Small containers end at 64 KiB; one that is opened becomes a large one."""
    long = "x" * 60_000
    before = document({"a": [long], "b": 70_000, "c": -1}, large=False)
    shown = after(before, diff(INSERT, "$.a[0]", document(long, large=False)), diff(INSERT, "$.d", NINE))
    assert shown == json.dumps({"a": [long, long], "b": 70_000, "c": -1, "d": 9})


def test_documents_and_diffs_of_a_column() -> None:
    whole = document([1], large=False)
    values = [whole, diff(INSERT, "$[0]", NINE), whole, whole, whole, diff(REMOVE, "$[0]")]
    assert column_of(values, changed={1, 5}) == ["[1]", "[9, 1]", "[1]", "[1]", "[1]", "[]"]


def test_containers_of_any_number_of_elements_are_opened() -> None:
    """More than there are nodes at first; the documents before keep what they became."""
    many = [list(range(700)), list(range(3000))]
    before = document(many, large=True)
    small = document([1], large=False)
    values = [small, diff(REMOVE, "$[0]"), before, diff(REMOVE, "$[0][0]") + diff(INSERT, "$[1][last]", NINE)]
    first, second = column_of(values, changed={1, 3})[1::2]
    assert first == "[]"
    assert json.loads(second or "") == [many[0][1:], [*many[1][:-1], 9, many[1][-1]]]


def test_a_name_is_unescaped_and_has_its_place_in_the_order() -> None:
    """The server orders members by the length of their names in bytes, and then by these."""
    names = ["\n", "a", "z", "\x01\x1f", "é", '"\\/\b\f\r\t']
    diffs = [diff(INSERT, "$." + json.dumps(name, ensure_ascii=False), NINE) for name in reversed(names)]
    shown = after(document({}, large=False), *diffs, diff(REPLACE, '$."\\n"', document(1, large=False)))
    assert shown == json.dumps({name: 1 if name == "\n" else 9 for name in names}, ensure_ascii=False)


def test_a_name_that_is_not_utf8_is_refused() -> None:
    path = b"$.\xff"
    stored_diff = bytes([INSERT, len(path)]) + path + bytes([len(NINE)]) + NINE
    with pytest.raises(TextError, match=r"shop\.t\.j"):
        after(BEFORE, stored_diff)


@pytest.mark.parametrize(
    ("diffs", "why"),
    [
        (diff(3, "$.a", NINE), "an operation"),
        (diff(REPLACE, "$.x", NINE), "doesn't have"),
        (diff(REPLACE, "$.a[3]", NINE), "doesn't have"),
        (diff(REPLACE, "$[0]", NINE), "doesn't have"),
        (diff(REPLACE, "$.c.d", NINE), "doesn't have"),
        (diff(REPLACE, "$.a.d", NINE), "doesn't have"),
        (diff(INSERT, "$.a.d", NINE), "doesn't have"),
        (diff(INSERT, "$.c", NINE), "doesn't have"),
        (diff(INSERT, "$.a[9][0]", NINE), "doesn't have"),
        (diff(REMOVE, "$.x"), "doesn't have"),
        (diff(REMOVE, "$.a[last-3]"), "doesn't have"),
        (diff(REMOVE, "$"), "isn't a path"),
        (diff(REMOVE, ""), "isn't a path"),
        (diff(REMOVE, "a"), "isn't a path"),
        (diff(REMOVE, "$a"), "isn't a path"),
        (diff(REMOVE, "$.*"), "isn't a path"),
        (diff(REMOVE, "$[-1]"), "isn't a path"),
        (diff(REMOVE, "$[]"), "isn't a path"),
        (diff(REMOVE, '$."\\x"'), "isn't a path"),
        (diff(REMOVE, '$."\\ud800"'), "isn't a path"),
        (bytes([REMOVE, 2]) + b"$\xff", "isn't a path"),
        (diff(REPLACE, "$.a", b""), "isn't one"),
        (diff(REPLACE, "$.a", NINE + b"\0"), "isn't one"),
        (diff(REPLACE, "$.a", b"\x0d"), "type"),
        (diff(REPLACE, "$.a", NINE)[:-1], "too early"),
        (b"\0\xfb", "begins with 251"),
    ],
)
def test_what_fits_no_document_is_refused_by_name(diffs: bytes, why: str) -> None:
    with pytest.raises(UndecodableError, match=rf"^shop\.t\.j: .*{why}"):
        after(BEFORE, diffs)


@pytest.mark.parametrize(("cell", "why"), [(ABSENT, "binlog_row_image='FULL'"), (NULL, "is NULL")])
def test_diffs_of_what_is_not_there_are_refused_by_name(cell: int, why: str) -> None:
    stored = StoredColumn(
        np.zeros(4 + SLACK, np.uint8), np.array([cell, diffs_at(0)], np.int32), "shop.t.j", 0
    )
    with pytest.raises(UndecodableError, match=rf"^shop\.t\.j: .*{why}"):
        decode_documents(4, stored)


def test_a_document_that_multiplies_itself_is_refused_before_it_does() -> None:
    """A thousand elements, each of which is one and the same text of almost the whole document."""
    count, text = 1000, b"\xe0\xd4\x03" + b"x" * 60_000
    head = 8 + 5 * count
    array = struct.pack("<II", count, head + len(text)) + (b"\x0c" + struct.pack("<I", head)) * count + text
    with pytest.raises(UndecodableError, match="overlap"):
        after(b"\x03" + array, diff(REMOVE, "$[0]"))


def test_a_path_may_have_a_hundred_legs() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    path = "$" + "[0]" * 100
    assert after(document(value, large=False), diff(REPLACE, path, NINE)) == "[" * 100 + "9" + "]" * 100
    deeper = stored([document([value], large=False), diff(REPLACE, path + "[0]", NINE)], changed={1})
    with pytest.raises(UndecodableError, match="isn't a path"):
        apply_diffs(4, deeper, np.array([1]))


def test_a_length_may_have_five_bytes() -> None:
    text = b"\x82\x80\x80\x80\x00xy"
    array = struct.pack("<HHBH", 1, 7 + len(text), 12, 7) + text
    assert after(b"\2" + array, diff(INSERT, "$[0]", NINE)) == '[9, "xy"]'


def test_values_that_only_sql_has_stay_as_they_are() -> None:
    """Their type is before their length, and the second one needs two bytes for its length."""
    one, other = b"\x10\2ab", b"\x10\x82\1" + b"cd" * 65
    head = 4 + 2 * 3
    array = struct.pack("<HHBHBH", 2, head + len(one + other), 15, head, 15, head + len(one)) + one + other
    before, shown = after(b"\2" + array), after(b"\2" + array, diff(INSERT, "$[0]", NINE))
    assert before is not None
    assert before.startswith('["base64:type16:YWI=", "base64:type16:Y2Rj')
    assert shown == "[9, " + before[1:]


def test_an_element_ends_where_its_container_ends() -> None:
    """The document continues, but only a container's own bytes are opened."""
    array = struct.pack("<HHBH", 1, 7 + 2, 12, 7) + b"\2xy"
    with pytest.raises(UndecodableError, match="ends inside"):
        after(BEFORE, diff(REPLACE, "$.c", b"\2" + array), diff(INSERT, "$.c[0]", NINE))


def test_names_that_share_their_bytes_are_refused_before_they_are_multiplied() -> None:
    """Each is the end of the one before it."""
    count, name = 40, bytes(range(48, 88))
    head = 4 + 7 * count
    names = b"".join(struct.pack("<HH", head + i, count - i) for i in range(count))
    stored = struct.pack("<HH", count, head + len(name)) + names + b"\4\0\0" * count + name
    with pytest.raises(UndecodableError, match="overlap"):
        after(BEFORE, diff(REPLACE, "$.c", b"\0" + stored), diff(REMOVE, "$.c.x"))


def test_an_object_with_two_members_of_one_name_is_refused() -> None:
    stored = struct.pack("<HHHHHHBHBH", 2, 20, 18, 1, 19, 1, 4, 0, 4, 1) + b"aa"
    with pytest.raises(UndecodableError, match="two members"):
        after(b"\0" + stored, diff(REMOVE, "$.a"))


def test_an_empty_document_has_no_parts() -> None:
    assert after(b"") == "null"
    with pytest.raises(UndecodableError, match="doesn't have"):
        after(b"", diff(REMOVE, "$.a"))


@given(VALUES, VALUES, LARGE, st.data())
def test_damaged_diffs_and_documents_end_in_text_or_the_typed_error(
    value: Any, inner: Any, large: bool, data: st.DataObject
) -> None:
    applied_or_refused(value, inner, large, data)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES, VALUES, LARGE, st.data())
def test_no_loop_reads_or_writes_outside_of_its_arrays(
    value: Any, inner: Any, large: bool, data: st.DataObject
) -> None:
    applied_or_refused(value, inner, large, data)


def applied_or_refused(value: Any, inner: Any, large: bool, data: st.DataObject) -> None:
    """Diffs and a document of which some bytes are damaged."""
    before = document({"a": [value, {"b": inner}], "c": value}, large=large)
    diffs = diff(REPLACE, "$.a[1].b", document(value, large=large)) + diff(REMOVE, "$.a[0]")
    diffs += diff(INSERT, r'$."\"\u0001"', document(inner, large=large))
    damaged = [bytearray(before), bytearray(diffs)]
    for _ in range(data.draw(st.integers(0, 3))):
        bytes_ = damaged[data.draw(st.integers(0, 1))]
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    try:
        shown = after(bytes(damaged[0]), bytes(damaged[1]))
    except (UndecodableError, TextError):
        return
    assert shown is not None
    json.loads(shown)
