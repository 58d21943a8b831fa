"""A statement's lexemes, as MySQL's lexer separates them: words, quoted names, strings and signs, without comments.

If the same text can be read in two ways, the caller chooses. The caller says whether a backslash escapes (it doesn't
with NO_BACKSLASH_ESCAPES), and what "…" is (a name with ANSI_QUOTES). The log has each statement's sql_mode, by which a
replica reads it, and so does Tidemark. The caller also says whether the inside of
`/*! … */` counts, which depends on the server's version. If the server left it out, it logs that comment as `/*  … */`.
Before MySQL 8.0 such a comment may have another one in it, and doesn't end with that one (observed of MySQL 5.6;
MySQL 9.7 writes `(* … *)` there).

Source: MySQL 9.7 Reference Manual, "Schema Object Names", "String Literals" and "Comments".
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from pipeline.schema.table_schema import TableId

_LEXEME = r"""
      (?P<comment> \#[^\n]* | --(?=[\s\x00-\x1f]|\Z)[^\n]* | /\*(?!!) (?:{inner}.)*? (?:\*/|\Z) )
    | ` (?P<quoted> (?:[^`]|``)* ) (?:`|\Z)
    | " (?P<double> (?:{character}|[^"\\]|"")* ) (?:"|\Z)
    | ' (?P<string> (?:{character}|[^'\\]|'')* ) (?:'|\Z)
    | (?P<word> [0-9A-Za-z_$\u0080-\U0010ffff]+ )
    | (?P<opening> /\*! (?:[0-9]{{5,6}})? )
    | (?P<closing> \*/ )
    | (?P<sign> \S )
"""


def _lexer(character: str, inner: str) -> re.Pattern[str]:
    return re.compile(_LEXEME.format(character=character, inner=inner), re.VERBOSE | re.DOTALL)


# By whether a backslash escapes, and whether a comment may have another one in it.
_LEXERS = {
    (escapes, nests): _lexer(character, inner)
    for escapes, character in ((True, r"\\."), (False, r"\\"))
    for nests, inner in ((True, r"/\*.*?(?:\*/|\Z)|"), (False, ""))
}


class LexemeKind(StrEnum):
    """What a lexeme is; OPENING and CLOSING are the two ends of `/*! … */`."""

    WORD = "word"
    QUOTED = "quoted"
    DOUBLE = "double"
    STRING = "string"
    OPENING = "opening"
    CLOSING = "closing"
    SIGN = "sign"


# The oldest server with GTIDs, as `/*!50605 … */` has it.
_OLDEST_SERVER = 5_06_05

# What can be a name.
NAME_KINDS = frozenset({LexemeKind.WORD, LexemeKind.QUOTED, LexemeKind.DOUBLE})

_DOUBLED = {LexemeKind.QUOTED: "`", LexemeKind.DOUBLE: '"'}


class Lexeme(NamedTuple):
    """A lexeme; `text` is without the quotes around it."""

    kind: LexemeKind
    text: str


def lexemes(statement: str, *, escapes: bool = True, nests: bool = False) -> Iterator[Lexeme]:
    """Returns the lexemes in order.

    `escapes`: whether a backslash in a string escapes the next character; `nests`: whether a comment may have another
    one in it.
    """
    for match in _matches(statement, escapes=escapes, nests=nests):
        kind = LexemeKind(str(match.lastgroup))
        text = match[kind.value]
        quote = _DOUBLED.get(kind)
        yield Lexeme(kind, text if quote is None else text.replace(2 * quote, quote))


def texts_at_commas(statement: str) -> list[str]:
    """The text between the commas, without the comments around each piece and the statement's semicolon."""
    pieces: list[str] = []
    begin, end = 0, 0
    for match in _matches(statement, escapes=True):
        if match["sign"] == ",":
            pieces.append(statement[begin:end])
            begin, end = 0, 0
        elif match["sign"] != ";":
            begin, end = begin if end else match.start(), match.end()
    return [*pieces, statement[begin:end]]


def text_without_ends(statement: str) -> str:
    """The statement without the comments around it and its semicolon."""
    places = [match.span() for match in _matches(statement, escapes=True) if match["sign"] != ";"]
    return statement[places[0][0] : places[-1][1]] if places else ""


def _matches(statement: str, *, escapes: bool, nests: bool = False) -> Iterator[re.Match[str]]:
    found = _LEXERS[escapes, nests].finditer(statement)
    return (match for match in found if match.lastgroup != "comment")


def lexeme_lists(statement: str, *, escapes: bool | None = None) -> Iterator[list[Lexeme]]:
    """The lexemes in each way in which a server might have separated them; which of `/*! … */` it executed is open.

    `escapes`: whether a backslash escapes, None if that is open too.
    """
    ways = (True, False) if escapes is None and "\\" in statement else (escapes is not False,)
    for way in ways:
        for nests in (False, True) if statement.count("/*") > 1 else (False,):
            yield list(lexemes(statement, escapes=way, nests=nests))


def lowercase_word(lexeme: Lexeme) -> str:
    """The word in small letters, "" for anything else."""
    return lexeme.text.casefold() if lexeme.kind is LexemeKind.WORD else ""


# Stands for what couldn't be decoded.
_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"

_END: Final = Lexeme(LexemeKind.SIGN, "")


class NotRead(Exception):
    """The statement isn't what was expected here."""


class Reader:
    """Takes lexemes from the front. A table's name without a database is of the default one, `database`."""

    def __init__(self, found: Sequence[Lexeme], database: str = "") -> None:
        self._found = found
        self.database = database
        self._at = 0

    @property
    def next(self) -> Lexeme:
        """The one that is next, an empty sign at the end."""
        return self._found[self._at] if self._at < len(self._found) else _END

    def rest(self) -> Sequence[Lexeme]:
        """All that haven't been taken."""
        return self._found[self._at :]

    def keyword(self, *words: str) -> bool:
        """Take one of these words, if it's next and not quoted."""
        found = lowercase_word(self.next) in words
        self._at += found
        return found

    def sign(self, text: str) -> bool:
        """Take this sign, if it's next."""
        found = self.next == (LexemeKind.SIGN, text)
        self._at += found
        return found

    def name(self) -> str:
        """Take a name whose characters are known. Raises NotRead."""
        kind, text = self.next
        if kind not in NAME_KINDS or not text or _UNKNOWN in text:
            raise NotRead
        self._at += 1
        return text

    def value(self) -> None:
        """Take a word, a name, a string or a number. Raises NotRead."""
        if self.next.kind in (LexemeKind.SIGN, LexemeKind.OPENING, LexemeKind.CLOSING):
            raise NotRead
        self._at += 1

    def leave_parentheses(self) -> None:
        """Take all up to the parenthesis that closes the one that was opened, and this one. Raises NotRead."""
        depth = 1
        while depth:
            if self.next is _END:
                raise NotRead
            if self.next.kind is LexemeKind.SIGN:
                depth += {"(": 1, ")": -1}.get(self.next.text, 0)
            self._at += 1

    def table(self) -> TableId:
        """Take a table's name. Raises NotRead."""
        if self.sign("."):
            return TableId(self.database, self.name())
        name = self.name()
        return TableId(name, self.name()) if self.sign(".") else TableId(self.database, name)

    def expect(self, *words: str) -> None:
        """Take one of these words. Raises NotRead."""
        if not self.keyword(*words):
            raise NotRead

    def expect_sign(self, text: str) -> None:
        """Take this sign. Raises NotRead."""
        if not self.sign(text):
            raise NotRead

    def end(self) -> None:
        """Raises NotRead if there's more."""
        self.sign(";")
        if self.next is not _END:
            raise NotRead


def readings(statement: str, *, escapes: bool | None = None) -> Iterator[list[Lexeme]]:
    """The statement in each way in which a server might have read it; `escapes`: see `lexeme_lists`."""
    for found in lexeme_lists(statement, escapes=escapes):
        yield [lexeme for lexeme in found if lexeme.kind not in (LexemeKind.OPENING, LexemeKind.CLOSING)]
        if any(lexeme.kind is LexemeKind.OPENING and not _by_all(lexeme) for lexeme in found):
            yield list(_by_all_servers(found))


def _by_all_servers(found: list[Lexeme]) -> Iterator[Lexeme]:
    """What is outside of `/*! … */`, or inside of one that no server leaves out."""
    outside = True
    for lexeme in found:
        if lexeme.kind is LexemeKind.OPENING:
            outside = _by_all(lexeme)
        elif lexeme.kind is LexemeKind.CLOSING:
            outside = True
        elif outside:
            yield lexeme


def _by_all(opening: Lexeme) -> bool:
    """Whether all servers execute it, as they do the TEMPORARY in what they log when a session ends."""
    return int(opening.text.removeprefix("/*!") or 0) <= _OLDEST_SERVER


def split_at_commas(found: Sequence[Lexeme]) -> Iterator[list[Lexeme]]:
    """Returns the parts between the commas that are in no parentheses."""
    part: list[Lexeme] = []
    depth = 0
    for lexeme in found:
        if lexeme == (LexemeKind.SIGN, ",") and depth == 0:
            yield part
            part = []
            continue
        if lexeme.kind is LexemeKind.SIGN:
            depth += {"(": 1, ")": -1}.get(lexeme.text, 0)
        part.append(lexeme)
    yield part
