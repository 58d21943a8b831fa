"""Views in a catalog are kept current: before, in the midst of, and after what changes their text."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import Row as SparkRow

from actors.lake.delta.delta_table import DeltaTable
from actors.lake.generations import Generations
from actors.lake.lake import Lake
from actors.lake.live_view import CatalogViews
from actors.lake.spark.spark_session import PARTITIONS, Spark
from actors.service.live_view_text import live_view_text, script
from pipeline.errors import Definite
from pipeline.lake.batch import LakeTableState, next_batch
from pipeline.lake.live_view import MirrorPosition, Versions, live_view_sql
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types.column_types import Double, Integer, Text
from tests.integration.history import READY, History
from tests.pipeline.live_view_cases import SCHEMA, Schedule, by_story

INT = Integer(8, unsigned=False)
ORDERS = TableSchema(
    TableId("shop_live", "orders"),
    (Column("id", INT, False), Column("it's `a`", Text("utf8mb4"), True)),
    (0,),
)
VIEW = "spark_catalog.shop_live.orders"
WITHIN_S = 60.0


class Cut(Exception):
    """The end of a delivery, at the step where the test wants it."""


@pytest.mark.full
def test_a_view_is_right_before_amid_and_after_what_changes_its_text(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    table = history.table(ORDERS, READY)
    readers = spark.session.newSession()
    for name in PARTITIONS:  # some hundreds else
        readers.conf.set(name, str(spark.cores))
    delivered, present = 0, LakeTableState()

    def lake() -> Lake:
        return Lake(spark.session, root, history.store, catalog="spark_catalog")

    def deliver() -> None:
        nonlocal delivered, present
        batch = next_batch(history.store.entries(delivered, history.segment))
        present = lake().deliver(ORDERS.table, lake().find(ORDERS.table), batch)
        delivered = batch.through

    def shown() -> list[tuple[Any, ...]]:
        rows: list[SparkRow] = readers.sql(f"SELECT * FROM {VIEW}").collect()
        return sorted(tuple(row) for row in rows)

    history.transaction((table, "c", (1, "a")), (table, "c", (2, "b")))
    history.seal()
    deliver()
    assert shown() == [(1, "a"), (2, "b")]
    history.transaction((table, "u", (2, "c")))
    history.seal()
    deliver()
    assert shown() == [(1, "a"), (2, "c")], "the view follows without being made anew"
    lake().merge(ORDERS.table, MirrorPosition(0, 0), delivered, "position")
    assert shown() == [(1, "a"), (2, "c")]
    # The mirror begins anew, with another column, and everything fails when it has begun.
    wide = replace(ORDERS, columns=(*ORDERS.columns, Column("n", INT, True)))
    history.restart(table, wide, Filling)
    table.source = {(7,): (7, "x", 1)}
    history.transaction((table, "c", (8, "y", 2)))
    history.chunk(table, [(7,)])
    history.seal()
    with monkeypatch.context() as patched:

        def cut(*_: object, **__: object) -> None:
            raise Cut

        patched.setattr(DeltaTable, "append", cut)
        with pytest.raises(Cut):
            deliver()
    assert shown() == [(1, "a"), (2, "c")], "what was there before, and nothing in between"
    deliver()
    assert shown() == [(1, "a"), (2, "c")], "the new generation is filled beside the mirror"
    assert present.generation is not None
    lake().generations.complete(ORDERS.table, present.generation, delivered, "position")
    assert shown() == [(7, "x", 1), (8, "y", 2)]
    history.store.close()


def test_a_start_between_the_two_tables_changes_of_columns_holds_the_view(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column was dropped, and another one of its name was added: a text of both versions would fit and be wrong."""
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    id_ = TableId("shop_amid", "orders")
    noted = TableSchema(id_, (Column("id", INT, False), Column("note", Text("utf8mb4"), True)), (0,))
    table, delivered = history.table(noted, READY), 0

    def lake() -> Lake:
        return Lake(spark.session, root, history.store, catalog="spark_catalog")

    def deliver() -> None:
        nonlocal delivered
        batch = next_batch(history.store.entries(delivered, history.segment))
        there = lake()
        there.deliver(id_, there.find(id_), batch)
        delivered = batch.through

    def shown(text: str = "FROM spark_catalog.shop_amid.orders") -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in spark.session.sql(text).collect())

    history.transaction((table, "c", (1, "x")), (table, "c", (2, "y")))
    history.seal()
    deliver()
    lake().merge(id_, MirrorPosition(0, 0), 1, "position")
    history.transaction((table, "u", (1, "z")))
    history.seal()
    deliver()
    dropped = replace(noted, columns=noted.columns[:1])
    statement = Alteration(dropped, "ALTER TABLE", ColumnChanges(dropped=("note",)))
    history.altered.append(Altered(history.scn, statement))
    history.transaction((table, "c", (3, "new")))
    history.seal()
    with monkeypatch.context() as patched:

        def cut(*_: object, **__: object) -> None:
            raise Cut

        patched.setattr(Generations, "evolve", cut)
        with pytest.raises(Cut):
            deliver()
    lake().find(id_)
    before = [(1, "z"), (2, "y")]
    assert shown() == before, "the source never had another note of these rows than this or none"
    text = live_view_text(root, str(id_), Dialect.SPARK)
    assert "the columns of shop_amid.orders are changing" in text.splitlines()[0]
    assert shown(text) == before
    mirror, changelog = (
        DeltaTable(spark.session, location(root, id_, tier)).version()
        for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    assert changelog is not None
    newest = Versions(mirror, changelog)  # as the service reports them to readers
    assert shown(live_view_text(root, str(id_), Dialect.SPARK, at=newest)) == before
    with pytest.raises(Definite, match=r"the columns of shop_amid\.orders are changing"):
        list(script(root, [str(id_)], Dialect.SPARK, views=True))
    deliver()
    assert shown() == [(1, None), (2, None), (3, "new")]
    history.transaction((table, "u", (2, "later")))
    history.seal()
    deliver()
    after = [(1, None), (2, "later"), (3, "new")]
    assert shown() == after, "the view follows again"
    assert shown(live_view_text(root, str(id_), Dialect.SPARK)) == after
    history.store.close()


@pytest.mark.full
def test_a_catalog_that_refuses_is_named(spark: Spark, tmp_path: Path) -> None:
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    history.table(ORDERS, READY)
    odd = replace(ORDERS, table=TableId("shop_live", "it's `odd`"))
    history.table(odd, READY)
    history.seal()
    lake = Lake(spark.session, root, history.store)
    for table in (ORDERS.table, odd.table):
        lake.deliver(table, LakeTableState(), next_batch(history.store.entries(0, 1)))
    for table in (TableId("shop_live", "none"), odd.table):  # there's no mirror, and no name for a view
        CatalogViews(spark.session, root, "nowhere").follow(table)
    with pytest.raises(Definite, match=r"no view can be kept in the catalog nowhere"):
        CatalogViews(spark.session, root, "nowhere").follow(ORDERS.table)
    history.store.close()


@pytest.mark.full
def test_of_two_tables_that_differ_by_case_the_first_one_keeps_its_view(spark: Spark, tmp_path: Path) -> None:
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    small = replace(ORDERS, table=TableId("shop_case", "orders"))
    large = replace(ORDERS, table=TableId("shop_case", "Orders"))
    for number, schema in enumerate((small, large)):
        history.transaction((history.table(schema, READY), "c", (number, "a")))
    history.seal()
    batch = next_batch(history.store.entries(0, 1))
    for order in ((small, large), (large, small)):  # the second time in another life
        lake = Lake(spark.session, root, history.store, catalog="spark_catalog")
        assert lake.views is not None
        for schema in order:
            lake.deliver(schema.table, lake.find(schema.table), batch)
        assert [*lake.views.refused] == [large.table]
        assert "shop_case.orders has a view of that name" in lake.views.refused[large.table]
        lake.merge(large.table, MirrorPosition(0, 0), 1, "position")
        for name in ("orders", "Orders"):
            assert [
                tuple(row) for row in spark.session.sql(f"FROM spark_catalog.shop_case.{name}").collect()
            ] == [(0, "a")]
    history.store.close()


def test_the_view_of_a_table_goes_with_its_primary_key(spark: Spark, tmp_path: Path) -> None:
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    keyed = replace(ORDERS, table=TableId("shop_key", "orders"))
    table = history.table(keyed, READY)
    history.transaction((table, "c", (1, "a")))
    history.seal()
    lake = Lake(spark.session, root, history.store, catalog="spark_catalog")
    assert lake.views is not None
    view = "spark_catalog.shop_key.orders"

    def deliver(after: int) -> None:
        batch = next_batch(history.store.entries(after, history.segment))
        lake.deliver(keyed.table, lake.find(keyed.table), batch)

    deliver(0)
    assert spark.session.catalog.tableExists(view)
    history.restart(table, replace(keyed, key=()), Ready)
    history.seal()
    deliver(1)
    assert not spark.session.catalog.tableExists(view)
    assert "has no primary key" in lake.views.refused[keyed.table]
    history.transaction((table, "c", (2, "b")))
    history.restart(table, keyed, Ready)
    history.seal()
    deliver(2)
    generation = lake.find(keyed.table).generation
    assert generation is not None
    lake.generations.complete(keyed.table, generation, 3, "position")
    assert spark.session.catalog.tableExists(view)
    assert not lake.views.refused
    history.store.close()


def test_no_batch_waits_for_the_catalog_that_gets_a_first_view(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, root = History(tmp_path / "journal"), str(tmp_path / "lake")
    slow = replace(ORDERS, table=TableId("shop_slow", "orders"))
    table = history.table(slow, Filling(0))
    table.source = {(1,): (1, "a")}
    history.chunk(table, [(1,)])
    table.mirror = READY
    history.seal()
    lake = Lake(spark.session, root, history.store, catalog="spark_catalog")

    def deliver(after: int) -> None:
        batch = next_batch(history.store.entries(after, history.segment))
        lake.deliver(slow.table, lake.find(slow.table), batch)

    deliver(0)
    history.transaction((table, "c", (2, "b")))
    history.seal()
    follow, batches = CatalogViews.follow, ThreadPoolExecutor(1)

    def amid(views: CatalogViews, of: TableId) -> None:
        monkeypatch.setattr(CatalogViews, "follow", follow)
        batches.submit(deliver, 1).result(WITHIN_S)
        follow(views, of)

    monkeypatch.setattr(CatalogViews, "follow", amid)
    try:
        lake.generations.complete(slow.table, 0, 1, "position")
    finally:
        batches.shutdown()
    shown = spark.session.sql("SELECT * FROM spark_catalog.shop_slow.orders").collect()
    assert sorted(map(tuple, shown)) == [(1, "a"), (2, "b")]
    history.store.close()


@pytest.mark.parametrize(("seed", "partial"), [pytest.param(0, False, marks=pytest.mark.full), (1, True)])
def test_spark_shows_and_merges_random_histories_as_duckdb_does(
    spark: Spark, tmp_path: Path, seed: int, partial: bool
) -> None:
    """A sample of what tests/pipeline/lake/test_live_view.py does with thousands of them."""
    session, root = spark.session, str(tmp_path)
    mirror, changelog = (
        f"delta.`{location(root, SCHEMA.table, tier)}`" for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    own = "history BIGINT, id BIGINT, part STRING, n BIGINT, `it's` STRING"
    meta = "__op STRING, __scn BIGINT, __ordinal INT, __absent ARRAY<STRING>, __segment BIGINT"
    session.sql(
        f"CREATE TABLE {mirror} ({own}) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    session.sql(f"CREATE TABLE {changelog} ({meta}, {own}) USING delta")
    schedule, reached = Schedule.random(seed, histories=40), MirrorPosition()
    assert schedule.partial is partial
    for sealed in schedule.segments(2):
        if sealed.begun is not None:
            session.sql(f"DELETE FROM {mirror}")
            reached = MirrorPosition(sealed.begun, 0, partial)
        for table, columns, rows in (
            (mirror, own, sealed.rows),
            (changelog, f"{meta}, {own}", sealed.changes),
        ):
            session.createDataFrame(rows, columns).writeTo(table).append()
        for merged in (False, True) if sealed.ready else (False,):
            if merged:
                changes = None if sealed.number % 2 else len(sealed.changes)  # by either join
                merge = Merge(root, SCHEMA, reached, sealed.number, changes)
                DeltaTable(session, location(root, SCHEMA.table, Tier.MIRROR)).merge(merge, "test", "{}")
                reached = replace(reached, merged=sealed.number)
            found = session.sql(live_view_sql(root, SCHEMA, reached)).collect()
            shown = by_story([tuple(row) for row in found])
            for story in schedule.stories:
                assert not story.judged(shown.get(story.number, [])), (
                    f"{story.number} at {sealed.number}, {reached}"
                )


def test_a_zero_in_a_key_keeps_its_sign_where_changes_lack_columns(spark: Spark, tmp_path: Path) -> None:
    """Spark takes two zeros for one, and gives a group of them the plus sign."""
    session, root, double = spark.session, str(tmp_path), Double()
    schema = TableSchema(
        TableId("shop", "zeros"), tuple(Column(name, double, False) for name in ("a", "b", "n")), (0, 1)
    )
    own = "a DOUBLE, b DOUBLE, n DOUBLE"
    meta = "__op STRING, __scn BIGINT, __ordinal INT, __absent ARRAY<STRING>, __segment BIGINT"
    mirror, changelog = (
        f"delta.`{location(root, schema.table, tier)}`" for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    session.sql(f"CREATE TABLE {mirror} ({own}) USING delta")
    session.sql(f"CREATE TABLE {changelog} ({meta}, {own}) USING delta")
    kept = [(-0.0, 1.0, 1.0), (-0.0, 2.0, 2.0), (0.0, 3.0, 3.0)]
    session.createDataFrame(kept, own).writeTo(mirror).append()
    changes = [
        ("u", 1, 0, ["n"], 1, -0.0, 2.0, None),
        ("d", 2, 0, ["n"], 1, 0.0, 3.0, None),
        ("u", 2, 1, ["n"], 1, -0.0, 3.0, None),
        ("r", 3, 0, None, 1, -0.0, 3.0, 3.5),
        ("r", 4, 0, None, 1, 4.0, -0.0, 4.5),
    ]
    session.createDataFrame(changes, f"{meta}, {own}").writeTo(changelog).append()
    expected = ["-0.0 1.0 1.0", "-0.0 2.0 2.0", "-0.0 3.0 3.5", "4.0 -0.0 4.5"]
    reached = MirrorPosition(0, 0, partial=True)

    def shown(text: str) -> list[str]:
        return sorted(" ".join(map(str, row)) for row in session.sql(text).collect())

    assert shown(live_view_sql(root, schema, reached)) == expected
    merge = Merge(root, schema, reached, 1)
    rows = shown(merge.rows(1))
    assert rows == expected[1:]
    session.sql(merge.statement())
    assert shown(f"SELECT * FROM {mirror}") == expected
