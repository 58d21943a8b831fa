"""To the journal, and from it: rows with the checkpoint that they complete, sealed segments, and room."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.row_images import TableChanges
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.ddl.schema_statements import SchemaStatement
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.outcomes import SignalState
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import ChunkId
from pipeline.snapshot.watermark import High


@dataclass(frozen=True, slots=True)
class ChangePart:
    """Changes for the journal. The transaction with index i in the slice has the SCN `first_scn` + i."""

    changes: TableChanges
    transactions: Transactions
    first_scn: int


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """The rows of a chunk that no change superseded, at their position in the stream.

    `first`: they go straight to the mirror. `verifies`: the lake only compares them with what it has. Otherwise they
    are separate changes (`op` = r) with this `scn`. `at`: the log's position there, None if it isn't known. `gone`: the
    keys (their columns) of which the source has no row, though they were requested (`op` = d); None if that's none.
    `begins_scan`: it has no rows, and all the rows of a table without a key come next. No change before counts any more
    (`op` = t).
    """

    chunk: ChunkId
    schema: TableSchema
    rows: pa.RecordBatch
    low: GtidSet
    high: High
    scn: int
    first: bool
    at: Coordinates | None = None
    verifies: bool = False
    gone: pa.RecordBatch | None = None
    begins_scan: bool = False


@dataclass(frozen=True, slots=True)
class StatementPart:
    """A statement on the schema, at its place in the stream.

    `gtid` is null where the log has none. `committed`: when it was committed first, in µs since the epoch. `at`: where
    its event begins in the log, and `server` the id of the server that wrote it.
    """

    scn: int
    gtid: str | None
    committed: int
    at: Coordinates | None
    server: int
    statement: SchemaStatement


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Keep these rows of a transaction or a scan that hasn't ended: the next Append has them before its own."""

    parts: tuple[ChangePart | ChunkPart, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Put the parts into the journal, with the checkpoint after them, but without kept rows of `withdrawn` tables.

    If tables were altered, a segment begins: everything in it came after the statement.
    """

    parts: tuple[ChangePart | ChunkPart, ...]
    checkpoint: Checkpoint
    answers: tuple[SignalOutcome, ...] = ()
    withdrawn: frozenset[TableId] = frozenset()
    alterations: tuple[Altered, ...] = ()
    statements: tuple[StatementPart, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentSealed:
    """The journal holds all segments through this number, durably."""

    segment: int


@dataclass(frozen=True, slots=True)
class DifferencesReported:
    """A verification (`run`) found that the lake differs from the source in the rows with these keys (their columns).

    The batches of a table count from 1. Each has keys, but the `last` one may have None. `reason`: why the keys can't
    be read, so that the repair has to end; empty if they can.
    """

    run: str
    table: TableId
    batch: int
    keys: pa.RecordBatch | None
    last: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChunksFlushed:
    """No change waits in the journal for the rows of the chunks through this SCN: they are written, or few."""

    scn: int


@dataclass(frozen=True, slots=True)
class JournalFull:
    """The journal has no space, for this reason. Nothing may be read until JournalHasSpace."""

    reason: str


@dataclass(frozen=True, slots=True)
class JournalHasSpace:
    """The journal has room again."""


@dataclass(frozen=True, slots=True)
class HasSpace:
    """There's room in the journal."""


@dataclass(frozen=True, slots=True)
class Full:
    """There's none, for this reason."""

    reason: str


Room = HasSpace | Full


@dataclass(frozen=True, slots=True)
class CheckpointSealed:
    """This checkpoint is durable; `rows`: how the last signals that came as rows of the signal table were judged."""

    checkpoint: Checkpoint
    rows: tuple[SignalState, ...]


@dataclass(frozen=True, slots=True)
class MirrorDataExpired:
    """A consumer needs all rows of these generations (`since`, by table) again. The journal doesn't have them any more,
    or the consumer has them in other types than it has to."""

    generations: Mapping[TableId, int]
