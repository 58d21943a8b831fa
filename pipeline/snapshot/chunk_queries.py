"""The queries of an incremental snapshot: a table in the order of its walk, chunk after chunk.

The server alone orders keys, by each column's own collation. A chunk is the next rows after a key, up to the frozen
end. For a composite key that's a lexicographic comparison, and its form decides how it runs. MySQL doesn't use an index
for `(a, b) > (x, y)`, but the range optimizer turns

    a >= x AND (a > x OR (a = x AND (b > y OR (b = y AND c > z))))

into one range on the walk's index that begins exactly after (x, y, z), so a chunk reads its own rows and no others. If
a column of the index is descending, its comparisons are reversed, and so is its order in ORDER BY. The index is forced,
so that the optimizer takes no other one with a sort. If it's gone, the server says so.

A *condition* leaves rows out, perhaps nearly all, and then a chunk's limit doesn't bound what the server reads. So the
chunk's end is found first, by the index alone (`select_boundary`), and the condition applies up to there.

Sources: MySQL 9.7 Reference Manual, "Range Optimization", "Index Hints", "LIMIT Query Optimization".
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.row_filter_sql import keys_condition
from pipeline.source.parameters import Fragment, comparison, key_storage
from pipeline.source.result_set import LocatedRows
from pipeline.source.rounding import Roundings
from pipeline.source.statement import Statement, quote_name, quoted_table
from pipeline.types.column_types import ColumnType, Double, Enum, Float, Integer, Set

NO_CONDITION: Final[Fragment] = ("", ())

_TURNED: Final = {"<": ">", "<=": ">=", "=": "=", ">": "<", ">=": "<="}

# The most bytes of a statement for several keys. A server refuses one beyond its max_allowed_packet, which is 4 MiB by
# default before MySQL 8.0, and often set to 1 MiB.
_MOST_BYTES: Final = 512 << 10

# How many columns EXPLAIN has since MySQL 5.7.
_COLUMNS_OF_EXPLAIN: Final = 12

# As what an ENUM's or SET's number is selected.
_NUMBER: Final = Integer(8, unsigned=True)


def select_chunk(
    schema: TableSchema,
    walk: ChunkIndex,
    after: Key | None,
    end: Key,
    limit: int,
    condition: Fragment = NO_CONDITION,
) -> Statement:
    """Returns the query for the next `limit` rows with `after` < key <= `end`, in the walk's order.

    All columns come in the table's order, and after them the numbers of the walk's ENUMs and SETs (`key_places`).
    """
    columns = [quote_name(column.name) for column in schema.columns]
    columns += [_select_item(schema, index) for index in walk.columns if _is_read_as_number(schema, index)]
    where = _between(schema, walk, after, end)
    if condition[0]:
        where = (f"{where[0]} AND ({condition[0]})", where[1] + condition[1])
    return _select(schema, walk, columns, where, f"{_order(schema, walk)} LIMIT {limit:d}")


def select_all(schema: TableSchema) -> Statement:
    """All rows, in any order, all columns in the table's order."""
    columns = ", ".join(quote_name(column.name) for column in schema.columns)
    return Statement(f"SELECT {columns} FROM {quoted_table(schema.table)}")  # noqa: S608 - quoted names


def open_table(table: TableId) -> Statement:
    """No rows. In a transaction, no other session can alter, rename or drop the table from this answer to the end."""
    return Statement(f"SELECT 1 FROM {quoted_table(table)} LIMIT 0")  # noqa: S608 - a quoted name


def select_declarations(schema: TableSchema, columns: Iterable[int]) -> Statement:
    """No rows, and what the server says of these columns."""
    names = ", ".join(quote_name(schema.columns[index].name) for index in columns)
    return Statement(f"SELECT {names} FROM {quoted_table(schema.table)} LIMIT 0")  # noqa: S608 - quoted names


def rounding_columns(schema: TableSchema, walk: ChunkIndex | None) -> tuple[int, ...]:
    """The columns of the table's key, and of the walk, that may round what they are compared with."""
    keys = sorted({*schema.key, *(walk.columns if walk is not None else ())})
    return tuple(index for index in keys if isinstance(schema.columns[index].type, Float | Double))


def select_where(schema: TableSchema, where: Fragment) -> Statement:
    """The rows that satisfy a condition, all columns in the table's order."""
    columns = ", ".join(quote_name(column.name) for column in schema.columns)
    return Statement(f"SELECT {columns} FROM {quoted_table(schema.table)} WHERE {where[0]}", where[1])  # noqa: S608 - quoted names


def select_by_keys(schema: TableSchema, keys: Sequence[Key], roundings: Roundings) -> Iterator[Statement]:
    """Yields queries for the rows with these primary keys, as many as keep each small enough for a server."""
    statement = select_where(schema, keys_condition(schema, keys, roundings))
    if len(keys) == 1 or statement.size <= _MOST_BYTES:
        yield statement
        return
    half = len(keys) // 2
    for some in (keys[:half], keys[half:]):
        yield from select_by_keys(schema, some, roundings)


def select_boundary(
    schema: TableSchema, walk: ChunkIndex, after: Key | None, end: Key, number: int
) -> Statement:
    """The `number`th key with `after` < key <= `end`: one row with the key's parts, or none if there aren't as many."""
    order = f"{_order(schema, walk)} LIMIT 1 OFFSET {number - 1:d}"
    return _select(schema, walk, _key(schema, walk), _between(schema, walk, after, end), order)


def first_key(schema: TableSchema, walk: ChunkIndex) -> Statement:
    """The first key of the table: one row, or none for an empty table."""
    return _select(schema, walk, _key(schema, walk), NO_CONDITION, f"{_order(schema, walk)} LIMIT 1")


def last_key(schema: TableSchema, walk: ChunkIndex) -> Statement:
    """The last key of the table: one row, or none for an empty table."""
    order = f"{_order(schema, walk, backward=True)} LIMIT 1"
    return _select(schema, walk, _key(schema, walk), NO_CONDITION, order)


def last_through(schema: TableSchema, walk: ChunkIndex, after: Key, bound: Key, end: Key) -> Statement:
    """The last key with `after` < key <= `bound` and <= `end`: one row or none.

    `bound` may be the beginning of a key.
    """
    inner, outer = _between(schema, walk, after, bound), _between(schema, walk, None, end)
    where = (f"{inner[0]} AND {outer[0]}", inner[1] + outer[1])
    order = f"{_order(schema, walk, backward=True)} LIMIT 1"
    return _select(schema, walk, _key(schema, walk), where, order)


def first_after(schema: TableSchema, walk: ChunkIndex, bound: Key, end: Key) -> Statement:
    """The first key with `bound` < key <= `end`: one row or none. `bound` may be the beginning of a key."""
    return select_boundary(schema, walk, bound, end, 1)


def explain_query(schema: TableSchema, walk: ChunkIndex, after: Key, end: Key) -> Statement:
    """Returns the EXPLAIN for the keys with `after` < key <= `end`. `estimated_rows` reads their number from its
    answer.

    With a forced index the server counts no keys of a plain SELECT, and reports one. It does count for DISTINCT (MySQL
    9.7 Reference Manual, "Equality Range Optimization of Many-Valued Comparisons", on skipped index dives).
    """
    select = _select(schema, walk, ["DISTINCT 1"], _between(schema, walk, after, end), "")
    return Statement(f"EXPLAIN FORMAT=TRADITIONAL {select.sql}", select.parameters)


def estimated_rows(plan: LocatedRows) -> int:
    """Returns the number of rows in the one row of `weight`'s answer: its column `rows`; none for a range that can't
    have any.

    The column `Extra` follows it, and since MySQL 5.7 `filtered` is between the two.
    """
    place = len(plan.columns) - (3 if len(plan.columns) == _COLUMNS_OF_EXPLAIN else 2)
    return int.from_bytes(plan.value(place, 0), "little") if plan.cells[place, 0] >= 0 else 0


def key_places(schema: TableSchema, walk: ChunkIndex) -> tuple[tuple[ColumnType, int], ...]:
    """Where a row of `select_chunk` has the parts of its key: for each the type that it comes as, and its column."""
    places, behind = [], len(schema.columns)
    for index in walk.columns:
        if _is_read_as_number(schema, index):
            places.append((_kind(schema, index), behind))
            behind += 1
        else:
            places.append((_kind(schema, index), index))
    return tuple(places)


def key_alone(schema: TableSchema, walk: ChunkIndex) -> tuple[tuple[ColumnType, int], ...]:
    """As `key_places`, where a row is nothing but the key."""
    return tuple((_kind(schema, index), place) for place, index in enumerate(walk.columns))


def _select(
    schema: TableSchema, walk: ChunkIndex, columns: Sequence[str], where: Fragment, order: str
) -> Statement:
    condition, parameters = where
    table = f"{quoted_table(schema.table)} FORCE INDEX ({quote_name(walk.index)})"
    filtered = f" WHERE {condition}" if condition else ""
    return Statement(f"SELECT {', '.join(columns)} FROM {table}{filtered}{order}", parameters)  # noqa: S608 - quoted names


def _key(schema: TableSchema, walk: ChunkIndex) -> list[str]:
    return [_select_item(schema, index) for index in walk.columns]


def _select_item(schema: TableSchema, index: int) -> str:
    name = quote_name(schema.columns[index].name)
    return f"CAST({name} AS UNSIGNED)" if _is_read_as_number(schema, index) else name


def _is_read_as_number(schema: TableSchema, index: int) -> bool:
    return isinstance(schema.columns[index].type, Enum | Set)


def _kind(schema: TableSchema, index: int) -> ColumnType:
    return _NUMBER if _is_read_as_number(schema, index) else key_storage(schema.columns[index].type)


def _order(schema: TableSchema, walk: ChunkIndex, *, backward: bool = False) -> str:
    parts = [
        f"{quote_name(schema.columns[index].name)}{' DESC' if descending != backward else ''}"
        for index, descending in zip(walk.columns, walk.descending, strict=True)
    ]
    return f" ORDER BY {', '.join(parts)}"


def _between(schema: TableSchema, walk: ChunkIndex, after: Key | None, end: Key) -> Fragment:
    upper, upper_parameters = _beyond(schema, walk, end, "<", "<=")
    if after is None:
        return upper, upper_parameters
    lower, lower_parameters = _beyond(schema, walk, after, ">", ">")
    return f"{lower} AND {upper}", lower_parameters + upper_parameters


def _beyond(schema: TableSchema, walk: ChunkIndex, key: Key, strict: str, last: str) -> Fragment:
    """The condition that a row's key is beyond this one; `last` compares where all but the last part are equal.

    Of the beginning of a key, all rows that have it are beyond or not as one.
    """

    def compared(part: int, operator: str) -> Fragment:
        column = schema.columns[walk.columns[part]]
        turned = _TURNED[operator] if walk.descending[part] else operator
        rounded = walk.roundings[walk.columns[part]] if walk.roundings else None
        name = quote_name(column.name)
        return comparison(name, column.type, turned, key[part], walk.collations[part], rounded)

    condition, parameters = compared(len(key) - 1, last)
    for part in reversed(range(len(key) - 1)):
        beyond, equal = compared(part, strict), compared(part, "=")
        condition = f"({beyond[0]} OR ({equal[0]} AND {condition}))"
        parameters = beyond[1] + equal[1] + parameters
    if len(key) > 1:
        least = compared(0, f"{strict}=")
        condition = f"({least[0]} AND {condition})"
        parameters = least[1] + parameters
    return condition, parameters
