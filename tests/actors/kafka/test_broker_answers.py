"""A broker's answers by their numbers, and which of them are final."""

import pytest
from aiokafka.errors import KafkaConnectionError, NotEnoughReplicasError, UnknownError, for_code

from actors.kafka.broker_answers import is_final


@pytest.mark.parametrize(
    ("number", "name", "final"),
    [
        (19, "NotEnoughReplicasError", False),
        (32, "InvalidTimestampError", True),
        (74, "FencedLeaderEpochError", False),
        (76, "UnsupportedCompressionTypeError", True),
        (87, "InvalidRecordError", True),
        (89, "ThrottlingQuotaExceededError", False),
        (90, "ProducerFencedError", True),
        (120, "TransactionAbortableError", True),
    ],
)
def test_a_broker_answers_with_a_number(number: int, name: str, final: bool) -> None:
    error = for_code(number)
    assert error.__name__ == name and is_final(error()) is final


def test_only_an_answer_is_final() -> None:
    assert is_final(UnknownError()) and for_code(30_000) is UnknownError
    assert not is_final(KafkaConnectionError()) and not is_final(TimeoutError())
    assert not is_final(NotEnoughReplicasError())
