"""The protocol's packets out of the pieces that a socket gives.

A packet has a head of 4 bytes: the length of what follows (3 bytes) and a number that rises by one. Whatever is
longer than 2²⁴ - 2 bytes comes in several packets, of which all but the last are of the full length 2²⁴ - 1.

Source: MySQL 9.7 source documentation, "MySQL Packets".
"""

from collections.abc import Iterator
from typing import Final

from pipeline.errors import Transient

_HEAD: Final = 4
_FULL: Final = 2**24 - 1


class Packets:
    """Takes pieces and gives payloads; `number` is that of the first packet to come."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._waiting = bytearray()
        self._parts: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The payloads that are whole with this piece; it's to be exhausted before the next is fed.

        Raises Transient where a packet isn't the next one: the connection lost something.
        """
        self._waiting += piece
        with memoryview(self._waiting) as waiting:
            at = 0
            while len(waiting) - at >= _HEAD:
                length = int.from_bytes(waiting[at : at + 3], "little")
                end = at + _HEAD + length
                if end > len(waiting):
                    break
                self._count(waiting[at + 3])
                part, at = bytes(waiting[at + _HEAD : end]), end
                if length == _FULL or self._parts:
                    self._parts.append(part)
                    if length == _FULL:
                        continue
                    part, self._parts = b"".join(self._parts), []
                yield part
        del self._waiting[:at]

    def _count(self, number: int) -> None:
        if number != self._number:
            raise Transient(f"packet {self._number} of the stream had the number {number}")
        self._number = (number + 1) % 256
