"""Lexemes, the readings that several servers may have of one statement, and what takes them one by one."""

import pytest

from pipeline.schema.ddl import sql_lexer
from pipeline.schema.table_schema import TableId


def texts(statement: str) -> list[str]:
    return [lexeme.text for lexeme in sql_lexer.lexemes(statement)]


def reader(statement: str) -> sql_lexer.Reader:
    return sql_lexer.Reader(list(sql_lexer.lexemes(statement)), "shop")


def test_comments_are_left_out_and_quotes_are_taken_off() -> None:
    assert texts('DROP -- all\n TABLE /* of */ `a``b`."c""d"') == ["DROP", "TABLE", "a`b", ".", 'c"d']


def test_only_a_word_that_is_not_quoted_is_a_keyword() -> None:
    assert sql_lexer.lowercase_word(sql_lexer.Lexeme(sql_lexer.LexemeKind.WORD, "DROP")) == "drop"
    assert sql_lexer.lowercase_word(sql_lexer.Lexeme(sql_lexer.LexemeKind.QUOTED, "drop")) == ""
    assert reader("DROP").keyword("drop") and not reader("`drop`").keyword("drop")


def test_a_backslash_is_read_in_both_ways() -> None:
    assert len(list(sql_lexer.readings("SELECT 'a\\'"))) == 2
    assert len(list(sql_lexer.readings("SELECT 'a'"))) == 1


@pytest.mark.parametrize(("escapes", "wanted"), [(True, ["x", "it\\'s"]), (False, ["x", "it\\", "s", ""])])
def test_a_backslash_is_read_in_the_way_that_is_known(escapes: bool, wanted: list[str]) -> None:
    [found] = sql_lexer.readings("x 'it\\'s'", escapes=escapes)
    assert [lexeme.text for lexeme in found] == wanted


def test_what_only_some_servers_execute_is_read_with_it_and_without_it() -> None:
    found = [
        [lexeme.text for lexeme in each] for each in sql_lexer.readings("DROP /*!80000 TEMPORARY */ TABLE t")
    ]
    assert found == [["DROP", "TEMPORARY", "TABLE", "t"], ["DROP", "TABLE", "t"]]
    assert len(list(sql_lexer.readings("DROP /*!40005 TEMPORARY */ TABLE t"))) == 1


def test_a_comment_that_a_server_left_out_may_have_another_one_in_it() -> None:
    found = [
        [lexeme.text for lexeme in each]
        for each in sql_lexer.readings("RENAME TABLE a TO b /* 99999 x /* y */, c TO d */ /* z */")
    ]
    first = ["RENAME", "TABLE", "a", "TO", "b"]
    assert found == [[*first, ",", "c", "TO", "d"], first]
    assert len({*map(str, sql_lexer.readings("/* a */ DROP TABLE t /* b */"))}) == 1


def test_comments_without_an_end_are_read_in_one_pass() -> None:
    [one, other] = sql_lexer.readings("DROP " + "/* " * 300_000)
    assert one == other == [(sql_lexer.LexemeKind.WORD, "DROP")]


def test_a_version_has_at_most_six_digits() -> None:
    """Python refuses to make a number of more than 4,300."""
    [found, without] = sql_lexer.readings(f"CREATE TABLE t (a INT) /*!{'9' * 5_000} */")
    assert found[-1].text == "9" * 4_994
    assert without[-1].text == ")"


def test_commas_in_parentheses_divide_nothing() -> None:
    parts = sql_lexer.split_at_commas(list(sql_lexer.lexemes("a (b, c), d")))
    assert [[lexeme.text for lexeme in part] for part in parts] == [["a", "(", "b", ",", "c", ")"], ["d"]]


def test_a_table_is_of_the_default_database_unless_it_is_qualified() -> None:
    assert reader("t").table() == reader(".t").table() == TableId("shop", "t")
    assert reader("other.t").table() == TableId("other", "t")


@pytest.mark.parametrize("text", ["", "'a'", "``", "`\N{REPLACEMENT CHARACTER}`", "("])
def test_what_is_no_name_is_not_read(text: str) -> None:
    with pytest.raises(sql_lexer.NotRead):
        reader(text).name()


def test_parentheses_are_left_by_the_one_that_closes_them() -> None:
    found = reader("a (b) c) d")
    found.leave_parentheses()
    assert [lexeme.text for lexeme in found.rest()] == ["d"]
    with pytest.raises(sql_lexer.NotRead):
        reader("a (b) c").leave_parentheses()


def test_a_semicolon_may_end_a_statement_and_nothing_may_follow_it() -> None:
    reader(";").end()
    with pytest.raises(sql_lexer.NotRead):
        reader("; a").end()
