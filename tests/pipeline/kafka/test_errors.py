"""Kafka's errors: which of them need a hand, and which one."""

import builtins
import ssl

import pytest
from aiokafka import errors as kafka

from pipeline.kafka import errors
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, classed


@pytest.mark.parametrize("name", errors._DEFINITE)
def test_a_definite_error_has_a_remedy(name: str) -> None:
    error = classed(name, "whatever", "p.shop.orders")
    assert isinstance(error, KafkaRefused)
    wrong, _, remedy = str(error).partition("; ")
    assert wrong.startswith("p.shop.orders: ") and name in wrong and remedy


@pytest.mark.parametrize("name", [*errors._DEFINITE, *errors._TRANSIENT])
def test_the_client_or_its_tls_has_errors_of_that_name(name: str) -> None:
    found = getattr(kafka, name, None) or getattr(ssl, name, None) or getattr(builtins, name)
    assert issubclass(found, Exception)


@pytest.mark.parametrize("name", ["RequestTimedOutError", "ConcurrentTransactions"])
def test_any_other_error_is_transient_and_keeps_its_words(name: str) -> None:
    error = classed(name, "the words")
    assert isinstance(error, KafkaUnavailable)
    assert str(error) == f"the words ({name})"


def test_a_lack_of_replicas_says_what_to_do() -> None:
    error = classed("NotEnoughReplicasError", "", "p.shop.orders")
    assert isinstance(error, KafkaUnavailable)
    assert "start the brokers that are down" in str(error)


def test_a_topic_that_was_removed_is_created_again() -> None:
    assert "created again" in str(classed("UnknownTopicOrPartitionError", ""))
