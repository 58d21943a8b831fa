"""Which tables a pattern means: in the configuration, in a rule, in a signal."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.table_schema import TableId

# The databases of the server's own tables, which no pattern means. Their rows are in the log as well: managed servers
# write one every few seconds, and whoever loads time zones writes many.
OWN_DATABASES: Final = ("information_schema", "mysql", "performance_schema", "sys")

# Made of no Python object: with the first one pyarrow loads pandas, and who needs that isn't known yet.
_NO_NAME: Final = pa.nulls(1, pa.string())

# A pattern that is a table's name, whose dot may have a backslash or brackets.
_NAMED: Final = re.compile(r"(?:\(\?i\))?([\w-]+)(?:\\\.|\[\.\]|\.)([\w-]+)")


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables are meant: regular expressions over `database.table` that match the whole name.

    They are RE2's, whose matching takes time linear in the name: a pattern can't run away with the service. A dot means
    any character of a name, a line's end included. None means a table of OWN_DATABASES.
    Raises ValueError where one isn't such an expression.
    """

    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        if wrong := mistake_in(self.patterns):
            raise ValueError(wrong)

    def match(self, table: TableId) -> bool:
        """Whether one of the patterns matches the whole name."""
        return table.database not in OWN_DATABASES and _match(self.patterns, table.dotted)

    def among(self, tables: Sequence[TableId]) -> tuple[list[TableId], list[str]]:
        """Returns those of the tables that a pattern matches, and the patterns that match none of them.

        It compiles each pattern once, however many tables there are. A signal may name thousands by as many patterns.
        """
        names = pa.array([table.dotted for table in tables], pa.string())
        found, idle = pa.array([False] * len(tables), pa.bool_()), []
        for pattern in self.patterns:
            matched = pc.match_substring_regex(names, _whole(pattern))
            if matched.true_count:
                found = pc.or_(found, matched)
            else:
                idle.append(pattern)
        return list(compress(tables, found.to_pylist())), idle

    @property
    def named(self) -> tuple[TableId, ...]:
        """Returns the tables that patterns name. Other patterns are left out: only names show whether they match."""
        found = map(_NAMED.fullmatch, self.patterns)
        return tuple(TableId(name[1], name[2]) for name in found if name is not None)

    def may_match_in(self, database: str) -> bool:
        """Whether some table of this database may be meant, by what each pattern begins with; yes, if in doubt."""
        if database in OWN_DATABASES:
            return False
        starts = (_literal_start(pattern) for pattern in self.patterns)
        return any(start.startswith(f"{database}.") or f"{database}.".startswith(start) for start in starts)


def mistake_in(patterns: Iterable[str]) -> str | None:
    """What is wrong with these patterns, None if nothing is."""
    for pattern in patterns:
        try:
            # The end of what \Q quotes may be in the second one alone.
            for text in (pattern, _whole(pattern)):
                pc.match_substring_regex(_NO_NAME, text)
        except pa.ArrowInvalid as error:
            return f"{pattern!r} isn't a regular expression (RE2): {error}"
    return None


# Arrow compiles an expression each time: some 0.1 ms for each pattern. And each start asks again for all tables.
@lru_cache(maxsize=16384)
def _match(patterns: tuple[str, ...], name: str) -> bool:
    return any(pc.match_substring_regex(name, _whole(pattern)).as_py() for pattern in patterns)


def _whole(pattern: str) -> str:
    return rf"\A(?s:{pattern})\z"


def _literal_start(pattern: str) -> str:
    """Text that all matches of the pattern begin with."""
    literal = re.match(r"(?:(?:\\[^\w\s]|[\w-])(?![*+?{]))*", pattern)
    return "" if literal is None or "|" in pattern else literal[0].replace("\\", "")


# Every table.
ALL_TABLES: Final = TableFilter((".*",))
