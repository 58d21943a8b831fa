"""What several readers want of a segment alike, read once.

Readers at the journal's end want the same rows at the same moment. Without this each of them parses the segment's
entry, and reads and orders its rows. A segment never changes, and no reader changes what was read of it. So what is
kept here stays right. Only small segments are kept, and only those that somebody has read last.
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from threading import Lock
from typing import Final, TypeVar, cast

from pipeline.journal.changes.commit_order import CutRows
from pipeline.journal.entry import Entry
from pipeline.schema.table_schema import TableId

# So many are kept: entries, and rows of one choice of tables in a segment.
_KEPT: Final = 16

# So many bytes the rows of a segment may have for that.
KEPT_BYTES: Final = 1 << 20

_Value = TypeVar("_Value")


class SharedSegments:
    """The segments of one journal that its readers have read last, in several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, object] = {}

    def entry(self, segment: int, read: Callable[[int], Entry]) -> Entry:
        """Returns a segment's entry. Raises as `read` does."""
        with self._lock:
            entry = self._known(segment, Entry) or read(segment)
            self._keep(segment, entry)
            return entry

    def rows(
        self, segment: int, tables: frozenset[TableId], read: Callable[[], Iterable[CutRows]]
    ) -> Iterable[CutRows]:
        """Returns all rows of these tables in a segment. Raises as `read` does, also while they are taken."""
        with self._lock:
            if (known := self._known((segment, tables), tuple)) is None:
                pieces, taken, size = iter(read()), list[CutRows](), 0
                for piece in pieces:
                    taken.append(piece)
                    size += piece.rows.nbytes
                    if size > KEPT_BYTES:
                        return chain(taken, pieces)
                known = tuple(taken)
            self._keep((segment, tables), known)
            return cast("tuple[CutRows, ...]", known)

    def _known(self, key: Hashable, kind: type[_Value]) -> _Value | None:
        known = self._kept.pop(key, None)
        return known if isinstance(known, kind) else None

    def _keep(self, key: Hashable, value: object) -> None:
        self._kept[key] = value
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
