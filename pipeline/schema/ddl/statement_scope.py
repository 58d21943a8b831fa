"""Which tables a statement may be about: the names in its text, and what these may mean.

**Names.** This is not a parser. It hands out every word and quoted identifier, keywords included. Who asks whether a
table's name is among them errs on the safe side only. Where the same text can be read in two ways, it's handed out in
both. "…" is an identifier with ANSI_QUOTES, and a backslash in a string is no escape with NO_BACKSLASH_ESCAPES. The
inside of `/*! … */` is executed or not, and a comment may have another one in it.

**Meaning.** A server compares names exactly (lower_case_table_names = 0), or `folds` them. Then a name that differs by
case alone may mean a known table. That is certain if only ASCII letters have another case, since each server that folds
names folds these, and if one known table alone has such a name. How a server folds other letters only it knows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pipeline.schema.ddl.sql_lexer import NAME_KINDS, Lexeme, LexemeKind, lexeme_lists
from pipeline.schema.ddl.statement_kinds import LoggedStatement
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId


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


# A statement that means a whole database has one of these in it.
_OF_DATABASES = frozenset({"database", "schema"})


@dataclass(frozen=True)
class StatementScope:
    """What names in a statement may mean: the tables that are captured, those of them that are known, and how.

    It folds each known name once: one statement may name thousands of tables, and thousands may be known.

    `unknown_engines`: the tables whose engine may have lost rows that the log has. `lowers`: whether the server stores
    names in small letters alone.
    """

    captured: TableFilter
    known: Collection[TableId]
    folds: bool = True
    unknown_engines: Collection[TableId] = ()
    lowers: bool = False

    def meant(self, table: TableId) -> frozenset[TableId]:
        """The known tables that this name may mean."""
        if table in self.known:
            return frozenset({table})
        if not self.folds:
            return frozenset()
        return frozenset(self._by_wide_name.get(widely_folded(str(table)), ()))

    def surely_meant(self, table: TableId) -> TableId:
        """The known table that this name is certain to mean; the name itself if that isn't certain of one."""
        if not self.folds or table in self.known:
            return table
        same = self._by_ascii_name.get(ascii_folded(str(table)), ())
        return same[0] if len(same) == 1 else table

    def meant_or_new(self, table: TableId) -> frozenset[TableId]:
        """The known tables that this name may mean, or, if there's none, the captured ones that it may be for."""
        spelled = self.spellings(table)
        known = frozenset[TableId]().union(*map(self.meant, spelled))
        return known or frozenset(filter(self.captured.match, spelled))

    def spellings(self, table: TableId) -> frozenset[TableId]:
        """How the server may store this name of another table: as it's written, or in small letters if it folds."""
        if not self.folds:
            return frozenset({table})
        small = TableId(table.database.lower(), table.name.lower())
        return frozenset({small}) if self.lowers else frozenset({table, small})

    def of_database(self, database: str) -> frozenset[TableId]:
        """The known tables of the database that this name may mean."""
        return frozenset(each for each in self.known if self.same(each.database, database))

    def is_database(self, known: str, name: str) -> bool:
        """Whether this name is certain to mean that database."""
        if not self.folds or any(each.database == name for each in self.known):
            return known == name
        return ascii_folded(known) == ascii_folded(name)

    def same(self, known: str, name: str) -> bool:
        """Whether a name may be this one."""
        return known == name or (self.folds and widely_folded(known) == widely_folded(name))

    @cached_property
    def _by_wide_name(self) -> Mapping[str, list[TableId]]:
        return _by_name(self.known, widely_folded)

    @cached_property
    def _by_ascii_name(self) -> Mapping[str, list[TableId]]:
        return _by_name(self.known, ascii_folded)


def touched_tables(names: StatementScope, statement: LoggedStatement) -> frozenset[TableId]:
    """The captured tables that a statement may be about: those that it names, and those of a database that it's about.

    This errs on the safe side. Where the patterns match any name in the default database, words that name no table are
    among the result. Text that couldn't be read may name any table. A name without a database is of the default one. Or
    it's of one that stands elsewhere in the text, as where CREATE TABLE names a parent. So a table of any other
    database isn't meant, though it has a name that is in the text.
    """
    named = set(identifiers(statement.text))
    words = {identifier.name for identifier in named}
    whole = bool({each.casefold() for each in words} & _OF_DATABASES)
    unreadable = "\N{REPLACEMENT CHARACTER}" in statement.text + statement.database
    if names.folds:
        words = {widely_folded(each) for each in words}

    def is_named(name: str) -> bool:
        return (widely_folded(name) if names.folds else name) in words

    def is_meant(table: TableId) -> bool:
        in_reach = names.same(table.database, statement.database) or is_named(table.database)
        return in_reach and is_named(table.name)

    among_known = {
        table
        for table in names.known
        if unreadable or is_meant(table) or (whole and is_named(table.database))
    }
    unknown = {TableId(identifier.qualifier or statement.database, identifier.name) for identifier in named}
    return frozenset(among_known | {table for table in unknown if names.captured.match(table)})


def _by_name(tables: Iterable[TableId], folded: Callable[[str], str]) -> Mapping[str, list[TableId]]:
    """The tables by their names, of which those that fold to the same are one."""
    found: dict[str, list[TableId]] = {}
    for table in tables:
        found.setdefault(folded(str(table)), []).append(table)
    return found


def ascii_folded(name: str) -> str:
    """The same for names that every server that folds names takes for the same."""
    return "".join(each.lower() if each.isascii() else each for each in name)


def widely_folded(name: str) -> str:
    """The same for names that a server which folds names may take for the same, and maybe for some that it doesn't.

    MySQL 5.6 and 9.7 take no two characters for one that this keeps apart (observed of all that a name can have).
    """
    return name.casefold().replace("\N{COMBINING DOT ABOVE}", "")
