"""What the schema verifier knows: of the server, of each table, and what waits (`pipeline.verifier.step`).

The functions are the changes of it that several of its handlers make. Most of them report something: a schema that is
proven, a mirror that begins again, or a table that stops.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.journal.change_rows import uncapturable
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import (
    ChangesVerified,
    CreationStatements,
    EnginesSurveyed,
    ForeignKeysFollowed,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.schema.compatibility import incompatibility
from pipeline.schema.ddl.unlogged_changes import LOGGED_ENGINES
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_map import FullMetadata
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import MERGEABLE, Survey, Traits
from pipeline.verifier.cascades import (
    OutdatedForeignKeys,
    effects_of_new_keys,
    restarts_after_unseen,
    stop_orphans,
)
from pipeline.verifier.schema_fence import HeldMessage
from pipeline.verifier.table_state import (
    InDoubt,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    Stopped,
    TableState,
    Unproven,
    Verified,
)

News = SchemasVerified | EnginesSurveyed | ForeignKeysFollowed | MirrorInvalidated | TableStopped
FromVerifier = ChangesVerified | TransactionPartVerified | SchemaChanged | LogAdvanced | ReadingPaused | News

_ELSEWHERE = (
    "its engine is {engine}, so that the log doesn't have its rows as they are; give it an engine whose rows "
    "are in the log (InnoDB, say)"
)
_MERGED = (
    "the MERGE table {merge} has it in its UNION: the log has rows that change through that one under the name of that "
    "one alone; give it another engine (InnoDB, say), or drop {merge}"
)
_UNEXPLAINED = (
    "no statement in the log has made its columns what they are at the source, so that changes got wrong names: it was "
    "altered with sql_log_bin = 0, or capture continues at a server where it has other columns; set "
    "binlog_row_metadata=FULL on the source, so that its log names them"
)
_MERGED_ONCE = (
    "a MERGE table may have had it in its UNION for a while; the log has rows that changed through that one under "
    "the name of that one alone"
)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the verifier knows.

    `known`: the server's schemas at the start, and `to_come`: the transactions of `known.at` that haven't passed.
    `reported`: the schemas that it sent last. `emptied`: tables without an image since it reported them empty.
    `doubtful`: tables for which it will query the server, or whose answer doesn't hold yet. `creating`: tables that the
    present transaction creates. `assumed`: tables that have another schema in the checkpoint than in `known`, without a
    statement so far that explains it. `held`: messages that wait, with `held_bytes` of rows, after `passed` others.
    `log_position`: where the stream is after those.

    `foreign_keys`: those whose effects aren't in the log. `former_keys`: those of them that matter only until nothing
    is `to_come`. `unseen_keys`: those of these whose parents' changes can't be seen. `cascaded`: tables that these may
    have changed in the present transaction, with the parents. `outdated_keys`: tables that may have other foreign keys
    by now, None if the server logs their effects. `unnamed`: tables whose images in the present transaction were left
    out, and why. `survey`: facts of tables that the log doesn't have. `unknown_engines`: tables whose engine may be one
    whose rows the log doesn't have. `merging`: those that a MERGE table may have had in its UNION since the server was
    asked. `asking`: whether a query is under way. `keeps`: the tables on whose schema the journal keeps statements,
    None if it keeps none. `creation`: the statement with which the present transaction created its table. `protection`:
    the rules for columns, which refuse some tables.
    """

    captured: TableFilter
    known: KnownSchemas
    to_come: GtidSet
    tables: Mapping[TableId, TableState] = field(default_factory=dict)
    reported: Mapping[TableId, TableSchema] = field(default_factory=dict)
    emptied: frozenset[TableId] = frozenset()
    doubtful: frozenset[TableId] = frozenset()
    creating: frozenset[TableId] = frozenset()
    assumed: frozenset[TableId] = frozenset()
    held: tuple[HeldMessage, ...] = ()
    held_bytes: int = 0
    passed: int = 0
    log_position: Coordinates | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    former_keys: frozenset[ForeignKey] = frozenset()
    unseen_keys: frozenset[ForeignKey] = frozenset()
    cascaded: Mapping[TableId, frozenset[TableId]] = field(default_factory=dict)
    outdated_keys: OutdatedForeignKeys | None = None
    unnamed: Mapping[TableId, str] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)
    unknown_engines: frozenset[TableId] = frozenset()
    merging: frozenset[TableId] = frozenset()
    asking: bool = False
    keeps: TableFilter | None = None
    creation: CreationStatements | None = None
    protection: Protection = UNPROTECTED


def with_tables(state: State, changed: Mapping[TableId, TableState]) -> State:
    """Returns the state with these tables changed, except stopped ones: a stop is final here."""
    stopped = {table: s for table in changed if isinstance(s := state.tables.get(table), Stopped)}
    doubtful = state.doubtful | tables_in_doubt(changed)
    return replace(state, tables={**state.tables, **changed, **stopped}, doubtful=doubtful)


def tables_in_doubt(tables: Mapping[TableId, TableState]) -> frozenset[TableId]:
    """Returns those of these tables whose schema may not hold."""
    return frozenset(table for table, known in tables.items() if isinstance(known, InDoubt))


def stopped_tables(state: State) -> frozenset[TableId]:
    """Returns the tables whose changes can't be given any more."""
    return frozenset(table for table, known in state.tables.items() if isinstance(known, Stopped))


def unproven_tables(state: State) -> frozenset[TableId]:
    """Returns the tables for whose schema the server has to say more."""
    return frozenset(
        table for table in state.doubtful if isinstance(state.tables.get(table), Unproven | SchemaPending)
    )


def report_schemas(state: State, schemas: Iterable[TableSchema]) -> tuple[State, tuple[News, ...]]:
    """Reports these schemas, one of each table. A table restarts if its rows can't stay unchanged, and stops if it
    can't be captured.

    One message reports all of them: the checkpoint that follows from one costs as much as there are tables.
    """
    schemas = list(schemas)
    stops = report_stops(stopped_tables(state), uncapturable_tables(schemas, state.protection))
    state = with_tables(state, {stop.table: Stopped() for stop in stops})
    verified = tuple(each for each in schemas if not isinstance(state.tables.get(each.table), Stopped))
    if not verified:
        return state, stops
    restarted = tuple(_restarts_under(state, verified))
    reported = {**state.reported, **{schema.table: schema for schema in verified}}
    return replace(state, reported=reported), (*stops, SchemasVerified(verified, restarted))


def _restarts_under(state: State, schemas: tuple[TableSchema, ...]) -> Iterator[MirrorInvalidated]:
    """Returns the restarts of tables whose rows can't stay unchanged under these schemas."""
    for schema in schemas:
        before = state.reported.get(schema.table)
        if before is not None and (why := incompatibility(before, schema)) is not None:
            # Without a key there's no mirror. The one that there is stays as it was with a key.
            emptied = schema.table in state.emptied and bool(schema.key)
            yield MirrorInvalidated(schema.table, why, emptied=emptied)


def report_stops(ended: Collection[TableId], reasons: Mapping[TableId, str]) -> tuple[TableStopped, ...]:
    """The stops for these reasons, of tables that haven't stopped yet."""
    return tuple(TableStopped(table, reasons[table]) for table in sorted(reasons.keys() - set(ended)))


def uncapturable_tables(schemas: Iterable[TableSchema], protection: Protection) -> dict[TableId, str]:
    """Those of these tables that can't be captured, and why."""
    return {schema.table: why for schema in schemas if (why := uncapturable(schema, protection)) is not None}


def stop_orphaned_tables(state: State) -> tuple[State, tuple[TableStopped, ...]]:
    """The state in which tables stop along with those that foreign keys change them by."""
    keys = [key for key in state.foreign_keys if key not in state.unseen_keys]
    stops = stop_orphans(keys, stopped_tables(state)) if keys else ()
    return with_tables(state, {stop.table: Stopped() for stop in stops}), stops


def pass_transactions(state: State, gtids: GtidSet) -> tuple[State, tuple[News, ...]]:
    """The state after these transactions. Once none is to come, the start's foreign keys hold, and its schemas can be
    proven.
    """
    to_come = state.to_come - gtids
    if to_come or not state.to_come:
        return replace(state, to_come=to_come), ()
    arrived = {t: s.schema for t, s in state.tables.items() if isinstance(s, SchemaPending)}
    arrived |= {
        table: state.known.schemas[table]
        for table in state.assumed
        if isinstance(state.tables[table], SchemaKnown) or _is_named(state.tables[table])
    }
    known = {table: state_at_known(state.known, schema) for table, schema in arrived.items()}
    state = with_tables(replace(state, to_come=to_come, assumed=frozenset()), known)
    state, told = report_schemas(
        state, [each.schema for each in known.values() if isinstance(each, SchemaKnown)]
    )
    state, stops = apply_survey(state)
    state, keys = _drop_former_keys(state)
    return state, (*told, *stops, *keys)


def state_at_known(known: KnownSchemas, schema: TableSchema) -> SchemaKnown | SchemaFetched:
    """Returns the state of a table with this schema of the start, where all of `known.at` has passed."""
    return SchemaKnown(schema) if known.end is None else SchemaFetched(schema, known.at, known.end)


def restarts_of_assumed(state: State, gtids: GtidSet) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of tables whose changes got the columns' names of a schema that they don't have.

    There are none unless these transactions, which pass now, are the last to come.
    """
    if not state.assumed or state.to_come - gtids:
        return ()
    named = (table for table in sorted(state.assumed) if _is_named(state.tables[table]))
    return tuple(MirrorInvalidated(table, _UNEXPLAINED, gap=True) for table in named)


def _is_named(state: TableState) -> bool:
    """Returns whether changes of the table got names that the log doesn't have."""
    return isinstance(state, Verified) and not isinstance(state.map.metadata, FullMetadata)


def follow_keys_at_start(
    state: State, keys: tuple[ForeignKey, ...], before: tuple[ForeignKey, ...] | None
) -> tuple[State, tuple[News, ...]]:
    """Returns the state that follows the server's foreign keys, and those of `before`, the checkpoint's, if any of
    their work may be to come.

    New ones came while nobody asked the server. So their tables are read again, as where an answer has new ones. Those
    that can't be followed have stopped. A checkpoint that says nothing of foreign keys (None) makes none new.

    One that the server has no longer stops no table along with its parent. If the parent's changes can't be seen, its
    tables are read again twice: here, because their rows may be wrong from here on, and once it has done all its work.
    A kill in between leaves it in the checkpoint.
    """
    now, gone = frozenset(keys), tuple(key for key in before or () if key not in keys)
    former = gone if state.to_come else ()
    ended = stopped_tables(state)
    ended |= {stop.table for stop in stop_orphans(keys, ended)}
    unseen = [key for key in gone if key.parent in ended or not state.captured.match(key.parent)]
    again = restarts_after_unseen(unseen, (*keys, *gone), ended)
    state = replace(
        state,
        foreign_keys=(*keys, *former),
        former_keys=frozenset(former),
        unseen_keys=frozenset(unseen).intersection(former),
    )
    if before is None:
        return state, (ForeignKeysFollowed(state.foreign_keys),)
    new = now.difference(before)
    _, restarts = effects_of_new_keys(
        state.foreign_keys, new, state.captured, stopped_tables(state), reread=True
    )
    same = frozenset(before) == frozenset(state.foreign_keys)
    return state, (*restarts, *again, *(() if same else (ForeignKeysFollowed(state.foreign_keys),)))


def _drop_former_keys(state: State) -> tuple[State, tuple[MirrorInvalidated | ForeignKeysFollowed, ...]]:
    """Returns the state without the foreign keys that did their work before the server was asked at the start."""
    if not state.former_keys:
        return state, ()
    again = restarts_after_unseen(state.unseen_keys, state.foreign_keys, stopped_tables(state))
    keys = tuple(key for key in state.foreign_keys if key not in state.former_keys)
    state = replace(state, foreign_keys=keys, former_keys=frozenset(), unseen_keys=frozenset())
    return state, (*again, ForeignKeysFollowed(keys))


def survey_again(
    state: State, altered: frozenset[TableId], unknown: frozenset[TableId], gtid: Gtid
) -> tuple[State, tuple[EnginesSurveyed, ...]]:
    """Returns the state in which the server is to say what altered tables are; `unknown`: any engine may be theirs."""
    unknown |= state.unknown_engines
    told = () if unknown == state.unknown_engines else (EnginesSurveyed(unknown),)
    return replace(state, survey=state.survey.mark_altered(altered, gtid), unknown_engines=unknown), told


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


def stops_for_engines(
    traits: Mapping[TableId, Traits], tables: Collection[TableId], ended: Collection[TableId]
) -> tuple[TableStopped, ...]:
    """Returns the tables among these that stop, because the log need not have their rows by their names."""
    reasons = ((table, _not_logged(traits[table])) for table in sorted(set(tables) - set(ended)))
    return tuple(TableStopped(table, reason) for table, reason in reasons if reason is not None)


def _not_logged(traits: Traits) -> str | None:
    """Returns why the log need not have a table's rows: they are stored elsewhere, or nowhere, or change through it."""
    if traits.engine not in LOGGED_ENGINES:
        return _ELSEWHERE.format(engine=traits.engine.upper() or "unknown")
    return None if traits.merged_by is None else _MERGED.format(merge=traits.merged_by)


def restarts_after_merges(
    traits: Mapping[TableId, Traits], tables: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of those of these tables that no MERGE table has in its UNION any more."""
    return tuple(
        MirrorInvalidated(table, _MERGED_ONCE)
        for table in sorted(tables)
        if traits[table].engine == MERGEABLE and traits[table].merged_by is None
    )
