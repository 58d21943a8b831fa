"""Which rows of a file a stream or a reader of changes reads, where it begins or ends within a segment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gtid.gtid_set import GtidSet, Tsid
from pipeline.types.buffers import Flags, Longs

if TYPE_CHECKING:
    from pipeline.journal.entry import Entry

# What the choice depends on.
CHOSEN_BY: Final = ("__scn", "__gtid")

_GTID: Final = r"^(?P<source>.+):(?P<number>[0-9]+)$"


@dataclass(frozen=True, slots=True)
class RowChoice:
    """The rows with an SCN from `first` through `last`, of transactions that are in `only` and not in `without`.

    None excludes nothing. The sets are texts, as MySQL writes them. A row without a GTID, which a snapshot has read, is
    in every set that could keep it.
    """

    first: int | None = None
    last: int | None = None
    without: str | None = None
    only: str | None = None

    def __bool__(self) -> bool:
        """Returns whether it can exclude a row."""
        return self != ALL_ROWS


ALL_ROWS: Final = RowChoice()


def choose_between(
    entry: "Entry", first: int | None, without: GtidSet | None, through: int | GtidSet | None
) -> RowChoice:
    """Returns the choice of the segment's rows from the SCN `first` on, in no transaction of `without`, and up to
    `through`. None excludes nothing, nor does a `through` that the segment doesn't exceed."""
    last = through if isinstance(through, int) and entry.last_scn > through else None
    only = through if isinstance(through, GtidSet) and not entry.checkpoint.position <= through else None
    return RowChoice(first, last, _text(without), _text(only))


def choose_rows(rows: pa.RecordBatch, choice: RowChoice) -> pa.RecordBatch:
    """Returns the chosen rows, in their order. They have the columns `CHOSEN_BY`."""
    kept = np.ones(rows.num_rows, np.bool_)
    if choice.first is not None or choice.last is not None:
        scn = rows.column("__scn").to_numpy()
        kept &= scn >= (0 if choice.first is None else choice.first)
        kept &= scn <= (np.iinfo(np.int64).max if choice.last is None else choice.last)
    for text, wanted in ((choice.without, False), (choice.only, True)):
        if text is not None:
            kept &= are_in(rows.column("__gtid"), GtidSet.parse(text), wanted) == wanted
    return rows if kept.all() else rows.filter(pa.array(kept))


def are_in(gtids: pa.Array, which: GtidSet, unnamed: bool) -> Flags:
    """Returns which of the GTIDs are in a set; `unnamed` for null."""
    found = np.full(len(gtids), unnamed)
    for source, own, numbers in _by_source(gtids):
        found[own] = which.contains_many(source, numbers)
    return found


def gtid_set_of(gtids: pa.Array) -> GtidSet:
    """Returns the set of these GTIDs, without nulls."""
    found = GtidSet()
    for source, _, numbers in _by_source(gtids):
        found = found.with_numbers(source, numbers)
    return found


def _by_source(gtids: pa.Array) -> Iterator[tuple[Tsid, Flags, Longs]]:
    """Returns each source, which GTIDs are its own, and their numbers."""
    parts = pc.extract_regex(gtids, _GTID)
    sources = pc.struct_field(parts, "source")
    numbers = pc.struct_field(parts, "number").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    for source in sources.unique().to_pylist():
        if source is not None:
            own = pc.equal(sources, source).fill_null(False).to_numpy(zero_copy_only=False)
            yield _tsid(source), own, numbers[own]


def _text(gtids: GtidSet | None) -> str | None:
    return None if gtids is None else str(gtids)


def _tsid(text: str) -> Tsid:
    uuid, _, tag = text.partition(":")
    return Tsid(uuid, tag)
