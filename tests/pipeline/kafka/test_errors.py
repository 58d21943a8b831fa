"""Kafka's errors: which of them need a hand, and which one."""

import builtins
import ssl

import pytest
from aiokafka import errors as kafka

import actors.kafka.broker_answers  # noqa: F401 - it teaches aiokafka more errors
from pipeline.kafka import errors
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal, classed


@pytest.mark.parametrize("name", errors._DEFINITE)
def test_a_definite_error_has_a_remedy(name: str) -> None:
    error = classed(name, "whatever", "p.shop.orders")
    assert isinstance(error, KafkaRefused)
    wrong, _, remedy = str(error).partition("; ")
    assert wrong.startswith("p.shop.orders: ") and name in wrong and remedy


@pytest.mark.parametrize("name", [*errors._DEFINITE, *errors._TRANSIENT, *sorted(errors._OF_PRODUCER)])
def test_the_client_or_its_tls_has_errors_of_that_name(name: str) -> None:
    answers = {each.__name__: each for each in kafka.kafka_errors.values()}
    found = answers.get(name) or getattr(kafka, name, None) or getattr(ssl, name, None)
    assert issubclass(found or getattr(builtins, name), Exception)


@pytest.mark.parametrize("name", ["InvalidRequestError", "UnknownError", "PositionOutOfRangeError"])
def test_a_final_answer_that_is_not_listed_is_the_refusal_of_its_topic(name: str) -> None:
    error = classed(name, "the words", "p.shop.orders", final=True)
    assert isinstance(error, TopicRefusal) and error.topic == "p.shop.orders"
    assert f"{name}: the words" in error.reason and "kafka.tables" in error.reason
    assert not isinstance(classed(name, "the words", "p.shop.orders"), TopicRefusal)
    assert not isinstance(classed(name, "the words", final=True), TopicRefusal)


@pytest.mark.parametrize("name", sorted(errors._OF_PRODUCER))
def test_an_answer_about_the_producer_is_no_topics_refusal(name: str) -> None:
    assert not isinstance(classed(name, "", "p.shop.orders", final=True), TopicRefusal)


@pytest.mark.parametrize("name", ["RequestTimedOutError", "ConcurrentTransactions"])
def test_any_other_error_is_transient_and_keeps_its_words(name: str) -> None:
    error = classed(name, "the words")
    assert isinstance(error, KafkaUnavailable)
    assert str(error) == f"the words ({name})"


@pytest.mark.parametrize(
    ("topics", "named"), [("ab", "a, b"), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")]
)
def test_an_error_about_several_topics_names_the_first_and_is_the_refusal_of_none(
    topics: str, named: str
) -> None:
    late, refused = (
        classed("TimeoutError", "", *topics),
        classed("InvalidRecordError", "", *topics, final=True),
    )
    assert str(late).startswith(f"{named}: the brokers took too long")
    assert not isinstance(refused, TopicRefusal) and str(refused).startswith(f"{named}: the topic takes")


def test_a_lack_of_replicas_says_what_to_do() -> None:
    error = classed("NotEnoughReplicasError", "", "p.shop.orders")
    assert isinstance(error, KafkaUnavailable)
    assert "start the brokers that are down" in str(error)


def test_a_topic_that_was_removed_is_created_again() -> None:
    assert "created again" in str(classed("UnknownTopicOrPartitionError", ""))
