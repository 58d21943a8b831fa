"""Rows events laid end to end, as a slice of the log holds them, for the tests of row images."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.binlog.rows.row_events import LocatedImages, RowsEvents, images_of_events, locate_images
from pipeline.messages.row_images import TableImages
from pipeline.schema.table_map import TableMap
from pipeline.types.buffers import SLACK


class Body(NamedTuple):
    """A rows event without its header and checksum; the transaction by its index in the slice."""

    bytes: bytes
    code: int
    transaction: int = 0


def located(table_map: TableMap, bodies: Iterable[Body]) -> LocatedImages:
    """The events' row images, over a buffer without a byte to spare."""
    [found] = located_together([(table_map, tuple(bodies))])
    return found


def located_together(tables: Sequence[tuple[TableMap, Sequence[Body]]]) -> list[LocatedImages]:
    """The row images of the events of each table, all in one buffer without a byte to spare."""
    whole = bytearray(b"".join(body.bytes for _, bodies in tables for body in bodies) + b"\xff" * SLACK)
    buffer = np.frombuffer(whole, np.uint8)
    found, begin = [], 0
    for table_map, bodies in tables:
        ends = begin + np.cumsum([len(body.bytes) for body in bodies], dtype=np.int64)
        starts = ends - np.array([len(body.bytes) for body in bodies], np.int64)
        codes = np.array([body.code for body in bodies], np.uint8)
        transactions = np.array([body.transaction for body in bodies], np.int32)
        events = RowsEvents(starts, ends, codes, transactions, np.full((5, len(bodies)), -1), ("",))
        found.append(locate_images(table_map, buffer, events))
        begin += sum(len(body.bytes) for body in bodies)
    return found


def images(table_map: TableMap, bodies: Iterable[Body], first_ordinal: int = 0) -> TableImages:
    """The events' row images in columns, with ordinals as if all were of one transaction."""
    found = located(table_map, bodies)
    ordinals = first_ordinal + np.cumsum(found.images) - found.images
    return images_of_events(found, ordinals)
