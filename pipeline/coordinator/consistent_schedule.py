"""The schedule of a consistent snapshot: when the stream goes to a position, stops there, and continues.

`pipeline.coordinator.consistent_state` says why, and proves it. While it lasts, no other snapshot proceeds. The others'
windows stay open, and their chunks are ordered when the stream flows again.
"""

from dataclasses import replace

from pipeline.coordinator import resume
from pipeline.coordinator.consistent_state import Approaching, Nowhere, Opening, Standing
from pipeline.coordinator.state import (
    Flowing,
    Order,
    Paused,
    PauseOrdered,
    State,
    Unsettled,
    dropped,
    turns,
)
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import CloseTransactions, OpenTransactions, TransactionsOpened
from pipeline.snapshot.snapshot import Chunking, Snapshot, SnapshotWaiting


def opened(state: State, message: TransactionsOpened) -> State:
    """Returns the state with its transactions, if they are still wanted."""
    match state.stand:
        case Opening(order) if order.number == message.number:
            return replace(state, stand=Approaching(order, message))
        case _:
            return state


def current_snapshot(state: State) -> Snapshot | None:
    """Returns the consistent snapshot that can proceed: it is under way, or it is its turn."""
    if not any(snapshot.consistent for snapshot in state.checkpoint.snapshots):
        return None
    under_way = turns(state.checkpoint)
    found = next((each for each in under_way.values() if each.consistent), None)
    if found is None or state.checkpoint.paused:
        return None
    left = [table for table, each in found.tables.items() if isinstance(each, SnapshotWaiting | Chunking)]
    its_own = all(under_way[table] is found for table in left)
    altered = any(isinstance(state.runs.get(table), Unsettled) for table in left)
    return found if its_own and not (altered and isinstance(state.stand, Standing)) else None


def stood(state: State) -> tuple[State, tuple[Order, ...]]:
    """Returns the next possible state, and its orders. Once it is `Standing`, chunks can be ordered."""
    after, orders = _stood(state)
    if after.stand == state.stand:
        return after, orders
    further, more = stood(after)
    return further, (*orders, *more)


def _stood(state: State) -> tuple[State, tuple[Order, ...]]:
    goes_on = current_snapshot(state) is not None
    match state.stand, state.gate:
        case Nowhere(number), Flowing() if goes_on:
            order = OpenTransactions(number + 1, 0)
            return replace(state, stand=Opening(order)), (order,)
        case ((Opening(order) | Approaching(order)), Flowing()) if not goes_on:
            return replace(state, stand=Nowhere(order.number)), (CloseTransactions(),)
        case Approaching(_, found), Flowing():
            return replace(state, gate=PauseOrdered()), (PauseReading(found.at),)
        case Approaching(order, found) as there, Paused() if goes_on and there.holds(state.passed):
            return replace(state, stand=Standing(order, found.at)), ()
        case Approaching(order), Paused() if goes_on:
            return _again(state, order)
        case Standing(order) as there, _ if goes_on and not there.holds(state.passed):
            return _again(state, order)
        case ((Approaching(order) | Standing(order)), Paused()) if not goes_on:
            return _left(state, order)
        case _:
            return state, ()


def _again(state: State, order: OpenTransactions) -> tuple[State, tuple[Order, ...]]:
    """Tries once more, because the stream isn't where the transactions were opened."""
    left, orders = _left(state, order)
    again = OpenTransactions(order.number + 1, order.failed + 1)
    return replace(left, stand=Opening(again)), (*orders, again)


def _left(state: State, order: OpenTransactions) -> tuple[State, tuple[Order, ...]]:
    """Lets the stream continue. What isn't complete here begins again at another position."""
    again = resume.again(state.checkpoint)
    begun = [each for each in again.snapshots if each.consistent and not each.ended]
    left = dropped(state, {table for snapshot in begun for table in snapshot.tables})
    resumed = (ResumeReading(),) if isinstance(state.gate, Paused) else ()
    left = replace(left, checkpoint=again, stand=Nowhere(order.number), gate=Flowing())
    return left, (CloseTransactions(), *resumed)
