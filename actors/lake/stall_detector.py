"""Whether Spark gets on with what it was asked for.

A call to Spark can't be interrupted, may take long, and says nothing before it ends. So as long as one is under way
Spark is asked beside it how far it is, by a thread that does nothing else. Two things can be wrong:

- It doesn't answer: its JVM was stopped, or is busy with nothing but its memory. That's found as soon
  as an actor that hangs, since a JVM that's well answers at once, however much it has to do.
- It answers, but nothing gets on: no call has begun or ended, and no task has. That may be right for a while. A task
  may be a long one; some of a call is done by none, such as a commit; and an executor that falls silent is given up by
  Spark itself after two minutes (`spark.network.timeout`), which begins its tasks anew elsewhere. So the limit is
  longer than that. It's longer by far for what runs beside the batches, where VACUUM removes files without a task,
  and where nobody waits.

Whatever gets on counts for a batch, which may wait for what goes on beside it. For that only its own tasks count:
batches come and go for ever.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from actors.lake.spark_session import Pool

# Seconds. Together with the supervisor's own look an answer that's missing is found within 15.
LOOK_EVERY_S: Final = 1.0
ANSWERS_WITHIN_S: Final = 12.0
GETS_ON_WITHIN_S: Final = {Pool.BATCHES: 180.0, Pool.BESIDE: 1800.0}

_WHAT: Final = {Pool.BATCHES: "a batch", Pool.BESIDE: "what runs beside the batches"}

TaskProgress = Mapping[str, object]


class Pulse:
    """Knows of the calls that are under way, and feels for a sign of life meanwhile."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "spark-pulse")
        self._under_way = dict.fromkeys(Pool, 0)
        self._got_on = dict.fromkeys(Pool, 0.0)
        self._seen: TaskProgress = {}
        self._asked: float | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def batch(self) -> bool:
        """Whether a batch waits for a call."""
        return self._under_way[Pool.BATCHES] > 0

    @contextmanager
    def call(self, pool: Pool) -> Iterator[None]:
        """A call to Spark; its beginning and its end are signs of life."""
        self._under_way[pool] += 1
        self._got_on[pool] = time.monotonic()
        try:
            yield
        finally:
            self._under_way[pool] -= 1
            self._got_on[pool] = time.monotonic()

    def begin(self, progress: Callable[[], TaskProgress]) -> None:
        """Ask from now on; `progress` blocks until Spark answers, and the task ends with what it raises."""
        self.task = asyncio.create_task(self._follow(progress))

    async def end(self) -> None:
        """Ask no more; waits for an answer that's still to come."""
        if self.task is not None:
            self.task.cancel()
            # What it had found, whoever waits for Spark finds as well.
            await asyncio.gather(self.task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)

    async def followed(self) -> tuple[()]:
        """Until no more is asked; raises what Spark's answer raised."""
        if (task := self.task) is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        return ()

    def stuck(self) -> str | None:
        """What's wrong, None if it's well."""
        now, asked = time.monotonic(), self._asked
        if asked is not None and now - asked > ANSWERS_WITHIN_S:
            return f"Spark hasn't answered for {ANSWERS_WITHIN_S:g} s"
        for pool, limit in GETS_ON_WITHIN_S.items():
            if self._under_way[pool] and now - self._got_on[pool] > limit:
                return f"Spark answers, but {_WHAT[pool]} hasn't got on for {limit:g} s"
        return None

    async def _follow(self, progress: Callable[[], TaskProgress]) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if any(self._under_way.values()):
                self._note(
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, progress)
                )

    def _ask(self, progress: Callable[[], TaskProgress]) -> TaskProgress:
        # It's the thread that takes note of the answer: the event loop may be late.
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
