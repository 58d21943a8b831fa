"""Errors in making messages are refusals of one topic, but for those that aren't about messages."""

import pytest

from actors.kafka.refusals import refused_as_messages, refused_as_rows
from pipeline.errors import InvariantBroken, UndecodableError
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TableRefusal, TopicRefusal
from pipeline.schema.table_schema import TableId

TABLE = TableId("shop", "t")


@pytest.mark.parametrize("error", [InvariantBroken("i"), KafkaUnavailable("u")])
def test_what_is_not_about_messages_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), refused_as_rows("p.shop.t", TABLE):
        raise error
    with pytest.raises(type(error)), refused_as_messages("p.shop.t"):
        raise error


def test_a_refusal_in_words_keeps_them() -> None:
    with pytest.raises(TableRefusal, match=r"^p\.shop\.t: see to it$"), refused_as_rows("p.shop.t", TABLE):
        raise KafkaRefused("see to it")
    with pytest.raises(TableRefusal, match=r"^p\.shop\.t: a row lacks"), refused_as_rows("another", TABLE):
        raise TableRefusal("p.shop.t", "a row lacks")
    # The registry's refusal of a login is one of all topics.
    with pytest.raises(KafkaRefused, match=r"^no login$") as refusal, refused_as_messages("p.shop.t"):
        raise KafkaRefused("no login")
    assert not isinstance(refusal.value, TopicRefusal)


def test_other_definite_errors_are_the_topics() -> None:
    with (
        pytest.raises(TopicRefusal, match=r"p\.shop\.t: a message can't be made"),
        refused_as_messages("p.shop.t"),
    ):
        raise UndecodableError("u")
