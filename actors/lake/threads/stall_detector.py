"""Finds out whether Spark advances with its calls.

A call to Spark can't be interrupted, may take long, and shows nothing before it ends. So while a call is under way, a
thread that does nothing else asks Spark for its progress. Two things can be wrong:

- Spark doesn't answer: its JVM was stopped, or only collects garbage. That is found as soon as an actor that hangs,
  since a healthy JVM answers at once, however much it has to do.
- Spark answers, but nothing advances: no call has begun or ended, and no task has. That may be right for a while. A
  task may be long. Parts of a call, such as a commit, have no task. And Spark itself gives up a silent executor after
  two minutes (`spark.network.timeout`) and restarts its tasks elsewhere. So the limit is longer than that. It is much
  longer for the work beside the batches, where VACUUM removes files without a task and no one waits.

This process brings the journal's files into the lake without a task, and a large transaction has many. It also syncs
what Spark has written, which a slow disk may take minutes for. So it says that a batch advances with each piece of a
file (`advanced`).

For a batch any progress counts, since a batch may wait for the work beside it. For that work only its own tasks count,
because batches begin and end all the time.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from actors.lake.threads.scheduler_pools import Pool

# Seconds. Together with the supervisor's own look, a missing answer is found within 15 s.
SPARK_EVERY_S: Final = 1.0
SPARK_ANSWERS_WITHIN_S: Final = 12.0
GETS_ON_WITHIN_S: Final = {Pool.BATCHES: 180.0, Pool.BESIDE: 1800.0}

_WHAT: Final = {Pool.BATCHES: "a batch", Pool.BESIDE: "what runs beside the batches"}

TaskProgress = Mapping[str, object]


class StallDetector:
    """Knows the calls that are under way, and looks for a sign of life meanwhile."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "spark-pulse")
        self._under_way = dict.fromkeys(Pool, 0)
        self._got_on = dict.fromkeys(Pool, 0.0)
        self._seen: TaskProgress = {}
        self._asked: float | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def batch(self) -> bool:
        """Returns whether a batch waits for a call."""
        return self._under_way[Pool.BATCHES] > 0

    @contextmanager
    def call(self, pool: Pool) -> Iterator[None]:
        """A call to Spark. Its beginning and its end are signs of life."""
        self._under_way[pool] += 1
        self._got_on[pool] = time.monotonic()
        try:
            yield
        finally:
            self._under_way[pool] -= 1
            self._got_on[pool] = time.monotonic()

    def advanced(self, pool: Pool) -> None:
        """Takes note of a sign of life of a call, from its thread: it has done something without a task."""
        self._got_on[pool] = time.monotonic()

    def begin(self, progress: Callable[[], TaskProgress]) -> None:
        """Begins to ask. `progress` blocks until Spark answers, and the task ends with the error that it raises."""
        self.task = asyncio.create_task(self._follow(progress))

    async def end(self) -> None:
        """Stops asking, and waits for an answer that is under way."""
        if self.task is not None:
            self.task.cancel()
            # The caller that waits for Spark meets the same error.
            await asyncio.gather(self.task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)

    async def followed(self) -> tuple[()]:
        """Returns when no one asks any more. Raises the error of Spark's answer."""
        if (task := self.task) is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        return ()

    def stuck(self) -> str | None:
        """Returns what is wrong; None if Spark is healthy."""
        now, asked = time.monotonic(), self._asked
        if asked is not None and now - asked > SPARK_ANSWERS_WITHIN_S:
            return f"Spark hasn't answered for {SPARK_ANSWERS_WITHIN_S:g} s"
        for pool, limit in GETS_ON_WITHIN_S.items():
            if self._under_way[pool] and now - self._got_on[pool] > limit:
                return f"Spark answers, but {_WHAT[pool]} hasn't got on for {limit:g} s"
        return None

    async def _follow(self, progress: Callable[[], TaskProgress]) -> None:
        while True:
            await asyncio.sleep(SPARK_EVERY_S)
            if any(self._under_way.values()):
                self._note(
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, progress)
                )

    def _ask(self, progress: Callable[[], TaskProgress]) -> TaskProgress:
        # The thread itself records the answer, because the event loop may be late.
        self._asked = time.monotonic()
        try:
            return progress()
        finally:
            self._asked = None

    def _note(self, now_seen: TaskProgress) -> None:
        before, self._seen = self._seen, now_seen
        if now_seen != before:
            self._got_on[Pool.BATCHES] = time.monotonic()
        if now_seen.get(Pool.BESIDE) != before.get(Pool.BESIDE):
            self._got_on[Pool.BESIDE] = time.monotonic()
