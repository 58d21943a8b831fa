"""What a benchmark tells: a table on standard output, and the same as JSON in `build/bench/NAME.json`.

A figure alone says little on a machine that nobody knows. So each one stands against what was measured beside it in
the same run, the peer or the limit, and their ratio is what to quote.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parents[1] / "build" / "bench"


@dataclass(frozen=True, slots=True)
class Peer:
    """What a figure is compared with, in the same unit; the name says where that was had in another way."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, such as "transactions of one row", 512_000, "rows/s"."""

    name: str
    value: float
    unit: str
    against: Peer | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the peer's value it is."""
        return self.value / self.against.value if self.against else None


def say(text: str) -> None:
    """What's being done, beside the table."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def told(bench: str) -> Iterator[list[Figure]]:
    """Report what was put into the list meanwhile, whatever came of the rest."""
    figures: list[Figure] = []
    try:
        yield figures
    finally:
        report(bench, figures)


def report(bench: str, figures: Sequence[Figure], folder: Path = RESULTS) -> None:
    """Print the figures as a table, and write them to `folder`/`bench`.json."""
    print(f"\n{bench}, on {os.cpu_count()} processors\n\n{table(figures)}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{bench}.json").write_text(json.dumps([entry(figure) for figure in figures], indent=2) + "\n")


def entry(figure: Figure) -> dict[str, str | float | None]:
    """The figure as JSON; what it has no peer for is null."""
    return {
        "figure": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "against": figure.against.name if figure.against else None,
        "against_value": figure.against.value if figure.against else None,
        "ratio": figure.ratio,
    }


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns: names to the left, numbers to the right; a name is told once."""
    rows = [("", "", "", "against", "", "ratio")]
    before = ""
    for figure in figures:
        own = (figure.name, number(figure.value), figure.unit) if figure.name != before else ("", "", "")
        peer = (figure.against.name, number(figure.against.value)) if figure.against else ("", "")
        rows.append((*own, *peer, "" if figure.ratio is None else f"{figure.ratio:.2f}"))
        before = figure.name
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


_NUMBERS: Final = (1, 4, 5)


def number(value: float) -> str:
    """Three digits that count, and no more: 1,380,000, 0.184."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"
