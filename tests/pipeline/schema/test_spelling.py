"""Names that are one to MySQL, and to Spark."""

# ruff: noqa: RUF001 - letters that look alike are what this is about
import pytest

from pipeline.schema.spelling import find_column, fold_name
from tests.pipeline.hostile_names import REFUSED


@pytest.mark.parametrize("names", [names for names in REFUSED if len(names) == 2])
def test_what_spark_takes_for_one(names: tuple[str, str]) -> None:
    one, other = names
    assert one != other
    assert fold_name(one) == fold_name(other)


@pytest.mark.parametrize("names", [("ß", "ss"), ("a", "á"), ("é", "e\u0301"), ("a.b", "a"), ("ﬁ", "fi")])
def test_what_spark_tells_apart(names: tuple[str, str]) -> None:
    one, other = names
    assert fold_name(one) != fold_name(other)


def test_a_statement_means_the_column_of_that_very_name_or_else_of_other_case() -> None:
    columns = ["ß", "ss", "s", "ſ", "Note"]
    for name in columns:
        assert find_column(name, columns) == name
    assert find_column("NOTE", columns) == "Note"
    assert find_column("SS", columns) == "ss"
    assert find_column("n", columns) is None
