"""The compiled parser of the log's usual events: the commonest path of the fold, without Python.

It takes an event only if it's complete, undamaged, of the usual kind and at its usual place. These are a GTID of a
known source between two transactions, and BEGIN after it. Then come table maps that are known byte for byte, rows
events whose table id is that of one of these, and ROWS_QUERY. The XID ends the transaction. Any other event stays
untouched, with all of the state unchanged, and the parser returns `RARE`. The fold in `stream` takes that event. Only
the fold decides what may be where, and how a refusal reads. So the two can disagree on the usual events only.

**No access outside of the buffers.** Each event's bounds lie in the buffer (`event_buffer`). A comparison with these
bounds precedes each read in an event. A comparison with the room that's left precedes each write. If there is none, the
parser returns `NO_ROOM` and, as with `RARE`, has changed nothing.

Sources: MySQL 9.7 source documentation, namespace mysql::binlog::event.
"""

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.binlog.event_type import Code
from pipeline.binlog.fast_path.gtid import begin, begin_tagged
from pipeline.binlog.rows.cells import count_cells
from pipeline.binlog.stream_state import (
    BEGUN,
    BETWEEN,
    CELLS,
    CODE,
    DONE,
    END,
    FILE,
    FRAMED,
    FULL,
    KNOWN_TYPE,
    LONGEST_STATEMENT,
    MAP,
    NO_ROOM,
    PLACE,
    RARE,
    ROWS_TYPE,
    SERVER,
    START,
    STATE_TYPE,
    STATEMENT,
    TEXT_LENGTH,
    THREAD,
    TRANSACTION,
    MapIndex,
    Record,
    SliceRows,
)
from pipeline.types.buffers import SLACK, Bytes, Int
from pipeline.types.byte_kernels import bytes_equal, copy, put_unsigned, unsigned
from pipeline.types.crc32 import crc32
from pipeline.types.jit import compiled, inlined

_HEADER, _SIZE = 19, 9  # bytes of an event's header, and where the event's size is in it
_OFFSETS: Final = 2**32  # a header has an offset's lowest 32 bits

_QUERY_HEAD: Final = 13
_BEGIN_BYTES: Final = 5
_BEGIN: Final = int.from_bytes(b"BEGIN", "little")

_MAP_HEAD: Final = 8
_TABLE_ID_BYTES: Final = 6

# As Python's numbers, since compiled code doesn't know enumerations by name.
_QUERY: Final = int(Code.QUERY)
_XID: Final = int(Code.XID)
_TABLE_MAP: Final = int(Code.TABLE_MAP)
_ROWS_QUERY: Final = int(Code.ROWS_QUERY)
_GTID: Final = int(Code.GTID)
_TAGGED_GTID: Final = int(Code.TAGGED_GTID)
_IS_ROWS: Final = np.array(
    [
        code
        in (
            Code.WRITE_ROWS_V1,
            Code.UPDATE_ROWS_V1,
            Code.DELETE_ROWS_V1,
            Code.WRITE_ROWS,
            Code.UPDATE_ROWS,
            Code.DELETE_ROWS,
            Code.PARTIAL_UPDATE_ROWS,
        )
        for code in range(256)
    ]
)


@inlined
def is_sound(buffer: Bytes, start: Int, end: Int, checksum_bytes: Int) -> bool:
    """Returns whether the event at buffer[start:end] is as long as its header says, and undamaged."""
    if end - start < _HEADER + checksum_bytes or unsigned(buffer, start + _SIZE, 4) != end - start:
        return False
    if checksum_bytes == 0:
        return True
    return crc32(buffer, start, end - checksum_bytes) == unsigned(buffer, end - checksum_bytes, 4)


@inlined
def _frame(buffer: Bytes, at: Int, end: Int, state: Record) -> int:
    """A QUERY event's body, which is a BEGIN; see `query_event.query`."""
    if state.phase != BEGUN or end - at < _QUERY_HEAD:
        return RARE
    # After the status variables come the database's name, a zero, and the statement.
    statement = at + _QUERY_HEAD + unsigned(buffer, at + 11, 2) + np.int64(buffer[at + 8]) + 1
    if end - statement != _BEGIN_BYTES or unsigned(buffer, statement, _BEGIN_BYTES) != _BEGIN:
        return RARE
    state.phase = FRAMED
    state.thread = unsigned(buffer, at, 4)
    return DONE


@inlined
def _statement(buffer: Bytes, at: Int, end: Int, state: Record, rows: SliceRows) -> int:
    """A ROWS_QUERY event's body: a byte that means nothing, and the text. Without a body it's one that says nothing.

    A text without rows goes, so that a transaction of tables that aren't captured takes no more room than one text.
    """
    if not state.keeps_statements or at == end:
        return DONE
    if state.phase < FRAMED:
        return RARE
    start, length = state.bytes, end - at - 1
    has_rows = state.events > state.first_event and rows.events[END, state.events - 1] > state.statement
    if state.statement >= 0 and not has_rows:
        start = state.statement
    if length > LONGEST_STATEMENT:
        state.statement, state.bytes = -1, start
        return DONE
    if start + TEXT_LENGTH + length + SLACK > len(rows.body):
        return NO_ROOM
    put_unsigned(rows.body, start, length, TEXT_LENGTH)
    copy(buffer, at + 1, length, rows.body, start + TEXT_LENGTH)
    state.statement, state.bytes = start, start + TEXT_LENGTH + length
    return FULL if state.bytes >= state.most_bytes else DONE


@inlined
def _find(buffer: Bytes, at: Int, end: Int, known: MapIndex) -> Int:
    """The number of the table map whose content is buffer[at:end], or -1."""
    mask = len(known.slots) - 1
    slot = crc32(buffer, at, end) & mask
    while known.slots[slot] >= 0:
        number = np.int64(known.slots[slot])
        start = known.places[0, number]
        if known.places[0, number + 1] - start == end - at and bytes_equal(
            buffer, at, known.content, start, end - at
        ):
            return number
        slot = (slot + 1) & mask
    return np.int64(-1)


@inlined
def _explained_at(state: Record, explained: NDArray[np.int64], table_id: Int) -> int:
    """Where in `explained` the table id is, or -1; most often it's the last one."""
    for i in range(state.tables - 1, -1, -1):
        if explained[0, i] == table_id:
            return i
    return -1


@inlined
def _map(
    buffer: Bytes, at: Int, end: Int, state: Record, known: MapIndex, explained: NDArray[np.int64]
) -> int:
    """A TABLE_MAP event's body."""
    if state.phase < FRAMED or end - at < _MAP_HEAD:
        return RARE
    number = _find(buffer, at + _MAP_HEAD, end, known)
    if number < 0:
        return RARE
    table_id = unsigned(buffer, at, _TABLE_ID_BYTES)
    i = _explained_at(state, explained, table_id)
    if i < 0:
        if state.tables == explained.shape[1]:
            return NO_ROOM
        i = state.tables
        state.tables += 1
    explained[0, i], explained[1, i] = table_id, number
    return DONE


@inlined
def _rows(
    buffer: Bytes,
    at: Int,
    end: Int,
    code: Int,
    state: Record,
    known: MapIndex,
    explained: NDArray[np.int64],
    rows: SliceRows,
) -> int:
    """A rows event's body."""
    if state.phase < FRAMED or end - at < _TABLE_ID_BYTES:
        return RARE
    i = _explained_at(state, explained, unsigned(buffer, at, _TABLE_ID_BYTES))
    if i < 0:
        return RARE
    number = explained[1, i]
    forms_at = known.places[1, number]
    if forms_at < 0:
        return DONE
    start, length = state.bytes, end - at
    if start + length + SLACK > len(rows.body) or state.events == rows.events.shape[1]:
        return NO_ROOM
    copy(buffer, at, length, rows.body, start)
    cells = count_cells(rows.body, start, start + length, code, known.forms, forms_at)
    event = state.events
    rows.events[MAP, event] = number
    rows.events[CODE, event] = code
    rows.events[START, event] = start
    rows.events[END, event] = start + length
    rows.events[TRANSACTION, event] = state.transactions
    rows.events[CELLS, event] = cells
    rows.events[FILE, event] = state.file
    rows.events[PLACE, event] = state.begins
    rows.events[SERVER, event] = state.server
    rows.events[THREAD, event] = state.thread
    rows.events[STATEMENT, event] = state.statement
    state.events += 1
    state.bytes += length
    state.cells += cells
    return FULL if state.bytes >= state.most_bytes or state.cells >= state.most_cells else DONE


@inlined
def _commit(state: Record, rows: SliceRows) -> int:
    """An XID event."""
    if state.phase != FRAMED:
        return RARE
    if state.transactions == rows.transactions.shape[1]:
        return NO_ROOM
    rows.transactions[0, state.transactions] = state.source
    rows.transactions[1, state.transactions] = state.number
    rows.transactions[2, state.transactions] = state.commit_time
    rows.transactions[3, state.transactions] = state.original_time
    state.transactions += 1
    if state.events == state.first_event:  # of texts without rows nothing stays
        state.bytes = state.first_byte
    state.first_event, state.first_byte = state.events, state.bytes
    state.phase = BETWEEN
    state.tables = 0
    return FULL if state.transactions >= state.most_transactions else DONE


@inlined
def _event(
    buffer: Bytes,
    start: Int,
    end: Int,
    state: Record,
    sources: NDArray[np.uint8],
    known: MapIndex,
    explained: NDArray[np.int64],
    rows: SliceRows,
) -> int:
    if not is_sound(buffer, start, end, state.checksum_bytes):
        return RARE
    code = np.int64(buffer[start + 4])
    at, body_end = start + _HEADER, end - state.checksum_bytes
    place = unsigned(buffer, start + 13, 4)
    if place != 0 and not state.within:
        state.begins = state.offset
    status = RARE
    if code == _TABLE_MAP:
        status = _map(buffer, at, body_end, state, known, explained)
    elif _IS_ROWS[code]:
        state.server = unsigned(buffer, start + 5, 4)
        status = _rows(buffer, at, body_end, code, state, known, explained, rows)
    elif code == _GTID and not state.within:
        status = begin(buffer, at, body_end, state, sources)
    elif code == _TAGGED_GTID and not state.within:
        status = begin_tagged(buffer, at, body_end, state, sources)
    elif code == _QUERY:
        status = _frame(buffer, at, body_end, state)
    elif code == _XID:
        status = _commit(state, rows)
    elif code == _ROWS_QUERY:
        status = _statement(buffer, at, body_end, state, rows)
    if status in (DONE, FULL):
        if place != 0 and not state.within:
            state.offset += (place - state.offset) % _OFFSETS
        if code == _XID:
            state.end = state.offset
    return status


@compiled(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        types.uint8[::1],
        types.int64[:, ::1],
        types.int64,
        STATE_TYPE,
        types.uint8[:, ::1],
        KNOWN_TYPE,
        types.int64[:, ::1],
        ROWS_TYPE,
    )
)
def parse_events(
    buffer: Bytes,
    bounds: NDArray[np.int64],
    first: int,
    state: Record,
    sources: NDArray[np.uint8],
    known: MapIndex,
    explained: NDArray[np.int64],
    rows: SliceRows,
) -> tuple[int, int]:
    """Take the events with these bounds (`Frames`), from the first on.

    `sources` is that of `TsidRegistry`, `known` that of `TableMapRegistry`; `explained` [2, room] holds the table ids
    of the open transaction, each above its map's number. Returns how it ended, and the index of the next event.
    """
    for i in range(first, len(bounds)):
        status = _event(buffer, bounds[i, 0], bounds[i, 1], state, sources, known, explained, rows)
        if status == FULL:
            return FULL, i + 1
        if status != DONE:
            return status, i
    return DONE, len(bounds)
