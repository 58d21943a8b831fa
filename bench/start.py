"""`make bench-start`: how long a service takes until its compiled code is ready, at first and later, and its journal.

A first start after an install finds no machine code in numba's cache and compiles all of it, which is why it's
allowed a minute; a later one loads it. Each start is a new process that loads what `tidemark run` does, timed from
outside. Files are in the system's cache: nothing here waits for the disk.

The journal has ten thousand segments, each with a file and an entry of its own. How long it takes to take it up, and to
find the last one and what a crash may have left, is told by a new process as well.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final
from unittest.mock import patch

from bench._report import Figure, Peer, report
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer
from tests.integration.history import History

_TIMES: Final = 5

_SEGMENTS: Final = 10_000
_TAKE_UP: Final = """
import sys, time
from actors.journal.store import JournalStore

begun = time.perf_counter()
store = JournalStore.open_single_writer(sys.argv[1], "test")
last = store.recover()
print(time.perf_counter() - begun, last.segment)
"""
_ORDERS: Final = TableSchema(
    TableId("shop", "orders"), (Column("id", Integer(8, unsigned=False), nullable=False),), (0,)
)

_FIRST_ALLOWED_S: Final = 60.0
_LATER_ALLOWED_S: Final = 2.0


def main() -> None:
    """One start with an empty cache, and several with what it left."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as cache:
        first = _started(cache)
        later = median(_started(cache) for _ in range(_TIMES))
        journal = f"{cache}/journal"
        _fill(journal)
        taken_up = median(_taken_up(journal) for _ in range(_TIMES))
    report(
        "start",
        [
            Figure("first start after an install", first, "s", Peer("allowed", _FIRST_ALLOWED_S)),
            Figure("later start", later, "s", Peer("allowed", _LATER_ALLOWED_S)),
            Figure(f"a journal of {_SEGMENTS:,} segments", taken_up, "s", Peer("allowed", _LATER_ALLOWED_S)),
        ],
    )


def _started(cache: str) -> float:
    """Seconds from the launch of a process to its end, which comes once all is imported."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "actors.service.warm_up"],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        check=True,
    )
    return time.perf_counter() - begun


def _fill(journal: str) -> None:
    with patch("actors.journal.files.sync"):  # nothing of it has to outlast anything
        history = History(Path(journal))
        with closing(history.store):
            orders = history.table(_ORDERS)
            for number in range(_SEGMENTS):
                history.transaction((orders, "c", (number,)))
                history.seal()


def _taken_up(journal: str) -> float:
    """Seconds that it takes, of a process that has loaded its code."""
    program = [sys.executable, "-c", _TAKE_UP, journal]
    seconds, last = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert int(last) == _SEGMENTS
    return float(seconds)


if __name__ == "__main__":
    main()
