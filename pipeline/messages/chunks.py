"""Between the WatermarkCoordinator and the ChunkSelector: plans, chunks, transactions, table scans, and the load of the
source."""

from dataclasses import dataclass

import pyarrow as pa

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import ChunkId, Request
from pipeline.snapshot.watermark import High


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Find the table's schema and walk, and at most `ranges` (0: none), seeing all that had passed at
    `ordered_at`."""

    table: TableId
    request: Request
    ranges: int
    ordered_at: GtidSet


@dataclass(frozen=True, slots=True)
class TableRanges:
    """The ranges end at `splits`, in order, and at `end`, the last key; `expected` rows by the server's estimate."""

    end: Key
    splits: tuple[Key, ...]
    expected: int


@dataclass(frozen=True, slots=True)
class WithoutRows:
    """The plan found no requested row. The table is complete once the plan's `high` has passed."""


@dataclass(frozen=True, slots=True)
class NotDivided:
    """The order requested no ranges, because the table's chunks continue in the present ones."""


@dataclass(frozen=True, slots=True)
class TablePlanned:
    """The table's schema at the source, the index that it's chunked along, and its ranges."""

    schema: TableSchema
    walk: ChunkIndex
    ranges: TableRanges | WithoutRows | NotDivided
    high: High


@dataclass(frozen=True, slots=True)
class PlanFailed:
    """The table can't be snapshotted, and why, after retries where these could help.

    `gone`: the source shows no such table.
    """

    table: TableId
    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read the next `limit` rows with `after` < key <= `end`, with a low watermark that contains `ordered_at`."""

    chunk: ChunkId
    schema: TableSchema
    walk: ChunkIndex
    request: Request
    range: int
    after: Key | None
    end: Key
    limit: int
    ordered_at: GtidSet


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """The chunk's rows, up to a key, or to the range's end (None); its SELECT's µs, and the bytes of its packets.

    `scanned`: how many rows of the table the SELECT went over, at most. With a filter only some of them are in `rows`.
    """

    chunk: ChunkId
    low: GtidSet
    rows: pa.RecordBatch
    upto: Key | None
    high: High
    took: int
    bytes: int
    scanned: int


@dataclass(frozen=True, slots=True)
class ChunkFailed:
    """The chunk couldn't be read, and why, after retries where these could help.

    `again`: the rows are needed, and another order may bring them.
    """

    chunk: ChunkId
    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class ChunkSchemaChanged:
    """The table no longer has the columns of the chunk's order. The stream lags after the source.

    `reason`: the source's words. `high`: once the stream has passed this, it has all that the source showed. None in a
    consistent snapshot.
    """

    chunk: ChunkId
    reason: str = "the table was altered"
    high: High | None = None


@dataclass(frozen=True, slots=True)
class ReselectRows:
    """Read the rows with these primary keys, as a chunk; `keys` are their columns, `tokens` theirs
    (`pipeline.schema.row_keys`).

    `since`: what made them unknown has no lower SCN.
    """

    chunk: ChunkId
    schema: TableSchema
    keys: pa.RecordBatch
    tokens: pa.Array
    since: int
    ordered_at: GtidSet


@dataclass(frozen=True, slots=True)
class RepairRows:
    """Read the rows with these primary keys, as a chunk: a verification found that the lake's rows differ.

    `keys` and `tokens`: as of ReselectRows. `checks`: the lake only compares them with what it has.
    """

    chunk: ChunkId
    schema: TableSchema
    keys: pa.RecordBatch
    tokens: pa.Array
    checks: bool
    ordered_at: GtidSet


ReadByKeys = ReselectRows | RepairRows


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Open transactions that may all see the source at one place. `failed`: how often that came to nothing before.

    `number` is never used twice in a run.
    """

    number: int
    failed: int


@dataclass(frozen=True, slots=True)
class TransactionsOpened:
    """The transactions are open. The log's end was `at` before and after that. All of `visible` was seen before."""

    number: int
    at: Coordinates
    visible: GtidSet


@dataclass(frozen=True, slots=True)
class CloseTransactions:
    """Nothing more is read in them, or open none."""


@dataclass(frozen=True, slots=True)
class OpenScan:
    """Open a transaction in which all rows of a table without a primary key can be read.

    It sees all that had passed at `ordered_at`. `failed`: how often that came to nothing before. `number` is never used
    twice in a run.
    """

    number: int
    table: TableId
    ordered_at: GtidSet
    failed: int


@dataclass(frozen=True, slots=True)
class ScanOpened:
    """The transaction is open, and the table has this schema. It sees all of `low`, and nothing after `high`."""

    number: int
    schema: TableSchema
    low: GtidSet
    high: Coordinates


@dataclass(frozen=True, slots=True)
class ReadScan:
    """Read the next rows of the scan with this `number`; `rows_per_s`: as of a request."""

    chunk: ChunkId
    number: int
    schema: TableSchema
    rows_per_s: int


@dataclass(frozen=True, slots=True)
class ScanRead:
    """The next rows, some megabytes of them; after the `last` ones the transaction has ended."""

    chunk: ChunkId
    number: int
    rows: pa.RecordBatch
    last: bool


@dataclass(frozen=True, slots=True)
class ScanFailed:
    """The scan has ended, for this reason. `again`: another one may succeed."""

    number: int
    reason: str
    again: bool


@dataclass(frozen=True, slots=True)
class CloseScan:
    """End the scan's transaction. Nothing more is read in it."""


@dataclass(frozen=True, slots=True)
class SourceOverloaded:
    """Why the source is overloaded, why it isn't ready for chunks, or both.

    The coordinator orders no chunk until SourceRecovered. If the source is `unready`, the chunks that are ordered wait
    for it, perhaps for hours.
    """

    overload: str | None
    unready: str | None = None

    @property
    def reason(self) -> str | None:
        """Returns why no chunk is ordered. What somebody has to end comes first."""
        return self.unready or self.overload


@dataclass(frozen=True, slots=True)
class SourceRecovered:
    """The source has room for chunks again."""
