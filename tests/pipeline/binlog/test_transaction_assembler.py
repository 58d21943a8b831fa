"""The fold: which transactions pass, in what order, in which slices, and what stops it."""

import contextlib
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog import transaction_assembler
from pipeline.binlog.event_type import Code
from pipeline.binlog.events import event as events
from pipeline.binlog.slice import Slice, SliceBound
from pipeline.binlog.stream import LogMessage, LogStream
from pipeline.binlog.transaction_assembler import Given
from pipeline.errors import Definite, UndecodableError
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.message_size import weight
from pipeline.messages.row_images import ImageKind, TableImages, TableUnreadable
from pipeline.schema.table_schema import TableId
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.folding_stream import FoldingStream, frames
from tests.pipeline.binlog.golden import STORIES, story
from tests.pipeline.builders import decoded

ORDERS = TableId("shop", "orders")
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def last(messages: list[LogMessage]) -> TransactionsRead:
    """The last one, which is a slice."""
    assert isinstance(messages[-1], TransactionsRead)
    return messages[-1]


def everything(table: TableId) -> bool:
    return bool(table.name)


def anywhere(database: str) -> bool:
    return bool(database)


def stream(*tables: str, bound: SliceBound | None = None) -> FoldingStream:
    """A stream that captures these tables of the database `shop`, or all of all databases."""
    if not tables:
        return FoldingStream(everything, anywhere, bound)
    wanted = {TableId("shop", name) for name in tables}
    return FoldingStream(lambda table: table in wanted, lambda database: database == "shop", bound)


def messages(given: Iterable[Given]) -> Iterator[LogMessage]:
    """What was given, with slices in columns."""
    ordinal = 0
    for each in given:
        if isinstance(each, Slice):
            assert each.continues or not ordinal
            message, ordinal = each.read(ordinal)
            yield message
        else:
            yield each


def parsed(log: LogStream, log_events: Iterable[bytes]) -> list[LogMessage]:
    return list(messages([*log.parse(frames(log_events)), *log.take()]))


def folded(log: FoldingStream, log_events: Iterable[bytes]) -> list[LogMessage]:
    return list(messages([*(given for event in log_events for given in log.fold(event)), *log.take()]))


def read(log: LogStream, log_events: Iterable[bytes]) -> list[LogMessage]:
    return parsed(log, log_events)


Image = tuple[str, str, list[object]]


def images(message: LogMessage) -> list[tuple[int, int, Image]]:
    """The images of a slice in the log's order: transaction, ordinal, and what it is."""
    assert isinstance(message, TransactionsRead)
    return sorted(
        (
            i["transaction"],
            i["ordinal"],
            (table.map.table.name, ImageKind(i["kind"]).name, list(row.values())),
        )
        for table in decoded(message.tables)
        for i, row in zip(table.images.to_pylist(), table.rows.to_pylist(), strict=True)
    )


def numbers(message: LogMessage) -> list[str]:
    assert isinstance(message, TransactionsRead)
    return [text.split(":", 1)[1] for text in message.transactions.gtid_texts().to_pylist()]


# -- made-up events


def begin(number: int) -> bytes:
    body = b"\x00" + uuid.UUID(SERVER).bytes + number.to_bytes(8, "little")
    return made(Code.GTID, body)


def query(statement: str, database: str = "shop", updated: str | None = None, flags: int = 0) -> bytes:
    variables = b"" if updated is None else b"\x0c\x01" + updated.encode() + b"\0"
    head = struct.pack("<IIBHH", 1, 0, len(database), 0, len(variables))
    body = head + variables + database.encode() + b"\0" + statement.encode()
    return made(Code.QUERY, body, flags=flags)


def loaded(updated: str | None) -> bytes:
    """A LOAD DATA that is logged as a statement."""
    body = query("LOAD DATA INFILE 'x' INTO TABLE t", updated=updated)[19:-4]
    return made(Code.EXECUTE_LOAD_QUERY, body[:13] + struct.pack("<IIIB", 1, 9, 20, 0) + body[13:])


def rotate(file: str = "binlog.000001", offset: int = 4) -> bytes:
    return made(Code.ROTATE, offset.to_bytes(8, "little") + file.encode())


def transaction(number: int, *inside: bytes, end: bytes | None = None) -> list[bytes]:
    return [begin(number), query("BEGIN"), *inside, end or made(Code.XID, bytes(8))]


# One row of shop.orders (id INT), and its table map.
ONE_INT = b"\x01\x03\x00\x00" + b"\x01\x01\x00" + b"\x04\x03\x02id"


def table(table_id: int, name: str) -> bytes:
    head = table_id.to_bytes(6, "little") + bytes(2)
    return made(Code.TABLE_MAP, head + b"\x04shop\0" + bytes([len(name)]) + name.encode() + b"\0" + ONE_INT)


def row(table_id: int, value: int) -> bytes:
    head = table_id.to_bytes(6, "little") + b"\x01\x00\x02\x00\x01\xff"
    return made(Code.WRITE_ROWS, head + b"\0" + value.to_bytes(4, "little"))


MAP, ROW = table(1, "orders"), row(1, 5)


# -- whole stories


def test_the_servers_own_story() -> None:
    said = read(stream(), story("transactions"))
    kinds = [type(message) for message in said]
    assert kinds == [*[DdlRead] * 4, TransactionsRead, CreateTableSelectRead, TransactionsRead, DdlRead]
    slice_, creation, filled, truncated = said[4:]
    assert numbers(slice_) == ["5", "mytag:1", "6"]
    assert images(slice_) == [
        (0, 0, ("orders", "INSERT", [1, "a"])),
        (0, 1, ("orders", "INSERT", [2, "b"])),
        (0, 2, ("items", "INSERT", [10, 1])),
        (0, 3, ("orders", "UPDATE_BEFORE", [2, "b"])),
        (0, 4, ("orders", "UPDATE_AFTER", [2, "c"])),
        (0, 5, ("items", "DELETE", [10, 1])),
        (1, 0, ("orders", "INSERT", [3, "tagged"])),
        (2, 0, ("log", "INSERT", [7])),
    ]
    assert isinstance(slice_, TransactionsRead)
    assert [table.map.table.name for table in decoded(slice_.tables)] == ["orders", "items", "log"]
    assert slice_.end == Coordinates("binlog.000001", 2332)
    assert isinstance(creation, CreateTableSelectRead)
    assert creation.statement.startswith("CREATE TABLE `shop`.`copy`")
    assert numbers(filled) == ["7"]
    assert [image for _, _, image in images(filled)] == [
        ("copy", "INSERT", [1, "a"]),
        ("copy", "INSERT", [2, "c"]),
        ("copy", "INSERT", [3, "tagged"]),
    ]
    assert isinstance(truncated, DdlRead)
    assert (truncated.gtid.number, truncated.statement) == (8, "TRUNCATE shop.copy")
    assert truncated.end == Coordinates("binlog.000002", 415)


def test_transactions_of_other_tables_pass_without_images() -> None:
    said = read(stream("items"), story("transactions"))
    slice_ = said[4]
    assert numbers(slice_) == ["5", "mytag:1", "6"]
    # Ordinals count the images of captured tables alone.
    assert images(slice_) == [
        (0, 0, ("items", "INSERT", [10, 1])),
        (0, 1, ("items", "DELETE", [10, 1])),
    ]


def test_a_log_without_checksums_is_the_same() -> None:
    *_, slice_ = read(stream(), story("without_checksums"))
    assert images(slice_) == [(0, 0, ("orders", "INSERT", [1]))]


def test_a_prepared_transaction_passes_with_its_commit_and_its_rows_are_the_commits() -> None:
    *_, slice_ = read(stream(), story("xa"))
    # 3 is prepared before 4 and committed by 5; 6 is prepared and rolled back by 7; 8 does both phases at once.
    assert numbers(slice_) == ["4", "3", "5", "6", "7", "8"]
    assert images(slice_) == [
        (0, 0, ("orders", "INSERT", [2])),
        (2, 0, ("orders", "INSERT", [1])),
        (5, 0, ("orders", "INSERT", [4])),
    ]


def test_a_prepared_transaction_does_not_pass_before_its_second_phase() -> None:
    log_events = story("xa")
    commit = next(i for i, event in enumerate(log_events) if b"XA COMMIT" in event)
    log = stream()
    *_, slice_ = read(log, log_events[: commit - 1])
    assert numbers(slice_) == ["4"]
    *_, slice_ = read(log, log_events[commit - 1 : commit + 1])
    assert numbers(slice_) == ["3", "5"]


def test_the_commit_of_what_was_prepared_before_the_log_may_have_changed_any_table() -> None:
    slice_ = last(read(stream(), [rotate(), begin(1), query("XA COMMIT X'61',X'',1")]))
    assert numbers(slice_) == ["1"]
    [unread] = slice_.unread
    assert (unread.tables, unread.databases) == (frozenset(), None)
    assert "X'61',X'',1" in unread.reason
    # A rollback takes back nothing that anybody saw.
    slice_ = last(read(stream(), [rotate(), begin(1), query("XA ROLLBACK X'61',X'',1")]))
    assert numbers(slice_) == ["1"]
    assert slice_.unread == ()


XA = "X'61',X'',1"


def prepared(number: int, *rows: bytes) -> list[bytes]:
    """An XA transaction's first phase."""
    xid = b"\0" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4) + b"a"
    maps = [MAP] if rows else []
    end = query(f"XA END {XA}")
    return [begin(number), query(f"XA START {XA}"), *maps, *rows, end, made(Code.XA_PREPARE, xid)]


def committed(number: int) -> list[bytes]:
    return [begin(number), query(f"XA COMMIT {XA}")]


def test_what_waits_for_its_second_phase_is_told_with_its_tables() -> None:
    log = stream()
    there = last(read(log, [rotate(), *prepared(1, ROW), *transaction(2)]))
    [noted] = there.prepared
    assert (noted.xid, noted.tables) == (XA, (TableId("shop", "orders"),))
    assert noted.left_out == GtidSet.parse(f"{SERVER}:1")
    slice_ = last(read(log, committed(3)))
    assert not slice_.prepared and not slice_.unread
    assert (numbers(slice_), images(slice_)) == (["1", "3"], [(1, 0, ("orders", "INSERT", [5]))])


def test_what_is_prepared_by_a_name_that_waits_leaves_no_gap() -> None:
    """The first one was rolled back with sql_log_bin = 0, or the server crashed before InnoDB had prepared it."""
    log = stream()
    waits = last(read(log, [rotate(), *prepared(1, ROW), *transaction(2)]))
    assert numbers(waits) == ["2"]
    again = last(read(log, prepared(3, table(2, "items"), row(2, 9))))
    assert (numbers(again), images(again), again.unread) == (["1"], [], ())
    assert [each.left_out for each in again.prepared] == [GtidSet.parse(f"{SERVER}:3")]
    done = last(read(log, committed(4)))
    assert (numbers(done), images(done)) == (["3", "4"], [(1, 0, ("items", "INSERT", [9]))])


@pytest.mark.parametrize("one_phase", [True, False])
def test_an_xa_identifier_whose_format_has_more_than_32_bits_is_followed(one_phase: bool) -> None:
    """The statements have all of its bits, XA_PREPARE has the lowest 32. What waits is known by all of them."""
    long, other = f"X'61',X'',{2**32 + 1}", f"X'61',X'',{2**33 + 1}"
    log, said = stream(), []
    for number, xid in ((1, long), (2, other)):
        tail = bytes([one_phase]) + (1).to_bytes(4, "little") * 2 + bytes(4) + b"a"
        rows = [table(1, "orders"), row(1, number)]
        begun = [begin(number), query(f"XA START {xid}"), *rows, query(f"XA END {xid}")]
        said += read(log, [*([rotate()] if number == 1 else []), *begun, made(Code.XA_PREPARE, tail)])
    if not one_phase:
        assert [each.xid for each in log.prepared] == [long, other]
        said += read(log, [begin(3), query(f"XA COMMIT {long}"), begin(4), query(f"XA ROLLBACK {other}")])
    slices = [each for each in said if isinstance(each, TransactionsRead)]
    found = [(image[2][2], numbers(each)[image[0]]) for each in slices for image in images(each)]
    assert found == ([([1], "1"), ([2], "2")] if one_phase else [([1], "3")])
    assert not any(each.unread for each in slices) and not log.prepared


def test_a_prepared_transaction_without_captured_rows_passes_at_once() -> None:
    log = stream("items")
    slice_ = last(read(log, [rotate(), *prepared(1, ROW)]))
    assert numbers(slice_) == ["1"]
    assert [(each.tables, each.left_out) for each in slice_.prepared] == [
        ((TableId("shop", "orders"),), GtidSet())
    ]
    # So it does where it wasn't read, and its second phase is nothing to the tables that are captured.
    noted = slice_.prepared
    again = LogStream(lambda table: table.name == "items", anywhere, prepared=noted)
    slice_ = last(read(again, [rotate(), *committed(2)]))
    assert (numbers(slice_), slice_.prepared) == (["2"], ())
    assert [each.tables for each in slice_.unread] == [frozenset({TableId("shop", "orders")})]


def test_an_xa_transaction_with_more_rows_than_may_wait_has_its_tables_read_anew() -> None:
    log = stream(bound=SliceBound(bytes=100, held=300))
    slice_ = last(read(log, [rotate(), *prepared(1, *[ROW] * 40)]))
    assert numbers(slice_) == ["1"]
    slice_ = last(read(log, committed(2)))
    assert (numbers(slice_), images(slice_)) == (["2"], [])
    assert [each.tables for each in slice_.unread] == [frozenset({TableId("shop", "orders")})]


@pytest.mark.parametrize("take", [parsed, folded])
def test_an_xa_transaction_with_more_rows_than_a_slice_has_comes_in_parts_of_its_commit(
    take: Callable[[LogStream, Iterable[bytes]], list[LogMessage]],
) -> None:
    """What passed before it is passed while it is noted that this one waits."""
    log = FoldingStream(everything, anywhere, SliceBound(bytes=200, held=10_000), keeps_statements=True)
    texts = [made(Code.ROWS_QUERY, b"\0" + b"INSERT %d" % n) for n in range(2)]
    rows = [texts[0], *(row(1, n) for n in range(25)), texts[1], *(row(1, n) for n in range(25, 40))]
    assert not [
        each for each in take(log, [rotate(), *prepared(1, *rows)]) if not isinstance(each, LogAdvanced)
    ]
    first, *parts, slice_ = take(log, [*transaction(2, MAP, ROW), *committed(3), *transaction(4)])
    assert isinstance(first, TransactionsRead) and isinstance(slice_, TransactionsRead)
    assert (numbers(first), [each.xid for each in first.prepared]) == (["2"], [XA])
    assert len(parts) > 2 and all(isinstance(each, TransactionPartRead) for each in parts)
    assert {each.gtid.number for each in parts if isinstance(each, TransactionPartRead)} == {3}
    assert (numbers(slice_), slice_.prepared, slice_.unread) == (["3", "1", "4"], (), ())
    found = []
    for message in (*parts, slice_):
        assert isinstance(message, TransactionPartRead | TransactionsRead)
        (of_orders,) = decoded(message.tables)
        assert of_orders.images["transaction"].to_pylist() == [0] * len(of_orders.images)
        said = [source["query"] for source in of_orders.images["source"].to_pylist()]
        found += list(
            zip(of_orders.rows["0"].to_pylist(), of_orders.images["ordinal"].to_pylist(), said, strict=True)
        )
    assert found == [(n, n, "INSERT 0" if n < 25 else "INSERT 1") for n in range(40)]


@pytest.mark.parametrize(
    ("updated", "databases"), [("shop", frozenset({"shop"})), (None, None)], ids=["said", "not said"]
)
@pytest.mark.parametrize("rows", [(), (ROW,)], ids=["alone", "among rows"])
def test_an_xa_transaction_with_statements_is_read_again_at_its_commit(
    rows: tuple[bytes, ...], updated: str | None, databases: frozenset[str] | None
) -> None:
    statements = [query("UPDATE x", updated=updated), query("DELETE FROM `shop`.`x`", updated="shop")]
    first = prepared(1, *rows)
    log = stream()
    slice_ = last(read(log, [rotate(), *first[:2], *statements, *first[2:], *transaction(2)]))
    assert (numbers(slice_), images(slice_), slice_.unread) == (["1", "2"], [], ())
    [noted] = slice_.prepared
    assert (noted.left_out, noted.databases) == (GtidSet(), databases)
    for again in (log, LogStream(everything, anywhere, prepared=[noted])):
        slice_ = last(read(again, [*([] if again is log else [rotate()]), *committed(3)]))
        [unread] = slice_.unread
        assert (unread.databases, slice_.prepared) == (databases, ())
        assert "binlog_format=ROW" in unread.reason
    log = stream()
    read(log, [rotate(), *first[:2], *statements, *first[2:]])
    slice_ = last(read(log, [begin(3), query(f"XA ROLLBACK {XA}")]))
    assert slice_.unread == ()


def test_rows_that_wait_keep_their_table_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others come in between."""
    monkeypatch.setattr(transaction_assembler, "_MAPS_REMEMBERED", 0)
    log = stream()
    read(log, [rotate(), *prepared(1, ROW)])
    read(log, transaction(2, table(1, "others"), ROW))
    slice_ = last(read(log, committed(3)))
    assert [name for _, _, (name, _, _) in images(slice_)] == ["orders"]


# -- slices


def test_a_transaction_is_in_no_slice_before_it_ends() -> None:
    log = stream()
    assert read(log, [rotate()]) == [LogAdvanced(Coordinates("binlog.000001", 4))]
    assert read(log, [begin(1), query("BEGIN"), MAP, ROW]) == []
    [slice_] = read(log, [made(Code.XID, bytes(8), end=400)])
    assert images(slice_) == [(0, 0, ("orders", "INSERT", [5]))]
    assert isinstance(slice_, TransactionsRead)
    assert slice_.end == Coordinates("binlog.000001", 400)
    assert slice_.transactions.gtid(0) == Gtid.parse(f"{SERVER}:1")
    assert log.take() == []


@given(st.lists(st.booleans(), min_size=40, max_size=40))
def test_however_it_is_cut_the_same_passes(cuts: list[bool]) -> None:
    def passed(messages: Iterable[LogMessage]) -> list[object]:
        flat: list[object] = []
        for message in messages:
            match message:
                case TransactionsRead(transactions):
                    of_each = images(message)
                    flat += [
                        (transactions.gtid(i), [image for t, _, image in of_each if t == i])
                        for i in range(len(transactions))
                    ]
                case DdlRead():
                    flat.append((message.gtid, message.statement))
                case _:
                    pass
        return flat

    log_events = story("transactions")
    log = stream()
    came: list[LogMessage] = []
    for event, cut in zip(log_events, [*cuts, *[True] * len(log_events)], strict=False):
        came += messages(log.fold(event))
        if cut:
            came += messages(log.take())
    came += messages(log.take())
    assert passed(came) == passed(read(stream(), log_events))


def test_a_slice_is_full_at_its_bound_in_transactions() -> None:
    log = stream(bound=SliceBound(transactions=2, bytes=1 << 20))
    three = [rotate(), *(event for number in (1, 2, 3) for event in transaction(number))]
    [full] = messages(log.parse(frames(three)))
    assert numbers(full) == ["1", "2"]
    [rest] = messages(log.take())
    assert numbers(rest) == ["3"]


def test_a_slice_is_full_at_its_bound_in_bytes() -> None:
    body = len(ROW) - 23
    log = stream(bound=SliceBound(transactions=100, bytes=2 * body))
    three = [rotate(), *(event for number in (1, 2, 3) for event in transaction(number, MAP, ROW))]
    # It's full with the row of a transaction that is open at the time, and goes to the next slice.
    slices = list(messages([*log.parse(frames(three)), *log.take()]))
    assert [numbers(each) for each in slices] == [["1"], ["2"], ["3"]]
    assert [images(each) for each in slices] == 3 * [[(0, 0, ("orders", "INSERT", [5]))]]


def wide(table_id: int, columns: int) -> bytes:
    """The map of shop.wide, with so many INT columns (a multiple of 8 above 250), all but the first nullable."""
    head = table_id.to_bytes(6, "little") + bytes(2) + b"\x04shop\0\x04wide\0"
    count = b"\xfc" + struct.pack("<H", columns)
    nullable = b"\xfe" + b"\xff" * (columns // 8 - 1)
    signs = b"\x01" + bytes([columns // 8]) + bytes(columns // 8)
    return made(Code.TABLE_MAP, head + count + b"\x03" * columns + b"\0" + nullable + signs)


def updated(table_id: int, columns: int, *ids: int) -> bytes:
    """UPDATE wide SET last = 1, of these ids, with binlog_row_image=MINIMAL."""
    head = table_id.to_bytes(6, "little") + b"\x01\x00\x02\x00\xfc" + struct.pack("<H", columns)
    rest = bytes(columns // 8 - 1)
    rows = b"".join(b"\0" + struct.pack("<i", each) + b"\0\1\0\0\0" for each in ids)
    return made(Code.UPDATE_ROWS, head + b"\x01" + rest + rest + b"\x80" + rows)


@pytest.mark.parametrize("take", [parsed, folded])
def test_a_slice_is_full_at_its_bound_in_cells(
    take: Callable[[LogStream, Iterable[bytes]], list[LogMessage]],
) -> None:
    """MINIMAL row images are a few bytes each, and all columns of the table once they are decoded."""
    columns = 256
    two = 2 * 2 * columns  # updates, of two images each
    log = stream(bound=SliceBound(cells=2 * two))
    first = [
        rotate(),
        *transaction(1, MAP, *[ROW] * 9),
        *transaction(2, wide(2, columns), updated(2, columns, 1, 2)),
    ]
    second = transaction(3, wide(2, columns), *(updated(2, columns, n, n + 1) for n in range(1, 10, 2)))
    rest, *parts, end = take(log, [*first, *second])
    assert isinstance(rest, TransactionsRead) and isinstance(end, TransactionsRead)
    assert (numbers(rest), numbers(end)) == (["1", "2"], ["3"])
    ids = []
    for message in (*parts, end):
        assert isinstance(message, TransactionPartRead | TransactionsRead)
        (of_wide,) = decoded(message.tables)
        ids.append(
            list(zip(of_wide.images["ordinal"].to_pylist(), of_wide.rows["0"].to_pylist(), strict=True))
        )
    assert [len(each) for each in ids] == [8, 8, 4]
    assert [each for some in ids for each in some] == [(n, n // 2 + 1) for n in range(20)]


def test_a_slice_of_images_that_leave_nearly_all_columns_out_is_bounded_in_memory() -> None:
    columns = 304
    ids = range(20_000)
    log_events = [updated(2, columns, *ids[n : n + 500]) for n in range(0, len(ids), 500)]
    read_ = parsed(stream(), [rotate(), *transaction(1, wide(2, columns), *log_events)])
    assert max(map(weight, read_)) < 32 << 20 < sum(map(weight, read_))


def next_file(number: int, last: int) -> list[bytes]:
    """The head of a file of the log before which the transactions 1 to `last` were logged."""
    before = GtidSet.parse(f"{SERVER}:1-{last}")
    return [rotate(f"binlog.{number:06}"), made(Code.PREVIOUS_GTIDS, before.encode())]


@pytest.mark.parametrize("take", [parsed, folded])
def test_transactions_that_a_file_names_and_that_never_came_are_lost(
    take: Callable[[LogStream, Iterable[bytes]], list[LogMessage]],
) -> None:
    log_events = [
        *next_file(1, 3),
        *transaction(4, MAP, ROW),
        begin(5),
        query("CREATE TABLE more (id INT)"),
        *next_file(2, 5),
        *transaction(6, MAP, ROW),
        *next_file(4, 8),
        *transaction(9, MAP, ROW),
        *next_file(5, 9),
    ]
    lost = [each for each in take(stream(), log_events) if isinstance(each, LogAdvanced) and each.unread]
    [only] = lost
    assert only.covered == GtidSet.parse(f"{SERVER}:7-8") and only.end.file == "binlog.000004"
    [unread] = only.unread
    assert unread.lost and unread.databases is None
    assert f"{SERVER}:7-8 never came" in unread.reason and "binlog.000004" in unread.reason


def test_a_prepared_transaction_that_waits_has_come() -> None:
    log_events = [
        *next_file(1, 1),
        *prepared(2, ROW),
        *next_file(2, 2),
        *transaction(3, MAP, ROW),
        *next_file(3, 3),
        *committed(4),
        *next_file(4, 4),
    ]
    said = read(stream(), log_events)
    assert not any(each.unread for each in said if isinstance(each, LogAdvanced | TransactionsRead))
    assert [numbers(each) for each in said if isinstance(each, TransactionsRead)] == [["3"], ["2", "4"]]


def test_where_the_log_stands_is_told_once() -> None:
    log = stream()
    read(log, [rotate()])
    hb = made(Code.HEARTBEAT, b"binlog.000001", end=900)
    assert read(log, [hb]) == [LogAdvanced(Coordinates("binlog.000001", 900))]
    assert read(log, [hb]) == []
    assert read(log, [rotate("binlog.000002")]) == [LogAdvanced(Coordinates("binlog.000002", 4))]


def heartbeat(file: str, offset: int) -> bytes:
    place = b"\xfe" + offset.to_bytes(8, "little")
    return made(Code.HEARTBEAT_V2, b"\x01" + bytes([len(file)]) + file.encode() + b"\x02\x09" + place + b"\0")


def test_offsets_beyond_32_bits() -> None:
    """A header has the lowest 32 bits only. A file is longer than that after one very large transaction."""
    log = stream()
    ends = [2**31, 2**32 - 8, 5]
    parts = [made(Code.ROWS_QUERY, b"", end=end) for end in ends]
    [slice_] = read(log, [rotate(), *transaction(1, *parts, end=made(Code.XID, bytes(8), end=40))])
    assert isinstance(slice_, TransactionsRead)
    assert slice_.end == Coordinates("binlog.000001", 2**32 + 40)
    assert read(log, [heartbeat("binlog.000001", 2**32 + 40)]) == []
    with pytest.raises(UndecodableError, match="comes after"):
        read(log, [heartbeat("binlog.000001", 40)])
    with pytest.raises(UndecodableError, match="from the file"):
        read(log, [heartbeat("binlog.000002", 4)])


# -- what stops it


@pytest.mark.parametrize("head", ["create table ", "CREATE  TABLE ", "/* x */ Create\nTable "])
def test_a_table_that_a_session_creates_in_a_transaction_is_told_however_it_is_written(head: str) -> None:
    creation = query(f"{head}`orders` (`id` int) start transaction", updated="shop")
    first, rows = read(stream("orders"), [rotate(), *transaction(1, creation)])
    assert isinstance(first, CreateTableSelectRead) and first.statement.startswith(head)
    assert (numbers(rows), rows.unread) == (["1"], ())  # type: ignore[union-attr]


def test_comments_before_a_statement_are_read_in_one_pass() -> None:
    """Each may be taken for the end of an earlier one, so that there are as many ways as subsets of them."""
    change = query(f"{10_000 * '/**/'}UPDATE orders SET id = 2", updated="shop")
    slice_ = last(read(stream("orders"), [rotate(), *transaction(1, change)]))
    assert (numbers(slice_), [each.databases for each in slice_.unread]) == (["1"], [frozenset({"shop"})])


@pytest.mark.parametrize("text", [b"INSERT INTO orders VALUES ('\xe9')", b"\xff", "é".encode()])
def test_a_statement_keeps_its_rows_whatever_its_bytes_are(text: bytes) -> None:
    """The text is in the client's character set, or has a blob in it."""
    log = LogStream(everything, anywhere, keeps_statements=True)
    told = made(Code.ROWS_QUERY, b"\0" + text)
    others = [made(Code.ROWS_QUERY, b"\0SELECT 1"), ROW]
    [table_images] = decoded(last(read(log, [rotate(), *transaction(1, told, MAP, ROW, *others)])).tables)
    sources = table_images.images.column("source").to_pylist()
    assert [source["query"] for source in sources] == [text.decode(errors="replace"), "SELECT 1"]


def test_statement_format_has_captured_tables_read_anew_that_it_may_be_about() -> None:
    slice_ = last(read(stream("orders"), story("statement_format")[:-4]))
    assert numbers(slice_) == [
        "5"
    ]  # other.things was changed by a statement, and that's none of our business
    assert slice_.unread == ()
    slice_ = last(read(stream("orders"), story("statement_format")))
    assert [each.databases for each in slice_.unread] == [frozenset({"shop"})]
    assert "binlog_format=ROW" in slice_.unread[0].reason
    for anything in (query("UPDATE x SET y = 1", updated=None), loaded(updated=None)):
        slice_ = last(read(stream("orders"), [rotate(), *transaction(1, anything)]))
        assert (numbers(slice_), [each.databases for each in slice_.unread]) == (["1"], [None])


def test_many_statements_that_say_the_same_are_told_once() -> None:
    of_shop, of_others = query("UPDATE x SET y = 1", updated="shop"), query("UPDATE x SET y = 1", updated="b")
    log_events = [*transaction(1, *[of_shop, of_others] * 20), *transaction(2, *[of_others] * 20)]
    slice_ = last(read(stream(), [rotate(), *log_events]))
    assert numbers(slice_) == ["1", "2"]
    assert [each.databases for each in slice_.unread] == [frozenset({"shop"}), frozenset({"b"})]


def test_a_load_data_says_where_it_changed_something() -> None:
    for updated, unread in (("shop", [frozenset({"shop"})]), ("other", [])):
        log_events = [rotate(), *transaction(1, loaded(updated))]
        slice_ = last(read(LogStream(everything, lambda name: name == "shop"), log_events))
        assert (numbers(slice_), [each.databases for each in slice_.unread]) == (["1"], unread)
    with pytest.raises(UndecodableError, match="EXECUTE_LOAD_QUERY: it is shorter than its own head"):
        read(stream("orders"), [rotate(), *transaction(1, made(Code.EXECUTE_LOAD_QUERY, b"?"))])


def test_what_changes_more_than_its_rows_tell_says_so_behind_its_end() -> None:
    log = stream(bound=SliceBound(bytes=100))
    log_events = [*transaction(1, MAP, ROW), *transaction(2, query("UPDATE x"), MAP, *[ROW] * 40)]
    *parts, _ = said = read(log, [rotate(), *log_events])
    slice_ = last(said)
    assert len(parts) > 2
    assert all(not each.unread for each in parts if isinstance(each, TransactionsRead))
    assert (numbers(slice_), len(slice_.unread)) == (["2"], 1)


def test_a_memory_table_that_a_restart_has_emptied_is_told_by_a_statement() -> None:
    """MySQL 5.6 logs it bare, and may log rows of the statement that found it so after it; 5.7 frames it."""
    emptied = query("DELETE FROM `shop`.`orders`")
    framed = transaction(1, emptied, end=query("COMMIT"))
    for told in ([begin(1), emptied], [begin(1), emptied, MAP, ROW], framed):
        [statement, rows] = read(stream("orders"), [rotate(), *told, *transaction(2, MAP, ROW)])
        assert isinstance(statement, DdlRead)
        assert (statement.gtid.number, statement.statement) == (1, "DELETE FROM `shop`.`orders`")
        assert numbers(rows) == ["2"]
    assert read(stream("orders"), [rotate(), begin(1), emptied, MAP]) == []
    for others in ([table(2, "items"), row(2, 1), emptied], [emptied, query("UPDATE x", updated="shop")]):
        told = transaction(1, *others, end=query("COMMIT"))
        slice_ = last(read(stream("orders", "items"), [rotate(), *told]))
        assert (numbers(slice_), images(slice_)) == (["1"], [])
        assert {name for each in slice_.unread for name in each.databases or ()} == {"shop"}
        assert TableId("shop", "orders") in {table for each in slice_.unread for table in each.tables}


BARE = [begin(1), query("DELETE FROM `shop`.`orders`")]
FRAMED = [begin(1), query("BEGIN"), BARE[1]]
SMALL = SliceBound(bytes=100)


@pytest.mark.parametrize("take", [parsed, folded])
@pytest.mark.parametrize(
    ("emptied", "end"), [(BARE, []), (FRAMED, [query("COMMIT")])], ids=["bare", "framed"]
)
def test_a_memory_table_that_is_filled_where_it_is_found_empty_has_no_parts(
    take: Callable[[LogStream, Iterable[bytes]], list[LogMessage]], emptied: list[bytes], end: list[bytes]
) -> None:
    """INSERT INTO mem SELECT …, of more rows than a slice has, is the first statement after the restart."""
    rows, more = [MAP, *[ROW] * 40], transaction(2, MAP, ROW)
    [statement, slice_] = take(stream("orders", bound=SMALL), [rotate(), *emptied, *rows, *end, *more])
    assert isinstance(statement, DdlRead)
    assert (statement.gtid.number, statement.statement) == (1, "DELETE FROM `shop`.`orders`")
    assert isinstance(slice_, TransactionsRead) and numbers(slice_) == ["2"]
    assert [each for _, _, each in images(slice_)] == [("orders", "INSERT", [5])]
    # Its trigger fills another table, whose rows are no longer there when the group ends.
    others = [table(2, "items"), *[row(2, 1)] * 40, MAP, ROW]
    [both] = take(stream("orders", "items", bound=SMALL), [rotate(), *emptied, *others, *end, *more])
    assert isinstance(both, TransactionsRead) and numbers(both) == ["1", "2"]
    assert [transaction for transaction, _, _ in images(both)] == [1]
    assert {name for each in both.unread for name in each.tables} == {ORDERS, TableId("shop", "items")}


@pytest.mark.parametrize("updated", ["shop", None, "other"])
def test_a_load_data_that_finds_a_memory_table_empty_is_of_its_group(updated: str | None) -> None:
    """MySQL 5.6 logs it bare, too, in a session that logs statements."""
    log = LogStream(everything, lambda name: name == "shop")
    said = read(log, [rotate(), *BARE, loaded(updated), *transaction(2, MAP, ROW)])
    if updated == "other":
        [statement, slice_] = said
        assert isinstance(statement, DdlRead) and numbers(slice_) == ["2"]
        return
    [slice_] = said
    assert isinstance(slice_, TransactionsRead) and numbers(slice_) == ["1", "2"]
    assert ORDERS in {name for each in slice_.unread for name in each.tables}
    assert (None if updated is None else frozenset({updated})) in [each.databases for each in slice_.unread]


def test_a_statement_after_a_memory_table_that_was_filled_comes_after_its_tables() -> None:
    log_events = [*BARE, table(2, "items"), *[row(2, 1)] * 40, query("CREATE TABLE t LIKE items")]
    [advance, statement] = read(stream(bound=SMALL), [rotate(), *log_events])
    assert isinstance(advance, LogAdvanced) and isinstance(statement, DdlRead)
    assert {name for each in advance.unread for name in each.tables} == {ORDERS, TableId("shop", "items")}


@pytest.mark.parametrize("end", [None, query("COMMIT")], ids=["XID", "COMMIT"])
def test_rows_in_parts_before_a_table_is_found_empty_keep_their_transaction(end: bytes | None) -> None:
    log_events = transaction(1, MAP, *[ROW] * 40, BARE[1], *[ROW] * 40, end=end)
    *parts, slice_ = read(stream("orders", bound=SMALL), [rotate(), *log_events])
    assert parts and all(isinstance(each, TransactionPartRead) for each in parts)
    assert isinstance(slice_, TransactionsRead) and numbers(slice_) == ["1"]
    assert any(each.databases is None or ORDERS in each.tables for each in slice_.unread)


@pytest.mark.parametrize("end", [None, query("COMMIT")], ids=["XID", "COMMIT"])
@pytest.mark.parametrize("text", ["DELETE FROM orders", "DELETE FROM a_view", "DELETE FROM `shop`.`orders`"])
def test_a_sessions_delete_changes_what_follows_from_it_too(text: str, end: bytes | None) -> None:
    """A trigger writes another table, a foreign key deletes another one's rows, or the name is a view's."""
    log_events = transaction(1, query(text, updated="shop"), end=end)
    slice_ = last(read(stream("orders"), [rotate(), *log_events]))
    assert [each.databases for each in slice_.unread] == [frozenset({"shop"})]


def test_an_engine_with_transactions_has_no_memory_table() -> None:
    [slice_] = read(stream("orders"), [rotate(), *transaction(1, query("DELETE FROM `shop`.`orders`"))])
    assert isinstance(slice_, TransactionsRead)
    assert [each.databases for each in slice_.unread] == [None]


def test_a_table_of_another_database_that_is_found_empty_is_read_again() -> None:
    """The session's default database isn't its own, and the statement that found it changed another table."""
    emptied = query("DELETE FROM `shop`.`orders`", database="other")
    log = stream("orders", "items")
    log_events = [rotate(), begin(1), emptied, table(2, "items"), row(2, 1), *transaction(2)]
    [slice_, *_] = read(log, log_events)
    assert isinstance(slice_, TransactionsRead)
    [unread] = slice_.unread
    assert {TableId("shop", "orders"), TableId("shop", "items")} <= unread.tables


def test_a_statement_says_that_a_temporary_table_may_be_meant() -> None:
    log_events = [rotate(), begin(1), query("TRUNCATE orders", flags=4), begin(2), query("TRUNCATE orders")]
    certain = [each.thread_specific for each in read(stream(), log_events) if isinstance(each, DdlRead)]
    assert certain == [True, False]


def test_a_table_that_is_created_by_a_query_is_read_again() -> None:
    """The rows of CREATE TABLE … SELECT come as rows, unless the session logs statements."""
    created = query("CREATE TABLE orders SELECT 1 AS id", updated="shop")
    creation, slice_ = read(stream("orders"), [rotate(), *transaction(1, created)])
    assert isinstance(creation, CreateTableSelectRead) and isinstance(slice_, TransactionsRead)
    assert [each.databases for each in slice_.unread] == [frozenset({"shop"})]


def test_memory_tables_that_one_statement_found_empty_have_one_gtid() -> None:
    """MySQL 5.6 logs no second GTID, neither for the second table nor for a CREATE that opened the first one."""
    emptied = [query(f"DELETE FROM `shop`.`{name}`") for name in ("items", "orders")]
    log = stream("items", "orders")
    assert read(log, [rotate(), begin(1), *emptied]) == []
    advanced, statement, rows = read(log, transaction(2, MAP, ROW))
    assert isinstance(advanced, LogAdvanced) and isinstance(statement, DdlRead)
    assert [(each.tables, each.lost) for each in advanced.unread] == [
        (frozenset({TableId("shop", "items")}), True)
    ]
    assert (statement.gtid.number, statement.statement) == (1, "DELETE FROM `shop`.`orders`")
    assert numbers(rows) == ["2"]

    created = [rotate(), begin(1), emptied[0], query("CREATE TABLE t LIKE items")]
    advanced, statement = read(stream("items", "t"), created)
    assert isinstance(advanced, LogAdvanced) and isinstance(statement, DdlRead)
    assert [each.tables for each in advanced.unread] == [frozenset({TableId("shop", "items")})]
    assert (statement.gtid.number, statement.statement) == (1, "CREATE TABLE t LIKE items")


def test_partial_updates_are_rows_like_any_other() -> None:
    *_, slice_ = read(stream("docs"), story("partial_json"))
    assert [kind for _, _, (_, kind, _) in images(slice_)] == ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER"]
    *_, slice_ = read(stream("other"), story("partial_json"))
    assert numbers(slice_) == ["3", "4"]


def test_compressed_transactions_are_like_any_other() -> None:
    *_, slice_ = read(stream(), story("compressed"))
    assert images(slice_) == [(0, 0, ("orders", "INSERT", [1]))]
    assert isinstance(slice_, TransactionsRead)
    payload = next(event for event in story("compressed") if event[4] == Code.TRANSACTION_PAYLOAD)
    assert slice_.end == Coordinates("binlog.000001", events.header(payload).end)


def test_a_partial_rollback_has_tables_read_anew_whose_rows_it_may_take_back() -> None:
    for words in ("ROLLBACK", "ROLLBACK TO `s`"):
        end = [] if words == "ROLLBACK" else [made(Code.XID, bytes(8))]
        slice_ = last(read(stream(), [rotate(), *transaction(1, MAP, ROW, query(words))[:-1], *end]))
        assert (numbers(slice_), images(slice_)) == (["1"], [])
        assert [each.tables for each in slice_.unread] == [frozenset({TableId("shop", "orders")})]
        assert "enforce_gtid_consistency=ON" in slice_.unread[0].reason
    slice_ = last(read(stream(), [rotate(), begin(1), query("BEGIN"), query("ROLLBACK")]))
    assert numbers(slice_) == ["1"]


@pytest.mark.parametrize(
    ("log_events", "words"),
    [
        ([*transaction(1)[:-1], begin(2)], r"the next transaction came before the transaction's end.*:1\)"),
        ([*transaction(1)[:-1], rotate()], "ROTATE came before the transaction's end"),
        ([*transaction(1)[:-1], made(Code.STOP, b"")], "STOP came before"),
        ([query("BEGIN")], "a transaction has no GTID"),
        ([made(Code.XID, bytes(8))], "an XID came without a GTID"),
        ([MAP, ROW], "a rows event came without a GTID"),
        ([*transaction(1, ROW)], "table id 1, which no table map explains"),
        ([*transaction(1, MAP), *transaction(2, ROW)], "which no table map explains"),
        ([begin(0)], "not a GTID's number"),
        (
            [*transaction(1, end=made(Code.XA_PREPARE, b"\0" + bytes(12)))],
            "XA PREPARE of X'',X'',0 came in the transaction ''",
        ),
    ],
)
def test_a_log_that_cannot_be_is_refused(log_events: list[bytes], words: str) -> None:
    with pytest.raises(UndecodableError, match=words):
        read(stream(), [rotate(), *log_events])


def test_a_transaction_before_the_log_has_said_where_it_is_is_refused() -> None:
    with pytest.raises(UndecodableError, match="named its file"):
        read(stream(), transaction(1))


def test_a_table_with_bad_rows_is_unreadable_and_the_others_are_not() -> None:
    short = made(Code.WRITE_ROWS, b"\x01" + bytes(5) + b"\x01\x00\x02\x00\x01\xff\x00" + b"\x05\x00")
    [slice_] = read(stream(), [rotate(), *transaction(1, MAP, short, table(2, "items"), row(2, 6))])
    assert isinstance(slice_, TransactionsRead)
    unreadable, items = slice_.tables
    assert isinstance(unreadable, TableUnreadable)
    assert unreadable.table == TableId("shop", "orders")
    assert "ends inside" in unreadable.reason
    assert isinstance(items, TableImages)
    assert items.rows["0"].to_pylist() == [6]


def test_a_table_whose_map_is_not_understood_is_unreadable() -> None:
    strange = made(Code.TABLE_MAP, b"\x01" + bytes(7) + b"\x04shop\0\x06orders\0" + b"\x01\xc8\x00\x00")
    [slice_] = read(stream(), [rotate(), *transaction(1, strange, ROW)])
    assert isinstance(slice_, TransactionsRead)
    [unreadable] = slice_.tables
    assert isinstance(unreadable, TableUnreadable)
    assert "the type 200" in unreadable.reason


@given(st.sampled_from(sorted(STORIES)), st.data())
def test_events_left_out_or_repeated_never_end_in_anything_but_our_own_errors(
    name: str, data: st.DataObject
) -> None:
    log_events = story(name)
    kept = data.draw(st.lists(st.sampled_from(range(len(log_events))), max_size=len(log_events)).map(sorted))
    with contextlib.suppress(Definite):
        read(stream(), [log_events[i] for i in kept])
