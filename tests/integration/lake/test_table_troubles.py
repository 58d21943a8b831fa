"""Tables of one sink that fail, stop or come late: each trouble is its table's alone, and ends when it's mended.

The sink's lives borrow the process's Spark. `test_spark_sink` has those that start and lose one of their own.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from actors.journal.store import JournalStore
from actors.lake.delta.lake_table import LakeTable
from actors.lake.files import file_placement
from actors.lake.generations import Generations
from actors.lake.lake import Lake
from actors.lake.live_view import live_view
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from actors.lake.table_commits import CopiedJournal, TableCommits
from actors.lake.verification.lake_verification import LakeVerification
from actors.runtime.filesystem import sync
from actors.spark_sink import SparkSink, SparkUp
from pipeline import metrics as catalogue
from pipeline.config.settings import JournalSettings, LakeSettings, SparkSettings
from pipeline.errors import Backoff, Definite
from pipeline.journal.consumer_names import LAKE_CONSUMER
from pipeline.lake import step as spark_sink
from pipeline.lake.batch import LakeTableState, next_batch
from pipeline.lake.facts import TableFailed
from pipeline.lake.tables.paths import findings_path, location
from pipeline.lake.tables.properties import FORGETTING
from pipeline.lake.tables.spark_sql import table_at
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification import runs
from pipeline.lake.verification.runs import VerificationRun
from pipeline.messages.journal import DifferencesReported, MirrorDataExpired, SegmentSealed
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import Column, TableId
from pipeline.snapshot.checkpoint import Filling
from tests.integration.history import FILLING, History
from tests.integration.lake.test_spark_sink import INT, SEALED, WITHIN_S, House, table

Looked = TypeVar("Looked")


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
    name = f"{2:012}-{1:04}-{house.history.store.identity.id[:8]}.parquet"
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
    (log / f"{0:020}.json").write_text("CANARY-4711")
    async with house.life() as running:
        await house.write(5, 5)
        await house.until(lambda: house.arrived() and stopped(), running)
        text = house.stopped("items")
        assert "SparkFailed: An error occurred while calling" in text
        assert "FAILED_READ_FILE" in text
        assert "CANARY" not in text
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


@pytest.mark.full
async def test_a_catalog_that_is_gone_for_a_while_ends_nothing(
    house: House, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is tried again meanwhile, and gets all that it lacks."""
    monkeypatch.setattr(spark_sink, "TABLE_BACKOFF", Backoff(1.0, 1.0))
    house.lake = replace(house.lake, catalog="spark_catalog", merge_rows=1)
    session, sql, gone = type(spark.session), type(spark.session).sql, threading.Event()

    def ask(self: Any, text: str, *arguments: Any, **more: Any) -> DataFrame:
        if gone.is_set() and text.startswith(("CREATE SCHEMA", "SHOW SCHEMAS", "CREATE OR REPLACE VIEW")):
            raise AnalysisException("the metastore doesn't answer")
        return sql(self, text, *arguments, **more)

    def no_view() -> str | None:
        why: str | None = house.sink.status()["tables"]["shop.items"]["no_view"]
        return why

    def in_catalog() -> list[tuple[Any, ...]]:
        return sorted(map(tuple, spark.session.sql("FROM spark_catalog.shop.items").collect()))

    monkeypatch.setattr(session, "sql", ask)
    name = f"{2:012}-{1:04}-{house.history.store.identity.id[:8]}.parquet"
    in_the_way = house.root / "shop" / "items" / "changelog" / name
    async with house.life() as running:
        await house.at_work(running)
        assert in_catalog() == [(1, 1)]
        in_the_way.mkdir()
        await house.write(2, 2)
        await house.until(lambda: bool(house.stopped("items")), running)
        gone.set()
        in_the_way.rmdir()
        await house.until(lambda: house.arrived() and not house.stopped("items"), running)
        assert house.shown("items") == [(1, 1), (2, 2)]
        assert "the catalog spark_catalog doesn't take it" in (no_view() or "")
        gone.clear()
        await house.write(3, 3)
        await house.until(lambda: house.arrived() and no_view() is None, running)
        assert in_catalog() == [(1, 1), (2, 2), (3, 3)]
        house.mailbox.close()
        await running
    spark.session.sql("DROP SCHEMA spark_catalog.shop CASCADE")


def feed_from_another(house: House, spark: Spark, *names: str) -> None:
    """Lets another journal make these tables in the house's lake."""
    another = History(house.root.parent / "another")
    another.transaction(*((another.table(table(name)), "c", (7, 7)) for name in names))
    another.seal()
    lake, batch = Lake(spark.session, house.lake.path, another.store), next_batch(another.store.entries(0, 1))
    for name in names:
        lake.deliver(table(name).table, LakeTableState(), batch)
    another.store.close()


async def test_one_table_of_another_journal_is_set_aside_by_name(
    house: House, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sink, "TABLE_BACKOFF", Backoff(1.0, 1.0))

    def others_have(*numbers: int) -> None:
        assert "is fed from another journal" in house.stopped("bag")
        for name in ("orders", "items"):
            assert house.changes(name) == [(n, n, n) for n in numbers]

    async with house.life() as running:
        await house.at_work(running)
        await asyncio.to_thread(feed_from_another, house, spark, "bag")
        bag = house.history.table(table("bag"))
        house.history.transaction((bag, "c", (1, 1)))
        await house.write(2, 2)
        await house.until(lambda: house.arrived() and bool(house.stopped("bag")), running)
        await house.until(lambda: "2 times" in house.stopped("bag"), running)
        others_have(1, 2)
        house.mailbox.close()
        await running
    async with house.life() as running:  # a start meets it among its own
        await house.write(3, 3)
        await house.until(lambda: house.arrived() and bool(house.stopped("bag")), running)
        others_have(1, 2, 3)
        shutil.rmtree(house.root / "shop" / "bag")
        await house.until(lambda: house.arrived() and not house.stopped("bag"), running)
        assert house.shown("bag") == [(1, 1)]
        house.mailbox.close()
        await running


async def test_a_lake_of_another_journal_ends_the_sink(house: House, spark: Spark) -> None:
    await asyncio.to_thread(feed_from_another, house, spark, "orders", "items")
    async with house.life() as running:
        await house.write(1, 1)
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(Definite, match="give this pipeline a lake of its own"):
                await running


def seal_items(history: History, v: int) -> int:
    """Seals a segment with a row of one of the two tables."""
    history.transaction((history.tables[table("items").table], "u", (v, v)))
    return history.seal()


async def test_a_start_ends_at_segments_that_another_copy_of_the_journal_has_delivered(
    house: House, tmp_path: Path
) -> None:
    async with house.life() as running:
        await house.at_work(running)
        house.is_filled(house.orders)
        original, copied = house.history, house.history.copy(tmp_path / "copied")
        await house.write(2, 2)
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    house.history = copied
    assert seal_items(copied, 3) == original.segment
    async with house.life() as running:
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(CopiedJournal) as ended:
                await running
    copied.store.close()
    assert f"{house.root}/shop/" in str(ended.value)
    assert "has segment 2 as it was sealed at 2023-11-14 22:13:20+00:00" in str(ended.value)
    assert "this journal sealed it at 2023-11-14 22:13:20.000001+00:00" in str(ended.value)
    assert house.changes("items") == [(1, 1, 1), (2, 2, 2)]
    house.history = original
    async with house.life() as running:  # the lake has nothing of the copy
        await house.write(4, 4)
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    assert house.changes("items") == [(1, 1, 1), (2, 2, 2), (3, 4, 4)]


@pytest.mark.parametrize("further", [1, 2])
async def test_a_batch_ends_at_a_segment_that_another_copy_of_the_journal_has_delivered_meanwhile(
    house: House, spark: Spark, tmp_path: Path, further: int
) -> None:
    """The copy is as far as the batch, or further than this journal."""
    items = table("items").table
    async with house.life() as running:
        await house.at_work(running)
        copied = house.history.copy(tmp_path / "copied")
        for n in range(further):
            seal_items(copied, 3 + n)
        lake, sealed = Lake(spark.session, house.lake.path, copied.store), copied.store.last_segment()
        batch = next_batch(copied.store.entries(1, sealed))
        await asyncio.to_thread(lambda: lake.deliver(items, lake.find(items), batch))
        copied.store.close()
        await house.write(2, 2)
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(CopiedJournal) as ended:
                await running
    ours = ("this journal ends with segment 2", "this journal sealed it at")[further == 1]
    assert f"shop/items/changelog has segment {1 + further} as it was sealed at" in str(ended.value)
    assert ours in str(ended.value)
    assert [n for _, n, _ in house.changes("items")] == [1, *range(3, 3 + further)]


async def test_no_batch_follows_one_that_another_copy_of_the_journal_has_delivered_where_this_one_had_none(
    house: House, spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless an earlier version has delivered it, which doesn't say when it was sealed."""
    items = table("items").table
    async with house.life() as running:
        await house.at_work(running)
        copied = house.history.copy(tmp_path / "copied")
        lake = Lake(spark.session, house.lake.path, copied.store)

        async def deliver(v: int) -> None:
            """Delivers a segment of the copy that has none of this table here."""
            batch = next_batch(copied.store.entries(seal_items(copied, v) - 1, copied.segment))
            await asyncio.to_thread(lambda: lake.deliver(items, lake.find(items), batch))
            house.history.transaction((house.orders, "u", (v, v)))
            await house.mailbox.put(SEALED, SegmentSealed(house.history.seal()))
            await house.until(house.arrived, running)

        with monkeypatch.context() as patched:
            patched.setattr(TableCommits, "metadata", lambda *_, **__: "{}")
            await deliver(2)
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert [n for _, n, _ in house.changes("items")] == [1, 2, 3]
        copied.store.close()
        copied = house.history.copy(tmp_path / "copied again")
        lake = Lake(spark.session, house.lake.path, copied.store)
        await deliver(4)
        copied.store.close()
        await house.write(5, 5)
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(CopiedJournal):
                await running
    assert [n for _, n, _ in house.changes("items")] == [1, 2, 3, 4]


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


async def test_a_stopped_table_that_comes_late_shows_no_part_of_itself(house: House) -> None:
    history, store, items = house.history, house.history.store, house.items.schema.table
    for n in (1, 2):
        history.transaction((house.orders, "c", (n, n)), (house.items, "c", (n, n)))
        history.seal()
    history.stopped[items] = "its engine"
    history.seal()
    store.recover()
    assert store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 2
    async with house.life() as running:
        await house.until(lambda: bool(house.sink.status()["segment"] == 3), running)
        found = await asyncio.to_thread(house.up.lake.find, items)
        assert found.generation is None
        assert found.stopped is not None
        assert found.stopped.reason.endswith("capture has stopped it: its engine")
        with pytest.raises(Definite, match=r"shop\.items was stopped before the lake had .*: its engine"):
            live_view(house.up.spark.session, str(house.root), items)
        history.stopped.clear()
        for each in (house.items, house.orders):
            history.restart(each, each.schema, Filling)
            history.chunk(each, list(each.source))
        await house.write(3, 3)
        await house.until(house.arrived, running)
        house.is_filled(house.orders, house.items)
        await house.write(4, 4)
        await house.until(lambda: house.arrived() and house.complete(), running)
        shown = live_view(house.up.spark.session, str(house.root), items).collect()
        assert sorted(map(tuple, shown)) == [(n, n) for n in range(1, 5)]
        house.mailbox.close()
        await running


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
            with pytest.raises(Definite, match=r"shop\.items was stopped before its mirror was complete: "):
                live_view(house.up.spark.session, str(house.root), items)
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


async def test_a_journal_that_was_restored_from_an_older_copy_is_refused(
    house: House, tmp_path: Path
) -> None:
    """What it seals has the numbers of what the lake has, and other rows."""
    history, copy = house.history, tmp_path / "copy"
    house.items = history.table(house.items.schema)
    async with house.life() as running:
        await house.at_work(running)
        house.is_filled(house.orders)
        await house.write(2, 2)
        await house.until(house.arrived, running)
        shutil.copytree(history.store.directory, copy)
        place = history.scn, history.segment, history.sealed_scn
        for n in (3, 4, 5):
            await house.write(n, n)
        await house.until(lambda: house.arrived() and house.complete(), running)
        house.mailbox.close()
        await running
    history.store.close()
    shutil.rmtree(history.store.directory)
    copy.rename(history.store.directory)
    history.scn, history.segment, history.sealed_scn = place
    for each in history.tables.values():
        each.segment = history.segment + 1
    for start in range(2):  # a second one doesn't come through, though as much is sealed as the lake has
        history.store = JournalStore.open_single_writer(history.store.directory, "test")
        history.store.recover()
        history.store.leave_unchecked(LAKE_CONSUMER)
        for n in range(3 + 6 * start, 9 + 6 * start, 2):
            for v in (n, n + 1):
                history.transaction((house.orders, "u", (v, v)), (house.items, "u", (v, v)))
            history.seal()
        async with house.life() as running:
            with pytest.raises(Definite, match="the journal ended with 2 before this service continued it"):
                await running
        history.store.close()


async def test_a_table_that_fails_when_the_journal_is_compared_is_compared_later(
    house: House, tmp_path: Path
) -> None:
    """Otherwise what the restored journal seals under numbers that the table has would never come to it."""
    history, copy, away = house.history, tmp_path / "copy", tmp_path / "away"
    log = house.root / "shop" / "items" / "changelog" / "_delta_log"
    async with house.life() as running:
        await house.at_work(running)
        house.is_filled(house.orders)
        await house.write(2, 2)
        await house.until(lambda: house.arrived() and house.complete(), running)
        shutil.copytree(history.store.directory, copy)
        place = history.scn, history.segment, history.sealed_scn
        for n in (3, 4):
            history.transaction((house.items, "c", (n, n)))
            await house.mailbox.put(SEALED, SegmentSealed(history.seal()))
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    history.store.close()
    shutil.rmtree(history.store.directory)
    copy.rename(history.store.directory)
    history.scn, history.segment, history.sealed_scn = place
    for each in history.tables.values():
        each.segment = history.segment + 1
    log.rename(away)
    log.mkdir()
    (log / f"{0:020}.json").write_text("damaged")
    for start in range(2):
        history.store = JournalStore.open_single_writer(history.store.directory, "test")
        history.store.recover()
        history.store.leave_unchecked(LAKE_CONSUMER)
        if start == 1:
            shutil.rmtree(log)
            away.rename(log)
        async with house.life() as running:
            if start == 1:
                with pytest.raises(
                    Definite, match=r"shop\.items .* the journal ended with 2 before this service"
                ):
                    await asyncio.wait_for(running, WITHIN_S)
                break
            for n in (5, 6, 7):
                history.transaction((house.orders, "c", (n, n)))
                await house.mailbox.put(SEALED, SegmentSealed(history.seal()))
            await house.until(lambda: house.arrived() and bool(house.stopped("items")), running)
            house.mailbox.close()
            await running
        history.store.close()


class PowerCut:
    """Takes from the lake's logs what was never made durable: all that a power cut may take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._durable: set[str] = set()
        self._sync = sync
        monkeypatch.setattr(file_placement, "sync", self._note)

    def _note(self, path: str) -> None:
        self._sync(path)
        self._durable.add(path)

    def strike(self, house: House) -> None:
        """Leaves each log the commits up to the last durable one."""
        for log in house.root.glob("*/*/*/_delta_log"):
            for commit in sorted(log.glob("*.json"), reverse=True):
                if str(commit) in self._durable:
                    break
                for lost in log.glob(f"*{commit.stem}*"):
                    lost.unlink()
        jvm: Any = house.up.spark.session.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


async def told(house: House, running: asyncio.Task[None]) -> None:
    """Wait until the journal knows that the lake has all."""
    known = house.history.store.consumers

    def through() -> int | None:
        consumer = known.all().get(LAKE_CONSUMER)
        return None if consumer is None else consumer.segment

    await house.until(lambda: through() == house.history.segment, running)


async def test_a_power_cut_does_not_take_back_a_columns_name(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row came with it, so the segment doesn't come again."""
    history, power = house.history, PowerCut(monkeypatch)
    items = house.items = history.table(house.items.schema)
    async with house.life() as running:
        await house.write(1, 1)
        await told(house, running)
        renamed = replace(items.schema, columns=(items.schema.columns[0], Column("w", INT, True)))
        changes = ColumnChanges((("v", "w"),))
        history.altered = [Altered(history.scn, Alteration(renamed, "ALTER TABLE items", changes))]
        items.schema = renamed
        await house.mailbox.put(SEALED, SegmentSealed(history.seal()))
        await told(house, running)
    power.strike(house)
    async with house.life() as running:
        await house.write(2, 2)
        await house.until(house.arrived, running)
        assert house.shown("items") == [(1, 1), (2, 2)]


async def test_a_power_cut_does_not_take_back_a_stop(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the table would go on without the segment that it stopped at."""
    history, power = house.history, PowerCut(monkeypatch)
    items = house.items = history.table(house.items.schema)
    async with house.life() as running:
        await house.write(1, 1)
        await told(house, running)
        schema, items.schema = items.schema, replace(items.schema, key=(1, 0))
        await house.write(2, 2)
        await told(house, running)
        assert house.stopped("items")
        items.close_version()
        items.schema = schema
        await house.write(3, 3)
        await told(house, running)
    power.strike(house)
    async with house.life() as running:
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert house.stopped("items")
        assert [v for _, _, v in house.changes("items")] == [1]


@pytest.mark.parametrize(
    ("statements", "operation"),
    [
        pytest.param(["RESTORE TABLE {at} TO VERSION AS OF 1"], "RESTORE", id="restore"),
        pytest.param(
            [
                "CREATE TABLE {copy} SHALLOW CLONE {at} VERSION AS OF 1",
                "DELETE FROM {at}",  # without it Delta refuses the next one
                "CREATE OR REPLACE TABLE {at} SHALLOW CLONE {copy}",
            ],
            "CLONE",
            id="clone",
            marks=pytest.mark.full,  # that a log says so is in tests/actors/lake/transaction_log/test_delta_log.py
        ),
    ],
)
async def test_a_table_that_was_set_back_is_set_aside_by_name(
    house: House, statements: list[str], operation: str
) -> None:
    """Delta keeps the versions of applications: the table says that it has what is gone."""
    house.items = house.history.table(house.items.schema)
    async with house.life() as running:
        for n in (1, 2):
            await house.write(n, n)
            await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    at = table_at(location(str(house.root), house.items.schema.table, Tier.CHANGELOG))
    session, copy = house.up.spark.session, table_at(str(house.root / "copy"))
    for statement in statements:
        session.sql(statement.format(at=at, copy=copy))
    done = session.sql(f"DESCRIBE HISTORY {at} LIMIT 1").first()
    assert done is not None
    assert done["operation"] == operation
    async with house.life() as running:
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert "changelog was set back by RESTORE" in house.stopped("items")
        assert not house.stopped("orders")
        house.mailbox.close()
        await running
    shutil.rmtree(house.root / "shop" / "items")
    async with house.life() as running:
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({house.items.schema.table: 0})


@pytest.mark.parametrize("tier", [Tier.MIRROR, Tier.CHANGELOG])
async def test_a_lake_table_that_is_removed_while_the_service_runs_is_made_again(
    house: House, monkeypatch: pytest.MonkeyPatch, tier: Tier
) -> None:
    house.lake, history, items = replace(house.lake, merge_rows=3), house.history, house.items
    failures, failed = list[str](), SparkSink._failed

    async def heard(sink: SparkSink, up: SparkUp, of: TableId, error: Exception) -> TableFailed:
        failures.append(str(error))
        return await failed(sink, up, of, error)

    monkeypatch.setattr(SparkSink, "_failed", heard)
    async with house.life() as running:
        for n in (1, 2):
            await house.write(n, n)
            await house.until(house.arrived, running)
        removed = location(str(house.root), items.schema.table, tier)
        shutil.rmtree(removed)
        await house.write(3, 3)
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({items.schema.table: 0})
        assert len(failures) == 1
        assert f"{removed} was removed while the service runs; the table's next batch makes it" in failures[0]
        history.restart(items, items.schema, Filling)
        history.chunk(items, list(items.source))
        house.is_filled(house.orders, items)
        await house.write(4, 4)
        await house.until(lambda: house.arrived() and house.complete(), running)
        assert house.shown("items") == house.shown("orders") == [(n, n) for n in range(1, 5)]
        house.mailbox.close()
        await running


@pytest.mark.parametrize("tier", [Tier.CHANGELOG, Tier.MIRROR])
async def test_a_table_that_is_set_back_while_the_service_runs_is_set_aside_by_name(
    house: House, tier: Tier
) -> None:
    """What has come since would hide it from the next start, and rows would be lost for good."""
    house.lake = replace(house.lake, merge_rows=1)
    items = house.items.schema.table

    def merged(segment: int) -> bool:
        return bool(house.sink.status()["tables"][str(items)]["merged"] == segment)

    async with house.life() as running:
        for n in (1, 2):
            await house.write(n, n)
            await house.until(house.arrived, running)
            await house.until(partial(merged, n), running)
        at = location(str(house.root), items, tier)
        house.up.spark.session.sql(f"RESTORE TABLE {table_at(at)} TO VERSION AS OF 1")
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert f"{at} was set back by RESTORE" in house.stopped("items")
        assert not house.stopped("orders")
        house.mailbox.close()
        await running
    async with house.life() as running:
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert f"{at} was set back by RESTORE" in house.stopped("items")
        shutil.rmtree(house.root / "shop" / "items")
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({items: 0})
        await house.until(lambda: not house.stopped("items"), running)
        house.mailbox.close()
        await running


async def test_a_changelog_in_whose_place_an_older_copy_comes_while_the_service_runs_is_set_aside_by_name(
    house: House, tmp_path: Path
) -> None:
    """Otherwise it would lack the changes between for good, and nobody would know."""
    changelog, copy = location(str(house.root), house.items.schema.table, Tier.CHANGELOG), tmp_path / "copy"
    async with house.life() as running:
        await house.write(1, 1)
        await house.until(house.arrived, running)
        shutil.copytree(changelog, copy)
        await house.write(2, 2)
        await house.until(house.arrived, running)
        shutil.rmtree(changelog)
        copy.rename(changelog)
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert "changelog has segment 1, and this service brought it segment 2" in house.stopped("items")
        assert not house.stopped("orders")
        shutil.rmtree(house.root / "shop" / "items")
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({house.items.schema.table: 0})
        await house.until(lambda: not house.stopped("items"), running)
        house.mailbox.close()
        await running


async def test_a_table_whose_progress_delta_may_forget_is_set_aside_by_name(house: House) -> None:
    house.items = house.history.table(house.items.schema)
    async with house.life() as running:
        await house.write(1, 1)
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    at = table_at(location(str(house.root), house.items.schema.table, Tier.CHANGELOG))
    house.up.spark.session.sql(f"ALTER TABLE {at} SET TBLPROPERTIES ('{FORGETTING}' = 'interval 1 second')")
    async with house.life() as running:
        await house.write(2, 2)
        await house.until(house.arrived, running)
        assert FORGETTING in house.stopped("items")
        assert not house.stopped("orders")
        house.up.spark.session.sql(f"ALTER TABLE {at} UNSET TBLPROPERTIES ('{FORGETTING}')")
        await house.until(lambda: not house.stopped("items"), running)
        house.mailbox.close()
        await running
    assert [v for _, _, v in house.changes("items")] == [1, 2]


def before_deliveries(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Looked]) -> list[Looked]:
    """What a look finds before each delivery from here on."""
    found, deliver = list[Looked](), Lake.deliver

    def delivered(lake: Lake, *arguments: Any) -> LakeTableState:
        found.append(look())
        return deliver(lake, *arguments)

    monkeypatch.setattr(Lake, "deliver", delivered)
    return found


async def test_a_lake_is_compared_before_it_gets_anything_of_an_empty_journal(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a crash right after its first segment would leave it ahead of where the journal ended."""
    known = house.history.store.consumers
    known.record_progress(LAKE_CONSUMER, 0)
    house.history.store.leave_unchecked(LAKE_CONSUMER)
    assert known.all()[LAKE_CONSUMER].unchecked_end == 0
    unchecked = before_deliveries(monkeypatch, lambda: known.all()[LAKE_CONSUMER].unchecked_end)
    async with house.life() as running:
        await house.until(lambda: house.metrics.value(catalogue.SPARK_UP) == 1, running)
        await house.write(1, 1)
        await house.until(house.arrived, running)
    assert unchecked == [None, None]


async def test_a_table_counts_as_compared_before_a_batch_that_found_it_brings_it_further(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier start couldn't look at it, and this one finds it only for the batch."""
    items, known = house.items.schema.table, house.history.store.consumers
    known.record_progress(LAKE_CONSUMER, 0)
    known.checked(LAKE_CONSUMER, {items: 0})
    assert known.all()[LAKE_CONSUMER].unseen == {items: 0}
    unseen = before_deliveries(monkeypatch, lambda: known.all()[LAKE_CONSUMER].unseen)
    async with house.life() as running:
        await house.until(lambda: house.metrics.value(catalogue.SPARK_UP) == 1, running)
        await house.write(1, 1)
        await house.until(house.arrived, running)
    assert unseen == [{}, {}]


@pytest.mark.full
async def test_a_table_that_is_read_again_twice_in_a_row_is_shown_as_it_is_then(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time begins after the first was to be shown, and before it could be."""
    history, orders, begun, complete = house.history, house.orders, threading.Event(), Generations.complete

    def late(lake: Generations, *arguments: Any) -> None:
        assert begun.wait(WITHIN_S)
        complete(lake, *arguments)

    async with house.life() as running:
        await house.at_work(running)
        house.is_filled(orders)
        await house.write(2, 2)
        await house.until(lambda: house.arrived() and house.complete(), running)
        monkeypatch.setattr(Generations, "complete", late)
        for n, filled in ((3, True), (4, False)):
            history.restart(orders, orders.schema, Filling)
            history.chunk(orders, list(orders.source))
            if filled:
                house.is_filled(orders)
            await house.write(n, n)
            await house.until(house.arrived, running)
        begun.set()
        await house.until(lambda: house.sink.status()["beside"] is None, running)
        assert not house.complete()
        house.is_filled(orders)
        await house.write(5, 5)
        await house.until(lambda: house.arrived() and house.complete(), running)
        assert house.shown("orders") == [(n, n) for n in range(1, 6)]


async def test_rows_of_a_first_snapshot_that_a_kill_left_out_are_read_again_behind_a_gap(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog's commit came first, and has the segments that the journal has removed."""
    history, orders, append = house.history, house.orders, Lake._append
    for n in (1, 2):
        history.transaction((orders, "c", (n, n)), (house.items, "c", (n, n)))
        orders.source[10 + n,] = (10 + n, 0)
        history.chunk(orders, [(10 + n,)])
        history.seal()

    def refused(lake: Lake, of: TableId, delta: LakeTable, tier: Tier, *arguments: Any) -> None:
        if tier is Tier.MIRROR:
            raise OSError("refused")
        append(lake, of, delta, tier, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "_append", refused)
        async with house.life() as running:
            await house.until(lambda: house.arrived() and bool(house.stopped("orders")), running)
            await house.write(3, 3)
            await told(house, running)
    found = await asyncio.to_thread(house.up.lake.find, orders.schema.table)
    assert (found.changes, found.rows) == (2, 0)
    assert (
        history.store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 2
    )
    async with house.life() as running:
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({orders.schema.table: 0})
        assert house.sink.status()["late"] == ["shop.orders"]
        history.restart(orders, orders.schema, Filling)
        history.chunk(orders, list(orders.source))
        house.is_filled(orders)
        await house.write(4, 4)
        await house.until(lambda: house.arrived() and house.complete(), running)
        assert house.shown("orders") == [(1, 1), (2, 2), (3, 3), (4, 4), (11, 0), (12, 0)]


async def test_a_repair_ends_whose_findings_are_gone_and_all_tables_continue(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_FINDINGS_BACKOFF", Backoff(0.3, 0.3))
    history, items, keys_to_repair = house.history, house.items, LakeVerification.keys_to_repair

    def gone(lake: LakeVerification, run: VerificationRun) -> Any:
        shutil.rmtree(findings_path(str(house.root)), ignore_errors=True)
        return keys_to_repair(lake, run)

    monkeypatch.setattr(LakeVerification, "keys_to_repair", gone)
    async with house.life() as running:
        await house.at_work(running)
        items.source[9,] = (9, 9)  # the lake doesn't have it
        history.begin_verification("v1", items, repairs=True)
        history.verify("v1", items, [(1,), (9,)])
        history.end_verification("v1", items, 2)
        await house.write(2, 2)
        async with asyncio.timeout(WITHIN_S):
            report = await house.coordinator.get()
        assert isinstance(report, DifferencesReported)
        assert (report.run, report.batch, report.keys, report.last) == ("v1", 1, None, True)
        assert "verification" in report.reason
        history.snapshots = ()  # as capture has it soon after
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert house.shown("items") == [(n, n) for n in (1, 2, 3)]
        assert house.metrics.value(catalogue.SPARK_UP) == 1
