"""Compiled code must never read or write outside of its buffers, for any bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types.text import charset_kernels as kernels
from pipeline.types.text.charset_tables import FOUR_BYTES, LEAD, TABLED, code_tables

# Bytes that begin codes of two, three and four bytes, or continue them.
pieces = st.binary(max_size=3) | st.sampled_from(
    [b"\x8f", b"\x8f\xb0", b"\x81\x30", b"\x84\x31\xa4", b"\xd8\x00", b"\xfe\x39"]
)
values = st.lists(st.lists(pieces, max_size=4).map(b"".join), max_size=6)

CANARY = 0xEE


class Text:
    """Values end to end, and room for their texts with a canary after it."""

    def __init__(self, stored: list[bytes]) -> None:
        self.data = np.frombuffer(b"".join(stored), np.uint8)
        self.ends = np.cumsum([0, *map(len, stored)], dtype=np.int32)
        self.room = kernels.GROWTH * len(self.data)
        self.out = np.full(self.room + 8, CANARY, np.uint8)
        self.out_ends = np.zeros(len(self.ends), np.int64)

    def check(self, wrong: int) -> None:
        """Checks that nothing was written after the room, and either the texts are complete or a byte is at fault."""
        assert (self.out[self.room :] == CANARY).all()
        assert wrong == kernels.WHOLE_TEXT or 0 <= wrong < len(self.data)
        if wrong == kernels.WHOLE_TEXT:
            assert (np.diff(self.out_ends) >= 0).all()
            self.out[: self.out_ends[-1]].tobytes().decode()


@given(st.sampled_from(sorted(TABLED)), values)
def test_any_bytes_by_a_table(charset: str, stored: list[bytes]) -> None:
    text = Text(stored)
    text.check(
        int(kernels.decode_by_table(text.data, text.ends, *code_tables(charset), text.out, text.out_ends))
    )


@given(st.sampled_from([2, 4]), st.booleans(), st.booleans(), values)
def test_any_bytes_by_units(width: int, little: bool, pairs: bool, stored: list[bytes]) -> None:
    text = Text(stored)
    text.check(
        int(kernels.decode_by_unit(text.data, text.ends, width, little, pairs, text.out, text.out_ends))
    )


@given(st.sampled_from(sorted(TABLED)))
def test_a_table_that_is_asked_is_there(charset: str) -> None:
    one, two, three, four = code_tables(charset)
    assert len(one) == 256
    assert len(two) in (0, 65536) and len(three) in (0, 65536) and len(four) in (0, FOUR_BYTES)
    assert len(two) or (one != LEAD).all()
    assert len(three) or len(four) or (two != LEAD).all()
    assert (three != LEAD).all() and (four != LEAD).all()
