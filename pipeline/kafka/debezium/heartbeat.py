"""Debezium's heartbeat: the message that shows that the stream is alive when no other message does.

Source: Debezium 3.6, `heartbeat.interval.ms`.
"""

from typing import Final

from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, field, struct
from pipeline.kafka.debezium.message_format import Block, MessageFormat, MessagePairs, told_pairs

_KEY_SCHEMA: Final = struct(
    [field(CONNECT_STRING, "serverName")],
    name="io.debezium.connector.common.ServerNameKey",
    version=1,
)
_VALUE_SCHEMA: Final = struct(
    [field(LONG, "ts_ms")],
    name="io.debezium.connector.common.Heartbeat",
    version=1,
)


def heartbeat(prefix: str, sent_us: int, of: MessageFormat) -> MessagePairs:
    """Returns a heartbeat of the time `sent_us` (µs since the epoch)."""
    key, value = Block({"serverName": prefix}), Block({"ts_ms": sent_us // 1000})
    return told_pairs(of, key, value, (_KEY_SCHEMA, _VALUE_SCHEMA), 1)
