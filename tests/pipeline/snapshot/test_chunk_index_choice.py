"""Which index a table is walked along, and why one can't be."""

from typing import Any

import pytest

from pipeline.errors import Definite, Transient
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.chunk_index_choice import Indexes, choose_index
from pipeline.source.information_schema import IndexPart, TableDescription
from pipeline.types import column_types as t

INT = t.Integer(4, unsigned=False)


def part(column: str | None, **changes: Any) -> IndexPart:
    return IndexPart(column, False, None, nullable=False, prefixed=False)._replace(**changes)


def described(
    *kinds: t.ColumnType, key: tuple[int, ...] = (0,), prefixed: tuple[str, ...] = ()
) -> TableDescription:
    columns = tuple(Column("abcdef"[i], kind, nullable=False) for i, kind in enumerate(kinds))
    return TableDescription(TableSchema(TableId("shop", "orders"), columns, key), prefixed)


PRIMARY = {"PRIMARY": (part("a"),)}


def test_the_walk_is_along_the_primary_key_in_its_own_order() -> None:
    table = described(INT, t.Text("gbk"), INT, key=(2, 1))
    indexes = {
        "PRIMARY": (part("c", descending=True), part("b", collation="gbk_bin")),
        "a": (part("a"),),
    }
    assert choose_index(table, indexes, None) == ChunkIndex(
        "PRIMARY", (2, 1), (True, False), (None, "gbk_bin")
    )


def test_a_unique_index_may_be_the_key() -> None:
    assert choose_index(described(INT, INT), {"u": (part("a"),), "v": (part("b"),)}, None).index == "u"


def test_of_two_indexes_over_the_key_the_one_without_faults_is_walked() -> None:
    assert choose_index(described(INT), {"f": (part("a"), part(None)), "u": (part("a"),)}, None).index == "u"


@pytest.mark.parametrize("named", ["u", "U", "b", "B"])
def test_a_surrogate_key_is_named_by_its_index_or_by_its_one_column(named: str) -> None:
    indexes = {**PRIMARY, "u": (part("b", descending=True),)}
    assert choose_index(described(INT, INT), indexes, named) == ChunkIndex("u", (1,), (True,), (None,))


def test_a_surrogate_key_of_several_columns_is_named_by_its_index() -> None:
    indexes = {**PRIMARY, "u": (part("c"), part("b"))}
    assert choose_index(described(INT, INT, INT), indexes, "u").columns == (2, 1)
    with pytest.raises(Definite, match="no unique index that is called 'c' or is over the one column 'c'"):
        choose_index(described(INT, INT, INT), indexes, "c")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (part("b", nullable=True), "column b may be NULL"),
        (part("b", prefixed=True), "column b is in it with a prefix only"),
        (part(None), "a part of it is an expression"),
        (part("c"), "column c is a JSON"),
    ],
)
def test_an_index_that_does_not_tell_rows_apart_is_no_surrogate_key(fault: IndexPart, reason: str) -> None:
    with pytest.raises(Definite, match=rf"index u of shop\.orders can't be a surrogate-key: .*{reason}"):
        choose_index(described(INT, INT, t.Json()), {**PRIMARY, "u": (part("b"), fault)}, "u")


def test_without_a_primary_key_there_is_no_walk() -> None:
    for surrogate in (None, "a"):
        with pytest.raises(Definite, match="no primary key to walk along; its changes still stream"):
            choose_index(described(INT, key=()), {}, surrogate)


@pytest.mark.parametrize(
    "kind",
    [
        *(t.Integer(size, unsigned) for size in (1, 2, 3, 4, 8) for unsigned in (False, True)),
        t.Decimal(65, 30),
        t.Float(),
        t.Double(),
        t.Bit(64),
        t.Year(),
        t.Date(),
        t.Time(6),
        t.DateTime(6),
        t.Timestamp(6),
        t.Text("utf8mb4"),
        t.Text("cp932"),
        t.FixedBinary(16),
        t.Binary(),
        t.Enum(("x",)),
        t.Set(("x",)),
    ],
)
def test_keys_that_can_be_walked(kind: t.ColumnType) -> None:
    assert choose_index(described(kind), PRIMARY, None).columns == (0,)


@pytest.mark.parametrize("kind", [t.Enum(("x", "")), t.Set(("",))])
def test_labels_that_read_like_the_number_0_are_refused(kind: t.ColumnType) -> None:
    for surrogate in (None, "u"):
        with pytest.raises(Definite, match=r"column a of the primary key of shop\.orders has an empty label"):
            choose_index(described(kind, INT), {**PRIMARY, "u": (part("b"),)}, surrogate)


def test_a_key_that_holds_only_prefixes_needs_a_surrogate() -> None:
    table = described(t.Text("utf8mb4"), INT, prefixed=("a",))
    indexes = {"PRIMARY": (part("a", prefixed=True),), "u": (part("b"),)}
    with pytest.raises(
        Definite, match=r"column a of the primary key of shop\.orders is in it with a prefix only"
    ):
        choose_index(table, indexes, None)
    assert choose_index(table, indexes, "u").index == "u"


@pytest.mark.parametrize("indexes", [{}, {"PRIMARY": (part("gone"),)}])
def test_a_table_that_is_being_altered_is_asked_for_again(indexes: Indexes) -> None:
    with pytest.raises(Transient, match="is being altered"):
        choose_index(described(INT), indexes, None)
