"""Proposals between two keys: of each type, near the fraction, and never a reason to stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.row_keys import KeyPart
from pipeline.snapshot.key_midpoints import key_between
from pipeline.source.parameters import EXACT_CHARSETS
from pipeline.types import column_types as t
from pipeline.types.text.charsets import code_points

INT = t.Integer(8, unsigned=True)


@pytest.mark.parametrize(
    ("kind", "low", "high", "fraction", "found"),
    [
        (INT, 0, 100, 0.25, 25),
        (INT, 100, 0, 0.25, 75),
        (INT, 7, 8, 0.5, 7),
        (INT, 8, 7, 0.5, 8),
        (INT, 0, 2**64 - 2, 0.5, 2**63 - 1),
        (t.Year(), 1901, 2101, 0.5, 2001),
        (t.Bit(8), 0, 255, 0.5, 127),
        (t.Enum(("x", "y", "z")), 0, 2, 0.5, 1),
        (t.Set(tuple(map(str, range(11)))), 0, 9, 0.5, None),
        (t.Double(), -1e308, 1e308, 0.75, 5e307),
        (t.Decimal(40, 2), "-10000000000000000000000000.05", "10000000000000000000000000.05", 0.5, "0.00"),
        (t.Date(), "2024-01-01", "2024-01-03", 0.5, "2024-01-02"),
        (t.DateTime(3), "2024-01-01 00:00:00.000", "2024-01-01 00:00:00.002", 0.5, "2024-01-01 00:00:00.001"),
        (t.DateTime(0), "2024-00-00 00:00:00", "2024-01-01 00:00:00", 0.5, None),
        (t.Time(0), "-10:00:00", "838:00:00", 0.5, "414:00:00.000000"),
        (t.Time(1), "-00:00:03.0", "-00:00:01.0", 0.5, "-00:00:02.000000"),
        (t.Binary(), b"a\x00", b"a\x10\xff", 0.5, b"a\x08\x7f\x80" + bytes(9)),
        (t.Text("utf8mb4"), "user-00", "user-zz", 0.5, "user-hz" + "i" + "0" * 9),
        (t.Text("utf8mb4"), "AA", "CA", 0.5, "BA" + "0" * 10),
        (t.Text("utf8mb4"), "", "中", 0.5, "✖\U00088000"),
        (t.Text("utf8mb3"), "", "中", 0.5, "✖\u8000"),
        (t.Text("utf8mb3"), "/a", "zebra", 0.5, "T\u8063"),
        (t.Text("ascii"), "/a", "zebra", 0.5, "U#"),
        (t.Text("koi8r"), "a", "я", 0.5, "\u041c\xa0"),
    ],
)
def test_a_proposal_lies_so_far_from_the_one_to_the_other(
    kind: t.ColumnType, low: KeyPart, high: KeyPart, fraction: float, found: KeyPart | None
) -> None:
    assert key_between((kind,), (low,), (high,), fraction) == (None if found is None else (found,))


def test_of_a_composite_key_the_first_part_that_differs_counts() -> None:
    kinds = (INT, t.Text("latin1"), INT)
    assert key_between(kinds, (1, "x", 10), (1, "x", 20), 0.5) == (1, "x", 15)
    assert key_between(kinds, (1, "x", 10), (9, "a", 20), 0.5) == (5,)
    assert key_between(kinds, (1, "x", 10), (1, "x", 10), 0.5) is None


def test_the_beginning_of_a_key_may_be_an_end() -> None:
    assert key_between((INT, INT), (1,), (1, 5), 0.5) is None


@given(st.text(), st.text(), st.floats(0, 1))
def test_any_two_texts_have_a_text_between_them(low: str, high: str, fraction: float) -> None:
    found = key_between((t.Text("utf8mb4"),), (low,), (high,), fraction)
    assert (found is None) == (low == high)
    if found:
        assert isinstance(found[0], str) and found[0].encode()


@given(st.data(), st.sampled_from(sorted(EXACT_CHARSETS)), st.floats(0, 1))
def test_a_text_has_only_characters_of_its_character_set(
    data: st.DataObject, charset: str, fraction: float
) -> None:
    points = code_points(charset)
    there = st.sampled_from(points).filter(lambda point: not 0xD800 <= point < 0xE000).map(chr)
    low, high = data.draw(st.text(there)), data.draw(st.text(there))
    match key_between((t.Text(charset),), (low,), (high,), fraction):
        case (str(found),):
            assert {ord(each) for each in found} <= set(points)
        case found:
            assert found is None and low == high


@given(st.binary(), st.binary(), st.floats(0, 1))
def test_bytes_are_between_in_their_own_order(one: bytes, other: bytes, fraction: float) -> None:
    low, high = sorted((one, other))
    match key_between((t.Binary(),), (low,), (high,), fraction):
        case (bytes(found),):
            assert found.rstrip(b"\0") <= high and found >= low[: len(found)]
        case found:
            assert found is None and low == high


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.floats(0, 1))
def test_numbers_are_never_beyond_their_ends(low: int, high: int, fraction: float) -> None:
    found = key_between((INT,), (low,), (high,), fraction)
    assert found is None or min(low, high) <= found[0] <= max(low, high)  # type: ignore[operator]
