"""Packets come whole, however the socket cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.packets import Packets
from pipeline.errors import Transient

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


@given(st.lists(st.binary(max_size=40)), st.integers(0, 255), st.lists(st.integers(1, 30), min_size=1))
def test_whatever_the_pieces_the_payloads_are_the_same(
    payloads: list[bytes], number: int, sizes: list[int]
) -> None:
    stream, packets = framed(payloads, number), Packets(number)
    got: list[bytes] = []
    while stream:
        for size in sizes:
            got += packets.feed(stream[:size])
            stream = stream[size:]
    assert got == payloads


@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1, 2 * FULL])
def test_a_payload_in_several_packets(size: int) -> None:
    payload = bytes(1000) + b"x" * (size - 1000)
    stream, packets = framed([payload, b"next"], 255), Packets(255)
    pieces = [stream[at : at + 1_000_000] for at in range(0, len(stream), 1_000_000)]
    assert [got for piece in pieces for got in packets.feed(piece)] == [payload, b"next"]


def test_a_packet_out_of_order_is_seen() -> None:
    with pytest.raises(Transient, match="packet 2 of the stream had the number 3"):
        list(Packets(1).feed(framed([b"a"], 1) + framed([b"b"], 3)))
