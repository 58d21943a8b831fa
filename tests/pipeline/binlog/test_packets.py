"""Events come whole, however the socket cuts their packets."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.packets import LogRefused, Packets
from pipeline.binlog.transaction_ids import UnnamedTransaction
from pipeline.errors import Definite, Transient

FULL = 2**24 - 1


def framed(payloads: list[bytes], number: int) -> bytes:
    stream = bytearray()
    for payload in payloads:
        rest = payload
        while True:
            part, rest = rest[:FULL], rest[FULL:]
            stream += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
            number += 1
            if len(part) < FULL:
                break
    return bytes(stream)


def fed(packets: Packets, piece: bytes) -> Iterator[bytes]:
    """The events that are whole with this piece."""
    while piece:
        room = packets.room()
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        packets.arrived(count)
        piece = piece[count:]
        while (frames := packets.frames()) is not None:
            yield from map(frames.event, range(len(frames)))


@given(st.lists(st.binary(max_size=40)), st.integers(0, 255), st.lists(st.integers(1, 30), min_size=1))
def test_whatever_the_pieces_the_events_are_the_same(
    events: list[bytes], number: int, sizes: list[int]
) -> None:
    stream, packets = framed([b"\0" + event for event in events], number), Packets(number)
    got: list[bytes] = []
    while stream:
        for size in sizes:
            got += fed(packets, stream[:size])
            stream = stream[size:]
    assert got == events


@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1, 2 * FULL, 3 * FULL + 5])
def test_an_event_in_several_packets(size: int) -> None:
    payload = b"\0" + np.random.default_rng(size).bytes(size - 1)
    stream, packets = framed([payload, b"\0next"], 255), Packets(255)
    pieces = [stream[at : at + 1_000_000] for at in range(0, len(stream), 1_000_000)]
    assert [got for piece in pieces for got in fed(packets, piece)] == [payload[1:], b"next"]


def test_more_events_than_are_handled_at_once() -> None:
    events = [b"%d" % n for n in range(40_000)]
    assert list(fed(Packets(1), framed([b"\0" + event for event in events], 1))) == events


def test_the_buffer_grows_with_an_event_and_shrinks_again() -> None:
    packets = Packets(0)
    usual = len(packets.room())
    large = framed([bytes(3 * usual)], 0)
    assert list(fed(packets, large[:-1])) == []
    assert len(packets.bytes) > 3 * usual
    assert [len(event) for event in fed(packets, large[-1:])] == [3 * usual - 1]
    assert len(packets.room()) == usual


def test_what_is_not_whole_is_not_moved_for_each_piece() -> None:
    packets = Packets(0)
    list(fed(packets, framed([b"\0first"], 0) + b"\xff\xff"))
    packets.room()
    assert packets.start > 0


def test_a_packet_out_of_order_is_seen_behind_those_before_it() -> None:
    came = fed(Packets(1), framed([b"\0a"], 1) + framed([b"\0b"], 3))
    assert next(came) == b"a"
    with pytest.raises(Transient, match="packet 2 of the stream had the number 3"):
        next(came)
    parts = framed([bytes(FULL), b""], 7)
    with pytest.raises(Transient, match="packet 8 of the stream had the number 9"):
        list(fed(Packets(7), parts[: FULL + 4] + b"\0\0\0\x09"))


@pytest.mark.parametrize(
    ("payload", "error", "words"),
    [
        (b"\xff\xd4\x04#HY000it is damaged", LogRefused, "it is damaged .error 1236"),
        (
            b"\xff\xd4\x04#HY000Client requested source to start replication from position > file size",
            LogRefused,
            "its log was reset .RESET MASTER., or the server lost the end of it: begin a new journal",
        ),
        (
            b"\xff\xd4\x04#HY000log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
            LogRefused,
            "no server sends an event of more than 1 GiB, .*: set binlog_transaction_compression = ON .*begin a new j",
        ),
        (b"\xff\xd4\x04#HY000The source purged required binary logs", Transient, "required .*error 1236"),
        (b"\xff\xd4\x04#HY000could not find next log; the first event '' at 4", Transient, "next log"),
        (
            b"\xff\xd4\x04#HY000A replica with the same server_uuid/server_id as this one has connected",
            Definite,
            "another process captures with a copy of this journal: stop one of them",
        ),
        (
            b"\xff\xd4\x04#HY000Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file ./b.000005",
            UnnamedTransaction,
            "without a GTID was committed: set gtid_mode = ON, and start Tidemark again",
        ),
        (b"\xff\x01\x04#HY000busy", Transient, "busy .error 1025"),
        (b"\xfe\0\0", Transient, "ended the stream"),
        (b"", Transient, "ended the stream"),
    ],
)
def test_what_is_no_event_ends_the_stream(payload: bytes, error: type[Exception], words: str) -> None:
    came = fed(Packets(1), framed([b"\0a", payload], 1))
    assert next(came) == b"a"
    with pytest.raises(error, match=words) as raised:
        next(came)
    assert type(raised.value) is error


def test_events_that_are_left_come_again_before_others() -> None:
    packets = Packets(number=0)
    stream = framed([b"\x00" + bytes([n]) * 30 for n in range(6)], 0)
    packets.room()[: len(stream)] = stream
    packets.arrived(len(stream))
    first = packets.frames()
    assert first is not None
    packets.leave(Frames(first.buffer, first.bounds[i : i + 2]) for i in (2, 4))
    again = [packets.frames(), packets.frames()]
    assert [each.event(i)[0] for each in again if each is not None for i in range(2)] == [2, 3, 4, 5]
    assert packets.frames() is None
