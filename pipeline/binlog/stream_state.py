"""The common state of the compiled parser and the fold in Python, whichever of the two takes the next event.

- `StreamState`: the position of the log, and which transaction is open.
- `MapIndex`: the known table maps (from `registries.TableMapRegistry`), as bytes with which the parser compares.
- `SliceRows`: the slice that is being filled. The open transaction lies after what has passed, in the same arrays.

This module has only the layout of memory, so that other changes don't make numba compile the parser again.
"""

from typing import Any, Final, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from pipeline.types.buffers import SLACK, Bytes, Longs

# The phases of the log.
BETWEEN: Final = 0  # two transactions
BEGUN: Final = 1  # a GTID has come
FRAMED: Final = 2  # and the BEGIN after it
SPECIAL: Final = (
    3  # framed, but its end is the fold's business: an XA transaction, a created or emptied table's
)

# How the compiled parser takes an event, and how it ends.
DONE: Final = 0  # it's taken, and so are all
RARE: Final = 1  # it's for the fold
NO_ROOM: Final = 2  # it would be taken if there were room for it
FULL: Final = 3  # it's taken, and the slice is full with it

STREAM_STATE: Final = np.dtype(
    [
        ("file", np.int64),  # its number (`registries.FileRegistry`)
        ("begins", np.int64),  # where in it the last event begins; a payload's events begin where that does
        ("server", np.int64),  # the id of the server that wrote the last rows event
        ("offset", np.int64),  # after the last event, in its file
        ("checksum_bytes", np.int64),
        ("within", np.int64),  # 1 while the events are those of a payload, which have no places of their own
        ("phase", np.int64),
        # The open transaction.
        ("source", np.int64),
        ("number", np.int64),
        ("commit_time", np.int64),
        ("original_time", np.int64),
        ("thread", np.int64),  # of the connection, -1 where nothing says it
        (
            "statement",
            np.int64,
        ),  # where in the slice's body the text of the last statement is, -1 where it has none
        ("tables", np.int64),  # how many table ids it has explained
        ("first_event", np.int64),  # of its rows in the slice; without one, where the next one's will be
        ("first_byte", np.int64),
        # The slice, with the open transaction.
        ("transactions", np.int64),  # those that have passed
        ("events", np.int64),
        ("bytes", np.int64),
        ("cells", np.int64),  # those of the rows events that may have many (`cells.count_cells`)
        ("end", np.int64),  # the offset after the last transaction that has passed
        ("keeps_statements", np.int64),  # 1 where their texts are wanted
        # When it's full.
        ("most_transactions", np.int64),
        ("most_bytes", np.int64),
        ("most_cells", np.int64),
    ]
)

Record = Any  # of STREAM_STATE, as compiled code sees it; numpy's types don't know its fields


class MapIndex(NamedTuple):
    """Table maps by their content, as the parser looks them up: an open-addressing table of their CRC32.

    The content of map i is content[places[0, i] : places[0, i + 1]]. places[1, i] is -1 for a map whose rows aren't
    wanted. Else it's where the forms of its columns (`cells.column_forms`) are in `forms`, their number before them.
    Each array more makes each call of the parser slower.
    """

    content: Bytes
    places: NDArray[np.int64]
    forms: Longs
    slots: NDArray[np.int32]


class SliceRows(NamedTuple):
    """A slice in columns, as the parser fills them.

    `body`: the bodies of rows events, end to end, and SLACK bytes; among them are texts of statements, each after its
    length (TEXT_LENGTH bytes). `events` [11, room]: the map, the type code, the body's start and end, the transaction's
    index, the cells as `StreamState` counts them, the event's file and place in it, the server that wrote it, and the
    connection's thread and the statement's text (both -1 for none). `transactions` [4, room]: source, number, and both
    commit times.
    """

    body: Bytes
    events: NDArray[np.int64]
    transactions: NDArray[np.int64]


MAP, CODE, START, END, TRANSACTION, CELLS, FILE, PLACE, SERVER, THREAD, STATEMENT = range(11)

TEXT_LENGTH: Final = 4
# Each row of a statement carries its text, so that a longer one is left out.
LONGEST_STATEMENT: Final = 1 << 16  # bytes

STATE_TYPE: Final = numba.from_dtype(STREAM_STATE)
_BYTES: Final = numba.types.uint8[::1]
_LONGS: Final = numba.types.int64[::1]
_TABLE: Final = numba.types.int64[:, ::1]
KNOWN_TYPE: Final = numba.types.NamedTuple(  # type: ignore[no-untyped-call]
    [_BYTES, _TABLE, _LONGS, numba.types.int32[::1]], MapIndex
)
ROWS_TYPE: Final = numba.types.NamedTuple([_BYTES, _TABLE, _TABLE], SliceRows)  # type: ignore[no-untyped-call]

Scalar = TypeVar("Scalar", bound=np.generic)


class StreamState:
    """The state, with its fields as attributes; `record` is what compiled code works on."""

    record: Record

    def __init__(self, most_transactions: int, most_bytes: int, most_cells: int) -> None:
        """Before the log's first event, which has a checksum."""
        object.__setattr__(self, "record", np.zeros(1, STREAM_STATE)[0])
        self.checksum_bytes = 4
        self.thread = self.statement = -1
        self.most_transactions, self.most_bytes, self.most_cells = most_transactions, most_bytes, most_cells

    def __getattr__(self, field: str) -> int:
        return int(self.record[field])

    def __setattr__(self, field: str, value: int) -> None:
        self.record[field] = value


def new_rows(body_room: int, events_room: int, transactions_room: int) -> SliceRows:
    """An empty slice with room for so much."""
    return SliceRows(
        np.empty(body_room + SLACK, np.uint8),
        np.empty((STATEMENT + 1, events_room), np.int64),
        np.empty((4, transactions_room), np.int64),
    )


def widened(table: NDArray[Scalar], room: int) -> NDArray[Scalar]:
    """The same with this much room along its last axis, at the least."""
    if table.shape[-1] >= room:
        return table
    larger = np.empty((*table.shape[:-1], max(room, 2 * table.shape[-1])), table.dtype)
    larger[..., : table.shape[-1]] = table
    return larger
