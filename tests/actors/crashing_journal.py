"""A process that seals segments and is killed: at each single step of it, or whenever its parent likes.

    python -m tests.actors.crashing_journal seal DIRECTORY    a journal for each step of sealing and way to die at it
    python -m tests.actors.crashing_journal retain DIRECTORY  the same for the steps of removing old segments
    python -m tests.actors.crashing_journal loop LOCATION     seals endlessly, and prints the number of each segment

A killed process loses nothing that it has written: the kernel has it. A power failure also damages a file that isn't
synced yet. The test imitates that by cutting the file short (`torn`) right before the kill.
"""

import json
import os
import re
import signal
import stat
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.journal.store import JournalStore
from pipeline.config.settings import JournalSettings
from tests.actors.segments import COMMIT_TIME, seal

WAYS = ("before", "after", "torn")
CALLS = ("mkdir", "rename", "fsync", "unlink", "rmdir")
GOOD_SEGMENTS = 2
# How many segments there are when retention begins, and how many of them go.
RETAINED, GOING = 3, 2
ALL_OLD = JournalSettings("journal", keep_hours=0)
LATER = COMMIT_TIME + 3_600_000_000
EPOCH = re.compile("(?<=-)[0-9]{8}-[0-9a-f]{8}")


class Steps:
    """The filesystem's calls while a segment is sealed, by name; at the given one the process dies."""

    def __init__(self, deadly: int | None, way: str) -> None:
        self.names: list[str] = []
        self._deadly = deadly
        self._way = way
        for call in CALLS:
            setattr(os, call, self._wrapped(call, getattr(os, call)))

    def _wrapped(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            target = Path(f"/proc/self/fd/{args[0]}").readlink() if call == "fsync" else Path(args[0])
            self.names.append(
                f"{call} {EPOCH.sub('EPOCH', f'{target.parent.name}/{target.name}').lstrip('/')}"
            )
            deadly = len(self.names) - 1 == self._deadly
            if deadly and self._way == "torn" and call == "fsync" and stat.S_ISREG(target.stat().st_mode):
                os.truncate(target, target.stat().st_size // 2)
            if deadly and self._way != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **kwargs)
            if deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return step


def opened(directory: str | Path) -> tuple[JournalStore, int]:
    store = JournalStore.open_single_writer(directory, "test")
    last = store.recover()
    return store, last.segment if last else 0


def seal_and_die(directory: Path, deadly: int | None, way: str) -> None:
    """Seal the good segments, then one more, dying in that; where no step is deadly, leave their names."""
    store, _ = opened(directory)
    for number in range(1, GOOD_SEGMENTS + 1):
        seal(store, number)
    steps = Steps(deadly, way)
    seal(store, GOOD_SEGMENTS + 1)
    (directory.parent / "steps.json").write_text(json.dumps(steps.names))


def retain_and_die(directory: Path, deadly: int | None, way: str) -> None:
    """Seal segments, let a consumer have them, and remove all but the last one, dying in that."""
    store, _ = opened(directory)
    for number in range(1, RETAINED + 1):
        seal(store, number)
    store.consumers.record_progress("lake", RETAINED)
    steps = Steps(deadly, way)
    store.retain(ALL_OLD, LATER)
    (directory.parent / "steps.json").write_text(json.dumps(steps.names))


Act = Callable[[Path, int | None, str], None]


def in_a_child(act: Act, directory: Path, deadly: int | None, way: str) -> int:
    """How a forked child that does this ended: its exit code, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act(directory, deadly, way)
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_each_step(act: Act, directory: Path) -> None:
    assert in_a_child(act, directory / "whole", None, "") == 0
    for deadly in range(len(json.loads((directory / "steps.json").read_text()))):
        for way in WAYS:
            assert in_a_child(act, directory / f"{deadly}-{way}", deadly, way) == -signal.SIGKILL


def seal_for_ever(location: str) -> None:
    store, number = opened(location)
    while True:
        number += 1
        seal(store, number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1]:
        case "seal":
            die_at_each_step(seal_and_die, Path(sys.argv[2]))
        case "retain":
            die_at_each_step(retain_and_die, Path(sys.argv[2]))
        case "loop":
            seal_for_ever(sys.argv[2])
