"""Plans a table: its description, the index to walk along, where it ends, and where to divide it.

It uses small queries on the index. `pipeline.snapshot.chunk_index_choice` and `pipeline.snapshot.range_splits` choose
them.
"""

from actors.source.connection import Source
from actors.source.errors import StatementOutdated, TableGone
from pipeline.errors import Definite, Transient
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import chunk_index_choice, chunk_queries, range_splits, row_filter_sql
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.range_splits import FirstAfter, LastThrough, Weigh
from pipeline.snapshot.row_filter import InvalidRowFilter
from pipeline.snapshot.snapshot import Request
from pipeline.source import result_set
from pipeline.source.information_schema import TableDescription
from pipeline.source.parameters import Fragment
from pipeline.source.result_columns import key_mismatch
from pipeline.source.rounding import Roundings, rounding
from pipeline.source.statement import Statement


async def find_table(source: Source, table: TableId, request: Request) -> tuple[TableSchema, ChunkIndex]:
    """The table as it is now, and its walk. Raises Definite where it can't be read in chunks as requested."""
    described = await _describe(source, table)
    indexes = await source.indexes(table)
    if await _describe(source, table) != described:
        raise Transient(f"{table} is being altered")
    walk = chunk_index_choice.choose_index(described, indexes, request.surrogate)
    row_condition(described.schema, request)
    return described.schema, walk


def row_condition(schema: TableSchema, request: Request, roundings: Roundings = ()) -> Fragment:
    """The condition that the request sets. Raises Definite where it isn't about this table."""
    try:
        return row_filter_sql.requested_condition(schema, request, roundings) or chunk_queries.NO_CONDITION
    except InvalidRowFilter as refusal:
        raise Definite(f"the request isn't about {schema.table}: {refusal}") from refusal


async def ask_roundings(source: Source, schema: TableSchema, walk: ChunkIndex | None = None) -> Roundings:
    """How columns of the table's key and of the walk round now, by a query if some may. Two columns that only differ
    in it are of one type, so a statement between two queries may have changed it.
    """
    columns = chunk_queries.rounding_columns(schema, walk)
    if not columns:
        return ()
    async with source.select(chunk_queries.select_declarations(schema, columns)) as result:
        told = dict(zip(columns, result.columns, strict=True))
        await result.rows()
    kinds = enumerate(column.type for column in schema.columns)
    found = tuple(rounding(kind, told[index]) if index in told else None for index, kind in kinds)
    return found if any(found) else ()


async def find_ranges(
    source: Source, schema: TableSchema, walk: ChunkIndex, end: Key, rows: int, ranges: int, least_rows: int
) -> tuple[Key, ...]:
    """The last keys of all ranges but the last: of at most so many, each of at least so many of the table's `rows`."""
    first = await requested_key(source, schema, walk, chunk_queries.first_key(schema, walk))
    if first is None:
        return ()
    kinds = tuple(schema.columns[index].type for index in walk.columns)
    search = range_splits.search_splits(kinds, first, end, rows, ranges, least_rows)
    answer: range_splits.SplitAnswer = None
    while True:
        try:
            question = search.send(answer)
        except StopIteration as found:
            keys: tuple[Key, ...] = found.value
            return keys
        match question:
            case LastThrough(after, bound, last):
                answer = await requested_key(
                    source, schema, walk, chunk_queries.last_through(schema, walk, after, bound, last)
                )
            case FirstAfter(bound, last):
                answer = await requested_key(
                    source, schema, walk, chunk_queries.first_after(schema, walk, bound, last)
                )
            case Weigh(after, last):
                answer = await _weight(source, chunk_queries.explain_query(schema, walk, after, last))


async def requested_key(
    source: Source, schema: TableSchema, walk: ChunkIndex, statement: Statement
) -> Key | None:
    """Returns the one key that the statement asks for, if there is one.

    Raises StatementOutdated if it isn't one of this schema.
    """
    async with source.select(statement) as result:
        if wrong := key_mismatch(schema, walk.columns, result.columns):
            raise StatementOutdated(wrong)
        rows = await result.rows()
        if rows is None:
            return None
        located = rows.located(result.columns)
        if located.lacks(0):
            raise StatementOutdated(f"a column of the key of {schema.table} may be NULL by now")
        return result_set.row_key(located, 0, chunk_queries.key_alone(schema, walk))


async def _weight(source: Source, statement: Statement) -> int:
    async with source.select(statement) as result:
        rows = await result.rows()
        assert rows is not None
        return chunk_queries.estimated_rows(rows.located(result.columns))


async def _describe(source: Source, table: TableId) -> TableDescription:
    told = await source.descriptions([table])
    if (described := told.described.get(table)) is not None:
        return described
    if (refused := told.refused.get(table)) is not None:
        raise Definite(refused)
    raise TableGone(f"{table} doesn't exist, or the user of the source may not SELECT from it")
