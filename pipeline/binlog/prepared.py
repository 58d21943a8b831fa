"""XA transactions between their two phases: their rows are held back here, and may not be too many."""

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.slice import Held, Transaction
from pipeline.watermark import Coordinates


class Prepared(NamedTuple):
    """One of them, which ends here in the log."""

    transaction: Transaction
    end: Coordinates
    rows: Held


class PreparedTransactions:
    """All that have been prepared, by their XA identifiers; `most_bytes` of rows are held."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._by_xid: dict[str, Prepared] = {}

    def put(self, xid: str, prepared: Prepared) -> None:
        """Hold one back. Raises UndecodableError if that makes too many bytes."""
        self._by_xid[xid] = prepared
        self.check(0)

    def take(self, xid: str) -> Prepared | None:
        """The one whose second phase has come; None if it isn't here."""
        return self._by_xid.pop(xid, None)

    def all(self) -> Iterable[Prepared]:
        """All of them."""
        return self._by_xid.values()

    def check(self, open_bytes: int) -> None:
        """Raises UndecodableError if there's no room for one that's open, with so many bytes, beside them."""
        held = open_bytes + sum(len(prepared.rows.body) for prepared in self._by_xid.values())
        if held > self._most_bytes:
            raise UndecodableError(
                f"XA transactions that aren't committed have {held >> 20} MiB of rows, and {self._most_bytes >> 20} "
                "MiB are held back; use smaller ones, or commit what's prepared, and snapshot the tables again"
            )
