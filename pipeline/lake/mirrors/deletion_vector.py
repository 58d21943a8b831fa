"""The places of rows in a file, in the form of Delta's deletion vectors.

It is a number that says which form it is, and then a 64-bit Roaring bitmap in its portable format: how many bitmaps of
32 bits follow, and each of them behind its upper 32 bits.

Source: Delta Transaction Log Protocol, Deletion Vector Format; the Roaring bitmaps' format specification, "Extension
for 64-bit implementations".
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

# "Portable", in Delta's words.
_FORM: Final = (1681511377).to_bytes(4, "little")


def vector_bytes(places: NDArray[np.int64]) -> bytes:
    """Returns these places, counted from the file's beginning, as the bytes of a deletion vector."""
    return _FORM + bytes(BitMap64(places.astype(np.uint64)).serialize())
