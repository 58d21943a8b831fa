"""What a configuration means for the source's tables: patterns that match none, and keys that don't tell rows apart.

The commonest mistakes are named, each with what was probably meant.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pipeline.config.column_protection import Protection
from pipeline.config.lake_types import LakeTypeRule
from pipeline.config.settings import Settings
from pipeline.config.validation import blurred_keys
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.source.finding import Finding, Severity

# A star that repeats nothing which a regular expression could repeat: a glob has it after a letter or a line.
_GLOB: Final = re.compile(r"(?<![.)\]}\\])\*|^\*")


# So many patterns are named with what was probably meant.
_MOST_NAMED: Final = 10


def idle_patterns(patterns: Sequence[str], tables: Sequence[TableId]) -> tuple[str, ...]:
    """Returns the patterns that match none of these tables."""
    return tuple(each for each in patterns if not any(map(TableFilter((each,)).match, tables)))


def idle_pattern_finding(idle: Sequence[str], tables: Sequence[TableId]) -> Finding:
    """Returns what to say of patterns that match no table, beside others that do. The tables are all that the user may
    see."""
    told = "; ".join(pattern_hints(idle[:_MOST_NAMED], tables))
    more = f"; and {len(idle) - _MOST_NAMED} more patterns match none" if len(idle) > _MOST_NAMED else ""
    return Finding(
        Severity.WARNING,
        f"tables: {told}{more}",
        "correct it or grant SELECT, unless such a table is still to come",
    )


def pattern_hints(patterns: Sequence[str], tables: Sequence[TableId]) -> Iterator[str]:
    """Yields for each pattern that matches none of these tables what is probably wrong with it, if that can be seen.

    The tables are all that the user may see.
    """
    if not tables:
        yield "the user sees no table at all: grant SELECT"
        return
    for pattern in idle_patterns(patterns, tables):
        yield _hint(pattern, tables)


def protection_findings(protection: Protection, tables: Iterable[TableId]) -> Iterator[Finding]:
    """Yields the rules for columns that are about none of these tables."""
    tables = list(tables)
    for place, rule in enumerate(protection.rules, start=1):
        if not any(map(rule.tables.match, tables)):
            patterns = ", ".join(rule.tables.patterns)
            yield Finding(
                Severity.WARNING,
                f"protection.rules[{place}].tables: no captured table matches {patterns}, so that it protects nothing",
                "correct it, unless such a table is still to come",
            )


def type_findings(rules: Sequence[LakeTypeRule], schemas: Iterable[TableSchema]) -> Iterator[Finding]:
    """Yields the rules for types that change no column of these tables. The tables are as the journal has them."""
    schemas = list(schemas)
    for place, rule in enumerate(rules, start=1):
        if not any(
            rule.fits(c) and rule.names(schema.table, c.name) for schema in schemas for c in schema.columns
        ):
            columns = ", ".join(rule.columns)
            yield Finding(
                Severity.WARNING,
                f"lake.types[{place}]: no captured table has a column that {columns} matches and whose type can be "
                f'"{rule.type}" in the lake, so that the rule changes nothing',
                "correct it, unless such a column is still to come",
            )


def key_findings(settings: Settings, tables: Iterable[TableId]) -> Iterator[Finding]:
    """Yields the keys of messages that don't tell the rows of these tables apart."""
    for mistake in blurred_keys(settings, tables):
        yield Finding(Severity.WARNING, f"{mistake.key}: {mistake.wrong}", mistake.remedy)


def _hint(pattern: str, tables: Sequence[TableId]) -> str:
    databases = sorted({table.database for table in tables})
    for meant in _meant(pattern, databases):
        if any(map(TableFilter((meant,)).match, tables)):
            return f"{_why(pattern, meant)}: did you mean {meant!r}?"
    if (near := _near_table(pattern, tables)) is not None:
        return f"{pattern!r} matches no table: did you mean {near!r}?"
    return f"{pattern!r} matches no table of the databases {', '.join(databases)}"


def _why(pattern: str, meant: str) -> str:
    if _GLOB.search(pattern):
        return f"{pattern!r} is a glob, and a pattern is a regular expression over database.table"
    if meant.endswith(rf"\.{pattern}"):
        return f"{pattern!r} has no database before a dot"
    return f"{pattern!r} names a database that the user doesn't see"


def _meant(pattern: str, databases: Sequence[str]) -> Iterator[str]:
    """Yields patterns that may have been meant, the likeliest first."""
    regex = _GLOB.sub(".*", pattern)
    if regex != pattern:
        yield re.sub(r"(?<!\\)\.(?!\*)", r"\\.", regex)
    for database in databases:
        yield rf"{re.escape(database)}\.{regex}"
    named, dot, rest = pattern.partition(r"\.")
    if dot:
        for database in difflib.get_close_matches(named, databases):
            yield rf"{re.escape(database)}\.{rest}"


def _near_table(pattern: str, tables: Sequence[TableId]) -> str | None:
    """Returns the pattern of the table whose name is nearest to what a pattern says, None if none is near."""
    said = {rf"{re.escape(table.database)}\.{re.escape(table.name)}": table for table in tables}
    return next(iter(difflib.get_close_matches(pattern, said, n=1, cutoff=0.8)), None)
