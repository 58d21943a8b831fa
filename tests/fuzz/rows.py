"""Row images by themselves: a table map and the bodies of its rows events, damaged, decoded in guarded memory.

Each case is decoded several times, with other bytes in the slack after the last event. What is read there must not
change the result.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.binlog.event_type import Code
from pipeline.binlog.events.table_map_event import table_map
from pipeline.binlog.rows.row_events import (
    ROW_EVENTS,
    OrderedImages,
    RowsEvents,
    images_of_events,
    locate_images,
)
from pipeline.errors import Definite
from pipeline.messages.row_images import TableImages
from pipeline.types.buffers import SLACK, Bytes
from tests.fuzz import payloads
from tests.fuzz.corpus import CHECKSUM, HEADER, Corpus
from tests.fuzz.guarded import Guarded
from tests.fuzz.mutation import changed

_SLACKS: Final = (bytes(SLACK), b"\xff" * SLACK, bytes(range(1, SLACK + 1)))
_LARGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RowsCase:
    """The body of a TABLE_MAP event, and of rows events their codes and bodies."""

    map: bytes
    events: tuple[tuple[int, bytes], ...]

    @property
    def bytes(self) -> bytes:
        """All of its rows events."""
        return b"".join(body for _, body in self.events)


Tables = Sequence[RowsCase]


def tables(corpus: Corpus) -> Tables:
    """All that the corpus has of this sort, as it is; the few with diffs of documents come often."""
    found: dict[RowsCase, None] = {}
    for transaction in corpus.transactions:
        for case in _cases(list(_bodies(transaction))):
            found[case] = None
    partial = [case for case in found if any(code == Code.PARTIAL_UPDATE_ROWS for code, _ in case.events)]
    return (*found, *partial * (len(found) // 5 // len(partial)))


def _bodies(transaction: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    for event in transaction:
        body = event[HEADER:-CHECKSUM]
        if event[4] == Code.TRANSACTION_PAYLOAD:
            for inner in payloads.events(body):
                yield inner[4], inner[HEADER:]
        else:
            yield event[4], body


def _cases(bodies: list[tuple[int, bytes]]) -> Iterator[RowsCase]:
    maps = {body[:6]: body for code, body in bodies if code == Code.TABLE_MAP}
    for table_id, map_body in maps.items():
        rows = tuple((code, body) for code, body in bodies if code in ROW_EVENTS and body[:6] == table_id)
        if rows:
            yield RowsCase(map_body, rows)


def rows_case(of: Tables, seed: int) -> RowsCase:
    """The case of this seed."""
    rng = random.Random(seed)
    chosen = rng.choice(of)
    described, events = chosen.map, list(chosen.events)
    if len(events) > 4:
        at = rng.randrange(len(events) - 3)
        events = events[at : at + 4]
    if rng.random() < 0.15:
        described = changed(rng, described) if rng.random() < 0.7 else rng.choice(of).map
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            at = rng.randrange(len(events))
            code, body = events[at]
            if rng.random() < 0.05:
                code = rng.choice(sorted(ROW_EVENTS))
            # What comes before a row image is short, and damage there ends the decoding at once.
            first = 8 if rng.random() < 0.9 else 0
            events[at] = (code, body[:first] + changed(rng, body[first:]))
    return RowsCase(described, tuple(events))


@cache
def _memory() -> Guarded:
    return Guarded(_LARGEST)


def rows_told(case: RowsCase) -> tuple[str, str]:
    """Checks that the case's result is the same with any bytes after the last event. Raises nothing if so."""
    first, *others = [_told(case, slack) for slack in _SLACKS]
    for other in others:
        assert other == first, f"bytes behind the last event change what comes out:\n{first}\n{other}"
    return first


def _told(case: RowsCase, slack: bytes) -> tuple[str, str]:
    try:
        return ("decoded", shown(_images(case, slack)))
    except Definite as error:
        return (type(error).__name__, str(error))


def _images(case: RowsCase, slack: bytes) -> TableImages:
    found = located(case, _memory().holding(case.bytes, slack))
    return images_of_events(found.located, found.first_ordinals)


def located(case: RowsCase, buffer: Bytes, begin: int = 0) -> OrderedImages:
    """The case's row images in a buffer that has its bytes from there on."""
    bodies = [body for _, body in case.events]
    ends = begin + np.cumsum([len(body) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    codes = np.array([code for code, _ in case.events], np.uint8)
    events = RowsEvents(
        starts, ends, codes, np.zeros(len(bodies), np.int32), np.full((5, len(bodies)), -1), ("",)
    )
    found = locate_images(table_map(case.map), buffer, events)
    return OrderedImages(found, np.cumsum(found.images) - found.images)


def shown(images: TableImages) -> str:
    """All that is in it, after Arrow itself has looked whether it is sound."""
    for batch in (images.images, images.rows):
        batch.validate(full=True)
    columns = [_values(column) for column in (*images.images.columns, *images.rows.columns)]
    return f"{columns} {images.impossible_dates}"


def _values(column: pa.Array) -> list[object]:
    """The values; of dates and times the numbers, since Python has no year 0."""
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return list(column.to_pylist())
