"""The SparkSink on a standalone cluster that is lost: what's left is told from a failure, and the next life goes on."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from actors.lake.spark import spark_session
from deploy.toolchain.parts import Parts
from pipeline import metrics as catalogue
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.errors import Transient
from tests.integration.lake.test_spark_sink import House
from tests.servers.at_work import at_work
from tests.servers.spark_cluster import SparkCluster, children

pytestmark = pytest.mark.full
LOOK_EVERY_S = 0.05


def on(cluster: SparkCluster, spark: SparkSettings) -> SparkSettings:
    return replace(spark, master=cluster.master, conf={**spark.conf, **cluster.conf})


@pytest.fixture
def house(spark_settings: SparkSettings, spark_cluster: SparkCluster, tmp_path: Path) -> House:
    lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_rows=1, merge_after_s=0)
    return House(tmp_path, on(spark_cluster, spark_settings), lake)


async def test_executors_that_all_die_are_transient_and_the_next_life_goes_on(
    house: House, spark_cluster: SparkCluster
) -> None:
    def kill(over: threading.Event) -> None:
        known: Any = house.up.spark.session.sparkContext._jsc
        # Not before the driver has given them work: those that die as they're launched are replaced for ever.
        while not over.wait(LOOK_EVERY_S):
            try:
                told = known.sc().statusTracker().getExecutorInfos()
            except (Py4JError, ConnectionError):  # the driver has ended
                return
            if any(each.numRunningTasks() for each in told):
                for executor in spark_cluster.executors:
                    with suppress(ProcessLookupError):
                        os.kill(executor, signal.SIGKILL)

    async with house.life() as running:
        await house.until(lambda: house.metrics.value(catalogue.SPARK_UP) == 1, running)
        with at_work([kill]):
            await house.write(1, 1)
            with pytest.raises(Transient, match="Spark has lost its cluster, or too many executors"):
                await running
    async with house.life() as running:
        await house.write(2, 2)
        await house.until(house.arrived, running)
        status = house.sink.status
        await house.until(lambda: status()["tables"]["shop.items"]["merged"] == 2, running)
        house.mailbox.close()
        await running
    house.history.store.close()
    assert house.changes("items") == house.changes("orders") == [(1, 1, 1), (2, 2, 2)]


@pytest.mark.full
async def test_python_in_an_executor_would_be_seen(
    spark_settings: SparkSettings, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    """What the kills of executors say of Python there is said by a look that finds one."""
    spark = spark_session.start_local(on(spark_cluster, spark_settings), tmp_path)
    try:
        doubled = spark.session.sparkContext.parallelize([1, 2], 2).map(lambda n: 2 * n)
        assert await asyncio.to_thread(doubled.collect) == [2, 4]
        assert any(children(executor) for executor in spark_cluster.executors)
    finally:
        spark.stop()


@pytest.mark.full
async def test_a_lost_master_is_transient_at_the_start(
    house: House, parts: Parts, spark_settings: SparkSettings, tmp_path: Path
) -> None:
    with SparkCluster(parts.java_home, tmp_path / "other") as cluster:
        lost = on(cluster, spark_settings)
    house.spark = lost
    async with house.life() as running:
        with pytest.raises(Transient, match="Spark didn't start at spark://"):
            await running
    house.history.store.close()
