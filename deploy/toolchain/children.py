"""Child processes that never outlive us, however we end.

The kernel sends a child SIGKILL when the thread that started it dies (prctl(2), PR_SET_PDEATHSIG, asked for by
util-linux's setpriv, which hands it on through exec). For that reason one thread, which lives as long as the
interpreter, starts them all: a child that was started by a worker thread would die with the worker.
"""

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_parent = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parent")


def start(command: Sequence[str | Path], log: Path) -> "subprocess.Popen[bytes]":
    """Start a program that appends what it prints to a log.

    It has a session of its own, which keeps the terminal's Ctrl-C from it: its owner decides when it stops.
    """
    words = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
    with log.open("ab") as file:
        return _parent.submit(
            subprocess.Popen,
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        ).result()
