"""A statement for the source server: text without values, and the values, which only the driver puts in.

The text holds one `%s` for each parameter and is otherwise doubled where it means a percent sign (PEP 249,
paramstyle "format"). Names can't be bound, so they go through `quoted`.
"""

from dataclasses import dataclass

from pipeline.keys import KeyPart
from pipeline.schema import TableId


@dataclass(frozen=True, slots=True)
class Statement:
    """What to send: `sql` with as many placeholders `%s` as there are `parameters`."""

    sql: str
    parameters: tuple[KeyPart, ...] = ()


def quoted(name: str) -> str:
    """A name of a column, table or database as the text of a Statement takes it."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def quoted_table(table: TableId) -> str:
    """A table's full name as the text of a Statement takes it."""
    return f"{quoted(table.database)}.{quoted(table.name)}"
