"""A real Spark is asked how far it is: what gets on isn't taken for hung, and what stands still is."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Event

import pytest
from py4j.protocol import Py4JJavaError

from actors.lake.files.file_placement import LakeFiles
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from actors.lake.threads import stall_detector
from actors.lake.threads.scheduler_pools import Pool
from actors.lake.threads.stall_detector import (
    GETS_ON_WITHIN_S,
    SPARK_ANSWERS_WITHIN_S,
    SPARK_EVERY_S,
    StallDetector,
)
from actors.runtime.supervisor import RestartLimits
from pipeline.lake.batch import Piece
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.columns import columns
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer
from tests.integration.history import History
from tests.integration.source.test_lost_connections import HUNG_AFTER_S
from tests.servers.awaiting import until
from tests.servers.stopped import stop

# So many tasks that it would take long.
LONG = "SELECT java_method('java.lang.Thread', 'sleep', 10L) FROM range(0, 20000, 1, 20000)"


@asynccontextmanager
async def felt(spark: Spark) -> AsyncIterator[StallDetector]:
    pulse = StallDetector()
    pulse.begin(spark.progress)
    try:
        yield pulse
    finally:
        await pulse.end()


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_detector, "SPARK_EVERY_S", 0.1)


def got_on_since(pulse: StallDetector, pool: Pool) -> Callable[[], bool]:
    """Whether there has been a sign of life since now."""
    before = pulse._got_on[pool]
    return lambda: pulse._got_on[pool] > before


@pytest.mark.parametrize("pool", Pool)
async def test_a_long_call_gets_on_as_long_as_its_tasks_end(spark: Spark, pool: Pool) -> None:
    def work() -> None:
        if pool is Pool.BATCHES:
            spark.session.sql(LONG).collect()
        else:
            with spark_session.side_session(spark.session, {}) as session:
                session.sql(LONG).collect()

    async with felt(spark) as pulse:
        with pulse.call(pool):
            working = asyncio.create_task(asyncio.to_thread(work))
            try:
                for _ in range(3):
                    await until(got_on_since(pulse, pool), "it gets on", ended=working.done)
                assert pulse.stuck() is None
            finally:
                spark.session.sparkContext.cancelAllJobs()
                with pytest.raises(Py4JJavaError, match="SPARK_JOB_CANCELLED"):
                    await working
        # What goes on beside may be what a batch waits for, but not the other way round.
        assert pulse._got_on[Pool.BATCHES] > 0
        assert (pulse._got_on[Pool.BESIDE] > 0) == (pool is Pool.BESIDE)


@pytest.mark.parametrize(
    ("pool", "what"), [(Pool.BATCHES, "a batch"), (Pool.BESIDE, "what runs beside the batches")]
)
async def test_a_call_that_does_not_get_on_is_found_though_spark_answers(
    spark: Spark, pool: Pool, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GETS_ON_WITHIN_S, pool, 0.5)
    ended = Event()
    told = f"Spark answers, but {what} hasn't got on for 0.5 s"
    async with felt(spark) as pulse:
        with pulse.call(pool):
            call = asyncio.create_task(asyncio.to_thread(ended.wait))
            try:
                await until(lambda: pulse.stuck() == told, "it's found")
            finally:
                ended.set()
                await call
        assert pulse.stuck() is None


@pytest.mark.parametrize("rewritten", [False, True])
async def test_a_batch_gets_on_as_long_as_pieces_of_its_files_come(
    spark: Spark, tmp_path: Path, rewritten: bool
) -> None:
    """A large transaction has no task meanwhile, and takes long where its files are rewritten or go to a store."""
    notes = TableSchema(TableId("shop", "notes"), (Column("id", Integer(4, unsigned=False), False),), (0,))
    history = History(tmp_path / "journal")
    table = history.table(notes)
    with closing(history.store):
        for number in range(4):
            history.transaction(*((table, "c", (id_,)) for id_ in range(10 * number, 10 * number + 10)))
            history.seal()
        kind = "bigint" if rewritten else "int"
        there = {each.name: Stored(each.name, each.type) for each in columns(notes, Tier.CHANGELOG)}
        there["id"] = Stored("id", kind)
        files = [history.store.entry(segment).files[0] for segment in range(1, 5)]
        pieces = [
            Piece(segment, 0, file.path, notes, file.rows, file.bytes, absent=False)
            for segment, file in enumerate(files, 1)
        ]
        async with felt(spark) as pulse:
            signs: list[float] = []

            def placed() -> None:
                pulse.advanced(Pool.BATCHES)
                signs.append(pulse._got_on[Pool.BATCHES])

            with pulse.call(Pool.BATCHES):
                began = pulse._got_on[Pool.BATCHES]
                (tmp_path / "table").mkdir()
                to = str(tmp_path / "table")
                LakeFiles(history.store, placed).place(to, Tier.CHANGELOG, pieces, there)
            assert len(signs) == (8 if rewritten else 4)
            assert sorted({began, *signs}) == [began, *signs]
            assert pulse._got_on[Pool.BESIDE] == 0


async def test_a_jvm_that_stands_still_is_found(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_detector, "SPARK_ANSWERS_WITHIN_S", 0.5)
    async with felt(spark) as pulse:
        stop(spark.pid)
        try:
            with pulse.call(Pool.BATCHES):
                await until(lambda: pulse.stuck() == "Spark hasn't answered for 0.5 s", "it's found")
        finally:
            os.kill(spark.pid, signal.SIGCONT)
        await until(lambda: pulse.stuck() is None, "it answers again")


def test_it_is_found_as_soon_as_an_actor_that_hangs() -> None:
    assert SPARK_EVERY_S + SPARK_ANSWERS_WITHIN_S + RestartLimits().look_every_s < HUNG_AFTER_S
