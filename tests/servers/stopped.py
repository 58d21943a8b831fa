"""Stops a process with SIGSTOP, and tells whether one is stopped."""

import os
import signal
import time
from pathlib import Path
from typing import Final

_WITHIN_S: Final = 60.0
# A thread's state follows its name, which may have any character in it.
_STOPPED: Final = ("T", "Z", "X")


def stop(pid: int) -> None:
    """Stops a process (SIGSTOP). When this returns none of its threads runs any more.

    One of them has to take the signal first. On a busy machine the others run meanwhile.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _WITHIN_S
    while not all(_state(task) in _STOPPED for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"{pid} hasn't stopped"
        # There is no event for it.
        time.sleep(0.001)


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has stopped a process."""
    return _state(Path(f"/proc/{pid}")) == "T"


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:  # it has ended
        return "X"
