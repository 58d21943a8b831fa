"""Signals: what an operator may ask of a running service, in Debezium's JSON.

    {"id": "s1", "type": "execute-snapshot", "data": {"type": "incremental", "data-collections": ["shop\\.orders"]}}

A signal is parsed into one of the types below or refused with the reason; it never holds text that reaches the
source server.
"""

import re
from dataclasses import dataclass

from pipeline.schema import TableId


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables are meant: regular expressions over `database.table` that match the whole name.

    Raises ValueError where one of them isn't a regular expression.
    """

    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} isn't a regular expression: {error}") from error

    def match(self, table: TableId) -> bool:
        """Whether one of the patterns matches the whole name."""
        return any(re.fullmatch(pattern, str(table)) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Take an incremental snapshot of the tables."""

    id: str
    tables: Tables


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop the snapshots of the tables, running or waiting."""

    id: str
    tables: Tables


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Read no further chunks until a resume, also after a restart."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Go on with the chunks."""

    id: str


Signal = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot
