"""ENUM and SET values from the numbers that the log has into the texts that the server shows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import Definite


class NoLabel(Definite):
    """A value is a number that none of its column's labels has."""


def enum_texts(indices: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """ENUM indices (int32, from 1; 0 is the empty text of an invalid value) as strings. Raises NoLabel."""
    texts = pa.array(["", *labels], pa.string())
    extent = pc.min_max(indices)
    least, most = extent["min"].as_py(), extent["max"].as_py()
    if most is not None and not 0 <= least <= most < len(texts):
        raise NoLabel(f"an ENUM with {len(labels)} labels has a value between {least} and {most}")
    return texts.take(indices)


def set_texts(bits: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """SET bits (int64 in two's complement, the lowest is the first label) as strings. Raises NoLabel."""
    encoded = bits.dictionary_encode()
    patterns = encoded.dictionary.to_numpy().astype(np.uint64).tolist()
    texts = pa.array([_set_text(pattern, labels) for pattern in patterns], pa.string())
    return texts.take(encoded.indices)


def _set_text(pattern: int, labels: tuple[str, ...]) -> str:
    if pattern >> len(labels):
        raise NoLabel(f"a SET with {len(labels)} labels has the value {pattern:#x}")
    return ",".join(label for bit, label in enumerate(labels) if pattern >> bit & 1)
