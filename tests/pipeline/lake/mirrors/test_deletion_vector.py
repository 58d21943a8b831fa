"""The bytes are those of the format's specification; Delta reads them in tests/integration/lake/test_lake.py."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from pipeline.lake.mirrors.deletion_vector import (
    entry_places,
    vector_bytes,
    vector_entry,
    vector_path,
)


@pytest.mark.parametrize(
    ("storage", "place", "path"),
    [
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://other/place.bin", "s3://other/place.bin"),
        ("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None),
    ],
    ids=["in a folder of the table's", "in the table's folder", "elsewhere", "in the log"],
)
def test_a_vectors_file_is_told_by_the_log(storage: str, place: str, path: str | None) -> None:
    """The places are those of the protocol's own examples."""
    assert vector_path({"storageType": storage, "pathOrInlineDv": place}) == path


def test_few_places_are_listed_by_their_lower_bits_behind_the_upper_ones() -> None:
    places = BitMap64([3, 70_000, (1 << 32) + 1])
    expected = struct.pack("<Iq", 1681511377, 2)
    # Of 32 bits: no runs (12346), the containers' upper 16 bits with their sizes less one, their offsets, their values.
    expected += struct.pack("<I II HHHH II H H", 0, 12346, 2, 0, 0, 1, 0, 24, 26, 3, 70_000 - 65_536)
    expected += struct.pack("<I II HH I H", 1, 12346, 1, 0, 0, 16, 1)
    assert vector_bytes(places) == expected


def test_no_place_is_no_bitmap() -> None:
    assert vector_bytes(BitMap64()) == struct.pack("<Iq", 1681511377, 0)


@given(st.sets(st.integers(0, 1 << 40)))
def test_a_vector_has_the_places_that_it_was_made_of(places: set[int]) -> None:
    assert entry_places(vector_entry(vector_bytes(BitMap64(places)))) == BitMap64(places)


def test_a_vector_of_another_form_says_nothing() -> None:
    assert entry_places(vector_entry(struct.pack("<I", 1681511376) + bytes(8))) is None


def test_a_vector_lies_between_its_size_and_its_checksum() -> None:
    vector = vector_bytes(BitMap64([3]))
    assert vector_entry(vector) == struct.pack(f">I{len(vector)}sI", len(vector), vector, zlib.crc32(vector))


@given(st.integers(0), st.integers(1, 255))
def test_a_damaged_vector_says_nothing(at: int, bits: int) -> None:
    entry = bytearray(vector_entry(vector_bytes(BitMap64([3, 70_000]))))
    entry[at % len(entry)] ^= bits
    assert entry_places(bytes(entry)) is None
    assert entry_places(bytes(entry[: at % len(entry)])) is None
