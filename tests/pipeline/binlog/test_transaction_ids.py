"""A log without GTIDs: transactions are named by their places, and what had passed is left out."""

from collections.abc import Callable, Iterable
from itertools import accumulate

import pytest

from pipeline.binlog.event_type import Code
from pipeline.binlog.slice import SliceBound
from pipeline.binlog.stream import LogMessage
from pipeline.errors import UndecodableError
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import DdlRead, LogAdvanced, TransactionsRead
from tests.pipeline.binlog import test_transaction_assembler as logs
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.folding_stream import FoldingStream

ANONYMOUS = made(Code.ANONYMOUS_GTID, bytes(25))
XID = made(Code.XID, bytes(8))
XA = "X'61',X'',1"
PREPARED = made(
    Code.XA_PREPARE, b"\0" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4) + b"a"
)
_START = 4

Read = Callable[[FoldingStream, Iterable[bytes]], list[LogMessage]]
both_ways = pytest.mark.parametrize("read", [logs.parsed, logs.folded])
# Since MySQL 5.7 an event says that a transaction begins without a GTID; before, nothing does.
both_kinds = pytest.mark.parametrize("first", [(ANONYMOUS,), ()])


def inserted(value: int, first: tuple[bytes, ...]) -> list[bytes]:
    return [*first, logs.query("BEGIN"), logs.MAP, logs.row(1, value), XID]


def prepared(value: int, first: tuple[bytes, ...]) -> list[bytes]:
    return [
        *first,
        logs.query(f"XA START {XA}"),
        logs.MAP,
        logs.row(1, value),
        logs.query(f"XA END {XA}"),
        PREPARED,
    ]


class Log:
    """Transactions one after the other in a file; `starts` are the offsets at which they begin and end."""

    def __init__(self, *transactions: list[bytes]) -> None:
        sizes = [sum(map(len, events)) for events in transactions]
        self.starts = list(accumulate(sizes, initial=_START))
        self._events = [event for events in transactions for event in events]

    def place(self, transaction: int) -> Coordinates:
        """Where this one begins."""
        return Coordinates("binlog.000001", self.starts[transaction])

    def before(self, transaction: int) -> GtidSet:
        """All before this one."""
        return file_positions.all_before(logs.SERVER, self.place(transaction))

    def sent(self, position: GtidSet) -> list[bytes]:
        """Returns what a server sends for what this position lacks."""
        _, asked = file_positions.file_and_offset(file_positions.first_missing(position))
        ends = list(accumulate(map(len, self._events), initial=_START))
        placed = [
            (end, made(event[4], event[19:-4], end=end))
            for event, end in zip(self._events, ends[1:], strict=True)
        ]
        return [logs.rotate(offset=asked), *(event for end, event in placed if end > asked)]


def reader(position: GtidSet, bound: SliceBound | None = None) -> FoldingStream:
    return FoldingStream(logs.everything, logs.anywhere, bound, position)


def behind(position: GtidSet, messages: Iterable[LogMessage]) -> GtidSet:
    """The position once these have passed, as the coordinator has it."""
    for message in messages:
        match message:
            case TransactionsRead(transactions, _, _, covered):
                position = transactions.added_to(position) | covered
            case DdlRead(gtid=gtid, covered=covered):
                position = position.with_gtid(gtid) | covered
            case LogAdvanced(_, covered):
                position |= covered
    return position


def values(messages: Iterable[LogMessage]) -> list[object]:
    return [
        image[2][0]
        for message in messages
        if isinstance(message, TransactionsRead)
        for _, _, image in logs.images(message)
    ]


@both_ways
@both_kinds
def test_all_that_lies_before_the_end_has_passed_then(read: Read, first: tuple[bytes, ...]) -> None:
    log = Log(inserted(1, first), inserted(2, first), [*first, logs.query("TRUNCATE t")], inserted(3, first))
    said = read(reader(log.before(0)), log.sent(log.before(0)))
    assert [type(message) for message in said] == [TransactionsRead, DdlRead, TransactionsRead]
    assert values(said) == [1, 2, 3]
    assert behind(log.before(0), said) == log.before(4)
    slice_ = said[0]
    assert isinstance(slice_, TransactionsRead)
    assert [slice_.transactions.gtid(i) for i in range(2)] == [
        file_positions.transaction_at(logs.SERVER, log.place(i)) for i in range(2)
    ]
    assert slice_.transactions.gtid_texts().to_pylist() == [None, None]
    assert slice_.covered == log.before(2) - log.before(0)


@both_ways
@both_kinds
def test_each_place_is_one_to_go_on_from(read: Read, first: tuple[bytes, ...]) -> None:
    log = Log(inserted(1, first), [*first, logs.query("TRUNCATE t")], inserted(3, first))
    for begun in range(4):
        said = read(reader(log.before(begun)), log.sent(log.before(begun)))
        assert behind(log.before(begun), said) == log.before(3)
        assert values(said) == [value for value in (1, 3) if value > begun]


@both_ways
def test_what_is_prepared_is_a_gap_and_what_is_behind_it_does_not_pass_again(read: Read) -> None:
    first = (ANONYMOUS,)
    log = Log(
        inserted(1, first),
        prepared(2, first),
        inserted(3, first),
        [*first, logs.query("TRUNCATE t")],
        inserted(4, first),
        [*first, logs.query(f"XA COMMIT {XA}")],
        inserted(5, first),
    )
    before_commit = log.sent(log.before(0))[: 1 + 5 + 6 + 5 + 2 + 5]
    said = read(reader(log.before(0)), before_commit)
    assert values(said) == [1, 3, 4]
    position = behind(log.before(0), said)
    assert position == log.before(5) - (log.before(2) - log.before(1))
    again = read(reader(position), log.sent(position))
    assert [type(message) for message in again] == [TransactionsRead]
    assert values(again) == [2, 5]
    assert behind(position, again) == log.before(7)


@both_ways
def test_a_prepared_one_that_has_passed_is_left_out_with_its_second_phase(read: Read) -> None:
    first = (ANONYMOUS,)
    log = Log(
        inserted(1, first), prepared(2, first), [*first, logs.query(f"XA COMMIT {XA}")], inserted(3, first)
    )
    gap = log.before(1) - log.before(0)
    said = read(reader(log.before(3) - gap | log.before(0)), log.sent(log.before(3) - gap | log.before(0)))
    assert values(said) == [1, 3]


@both_ways
def test_parts_of_what_had_passed_are_left_out(read: Read) -> None:
    first = (ANONYMOUS,)
    large = [*first, logs.query("BEGIN"), logs.MAP, *(logs.row(1, value) for value in range(10, 20)), XID]
    log = Log(prepared(1, first), large, [*first, logs.query(f"XA COMMIT {XA}")])
    position = log.before(2) - (log.before(1) - log.before(0)) | file_positions.all_before(
        logs.SERVER, Coordinates("binlog.000001", _START)
    )
    said = read(reader(position, SliceBound(bytes=40)), log.sent(position))
    assert [type(message) for message in said] == [TransactionsRead]
    assert values(said) == [1]
    assert behind(position, said) == log.before(3)


def test_where_there_are_gtids_each_transaction_needs_one() -> None:
    with pytest.raises(UndecodableError, match="a transaction has no GTID; set gtid_mode=ON"):
        logs.parsed(logs.stream(), [logs.rotate(), ANONYMOUS])
