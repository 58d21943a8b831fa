"""Rows in the order of commits, and what a client that knows nothing of Tidemark makes of their events."""

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from pipeline.journal.change_rows import changes_schema
from pipeline.journal.changes.commit_order import LaneRows, OrderedRows
from pipeline.kafka.databus.events import END_OF_WINDOW
from pipeline.schema.table_schema import TableSchema

# A row: its op, its SCN, and the rest of it.
Row = tuple[str, int, tuple[Any, ...]]


def batch(
    schema: TableSchema, rows: list[Row], absent: list[list[str] | None] | None = None
) -> pa.RecordBatch:
    count = len(rows)
    meta: list[Any] = [
        [op for op, _, _ in rows],
        [scn for _, scn, _ in rows],
        list(range(count)),
        [None] * count,
        [1_700_000_000_000_000 + scn for _, scn, _ in rows],
        [None] * count,
        absent or [None] * count,
        [1] * count,
    ]
    own = [list(values) for values in zip(*(row for _, _, row in rows), strict=True)]
    arrays = [
        pa.array(values, field.type)
        for values, field in zip([*meta, *own], changes_schema(schema), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=changes_schema(schema))


def ordered(*parts: pa.RecordBatch) -> OrderedRows:
    """These rows by their SCNs and ids, each part in a lane of its own."""
    scn, ids = (np.concatenate([part.column(name).to_numpy() for part in parts]) for name in ("__scn", "id"))
    order = np.lexsort((ids, scn))
    return OrderedRows(tuple(LaneRows(lane, part) for lane, part in enumerate(parts)), order, scn[order])


class Windows:
    """A client: its checkpoint, and the windows that it has whole, each with its events."""

    def __init__(self, scn: int = 0) -> None:
        self.scn, self.offset = scn, -1
        self.whole: dict[int, list[dict[str, Any]]] = {}
        self._begun: list[dict[str, Any]] = []

    @property
    def checkpoint(self) -> str:
        return json.dumps({"windowScn": self.scn, "windowOffset": self.offset})

    def take(self, body: bytes, *, binary: bool) -> int:
        """Takes the events of an answer; returns how many there are."""
        events = (
            list(fastavro.reader(io.BytesIO(body))) if binary else list(map(json.loads, body.splitlines()))
        )
        for event in events:
            assert isinstance(event, dict)
            scn = event["sequence"]
            assert scn > self.scn or (scn == self.scn and self.offset >= 0), "in order, and once"
            if event["srcId"] == END_OF_WINDOW:
                assert event["endOfPeriod"] and scn not in self.whole
                self.whole[scn] = self._begun
                self.scn, self.offset, self._begun = scn, -1, []
                continue
            assert not event.get("endOfPeriod")
            self.offset = 1 if scn != self.scn or self.offset < 0 else self.offset + 1
            self.scn = scn
            self._begun.append(event)
        return len(events)
