"""Rows of text are their pieces one after the other, however many rows there are at once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.debezium.text_rows import Chosen, joined, or_null

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=20)


@given(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(0, 3))
def test_each_row_has_its_pieces(texts: list[str | None], between: str, cut: int) -> None:
    column = pa.array([*["cut off"] * cut, *texts], pa.string()).slice(cut)
    found = joined("{", column, between, pa.scalar("é"), column, "}", count=len(texts))
    assert found.to_pylist() == [None if text is None else f"{{{text}{between}é{text}}}" for text in texts]
    found = joined(or_null(column), between, count=len(texts))
    assert found.to_pylist() == [f"{'null' if text is None else text}{between}" for text in texts]


def test_a_chosen_text_may_come_often_or_not_at_all() -> None:
    letters = pa.array(["a", "bc", "d"])
    rows = np.array([2, -1, 0, 0, 1])
    assert joined(Chosen(letters, rows), ";", count=5).to_pylist() == ["d;", "null;", "a;", "a;", "bc;"]


@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_many_rows_are_laid_down_in_several_turns(count: int) -> None:
    numbers = pa.array([str(number) * (number % 300) for number in range(count)], pa.string())
    assert joined("<", numbers, ">", count=count).to_pylist() == [f"<{each}>" for each in numbers.to_pylist()]
    assert joined("same", count=count).to_pylist() == ["same"] * count
