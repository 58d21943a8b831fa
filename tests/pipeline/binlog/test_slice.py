"""A slice in the making: which image is of which transaction, and where in it."""

import struct

import pytest

from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.fieldtypes import FieldType
from pipeline.binlog.slice import RowsEvent, Slice
from pipeline.gtid import Gtid
from pipeline.schema import TableId
from pipeline.tablemap import FullMetadata, Storage, TableMap
from pipeline.types import Integer
from pipeline.watermark import Coordinates
from tests.pipeline.builders import decoded

A = "0000000a-0000-0000-0000-000000000000"
B = "0000000b-0000-0000-0000-000000000000"
END = Coordinates("binlog.000001", 400)


def table(name: str) -> TableMap:
    """A table with one column, an INT."""
    metadata = FullMetadata(("id",), (0,))
    storage = (Storage(FieldType.LONG, 0),)
    return TableMap(TableId("shop", name), (Integer(4, unsigned=False),), storage, (False,), metadata)


def inserted(of: TableMap, *ids: int) -> RowsEvent:
    """A WRITE_ROWS event: table id and flags, no extra data, one column that's present, and the images."""
    images = b"".join(struct.pack("<Bi", 0, id_) for id_ in ids)
    return RowsEvent(of, 30, struct.pack("<6sHHBB", b"\1", 0, 2, 1, 1) + images)


def test_images_know_their_transaction_and_are_counted_over_all_its_tables() -> None:
    orders, items = table("orders"), table("items")
    made = Slice()
    made.add(Gtid.parse(f"{A}:1"), 10, [inserted(orders, 1, 2), inserted(items, 7), inserted(orders, 3)])
    made.add(Gtid.parse(f"{B}:5"), 20, [])
    made.add(Gtid.parse(f"{A}:2"), 30, [inserted(orders, 4)])
    made.end = END
    assert len(made) == 3
    read = made.read()
    assert [str(read.transactions.gtid(i)) for i in range(3)] == [f"{A}:1", f"{B}:5", f"{A}:2"]
    assert read.transactions.commit_time.tolist() == [10, 20, 30]
    of_orders, of_items = decoded(read.tables)
    assert (of_orders.map, of_items.map) == (orders, items)
    assert of_orders.rows["0"].to_pylist() == [1, 2, 3, 4]
    assert of_orders.images["transaction"].to_pylist() == [0, 0, 0, 2]
    assert of_orders.images["ordinal"].to_pylist() == [0, 1, 3, 0]
    assert of_items.images["ordinal"].to_pylist() == [2]
    assert read.end == END


def test_its_bytes_are_those_of_the_rows() -> None:
    made, event = Slice(), inserted(table("orders"), 1)
    made.add(Gtid.parse(f"{A}:1"), 10, [event, event])
    assert made.bytes == 2 * len(event.body)


def test_a_rows_event_that_is_not_whole_is_refused() -> None:
    whole = inserted(table("orders"), 1)
    with pytest.raises(UndecodableError, match=r"shop\.orders"):
        Slice().add(Gtid.parse(f"{A}:1"), 10, [whole._replace(body=whole.body[:-1])])
