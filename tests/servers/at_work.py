"""Work on threads beside a test, until the test ends it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Result = TypeVar("_Result")


@contextmanager
def at_work(works: Sequence[Callable[[threading.Event], _Result]]) -> Iterator[list[_Result]]:
    """Runs each of these on its own thread, until the event that it receives is set.

    After the context the list has their results. An error of one of them is raised there.
    """
    stop, results = threading.Event(), list[_Result]()
    with ThreadPoolExecutor(len(works)) as pool:
        working = [pool.submit(work, stop) for work in works]
        try:
            yield results
        finally:
            stop.set()
    results += [work.result() for work in working]
