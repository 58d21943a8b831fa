"""Messages of several topics are divided with all that each of them has, and get heads that name their schemas."""

import numpy as np
import pyarrow as pa

from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, INT, LONG
from pipeline.kafka.messages.topic_records import Records, RecordSchemas, StreamPlaces, by_topic

KEYS, VALUES = pa.array(["a", None, "c"]), pa.array(["1", "2", None])


def test_each_topic_has_its_messages_in_their_order() -> None:
    records = Records(
        "table",
        KEYS,
        VALUES,
        (("h", pa.array(["x", "y", None])),),
        times=pa.array([1, None, 3]),
        partitions=pa.array([None, 1, 2], pa.int32()),
        schemas=RecordSchemas(CONNECT_STRING, (INT, LONG), np.array([0, 1, 0])),
        places=StreamPlaces(np.array([5, 6, 7]), np.array([0, 1, 2])),
    )
    one, other = by_topic(records, pa.array(["t", "u", "t"]))
    assert (one.topic, one.keys.to_pylist(), one.values.to_pylist()) == ("t", ["a", "c"], ["1", None])
    assert [(name, texts.to_pylist()) for name, texts in one.headers] == [("h", ["x", None])]
    assert one.times is not None and one.times.to_pylist() == [1, 3]
    assert one.partitions is not None and one.partitions.to_pylist() == [None, 2]
    assert one.schemas is not None and one.schemas.of is not None and one.schemas.of.tolist() == [0, 0]
    assert one.places is not None and one.places.scn.tolist() == [5, 7]
    assert one.places.ordinal.tolist() == [0, 2]
    assert (other.topic, other.keys.to_pylist()) == ("u", [None])
    assert other.schemas is not None and other.schemas.of is not None and other.schemas.of.tolist() == [1]
    (plain,) = by_topic(Records("table", KEYS, VALUES), pa.array(["t"] * 3))
    assert (plain.times, plain.partitions, plain.schemas, plain.places) == (None, None, None, None)


def test_heads_name_the_schemas_of_what_there_is() -> None:
    schemas = RecordSchemas(CONNECT_STRING, (INT, LONG), np.array([0, 1, 1]))
    records = Records("t", KEYS, VALUES, schemas=schemas)
    assert records.nameless == (("key", CONNECT_STRING), ("value", INT), ("value", LONG))
    named = records.identified([7, 8, 9])
    assert named.nameless == ()
    assert named.keys.to_pylist() == [b"\0\0\0\0\7a", None, b"\0\0\0\0\7c"]
    assert named.values.to_pylist() == [b"\0\0\0\0\x081", b"\0\0\0\0\x092", None]
    keyless = Records("t", pa.nulls(3, pa.string()), VALUES, schemas=schemas)
    assert keyless.nameless == (("value", INT), ("value", LONG))
    assert keyless.identified([8, 9]).values.to_pylist() == named.values.to_pylist()
    assert Records("t", KEYS, VALUES).nameless == ()


def test_a_topics_messages_need_no_schema_of_another_topics() -> None:
    """The registry would be asked for it under the topic's subject, which may not have it or not take it."""
    schemas = RecordSchemas(CONNECT_STRING, (INT, LONG, CONNECT_STRING), np.array([0, 2, 1, 2]))
    values = pa.array(["1", "2", None, "4"])
    records = Records("table", pa.array(["a", "b", "c", "d"]), values, schemas=schemas)
    one, other = by_topic(records, pa.array(["t", "u", "t", "u"]))
    assert one.nameless == (("key", CONNECT_STRING), ("value", INT))  # and LONG is a tombstone's
    assert one.identified([7, 8]).values.to_pylist() == [b"\0\0\0\0\x081", None]
    assert other.nameless == (("key", CONNECT_STRING), ("value", CONNECT_STRING))
    assert other.identified([7, 9]).values.to_pylist() == [b"\0\0\0\0\x092", b"\0\0\0\0\x094"]
