"""The names of topics, as Debezium's default strategy and ByLogicalTableRouter make them.

A character that no topic's name may have becomes `_`. Two tables whose names differ only in such characters share a
topic, as with Debezium.

Source: Debezium 3.6, `AbstractTopicNamingStrategy.sanitizedTopicName` and `ByLogicalTableRouter`; Apache Kafka,
`Topic.validate` and `RegexRouter`.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.config.message_routes import TopicRoute, rewritten
from pipeline.schema.table_schema import TableId

_UNFIT = re.compile(r"[^a-zA-Z0-9._-]")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a table's messages go. `schemas`: the beginning of the names of their schemas.

    `routed`: whether a route applies. `key_field`: a field that each key has in addition to its own, by its name, and
    its value.
    """

    topic: str
    schemas: str
    key_field: tuple[str, str] | None = None
    routed: bool = False


def topic_of(table: TableId, prefix: str, delimiter: str) -> str:
    """Returns the topic of a table's messages."""
    return fit_topic(delimiter.join((prefix, table.database, table.name)))


def fit_topic(name: str) -> str:
    """Returns the name without characters that no topic's name may have."""
    return _UNFIT.sub("_", name)


def topic_of_heartbeats(heartbeat_prefix: str, prefix: str) -> str:
    """Returns the topic of heartbeats."""
    return f"{heartbeat_prefix}.{prefix}"


@dataclass(frozen=True, slots=True)
class Routing:
    """The settings that decide which tables a topic has: prefix, delimiter and routes."""

    prefix: str = ""
    delimiter: str = "."
    routes: tuple[TopicRoute, ...] = ()

    @property
    def digest(self) -> str:
        """Returns what differs if a table may have another topic (`destination_of`)."""
        routes = ((route.topic_regex, route.topic_replacement) for route in self.routes)
        text = json.dumps([self.prefix, self.delimiter, *routes])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def topic(self, table: TableId) -> str:
        """Returns the topic of a table's messages."""
        return destination_of(table, self.prefix, self.delimiter, self.routes).topic


def destination_of(table: TableId, prefix: str, delimiter: str, routes: Iterable[TopicRoute]) -> Destination:
    """Returns where a table's messages go, by the first route that matches its topic, if any."""
    topic = topic_of(table, prefix, delimiter)
    for route in routes:
        routed = rewritten(topic, route.topic_regex, route.topic_replacement)
        if routed:
            if not route.key_enforce_uniqueness:
                return Destination(routed, routed, routed=True)
            told = route.key_field_regex and rewritten(
                topic, route.key_field_regex, route.key_field_replacement
            )
            return Destination(routed, routed, (route.key_field_name, told or topic), routed=True)
    return Destination(topic, f"{prefix}.{table.dotted}")
