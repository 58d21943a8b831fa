"""The places of rows in a file, in the form of Delta's deletion vectors.

It is a number that says which form it is, and then a 64-bit Roaring bitmap in its portable format: how many bitmaps of
32 bits follow, and each of them behind its upper 32 bits. In a file of vectors four bytes with its size come before
it, and four with a checksum after it.

Source: Delta Transaction Log Protocol, Deletion Vector Format, Deletion Vector File Storage Format; the Roaring
bitmaps' format specification, "Extension for 64-bit implementations".
"""

from typing import Final

from pyroaring import BitMap64

# "Portable", in Delta's words.
_FORM: Final = (1681511377).to_bytes(4, "little")
# The size of a vector that comes before it in a file.
SIZE_BYTES: Final = 4


def vector_bytes(places: BitMap64) -> bytes:
    """Returns these places, counted from the file's beginning, as the bytes of a deletion vector."""
    return _FORM + bytes(places.serialize())


def vector_places(vector: bytes) -> BitMap64 | None:
    """Returns the places that a deletion vector has; None if it has another form."""
    return BitMap64.deserialize(vector[len(_FORM) :]) if vector.startswith(_FORM) else None
