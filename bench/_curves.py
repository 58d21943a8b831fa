"""Draws curves of what was measured: rows of small charts, as SVG, and as PNG by the browser of the tests.

Both axes are logarithmic, so that a straight line is a power of what grows, and its slope the exponent.
"""

import math
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from deploy.toolchain.browser import setup

_WIDTH: Final = 360
_HEIGHT: Final = 250
_MARGIN: Final = (46, 16, 34, 44)  # above, to the right, below, to the left
_COLOURS: Final = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves by their names, in one unit, over what grows; `bars`: values that were asked for, by their names."""

    title: str
    unit: str
    over: str
    curves: Mapping[str, Points]
    bars: Mapping[str, float]


Rows = Sequence[Sequence[Chart]]


def draw_png(rows: Rows, file: Path) -> None:
    """Writes them into a PNG file. Raises CalledProcessError."""
    width, height = _size(rows)
    with tempfile.TemporaryDirectory(prefix="tidemark-curves-") as folder:
        page = Path(folder, "curves.html")
        page.write_text(f'<body style="margin:0;background:white">{draw_svg(rows)}</body>')
        command = [
            str(setup()),
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--force-device-scale-factor=2",
            f"--window-size={width},{height}",
            f"--screenshot={file}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True)


def draw_svg(rows: Rows) -> str:
    """Returns them as a text of SVG."""
    width, height = _size(rows)
    drawn = (
        f'<g transform="translate({column * _WIDTH} {row * _HEIGHT})">{_chart(chart)}</g>'
        for row, charts in enumerate(rows)
        for column, chart in enumerate(charts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="Inter, DejaVu Sans, sans-serif" font-size="11" fill="#343a40">{"".join(drawn)}</svg>'
    )


def _size(rows: Rows) -> tuple[int, int]:
    return _WIDTH * max(map(len, rows)), _HEIGHT * len(rows)


def _chart(chart: Chart) -> str:
    points = [point for curve in chart.curves.values() for point in curve]
    x = _Axis([x for x, _ in points], _MARGIN[3], _WIDTH - _MARGIN[1])
    y = _Axis([*(y for _, y in points), *chart.bars.values()], _HEIGHT - _MARGIN[2], _MARGIN[0])
    return "".join(
        (
            f'<text x="{_MARGIN[3]}" y="18" font-size="13" font-weight="600">{escape(chart.title)}</text>',
            *_grid(x, y, chart),
            *(_bar(name, value, y) for name, value in chart.bars.items()),
            *(_curve(i, name, curve, x, y) for i, (name, curve) in enumerate(chart.curves.items())),
        )
    )


class _Axis:
    """A logarithmic axis, whose ends are the powers of ten around the values. `first`, `last`: its ends in pixels."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._first, self._last = first, last

    def place(self, value: float) -> float:
        """Returns where a value is (pixels)."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first), 1)

    def ticks(self) -> Iterator[float]:
        """Returns the powers of ten."""
        return (10.0**power for power in range(self._low, self._high + 1))


def _grid(x: _Axis, y: _Axis, chart: Chart) -> Iterator[str]:
    left, right, above, below = _MARGIN[3], _WIDTH - _MARGIN[1], _MARGIN[0], _HEIGHT - _MARGIN[2]
    for value in y.ticks():
        at = y.place(value)
        yield f'<path d="M{left} {at}H{right}" stroke="#e9ecef"/>'
        yield f'<text x="{left - 6}" y="{at + 4}" text-anchor="end">{value:,g}</text>'
    for value in x.ticks():
        at = x.place(value)
        yield f'<path d="M{at} {above}V{below}" stroke="#e9ecef"/>'
        yield f'<text x="{at}" y="{below + 14}" text-anchor="middle">{value:,g}</text>'
    yield f'<text x="{right}" y="{below + 28}" text-anchor="end">{escape(chart.over)}</text>'
    yield f'<text x="6" y="{above - 8}">{escape(chart.unit)}</text>'


def _bar(name: str, value: float, y: _Axis) -> str:
    at, right = y.place(value), _WIDTH - _MARGIN[1]
    return (
        f'<path d="M{_MARGIN[3]} {at}H{right}" stroke="#adb5bd" stroke-dasharray="4 3"/>'
        f'<text x="{right}" y="{at - 3}" text-anchor="end" fill="#868e96">{escape(name)}</text>'
    )


def _curve(i: int, name: str, curve: Points, x: _Axis, y: _Axis) -> str:
    colour = _COLOURS[i % len(_COLOURS)]
    places = [(x.place(over), y.place(value)) for over, value in curve]
    line = " ".join(f"{right},{down}" for right, down in places)
    dots = "".join(f'<circle cx="{right}" cy="{down}" r="2.5" fill="{colour}"/>' for right, down in places)
    return (
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'
        f'<text x="{_MARGIN[3] + 60 + 90 * i}" y="{_MARGIN[0] - 8}" fill="{colour}">{escape(name)}</text>'
    )
