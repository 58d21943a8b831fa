"""What is begun beside the batches, as far as that needs no Spark."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.background import Background
from actors.metrics import Metrics
from pipeline.checkpoint import Ready
from pipeline.delivery import Delivered
from pipeline.schema import Column, TableId, TableSchema
from pipeline.settings import LakeSettings
from pipeline.types import Integer

ORDERS = TableSchema(TableId("shop", "orders"), (Column("id", Integer(4, unsigned=False), False),), (0,))


def nothing_is_called(function: Callable[..., Any], *_: Any, **__: Any) -> Awaitable[Any]:
    raise AssertionError(f"{function} is called")


@pytest.mark.parametrize(
    ("delivered", "due"),
    [
        (Delivered(ORDERS, generation=0, pending=5), True),
        (Delivered(ORDERS, generation=0), False),
        (Delivered(ORDERS, pending=5), False),  # by its rule it has a changelog alone, or its mirror waits
        (Delivered(ORDERS, generation=0, pending=5, stopped="so"), False),
    ],
)
def test_a_mirror_is_merged_if_there_is_one(delivered: Delivered, *, due: bool) -> None:
    lake: Any = None
    background = Background(LakeSettings("lake", merge_rows=1), Metrics(), lake, nothing_is_called)
    background.found(ORDERS.table, delivered, {})
    assert (background.time_left({ORDERS.table: Ready(0)}) is not None) is due
