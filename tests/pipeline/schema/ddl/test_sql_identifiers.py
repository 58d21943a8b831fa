"""Which names a statement has in it, and which of them a dot joins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.ddl.sql_identifiers import Identifier, identifiers
from pipeline.schema.ddl.sql_lexer import Lexeme, LexemeKind, lexemes


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
