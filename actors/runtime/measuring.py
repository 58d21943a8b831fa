"""What only measures or tells never fails whoever does the work.

    @measuring
    def _measure_windows(self, orders: tuple[Order, ...]) -> None: ...

An error in such a function is counted (`tidemark_measuring_errors_total`), told once for each place and type, and goes
no further. So are the errors of `Metrics` itself, of an actor's `status` and of the log. A test
(`tests/architecture/test_measuring.py`) holds that whatever computes what it measures or tells is such a function.
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


def measuring(function: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The function, whose errors go no further."""

    @wraps(function)
    def measured(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
            failed(function.__qualname__, error)

    return measured


def or_else(place: str, tell: Callable[[], Told], otherwise: Told) -> Told:
    """What `tell` gives, and `otherwise` where it fails."""
    try:
        return tell()
    except Exception as error:  # noqa: BLE001 - whatever it is, what others tell is told
        failed(place, error)
        return otherwise


def failed(place: str, error: Exception) -> None:
    """Count that measuring or telling failed there, and tell the first such error."""
    kind = place, type(error).__name__
    with _counting:
        _failures[kind] += 1
        first = _failures[kind] == 1
    if first:
        log.error("measuring failed", place=place, exc_info=error)


def failures() -> int:
    """How often measuring or telling has failed in this process."""
    with _counting:
        return _failures.total()
