"""The window rules, held against a modelled server, and each rule's worth shown by planting its absence."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline import coordinator, coordinator_state, schedule, watermark, window
from pipeline.coordinator_state import Overlapping, Pausing, State, WindowMode, Within
from pipeline.errors import InvariantBroken
from pipeline.gtid import Gtid, GtidSet
from pipeline.messages import (
    Append,
    ChangePart,
    ChunkRead,
    Kind,
    SignalAnswer,
    TableChanges,
    TransactionPartVerified,
)
from pipeline.snapshot import Chunking
from pipeline.transactions import Transactions
from pipeline.watermark import Coordinates
from tests.simulation.simulation import Simulation, Violation

SEEDS = 400
SEEDS_FOR_A_BUG = 1500


@pytest.mark.parametrize("mode", [Overlapping(1), Overlapping(4), Pausing()])
def test_no_interleaving_breaks_a_promise(mode: WindowMode) -> None:
    for seed in range(SEEDS):
        Simulation(seed, mode).run()


def test_the_hard_cases_are_reached() -> None:
    reached: Counter[str] = Counter()
    for seed in range(60):
        simulation = Simulation(seed, Overlapping(4))
        simulation.run()
        reached += simulation.reached
    hard = {
        "low watermark asked again",
        "crash with open windows",
        "changes while a window is open",
        "statement while a window is open",
        "window closes at once",
        "empty chunk",
        "committed but not in the executed set",
        "part of a transaction while a window is open",
        "crash within a transaction",
        "ChunkRead within a transaction",
        "TablePlanned within a transaction",
        "SignalReceived within a transaction",
        "TransactionPartVerified within a transaction",
    }
    assert hard <= {case for case, times in reached.items() if times}
    assert reached["most windows"] > 1


def test_a_seed_tells_the_same_story_twice() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(7, Overlapping(3))
        simulation.run()
        stories.append(
            [(str(a.checkpoint.position), len(a.parts)) for a in simulation.sealed + simulation.unsealed]
        )
    assert stories[0] == stories[1]


# Planted bugs: the absence of each rule must be noticed


def _forget_what_passed_before_low(patch: pytest.MonkeyPatch) -> None:
    original = window.keys_passed
    patch.setattr(
        window, "keys_passed", lambda w, keys: w if isinstance(w, window.Reading) else original(w, keys)
    )


def _use_any_low_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(watermark, "usable", lambda _low, _asked_at: True)
    patch.setattr(window, "usable", lambda _low, _asked_at: True)


def _let_high_be_the_executed_set(patch: pytest.MonkeyPatch) -> None:
    def executed_end(self: Simulation) -> Coordinates:
        end = Coordinates("binlog.000001", 4)
        for transaction in self.server.log:
            if not transaction.executed:
                break
            end = transaction.end
        return end

    patch.setattr(Simulation, "high_watermark", executed_end)


def _close_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(window, "closes", lambda _window, _stream: True)


def _emit_touched_rows_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(window, "untouched", lambda w: w.rows)


def _touch_only(patch: pytest.MonkeyPatch, *kinds: Kind) -> None:
    original = coordinator._keys

    def keys(changes: TableChanges, run: Transactions) -> window.PassedKeys:
        chosen = pc.is_in(changes.images["kind"], pa.array(kinds, pa.int8()))
        return original(
            TableChanges(changes.schema, changes.images.filter(chosen), changes.rows.filter(chosen)), run
        )

    patch.setattr(coordinator, "_keys", keys)


def _touch_new_keys_only(patch: pytest.MonkeyPatch) -> None:
    _touch_only(patch, Kind.INSERT, Kind.UPDATE_AFTER, Kind.DELETE)


def _ignore_deletes(patch: pytest.MonkeyPatch) -> None:
    _touch_only(patch, Kind.INSERT, Kind.UPDATE_BEFORE, Kind.UPDATE_AFTER)


def _decide_inside_by_order(patch: pytest.MonkeyPatch) -> None:
    def newer_than_the_latest(self: Transactions, low: GtidSet) -> npt.NDArray[np.bool_]:
        gtids = [self.gtid(i) for i in range(len(self))]
        latest = {
            g.source: max((n for n in range(200) if Gtid(g.source, n or 1) in low), default=0) for g in gtids
        }
        return np.array([gtid.number > latest[gtid.source] for gtid in gtids], dtype=np.bool_)

    patch.setattr(
        window.PassedKeys,
        "outside",
        lambda self, low: self.tokens.filter(
            pa.array(newer_than_the_latest(self.transactions, low)[self.transaction])
        ),
    )


def _keep_windows_over_a_statement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator, "dropped", lambda state, _tables: state)


def _count_a_chunk_as_done_when_read(patch: pytest.MonkeyPatch) -> None:
    original = coordinator._chunk_read

    def chunk_read(state: coordinator_state.State, message: ChunkRead) -> coordinator_state.State:
        state = original(state, message)
        table = message.chunk.table
        snapshot = coordinator_state.snapshot_of(state.checkpoint, table)
        chunking = snapshot.tables[table] if snapshot else None
        if snapshot is None or not isinstance(chunking, Chunking) or message.upto is None:
            return state
        done = replace(chunking, done=message.upto)
        return coordinator_state.with_table(state, snapshot, table, done)

    patch.setattr(coordinator, "_chunk_read", chunk_read)


def _append_every_snapshot_to_the_mirror(patch: pytest.MonkeyPatch) -> None:
    original = coordinator._emitted

    def emitted(state: coordinator_state.State, w: window.Reconciling) -> object:
        state, part = original(state, w)
        return state, replace(part, first=True)

    patch.setattr(coordinator, "_emitted", emitted)


def _pass_high_only_when_beyond(patch: pytest.MonkeyPatch) -> None:
    def beyond(self: Coordinates, other: Coordinates) -> bool:
        return (self.file, self.offset) > (other.file, other.offset)

    patch.setattr(Coordinates, "reaches", beyond)


def _begin_the_next_chunk_at_the_end(patch: pytest.MonkeyPatch) -> None:
    original = coordinator._chunk_read

    def chunk_read(state: coordinator_state.State, message: ChunkRead) -> coordinator_state.State:
        skipping = replace(message, upto=(message.upto[0] + 1,) if message.upto else None)  # type: ignore[operator]
        return original(state, skipping)

    patch.setattr(coordinator, "_chunk_read", chunk_read)


def _let_a_part_advance_the_position(patch: pytest.MonkeyPatch) -> None:
    def held(taken: State, place: Within, changes: tuple[ChangePart, ...], _answers: object) -> object:
        if not changes:
            return taken, ()
        position = taken.checkpoint.position.with_gtid(place.gtid)
        after = coordinator_state.checkpointed(taken, position=position)
        return after, (Append(changes, after.checkpoint),)

    patch.setattr(coordinator, "_held", held)


def _close_windows_within_a_transaction(patch: pytest.MonkeyPatch) -> None:
    original = coordinator._held

    def held(
        taken: State, place: Within, changes: tuple[ChangePart, ...], answers: tuple[SignalAnswer, ...]
    ) -> object:
        closed, chunks = coordinator._closed(taken)
        after, orders = original(closed, place, changes, answers)
        return after, (*orders, Append(chunks, after.checkpoint)) if chunks else orders

    patch.setattr(coordinator, "_held", held)


def _forget_the_keys_of_parts(patch: pytest.MonkeyPatch) -> None:
    original = coordinator._part_passed

    def part_passed(state: State, message: TransactionPartVerified) -> object:
        after, changes = original(state, message)
        return replace(after, open=state.open), changes

    patch.setattr(coordinator, "_part_passed", part_passed)


def _ask_within_a_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedule, "_within", lambda state: schedule._overlapping(state, 4))


PLANTED = [
    _forget_what_passed_before_low,
    _use_any_low_watermark,
    _let_high_be_the_executed_set,
    _close_at_once,
    _emit_touched_rows_too,
    _touch_new_keys_only,
    _ignore_deletes,
    _decide_inside_by_order,
    _keep_windows_over_a_statement,
    _count_a_chunk_as_done_when_read,
    _append_every_snapshot_to_the_mirror,
    _pass_high_only_when_beyond,
    _begin_the_next_chunk_at_the_end,
    _let_a_part_advance_the_position,
    _close_windows_within_a_transaction,
    _forget_the_keys_of_parts,
    _ask_within_a_transaction,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_FOR_A_BUG):
        try:
            Simulation(seed, Overlapping(4)).run()
        except (Violation, AssertionError, InvariantBroken):
            return
    pytest.fail(f"{SEEDS_FOR_A_BUG} seeds didn't notice it")
