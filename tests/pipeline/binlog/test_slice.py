"""A slice in the making: which image is of which transaction, and where in it."""

import struct

from pipeline.binlog.event_type import Code
from pipeline.binlog.registries import FileRegistry, TableMapRegistry, TsidRegistry
from pipeline.binlog.slice import Slice, SliceBuilder, Transaction, TransactionPart, WholeTransactions
from pipeline.binlog.stream_state import StreamState
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid
from pipeline.messages.binlog import TransactionPartRead, TransactionsRead
from pipeline.messages.row_images import TableImages, TableUnreadable
from pipeline.schema.table_map import FullMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types.column_types import Integer
from pipeline.types.field_types import FieldType, Storage

A = "0000000a-0000-0000-0000-000000000000"
B = "0000000b-0000-0000-0000-000000000000"
END = Coordinates("binlog.000001", 400)


def table(name: str) -> TableMap:
    """A table with one column, an INT."""
    metadata = FullMetadata(("id",), (0,))
    storage = (Storage(FieldType.LONG, 0),)
    return TableMap(TableId("shop", name), (Integer(4, unsigned=False),), storage, (False,), metadata)


def inserted(*ids: int) -> bytes:
    """A WRITE_ROWS event's body: table id and flags, no extra data, one column that's present, and the images."""
    images = b"".join(struct.pack("<Bi", 0, id_) for id_ in ids)
    return struct.pack("<6sHHBB", b"\1", 0, 2, 1, 1) + images


class Making:
    """A builder, with maps of the tables `orders` and `items` by number."""

    def __init__(self, most_bytes: int = 1 << 20, most_cells: int = 1 << 20) -> None:
        self.sources, self.maps, self.files = TsidRegistry(), TableMapRegistry(), FileRegistry()
        self.state = StreamState(100, most_bytes, most_cells)
        self.state.file = self.files.number("binlog.000001")
        self.slice = SliceBuilder(self.state, self.sources, self.maps, self.files)
        self.orders, self.items, self.strange = (
            self.maps.add(b"orders", table("orders")),
            self.maps.add(b"items", table("items")),
            self.maps.add(b"strange", TableUnreadable(TableId("shop", "strange"), "it's strange")),
        )

    def rows(self, number: int, *ids: int) -> None:
        self.slice.add_rows(number, Code.WRITE_ROWS, inserted(*ids))

    def passed(self, gtid: str, commit_time: int) -> None:
        named = Gtid.parse(gtid)
        source = self.sources.number(named.source)
        self.slice.add_transaction(Transaction(source, named.number, commit_time, 0))


def read(slice_: Slice) -> TransactionsRead:
    message, ordinal = slice_.read()
    assert isinstance(message, TransactionsRead)
    assert ordinal == 0
    return message


def ids(message: TransactionsRead | TransactionPartRead) -> list[list[int]]:
    return [t.rows["0"].to_pylist() for t in message.tables if isinstance(t, TableImages)]


def ordinals(message: TransactionsRead | TransactionPartRead) -> list[list[int]]:
    return [t.images["ordinal"].to_pylist() for t in message.tables if isinstance(t, TableImages)]


def test_images_know_their_transaction_and_are_counted_over_all_its_tables() -> None:
    made = Making()
    made.rows(made.orders, 1, 2)
    made.rows(made.items, 7)
    made.rows(made.orders, 3)
    made.passed(f"{A}:1", 10)
    made.passed(f"{B}:5", 20)
    made.rows(made.orders, 4)
    made.passed(f"{A}:2", 30)
    assert made.slice.passed == 3
    message = read(made.slice.cut(WholeTransactions(END)))
    assert message.transactions.gtid_texts().to_pylist() == [f"{A}:1", f"{B}:5", f"{A}:2"]
    assert message.transactions.commit_time.tolist() == [10, 20, 30]
    assert [t.map.table.name for t in message.tables if isinstance(t, TableImages)] == ["orders", "items"]
    assert ids(message) == [[1, 2, 3, 4], [7]]
    of_orders, _ = message.tables
    assert isinstance(of_orders, TableImages)
    assert of_orders.images["transaction"].to_pylist() == [0, 0, 0, 2]
    assert ordinals(message) == [[0, 1, 3, 0], [2]]
    assert message.end == END


def test_a_slice_names_only_the_sources_that_it_has() -> None:
    made = Making()
    made.passed(f"{A}:1", 10)
    made.slice.cut(WholeTransactions(END))
    made.passed(f"{B}:1", 10)
    assert [str(source) for source in read(made.slice.cut(WholeTransactions(END))).transactions.sources] == [
        B
    ]


def test_what_is_open_stays_for_the_next_slice() -> None:
    made = Making()
    made.rows(made.orders, 1)
    made.passed(f"{A}:1", 10)
    made.rows(made.items, 2)
    made.rows(made.orders, 3)
    assert ids(read(made.slice.cut(WholeTransactions(END)))) == [[1]]
    made.passed(f"{A}:2", 20)
    message = read(made.slice.cut(WholeTransactions(END)))
    assert ids(message) == [[2], [3]]
    assert ordinals(message) == [[0], [1]]


def test_parts_count_on() -> None:
    made = Making()
    gtid = Gtid.parse(f"{A}:1")
    part = TransactionPart(gtid, 10, 9)
    made.rows(made.orders, 1, 2)
    first = made.slice.cut_part(part)
    made.rows(made.items, 3)
    second = made.slice.cut_part(part)
    made.rows(made.orders, 4)
    made.passed(f"{A}:1", 10)
    made.rows(made.orders, 5)
    made.passed(f"{A}:2", 20)
    last = made.slice.cut(WholeTransactions(END))
    assert [part.continues for part in (first, second, last)] == [False, True, True]
    assert first.of == part
    message, ordinal = first.read()
    assert message == TransactionPartRead(gtid, 10, message.tables, 9)
    assert (ordinals(message), ordinal) == ([[0, 1]], 2)
    message, ordinal = second.read(ordinal)
    assert (ordinals(message), ordinal) == ([[2]], 3)
    message, ordinal = last.read(ordinal)
    assert (ordinals(message), ordinal) == ([[3, 0]], 0)
    made.passed(f"{A}:3", 30)
    assert not made.slice.cut(WholeTransactions(END)).continues


def test_what_is_held_is_out_of_the_slice_until_it_is_put_back() -> None:
    made = Making()
    made.rows(made.orders, 1)
    made.passed(f"{A}:1", 10)
    made.rows(made.items, 2)
    held = made.slice.hold()
    assert made.slice.open_bytes == 0
    made.rows(made.orders, 3)
    made.passed(f"{A}:2", 20)
    made.slice.add_held(held)
    made.passed(f"{A}:3", 30)
    message = read(made.slice.cut(WholeTransactions(END)))
    assert ids(message) == [[1, 3], [2]]
    assert [t.images["transaction"].to_pylist() for t in message.tables if isinstance(t, TableImages)] == [
        [0, 1],
        [2],
    ]


def test_it_grows_as_needed_and_the_next_one_is_small_again() -> None:
    made = Making()
    small = len(made.slice.rows.body)
    made.rows(made.orders, *range(100_000))
    made.passed(f"{A}:1", 10)
    assert len(made.slice.rows.body) > 500_000
    assert ids(read(made.slice.cut(WholeTransactions(END)))) == [list(range(100_000))]
    made.passed(f"{A}:2", 10)
    made.slice.cut(WholeTransactions(END))
    assert len(made.slice.rows.body) == small


def test_it_is_full_at_its_bound() -> None:
    made = Making(most_bytes=3 * len(inserted(1)))
    fullness: list[bool] = []
    for _ in range(3):
        made.rows(made.orders, 1)
        fullness.append(made.slice.full)
    assert fullness == [False, False, True]


def test_a_table_that_cannot_be_decoded_is_unreadable_and_the_others_are_not() -> None:
    made = Making()
    made.slice.add_rows(made.orders, Code.WRITE_ROWS, inserted(1)[:-1])
    made.rows(made.items, 2)
    made.rows(made.strange, 3)
    made.passed(f"{A}:1", 10)
    orders, items, strange = read(made.slice.cut(WholeTransactions(END))).tables
    assert isinstance(orders, TableUnreadable)
    assert orders.table == TableId("shop", "orders")
    assert "ends inside" in orders.reason
    assert isinstance(items, TableImages)
    assert strange == TableUnreadable(TableId("shop", "strange"), "it's strange")


def test_too_many_images_in_a_transaction_make_their_own_tables_unreadable() -> None:
    made = Making()
    gtid = Gtid.parse(f"{A}:1")
    made.rows(made.orders, 1)
    made.slice.cut_part(TransactionPart(gtid, 10, 10))
    made.rows(made.items, 1)
    made.rows(made.orders, 1)
    part, last = made.slice.cut_part(TransactionPart(gtid, 10, 10)).read(2**31 - 2)
    items, orders = part.tables
    assert isinstance(items, TableImages)
    assert isinstance(orders, TableUnreadable)
    assert orders.table == TableId("shop", "orders")
    assert "more than 2³¹ row images" in orders.reason
    made.rows(made.items, 1)
    [items] = made.slice.cut_part(TransactionPart(gtid, 10, 10)).read(last)[0].tables
    assert isinstance(items, TableUnreadable)
