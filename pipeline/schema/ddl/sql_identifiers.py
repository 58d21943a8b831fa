"""The identifiers in a statement: which tables can a DDL statement be about?

This is not a parser. It hands out every word and quoted identifier, keywords included. Who asks whether a table's
name is among them errs on the safe side only. Where the same text can be read in two ways, it's handed out in both. "…"
is an identifier with ANSI_QUOTES, and a backslash in a string is no escape with NO_BACKSLASH_ESCAPES. The inside of
`/*! … */` is executed or not, and a comment may have another one in it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.schema.ddl.sql_lexer import NAME_KINDS, Lexeme, LexemeKind, lexeme_lists


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name as it's written, and the one before it where a dot joins the two ("" where none does)."""

    qualifier: str
    name: str


def identifiers(statement: str) -> Iterator[Identifier]:
    """Every word, quoted identifier and double-quoted text of a statement, in order."""
    for found in lexeme_lists(statement):
        yield from _identifiers(found)


def _identifiers(found: Iterable[Lexeme]) -> Iterator[Identifier]:
    last, qualifier = "", ""
    for kind, text in found:
        match kind:
            case _ if kind in NAME_KINDS:
                yield Identifier(qualifier, text)
                last, qualifier = text, ""
            case LexemeKind.SIGN if text == ".":
                qualifier = last
            case LexemeKind.OPENING | LexemeKind.CLOSING:
                pass
            case _:  # a string and other punctuation name nothing
                last, qualifier = "", ""
