"""The coordinator without one of its rules: planted bugs that the simulation has to find (`tests.simulation.bugs`)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.coordinator import (
    handle_chunks,
    handle_schemas,
    handle_signals,
    handle_transactions,
    schedule,
    window,
)
from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.snapshots import table_snapshots
from pipeline.coordinator.state import FoundEmpty, Order, Planned, State
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet, Tsid
from pipeline.gtid.intervals import NO_INTERVALS
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import ResumeReading
from pipeline.messages.changes import TransactionPartVerified
from pipeline.messages.chunks import ChunkFailed, ChunkRead, ReadChunk
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, ChunkPart
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot import turns, watermark
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
)

Patch = pytest.MonkeyPatch
Turn = schedule._Plan | schedule._Chunk | None


# Watermarks


def any_low_is_usable(patch: Patch) -> None:
    _judge_low(patch, lambda _low, _ordered_at: True)


def _judge_low(patch: Patch, judged: Callable[[GtidSet, GtidSet], bool]) -> None:
    def usable(low: GtidSet, ordered_at: GtidSet) -> bool:
        return judged(low, ordered_at)

    patch.setattr(watermark, "is_usable_low", usable)
    patch.setattr(window, "is_usable_low", usable)


def low_is_compared_with_nothing(patch: Patch) -> None:
    original = schedule._place_order

    def asked(state: State, turn: object) -> object:
        nowhere = replace(state.checkpoint, position=GtidSet())
        asked, order = original(replace(state, checkpoint=nowhere), turn)  # type: ignore[arg-type]
        return replace(asked, checkpoint=state.checkpoint), order

    patch.setattr(schedule, "_place_order", asked)


def offsets_alone_are_compared(patch: Patch) -> None:
    patch.setattr(Coordinates, "reaches", lambda self, other: self.offset >= other.offset)


def a_place_is_reached_from_behind_only(patch: Patch) -> None:
    original = Coordinates.reaches
    patch.setattr(Coordinates, "reaches", lambda self, other: self != other and original(self, other))


# The window


def keys_are_forgotten_while_reading(patch: Patch) -> None:
    original = window.pass_keys
    patch.setattr(
        window, "pass_keys", lambda w, keys: w if isinstance(w, window.Reading) else original(w, keys)
    )


def keys_are_forgotten_while_reconciling(patch: Patch) -> None:
    original = window.pass_keys
    patch.setattr(
        window, "pass_keys", lambda w, keys: w if isinstance(w, window.Reconciling) else original(w, keys)
    )


def inside_is_decided_by_the_latest(patch: Patch) -> None:
    def latest(low: GtidSet, source: Tsid) -> int:
        edges = low.intervals.get(source, NO_INTERVALS).edges
        return int(edges[-1]) - 1 if edges.size else 0

    _decide_outside(patch, lambda low, source, number: number > latest(low, source))


def inside_is_decided_without_tags(patch: Patch) -> None:
    _decide_outside(patch, lambda low, source, number: not _in_any(low, number, uuid=source.uuid))


def inside_is_decided_without_sources(patch: Patch) -> None:
    _decide_outside(patch, lambda low, _source, number: not _in_any(low, number))


def _in_any(low: GtidSet, number: int, uuid: str = "") -> bool:
    return any(number in numbers for source, numbers in low.intervals.items() if uuid in source.uuid)


def _decide_outside(patch: Patch, outside: Callable[[GtidSet, Tsid, int], bool]) -> None:
    def chosen(self: window.SliceKeys, low: GtidSet) -> pa.Array:
        names = [self.transactions.gtid(i) for i in range(len(self.transactions))]
        flags = np.array([outside(low, name.source, name.number) for name in names], dtype=np.bool_)
        return self.tokens.filter(pa.array(flags[self.transaction]))

    patch.setattr(window.SliceKeys, "outside", chosen)


def close_at_once(patch: Patch) -> None:
    patch.setattr(window, "can_close", lambda _window, _passed: True)


def touched_rows_are_emitted(patch: Patch) -> None:
    patch.setattr(window, "untouched_rows", lambda w: w.rows)


# What touches


def new_keys_alone_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.INSERT, ImageKind.UPDATE_AFTER, ImageKind.DELETE)


def deletes_do_not_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.INSERT, ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER)


def _touch_by(patch: Patch, *kinds: ImageKind) -> None:
    original = handle_transactions.slice_keys

    def keys(keyed: handle_transactions.KeyedChanges, run: Transactions) -> window.SliceKeys:
        changes = keyed.changes
        chosen = pc.is_in(changes.images["kind"], pa.array(kinds, pa.int8()))
        some = TableChanges.unshared(
            changes.schema, changes.images.filter(chosen), changes.rows.filter(chosen)
        )
        tokens = keyed.tokens.filter(chosen)
        return original(handle_transactions.KeyedChanges(some, tokens, None), run)

    patch.setattr(handle_transactions, "slice_keys", keys)


# Closing and emission


def close_the_newest_first(patch: Patch) -> None:
    original = coordinator.close_windows

    def closed(state: State) -> object:
        newest = sorted(state.windows, key=lambda w: w.order.chunk.number, reverse=True)
        return original(replace(state, windows=tuple(newest)))

    patch.setattr(coordinator, "close_windows", closed)


def an_empty_table_is_complete_at_once(patch: Patch) -> None:
    original = coordinator._complete_empty_tables

    def emptied(state: State) -> State:
        plans = {
            t: replace(r, high=GtidSet()) if isinstance(r, FoundEmpty) else r for t, r in state.plans.items()
        }
        return original(replace(state, plans=plans))

    patch.setattr(coordinator, "_complete_empty_tables", emptied)


def an_empty_plan_is_anybodys(patch: Patch) -> None:
    original = coordinator._complete_empty_tables

    def emptied(state: State) -> State:
        first = {t: s.id for t, s in turns.table_turns(state.checkpoint).items()}
        plans = {
            t: replace(r, snapshot=first[t]) if isinstance(r, FoundEmpty) and t in first else r
            for t, r in state.plans.items()
        }
        return original(replace(state, plans=plans))

    patch.setattr(coordinator, "_complete_empty_tables", emptied)


def rows_are_emitted_before_the_changes(patch: Patch) -> None:
    _emit(patch, lambda parts: tuple(sorted(parts, key=lambda part: not isinstance(part, ChunkPart))))


def rows_are_emitted_a_step_late(patch: Patch) -> None:
    late: tuple[object, ...] = ()

    def delayed(parts: tuple[object, ...]) -> tuple[object, ...]:
        nonlocal late
        now = (*(p for p in parts if not isinstance(p, ChunkPart)), *late)
        late = tuple(p for p in parts if isinstance(p, ChunkPart))
        return now

    _emit(patch, delayed)


def _emit(patch: Patch, rearranged: Callable[[tuple[object, ...]], tuple[object, ...]]) -> None:
    original = coordinator.step

    def step(state: State, message: ToWatermarkCoordinator) -> object:
        after, orders = original(state, message)
        return after, tuple(
            replace(order, parts=rearranged(order.parts)) if isinstance(order, Append) else order  # type: ignore[arg-type]
            for order in orders
        )

    patch.setattr(coordinator, "step", step)


def done_moves_when_a_chunk_is_read(patch: Patch) -> None:
    original = handle_chunks.chunk_read

    def chunk_read(state: State, message: ChunkRead) -> State:
        state, table = original(state, message), message.chunk.table
        snapshot = turns.snapshot_of(state.checkpoint, table)
        chunking = snapshot.tables[table] if snapshot else None
        if snapshot is None or not isinstance(chunking, Chunking) or message.upto is None:
            return state
        ranges = snapshots.advance_range(chunking.ranges, 0, message.upto)
        return coordinator_state.with_table(state, snapshot, table, replace(chunking, ranges=ranges))

    patch.setattr(handle_chunks, "chunk_read", chunk_read)


def a_table_completes_when_it_is_read(patch: Patch) -> None:
    original = handle_chunks.chunk_read

    def chunk_read(state: State, message: ChunkRead) -> State:
        state, table = original(state, message), message.chunk.table
        snapshot = turns.snapshot_of(state.checkpoint, table)
        if snapshot is None or message.upto is not None:
            return state
        return coordinator_state.with_table(state, snapshot, table, Completed(Progress()))

    patch.setattr(handle_chunks, "chunk_read", chunk_read)


# Statements, plans and failures


def windows_survive_a_statement(patch: Patch) -> None:
    patch.setattr(handle_schemas, "drop_windows", lambda state, _tables: state)


def _from_the_start(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(replace(each, done=None) for each in ranges)


def any_key_will_do(patch: Patch) -> None:
    patch.setattr(ChunkIndex, "version", lambda _self, _schema: "the same")


def a_failed_chunk_is_skipped(patch: Patch) -> None:
    def chunk_failed(state: State, message: ChunkFailed) -> State:
        table = message.chunk.table
        snapshot = turns.snapshot_of(state.checkpoint, table)
        assert snapshot is not None
        return table_snapshots.end_table(state, snapshot, table, Completed(Progress()))

    patch.setattr(handle_chunks, "chunk_failed", chunk_failed)


def every_snapshot_is_a_first_one(patch: Patch) -> None:
    original = coordinator._emit

    def emitted(state: State, w: window.Reconciling) -> object:
        state, part = original(state, w)
        return state, replace(part, first=True)

    patch.setattr(coordinator, "_emit", emitted)


# The schedule


def every_chunk_begins_at_the_start(patch: Patch) -> None:
    original = schedule._chunk_turns

    def chunks(state: State, snapshot: Snapshot, run: Planned) -> object:
        return original(state, snapshot, replace(run, ranges=_from_the_start(run.ranges)))

    patch.setattr(schedule, "_chunk_turns", chunks)


def a_pause_is_not_heeded(patch: Patch) -> None:
    original = schedule._turns

    def turns(state: State) -> object:
        return original(replace(state, checkpoint=replace(state.checkpoint, paused=False)))

    patch.setattr(schedule, "_turns", turns)


def the_reader_is_never_resumed(patch: Patch) -> None:
    _without(patch, ResumeReading)


def the_reader_is_resumed_before_the_chunk_is_read(patch: Patch) -> None:
    original = schedule._order_in_pause

    def pausing(state: State, turn: Turn) -> tuple[State, tuple[Order, ...]]:
        after, orders = original(state, turn)
        return after, (*orders, ResumeReading()) if any(isinstance(o, ReadChunk) for o in orders) else orders

    patch.setattr(schedule, "_order_in_pause", pausing)


def _without(patch: Patch, kind: type) -> None:
    original = schedule._order_in_pause

    def pausing(state: State, turn: Turn) -> tuple[State, tuple[Order, ...]]:
        after, orders = original(state, turn)
        return after, tuple(order for order in orders if not isinstance(order, kind))

    patch.setattr(schedule, "_order_in_pause", pausing)


# Signals


def signals_are_forgotten(patch: Patch) -> None:
    original = coordinator_state.with_checkpoint

    def checkpointed(state: State, **changes: object) -> State:
        return original(state, **{name: value for name, value in changes.items() if name != "signals"})

    patch.setattr(handle_signals, "with_checkpoint", checkpointed)


# Transactions in parts


def a_part_advances_the_position(patch: Patch) -> None:
    original = handle_transactions.transaction_part_verified

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        state, changes = original(state, message)
        position = state.checkpoint.position.with_gtid(message.gtid)
        return coordinator_state.with_checkpoint(state, position=position), changes

    patch.setattr(handle_transactions, "transaction_part_verified", part_passed)


def keys_of_parts_do_not_touch(patch: Patch) -> None:
    original = handle_transactions.transaction_part_verified

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        after, changes = original(state, message)
        return replace(after, windows=state.windows), changes

    patch.setattr(handle_transactions, "transaction_part_verified", part_passed)


def windows_close_within(patch: Patch) -> None:
    original = coordinator._hold_until_end

    def held(taken: State, *others: object) -> object:
        return original(coordinator.close_windows(taken)[0], *others)  # type: ignore[arg-type]

    patch.setattr(coordinator, "_hold_until_end", held)


def chunks_are_asked_for_within(patch: Patch) -> None:
    patch.setattr(schedule, "_resume_within_transaction", lambda state: schedule._order_overlapping(state, 4))


def nothing_is_withdrawn(patch: Patch) -> None:
    original = table_snapshots.stop_table

    def stop_table(state: State, table: TableId, reason: str) -> State:
        return replace(original(state, table, reason), phase=state.phase)

    for module in (coordinator, handle_chunks, handle_schemas, handle_transactions):
        patch.setattr(module, "stop_table", stop_table)


# How much is ordered


def tables_that_stand_still_are_under_way(patch: Patch) -> None:
    def under_way(state: State, wanted: dict[TableId, Snapshot], priority: int) -> int:
        return sum(
            t not in wanted or wanted[t].priority >= priority for t in {**state.plans, **state.planning}
        )

    patch.setattr(schedule, "_tables_under_way", under_way)
