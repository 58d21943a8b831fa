"""The identifiers in a statement: which tables can a DDL statement be about?

This is not a parser. It splits a statement as MySQL's lexer does, into words, quoted identifiers, strings and
comments, and hands out every word and quoted identifier, keywords included. Who asks whether a table's name is among
them errs on the safe side only. Where the same text can be read in two ways, it's handed out in both: "…" is an
identifier with ANSI_QUOTES, a backslash in a string is no escape with NO_BACKSLASH_ESCAPES, and the inside of
`/*! … */` is executed or not.

Source: MySQL 9.7 Reference Manual, "Schema Object Names", "String Literals" and "Comments".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEXEME = r"""
      (?P<comment> \#[^\n]* | --(?=[\s\x00-\x1f]|\Z)[^\n]* | /\*(?!!).*?(?:\*/|\Z) )
    | ` (?P<quoted> (?:[^`]|``)* ) (?:`|\Z)
    | " (?P<double> (?:{character}|[^"\\]|"")* ) (?:"|\Z)
    | ' (?P<single> (?:{character}|[^'\\]|'')* ) (?:'|\Z)
    | (?P<word> [0-9A-Za-z_$\u0080-\U0010ffff]+ )
    | (?P<executed> /\*!\d* | \*/ )
    | (?P<dot> \. )
    | (?P<other> \S )
"""


def _lexer(character: str) -> re.Pattern[str]:
    return re.compile(_LEXEME.format(character=character), re.VERBOSE | re.DOTALL)


_BACKSLASH_ESCAPES = _lexer(r"\\.")
_NO_BACKSLASH_ESCAPES = _lexer(r"\\")


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name as it's written, and the one before it where a dot joins the two ("" where none does)."""

    qualifier: str
    name: str


def identifiers(statement: str) -> Iterator[Identifier]:
    """Every word, quoted identifier and double-quoted text of a statement, in order."""
    yield from _identifiers(_BACKSLASH_ESCAPES, statement)
    if "\\" in statement:
        yield from _identifiers(_NO_BACKSLASH_ESCAPES, statement)


def _identifiers(lexer: re.Pattern[str], statement: str) -> Iterator[Identifier]:
    last, qualifier = "", ""
    for lexeme in lexer.finditer(statement):
        match lexeme.lastgroup:
            case "word":
                name = lexeme["word"]
            case "quoted":
                name = lexeme["quoted"].replace("``", "`")
            case "double":
                name = lexeme["double"].replace('""', '"')
            case "dot":
                qualifier = last
                continue
            case "comment" | "executed":
                continue
            case _:  # a string and other punctuation name nothing
                last, qualifier = "", ""
                continue
        yield Identifier(qualifier, name)
        last, qualifier = name, ""
