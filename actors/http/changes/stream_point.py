"""What comes next in a reader's stream, as bytes, and where the stream is then.

All that a stream has sent, and that matters for what comes next, is in its point. So readers whose points have the
same key get the same bytes, which are made once (`actors.http.changes.shared_parts`).
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from actors.http.changes.segment_changes import ChangesRead, SegmentChanges
from pipeline.journal.changes.commit_order import count_by_table
from pipeline.schema.table_schema import TableId

# A thread looks through so many segments for a reader before others have their turn.
SEGMENTS_AT_ONCE: Final = 16

# What a segment has comes in one part up to so many bytes, and beyond that as it is made.
WHOLE_BYTES: Final = 1 << 20


class StreamForm(Protocol):
    """The form of a reader's changes."""

    @property
    def content_type(self) -> str:
        """Returns its media type."""

    @property
    def key(self) -> Hashable:
        """Returns what the form of the next changes depends on."""

    def begin(self) -> bytes:
        """Returns what comes first."""

    def write(self, read: ChangesRead) -> bytes:
        """Returns rows and their checkpoint."""

    def error(self, text: str) -> bytes:
        """Returns an error that ends the changes."""

    def end(self) -> bytes:
        """Returns what comes last."""


class StreamPoint:
    """How far a stream has come: its way through the journal, and its form. It never changes: after it comes another.

    `wanted`: what was asked for. `key`: points with the same one have the same parts.
    """

    def __init__(self, wanted: Hashable, changes: SegmentChanges, form: StreamForm) -> None:
        self.key: Final = (wanted, changes.key, form.key)
        self._wanted = wanted
        self._changes = changes
        self._form = form

    @property
    def segment(self) -> int:
        """Returns the segment that comes next."""
        return self._changes.place.segment

    @property
    def ended(self) -> bool:
        """Returns whether nothing more is wanted."""
        return self._changes.ended

    @cached_property
    def checkpoint(self) -> bytes:
        """Returns where to continue, without rows."""
        return copy(self._form).write(self._changes.reached())

    def parts(self, last: int) -> Iterator["StreamPart"]:
        """Returns what comes next, through segment `last`: a segment with changes, or many in which nothing is wanted.

        Only the last part has a point after it. Of a small segment it is the only one. Raises PlaceGone, or Definite if
        a file is damaged.
        """
        changes, form = copy(self._changes), copy(self._form)
        data, rows, size = list[bytes](), Counter[TableId](), 0
        until = min(last, self.segment + SEGMENTS_AT_ONCE - 1)
        while not (size or changes.ended) and changes.place.segment <= until:
            for read in changes.read(changes.place.segment):
                data.append(form.write(read))
                size += len(data[-1])
                if read.rows is not None:
                    rows += count_by_table(read.rows, read.lanes)
                if size > WHOLE_BYTES:
                    yield StreamPart(b"".join(data), rows, form)
                    data, rows = [], Counter()
        yield StreamPart(b"".join(data), rows, form, StreamPoint(self._wanted, changes, form))


@dataclass(frozen=True, slots=True, eq=False)
class StreamPart:
    """Bytes with so many rows of each table; the form of what comes after them, and from where. None amid a segment."""

    data: bytes
    rows: Counter[TableId]
    form: StreamForm
    after: StreamPoint | None = None
