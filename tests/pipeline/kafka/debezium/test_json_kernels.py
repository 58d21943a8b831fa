"""The loops write as much as their sizes say, and nothing beyond."""

from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.kafka.debezium import json_kernels as kernels

GUARD = 0xA5


def laid_out(values: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Values end to end, and their ends."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return np.frombuffer(b"".join(values), np.uint8), ends


def guarded(size: int) -> NDArray[np.uint8]:
    """Room for so many bytes, with some behind it that nothing may change."""
    return np.full(size + 16, GUARD, np.uint8)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_escapes_take_the_room_that_was_said(texts: list[str]) -> None:
    data, ends = laid_out([text.encode() for text in texts])
    size = kernels.size_of_escaped(data, kernels.SHORT_ESCAPES) + 2 * len(texts)
    out, out_ends = guarded(size), np.zeros(len(texts) + 1, np.int32)
    kernels.escape(data, ends, kernels.SHORT_ESCAPES, kernels.HEX_DIGITS, out, out_ends[1:])
    assert out_ends[-1] == size and (out[size:] == GUARD).all()


@given(st.lists(st.binary()))
def test_base64_takes_four_bytes_for_three(values: list[bytes]) -> None:
    data, ends = laid_out(values)
    size = sum((len(value) + 2) // 3 * 4 + 2 for value in values)
    out, out_ends = guarded(size), np.zeros(len(values) + 1, np.int32)
    kernels.quoted_base64(data, ends, kernels.BASE64, out, out_ends[1:])
    assert out_ends[-1] == size and (out[size:] == GUARD).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_no_double_is_longer_than_the_longest(values: list[float]) -> None:
    shown = pa.array(values, pa.float64()).cast(pa.string()).to_pylist()
    data, ends = laid_out([text.encode() for text in shown])
    out, out_ends = guarded(kernels.LONGEST_DOUBLE * len(values)), np.zeros(len(values) + 1, np.int32)
    kernels.doubles(data, ends, np.empty(kernels.DIGITS, np.uint8), out, out_ends[1:])
    assert (np.diff(out_ends) <= kernels.LONGEST_DOUBLE).all() and (out[out_ends[-1] :] == GUARD).all()
    assert [float(out[a:b].tobytes()) for a, b in pairwise(out_ends)] == values


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.integers(0, 9_000))
def test_a_plain_text_takes_no_more_with_escapes(text: str, before: int) -> None:
    data = np.frombuffer(b"x" * before + text.encode() + b"x", np.uint8)
    assert kernels.is_plain(data) == (kernels.size_of_escaped(data, kernels.SHORT_ESCAPES) == len(data))


@given(st.lists(st.datetimes()), st.integers(0, 6))
def test_instants_are_as_python_writes_them(moments: list[datetime], digits: int) -> None:
    size = 22 + (1 + digits if digits else 0)
    out = guarded(size * len(moments))
    kernels.instants(np.array(moments, "datetime64[us]").astype(np.int64), digits, out)
    texts = [bytes(out[size * i : size * (i + 1)]).decode() for i in range(len(moments))]
    fractions = [f".{moment.microsecond:06d}"[: 1 + digits] if digits else "" for moment in moments]
    assert texts == [
        f'"{moment.replace(microsecond=0).isoformat()}{fraction}Z"'
        for moment, fraction in zip(moments, fractions, strict=True)
    ]
    assert (out[size * len(moments) :] == GUARD).all()
