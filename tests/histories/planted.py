"""Faults that are put into the product, one at least for each root of what histories have found: each has to be found.

A fault takes the mend of its root out, or does what the product did without it. It comes with the moves that it's
about, of which there are more then, and with the server that it shows on.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest

from actors.journal import files
from actors.journal.store import JournalStore
from actors.lake import table_commits
from actors.lake.live_view import CatalogViews
from actors.runtime.filesystem import TEMPORARY
from actors.runtime.supervisor import Supervisor
from actors.snapshot.snapshot_metrics import SnapshotMetrics
from pipeline.binlog import transaction_assembler
from pipeline.binlog.events import query_event
from pipeline.binlog.transaction_assembler import TransactionAssembler
from pipeline.binlog.xa_transactions import Prepared, PreparedTransactions
from pipeline.coordinator import handle_signals, handle_transactions, resume
from pipeline.errors import Definite
from pipeline.gtid.witness import Witness
from pipeline.lake import live_view
from pipeline.lake.files.parquet_files import Day
from pipeline.lake.mirrors import merge
from pipeline.lake.tables import columns as lake_columns
from pipeline.messages.changes import ChangesVerified, TableStopped
from pipeline.schema import compatibility
from pipeline.schema.ddl import column_definitions, statement_kinds, unlogged_changes
from pipeline.schema.ddl import effects as ddl
from pipeline.schema.ddl.sql_lexer import Lexeme, lowercase_word
from pipeline.schema.ddl.statement_kinds import (
    AltersTable,
    ChangesNoTable,
    LoggedStatement,
    ParsedStatement,
    UnparsedStatement,
)
from pipeline.schema.ddl.statement_scope import StatementScope, touched_tables
from pipeline.schema.ddl.unlogged_changes import Effect, OfDatabase, OfTables
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.source import information_schema
from pipeline.source.statement import Statement as Question
from pipeline.verifier import (
    cascades,
    columns,
    handle_answers,
    handle_images,
    handle_statements,
)
from pipeline.verifier import state as verifier_state
from pipeline.verifier import step as schema_verifier
from pipeline.verifier.state import News, State
from tests.histories import moves
from tests.histories.moves import MOVES, Move
from tests.histories.play import Finding
from tests.histories.statements import Metadata, Version
from tests.servers import service

Patch = pytest.MonkeyPatch


class Planted(StrEnum):
    """What's wrong."""

    ROWS_STAY = "no statement changes rows"
    GONE_FOR_GOOD = "what may have changed rows hasn't"
    FORGOTTEN = "a table that's gone isn't known any more"
    BY_CASE = "names that differ by case are one name"
    GENERATED = "generated columns keep their values"
    CUT = "texts are never cut"
    PADDED = "PAD_CHAR_TO_FULL_LENGTH pads nothing"
    TWINS = "keys that come by the log are told apart"
    HISTORIES = "all histories of a server are one"
    IGNORED = "ALTER IGNORE drops no rows"
    MEMORY = "a server that's started has the rows of its MEMORY tables"
    LETTERS = "queries have names of one letter"
    HIDDEN = "no column has the name of one of Spark's"
    YEAR_0 = "there's no year 0"
    LABELS = "the server tells all labels"
    STOPS_ALL = "what stops one table stops all"
    REFERRED = "a statement alters all that it names"
    VIEWS = "a view is a table"
    ENGINES = "each engine has the rows that the log has"
    SYNONYMS = "FLOAT4 and FLOAT8 round nothing"
    MEASURES = "what measures fails an actor"
    UNNAMED = "changes that nobody can name are left out, and that's all"
    FOR_EVER = "a recapture is answered, and that's all"
    NEVER_ALTERED = "no statement alters a table"
    LITERALS = "a default is what is written"
    NEEDLESS = "each ALTER begins its table anew"
    PREPARED_BEFORE = "an XA transaction that was prepared before the start changes nothing"
    HELD_UP = "each prepared XA transaction holds up the position"
    MERGED = "no MERGE table has a captured one in its UNION"
    STUCK = "a service that's to stop doesn't"
    ONE_VIEW = "a catalog tells names apart by case"
    HIDING = "no temporary table hides another one"
    MADE_BY_QUERY = "a table is created without rows"
    DELETED = "a DELETE without WHERE is what a server says of a MEMORY table"
    XA_STATEMENTS = "an XA transaction has changed what it has rows of"
    LOCAL_TIMES = "each instant has a local time of its own"
    UNSYNCED = "what the journal writes is durable by itself"
    OLDER_COPY = "the journal is never an older copy"
    SET_BACK = "nobody sets a table of the lake back"
    UNDURABLE = "what Spark commits without rows is durable by itself"


def _rows_stay(patch: Patch) -> None:
    patch.setattr(ddl, "changed_unlogged", lambda *_, **__: {})


def _gone_for_good(patch: Patch) -> None:
    original = ddl.changed_unlogged

    def changed(names: StatementScope, *more: Any, **named: Any) -> dict[TableId, ddl.Unlogged]:
        return {t: u for t, u in original(names, *more, **named).items() if u.effect is not Effect.CHANGED}

    patch.setattr(ddl, "changed_unlogged", changed)


def _forgotten(patch: Patch) -> None:
    original = handle_answers.apply_answers

    def arrived(
        state: State,
    ) -> tuple[State, tuple[News, ...]]:
        state, news = original(state)
        there = {table: schema for table, schema in state.reported.items() if table in state.tables}
        return replace(state, reported=there), news

    for module in (schema_verifier, handle_answers):
        patch.setattr(module, "apply_answers", arrived)


def _by_case(patch: Patch) -> None:
    names = handle_statements._scope

    def meant(
        names: StatementScope, statement: LoggedStatement, change: unlogged_changes.UnloggedChange
    ) -> Iterator[tuple[TableId, Effect]]:
        match change:
            case OfTables(_, found, effect):
                yield from ((each, effect) for table in found for each in names.meant(table))
            case OfDatabase(_, name):
                yield from ((each, Effect.EMPTIED) for each in names.of_database(name))
            case _:
                yield from original(names, statement, change)

    original = ddl._meant
    patch.setattr(ddl, "_meant", meant)
    patch.setattr(handle_statements, "_scope", lambda state: replace(names(state), folds=True))


def _generated(patch: Patch) -> None:
    original = unlogged_changes._altered

    def altered(
        statement: AltersTable, before: Traits | None
    ) -> Iterator[OfTables | unlogged_changes.Unclear]:
        return original(statement, before and replace(before, generated=False))  # type: ignore[return-value]

    patch.setattr(unlogged_changes, "_altered", altered)


def _cut(patch: Patch) -> None:
    patch.setattr(column_definitions, "_has_room", lambda *_: True)


def _padded(patch: Patch) -> None:
    patch.setattr(query_event, "_NO_CONVERSION", -1)


def _twins(patch: Patch) -> None:
    patch.setattr(handle_transactions, "ambiguous_keys", lambda *_: None)


def _histories(patch: Patch) -> None:
    patch.setattr(Witness, "differs", lambda *_: False)


def _ignored(patch: Patch) -> None:
    original = unlogged_changes._altered

    def altered(
        statement: AltersTable, before: Traits | None
    ) -> Iterator[OfTables | unlogged_changes.Unclear]:
        return original(replace(statement, ignore=False), before)  # type: ignore[return-value]

    patch.setattr(unlogged_changes, "_altered", altered)


def _memory(patch: Patch) -> None:
    original = statement_kinds.read_statement

    def read(reading: Sequence[Lexeme], database: str) -> ParsedStatement:
        statement = original(reading, database)
        return (
            ChangesNoTable()
            if isinstance(statement, UnparsedStatement) and statement.what == "DELETE"
            else statement
        )

    patch.setattr(statement_kinds, "read_statement", read)


def _letters(patch: Patch) -> None:
    for name, letter in (("MIRROR", "m"), ("CHANGED", "c")):
        patch.setattr(live_view, name, letter)
        patch.setattr(merge, f"_{name[0]}", f"`{letter}`")


def _hidden(patch: Patch) -> None:
    patch.setattr(lake_columns, "_THEIRS", re.compile("(?!)"))


def _year_0(patch: Patch) -> None:
    patch.setattr(Day, "text", property(lambda day: date.fromordinal(day.number + 719163).isoformat()))


def _labels(patch: Patch) -> None:
    patch.setattr(compatibility, "labels_agree", lambda one, other: one == other)


def _stops_all(patch: Patch) -> None:
    class Stop(TableStopped):
        def __init__(self, table: TableId, reason: str) -> None:
            raise Definite(f"{table}: {reason}")

    for module in (verifier_state, cascades, columns):
        patch.setattr(module, "TableStopped", Stop)


def _referred(patch: Patch) -> None:
    patch.setattr(ddl, "may_alter", touched_tables)


def _views(patch: Patch) -> None:
    only = " AND t.TABLE_TYPE = 'BASE TABLE'"
    patch.setattr(information_schema, "_DESCRIBE", information_schema._DESCRIBE.replace(only, ""))
    listed = information_schema.TABLES.sql.replace("TABLE_TYPE = 'BASE TABLE' AND ", "")
    patch.setattr(information_schema, "TABLES", Question(listed))
    _referred(patch)  # else nobody asks about a view: its creation alters no table


def _engines(patch: Patch) -> None:
    patch.setattr(verifier_state, "stops_for_engines", lambda *_: ())


def _synonyms(patch: Patch) -> None:
    original = column_definitions.converts_exactly

    def exactly(definition: Sequence[Lexeme], old: str, before: Traits) -> bool:
        return lowercase_word(definition[1]) in ("float4", "float8") or original(definition, old, before)

    patch.setattr(unlogged_changes, "converts_exactly", exactly)


def _measures(patch: Patch) -> None:
    def measure(_: SnapshotMetrics, message: object, *_states: object) -> None:
        if isinstance(message, ChangesVerified):
            raise KeyError("a table")

    patch.setattr(SnapshotMetrics, "record", measure)


def _unnamed(patch: Patch) -> None:
    patch.setattr(handle_images, "restarts_after_gaps", lambda *_: ())


def _for_ever(patch: Patch) -> None:
    patch.setattr(handle_signals, "_recapture", lambda state, _: (state, "recapture"))


def _never_altered(patch: Patch) -> None:
    patch.setattr(ddl, "may_alter", lambda *_: frozenset())


def _literals(patch: Patch) -> None:
    patch.setattr(column_definitions, "_PLAIN_TEXT", re.compile(".*", re.DOTALL))


def _needless(patch: Patch) -> None:
    original = ddl.changed_unlogged

    def changed(
        names: StatementScope, statement: LoggedStatement, *more: Any, **named: Any
    ) -> dict[TableId, ddl.Unlogged]:
        found = original(names, statement, *more, **named)
        for table in ddl.may_alter(names, statement) & set(names.known):
            found.setdefault(table, ddl.Unlogged("it", Effect.CHANGED))
        return found

    patch.setattr(ddl, "changed_unlogged", changed)


def _prepared_before(patch: Patch) -> None:
    original = PreparedTransactions.take

    def take(self: PreparedTransactions, xid: str) -> Prepared | XaPrepared:
        return original(self, xid) or XaPrepared(xid, 0, ())

    patch.setattr(PreparedTransactions, "take", take)


def _held_up(patch: Patch) -> None:
    original = TransactionAssembler._prepared_now

    def prepared_now(self: TransactionAssembler, xid: str) -> None:
        if self.slice.open_rows:
            original(self, xid)
            return
        held, place = self.slice.hold(), self._reached.at()
        left_out = self._names.left_out(self._gtid(), place)
        self._prepared.note(XaPrepared(xid, self.state.commit_time, (), left_out))
        self._prepared.hold(xid, Prepared(self._transaction(), place, held, ()))

    patch.setattr(TransactionAssembler, "_prepared_now", prepared_now)
    patch.setattr(resume, "_without_waiting", lambda checkpoint, _: checkpoint)


def _merged(patch: Patch) -> None:
    patch.setattr(information_schema, "with_merge_tables", lambda told, *_, **__: told)


def _stuck(patch: Patch) -> None:
    patch.setattr(Supervisor, "stop", lambda _: None)
    patch.setattr(service, "WITHIN_S", 5.0)


def _one_view(patch: Patch) -> None:
    patch.setattr(CatalogViews, "_shown_table", lambda _, table: table)


def _hiding(patch: Patch) -> None:
    patch.setattr(statement_kinds, "_of_hidden_table", lambda way: way)


def _made_by_query(patch: Patch) -> None:
    patch.setattr(statement_kinds, "_has_rows", lambda _: False)


def _deleted(patch: Patch) -> None:
    original = TransactionAssembler._framed_query

    def framed(self: TransactionAssembler, event: query_event.Query, emptied: TableId | None) -> None:
        original(self, event if emptied is None else replace(event, updated=None), emptied)

    patch.setattr(TransactionAssembler, "_framed_query", framed)
    patch.setattr(TransactionAssembler, "_refute_emptied", lambda _: None)


def _xa_statements(patch: Patch) -> None:
    patch.setattr(transaction_assembler, "_databases", lambda _: frozenset())


def _local_times(patch: Patch) -> None:
    patch.setattr(handle_statements, "may_move_instants", lambda *_, **__: False)


def _unsynced(patch: Patch) -> None:
    def put(path: Path, content: bytes) -> None:
        beside = path.with_name(path.name + TEMPORARY)
        beside.write_bytes(content)
        beside.rename(path)

    patch.setattr(files, "put_file", put)


def _older_copy(patch: Patch) -> None:
    patch.setattr(JournalStore, "leave_unchecked", lambda *_: None)


def _set_back(patch: Patch) -> None:
    patch.setattr(table_commits, "is_restored", lambda *_: False)


def _undurable(patch: Patch) -> None:
    patch.setattr(table_commits.TableCommits, "make_durable", lambda *_: None)
    patch.setattr(table_commits.TableCommits, "keep_found", lambda *_: None)


@dataclass(frozen=True, slots=True)
class Fault:
    """How it's planted, which of the review's histories it brings back, and where it shows.

    `kept`: a short history in the folder `found` that finds it, if any. `shows`: the kinds of findings that tell it
    from trouble of another sort. `about`: the moves of which there are more. `lake`: whether it shows in a lake alone.
    """

    plant: Callable[[Patch], None]
    of: str
    kept: str
    shows: str = "unequal"
    about: tuple[Move, ...] = ()
    metadata: Metadata = Metadata.FULL
    version: Version = Version.NEW
    lake: bool = False


# A sink that fails on one table's data.
_SINK_FAILS: Final = "lake|stopped|failure, .*|the service ended"
# A lake whose rows are others.
_LAKE: Final = "lake|catalog|reader"
_OLD: Final = (Metadata.MINIMAL, Version.OLD)

FAULTS: Final[Mapping[Planted, Fault]] = {
    Planted.ROWS_STAY: Fault(_rows_stay, "R1", "swap-by-drop-and-rename", about=(moves.truncate, moves.drop)),
    Planted.GONE_FOR_GOOD: Fault(
        _gone_for_good, "R1", "swap-by-drop-and-rename", about=(moves.rename, moves.swap)
    ),
    Planted.FORGOTTEN: Fault(_forgotten, "R1", "swap-by-two-renames", about=(moves.rename, moves.swap)),
    Planted.BY_CASE: Fault(_by_case, "R2", "names-that-differ-by-case", about=(moves.drop, moves.databases)),
    Planted.GENERATED: Fault(_generated, "R3", "generated-columns", about=(moves.converted,)),
    Planted.CUT: Fault(_cut, "R4", "spaces-are-cut", about=(moves.converted,)),
    Planted.PADDED: Fault(_padded, "R4", "spaces-are-padded", about=(moves.converted,)),
    Planted.TWINS: Fault(_twins, "R5", "two-codes-of-a-character", about=(moves.alike,)),
    Planted.HISTORIES: Fault(_histories, "R6", "the-same-gtids-again", "another history", (moves.again,)),
    Planted.IGNORED: Fault(_ignored, "R7", "alter-ignore", "unequal", (moves.ignoring,), *_OLD),
    Planted.MEMORY: Fault(
        _memory, "R8", "memory-tables-after-a-restart", "unequal", (moves.forgotten,), *_OLD
    ),
    Planted.LETTERS: Fault(_letters, "R10", "columns-that-spark-knows", "lake", (moves.known,), lake=True),
    Planted.HIDDEN: Fault(_hidden, "R11", "columns-that-spark-knows", _SINK_FAILS, (moves.known,), lake=True),
    Planted.YEAR_0: Fault(_year_0, "R12", "a-year-0-in-a-key", _SINK_FAILS, (moves.alike,), lake=True),
    Planted.LABELS: Fault(_labels, "R15", "labels-beyond-u-ffff", "stopped", (moves.create,)),
    Planted.STOPS_ALL: Fault(_stops_all, "R16", "a-column-of-ours", "the service ended", (moves.create,)),
    Planted.REFERRED: Fault(_referred, "R17", "only-referred-to", "needless", (moves.widen, moves.around)),
    Planted.VIEWS: Fault(_views, "R18", "views-are-no-tables", "view", (moves.around,)),
    Planted.ENGINES: Fault(_engines, "R19", "blackhole-from-its-creation", about=(moves.create,)),
    Planted.SYNONYMS: Fault(_synonyms, "R20", "synonyms-that-round", about=(moves.converted,)),
    Planted.MEASURES: Fault(_measures, "U1", "three-new-tables", "the service ended"),
    Planted.UNNAMED: Fault(
        _unnamed, "U3", "minimal-one-after-another", "unequal", (moves.alter,), Metadata.MINIMAL
    ),
    Planted.FOR_EVER: Fault(
        _for_ever, "U4", "stopped-and-recaptured", "recapture", (moves.create, moves.recaptured)
    ),
    Planted.NEVER_ALTERED: Fault(
        _never_altered,
        "",
        "columns-that-swap-names",
        "unequal|unknown|stopped",
        (moves.alter,),
        Metadata.MINIMAL,
    ),
    Planted.LITERALS: Fault(_literals, "U2", "a-default-with-a-space", about=(moves.extend,)),
    Planted.NEEDLESS: Fault(_needless, "", "widenings-in-a-row", "needless"),
    Planted.PREPARED_BEFORE: Fault(
        _prepared_before, "R13", "prepared-before-the-start", about=(moves.prepared,)
    ),
    Planted.HELD_UP: Fault(
        _held_up, "R14", "prepared-and-forgotten", "the service ended|no rest", (moves.elsewhere,)
    ),
    Planted.MERGED: Fault(_merged, "", "rows-through-a-merge-table", about=(moves.merged,)),
    Planted.STUCK: Fault(_stuck, "", "prepared-and-forgotten", "stop", (moves.struck,)),
    Planted.ONE_VIEW: Fault(
        _one_view, "R9", "views-that-differ-by-case", "catalog", (moves.cased, moves.rename), lake=True
    ),
    Planted.HIDING: Fault(_hiding, "", "a-temporary-table-of-the-same-name", about=(moves.by_statement,)),
    Planted.MADE_BY_QUERY: Fault(
        _made_by_query, "", "a-query-that-is-logged-makes-a-table", about=(moves.by_statement,)
    ),
    Planted.DELETED: Fault(_deleted, "", "rows-are-deleted-through-a-view", about=(moves.by_statement,)),
    Planted.XA_STATEMENTS: Fault(
        _xa_statements, "", "statements-of-an-xa-transaction", about=(moves.by_statement,)
    ),
    Planted.LOCAL_TIMES: Fault(_local_times, "", "two-instants-of-one-local-time", about=(moves.clocks,)),
    Planted.UNSYNCED: Fault(
        _unsynced, "", "a-power-cut", "failure, .*|the service ended|journal", (moves.struck,)
    ),
    Planted.OLDER_COPY: Fault(_older_copy, "", "an-older-journal", _LAKE, (moves.older,), lake=True),
    Planted.SET_BACK: Fault(_set_back, "", "a-restored-table", _LAKE, (moves.restored,), lake=True),
    Planted.UNDURABLE: Fault(
        _undurable, "", "a-power-cut-after-a-rename", f"stopped|{_LAKE}", (moves.cut,), lake=True
    ),
}

# How much more often a move comes that a fault is about; and in a lake, where few histories have to do.
_MORE: Final = 20
_MORE_IN_LAKE: Final = 60


def weights(planted: Planted) -> dict[Move, int]:
    """How often each move comes while that's planted."""
    fault = FAULTS[planted]
    more = _MORE_IN_LAKE if fault.lake else _MORE
    return {move: weight * (more if move in fault.about else 1) for move, weight in MOVES.items()}


def shown(planted: Planted, findings: Sequence[Finding]) -> list[Finding]:
    """What tells that fault among what was found."""
    return [finding for finding in findings if re.fullmatch(FAULTS[planted].shows, finding.kind)]
