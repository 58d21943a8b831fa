"""The server's answers: which schemas, foreign keys and traits of tables they prove, and from where on."""

from dataclasses import replace

from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.changes import EnginesSurveyed, MirrorInvalidated, TableStopped
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.verifier.cascades import effects_of_new_keys
from pipeline.verifier.reports import News, report_schemas, report_stops
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import State, stopped_tables, unproven_tables, with_tables
from pipeline.verifier.table_restarts import restarts_after_merges, stops_for_engines
from pipeline.verifier.table_state import (
    NoSuchTable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    Stopped,
    Unproven,
)


def handle_answer(state: State, answer: ServerAnswer) -> tuple[State, tuple[News, ...]]:
    """Returns the state with the server's answer, and what follows from it before any message that waits."""
    tables = dict(state.tables)
    for table in answer.tables & unproven_tables(state):
        known = tables[table]  # what may have altered an awaited one was in K, and so it's in A
        if not isinstance(known, Unproven) or known.statements <= answer.at:
            tables[table] = SchemaFetched(answer.schemas.get(table, NoSuchTable()), answer.at, answer.end)
    survey = state.survey.take_answer(answer.tables, answer.traits, answer.at, answer.end)
    state = replace(state, tables=tables, survey=survey)
    stops = report_stops(stopped_tables(state), answer.refused)
    state, cascades = _take_foreign_keys(
        with_tables(state, {stop.table: Stopped() for stop in stops}), answer
    )
    state, news = apply_answers(state)
    return state, (*stops, *cascades, *news)


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
    stops, restarts = effects_of_new_keys(keys, new, state.captured, stopped_tables(state), reread=reread)
    state = replace(state, foreign_keys=keys, outdated_keys=state.outdated_keys.drop_answered(answer.at))
    return with_tables(state, {stop.table: Stopped() for stop in stops}), (*stops, *restarts)


def apply_answers(state: State) -> tuple[State, tuple[News, ...]]:
    """Returns the state with the server's answers whose position the stream has reached."""
    state, stops = apply_survey(state)
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
    state, told = report_schemas(replace(state, tables=tables, doubtful=doubtful), proven)
    return state, (*stops, *told)


def apply_survey(
    state: State,
) -> tuple[State, tuple[TableStopped | MirrorInvalidated | EnginesSurveyed, ...]]:
    """Returns the state with the survey's answers that hold now; tables stop if the log can't have their rows."""
    survey, new = state.survey.apply_answers(state.log_position, not state.to_come)
    ended = stopped_tables(state)
    stops = stops_for_engines(survey.holding, new, ended) if new else ()
    merged = (state.merging & state.reported.keys() & new) - ended
    restarts = restarts_after_merges(survey.holding, merged) if merged else ()
    state = with_tables(replace(state, survey=survey), {stop.table: Stopped() for stop in stops})
    emptied = state.emptied - {restart.table for restart in restarts}
    state = replace(state, merging=state.merging & survey.awaited, emptied=emptied)
    unknown = state.unknown_engines & survey.awaited
    if unknown == state.unknown_engines:
        return state, (*stops, *restarts)
    return replace(state, unknown_engines=unknown), (*stops, *restarts, EnginesSurveyed(unknown))


def survey_again(
    state: State, altered: frozenset[TableId], unknown: frozenset[TableId], gtid: Gtid
) -> tuple[State, tuple[EnginesSurveyed, ...]]:
    """Returns the state in which the server is to say what altered tables are; `unknown`: any engine may be theirs."""
    unknown |= state.unknown_engines
    told = () if unknown == state.unknown_engines else (EnginesSurveyed(unknown),)
    return replace(state, survey=state.survey.mark_altered(altered, gtid), unknown_engines=unknown), told


def pass_transactions(state: State, gtids: GtidSet) -> tuple[State, tuple[News, ...]]:
    """The state after these transactions; once none is to come, the schemas of the start hold."""
    to_come = state.to_come - gtids
    if to_come or not state.to_come:
        return replace(state, to_come=to_come), ()
    arrived = {t: SchemaKnown(s.schema) for t, s in state.tables.items() if isinstance(s, SchemaPending)}
    state = with_tables(replace(state, to_come=to_come), arrived)
    state, told = report_schemas(state, [holding.schema for holding in arrived.values()])
    state, stops = apply_survey(state)
    return state, (*told, *stops)
