"""What may be asked for, and when: the coordinator's orders, judged by the state that they come from."""

from pipeline.coordinator.consistent_state import AtPosition
from pipeline.coordinator.state import InTransaction, PauseReached, Pausing, State, snapshot_windows
from pipeline.coordinator.window import Reading
from pipeline.messages.chunks import ReadChunk, RepairRows
from pipeline.messages.journal import Full
from pipeline.snapshot.snapshot import ChunkId
from tests.simulation.lake import Violation


def judge_order(order: ReadChunk | RepairRows, state: State, *, paused: bool, stands: bool) -> None:
    """A chunk is asked for, while snapshots are paused or not. Raises Violation."""
    chunk = order.chunk
    if paused:
        raise Violation(f"chunk {chunk} is asked for while snapshots are paused")
    if isinstance(state.phase, InTransaction):
        raise Violation(f"chunk {chunk} is asked for within {state.phase.gtid}")
    if isinstance(order, ReadChunk) and _pauses(state, chunk) and not stands:
        raise Violation(f"chunk {chunk} is asked for while the stream flows")
    consistent = any(s.consistent for s in state.checkpoint.snapshots if s.id == chunk.snapshot)
    if isinstance(state.consistent_position, AtPosition) is not consistent:
        raise Violation(f"chunk {chunk} is asked for while the stream is {state.consistent_position}")


def judge_room(order: ReadChunk | RepairRows, *, strained: bool, full: bool) -> None:
    """A chunk is asked for, whether there's room for it at the source and in the journal or not. Raises Violation."""
    if strained:
        raise Violation(f"chunk {order.chunk} is asked for while the source has enough to do")
    if full:
        raise Violation(f"chunk {order.chunk} is asked for while the journal has no room")


def judge_resume(state: State, *, full: bool) -> None:
    """The stream is to flow on. Raises Violation."""
    if full:
        raise Violation("the stream flows on while the journal has no room")
    if chunks := _stood_for(state):
        raise Violation(f"the stream flows on before {chunks} have been read")


def judge_pause(state: State) -> None:
    """The stream stands still, if it does, for a reason. Raises Violation."""
    has_one = (
        isinstance(state.room, Full) or isinstance(state.consistent_position, AtPosition) or _stood_for(state)
    )
    if isinstance(state.reader, PauseReached) and not has_one:
        raise Violation(f"the stream stands for nothing, and is {state.consistent_position}")


def _stood_for(state: State) -> list[ChunkId]:
    """The chunks that are being read and for which the stream has to stand; it doesn't for rows read by their keys."""
    reading = [window.order.chunk for window in snapshot_windows(state) if isinstance(window, Reading)]
    return [chunk for chunk in reading if _pauses(state, chunk)]


def _pauses(state: State, chunk: ChunkId) -> bool:
    """Whether the stream has to stand while this chunk is read."""
    own = [s for s in state.checkpoint.snapshots if s.id == chunk.snapshot]
    return isinstance(state.mode, Pausing) or any(s.blocking or s.consistent for s in own)
