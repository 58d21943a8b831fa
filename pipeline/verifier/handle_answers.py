"""The server's answers: which schemas, foreign keys and traits of tables they prove, and from where on."""

from collections.abc import Iterator
from dataclasses import replace

from pipeline.gtid.coordinates import Coordinates
from pipeline.messages.changes import ForeignKeysFollowed
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.verifier.cascades import effects_of_new_keys
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import (
    News,
    State,
    apply_survey,
    report_schemas,
    report_stops,
    stopped_tables,
    unproven_tables,
    with_tables,
)
from pipeline.verifier.table_state import (
    InDoubt,
    NoSuchTable,
    SchemaFetched,
    SchemaKnown,
    Stopped,
    Unproven,
)


def handle_answer(state: State, answer: ServerAnswer) -> tuple[State, tuple[News, ...]]:
    """Returns the state with the server's answer, and what follows from it before any message that waits."""
    tables = dict(state.tables)
    for table in answer.tables & unproven_tables(state):
        known = tables[table]  # what may have altered an awaited one was in K, and so it's in A
        if not isinstance(known, Unproven) or known.statements <= answer.at:
            schema = answer.schemas.get(table, NoSuchTable())
            missed = isinstance(known, Unproven) and known.missed
            tables[table] = SchemaFetched(schema, answer.at, answer.end, missed=missed)
    survey = state.survey.take_answer(answer.tables, answer.traits, answer.at, answer.end)
    state = replace(state, tables=tables, survey=survey)
    stops = report_stops(stopped_tables(state), answer.refused)
    state, cascades = _take_foreign_keys(
        with_tables(state, {stop.table: Stopped() for stop in stops}), answer
    )
    state, news = apply_answers(state)
    return state, (*stops, *cascades, *news)


def _take_foreign_keys(state: State, answer: ServerAnswer) -> tuple[State, tuple[News, ...]]:
    """The state with the server's foreign keys, and what that makes of the tables that new ones change.

    No checkpoint has a new one without the restarts. So a start after a kill in between finds that it's new.
    """
    if state.outdated_keys is None:
        return state, ()
    known = frozenset(state.foreign_keys)
    new = [key for key in answer.foreign_keys if state.captured.match(key.child) and key not in known]
    keys, reread = (*state.foreign_keys, *new), state.outdated_keys.reread
    stops, restarts = effects_of_new_keys(keys, new, state.captured, stopped_tables(state), reread=reread)
    state = replace(
        state,
        foreign_keys=keys,
        former_keys=state.former_keys.difference(answer.foreign_keys),
        unseen_keys=state.unseen_keys.difference(answer.foreign_keys),
        outdated_keys=state.outdated_keys.drop_answered(answer.at),
    )
    followed = (ForeignKeysFollowed(keys),) if new else ()
    return with_tables(state, {stop.table: Stopped() for stop in stops}), (*stops, *restarts, *followed)


def apply_answers(state: State) -> tuple[State, tuple[News, ...]]:
    """Returns the state with the server's answers whose position the stream has reached."""
    state, stops = apply_survey(state)
    if not state.doubtful or state.log_position is None:
        return state, stops
    reached = dict(_reached(state, state.log_position))
    tables, proven = dict(state.tables), []
    for table, schema in sorted(reached.items()):
        if isinstance(schema, NoSuchTable):
            del tables[table]
        else:
            tables[table] = SchemaKnown(schema)
            proven.append(schema)
    doubtful = frozenset(t for t in state.doubtful if isinstance(tables.get(t), InDoubt))
    state, told = report_schemas(replace(state, tables=tables, doubtful=doubtful), proven)
    return state, (*stops, *told)


def _reached(state: State, position: Coordinates) -> Iterator[tuple[TableId, TableSchema | NoSuchTable]]:
    """Returns the answers that hold from here on. The stream may still be on its way to thousands of others."""
    for table in state.doubtful:
        match state.tables.get(table):
            case SchemaFetched(schema, _, end) if position.reaches(end):
                yield table, schema
            case _:
                pass
