"""A model of the BinlogReader: it goes through the log of one server from a position on, and gives it out in slices."""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

import pyarrow as pa

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import (
    DdlRead,
    LogAdvanced,
    ReadingPaused,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.inboxes import ToSchemaVerifier
from pipeline.messages.row_images import IMAGE_FIELDS, SOURCE_TYPE, ImageKind, TableImages, TableUnreadable
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, TableMap
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.field_types import Storage
from tests.simulation.server import Server, Transaction
from tests.simulation.world import World

_ABSENT = IMAGE_FIELDS.field("absent").type


class Image(NamedTuple):
    """A row image: the index of its change in its transaction, its ordinal there, and what it is."""

    change: int
    ordinal: int
    table: TableId
    kind: ImageKind
    row: tuple[int, int]


def images(transaction: Transaction) -> Iterator[Image]:
    """The row images of a transaction, as the log has them."""
    ordinal = 0
    for i, change in enumerate(transaction.changes):
        updates = change.before is not None and change.after is not None
        kinds = (
            (ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER)
            if updates
            else (ImageKind.DELETE, ImageKind.INSERT)
        )
        for kind, row in zip(kinds, (change.before, change.after), strict=True):
            if row:
                yield Image(i, ordinal, change.table, kind, row)
                ordinal += 1


class Reader:
    """Of the server's log, which grows, `at` transactions are behind, and of the next one `given` changes."""

    def __init__(self, server: Server, position: GtidSet, world: World, random: Random) -> None:
        self.server, self.log, self._world, self._random = server, server.log, world, random
        self._position = position
        self.at = 0
        self.given = 0
        self.paused = False
        self._pausing = False

        self._pause_at: Coordinates | None = None
        self._place: Coordinates | None = None

    @property
    def done(self) -> bool:
        """Whether all of the log has been read."""
        return self.at == len(self.log)

    def pause(self, at: Coordinates | None) -> None:
        """Take the order to pause, there or soon; in the latter case slices may still come."""
        self._pause_at, self._pausing = at, at is None

    def resume(self) -> None:
        """Take the order to go on."""
        self._pausing = self.paused = False

    def read(self) -> ToSchemaVerifier | None:
        """What comes next: a slice, a part of a transaction, a statement, a heartbeat, that reading has paused."""
        if self.paused:
            return None
        if self._pausing and self._random.random() < 0.5:
            self._pausing, self.paused = False, True
            return ReadingPaused()
        if self._is_there(self._place):
            self._pause_at, self.paused = None, True
            return ReadingPaused()
        return self._part() or self._slice()

    def _is_there(self, place: Coordinates | None) -> bool:
        """Whether it's to pause at this place."""
        return self._pause_at is not None and place is not None and place.reaches(self._pause_at)

    def _part(self) -> TransactionPartRead | None:
        if self.done or self._random.random() >= self._world.parts:
            return None
        transaction = self.log[self.at]
        if transaction.gtid in self._position or len(transaction.changes) <= self.given:
            return None
        begin, self.given = self.given, self._random.randint(self.given + 1, len(transaction.changes))
        some = [(0, image) for image in images(transaction) if begin <= image.change < self.given]
        return TransactionPartRead(
            transaction.gtid, transaction.time, _tables(some, transaction, self._world, self._readable(begin))
        )

    def _readable(self, given: int) -> bool:
        return not given or self._random.random() >= self._world.unreadable

    def _slice(self) -> ToSchemaVerifier | None:
        slice_: list[Transaction] = []
        for transaction in self.log[self.at : self.at + self._random.choice((1, 1, 2, 4))]:
            if slice_ and (transaction.statement or transaction.schemas is not slice_[-1].schemas):
                break
            slice_.append(transaction)
            if transaction.statement or self._is_there(transaction.end):
                break
        self.at += len(slice_)
        fresh = [t for t in slice_ if t.gtid not in self._position]
        self._place = slice_[-1].end if fresh else self.server.end if self.done else self.log[self.at - 1].end
        if not fresh:
            return LogAdvanced(self._place)
        last = fresh[-1]
        if last.statement:
            return DdlRead(last.gtid, last.time, "shop", last.statement.text, last.end)
        given, self.given = self.given, 0
        found = [
            (i, image)
            for i, transaction in enumerate(fresh)
            for image in images(transaction)
            if i or image.change >= given
        ]
        run = Transactions.of((transaction.gtid, transaction.time) for transaction in fresh)
        return TransactionsRead(run, _tables(found, last, self._world, self._readable(given)), last.end)


def _tables(
    found: Sequence[tuple[int, Image]], under: Transaction, world: World, readable: bool
) -> tuple[TableImages | TableUnreadable, ...]:
    """The images, each with the index of its transaction, by their tables."""
    by_table: dict[TableId, list[tuple[int, Image]]] = {}
    for i, image in found:
        by_table.setdefault(image.table, []).append((i, image))
    return tuple(
        _images(_map(under.schemas[table], world.full_metadata), _fields(of_table), _rows(of_table, under))
        if readable
        else TableUnreadable(table, "a row of it can't be decoded")
        for table, of_table in by_table.items()
    )


def _images(table_map: TableMap, fields: pa.RecordBatch, rows: pa.RecordBatch) -> TableImages:
    return TableImages(table_map, fields, rows, fields.nbytes + rows.nbytes)


def _fields(found: Sequence[tuple[int, Image]]) -> pa.RecordBatch:
    fields = [
        pa.array([image.kind for _, image in found], pa.int8()),
        pa.array([i for i, _ in found], pa.int32()),
        pa.array([image.ordinal for _, image in found], pa.int32()),
        pa.nulls(len(found), _ABSENT),
        pa.nulls(len(found), SOURCE_TYPE),
    ]
    return pa.RecordBatch.from_arrays(fields, schema=IMAGE_FIELDS)


def _rows(found: Sequence[tuple[int, Image]], under: Transaction) -> pa.RecordBatch:
    width = len(under.schemas[found[0][1].table].columns)
    columns = [pa.array([image.row[n] for _, image in found], pa.int64()) for n in range(2)]
    columns += [pa.nulls(len(found), pa.int64())] * (width - 2)
    return pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(width)])


@cache
def _map(schema: TableSchema, full: bool) -> TableMap:
    columns = schema.columns
    return TableMap(
        schema.table,
        tuple(column.type for column in columns),
        (Storage(8, 0),) * len(columns),
        tuple(column.nullable for column in columns),
        FullMetadata(tuple(column.name for column in columns), schema.key) if full else MinimalMetadata(),
    )
