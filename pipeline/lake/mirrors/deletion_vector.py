"""The places of rows in a file, in the form of Delta's deletion vectors.

It is a number that says which form it is, and then a 64-bit Roaring bitmap in its portable format: how many bitmaps of
32 bits follow, and each of them behind its upper 32 bits. In a file of vectors four bytes with its size come before
it, and four with a checksum after it.

Source: Delta Transaction Log Protocol, Deletion Vector Format, Deletion Vector File Storage Format; the Roaring
bitmaps' format specification, "Extension for 64-bit implementations".
"""

import zlib
from base64 import b85decode
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from pyroaring import BitMap64

# "Portable", in Delta's words.
_FORM: Final = (1681511377).to_bytes(4, "little")
# What a file has around a vector: its size before it, and its CRC-32 after it.
AROUND_BYTES: Final = 8

# What the log has of a vector's file is the UUID in its name, in Z85. Python knows Base85 with other digits.
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_DIGITS: Final = str.maketrans(_Z85, _B85)
_UUID_DIGITS: Final = 20


def vector_path(descriptor: Mapping[str, Any]) -> str | None:
    """Returns the file of a vector by what the log says of it, in the table's folder or from the root; None if the
    vector is in the log itself, or somewhere that isn't known here.

    Source: Delta Transaction Log Protocol, Deletion Vector Descriptor Schema.
    """
    place: str = descriptor["pathOrInlineDv"]
    match descriptor["storageType"]:
        case "u":
            folder, digits = place[:-_UUID_DIGITS], place[-_UUID_DIGITS:]
            name = f"deletion_vector_{UUID(bytes=b85decode(digits.translate(_DIGITS)))}.bin"
            return f"{folder}/{name}" if folder else name
        case "p":
            return place
        case _:
            return None


def vector_bytes(places: BitMap64) -> bytes:
    """Returns these places, counted from the file's beginning, as the bytes of a deletion vector."""
    return _FORM + bytes(places.serialize())


def vector_entry(vector: bytes) -> bytes:
    """Returns a deletion vector as it is in a file of vectors."""
    return len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")


def entry_places(entry: bytes) -> BitMap64 | None:
    """Returns the places of the vector in an entry of such a file; None if it has another form, or is damaged."""
    vector = entry[4:-4]
    if entry != vector_entry(vector) or not vector.startswith(_FORM):
        return None
    return BitMap64.deserialize(vector[len(_FORM) :])
