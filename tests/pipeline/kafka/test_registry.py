"""What a schema registry's refusals mean."""

import pytest

from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal
from pipeline.kafka.registry import registry_failure, schema_failure


@pytest.mark.parametrize("status", [400, 403, 409, 413, 422])
def test_a_schema_that_is_refused_is_its_topics_trouble(status: int) -> None:
    error = schema_failure(status, "no", "p.shop.t", "p.shop.t-value", registering=True)
    assert isinstance(error, TopicRefusal) and error.topic == "p.shop.t"
    assert "p.shop.t-value" in error.reason and "no" in error.reason and "; " in error.reason


def test_a_schema_that_is_not_there_is_its_topics_trouble_if_it_is_not_registered() -> None:
    lacking = schema_failure(404, "", "t", "t-key", registering=False)
    assert isinstance(lacking, TopicRefusal) and "auto_register_schemas" in lacking.reason
    assert not isinstance(schema_failure(404, "", "t", "t-key", registering=True), TopicRefusal)


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_what_needs_a_hand_is_definite(status: int) -> None:
    error = registry_failure(status, "no")
    assert isinstance(error, KafkaRefused) and "kafka.schema_registry" in str(error)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_transient(status: int) -> None:
    assert isinstance(schema_failure(status, "", "t", "t-key", registering=True), KafkaUnavailable)
