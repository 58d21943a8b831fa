"""What the schema verifier knows: of the server, of each table, and what waits (`pipeline.verifier.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ToldStatements
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Survey
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.schema_fence import HeldMessage
from pipeline.verifier.table_state import TableState


@dataclass(frozen=True, slots=True)
class State:
    """Everything known of each table.

    `to_come`: the transactions of `known.at` that haven't passed. `told`: the schemas that were sent last. `emptied`:
    tables that have had no image since they were reported empty. `doubtful`: the positions of tables for which the
    server is to be queried, or has answered. `creating`: those that the present transaction creates. `held`: what
    waits, with `held_bytes` of rows; `place`: where the stream is after what was sent. `foreign_keys`: those whose
    effects aren't in the log, and `cascaded` the tables that they may have changed in the present transaction, with the
    parents; `outdated_keys`: which tables may have others by now, None if the server logs their effects. `unnamed`:
    tables whose images in the present transaction were left out, and why. `survey`: facts of tables that the log
    doesn't have. `unknown_engines`: the tables whose engine may be one whose rows the log doesn't have. `asking`:
    whether a query to the server is under way. `keeps`: the tables on whose schema statements are told, if they are
    kept; `creation`: the one with which the present transaction has created its table.
    """

    captured: TableFilter
    known: KnownSchemas
    to_come: GtidSet
    tables: Mapping[TableId, TableState] = field(default_factory=dict)
    told: Mapping[TableId, TableSchema] = field(default_factory=dict)
    emptied: frozenset[TableId] = frozenset()
    doubtful: frozenset[TableId] = frozenset()
    creating: frozenset[TableId] = frozenset()
    held: tuple[HeldMessage, ...] = ()
    held_bytes: int = 0
    place: Coordinates | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    cascaded: Mapping[TableId, frozenset[TableId]] = field(default_factory=dict)
    outdated_keys: OutdatedForeignKeys | None = None
    unnamed: Mapping[TableId, str] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)
    unknown_engines: frozenset[TableId] = frozenset()
    asking: bool = False
    keeps: TableFilter | None = None
    creation: ToldStatements | None = None
