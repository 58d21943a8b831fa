"""The schedule of a consistent snapshot: when the stream goes to a position, stops there, and continues.

`pipeline.coordinator.consistent_state` says why, and proves it. While it lasts, no other snapshot proceeds. The others'
windows stay open, and their chunks are ordered when the stream flows again.
"""

from dataclasses import replace

from pipeline.coordinator import resume
from pipeline.coordinator.consistent_state import (
    ApproachingPosition,
    AtPosition,
    NoPosition,
    OpeningTransactions,
)
from pipeline.coordinator.state import (
    Order,
    PauseOrdered,
    PauseReached,
    ReaderRunning,
    SchemaDiffers,
    State,
    drop_windows,
)
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import CloseTransactions, OpenTransactions, TransactionsOpened
from pipeline.snapshot.snapshot import Chunking, Snapshot, SnapshotWaiting
from pipeline.snapshot.turns import table_turns


def transactions_opened(state: State, message: TransactionsOpened) -> State:
    """Returns the state with its transactions, if they are still wanted."""
    match state.consistent_position:
        case OpeningTransactions(order) if order.number == message.number:
            return replace(state, consistent_position=ApproachingPosition(order, message))
        case _:
            return state


def current_snapshot(state: State) -> Snapshot | None:
    """Returns the consistent snapshot that can proceed: it is under way, or it is its turn."""
    if not any(snapshot.consistent for snapshot in state.checkpoint.snapshots):
        return None
    under_way = table_turns(state.checkpoint)
    found = next((each for each in under_way.values() if each.consistent), None)
    if found is None or state.checkpoint.paused:
        return None
    left = [table for table, each in found.tables.items() if isinstance(each, SnapshotWaiting | Chunking)]
    its_own = all(under_way[table] is found for table in left)
    altered = any(isinstance(state.plans.get(table), SchemaDiffers) for table in left)
    return found if its_own and not (altered and isinstance(state.consistent_position, AtPosition)) else None


def advance_consistent_snapshot(state: State) -> tuple[State, tuple[Order, ...]]:
    """Returns the next possible state, and its orders. Once it is `AtPosition`, chunks can be ordered."""
    after, orders = _advance_once(state)
    if after.consistent_position == state.consistent_position:
        return after, orders
    further, more = advance_consistent_snapshot(after)
    return further, (*orders, *more)


def _advance_once(state: State) -> tuple[State, tuple[Order, ...]]:
    goes_on = current_snapshot(state) is not None
    match state.consistent_position, state.reader:
        case NoPosition(number), ReaderRunning() if goes_on:
            order = OpenTransactions(number + 1, 0)
            return replace(state, consistent_position=OpeningTransactions(order)), (order,)
        case ((OpeningTransactions(order) | ApproachingPosition(order)), ReaderRunning()) if not goes_on:
            return replace(state, consistent_position=NoPosition(order.number)), (CloseTransactions(),)
        case ApproachingPosition(_, found), ReaderRunning():
            return replace(state, reader=PauseOrdered()), (PauseReading(found.at),)
        case ApproachingPosition(order, found) as there, PauseReached() if goes_on and there.holds(
            state.passed
        ):
            return replace(state, consistent_position=AtPosition(order, found.at)), ()
        case ApproachingPosition(order), PauseReached() if goes_on:
            return _reopen(state, order)
        case AtPosition(order) as there, _ if goes_on and not there.holds(state.passed):
            return _reopen(state, order)
        case ((ApproachingPosition(order) | AtPosition(order)), PauseReached()) if not goes_on:
            return _leave_position(state, order)
        # A transaction came in parts meanwhile, and its end was needed.
        case AtPosition(order), ReaderRunning() if not goes_on:
            return _leave_position(state, order)
        case _:
            return state, ()


def _reopen(state: State, order: OpenTransactions) -> tuple[State, tuple[Order, ...]]:
    """Tries once more, because the stream isn't where the transactions were opened."""
    left, orders = _leave_position(state, order)
    again = OpenTransactions(order.number + 1, order.failed + 1)
    return replace(left, consistent_position=OpeningTransactions(again)), (*orders, again)


def _leave_position(state: State, order: OpenTransactions) -> tuple[State, tuple[Order, ...]]:
    """Lets the stream continue. What isn't complete here begins again at another position."""
    again = resume.restart_consistent_snapshots(state.checkpoint)
    begun = [each for each in again.snapshots if each.consistent and not each.ended]
    left = drop_windows(state, {table for snapshot in begun for table in snapshot.tables})
    resumed = (ResumeReading(),) if isinstance(state.reader, PauseReached) else ()
    left = replace(
        left, checkpoint=again, consistent_position=NoPosition(order.number), reader=ReaderRunning()
    )
    return left, (CloseTransactions(), *resumed)
