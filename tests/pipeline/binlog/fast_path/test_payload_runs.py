"""Small payloads, unpacked together: the result, and that the rules of the large ones hold.

The tests of `payload_event` and of the fold, which unpacks each by itself, say what the rules are.
"""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.event_type import Code
from pipeline.binlog.events.payload_event import payload, unpacked
from pipeline.binlog.fast_path.payload_runs import SMALL, find_run
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.events.test_payload_event import body, zstd
from tests.pipeline.binlog.test_stream import XID, folded, parsed
from tests.pipeline.binlog.test_transaction_assembler import begin, query, rotate, row, table

BEGIN, MAP, ROW = query("BEGIN"), table(1, "orders"), row(1, 7)


def plain(*inside: bytes) -> bytes:
    """The events as they are in a payload: without checksums."""
    return b"".join(event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4] for event in inside)


def packed(inside: bytes, size: int | None = None) -> bytes:
    """These events as a payload, which may say any size."""
    return made(Code.TRANSACTION_PAYLOAD, body(zstd(inside), len(inside) if size is None else size))


def filled(size: int, *, end: bytes = XID) -> bytes:
    """A transaction of so many bytes, unpacked."""
    around = len(plain(BEGIN, MAP, ROW, made(Code.ROWS_QUERY, b""), end))
    text = random.Random(size).randbytes(size - around)
    return plain(BEGIN, MAP, ROW, made(Code.ROWS_QUERY, text), end)


def framed(events: Sequence[bytes]) -> Frames:
    ends = np.cumsum([len(event) for event in events])
    starts = ends - [len(event) for event in events]
    bounds = np.ascontiguousarray(np.stack([starts, ends], axis=1), np.int64)
    return Frames(np.frombuffer(bytearray(b"".join(events)), np.uint8), bounds)


def test_a_run_is_the_log_as_it_would_be_uncompressed() -> None:
    insides = [filled(size) for size in (250, 300, 255, 70_000 // 2, 256, 1000)]
    log = [event for n, inside in enumerate(insides, 1) for event in (begin(n), packed(inside))]
    got = find_run(framed(log), 1, 4)
    assert got is not None
    assert got.taken == len(log) - 1
    events = [got.frames.event(i) for i in range(len(got.frames))]
    wanted = []
    for outer in log[1:]:
        if outer[4] == Code.TRANSACTION_PAYLOAD:
            wanted.append(
                outer[:4] + bytes([Code.ROWS_QUERY]) + outer[5:9] + bytes([19, 0, 0, 0]) + outer[13:19]
            )
            for frames in unpacked(payload(outer[19:-4])):
                wanted += [placeless(frames.event(i)) for i in range(len(frames))]
        else:
            wanted.append(plain(outer))
    assert events == wanted


def placeless(event: bytes) -> bytes:
    return event[:13] + bytes(4) + event[17:]


@pytest.mark.parametrize(("size", "taken"), [(SMALL - 1, 5), (SMALL, 5), (SMALL + 1, 1)])
def test_a_large_one_ends_the_run_before_it(size: int, taken: int) -> None:
    log = [packed(filled(300)), begin(2), packed(filled(size)), begin(3), packed(filled(300))]
    got = find_run(framed(log), 0, 4)
    assert got is not None
    assert got.taken == taken
    assert (find_run(framed(log), 2, 4) is None) == (size > SMALL)


def test_a_run_ends_before_it_is_large() -> None:
    log = [event for n in range(1, 40) for event in (packed(filled(SMALL)), begin(n))]
    got = find_run(framed(log), 0, 4)
    assert got is not None
    assert got.taken == 2 * 16 - 1
    assert len(got.frames.buffer) < 17 * SMALL


def of_size(frame: bytes, size: int) -> bytes:
    """The frame, which is of one segment and of less than 64 KiB, as if it were of this size."""
    assert frame[4] >> 5 == 0b011
    return frame[:5] + (size - 256).to_bytes(2, "little") + frame[7:]


def lying(inside: bytes, size: int) -> bytes:
    """A payload of which both the event and the frame say this size."""
    return made(Code.TRANSACTION_PAYLOAD, body(of_size(zstd(inside), size), size))


@pytest.mark.parametrize("taken", [1, -1])
def test_neighbours_that_lie_to_the_same_sum_are_refused(taken: int) -> None:
    insides = filled(400), filled(500)
    log = [rotate(), begin(1), lying(insides[0], 400 + taken), begin(2), lying(insides[1], 500 - taken)]
    assert find_run(framed(log), 2, 4) is None
    told = parsed(log, [1 << 20])
    assert told == folded(log)
    assert "can't be unpacked" in told[-1]


def test_what_a_payload_has_too_much_does_not_go_to_the_next() -> None:
    """Both together are as long as they say, and events begin where one ends."""
    more = plain(made(Code.ROWS_QUERY, b"more"))
    log = [
        rotate(),
        begin(1),
        packed(filled(400) + more, 400),
        begin(2),
        packed(filled(400), 400 + len(more)),
    ]
    assert find_run(framed(log), 2, 4) is None
    told = parsed(log, [1 << 20])
    assert told == folded(log)
    assert "larger than the 400 bytes" in told[-1]


def test_a_payload_in_a_run_is_one_frame() -> None:
    """Not even an empty one follows it, because the next data could then begin in one and end in the next."""
    inside = filled(400)
    event = made(Code.TRANSACTION_PAYLOAD, body(zstd(inside) + zstd(b""), len(inside)))
    assert find_run(framed([event]), 0, 4) is None


LIES = {
    "1 bytes too early": lambda size: packed(filled(size), size + 1),
    "larger than": lambda size: packed(filled(size), size - 1),
    "inside of an event": lambda size: packed(filled(size)[:-1]),
    "unpacked|larger than": lambda size: made(
        Code.TRANSACTION_PAYLOAD, body(zstd(filled(size)) + b"more", size)
    ),
    "larger than the": lambda size: made(
        Code.TRANSACTION_PAYLOAD, body(zstd(filled(size)) + zstd(b"more"), size)
    ),
    "it says": lambda size: made(Code.TRANSACTION_PAYLOAD, body(zstd(filled(size)), size) + b"!"),
    "can't be one": lambda size: packed(filled(size, end=packed(plain(BEGIN, XID)))),
    "no part of a transaction": lambda size: packed(filled(size, end=begin(7))),
    "a transaction has no GTID|without a GTID": lambda size: packed(filled(size) + plain(ROW)),
    "that is no part": lambda size: packed(
        plain(BEGIN, made(Code.HEARTBEAT, b"binlog.000001")) + filled(size)[len(plain(BEGIN)) :]
    ),
    "before the transaction's end": lambda size: packed(filled(size, end=ROW)),
    "damaged": lambda size: packed(filled(size))[:-1] + b"?",
}


@pytest.mark.parametrize("size", [1000, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL])
@pytest.mark.parametrize("words", LIES)
def test_small_and_large_ones_take_the_same_rules(words: str, size: int) -> None:
    """With the same words, at any place of the bad one in a run."""
    good = packed(filled(300))
    liar = LIES[words](size)
    for number in (1, 2, 3):
        log = [rotate()]
        for n in (1, 2, 3):
            log += [begin(n), liar if n == number else good]
        told = parsed(log, [1 << 20])
        assert told == folded(log)
        assert any(each in told[-1] for each in words.split("|")), told[-1]


def test_the_server_s_other_ways_to_end_a_transaction_are_as_good() -> None:
    insides = [plain(BEGIN, MAP, ROW, query("COMMIT")), filled(500), plain(BEGIN, XID)]
    log = [rotate(), *(e for n, inside in enumerate(insides, 1) for e in (begin(n), packed(inside)))]
    got = find_run(framed(log), 2, 4)
    assert got is not None
    assert got.taken == 5
    told = parsed(log, [1 << 20])
    assert told == folded(log)
    assert told[-1] == "the end"


@pytest.mark.parametrize(
    "fields",
    [
        "020100 0103{0} 0300fe",  # a size without any byte, before one that would be it
        "020100 0103{0} 0301fe",
        "020100 0103{0} 0304fcfe00ff",
        "020100 0103{0}",
        "020107 0103{0} 0303fcfe00",
        "020100 0103{0} 0303fcfe",
    ],
)
def test_what_is_not_described_as_by_the_server_is_left_to_the_one_that_refuses(fields: str) -> None:
    data = zstd(filled(254))
    described = bytes.fromhex(fields.format("fc" + len(data).to_bytes(2, "little").hex()))
    event = made(Code.TRANSACTION_PAYLOAD, described + b"\0" + data)
    assert find_run(framed([event]), 0, 4) is None
    log = [rotate(), begin(1), event]
    assert parsed(log, [1 << 20]) == folded(log)


def test_the_same_described_rightly_is_taken() -> None:
    assert find_run(framed([packed(filled(254))]), 0, 4) is not None
