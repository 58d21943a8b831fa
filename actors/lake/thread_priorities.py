"""Spark's tasks give way to batches, which have none: a commit is made by the thread that's asked for it.

Beside a merge a batch shares the cores with tasks that compute, and the scheduler of the system gives each of its steps
a turn and no more: what was committed on the source took 1.0 to 1.4 s until it could be read, instead of 0.4. So the
threads of tasks have a lower priority. They have it from the one that begins them, Spark's dispatcher: on Linux a
thread begins with the priority of its maker, and the JVM leaves it at that (`ThreadPriorityPolicy` 0).

Where the cores have nothing else to do, tasks have all of them as before.

Source: sched(7), "The nice value"; setpriority(2), "C library/kernel differences": it's a thread's own.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# A thread of tasks has a tenth of the time of one that isn't, where both want it. With 5 it has a third, which batches
# still feel.
NICE: Final = 10

# The beginnings of their names, of which Linux keeps 15 letters. Tasks that are there have been begun before.
_GIVE_WAY: Final = ("dispatcher-even", "Executor task")


def lower_task_priority(pid: int) -> None:
    """Let the tasks of the Spark in this JVM have what time is left; nothing where there's no Linux."""
    threads = Path(f"/proc/{pid}/task")
    for thread in threads.iterdir() if threads.is_dir() else ():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if (thread / "comm").read_text().startswith(_GIVE_WAY):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), NICE)
