"""The keys of rows to read again (`pipeline.coordinator.reselect`), the order to read them, and their rows in the
journal. Also the snapshot that reads all rows again, where the keys are too many."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.snapshot import Snapshot

# A row's `__chunk` in place of a snapshot's id. Also the beginning of the id of a snapshot that reads all rows again.
REREAD: Final = "reread"

# The columns of a row that `keys_after` needs.
NEEDED: Final = ("__op", "__scn", "__absent")

# The argument of a start whose tables have no such rows.
NO_KEYS: Final[Mapping[TableId, pa.RecordBatch | None]] = {}


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """Rows that are to be read again: the columns of their keys, and for each the SCN `since` which it's unknown.

    They are in the order of these SCNs.
    """

    since: pa.Array
    keys: pa.RecordBatch

    @staticmethod
    def of(since: int, keys: pa.RecordBatch) -> "UnknownRows":
        """Returns rows that are unknown since one SCN."""
        return UnknownRows(pa.repeat(pa.scalar(since, pa.int64()), len(keys)), keys)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def first(self) -> int:
        """Returns the SCN since which the first row is unknown."""
        return int(self.since[0].as_py())

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the keys and of the SCNs."""
        return int(self.since.nbytes + self.keys.nbytes)

    def after(self, number: int) -> "UnknownRows":
        """Returns those after so many."""
        return UnknownRows(self.since.slice(number), self.keys.slice(number))

    def followed_by(self, later: "UnknownRows") -> "UnknownRows":
        """Returns these and later ones."""
        return UnknownRows(
            pa.concat_arrays([self.since, later.since]), pa.concat_batches([self.keys, later.keys])
        )


def listed_after(listed: tuple[UnknownRows, ...], later: UnknownRows) -> tuple[UnknownRows, ...]:
    """Returns the rows with later ones at the end, in parts of which each has at least twice as many as the next one.

    So the parts are few, and each row is copied a few times.
    """
    while listed and len(listed[-1]) < 2 * len(later):
        listed, later = listed[:-1], listed[-1].followed_by(later)
    return (*listed, later)


def rereading_id(scn: int, table: TableId) -> str:
    """Returns the id of a snapshot that reads all rows of the table again, of which changes up to this SCN left some
    unknown."""
    return f"{REREAD}-{scn}-{table}"


def rereads_rows(snapshot: Snapshot) -> bool:
    """Returns whether it is a snapshot with such an id. No signal may have one (`pipeline.signals.signal`)."""
    return re.match(rf"{REREAD}-\d", snapshot.id) is not None


def key_rows(schema: TableSchema, rows: Iterable[pa.Array]) -> pa.RecordBatch:
    """Returns columns of keys, in the key's order, in the form in which they are kept.

    Raises ArrowInvalid if a type of the schema has no room for them.
    """
    fields = [schema.arrow.field(index) for index in schema.key]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(rows, fields, strict=True)],
        schema=pa.schema(fields),
    )


def no_keys(schema: TableSchema) -> pa.RecordBatch:
    """Returns the keys of no rows."""
    return pa.RecordBatch.from_pylist([], pa.schema([schema.arrow.field(index) for index in schema.key]))


def keys_under(schema: TableSchema, listed: Iterable[UnknownRows]) -> tuple[UnknownRows, ...] | None:
    """Returns the keys with the types of another schema of their table, or None if these have no room for one of them.

    A statement may give the key a type whose values are the same numbers, but fewer.
    """
    try:
        return tuple(replace(each, keys=key_rows(schema, each.keys.columns)) for each in listed)
    except pa.ArrowInvalid:
        return None


def keys_after(schema: TableSchema, rows: pa.Table, scn: int) -> pa.RecordBatch | None:
    """Returns the keys of rows after an SCN that lack columns, from a changes file: NEEDED, and then the key's
    columns. None: the schema's types have no room for one of them."""
    op, at, absent = (rows.column(name) for name in NEEDED)
    there = pc.is_in(op, pa.array(["c", "u"]))
    lacking = pc.and_(pc.and_(there, pc.greater(at, scn)), absent.is_valid())
    found = rows.select(range(len(NEEDED), rows.num_columns)).filter(lacking).combine_chunks()
    if not found.num_rows:
        return no_keys(schema)
    columns = [pa.concat_arrays(column.chunks) for column in found.columns]
    try:
        return key_rows(schema, columns)
    except pa.ArrowInvalid:
        return None
