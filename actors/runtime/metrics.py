"""The metrics of `pipeline.metrics` in a Prometheus registry, with one typed way to each kind.

    metrics.count(catalogue.TRANSACTIONS, 17)
    metrics.set(catalogue.WINDOWS_OPEN, 4)
    metrics.observe(catalogue.MERGE, 6.6, table="shop.orders")

All labels of a metric have to be given, and no others. What's wrong with a call goes no further than here
(`actors.runtime.measuring`). May be called from any thread.

Of tables beyond `MOST_TABLES` (`pipeline.metrics` says what becomes of them) no more is kept than their names, and what
alerts watch of them as long as it isn't 0. What the process itself takes (`process_resident_memory_bytes` and its like)
is prometheus-client's own.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import prometheus_client as prometheus

from actors.runtime import measuring
from pipeline import metrics as catalogue
from pipeline.messages.names import name_of
from pipeline.messages.topology import ActorName
from pipeline.metrics import MOST_TABLES, OTHERS, Counter, Gauge, Histogram

# Otherwise each counter and histogram would have a further series that says when it was begun.
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """One service's metrics, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._listed: set[str] = set()
        self._unlisted: set[str] = set()
        self._listing = threading.Lock()
        # By the gauge and its labels, in which OTHERS stands for the table: the values of tables, but for 0.
        self._of_others: dict[tuple[Gauge, tuple[str, ...]], dict[str, float]] = {}
        self._counters: dict[Counter, prometheus.Counter] = {}
        self._gauges: dict[Gauge, prometheus.Gauge] = {}
        self._histograms: dict[Histogram, prometheus.Histogram] = {}
        for metric in catalogue.catalogue():
            self._register(metric)
        prometheus.ProcessCollector(registry=self.registry)

    @measuring.contain_errors
    def count(self, metric: Counter, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        if not self._has(labels):
            labels["table"] = OTHERS
        counter = self._counters[metric]
        (counter.labels(**labels) if metric.labels else counter).inc(amount)

    @measuring.contain_errors
    def set(self, metric: Gauge, value: float, **labels: str) -> None:
        """Set a gauge."""
        if not self._has(labels):
            self._set_of_others(metric, value, labels)
            return
        gauge = self._gauges[metric]
        (gauge.labels(**labels) if metric.labels else gauge).set(value)

    @measuring.contain_errors
    def watch(self, metric: Gauge, read: Callable[[], float], **labels: str) -> None:
        """Let a gauge be read at each scrape; none that has tables."""
        gauge = self._gauges[metric]
        told = partial(measuring.value_or, metric.name, read, math.nan)
        (gauge.labels(**labels) if metric.labels else gauge).set_function(told)

    @measuring.contain_errors
    def replace(self, metric: Gauge, values: Mapping[tuple[str, ...], float], **among: str) -> None:
        """Gives a gauge, whose labels name things that come and go, exactly these values.

        It replaces only values with the labels `among`, which `values` have too. A concurrent reader may see old values
        beside new ones, but never none.
        """
        before = [
            tuple(sample.labels[name] for name in metric.labels)
            for sample in self._samples(metric)
            if among.items() <= sample.labels.items() and sample.labels.get("table") != OTHERS
        ]
        of_others = [labels for labels in self._labels_of_others(metric) if among.items() <= labels.items()]
        for labels, value in values.items():
            self.set(metric, value, **dict(zip(metric.labels, labels, strict=True)))
        for labels in before:
            if labels not in values:
                self._gauges[metric].remove(*labels)
        for named in of_others:
            if tuple(named.values()) not in values:
                self.set(metric, 0, **named)

    @measuring.contain_errors
    def observe(self, metric: Histogram, value: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        histogram = self._histograms[metric]
        (histogram.labels(**labels) if metric.labels else histogram).observe(value)

    def value(self, metric: Counter | Gauge, **labels: str) -> float:
        """The present value, 0 where nothing was counted yet."""
        return sum(sample.value for sample in self._samples(metric) if sample.labels == labels)

    def total(self, metric: Counter | Gauge, **among: str) -> float:
        """The sum over all labels, or over those with these values."""
        return sum(s.value for s in self._samples(metric) if among.items() <= s.labels.items())

    def has_series(self, table: str) -> bool:
        """Whether the counters of this table, if it is counted, are its own."""
        return table in self._listed or len(self._listed) < MOST_TABLES

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        new = measuring.failure_count() - self.value(catalogue.MEASURING_ERRORS)
        self.count(catalogue.MEASURING_ERRORS, max(0, new))
        return prometheus.generate_latest(self.registry)

    @measuring.contain_errors
    def handled(self, actor: ActorName, message: object, seconds: float, outcome: str = "done") -> None:
        """Say that an actor has dealt with a message: `outcome` is done, failed or cancelled."""
        kind = name_of(message)
        self.count(catalogue.HANDLED, actor=actor, message=kind, outcome=outcome)
        self.observe(catalogue.HANDLING, seconds, actor=actor, message=kind)

    @measuring.contain_errors
    def progressed(self, actor: ActorName) -> None:
        """Say that an actor got on with its work just now."""
        self.set(catalogue.PROGRESS, time.time(), actor=actor)

    @measuring.contain_errors
    def chunk_read(self, began: float, asked: float, selected: float) -> None:
        """Records that a chunk has been read: when its low watermark, its rows and its high watermark were requested.

        Moments in s of the monotonic clock; the last of it ended now.
        """
        now = time.monotonic()
        self.observe(catalogue.CHUNK_READ, now - began)
        for phase, seconds in (
            ("low", asked - began),
            ("select", selected - asked),
            ("high", now - selected),
        ):
            self.observe(catalogue.PHASE, seconds, phase=phase)

    def _samples(self, metric: Counter | Gauge) -> list[prometheus.samples.Sample]:
        """The values of this metric alone: a registry would collect all of its others for that, too."""
        registered = self._counters[metric] if isinstance(metric, Counter) else self._gauges[metric]
        return [
            sample
            for family in registered.collect()
            for sample in family.samples
            if sample.name == metric.name
        ]

    def _has(self, labels: dict[str, str]) -> bool:
        """Whether the table of these labels, if they name one, has series of its own."""
        table = labels.get("table")
        if table is None or table in self._listed:
            return True
        with self._listing:
            if len(self._listed) < MOST_TABLES:
                self._listed.add(table)
            elif table not in self._listed:
                self._unlisted.add(table)
                self._gauges[catalogue.UNLISTED].set(len(self._unlisted))
            return table in self._listed

    def _set_of_others(self, metric: Gauge, value: float, labels: dict[str, str]) -> None:
        """Sets a gauge of a table without series of its own, if its value counts among those of the others."""
        if metric.of_others is None:
            return
        shown = tuple(OTHERS if name == "table" else labels[name] for name in metric.labels)
        with self._listing:
            known = self._of_others.setdefault((metric, shown), {})
            if known.get(labels["table"], 0) == value:
                return
            known[labels["table"]] = value
            if not value:
                del known[labels["table"]]
            self._gauges[metric].labels(*shown).set(metric.of_others(known.values()) if known else 0)

    def _labels_of_others(self, metric: Gauge) -> list[dict[str, str]]:
        """Returns the labels of a gauge whose values count among those of the others."""
        with self._listing:
            return [
                {
                    name: table if name == "table" else value
                    for name, value in zip(metric.labels, shown, strict=True)
                }
                for (of, shown), known in self._of_others.items()
                for table in known
                if of is metric
            ]

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
