"""A real Spark reads a journal as a stream and once: each change arrives once, whatever ends a query in between.

The Python processes of Spark import this checkout from the folder in which the tests run.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from actors.journal.stream.data_source import TidemarkSource, TidemarkStreamReader
from actors.lake.spark.spark_session import Spark
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Decimal, Integer, Text
from tests.actors.http.changes.journals import tapped
from tests.integration.history import SOURCE, History, Table
from tests.servers.awaiting import until

INT = Integer(4, unsigned=False)
ID = Column("id", INT, False)
ORDERS = TableSchema(TableId("shop", "orders"), (ID, Column("note", Text("utf8mb4"), True)), (0,))
PAYMENTS = TableSchema(TableId("shop", "payments"), (ID, Column("amount", Decimal(12, 2), True)), (0,))
FLAG = Column("flag", INT, True)


class _LateSource(TidemarkSource):
    """Waits with the end of the first micro-batch until the journal has another segment than at the beginning."""

    def streamReader(self, schema: StructType) -> TidemarkStreamReader:  # noqa: N802 - Spark's name
        return _LateReader(super().streamReader(schema), Path(self.options["journal"]).parent / "begun")


class _LateReader(TidemarkStreamReader):
    def __init__(self, reader: TidemarkStreamReader, begun: Path) -> None:
        super().__init__(reader._planning)
        self._begun = begun

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int | str]:  # noqa: N802 - Spark's name
        self._begun.touch()
        while self.reportLatestOffset()["segment"] == start["segment"]:
            time.sleep(0.01)  # this is a process of Spark's: only the journal's files tell it
        return super().latestOffset(start, limit)


@dataclass
class Shop:
    """A journal of two tables, a Spark that reads it, and a table of Delta's into which it writes."""

    folder: Path
    spark: Spark
    history: History
    orders: Table
    payments: Table

    def seal(self, *ids: int) -> None:
        """Seals a segment with a transaction for each of these rows of `orders`."""
        for id_ in ids:
            rest = (None,) * (len(self.orders.schema.columns) - 2)
            self.history.transaction((self.orders, "c", (id_, f"n{id_}", *rest)))
        self.history.seal()

    def load(self, read: Any, **options: str | int) -> DataFrame:
        there = {"journal": str(self.folder / "journal"), "table": "shop.orders", **options}
        if "tables" in options:
            del there["table"]
        loaded: DataFrame = read.format("tidemark").options(**there).load()
        return loaded

    def once(self, **options: str | int) -> DataFrame:
        return self.load(self.spark.session.read, **options)

    def stream(self, **options: str | int) -> DataFrame:
        return self.load(self.spark.session.readStream, **options)

    def run(self, rows: DataFrame, checkpoint: str = "checkpoint") -> list[int]:
        """Lets a query read what there is; the number of rows of each micro-batch."""
        query = (
            rows.writeStream.format("delta")
            .option("checkpointLocation", str(self.folder / checkpoint))
            .option("mergeSchema", "true")
            .trigger(availableNow=True)
            .start(str(self.folder / "out"))
        )
        try:
            query.awaitTermination()
        finally:
            read = [progress["numInputRows"] for progress in query.recentProgress]
        return [each for each in read if each]

    def arrived(self, *columns: str) -> list[tuple[Any, ...]]:
        read = self.spark.session.read.format("delta").load(str(self.folder / "out"))
        rows = read.orderBy("__scn", "__ordinal").select(*(columns or ("id",)))
        return [tuple(row) for row in rows.collect()]


@pytest.fixture
def shop(tmp_path: Path, spark: Spark) -> Iterator[Shop]:
    history = History(tmp_path / "journal")
    spark.session.dataSource.register(TidemarkSource)
    yield Shop(tmp_path, spark, history, history.table(ORDERS), history.table(PAYMENTS))
    history.store.close()


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_each_change_arrives_once(shop: Shop) -> None:
    """Micro-batches are as small as the options have it, a restart continues, and other columns end the query."""
    shop.seal(1, 2)
    shop.seal(3)
    shop.seal(4, 5)
    assert shop.run(shop.stream(maxRowsPerTrigger=3)) == [3, 2]
    assert shop.run(shop.stream()) == []
    shop.seal(6)
    before = shop.stream()
    shop.orders.close_version()
    shop.orders.schema = replace(ORDERS, columns=(*ORDERS.columns, FLAG))
    shop.seal(7)
    with pytest.raises(StreamingQueryException, match=r"ColumnsChanged: segment 5 .*'flag' \(INT\) came"):
        shop.run(before)
    assert shop.arrived() == [(n,) for n in range(1, 7)]
    assert shop.run(shop.stream()) == [1]
    scns = shop.arrived("__scn", "__op", "__segment", "__gtid", "id", "note", "flag")
    segments = (1, 1, 2, 3, 3, 4, 5)
    assert scns == [
        (n, "c", segment, f"{SOURCE}:{n}", n, f"n{n}", None) for n, segment in enumerate(segments, 1)
    ]


@pytest.mark.full
async def test_a_stream_whose_first_micro_batch_failed_lacks_nothing_after_a_restart(shop: Shop) -> None:
    """It wants what comes next, and a segment comes between its beginning and the end of its first micro-batch."""
    shop.spark.session.dataSource.register(_LateSource)
    shop.seal(1)
    latest = {"from": "latest"}
    failing = shop.stream(**latest).where("raise_error('no room') IS NULL")
    query = (
        failing.writeStream.format("delta")
        .option("checkpointLocation", str(shop.folder / "checkpoint"))
        .start(str(shop.folder / "out"))
    )
    await until((shop.folder / "begun").exists, "the stream begins")
    shop.seal(2, 3)
    with pytest.raises(StreamingQueryException, match="no room"):
        query.awaitTermination(60)
    shop.spark.session.dataSource.register(TidemarkSource)
    shop.seal(4)
    assert shop.run(shop.stream(**latest)) == [2, 1]
    assert shop.arrived() == [(2,), (3,), (4,)]


def test_a_stream_that_ended_within_a_segment_says_where_to_read_on(shop: Shop) -> None:
    shop.seal(1, 2)
    shop.seal(3, 4, 5)
    assert sum(shop.run(shop.stream(through=3))) == 3
    assert shop.run(shop.stream(through=3)) == []
    with pytest.raises(StreamingQueryException, match=r'WrongOffset: .*\("from", "4"\)'):
        shop.run(shop.stream())
    shop.seal(6)
    assert sum(shop.run(shop.stream(**{"from": 4}), "next")) == 3
    assert shop.arrived() == [(n,) for n in range(1, 7)]


def test_several_tables_come_with_whole_transactions(shop: Shop) -> None:
    shop.history.transaction((shop.orders, "c", (1, "a")), (shop.payments, "c", (9, None)))
    shop.history.seal()
    shop.history.transaction((shop.payments, "d", (9, None)), (shop.orders, "d", (1, "a")))
    shop.history.seal()
    both = shop.stream(tables="shop.orders, shop.payments")
    assert shop.run(both) == [4]
    assert shop.arrived("__table", "__op", "shop.orders.id", "shop.payments.id") == [
        ("shop.orders", "c", 1, None),
        ("shop.payments", "c", None, 9),
        ("shop.payments", "d", None, 9),
        ("shop.orders", "d", 1, None),
    ]


def test_what_is_between_two_places_is_read_once(shop: Shop) -> None:
    shop.seal(1, 2, 3)
    shop.seal(4, 5, 6)
    assert ids(shop.once()) == [1, 2, 3, 4, 5, 6]
    assert ids(shop.once(**{"from": 3, "through": 4})) == [3, 4]
    assert ids(shop.once(**{"from": f"{SOURCE}:1-2", "through": f"{SOURCE}:1-5"})) == [3, 4, 5]
    assert ids(shop.once(**{"from": "latest"})) == []
    chosen = shop.spark.session.read.schema("id BIGINT, __op STRING")
    assert [tuple(row) for row in shop.load(chosen, through=1).collect()] == [(1, "c")]


async def test_a_journal_that_spark_cannot_reach_is_read_through_the_service(
    tmp_path: Path, spark: Spark
) -> None:
    spark.session.dataSource.register(TidemarkSource)
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(2)
            tap.seal()
        behind = Shop(tmp_path, spark, tap.history, tap.orders, tap.items)
        assert await asyncio.to_thread(lambda: behind.run(behind.stream(journal=tap.url))) == [4]
        assert await asyncio.to_thread(behind.arrived) == [(1000 * n,) for n in range(4)]
        assert await asyncio.to_thread(lambda: ids(behind.once(journal=tap.url, through=2))) == [0, 1000]


def test_a_journal_in_s3_is_read_by_the_executors(tmp_path: Path, spark: Spark, s3: str) -> None:
    """A micro-batch after the other, once, and on from the checkpoint. Their environment has the account."""
    history = History(s3)
    spark.session.dataSource.register(TidemarkSource)
    shop = Shop(tmp_path, spark, history, history.table(ORDERS), history.table(PAYMENTS))
    shop.seal(1, 2)
    shop.seal(3)
    stored: dict[str, str | int] = {"journal": s3, "consumer": "orders"}
    assert shop.run(shop.stream(**stored, maxRowsPerTrigger=2)) == [2, 1]
    shop.seal(4)
    assert shop.run(shop.stream(**stored)) == [1]
    assert shop.arrived() == [(1,), (2,), (3,), (4,)]
    assert ids(shop.once(journal=s3, through=2)) == [1, 2]
    assert "orders" in history.store.consumers.all()
    history.store.close()


def test_what_is_wrong_is_named(shop: Shop) -> None:
    shop.seal(1)
    with pytest.raises(AnalysisException) as wrong:
        shop.stream(table="shop.ordrs", maxRowPerTrigger=1, journal=" ")
    said = str(wrong.value)
    assert "WrongOption: maxrowpertrigger: there is no such option; did you mean maxRowsPerTrigger?" in said
    assert "journal: it is empty; give the path or the URI that [journal] has" in said
    with pytest.raises(
        (AnalysisException, PythonException), match=r"NotYetSealed: through: the journal .* ends before 9"
    ):
        shop.once(through=9).collect()
