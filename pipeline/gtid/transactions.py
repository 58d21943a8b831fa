"""Transactions in columns, in the order of the log.

A batch of the log holds up to a million of them, so they aren't objects. Each is an index into a few sources, a number
and a time. Functions work on all of them at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InvariantBroken
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.types.buffers import Flags, Longs


@dataclass(frozen=True, slots=True, eq=False)
class Transactions:
    """Consecutive transactions, oldest in the log first; the four arrays have one element for each.

    `source` indexes `sources`, and `number` is the GTID's number there. `commit_time` is the commit's time on the
    server that wrote this log, in µs since the epoch (UTC). `original_time` is that on the server on which it was
    committed first, 0 if the log doesn't have it.
    """

    sources: tuple[Tsid, ...]
    source: npt.NDArray[np.int32]
    number: Longs
    commit_time: Longs
    original_time: Longs

    @staticmethod
    def empty() -> "Transactions":
        """Returns no transactions."""
        return Transactions.of(())

    @staticmethod
    def of(transactions: Iterable[tuple[Gtid, int]]) -> "Transactions":
        """Returns the transactions of these GTIDs with their commit times, in this order, without original times."""
        indices: dict[Tsid, int] = {}
        source, number, commit_time = [], [], []
        for gtid, time in transactions:
            source.append(indices.setdefault(gtid.source, len(indices)))
            number.append(gtid.number)
            commit_time.append(time)
        return Transactions(
            sources=tuple(indices),
            source=np.array(source, dtype=np.int32),
            number=np.array(number, dtype=np.int64),
            commit_time=np.array(commit_time, dtype=np.int64),
            original_time=np.zeros(len(number), dtype=np.int64),
        )

    @staticmethod
    def joined(several: Sequence["Transactions"]) -> "Transactions":
        """Returns all transactions of several sequences, in this order."""
        indices: dict[Tsid, int] = {}
        indices_of = {
            sources: _places(sources, indices) for sources in dict.fromkeys(each.sources for each in several)
        }
        return Transactions(
            sources=tuple(indices),
            source=np.concatenate([indices_of[each.sources][each.source] for each in several]),
            number=np.concatenate([each.number for each in several]),
            commit_time=np.concatenate([each.commit_time for each in several]),
            original_time=np.concatenate([each.original_time for each in several]),
        )

    def __len__(self) -> int:
        return len(self.number)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the four arrays."""
        return self.source.nbytes + self.number.nbytes + self.commit_time.nbytes + self.original_time.nbytes

    def taken(self, indices: npt.NDArray[np.int32]) -> "Transactions":
        """Returns the transactions with these indices."""
        return Transactions(
            self.sources,
            self.source[indices],
            self.number[indices],
            self.commit_time[indices],
            self.original_time[indices],
        )

    def gtid(self, i: int) -> Gtid:
        """The GTID of the i-th transaction."""
        return Gtid(self.sources[self.source[i]], int(self.number[i]))

    def gtid_texts(self) -> pa.Array:
        """Each transaction's GTID as text (Arrow strings), as "uuid:7" or "uuid:tag:7"; null where it has none."""
        names = [None if source.tag == file_positions.TAG else str(source) for source in self.sources]
        sources = pa.array(names, type=pa.string())
        numbers = pc.cast(pa.array(self.number), pa.string())
        return pc.binary_join_element_wise(sources.take(pa.array(self.source)), numbers, ":")

    def not_in(self, gtids: GtidSet) -> Flags:
        """Of each transaction, whether it's missing from the set; membership decides, never order."""
        missing = np.empty(len(self), dtype=np.bool_)
        for index, source in enumerate(self.sources):
            here = self.source == index
            missing[here] = ~gtids.contains_many(source, self.number[here])
        return missing

    def any_outside(self, gtids: GtidSet) -> bool:
        """Returns whether one of them is missing from the set."""
        return bool(self.not_in(gtids).any())

    def added_to(self, position: GtidSet) -> GtidSet:
        """Returns the position once all of these have passed.

        Raises InvariantBroken if one of them had passed before, or comes twice among them. A log has each transaction
        once, so its rows would otherwise be delivered twice.
        """
        again = ~self.not_in(position)
        if again.any():
            i = int(again.argmax())
            raise InvariantBroken(
                f"transaction {self.gtid(i)}, the {i}th of {len(self)}, had passed before: "
                f"it is in the position {position}"
            )
        after = position
        for index, source in enumerate(self.sources):
            after = after.with_numbers(source, self.number[self.source == index])
        if after.count() != position.count() + len(self):
            raise InvariantBroken(f"transaction {self._first_double()} comes twice among {len(self)}")
        return after

    def _first_double(self) -> Gtid:
        seen: set[Gtid] = set()
        for gtid in map(self.gtid, range(len(self))):
            if gtid in seen:
                return gtid
            seen.add(gtid)
        raise AssertionError("each transaction comes once")


def _places(sources: tuple[Tsid, ...], indices: dict[Tsid, int]) -> npt.NDArray[np.int32]:
    """Where each of these sources is in `indices`, to which those are added that it lacks."""
    return np.array([indices.setdefault(source, len(indices)) for source in sources], dtype=np.int32)
