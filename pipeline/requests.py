"""Requests: what a signal changes, or why it changes nothing."""

from typing import assert_never

from pipeline.checkpoint import Checkpoint
from pipeline.coordinator_state import State, checkpointed, remembered, table_ended, unended
from pipeline.messages import SignalAccepted, SignalAnswer, SignalRejected
from pipeline.schema import TableId
from pipeline.signals import ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, Signal, StopSnapshot, Tables
from pipeline.snapshot import Failed, Progress, Snapshot, Stopped, Waiting, progress

# How many taken signals the checkpoint remembers, so that the same one twice is taken once.
SIGNALS_REMEMBERED = 1000


def signalled(state: State, signal: Signal) -> tuple[State, SignalAnswer]:
    """The state with the signal's effect, and its answer. The same id again changes nothing."""
    checkpoint = state.checkpoint
    # A snapshot that's under way may be older than all signals that are remembered.
    if signal.id in checkpoint.signals or any(s.id == signal.id for s in checkpoint.snapshots):
        return state, SignalAccepted(
            signal.id, "a signal with this id has been taken before; nothing was done again"
        )
    match signal:
        case ExecuteSnapshot(id_, tables):
            requested, answer = _snapshot_asked(state, id_, tables)
        case StopSnapshot(id_, tables):
            requested, answer = _stop_asked(state, id_, tables)
        case PauseSnapshot(id_):
            requested, answer = checkpointed(state, paused=True), SignalAccepted(id_, "snapshots are paused")
        case ResumeSnapshot(id_):
            requested, answer = checkpointed(state, paused=False), SignalAccepted(id_, "snapshots go on")
        case _:
            assert_never(signal)
    if isinstance(answer, SignalRejected):
        return state, answer
    taken = (*checkpoint.signals, signal.id)[-SIGNALS_REMEMBERED:]
    return checkpointed(requested, signals=taken), answer


def _snapshot_asked(state: State, id_: str, tables: Tables) -> tuple[State, SignalAnswer]:
    checkpoint = state.checkpoint
    meant = [table for table in sorted(checkpoint.schemas) if tables.match(table)]
    if not meant:
        captured = ", ".join(map(str, sorted(checkpoint.schemas))) or "none"
        return state, SignalRejected(
            id_, f"no captured table matches {' or '.join(tables.patterns)}; captured are: {captured}"
        )
    refused = {table: reason for table in meant if (reason := _refusal(checkpoint, table))}
    reasons = "; ".join(f"{table}: {reason}" for table, reason in refused.items())
    if len(refused) == len(meant):
        return state, SignalRejected(id_, reasons)
    begun = Snapshot(id_, {t: Failed(refused[t], Progress()) if t in refused else Waiting() for t in meant})
    accepted = ", ".join(str(table) for table in meant if table not in refused)
    detail = f"snapshot of {accepted}" + (f" (refused: {reasons})" if refused else "")
    return checkpointed(state, snapshots=remembered((*checkpoint.snapshots, begun))), SignalAccepted(
        id_, detail
    )


def _refusal(checkpoint: Checkpoint, table: TableId) -> str | None:
    if table in checkpoint.stopped:
        return f"its capture has stopped: {checkpoint.stopped[table]}"
    if not checkpoint.schemas[table].key:
        return "it has no primary key, so its rows can't be read in chunks (its changes still stream)"
    return None


def _stop_asked(state: State, id_: str, tables: Tables) -> tuple[State, SignalAnswer]:
    stopped: list[str] = []
    for snapshot, table in unended(state.checkpoint):
        if tables.match(table):
            current = next(s for s in state.checkpoint.snapshots if s.id == snapshot.id)
            state = table_ended(state, current, table, Stopped(progress(snapshot.tables[table])))
            stopped.append(str(table))
    if not stopped:
        return state, SignalRejected(id_, f"no snapshot of {' or '.join(tables.patterns)} is under way")
    return state, SignalAccepted(id_, f"stopped the snapshot of {', '.join(stopped)}")
