"""The priorities of a real Spark's threads."""

import os
from contextlib import suppress
from pathlib import Path

from actors.lake import spark_session
from actors.lake.threads.thread_priorities import NICE
from pipeline.config.settings import SparkSettings


def test_tasks_give_way_and_nobody_else(spark_settings: SparkSettings, tmp_path: Path) -> None:
    # A Spark of its own: one that has run other tests has threads that a task began.
    spark = spark_session.start_local(spark_settings, tmp_path)
    try:
        _judge(spark)
    finally:
        spark.stop()


def _judge(spark: spark_session.Spark) -> None:
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
