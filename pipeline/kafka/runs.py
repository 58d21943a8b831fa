"""Runs: how a segment's rows are divided into Kafka transactions.

A *run* is a run of whole source transactions and chunks of a segment, of all its tables: everything with an SCN from
`first_scn` through `last_scn`. A segment is one run, unless it has more rows than a Kafka transaction may hold. Then it
is divided between SCNs. A run with a single SCN can have more rows than that: one source transaction that's too large.
It alone is split within.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.journal.entry import Entry, File

# How many bytes of the journal's files a Kafka transaction holds, at most, unless a source transaction has more.
MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of a segment with these SCNs, both included; `rows` counts them."""

    first_scn: int
    last_scn: int
    rows: int


def most_rows(files: Iterable[File], most: int) -> int:
    """How many of these files' rows a Kafka transaction holds: fewer than `most` where they are large."""
    rows, size = 0, 0
    for file in files:
        rows, size = rows + file.rows, size + file.bytes
    return most if size <= MOST_BYTES else max(1, min(most, rows * MOST_BYTES // size))


def whole(entry: Entry, files: Iterable[File]) -> Run:
    """All rows of these files of a segment."""
    return Run(entry.first_scn, entry.last_scn, sum(file.rows for file in files))


def divided(scns: NDArray[np.int64], most: int, *, split: bool = False) -> tuple[Run, ...]:
    """The runs of rows with these SCNs, in any order: as few as may be, each of at most `most` rows or a single SCN.

    `split`: the first SCN has a run of its own, since some of its rows were sent before.
    """
    values, counts = np.unique(scns, return_counts=True)
    ends = np.cumsum(counts)
    found: list[Run] = []
    begin, before = 0, 0
    while begin < len(values):
        fits = 0 if split and not found else int(np.searchsorted(ends, before + most, "right"))
        end = max(begin + 1, fits)
        found.append(Run(int(values[begin]), int(values[end - 1]), int(ends[end - 1]) - before))
        begin, before = end, int(ends[end - 1])
    return tuple(found)
