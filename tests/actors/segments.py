"""Segments for tests of the journal: the n-th holds the numbers 10 n to 10 n + 9, and the n-th checkpoint."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from actors.journal.store import JournalStore
from pipeline.config.column_protection import UNPROTECTED
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.journal import segment as journal
from pipeline.journal.entry import Entry
from pipeline.messages.journal import Append, ChangePart, ChunkPart
from pipeline.messages.row_images import IMAGE_FIELDS, SOURCE_TYPE, TableChanges
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import ChunkId
from pipeline.types.column_types import Integer

SOURCE = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
ITEMS = TableSchema(
    TableId("shop", "items"), (Column("id", Integer(8, unsigned=False), nullable=False),), key=(0,)
)
ROWS = 10
COMMIT_TIME = 1_700_000_000_000_000


def position(number: int) -> GtidSet:
    """All through the n-th append."""
    return GtidSet.parse(f"{SOURCE}:1-{ROWS * (number + 1)}")


def moved(number: int, answers: tuple[SignalOutcome, ...] = ()) -> Append:
    """The n-th append of those that have a position only."""
    return Append((), Checkpoint(position(number), scn=ROWS * (number + 1)), answers)


def append(number: int, chunk: bool = False) -> Append:
    """The n-th append: its numbers as changes of one transaction each, or also as a chunk of a first snapshot."""
    ids = np.arange(ROWS * number, ROWS * (number + 1))
    arrays = [
        pa.array(np.zeros(ROWS, np.int8)),
        pa.array(np.arange(ROWS, dtype=np.int32)),
        pa.array(np.zeros(ROWS, np.int32)),
        pa.nulls(ROWS, IMAGE_FIELDS.field("absent").type),
        pa.nulls(ROWS, SOURCE_TYPE),
    ]
    rows = pa.RecordBatch.from_arrays([pa.array(ids)], schema=ITEMS.arrow)
    changes = TableChanges.unshared(ITEMS, pa.RecordBatch.from_arrays(arrays, schema=IMAGE_FIELDS), rows)
    times = np.full(ROWS, COMMIT_TIME)
    transactions = Transactions((SOURCE,), np.zeros(ROWS, np.int32), ids + 1, times, times)
    change_part = ChangePart(changes, transactions, first_scn=ROWS * number + 1)
    chunk_id = ChunkId("s1", ITEMS.table, number)
    high = Coordinates("binlog.000001", 4)
    chunk_part = ChunkPart(chunk_id, ITEMS, rows, position(number), high, scn=0, first=True)
    return Append((change_part, chunk_part) if chunk else (change_part,), moved(number).checkpoint)


def scattered(number: int, rows: int) -> Append:
    """The n-th append, of one chunk with so many rows of 8 bytes that no compression makes smaller."""
    ids = np.random.default_rng(number).integers(0, 2**62, rows)
    batch = pa.RecordBatch.from_arrays([pa.array(ids)], schema=ITEMS.arrow)
    high = Coordinates("binlog.000001", 4)
    chunk = ChunkPart(
        ChunkId("s1", ITEMS.table, number), ITEMS, batch, position(number), high, scn=0, first=True
    )
    return Append((chunk,), moved(number).checkpoint)


def part(number: int, begin: int, end: int, schema: TableSchema = ITEMS) -> ChangePart:
    """Returns the numbers 10 n + `begin` to before 10 n + `end`, as changes of one transaction after the (n-1)-th
    append. Columns after the first are null."""
    ids = np.arange(ROWS * number + begin, ROWS * number + end)
    images = {"kind": ids * 0, "transaction": ids * 0, "ordinal": np.arange(begin, end)}
    arrays = [pa.array(values).cast(IMAGE_FIELDS.field(name).type) for name, values in images.items()]
    arrays += [pa.nulls(len(ids), IMAGE_FIELDS.field(name).type) for name in ("absent", "source")]
    others = (pa.nulls(len(ids), field.type) for field in list(schema.arrow)[1:])
    rows = pa.RecordBatch.from_arrays([pa.array(ids), *others], schema=schema.arrow)
    changes = TableChanges.unshared(schema, pa.RecordBatch.from_arrays(arrays, schema=IMAGE_FIELDS), rows)
    transaction = Transactions.of([(Gtid(SOURCE, ROWS * number + 1), COMMIT_TIME)])
    return ChangePart(changes, transaction, first_scn=ROWS * number + 1)


def seal(store: JournalStore, number: int, content: int | None = None) -> Entry:
    """Seal the n-th append, with a chunk, as the n-th segment, after half of the changes are written ahead.

    `content`: another append in its place.
    """
    whole = append(number if content is None else content, chunk=True)
    changes, chunk = whole.parts
    assert isinstance(changes, ChangePart)
    ahead = store.write(
        number, journal.segment_tables(number, [_cut(changes, 0, ROWS // 2)], (), UNPROTECTED)
    )
    rest = store.write(
        number,
        journal.segment_tables(number, [_cut(changes, ROWS // 2, ROWS), chunk], (), UNPROTECTED),
        len(ahead),
    )
    before = moved(number - 1).checkpoint if number > 1 else None
    entry = journal.seal(number, [whole], (*ahead, *rest), before, COMMIT_TIME + number, UNPROTECTED)
    store.publish(entry)
    return entry


def _cut(part: ChangePart, begin: int, end: int) -> ChangePart:
    images, rows = (each.slice(begin, end - begin) for each in (part.changes.images, part.changes.rows))
    return replace(part, changes=replace(part.changes, images=images, rows=rows))
