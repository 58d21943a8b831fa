"""What is begun beside the batches, as far as that needs no Spark."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.lake.background_work import Background
from actors.lake.delta_table import Conflict
from actors.lake.maintenance import Upkeep
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.config.settings import LakeSettings
from pipeline.lake import maintenance
from pipeline.lake.batch import LakeTableState, Pieces
from pipeline.lake.maintenance import TableSize
from pipeline.lake.tables import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types.column_types import Integer

ORDERS = TableSchema(TableId("shop", "orders"), (Column("id", Integer(4, unsigned=False), False),), (0,))


def nothing_is_called(function: Callable[..., Any], *_: Any, **__: Any) -> Awaitable[Any]:
    raise AssertionError(f"{function} is called")


@pytest.mark.parametrize(
    ("delivered", "due"),
    [
        (LakeTableState(ORDERS, generation=0, pending=5), True),
        (LakeTableState(ORDERS, generation=0), False),
        (
            LakeTableState(ORDERS, pending=5),
            False,
        ),  # by its rule it has a changelog alone, or its mirror waits
        (LakeTableState(ORDERS, generation=0, pending=5, stopped="so"), False),
    ],
)
def test_a_mirror_is_merged_if_there_is_one(delivered: LakeTableState, *, due: bool) -> None:
    lake: Any = None
    background = Background(LakeSettings("lake", merge_rows=1), Metrics(), lake, nothing_is_called)
    background.found(ORDERS.table, delivered, {})
    assert (background.time_left({ORDERS.table: Ready(0)}) is not None) is due


def test_a_first_mirror_is_shown_when_its_rows_are_there() -> None:
    """Its generation begins after the SCN 0, as if there were none."""
    lake: Any = None
    background = Background(LakeSettings("lake"), Metrics(), lake, nothing_is_called)
    background.found(ORDERS.table, LakeTableState(), {})
    background.delivered(ORDERS.table, LakeTableState(ORDERS, generation=0, rebuilding=7.0), Pieces())
    assert background.status(ORDERS.table)["rebuilding_since"] == 7.0
    assert background.time_left({ORDERS.table: Filling(0)}) != 0
    assert background.time_left({ORDERS.table: Ready(0)}) == 0


async def test_what_was_given_up_rests_and_the_rest_keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise work that fails again and again would keep all other work of its table waiting."""
    for every in ("TRIM_EVERY_S", "VACUUM_EVERY_S", "VACUUM_FIRST_S"):
        monkeypatch.setattr(maintenance, every, -1.0)
    done: list[str] = []

    async def run(function: Callable[..., Any], *_: Any, **__: Any) -> Any:
        done.append(function.__name__)
        if function.__name__ == "trim":
            raise Conflict("somebody else")
        return TableSize()

    lake: Any = SimpleNamespace(upkeep=Upkeep)
    background = Background(LakeSettings("lake"), Metrics(), lake, run)
    background.found(ORDERS.table, LakeTableState(ORDERS, generation=0), {Tier.CHANGELOG: TableSize()})
    for _ in range(4):
        background.begin_if_due({}, 1, "")
        if background.work is not None:
            await asyncio.wait({background.work.task})
    assert [name for name in done if name != "size"] == ["trim", "vacuum", "vacuum", "vacuum"]
    monkeypatch.setattr(maintenance, "VACUUM_EVERY_S", 600.0)
    background.ended()
    left = background.time_left({})
    assert left is not None
    assert 0 < left <= maintenance.REST_S


async def test_work_that_fails_is_counted_and_rests_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It's one table's trouble: what else there is to do is done."""
    for every in ("TRIM_EVERY_S", "VACUUM_EVERY_S", "VACUUM_FIRST_S"):
        monkeypatch.setattr(maintenance, every, -1.0)
    done: list[str] = []

    async def run(function: Callable[..., Any], *_: Any, **__: Any) -> Any:
        done.append(function.__name__)
        if function.__name__ == "trim":
            raise OSError("its folder can't be read")
        return TableSize()

    lake: Any = SimpleNamespace(upkeep=Upkeep)
    metrics = Metrics()
    background = Background(LakeSettings("lake"), metrics, lake, run)
    background.found(ORDERS.table, LakeTableState(ORDERS, generation=0), {Tier.CHANGELOG: TableSize()})
    for _ in range(3):
        background.begin_if_due({}, 1, "")
        if background.work is not None:
            await asyncio.wait({background.work.task})
            background.ended()
    assert [name for name in done if name != "size"] == ["trim", "vacuum", "vacuum"]
    assert metrics.value(catalogue.WORK_FAILED, kind="trim") == 1
