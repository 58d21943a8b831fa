"""What several readers want of a segment alike, read once.

Readers at the journal's end want the same rows at the same moment. Without this each of them parses the segment's
entry, and reads and orders its rows. A segment never changes, and no reader changes what was read of it. So what is
kept here stays right. Only small segments are kept, and only those that somebody has read last.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from threading import Lock
from typing import Final, TypeVar

from pipeline.journal.changes.commit_order import CutRows
from pipeline.journal.entry import Entry
from pipeline.schema.table_schema import TableId

# So many entries are kept, and rows of so many choices of tables in a segment.
_KEPT: Final = 16

# So many bytes the rows of a segment may have for that.
KEPT_BYTES: Final = 1 << 20

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class SharedSegments:
    """The segments of one journal that its readers have read last, in several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[int, Entry] = {}
        self._rows: dict[tuple[int, frozenset[TableId]], tuple[CutRows, ...]] = {}

    def entry(self, segment: int, read: Callable[[int], Entry]) -> Entry:
        """Returns a segment's entry. Raises as `read` does."""
        with self._lock:
            if (known := self._entries.pop(segment, None)) is None:
                known = read(segment)
            return _kept(self._entries, segment, known)

    def rows(
        self, segment: int, tables: frozenset[TableId], read: Callable[[], Iterable[CutRows]]
    ) -> Iterable[CutRows]:
        """Returns all rows of these tables in a segment. Raises as `read` does, also while they are taken."""
        with self._lock:
            if (known := self._rows.pop((segment, tables), None)) is None:
                pieces, taken, size = iter(read()), list[CutRows](), 0
                for piece in pieces:
                    taken.append(piece)
                    size += piece.rows.nbytes
                    if size > KEPT_BYTES:
                        return chain(taken, pieces)
                known = tuple(taken)
            return _kept(self._rows, (segment, tables), known)


def _kept(kept: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
    """Keeps a value as the one that was wanted last, and returns it."""
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
    return value
