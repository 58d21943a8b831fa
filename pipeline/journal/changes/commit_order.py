"""The rows of a segment's files in the order of commits, and where they may be cut.

A *lane* is the files of one table version, one after the other: its rows are in the order of the stream. The lanes are
merged in columns. Each step takes of every lane what comes before the least end of a batch after which its lane has
more. So no more than one batch of each lane is in memory, and no row becomes a Python object.

A cut is between transactions. Only a transaction that is larger than a batch comes in several pieces. Rows keep no part
that has none of them, so that a piece's batches go with it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.buffers import Longs

# What the order depends on.
ORDERED_BY: Final = ("__op", "__scn", "__ordinal")


@dataclass(frozen=True, slots=True)
class LaneBatch:
    """Rows of a lane that follow each other. `is_last`: the lane has no more."""

    rows: pa.RecordBatch
    is_last: bool


@dataclass(frozen=True, slots=True)
class LaneRows:
    """Rows of a lane, by its number."""

    lane: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Rows of several lanes in the order of commits: `order` has the places in the parts end to end, `scn` theirs."""

    parts: tuple[LaneRows, ...]
    order: Longs
    scn: Longs

    def __len__(self) -> int:
        return len(self.order)

    @property
    def nbytes(self) -> int:
        """Returns how many bytes the parts have."""
        return sum(part.rows.nbytes for part in self.parts)

    def between(self, begin: int, end: int) -> "OrderedRows":
        """Returns these of the rows, without the parts that have none of them."""
        if begin == 0 and end == len(self):
            return self
        order, scn = self.order[begin:end], self.scn[begin:end]
        sizes = np.array([part.rows.num_rows for part in self.parts], np.int64)
        part_of = np.searchsorted(np.cumsum(sizes), order, "right")
        used = np.bincount(part_of, minlength=len(sizes)) > 0
        parts = tuple(part for part, is_used in zip(self.parts, used, strict=True) if is_used)
        unused_before = np.cumsum(np.where(used, 0, sizes))
        return OrderedRows(parts, order - unused_before[part_of], scn)

    def last_copied(self) -> "OrderedRows":
        """Returns the last row, copied, so that it keeps nothing of the batch that it comes from."""
        last = self.between(len(self) - 1, len(self))
        (part,) = last.parts
        rows = part.rows.take(pa.array(last.order))
        return OrderedRows((LaneRows(part.lane, rows),), np.zeros(1, np.int64), last.scn)

    def taken(self) -> Iterator[tuple[LaneRows, Longs]]:
        """Returns the rows of each part, and the place of each row in the order."""
        begin = 0
        for part in self.parts:
            end = begin + part.rows.num_rows
            places = np.flatnonzero((self.order >= begin) & (self.order < end))
            if len(places):
                yield LaneRows(part.lane, _take(part.rows, self.order[places] - begin)), places
            begin = end


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows that follow each other. With them all through the SCN `complete` has come; None amid a transaction."""

    rows: OrderedRows
    complete: int | None


def merge_lanes(lanes: Sequence[Iterator[LaneBatch]]) -> Iterator[OrderedRows]:
    """Returns the rows of all lanes, which have the columns ORDERED_BY, in the order of commits."""
    heads: dict[int, _Head] = {}
    while True:
        for lane, batches in enumerate(lanes):
            if lane not in heads:
                batch = next((batch for batch in batches if batch.rows.num_rows), None)
                if batch is not None:
                    heads[lane] = _Head(batch)
        if not heads:
            return
        until = min((head.last for head in heads.values() if not head.is_last), default=None)
        yield _merged({lane: head.pop(until) for lane, head in heads.items()})
        heads = {lane: head for lane, head in heads.items() if head.left}


def cut_transactions(ordered: Iterable[OrderedRows], most: int, most_bytes: int) -> Iterator[CutRows]:
    """Returns the rows in pieces that end with transactions, of about `most` rows.

    A transaction that is larger than that, or than `most_bytes`, comes in several. Small pieces come together.
    """
    together, count, size = list[CutRows](), 0, 0
    for piece in _cut(ordered, most, most_bytes):
        own = piece.rows.nbytes
        if together and (count + len(piece.rows) > most or size + own > most_bytes):
            yield _together(together)
            together, count, size = [], 0, 0
        together.append(piece)
        count, size = count + len(piece.rows), size + own
        # What is large enough waits for no other, which would be held besides.
        if 2 * count >= most or 2 * size >= most_bytes:
            yield _together(together)
            together, count, size = [], 0, 0
    if together:
        yield _together(together)


def lane_of_each(rows: OrderedRows) -> Longs:
    """Returns the lane of each row."""
    ends = np.cumsum([part.rows.num_rows for part in rows.parts])
    lanes = np.array([part.lane for part in rows.parts])
    found: Longs = lanes[np.searchsorted(ends, rows.order, "right")].astype(np.int64)
    return found


def count_by_table(rows: OrderedRows, lanes: Sequence[TableSchema]) -> Counter[TableId]:
    """Returns how many rows there are of each table."""
    if len(rows.parts) == 1:
        return Counter({lanes[rows.parts[0].lane].table: len(rows)})
    counts = np.bincount(lane_of_each(rows), minlength=len(lanes)).tolist()
    found = Counter[TableId]()
    for schema, count in zip(lanes, counts, strict=True):
        found[schema.table] += count
    return +found


def of_one_version(rows: OrderedRows, lanes: Sequence[TableSchema]) -> Iterable[OrderedRows]:
    """Returns the rows in pieces in which each table has one version."""
    if len({schema.table for schema in lanes}) == len(lanes):
        return (rows,)
    lane_of = lane_of_each(rows)
    begin, current, pieces = 0, dict[TableId, int](), []
    for at in (0, *(np.flatnonzero(np.diff(lane_of)) + 1).tolist()):
        lane = int(lane_of[at])
        if current.setdefault(lanes[lane].table, lane) != lane:
            pieces.append(rows.between(begin, at))
            begin, current = at, {lanes[lane].table: lane}
    return (*pieces, rows.between(begin, len(rows)))


def _cut(ordered: Iterable[OrderedRows], most: int, most_bytes: int) -> Iterator[CutRows]:
    held: OrderedRows | None = None
    for rows, is_last in _with_end(ordered):
        left = rows
        if held is not None:
            own = int(np.searchsorted(rows.scn, held.scn[0], "right"))
            held, left = _joined(held, rows.between(0, own)), rows.between(own, len(rows))
            if len(left):
                yield CutRows(held, int(held.scn[0]))
            elif len(held) > most or (len(held) > 1 and held.nbytes > most_bytes):
                # The last row stays, so that there is one with which the transaction's end can come.
                yield CutRows(held.between(0, len(held) - 1), None)
                held = held.last_copied()
        if len(left):
            begins = len(left) if is_last else int(np.searchsorted(left.scn, left.scn[-1]))
            yield from _pieces(left.between(0, begins), most)
            held = left.between(begins, len(left)) if begins < len(left) else None
    if held is not None:
        yield CutRows(held, int(held.scn[0]))


def _with_end(ordered: Iterable[OrderedRows]) -> Iterator[tuple[OrderedRows, bool]]:
    """Returns each of the rows, and whether they are the last."""
    before: OrderedRows | None = None
    for rows in ordered:
        if before is not None:
            yield before, False
        before = rows
    if before is not None:
        yield before, True


def _pieces(rows: OrderedRows, most: int) -> Iterator[CutRows]:
    begin = 0
    while begin < len(rows):
        end = len(rows)
        if begin + most < end:
            end = int(np.searchsorted(rows.scn, rows.scn[begin + most]))
            if end <= begin:
                end = int(np.searchsorted(rows.scn, rows.scn[begin], "right"))
        yield CutRows(rows.between(begin, end), int(rows.scn[end - 1]))
        begin = end


class _Head:
    """What is in hand of a lane. A snapshot's rows come after the changes through their SCN."""

    def __init__(self, batch: LaneBatch) -> None:
        self.is_last: Final = batch.is_last
        self._rows = rows = batch.rows
        scn = rows.column("__scn").to_numpy()
        is_read = pc.equal(rows.column("__op"), "r").to_numpy(zero_copy_only=False)
        self._stage: Longs = 2 * scn + is_read
        # Each chunk counts from 0 again; the order of two chunks' rows is that of their file.
        self._ordinal: Longs = np.where(is_read, 0, rows.column("__ordinal").to_numpy()).astype(np.int64)
        self._at = 0

    @property
    def last(self) -> tuple[int, int]:
        return int(self._stage[-1]), int(self._ordinal[-1])

    @property
    def left(self) -> bool:
        return self._at < len(self._stage)

    def pop(self, until: tuple[int, int] | None) -> tuple[pa.RecordBatch, Longs, Longs]:
        """Returns what is left through this stage and ordinal, all of it without any."""
        end = len(self._stage)
        if until is not None:
            stage, ordinal = until
            begin = int(np.searchsorted(self._stage, stage))
            end = int(np.searchsorted(self._stage, stage, "right"))
            end = begin + int(np.searchsorted(self._ordinal[begin:end], ordinal, "right"))
        first, self._at = self._at, max(self._at, end)
        rows = self._rows.slice(first, self._at - first)
        return rows, self._stage[first : self._at], self._ordinal[first : self._at]


def _merged(popped: dict[int, tuple[pa.RecordBatch, Longs, Longs]]) -> OrderedRows:
    kept = {lane: each for lane, each in popped.items() if each[0].num_rows}
    parts = tuple(LaneRows(lane, rows) for lane, (rows, _, _) in kept.items())
    stage = np.concatenate([each for _, each, _ in kept.values()])
    if len(kept) == 1:
        return OrderedRows(parts, np.arange(len(stage)), stage >> 1)
    order = np.lexsort((np.concatenate([each for _, _, each in kept.values()]), stage))
    return OrderedRows(parts, order, stage[order] >> 1)


def _joined(one: OrderedRows, other: OrderedRows) -> OrderedRows:
    if not len(other):
        return one
    count = sum(part.rows.num_rows for part in one.parts)
    return OrderedRows(
        one.parts + other.parts,
        np.concatenate([one.order, other.order + count]),
        np.concatenate([one.scn, other.scn]),
    )


def _together(pieces: Sequence[CutRows]) -> CutRows:
    """Returns the rows of pieces that follow each other as one piece. It has one part for each lane."""
    if len(pieces) == 1:
        return pieces[0]
    of_lane: dict[int, list[tuple[pa.RecordBatch, Longs]]] = {}
    count = 0
    for piece in pieces:
        for part, places in piece.rows.taken():
            of_lane.setdefault(part.lane, []).append((part.rows, places + count))
        count += len(piece.rows)
    order, parts, begin = np.empty(count, np.int64), list[LaneRows](), 0
    for lane, taken in of_lane.items():
        parts.append(LaneRows(lane, pa.concat_batches([rows for rows, _ in taken])))
        end = begin + parts[-1].rows.num_rows
        order[np.concatenate([places for _, places in taken])] = np.arange(begin, end)
        begin = end
    scn = np.concatenate([piece.rows.scn for piece in pieces])
    return CutRows(OrderedRows(tuple(parts), order, scn), pieces[-1].complete)


def _take(rows: pa.RecordBatch, places: Longs) -> pa.RecordBatch:
    if places[-1] - places[0] == len(places) - 1:
        return rows.slice(int(places[0]), len(places))
    return rows.take(pa.array(places))
