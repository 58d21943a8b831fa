"""The metrics of `pipeline.metrics` in a Prometheus registry, with one typed way to each kind.

    metrics.count(catalogue.TRANSACTIONS, 17)
    metrics.set(catalogue.WINDOWS_OPEN, 4)
    metrics.observe(catalogue.MERGE, 6.6, table="shop.orders")

All labels of a metric have to be given, and no others: prometheus-client raises ValueError otherwise. May be
called from any thread.
"""

import time
from collections.abc import Callable

import prometheus_client as prometheus

from pipeline import metrics as catalogue
from pipeline.metrics import Counter, Gauge, Histogram
from pipeline.topology import Actor


class Metrics:
    """One service's metrics, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._counters: dict[Counter, prometheus.Counter] = {}
        self._gauges: dict[Gauge, prometheus.Gauge] = {}
        self._histograms: dict[Histogram, prometheus.Histogram] = {}
        for metric in catalogue.catalogue():
            self._register(metric)

    def count(self, metric: Counter, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[metric]
        (counter.labels(**labels) if metric.labels else counter).inc(amount)

    def set(self, metric: Gauge, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[metric]
        (gauge.labels(**labels) if metric.labels else gauge).set(value)

    def watch(self, metric: Gauge, read: Callable[[], float], **labels: str) -> None:
        """Let a gauge be read at each scrape."""
        gauge = self._gauges[metric]
        (gauge.labels(**labels) if metric.labels else gauge).set_function(read)

    def forget(self, metric: Gauge) -> None:
        """Drop all labelled values of a gauge, whose labels name things that come and go."""
        self._gauges[metric].clear()

    def observe(self, metric: Histogram, value: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        histogram = self._histograms[metric]
        (histogram.labels(**labels) if metric.labels else histogram).observe(value)

    def value(self, metric: Counter | Gauge, **labels: str) -> float:
        """The present value, 0 where nothing was counted yet."""
        return self.registry.get_sample_value(metric.name, labels) or 0.0

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return prometheus.generate_latest(self.registry)

    def handled(self, actor: Actor, message: object, seconds: float, outcome: str = "done") -> None:
        """Say that an actor has dealt with a message: `outcome` is done, failed or cancelled."""
        kind = type(message).__name__
        self.count(catalogue.HANDLED, actor=actor, message=kind, outcome=outcome)
        self.observe(catalogue.HANDLING, seconds, actor=actor, message=kind)

    def progressed(self, actor: Actor) -> None:
        """Say that an actor got on with its work just now."""
        self.set(catalogue.PROGRESS, time.time(), actor=actor)

    def _register(self, metric: catalogue.Metric) -> None:
        match metric:
            case Counter():
                self._counters[metric] = prometheus.Counter(
                    metric.name, metric.help, metric.labels, registry=self.registry
                )
            case Gauge():
                self._gauges[metric] = prometheus.Gauge(
                    metric.name, metric.help, metric.labels, registry=self.registry
                )
            case Histogram():
                self._histograms[metric] = prometheus.Histogram(
                    metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self.registry
                )
