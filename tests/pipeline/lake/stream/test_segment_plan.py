"""Which segments a micro-batch has, and where other columns end it."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.journal.changes.row_choice import ALL_ROWS
from pipeline.journal.entry import Entry, FileKind
from pipeline.lake.stream.segment_plan import (
    IDLE_SEGMENTS,
    TASK_BYTES,
    TASK_FILES,
    ColumnsChanged,
    FixedColumns,
    MicroBatchLimit,
    PlannedSegment,
    TableRestarted,
    batch_end,
    divide_files,
    plan_segment,
    renamed_columns,
    stream_end,
)
from pipeline.schema.ddl.alter_table import ColumnChanges
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.column_types import Integer, Text
from tests.pipeline.lake.stream.entries import ID, ITEMS, NOTE, ORDERS, entry

FLAG = Column("flag", Integer(4, unsigned=False), True)
ADDED = replace(ORDERS, columns=(ID, NOTE, FLAG))
DROPPED = replace(ORDERS, columns=(ID,))
WIDE = replace(ORDERS, columns=(replace(ID, type=Integer(8, unsigned=False)), NOTE))
LONG = replace(ORDERS, columns=(ID, Column("note", Text("latin1"), False)))
RENAMED = replace(ORDERS, columns=(ID, Column("text", NOTE.type, True)))
NO_LIMIT = MicroBatchLimit()


def columns(schema: TableSchema, at: int = 9, *chosen: str) -> FixedColumns:
    """The columns of a stream of `orders` as of a segment, or those of them that the user has chosen."""
    own = [field for field in schema.arrow if not chosen or field.name in chosen]
    return FixedColumns({schema.table: pa.schema(own)}, at, bool(chosen))


def planned(stream: FixedColumns, *entries: Entry) -> list[PlannedSegment]:
    renamed = [each for entry in entries for each in renamed_columns(entry, stream.own)]
    return [
        plan_segment(each, stream, renamed, {file.path: file.path for file in each.files}, ALL_ROWS)
        for each in entries
    ]


def unfit(stream: FixedColumns, *entries: Entry) -> list[str | None]:
    return [each.unfit for each in planned(stream, *entries)]


def end(start: int, last: int, of: Iterable[PlannedSegment], limit: MicroBatchLimit = NO_LIMIT) -> int:
    return batch_end(start, of, limit, last, columns(ORDERS))


def test_only_changes_of_its_own_tables_are_read() -> None:
    rows = entry(2, ORDERS, kind=FileKind.ROWS)
    first, second = planned(columns(ORDERS), entry(1, ITEMS, ORDERS, ITEMS), rows)
    assert [file.path for file in first.files] == [f"1.{ORDERS.version}"]
    assert (first.rows, first.bytes, second.files) == (5, 10, ())


@pytest.mark.parametrize("earlier", [ADDED, WIDE, LONG, ORDERS])
def test_a_file_from_before_fits_if_its_columns_are_still_there(earlier: TableSchema) -> None:
    now = replace(WIDE, columns=(*WIDE.columns, FLAG))
    assert unfit(columns(now), entry(3, earlier)) == [None]


@pytest.mark.parametrize(
    ("earlier", "now", "why"),
    [
        (ORDERS, DROPPED, "shop.orders: column 'note' (STRING) went later"),
        (WIDE, ORDERS, "shop.orders: column 'id' is BIGINT, and the stream has INT"),
    ],
)
def test_a_file_from_before_does_not_fit_otherwise(earlier: TableSchema, now: TableSchema, why: str) -> None:
    assert unfit(columns(now), entry(3, earlier)) == [why]


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (ORDERS, None),
        (LONG, None),
        (ADDED, "shop.orders: column 'flag' (INT) came"),
        (DROPPED, "shop.orders: column 'note' is gone"),
        (WIDE, "shop.orders: column 'id' is BIGINT, and the stream has INT"),
    ],
)
def test_a_later_file_has_the_columns_of_the_stream(later: TableSchema, why: str | None) -> None:
    assert unfit(columns(ORDERS, 2), entry(3, later)) == [why]


def test_chosen_columns_are_read_whatever_comes_beside_them() -> None:
    stream = columns(ORDERS, 2, "id")
    assert unfit(stream, entry(1, ORDERS), entry(3, ADDED), entry(4, DROPPED)) == [None, None, None]
    assert unfit(columns(ORDERS, 2, "note"), entry(3, DROPPED)) == ["shop.orders: column 'note' is gone"]


def test_another_column_under_the_same_name_is_not_the_same() -> None:
    """The statement is between the file and the stream's columns, on either side."""
    back = ((ORDERS, ColumnChanges(dropped=("note",))),)
    before, after = entry(3, ORDERS), entry(4, ORDERS, altered=back)
    why = "shop.orders: column 'note' was dropped"
    assert unfit(columns(ORDERS, 9), before, after) == [why, None]
    assert unfit(columns(ORDERS, 4), before, after) == [why, None]
    assert unfit(columns(ORDERS, 3), before, after) == [None, why]
    assert unfit(columns(ORDERS, 9, "id"), before, after) == [None, None]
    swap = ((ORDERS, ColumnChanges(renamed=(("note", "text"), ("text", "note")))),)
    assert unfit(columns(ORDERS, 9), before, entry(4, ORDERS, altered=swap)) == [
        "shop.orders: column 'note' was renamed 'text' and column 'text' was renamed 'note'",
        None,
    ]
    other = ((ITEMS, ColumnChanges(dropped=("note",))),)
    assert unfit(columns(ORDERS, 9), before, entry(4, ORDERS, altered=other)) == [None, None]


def test_a_statement_on_another_table_of_the_stream_changes_nothing_here() -> None:
    notes = replace(ITEMS, columns=ORDERS.columns)
    both = FixedColumns({ORDERS.table: ORDERS.arrow, ITEMS.table: notes.arrow}, 9, chosen=False)
    dropped = ((notes, ColumnChanges(dropped=("note",))),)
    assert unfit(both, entry(3, ORDERS), entry(4, altered=dropped)) == [None, None]
    assert unfit(both, entry(3, notes), entry(4, altered=dropped)) == [
        "shop.items: column 'note' was dropped",
        None,
    ]


def test_a_renamed_column_ends_the_stream_only_where_rows_come() -> None:
    renaming = ((RENAMED, ColumnChanges(renamed=(("note", "text"),))),)
    quiet, rows = entry(3, altered=renaming), entry(4, RENAMED)
    assert unfit(columns(ORDERS, 2), quiet, rows) == [
        None,
        "shop.orders: column 'note' was renamed 'text'",
    ]


def test_a_batch_ends_before_other_columns_and_then_says_so() -> None:
    stream = columns(ORDERS, 2)
    three = planned(stream, entry(3, ORDERS), entry(4), entry(5, ADDED))
    assert batch_end(2, three, NO_LIMIT, 5, stream) == 3
    with pytest.raises(ColumnsChanged, match="segment 5 has other columns than the stream"):
        batch_end(3, three[1:], NO_LIMIT, 5, stream)


def test_a_batch_ends_before_a_table_that_begins_again_and_then_says_so() -> None:
    stream = columns(ORDERS, 2)
    three = planned(stream, entry(3, ORDERS), entry(4), entry(5))
    three[2] = replace(three[2], restarted=(ORDERS.table,))
    assert batch_end(2, three, NO_LIMIT, 5, stream) == 3
    with pytest.raises(TableRestarted, match=r"shop\.orders: .*segment 5,.*\(\"restartedThrough\", \"5\"\)"):
        batch_end(3, three[1:], NO_LIMIT, 5, stream)


def test_the_error_says_how_to_continue() -> None:
    later = planned(columns(ORDERS, 2), entry(3, ADDED))[0]
    assert "with its checkpoint again, without schemaSegment: load() takes" in str(
        stream_end(later, columns(ORDERS, 2))
    )
    earlier = planned(columns(DROPPED, 9), entry(3, ORDERS))[0]
    assert '.option("schemaSegment", "3")' in str(stream_end(earlier, columns(DROPPED, 9)))
    for stream in (columns(ORDERS, 3), columns(ORDERS, 2, "note")):
        within = planned(stream, entry(3, DROPPED if stream.chosen else ADDED))[0]
        error = replace(within, unfit=within.unfit or "so")
        assert "a .schema(…) of columns that the segment has" in str(stream_end(error, stream))


def test_a_batch_has_as_many_segments_as_fit_and_one_at_least() -> None:
    six = planned(columns(ORDERS), *(entry(n, ORDERS) for n in range(1, 7)))
    assert end(0, 6, six) == 6
    assert end(0, 6, six, MicroBatchLimit(rows=14)) == 2
    assert end(0, 6, six, MicroBatchLimit(rows=15)) == 3
    assert end(0, 6, six, MicroBatchLimit(bytes=19)) == 1
    assert end(3, 6, six[3:], MicroBatchLimit(rows=1)) == 4


def test_segments_without_changes_begin_no_batch_until_they_are_many() -> None:
    idle = planned(columns(ORDERS), *(entry(n, ITEMS) for n in range(1, IDLE_SEGMENTS + 1)))
    assert end(0, IDLE_SEGMENTS - 1, idle[:-1]) == 0
    assert end(0, IDLE_SEGMENTS, idle) == IDLE_SEGMENTS
    one = planned(columns(ORDERS), entry(1, ITEMS), entry(2, ORDERS), entry(3, ITEMS))
    assert end(0, 3, one) == 3


def test_tasks_have_the_files_in_their_order_and_not_too_many() -> None:
    small = planned(columns(ORDERS), *(entry(n, ORDERS, size=TASK_BYTES // 4) for n in range(1, 7)))
    files = [file for each in small for file in each.files]
    assert [[file.segment for file in task] for task in divide_files(files)] == [[1, 2, 3, 4], [5, 6]]
    large = replace(files[0], bytes=10 * TASK_BYTES)
    assert [len(task) for task in divide_files([files[0], large, files[1]])] == [1, 1, 1]
    assert [len(task) for task in divide_files([replace(files[0], bytes=1)] * (TASK_FILES + 1))] == [
        TASK_FILES,
        1,
    ]
    assert divide_files([]) == ()
