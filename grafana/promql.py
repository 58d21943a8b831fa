"""PromQL from the metrics of the catalogue, so that no query can ask for what isn't exported.

Each function takes the kind of metric that it makes sense for, and the type checker sees to it: there's no rate of a
gauge here, and no quantile of anything but a histogram. A `Scope` puts the dashboard's variables before each metric
that has such a label.

Source: Prometheus' documentation, "Querying" and "Histograms and summaries"; Grafana's, "Prometheus template
variables" ($__rate_interval is at least four scrapes long, so that a rate always has two samples).
"""

from dataclasses import dataclass
from typing import Final

from pipeline.metrics import Counter, Gauge, Histogram, Metric

WINDOW: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a dashboard looks at: the variables that choose values of labels, each named as its label is.

    All pipelines' metrics have `instance`, which Prometheus adds.
    """

    variables: tuple[str, ...] = ()

    def of(self, metric: Metric, suffix: str = "", **exactly: str) -> str:
        """The metric's series; those labels are matched exactly, and the others by the variables."""
        chosen = [f'{name}=~"${name}"' for name in ("instance", *self._chosen(metric)) if name not in exactly]
        matchers = [*chosen, *(f'{label}="{value}"' for label, value in exactly.items())]
        return f"{metric.name}{suffix}{{{', '.join(matchers)}}}"

    def sum(self, metric: Gauge, *by: str, **exactly: str) -> str:
        """The sum of a gauge."""
        return _over("sum", by, self.of(metric, **exactly))

    def max(self, metric: Gauge, *by: str, **exactly: str) -> str:
        """The greatest of a gauge; of one that has no more labels it's its value."""
        return _over("max", by, self.of(metric, **exactly))

    def min(self, metric: Gauge, *by: str, **exactly: str) -> str:
        """The least of a gauge."""
        return _over("min", by, self.of(metric, **exactly))

    def rate(self, metric: Counter, *by: str, **exactly: str) -> str:
        """How much a counter grows in a second."""
        return _over("sum", by, f"rate({self.of(metric, **exactly)}[{WINDOW}])")

    def increase(self, metric: Counter, *by: str, window: str = WINDOW, **exactly: str) -> str:
        """How much a counter grew in the window."""
        return _over("sum", by, f"increase({self.of(metric, **exactly)}[{window}])")

    def quantile(
        self, share: float, metric: Histogram, *by: str, window: str = WINDOW, **exactly: str
    ) -> str:
        """What such a share of a histogram's observations wasn't above; NaN where there were none."""
        buckets = _over("sum", (*by, "le"), f"rate({self.of(metric, '_bucket', **exactly)}[{window}])")
        return f"histogram_quantile({share}, {buckets})"

    def buckets(self, metric: Histogram, **exactly: str) -> str:
        """A histogram's new observations by bucket, for a heat map."""
        return _over("sum", ("le",), f"increase({self.of(metric, '_bucket', **exactly)}[{WINDOW}])")

    def mean(self, metric: Histogram, *by: str, **exactly: str) -> str:
        """The mean of a histogram's new observations; NaN where there were none."""
        return f"{self.spent(metric, *by, **exactly)} / {self.times(metric, *by, **exactly)}"

    def spent(self, metric: Histogram, *by: str, **exactly: str) -> str:
        """The sum of a histogram's observations in a second: of seconds it's the share of one worker's time."""
        return _over("sum", by, f"rate({self.of(metric, '_sum', **exactly)}[{WINDOW}])")

    def times(self, metric: Histogram, *by: str, **exactly: str) -> str:
        """How often a histogram observed in a second."""
        return _over("sum", by, f"rate({self.of(metric, '_count', **exactly)}[{WINDOW}])")

    def _chosen(self, metric: Metric) -> list[str]:
        return [name for name in self.variables if name in metric.labels]


def or_zero(query: str) -> str:
    """The query, or 0 where it has nothing: for what has happened never yet."""
    return f"{query} or vector(0)"


def _over(function: str, by: tuple[str, ...], query: str) -> str:
    return f"{function} by ({', '.join(by)}) ({query})" if by else f"{function}({query})"
