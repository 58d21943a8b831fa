"""A logged statement: which tables it alters, which of them restart or stop, and for which the server is queried.

**Rows that change without an event.** A mirror's rows are no longer right if a statement changes rows and the log
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
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product

from pipeline.config.column_protection import Protection, Treatment
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, DdlRead
from pipeline.messages.changes import (
    CreationStatements,
    MirrorInvalidated,
    SchemaChanged,
    TableStopped,
)
from pipeline.schema.ddl import alter_table
from pipeline.schema.ddl import effects as ddl
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.local_times import has_instants, may_move_instants
from pipeline.schema.ddl.moved_rows import moved_rows
from pipeline.schema.ddl.schema_statements import SchemaStatement, schema_statements
from pipeline.schema.ddl.statement_kinds import AltersTable, LoggedStatement, parse_logged
from pipeline.schema.ddl.statement_scope import StatementScope
from pipeline.schema.ddl.unlogged_changes import WITHOUT_ROWS, Effect
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.verifier.state import (
    FromVerifier,
    State,
    pass_transactions,
    report_stops,
    restarts_of_assumed,
    stopped_tables,
    survey_again,
    uncapturable_tables,
    with_tables,
)
from pipeline.verifier.table_state import SchemaFetched, SchemaPending, Stopped, TableState, Unproven

_UNLOGGED = "{what} ({gtid}) changed its rows, and the log doesn't say which"
_MAY_BE_RENAMED = (
    "a statement may have renamed a column of it, and does not say for certain which one, so that [protection] may "
    "mean another column now; compare its rules with the columns"
)
_RENAMED = "its column {old!r} was renamed {new!r}, and [protection] has another rule for that name; correct its rules"
_MOVED = (
    "a statement gave it rows of {old}, of whose columns [protection] has other rules; let the rules match both names, "
    "or leave the table out with `tables`"
)


def handle_statement(state: State, message: DdlRead) -> tuple[State, tuple[FromVerifier, ...]]:
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
    state, restarts = _restart_changed(state, gtid, unlogged, emptied, alterations)
    moved = {} if message.failed else _moved_columns_shown(state, statement)
    state, unfit = _stop_unfit(state, alterations, uncertain, moved)
    gone = {stop.table for stop in unfit}
    restarts = tuple(each for each in restarts if each.table not in gone)
    alterations = tuple(each for each in alterations if each.schema.table not in gone)
    reported = {**state.reported, **{each.schema.table: each.schema for each in alterations}}
    state, engines = _query_again(replace(state, reported=reported), changed, unknown, gtid)
    gtids = GtidSet().with_gtid(gtid) | message.covered
    unexplained = restarts_of_assumed(state, gtids)
    state = replace(state, emptied=state.emptied - {restart.table for restart in unexplained})
    state, arrived = pass_transactions(state, gtids)
    passed = SchemaChanged(
        gtid,
        changed,
        message.statement,
        message.end,
        (*restarts, *unexplained),
        message.covered,
        alterations,
        message.commit_time,
        message.original_time,
        message.begins,
        message.server,
        _kept_statements(state, statement),
    )
    return state, (*unfit, *engines, passed, *arrived)


def _restart_changed(
    state: State,
    gtid: Gtid,
    unlogged: Mapping[TableId, Unlogged],
    emptied: Collection[TableId],
    alterations: Iterable[Alteration],
) -> tuple[State, tuple[MirrorInvalidated, ...]]:
    """Returns the restarts of the tables whose rows changed without events. The state has those that are `emptied`.

    A table doesn't restart for constants in a new column: its alteration has them.
    """
    extended = {
        each.schema.table for each in alterations if each.changes.added and not _hides_constants(state, each)
    }
    changed = {t: u for t, u in unlogged.items() if u.effect is not Effect.EXTENDED or t not in extended}
    restarts = restarts_after_statement(changed, gtid, stopped_tables(state))
    restarted = {restart.table for restart in restarts}
    return replace(state, emptied=state.emptied - restarted | restarted.intersection(emptied)), restarts


def handle_creation(state: State, message: CreateTableSelectRead) -> State:
    """Returns the state in which a statement creates a table and fills it: its rows are the log's next."""
    statement = _parsed(message)
    created, kept = ddl.may_alter(_scope(state), statement), _kept_statements(state, statement)
    creation = CreationStatements(kept, message.begins, message.server) if kept else None
    state = replace(state, creation=creation, assumed=state.assumed - created)
    return replace(with_tables(state, dict.fromkeys(created, Unproven())), creating=created)


def altered_tables(state: State, message: DdlRead | CreateTableSelectRead) -> frozenset[TableId]:
    """Returns the captured tables whose columns a statement may change."""
    return ddl.may_alter(_scope(state), _parsed(message))


def _unlogged_changes(
    state: State, message: DdlRead, statement: LoggedStatement, names: StatementScope
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
    written = {
        way.table: reported.surely_meant(way.table) for way in statement.ways if isinstance(way, AltersTable)
    }
    exact |= {name: exact[table] for name, table in written.items() if table in exact}
    unlogged = dict(ddl.changed_unlogged(reported, statement, exact, failed=message.failed))
    unlogged |= _moved_instants(state, message, reported, statement)
    unlogged |= _regenerated(state, reported, statement, unlogged)
    uncertain = frozenset(
        alter_table.uncertain_columns(reported, state.reported, statement, failed=message.failed)
    )
    lost = uncertain | alter_table.shortened_keys(reported, state.reported, statement)
    return unlogged | _with_rows(lost, "ALTER TABLE that may rename or drop a column", unlogged), uncertain


def _moved_instants(
    state: State, message: DdlRead, reported: StatementScope, statement: LoggedStatement
) -> dict[TableId, Unlogged]:
    """Returns the tables in which this statement may have moved instants.

    The server may have had another time zone before it was started last.
    """
    since = state.known.utc_since
    system_is_utc = since is not None and since <= message.commit_time
    if not may_move_instants(message.zone, system_is_utc=system_is_utc):
        return {}
    return {
        table: Unlogged("ALTER TABLE in a time zone whose clock may go back", Effect.CHANGED)
        for table in ddl.copied_tables(reported, statement)
        if table in state.doubtful or has_instants(state.reported[table])
    }


def _regenerated(
    state: State,
    reported: StatementScope,
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


def _hides_constants(state: State, alteration: Alteration) -> bool:
    """Returns whether the journal has other values of an added column than its constant, and not the constant."""
    rules = (
        state.protection.rule_of_column(alteration.schema.table, each.column.name)
        for each in alteration.changes.added
    )
    return any(rule is not None and rule.treatment is not Treatment.EXCLUDE for rule in rules)


def restarts_after_statement(
    unlogged: Mapping[TableId, Unlogged], gtid: Gtid, ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the tables that a statement restarts; `ended`: those that have stopped already."""
    return tuple(
        MirrorInvalidated(table, _UNLOGGED.format(what=what, gtid=gtid), emptied=effect in WITHOUT_ROWS)
        for table in sorted(unlogged.keys() - set(ended))
        for what, effect in [(unlogged[table].what, unlogged[table].effect)]
    )


def _alterations(
    state: State, statement: LoggedStatement, emptied: Mapping[TableId, str]
) -> tuple[Alteration, ...]:
    """Returns the certain effects of a statement on tables that haven't stopped; `emptied` are known to be empty."""
    known = {t: s for t, s in state.reported.items() if not isinstance(state.tables.get(t), Stopped)}
    names = replace(_scope(state), known=state.reported.keys())
    return alter_table.alterations(names, known, statement, emptied)


def _stop_unfit(
    state: State,
    alterations: Iterable[Alteration],
    uncertain: Iterable[TableId],
    moved: Mapping[TableId, str],
) -> tuple[State, tuple[TableStopped, ...]]:
    """Stops the tables that can't be captured after these alterations, and those that might show protected columns.

    `moved`: those that would show them in the rows of another table, and why.
    """
    shown = {**moved, **_uncertain_columns_shown(state, uncertain)}
    unfit = tuple(
        report_stops(stopped_tables(state), shown | _unfit_alterations(alterations, state.protection))
    )
    return with_tables(state, {stop.table: Stopped() for stop in unfit}), unfit


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
    return {**renamed, **uncapturable_tables((each.schema for each in alterations), protection)}


def _uncertain_columns_shown(state: State, uncertain: Iterable[TableId]) -> dict[TableId, str]:
    """Those of these tables, of which a column may have got another name, that have protected columns, and why."""
    has_rules = state.protection.rules_of_columns
    return {table: _MAY_BE_RENAMED for table in uncertain if has_rules(state.reported[table])}


def _moved_columns_shown(state: State, statement: LoggedStatement) -> dict[TableId, str]:
    """Those of the captured tables that get rows with protected columns of another table, and why.

    The statement may have either name in other letters than the server has it.
    """
    found, names = {}, _scope(state)
    for written, new in sorted(moved_rows(statement)) if state.protection.rules else ():
        olds = sorted(names.meant(written) | names.spellings(written) | {written})
        for old, target in product(olds, names.meant_or_new(new)):
            schema = state.reported.get(old)
            columns = None if schema is None else [column.name for column in schema.columns]
            if state.protection.differs(old, target, columns):
                found[target] = _MOVED.format(old=old)
    return found


def _query_again(
    state: State, changed: frozenset[TableId], unknown: frozenset[TableId], gtid: Gtid
) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state in which what the server said of the changed tables has to be proven again.

    `unknown`: those that may have another engine now.
    """
    if state.outdated_keys is not None:
        state = replace(state, outdated_keys=state.outdated_keys.mark_altered(changed, gtid))
    state, engines = survey_again(state, changed, unknown, gtid)
    to_come = state.known.schemas if gtid in state.to_come else {}
    doubted = {t: _after_statement(state.tables.get(t), gtid, to_come.get(t)) for t in changed}
    return with_tables(replace(state, assumed=state.assumed - changed), doubted), engines


def _after_statement(state: TableState | None, gtid: Gtid, to_come: TableSchema | None) -> TableState:
    """Returns a table's state after a statement that may have altered it; `to_come`: the schema that has its work in
    it."""
    match state:
        case SchemaFetched(_, at) as answer if gtid in at:
            return answer
        case Unproven(statements):
            return Unproven(statements.with_gtid(gtid))
        case _:
            return Unproven(GtidSet().with_gtid(gtid)) if to_come is None else SchemaPending(to_come)


def _kept_statements(state: State, statement: LoggedStatement) -> tuple[SchemaStatement, ...]:
    """Returns what the journal keeps of a statement."""
    if state.keeps is None:
        return ()
    names = replace(_scope(state), captured=state.keeps)
    return schema_statements(names, statement)


def _scope(state: State) -> StatementScope:
    """Returns what names in a statement may mean; a table that's gone is known too."""
    known = state.known
    tables = state.tables.keys() | state.reported.keys()
    return StatementScope(state.captured, tables, known.folds, lowers=known.lowers)


def _parsed(message: DdlRead | CreateTableSelectRead) -> LoggedStatement:
    thread_specific = isinstance(message, DdlRead) and message.thread_specific
    return parse_logged(
        message.database, message.statement, thread_specific=thread_specific, escapes=message.escapes
    )
