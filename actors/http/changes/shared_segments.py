"""What several readers want of a segment alike, read once.

Readers at the journal's end want the same rows at the same moment. Without this each of them parses the segment's
entry, and reads and orders its rows. A segment never changes, and no reader changes what was read of it. So what is
kept here stays right. Only small segments are kept, and only those that somebody has read last.

Who wants what another one is reading waits for that. Who wants something else waits for nothing: a reader that lags
reads large files.
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from threading import Lock
from typing import Final, TypeVar
from weakref import WeakValueDictionary

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
        # Held for no longer than these dictionaries are looked at.
        self._lock = Lock()
        self._entries: dict[int, Entry] = {}
        self._rows: dict[tuple[int, frozenset[TableId]], tuple[CutRows, ...]] = {}
        # Of what is being read, for as long as somebody reads it or waits for it.
        self._reading: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()

    def entry(self, segment: int, read: Callable[[int], Entry]) -> Entry:
        """Returns a segment's entry. Raises as `read` does."""
        with self._turn(segment):
            if (known := self._found(self._entries, segment)) is None:
                known = self._keep(self._entries, segment, read(segment))
            return known

    def rows(
        self, segment: int, tables: frozenset[TableId], read: Callable[[], Iterable[CutRows]]
    ) -> Iterable[CutRows]:
        """Returns all rows of these tables in a segment. Raises as `read` does, also while they are taken."""
        key = (segment, tables)
        with self._turn(key):
            if (known := self._found(self._rows, key)) is not None:
                return known
            pieces, taken, size = iter(read()), list[CutRows](), 0
            for piece in pieces:
                taken.append(piece)
                size += piece.rows.nbytes
                if size > KEPT_BYTES:
                    return chain(taken, pieces)
            return self._keep(self._rows, key, tuple(taken))

    def _turn(self, key: Hashable) -> Lock:
        """Returns the lock of whoever finds or reads this."""
        with self._lock:
            return self._reading.setdefault(key, Lock())

    def _found(self, kept: dict[_Key, _Value], key: _Key) -> _Value | None:
        """Returns a value as the one that was wanted last, None if it isn't kept."""
        with self._lock:
            if (value := kept.pop(key, None)) is not None:
                kept[key] = value
            return value

    def _keep(self, kept: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
        """Keeps a value as the one that was wanted last, and returns it."""
        with self._lock:
            kept[key] = value
            if len(kept) > _KEPT:
                del kept[next(iter(kept))]
            return value
