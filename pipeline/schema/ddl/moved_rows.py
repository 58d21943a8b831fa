"""Which tables a statement gives the rows of which others, as they are: by another name, or by a partition.

A table's name may decide what becomes of its columns' values (`pipeline.config.column_protection`). So whoever judges
by the name has to know where the rows come from.
"""

from collections.abc import Iterator

from pipeline.schema.ddl.sql_lexer import NotRead, Reader, lowercase_word
from pipeline.schema.ddl.statement_kinds import (
    AltersTable,
    LoggedStatement,
    ParsedStatement,
    RenamesTables,
)
from pipeline.schema.table_schema import TableId

_NO_TABLE = frozenset({"column", "index", "key"})


def moved_rows(statement: LoggedStatement) -> frozenset[tuple[TableId, TableId]]:
    """Returns the pairs of tables of which the second one gets rows of the first one, in any reading of the
    statement."""
    return frozenset(pair for way in statement.ways for pair in _moved(way))


def _moved(statement: ParsedStatement) -> Iterator[tuple[TableId, TableId]]:
    match statement:
        case RenamesTables(pairs):
            origins: dict[TableId, TableId] = {}
            for old, new in pairs:
                origins[new] = origins.pop(old, old)
            yield from ((origin, table) for table, origin in origins.items() if origin != table)
        case AltersTable(table, database, options=options):
            for option in options:
                yield from _moved_by_option(Reader(option, database), table)
        case _:
            pass


def _moved_by_option(reader: Reader, table: TableId) -> Iterator[tuple[TableId, TableId]]:
    try:
        if reader.keyword("exchange"):
            while not reader.keyword("with"):
                reader.name()
            reader.expect("table")
            other = reader.table()
            yield from ((table, other), (other, table))
        elif reader.keyword("rename") and lowercase_word(reader.next) not in _NO_TABLE:
            if not reader.keyword("to", "as"):
                reader.sign("=")
            yield table, reader.table()
    except NotRead:
        return
