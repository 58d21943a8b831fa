"""Heads before messages."""

import numpy as np
import pyarrow as pa

from pipeline.kafka.avro.wire_format import framed


def test_each_message_has_the_id_of_its_schema_and_a_null_has_none() -> None:
    messages = pa.array([b"a", None, b"", b"bc"], pa.binary())
    found = framed(messages, [7, 2**31 - 1], np.array([0, 0, 1, 1]))
    last = b"\0\x7f\xff\xff\xff"
    assert found.to_pylist() == [b"\0\0\0\0\x07a", None, last, last + b"bc"]
