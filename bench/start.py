"""`make bench-start`: how long a service takes until its compiled code is ready, at first and later.

A first start after an install finds no machine code in numba's cache and compiles all of it, which is why it's
allowed a minute; a later one loads it. Each start is a new process that loads what `tidemark run` does, timed from
outside. Files are in the system's cache: nothing here waits for the disk.
"""

import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Final

from bench._report import Figure, Peer, report

_READY: Final = "from actors import loading; loading.load()"
_TIMES: Final = 5

_FIRST_ALLOWED_S: Final = 60.0
_LATER_ALLOWED_S: Final = 2.0


def main() -> None:
    """One start with an empty cache, and several with what it left."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as cache:
        first = _started(cache)
        later = median(_started(cache) for _ in range(_TIMES))
    report(
        "start",
        [
            Figure("first start after an install", first, "s", Peer("allowed", _FIRST_ALLOWED_S)),
            Figure("later start", later, "s", Peer("allowed", _LATER_ALLOWED_S)),
        ],
    )


def _started(cache: str) -> float:
    """Seconds from the launch of a process to its end, which comes once all is imported."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", _READY], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
