"""Sources: what Databus calls the tables. Each has a number that is the same on any machine and in any run."""

import hashlib
from collections.abc import Iterable
from typing import Final

from pipeline.errors import Definite
from pipeline.journal.changes.checkpoint import is_long
from pipeline.schema.table_names import MalformedTableName, parse_table
from pipeline.schema.table_schema import TableId

# Ids are positive numbers of Java's int. Databus gives negative ones to its control events.
_ID: Final = 0x7FFFFFFF


class UnknownSource(Definite):
    """A source isn't captured, or a text names none."""


def source_id(table: TableId) -> int:
    """Returns the number of a table, from its name alone."""
    return int.from_bytes(hashlib.sha256(table.quoted.encode()).digest()[:4], "big") & _ID or 1


def find_sources(named: Iterable[str], known: Iterable[TableId]) -> tuple[TableId, ...]:
    """Returns the tables with these numbers or names (`database.table`), each once. Raises UnknownSource."""
    tables = sorted(known)
    by_id: dict[int, list[TableId]] = {}
    for table in tables:
        by_id.setdefault(source_id(table), []).append(table)
    return tuple(dict.fromkeys(_source(each.strip(), by_id, tables) for each in named))


def _source(text: str, by_id: dict[int, list[TableId]], known: list[TableId]) -> TableId:
    if is_long(text):
        match by_id.get(int(text), []):
            case [table]:
                return table
            case []:
                raise UnknownSource(f"sources: {text} is no source; GET /sources lists them")
            case several:
                named = " and ".join(map(str, several))
                raise UnknownSource(f"sources: {text} is the number of {named}; name them instead")
    try:
        table = parse_table(text)
    except MalformedTableName as error:
        raise UnknownSource(f"sources: {error}") from error
    if table not in known:
        raise UnknownSource(f"sources: {table} is no source; GET /sources lists them")
    return table
