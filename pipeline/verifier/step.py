"""The SchemaVerifier's machine: columns get their names here, and only proven ones.

With full metadata a table map describes itself. With minimal metadata it has the columns' types without names or
labels. Without any (before MySQL 8.0.1) it doesn't even have the complete types. Then the schema has to come from the
server's information_schema (`pipeline.verifier.columns`), with a proof that it holds at this position in the
stream. Chunks need that proof in any case: they're read under the schema that holds in the stream.

**The proof at the start.** Only a statement changes a table. So the schema by which a table was last verified holds at
the checkpoint, unless a statement has passed since that touches it. The checkpoint knows those tables (`unproven`).
Only the server knows the others. Let K be its executed set between two reports of the same schema, and E the end of
its log after the second (`KnownSchemas`). While transactions of K are still to come, one of them may be a statement
that has made the schema what it is, and the schema is `SchemaPending`. After them the second report is an answer with
A = K, as after a statement: a statement after K may have undone what the last one in K did. If the log has ended at one
place since before K, there was none, and the schema holds at K: many idle tables needn't be proven one by one.

**The proof after a statement.** A statement that isn't in K may have altered a table. Then the verifier queries the
server again: for its executed set A, then for the schema, then for the end E of its log (`ServerAnswer`).

1. The schema has the work of the statements in A, because they had committed before it was read.
2. It has no work of statements after E, because a statement is in the log before any session sees its work. Where an
   engine has no atomic DDL the server shows it earlier, and such an answer leaves the table out (`Source.unlogged`).
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

**The rooms.** This one has what waits, and sends it in order. `handle_images` names the columns of rows,
`handle_statements` applies what a statement does to tables, and `handle_answers` what the server says of them. Each
reports schemas and stops through `state`.

If a table has another schema in K than in the checkpoint, a statement to come has to explain it. Otherwise the table
was altered without one, or capture continues at a server where it has other columns (`State.assumed`). Once all of K
has passed, the server's schema is an answer for it, and it restarts if its changes got names meanwhile.

Statements may have altered a table at the very moment of K (`KnownSchemas.unsettled`). If the checkpoint has its
schema, that holds until they pass. Otherwise it's unproven, as after a statement.

**Tables that the checkpoint doesn't know** are reported as soon as their schema is proven. Those of the server's
schemas are reported once all of K has passed and the stream has reached E. Any other is reported with its first map, or
with the answer after its creation. A table that is no longer captured is stopped, because it would have a gap if it
were captured again. A table that the checkpoint knows as unproven is reported with its proof too, also if it has its
schema already: the coordinator waits for that.

A pause of the reader is reported at once, also while images wait. They then come after it, like everything that the
reader hasn't read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    ReadingPaused,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import EnginesSurveyed, TableStopped
from pipeline.messages.inboxes import ToSchemaVerifier
from pipeline.messages.message_size import weight
from pipeline.schema.compatibility import schemas_agree
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import initial_survey
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import LEFT_OUT
from pipeline.verifier import schema_fence
from pipeline.verifier.cascades import OutdatedForeignKeys, effects_of_new_keys
from pipeline.verifier.columns import images_table
from pipeline.verifier.handle_answers import apply_answers, handle_answer
from pipeline.verifier.handle_images import handle_log_advance, handle_part, handle_slice
from pipeline.verifier.handle_statements import (
    altered_tables,
    handle_creation,
    handle_statement,
)
from pipeline.verifier.schema_fence import HeldMessage, NeverProven, NotShown, NotYetProven, ServerAnswer
from pipeline.verifier.state import (
    FromVerifier,
    News,
    State,
    apply_survey,
    follow_keys_at_start,
    report_schemas,
    report_stops,
    state_at_known,
    stop_orphaned_tables,
    survey_again,
    tables_in_doubt,
    uncapturable_tables,
    unproven_tables,
    with_tables,
)
from pipeline.verifier.table_state import SchemaKnown, SchemaPending, Stopped, TableState, Unproven


@dataclass(frozen=True, slots=True)
class AskServer:
    """Ask the server for these tables; what it says comes back as a `ServerAnswer`."""

    tables: frozenset[TableId]


Fact = ToSchemaVerifier | ServerAnswer
Order = FromVerifier | AskServer


def start(
    captured: TableFilter,
    known: KnownSchemas,
    checkpoint: Checkpoint,
    *,
    foreign_keys: tuple[ForeignKey, ...] = (),
    outdated_keys: OutdatedForeignKeys | None = None,
    keeps: TableFilter | None = None,
    protection: Protection = UNPROTECTED,
    signals: TableId | None = None,
) -> tuple[State, tuple[Order, ...]]:
    """Returns the state at the checkpoint, and what follows from it.

    `foreign_keys`: those of the server whose effects aren't in its log. `keeps`: the tables on whose schema the journal
    keeps statements, None if it keeps none. `signals`: the signal table, if `captured` has it only for its signals. Its
    rows are read, also if it was captured before and has stopped.
    """
    unsettled, known = known.unsettled, known.settled
    schemas, to_come = checkpoint.schemas, known.at - checkpoint.position
    tables = _tables_at_start(known, schemas, checkpoint.unproven, all_passed=not to_come)
    tables = {**dict.fromkeys(unsettled, Unproven()), **tables}
    ended: dict[TableId, TableState] = {t: Stopped() for t in checkpoint.stopped if t != signals}
    given = _reasons_by_keys(captured, foreign_keys, outdated_keys, ended)
    left = {table: LEFT_OUT for table in schemas if not captured.match(table)}
    fetched = (each.schema for each in tables.values() if isinstance(each, SchemaKnown))
    proven = uncapturable_tables(fetched, protection)
    stops = report_stops(ended, {**proven, **known.refused, **given, **left})
    tables |= ended | {stop.table: Stopped() for stop in stops}
    if signals is not None and signals in schemas and signals not in checkpoint.stopped:
        stops = (*stops, TableStopped(signals, LEFT_OUT))
    state = State(
        captured,
        known,
        to_come,
        tables,
        dict(schemas),
        doubtful=tables_in_doubt(tables),
        assumed=_assumed_tables(known, tables) if to_come else frozenset(),
        outdated_keys=outdated_keys,
        keeps=keeps,
        survey=initial_survey(known.traits, known.at, known.end, unsettled),
        unknown_engines=checkpoint.unknown_engines,
        protection=protection,
    )
    state, news = _news_at_start(state, checkpoint, foreign_keys)
    return _with_query(state, (*stops, *news))


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
        if all_passed and tables.get(table) != SchemaKnown(schema):
            tables[table] = state_at_known(known, schema)
        elif not all_passed and not isinstance(tables.get(table), SchemaKnown):
            tables[table] = SchemaPending(schema)
    return tables


def _reasons_by_keys(
    captured: TableFilter,
    foreign_keys: tuple[ForeignKey, ...],
    outdated_keys: OutdatedForeignKeys | None,
    ended: Collection[TableId],
) -> dict[TableId, str]:
    """Returns why tables stop whose foreign keys can't be followed. A start isn't refused for them if capture had begun
    before.
    """
    if outdated_keys is None:
        return {}
    stops, _ = effects_of_new_keys(foreign_keys, foreign_keys, captured, ended, reread=outdated_keys.reread)
    return {stop.table: stop.reason for stop in stops}


def _news_at_start(
    state: State, checkpoint: Checkpoint, foreign_keys: tuple[ForeignKey, ...]
) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns what the server shows and the checkpoint lacks: engines, schemas and foreign keys."""
    state, engines = apply_survey(state)
    schemas = [
        known.schema
        for table, known in state.tables.items()
        if isinstance(known, SchemaKnown)
        and (known.schema != checkpoint.schemas.get(table) or table in checkpoint.unproven)
    ]
    state, reported = report_schemas(state, schemas)
    state, followed = follow_keys_at_start(state, foreign_keys, checkpoint.foreign_keys)
    return state, (*engines, *reported, *followed)


def _assumed_tables(known: KnownSchemas, tables: Mapping[TableId, TableState]) -> frozenset[TableId]:
    """Returns the tables that have another schema by the checkpoint than at the server (`State.assumed`)."""
    return frozenset(
        table
        for table, schema in known.schemas.items()
        if isinstance(had := tables[table], SchemaKnown) and not schemas_agree(had.schema, schema)
    )


def step(state: State, fact: Fact) -> tuple[State, tuple[Order, ...]]:
    """Returns the state after a fact, and what follows from it, in this order. One query is under way at a time."""
    match fact:
        case ReadingPaused():
            return state, (fact,)
        case ServerAnswer():
            state, news = handle_answer(replace(state, asking=False), fact)
            state, sent = _send_ready(state)
            return _with_query(state, (*news, *sent))
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
    return unproven_tables(state) | doubts | state.survey.wanted.keys()


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
        state, orphaned = stop_orphaned_tables(state)
        state, taken = _handle(state, _without_images(message, unnamed))
        state, arrived = apply_answers(_at_end(state, message))
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
            table, before, state.held, state.passed, state.held_bytes, partial(altered_tables, state)
        )
        match outcome:
            case SchemaKnown(schema):
                state, news = report_schemas(with_tables(state, {table: outcome}), [schema])
                said += news
            case NeverProven(reason, examined):
                state, unnamed[table] = with_tables(state, {table: examined}), reason
            case NotShown(reason):
                state = with_tables(state, {table: Stopped()})
                said.append(TableStopped(table, reason))
            case NotYetProven(waiting):
                state = with_tables(state, {table: waiting})
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
    state, unknown = survey_again(state, state.creating, state.creating, gtid)
    return replace(with_tables(state, dict.fromkeys(state.creating, created)), creating=frozenset()), unknown


def _handle(state: State, message: HeldMessage) -> tuple[State, tuple[FromVerifier, ...]]:
    match message:
        case TransactionsRead():
            return handle_slice(state, message)
        case TransactionPartRead():
            return handle_part(state, message)
        case DdlRead():
            return handle_statement(state, message)
        case CreateTableSelectRead():
            return handle_creation(state, message), ()
        case LogAdvanced():
            return handle_log_advance(state, message)
        case _:
            assert_never(message)
