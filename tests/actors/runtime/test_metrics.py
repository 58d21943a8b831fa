"""The registry: every metric of the catalogue is there under its own name, and each kind is written in one way."""

import ast
import math
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from actors.runtime import measuring
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.messages.journal import SegmentSealed
from pipeline.messages.topology import ActorName
from pipeline.metrics import MOST_TABLES, OTHERS, Counter, Gauge, Histogram
from tests.servers.at_work import at_work


def test_every_metric_can_be_written_and_is_exported_under_its_name() -> None:
    metrics = Metrics()
    for metric in catalogue.catalogue():
        labels = dict.fromkeys(metric.labels, "x")
        match metric:
            case Counter():
                metrics.count(metric, 2, **labels)
                assert metrics.value(metric, **labels) == 2
            case Gauge():
                metrics.set(metric, 3, **labels)
                assert metrics.value(metric, **labels) == 3
            case Histogram():
                metrics.observe(metric, 0.5, **labels)
    text = metrics.text().decode()
    for metric in catalogue.catalogue():
        exposed = metric.name.removesuffix("_total") if isinstance(metric, Counter) else metric.name
        assert f"# HELP {metric.name} " in text or f"# HELP {exposed} " in text
        suffix = "_count" if isinstance(metric, Histogram) else ""
        assert any(
            line.startswith((f"{metric.name}{suffix} ", f"{metric.name}{suffix}{{"))
            for line in text.splitlines()
        )


def test_every_metric_is_written_by_some_actor() -> None:
    actors = Path(__file__).parents[3] / "actors"
    named = {
        node.attr
        for path in actors.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "catalogue"
    }
    declared = {name for name, value in vars(catalogue).items() if isinstance(value, catalogue.Metric)}
    assert declared - named == set()


def test_a_gauge_can_be_read_at_each_scrape() -> None:
    metrics = Metrics()
    depth = iter((1.0, 2.0))
    metrics.watch(catalogue.MAILBOX_DEPTH, lambda: next(depth), actor="a")
    assert [metrics.value(catalogue.MAILBOX_DEPTH, actor="a") for _ in range(2)] == [1, 2]


def test_labels_that_come_and_go_are_replaced() -> None:
    metrics = Metrics()
    metrics.replace(catalogue.BINLOG_POSITION, {("binlog.1",): 4, ("binlog.2",): 4})
    metrics.replace(catalogue.BINLOG_POSITION, {("binlog.2",): 8})
    assert "binlog.1" not in metrics.text().decode()
    assert metrics.value(catalogue.BINLOG_POSITION, file="binlog.2") == 8


def test_who_reads_in_another_thread_never_finds_nothing() -> None:
    metrics = Metrics()
    metrics.replace(catalogue.BINLOG_POSITION, {("binlog.0",): 1})

    def goes_on(stop: threading.Event) -> None:
        for number in count(1):
            metrics.replace(catalogue.BINLOG_POSITION, {(f"binlog.{number}",): 1})
            if stop.is_set():
                return

    with at_work([goes_on]):
        assert all(metrics.total(catalogue.BINLOG_POSITION) >= 1 for _ in range(1000))


def test_what_is_watched_in_a_chunk() -> None:
    metrics = Metrics()
    now = time.monotonic()
    metrics.chunk_read(now - 6, now - 5, now - 3)
    since = time.monotonic() - now
    low, select, high = (
        metrics.registry.get_sample_value(f"{catalogue.PHASE.name}_sum", {"phase": phase}) or 0.0
        for phase in ("low", "select", "high")
    )
    assert (low, select) == pytest.approx((1, 2))
    assert 3 <= high <= 3 + since
    assert metrics.registry.get_sample_value(f"{catalogue.CHUNK_READ.name}_sum") == pytest.approx(3 + high)


def test_ever_more_tables_do_not_become_ever_more_series() -> None:
    metrics = Metrics()
    for number in range(MOST_TABLES + 30):
        metrics.count(catalogue.SNAPSHOT_ROWS, 2, table=f"shop.t{number}")
        metrics.set(catalogue.RANGES, number, table=f"shop.t{number}")
    text = metrics.text().decode()
    assert text.count(f"\n{catalogue.SNAPSHOT_ROWS.name}{{") == MOST_TABLES + 1
    assert text.count(f"\n{catalogue.RANGES.name}{{") == MOST_TABLES
    assert metrics.value(catalogue.SNAPSHOT_ROWS, table=OTHERS) == 60
    assert metrics.value(catalogue.RANGES, table=f"shop.t{MOST_TABLES - 1}") == MOST_TABLES - 1
    assert metrics.value(catalogue.UNLISTED) == 30
    assert metrics.total(catalogue.SNAPSHOT_ROWS) == 2 * (MOST_TABLES + 30)
    assert metrics.has_series("shop.t0") and not metrics.has_series(f"shop.t{MOST_TABLES}")


def crowded() -> Metrics:
    """As many tables as may have series of their own."""
    metrics = Metrics()
    for number in range(MOST_TABLES):
        metrics.set(catalogue.RANGES, 1, table=f"shop.t{number}")
    return metrics


def test_what_alerts_watch_has_one_value_for_all_tables_without_series_of_their_own() -> None:
    metrics = crowded()
    for table, found in (("shop.x", 3), ("shop.y", 4)):
        metrics.set(catalogue.FINDINGS, found, table=table, kind="missing")
        metrics.set(catalogue.FINDINGS, 0, table=table, kind="extra")
    metrics.set(catalogue.MIRROR_REBUILDING, 60, table="shop.x")
    metrics.set(catalogue.MIRROR_REBUILDING, 50, table="shop.y")
    assert metrics.value(catalogue.FINDINGS, table=OTHERS, kind="missing") == 7
    assert metrics.value(catalogue.MIRROR_REBUILDING, table=OTHERS) == 50, "the one that takes longest"
    assert 'kind="extra",table="*"' not in metrics.text().decode(), "none has any"
    metrics.set(catalogue.FINDINGS, 0, table="shop.x", kind="missing")
    metrics.set(catalogue.MIRROR_REBUILDING, 0, table="shop.y")
    assert metrics.value(catalogue.FINDINGS, table=OTHERS, kind="missing") == 4
    assert metrics.value(catalogue.MIRROR_REBUILDING, table=OTHERS) == 60
    metrics.set(catalogue.FINDINGS, 0, table="shop.y", kind="missing")
    metrics.set(catalogue.MIRROR_REBUILDING, 0, table="shop.x")
    assert metrics.total(catalogue.FINDINGS) == metrics.total(catalogue.MIRROR_REBUILDING) == 0


def test_what_alerts_watch_of_tables_without_series_is_replaced() -> None:
    metrics = crowded()
    for values, most in (({"shop.x": 2, "shop.y": 3, "shop.t0": 1}, 3), ({"shop.x": 1}, 1), ({}, 0)):
        metrics.replace(catalogue.UNJUDGED_IN_A_ROW, {(table,): times for table, times in values.items()})
        assert metrics.value(catalogue.UNJUDGED_IN_A_ROW, table=OTHERS) == most
        assert metrics.value(catalogue.UNJUDGED_IN_A_ROW, table="shop.t0") == values.get("shop.t0", 0)


@pytest.mark.measuring_fails
def test_wrong_labels_fail_nobody_and_are_counted() -> None:
    metrics, before = Metrics(), measuring.failure_count()
    metrics.count(catalogue.ERRORS, actor="a")
    metrics.watch(catalogue.MAILBOX_DEPTH, lambda: 1 / 0, actor="a")
    assert math.isnan(metrics.value(catalogue.MAILBOX_DEPTH, actor="a"))
    assert measuring.failure_count() == before + 2
    assert f"{catalogue.MEASURING_ERRORS.name} {before + 2}.0" in metrics.text().decode()


def test_what_actors_tell() -> None:
    metrics = Metrics()
    before = time.time()
    metrics.handled(ActorName.SPARK_SINK, SegmentSealed(1), 0.25)
    metrics.progressed(ActorName.SPARK_SINK)
    assert metrics.value(catalogue.HANDLED, actor="SparkSink", message="SegmentSealed", outcome="done") == 1
    assert before <= metrics.value(catalogue.PROGRESS, actor="SparkSink") <= time.time()
