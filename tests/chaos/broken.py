"""The service with broken steps.

    python -m tests.chaos.broken [--without-lake] [--at STEP NTH DEED]... run CONFIG

is `tidemark run CONFIG` that, when it comes to the step for the NTH time, kills itself, raises, hangs, or gets SIGTERM,
by DEED. It divides small tables as well.
"""

import asyncio
import inspect
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any, Final, NoReturn

from actors import chunk_selector
from actors.binlog_reader import BinlogReader
from actors.chunk_selector import ChunkSelector
from actors.journal.store import JournalStore
from actors.journal_writer import JournalWriter
from actors.kafka.producer import KafkaProducer
from actors.schema_verifier import SchemaVerifier
from actors.service import assembly, cli
from actors.source.connection import QueryResult
from actors.spark_sink import SparkSink
from actors.watermark_coordinator import WatermarkCoordinator
from pipeline.coordinator.window import Reconciling
from tests.servers.service import LEAST_ROWS_OF_RANGE, WithoutLake


class Deed(StrEnum):
    """What happens at the step."""

    KILL = "kill"
    RAISE = "raise"
    HANG = "hang"
    STOP = "stop"
    STOP_WITHOUT_SPARK = "stop without spark"


@dataclass(frozen=True, slots=True)
class Step:
    """A method; `behind`: when its work is done. `concerns`: which of its calls count, by their first argument."""

    owner: type
    method: str
    behind: bool = False
    concerns: Callable[[Any], bool] = lambda _: True


def _has_a_chunk(coordinator: WatermarkCoordinator) -> bool:
    return any(isinstance(window, Reconciling) for window in coordinator._state.windows)


def _works(kind: str) -> Callable[[Any], bool]:
    """Whether a SparkSink has this work under way beside the batches."""

    def works(sink: SparkSink) -> bool:
        under_way = sink._state.background.under_way
        return under_way is not None and under_way.work.kind == kind

    return works


CAPTURE: Final = {
    "log read, not given on": Step(BinlogReader, "_give"),
    "slice on its way": Step(SchemaVerifier, "handle"),
    "no low": Step(ChunkSelector, "low"),
    "low read, not selected": Step(ChunkSelector, "select"),
    "asked, no row read": Step(QueryResult, "rows"),
    "selected, no high": Step(ChunkSelector, "high"),
    "chunk read, not told": Step(ChunkSelector, "high", behind=True),
    "a window waits for the log": Step(WatermarkCoordinator, "handle", behind=True, concerns=_has_a_chunk),
    "decided, not ordered": Step(WatermarkCoordinator, "_perform"),
    "append ordered, not taken": Step(JournalWriter, "handle"),
    "append taken, not sealed": Step(JournalWriter, "handle", behind=True),
    "no file written": Step(JournalStore, "write"),
    "files written, no entry": Step(JournalStore, "write", behind=True),
    "entry written, nobody told": Step(JournalStore, "publish", behind=True),
    "segment sealed": Step(JournalWriter, "_report_sealed", behind=True),
}
SINK: Final = {"news of a segment": Step(SparkSink, "handle")}
LAKE: Final = {
    "a table delivered, others not": Step(SparkSink, "_deliver", behind=True),
    "a batch begun": Step(SparkSink, "_deliver"),
    "a merge begun": Step(SparkSink, "_do_work", concerns=_works("merge")),
    "a compaction begun": Step(SparkSink, "_do_work", concerns=_works("compact")),
    "a verification begun": Step(SparkSink, "_do_work", concerns=_works("verify")),
}
TOPICS: Final = {
    "predecessor fenced, no position read": Step(KafkaProducer, "start", behind=True),
    "transaction begun": Step(KafkaProducer, "begin", behind=True),
    "batch sent": Step(KafkaProducer, "send", behind=True),
    "all sent, not committed": Step(KafkaProducer, "commit"),
    "committed, journal not told": Step(KafkaProducer, "commit", behind=True),
}


def kill() -> NoReturn:
    """End as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def break_at(step: Step, nth: int, deed: Deed) -> None:
    """Let the deed happen when the step is come to for the nth time."""
    original, numbers = getattr(step.owner, step.method), count(1)

    def due(one: object) -> bool:
        return step.concerns(one) and next(numbers) == nth

    async def do(actor: Any) -> None:
        match deed:
            case Deed.KILL:
                kill()
            case Deed.RAISE:
                raise RuntimeError("made to fail")
            case Deed.HANG:
                actor.patience = 0.1  # so that the supervisor needn't be waited for
                await asyncio.Event().wait()
            case Deed.STOP:
                os.kill(os.getpid(), signal.SIGTERM)
            case Deed.STOP_WITHOUT_SPARK:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(actor._up.spark.pid, signal.SIGSTOP)

    async def breaking(one: Any, *arguments: Any) -> Any:
        if not step.behind and due(one):
            await do(one)
        result = await original(one, *arguments)
        if step.behind and due(one):
            await do(one)
        return result

    def killing(one: Any, *arguments: Any) -> Any:
        if not step.behind and due(one):
            kill()
        result = original(one, *arguments)
        if step.behind and due(one):
            kill()
        return result

    setattr(step.owner, step.method, breaking if inspect.iscoroutinefunction(original) else killing)


def main() -> None:
    """Break what's to be broken, then be the service."""
    chunk_selector.LEAST_ROWS_OF_RANGE = LEAST_ROWS_OF_RANGE  # type: ignore[misc]
    arguments = deque(sys.argv[1:])
    while (argument := arguments.popleft()) != "run":
        if argument == "--without-lake":
            assembly.Assembly = WithoutLake  # type: ignore[misc]
        else:
            name, nth, deed = (arguments.popleft() for _ in range(3))
            break_at({**CAPTURE, **SINK, **LAKE, **TOPICS}[name], int(nth), Deed(deed))
    cli.main(["run", *arguments])


if __name__ == "__main__":
    main()
