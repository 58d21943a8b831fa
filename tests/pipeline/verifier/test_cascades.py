"""Which tables may have changed below the log along with a row that it has, or that it lacks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.messages.binlog import RowsUnread
from pipeline.messages.changes import MirrorInvalidated
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer
from pipeline.verifier.cascades import (
    cascaded_tables,
    effects_of_new_keys,
    effects_of_unread_rows,
    find_cascades,
    restarts_after_cascades,
    restarts_after_gaps,
    stop_orphans,
)
from tests.pipeline.builders import ORDERS, lacks

A, B, C, D = (TableId("d", name) for name in "abcd")
INT = Integer(8, unsigned=False)
SCHEMA = TableSchema(A, (Column("id", INT, False), Column("code", INT, True)), (0,))


def changes(
    *images: tuple[ImageKind, int | None, int | None],
    schema: TableSchema = SCHEMA,
    absent: Iterable[list[str]] = (),
) -> TableChanges:
    """Images of A: what each is, its id and its code; and which columns each lacks."""
    fields: dict[str, list[object]] = {"kind": [int(kind) for kind, _, _ in images]}
    if absent:
        fields["absent"] = [lacks(schema, names) for names in absent]
    arrays = [
        pa.array(fields.get(f.name, [None if f.nullable else 0] * len(images)), f.type) for f in IMAGE_FIELDS
    ]
    rows = [pa.array([image[place] for image in images], pa.int64()) for place in (1, 2)]
    return TableChanges.unshared(
        schema,
        pa.RecordBatch.from_arrays(arrays, schema=IMAGE_FIELDS),
        pa.RecordBatch.from_arrays(rows, schema=schema.arrow),
    )


def key(
    child: TableId, parent: TableId, *columns: str, deletes: bool = True, updates: bool = True
) -> ForeignKey:
    return ForeignKey(child, parent, columns or ("id",), deletes, updates)


INSERTED = changes((ImageKind.INSERT, 1, 1))
DELETED = changes((ImageKind.INSERT, 1, 1), (ImageKind.DELETE, 2, 1))
MOVED = changes((ImageKind.UPDATE_BEFORE, 1, 1), (ImageKind.UPDATE_AFTER, 9, 1))
CODED = changes((ImageKind.UPDATE_BEFORE, 1, 1), (ImageKind.UPDATE_AFTER, 1, None))
# As logged with binlog_row_image MINIMAL: code becomes NULL, and in another row it isn't in either image.
MINIMAL = changes(
    (ImageKind.UPDATE_BEFORE, 1, None), (ImageKind.UPDATE_AFTER, 1, None), absent=[["code"], []]
)
UNCODED = changes(
    (ImageKind.UPDATE_BEFORE, 1, None), (ImageKind.UPDATE_AFTER, 1, None), absent=[["code"], ["code"]]
)


@pytest.mark.parametrize(
    ("keys", "what", "wanted"),
    [
        ([key(B, A)], INSERTED, set()),
        ([key(B, A)], DELETED, {B}),
        ([key(B, A, deletes=False)], DELETED, set()),
        ([key(B, A)], MOVED, {B}),
        ([key(B, A, updates=False)], MOVED, set()),
        ([key(B, A)], CODED, set()),
        ([key(B, A, "id", "code")], CODED, {B}),
        ([key(B, A, "code")], MINIMAL, {B}),
        ([key(B, A, "id")], MINIMAL, set()),
        ([key(B, A, "code")], UNCODED, set()),
        ([key(B, A, "renamed")], CODED, {B}),  # by a statement that has passed since
        ([key(B, A, "renamed")], INSERTED, set()),
        ([key(A, A)], DELETED, {A}),
        ([key(B, C)], DELETED, set()),
        # Further and further, and round about.
        ([key(B, A), key(C, B, deletes=False), key(D, C), key(B, D)], DELETED, {B, C, D}),
    ],
)
def test_what_may_have_changed_along(
    keys: Iterable[ForeignKey], what: TableChanges, wanted: set[TableId]
) -> None:
    assert cascaded_tables(keys, what) == wanted


def test_foreign_keys_have_children_read_anew_and_say_whose() -> None:
    keys = [key(B, A), key(C, B), key(D, A)]
    parents = find_cascades(keys, [INSERTED, DELETED], {})
    assert parents == dict.fromkeys((B, C, D), frozenset({A}))
    restarts = restarts_after_cascades(parents, [D])
    assert [restart.table for restart in restarts] == [B, C]
    assert not any(restart.emptied for restart in restarts)
    assert "along with those of d.a" in restarts[0].reason
    assert find_cascades([], [DELETED], {}) == {}
    assert find_cascades([key(B, A)], [DELETED], {C: frozenset({D})}) == {B: {A}, C: {D}}


class CountedKeys(frozenset[ForeignKey]):
    """Foreign keys, which count how often they were all walked."""

    walks = 0

    def __iter__(self) -> Iterator[ForeignKey]:
        CountedKeys.walks += 1
        return super().__iter__()


def test_foreign_keys_are_walked_as_often_for_many_children_as_for_few() -> None:
    keys = CountedKeys({key(B, A), key(D, C)})

    def walks(children: int) -> int:
        CountedKeys.walks = 0
        of_child = replace(DELETED, schema=replace(SCHEMA, table=B))
        assert find_cascades(keys, [*[of_child] * children, DELETED], {}) == {B: {A}}
        return CountedKeys.walks

    assert walks(100) == walks(1) > 0


def test_tables_stop_along_with_those_that_foreign_keys_change_them_by() -> None:
    keys = [key(B, A), key(C, B), key(D, C), key(A, D)]
    stops = stop_orphans(keys, [A, D])
    assert [stop.table for stop in stops] == [B, C]
    assert "along with those of d.a, which is stopped" in stops[0].reason
    assert stop_orphans(keys, []) == ()
    assert stop_orphans([key(C, A), key(C, B)], [A, B])[0].reason.startswith(
        "a foreign key changes its rows along with those of d.a and d.b"
    )


def test_new_foreign_keys_have_all_read_anew_that_goes_along_or_stop_their_tables() -> None:
    keys = [key(B, A), key(C, B), key(D, C), key(D, A)]
    captured = TableFilter((r"d\.[b-d]",))
    stops, restarts = effects_of_new_keys(keys, [key(C, B)], captured, [], reread=True)
    assert (stops, [restart.table for restart in restarts]) == ((), [C, D])
    stops, restarts = effects_of_new_keys(keys, [key(C, B), key(D, A)], captured, [], reread=True)
    assert ([stop.table for stop in stops], [restart.table for restart in restarts]) == ([D], [C])
    assert "along with those of d.a, and this server doesn't log that" in stops[0].reason
    stops, restarts = effects_of_new_keys(keys, [key(C, B), key(D, C)], captured, [D], reread=False)
    assert ([stop.table for stop in stops], restarts) == ([C], ())


def test_tables_whose_changes_nobody_could_name_are_restarted_behind_them() -> None:
    restarts = restarts_after_gaps({B: "so", A: "so it is", D: "so"}, [], [D])
    assert [(each.table, each.emptied, each.reason, each.gap) for each in restarts] == [
        (A, False, "so it is", True),
        (B, False, "so", True),
    ]


def test_what_foreign_keys_may_have_changed_along_with_what_nobody_could_name_is_restarted_too() -> None:
    restarts = restarts_after_gaps({A: "so"}, [key(B, A), key(C, B), key(D, A)], [D])
    assert [(each.table, each.gap) for each in restarts] == [(A, True), (B, False), (C, False)]
    assert "a foreign key may have changed its rows along with those of " in restarts[1].reason


def test_where_the_log_does_not_tell_the_rows_tables_are_read_anew_with_their_children() -> None:
    there, told = {A, B, C}, {table: replace(ORDERS, table=table) for table in (A, B, C, D)}

    def restarted(unread: RowsUnread) -> list[TableId]:
        stops, restarts = effects_of_unread_rows([unread], [key(B, A)], told, there)
        assert not stops
        assert {(each.emptied, each.reason) for each in restarts} <= {(False, "so")}
        return [each.table for each in restarts]

    assert restarted(RowsUnread("so", frozenset({C, D}))) == [C]
    assert restarted(RowsUnread("so", frozenset({A}))) == [A, B]
    assert restarted(RowsUnread("so", databases=frozenset({A.database.upper()}))) == sorted(there)
    assert restarted(RowsUnread("so", databases=None)) == sorted(there)
    assert restarted(RowsUnread("so")) == []


def test_a_table_without_a_key_stops_where_it_is_surely_meant() -> None:
    told = {A: replace(ORDERS, table=A, key=())}
    [stop], restarts = effects_of_unread_rows([RowsUnread("so", frozenset({A}))], [], told, {A})
    assert (stop.table, restarts) == (A, ())
    assert stop.reason.startswith("so; it has no primary key")
    assert effects_of_unread_rows([RowsUnread("so", databases=None)], [], told, {A}) == (
        (),
        (MirrorInvalidated(A, "so"),),  # it stops if a scan has read it
    )
    lost = RowsUnread("so", databases=None, lost=True)
    assert effects_of_unread_rows([lost], [], told, {A}) == (
        (),
        (MirrorInvalidated(A, "so", gap=True),),
    )


def test_a_table_that_stops_for_one_reason_is_not_restarted_for_another() -> None:
    told = {A: replace(ORDERS, table=A, key=())}
    unread = [RowsUnread("any", databases=None), RowsUnread("this one", frozenset({A}))]
    [stop], restarts = effects_of_unread_rows(unread, [], told, {A})
    assert (stop.table, restarts) == (A, ())


def test_changes_that_the_log_has_lost_stay_lost_whatever_else_is_said() -> None:
    """A table without a mirror stops where the stream has a gap, and only there."""
    lost, any_table = RowsUnread("lost", databases=None, lost=True), RowsUnread("any", databases=None)
    for unread in ([lost, any_table], [any_table, lost]):
        assert effects_of_unread_rows(unread, [], {}, {A}) == (
            (),
            (MirrorInvalidated(A, "lost", gap=True),),
        )
