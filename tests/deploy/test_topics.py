"""The demo's verdict on topics must be able to say no."""

import json
from typing import Any

import pyarrow as pa
import pytest
from aiokafka import ConsumerRecord

from deploy.demo.topics import Topic

Message = tuple[str, int, int, int, bool]

# op, id, version, op_no, whether it came from another key
GOOD: list[Message] = [
    ("c", 1, 1, 4, False),
    ("r", 2, 1, 0, False),
    ("u", 1, 2, 8, False),
    ("r", 1, 2, 8, False),
    ("d", 2, 1, 0, False),
    ("c", 3, 1, 12, True),
]
TALLY = [("t", "c", "1", 1, 4), ("t", "u", "1", 2, 8), ("t", "d", "2", 1, 0), ("t", "u", "3", 1, 12)]
ROWS = [(1, 2, 8), (3, 1, 12)]


def record(message: Message) -> ConsumerRecord[bytes, bytes]:
    """A message as a consumer gets it."""
    op, id_, version, number, moved = message
    row = {"id": id_, "version": version, "op_no": number}
    value: dict[str, Any] = {
        "op": op,
        "before": row if op in "ud" else None,
        "after": None if op == "d" else row,
    }
    headers = (("__debezium.oldkey", b"{}"),) if moved else ()
    text = json.dumps(value).encode()
    return ConsumerRecord("demo.shop.t", 0, 0, 0, 0, b"k", text, None, 1, len(text), headers)


def verdict(
    messages: list[Message], rows: list[tuple[int, int, int]] = ROWS, reread: tuple[str, ...] = ()
) -> list[str]:
    """What is wrong with a topic of these messages, of which a repair may have read these keys again."""
    topic = Topic("demo.shop.t", ("id",), reread)
    for message in messages:
        topic.take(record(message))
    names = ("table", "op", "key", "version", "op_no")
    tally = pa.table(dict(zip(names, map(list, zip(*TALLY, strict=True)), strict=True)))
    columns = [[str(value).encode() for value in column] for column in zip(*rows, strict=True)]
    return topic.untrue(tally, pa.table(dict(zip(("id", "version", "op_no"), columns, strict=True))))


def test_what_is_right_is_right() -> None:
    assert verdict(GOOD) == []


def test_a_repair_may_read_a_row_again() -> None:
    again = [GOOD[0], GOOD[1], GOOD[1], *GOOD[2:]]
    assert verdict(again, reread=(str(GOOD[1][1]),)) == []
    assert any("is read as" in fault for fault in verdict(again, reread=("no other",)))
    older = [*GOOD[:3], ("r", 1, 1, 4, False), *GOOD[4:]]
    assert any("is read as" in fault for fault in verdict(older, reread=("1",)))


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (GOOD[1:], "is missing"),
        ([*GOOD[:3], GOOD[2], *GOOD[3:]], "is too much"),
        ([GOOD[2], GOOD[0], *GOOD[3:]], "goes back in time"),
        ([GOOD[0], GOOD[1], GOOD[1], *GOOD[2:]], "is read as"),
        ([*GOOD[:3], ("r", 1, 1, 4, False), *GOOD[4:]], "is read as"),
        ([*GOOD, ("r", 9, 1, 0, False)], "at the end"),
    ],
)
def test_what_is_wrong_is_found(messages: list[Message], told: str) -> None:
    assert any(told in fault for fault in verdict(messages))


def test_a_row_that_never_came_is_found() -> None:
    assert any("at the end" in fault for fault in verdict(GOOD, [*ROWS, (7, 1, 0)]))
