"""What grows with what: the figures of a curve, its exponent, what that means ten times as far on, and its charts.

A curve's exponent is that of its last two points: 0 doesn't grow, 1 grows in proportion, 2 with the square. The value
at ten times the last point is what a power with that exponent has there. Nobody has measured it.
"""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from bench._curves import Chart
from bench._report import Figure, Peer

_IN_A_ROW: Final = 8


class Quantity(NamedTuple):
    """What is measured. Those with the same title are curves of one chart, in one unit."""

    title: str
    series: str
    unit: str

    def __str__(self) -> str:
        return f"{self.title}, {self.series}" if self.series else self.title


Measured = dict[Quantity, float]


class Growth(NamedTuple):
    """What was measured `over` what grows, at each of its points; and values that were asked for."""

    over: str
    points: dict[int, Measured]
    asked: Measured

    def figures(self, point: int) -> Iterator[Figure]:
        """Returns a point's figures, against what was asked for, or else against the least point."""
        least = min(self.points)
        for quantity, value in self.points[point].items():
            before = self.points[least].get(quantity)
            peer = None
            if quantity in self.asked:
                peer = Peer("asked for", self.asked[quantity])
            elif point > least and before:
                peer = Peer(f"with {least:,}", before)
            yield Figure(f"{self.over}, {point:,}: {quantity}", value, quantity.unit, peer)

    def exponents(self) -> Iterator[Figure]:
        """Returns the exponent of each curve, and the value that it means at ten times the last point."""
        if len(self.points) < 2:
            return
        less, more = sorted(self.points)[-2:]
        for quantity, large in self.points[more].items():
            small = self.points[less].get(quantity, 0.0)
            if not (less and 0 < small < math.inf and 0 < large < math.inf):
                continue
            exponent = math.log(large / small, more / less)
            yield Figure(f"{self.over}, exponent from {less:,} to {more:,}: {quantity}", exponent, "")
            name = f"{self.over}, {10 * more:,} if it goes on like that: {quantity}"
            yield Figure(name, large * 10**exponent, quantity.unit, Peer(f"with {more:,}", large))

    def rows(self) -> Iterator[list[Chart]]:
        """Returns its charts in rows."""
        charts = list(self.charts())
        return (charts[begin : begin + _IN_A_ROW] for begin in range(0, len(charts), _IN_A_ROW))

    def charts(self) -> Iterator[Chart]:
        """Returns the charts of all curves that have a point on logarithmic axes."""
        charts: dict[tuple[str, str], dict[Quantity, None]] = {}
        for values in self.points.values():
            for quantity in values:
                charts.setdefault((quantity.title, quantity.unit), {})[quantity] = None
        for (title, unit), of in charts.items():
            curves = {quantity.series: self._curve(quantity) for quantity in of}
            drawn = {series: curve for series, curve in curves.items() if curve}
            if drawn:
                asked = {
                    f"{each.series} asked for".strip(): self.asked[each] for each in of if each in self.asked
                }
                yield Chart(title, unit, self.over, drawn, asked)

    def _curve(self, quantity: Quantity) -> list[tuple[float, float]]:
        values = ((point, of.get(quantity, 0.0)) for point, of in sorted(self.points.items()))
        return [(point, value) for point, value in values if point > 0 and 0 < value < math.inf]
