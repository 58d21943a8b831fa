"""The GTIDs in an OK packet, by the server's own bytes; damaged ones are refused."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UndecodableError
from pipeline.source.ok_packet import committed_gtids
from tests.pipeline.builders import gtids


def text(value: bytes) -> bytes:
    """A length-encoded string."""
    size = len(value)
    return (bytes([size]) if size < 0xFB else b"\xfc" + size.to_bytes(2, "little")) + value


def packet(*changes: tuple[int, bytes], info: bytes = b"") -> bytes:
    """An OK packet for one row and the id 70000."""
    state = b"".join(bytes([kind]) + text(change) for kind, change in changes)
    return b"\0\x01\xfd\x70\x11\x01" + b"\x02\x40" + b"\0\0" + text(info) + text(state)


def test_transactions_are_found_between_other_changes_of_the_session() -> None:
    ours = str(gtids("a:7,a:tag:1-3")).encode()
    told = packet(
        (5, b"\x01T"), (3, b"\0" + text(ours)), (0, b"\x0aautocommit\x02ON"), info=b"Rows matched: 1"
    )
    assert committed_gtids(told) == gtids("a:7,a:tag:1-3")
    many = ",".join(str(gtids(f"{server}:{number}")) for server in "abc" for number in range(1, 9, 2))
    assert committed_gtids(packet((3, b"\0" + text(many.encode())))) == gtids("a:1:3:5:7,b:1:3:5:7,c:1:3:5:7")


def test_without_a_change_of_the_session_there_are_none() -> None:
    assert not committed_gtids(b"\0\x01\0\x02\0\0\0")
    assert not committed_gtids(b"\0\x01\0\x02\0\0\0Rows matched: 1")
    assert not committed_gtids(packet((5, b"\x01T")))


WHOLE = packet((5, b"\x01T"), (3, b"\0" + text(str(gtids("a:7")).encode())))


@given(st.integers(1, len(WHOLE) - 1))
def test_a_packet_that_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(UndecodableError, match="an OK packet of"):
        committed_gtids(WHOLE[:end])


@settings(max_examples=200)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UndecodableError):
        committed_gtids(b"\0" + data)
