"""Which kind of error each of Kafka's errors is, by its name, and its remedy.

An error that a new connection may fix is transient. An error that only a person can fix is definite: the KafkaSink
keeps its position, retries now and then, and loses nothing meanwhile.

A broker's final answer about a topic is that topic's refusal, also if it isn't listed here. Otherwise one topic's
unlisted error would hold up all topics. Errors of the producer itself are the exception (`_OF_PRODUCER`).

Source: Apache Kafka, "Protocol: Error Codes".
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pipeline.errors import Definite, Transient


class KafkaUnavailable(Transient):
    """Kafka fails for now."""


class BatchTooLarge(KafkaUnavailable):
    """A topic takes no batch of so many `bytes`, which has several messages. It may take them in smaller ones."""

    def __init__(self, topic: str, size: int, reason: str) -> None:
        super().__init__(f"{topic}: it takes no batch of {size} bytes ({reason})")
        self.topic = topic
        self.bytes = size


class KafkaRefused(Definite):
    """Kafka refuses what the sink sends. The text has the remedy. The sink keeps its position until then."""


class TopicRefusal(KafkaRefused):
    """One topic refuses what the sink sends. The text has the remedy. The other topics continue."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"{topic}: {reason}")
        self.topic = topic
        self.reason = reason


class TableRefusal(TopicRefusal):
    """Rows of a table make no messages. `topic` is the table's own, wherever the messages would go."""


_LOGIN = (
    "the broker doesn't let us in",
    "see to kafka.sasl_username, kafka.sasl_password_file and kafka.sasl_mechanism",
)
_FENCED = (
    "another process sends with our transactional id",
    "end it, or give one of the two pipelines another name",
)
_TOPIC_FORM = ("the broker doesn't create the topic so", "see to kafka.partitions and kafka.replication")

# By the error's name: what is wrong, and the remedy.
_DEFINITE: Final[Mapping[str, tuple[str, str]]] = {
    "MessageSizeTooLargeError": (
        "a message is larger than its topic takes",
        "raise max.message.bytes of the topic, or leave the table out with kafka.tables",
    ),
    "RecordListTooLargeError": (
        "a batch of messages is larger than its topic's segments",
        "lower kafka.batch_bytes, or raise segment.bytes of the topic",
    ),
    "InvalidRecordError": (
        "the topic takes no such message, as a compacted topic takes none without a key",
        (
            "give the table a key with kafka.message_keys, leave out truncates with "
            'kafka.skipped_operations = ["t"], or set cleanup.policy = delete of the topic'
        ),
    ),
    "InvalidTimestampError": (
        "a message's time is too far from the broker's clock",
        (
            "raise message.timestamp.after.max.ms or message.timestamp.before.max.ms of the topic, or see to "
            "kafka.outboxes.table_field_event_timestamp"
        ),
    ),
    "UnsupportedCompressionTypeError": (
        "the topic doesn't take messages that are compressed so",
        "see to kafka.compression_type",
    ),
    "TopicAuthorizationFailedError": (
        "the account may not write to a topic",
        "allow it to Write, Describe and Create topics of the prefix and the position topic, and to Read that one",
    ),
    "ClusterAuthorizationFailedError": (
        "the account may not create topics",
        "allow it to Create them, or create them and set kafka.create_topics = false",
    ),
    "TransactionalIdAuthorizationFailed": (
        "the account may not use our transactional id",
        "allow it to Write and Describe the transactional id tidemark-NAME, where NAME is the pipeline's",
    ),
    "ProducerFenced": _FENCED,
    "ProducerFencedError": _FENCED,
    "InvalidTopicError": (
        "a table's name makes no topic's name",
        "leave the table out with kafka.tables; once that has started, add a route, take it in and request a snapshot",
    ),
    "InvalidTransactionTimeout": (
        "the broker doesn't keep a transaction open for so long",
        "lower kafka.transaction_timeout_s, or raise transaction.max.timeout.ms of the brokers",
    ),
    "InvalidReplicationFactorError": _TOPIC_FORM,
    "InvalidPartitionsError": _TOPIC_FORM,
    "InvalidConfigurationError": ("the broker refuses a topic's setting", "see to kafka.topic_config"),
    "PolicyViolationError": (
        "the broker's policy refuses the topic",
        "see to kafka.topic_config, kafka.partitions and kafka.replication",
    ),
    "SaslAuthenticationFailed": _LOGIN,
    "AuthenticationFailedError": _LOGIN,
    "UnsupportedSaslMechanismError": _LOGIN,
    "IllegalSaslStateError": _LOGIN,
    "SSLCertVerificationError": (
        "the broker's certificate isn't to be trusted",
        "name the file of its authority's certificate in kafka.ca",
    ),
    "IncompatibleBrokerVersion": (
        "the broker is too old for transactions",
        "update it to Kafka 2.5 or newer",
    ),
}

# Those that are about a single topic.
_OF_TOPIC: Final = frozenset(
    {
        "MessageSizeTooLargeError",
        "RecordListTooLargeError",
        "InvalidRecordError",
        "InvalidTimestampError",
        "UnsupportedCompressionTypeError",
        "TopicAuthorizationFailedError",
        "InvalidTopicError",
        "InvalidReplicationFactorError",
        "InvalidPartitionsError",
        "InvalidConfigurationError",
        "PolicyViolationError",
    }
)

# Final answers that aren't about a single topic: about the producer, its transaction, the account or the broker.
_OF_PRODUCER: Final = frozenset(
    {
        "OutOfOrderSequenceNumber",
        "DuplicateSequenceNumber",
        "InvalidProducerEpoch",
        "InvalidProducerIdMapping",
        "InvalidTxnState",
        "InvalidTransactionTimeout",
        "ConcurrentTransactions",
        "TransactionCoordinatorFenced",
        "TransactionAbortableError",
        "TransactionalIdAuthorizationFailed",
        "ProducerFencedError",
        "UnknownProducerId",
        "OperationNotAttempted",
        "ClusterAuthorizationFailedError",
        "SaslAuthenticationFailed",
        "UnsupportedSaslMechanismError",
        "IllegalSaslStateError",
        "SecurityDisabled",
        "UnsupportedVersionError",
        # aiokafka calls these final, and Kafka doesn't: bytes that were damaged on their way, and a broker that starts.
        "CorruptRecordException",
        "BrokerNotAvailableError",
        "ReplicaNotAvailableError",
        "StaleControllerEpochError",
        "StaleLeaderEpochCodeError",
        "ReassignmentInProgress",
    }
)

_FEW_REPLICAS: Final = (
    "too few of a topic's replicas are in sync; start the brokers that are down, or lower min.insync.replicas"
)
_ANOTHER_LEADER: Final = "another broker leads the partition now"
_ANOTHER_COORDINATOR: Final = "another broker coordinates our transactions now"

_TRANSIENT: Final[Mapping[str, str]] = {
    "NotEnoughReplicasError": _FEW_REPLICAS,
    "NotEnoughReplicasAfterAppendError": _FEW_REPLICAS,
    "NotLeaderForPartitionError": _ANOTHER_LEADER,
    "LeaderNotAvailableError": "the partition has no leader yet; start the brokers that are down",
    "NotCoordinatorForGroupError": _ANOTHER_COORDINATOR,
    "GroupCoordinatorNotAvailableError": _ANOTHER_COORDINATOR,
    "KafkaConnectionError": "no broker answers; start them, or see to kafka.bootstrap_servers",
    "TimeoutError": "the brokers took too long; one may be down, or too few replicas are in sync",
    "UnknownTopicOrPartitionError": "a topic was removed; it's created again unless kafka.create_topics says no",
}


# As many topics as a text names of those that it concerns.
_NAMED: Final = 3


def classed(name: str, told: str, *topics: str, final: bool = False) -> KafkaUnavailable | KafkaRefused:
    """Returns our error for one of Kafka's, from its class' name, its words and the topics that it may concern.

    `final`: it is a broker's answer, and the same request gets the same answer.
    """
    about = f"{_some_of(topics)}: " if topics else ""
    topic = topics[0] if len(topics) == 1 else None
    if (known := _DEFINITE.get(name)) is not None:
        wrong, remedy = known
        if topic is not None and name in _OF_TOPIC:
            return TopicRefusal(topic, f"{wrong} ({name}); {remedy}")
        return KafkaRefused(f"{about}{wrong} ({name}); {remedy}")
    if final and topic is not None and name not in _OF_PRODUCER:
        return TopicRefusal(
            topic,
            f"the broker refuses the topic's messages ({name}: {told or 'it gives no reason'}); see to the broker's "
            "log and to the topic's settings, or leave the table out with kafka.tables",
        )
    return KafkaUnavailable(f"{about}{_TRANSIENT.get(name, told or 'Kafka failed')} ({name})")


def _some_of(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"{', '.join(topics[:_NAMED])}{more}"
