"""Each query of the dashboards, asked of a real Prometheus that scrapes the real service under load."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from grafana.__main__ import BOARDS
from pipeline import metrics as catalogue
from pipeline.config.settings import SparkSettings
from pipeline.metrics import Histogram, Metric
from tests.grafana.test_dashboards import ALERTS, SELECTOR, expressions
from tests.grafana.watched import PASSWORD, SECRETS, NotYet, Watched, trouble, until, watched

# In place of Grafana's own, which depends on how often Prometheus scrapes: here that's four times a second.
WINDOW = "5s"


@pytest.fixture(scope="module")
def service(
    mysql: MysqlServer,
    kafka: KafkaBroker,
    parts: Parts,
    spark_settings: SparkSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    with watched(mysql, kafka, parts, spark_settings, tmp_path_factory.mktemp("watched")) as running:
        trouble(running)
        yield running


def asked(expr: str) -> str:
    """The query with its variables replaced as Grafana does it where all is chosen."""
    expr = expr.replace("$__rate_interval", WINDOW)
    return re.sub(r"\$\w+", ".+", expr.replace("$pipeline", "shop"))


def selectors(expr: str) -> Iterator[str]:
    """The series that a query is about, so that `or vector(0)` doesn't stand for them."""
    for selector in SELECTOR.finditer(expr):
        if selector["name"] != ALERTS:
            yield f"{selector['name']}{{{selector['matchers']}}}"


def test_each_query_has_data(service: Watched) -> None:
    missing = {
        query: f"{board.name}: {title}"
        for board in BOARDS
        for title, expr in expressions(board)
        for query in (expr, *selectors(expr))
    }
    assert len(missing) > 100

    def all_there() -> bool:
        for query in list(missing):
            if service.prometheus.has_had(asked(query)):
                del missing[query]
        return not missing

    with suppress(NotYet):
        until(all_there, "data for each")
    assert missing == {}


def test_each_variable_has_values(service: Watched) -> None:
    for board in BOARDS:
        for variable in board.json()["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
                assert found, variable
                expr = f"count by ({found[2]}) (last_over_time({asked(found[1])}[30m]))"
                values = {sample.labels[found[2]] for sample in service.prometheus.query(expr)}
                assert values - {""}, variable["query"]


# What may be nothing for as long as all goes well, and who sees it set to something.
SEEN_ELSEWHERE: dict[Metric, str] = {
    catalogue.MEASURING_ERRORS: "nothing fails to measure: tests/actors/runtime/test_metrics.py",
    catalogue.UNLISTED: "there are fewer than 1000 tables: tests/actors/runtime/test_metrics.py",
    catalogue.MAILBOX_DEPTH: "nothing may wait at each look: tests/actors/service/test_assembly.py",
    catalogue.CERTIFICATE_END: "it serves without TLS: tests/actors/http/test_certificate.py",
    catalogue.FAILOVERS: "there's one server: tests/integration/source/test_failover.py",
    catalogue.LAG_TRANSACTIONS: "nothing may be behind at each look: tests/integration/status/test_lag_watch.py",
    catalogue.LAG_BYTES: "likewise",
    catalogue.REPLICATION_LAG: "the source is no replica: tests/integration/status/test_lag_watch.py",
    catalogue.PAUSED: "no window pauses the stream: tests/integration/service/test_journal_full.py",
    catalogue.TABLE_STOPPED: "it's stopped at the end: tests/integration/schema/test_unlogged_changes.py",
    catalogue.STOPPED_TABLES: "likewise: tests/chaos/test_alerts.py",
    catalogue.ROWS_UNREAD: "for moments, between two scrapes: tests/integration/service/test_row_images.py",
    catalogue.JOURNAL_FULL: "it has room: tests/chaos/test_alerts.py",
    catalogue.CONFLICTS: "nobody else writes to the lake: tests/integration/lake/test_maintenance.py",
    catalogue.FINDINGS: "the lake is what the source is: tests/integration/lake/test_verify_command.py",
    catalogue.UNJUDGED_IN_A_ROW: "each has a result: tests/chaos/test_alerts.py",
    catalogue.WORK_FAILED: "all that's begun succeeds: tests/actors/test_spark_sink.py",
    catalogue.SIGNALS_UNANSWERED: "for moments: tests/actors/test_signal_listener.py",
}


def test_each_metric_of_the_catalogue_is_set_by_something_real(service: Watched) -> None:
    unset = {metric.name: metric for metric in catalogue.catalogue() if metric not in SEEN_ELSEWHERE}

    def all_set() -> bool:
        for name, metric in list(unset.items()):
            series = f"{name}_count" if isinstance(metric, Histogram) else name
            told = service.prometheus.query(f"max_over_time({series}[30m])")
            if any(sample.value > 0 for sample in told):
                del unset[name]
        return not unset

    with suppress(NotYet):
        until(all_set, "all are set")
    assert sorted(unset) == []


def test_a_scrape_is_sound_and_a_table_has_few_series(service: Watched, parts: Parts) -> None:
    assert parts.prometheus is not None
    checked = subprocess.run(
        [parts.prometheus.promtool, "check", "metrics"],
        input=service.get("/metrics"),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    each = service.prometheus.query('count by (table) ({job="tidemark", table!=""})')
    assert max(sample.value for sample in each) <= 45


def test_neither_rows_nor_passwords_are_told(service: Watched) -> None:
    told = [service.get(path) for path in ("/status", "/metrics", "/readyz")]
    # No lake table has a column of this name.
    service.oddities("ALTER TABLE {} ADD COLUMN _metadata INT", "DELETE FROM {} WHERE id = 3")
    until(service.stopped, "the odd table has stopped")
    told += [service.get(path) for path in ("/status", "/metrics", "/readyz")]
    assert service.service.stop() == 0
    log = service.service.log.read_text()
    assert '"kind": "transient"' in log
    for secret in (PASSWORD, *SECRETS):
        assert [text for text in (*told, log) if secret in text] == []
