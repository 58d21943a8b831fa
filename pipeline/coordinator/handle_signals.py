"""Handles signals: what a signal changes, or why it changes nothing.

An error in the signal itself refuses all of it. That is a pattern that no table matches, or a condition or a key that
doesn't fit its table. A problem with one of its tables fails that table's snapshot by name, and the others are read.
For example the table can't be read in chunks, or its capture has stopped.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import assert_never

from pipeline.coordinator.snapshots import recapture
from pipeline.coordinator.snapshots.table_snapshots import end_table, with_snapshot
from pipeline.coordinator.state import State, with_checkpoint
from pipeline.coordinator.verification import comparability
from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalRejected
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.signals import signal as signals
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.snapshot import key_literals, row_filter, row_filter_parser
from pipeline.snapshot.checkpoint import Checkpoint, Moving, is_keyless
from pipeline.snapshot.snapshot import (
    VERIFIED_ALREADY,
    WHOLE_TABLE,
    Progress,
    Request,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
    progress,
)
from pipeline.snapshot.turns import unfinished_tables

# How many accepted signals the checkpoint keeps, so that a repeated signal takes effect once.
SIGNALS_REMEMBERED = 1000

# How many tables that signals requested may be unfinished, counted once for each snapshot. Each checkpoint has them. A
# single snapshot may have more.
MOST_REQUESTED_TABLES = 10_000

_TOO_MANY = (
    "{count:,} tables of earlier signals aren't finished, and with this one more than {most:,} would be; send the "
    "signal again once some are finished"
)

_NO_LAKE = "this pipeline has no lake to compare with the source: its configuration has no [lake]"

_PROTECTED_FILTER = (
    "the filter for {table} compares its column {column}, which [protection] protects, and the journal would have the "
    "value; choose the rows by other columns, or by their keys"
)
_PROTECTED_KEYS = (
    "[protection] protects the primary key of {table}, and the journal would have the keys; choose the rows by other "
    "columns"
)
_UNREPAIRABLE = (
    "[protection] protects its primary key, so that the lake can't name a row of the source; verify it without a "
    "repair, and recapture it if rows differ"
)
_PROTECTED_WALK = (
    "[protection] protects columns of {table}, and the journal would have values of the surrogate-key; leave it out, "
    "so that the chunks follow the primary key"
)


_UNCHUNKABLE = (
    "it has no primary key, so its rows can't be read in chunks (its changes still stream); a snapshot of the type "
    "blocking reads them all at once, and the log waits meanwhile"
)
_ONLY_WHOLE = (
    "it has no primary key, so its rows can only be read all at once; send a signal for it without filter, keys and "
    "surrogate-key"
)


class _Rejected(Exception):
    """The signal has no effect, for this reason. `busy`: as of SignalRejected."""

    def __init__(self, reason: str, *, busy: bool = False) -> None:
        super().__init__(reason)
        self.busy = busy


def signal_received(
    state: State, signal: signals.Signal, former_id: str | None = None
) -> tuple[State, SignalAnswer]:
    """Returns the state with the signal's effect, and its answer. The same id again, or the one that an earlier version
    gave the signal, changes nothing."""
    checkpoint = state.checkpoint
    ids = {signal.id} if former_id is None else {signal.id, former_id}
    # A running snapshot may be older than all signals that the checkpoint keeps.
    if not ids.isdisjoint(checkpoint.signals) or any(s.id in ids for s in checkpoint.snapshots):
        return state, SignalAccepted(
            signal.id, "a signal with this id has been taken before; nothing was done again"
        )
    try:
        requested, detail = _effect(state, signal)
    except _Rejected as rejected:
        return state, SignalRejected(signal.id, str(rejected), rejected.busy)
    taken = (*checkpoint.signals, signal.id)[-SIGNALS_REMEMBERED:]
    return with_checkpoint(requested, signals=taken), SignalAccepted(signal.id, detail)


def signal_row_received(state: State, row: signals.SourceSignal) -> tuple[State, SignalState]:
    """The same for a signal that came as a row of the signal table."""
    try:
        state, answer = signal_received(state, signals.parse_row(row))
    except signals.MalformedSignal as error:
        return state, SignalState(row.id, Outcome.REJECTED, str(error))
    match answer:
        case SignalAccepted(id_, detail):
            return state, SignalState(id_, Outcome.ACCEPTED, detail)
        case SignalRejected(id_, reason):
            return state, SignalState(id_, Outcome.REJECTED, reason)
        case _:
            assert_never(answer)


def _effect(state: State, signal: signals.Signal) -> tuple[State, str]:
    match signal:
        case signals.ExecuteSnapshot():
            return _begin_snapshot(state, signal)
        case signals.VerifyTables():
            return _begin_verification(state, signal)
        case signals.StopSnapshot(_, tables):
            return _stop_snapshots(state, tables)
        case signals.Recapture():
            return _recapture(state, signal)
        case signals.PauseSnapshot():
            return with_checkpoint(state, paused=True), "snapshots are paused"
        case signals.ResumeSnapshot():
            return with_checkpoint(state, paused=False), "snapshots are resumed"
        case signals.ReportPosition(_, message):
            return state, message.replace("{}", str(state.checkpoint.position))
        case signals.SetBinlogPosition():
            return _move_position(state, signal)
        case _:
            assert_never(signal)


# Begin a snapshot


def _begin_snapshot(state: State, signal: signals.ExecuteSnapshot) -> tuple[State, str]:
    return _take_snapshot(state, signal, partial(_snapshot_refusal, state.checkpoint, signal), None)


def _take_snapshot(
    state: State,
    signal: signals.ExecuteSnapshot,
    refusal: Callable[[TableId], str | None],
    verified: Verification | None,
) -> tuple[State, str]:
    """Begins a snapshot or a verification. A table that `refusal` refuses fails by that reason."""
    checkpoint = state.checkpoint
    meant = _matching_tables(state, signal.tables)
    narrowing = [*(each.tables for each in signal.filters), *(each.tables for each in signal.keys)]
    for tables in narrowing:
        matched, _ = tables.among(meant)
        if not matched:
            pattern = tables.patterns[0]
            raise _Rejected(f"none of the signal's tables matches {pattern}: {_join_names(meant)}")
    refused = {table: reason for table in meant if (reason := refusal(table))}
    requests = {t: _request(state, signal, t) for t in meant if t in checkpoint.schemas}
    reasons = "; ".join(f"{table}: {reason}" for table, reason in refused.items())
    if len(refused) == len(meant):
        raise _Rejected(reasons, busy=any(why.startswith(VERIFIED_ALREADY) for why in refused.values()))
    requested = sum(not signals.is_own_id(each.id) for each, _ in unfinished_tables(checkpoint))
    if requested and requested + len(meant) - len(refused) > MOST_REQUESTED_TABLES:
        raise _Rejected(_TOO_MANY.format(count=requested, most=MOST_REQUESTED_TABLES))
    states: dict[TableId, TableSnapshot] = {
        table: SnapshotFailed(refused[table], Progress()) if table in refused else SnapshotWaiting()
        for table in meant
    }
    narrowed = {t: request for t, request in requests.items() if request != WHOLE_TABLE and t not in refused}
    if verified is not None:
        some = (table for table, request in narrowed.items() if not request.whole)
        verified = replace(verified, narrowed=frozenset(some))
    snapshot = Snapshot(signal.id, states, narrowed, signal.blocking, signal.priority, verification=verified)
    accepted = _join_names(table for table in meant if table not in refused)
    what = "snapshot" if verified is None else "verification"
    return with_snapshot(state, snapshot), f"{what} of {accepted}" + (
        f" (refused: {reasons})" if refused else ""
    )


def _matching_tables(state: State, tables: TableFilter) -> list[TableId]:
    """Returns the captured tables that the patterns match, stopped ones among them. Each pattern has to match one.

    One that the configuration leaves out has stopped for good, and is meant by a pattern only that matches no other.
    """
    checkpoint = state.checkpoint
    known = _known_tables(checkpoint)
    found, idle = tables.among([table for table in known if state.captured.match(table)])
    if not idle:
        return found
    left_out, idle = TableFilter(tuple(idle)).among(known)
    if idle:
        captured = _join_names(filter(state.captured.match, sorted(checkpoint.schemas))) or "none"
        raise _Rejected(f"no captured table matches {' or '.join(idle)}; captured are: {captured}")
    return sorted({*found, *left_out})


def _matches(checkpoint: Checkpoint, tables: TableFilter) -> tuple[list[TableId], list[str]]:
    """Returns the captured or stopped tables that the patterns match, and the patterns that match none."""
    return tables.among(_known_tables(checkpoint))


def _known_tables(checkpoint: Checkpoint) -> list[TableId]:
    return sorted(checkpoint.schemas.keys() | checkpoint.stopped.keys())


def _request(state: State, signal: signals.ExecuteSnapshot, table: TableId) -> Request:
    schema, protection = state.checkpoint.schemas[table], state.protection
    filters = [each.condition for each in signal.filters if each.tables.match(table)]
    if len(filters) > 1:
        raise _Rejected(f"more than one filter is about {table}; join them with AND or OR")
    keys = [key for each in signal.keys if each.tables.match(table) for key in each.keys]
    if keys and protection.hides_key(schema):
        raise _Rejected(_PROTECTED_KEYS.format(table=table))
    if signal.surrogate is not None and protection.protects(table):
        raise _Rejected(_PROTECTED_WALK.format(table=table))
    try:
        for text in filters:
            condition = row_filter_parser.parse_filter(text)
            named = sorted(row_filter.compared_columns(condition))
            if named := [name for name in named if protection.rule_of_column(table, name)]:
                raise _Rejected(_PROTECTED_FILTER.format(table=table, column=named[0]))
            row_filter.check_filter(condition, schema)
        bound = (
            tuple(dict.fromkeys(key_literals.bound_key(schema, key) for key in keys)) if schema.key else ()
        )
    except ValueError as error:
        raise _Rejected(f"of {table}, {error}") from error
    only = filters[0] if filters else None
    return Request(only, bound, signal.surrogate, signal.chunk_rows, signal.rows_per_s)


def _snapshot_refusal(checkpoint: Checkpoint, signal: signals.ExecuteSnapshot, table: TableId) -> str | None:
    """Why no snapshot of the table is taken. One without a primary key is read all at once, and the log waits."""
    if table in checkpoint.stopped or not is_keyless(checkpoint, table):
        return _refusal(checkpoint, table)
    if not signal.blocking:
        return _UNCHUNKABLE
    narrowing = [*(each.tables for each in signal.filters), *(each.tables for each in signal.keys)]
    if any(tables.match(table) for tables in narrowing) or signal.surrogate is not None:
        return _ONLY_WHOLE
    return None


def _refusal(checkpoint: Checkpoint, table: TableId) -> str | None:
    if table in checkpoint.stopped:
        return f"it has stopped: {recapture.stop_reason(table, checkpoint.stopped[table])}"
    if not checkpoint.schemas[table].key:
        return "it has no primary key, so its rows can't be read in chunks (its changes still stream)"
    return None


# Verify tables


def _begin_verification(state: State, signal: signals.VerifyTables) -> tuple[State, str]:
    if not state.has_lake:
        raise _Rejected(_NO_LAKE)
    since = state.checkpoint.scn
    request = signals.ExecuteSnapshot(
        signal.id,
        signal.tables,
        signal.filters,
        chunk_rows=signal.chunk_rows,
        priority=signal.priority,
        rows_per_s=signal.rows_per_s,
    )
    return _take_snapshot(
        state,
        request,
        partial(_verify_refusal, state, repairs=signal.repair),
        Verification(since, repairs=signal.repair),
    )


def _verify_refusal(state: State, table: TableId, *, repairs: bool) -> str | None:
    checkpoint = state.checkpoint
    if why := _refusal(checkpoint, table) or comparability.refusal(checkpoint, table):
        return why
    return _UNREPAIRABLE if repairs and state.protection.hides_key(checkpoint.schemas[table]) else None


# Stop a snapshot


def _stop_snapshots(state: State, tables: TableFilter) -> tuple[State, str]:
    stopped: list[TableId] = []
    unfinished = list(unfinished_tables(state.checkpoint))
    meant = frozenset(tables.among(sorted({table for _, table in unfinished}))[0])
    for snapshot, table in unfinished:
        if table in meant:
            current = next(s for s in state.checkpoint.snapshots if s.id == snapshot.id)
            state = end_table(state, current, table, SnapshotStopped(progress(snapshot.tables[table])))
            stopped.append(table)
    if not stopped:
        raise _Rejected(f"no snapshot of {' or '.join(tables.patterns)} is under way")
    return state, f"stopped the snapshot of {_join_names(dict.fromkeys(stopped))}"


# Begin tables again


def _recapture(state: State, signal: signals.Recapture) -> tuple[State, str]:
    checkpoint = state.checkpoint
    tables, idle = _matches(checkpoint, signal.tables)
    if idle:
        raise _Rejected(f"no table that's captured or has stopped matches {' or '.join(idle)}")
    asked = {table: by for table in tables if (by := checkpoint.recapturing.get(table))}
    if len(asked) == len(tables):
        raise _Rejected("; ".join(f"{t} is being recaptured already, by {by}" for t, by in asked.items()))
    recapturing = {**dict.fromkeys(tables, signal.id), **checkpoint.recapturing}
    stopped = [table for table in tables if table in checkpoint.stopped]
    others = [table for table in tables if table not in stopped]
    whole = [f"{_join_names(stopped)}, which had stopped"] if stopped else []
    whole += [f"{_join_names(others)}, though capture hadn't stopped"] if others else []
    return with_checkpoint(state, recapturing=recapturing), f"recapture of {', and of '.join(whole)}"


# Move the position


def _move_position(state: State, signal: signals.SetBinlogPosition) -> tuple[State, str]:
    """Moves the position, only forward: the lake has what has passed, and would go back in time if that passed
    again."""
    checkpoint, wanted = state.checkpoint, signal.position
    if checkpoint.moving is not None:
        raise _Rejected(f"the signal {checkpoint.moving.id} is moving the position already")
    if lost := checkpoint.position - wanted:
        raise _Rejected(
            f"it lacks {lost}, which has passed: rows would go back in time; give a set that holds the position "
            f"{checkpoint.position}"
        )
    skipped = wanted - checkpoint.position
    if not skipped:
        raise _Rejected("it's the position already")
    return with_checkpoint(state, moving=Moving(signal.id, wanted)), (
        f"capture continues after {wanted}, if the source has executed that; {skipped.count():,} transactions are "
        "skipped, so that each table gets a new snapshot, and one without a primary key stops"
    )


def _join_names(tables: Iterable[TableId]) -> str:
    return ", ".join(map(str, tables))
