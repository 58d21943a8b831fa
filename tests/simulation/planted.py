"""How many seeds it takes to find each planted bug.

python -m tests.simulation.planted      writes the table of docs/simulation.md
"""

from collections.abc import Iterable
from pathlib import Path
from statistics import median

import pytest

from pipeline.errors import InvariantBroken
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.simulation import Failed, run

# Where to begin, each time anew, for a median.
STARTS = (0, 100_000, 200_000, 300_000, 400_000)
MOST = 3000

PAGE = Path("docs/simulation.md")
_BEGIN, _END = "<!-- planted bugs: begin -->\n", "<!-- planted bugs: end -->\n"


def found_by(bug: Bug, seeds: Iterable[int]) -> int | None:
    """How many of these seeds were run when the bug was found, or None."""
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        for count, seed in enumerate(seeds, 1):
            try:
                run(seed)
            except Failed as failed:
                if not isinstance(failed.__cause__, AssertionError | InvariantBroken):
                    raise  # not the rule is broken, but the bug
                return count
    return None


def table() -> str:
    """The table of all bugs, as Markdown. Raises LookupError where one isn't found."""
    rows = ["| Planted bug | median | most |", "|---|--:|--:|"]
    medians: list[float] = []
    for bug in BUGS:
        counts: list[int] = []
        for start in STARTS:
            count = found_by(bug, range(start, start + MOST))
            if count is None:
                raise LookupError(f"{bug.__name__} isn't found by {MOST} seeds from {start} on")
            counts.append(count)
        medians.append(median(counts))
        rows.append(f"| {bug.__name__.replace('_', ' ')} | {median(counts)} | {max(counts)} |")
    rows.append(f"| **all {len(BUGS)}** | **{median(medians):g}** | **{max(medians):g}** |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Write the table into the page."""
    before, rest = PAGE.read_text().split(_BEGIN)
    after = rest.split(_END)[1]
    PAGE.write_text(before + _BEGIN + "\n" + table() + "\n" + _END + after)


if __name__ == "__main__":
    main()
