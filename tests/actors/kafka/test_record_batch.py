"""aiokafka's own reader finds in a batch what was put into it."""

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from actors.kafka.record_batch import RecordBatch
from pipeline.config.settings import Compression
from pipeline.kafka.messages.records import NO_VALUE, encoded_headers, record_runs

VALUES = st.none() | st.binary(max_size=200)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
HEADERS = st.lists(st.tuples(NAMES, st.binary().filter(lambda value: value != NO_VALUE)), max_size=2)
TIMES = st.integers(0, 2**50)
MESSAGES = st.lists(st.tuples(VALUES, VALUES, HEADERS, TIMES), min_size=1, max_size=30)


Message = tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int]


def read(batch: RecordBatch) -> list[Message]:
    found = MemoryRecords(bytes(batch._build()))
    opened = found.next_batch()
    assert opened is not None and opened.validate_crc() and not found.has_next()
    assert (opened.producer_id, opened.producer_epoch, opened.base_sequence) == (5, 6, 7)
    assert opened.is_transactional
    records = list(opened)
    assert [record.offset for record in records] == list(range(len(records)))
    assert opened.max_timestamp == max(record.timestamp for record in records)
    return [
        (
            record.key,
            record.value,
            [(name, bytes(value)) for name, value in record.headers],
            record.timestamp,
        )
        for record in records
    ]


@pytest.mark.parametrize("compression", Compression)
@given(MESSAGES)
def test_another_reader_finds_the_same(compression: Compression, messages: list[Message]) -> None:
    keys, values = (pa.array([message[i] for message in messages], pa.binary()) for i in (0, 1))
    headers = pa.array(
        [encoded_headers(message[2]) if message[2] else None for message in messages], pa.binary()
    )
    rows = np.arange(len(messages))[::-1].copy()
    times = np.array([message[3] for message in messages])
    (records,) = record_runs(keys, values, headers, times, rows, 1 << 30)
    batch = RecordBatch(records, compression)
    batch._set_producer_state(5, 6, 7)
    assert batch.record_count() == len(messages) and batch.closed()
    assert read(batch) == messages[::-1]
