"""Lowers the priority of Spark's task threads, so that merges don't delay the commits of batches. The service's own
threads that read whole tables have the same priority.

A batch has no tasks: the thread that calls Delta makes the commit. Beside a merge it shares the cores with tasks that
compute, and the system's scheduler gives each thread its turn. What was committed on the source then took 1.0 to 1.4 s
until it could be read, instead of 0.4 s. So the threads of tasks have a lower priority. They inherit it from the thread
that starts them, Spark's dispatcher. On Linux a thread begins with the priority of its creator, and the JVM doesn't
change it (`ThreadPriorityPolicy` 0).

If the cores have nothing else to do, tasks use all of them as before.

Source: sched(7), "The nice value"; setpriority(2), "C library/kernel differences": the value belongs to a thread.
"""

import os
from contextlib import suppress
from pathlib import Path
from threading import get_native_id
from typing import Final

# A thread of tasks has a tenth of the time of one that isn't, where both want it. With 5 it has a third, which batches
# still feel.
NICE: Final = 10

# The beginnings of their names, of which Linux keeps 15 letters. Tasks that are there have been begun before.
_GIVE_WAY: Final = ("dispatcher-even", "Executor task")


def lower_task_priority(pid: int) -> None:
    """Lets the tasks of the Spark in this JVM use only the time that is left. Does nothing without Linux."""
    threads = Path(f"/proc/{pid}/task")
    for thread in threads.iterdir() if threads.is_dir() else ():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if (thread / "comm").read_text().startswith(_GIVE_WAY):
                has = os.getpriority(os.PRIO_PROCESS, int(thread.name))
                # Only root may raise it, if the whole service has a lower one.
                os.setpriority(os.PRIO_PROCESS, int(thread.name), max(NICE, has))


def lower_own_priority() -> None:
    """Lets the thread that calls it use only the time that is left. Does nothing without Linux."""
    thread = get_native_id()
    if Path(f"/proc/self/task/{thread}").is_dir():
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
