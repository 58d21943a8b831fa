"""A batch of records that a producer of aiokafka sends as it is, in place of aiokafka's own builder of batches.

The producer sets who sends it just before it sends it. So the head, the checksum and the compression come last.
"""

from collections.abc import Callable, Mapping
from typing import Final

import google_crc32c
import numpy as np
from aiokafka import codec

from pipeline.config.settings import Compression
from pipeline.kafka.messages.records import (
    CHECKED_FROM,
    HEAD_BYTES,
    Producer,
    RecordRun,
    put_checksum,
    put_head,
)

# Kafka's numbers, and what compresses.
_CODECS: Final[Mapping[Compression, tuple[int, Callable[[bytes], bytes]]]] = {
    Compression.NONE: (0, bytes),
    Compression.GZIP: (1, codec.gzip_encode),
    Compression.SNAPPY: (2, codec.snappy_encode),
    Compression.LZ4: (3, codec.lz4_encode),
    Compression.ZSTD: (4, codec.zstd_encode),
}


class RecordBatch:
    """The interface of a batch that aiokafka's sender uses."""

    def __init__(self, records: RecordRun, compression: Compression) -> None:
        self._records = records
        self._compression, compressed = _CODECS[compression]
        self._batch = records.data
        if self._compression:
            body = compressed(self._batch[HEAD_BYTES:].tobytes())
            self._batch = np.frombuffer(bytearray(HEAD_BYTES) + body, np.uint8)

    def close(self) -> None:
        """Does nothing: it never takes another record."""

    def closed(self) -> bool:
        """Returns True: it never takes another record."""
        return True

    def record_count(self) -> int:
        """Returns how many records it has."""
        return self._records.count

    def size(self) -> int:
        """Returns how many bytes the sent batch has."""
        return len(self._batch)

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        sender = Producer(producer_id, producer_epoch, base_sequence)
        put_head(self._batch.data, self._records, self._compression, sender)
        # The array itself, since the library takes no memoryview of it.
        put_checksum(self._batch.data, google_crc32c.value(self._batch[CHECKED_FROM:]))

    def _build(self) -> memoryview:
        """Returns the batch as it is sent: the same bytes each time."""
        return self._batch.data
