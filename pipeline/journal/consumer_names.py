"""The names of the journal's consumers, under which it keeps their progress."""

from typing import Final

# The SparkSink's and the KafkaSink's.
LAKE_CONSUMER: Final = "lake"
KAFKA_CONSUMER: Final = "kafka"

SERVICE_CONSUMERS: Final = frozenset({LAKE_CONSUMER, KAFKA_CONSUMER})

# The journal's folder that has a file of each.
CONSUMERS: Final = "consumers"
