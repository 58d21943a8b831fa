"""The SchemaVerifier's machine: columns get their names here, and only proven ones.

With full metadata a table map describes itself. With minimal metadata it has the columns' types without names or
labels. Without any (before MySQL 8.0.1) it doesn't even have the complete types. Then the schema has to come from the
server's information_schema (`pipeline.verifier.column_names`), with a proof that it holds at this position in the
stream. Chunks need that proof in any case: they're read under the schema that holds in the stream.

**The proof at the start.** Only a statement changes a table. So the schema by which a table was last verified holds at
the checkpoint, unless a statement has passed since that touches it. The checkpoint knows those tables (`unproven`).
Only the server knows the others. Let K be a GTID set at which its schemas held (`KnownSchemas`). A schema holds once
every transaction of K has passed, until a statement passes that touches the table: what K holds had made the schema
what it is. While transactions of K are still to come, one of them may be such a statement, and the schema is
`SchemaPending`.

**The proof after a statement.** A statement that isn't in K may have altered a table. Then the verifier queries the
server again: for its executed set A, then for the schema, then for the end E of its log (`ServerAnswer`).

1. The schema has the work of the statements in A, because they had committed before it was read.
2. It has no work of statements after E, because a statement is in the log before any session sees its work.
3. So if each statement that touched the table and passed before E is in A, the schema has exactly their work: it holds
   at E.
4. Only a statement changes a table. So it has held since the last one of them passed.

Images between that statement and E wait until the stream reaches E. The verifier can see that without sending them
(`pipeline.verifier.schema_fence`). If a statement isn't in A, the verifier queries once more. If one answer has the
work of two statements, nothing can be proven about the images between the two.

A table that can't be captured as it is (`uncapturable`, `Answer.refused`) is stopped too, as soon as that's known.

Images without a proof are left out, and right after them the table's mirror begins again: Tidemark guesses nothing. The
changelog lacks them, and the restart says so. A table that has no mirror, and gets none, is stopped instead.
`pipeline.schema.ddl.effects` decides on the safe side which tables a statement touches.

**Rows that change without an event.** The rows of a mirror are no longer right if a statement changes rows and the log
doesn't have that (`pipeline.schema.ddl.unlogged_changes`). Nor are they if it leaves them under a schema in which they
can't stay unchanged (`pipeline.schema.compatibility`). Then the table restarts, together with the statement's own
passing or with the schema. No checkpoint may have these without the restart, nor a restart without the schema that
causes it. Two restarts do no harm. A statement that surely gives all rows constants restarts nothing here: its
alteration has them.

**Engines.** Some engines keep other rows than the log has (BLACKHOLE keeps none). Only the server knows a table's
engine: the text of CREATE TABLE needn't have it. Between a statement that may give a table any engine and the server's
answer, the log may have rows that the table lost. So an ALTER TABLE … ENGINE that passes before the answer holds
restarts the table. The checkpoint knows these tables (`unknown_engines`). An answer with another engine than a logged
one stops the table. The same holds for a MyISAM table while a statement may have put it into the UNION of a MERGE
table. The log has what changes through that one under another name. If the answer says that none has it, that may have
been otherwise meanwhile, so the table restarts (`merging`).

**Statements that leave a table as it is** (ANALYZE, GRANT, a trigger, a table made LIKE it) aren't reported as changes
of it. So its open windows and its plan stay. A chunk depends on three things: the table's columns and key, the index
that it is read along, and the table's rows. A statement that may change one of the first two is among what `may_alter`
returns. That function lists what certainly leaves them alone, and takes all else for a change. A statement that changes
rows either logs them, and then their keys touch the windows, or it restarts the table, which drops these.

**Tables that the checkpoint doesn't know** are reported as soon as their schema is proven. Those of the server's
schemas are reported at the start, or once nothing is to come. Any other is reported with its first map, or with the
answer after its creation. A table that is no longer captured is stopped, because it would have a gap if it were
captured again.

A pause of the reader is reported at once, also while images wait. They then come after it, like everything that the
reader hasn't read.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.journal.change_rows import uncapturable
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    ReadingPaused,
    RowsUnread,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import (
    ChangesVerified,
    CreationStatements,
    EnginesSurveyed,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.inboxes import ToSchemaVerifier
from pipeline.messages.message_size import weight
from pipeline.messages.row_images import TableChanges, TableImages, TableUnreadable
from pipeline.schema.compatibility import incompatibility
from pipeline.schema.ddl import effects as ddl
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.local_times import has_instants, may_move_instants
from pipeline.schema.ddl.schema_statements import SchemaStatement, schema_statements
from pipeline.schema.ddl.statement_kinds import LoggedStatement, parse_logged
from pipeline.schema.ddl.unlogged_changes import WITHOUT_ROWS, Effect
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import initial_survey
from pipeline.verifier import schema_fence
from pipeline.verifier.cascades import (
    OutdatedForeignKeys,
    effects_of_new_keys,
    find_cascades,
    restarts_after_cascades,
    stop_orphans,
)
from pipeline.verifier.column_names import after_statement, images_table, name_columns
from pipeline.verifier.schema_fence import HeldMessage, NeverProven, NotYetProven, ServerAnswer
from pipeline.verifier.state import State
from pipeline.verifier.table_restarts import (
    LEFT_OUT_VALUE,
    effects_of_unread_rows,
    restarts_after_gaps,
    restarts_after_merges,
    restarts_after_statement,
    stops_for_engines,
)
from pipeline.verifier.table_state import (
    NoSuchTable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    Stopped,
    TableState,
    Unproven,
    Verified,
)

_MAY_BE_RENAMED = (
    "a statement may have renamed a column of it, and does not say for certain which one, so that [protection] may "
    "mean another column now; compare its rules with the columns"
)
_RENAMED = "its column {old!r} was renamed {new!r}, and [protection] has another rule for that name; correct its rules"

News = SchemaVerified | EnginesSurveyed | MirrorInvalidated | TableStopped
FromVerifier = ChangesVerified | TransactionPartVerified | SchemaChanged | LogAdvanced | ReadingPaused | News


@dataclass(frozen=True, slots=True)
class AskServer:
    """Ask the server for these tables; what it says comes back as a `ServerAnswer`."""

    tables: frozenset[TableId]


Fact = ToSchemaVerifier | ServerAnswer
Order = FromVerifier | AskServer


def start(
    captured: TableFilter,
    known: KnownSchemas,
    position: GtidSet,
    schemas: Mapping[TableId, TableSchema],
    stopped: Iterable[TableId],
    unproven: frozenset[TableId],
    foreign_keys: tuple[ForeignKey, ...] = (),
    outdated_keys: OutdatedForeignKeys | None = None,
    keeps: TableFilter | None = None,
    unknown_engines: frozenset[TableId] = frozenset(),
    protection: Protection = UNPROTECTED,
) -> tuple[State, tuple[Order, ...]]:
    """The state at a checkpoint with this position, these schemas and tables, and what follows from it.

    `keeps`: the tables on whose schema the journal keeps statements, None if it keeps none.
    """
    to_come = known.at - position
    tables = _tables_at_start(known, schemas, unproven, all_passed=not to_come)
    ended: dict[TableId, TableState] = dict.fromkeys(stopped, Stopped())
    # A start wasn't refused for these if capture had begun before.
    cascading = (
        effects_of_new_keys(foreign_keys, foreign_keys, captured, ended, reread=outdated_keys.reread)[0]
        if outdated_keys
        else ()
    )
    given = {stop.table: stop.reason for stop in cascading}
    left = {table: LEFT_OUT_VALUE for table in schemas if not captured.match(table)}
    fetched = (known.schema for known in tables.values() if isinstance(known, SchemaKnown))
    proven = _uncapturable(fetched, protection)
    stops = _stops(ended, {**proven, **known.refused, **given, **left})
    tables |= ended | {stop.table: Stopped() for stop in stops}
    doubtful = frozenset(
        table for table, state in tables.items() if isinstance(state, Unproven | SchemaPending)
    )
    state = State(captured, known, to_come, tables, dict(schemas), doubtful=doubtful)
    state = replace(
        state,
        foreign_keys=foreign_keys,
        outdated_keys=outdated_keys,
        keeps=keeps,
        survey=initial_survey(known.traits, known.at),
        unknown_engines=unknown_engines,
        protection=protection,
    )
    state, elsewhere = _apply_survey(state)
    new = [
        s.schema for t, s in state.tables.items() if isinstance(s, SchemaKnown) and s.schema != schemas.get(t)
    ]
    state, news = _report_schemas(state, new)
    return _with_query(state, (*stops, *elsewhere, *news))


def _tables_at_start(
    known: KnownSchemas,
    schemas: Mapping[TableId, TableSchema],
    unproven: frozenset[TableId],
    *,
    all_passed: bool,
) -> dict[TableId, TableState]:
    """Returns what is known of each table's schema at the checkpoint.

    `all_passed`: whether the stream has all that the server had executed when it gave its schemas (`known`).
    """
    tables: dict[TableId, TableState] = {
        table: SchemaKnown(schema) if table not in unproven else Unproven()
        for table, schema in schemas.items()
    }
    for table, schema in known.schemas.items():
        if all_passed:
            tables[table] = SchemaKnown(schema)
        elif not isinstance(tables.get(table), SchemaKnown):
            tables[table] = SchemaPending(schema)
    return tables


def step(state: State, fact: Fact) -> tuple[State, tuple[Order, ...]]:
    """Returns the state after a fact, and what follows from it, in this order. One query is under way at a time."""
    match fact:
        case ReadingPaused():
            return state, (fact,)
        case ServerAnswer():
            return _with_query(*_take_answer(replace(state, asking=False), fact))
        case _:
            held = (*state.held, fact)
            return _with_query(
                *_send_ready(replace(state, held=held, held_bytes=state.held_bytes + weight(fact)))
            )


def _with_query(state: State, said: tuple[FromVerifier, ...]) -> tuple[State, tuple[Order, ...]]:
    """Returns the same, and the query that's due."""
    if state.asking or not (tables := tables_to_ask(state)):
        return state, said
    return replace(state, asking=True), (*said, AskServer(tables))


def tables_to_ask(state: State) -> frozenset[TableId]:
    """Returns the tables for which the server is to be queried."""
    doubts = state.outdated_keys.tables.keys() if state.outdated_keys else frozenset[TableId]()
    return _unproven_tables(state) | doubts | state.survey.wanted.keys()


def _unproven_tables(state: State) -> frozenset[TableId]:
    return frozenset(
        table for table in state.doubtful if isinstance(state.tables.get(table), Unproven | SchemaPending)
    )


def _take_answer(state: State, answer: ServerAnswer) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state with the server's answer, and the messages to the coordinator."""
    tables = dict(state.tables)
    for table in answer.tables & _unproven_tables(state):
        known = tables[table]  # what may have altered an awaited one was in K, and so it's in A
        if not isinstance(known, Unproven) or known.statements <= answer.at:
            tables[table] = SchemaFetched(answer.schemas.get(table, NoSuchTable()), answer.at, answer.end)
    survey = state.survey.take_answer(answer.tables, answer.traits, answer.at, answer.end)
    state = replace(state, tables=tables, survey=survey)
    stops = _stops(_stopped_tables(state), answer.refused)
    state, cascades = _take_foreign_keys(
        _with_tables(state, {stop.table: Stopped() for stop in stops}), answer
    )
    state, news = _apply_answers(state)
    state, said = _send_ready(state)
    return state, (*stops, *cascades, *news, *said)


def _take_foreign_keys(state: State, answer: ServerAnswer) -> tuple[State, tuple[News, ...]]:
    """The state with the server's foreign keys, and what that makes of the tables that new ones change."""
    if state.outdated_keys is None:
        return state, ()
    new = [
        key
        for key in answer.foreign_keys
        if state.captured.match(key.child) and key not in state.foreign_keys
    ]
    keys, reread = (*state.foreign_keys, *new), state.outdated_keys.reread
    stops, restarts = effects_of_new_keys(keys, new, state.captured, _stopped_tables(state), reread=reread)
    state = replace(state, foreign_keys=keys, outdated_keys=state.outdated_keys.drop_answered(answer.at))
    return _with_tables(state, {stop.table: Stopped() for stop in stops}), (*stops, *restarts)


# What waits, and what is sent


def _send_ready(state: State) -> tuple[State, tuple[FromVerifier, ...]]:
    """Sends what no longer has to wait, in order."""
    said: list[FromVerifier] = []
    while state.held:
        state, news, unnamed = _prove_waiting(state)
        said += news
        message = state.held[0]
        if schema_fence.waiting_tables(state.tables, message) - unnamed.keys():
            break
        left = state.held_bytes - weight(message)
        state = replace(state, held=state.held[1:], held_bytes=left, passed=state.passed + 1)
        state, orphaned = _stop_orphans(state)
        state, taken = _handle(state, _without_images(message, unnamed))
        state, arrived = _apply_answers(_at_end(state, message))
        said += (*orphaned, *taken, *arrived)
    return state, tuple(said)


def _at_end(state: State, message: HeldMessage) -> State:
    """Returns the state at the message's end. A part has none, and a creation's is that of its rows' transaction."""
    if isinstance(message, TransactionPartRead | CreateTableSelectRead):
        return state
    return replace(state, log_position=message.end)


def _without_images(message: HeldMessage, unnamed: Mapping[TableId, str]) -> HeldMessage:
    """The message without the images of these tables."""
    if not unnamed or not isinstance(message, TransactionsRead | TransactionPartRead):
        return message
    return replace(
        message, tables=tuple(each for each in message.tables if images_table(each) not in unnamed)
    )


def _prove_waiting(state: State) -> tuple[State, tuple[News, ...], Mapping[TableId, str]]:
    """Proves what can be proven of the tables whose images wait at the front.

    Also returns those whose images there will never have a proof, with the reasons.
    """
    state, bound = _bind_creation(state)
    said: list[News] = [*bound]
    unnamed: dict[TableId, str] = {}
    for table in sorted(schema_fence.waiting_tables(state.tables, state.held[0])):
        before = state.tables.get(table, Unproven())
        if isinstance(before, SchemaPending):
            before = Unproven()
        outcome = schema_fence.prove_schema(
            table, before, state.held, state.passed, state.held_bytes, partial(_altered_tables, state)
        )
        match outcome:
            case SchemaKnown(schema):
                state, news = _report_schemas(_with_tables(state, {table: outcome}), [schema])
                said += news
            case NeverProven(reason, examined):
                state, unnamed[table] = _with_tables(state, {table: examined}), reason
            case NotYetProven(waiting):
                state = _with_tables(state, {table: waiting})
            case _:
                assert_never(outcome)
    emptied = state.emptied - unnamed.keys()
    return replace(state, unnamed={**state.unnamed, **unnamed}, emptied=emptied), tuple(said), unnamed


def _bind_creation(state: State) -> tuple[State, tuple[EnginesSurveyed, ...]]:
    """Returns the state in which the tables that are being created have the statement's GTID, taken from its first
    rows."""
    message = state.held[0]
    if not state.creating or not isinstance(message, TransactionsRead | TransactionPartRead):
        return state, ()
    gtid = message.gtid if isinstance(message, TransactionPartRead) else message.transactions.gtid(0)
    created = Unproven(GtidSet().with_gtid(gtid))
    state, unknown = _survey_again(state, state.creating, state.creating, gtid)
    return replace(_with_tables(state, dict.fromkeys(state.creating, created)), creating=frozenset()), unknown


def _handle(state: State, message: HeldMessage) -> tuple[State, tuple[FromVerifier, ...]]:
    match message:
        case TransactionsRead():
            return _read_slice(state, message)
        case TransactionPartRead(gtid, commit_time, tables, original_time):
            state, news, changes = _read_tables(state, tables)
            parents = find_cascades(state.foreign_keys, changes, state.cascaded)
            said = (*news, TransactionPartVerified(gtid, commit_time, changes, original_time))
            return replace(state, cascaded=parents), said
        case DdlRead():
            return _read_statement(state, message)
        case CreateTableSelectRead():
            statement = _parsed(message)
            created, kept = ddl.may_alter(_scope(state), statement), _kept_statements(state, statement)
            state = replace(
                state, creation=CreationStatements(kept, message.begins, message.server) if kept else None
            )
            return replace(_with_tables(state, dict.fromkeys(created, Unproven())), creating=created), ()
        case LogAdvanced(_, covered):
            stops, restarts = _effects_of_unread(state, message.unread)
            state = _with_tables(state, {stop.table: Stopped() for stop in stops})
            state = replace(state, emptied=state.emptied - {restart.table for restart in restarts})
            state, arrived = _advance(state, covered)
            return state, (replace(message, unread=()), *stops, *restarts, *arrived)
        case _:
            assert_never(message)


def _with_tables(state: State, changed: Mapping[TableId, TableState]) -> State:
    """Returns the state with these tables changed, except stopped ones: a stop is final here."""
    stopped = {table: s for table in changed if isinstance(s := state.tables.get(table), Stopped)}
    in_doubt = {
        table for table, s in changed.items() if isinstance(s, Unproven | SchemaPending | SchemaFetched)
    }
    return replace(state, tables={**state.tables, **changed, **stopped}, doubtful=state.doubtful | in_doubt)


# Statements


def _altered_tables(state: State, message: DdlRead | CreateTableSelectRead) -> frozenset[TableId]:
    """Returns the captured tables whose columns a statement may change."""
    return ddl.may_alter(_scope(state), _parsed(message))


def _parsed(message: DdlRead | CreateTableSelectRead) -> LoggedStatement:
    thread_specific = isinstance(message, DdlRead) and message.thread_specific
    return parse_logged(message.database, message.statement, thread_specific=thread_specific)


def _scope(state: State) -> ddl.StatementScope:
    """Returns what names in a statement may mean; a table that's gone is known too."""
    return ddl.StatementScope(state.captured, state.tables.keys() | state.reported.keys(), state.known.folds)


def _read_statement(state: State, message: DdlRead) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state after a statement: its tables restart, stop or are altered, and the server is queried."""
    gtid, statement, names = message.gtid, _parsed(message), _scope(state)
    changed = ddl.may_alter(names, statement)
    unlogged, uncertain = _unlogged_changes(state, message, statement, names)
    others = {t for t, u in unlogged.items() if u.effect is not Effect.EXTENDED}
    merging = ddl.may_merge(names, statement)
    others |= ddl.may_create(names, statement) | merging
    state = replace(state, merging=state.merging | merging)
    unknown = frozenset(t for t in changed if t in others or t not in state.reported)
    unlogged = {t: u for t, u in unlogged.items() if u.effect is not Effect.CREATED or t not in state.emptied}
    emptied = {t: each.what for t, each in unlogged.items() if each.effect in WITHOUT_ROWS}
    alterations = () if message.failed else _alterations(state, statement, emptied)
    extended = {each.schema.table for each in alterations if each.changes.added}
    unlogged = {t: u for t, u in unlogged.items() if u.effect is not Effect.EXTENDED or t not in extended}
    restarts = restarts_after_statement(unlogged, gtid, _stopped_tables(state))
    restarted = {restart.table for restart in restarts}
    state = replace(state, emptied=state.emptied - restarted | (emptied.keys() & restarted))
    state, unfit = _stop_unfit(state, alterations, uncertain)
    gone = {stop.table for stop in unfit}
    restarts = tuple(each for each in restarts if each.table not in gone)
    alterations = tuple(each for each in alterations if each.schema.table not in gone)
    reported = {**state.reported, **{each.schema.table: each.schema for each in alterations}}
    state, engines = _query_again(replace(state, reported=reported), changed, unknown, gtid)
    state, arrived = _advance(state, GtidSet().with_gtid(gtid) | message.covered)
    passed = SchemaChanged(
        gtid,
        changed,
        message.statement,
        message.end,
        restarts,
        message.covered,
        alterations,
        message.commit_time,
        message.original_time,
        message.begins,
        message.server,
        _kept_statements(state, statement),
    )
    return state, (*unfit, *engines, passed, *arrived)


def _unlogged_changes(
    state: State, message: DdlRead, statement: LoggedStatement, names: ddl.StatementScope
) -> tuple[dict[TableId, Unlogged], frozenset[TableId]]:
    """Returns the tables whose rows the statement may have changed without row events, and how.

    And those of which it isn't certain which columns they have now.
    """
    # If the schema after the first of two statements isn't known, what they converted isn't known either.
    exact = (
        {t: s for t, s in state.survey.holding.items() if t not in state.doubtful} if message.strict else {}
    )
    # A table that was never reported has no mirror: a statement's effect on its rows changes nothing here.
    reported = replace(names, known=state.reported.keys(), unknown_engines=state.unknown_engines)
    unlogged = dict(ddl.changed_unlogged(reported, statement, exact, failed=message.failed))
    unlogged |= _moved_instants(state, reported, statement, message.zone)
    unlogged |= _regenerated(state, reported, statement, unlogged)
    uncertain = frozenset(ddl.uncertain_columns(reported, state.reported, statement, failed=message.failed))
    lost = uncertain | ddl.shortened_keys(state.reported, statement)
    return unlogged | _with_rows(lost, "ALTER TABLE that may rename or drop a column", unlogged), uncertain


def _stop_unfit(
    state: State, alterations: Iterable[Alteration], uncertain: Iterable[TableId]
) -> tuple[State, tuple[TableStopped, ...]]:
    """Stops the tables that can't be captured after these alterations, and those that might show protected columns."""
    shown = _uncertain_columns_shown(state, uncertain)
    unfit = tuple(_stops(_stopped_tables(state), shown | _unfit_alterations(alterations, state.protection)))
    return _with_tables(state, {stop.table: Stopped() for stop in unfit}), unfit


def _query_again(
    state: State, changed: frozenset[TableId], unknown: frozenset[TableId], gtid: Gtid
) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state in which what the server said of the changed tables has to be proven again.

    `unknown`: those that may have another engine now.
    """
    if state.outdated_keys is not None:
        state = replace(state, outdated_keys=state.outdated_keys.mark_altered(changed, gtid))
    state, engines = _survey_again(state, changed, unknown, gtid)
    to_come = state.known.schemas if gtid in state.to_come else {}
    doubted = {t: after_statement(state.tables.get(t), gtid, to_come.get(t)) for t in changed}
    return _with_tables(state, doubted), engines


def _moved_instants(
    state: State, reported: ddl.StatementScope, statement: LoggedStatement, zone: str
) -> dict[TableId, Unlogged]:
    """Returns the tables in which this statement may have moved instants; `zone`: its session's time_zone."""
    if not may_move_instants(zone, system_is_utc=state.known.system_is_utc):
        return {}
    return {
        table: Unlogged("ALTER TABLE in a time zone whose clock may go back", Effect.CHANGED)
        for table in ddl.copied_tables(reported, statement)
        if table in state.doubtful or has_instants(state.reported[table])
    }


def _regenerated(
    state: State,
    reported: ddl.StatementScope,
    statement: LoggedStatement,
    unlogged: Mapping[TableId, Unlogged],
) -> dict[TableId, Unlogged]:
    """Returns the tables in which this statement may have changed generated columns, and no others."""
    traits, found = state.survey.holding, dict[TableId, Unlogged]()
    for table, what in ddl.regenerated_tables(reported, statement).items():
        if table not in traits or traits[table].generated:
            found |= _with_rows((table,), what, unlogged)
    return found


def _with_rows(
    tables: Iterable[TableId], what: str, unlogged: Mapping[TableId, Unlogged]
) -> dict[TableId, Unlogged]:
    """Returns those of these tables that still have rows, which `what` has changed."""
    empty = {table for table, each in unlogged.items() if each.effect in WITHOUT_ROWS}
    return {table: Unlogged(what, Effect.CHANGED) for table in tables if table not in empty}


def _kept_statements(state: State, statement: LoggedStatement) -> tuple[SchemaStatement, ...]:
    """Returns what the journal keeps of a statement."""
    if state.keeps is None:
        return ()
    names = replace(_scope(state), captured=state.keeps)
    return schema_statements(names, statement)


def _stop_orphans(state: State) -> tuple[State, tuple[TableStopped, ...]]:
    """The state in which tables stop along with those that foreign keys change them by."""
    stops = stop_orphans(state.foreign_keys, _stopped_tables(state)) if state.foreign_keys else ()
    return _with_tables(state, {stop.table: Stopped() for stop in stops}), stops


def _stopped_tables(state: State) -> frozenset[TableId]:
    return frozenset(table for table, known in state.tables.items() if isinstance(known, Stopped))


def _alterations(
    state: State, statement: LoggedStatement, emptied: Mapping[TableId, str]
) -> tuple[Alteration, ...]:
    """Returns the certain effects of a statement on tables that haven't stopped; `emptied` are known to be empty."""
    known = {t: s for t, s in state.reported.items() if not isinstance(state.tables.get(t), Stopped)}
    return ddl.alterations(known, statement, emptied)


# Schemas that are proven


def _advance(state: State, gtids: GtidSet) -> tuple[State, tuple[News, ...]]:
    """The state after these transactions; once none is to come, the schemas of the start hold."""
    to_come = state.to_come - gtids
    if to_come or not state.to_come:
        return replace(state, to_come=to_come), ()
    arrived = {t: SchemaKnown(s.schema) for t, s in state.tables.items() if isinstance(s, SchemaPending)}
    state = _with_tables(replace(state, to_come=to_come), arrived)
    state, told = _report_schemas(state, [holding.schema for holding in arrived.values()])
    state, stops = _apply_survey(state)
    return state, (*told, *stops)


def _apply_survey(
    state: State,
) -> tuple[State, tuple[TableStopped | MirrorInvalidated | EnginesSurveyed, ...]]:
    """Returns the state with the survey's answers that hold now; tables stop if the log can't have their rows."""
    survey, new = state.survey.apply_answers(state.log_position, not state.to_come)
    ended = _stopped_tables(state)
    stops = stops_for_engines(survey.holding, new, ended) if new else ()
    merged = (state.merging & state.reported.keys() & new) - ended
    restarts = restarts_after_merges(survey.holding, merged) if merged else ()
    state = _with_tables(replace(state, survey=survey), {stop.table: Stopped() for stop in stops})
    emptied = state.emptied - {restart.table for restart in restarts}
    state = replace(state, merging=state.merging & survey.awaited, emptied=emptied)
    unknown = state.unknown_engines & survey.awaited
    if unknown == state.unknown_engines:
        return state, (*stops, *restarts)
    return replace(state, unknown_engines=unknown), (*stops, *restarts, EnginesSurveyed(unknown))


def _survey_again(
    state: State, altered: frozenset[TableId], unknown: frozenset[TableId], gtid: Gtid
) -> tuple[State, tuple[EnginesSurveyed, ...]]:
    """Returns the state in which the server is to say what altered tables are; `unknown`: any engine may be theirs."""
    unknown |= state.unknown_engines
    told = () if unknown == state.unknown_engines else (EnginesSurveyed(unknown),)
    return replace(state, survey=state.survey.mark_altered(altered, gtid), unknown_engines=unknown), told


def _apply_answers(state: State) -> tuple[State, tuple[News, ...]]:
    """Returns the state with the server's answers whose position the stream has reached."""
    state, stops = _apply_survey(state)
    if not state.doubtful or state.log_position is None:
        return state, stops
    tables = dict(state.tables)
    proven: list[TableSchema] = []
    for table in sorted(state.doubtful):
        match tables.get(table):
            case SchemaFetched(schema, _, end) if state.log_position.reaches(end):
                if isinstance(schema, NoSuchTable):
                    del tables[table]
                else:
                    tables[table] = SchemaKnown(schema)
                    proven.append(schema)
            case _:
                pass
    doubtful = frozenset(
        t for t in state.doubtful if isinstance(tables.get(t), Unproven | SchemaPending | SchemaFetched)
    )
    state, told = _report_schemas(replace(state, tables=tables, doubtful=doubtful), proven)
    return state, (*stops, *told)


def _uncapturable(schemas: Iterable[TableSchema], protection: Protection) -> dict[TableId, str]:
    """Those of these tables that can't be captured, and why."""
    return {schema.table: why for schema in schemas if (why := uncapturable(schema, protection)) is not None}


def _unfit_alterations(alterations: Iterable[Alteration], protection: Protection) -> dict[TableId, str]:
    """Those of these altered tables that can't be captured any more, and why.

    A protected column that has another name would be seen under it, also where another one takes its name.
    """
    renamed = {
        each.schema.table: _RENAMED.format(old=old, new=new)
        for each in alterations
        for old, new in each.changes.renamed
        if protection.rule_of_column(each.schema.table, old)
        != protection.rule_of_column(each.schema.table, new)
    }
    return {**renamed, **_uncapturable((each.schema for each in alterations), protection)}


def _uncertain_columns_shown(state: State, uncertain: Iterable[TableId]) -> dict[TableId, str]:
    """Those of these tables, of which a column may have got another name, that have protected columns, and why."""
    has_rules = state.protection.rules_of_columns
    return {table: _MAY_BE_RENAMED for table in uncertain if has_rules(state.reported[table])}


def _stops(ended: Collection[TableId], reasons: Mapping[TableId, str]) -> tuple[TableStopped, ...]:
    """The stops for these reasons, of tables that haven't stopped yet."""
    return tuple(TableStopped(table, reasons[table]) for table in sorted(reasons.keys() - set(ended)))


def _report_schemas(state: State, schemas: Iterable[TableSchema]) -> tuple[State, tuple[News, ...]]:
    """Reports these schemas. A table restarts if its rows can't stay unchanged, and stops if it can't be captured."""
    schemas = list(schemas)
    stops = _stops(_stopped_tables(state), _uncapturable(schemas, state.protection))
    state = _with_tables(state, {stop.table: Stopped() for stop in stops})
    news: list[News] = [*stops]
    reported = dict(state.reported)
    for schema in schemas:
        table = schema.table
        if isinstance(state.tables.get(table), Stopped):
            continue
        before = reported.get(table)
        why = None if before is None else incompatibility(before, schema)
        # Without a key there's no mirror. The one that there is stays as it was with a key.
        emptied = table in state.emptied and bool(schema.key)
        restarted = () if why is None else (MirrorInvalidated(table, emptied, why),)
        news.append(SchemaVerified(schema, restarted))
        reported[table] = schema
    return replace(state, reported=reported), tuple(news)


# Slices, and parts of a transaction


def _read_slice(state: State, message: TransactionsRead) -> tuple[State, tuple[FromVerifier, ...]]:
    after, news, changes = _read_tables(state, message.tables)
    parents = find_cascades(after.foreign_keys, changes, after.cascaded)
    restarts = restarts_after_cascades(parents, _stopped_tables(after)) if parents else ()
    stops, reread = _effects_of_unread(after, message.unread)
    gaps = (
        restarts_after_gaps(after.unnamed, after.foreign_keys, _stopped_tables(after))
        if after.unnamed
        else ()
    )
    restarts = (*restarts, *reread, *gaps)
    verified = ChangesVerified(
        message.transactions,
        changes,
        message.end,
        (),
        restarts,
        message.covered,
        message.prepared,
        state.creation,
    )
    after = _with_tables(after, {stop.table: Stopped() for stop in stops})
    emptied = after.emptied - {restart.table for restart in restarts}
    after = replace(after, cascaded={}, unnamed={}, emptied=emptied, creation=None)
    gtids = message.transactions.added_to(NO_GTIDS) | message.covered if after.to_come else NO_GTIDS
    after, arrived = _advance(after, gtids)
    return after, (*news, verified, *stops, *arrived)


def _effects_of_unread(
    state: State, unread: tuple[RowsUnread, ...]
) -> tuple[tuple[TableStopped, ...], tuple[MirrorInvalidated, ...]]:
    """Returns the effects on tables whose rows changed without the log saying which."""
    there = frozenset(state.tables) - _stopped_tables(state)
    return effects_of_unread_rows(unread, state.foreign_keys, state.reported, there)


def _read_tables(
    state: State, read: Iterable[TableImages | TableUnreadable]
) -> tuple[State, tuple[News, ...], tuple[TableChanges, ...]]:
    """Returns the state after these images, their tables' news, and the changes of those that aren't stopped."""
    tables = dict(state.tables)
    news: list[News] = []
    changes: list[TableChanges] = []
    for images in read:
        table = images_table(images)
        before = tables.get(table, Unproven())
        if isinstance(before, Stopped):
            continue
        judged = name_columns(before, images, state.protection)
        if isinstance(judged, TableStopped):
            tables[table] = Stopped()
            news.append(judged)
            continue
        tables[table], change = judged
        changes.append(change)
        if not isinstance(before, Verified) or before.schema != change.schema:
            state, told = _report_schemas(state, [change.schema])
            news += told
        if table in state.emptied:
            state = replace(state, emptied=state.emptied - {table})
    state, orphaned = _stop_orphans(replace(state, tables=tables))
    going_on = (c for c in changes if not isinstance(state.tables[c.schema.table], Stopped))
    return state, (*news, *orphaned), tuple(going_on)
