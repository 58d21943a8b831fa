"""GTIDs and sets of them, with MySQL's own text and binary forms.

A GTID names a transaction by its source and a number; a source is a server's UUID, since MySQL 8.3 optionally
with a tag. Transactions of several sources, or of one that commits out of order, have no "latest": GTID sets
are ordered by containment only, which is partial. So there is `<=` here and no `<`, no `max`, and whether a
transaction is in a set is always a question of membership.

Each set has one form: sources in the server's order, intervals merged, no source without transactions.
Equality, hash and text follow from it. Values never change; each operation gives a new set.

Sources: MySQL 9.7 Reference Manual, "GTID Format and Storage"; WL#15294 (tags); the server's functions
`Gtid_set::add_gtid_text`, `to_string` and `encode`, with which the integration test compares all of this.
"""

import re
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pipeline.errors import Definite
from pipeline.gtid.intervals import NO_INTERVALS, Intervals
from pipeline.types.buffers import Flags, Longs

# The server counts up to, and not including, the largest signed 64-bit number (GNO_END).
LARGEST_NUMBER = 2**63 - 2

_SPACE = " \t\n\v\f\r"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_UUID_WITHOUT_DASHES = re.compile(r"[0-9a-f]{32}")
# Leading zeros are refused: 9.7 reads them as decimal, older servers (strtoll with base 0) as octal numbers.
_NUMBER = "[1-9][0-9]{0,18}"
# Nothing is written between a thread's number and the next UUID, which may begin with digits as well.
_OWNER = re.compile("#[0-9]+?(?=(?P<next>[0-9a-f]{8}-)|[^0-9a-f]|$)")
_RANGE = re.compile(rf"({_NUMBER})(?:[{_SPACE}]*-[{_SPACE}]*(0|{_NUMBER}))?")

_TAGGED_FORMAT = 1


class MalformedGtid(Definite, ValueError):
    """A text or a run of bytes that isn't a GTID or a GTID set; the message quotes the piece that isn't."""


@dataclass(frozen=True, slots=True, order=True)
class Tsid:
    """Where a transaction's number was given: a server's UUID and a tag, both in lower case; no tag is ''.

    Sources are ordered as the server prints them. Raises MalformedGtid where one of the two is malformed.
    """

    uuid: str
    tag: str = ""

    def __post_init__(self) -> None:
        if not _UUID.fullmatch(self.uuid):
            raise MalformedGtid(f"not a server's UUID in lower case: {self.uuid!r}")
        if self.tag and not _TAG.fullmatch(self.tag):
            raise MalformedGtid(f"not a GTID tag in lower case, at most 32 of a-z, 0-9 and _: {self.tag!r}")

    @staticmethod
    def from_bytes(sid: bytes, tag: str) -> "Tsid":
        """The source with the UUID that these 16 bytes are, as events carry it."""
        return Tsid(str(uuid.UUID(bytes=sid)), tag)

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}" if self.tag else self.uuid


@dataclass(frozen=True, slots=True)
class Gtid:
    """One transaction's name: the `number`th of its source, counted from 1."""

    source: Tsid
    number: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= LARGEST_NUMBER:
            raise MalformedGtid(f"not a GTID's number: {self.number}")

    @staticmethod
    def parse(text: str) -> "Gtid":
        """The GTID that this text names, as "uuid:7" or "uuid:tag:7". Raises MalformedGtid."""
        *source, number = (part.strip(_SPACE) for part in text.split(":"))
        match = _RANGE.fullmatch(number)
        if len(source) not in (1, 2) or match is None or match[2]:
            raise MalformedGtid(f"not a GTID: {text!r}")
        name, *tags = source
        return Gtid(Tsid(_with_dashes(name), *(tag.lower() for tag in tags)), int(number))

    def __str__(self) -> str:
        return f"{self.source}:{self.number}"


@dataclass(frozen=True, slots=True)
class GtidSet:
    """A set of transactions. `GtidSet()` is the empty one; others come from `parse`, `decode` and operations.

    `intervals` holds the numbers of each source that has any, in the order of sources.
    """

    intervals: Mapping[Tsid, Intervals] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> "GtidSet":
        """The set that this text describes, in the forms that the server reads. Raises MalformedGtid."""
        ranges: dict[Tsid, tuple[list[int], list[int]]] = {}
        for piece in text.split(","):
            if piece := piece.strip(_SPACE):
                for source, start, end in _ranges(piece):
                    starts, ends = ranges.setdefault(source, ([], []))
                    starts.append(start)
                    ends.append(end)
        return _canonical(
            (source, Intervals.of_ranges(np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)))
            for source, (starts, ends) in ranges.items()
        )

    @staticmethod
    def parse_owned(text: str) -> "GtidSet":
        """The transactions in a server's `gtid_owned`, where each is followed by a thread's number.

        As in `UUID:23#7:25#8UUID:tag:5#12`: 5.6 to 9.7 write it so. Raises MalformedGtid.
        """
        return GtidSet.parse(_OWNER.sub(lambda owner: "," if owner["next"] else "", text))

    @staticmethod
    def of_range(source: Tsid, first: int, end: int) -> "GtidSet":
        """The transactions of one source from `first` on, but not from `end` on."""
        if end <= first:
            return GtidSet()
        return GtidSet({source: Intervals.of_edges(np.array([first, end], dtype=np.int64))})

    @staticmethod
    def decode(encoded: bytes) -> "GtidSet":
        """The set that `encode` or the server wrote (a PREVIOUS_GTIDS event's body). Raises MalformedGtid."""
        intervals: dict[Tsid, Intervals] = {}
        try:
            for source, numbers in _decode(encoded):
                if source in intervals:
                    raise MalformedGtid(f"an encoded GTID set has {source} twice")
                intervals[source] = numbers
        except (struct.error, UnicodeDecodeError) as error:
            raise MalformedGtid(f"an encoded GTID set of {len(encoded)} bytes is damaged") from error
        return _canonical(intervals.items())

    def encode(self) -> bytes:
        """Returns the binary form that COM_BINLOG_DUMP_GTID takes: little-endian numbers of eight bytes.

        That is the count of sources, and for each its UUID, its count of intervals, and the start and the (exclusive)
        end of each. If there's any tag, the count is shifted up by a byte, and its lowest and its highest byte have the
        format's number, 1. Each UUID is then followed by its tag: twice the tag's length in one byte, then the letters.
        """
        tagged = any(source.tag for source in self.intervals)
        count = len(self.intervals)
        header = _TAGGED_FORMAT << 56 | count << 8 | _TAGGED_FORMAT if tagged else count
        parts = [struct.pack("<Q", header)]
        for source, numbers in self.intervals.items():
            parts.append(uuid.UUID(source.uuid).bytes)
            if tagged:
                parts.append(bytes([len(source.tag) << 1]) + source.tag.encode("ascii"))
            edges = numbers.edges.astype("<i8")
            parts.append(struct.pack("<Q", edges.size // 2) + edges.tobytes())
        return b"".join(parts)

    def __str__(self) -> str:
        """The text that the server prints for this set, newlines included."""
        texts: list[str] = []
        last = ""
        for source, numbers in self.intervals.items():
            if source.uuid != last:
                texts.append(f",\n{source.uuid}" if last else source.uuid)
                last = source.uuid
            if source.tag:
                texts.append(f":{source.tag}")
            edges = numbers.edges.tolist()
            texts.extend(
                f":{start}" if end == start + 1 else f":{start}-{end - 1}"
                for start, end in zip(edges[0::2], edges[1::2], strict=True)
            )
        return "".join(texts)

    @property
    def on_one_line(self) -> str:
        """The same text without newlines."""
        return str(self).replace("\n", "")

    def __hash__(self) -> int:
        return hash(tuple(self.intervals.items()))

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __contains__(self, gtid: Gtid) -> bool:
        return gtid.number in self.intervals.get(gtid.source, NO_INTERVALS)

    def contains_many(self, source: Tsid, numbers: Longs) -> Flags:
        """Of each of these transactions of one source, whether it's in the set."""
        return self.intervals.get(source, NO_INTERVALS).contains_many(numbers)

    def count(self) -> int:
        """How many transactions there are in the set."""
        return sum(numbers.count() for numbers in self.intervals.values())

    def __le__(self, other: "GtidSet") -> bool:
        """Whether each transaction of this set is in the other."""
        return all(
            numbers <= other.intervals.get(source, NO_INTERVALS) for source, numbers in self.intervals.items()
        )

    def __or__(self, other: "GtidSet") -> "GtidSet":
        if not other:
            return self
        sources = {**self.intervals, **other.intervals}
        return _canonical(
            (source, self.intervals.get(source, NO_INTERVALS) | other.intervals.get(source, NO_INTERVALS))
            for source in sources
        )

    def __and__(self, other: "GtidSet") -> "GtidSet":
        return _canonical(
            (source, numbers & other.intervals.get(source, NO_INTERVALS))
            for source, numbers in self.intervals.items()
        )

    def __sub__(self, other: "GtidSet") -> "GtidSet":
        return _canonical(
            (source, numbers - other.intervals.get(source, NO_INTERVALS))
            for source, numbers in self.intervals.items()
        )

    def with_gtid(self, gtid: Gtid) -> "GtidSet":
        """The set with one transaction more; it takes O(sources) when that one follows its source's last."""
        return self._with(gtid.source, self.intervals.get(gtid.source, NO_INTERVALS).with_number(gtid.number))

    def with_numbers(self, source: Tsid, numbers: Longs) -> "GtidSet":
        """The set with these transactions of one source more, in any order. Raises MalformedGtid."""
        if numbers.size == 0:
            return self
        low, high = int(numbers.min()), int(numbers.max())
        if low < 1 or high > LARGEST_NUMBER:
            raise MalformedGtid(f"not GTIDs' numbers: {low} to {high}, of {source}")
        return self._with(source, self.intervals.get(source, NO_INTERVALS) | Intervals.of_numbers(numbers))

    def _with(self, source: Tsid, numbers: Intervals) -> "GtidSet":
        changed = {**self.intervals, source: numbers}
        return GtidSet(changed) if source in self.intervals else _canonical(changed.items())


NO_GTIDS: Final = GtidSet()


def _canonical(intervals: Iterable[tuple[Tsid, Intervals]]) -> GtidSet:
    """Returns the set with these numbers for each source, where each source comes once."""
    return GtidSet({source: numbers for source, numbers in sorted(intervals, key=_source) if numbers})


def _source(item: tuple[Tsid, Intervals]) -> Tsid:
    return item[0]


def _ranges(piece: str) -> Iterator[tuple[Tsid, int, int]]:
    """The half-open ranges in one UUID's part of a text; a tag holds for the ranges after it."""
    name, *items = (item.strip(_SPACE) for item in piece.split(":"))
    source = Tsid(_with_dashes(name))
    for item in items:
        if match := _RANGE.fullmatch(item):
            start, end = int(match[1]), int(match[2] or match[1])
            if max(start, end) > LARGEST_NUMBER:
                raise MalformedGtid(f"not a GTID's number: {item!r}, of {source}")
            if start <= end:  # The server reads 5-3 as nothing.
                yield source, start, end + 1
        elif _TAG.fullmatch(item.lower()):
            source = Tsid(source.uuid, item.lower())
        else:
            raise MalformedGtid(f"neither a tag nor a range of numbers: {item!r}, of {source}")


def _with_dashes(name: str) -> str:
    """The UUID in lower case and with dashes; the server reads it in braces too, and without dashes."""
    name = name.lower()
    if name.startswith("{") and name.endswith("}"):
        return name[1:-1]
    return str(uuid.UUID(name)) if _UUID_WITHOUT_DASHES.fullmatch(name) else name


def _decode(encoded: bytes) -> Iterator[tuple[Tsid, Intervals]]:
    (header,) = struct.unpack_from("<Q", encoded)
    tagged = header >> 56 == _TAGGED_FORMAT
    if header >> 56 not in (0, _TAGGED_FORMAT):
        raise MalformedGtid(f"an encoded GTID set has the unknown format {header >> 56}")
    at = 8
    for _ in range(header >> 8 & 0xFFFF_FFFF_FFFF if tagged else header):
        sid, at = encoded[at : at + 16], at + 16
        tag = ""
        if tagged:
            (twice,) = struct.unpack_from("<B", encoded, at)
            if twice & 1:
                raise MalformedGtid("an encoded GTID set has a tag longer than any can be")
            tag, at = encoded[at + 1 : at + 1 + twice // 2].decode("ascii"), at + 1 + twice // 2
        (count,) = struct.unpack_from("<Q", encoded, at)
        at += 8
        if 16 * count > len(encoded) - at:
            raise MalformedGtid(f"an encoded GTID set claims {count} intervals, more than its bytes hold")
        source = Tsid.from_bytes(sid, tag)
        edges = np.frombuffer(encoded, dtype="<i8", count=2 * count, offset=at).astype(np.int64)
        at += edges.nbytes
        if edges.size and (edges[0] < 1 or (edges[1:] <= edges[:-1]).any()):
            raise MalformedGtid(f"an encoded GTID set has intervals of {source} that aren't in order")
        yield source, Intervals.of_edges(edges)
    if at != len(encoded):
        raise MalformedGtid(f"an encoded GTID set has {len(encoded) - at} bytes after its end")
