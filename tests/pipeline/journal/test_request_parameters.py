"""A wrong parameter is named."""

import pytest

from pipeline.journal.request_parameters import MalformedRequest, check_names, check_once, tables_named
from pipeline.schema.table_schema import TableId


@pytest.mark.parametrize(
    ("there", "listed"), [((), "there are none"), (("a",), "there is a"), (("a", "b"), "there are a, b")]
)
def test_an_unknown_parameter_is_named_beside_those_there_are(there: tuple[str, ...], listed: str) -> None:
    check_names(there, *there)
    with pytest.raises(MalformedRequest, match=f"^x: there is no such parameter; {listed}$"):
        check_names({"y", "x", *there}, *there)


def test_a_parameter_that_comes_twice_is_named_and_not_half_taken() -> None:
    check_once([])
    check_once(["a", "b"])
    with pytest.raises(MalformedRequest, match=r"^b: it comes more than once"):
        check_once(["a", "b", "b"])


def test_tables_are_named_once_each() -> None:
    assert tables_named("a.b,c.d,a.b") == (TableId("a", "b"), TableId("c", "d"))
    with pytest.raises(MalformedRequest, match="tables: 'a' isn't database"):
        tables_named("a")
