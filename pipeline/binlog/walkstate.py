"""What the compiled walk and the fold in Python both work on: one state, whichever of the two takes the next event.

- `State`: where the log stands, and which transaction is open.
- `Sources`, `Maps`: what Python has met and explained once, as bytes with which the walk compares.
- `Rows`: the slice in the making. What is in the open transaction lies behind what has passed, in the same arrays.

The numbers of sources and maps are the same for the stream's whole life (or, for maps, until `Maps.forget`).
"""

import zlib
from typing import Any, Final, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.cells import SLACK, Bytes, Longs
from pipeline.gtid import Source
from pipeline.messages import TableUnreadable
from pipeline.tablemap import TableMap

# The phases of the log.
BETWEEN: Final = 0  # two transactions
BEGUN: Final = 1  # a GTID has come
FRAMED: Final = 2  # and the BEGIN behind it
SPECIAL: Final = 3  # framed, but its end is the fold's business: an XA transaction, a created table's

STATE: Final = np.dtype(
    [
        ("offset", np.int64),  # behind the last event, in its file
        ("checksum_bytes", np.int64),
        ("within", np.int64),  # 1 while the events are those of a payload, which have no places of their own
        ("phase", np.int64),
        # The open transaction.
        ("source", np.int64),
        ("number", np.int64),
        ("commit_time", np.int64),
        ("tables", np.int64),  # how many table ids it has explained
        ("first_event", np.int64),  # of its rows in the slice; without one, where the next one's will be
        ("first_byte", np.int64),
        # The slice, with what's open.
        ("transactions", np.int64),  # those that have passed
        ("events", np.int64),
        ("bytes", np.int64),
        ("end", np.int64),  # the offset behind the last transaction that has passed
        # When it's full.
        ("most_transactions", np.int64),
        ("most_bytes", np.int64),
    ]
)

Record = Any  # of STATE, as compiled code sees it; numpy's types don't know its fields

_TAG_BYTES: Final = 32
_SOURCE_BYTES: Final = 16 + 1 + _TAG_BYTES  # the UUID, the tag's length, the tag


class Known(NamedTuple):
    """Table maps by their content, as the walk looks them up: an open-addressing table of their CRC32.

    The content of map i is content[ends[i] : ends[i + 1]]; `captured` is 1 for a map whose rows are wanted.
    """

    content: Bytes
    ends: Longs
    captured: Bytes
    slots: NDArray[np.int32]


class Rows(NamedTuple):
    """A slice in columns, as the walk fills them.

    `body`: the bodies of rows events, end to end, and SLACK bytes. `events` [5, room]: the map, the type code, the
    body's start and end, and the transaction's index. `transactions` [3, room]: source, number, commit time.
    """

    body: Bytes
    events: NDArray[np.int64]
    transactions: NDArray[np.int64]


MAP, CODE, START, END, TRANSACTION = range(5)

STATE_TYPE: Final = numba.from_dtype(STATE)
_BYTES: Final = numba.types.uint8[::1]
_TABLE: Final = numba.types.int64[:, ::1]
KNOWN_TYPE: Final = numba.types.NamedTuple(  # type: ignore[no-untyped-call]
    [_BYTES, numba.types.int64[::1], _BYTES, numba.types.int32[::1]], Known
)
ROWS_TYPE: Final = numba.types.NamedTuple([_BYTES, _TABLE, _TABLE], Rows)  # type: ignore[no-untyped-call]

Scalar = TypeVar("Scalar", bound=np.generic)


class State:
    """The state, with its fields as attributes; `record` is what compiled code works on."""

    record: Record

    def __init__(self, most_transactions: int, most_bytes: int) -> None:
        """Before the log's first event, which has a checksum."""
        object.__setattr__(self, "record", np.zeros(1, STATE)[0])
        self.checksum_bytes = 4
        self.most_transactions, self.most_bytes = most_transactions, most_bytes

    def __getattr__(self, field: str) -> int:
        return int(self.record[field])

    def __setattr__(self, field: str, value: int) -> None:
        self.record[field] = value


def new_rows(body_room: int, events_room: int, transactions_room: int) -> Rows:
    """An empty slice with room for so much."""
    return Rows(
        np.empty(body_room + SLACK, np.uint8),
        np.empty((5, events_room), np.int64),
        np.empty((3, transactions_room), np.int64),
    )


def wider(table: NDArray[Scalar], room: int) -> NDArray[Scalar]:
    """The same with this much room along its last axis, at the least."""
    if table.shape[-1] >= room:
        return table
    larger = np.empty((*table.shape[:-1], max(room, 2 * table.shape[-1])), table.dtype)
    larger[..., : table.shape[-1]] = table
    return larger


class Sources:
    """The sources of GTIDs, in the order in which they were met; `encoded` has a row for each, and no others."""

    def __init__(self) -> None:
        self._numbers: dict[Source, int] = {}
        self.all: tuple[Source, ...] = ()
        self.encoded = np.empty((0, _SOURCE_BYTES), np.uint8)

    def number(self, source: Source) -> int:
        """The source's number, which is a new one where it hasn't been met."""
        if source not in self._numbers:
            tag = source.tag.encode()
            row = (
                bytes.fromhex(source.uuid.replace("-", "")) + bytes([len(tag)]) + tag.ljust(_TAG_BYTES, b"\0")
            )
            self.encoded = np.concatenate([self.encoded, np.frombuffer(row, np.uint8)[None]])
            self._numbers[source] = len(self._numbers)
            self.all = (*self.all, source)
        return self._numbers[source]


class Maps:
    """The table maps by what they say, without the table id, which changes with each opening of the table."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know none any more."""
        self._numbers: dict[bytes, int] = {}
        self._tables: list[TableMap | TableUnreadable | None] = []
        self.known = Known(
            np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.uint8), np.full(16, -1, np.int32)
        )

    def __len__(self) -> int:
        return len(self._tables)

    def wants(self, number: int) -> bool:
        """Whether the map with this number is a captured table's."""
        return self._tables[number] is not None

    def captured(self, number: int) -> TableMap | TableUnreadable:
        """What the map with this number says of a captured table."""
        table = self._tables[number]
        assert table is not None
        return table

    def number(self, described: bytes) -> int | None:
        """The number of the map that says this, if there is one."""
        return self._numbers.get(described)

    def add(self, described: bytes, table: TableMap | TableUnreadable | None) -> int:
        """Know one more; returns its number."""
        number = len(self._tables)
        self._numbers[described] = number
        self._tables.append(table)
        content, ends, captured, slots = self.known
        if 2 * len(self._tables) > len(slots):
            slots = np.full(2 * len(slots), -1, np.int32)
            for each, its_number in self._numbers.items():
                _put(slots, each, its_number)
        else:
            _put(slots, described, number)
        end = int(ends[number]) + len(described)
        content, ends, captured = wider(content, end), wider(ends, number + 2), wider(captured, number + 1)
        content[ends[number] : end] = np.frombuffer(described, np.uint8)
        ends[number + 1] = end
        captured[number] = table is not None
        self.known = Known(content, ends, captured, slots)
        return number


def _put(slots: NDArray[np.int32], described: bytes, number: int) -> None:
    slot = zlib.crc32(described) & (len(slots) - 1)
    while slots[slot] >= 0:
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = number
