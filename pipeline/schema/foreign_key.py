"""A foreign key whose work InnoDB does below the log."""

from dataclasses import dataclass
from typing import Any

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


def to_json(key: ForeignKey) -> list[Any]:
    """A foreign key as plain JSON values; `from_json` is its inverse."""
    child, parent = key.child, key.parent
    tables = [child.database, child.name, parent.database, parent.name]
    return [*tables, list(key.columns), key.deletes, key.updates]


def from_json(value: list[Any]) -> ForeignKey:
    """The foreign key that `to_json` wrote."""
    database, child, of_parent, parent, columns, deletes, updates = value
    return ForeignKey(TableId(database, child), TableId(of_parent, parent), tuple(columns), deletes, updates)
