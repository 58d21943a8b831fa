"""The names of topics, as Debezium's default strategy makes them.

A character that no topic's name may have becomes `_`. Two tables whose names differ in such characters alone share a
topic, as with Debezium.

Source: Debezium 3.6, `AbstractTopicNamingStrategy.sanitizedTopicName`; Apache Kafka, `Topic.validate`.
"""

import re

from pipeline.schema.table_schema import TableId

_UNFIT = re.compile(r"[^a-zA-Z0-9._-]")


def topic_of(table: TableId, prefix: str, delimiter: str) -> str:
    """The topic of a table's messages."""
    return _UNFIT.sub("_", delimiter.join((prefix, table.database, table.name)))
