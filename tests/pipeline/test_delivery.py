"""Batches, and the schemas that the lake takes on."""

from dataclasses import replace

import pytest

from pipeline.checkpoint import Checkpoint, Mirror
from pipeline.delivery import Delivered, Incompatible, Pieces, accepted, missing, next_batch, taken_on
from pipeline.gtid import GtidSet
from pipeline.journal import CommitTimes, Entry, File, FileKind
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import ColumnType, DateTime, Enum, FixedBinary, Integer, Text

INT = Integer(8, unsigned=False)
ID = Column("id", INT, False)
V1 = TableSchema(TableId("shop", "orders"), (ID, Column("note", Text("utf8mb4"), True)), (0,))
V2 = replace(V1, columns=(*V1.columns, Column("added", INT, True)))
BAD = replace(V1, columns=(ID,))
ITEMS = replace(V1, table=TableId("shop", "items"))


def entry(segment: int, *schemas: TableSchema, kind: FileKind = FileKind.CHANGES, size: int = 10) -> Entry:
    files = tuple(File(f"{s.version}.{kind}", s.table, s.version, kind, 5, size, "", False) for s in schemas)
    times = CommitTimes(segment, segment + 1, (segment, segment + 1)) if schemas else None
    checkpoint = Checkpoint(GtidSet(), segment)
    return Entry(
        segment, files, segment, segment, 1, times, (), checkpoint, {s.version: s for s in schemas}, 0
    )


def test_a_batch_takes_segments_until_it_is_full_and_no_more() -> None:
    entries = iter([entry(4, V1), entry(5), entry(6, V1, ITEMS), entry(7, V1)])
    batch = next_batch(entries, 30)
    assert (batch.after, batch.through) == (3, 6)
    assert [piece.segment for piece in batch.tables[V1.table].changes] == [4, 6]
    assert [piece.place for piece in batch.tables[ITEMS.table].changes] == [1]
    assert batch.commit_times == (4, 5, 6, 7)
    assert batch.newest == 7
    assert next(entries).segment == 7


def test_what_is_there_is_not_taken_again() -> None:
    batch = next_batch([entry(1, V1), entry(2, V1, kind=FileKind.ROWS), entry(3, V1, kind=FileKind.ROWS)])
    left = missing(Delivered(V1, changes=1, rows=2), batch.tables[V1.table])
    assert [piece.segment for piece in (*left.changes, *left.rows)] == [3]


def test_a_batch_ends_for_a_table_before_the_segment_that_it_cannot_take() -> None:
    batch = next_batch([entry(1, V1), entry(2, V2), entry(3, V2, BAD), entry(4, V1)])
    todo = accepted(Delivered(), V1.table, batch)
    assert (todo.schema, todo.since, todo.through) == (V2, 2, 2)
    assert [piece.segment for piece in todo.pieces.changes] == [1, 2]
    assert todo.reason.startswith("from segment 3 on: column 'note' of shop.orders was dropped or renamed")


def test_a_batch_ends_for_a_table_before_rows_that_lack_columns() -> None:
    lacking = entry(3, V1, ITEMS)
    files = (replace(lacking.files[0], absent=True), lacking.files[1])
    batch = next_batch([entry(1, V1), entry(2, V1), replace(lacking, files=files), entry(4, V1, ITEMS)])
    todo = accepted(Delivered(), V1.table, batch)
    assert (todo.through, [piece.segment for piece in todo.pieces.changes]) == (2, [1, 2])
    assert todo.reason.startswith("from segment 3 on: rows of shop.orders came without all of their columns")
    # Also behind a schema that came with a later segment, as it's found after a crash in between.
    assert accepted(Delivered(V1, since=4), V1.table, batch).through == 2
    assert accepted(Delivered(), ITEMS.table, batch).reason == ""


def test_files_with_an_older_schema_that_come_again_are_known_as_older() -> None:
    batch = next_batch([entry(1, V1), entry(2, V1, V2)])
    assert accepted(Delivered(V2, since=2), V1.table, batch).reason == ""
    again = next_batch([entry(1, V1), entry(2, V1, V2), entry(3, V1)])
    assert accepted(Delivered(V2, since=2), V1.table, again).reason.startswith(
        "from segment 3 on: column 'added'"
    )


def test_the_version_of_a_first_snapshots_rows_counts_in_the_order_of_the_stream() -> None:
    first, second = entry(1, V1, kind=FileKind.ROWS), entry(1, V2)
    both = replace(second, files=(*first.files, *second.files), schemas={**first.schemas, **second.schemas})
    todo = accepted(Delivered(), V1.table, next_batch([both]))
    assert (todo.schema, todo.reason) == (V2, "")


def test_an_empty_table_gets_its_mirror() -> None:
    empty = entry(1)
    checkpoint = replace(empty.checkpoint, schemas={V1.table: V1}, mirrors={V1.table: Mirror.READY})
    batch = next_batch([replace(empty, checkpoint=checkpoint)])
    assert accepted(Delivered(), V1.table, batch).schema == V1
    assert accepted(Delivered(), V1.table, batch).pieces == Pieces()
    assert accepted(Delivered(), ITEMS.table, batch).schema is None


def test_columns_that_may_be_null_are_taken_on_anywhere() -> None:
    first = replace(V1, columns=(Column("first", INT, True), *V1.columns), key=(1,))
    assert taken_on(V1, first) == first
    assert taken_on(None, V1) == V1


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (BAD, "'note' of shop.orders was dropped"),
        (replace(V1, columns=(*V1.columns, Column("n", INT, False))), "was added to shop.orders as NOT NULL"),
        (replace(V1, key=(1,)), r"primary key of shop.orders was \(id\) and is \(note\)"),
        (replace(V1, key=()), r"was \(id\) and is \(none\)"),
        (replace(V1, columns=(*V1.columns, Column("__scn", INT, True))), "a column that Tidemark adds"),
        (replace(V1, columns=(*V1.columns, Column("a b", INT, True))), "has spaces or punctuation"),
        (
            replace(V1, columns=(Column("id", Integer(4, unsigned=False), False), V1.columns[1])),
            "'id' of shop",
        ),
    ],
)
def test_what_cannot_be_taken_on_is_named(new: TableSchema, told: str) -> None:
    with pytest.raises(Incompatible, match=told):
        taken_on(V1, new)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (Text("latin1"), Text("utf8mb4"), True),
        (Enum(("a", "b")), Enum(("a", "b", "c")), True),
        (Enum(("a", "b")), Enum(("b", "a")), False),
        (Enum(("a",)), Text("utf8mb4"), False),
        (DateTime(0), DateTime(6), True),
        (DateTime(6), DateTime(0), False),
        (FixedBinary(4), FixedBinary(8), False),
    ],
)
def test_a_column_may_change_where_its_values_do_not(old: ColumnType, new: ColumnType, kept: bool) -> None:
    before, after = (replace(V1, columns=(ID, Column("c", type_, True))) for type_ in (old, new))
    if kept:
        assert taken_on(before, after) == after
    else:
        with pytest.raises(Incompatible, match="column 'c'"):
            taken_on(before, after)
