"""Compressed transactions: what they say, as MySQL wrote them, and what a lie in them ends in."""

import contextlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.event_type import Code
from pipeline.binlog.events import event as events
from pipeline.binlog.events.payload_event import Payload, payload, unpacked
from pipeline.errors import UndecodableError
from tests.fuzz.payloads import packed
from tests.pipeline.binlog.golden import story


def inner(*bodies: bytes) -> bytes:
    """Events as they are in a payload, without checksums."""
    return b"".join(struct.pack("<IBIIIH", 1, 29, 1, 19 + len(b), 0, 0) + b for b in bodies)


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


def lengthed(value: int) -> bytes:
    """Returns a field's value as the server writes it: a length-encoded integer after its length."""
    return bytes([len(packed(value))]) + packed(value)


def body(data: bytes, size: int, compression: int = 0) -> bytes:
    head = (
        b"\x02\x01" + bytes([compression])
        if compression < 251
        else b"\x02\x03\xfc" + struct.pack("<H", compression)
    )
    return head + b"\x01" + lengthed(len(data)) + b"\x03" + lengthed(size) + b"\x00" + data


def told(of: Payload) -> list[bytes]:
    return [frames.event(i) for frames in unpacked(of) for i in range(len(frames))]


def test_the_servers_own() -> None:
    [event] = [event for event in story("compressed") if event[4] == Code.TRANSACTION_PAYLOAD]
    this = events.parse_event(events.header(event), event, checksum=True)
    assert isinstance(this, Payload)
    assert this.compressed
    codes = [inner_event[4] for inner_event in told(this)]
    assert codes == [Code.QUERY, Code.TABLE_MAP, Code.WRITE_ROWS, Code.XID]


@pytest.mark.parametrize("compression", [0, 255])
def test_its_events_come_whole_and_in_order(compression: int) -> None:
    bodies = [b"%d" % n * (n % 50) for n in range(30_000)] + [bytes(9 << 20), b"last"]
    data = inner(*bodies)
    made = payload(body(zstd(data) if compression == 0 else data, len(data), compression))
    assert [event[19:] for event in told(made)] == bodies


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (body(zstd(inner(b"a")), 19), "larger than the 19 bytes"),
        (body(zstd(inner(b"a")), 21), "1 bytes too early"),
        (body(zstd(inner(b"ab")[:-1]), 20), "inside of an event"),
        (body(zstd(bytes(30)), 30), "inside of an event"),
        (body(b"no zstd", 20), "can't be unpacked"),
        (body(zstd(inner(b"a")), 20, compression=7), r"isn't known \(7\)"),
        (b"\x01\x01\x05\x02\x01\x00\x00abc", "has 3 bytes, and it says 5"),
        (b"\x01\x01\x03\x02\x01\x00\x00abc", "how large"),
        (b"\x01\x01", "too early"),
    ],
)
def test_a_payload_that_lies_is_refused(made: bytes, words: str) -> None:
    with pytest.raises(UndecodableError, match=words):
        told(payload(made))


def test_a_bomb_takes_no_more_than_it_says() -> None:
    """A quarter of a gigabyte of zeros in some KiB. Its declared size is small, so no code makes room for more."""
    bomb = zstd(bytes(1 << 28))
    peak = pa.total_allocated_bytes()
    with pytest.raises(UndecodableError, match="larger than the 1000 bytes"):
        told(payload(body(bomb, 1000)))
    assert pa.total_allocated_bytes() - peak < 1 << 24


@given(st.data())
def test_damage_ends_in_our_own_error(data: st.DataObject) -> None:
    whole = bytearray(body(zstd(inner(b"a" * 300, b"b" * 30)), 368))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UndecodableError):
        told(payload(bytes(whole)))
