"""The bytes of decimals are the manual's own example (strings/decimal.cc), and what isn't one is refused."""

import pytest

from pipeline.errors import UndecodableError
from pipeline.types.packed_decimal import decimal_text, groups

# decimal2bin's comment: 1234567890.1234 as DECIMAL(14,4).
STORED = bytes.fromhex("810DFB38D204D2")


def test_the_example_of_the_source() -> None:
    assert decimal_text(STORED, 14, 4) == "1234567890.1234"
    assert decimal_text(bytes(byte ^ 0xFF for byte in STORED), 14, 4) == "-1234567890.1234"


def test_groups_have_nine_digits_but_for_the_ends() -> None:
    assert groups(14, 4) == [(1, 1), (4, 9), (2, 4)]
    assert groups(9, 0) == [(4, 9)]


def test_zeros_before_the_point_are_not_shown_and_those_behind_it_are() -> None:
    assert decimal_text(b"\x80\x00", 3, 2) == "0.00"
    assert decimal_text(b"\x80\x05", 4, 0) == "5"


@pytest.mark.parametrize("stored", [STORED[:-1], STORED + b"\0", b"\x8a" + STORED[1:]])
def test_what_is_no_decimal_is_refused(stored: bytes) -> None:
    with pytest.raises(UndecodableError):
        decimal_text(stored, 14, 4)
