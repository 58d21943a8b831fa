"""Mutations: for each rule, the code as it would be without it. A test must fail on each of them.

Most are found by the coordinator's golden traces (`tests/pipeline/coordinator/test_step.py`). For the others,

    @broken_by(mutations.close_at_once)
    def test_a_window_stays_open_until_high_has_passed() -> None: ...

runs twice: as it is, where it holds, and mutated, where its own assertion fails (or the core itself stops with
InvariantBroken). A failure elsewhere, as in a builder, doesn't count.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.coordinator import handle_chunks, handle_log, handle_signals, schedule, window, window_close
from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.state import (
    BetweenTransactions,
    FoundEmpty,
    InTransaction,
    Order,
    Paused,
    Planned,
    Planning,
    PlanningOutdated,
    SourceHasCapacity,
    State,
)
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet, Tsid
from pipeline.gtid.intervals import EMPTY
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import ResumeReading
from pipeline.messages.changes import ChangesVerified, SchemaVerified, TableStopped, TransactionPartVerified
from pipeline.messages.chunks import ChunkFailed, ChunkRead, PlanFailed, ReadChunk, TablePlanned
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.messages.signals import SignalAnswer, SignalReceived
from pipeline.schema import row_keys as keys
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot import watermark
from pipeline.snapshot.checkpoint import Checkpoint, Mirror
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Progress,
    Range,
    Request,
    Snapshot,
    TableSnapshot,
)

Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]
Turn = schedule._Plan | schedule._Chunk | None


def broken_by(*mutations: Mutation) -> Callable[[Callable[[], None]], Callable[..., None]]:
    """The test as it is, and for each mutation the test that it fails."""

    def both_ways(test: Callable[[], None]) -> Callable[..., None]:
        @pytest.mark.parametrize("mutation", [None, *mutations], ids=_name)
        def run(mutation: Mutation | None, monkeypatch: Patch) -> None:
            if mutation is None:
                test()
                return
            mutation(monkeypatch)
            with pytest.raises((AssertionError, InvariantBroken, pytest.fail.Exception)) as failure:
                test()
            if not isinstance(failure.value, InvariantBroken):
                frames = [f for f in traceback.extract_tb(failure.tb) if "_pytest" not in f.filename]
                assert frames[-1].name == test.__name__, f"not the rule failed, but {frames[-1]}"

        run.__name__ = test.__name__
        return run

    return both_ways


def _name(mutation: Mutation | None) -> str:
    return "as_it_is" if mutation is None else mutation.__name__


# Watermarks


def any_low_is_usable(patch: Patch) -> None:
    _judge_low(patch, lambda _low, _asked_at: True)


def low_must_not_be_ahead(patch: Patch) -> None:
    _judge_low(patch, lambda low, asked_at: low == asked_at)


def _judge_low(patch: Patch, judged: Callable[[GtidSet, GtidSet], bool]) -> None:
    def usable(low: GtidSet, asked_at: GtidSet) -> bool:
        return judged(low, asked_at)

    patch.setattr(watermark, "is_usable_low", usable)
    patch.setattr(window, "is_usable_low", usable)


def low_is_compared_at_the_answer(patch: Patch) -> None:
    original = handle_chunks.chunk_read

    def chunk_read(state: State, message: ChunkRead) -> State:
        if not watermark.is_usable_low(message.low, state.checkpoint.position):
            raise InvariantBroken("the low watermark lacks what has passed since")
        return original(state, message)

    patch.setattr(handle_chunks, "chunk_read", chunk_read)


def low_is_compared_with_nothing(patch: Patch) -> None:
    original = schedule._plan

    def asked(state: State, turn: object) -> object:
        nowhere = replace(state.checkpoint, position=GtidSet())
        asked, order = original(replace(state, checkpoint=nowhere), turn)  # type: ignore[arg-type]
        return replace(asked, checkpoint=state.checkpoint), order

    patch.setattr(schedule, "_plan", asked)


def files_are_compared_as_text(patch: Patch) -> None:
    patch.setattr(
        Coordinates,
        "reaches",
        lambda self, other: (self.file, self.offset) >= (other.file, other.offset),
    )


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


def what_low_holds_touches_too(patch: Patch) -> None:
    patch.setattr(window.PassedKeys, "outside", lambda self, _low: self.tokens)


def inside_is_decided_by_the_latest(patch: Patch) -> None:
    def latest(low: GtidSet, source: Tsid) -> int:
        edges = low.intervals.get(source, EMPTY).edges
        return int(edges[-1]) - 1 if edges.size else 0

    _decide_outside(patch, lambda low, source, number: number > latest(low, source))


def inside_is_decided_without_tags(patch: Patch) -> None:
    _decide_outside(patch, lambda low, source, number: not _in_any(low, number, uuid=source.uuid))


def inside_is_decided_without_sources(patch: Patch) -> None:
    _decide_outside(patch, lambda low, _source, number: not _in_any(low, number))


def _in_any(low: GtidSet, number: int, uuid: str = "") -> bool:
    return any(number in numbers for source, numbers in low.intervals.items() if uuid in source.uuid)


def _decide_outside(patch: Patch, outside: Callable[[GtidSet, Tsid, int], bool]) -> None:
    def chosen(self: window.PassedKeys, low: GtidSet) -> pa.Array:
        names = [self.transactions.gtid(i) for i in range(len(self.transactions))]
        flags = np.array([outside(low, name.source, name.number) for name in names], dtype=np.bool_)
        return self.tokens.filter(pa.array(flags[self.transaction]))

    patch.setattr(window.PassedKeys, "outside", chosen)


def close_at_once(patch: Patch) -> None:
    patch.setattr(window, "can_close", lambda _window, _passed: True)


def touched_rows_are_emitted(patch: Patch) -> None:
    patch.setattr(window, "untouched_rows", lambda w: w.rows)


def keys_are_kept_for_ever(patch: Patch) -> None:
    patch.setattr(window, "_drop_touched_rows", lambda w: w)


def rows_given_up_early_are_not_counted(patch: Patch) -> None:
    original = window._drop_touched_rows
    patch.setattr(window, "_drop_touched_rows", lambda w: replace(original(w), superseded=0))


def one_touched_row_gives_up_the_chunk(patch: Patch) -> None:
    original = window.untouched_rows

    def untouched(w: window.Reconciling) -> pa.RecordBatch:
        kept = original(w)
        return kept if len(kept) == len(w.rows) else kept.slice(0, 0)

    patch.setattr(window, "untouched_rows", untouched)


# What touches


def old_keys_alone_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.INSERT, ImageKind.UPDATE_BEFORE, ImageKind.DELETE)


def new_keys_alone_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.INSERT, ImageKind.UPDATE_AFTER, ImageKind.DELETE)


def deletes_do_not_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.INSERT, ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER)


def inserts_do_not_touch(patch: Patch) -> None:
    _touch_by(patch, ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER, ImageKind.DELETE)


def _touch_by(patch: Patch, *kinds: ImageKind) -> None:
    original = handle_log.passed_keys

    def keys(keyed: handle_log.KeyedChanges, run: Transactions) -> window.PassedKeys:
        changes = keyed.changes
        chosen = pc.is_in(changes.images["kind"], pa.array(kinds, pa.int8()))
        some = TableChanges(changes.schema, changes.images.filter(chosen), changes.rows.filter(chosen))
        tokens = keyed.tokens.filter(chosen)
        return original(handle_log.KeyedChanges(some, tokens, None), run)

    patch.setattr(handle_log, "passed_keys", keys)


def every_table_is_touched(patch: Patch) -> None:
    def touched(state: State, tables: tuple[TableChanges, ...], run: Transactions) -> State:
        for changes in tables:
            keys = handle_log.passed_keys(handle_log.with_tokens(state, changes), run)
            state = replace(state, windows=tuple(window.pass_keys(w, keys) for w in state.windows))
        return state

    patch.setattr(handle_log, "touch_windows", touched)


# Closing and emission


def close_on_changes_only(patch: Patch) -> None:
    step, closed = coordinator.step, window_close.close_windows
    changes = False

    def told(state: State, message: ToWatermarkCoordinator) -> object:
        nonlocal changes
        changes = isinstance(message, ChangesVerified)
        return step(state, message)

    patch.setattr(coordinator, "step", told)
    patch.setattr(coordinator, "close_windows", lambda state: closed(state) if changes else (state, ()))


def close_whichever_is_ready(patch: Patch) -> None:
    original = window_close.close_windows

    def closed(state: State) -> object:
        def waits(w: window.Window) -> bool:
            return not (isinstance(w, window.Reconciling) and window.can_close(w, state.passed))

        return original(replace(state, windows=tuple(sorted(state.windows, key=waits))))

    patch.setattr(coordinator, "close_windows", closed)


def close_the_newest_first(patch: Patch) -> None:
    original = window_close.close_windows

    def closed(state: State) -> object:
        newest = sorted(state.windows, key=lambda w: w.order.chunk.number, reverse=True)
        return original(replace(state, windows=tuple(newest)))

    patch.setattr(coordinator, "close_windows", closed)


def ranges_wait_for_each_other(patch: Patch) -> None:
    patch.setattr(window_close, "range_of", lambda w: (coordinator_state.window_table(w), 0))


def the_first_range_done_completes_the_table(patch: Patch) -> None:
    original = snapshots.advance_range

    def progressed(ranges: tuple[Range, ...], number: int, upto: Key | None) -> tuple[Range, ...]:
        return original(ranges, number, upto) if upto is not None else ()

    patch.setattr(window_close, "advance_range", progressed)


def an_empty_table_is_complete_at_once(patch: Patch) -> None:
    original = window_close._complete_empty_tables

    def emptied(state: State) -> State:
        runs = {
            t: replace(r, high=GtidSet()) if isinstance(r, FoundEmpty) else r for t, r in state.runs.items()
        }
        return original(replace(state, runs=runs))

    patch.setattr(window_close, "_complete_empty_tables", emptied)


def an_empty_plan_is_anybodys(patch: Patch) -> None:
    original = window_close._complete_empty_tables

    def emptied(state: State) -> State:
        first = {t: s.id for t, s in coordinator_state.table_turns(state.checkpoint).items()}
        runs = {
            t: replace(r, snapshot=first[t]) if isinstance(r, FoundEmpty) and t in first else r
            for t, r in state.runs.items()
        }
        return original(replace(state, runs=runs))

    patch.setattr(window_close, "_complete_empty_tables", emptied)


def tables_wait_for_each_other(patch: Patch) -> None:
    original = window_close.close_windows

    def closed(state: State) -> object:
        first = state.windows[0] if state.windows else None
        ready = isinstance(first, window.Reconciling) and window.can_close(first, state.passed)
        return original(state) if ready else (state, ())

    patch.setattr(coordinator, "close_windows", closed)


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
        snapshot = coordinator_state.snapshot_of(state.checkpoint, table)
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
        snapshot = coordinator_state.snapshot_of(state.checkpoint, table)
        if snapshot is None or message.upto is not None:
            return state
        return coordinator_state.with_table(state, snapshot, table, Completed(Progress()))

    patch.setattr(handle_chunks, "chunk_read", chunk_read)


# Statements, plans and failures


def windows_survive_a_statement(patch: Patch) -> None:
    patch.setattr(handle_log, "drop_windows", lambda state, _tables: state)


def windows_survive_an_end(patch: Patch) -> None:
    patch.setattr(coordinator_state, "drop_windows", lambda state, _tables: state)


def a_statement_drops_every_window(patch: Patch) -> None:
    original = coordinator_state.drop_windows
    patch.setattr(
        handle_log, "drop_windows", lambda state, _tables: original(state, state.checkpoint.schemas)
    )


def stale_plans_are_taken(patch: Patch) -> None:
    original = coordinator_state.drop_windows

    def dropped(before: State, tables: frozenset[TableId]) -> State:
        state = original(before, tables)
        runs = {t: before.runs[t] if isinstance(r, PlanningOutdated) else r for t, r in state.runs.items()}
        return replace(state, runs=runs)

    patch.setattr(handle_log, "drop_windows", dropped)
    patch.setattr(coordinator_state, "drop_windows", dropped)


def a_plan_begins_again(patch: Patch) -> None:
    original = handle_chunks.table_planned

    def table_planned(state: State, message: TablePlanned) -> State:
        state, table = original(state, message), message.schema.table
        run = state.runs.get(table)
        return (
            coordinator_state.with_run(state, table, replace(run, ranges=_from_the_start(run.ranges)))
            if isinstance(run, Planned)
            else state
        )

    patch.setattr(handle_chunks, "table_planned", table_planned)


def _from_the_start(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(replace(each, done=None) for each in ranges)


def any_key_will_do(patch: Patch) -> None:
    patch.setattr(ChunkIndex, "version", lambda _self, _schema: "the same")


def a_failed_chunk_is_skipped(patch: Patch) -> None:
    def chunk_failed(state: State, message: ChunkFailed) -> State:
        table = message.chunk.table
        snapshot = coordinator_state.snapshot_of(state.checkpoint, table)
        assert snapshot is not None
        return coordinator_state.end_table(state, snapshot, table, Completed(Progress()))

    patch.setattr(handle_chunks, "chunk_failed", chunk_failed)


def any_failure_ends_its_table(patch: Patch) -> None:
    def chunk_failed(state: State, message: ChunkFailed) -> State:
        return coordinator_state.fail_table(state, message.chunk.table, message.reason)

    patch.setattr(handle_chunks, "chunk_failed", chunk_failed)


def a_failure_ends_every_table(patch: Patch) -> None:
    original = coordinator._handle

    def taken(state: State, message: ToWatermarkCoordinator) -> object:
        after, changes, answers = original(state, message)
        if isinstance(message, ChunkFailed | PlanFailed):
            for table in state.checkpoint.schemas:
                after = coordinator_state.fail_table(after, table, message.reason)
        return after, changes, answers

    patch.setattr(coordinator, "_handle", taken)


def a_failed_plan_is_asked_again(patch: Patch) -> None:
    def plan_failed(state: State, message: PlanFailed) -> State:
        return coordinator_state.without_run(state, message.table)

    patch.setattr(handle_chunks, "plan_failed", plan_failed)


def every_snapshot_is_a_first_one(patch: Patch) -> None:
    original = window_close._emit

    def emitted(state: State, w: window.Reconciling) -> object:
        state, part = original(state, w)
        return state, replace(part, first=True)

    patch.setattr(window_close, "_emit", emitted)


def an_ended_table_has_no_mirror(patch: Patch) -> None:
    def table_ended(state: State, snapshot: Snapshot, table: TableId, ended: TableSnapshot) -> State:
        state = coordinator_state.drop_windows(state, {table})
        return coordinator_state.with_table(state, snapshot, table, ended)

    patch.setattr(handle_log, "end_table", table_ended)
    patch.setattr(window_close, "end_table", table_ended)
    patch.setattr(coordinator_state, "end_table", table_ended)
    patch.setattr(handle_signals, "end_table", table_ended)


# The schedule


def windows_are_not_bounded(patch: Patch) -> None:
    original = schedule._overlapping
    patch.setattr(schedule, "_overlapping", lambda state, _most: original(state, 1000))


def plans_are_not_counted(patch: Patch) -> None:
    original = schedule._overlapping

    def overlapping(state: State, most: int) -> object:
        planning = sum(isinstance(run, Planning | PlanningOutdated) for run in state.runs.values())
        return original(state, most + planning)

    patch.setattr(schedule, "_overlapping", overlapping)


def chunks_of_a_table_overlap(patch: Patch) -> None:
    patch.setattr(schedule, "is_reading", lambda _state, _table, _number: False)


def every_chunk_begins_at_the_start(patch: Patch) -> None:
    original = schedule._chunks

    def chunks(state: State, snapshot: Snapshot, run: Planned) -> object:
        return original(state, snapshot, replace(run, ranges=_from_the_start(run.ranges)))

    patch.setattr(schedule, "_chunks", chunks)


def a_pause_is_not_heeded(patch: Patch) -> None:
    original = schedule._turns

    def turns(state: State) -> object:
        return original(replace(state, checkpoint=replace(state.checkpoint, paused=False)))

    patch.setattr(schedule, "_turns", turns)


def the_newest_snapshot_comes_first(patch: Patch) -> None:
    patch.setattr(coordinator_state, "by_priority", lambda checkpoint: list(reversed(checkpoint.snapshots)))


def chunks_are_asked_without_a_pause(patch: Patch) -> None:
    original = schedule._pausing
    patch.setattr(schedule, "_pausing", lambda state, turn: original(replace(state, gate=Paused()), turn))


def the_reader_is_never_resumed(patch: Patch) -> None:
    _without(patch, ResumeReading)


def the_reader_is_resumed_before_the_chunk_is_read(patch: Patch) -> None:
    original = schedule._pausing

    def pausing(state: State, turn: Turn) -> tuple[State, tuple[Order, ...]]:
        after, orders = original(state, turn)
        return after, (*orders, ResumeReading()) if any(isinstance(o, ReadChunk) for o in orders) else orders

    patch.setattr(schedule, "_pausing", pausing)


def _without(patch: Patch, kind: type) -> None:
    original = schedule._pausing

    def pausing(state: State, turn: Turn) -> tuple[State, tuple[Order, ...]]:
        after, orders = original(state, turn)
        return after, tuple(order for order in orders if not isinstance(order, kind))

    patch.setattr(schedule, "_pausing", pausing)


# Keys


def tokens_are_joined_without_lengths(patch: Patch) -> None:
    def tokens(rows: pa.RecordBatch, key: Sequence[int]) -> pa.Array:
        parts = [rows.column(index).cast(pa.string()) for index in key]
        return pc.binary_join_element_wise(*parts, ":").cast(pa.binary())

    patch.setattr(keys, "tokens", tokens)


# Signals


def signals_are_forgotten(patch: Patch) -> None:
    original = coordinator_state.with_checkpoint

    def checkpointed(state: State, **changes: object) -> State:
        return original(state, **{name: value for name, value in changes.items() if name != "signals"})

    patch.setattr(handle_signals, "with_checkpoint", checkpointed)


def every_signal_is_a_new_one(patch: Patch) -> None:
    original, fresh = coordinator.step, count()

    def step(state: State, message: ToWatermarkCoordinator) -> object:
        if isinstance(message, SignalReceived):
            message = SignalReceived(replace(message.signal, id=f"{message.signal.id}-{next(fresh)}"))
        return original(state, message)

    patch.setattr(coordinator, "step", step)


def nothing_is_refused(patch: Patch) -> None:
    patch.setattr(handle_signals, "_refusal", lambda _checkpoint, _table: None)


def signals_are_remembered_for_ever(patch: Patch) -> None:
    patch.setattr(handle_signals, "SIGNALS_REMEMBERED", 10**9)


def snapshots_are_remembered_for_ever(patch: Patch) -> None:
    patch.setattr(coordinator_state, "SNAPSHOTS_REMEMBERED", 10**9)


# Transactions in parts


def a_part_advances_the_position(patch: Patch) -> None:
    original = handle_log.transaction_part_verified

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        state, changes = original(state, message)
        position = state.checkpoint.position.with_gtid(message.gtid)
        return coordinator_state.with_checkpoint(state, position=position), changes

    patch.setattr(handle_log, "transaction_part_verified", part_passed)


def keys_of_parts_do_not_touch(patch: Patch) -> None:
    original = handle_log.transaction_part_verified

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        after, changes = original(state, message)
        return replace(after, windows=state.windows), changes

    patch.setattr(handle_log, "transaction_part_verified", part_passed)


def a_part_is_a_slice(patch: Patch) -> None:
    def held(
        taken: State,
        _place: InTransaction,
        changes: tuple[ChangePart, ...],
        answers: tuple[SignalAnswer, ...],
    ) -> object:
        before = replace(taken, checkpoint=replace(taken.checkpoint))
        return coordinator._append(before, taken, changes, answers, ())

    patch.setattr(coordinator, "_hold_until_end", held)


def windows_close_within(patch: Patch) -> None:
    original = coordinator._hold_until_end

    def held(taken: State, place: InTransaction, changes: object, answers: object) -> object:
        return original(window_close.close_windows(taken)[0], place, changes, answers)  # type: ignore[arg-type]

    patch.setattr(coordinator, "_hold_until_end", held)


def chunks_are_asked_for_within(patch: Patch) -> None:
    patch.setattr(schedule, "_within", lambda state: schedule._overlapping(state, 4))


def a_pause_within_lasts(patch: Patch) -> None:
    patch.setattr(schedule, "_within", lambda state: (state, ()))


def a_pause_within_is_used(patch: Patch) -> None:
    def within(state: State) -> object:
        return schedule._pausing(state, next(schedule._turns(state), None))

    patch.setattr(schedule, "_within", within)


def answers_within_are_lost(patch: Patch) -> None:
    original = coordinator._hold_until_end
    patch.setattr(
        coordinator,
        "_hold_until_end",
        lambda taken, place, changes, _answers: original(taken, place, changes, ()),
    )


def nothing_is_withdrawn(patch: Patch) -> None:
    original = handle_log.table_stopped

    def table_stopped(state: State, message: TableStopped) -> State:
        return replace(original(state, message), place=state.place)

    patch.setattr(handle_log, "table_stopped", table_stopped)


def what_stopped_stays_withdrawn(patch: Patch) -> None:
    original = coordinator._append

    def appended(state: State, *others: object) -> object:
        after, orders = original(state, *others)  # type: ignore[arg-type]
        stopped = frozenset(after.checkpoint.stopped)
        return after, tuple(replace(o, withdrawn=stopped) if isinstance(o, Append) else o for o in orders)

    patch.setattr(coordinator, "_append", appended)


def any_transaction_may_end_it(patch: Patch) -> None:
    original = handle_log.changes_verified

    def changes_passed(state: State, message: ChangesVerified) -> object:
        return original(replace(state, place=BetweenTransactions()), message)

    patch.setattr(handle_log, "changes_verified", changes_passed)


def parts_of_any_transaction_may_follow(patch: Patch) -> None:
    original = handle_log.transaction_part_verified

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        return original(replace(state, place=BetweenTransactions()), message)

    patch.setattr(handle_log, "transaction_part_verified", part_passed)


def anything_may_come_within(patch: Patch) -> None:
    patch.setattr(handle_log, "must_be_between", lambda _state, _what: None)


# How much is ordered


def rows_that_wait_take_no_memory(patch: Patch) -> None:
    patch.setattr(schedule, "_bytes_waiting", lambda state: sum(state.ordered.values()))


def chunks_that_may_come_take_no_memory(patch: Patch) -> None:
    original = schedule._bytes_waiting
    patch.setattr(schedule, "_bytes_waiting", lambda state: original(replace(state, ordered={})))


def memory_is_kept_for_one_chunk_alone_too(patch: Patch) -> None:
    original = schedule._chunks

    def chunks(state: State, snapshot: Snapshot, run: Planned) -> object:
        _, expected = schedule._rows(state, snapshot, run.schema.table)
        return iter(()) if expected > state.limits.memory else original(state, snapshot, run)

    patch.setattr(schedule, "_chunks", chunks)


def dropped_chunks_have_no_connection(patch: Patch) -> None:
    original = schedule._turns

    def turns(state: State) -> object:
        open_ = {w.order.chunk for w in state.windows if isinstance(w, window.Reading)}
        asked = {chunk: size for chunk, size in state.ordered.items() if chunk in open_}
        return original(replace(state, ordered=asked))

    patch.setattr(schedule, "_turns", turns)


def answers_to_dropped_chunks_free_nothing(patch: Patch) -> None:
    original = handle_chunks._forget_order

    def answered(state: State, chunk: ChunkId) -> State:
        return state if coordinator_state.reading_window(state, chunk) is None else original(state, chunk)

    patch.setattr(handle_chunks, "_forget_order", answered)


def strain_is_not_heeded(patch: Patch) -> None:
    original = schedule._turns
    patch.setattr(schedule, "_turns", lambda state: original(replace(state, source=SourceHasCapacity())))


def the_first_table_takes_all(patch: Patch) -> None:
    patch.setattr(schedule, "_windows_of_tables", lambda _state: Counter())


def every_table_is_begun(patch: Patch) -> None:
    patch.setattr(schedule, "_under_way", lambda _state, _wanted, _priority: 0)


def tables_that_stand_still_are_under_way(patch: Patch) -> None:
    def under_way(state: State, wanted: dict[TableId, Snapshot], priority: int) -> int:
        return sum(t not in wanted or wanted[t].priority >= priority for t in state.runs)

    patch.setattr(schedule, "_under_way", under_way)


def priorities_are_not_heeded(patch: Patch) -> None:
    original = coordinator_state.table_turns

    def turns(checkpoint: Checkpoint) -> dict[TableId, Snapshot]:
        alike = tuple(replace(snapshot, priority=0) for snapshot in checkpoint.snapshots)
        return original(replace(checkpoint, snapshots=alike))

    patch.setattr(schedule, "table_turns", turns)
    patch.setattr(coordinator_state, "by_priority", lambda checkpoint: list(checkpoint.snapshots))


def a_table_changes_snapshots_half_way(patch: Patch) -> None:
    def snapshot_of(checkpoint: Checkpoint, table: TableId) -> Snapshot | None:
        return next((s for s, t in coordinator_state.unfinished_tables(checkpoint) if t == table), None)

    for module in (window_close, handle_chunks, coordinator_state):
        patch.setattr(module, "snapshot_of", snapshot_of)


def a_blocking_snapshot_blocks_nothing(patch: Patch) -> None:
    original = coordinator_state.table_turns

    def turns(checkpoint: Checkpoint) -> dict[TableId, Snapshot]:
        return {table: replace(s, blocking=False) for table, s in original(checkpoint).items()}

    patch.setattr(schedule, "table_turns", turns)


def others_go_on_beside_a_blocking_snapshot(patch: Patch) -> None:
    patch.setattr(schedule, "_unblocked", lambda wanted: wanted)


def the_keys_of_a_window_are_not_bounded(patch: Patch) -> None:
    patch.setattr(handle_log, "exceeds_memory", lambda _window, _most: False)


def a_chunk_is_asked_for_again_as_it_was(patch: Patch) -> None:
    patch.setattr(handle_log, "halve", lambda size, _order: size)


def a_row_is_asked_for_again_and_again(patch: Patch) -> None:
    patch.setattr(
        handle_log, "exceeds_memory", lambda w, most: isinstance(w, window.Reading) and w.kept > most
    )


# Schemas, generations and marker rows


def any_schema_will_do(patch: Patch) -> None:
    original = handle_chunks.table_planned

    def table_planned(state: State, message: TablePlanned) -> State:
        schemas = {**state.checkpoint.schemas, message.schema.table: message.schema}
        return original(coordinator_state.with_checkpoint(state, schemas=schemas), message)

    patch.setattr(handle_chunks, "table_planned", table_planned)


def an_outdated_chunk_fails_its_table(patch: Patch) -> None:
    patch.setattr(
        handle_chunks,
        "chunk_schema_changed",
        lambda state, message: coordinator_state.fail_table(state, message.chunk.table, "it's outdated"),
    )


def windows_survive_another_schema(patch: Patch) -> None:
    def schema_verified(state: State, message: SchemaVerified) -> State:
        schemas = {**state.checkpoint.schemas, message.schema.table: message.schema}
        return coordinator_state.with_checkpoint(state, schemas=schemas)

    patch.setattr(handle_log, "schema_verified", schema_verified)


def a_schema_comes_behind_its_restart(patch: Patch) -> None:
    original = handle_log.schema_verified

    def schema_verified(state: State, message: SchemaVerified) -> State:
        after = original(state, message)
        return replace(after, checkpoint=replace(after.checkpoint, schemas=state.checkpoint.schemas))

    patch.setattr(handle_log, "schema_verified", schema_verified)


def a_mirror_has_one_generation(patch: Patch) -> None:
    original = coordinator_state.with_mirror

    def with_mirror(state: State, table: TableId, mirror: Mirror) -> State:
        return original(state, table, replace(mirror, since=0))

    for module in (handle_log, coordinator_state):
        patch.setattr(module, "with_mirror", with_mirror)


def a_part_of_a_table_makes_a_mirror(patch: Patch) -> None:
    patch.setattr(Request, "whole", property(lambda _self: True))


def markers_never_pass(patch: Patch) -> None:
    patch.setattr(handle_log, "apply_signal_rows", lambda state, _rows: (state, ()))


def markers_are_kept_for_ever(patch: Patch) -> None:
    patch.setattr(window_close, "_forget_markers", lambda state: state)


def every_set_has_passed(patch: Patch) -> None:
    original = watermark.StreamPosition.has

    def has(self: watermark.StreamPosition, high: watermark.High) -> bool:
        return isinstance(high, GtidSet) or original(self, high)

    patch.setattr(watermark.StreamPosition, "has", has)
