"""The text of a position."""

import pytest

from pipeline.errors import Definite
from pipeline.kafka.state import KafkaPosition, position_from_json, position_to_json


def test_a_position_is_read_as_it_was_written() -> None:
    position = KafkaPosition(3, 4, 5)
    assert position_from_json(position_to_json(position)) == position


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"segment": 1, "scn": null, "rows": 0}'])
def test_any_other_text_is_refused(text: bytes) -> None:
    with pytest.raises(Definite, match=r"kafka\.position_topic"):
        position_from_json(text)
