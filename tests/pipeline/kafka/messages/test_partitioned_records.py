"""Each message's partition, time and headers, and the order of messages of several tables."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.kafka.errors import TopicRefusal
from pipeline.kafka.messages.partitioned_records import in_stream_order, partitioned
from pipeline.kafka.messages.partitioner import partitions
from pipeline.kafka.messages.records import encoded_headers
from pipeline.kafka.messages.topic_records import Records, StreamPlaces

# An empty key would go to another partition than the first.
COUNT = 5
KEYS = pa.array(["a", None, "b"])


def test_a_message_goes_to_its_own_partition_or_to_that_of_its_key() -> None:
    of_keys = partitions(pa.array(["a", "", "b"]), COUNT)
    plain = partitioned(Records("t", KEYS, KEYS), COUNT, 7)
    # One without a key goes to the first partition, which keeps the order of its table's changes.
    assert plain.partitions.tolist() == [of_keys[0], 0, of_keys[2]]
    assert plain.headers is None and plain.times.tolist() == [7, 7, 7]
    said = Records("t", KEYS, KEYS, partitions=pa.array([2, None, None], pa.int32()))
    assert partitioned(said, COUNT, 7).partitions.tolist() == [2, 0, of_keys[2]]
    assert partitioned(Records("t", KEYS, KEYS), 1, 7).partitions.tolist() == [0, 0, 0]


@pytest.mark.parametrize("number", [COUNT, -1, 1 << 40])
def test_a_partition_that_is_not_there_is_its_topics_refusal(number: int) -> None:
    records = Records("t", KEYS, KEYS, partitions=pa.array([0, None, number], pa.int64()))
    with pytest.raises(TopicRefusal, match="t: it has 5 partitions, and a message names another one"):
        partitioned(records, COUNT, 1)


def test_a_message_has_its_own_time_and_the_headers_that_it_does_not_lack() -> None:
    headers = (
        ("one", pa.array(["x", None, "y"])),
        ("two", pa.array([None, None, "z"])),
        ("none", pa.nulls(3, pa.string())),
    )
    found = partitioned(Records("t", KEYS, KEYS, headers, times=pa.array([1, None, 3])), COUNT, 7)
    assert found.times.tolist() == [1, 7, 3]
    assert found.headers is not None
    both = encoded_headers([("one", b"y"), ("two", b"z")])
    assert found.headers.to_pylist() == [encoded_headers([("one", b"x")]), None, both]


def test_messages_of_several_tables_come_in_the_order_of_the_stream() -> None:
    """Those of one row stay in their order, and a table without headers, or with longer texts, is no exception."""

    def part(
        keys: pa.Array, *places: tuple[int, int], headers: tuple[tuple[str, pa.Array], ...] = ()
    ) -> Records:
        scns, ordinals = np.array(places).T
        return Records("t", keys, keys, headers, places=StreamPlaces(scns, ordinals))

    one = part(
        pa.array(["d", "a", "b"]), (2, 1), (1, 4), (1, 4), headers=(("h", pa.array(["x", None, None])),)
    )
    other = part(pa.array(["c", "e"], pa.large_string()), (2, 0), (3, 0))
    ordered = in_stream_order([partitioned(one, 1, 1), partitioned(other, 1, 2)], [one.places, other.places])
    assert ordered.keys.to_pylist() == [b"a", b"b", b"c", b"d", b"e"]
    assert ordered.times.tolist() == [1, 1, 2, 1, 2]
    assert ordered.headers is not None
    assert ordered.headers.to_pylist() == [None, None, None, encoded_headers([("h", b"x")]), None]
