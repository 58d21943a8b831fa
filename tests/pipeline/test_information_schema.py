"""Rows of information_schema into schemas; that they're the server's own rows is for the integration test."""

import re

import pytest

from pipeline.errors import Definite
from pipeline.information_schema import ColumnRow, column_type, describe, described
from pipeline.schema import Column, TableId
from pipeline.types import (
    Binary,
    Bit,
    ColumnType,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Geometry,
    Integer,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
)


@pytest.mark.parametrize(
    ("text", "charset", "kind"),
    [
        ("tinyint(1)", None, Integer(1, unsigned=False)),
        ("tinyint unsigned", None, Integer(1, unsigned=True)),
        ("smallint(5) unsigned zerofill", None, Integer(2, unsigned=True)),
        ("mediumint", None, Integer(3, unsigned=False)),
        ("int(11)", None, Integer(4, unsigned=False)),
        ("bigint unsigned", None, Integer(8, unsigned=True)),
        ("decimal(65,30) unsigned", None, Decimal(65, 30)),
        ("float", None, Float()),
        ("float(7,3) unsigned", None, Float()),
        ("double(10,2)", None, Double()),
        ("bit(1)", None, Bit(1)),
        ("bit(64)", None, Bit(64)),
        ("year", None, Year()),
        ("year(4)", None, Year()),
        ("time", None, Time(0)),
        ("datetime(3)", None, DateTime(3)),
        ("timestamp(6)", None, Timestamp(6)),
        ("time /* 5.5 binary format */", None, Time(0)),
        ("char(3)", "latin1", Text("latin1")),
        ("longtext", "utf8", Text("utf8mb3")),
        ("binary(16)", None, FixedBinary(16)),
        ("varbinary(9)", None, Binary()),
        ("tinyblob", None, Binary()),
        ("geomcollection", None, Geometry()),
        ("vector(3)", None, Vector()),
        ("enum('a')", "utf8mb4", Enum(("a",))),
        (
            r"enum('a,b','c''d','','e\\f','g\nh\ri\0','(')",
            "utf8mb4",
            Enum(("a,b", "c'd", "", "e\\f", "g\nh\ri\0", "(")),
        ),
        ("set('x','y')", "utf8mb4", Set(("x", "y"))),
        ("something(3)", None, None),
        ("", None, None),
    ],
)
def test_a_column_type(text: str, charset: str | None, kind: ColumnType | None) -> None:
    assert column_type(text, charset) == kind


def row(
    name: str,
    kind: str = "int",
    place: int | None = None,
    prefix: int | None = None,
    charset: str | None = None,
    nullable: str = "NO",
    table: str = "orders",
    index: str = "PRIMARY",
    marked: bool = True,
) -> ColumnRow:
    mark = "PRI" if place and marked else ""
    return ("shop", table, name, kind, charset, nullable, mark, index if place else None, place, prefix)


def test_the_key_is_in_its_own_order() -> None:
    [(table, found)] = described([row("a", place=2), row("b", nullable="YES"), row("c", place=1)]).items()
    assert table == found.schema.table == TableId("shop", "orders")
    assert found.schema.key == (2, 0)
    assert found.schema.columns[1] == Column("b", Integer(4, unsigned=False), nullable=True)
    assert found.prefixed == found.doubtful == ()


def test_where_there_is_no_primary_key_the_marked_unique_index_is_it() -> None:
    rows = [
        row("a", place=2, index="x"),
        row("b", place=1, index="x"),
        row("b", place=1, index="y"),
        row("c"),
    ]
    [found] = described(rows).values()
    assert [column.name for column in found.schema.columns] == ["a", "b", "c"]
    assert found.schema.key == (1, 0)
    [with_primary] = described([*rows, row("d", place=1), row("d", place=1, index="z")]).values()
    assert with_primary.schema.key == (3,)


def test_two_unique_indexes_that_could_both_be_the_key_are_named() -> None:
    rows = [row("a", place=p, index=i) for i, p in (("x", 1), ("y", 2))]
    rows += [row("b", place=p, index=i) for i, p in (("x", 2), ("y", 1))]
    with pytest.raises(Definite, match=r"shop\.orders has no primary key, and two unique indexes"):
        described(rows)


def test_tables_are_told_apart() -> None:
    found = described([row("a"), row("a", table="items"), row("b", table="items")])
    assert {table.name: len(f.schema.columns) for table, f in found.items()} == {"orders": 1, "items": 2}


def test_prefixes_and_doubtful_labels_are_named() -> None:
    [found] = described(
        [
            row("a", "varchar(99)", 1, 10, "utf8mb4"),
            row("b", "enum('?')", charset="utf8mb4"),
            row("c", "set('x','a?b')", charset="utf16"),
            row("d", "enum('?')", charset="latin1"),
            row("e", "enum('ok')", charset="utf8mb4"),
        ]
    ).values()
    assert found.prefixed == ("a",)
    assert found.doubtful == ("b", "c")


@pytest.mark.parametrize("kind", ["hologram", "year(2)"])
def test_a_type_that_is_not_captured_is_named(kind: str) -> None:
    with pytest.raises(Definite, match=f"column a of shop.orders has the type '{re.escape(kind)}'"):
        described([row("a", kind)])


def test_names_are_bound() -> None:
    statement = describe([TableId("a", "b"), TableId("c", "d'")])
    assert statement.sql.count("%s") == len(statement.parameters) == 8
    assert statement.parameters == 2 * ("a", "b") + 2 * ("c", "d'")
