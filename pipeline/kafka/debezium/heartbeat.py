"""Debezium's heartbeat: the message that says that the stream is alive where nothing else does.

Source: Debezium 3.6, `heartbeat.interval.ms`.
"""

from typing import Final

import pyarrow as pa

from pipeline.kafka.debezium.connect_schema import LONG, TEXT, field, struct
from pipeline.kafka.debezium.json_values import json_text, with_schema

_KEY_SCHEMA: Final = struct(
    [field(TEXT, "serverName")],
    name="io.debezium.connector.common.ServerNameKey",
    version=1,
)
_VALUE_SCHEMA: Final = struct(
    [field(LONG, "ts_ms")],
    name="io.debezium.connector.common.Heartbeat",
    version=1,
)


def heartbeat(prefix: str, sent_us: int, *, schemas: bool = False) -> tuple[str, str]:
    """The key and the value of a heartbeat sent at `sent_us` (µs since the epoch)."""
    key = pa.array([f'{{"serverName":{json_text(prefix)}}}'])
    value = pa.array([f'{{"ts_ms":{sent_us // 1000}}}'])
    if schemas:
        key, value = with_schema(key, _KEY_SCHEMA), with_schema(value, _VALUE_SCHEMA)
    return key[0].as_py(), value[0].as_py()
