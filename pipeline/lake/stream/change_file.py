"""A file of the journal, as an executor reads it for a stream."""

from dataclasses import dataclass

from pipeline.journal.changes.row_choice import ALL_ROWS, RowChoice
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file with changes of a table, at a path of the journal's filesystem. `choice`: which of its rows are read."""

    path: str
    segment: int
    table: TableId
    rows: int
    bytes: int
    choice: RowChoice = ALL_ROWS
