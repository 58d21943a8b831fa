"""What is known of a table and its schema at a place in the stream."""

from dataclasses import dataclass, field
from typing import ClassVar

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_map import TableMap
from pipeline.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Unproven:
    """No schema is verified. A map with full metadata brings one, and the server is to be queried.

    `statements`: those that have passed since one was verified, and may have changed it. `missed`: whether the server's
    last answer lacked the table, which was there.
    """

    wire: ClassVar[str] = "unproven"

    statements: GtidSet = field(default_factory=GtidSet)
    missed: bool = False


@dataclass(frozen=True, slots=True)
class SchemaPending:
    """The schema that the server had at the start, before all of `KnownSchemas.at` has passed."""

    wire: ClassVar[str] = "awaited"

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class NoSuchTable:
    """The server has no table of this name."""


@dataclass(frozen=True, slots=True)
class SchemaFetched:
    """What the server has of the table, which will hold at `end` of the log.

    It has the work of all statements in `at` in it, and none from after `end`. `examined`: of the messages that came,
    the number before which none that is held proves or disproves it. `missed`: as of Unproven, of the answer before.
    """

    wire: ClassVar[str] = "answered"

    schema: TableSchema | NoSuchTable
    at: GtidSet
    end: Coordinates
    examined: int = 0
    missed: bool = False


@dataclass(frozen=True, slots=True)
class SchemaKnown:
    """This schema holds; no table map has been held against it yet."""

    wire: ClassVar[str] = "holding"

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Verified:
    """This schema holds, and this map fits it."""

    wire: ClassVar[str] = "verified"

    schema: TableSchema
    map: TableMap


@dataclass(frozen=True, slots=True)
class Stopped:
    """The table's changes can't be given any more."""

    wire: ClassVar[str] = "stopped"


InDoubt = Unproven | SchemaPending | SchemaFetched

Capturable = InDoubt | SchemaKnown | Verified


TableState = Capturable | Stopped
