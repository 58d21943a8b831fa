"""Debezium's `transaction` blocks, and the messages for the begin and end of a transaction, in columns.

A change's block has its number among the messages of its transaction, and among those of its table there, both from 1.
A tombstone isn't counted, and an update that changed the key is two messages. Rows of snapshots and truncated tables
have no block.

Each transaction with a change of a captured table has a BEGIN and an END. END counts the messages by table, in the
order of Java's HashMap, which is Debezium's.

**Difference from Debezium**: a transaction without a change of a captured table has no messages. The journal doesn't
keep it.

Source: Debezium 3.6, "Transaction metadata".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.kafka.debezium.changed_rows import CREATE, DELETE, UPDATE, committed_us, operations
from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, OPTIONAL_LONG, field, struct
from pipeline.kafka.debezium.message_format import Block, BlockList, MessageFormat, MessagePairs, told_pairs
from pipeline.schema.table_schema import TableId
from pipeline.types.buffers import Flags, Longs

# Of a java.util.HashMap: how many buckets it has at first, and how many entries a bucket has when they're doubled.
_BUCKETS: Final = 16
_LOAD: Final = 0.75
_MASK: Final = 2**32 - 1

_STATUS: Final = pa.array(["BEGIN", "END"])
_NO_NUMBERS: Final = np.zeros(0, np.int64)
_NO_TEXTS: Final = pa.nulls(0, pa.string())
_NO_TIMES: Final = pa.nulls(0, pa.int64())


# What ChangedRows need of a changes file, by Parquet's names.
COLUMNS: Final = ("__op", "__scn", "__ordinal", "__gtid", "__commit_time", "__source.time", "__source.update")


@dataclass(frozen=True)
class ChangedRows:
    """Rows of all tables of complete transactions, table by table. All columns of rows have the same length.

    `table` is an index of `tables`. `scn` and `ordinal` are the journal's. `counted`: which rows are messages of a
    transaction. `ids` and `times` (µs since the epoch) are those of each transaction with such a row, by SCN: a large
    transaction's id for each row is more than a column of texts may have.
    """

    tables: tuple[TableId, ...]
    table: NDArray[np.int32]
    scn: Longs
    ordinal: Longs
    counted: Flags
    ids: pa.Array
    times: pa.Array

    @cached_property
    def in_order(self) -> Longs:
        """Returns the numbers of the counted rows, in the order of the stream."""
        counted = np.flatnonzero(self.counted)
        return counted[np.lexsort((self.ordinal[counted], self.scn[counted]))]

    @staticmethod
    def of(parts: Iterable[tuple[TableId, pa.RecordBatch]]) -> "ChangedRows":
        """Returns these rows of changes files, which have at least COLUMNS. It keeps no batch of them."""
        numbers: dict[TableId, int] = {}
        places = [_Places.of(numbers.setdefault(table, len(numbers)), rows) for table, rows in parts]
        of_first = np.concatenate([_NO_NUMBERS, *(each.scn[each.first] for each in places)])
        transactions = pa.array(np.unique(of_first, return_index=True)[1])
        return ChangedRows(
            tuple(numbers),
            np.repeat(
                np.array([each.table for each in places], np.int32),
                np.array([len(each.scn) for each in places], np.int64),
            ),
            np.concatenate([_NO_NUMBERS, *(each.scn for each in places)]),
            np.concatenate([_NO_NUMBERS, *(each.ordinal for each in places)]),
            np.concatenate([np.zeros(0, np.bool_), *(each.counted for each in places)]),
            pa.concat_arrays([_NO_TEXTS, *(each.ids for each in places)]).take(transactions),
            pa.concat_arrays([_NO_TIMES, *(each.times for each in places)]).take(transactions),
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of rows of a table. `first`: the first counted row of each SCN. `ids` and `times` are of these."""

    table: int
    scn: Longs
    ordinal: Longs
    counted: Flags
    first: Longs
    ids: pa.Array
    times: pa.Array

    @staticmethod
    def of(table: int, rows: pa.RecordBatch) -> "_Places":
        scn, ordinal = (np.array(rows.column(name), np.int64) for name in ("__scn", "__ordinal"))
        times = committed_us(rows)
        changed = np.isin(operations(rows), (CREATE, UPDATE, DELETE))
        counted = changed & np.asarray(times.is_valid())  # a repair's deletions are of no transaction
        places = np.flatnonzero(counted)
        first = places[np.unique(scn[places], return_index=True)[1]]
        at = pa.array(first)
        return _Places(table, scn, ordinal, counted, first, rows.column("__gtid").take(at), times.take(at))


@dataclass(frozen=True, slots=True)
class TransactionBlocks:
    """The content of rows' `transaction` blocks; `id` is null for a row without one."""

    id: pa.Array
    total_order: pa.Array
    collection_order: pa.Array

    @staticmethod
    def joined(parts: Sequence["TransactionBlocks"]) -> "TransactionBlocks":
        """Returns the blocks of all these rows, in their order."""
        return TransactionBlocks(
            *(
                pa.concat_arrays([getattr(part, name) for part in parts])
                for name in ("id", "total_order", "collection_order")
            )
        )

    def taken(self, rows: pa.Array) -> "TransactionBlocks":
        """Returns the blocks of these rows."""
        return TransactionBlocks(
            *(each.take(rows) for each in (self.id, self.total_order, self.collection_order))
        )

    def block(self) -> Block:
        """Returns the blocks' fields, by their names, and which rows have a block."""
        there = self.id.is_valid()
        orders = {"total_order": self.total_order, "data_collection_order": self.collection_order}
        none = pa.scalar(None, pa.int64())
        fields = {name: pc.if_else(there, each, none) for name, each in orders.items()}
        return Block({"id": self.id, **fields}, np.asarray(there))


class MessageOrders:
    """The number of each row among the messages of its transaction."""

    def __init__(self, rows: ChangedRows) -> None:
        self._first_scn = int(rows.scn.min()) if len(rows.scn) else 0
        total, of_table = _orders(rows)
        places = self._places(rows.scn, rows.ordinal)
        self._of: dict[TableId, tuple[Longs, Longs, Longs]] = {}
        for number, table in enumerate(rows.tables):
            own = np.flatnonzero((rows.table == number) & rows.counted)
            own = own[np.argsort(places[own], kind="stable")]
            self._of[table] = (places[own], total[own], of_table[own])

    def blocks(self, table: TableId, changes: pa.RecordBatch) -> TransactionBlocks:
        """Returns the blocks of rows of a table's changes file. Rows that aren't messages of one have none."""
        places, total, of_table = self._of.get(table, (_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS))
        wanted = self._places(
            *(np.asarray(changes.column(name), np.int64) for name in ("__scn", "__ordinal"))
        )
        at = np.searchsorted(places, wanted)
        found = at < len(places)
        found[found] = places[at[found]] == wanted[found]
        ids = pc.if_else(pa.array(found), changes.column("__gtid"), pa.scalar(None, pa.string()))
        rows = pa.array(at, mask=~found)
        return TransactionBlocks(
            ids, *(pc.fill_null(pa.array(each).take(rows), 0) for each in (total, of_table))
        )

    def _places(self, scn: Longs, ordinal: Longs) -> Longs:
        """Returns a number for each place in the stream, in its order. A run has less than 2 ** 31 SCNs."""
        return (scn - self._first_scn) * 2**32 + ordinal


def _orders(rows: ChangedRows) -> tuple[Longs, Longs]:
    """Returns each row's number in its transaction and among its table's rows there, from 1; 0 if not counted."""
    total, of_table = np.zeros(len(rows.scn), np.int64), np.zeros(len(rows.scn), np.int64)
    by_place = rows.in_order
    total[by_place] = _numbered(rows.scn[by_place])
    by_table = by_place[np.lexsort((rows.table[by_place], rows.scn[by_place]))]
    pairs = rows.scn[by_table] * len(rows.tables) + rows.table[by_table]
    of_table[by_table] = _numbered(pairs)
    return total, of_table


def transaction_messages(rows: ChangedRows, of: MessageFormat) -> MessagePairs:
    """Returns BEGIN and END of each transaction of these rows, in this order, by SCN."""
    by_place = rows.in_order
    scns, which, events = np.unique(rows.scn[by_place], return_inverse=True, return_counts=True)
    count = len(scns)
    both, ends = pa.array(np.repeat(np.arange(count), 2)), np.tile([False, True], count)
    ids = rows.ids.take(both)
    value = {
        "status": pa.DictionaryArray.from_arrays(pa.array(ends.astype(np.int8)), _STATUS),
        "id": ids,
        "event_count": pa.array(np.repeat(events, 2), mask=~ends),
        "data_collections": _collections(rows, by_place, which, ends),
        "ts_ms": pc.divide(rows.times.take(both), 1000),
    }
    return told_pairs(of, Block({"id": ids}), Block(value), (_KEY_SCHEMA, _VALUE_SCHEMA), 2 * count)


def _collections(rows: ChangedRows, by_place: Longs, which: Longs, ends: Flags) -> BlockList:
    """Returns each transaction's numbers of messages by table: a list at its END, of which `ends` has the place."""
    pairs, first, events = np.unique(
        which * len(rows.tables) + rows.table[by_place], return_index=True, return_counts=True
    )
    transaction, table = np.divmod(pairs, len(rows.tables))
    tables = np.bincount(transaction, minlength=len(ends) // 2)
    hashes = np.array([_hash(each.dotted) for each in rows.tables], np.int64)
    bucket = hashes[table] & (_buckets(tables)[transaction] - 1)
    order = np.lexsort((first, bucket, transaction))
    names = pa.array([each.dotted for each in rows.tables], pa.string())
    named = pa.DictionaryArray.from_arrays(pa.array(table[order]), names)
    items = Block({"data_collection": named, "event_count": pa.array(events[order])})
    sizes = np.where(ends, np.repeat(tables, 2), 0)
    return BlockList(items, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), ends)


def _numbered(groups: Longs) -> Longs:
    """Returns each row's number in its run of equal values, from 1."""
    index = np.arange(len(groups))
    begins = np.concatenate([[True], groups[1:] != groups[:-1]])[: len(groups)]
    return index - np.maximum.accumulate(np.where(begins, index, 0)) + 1


def _hash(text: str) -> int:
    """Returns HashMap's hash of a String's hash code."""
    code = 0
    units = text.encode("utf-16-le")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "little")) & _MASK
    return code ^ code >> 16


def _buckets(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many buckets a HashMap with this many entries has."""
    buckets = np.full(len(entries), _BUCKETS, np.int64)
    while (full := entries > buckets * _LOAD).any():
        buckets[full] *= 2
    return buckets


_KEY_SCHEMA: Final = struct(
    [field(CONNECT_STRING, "id")], name="io.debezium.connector.common.TransactionMetadataKey", version=1
)
_COLLECTION: Final = struct(
    [field(CONNECT_STRING, "data_collection"), field(LONG, "event_count")],
    optional=True,
    name="event.collection",
    version=1,
)
_VALUE_SCHEMA: Final = struct(
    [
        field(CONNECT_STRING, "status"),
        field(CONNECT_STRING, "id"),
        field(OPTIONAL_LONG, "event_count"),
        field({"type": "array", "items": _COLLECTION, "optional": True}, "data_collections"),
        field(LONG, "ts_ms"),
    ],
    name="io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)
