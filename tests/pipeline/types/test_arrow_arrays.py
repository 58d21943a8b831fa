"""Arrays over buffers: what the values and `exists` say, and nothing else."""

import struct

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types import arrow_arrays

values = st.lists(st.none() | st.binary(max_size=5), max_size=20)


def laid_out(of: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, data and `exists` of these values."""
    offsets = np.cumsum([0, *(len(value or b"") for value in of)]).astype(np.int64)
    data = np.frombuffer(b"".join(value or b"" for value in of), np.uint8)
    return offsets, data, np.array([value is not None for value in of], np.bool_)


@given(values)
def test_bytes_and_texts_of_any_length(of: list[bytes | None]) -> None:
    array = arrow_arrays.varying_width_array(pa.binary(), *laid_out(of))
    array.validate(full=True)
    assert array.to_pylist() == of
    assert array.null_count == of.count(None)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_a_null_hides_its_value(of: list[int | None]) -> None:
    numbers = np.array([7 if number is None else number for number in of], np.int32)
    exists = np.array([number is not None for number in of], np.bool_)
    array = arrow_arrays.fixed_width_array(pa.int32(), numbers, exists)
    array.validate(full=True)
    assert array.to_pylist() == of
    assert array.null_count == of.count(None)


def test_vectors_are_lists_of_floats() -> None:
    packed = [struct.pack("<2f", 1.5, -2), None, b"", struct.pack("<f", 0.25)]
    array = arrow_arrays.vector_array(*laid_out(packed))
    array.validate(full=True)
    assert array.to_pylist() == [[1.5, -2.0], None, [], [0.25]]
