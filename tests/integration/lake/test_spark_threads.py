"""The priorities of a real Spark's threads, and its end."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from actors.lake.threads.thread_priorities import NICE
from pipeline.config.settings import SparkSettings


@pytest.fixture(scope="module")
def own_spark(spark_settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """A Spark of its own: one that has run other tests has threads that a task began."""
    spark = spark_session.start_local(spark_settings, tmp_path_factory.mktemp("spark"))
    yield spark
    if spark.alive:
        spark.stop()


def test_tasks_give_way_and_nobody_else(own_spark: Spark) -> None:
    spark = own_spark
    spark.session.range(0, 1000, 1, 8).selectExpr("sum(id)").collect()
    nices: dict[str, set[int]] = {}
    for thread in Path(f"/proc/{spark.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            name = (thread / "comm").read_text().rstrip("\n")
            nices.setdefault(name, set()).add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    tasks = [nice for name, nice in nices.items() if name.startswith("Executor task")]
    assert tasks
    assert all(nice == {max(NICE, own)} for nice in tasks), nices
    # What takes a task's result is begun by the dispatcher as well.
    assert not {
        name
        for name, nice in nices.items()
        if nice != {own} and not name.startswith(("Executor task", "dispatcher-even", "task-result"))
    }


def test_a_jvm_that_is_killed_while_it_is_to_stop_is_no_error(
    own_spark: Spark, spark_settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may have asked it for anything since, so nobody knows that it's gone."""
    spark = own_spark
    stop = spark.session.stop

    def killed_first() -> None:
        os.kill(spark.pid, signal.SIGKILL)
        os.waitid(os.P_PID, spark.pid, os.WEXITED | os.WNOWAIT)
        stop()

    monkeypatch.setattr(spark.session, "stop", killed_first)
    spark.stop()
    again = spark_session.start_local(spark_settings, tmp_path)
    try:
        assert again.session.range(3).count() == 3
    finally:
        again.stop()
