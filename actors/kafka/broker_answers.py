"""The answers of a broker as aiokafka's errors, with those that aiokafka doesn't know.

aiokafka makes one and the same error of all numbers that it doesn't know. So a topic that takes no message without a
key looks like a broker that failed. This module teaches it the numbers that an answer to a producer may have.

Source: Apache Kafka, "Protocol: Error Codes".
"""

from collections.abc import Mapping
from typing import Final

from aiokafka.errors import BrokerResponseError, kafka_errors

# Names as aiokafka would give them, and whether the same request may succeed later.
_UNKNOWN_TO_AIOKAFKA: Final[Mapping[int, tuple[str, bool]]] = {
    74: ("FencedLeaderEpochError", True),
    75: ("UnknownLeaderEpochError", True),
    76: ("UnsupportedCompressionTypeError", False),
    87: ("InvalidRecordError", False),
    89: ("ThrottlingQuotaExceededError", True),
    90: ("ProducerFencedError", False),
    120: ("TransactionAbortableError", False),
}

for _number, (_name, _retriable) in _UNKNOWN_TO_AIOKAFKA.items():
    _attributes = {"errno": _number, "retriable": _retriable, "invalid_metadata": _retriable}
    kafka_errors.setdefault(_number, type(_name, (BrokerResponseError,), _attributes))


def is_final(error: BaseException) -> bool:
    """Returns whether it is a broker's answer, and the same request would get the same answer."""
    return isinstance(error, BrokerResponseError) and not error.retriable
