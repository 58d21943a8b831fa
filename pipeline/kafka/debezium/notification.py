"""Notifications of snapshots and verifications, as the messages that Debezium's sink channel sends.

Source: Debezium 3.6, "Receiving Debezium notifications"; `SinkNotificationChannel` and `SchemaFactory`.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, Schema, field, struct
from pipeline.kafka.debezium.message_format import Block, BlockList, MessageFormat, MessagePairs, told_pairs
from pipeline.signals.notifications import Notification

_DATA: Final[Schema] = {"type": "map", "keys": CONNECT_STRING, "values": CONNECT_STRING, "optional": True}
_KEY_SCHEMA: Final = struct(
    [field(CONNECT_STRING, "id")], name="io.debezium.connector.common.NotificationKey", version=1
)
_VALUE_SCHEMA: Final = struct(
    [
        field(CONNECT_STRING, "id"),
        field(CONNECT_STRING, "type"),
        field(CONNECT_STRING, "aggregate_type"),
        field(_DATA, "additional_data"),
        field(LONG, "timestamp"),
    ],
    name="io.debezium.connector.common.Notification",
    version=1,
)


def notification_messages(
    notifications: Sequence[Notification], prefix: str, at_ms: int, of: MessageFormat
) -> MessagePairs:
    """Returns the messages of these notifications at this time (ms since the epoch), for this topics' `prefix`."""
    told = [{"connector_name": prefix, **notification.data} for notification in notifications]
    names = pa.array([name for data in told for name in data], pa.string())
    texts = pa.array([text for data in told for text in data.values()], pa.string())
    ends = np.concatenate([[0], np.cumsum([len(data) for data in told])]).astype(np.int32)
    data = BlockList(Block({"key": names, "value": texts}), ends, np.ones(len(told), np.bool_))
    ids = pa.array([notification.id for notification in notifications], pa.string())
    value = {
        "id": ids,
        "type": pa.array([notification.type.value for notification in notifications], pa.string()),
        "aggregate_type": pa.array([notification.about for notification in notifications], pa.string()),
        "additional_data": data,
        "timestamp": at_ms,
    }
    return told_pairs(of, Block({"id": ids}), Block(value), (_KEY_SCHEMA, _VALUE_SCHEMA), len(notifications))
