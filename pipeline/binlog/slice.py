"""A slice of the log: transactions and the bodies of their rows events, before they become columns.

`SliceBuilder` gathers them, together with the compiled parser, which fills the same arrays. The open transaction lies
after the passed ones in them, so a commit moves nothing. `Slice` is the part that was cut off. It depends on nothing
any more, and any thread can read it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.registries import FileRegistry, TableMapRegistry, TsidRegistry
from pipeline.binlog.rows.cells import count_cells
from pipeline.binlog.rows.row_events import (
    LocatedImages,
    OrderedImages,
    RowsEvents,
    images_of_tables,
    locate_images,
)
from pipeline.binlog.stream_state import (
    CELLS,
    CODE,
    END,
    FILE,
    LONGEST_STATEMENT,
    MAP,
    START,
    STATEMENT,
    TEXT_LENGTH,
    TRANSACTION,
    SliceRows,
    StreamState,
    new_rows,
    widened,
)
from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import RowsUnread, TransactionPartRead, TransactionsRead
from pipeline.messages.row_images import TableImages, TableUnreadable
from pipeline.schema.table_map import TableMap
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.types.buffers import SLACK, Bytes, Longs

_SMALLEST: Final = 1 << 16  # bytes
_SMALLEST_TABLE: Final = 256  # events, transactions
_LARGEST_ORDINAL: Final = 2**31 - 1
_TOO_MANY: Final = (
    "a transaction with more than 2³¹ row images changed its rows; change so many in several transactions"
)


@dataclass(frozen=True, slots=True)
class SliceBound:
    """When a slice is full: as many transactions, or as many bytes of row images (it may pass this by one event).

    Some ten slices are under way at once, each in several forms, so they take most of the memory. `cells`: as many
    columns of row images that take fewer bytes in the log than in memory, since it leaves them out or they are NULL
    (`cells.count_cells`). `held`: how many bytes of XA transactions' rows may wait for the second phase.
    """

    transactions: int = 20_000
    bytes: int = 4 * 2**20
    cells: int = 4 * 2**20
    held: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class WholeTransactions:
    """The slice holds complete transactions, and the last one ends here; for the others see `TransactionsRead`."""

    end: Coordinates
    covered: GtidSet = NO_GTIDS
    unread: tuple[RowsUnread, ...] = ()
    prepared: tuple[XaPrepared, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """The slice holds some rows of a transaction that hasn't ended."""

    gtid: Gtid
    commit_time: int
    original_time: int


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """What has been cut off; `maps`, `sources` and `files` explain the numbers in `rows` (`stream_state.SliceRows`).

    `continues`: its first transaction's rows began in the slice before, which is a part of that transaction.
    """

    rows: SliceRows
    maps: Mapping[int, TableMap | TableUnreadable]
    sources: tuple[Tsid, ...]
    files: tuple[str, ...]
    of: WholeTransactions | TransactionPart
    continues: bool

    @property
    def bytes(self) -> int:
        """How many bytes its rows have in the log."""
        ends = self.rows.events[END]
        return int(ends[-1]) if len(ends) else 0

    def gtids(self) -> GtidSet:
        """The transactions that pass with it."""
        source, number, *_ = self.rows.transactions
        found = NO_GTIDS
        for each in np.unique(source).tolist():
            found = found.with_numbers(self.sources[each], number[source == each])
        return found

    def read(self, first_ordinal: int = 0) -> tuple[TransactionsRead | TransactionPartRead, int]:
        """Returns the slice in columns, and the first ordinal of a slice that continues it.

        `first_ordinal`: that number, from the slice before, if this one `continues`, else 0. The message names a table
        that can't be decoded, and a table with too many images in one transaction.
        """
        tables = self._locate_tables()
        ordinals, too_many = self._ordinals(tables, first_ordinal)
        read = _finished(tables, ordinals, too_many)
        match self.of:
            case WholeTransactions(end, covered, unread, prepared):
                return TransactionsRead(self._transactions(), read, end, covered, unread, prepared), 0
            case TransactionPart(gtid, commit_time, original_time):
                images = sum(int(table.images.sum()) for table in tables)
                part = TransactionPartRead(gtid, commit_time, read, original_time)
                return part, first_ordinal + images

    def _locate_tables(self) -> tuple["_Table", ...]:
        """The tables in the order of their first appearance."""
        numbers, first, which = np.unique(self.rows.events[MAP], return_index=True, return_inverse=True)
        by_table = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(numbers)))
        return tuple(
            self._located_table(int(numbers[i]), by_table[ends[i - 1] if i else 0 : ends[i]])
            for i in np.argsort(first)
        )

    def _located_table(self, number: int, indices: Longs) -> "_Table":
        described = self.maps[number]
        if isinstance(described, TableUnreadable):
            return _Table(indices, np.zeros(len(indices), np.int64), described)
        events = self.rows.events
        try:
            located = locate_images(
                described,
                self.rows.body,
                RowsEvents(
                    start=events[START][indices],
                    end=events[END][indices],
                    code=events[CODE][indices].astype(np.uint8),
                    transaction=events[TRANSACTION][indices].astype(np.int32),
                    origin=events[FILE:, indices],
                    files=self.files,
                ),
            )
        except Definite as error:
            unreadable = TableUnreadable(described.table, str(error))
            return _Table(indices, np.zeros(len(indices), np.int64), unreadable)
        return _Table(indices, located.images, located)

    def _ordinals(self, tables: tuple["_Table", ...], first_ordinal: int) -> tuple[Longs, NDArray[np.bool_]]:
        """Of each rows event, the ordinal of its first image in its transaction, over all tables.

        And whether the event has an image whose ordinal has no room in 32 bits.
        """
        transaction = self.rows.events[TRANSACTION]
        images = np.zeros(len(transaction), np.int64)
        for table in tables:
            images[table.indices] = table.images
        before: Longs = np.cumsum(images) - images
        if not len(before):
            return before, np.zeros(0, np.bool_)
        ordinals: Longs = before - before[np.searchsorted(transaction, transaction)]
        ordinals[transaction == 0] += first_ordinal
        return ordinals, ordinals + images > _LARGEST_ORDINAL

    def _transactions(self) -> Transactions:
        source, number, commit_time, original_time = self.rows.transactions
        used, index = np.unique(source, return_inverse=True)
        return Transactions(
            tuple(self.sources[i] for i in used),
            index.astype(np.int32),
            number.copy(),
            commit_time.copy(),
            original_time.copy(),
        )


class _Table(NamedTuple):
    """One table's rows events in a slice: their indices there, the images of each, and where these are."""

    indices: Longs
    images: Longs
    found: LocatedImages | TableUnreadable


def _finished(
    tables: tuple[_Table, ...], ordinals: Longs, too_many: NDArray[np.bool_]
) -> tuple[TableImages | TableUnreadable, ...]:
    """The tables in columns, in their order."""
    located: list[OrderedImages] = []
    unreadable: dict[int, TableUnreadable] = {}
    for place, table in enumerate(tables):
        if isinstance(table.found, TableUnreadable):
            unreadable[place] = table.found
        elif too_many[table.indices].any():
            unreadable[place] = TableUnreadable(table.found.table_map.table, _TOO_MANY)
        else:
            located.append(OrderedImages(table.found, ordinals[table.indices]))
    read = iter(images_of_tables(located))
    return tuple(unreadable.get(place) or next(read) for place in range(len(tables)))


class Transaction(NamedTuple):
    """What a slice has of a transaction besides its rows; `source` is the number of its GTID's source."""

    source: int
    number: int
    commit_time: int
    original_time: int


class HeldRows(NamedTuple):
    """Rows that were taken out of a slice, to be put into a later one: their bodies and `Rows.events` of these."""

    body: Bytes
    events: NDArray[np.int64]

    def fills(self, most_bytes: int, most_cells: int) -> bool:
        """Returns whether a slice is full with them."""
        return len(self.body) >= most_bytes or int(self.events[CELLS].sum()) >= most_cells

    def pieces(self, most_bytes: int, most_cells: int) -> Iterator["HeldRows"]:
        """Returns them in their order, in pieces each of which but the last just fills a slice."""
        first = 0
        while first < self.events.shape[1]:
            rest = self.events[:, first:]
            begin = int(self.events[END, first - 1]) if first else 0
            in_bytes = np.searchsorted(rest[END] - begin, most_bytes)
            in_cells = np.searchsorted(np.cumsum(rest[CELLS]), most_cells)
            last = first + 1 + int(min(in_bytes, in_cells))
            yield self._piece(begin, self.events[:, first:last].copy())
            first = last

    def _piece(self, begin: int, events: NDArray[np.int64]) -> "HeldRows":
        """Returns these of its events, whose bodies begin there, with the text of the statement that they continue."""
        text = int(events[STATEMENT, 0])
        bodies = self.body[begin : int(events[END, -1])]
        kept = _text_at(self.body, text) if 0 <= text < begin else self.body[:0]
        events[START] += len(kept) - begin
        events[END] += len(kept) - begin
        told, before = events[STATEMENT] >= 0, events[STATEMENT] < begin
        events[STATEMENT] += np.where(told, np.where(before, -events[STATEMENT], len(kept) - begin), 0)
        return HeldRows(np.concatenate([kept, bodies]), events)


def _text_at(body: Bytes, start: int) -> Bytes:
    """A statement's text that begins there, with its length before it."""
    begin = start + TEXT_LENGTH
    return body[start : begin + int.from_bytes(body[start:begin].tobytes(), "little")]


class SliceBuilder:
    """The slice in the making, which is `state` and `rows`."""

    def __init__(
        self, state: StreamState, sources: TsidRegistry, maps: TableMapRegistry, files: FileRegistry
    ) -> None:
        self._state = state
        self._sources = sources
        self._maps = maps
        self._files = files
        self._continues = False
        self.rows = new_rows(_SMALLEST, _SMALLEST_TABLE, _SMALLEST_TABLE)

    @property
    def full(self) -> bool:
        """Whether it has reached its bound."""
        state = self._state
        many = state.transactions >= state.most_transactions or state.cells >= state.most_cells
        return many or state.bytes >= state.most_bytes

    @property
    def passed(self) -> int:
        """How many transactions in it have passed."""
        return self._state.transactions

    @property
    def open_rows(self) -> bool:
        """Whether the open transaction has rows of captured tables, in this slice or in parts before it."""
        continues = self._continues and not self._state.transactions
        return continues or self._state.events > self._state.first_event

    @property
    def open_bytes(self) -> int:
        """How many bytes of rows the open transaction has in this slice."""
        return self._state.bytes - self._state.first_byte

    def make_room(self, body_bytes: int) -> None:
        """Have room for one more rows event with a body of this length, and for one more transaction."""
        state, (body, events, transactions) = self._state, self.rows
        self.rows = SliceRows(
            widened(body, state.bytes + body_bytes + SLACK),
            widened(events, state.events + 1),
            widened(transactions, state.transactions + 1),
        )

    def add_rows(self, map_number: int, code: int, body: bytes) -> None:
        """Adds a rows event, whose position is in `state`, to the open transaction."""
        state = self._state
        known, padded = self._maps.known, np.frombuffer(bytearray(body + bytes(SLACK)), np.uint8)
        cells = int(count_cells(padded, 0, len(body), code, known.forms, int(known.places[1, map_number])))
        where = [state.file, state.begins, state.server, state.thread, -1]
        event = np.array([map_number, code, 0, len(body), 0, cells, *where], np.int64)
        self.add_held(HeldRows(padded[: len(body)], event[:, None]))
        self.rows.events[STATEMENT, state.events - 1] = state.statement

    def set_statement(self, text: bytes) -> None:
        """The rows of the open transaction that come next are this statement's."""
        state = self._state
        if state.statement >= 0 and not self._has_rows_after(state.statement):
            state.bytes = state.statement
        state.statement = -1
        if not state.keeps_statements or len(text) > LONGEST_STATEMENT:
            return
        length = len(text).to_bytes(TEXT_LENGTH, "little")
        state.statement = state.bytes
        self.add_held(
            HeldRows(np.frombuffer(length + text, np.uint8), np.empty((STATEMENT + 1, 0), np.int64))
        )

    def _has_rows_after(self, byte: int) -> bool:
        state = self._state
        return state.events > state.first_event and int(self.rows.events[END, state.events - 1]) > byte

    def add_held(self, held: HeldRows) -> None:
        """Add what was held to the open transaction."""
        state, count, length = self._state, held.events.shape[1], len(held.body)
        self.rows = self.rows._replace(
            body=widened(self.rows.body, state.bytes + length + SLACK),
            events=widened(self.rows.events, state.events + count),
        )
        self.rows.body[state.bytes : state.bytes + length] = held.body
        events = self.rows.events[:, state.events : state.events + count]
        events[:] = held.events
        events[START] += state.bytes
        events[END] += state.bytes
        events[TRANSACTION] = state.transactions
        events[STATEMENT] += np.where(events[STATEMENT] < 0, 0, state.bytes)
        state.events += count
        state.bytes += length
        state.cells += int(events[CELLS].sum())

    def hold(self) -> HeldRows:
        """Take the open transaction's rows out, and the statement's text with them."""
        state = self._state
        body = self.rows.body[state.first_byte : state.bytes].copy()
        events = self.rows.events[:, state.first_event : state.events].copy()
        events[START] -= state.first_byte
        events[END] -= state.first_byte
        events[STATEMENT] -= np.where(events[STATEMENT] < 0, 0, state.first_byte)
        state.statement = -1
        state.events, state.bytes = state.first_event, state.first_byte
        state.cells -= int(events[CELLS].sum())
        return HeldRows(body, events)

    def add_transaction(self, transaction: Transaction) -> None:
        """Adds a passed transaction, with the open rows as its rows."""
        state = self._state
        self.make_room(0)
        self.rows.transactions[:, state.transactions] = transaction
        state.transactions += 1
        if state.events == state.first_event:  # of texts without rows nothing stays
            state.bytes = state.first_byte
        state.first_event, state.first_byte = state.events, state.bytes

    def cut(self, passed: WholeTransactions) -> Slice:
        """Cuts off what has passed. The open transaction stays."""
        statement = self._state.statement - self._state.first_byte
        held = self.hold()
        cut = self._cut(passed)
        self._continues = False
        self.add_held(held)
        self._state.statement = max(statement, -1)
        return cut

    def cut_part(self, of: TransactionPart) -> Slice:
        """Cuts off the open rows, which must be all there is; the statement may have further rows."""
        text = self._statement()
        part = self._cut(of)
        self._continues = True
        self._state.statement = -1
        if text is not None:
            self.set_statement(text)
        return part

    def _statement(self) -> bytes | None:
        start = self._state.statement
        return None if start < 0 else _text_at(self.rows.body, start)[TEXT_LENGTH:].tobytes()

    def _cut(self, of: WholeTransactions | TransactionPart) -> Slice:
        state = self._state
        events = self.rows.events[:, : state.events]
        maps = {int(i): self._maps.captured(int(i)) for i in np.unique(events[MAP])}
        transactions = self.rows.transactions[:, : state.transactions]
        rows = SliceRows(self.rows.body, events, transactions)
        done = Slice(rows, maps, self._sources.all, self._files.all, of, self._continues)
        # The next one is likely to be like this one.
        most = state.most_bytes
        room = min(max(_SMALLEST, 2 * state.bytes), most + most // 8)
        self.rows = new_rows(
            room,
            max(_SMALLEST_TABLE, 2 * state.events),
            max(_SMALLEST_TABLE, 2 * state.transactions),
        )
        state.events = state.bytes = state.cells = state.transactions = 0
        state.first_event = state.first_byte = 0
        return done
