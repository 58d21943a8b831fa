"""When transactions began, read from a log without a look at what they hold."""

import numpy as np
import pytest

from pipeline.binlog.commit_times import CommitTimeParser
from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.event_type import Code
from pipeline.gtid import coordinates, file_positions, gtid_set, witness
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.test_transaction_assembler import SERVER, rotate
from tests.pipeline.binlog.test_transaction_ids import Log, inserted

OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
HERE, THERE = 1_700_000_000_000_002, 1_700_000_000_000_001


def framed(*events: bytes) -> Frames:
    ends = np.cumsum([len(event) for event in events])
    bounds = np.stack([ends - [len(event) for event in events], ends], axis=1)
    return Frames(np.frombuffer(b"".join(events), np.uint8), bounds.astype(np.int64))


def begins(number: int, *times: int) -> bytes:
    """A GTID event, with these times of its commit."""
    body = b"\1" + bytes.fromhex(OTHER.replace("-", "")) + number.to_bytes(8, "little")
    return made(Code.GTID, body + b"\2" + bytes(16) + b"".join(time.to_bytes(7, "little") for time in times))


def test_each_transaction_is_told_with_both_times_and_what_it_holds_is_not_looked_at() -> None:
    unreadable = made(Code.TABLE_MAP, b"nothing that could be read")
    log = framed(rotate(), begins(7, HERE), unreadable, begins(8, HERE | 1 << 55, THERE), unreadable)
    named = [gtid_set.Gtid.parse(f"{OTHER}:{number}") for number in (7, 8)]
    assert list(CommitTimeParser(gtid_set.NO_GTIDS).parse(log)) == [
        witness.Witness(named[0], HERE, HERE),
        witness.Witness(named[1], HERE, THERE),
    ]


@pytest.mark.parametrize("first", [(made(Code.ANONYMOUS_GTID, bytes(25)),), ()])
def test_without_gtids_a_transaction_is_told_by_its_place(first: tuple[bytes, ...]) -> None:
    log = Log(inserted(1, first), inserted(2, first))
    beginnings = CommitTimeParser(log.before(1))
    name = file_positions.transaction_at(SERVER, log.place(1))
    assert name in [each.gtid for each in beginnings.parse(framed(*log.sent(log.before(1))))]
    assert beginnings.reached(log.place(2))
    assert not beginnings.reached(coordinates.Coordinates("binlog.000002", 4))
