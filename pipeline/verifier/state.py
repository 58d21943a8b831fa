"""What the schema verifier knows: of the server, of each table, and what waits (`pipeline.verifier.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Survey
from pipeline.verifier.cascades import Doubts
from pipeline.verifier.schema_fence import HeldMessage
from pipeline.verifier.table_state import TableState


@dataclass(frozen=True, slots=True)
class State:
    """What's known of each table.

    `to_come`: the transactions of `known.at` that haven't passed. `told`: the schemas that were told last. `emptied`:
    tables that have had no image since they were told to be empty. `doubtful`: where the tables are found that the
    server is to be asked for, or has answered for. `creating`: those that the transaction at hand creates. `held`: what
    waits, with `held_bytes` of rows; `place`: where the stream is behind what went on. `foreign_keys`: those whose work
    isn't in the log, and `cascaded` the tables that they may have changed in the transaction at hand, with the parents;
    `doubts`: which tables may have others by now, None where the server logs what they do. `unnamed`: tables
    whose images in the transaction at hand were left out, and why. `survey`: what the log doesn't tell of tables.
    `asking`: whether a question to the server is under way.
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
    doubts: Doubts | None = None
    unnamed: Mapping[TableId, str] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)
    asking: bool = False
