"""A process that stands still."""

import os
import signal
import time
from pathlib import Path
from typing import Final

_WITHIN_S: Final = 60.0
# A thread's state is behind its name, which may have any sign in it.
_STOPPED: Final = ("T", "Z", "X")


def stop(pid: int) -> None:
    """Stop a process (SIGSTOP). Where this returns none of its threads runs any more.

    One of them has to take the signal first; on a busy machine the others go on meanwhile.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _WITHIN_S
    while not all(_state(task) in _STOPPED for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"{pid} hasn't stopped"
        # Nobody tells it.
        time.sleep(0.001)


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:  # it has ended
        return "X"
