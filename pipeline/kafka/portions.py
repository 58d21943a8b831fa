"""Portions: how a segment's rows are divided into Kafka transactions.

A *portion* is everything of a segment with an SCN from `first_scn` through `last_scn`: whole source transactions and
chunks, of all its tables. A segment is one portion, unless it has more rows than a Kafka transaction may hold. Then it
is divided between SCNs. A portion with a single SCN can still have more rows: one source transaction that is too large.
Only such a portion is split within. A statement that the journal keeps counts as a row, before all rows of its SCN.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.journal.entry import Entry, File, FileKind
from pipeline.messages.journal import StatementPart

# How many bytes of the journal's files a Kafka transaction holds, at most.
MOST_PORTION_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows of a segment with these SCNs, both included.

    `rows` counts them. `bytes` is about how many bytes they take in the journal's files.
    """

    first_scn: int
    last_scn: int
    rows: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """A number of rows, and a number of bytes of the journal's files."""

    rows: int
    bytes: int = MOST_PORTION_BYTES

    def fits(self, portion: Portion) -> bool:
        """Returns whether there is room for the portion."""
        return portion.rows <= self.rows and portion.bytes <= self.bytes

    def rows_of(self, of: Portion) -> int:
        """Returns for how many rows there is room, if all are as large as those of this portion."""
        if of.bytes <= self.bytes:
            return self.rows
        return max(1, min(self.rows, of.rows * self.bytes // of.bytes))

    def without(self, rows: int, size: int) -> "Capacity":
        """Returns what is left of it after the portion."""
        return Capacity(self.rows - rows, self.bytes - size)


def stream_files(entry: Entry) -> tuple[File, ...]:
    """Returns the files with a segment's own rows, without those that a verification read."""
    return tuple(file for file in entry.files if file.kind is not FileKind.VERIFIED)


def whole_segment(entry: Entry, files: Iterable[File]) -> Portion:
    """Returns the portion of all rows of these files of a segment, and of its statements."""
    rows, size = len(entry.statements), sum(len(each.statement.text) for each in entry.statements)
    for file in files:
        rows, size = rows + file.rows, size + file.bytes
    return Portion(entry.first_scn, entry.last_scn, rows, size)


def statements_of(entry: Entry, portion: Portion) -> tuple[StatementPart, ...]:
    """Returns the statements of a segment that are in the portion."""
    return tuple(each for each in entry.statements if portion.first_scn <= each.scn <= portion.last_scn)


def plan_portions(
    entry: Entry,
    after_scn: int,
    capacity: Capacity,
    scns_of_rows: Callable[[], NDArray[np.int64]],
    *,
    split: bool,
) -> tuple[Portion, ...]:
    """Returns the portions of a segment's rows and statements after an SCN; see `divide_scns`.

    `scns_of_rows` reads the SCN of each row of the segment. A segment for which there is room needs none of them.
    """
    of_segment = whole_segment(entry, stream_files(entry))
    if not of_segment.rows:
        return ()
    if capacity.fits(of_segment) and not after_scn and not split:
        return (of_segment,)
    statements = np.array([each.scn for each in entry.statements], np.int64)
    scns = np.concatenate([statements, scns_of_rows()])
    portions = divide_scns(scns[scns > after_scn], capacity.rows_of(of_segment), split=split)
    return with_bytes(portions, of_segment)


def unsent(entry: Entry, portion: Portion, skip: int) -> tuple[tuple[StatementPart, ...], int]:
    """Returns the statements of a portion that aren't among its first `skip` rows, and how many of these are rows."""
    statements = statements_of(entry, portion)
    return statements[skip:], max(0, skip - len(statements))


def with_bytes(portions: Iterable[Portion], of: Portion) -> tuple[Portion, ...]:
    """Returns the portions with their bytes: their rows' share of the segment's bytes."""
    return tuple(replace(portion, bytes=portion.rows * of.bytes // of.rows) for portion in portions)


def merge_portions(portions: tuple[Portion, ...], capacity: Capacity) -> tuple[Portion, ...]:
    """Returns the portions with the first ones merged into one, as many as there is room for, and at least one."""
    first, taken = portions[0], 1
    for portion in portions[1:]:
        both = Portion(
            first.first_scn, portion.last_scn, first.rows + portion.rows, first.bytes + portion.bytes
        )
        if not capacity.fits(both):
            break
        first, taken = both, taken + 1
    return (first, *portions[taken:])


def divide_scns(scns: NDArray[np.int64], most: int, *, split: bool) -> tuple[Portion, ...]:
    """Returns the portions of rows with these SCNs, which may be in any order. They are as few as possible, each with
    at most `most` rows or a single SCN.

    `split`: the first SCN is a portion of its own, because some of its rows were sent before.
    """
    values, counts = np.unique(scns, return_counts=True)
    ends = np.cumsum(counts)
    found: list[Portion] = []
    begin, before = 0, 0
    while begin < len(values):
        fits = 0 if split and not found else int(np.searchsorted(ends, before + most, "right"))
        end = max(begin + 1, fits)
        found.append(Portion(int(values[begin]), int(values[end - 1]), int(ends[end - 1]) - before))
        begin, before = end, int(ends[end - 1])
    return tuple(found)
