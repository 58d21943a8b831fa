"""The keys of rows that are to be read again: in the form that they're kept in, and as a changes file has them."""

import pyarrow as pa

from pipeline.messages.journal import ChangePart
from pipeline.messages.row_images import ImageKind
from pipeline.snapshot import reselect_keys
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
    assert reselect_keys.keys_after(ORDERS, rows, 7).column(0).to_pylist() == [1, 5]
    assert reselect_keys.keys_after(ORDERS, rows, 8) == reselect_keys.no_keys(ORDERS)


def test_keys_take_on_the_types_that_hold_when_they_are_asked_for() -> None:
    (widened,) = reselect_keys.key_rows(ORDERS, [pa.array([1, 2], pa.int32())]).columns
    assert widened.type == pa.int64()
    two = table("two", "id", "more", "value", key=(1, 0))
    assert reselect_keys.key_rows(two, [pa.array([1]), pa.array([2])]).schema.names == ["more", "id"]
