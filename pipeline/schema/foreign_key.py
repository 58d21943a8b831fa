"""A foreign key whose work InnoDB does below the log."""

from dataclasses import dataclass

from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Rows of `child` go or change with those of `parent`.

    That's when a row of `parent` is deleted, if `deletes`, or gets other values in `columns`, if `updates`.
    """

    child: TableId
    parent: TableId
    columns: tuple[str, ...]
    deletes: bool
    updates: bool
