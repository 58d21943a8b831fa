"""Compressed transactions taken apart and put together (TRANSACTION_PAYLOAD).

The body is fields (number, length, value), of which 0 is the last, and the compressed events, which have no checksums.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Transaction_payload_event.
"""

from enum import IntEnum
from typing import Final

import pyarrow as pa

from pipeline.types.cursor import Cursor
from tests.fuzz.corpus import HEADER

ZSTD: Final = 0
NONE: Final = 255

_LARGEST: Final = 1 << 20  # bytes; what the corpus has is smaller


class Field(IntEnum):
    """The numbers of the fields; the type is one of ZSTD and NONE, and sizes are of the bytes after the fields."""

    END = 0
    SIZE = 1
    TYPE = 2
    UNCOMPRESSED_SIZE = 3


def parts(body: bytes) -> tuple[dict[int, int], bytes]:
    """Returns the fields' values, and the bytes after them."""
    cursor, fields = Cursor(body), {}
    while (field := cursor.packed()) != Field.END:
        fields[field] = Cursor(cursor.packed_bytes()).packed()
    return fields, cursor.rest()


def packed(value: int) -> bytes:
    """A length-encoded integer."""
    if value < 251:
        return bytes([value])
    for first, size in ((252, 2), (253, 3), (254, 8)):
        if value < 1 << 8 * size:
            return bytes([first]) + value.to_bytes(size, "little")
    raise ValueError(value)


def body(fields: dict[int, int], data: bytes) -> bytes:
    """A body of these fields."""
    written = [packed(field) + packed(len(packed(value))) + packed(value) for field, value in fields.items()]
    return b"".join(written) + packed(Field.END) + data


def compressed(events: bytes) -> bytes:
    """The body for these events, as the server would write it."""
    data = pa.compress(events, codec="zstd", asbytes=True)
    return body({Field.TYPE: ZSTD, Field.SIZE: len(data), Field.UNCOMPRESSED_SIZE: len(events)}, data)


def uncompressed(events: bytes) -> bytes:
    """The body for events that aren't compressed."""
    return body({Field.TYPE: NONE, Field.SIZE: len(events), Field.UNCOMPRESSED_SIZE: len(events)}, events)


def events(body: bytes) -> list[bytes]:
    """The events in this body. Raises ValueError (Arrow's is one), OSError or KeyError where it's damaged."""
    fields, data = parts(body)
    if fields[Field.UNCOMPRESSED_SIZE] > _LARGEST:
        raise ValueError("such a body was never written")
    plain = pa.decompress(data, fields[Field.UNCOMPRESSED_SIZE], codec="zstd", asbytes=True)
    found, at = [], 0
    while at < len(plain):
        size = int.from_bytes(plain[at + 9 : at + 13], "little")
        if size < HEADER:
            raise ValueError("an event is shorter than its header")
        found.append(plain[at : at + size])
        at += size
    return found
