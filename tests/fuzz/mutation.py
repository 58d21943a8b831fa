"""From a seed to a case: a short log made of the corpus, damaged in one or a few places.

The damage is where decoding is: in an event's body, whose checksum is then corrected, unless the case is about
checksums. It's also inside of compressed transactions (decompress, damage, compress), in headers, in the order of
events, and in the packets around them.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.binlog.event_type import Code
from pipeline.errors import UndecodableError
from tests.fuzz import payloads
from tests.fuzz.corpus import CHECKSUM, HEADER, Corpus, rebuilt

Random = random.Random

_BYTES: Final = (0, 1, 2, 3, 15, 16, 127, 128, 249, 250, 251, 252, 253, 254, 255)
_NUMBERS: Final = (
    0,
    1,
    2**7,
    2**8 - 1,
    2**15,
    2**16 - 1,
    2**24 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
)
_CODES: Final = (*Code, 0, 1, 6, 7, 8, 10, 12, 20, 21, 22, 43, 99, 255)


@dataclass(frozen=True, slots=True)
class Case:
    """Events to feed, as they are on the wire; `cuts` is the seed of the places at which the bytes are cut.

    `packets` are the lengths and numbers that packets claim, where they lie, by the event's index.
    """

    events: tuple[bytes, ...]
    cuts: int
    lies: tuple[tuple[int, int, int], ...] = ()

    def wire(self) -> bytes:
        """The packets: 3 bytes of length, 1 of number, the OK byte and the event."""
        lies = {index: (length, number) for index, length, number in self.lies}
        stream = bytearray()
        for index, event in enumerate(self.events):
            length, number = lies.get(index, (0, 0))
            stream += ((len(event) + 1 + length) & 0xFFFFFF).to_bytes(3, "little")
            stream += bytes([(index + 1 + number) % 256, 0]) + event
        return bytes(stream)


def pieces(wire: bytes, cuts: int) -> list[bytes]:
    """These bytes, cut at random places."""
    rng = Random(cuts)
    longest = max(rng.choice((1, 7, 60, 1000)), len(wire) // 1000)
    cut, at = [], 0
    while at < len(wire):
        size = rng.randint(1, longest) if rng.random() < 0.9 else rng.randint(1, 2 * longest + 2000)
        cut.append(wire[at : at + size])
        at += size
    return cut


def case(corpus: Corpus, seed: int) -> Case:
    """The case of this seed; the same corpus gives the same one."""
    rng = Random(seed)
    chosen = [list(rng.choice(corpus.transactions)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    events = [event for transaction in chosen for event in transaction]
    if rng.random() < 0.2:
        events.insert(rng.randint(0, len(events)), rng.choice(corpus.tail))
    checksums = rng.random() < 0.6
    head = list(corpus.head)
    if not checksums:
        head = [
            head[0],
            *(
                _unchecked_format(event) if event[4] == Code.FORMAT_DESCRIPTION else event
                for event in head[1:]
            ),
        ]
        events = [_stripped(event) for event in events]
        head[2:] = [_stripped(event) for event in head[2:]]
    # What has come before is known (sources, table maps), and goes the compiled way.
    known = list(events) if rng.random() < 0.5 else []
    damage = _Damage(rng, corpus, checksums)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        events = damage.log(events) if events else events
    if rng.random() < 0.02:
        at = rng.randrange(len(head))
        head[at] = damage.event(head[at])
    lies: tuple[tuple[int, int, int], ...] = ()
    if rng.random() < 0.03 and events:
        lies = (
            (
                len(head) + rng.randrange(len(known + events)),
                rng.choice((-1, 1, -20, 300, 2**23)),
                rng.choice((0, 0, 1)),
            ),
        )
    return Case((*head, *known, *events), rng.getrandbits(32), lies)


def _stripped(event: bytes) -> bytes:
    return rebuilt(event[:HEADER], event[HEADER:-CHECKSUM], checksum=False)


def _unchecked_format(event: bytes) -> bytes:
    """The format description of a log without checksums; its last byte is the algorithm, and it has one itself."""
    return rebuilt(event[:HEADER], event[HEADER : -CHECKSUM - 1] + b"\0")


class _Damage:
    def __init__(self, rng: Random, corpus: Corpus, checksums: bool) -> None:
        self._rng = rng
        self._corpus = corpus
        self._checksums = checksums

    def log(self, events: list[bytes]) -> list[bytes]:
        """One thing wrong with these events."""
        rng = self._rng
        if rng.random() < 0.85:
            # Rows and table maps are where most of the decoding is.
            weights = [4 if event[4] in _DEEP else 1 for event in events]
            [at] = rng.choices(range(len(events)), weights)
            return [*events[:at], self.event(events[at]), *events[at + 1 :]]
        at, other = rng.randrange(len(events)), rng.randrange(len(events))
        match rng.randrange(5):
            case 0:
                return [*events[:at], *events[at + 1 :]]
            case 1:
                return [*events[:at], events[other], *events[at:]]
            case 2:
                events = list(events)
                events[at], events[other] = events[other], events[at]
                return events
            case 3:
                return [*events[:at], self._foreign(), *events[at:]]
            case _:
                return events[:at]

    def event(self, event: bytes) -> bytes:
        """One thing wrong with this event."""
        rng = self._rng
        header, body = event[:HEADER], event[HEADER : len(event) - (CHECKSUM if self._checksums else 0)]
        chance = rng.random()
        if chance < 0.03:
            return self._lying(header, body)
        if chance < 0.05:
            return _flip(rng, event)  # so that the checksum is wrong
        if chance < 0.08:
            header = header[:4] + bytes([rng.choice(_CODES)]) + header[5:]
        elif chance < 0.5 and event[4:5] == bytes([Code.TRANSACTION_PAYLOAD]):
            body = self._payload(body)
        elif chance < 0.15:
            body = self._spliced(event[4], body)
        else:
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                body = changed(rng, body)
        return rebuilt(header, body, checksum=self._checksums)

    def _foreign(self) -> bytes:
        event = self._rng.choice(self._rng.choice(self._corpus.transactions))
        return event if self._checksums else _stripped(event)

    def _spliced(self, code: int, body: bytes) -> bytes:
        """The beginning of one event and the end of another; one of the same kind if there's luck."""
        others = [self._foreign() for _ in range(20)]
        other = next((event for event in others if event[4] == code), others[0])
        theirs = other[HEADER : len(other) - (CHECKSUM if self._checksums else 0)]
        return body[: self._rng.randint(0, len(body))] + theirs[self._rng.randint(0, len(theirs)) :]

    def _lying(self, header: bytes, body: bytes) -> bytes:
        """Returns a header whose length isn't the event's, with a right checksum."""
        honest = rebuilt(header, body, checksum=self._checksums)
        size = max(0, len(honest) + self._rng.choice((-20, -4, -1, 1, 4, 2**20, 2**31)))
        lying = honest[:9] + struct.pack("<I", size & 0xFFFFFFFF) + honest[13:HEADER] + body
        return lying + honest[len(lying) :]

    def _payload(self, body: bytes) -> bytes:
        """Returns a compressed transaction with something wrong in its fields, in the compressed bytes, or in an
        event."""
        rng = self._rng
        try:
            fields, data = payloads.parts(body)
            inner = payloads.events(body)
        except (UndecodableError, ValueError, OSError, KeyError):
            return changed(rng, body)  # it's damaged already
        if not inner:
            return changed(rng, body)
        match rng.randrange(10):
            case 0:
                return payloads.body(fields, changed(rng, data))
            case 1:
                return payloads.body(fields | {rng.randrange(6): rng.choice(_NUMBERS)}, data)
            case 2:
                return payloads.body(fields, data + data)
            case 3:
                return payloads.compressed(rebuilt(inner[0][:4] + bytes([Code.TRANSACTION_PAYLOAD]), body))
            case 4:
                return payloads.uncompressed(b"".join(_Damage(rng, self._corpus, checksums=False).log(inner)))
            case _:
                damaged = b"".join(_Damage(rng, self._corpus, checksums=False).log(inner))
                return payloads.compressed(damaged + rng.randbytes(rng.choice((0, 0, 0, 5))))


def changed(rng: Random, body: bytes) -> bytes:
    """One change of these bytes."""
    if not body:
        return rng.randbytes(rng.randint(0, 30))
    return rng.choice(_CHANGES)(rng, body)


# Changes of bytes, of which there's at least one.


def _flip(rng: Random, body: bytes) -> bytes:
    flipped = bytearray(body)
    flipped[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _set(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + bytes([rng.choice(_BYTES)]) + body[at + 1 :]


def _number(rng: Random, body: bytes) -> bytes:
    """Another number where there may be one: a length, an offset, a count."""
    size = rng.choice((2, 3, 4, 8))
    at = rng.randrange(len(body))
    number = int.from_bytes(body[at : at + size], "little") + rng.choice((-1, 1)) * rng.choice((1, 2, 8, 100))
    number = rng.choice((number, number, rng.choice(_NUMBERS), len(body) - at, len(body)))
    return body[:at] + (number & (1 << 8 * size) - 1).to_bytes(size, "little") + body[at + size :]


def _shorten(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] if rng.random() < 0.5 else body[:-1]


def _lengthen(rng: Random, body: bytes) -> bytes:
    return body + rng.randbytes(rng.choice((1, 2, 7, 40)))


def _cut_out(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + body[at + rng.choice((1, 2, 4, 30)) :]


def _repeat(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    part = body[at : at + rng.choice((1, 2, 4, 30))]
    return body[:at] + part * rng.choice((2, 2, 50)) + body[at + len(part) :]


_CHANGES: Final[Sequence[Callable[[Random, bytes], bytes]]] = (
    *(_flip, _flip, _set, _set, _number, _number),
    *(_shorten, _lengthen, _cut_out, _repeat),
)

_DEEP: Final = frozenset(
    {
        Code.TABLE_MAP,
        Code.WRITE_ROWS,
        Code.UPDATE_ROWS,
        Code.DELETE_ROWS,
        Code.PARTIAL_UPDATE_ROWS,
        Code.WRITE_ROWS_V1,
        Code.UPDATE_ROWS_V1,
        Code.DELETE_ROWS_V1,
        Code.TRANSACTION_PAYLOAD,
        Code.TAGGED_GTID,
    }
)
