"""Facts of a table that a server reports and its log doesn't, even with full metadata, and where in the stream they
hold.

The values of a generated column follow from others. The rows of some engines are stored elsewhere. No schema has the
length of a text (`pipeline.schema.table_schema`). The server's report holds at a position like a schema
(`pipeline.verifier.step`). It holds until a statement may have altered the table. It holds again once the stream has
reached the position of an answer with the work of each such statement. Between these nothing is known of the table.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.schema.table_schema import TableId

Value = TypeVar("Value")

# The engine of the tables that a MERGE table may have in its UNION.
MERGEABLE: Final = "myisam"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """How many characters, and how many bytes, a column of text has room for; `charset`: its character set.

    The bytes of a VARBINARY or a BLOB are text of the character set binary here.
    """

    characters: int
    octets: int
    charset: str


@dataclass(frozen=True, slots=True)
class Traits:
    """`engine`: in small letters, "" where the server can't say. `generated`: whether any column is generated.

    `charset`: what columns have whose definition names none. `columns`: all of them by their names, None for one that
    isn't text. `merged_by`: a MERGE table that has this one in its UNION, if any has. `auto_increment`: the column that
    the server numbers, "" if there is none. `stale`: the columns of which the log may have an earlier row's value
    (`pipeline.verifier.stale_values`).
    """

    engine: str
    generated: bool = False
    charset: str = ""
    columns: Mapping[str, TextColumn | None] = field(default_factory=dict)
    merged_by: TableId | None = None
    auto_increment: str = ""
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Answered:
    """The traits (None: there's no such table) with the work of all in `at`, which will hold at `end`.

    Without an `end` they hold once all of `at` has passed.
    """

    traits: Traits | None
    at: GtidSet
    end: Coordinates | None


@dataclass(frozen=True, slots=True)
class Survey:
    """Traits that hold; `wanted`: the tables to ask for, with the statements since; answers that don't hold yet.

    `stale`: the columns of `Traits.stale`, of each table that has some, as the last answer said. They needn't hold: a
    value that is read again for nothing does no harm.
    """

    holding: Mapping[TableId, Traits] = field(default_factory=dict)
    wanted: Mapping[TableId, GtidSet] = field(default_factory=dict)
    answers: Mapping[TableId, _Answered] = field(default_factory=dict)
    stale: Mapping[TableId, frozenset[str]] = field(default_factory=dict)

    @property
    def awaited(self) -> Set[TableId]:
        """The tables of whose traits nothing holds until an answer does."""
        return self.wanted.keys() | self.answers.keys()

    def mark_altered(self, tables: Collection[TableId], gtid: Gtid) -> "Survey":
        """A statement that has passed may have changed these tables."""
        if not tables:
            return self
        known = {t for t in tables if t in self.answers and gtid in self.answers[t].at}
        since = {t: self.wanted.get(t, GtidSet()).with_gtid(gtid) for t in tables if t not in known}
        return Survey(
            _without(self.holding, tables),
            {**self.wanted, **since},
            _without(self.answers, since),
            self.stale,
        )

    def take_answer(
        self, tables: Iterable[TableId], told: Mapping[TableId, Traits], at: GtidSet, end: Coordinates
    ) -> "Survey":
        """The server has answered for these tables."""
        asked = frozenset(tables)
        known = {t for t in asked if t in self.wanted and self.wanted[t] <= at}
        answers = {t: _Answered(told.get(t), at, end) for t in known}
        return replace(
            self,
            wanted=_without(self.wanted, known),
            answers={**self.answers, **answers},
            stale={**_without(self.stale, asked), **_stale_columns(told)},
        )

    def apply_answers(
        self, log_position: Coordinates | None, all_passed: bool
    ) -> tuple["Survey", frozenset[TableId]]:
        """Returns the traits that hold at this position of the stream, and the tables for which that's new.

        `all_passed`: whether all has passed that the server had executed at the start.
        """
        if not self.answers:
            return self, frozenset()
        there = {
            table: answer.traits
            for table, answer in self.answers.items()
            if (
                all_passed
                if answer.end is None
                else log_position is not None and log_position.reaches(answer.end)
            )
        }
        holding = {table: traits for table, traits in there.items() if traits is not None}
        after = replace(self, holding={**self.holding, **holding}, answers=_without(self.answers, there))
        return after, frozenset(holding)


def initial_survey(
    told: Mapping[TableId, Traits], at: GtidSet, end: Coordinates | None, unsettled: Collection[TableId] = ()
) -> Survey:
    """Returns the server's answer at the start, when it had executed `at`; it says nothing of `unsettled` tables.

    It holds at `end`, as a schema of the start does (`pipeline.schema.known_schemas`).
    """
    answers = {table: _Answered(traits, at, end) for table, traits in told.items()}
    return Survey(wanted=dict.fromkeys(unsettled, GtidSet()), answers=answers, stale=_stale_columns(told))


def _stale_columns(told: Mapping[TableId, Traits]) -> dict[TableId, frozenset[str]]:
    return {table: traits.stale for table, traits in told.items() if traits.stale}


def _without(of: Mapping[TableId, Value], tables: Collection[TableId]) -> dict[TableId, Value]:
    return {table: value for table, value in of.items() if table not in tables}
