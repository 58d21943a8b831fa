"""What a reader of the log makes of bytes: the service's path from the socket to messages, without the socket.

The same bytes are read in several ways, which have to come to the same: at once; in pieces cut at random; and event by
event in Python, without the compiled parser. The first has its events in guarded memory.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import numpy as np

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.packets import Packets
from pipeline.binlog.slice import SliceBound
from pipeline.binlog.stream import LogMessage, LogStream
from pipeline.binlog.transaction_assembler import Given
from pipeline.errors import Definite, Transient
from pipeline.messages.binlog import TransactionPartRead, TransactionsRead
from pipeline.messages.row_images import TableImages
from tests.fuzz.guarded import Guarded
from tests.fuzz.mutation import Case, pieces
from tests.fuzz.rows import shown
from tests.pipeline.binlog.folding_stream import FoldingStream
from tests.pipeline.binlog.test_transaction_assembler import messages

_USUAL: Final = 1 << 20  # bytes
_FEW: Final = SliceBound(transactions=2, bytes=200, held=2000)


def log_told(case: Case) -> object:
    """What the case comes to. Raises an AssertionError where that depends on how it's read.

    Reading it in all ways each time would cost more than other cases find.
    """
    if case.lies:  # there are no events apart from their packets
        return wire_told(case.wire(), case.cuts)
    bound = _FEW if case.cuts & 8 else SliceBound()
    told = _told(_guarded(case.events, bound))
    match case.cuts & 7:
        case 0:
            _assert_same(told, _told(_parsed_at_once(case.wire(), bound)), "at once")
        case 1:
            _assert_same(told, _told(_parsed(pieces(case.wire(), case.cuts), bound)), "in pieces")
        case 2:
            _assert_same(told, _told(_folded(case.events, bound)), "without the compiled parser")
    return told


def wire_told(wire: bytes, cuts: int) -> object:
    """The same of packets."""
    told = _told(_parsed_at_once(wire, SliceBound()))
    _assert_same(told, _told(_parsed(pieces(wire, cuts), SliceBound())), "in pieces")
    return told


def _assert_same(told: list[str], other: list[str], how: str) -> None:
    assert other == told, f"{how} it is\n{other}\nand not\n{told}"


def stream(bound: SliceBound) -> FoldingStream:
    """Everything is captured."""
    return FoldingStream(lambda _: True, lambda _: True, bound)


def _parsed(pieces: Iterable[bytes], bound: SliceBound) -> Iterator[Given]:
    packets, log = Packets(1), stream(bound)
    for piece in pieces:
        packets.room()[: len(piece)] = piece
        packets.arrived(len(piece))
        yield from _taken(packets, log)
    yield from log.take()


def _parsed_at_once(wire: bytes, bound: SliceBound) -> Iterator[Given]:
    packets, log = Packets(1), stream(bound)
    packets.bytes, packets.start, packets.end = _memory(len(wire)).holding(wire, b""), 0, len(wire)
    yield from _taken(packets, log)
    yield from log.take()


def _taken(packets: Packets, log: LogStream) -> Iterator[Given]:
    while (frames := packets.frames()) is not None:
        yield from log.parse(frames)


@cache
def _usual_memory() -> Guarded:
    return Guarded(_USUAL)


def _memory(size: int) -> Guarded:
    return _usual_memory() if size <= _USUAL else Guarded(size)


def _guarded(events: tuple[bytes, ...], bound: SliceBound) -> Iterator[Given]:
    log, data = stream(bound), b"".join(events)
    sizes = np.array([len(event) for event in events], np.int64)
    ends = np.cumsum(sizes)
    memory = _memory(len(data)).holding(data, b"")
    yield from log.parse(Frames(memory, np.stack((ends - sizes, ends), axis=1)))
    yield from log.take()


def _folded(events: tuple[bytes, ...], bound: SliceBound) -> Iterator[Given]:
    log = stream(bound)
    for event in events:
        yield from log.fold(event)
    yield from log.take()


def _told(given: Iterator[Given]) -> list[str]:
    """Returns all messages, and the error after them if there's one."""
    told: list[str] = []
    each = messages(given)
    while True:
        try:
            told.append(_shown(next(each)))
        except StopIteration:
            return told
        except (Definite, Transient) as error:
            return [*told, f"{type(error).__name__}: {error}"]


def _shown(message: LogMessage) -> str:
    match message:
        case TransactionsRead(transactions, tables, end):
            gtids, times = transactions.gtid_texts().to_pylist(), transactions.commit_time.tolist()
            return f"{gtids} {times} {end} {_tables(tables)}"
        case TransactionPartRead(gtid, commit_time, tables):
            return f"part of {gtid} {commit_time} {_tables(tables)}"
        case _:
            return repr(message)


def _tables(tables: tuple[object, ...]) -> list[str]:
    return [
        f"{table.map.table} {shown(table)}" if isinstance(table, TableImages) else repr(table)
        for table in tables
    ]
