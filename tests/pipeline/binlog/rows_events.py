"""Rows events laid end to end, as a slice of the log holds them, for the tests of row images."""

from collections.abc import Iterable
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
    bodies = tuple(bodies)
    ends = np.cumsum([len(body.bytes) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body.bytes) for body in bodies], np.int64)
    codes = np.array([body.code for body in bodies], np.uint8)
    transactions = np.array([body.transaction for body in bodies], np.int32)
    buffer = bytearray(b"".join(body.bytes for body in bodies) + b"\xff" * SLACK)
    nowhere = np.full((5, len(bodies)), -1)
    events = RowsEvents(starts, ends, codes, transactions, nowhere, ("",))
    return locate_images(table_map, np.frombuffer(buffer, np.uint8), events)


def images(table_map: TableMap, bodies: Iterable[Body], first_ordinal: int = 0) -> TableImages:
    """The events' row images in columns, with ordinals as if all were of one transaction."""
    found = located(table_map, bodies)
    ordinals = first_ordinal + np.cumsum(found.images) - found.images
    return images_of_events(found, ordinals)
