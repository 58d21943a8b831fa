"""Tables of one sink that fail, stop or come late: each trouble is its table's alone, and ends when it's mended.

The sink's lives borrow the process's Spark. `test_spark_sink` has those that start and lose one of their own.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.lake import spark_session
from actors.lake.live_view import live_view
from actors.lake.spark_session import Spark
from pipeline import metrics as catalogue
from pipeline.config.settings import JournalSettings, LakeSettings, SparkSettings
from pipeline.errors import Backoff
from pipeline.lake import step as spark_sink
from pipeline.messages.journal import MirrorDataExpired
from pipeline.snapshot.checkpoint import Filling
from tests.integration.history import FILLING
from tests.integration.lake.test_spark_sink import House, table


class Borrowed(Spark):
    """A Spark that outlives whoever was given it."""

    def __init__(self, lender: Spark) -> None:
        vars(self).update(vars(lender))

    def stop(self) -> None:
        """Leave it to the next one."""

    def kill(self) -> None:
        """Leave it to the next one."""


@pytest.fixture
def house(spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(spark_session, "open_session", lambda *_: Borrowed(spark))
    lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_rows=1000, merge_after_s=600)
    made = House(tmp_path, SparkSettings(), lake)
    yield made
    made.history.store.close()


async def test_one_tables_trouble_is_its_own_and_ends_when_it_is_mended(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sink, "TABLE_BACKOFF", Backoff(1.0, 1.0))
    folder, items = house.root / "shop" / "items", str(house.items.schema.table)
    log, away = folder / "changelog" / "_delta_log", house.root.parent / "away"
    name = f"{2:012}-{1:04}-{house.history.store.identity.id[:8]}.parquet.tmp"
    in_the_way = folder / "changelog" / name

    def stopped() -> bool:
        return house.metrics.value(catalogue.TABLE_STOPPED, table=items, part="lake") == 1

    async with house.life() as running:
        await house.at_work(running)
        house.is_filled(house.orders)
        in_the_way.mkdir()  # where a file of the second segment is to be
        for n in (2, 3):
            await house.write(n, n)
        await house.until(lambda: house.arrived() and stopped() and house.complete(), running)
        assert house.metrics.value(catalogue.STOPPED_TABLES, part="lake") == 1
        assert "files can't be placed" in house.stopped("items")
        assert not house.stopped("orders")
        assert house.shown("orders") == [(n, n) for n in (1, 2, 3)]
        in_the_way.rmdir()
        await house.until(lambda: house.arrived() and not house.stopped("items"), running)
        assert house.shown("items") == [(n, n) for n in (1, 2, 3)]
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert house.metrics.value(catalogue.STOPPED_TABLES, part="lake") == 0
        house.mailbox.close()
        await running
    log.rename(away)
    log.mkdir()
    (log / f"{0:020}.json").write_text("what's no log")
    async with house.life() as running:
        await house.write(5, 5)
        await house.until(lambda: house.arrived() and stopped(), running)
        assert house.shown("orders") == [(n, n) for n in (1, 2, 3, 4, 5)]
        house.mailbox.close()
        await running
    async with house.life() as running:  # which finds again what the table lacks
        await house.until(lambda: house.arrived() and bool(house.stopped("items")), running)
        shutil.rmtree(log)
        away.rename(log)
        await house.write(6, 6)
        await house.until(lambda: house.arrived() and not house.stopped("items"), running)
        for name in ("orders", "items"):
            assert house.shown(name) == [(n, n) for n in (1, 2, 3, 4, 5, 6)]
            assert house.changes(name) == [(n, n, n) for n in (1, 2, 3, 4, 5, 6)]
        assert house.coordinator.depth == 0, "no mirror began anew for it"
        house.mailbox.close()
        await running


async def test_a_lake_that_comes_when_segments_have_gone_asks_for_mirrors_that_begin_anew(
    house: House,
) -> None:
    history, store = house.history, house.history.store
    bag = history.table(replace(table("bag"), key=()), None)
    for n in (1, 2, 3):
        history.transaction((house.orders, "c", (n, n)), (house.items, "c", (n, n)), (bag, "c", (n, n)))
        history.seal()
    store.recover()
    assert store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 2
    async with house.life() as running:
        await house.until(
            lambda: bool(house.sink.status()["segment"] == 3 and house.coordinator.depth), running
        )
        asked = await house.coordinator.get()
        assert asked == MirrorDataExpired({house.orders.schema.table: 0, house.items.schema.table: 0})
        assert house.sink.status()["late"] == ["shop.items", "shop.orders"]
        assert house.changes("bag") == [
            (3, 3, 3)
        ]  # it has no mirror: its changes begin where the journal does
        lake = house.up.lake
        found = await asyncio.to_thread(lake.find, bag.schema.table)
        assert (found.changes, found.after) == (3, 0)  # so that a restart finds that it comes late
        history.restart(house.items, house.items.schema, Filling)
        history.chunk(house.items, list(house.items.source))
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert house.sink.status()["late"] == ["shop.orders"]
        lacked = MirrorDataExpired({house.orders.schema.table: 0})
        async with asyncio.timeout(60):  # what was asked before may be there still
            while await house.coordinator.get() != lacked:
                pass
        history.restart(house.orders, house.orders.schema, Filling)
        history.chunk(house.orders, list(house.orders.source))
        await house.write(5, 5)
        await house.until(house.arrived, running)
        assert house.sink.status()["late"] == []
        house.is_filled(house.orders, house.items)
        await house.write(6, 6)
        await house.until(lambda: house.arrived() and house.complete(), running)
        found = await asyncio.to_thread(lake.find, house.items.schema.table)
        assert found.after == 5
        for each in (house.orders, house.items):
            shown = live_view(house.up.spark.session, str(house.root), each.schema.table).collect()
            assert sorted(map(tuple, shown)) == [(n, n) for n in range(1, 7)]
        house.mailbox.close()
        await running
    assert house.changes("items") == [(n, n, n) for n in (4, 5, 6)]
    assert house.changes("orders") == [(n, n, n) for n in (5, 6)]


@pytest.mark.full
async def test_a_table_that_stopped_is_told_again_and_begins_anew_when_it_is_removed(house: House) -> None:
    history, items = house.history, house.items.schema.table
    house.items = history.table(house.items.schema, FILLING)
    history.transaction((house.orders, "c", (1, 1)), (house.items, "c", (1, 1)))
    history.seal()
    house.items.schema = replace(house.items.schema, key=(1, 0))
    history.transaction((house.orders, "c", (2, 2)), (house.items, "c", (2, 2)))
    history.seal()
    for _ in range(2):
        async with house.life() as running:
            await house.until(house.arrived, running)
            assert house.metrics.value(catalogue.TABLE_STOPPED, table=str(items), part="lake") == 1
            assert house.metrics.value(catalogue.STOPPED_TABLES, part="lake") == 1
            assert house.coordinator.depth == 0
            house.mailbox.close()
            await running
    shutil.rmtree(house.root / "shop" / "items")
    async with house.life() as running:
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert house.metrics.value(catalogue.TABLE_STOPPED, table=str(items), part="lake") == 0
        assert house.metrics.value(catalogue.STOPPED_TABLES, part="lake") == 0
        assert await house.coordinator.get() == MirrorDataExpired({items: 0})
        history.restart(house.items, house.items.schema, Filling)
        history.chunk(house.items, list(house.items.source))
        house.is_filled(house.orders, house.items)
        await house.write(3, 3)
        await house.until(lambda: house.arrived() and house.complete(), running)
        for each in (house.orders, house.items):
            shown = live_view(house.up.spark.session, str(house.root), each.schema.table).collect()
            assert sorted(map(tuple, shown)) == [(n, n) for n in (1, 2, 3)]
        house.mailbox.close()
        await running
