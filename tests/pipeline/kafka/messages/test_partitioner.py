"""The partitions of keys are those of Kafka's own clients."""

import pyarrow as pa
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.messages.partitioner import partitions


@given(st.lists(st.binary(), min_size=1), st.integers(1, 1000))
def test_they_are_those_of_another_client(keys: list[bytes], count: int) -> None:
    expected = [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert partitions(pa.array(keys, pa.binary()), count).tolist() == expected
    assert partitions(pa.array([b"x", *keys], pa.binary()).slice(1), count).tolist() == expected


def test_no_keys_have_no_partitions() -> None:
    assert partitions(pa.array([], pa.string()), 3).tolist() == []
