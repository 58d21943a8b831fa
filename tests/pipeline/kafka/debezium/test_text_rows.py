"""Rows of text are their pieces one after the other, however many rows there are at once."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.debezium.text_rows import Chosen, joined

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=20)


@given(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(0, 3))
def test_each_row_has_its_pieces(texts: list[str | None], between: str, cut: int) -> None:
    column = pa.array([*["cut off"] * cut, *texts], pa.string()).slice(cut)
    found = joined("{", column, between, pa.scalar("é"), column, "}", count=len(texts))
    assert found.to_pylist() == [None if text is None else f"{{{text}{between}é{text}}}" for text in texts]
    there = Chosen(column).where(np.asarray(column.is_valid()))
    found = joined(there, between, count=len(texts))
    assert found.to_pylist() == [f"{'null' if text is None else text}{between}" for text in texts]
    found = joined(replace(there, quoted=True), between, count=len(texts))
    assert found.to_pylist() == ["null" + between if text is None else f'"{text}"{between}' for text in texts]


def test_a_chosen_text_may_come_often_or_not_at_all() -> None:
    letters = pa.array(["a", "bc", "d"])
    rows = np.array([2, -1, 0, 0, 1])
    assert joined(Chosen(letters, rows), ";", count=5).to_pylist() == ["d;", "null;", "a;", "a;", "bc;"]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-120, 12_000)), st.data())
def test_integers_are_as_python_writes_them(values: list[int], data: st.DataObject) -> None:
    integers = Chosen(np.array(values, np.int64))
    assert joined("<", integers, count=len(values)).to_pylist() == [f"<{value}" for value in values]
    rows = data.draw(st.lists(st.integers(-1, len(values) - 1)))
    texts = joined(integers.taken(np.array(rows, np.int64)), ">", count=len(rows)).to_pylist()
    assert texts == ["null>" if row < 0 else f"{values[row]}>" for row in rows]


def test_bytes_may_stand_for_no_value() -> None:
    chosen = Chosen(pa.array([b"\xff", b""], pa.binary()), np.array([0, -1, 1]), none=b"\0" * 20)
    found = joined(b"\x02", chosen, count=3, kind=pa.binary())
    assert found.to_pylist() == [b"\x02\xff", b"\x02" + b"\0" * 20, b"\x02"]


def test_what_is_chosen_twice_is_chosen_from_the_first_choice() -> None:
    once = Chosen(pa.array(["a", "b", "c"]), np.array([2, -1, 1]))
    assert joined(once.taken(np.array([1, 2, 0])), count=3).to_pylist() == ["null", "b", "c"]
    assert joined(once.where(np.array([False, True, True])), count=3).to_pylist() == ["null", "null", "b"]


@pytest.mark.parametrize("length", range(40))
def test_a_constant_of_any_length_is_laid_down(length: int) -> None:
    numbers = Chosen(np.arange(3))
    assert joined("é" * length, numbers, "x" * length, count=3).to_pylist() == [
        "é" * length + str(number) + "x" * length for number in range(3)
    ]


@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_many_rows_are_laid_down(count: int) -> None:
    numbers = pa.array([str(number) * (number % 300) for number in range(count)], pa.string())
    assert joined("<", numbers, ">", count=count).to_pylist() == [f"<{each}>" for each in numbers.to_pylist()]
    assert joined("same", count=count).to_pylist() == ["same"] * count
