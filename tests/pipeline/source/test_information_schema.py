"""Rows of information_schema into schemas. The integration test shows that they're the server's own rows."""

from dataclasses import replace

import pytest

from pipeline.schema.table_schema import Column, TableId
from pipeline.schema.table_traits import TextColumn, Traits
from pipeline.source.information_schema import (
    ColumnRow,
    ambiguous_key_tables,
    column_type,
    describe,
    describe_tables,
    differing_tables,
    has_computed_index,
    merged_tables,
    stale_tables,
    with_merge_tables,
    without_stale_columns,
)
from pipeline.types import column_types as t


@pytest.mark.parametrize(
    ("text", "charset", "kind"),
    [
        ("tinyint(1)", None, t.Integer(1, unsigned=False)),
        ("tinyint unsigned", None, t.Integer(1, unsigned=True)),
        ("smallint(5) unsigned zerofill", None, t.Integer(2, unsigned=True)),
        ("mediumint", None, t.Integer(3, unsigned=False)),
        ("int(11)", None, t.Integer(4, unsigned=False)),
        ("bigint unsigned", None, t.Integer(8, unsigned=True)),
        ("decimal(65,30) unsigned", None, t.Decimal(65, 30)),
        ("float", None, t.Float()),
        ("float(7,3) unsigned", None, t.Float()),
        ("double(10,2)", None, t.Double()),
        ("bit(1)", None, t.Bit(1)),
        ("bit(64)", None, t.Bit(64)),
        ("year", None, t.Year()),
        ("year(4)", None, t.Year()),
        ("time", None, t.Time(0)),
        ("datetime(3)", None, t.DateTime(3)),
        ("timestamp(6)", None, t.Timestamp(6)),
        ("time /* 5.5 binary format */", None, t.Time(0)),
        ("char(3)", "latin1", t.Text("latin1")),
        ("longtext", "utf8", t.Text("utf8mb3")),
        ("binary(16)", None, t.FixedBinary(16)),
        ("varbinary(9)", None, t.Binary()),
        ("tinyblob", None, t.Binary()),
        ("geomcollection", None, t.Geometry()),
        ("vector(3)", None, t.Vector()),
        ("enum('a')", "utf8mb4", t.Enum(("a",))),
        (
            r"enum('a,b','c''d','','e\\f','g\nh\ri\0','(')",
            "utf8mb4",
            t.Enum(("a,b", "c'd", "", "e\\f", "g\nh\ri\0", "(")),
        ),
        ("set('x','y')", "utf8mb4", t.Set(("x", "y"))),
        ("something(3)", None, None),
        ("", None, None),
    ],
)
def test_a_column_type(text: str, charset: str | None, kind: t.ColumnType | None) -> None:
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
    extra: str = "",
    room: tuple[int, int] | tuple[None, None] = (None, None),
    engine: str = "InnoDB",
) -> ColumnRow:
    mark = "PRI" if place and marked else ""
    of_table = (engine, "utf8mb4_0900_ai_ci")
    of_index = (index if place else None, place, prefix)
    return ("shop", table, name, kind, charset, nullable, mark, extra, *room, *of_table, *of_index)


def test_the_key_is_in_its_own_order() -> None:
    found_of = describe_tables([row("a", place=2), row("b", nullable="YES"), row("c", place=1)]).described
    [(table, found)] = found_of.items()
    assert table == found.schema.table == TableId("shop", "orders")
    assert found.schema.key == (2, 0)
    assert found.schema.columns[1] == Column("b", t.Integer(4, unsigned=False), nullable=True)
    assert found.prefixed == found.doubtful == ()


def test_tables_differ_that_a_statement_altered_between_two_looks() -> None:
    shop = {name: TableId("shop", name) for name in ("same", "altered", "new", "gone", "refused")}
    first = describe_tables(
        [row("a", place=1, table=name) for name in ("same", "altered", "gone", "refused")]
    )
    second = describe_tables([row("a", place=1, table=name) for name in ("same", "altered", "new")])
    second = replace(
        second,
        described={**second.described, shop["altered"]: first.described[shop["same"]]},
        refused={shop["refused"]: "so"},
    )
    assert differing_tables(first, second) == {shop[name] for name in ("altered", "new", "refused")}
    assert differing_tables(first, first) == frozenset()


def test_where_there_is_no_primary_key_the_marked_unique_index_is_it() -> None:
    rows = [
        row("a", place=2, index="x"),
        row("b", place=1, index="x"),
        row("b", place=1, index="y"),
        row("c"),
    ]
    [found] = describe_tables(rows).described.values()
    assert [column.name for column in found.schema.columns] == ["a", "b", "c"]
    assert found.schema.key == (1, 0)
    more = [*rows, row("d", place=1), row("d", place=1, index="z")]
    [with_primary] = describe_tables(more).described.values()
    assert with_primary.schema.key == (3,)


def test_of_two_unique_indexes_that_could_both_be_the_key_the_one_that_is_listed_first_is_it() -> None:
    rows = [row("a", place=p, index=i) for i, p in (("x", 1), ("y", 2))]
    rows += [row("b", place=p, index=i) for i, p in (("x", 2), ("y", 1))]
    table = TableId("shop", "orders")
    other = row("a", place=1, table="other")
    assert ambiguous_key_tables([*rows, other]) == (table,)
    assert describe_tables(rows, {table: ["x", "x", "y", "y"]}).described[table].schema.key == (0, 1)
    assert describe_tables(rows, {table: ["y", "y", "x", "x"]}).described[table].schema.key == (1, 0)


def test_tables_are_told_apart() -> None:
    found = describe_tables([row("a"), row("a", table="items"), row("b", table="items")])
    assert {table.name: len(f.schema.columns) for table, f in found.described.items()} == {
        "orders": 1,
        "items": 2,
    }


def test_prefixes_and_doubtful_labels_are_named() -> None:
    [found] = describe_tables(
        [
            row("a", "varchar(99)", 1, 10, "utf8mb4"),
            row("b", "enum('?')", charset="utf8mb4"),
            row("c", "set('x','a?b')", charset="utf16"),
            row("d", "enum('?')", charset="latin1"),
            row("e", "enum('ok')", charset="utf8mb4"),
        ]
    ).described.values()
    assert found.prefixed == ("a",)
    assert found.doubtful == ("b", "c")


def test_what_the_log_does_not_tell() -> None:
    plain = [
        row("a", "varchar(99)", charset="latin1", room=(99, 99)),
        row("b", extra="DEFAULT_GENERATED on update CURRENT_TIMESTAMP"),
        row("c", "blob", room=(65535, 65535)),
    ]
    [found] = describe_tables(plain).described.values()
    columns = {"a": TextColumn(99, 99, "latin1"), "b": None, "c": TextColumn(65535, 65535, "binary")}
    assert found.traits == Traits("innodb", generated=False, charset="utf8mb4", columns=columns)
    [found] = describe_tables([row("a"), row("b", extra="auto_increment INVISIBLE")]).described.values()
    assert found.traits.auto_increment == "b"
    for words in ("VIRTUAL GENERATED", "STORED GENERATED INVISIBLE"):
        [found] = describe_tables([row("a"), row("b", extra=words), row("c")]).described.values()
        assert found.traits.generated


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("INSERT_METHOD=LAST UNION=(`a`,`Other`.`b`)", {("shop", "a"), ("Other", "b")}),
        ("UNION=(`x``y`,`,`.`).`)", {("shop", "x`y"), (",", ").")}),
        ("UNION=()", set()),
        ("COMMENT='UNION=(`a`)'", set()),
        ("COMMENT='UNION=(`a`)' UNION=(`b`)", {("shop", "b")}),
    ],
)
def test_the_union_of_a_merge_table(options: str, wanted: set[tuple[str, str]]) -> None:
    text = f"CREATE TABLE `m` (\n  `id` int\n) ENGINE=MRG_MyISAM DEFAULT CHARSET=latin1 {options}"
    assert merged_tables(TableId("shop", "m"), text) == {TableId(*each) for each in wanted}


@pytest.mark.parametrize("folds", [False, True])
def test_a_myisam_table_names_the_merge_table_that_has_it(folds: bool) -> None:
    rows = [
        row("a", table="T", engine="MyISAM"),
        row("a", table="both", engine="MyISAM"),
        row("a", table="u", engine="InnoDB"),
    ]
    first, second = TableId("shop", "m1"), TableId("shop", "m2")
    merges = {first: [TableId("shop", "t"), TableId("shop", "both")], second: [TableId("shop", "both")]}
    merges[second].append(TableId("shop", "u"))
    told = with_merge_tables(describe_tables(rows), merges, folds=folds).described
    found = {table.name: each.traits.merged_by for table, each in told.items()}
    assert found == {"T": first if folds else None, "both": first, "u": None}


def test_a_merge_table_that_cannot_be_known_may_have_each_myisam_table_that_no_other_has() -> None:
    rows = [
        row("a", table="free", engine="MyISAM"),
        row("a", table="had", engine="MyISAM"),
        row("a", table="u", engine="InnoDB"),
    ]
    known, unknown = TableId("shop", "m1"), TableId("shop", "m2")
    told = with_merge_tables(
        describe_tables(rows), {known: [TableId("shop", "had")], unknown: None}, folds=False
    )
    assert told.locked == {TableId("shop", "free")}
    assert told.described[TableId("shop", "had")].traits.merged_by == known


@pytest.mark.parametrize("kind", ["hologram", "year(2)"])
def test_a_type_that_is_not_captured_is_named_and_other_tables_are_described(kind: str) -> None:
    found = describe_tables([row("a", kind), row("a", table="other")])
    [(table, reason)] = found.refused.items()
    assert table == TableId("shop", "orders")
    assert f"column a of shop.orders has the type '{kind}'" in reason
    assert found.described.keys() == {TableId("shop", "other")}


def test_labels_of_the_character_set_binary_are_utf_8_or_refused() -> None:
    kind = column_type(r"enum('a','x''f',x'f09f9880','?')", None)
    assert kind == t.Enum(("a", "x'f", "😀", "?"))
    [reason] = describe_tables([row("a", r"set('a',x'ff41')")]).refused.values()
    assert "column a of shop.orders: the label x'ff41' of an ENUM or SET of CHARACTER SET binary" in reason


def test_names_are_bound() -> None:
    for tables, parameters in (
        ([TableId("a", "b"), TableId("c", "d'")], ("a", "b", "c", "d'")),
        ([TableId("c", "d'")], 6 * ("c", "d'")),
    ):
        statement = describe(tables)
        assert statement.parameters == parameters
        assert statement.sql.count("%s") == len(parameters)


def test_columns_that_the_log_may_have_stale() -> None:
    virtual, orders, items = "VIRTUAL GENERATED", TableId("shop", "orders"), TableId("shop", "items")
    rows = [
        row("id", place=1),
        row("n", extra=virtual),
        row("short", "varchar(9)", charset="latin1", extra=virtual),
        row("kept", "text", charset="latin1", extra="STORED GENERATED"),
        row("plain", "text", charset="latin1"),
        row("title", "mediumtext", charset="latin1", extra=f"{virtual} INVISIBLE"),
        row("tags", "json", extra=virtual),
        row("place", "point", extra=virtual),
        row("bytes", "tinyblob", extra=virtual),
    ]
    elsewhere = [replace_engine(each) for each in rows]
    found = describe_tables([*rows, *elsewhere])
    stale = {"title", "tags", "place", "bytes"}
    assert {table: told.traits.stale for table, told in found.described.items()} == {
        orders: stale,
        items: set(),
    }
    assert stale_tables([*rows, *elsewhere]) == {orders: stale | {"n", "short"}}
    assert without_stale_columns(found, [orders]).described[orders].traits.stale == frozenset()
    assert without_stale_columns(found, []) == found


def replace_engine(of: ColumnRow) -> ColumnRow:
    """The same column in another table, of an engine that keeps no deleted rows."""
    return (of[0], "items", *of[2:10], "MyISAM", *of[11:])


def test_an_index_that_is_computed() -> None:
    def keys(*columns: str | None) -> list[tuple[object, ...]]:
        return [("t", 1, "i", place, column, "A", 0) for place, column in enumerate(columns, 1)]

    assert not has_computed_index([], {"g"})
    assert not has_computed_index(keys("id", "a"), {"g"})
    assert has_computed_index(keys("id", "g"), {"g"})
    assert has_computed_index(keys("id", None), {"g"})
