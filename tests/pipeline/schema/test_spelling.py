"""Names that are one to MySQL, and to Spark."""

# ruff: noqa: RUF001 - letters that look alike are what this is about
import pytest

from pipeline.schema.spelling import column_called, folded
from tests.pipeline.hostile_names import REFUSED


@pytest.mark.parametrize("names", [names for names in REFUSED if len(names) == 2])
def test_what_spark_takes_for_one(names: tuple[str, str]) -> None:
    one, other = names
    assert one != other
    assert folded(one) == folded(other)


@pytest.mark.parametrize("names", [("ß", "ss"), ("a", "á"), ("é", "e\u0301"), ("a.b", "a"), ("ﬁ", "fi")])
def test_what_spark_tells_apart(names: tuple[str, str]) -> None:
    one, other = names
    assert folded(one) != folded(other)


def test_a_statement_means_the_column_of_that_very_name_or_else_of_other_case() -> None:
    columns = ["ß", "ss", "s", "ſ", "Note"]
    for name in columns:
        assert column_called(name, columns) == name
    assert column_called("NOTE", columns) == "Note"
    assert column_called("SS", columns) == "ss"
    assert column_called("n", columns) is None
