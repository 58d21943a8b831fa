"""What may be asked for, and when: the coordinator's orders, judged by the state that they come from."""

from pipeline.consistent import Standing
from pipeline.coordinator_state import Pausing, State, Within
from pipeline.messages import ReadChunk
from pipeline.snapshot import ChunkId
from pipeline.window import Reading
from tests.simulation.lake import Violation


def judge_order(order: ReadChunk, state: State, *, paused: bool, strained: bool, stream_stands: bool) -> None:
    """A chunk is asked for, while snapshots are paused or the source is strained or not. Raises Violation."""
    chunk = order.chunk
    if paused:
        raise Violation(f"chunk {chunk} is asked for while snapshots are paused")
    if isinstance(state.place, Within):
        raise Violation(f"chunk {chunk} is asked for within {state.place.gtid}")
    if strained:
        raise Violation(f"chunk {chunk} is asked for while the source has enough to do")
    if _pauses(state, chunk) and not stream_stands:
        raise Violation(f"chunk {chunk} is asked for while the stream flows")
    consistent = any(s.consistent for s in state.checkpoint.snapshots if s.id == chunk.snapshot)
    if isinstance(state.stand, Standing) is not consistent:
        raise Violation(f"chunk {chunk} is asked for while the stream is {state.stand}")


def judge_resume(state: State) -> None:
    """The stream is to flow on. Raises Violation."""
    reading = [window.order.chunk for window in state.open if isinstance(window, Reading)]
    if any(_pauses(state, chunk) for chunk in reading):
        raise Violation(f"the stream flows on before {reading} have been read")


def _pauses(state: State, chunk: ChunkId) -> bool:
    """Whether the stream has to stand while this chunk is read."""
    own = [s for s in state.checkpoint.snapshots if s.id == chunk.snapshot]
    return isinstance(state.mode, Pausing) or any(s.blocking or s.consistent for s in own)
