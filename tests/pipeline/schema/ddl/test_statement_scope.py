"""Which names a statement has in it, and which of them a dot joins."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.ddl.sql_lexer import Lexeme, LexemeKind, lexemes
from pipeline.schema.ddl.statement_kinds import parse_logged
from pipeline.schema.ddl.statement_scope import Identifier, StatementScope, identifiers, touched_tables
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId


def names(text: str) -> list[str]:
    return [f"{i.qualifier}.{i.name}" if i.qualifier else i.name for i in identifiers(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ALTER TABLE shop.orders", ["ALTER", "TABLE", "shop", "shop.orders"]),
        ("`shop` . `or``ders`", ["shop", "shop.or`ders"]),
        ('"shop"."or""ders"', ["shop", 'shop.or"ders']),
        ("a 'b' .c", ["a", "c"]),  # a string is no qualifier
        ("a, b", ["a", "b"]),
        ("shop/* here */.orders", ["shop", "shop.orders"]),
        ("a -- b\n# c\n/* d */ e--f", ["a", "e", "f"]),
        ("/*!40000 a */ b", ["a", "b"]),
        ("größe.$x_1", ["größe", "größe.$x_1"]),
        ("`a", ["a"]),
        ("", []),
    ],
)
def test_names_and_what_qualifies_them(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_where_a_string_ends_is_read_both_ways() -> None:
    text = r"'it\' a'' b"
    assert names(text) == ["a", "b"]
    # With the escape the string continues to the end, and there's no name.
    assert [lexeme.kind for lexeme in lexemes(text)] == [LexemeKind.STRING]


def test_lexemes_are_without_their_quotes_and_comments_are_none() -> None:
    assert list(lexemes("a `b` \"c\" 'd' /* e */ = /*!80000 f */")) == [
        Lexeme(LexemeKind.WORD, "a"),
        Lexeme(LexemeKind.QUOTED, "b"),
        Lexeme(LexemeKind.DOUBLE, "c"),
        Lexeme(LexemeKind.STRING, "d"),
        Lexeme(LexemeKind.SIGN, "="),
        Lexeme(LexemeKind.OPENING, "/*!80000"),
        Lexeme(LexemeKind.WORD, "f"),
        Lexeme(LexemeKind.CLOSING, "*/"),
    ]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_quoted_name_is_found_whole(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    assert Identifier("shop", name) in set(identifiers(f"DROP TABLE shop.{quoted}"))


SHOP = TableFilter((r"shop\..*",))
MET = TableId("Shop", "Met")


def touched(text: str, database: str = "") -> set[str]:
    return {
        table.dotted for table in touched_tables(StatementScope(SHOP, {MET}), parse_logged(database, text))
    }


@pytest.mark.parametrize(
    ("text", "database", "wanted"),
    [
        ("ALTER TABLE shop.orders ADD x INT", "", {"shop.orders"}),
        ("ALTER TABLE `shop` . `or``ders` ADD x INT", "", {"shop.or`ders"}),
        ('ALTER TABLE "shop"."orders" ADD x INT', "", {"shop.orders"}),
        ("alter table /*!40000 shop.orders */ add x int", "", {"shop.orders"}),
        ("ALTER TABLE other.orders -- shop.orders\n ADD x INT /* shop.items */ # shop.y", "", set()),
        ("ALTER TABLE other.t COMMENT 'shop.orders'", "", set()),
        # The string ends at the backslash's quote if NO_BACKSLASH_ESCAPES is set.
        ("ALTER TABLE other.t COMMENT 'it''s \\' shop.orders'", "", {"shop.orders"}),
        ("ALTER TABLE other.t COMMENT 'a\\\\', RENAME shop.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.t TO shop/* to here */.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.t TO orders", "shop", {"shop.orders"}),
        ("ALTER TABLE other.t ADD shop INT, ADD orders INT", "", set()),
        ("ALTER TABLE MET ADD x INT", "SHOP", {"Shop.Met"}),
        ("ALTER TABLE MET ADD x INT", "other", set()),
        ("CREATE TABLE shop.child (m INT REFERENCES met)", "other", {"Shop.Met", "shop.child"}),
        ("ALTER TABLE x ADD x INT", "\ufffd", {"Shop.Met"}),
        ("DROP DATABASE shop", "", {"Shop.Met"}),
        ("ALTER TABLE shop.x TABLESPACE y", "", {"shop.x"}),
        ("ALTER TABLE \ufffd ADD x INT", "other", {"Shop.Met"}),
    ],
)
def test_a_statement_touches_what_it_names(text: str, database: str, wanted: set[str]) -> None:
    got = touched(text, database)
    if wanted:
        assert wanted <= got
    else:
        assert got == set()


def test_a_statement_on_other_databases_touches_nothing() -> None:
    assert touched("CREATE TABLE things (id INT)", "other") == set()
    assert touched("CREATE TABLE things (id INT)", "shop") >= {"shop.things"}


class CountedTables(frozenset[TableId]):
    """Known tables, which count how often they were all walked."""

    walks = 0

    def __iter__(self) -> Iterator[TableId]:
        CountedTables.walks += 1
        return super().__iter__()


def test_the_known_tables_are_walked_as_often_for_many_names_as_for_few() -> None:
    known = CountedTables(TableId("shop", f"t{i}") for i in range(10))

    def walks(names: int) -> int:
        CountedTables.walks = 0
        scope = StatementScope(SHOP, known)
        for i in range(names):
            other = TableId("shop", f"u{i}")
            assert (scope.meant(other), scope.surely_meant(other)) == (frozenset(), other)
        met, wanted = TableId("SHOP", "T7"), TableId("shop", "t7")
        assert (scope.meant(met), scope.surely_meant(met)) == (frozenset({wanted}), wanted)
        return CountedTables.walks

    assert walks(100) == walks(1) > 0
