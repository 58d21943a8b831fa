"""The keys of rows that are to be read again: in the form that they're kept in, and as a changes file has them."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.messages.journal import ChangePart
from pipeline.messages.row_images import ImageKind
from pipeline.schema.table_schema import TableSchema
from pipeline.signals.signal import MalformedSignal, parse_signal
from pipeline.snapshot import reselect_keys
from pipeline.snapshot.reselect_keys import UnknownRows
from pipeline.snapshot.snapshot import Snapshot, SnapshotWaiting
from pipeline.types.column_types import ColumnType, Decimal, Integer
from tests.pipeline.builders import ORDERS, change_table, table
from tests.pipeline.coordinator.test_reselect import partly


def test_the_keys_of_a_changes_file_behind_an_scn() -> None:
    message = partly(
        20,
        "a:6",
        (ImageKind.INSERT, {"id": 1}),
        (ImageKind.INSERT, {"id": 2, "value": 2}),
        (ImageKind.DELETE, {"id": 3}),
        (ImageKind.UPDATE_BEFORE, {"id": 4}),
        (ImageKind.UPDATE_AFTER, {"id": 5}),
    )
    rows = change_table(1, ChangePart(message.tables[0], message.transactions, 8))
    rows = rows.select([*reselect_keys.NEEDED, "id"])
    found = reselect_keys.keys_after(ORDERS, rows, 7)
    assert found is not None
    assert found.column(0).to_pylist() == [1, 5]
    assert reselect_keys.keys_after(ORDERS, rows, 8) == reselect_keys.no_keys(ORDERS)
    assert reselect_keys.keys_after(with_key(Decimal(10, 0)), rows, 7) is None


def with_key(kind: ColumnType) -> TableSchema:
    """The orders with a key of another type."""
    return replace(ORDERS, columns=(replace(ORDERS.columns[0], type=kind), *ORDERS.columns[1:]))


@pytest.mark.parametrize(
    ("kind", "key", "room"),
    [
        (Integer(4, unsigned=False), 5, True),
        (Integer(4, unsigned=False), 5_000_000_000, False),
        (Integer(4, unsigned=True), 4_000_000_000, True),
        (Decimal(20, 0), 5, True),
        (Decimal(10, 0), 5, False),
    ],
)
def test_keys_have_the_types_of_another_schema_if_these_have_room(
    kind: ColumnType, key: int, room: bool
) -> None:
    listed = UnknownRows.of(7, reselect_keys.key_rows(ORDERS, [pa.array([key])]))
    found = reselect_keys.keys_under(with_key(kind), [listed])
    assert (found is not None) == room
    if found is not None:
        assert [(each.first, each.keys.column(0).to_pylist()) for each in found] == [(7, [key])]
        assert found[0].keys.schema.types == with_key(kind).arrow.types[:1]


def test_keys_take_on_the_types_that_hold_when_they_are_asked_for() -> None:
    (widened,) = reselect_keys.key_rows(ORDERS, [pa.array([1, 2], pa.int32())]).columns
    assert widened.type == pa.int64()
    two = table("two", "id", "more", "value", key=(1, 0))
    assert reselect_keys.key_rows(two, [pa.array([1]), pa.array([2])]).schema.names == ["more", "id"]


def test_a_snapshot_that_reads_all_rows_again_is_known_by_its_id() -> None:
    again = Snapshot(reselect_keys.rereading_id(8, ORDERS.table), {ORDERS.table: SnapshotWaiting()})
    assert reselect_keys.rereads_rows(again)
    assert not reselect_keys.rereads_rows(replace(again, id="reread-it"))
    with pytest.raises(MalformedSignal, match="Tidemark"):
        parse_signal(f'{{"id": "{again.id}", "type": "pause-snapshot"}}')
