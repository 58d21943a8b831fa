"""As many events as an answer has room for, from rows in the order of commits."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.journal.changes.commit_order import OrderedRows
from pipeline.kafka.avro.avro_values import BYTES
from pipeline.kafka.databus.events import EventForm, have_events
from pipeline.kafka.databus.stream_query import LARGEST
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Longs


class EventPage:
    """The events of one answer: at most `room` bytes, without the first `skipped` ones of the window `first`.

    If `room` is the most that a client may ask for, the first event comes however large it is.

    `pending`: the bytes of the first event, if there was no room for it. `rows`: how many events there are of each
    table, without those that end windows.
    """

    def __init__(self, form: EventForm, room: int, first: int = 0, skipped: int = 0) -> None:
        self.pending: int | None = None
        self.rows = Counter[TableId]()
        self._form = form
        self._room = room
        self._first = first
        self._skipped = skipped
        self._events = [pa.array([], BYTES)]
        self._open: int | None = None
        self._ended = -1  # the window 0 is before all transactions
        self._full = False

    @property
    def full(self) -> bool:
        """Returns whether nothing more comes into it."""
        return self._full

    def add(self, rows: OrderedRows, lanes: Sequence[TableSchema], *, complete: bool) -> None:
        """Adds the events of rows, each table's in one version. `complete`: whether the last window ends with them."""
        parts = list(rows.taken())
        if not complete and self._skips([part.rows for part, _ in parts], rows.scn):
            return
        if not all(self._form.takes(lanes[part.lane]) for part, _ in parts):
            self._full = True
            return
        made = [self._form.rows(part.rows, lanes[part.lane]) for part, _ in parts]
        events = pa.concat_arrays(made)
        if len(made) > 1:
            events = events.take(pa.array(np.argsort(np.concatenate([places for _, places in parts]))))
        self._close(int(rows.scn[0]))
        ends = np.flatnonzero(np.append(np.diff(rows.scn) != 0, complete))
        self._open = None if complete else int(rows.scn[-1])
        self._ended = int(rows.scn[ends[-1]]) if len(ends) else self._ended
        kept = self._kept(events, rows.scn)
        every = pa.concat_arrays([events.take(pa.array(kept)), self._form.ends(rows.scn[ends])])
        order = np.argsort(np.concatenate([2 * kept, 2 * ends + 1]))
        fit = self._put(every.take(pa.array(order)))
        put = kept[order[:fit][order[:fit] < len(kept)]]
        for part, places in parts:
            self.rows[lanes[part.lane].table] += int(np.count_nonzero(np.isin(places, put)))

    def end(self, scn: int) -> None:
        """Ends with this window, before which nothing more comes."""
        self._open = None
        if scn > self._ended:
            self._ended = scn
            self._put(self._form.ends(np.array([scn])))

    def whole(self) -> bytes:
        """Returns the answer."""
        return self._form.whole(pa.concat_arrays(self._events))

    def _close(self, scn: int) -> None:
        """Ends the window that is open, unless it is this one."""
        if self._open is not None and self._open != scn:
            self.end(self._open)

    def _skips(self, parts: Sequence[pa.RecordBatch], scn: Longs) -> bool:
        """Passes over rows of the first window if the consumer has all their events, without making these."""
        if self._skipped == 0 or not (scn[0] == scn[-1] == self._first):
            return False
        had = sum(have_events(rows).true_count for rows in parts)
        if had > self._skipped:
            return False
        self._skipped -= had
        self._open = self._first
        return True

    def _kept(self, events: pa.Array, scn: Longs) -> Longs:
        """Returns the places of the events that the consumer doesn't have."""
        kept = np.flatnonzero(np.asarray(events.is_valid()))
        # The first window comes first.
        had = min(self._skipped, int(np.count_nonzero(scn[kept] == self._first)))
        self._skipped -= had
        return kept[had:]

    def _put(self, events: pa.Array) -> int:
        """Adds these events, and returns for how many there was room."""
        if self._full or not len(events):
            return 0
        sizes = np.cumsum(np.diff(bytes_of(events)[1].astype(np.int64)))
        fit = int(np.searchsorted(sizes, self._room, "right"))
        if fit == 0 and len(self._events) == 1:
            if self._room < LARGEST:
                self.pending = int(sizes[0])
            else:
                fit = 1  # no client may ask for more
        self._full = fit < len(events)
        if fit:
            self._room -= int(sizes[fit - 1])
            self._events.append(events.slice(0, fit))
        return fit
