"""Code that only measures or reports never fails its caller.

    @measuring
    def _measure_windows(self, orders: tuple[Order, ...]) -> None: ...

An error in such a function is counted (`tidemark_measuring_errors_total`), logged once for each place and type, and
goes no further. The same holds for errors of `Metrics` itself, of an actor's `status` and of the log. A test
(`tests/architecture/test_measuring.py`) ensures that all code that measures or reports is such a function.
"""

import threading
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import structlog

log = structlog.get_logger()

Arguments = ParamSpec("Arguments")
Told = TypeVar("Told")

# How often each has happened in this process: its place, and the error's type.
_failures: Final[Counter[tuple[str, str]]] = Counter()
_counting: Final = threading.Lock()


def contain_errors(function: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The function, whose errors go no further."""

    @wraps(function)
    def measured(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the work continues after any error
            count_failure(function.__qualname__, error)

    return measured


def value_or(place: str, tell: Callable[[], Told], otherwise: Told) -> Told:
    """Returns the result of `tell`, and `otherwise` if it fails."""
    try:
        return tell()
    except Exception as error:  # noqa: BLE001 - other reports don't depend on this one
        count_failure(place, error)
        return otherwise


def count_failure(place: str, error: Exception) -> None:
    """Counts an error of measuring or reporting there, and logs the first of its kind."""
    kind = place, type(error).__name__
    with _counting:
        _failures[kind] += 1
        first = _failures[kind] == 1
    if first:
        log.error("measuring failed", place=place, exc_info=error)


def failure_count() -> int:
    """Returns how often measuring or reporting has failed in this process."""
    with _counting:
        return _failures.total()
