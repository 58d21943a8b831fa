"""Work that goes on beside a test, on threads, until the test is done with it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Result = TypeVar("_Result")


@contextmanager
def at_work(works: Sequence[Callable[[threading.Event], _Result]]) -> Iterator[list[_Result]]:
    """Each of these on a thread of its own, until the event that it's given tells it to stop.

    Behind the context the list has what they returned. What one of them raised is raised there.
    """
    stop, results = threading.Event(), list[_Result]()
    with ThreadPoolExecutor(len(works)) as pool:
        working = [pool.submit(work, stop) for work in works]
        try:
            yield results
        finally:
            stop.set()
    results += [work.result() for work in working]
