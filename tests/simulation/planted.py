"""How many seeds it takes to find each planted bug.

python -m tests.simulation.planted      writes the table of docs/simulation.md
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest

from pipeline.errors import InvariantBroken
from tests.simulation.bugs import BUGS, RARE, Bug
from tests.simulation.simulation import Failed, run

MOST = 5000

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
    rows = ["| Planted bug | seeds |", "|---|--:|"]
    counts: list[int] = []
    for bug in (*BUGS, *RARE):
        count = found_by(bug, range(MOST))
        if count is None:
            raise LookupError(f"{bug.__name__} isn't found by {MOST} seeds")
        counts.append(count)
        rows.append(f"| {told(bug)} | {count} |")
    rows.append(f"| *median of {len(counts)}, and the most* | *{median(counts):g}, {max(counts)}* |")
    return "\n".join(rows) + "\n"


def seeds_for(bug: Bug, most: int) -> Iterator[int]:
    """These seeds, and before them the one that found the bug when the page's table was written, if one did."""
    for line in PAGE.read_text().splitlines():
        if (
            line.startswith(f"| {told(bug)} | ")
            and (count := line.removesuffix(" |").split(" | ")[-1]).isdigit()
        ):
            yield int(count) - 1
    yield from range(most)


def told(bug: Bug) -> str:
    """The bug by its name, in words."""
    return bug.__name__.replace("_", " ")


def main() -> None:
    """Write the table into the page."""
    before, rest = PAGE.read_text().split(_BEGIN)
    after = rest.split(_END)[1]
    PAGE.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}")


if __name__ == "__main__":
    main()
