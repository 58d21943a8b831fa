"""What a TABLE_MAP event says of a table's columns.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Table_map_event; WL#4618 (optional metadata).
"""

from dataclasses import dataclass

from pipeline.schema.table_schema import TableId
from pipeline.types.column_types import LogType
from pipeline.types.field_types import Storage


@dataclass(frozen=True, slots=True)
class FullMetadata:
    """What the log has only with binlog_row_metadata=FULL: names (ENUM and SET labels are in the types then).

    `key`: indices of the primary key's columns, in the key's order; empty without one.
    """

    names: tuple[str, ...]
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MinimalMetadata:
    """binlog_row_metadata=MINIMAL: neither names nor keys nor labels."""


@dataclass(frozen=True, slots=True)
class NoMetadata:
    """What servers before MySQL 8.0.1 write: no names, and types that are raw where signs or character sets matter."""


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as the log describes it: equal maps describe the columns equally (the log's table id isn't in it)."""

    table: TableId
    types: tuple[LogType, ...]
    storage: tuple[Storage, ...]
    nullable: tuple[bool, ...]
    metadata: FullMetadata | MinimalMetadata | NoMetadata

    def __hash__(self) -> int:
        """Returns that of the table, which has few maps: to hash all columns takes longer than to compare two maps."""
        return hash(self.table)
