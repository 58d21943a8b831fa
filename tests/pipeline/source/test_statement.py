"""Statements: names quoted, and values encoded as the protocol has them."""

import pytest

from pipeline.schema.table_schema import TableId
from pipeline.source.statement import Statement, encoded, quote_name, quoted_table


def test_names_keep_their_signs() -> None:
    assert quote_name("a`b%") == "`a``b%%`"
    assert quoted_table(TableId("d", "t")) == "`d`.`t`"


def test_each_value_has_its_mark_in_the_text() -> None:
    assert Statement(f"SELECT {quote_name('50%')} WHERE a = %s OR a = %s", (1, "x")).marked == (
        "SELECT `50%` WHERE a = ? OR a = ?"
    )


def test_no_values_need_no_bytes() -> None:
    assert encoded(()) == b""


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (0, b"\x08\x80", bytes(8)),
        (2**64 - 1, b"\x08\x80", b"\xff" * 8),
        (-2, b"\x08\x00", b"\xfe" + b"\xff" * 7),
        (1.0, b"\x05\x00", b"\0\0\0\0\0\0\xf0\x3f"),
        ("é", b"\xfd\x00", b"\x02\xc3\xa9"),
        (b"\xff\x00", b"\xfc\x00", b"\x02\xff\x00"),
        (b"x" * 250, b"\xfc\x00", b"\xfa" + b"x" * 250),
        (b"x" * 251, b"\xfc\x00", b"\xfc\xfb\x00" + b"x" * 251),
        (b"x" * 65536, b"\xfc\x00", b"\xfd\x00\x00\x01" + b"x" * 65536),
    ],
)
def test_a_value_is_its_type_and_its_bytes(
    value: int | float | str | bytes, kind: bytes, written: bytes
) -> None:
    assert encoded((value,)) == b"\x00\x01" + kind + written


def test_types_come_before_values_and_the_bitmap_grows_with_their_number() -> None:
    assert encoded((1, 2)) == b"\x00\x01" + b"\x08\x80" * 2 + (1).to_bytes(8, "little") + (2).to_bytes(
        8, "little"
    )
    assert encoded((0,) * 9)[:3] == b"\x00\x00\x01"
