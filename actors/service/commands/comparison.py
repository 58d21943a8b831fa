"""`tidemark verify` once, or again and again until an interruption; its exit code is the worst result of all."""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from pipeline.snapshot.snapshot import DROPPED

# Exit codes of a comparison: all is equal, something differs, or not all could be compared.
EQUAL: Final = 0
DIFFERENT: Final = 1
UNJUDGED: Final = 2

_SEVERITY: Final = (EQUAL, UNJUDGED, DIFFERENT)

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str) -> float:
    """Returns the seconds of a duration such as 90s, 30m, 24h or 7d. Raises ValueError for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is no duration: write 90s, 30m, 24h or 7d")
    return float(found[1]) * _SECONDS[found[2]]


def result_code(results: Collection[Mapping[str, Any]]) -> int:
    """Returns the exit code of a verification with these results, one for each table, as /snapshots gives them.

    A table that a statement has dropped has no rows to compare. If there are only such tables, nothing was compared.
    """
    there = [each for each in results if not each["reason"].startswith(DROPPED)]
    verdicts = {(each["repaired"] or each)["verdict"] for each in there}
    if "different" in verdicts:
        return DIFFERENT
    return UNJUDGED if "unjudged" in verdicts or (results and not there) else EQUAL


def repeat_comparison(
    compare: Callable[[], tuple[int, Sequence[str]]],
    tell: Callable[[str], object],
    every_s: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Compares once, or every so often (s) until an interruption. Returns the worst exit code of all comparisons.

    `compare` returns the exit code and the lines to tell. A comparison that takes longer than `every_s` is followed by
    the next one at once. One that is interrupted counts only if it is the first. What was printed counts. What can't be
    printed, as on a full disk, counts too, and is the last.
    """
    worst: int | None = None
    try:
        while True:
            began = clock()
            code, lines = compare()
            worst = code if worst is None else max(worst, code, key=_SEVERITY.index)
            try:
                for line in lines:
                    tell(line)
            except OSError:
                return worst
            if every_s is None:
                return worst
            sleep(max(0.0, began + every_s - clock()))
    except KeyboardInterrupt:
        return UNJUDGED if worst is None else worst
