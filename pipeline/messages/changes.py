"""From the SchemaVerifier to the WatermarkCoordinator: the log under proven schemas."""

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, field, replace

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.row_images import TableChanges
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.ddl.schema_statements import SchemaStatement
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.signal import SourceSignal
from pipeline.snapshot.prepared_xa import XaPrepared


@dataclass(frozen=True, slots=True)
class CreationStatements:
    """What the journal keeps of a statement that creates a table and fills it. `begins` and `server`: as of
    `SchemaChanged`.
    """

    statements: tuple[SchemaStatement, ...]
    begins: Coordinates | None
    server: int


@dataclass(frozen=True, slots=True)
class ChangesVerified:
    """A slice whose columns have proven names and types, rows of the signal table, and tables changed below the log.

    `creation`: the statement with which its first transaction created the table that it fills, if the journal keeps it.
    """

    transactions: Transactions
    tables: tuple[TableChanges, ...]
    end: Coordinates
    signals: tuple[SourceSignal, ...] = ()
    restarted: tuple["MirrorInvalidated", ...] = ()
    covered: GtidSet = NO_GTIDS
    prepared: tuple[XaPrepared, ...] = ()
    creation: CreationStatements | None = None


@dataclass(frozen=True, slots=True)
class TransactionPartVerified:
    """A part of a transaction that hasn't ended, its columns having proven names and types."""

    gtid: Gtid
    commit_time: int
    tables: tuple[TableChanges, ...]
    original_time: int = 0


@dataclass(frozen=True, slots=True)
class SchemasVerified:
    """From this place on these tables have these schemas, one each. Those whose rows can't stay under theirs are
    `restarted`, at once.
    """

    schemas: tuple[TableSchema, ...]
    restarted: tuple["MirrorInvalidated", ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """A statement passed that may have changed columns, keys or indexes of `tables`, captured ones.

    The rows of some tables may be others, so that these are `restarted`. Some are surely altered: `alterations`.

    `begins`: where its event begins, and `server` the id of the server that wrote it. `kept`: what the journal keeps of
    it, if it keeps statements.
    """

    gtid: Gtid
    tables: frozenset[TableId]
    statement: str = field(repr=False)
    end: Coordinates
    restarted: tuple["MirrorInvalidated", ...] = ()
    covered: GtidSet = NO_GTIDS
    alterations: tuple[Alteration, ...] = ()
    commit_time: int = 0
    original_time: int = 0
    begins: Coordinates | None = None
    server: int = 0
    kept: tuple[SchemaStatement, ...] = ()

    def without(self, tables: Collection[TableId]) -> "SchemaChanged":
        """Returns the message that says nothing of these tables."""
        return replace(
            self,
            tables=self.tables.difference(tables),
            restarted=tuple(each for each in self.restarted if each.table not in tables),
            alterations=tuple(each for each in self.alterations if each.schema.table not in tables),
        )


@dataclass(frozen=True, slots=True)
class EnginesSurveyed:
    """From this place on the server has told the engine of each table but these, whose rows the log may not have."""

    unknown: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class ForeignKeysFollowed:
    """From this place on these foreign keys, and no others, may change rows below the log."""

    keys: tuple[ForeignKey, ...]


@dataclass(frozen=True, slots=True)
class MirrorInvalidated:
    """The rows of the table's mirror are no longer right: it has none (`emptied`), or they have to be read again.

    `gap`: the stream lacks changes that passed just before, or has them under wrong names. So only another read has
    their effect.
    """

    table: TableId
    reason: str
    _: KW_ONLY
    emptied: bool = False
    gap: bool = False


@dataclass(frozen=True, slots=True)
class TableStopped:
    """From this place in the stream on, changes of the table can't be given rightly, for this reason."""

    table: TableId
    reason: str
