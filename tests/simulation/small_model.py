"""A model of the window rule that is small enough to be walked through wholly: every state, every history.

A few transactions go through the stages of a real server, each in its own time: in the log (where the stream may
read them), visible to SELECTs, in the executed set. Beside them one window goes through its stages, and one crash may
take it back to any position that could have been sealed. `outcomes` walks through all states of that and tells in
which ways a chunk can be emitted; the rules that decide there are the product's own.

What the transactions do doesn't matter to that walk. So each outcome is held against *all* histories of the keys at
once: the keys of all of them are rows of one chunk, told apart by a number, and `emitted` asks the product's window
once for them all.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.coordinator import window
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.chunks import ChunkRead, ReadChunk
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import watermark
from pipeline.snapshot.snapshot import WHOLE_TABLE, ChunkId
from pipeline.snapshot.watermark import StreamPosition
from pipeline.types.column_types import Integer
from tests.pipeline.builders import primary_index
from tests.simulation.server import SOURCES

ABSENT = -1

_TABLE = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", Integer(8, unsigned=False), nullable=False),
        Column("value", Integer(8, unsigned=False), nullable=False),
    ),
    (0,),
)

# In the log's order: neither of one source alone nor by rising numbers.
GTIDS = (
    Gtid(SOURCES[0], 2),
    Gtid(SOURCES[2], 1),
    Gtid(SOURCES[0], 1),
    Gtid(SOURCES[1], 1),
    Gtid(SOURCES[2], 2),
)


# The server and the window


class Server(NamedTuple):
    """`log`: how many transactions are in the log. `visible`, `executed`: bit sets of those that came further.

    `beside`: bit set of the pairs (see `pair`) of which the later one was logged before the earlier one was visible.
    """

    log: int = 0
    visible: int = 0
    executed: int = 0
    beside: int = 0


class Asked(NamedTuple):
    """The chunk was asked for at this position of the stream."""

    at: int


class Low(NamedTuple):
    """The low watermark is known."""

    at: int
    low: int


class Selected(NamedTuple):
    """The SELECT saw the transactions of `seen`."""

    at: int
    low: int
    seen: int


class High(NamedTuple):
    """The end of the log is known, and the chunk came when the stream was at `came`."""

    at: int
    low: int
    seen: int
    high: int
    came: int


class State(NamedTuple):
    """`stream`: how many transactions have passed. `window`: None while nothing is asked for."""

    server: Server
    stream: int = 0
    window: Asked | Low | Selected | High | None = None
    crashed: bool = False


class Outcome(NamedTuple):
    """A chunk is emitted at the position `at` of the stream."""

    window: High
    at: int


class Walk(NamedTuple):
    """How many states there were, and all outcomes, each with the server's `beside` in the runs that come to it."""

    states: int
    outcomes: dict[Outcome, frozenset[int]]


def pair(earlier: int, later: int) -> int:
    """The bit of this pair of transactions, by their indices in the log."""
    return 1 << (later * (later - 1) // 2 + earlier)


@cache
def gtid_set(transactions: int) -> GtidSet:
    """The GTID set of this bit set of transactions."""
    gtids = GtidSet()
    for i, gtid in enumerate(GTIDS):
        if transactions >> i & 1:
            gtids = gtids.with_gtid(gtid)
    return gtids


@cache
def place(transactions: int) -> Coordinates:
    """The end of the log when it had so many transactions."""
    return Coordinates("binlog.000001", transactions)


_State = TypeVar("_State")


def walked(first: _State, steps: Callable[[_State], Iterable[_State]]) -> Iterator[_State]:
    """Each state that can be come to from the first one, once."""
    seen, to_do = {first}, [first]
    while to_do:
        yield (state := to_do.pop())
        new = set(steps(state)) - seen
        seen |= new
        to_do += new


class Model:
    """All that can happen with so many transactions, one window at a time and one crash."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        # A million states have a few thousand servers, and ask for a few dozen low watermarks.
        self._served = cache(self._servers_after)
        self._usable = cache(self.usable)

    def walk(self) -> Walk:
        """Go through all states."""
        outcomes: dict[Outcome, set[int]] = {}
        states = 0
        for state in walked(State(Server()), self._steps):
            states += 1
            if isinstance(state.window, High) and self.closes(state.window, state.stream):
                outcome = Outcome(state.window, state.stream)
                outcomes.setdefault(outcome, set()).add(state.server.beside)
        return Walk(states, {outcome: frozenset(beside) for outcome, beside in outcomes.items()})

    def _steps(self, state: State) -> Iterator[State]:
        server, stream, window, crashed = state
        for served in self._served(server):
            yield State(served, stream, window, crashed)
        if stream < server.log:
            yield State(server, stream + 1, window, crashed)
        if not crashed:
            for sealed in range(stream + 1):
                yield State(server, sealed, None, crashed=True)
        for after in self._window_steps(server, stream, window):
            yield State(server, stream, after, crashed)

    def _servers_after(self, server: Server) -> tuple[Server, ...]:
        return tuple(self._server_steps(server))

    def _server_steps(self, server: Server) -> Iterator[Server]:
        log, visible, executed = server.log, server.visible, server.executed
        if log < self._transactions:
            beside = sum(pair(i, log) for i in range(log) if not visible >> i & 1)
            yield server._replace(log=log + 1, beside=server.beside | beside)
        for i in range(log):
            if not visible >> i & 1:
                yield server._replace(visible=visible | 1 << i)
            elif not executed >> i & 1:
                yield server._replace(executed=executed | 1 << i)

    def _window_steps(
        self, server: Server, stream: int, window: Asked | Low | Selected | High | None
    ) -> Iterator[Asked | Low | Selected | High]:
        match window:
            case None:
                yield Asked(stream)
            case Asked(at):
                if self._usable(server.executed, at):
                    yield Low(at, server.executed)
            case Low(at, low):
                yield Selected(at, low, server.visible)
            case Selected(at, low, seen):
                if (high := self.high(server)) is not None:
                    yield High(at, low, seen, high, stream)
            case High():
                pass  # it may be emitted here, or later: a slice may end anywhere behind the high watermark

    # The rules, each to be broken by a test

    def usable(self, low: int, at: int) -> bool:
        """Whether the executed set may be the low watermark of what was asked for at this position."""
        return watermark.is_usable_low(gtid_set(low), gtid_set((1 << at) - 1))

    def high(self, server: Server) -> int | None:
        """The high watermark: the end of the log. None where it can't be told yet."""
        return server.log

    def closes(self, chunk: High, stream: int) -> bool:
        """Whether the window closes when the stream is there."""
        return place(stream).reaches(place(chunk.high))


class SetModel(Model):
    """The same where the high watermark is a set: what is executed, once that's all of the log."""

    def high(self, server: Server) -> int | None:
        """The executed set as a bit set, proven whole."""
        return server.executed if server.executed == (1 << server.log) - 1 else None

    def closes(self, chunk: High, stream: int) -> bool:
        """Whether the position holds the set."""
        return StreamPosition(None, gtid_set((1 << stream) - 1)).has(gtid_set(chunk.high))


# The histories


class Histories:
    """All histories of so many keys through so many transactions, each of which sets, deletes or moves one key.

    `rows`[h, t, k]: the value of the key k after t transactions of the history h, or ABSENT. `touched`[h, t, k]:
    whether the transaction with index t changed that key. `conflicts`[h]: bit set of the pairs of transactions that
    changed the same key, so that the later waited until the earlier was visible.
    """

    def __init__(self, keys: int, transactions: int) -> None:
        self.keys, self.transactions = keys, transactions
        states: list[list[tuple[int, ...]]] = []
        touched: list[list[tuple[int, ...]]] = []
        for present in product((False, True), repeat=keys):
            first = tuple(0 if there else ABSENT for there in present)
            for story in _stories(first, transactions):
                states.append([first, *(after for after, _ in story)])
                touched.append([changed for _, changed in story])
        self.rows = np.array(states, np.int64)
        self.touched = np.array(
            [[[k in changed for k in range(keys)] for changed in story] for story in touched], np.bool_
        )
        self.conflicts = np.zeros(len(states), np.int64)
        for later in range(transactions):
            for earlier in range(later):
                both = (self.touched[:, earlier] & self.touched[:, later]).any(axis=1)
                self.conflicts[both] |= pair(earlier, later)

    def __len__(self) -> int:
        return len(self.rows)

    def possible(self, beside: frozenset[int]) -> npt.NDArray[np.bool_]:
        """[h]: whether it can have happened in a run with one of these sets of pairs beside each other."""
        possible: npt.NDArray[np.bool_] = np.logical_or.reduce(
            [self.conflicts & pairs == 0 for pairs in beside]
        )
        return possible

    def seen_by(self, transactions: int) -> npt.NDArray[np.int64]:
        """[h, k]: the rows of a SELECT that sees this bit set of transactions."""
        rows = self.rows[:, 0].copy()
        for i in range(self.transactions):
            if transactions >> i & 1:
                changed = self.touched[:, i]
                rows[changed] = self.rows[:, i + 1][changed]
        return rows

    def changed_in(self, begin: int, end: int) -> npt.NDArray[np.bool_]:
        """[h, k]: whether one of these transactions, by their index, changed the key."""
        changed = self.touched[:, begin:end].any(axis=1)
        assert isinstance(changed, np.ndarray)
        return changed


def _stories(
    rows: tuple[int, ...], left: int, number: int = 1
) -> Iterator[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]]:
    if left == 0:
        yield ()
        return
    for after, changed in _changes(rows, number):
        for story in _stories(after, left - 1, number + 1):
            yield ((after, changed), *story)


def _changes(rows: tuple[int, ...], value: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each change of one row that the rows allow: those after it, and the keys that it touched."""
    for key, held in enumerate(rows):
        yield _with(rows, {key: value}), (key,)
        if held == ABSENT:
            continue
        yield _with(rows, {key: ABSENT}), (key,)
        for other, taken in enumerate(rows):
            if taken == ABSENT:
                yield _with(rows, {key: ABSENT, other: value}), (key, other)


def _with(rows: tuple[int, ...], values: dict[int, int]) -> tuple[int, ...]:
    return tuple(values.get(key, held) for key, held in enumerate(rows))


# What is emitted


def emitted(histories: Histories, chunk: High, at: int) -> npt.NDArray[np.int64]:
    """[h, k]: the rows that the product's window emits for all histories, or ABSENT."""
    chunk_id, ordered_at = ChunkId("s1", _TABLE.table, 1), gtid_set((1 << chunk.at) - 1)
    order = ReadChunk(chunk_id, _TABLE, primary_index(_TABLE), WHOLE_TABLE, 0, None, (0,), 1, ordered_at)
    reading = window.Reading(order)
    for i in range(chunk.at, chunk.came):
        passed = window.pass_keys(reading, _passed(histories, i))
        assert isinstance(passed, window.Reading)
        reading = passed
    rows = _batch(histories.seen_by(chunk.seen))
    read = ChunkRead(order.chunk, gtid_set(chunk.low), rows, None, place(chunk.high), 0, 0, len(rows))
    reconciling: window.Window = window.take_chunk(reading, read)
    for i in range(chunk.came, at):
        reconciling = window.pass_keys(reconciling, _passed(histories, i))
    assert isinstance(reconciling, window.Reconciling)
    kept = window.untouched_rows(reconciling)
    out = np.full(len(histories) * histories.keys, ABSENT, np.int64)
    out[kept.column("id").to_numpy()] = kept.column("value").to_numpy()
    return out.reshape(len(histories), histories.keys)


def _batch(rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    values = rows.reshape(-1)
    there = np.flatnonzero(values != ABSENT)
    return pa.record_batch([pa.array(there), pa.array(values[there])], schema=_TABLE.arrow)


def _passed(histories: Histories, i: int) -> window.SliceKeys:
    ids = np.flatnonzero(histories.touched[:, i].reshape(-1))
    keys = pa.record_batch([pa.array(ids), pa.array(np.zeros_like(ids))], schema=_TABLE.arrow)
    run = Transactions.of([(GTIDS[i], 0)])
    return window.SliceKeys(run, np.zeros(len(ids), np.int32), key_tokens(keys, _TABLE.key))
