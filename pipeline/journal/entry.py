"""A sealed segment and its files, as the manifest has them."""

from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.journal import StatementPart
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import ChunkId
from pipeline.snapshot.watermark import High


class FileKind(StrEnum):
    """What a file of a segment holds: changes (and later snapshots' rows), rows of a first snapshot, or rows that a
    verification read."""

    CHANGES = "changes"
    ROWS = "rows"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of a segment: `path` relative to the segment's directory, `version` of the table's schema.

    `absent`: whether some of its rows lack columns (`__absent`), so that readers needn't search for them.
    """

    path: str
    table: TableId
    version: str
    kind: FileKind
    rows: int
    bytes: int
    sha256: str
    absent: bool


@dataclass(frozen=True, slots=True)
class SealedChunk:
    """A chunk whose rows, except superseded ones, are in the segment. Chunks of verifications have none.

    They come after the changes through `scn`, where the log is `at`. Both are None in entries of earlier versions.
    `version`: that of the rows file that has the rows; None if a changes file has them, or in entries of earlier
    versions.
    """

    chunk: ChunkId
    low: GtidSet
    high: High
    rows: int
    scn: int | None = None
    at: Coordinates | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """When a segment's transactions committed, in µs since the epoch; `samples` are evenly spaced in their order."""

    oldest: int
    newest: int
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProtectedTable:
    """What the journal has of a table with protected columns: the `schema` of its rows, and the `digest` of the rules
    that made it (`pipeline.config.column_protection`).
    """

    schema: TableSchema
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A sealed segment. The one before it is `segment` - 1.

    Its SCNs are those from `first_scn` through `last_scn` (none if that is less). `transactions` counts those of the
    slices that had changes of captured tables; `commit_times` are theirs, None if there are none. `checkpoint` is the
    state after its last row. `alterations` came before its first row. `schemas` holds, by version, those that the
    files, the checkpoint and the alterations name. `sealed_at` in µs since the epoch. `statements`: those on the
    schema of captured tables, where the journal keeps them, in the order of their SCNs. `protected`: the tables of the
    checkpoint that have rules. The checkpoint has their schemas as the source has them. `resumed`: the tables whose
    stop has ended in the segment; none in entries of earlier versions. `position_stays`: whether the position is that
    of the segment before, so that nothing in this one has a GTID; False in entries of earlier versions.
    """

    segment: int
    files: tuple[File, ...]
    first_scn: int
    last_scn: int
    transactions: int
    commit_times: CommitTimes | None
    chunks: tuple[SealedChunk, ...]
    checkpoint: Checkpoint
    schemas: dict[str, TableSchema]
    sealed_at: int
    alterations: tuple[Altered, ...] = ()
    statements: tuple[StatementPart, ...] = ()
    protected: dict[TableId, ProtectedTable] = field(default_factory=dict)
    resumed: tuple[TableId, ...] = ()
    position_stays: bool = False

    @property
    def stored_schemas(self) -> dict[TableId, TableSchema]:
        """Returns the schemas of the captured tables' rows, as readers of the journal have them at its end."""
        return self.checkpoint.schemas | {table: each.schema for table, each in self.protected.items()}

    @property
    def emptied(self) -> dict[TableId, int]:
        """Returns the tables that statements emptied, with the SCN of the last such statement of each.

        The generation that a mirror begins with such a statement is after that SCN.
        """
        return {
            each.alteration.schema.table: each.scn for each in self.alterations if each.alteration.emptied
        }


def resumed_tables(before: Checkpoint, after: Checkpoint) -> set[TableId]:
    """Returns the tables whose stop has ended between two checkpoints, and that are still captured."""
    return (before.stopped.keys() & after.schemas.keys()) - after.stopped.keys()
