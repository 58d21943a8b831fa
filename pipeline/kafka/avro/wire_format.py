"""Confluent's wire format: a message in Avro begins with a zero and the id of its schema in the registry."""

import struct
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pipeline.kafka.avro.avro_values import BYTES
from pipeline.kafka.debezium.text_rows import Chosen, joined
from pipeline.types.buffers import Longs

_HEAD: Final = struct.Struct(">bi")
_MAGIC: Final = 0


def framed(messages: pa.Array, ids: Sequence[int], which: Longs) -> pa.Array:
    """Returns the messages with their heads; `which` has the number of each one's schema id in `ids`. Nulls stay."""
    heads = pa.array([_HEAD.pack(_MAGIC, each) for each in ids], BYTES)
    return joined(Chosen(heads, which), messages, count=len(messages), kind=BYTES)
