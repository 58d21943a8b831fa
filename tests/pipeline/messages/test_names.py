"""Exported names: each message has one of its own, and what has none fails nothing."""

from pipeline.messages.journal import SegmentSealed
from pipeline.messages.names import MESSAGE_NAMES, UNNAMED, name_of
from pipeline.messages.topology import EDGES


def test_each_message_that_crosses_has_a_name() -> None:
    assert MESSAGE_NAMES.keys() == {message for edge in EDGES for message in edge.messages}


def test_names_are_unique() -> None:
    assert len(set(MESSAGE_NAMES.values())) == len(MESSAGE_NAMES)
    assert UNNAMED not in MESSAGE_NAMES.values()


def test_a_message_is_named_by_its_type() -> None:
    assert name_of(SegmentSealed(7)) == "SegmentSealed"
    assert name_of("no message") == UNNAMED
