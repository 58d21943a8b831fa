"""Whose priority is lowered; `tests/integration/lake/test_spark_threads.py` has Spark's own threads."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import get_native_id

import pytest

from actors.lake.threads.thread_priorities import NICE, lower_own_priority, lower_task_priority

# A process whose one thread has this name and, beside its parent's, this nice value, until its input ends.
_NAMED = """import os, sys
open("/proc/self/comm", "w").write(sys.argv[1])
os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[2]))
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("name", "nice", "becomes"),
    [("dispatcher-even", 0, NICE), ("dispatcher-even", 19, 19), ("Executor task l", 15, 15), ("main", 0, 0)],
)
def test_tasks_give_way_and_no_priority_is_raised(name: str, nice: int, becomes: int) -> None:
    """A service that is started with `nice` and isn't root may not raise it."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    nice, becomes = max(own, nice), max(own, becomes)
    command = [sys.executable, "-c", _NAMED, name, str(nice)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        lower_task_priority(process.pid)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == becomes
        process.communicate()


def test_a_thread_of_our_own_gives_way_alone() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1, initializer=lower_own_priority) as thread:
        has = thread.submit(lambda: os.getpriority(os.PRIO_PROCESS, get_native_id())).result()
    assert (has, os.getpriority(os.PRIO_PROCESS, 0)) == (max(NICE, own), own)
