"""Subscriptions name sources, and a checkpoint of several partitions has the journal's."""

import json

import pytest

from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus.subscriptions import parse_partition_checkpoint, parse_subscriptions

# As Databus writes one.
WHOLE = {
    "physicalSource": {"uri": "databus:physical-source:ANY", "role": "ANY"},
    "physicalPartition": {"id": -1, "name": "*"},
    "logicalPartition": {"source": {"id": 7, "name": "shop.orders"}, "id": -1},
}
NAMED = {"physicalPartition": {"id": 0}, "logicalPartition": {"source": {"name": "shop.items"}, "id": 0}}
PLACE = '{"windowScn": 345, "windowOffset": -1}'
HERE = '{"id":0,"name":"shop"}'


def test_a_subscription_names_a_source_by_number_or_name() -> None:
    assert parse_subscriptions(json.dumps([WHOLE, NAMED])) == ("7", "shop.items")


@pytest.mark.parametrize("every", [{}, {"logicalPartition": {"source": {"id": -1, "name": "*"}}}])
def test_a_subscription_without_a_source_is_of_all(every: object) -> None:
    assert parse_subscriptions(json.dumps([WHOLE, every])) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "subs: it isn't JSON"),
        ("[" * 4000, "subs: it isn't JSON"),
        ("[]", "subs: it is no list of subscriptions; give"),
        ("{}", "subs: it is no list of subscriptions"),
        ('[{"physicalPartition": {"id": 3}}]', 'physicalPartition is {"id": 3}, and the journal is the partition 0'),
        ('[{"physicalPartition": 0}]', "physicalPartition is 0, and no object"),
        ('[{"logicalPartition": {"id": 2}}]', 'logicalPartition is {"id": 2}, and the journal is'),
        ('[{"logicalPartition": {"source": {"id": "7"}}}]', 'source is {"id": "7"}, without a number or a name'),
    ],
)  # fmt: skip
def test_a_wrong_subscription_is_named(text: str, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_subscriptions(text)


@pytest.mark.parametrize("partition", [HERE, '{"id":-1,"name":"*"}', "{}"])
def test_the_journals_checkpoint_is_found(partition: str) -> None:
    told = {"cursorPartition": '{"id":3}', partition: PLACE, "hint": "x"}
    assert parse_partition_checkpoint(json.dumps(told)) == PLACE
    assert json.loads(parse_partition_checkpoint(json.dumps({partition: json.loads(PLACE)}))) == json.loads(
        PLACE
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "checkPointMult: it isn't JSON"),
        ("[]", "checkPointMult: it is no object; give"),
        ("{}", "checkPointMult: it has 0 partitions, and the journal is one"),
        (json.dumps({HERE: PLACE, "{}": PLACE}), "checkPointMult: it has 2 partitions"),
        (
            json.dumps({'{"id":3}': PLACE}),
            r"the partition is {\"id\": 3}, and the journal is the partition 0",
        ),
        (json.dumps({"{": PLACE}), "checkPointMult: it isn't JSON"),
    ],
)
def test_a_wrong_checkpoint_is_named(text: str, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_partition_checkpoint(text)
