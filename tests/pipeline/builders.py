"""A small vocabulary for the tests of the coordinator and its parts.

    capture = Capture(ORDERS)                    # position a:1-5, the stream at offset 10, up to four windows
    order = capture.begin(ORDERS, end=9)         # a snapshot is requested and planned: the order for its first chunk
    capture.give(passed(20, wrote("a:6", update(1))))
    capture.give(read(order, 1, 2, low="a:1-5", high=15))
    assert capture.stream == ["orders a:6", "orders rows 2"]

Servers are letters (`a:1-5,b:7,a:tag:1`), positions are offsets in one log file, rows are their keys.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from pipeline.coordinator import step as coordinator
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Order, Overlapping, State, WindowMode
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.journal.change_rows import ChangeRun, change_tables
from pipeline.messages import binlog as log_messages
from pipeline.messages import chunks, inboxes, row_images
from pipeline.messages import journal as journal_messages
from pipeline.messages import signals as signal_messages
from pipeline.messages.changes import ChangesVerified, SchemaChanged, TransactionPartVerified
from pipeline.schema.row_keys import Key
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.signals.signal import ExecuteSnapshot, Filter, StopSnapshot
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import TableSnapshot
from pipeline.snapshot.watermark import High
from pipeline.types.column_types import Integer

T = TypeVar("T")

COMMIT_TIME = 1_700_000_000_000_000

# Chunks of two rows, which take as long as they should.
LIMITS = ChunkLimits(chunk_rows=2, chunk_us=1000)

# Bytes of each row.
ROW = 100


# Servers, transactions, places


def gtids(text: str) -> GtidSet:
    """The set that `a:1-5,b:7` describes, a letter being a server."""
    return GtidSet.parse(_with_uuids(text))


def gtid(text: str) -> Gtid:
    """The transaction that `a:6` or `a:tag:6` names."""
    return Gtid.parse(_with_uuids(text))


def place(offset: int, file: int = 1) -> Coordinates:
    """A place in the server's log."""
    return Coordinates(f"binlog.{file:06}", offset)


def _with_uuids(text: str) -> str:
    return re.sub(
        r"(^|,)([a-f])(?=:)", lambda m: f"{m[1]}00000000-0000-0000-0000-00000000000{m[2]}", text.strip()
    )


def _short(name: Gtid) -> str:
    return str(name).removeprefix("00000000-0000-0000-0000-00000000000")


# Tables


def table(name: str, *columns: str, key: tuple[int, ...] = (0,)) -> TableSchema:
    """Returns the table `shop.<name>` of BIGINT columns: by default `id` (its key) and `value`."""
    kinds = [Column(column, Integer(8, unsigned=False), i not in key) for i, column in enumerate(columns)]
    return TableSchema(TableId("shop", name), tuple(kinds), key) if kinds else table(name, "id", "value")


def altered(schema: TableSchema) -> TableSchema:
    """The table with a column more."""
    return replace(schema, columns=(*schema.columns, Column("added", Integer(8, unsigned=False), True)))


def primary_index(schema: TableSchema) -> ChunkIndex:
    """The walk along a primary key all of whose columns are ascending, and none of which is text."""
    return ChunkIndex("PRIMARY", schema.key, (False,) * len(schema.key), (None,) * len(schema.key))


ORDERS = table("orders")
ITEMS = table("items")
USERS = table("users")


def rows(schema: TableSchema, keys: Iterable[int]) -> pa.RecordBatch:
    """Rows with these values in the first column, and nothing in the others."""
    first = pa.array(list(keys), pa.int64())
    others = [pa.nulls(len(first), pa.int64()) for _ in schema.columns[1:]]
    return pa.RecordBatch.from_arrays([first, *others], schema=schema.arrow)


# The log


def lacks(schema: TableSchema, names: Collection[str]) -> bytes | None:
    """Returns `absent` of `row_images.IMAGE_FIELDS` for an image without these columns."""
    bits = sum(1 << i for i, column in enumerate(schema.columns) if column.name in names)
    return bits.to_bytes((len(schema.columns) + 7) // 8, "little") if bits else None


@dataclass(frozen=True)
class Image:
    """A row image, its row known by its key."""

    schema: TableSchema
    kind: row_images.ImageKind
    key: int


def insert(key: int, schema: TableSchema = ORDERS) -> list[Image]:
    """An inserted row."""
    return [Image(schema, row_images.ImageKind.INSERT, key)]


def delete(key: int, schema: TableSchema = ORDERS) -> list[Image]:
    """A deleted row."""
    return [Image(schema, row_images.ImageKind.DELETE, key)]


def update(key: int, to: int | None = None, schema: TableSchema = ORDERS) -> list[Image]:
    """A changed row, which has the key `to` afterwards (or the same)."""
    after = key if to is None else to
    return [
        Image(schema, row_images.ImageKind.UPDATE_BEFORE, key),
        Image(schema, row_images.ImageKind.UPDATE_AFTER, after),
    ]


def wrote(name: str, *changes: list[Image]) -> tuple[Gtid, list[Image]]:
    """A transaction and what it changed."""
    return gtid(name), [image for change in changes for image in change]


def passed(end: int, *transactions: tuple[Gtid, list[Image]]) -> ChangesVerified:
    """A slice of the log: these transactions, the last of which ends at the place."""
    seen = dict.fromkeys(image.schema for _, images in transactions for image in images)
    run = Transactions.of((name, COMMIT_TIME) for name, _ in transactions)
    tables = tuple(_changes(schema, [images for _, images in transactions]) for schema in seen)
    return ChangesVerified(run, tables, place(end))


def part(name: str, *changes: list[Image]) -> TransactionPartVerified:
    """Returns a part of a transaction's changes, before its end."""
    of_it, images = wrote(name, *changes)
    seen = dict.fromkeys(image.schema for image in images)
    return TransactionPartVerified(of_it, COMMIT_TIME, tuple(_changes(schema, [images]) for schema in seen))


def _changes(schema: TableSchema, transactions: list[list[Image]]) -> row_images.TableChanges:
    found = [
        (image, index, ordinal)
        for index, images in enumerate(transactions)
        for ordinal, image in enumerate(images)
        if image.schema == schema
    ]
    fields = [
        pa.array([image.kind for image, _, _ in found], pa.int8()),
        pa.array([index for _, index, _ in found], pa.int32()),
        pa.array([ordinal for _, _, ordinal in found], pa.int32()),
        pa.nulls(len(found), row_images.IMAGE_FIELDS.field("absent").type),
        pa.nulls(len(found), row_images.SOURCE_TYPE),
    ]
    images = pa.RecordBatch.from_arrays(fields, schema=row_images.IMAGE_FIELDS)
    return row_images.TableChanges.unshared(
        schema, images, rows(schema, [image.key for image, _, _ in found])
    )


def decoded(
    tables: Iterable[row_images.TableImages | row_images.TableUnreadable],
) -> list[row_images.TableImages]:
    """Returns the images of a slice without undecodable ones."""
    images = [images for images in tables if isinstance(images, row_images.TableImages)]
    assert images == list(tables)
    return images


def statement(name: str, end: int, *schemas: TableSchema) -> SchemaChanged:
    """A statement that may have changed these tables."""
    tables = frozenset(schema.table for schema in schemas)
    return SchemaChanged(gtid(name), tables, "ALTER TABLE", place(end))


def change_table(segment: int, *parts: journal_messages.ChangePart, before_images: bool = False) -> pa.Table:
    """The rows of these parts, of one schema, as a changes file has them."""
    (found,) = change_tables(segment, [ChangeRun(parts, before_images)])
    return found


# Signals and the selector's answers


def execute(id_: str, *schemas: TableSchema, **asked: Any) -> signal_messages.SignalReceived:
    """Asks for a snapshot of these tables."""
    return signal_messages.SignalReceived(ExecuteSnapshot(id_, _named(schemas), **asked))


def some(schema: TableSchema) -> tuple[Filter, ...]:
    """A condition on the rows of this table, as a signal has it."""
    return (Filter(_named([schema]), "id > 3"),)


def stop(id_: str, *schemas: TableSchema) -> signal_messages.SignalReceived:
    """Asks that the snapshots of these tables stop."""
    return signal_messages.SignalReceived(StopSnapshot(id_, _named(schemas)))


def _named(schemas: Iterable[TableSchema]) -> TableFilter:
    return TableFilter(tuple(re.escape(str(schema.table)) for schema in schemas))


def planned(
    schema: TableSchema, end: int | None = 9, splits: Iterable[int] = (), high: int | High = 10
) -> chunks.TablePlanned:
    """The table's plan: its last key, None where it's empty, and the keys at which it's divided."""
    found = (
        chunks.WithoutRows()
        if end is None
        else chunks.TableRanges((end,), tuple((key,) for key in splits), expected=7)
    )
    return chunks.TablePlanned(schema, primary_index(schema), found, _high(high))


def read(
    order: chunks.ReadChunk | chunks.ReadByKeys,
    *keys: int,
    low: str = "a:1-5",
    high: int | High = 10,
    took: int = 1000,
) -> chunks.ChunkRead:
    """Returns the order's chunk: rows with these keys, between the watermarks. A full chunk has more after it."""
    more = isinstance(order, chunks.ReadChunk) and len(keys) == order.limit
    upto: Key | None = (keys[-1],) if more else None
    return chunks.ChunkRead(
        order.chunk, gtids(low), rows(order.schema, keys), upto, _high(high), took, ROW * len(keys), len(keys)
    )


def _high(high: int | High) -> High:
    return place(high) if isinstance(high, int) else high


# The coordinator


def of(kind: type[T], orders: Iterable[object]) -> list[T]:
    """Those of the orders that are of this kind."""
    return [order for order in orders if isinstance(order, kind)]


class Capture:
    """A coordinator, and all that it has ordered since its start."""

    state: State

    def __init__(
        self,
        *schemas: TableSchema,
        mode: WindowMode | None = None,
        checkpoint: Checkpoint | None = None,
        limits: ChunkLimits = LIMITS,
    ) -> None:
        known = {schema.table: schema for schema in schemas}
        begin_at = checkpoint or Checkpoint(gtids("a:1-5"), schemas=known)
        self.orders: list[Order] = []
        self.state, self.first_orders = coordinator.start(begin_at, limits, mode or Overlapping(4))
        self.orders += self.first_orders
        self.give(log_messages.LogAdvanced(place(10)))

    def give(self, *messages: inboxes.ToWatermarkCoordinator) -> tuple[Order, ...]:
        """The orders that follow from the messages."""
        given: tuple[Order, ...] = ()
        for message in messages:
            self.state, orders = coordinator.step(self.state, message)
            self.orders += orders
            given += orders
        return given

    def begin(self, schema: TableSchema, end: int = 9, signal: str = "s1") -> chunks.ReadChunk:
        """Ask for a snapshot of the table, plan it, and give the order for its first chunk."""
        self.give(execute(signal, schema))
        return self.chunk(self.give(planned(schema, end)))

    @staticmethod
    def chunk(orders: Iterable[Order]) -> chunks.ReadChunk:
        """Returns the one chunk in these orders."""
        (order,) = of(chunks.ReadChunk, orders)
        return order

    @staticmethod
    def plans(orders: Iterable[Order]) -> list[TableId]:
        """Returns the tables whose plan these orders request."""
        return [order.table for order in of(chunks.PlanTable, orders)]

    def table(self, schema: TableSchema, snapshot: str = "s1") -> TableSnapshot:
        """The state of a table in a snapshot."""
        (found,) = [s for s in self.checkpoint.snapshots if s.id == snapshot]
        return found.tables[schema.table]

    @property
    def checkpoint(self) -> Checkpoint:
        """What's durable now."""
        return self.state.checkpoint

    @property
    def windows(self) -> list[str]:
        """The open windows: their tables and states, as `orders reading`."""
        return [f"{w.order.chunk.table.name} {w.wire}" for w in self.state.windows]

    @property
    def appends(self) -> list[journal_messages.Append]:
        """All appends, in order."""
        return of(journal_messages.Append, self.orders)

    @property
    def parts(self) -> list[journal_messages.ChangePart | journal_messages.ChunkPart]:
        """All that was put into the stream, in order: rows that are kept come with the append that they wait for."""
        put: list[journal_messages.ChangePart | journal_messages.ChunkPart] = []
        kept: list[journal_messages.ChangePart | journal_messages.ChunkPart] = []
        for order in self.orders:
            match order:
                case journal_messages.AppendRows(parts):
                    kept += parts
                case journal_messages.Append(parts, withdrawn=withdrawn):
                    put += [part for part in kept if _table_of(part) not in withdrawn]
                    put += parts
                    kept = []
                case _:
                    pass
        return put

    @property
    def stream(self) -> list[str]:
        """The stream: `orders a:6 a:7` for changes of a table, `orders rows 1 2` for a chunk's rows."""
        return [_told(part) for part in self.parts]

    @property
    def answers(self) -> list[signal_messages.SignalOutcome]:
        """The answers to signals, in order."""
        return [answer for append in self.appends for answer in append.answers]


def _table_of(part: journal_messages.ChangePart | journal_messages.ChunkPart) -> TableId:
    return part.changes.schema.table if isinstance(part, journal_messages.ChangePart) else part.schema.table


def _told(part: journal_messages.ChangePart | journal_messages.ChunkPart) -> str:
    match part:
        case journal_messages.ChangePart(changes, transactions):
            indices = dict.fromkeys(changes.images["transaction"].to_pylist())
            names = " ".join(_short(transactions.gtid(index)) for index in indices)
            return f"{changes.schema.table.name} {names}"
        case journal_messages.ChunkPart(_, schema, begins_scan=True):
            return f"{schema.table.name} begins"
        case journal_messages.ChunkPart(_, schema, found):
            return f"{schema.table.name} rows {' '.join(map(str, found[0].to_pylist()))}"
