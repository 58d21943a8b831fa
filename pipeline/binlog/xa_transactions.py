"""XA transactions between their two phases: the known facts of each, and its rows if they are here."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.binlog.registries import RememberedTableMap
from pipeline.binlog.slice import HeldRows, Transaction
from pipeline.gtid.coordinates import Coordinates
from pipeline.snapshot.prepared_xa import XaPrepared


class Prepared(NamedTuple):
    """One whose rows wait, and which ends here in the log; `maps` are those of the rows."""

    transaction: Transaction
    end: Coordinates
    rows: HeldRows
    maps: tuple[RememberedTableMap, ...]


class PreparedTransactions:
    """All that have been prepared, by their XA identifiers; `most_bytes` of rows are held back.

    `noted`: those that are known from before the log's part that is read.
    """

    def __init__(self, most_bytes: int, noted: Iterable[XaPrepared] = ()) -> None:
        self._most_bytes = most_bytes
        self._noted = {each.xid: each for each in noted}
        self._waiting: dict[str, Prepared] = {}

    def note(self, prepared: XaPrepared) -> None:
        """Notes a transaction that has been prepared. None of its rows wait, unless `hold` gets them next."""
        self._noted[prepared.xid] = prepared
        self._waiting.pop(prepared.xid, None)

    def hold(self, xid: str, prepared: Prepared) -> None:
        """Let the rows of one that has been noted wait."""
        self._waiting[xid] = prepared

    def take(self, xid: str) -> Prepared | XaPrepared | None:
        """Returns the one whose second phase has come: its rows, or else what's known of it; None if nothing is."""
        noted = self._noted.pop(xid, None)
        return self._waiting.pop(xid, noted)

    def rows(self, xid: str) -> HeldRows | None:
        """Returns the rows of one whose rows wait."""
        waiting = self._waiting.get(xid)
        return None if waiting is None else waiting.rows

    @property
    def noted(self) -> tuple[XaPrepared, ...]:
        """All of them."""
        return tuple(self._noted.values())

    def waiting(self) -> Iterator[Prepared]:
        """Those whose rows wait."""
        yield from self._waiting.values()

    def has_room(self, more_bytes: int) -> bool:
        """Whether so many bytes of rows may wait besides."""
        held = sum(len(each.rows.body) for each in self._waiting.values())
        return held + more_bytes <= self._most_bytes
