"""The alerts as data. It makes the file of rules, and a manifest of the same for Prometheus' operator.

    python -m deploy.prometheus.alerts

An alert's times are data too (how long a condition has to hold, how far it looks back, when something is late). So a
test can have the same expressions on a shorter time base, and needn't wait for hours.

docs/runbooks.md has a section for each alert, which says what to do. A rule names a metric by the catalogue's own
object, so it can't name a missing one.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from actors.signals.verify_schedule import VerifySchedule
from pipeline import metrics

RULES: Final = Path(__file__).with_name("alerts.yaml")
MANIFEST: Final = Path(__file__).parents[1] / "kubernetes" / "prometheus-operator" / "prometheusrule.yaml"
RUNBOOKS: Final = "docs/runbooks.md"

_HEAD: Final = (
    "# Made by `python -m deploy.prometheus.alerts`; what each alert asks for is in docs/runbooks.md.\n"
)

# How many files in a second are many. With fewer, docs/performance.md ("Many tables") shows a change within a second.
MANY_FILES: Final = 200

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0

# What is behind where the source has GTIDs, and where it has none.
_BEHIND: Final = f"({metrics.LAG_TRANSACTIONS.name} > 0 or {metrics.LAG_BYTES.name} > 0)"


# A pipeline whose target is gone, as that of a pod that waits for a node. It has no `up` then that could be 0.
_GONE: Final = (
    f"max by (job, pipeline) (last_over_time({metrics.PIPELINE.name}[{{window}}])"
    f" unless on (job, pipeline) {metrics.PIPELINE.name} unless on (job, instance) up)"
)


def _there(actor: str) -> str:
    """What's true of a service whose configuration has this actor; expressions are formatted once more."""
    return f'on (job, instance) {metrics.UP.name}{{{{actor="{actor}"}}}} >= 0'


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule; `expr` may have `{window}`, over which it looks back, and `{limit}`, a time in seconds.

    `holds_s`: how long it has to be true; `window_s` and `limit_s`: what's put in their places.
    """

    name: str
    severity: str
    summary: str
    expr: str
    holds_s: float
    window_s: float = 0.0
    limit_s: float = 0.0

    def rule(self, scale: float) -> dict[str, Any]:
        """The rule as Prometheus reads it, with all of its times multiplied by `scale`."""
        times = {"window": duration(self.window_s * scale), "limit": f"{self.limit_s * scale:g}"}
        return {
            "alert": self.name,
            "expr": self.expr.format(**times),
            **({"for": duration(self.holds_s * scale)} if self.holds_s else {}),
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook_url": f"{RUNBOOKS}#{self.name.lower()}"},
        }


# As long before as `tidemark check` names it.
_RENEW_BEFORE_S: Final = 14 * 86_400

ALERTS: Final = (
    Alert(
        "TidemarkDown",
        "critical",
        "Tidemark{{ with $labels.instance }} at {{ . }}{{ end }}{{ with $labels.pipeline }} {{ . }}{{ end }} "
        "can't be scraped.",
        f'up{{{{job="tidemark"}}}} == 0 or ({_GONE} or on (job) absent(up{{{{job="tidemark"}}}}))',
        holds_s=2 * _MINUTE,
        window_s=24 * _HOUR,
    ),
    Alert(
        "TidemarkRestartLoop",
        "critical",
        "Tidemark at {{ $labels.instance }} restarts again and again.",
        f"max by (job, instance) (increase({metrics.RESTARTS.name}[{{window}}])) > 3"
        ' or changes(process_start_time_seconds{{job="tidemark"}}[{window}]) > 3',
        holds_s=0.0,
        window_s=10 * _MINUTE,
    ),
    Alert(
        "TidemarkSourceUnreachable",
        "critical",
        "The MySQL server doesn't answer Tidemark at {{ $labels.instance }}.",
        f"{metrics.SOURCE_UP.name} == 0",
        holds_s=2 * _MINUTE,
    ),
    Alert(
        "TidemarkSourceNotReplicating",
        "warning",
        "The source of Tidemark at {{ $labels.instance }} is a replica that lags its own source by "
        "{{ $value | humanizeDuration }}.",
        f"{metrics.REPLICATION_LAG.name} > {{limit}}",
        holds_s=5 * _MINUTE,
        limit_s=10 * _MINUTE,
    ),
    Alert(
        "TidemarkStalled",
        "critical",
        "The source has what Tidemark at {{ $labels.instance }} lacks, and Tidemark captures nothing of it.",
        f"increase({metrics.SEGMENTS_SEALED.name}[{{window}}]) == 0 and {_BEHIND}",
        holds_s=2 * _MINUTE,
        window_s=3 * _MINUTE,
    ),
    Alert(
        "TidemarkLagging",
        "warning",
        "Tidemark at {{ $labels.instance }} is {{ $value | humanizeDuration }} behind its source.",
        f"time() - {metrics.SOURCE_COMMIT.name} > {{limit}} and {metrics.LAG_BYTES.name} > 0",
        holds_s=5 * _MINUTE,
        limit_s=_MINUTE,
    ),
    Alert(
        "TidemarkBinlogPurgedSoon",
        "critical",
        "The source may purge the log that Tidemark at {{ $labels.instance }} still needs in "
        "{{ $value | humanizeDuration }}.",
        f"{metrics.PURGE.name} - time() < {{limit}} and {_BEHIND}",
        holds_s=5 * _MINUTE,
        limit_s=12 * _HOUR,
    ),
    Alert(
        "TidemarkSnapshotFailed",
        "warning",
        "Tables whose last snapshot has failed at {{ $labels.instance }}: {{ $value }}.",
        f'{metrics.SNAPSHOT_TABLES.name}{{{{state="failed"}}}} > 0',
        holds_s=0.0,
    ),
    Alert(
        "TidemarkSnapshotStalled",
        "warning",
        "The snapshots and verifications at {{ $labels.instance }} have read nothing for "
        "{{ $value | humanizeDuration }}.",
        f"time() - {metrics.SNAPSHOT_PROGRESS.name} > {{limit}}",
        holds_s=5 * _MINUTE,
        limit_s=6 * _HOUR,
    ),
    Alert(
        "TidemarkTableStopped",
        "critical",
        "Tables that have been stopped in {{ $labels.part }} at {{ $labels.instance }}: {{ $value }}.",
        f"{metrics.STOPPED_TABLES.name} > 0",
        holds_s=0.0,
    ),
    Alert(
        "TidemarkMirrorRebuilding",
        "warning",
        "The mirror of {{ $labels.table }} at {{ $labels.instance }} has been filled for "
        "{{ $value | humanizeDuration }}, and readers see it as it was before.",
        f"time() - ({metrics.MIRROR_REBUILDING.name} > 0) > {{limit}}",
        holds_s=5 * _MINUTE,
        limit_s=6 * _HOUR,
    ),
    Alert(
        "TidemarkLakeDiffers",
        "critical",
        "Rows of {{ $labels.table }} that a verification at {{ $labels.instance }} found {{ $labels.kind }}: "
        "{{ $value }}.",
        f"{metrics.FINDINGS.name} > 0",
        holds_s=0.0,
    ),
    Alert(
        "TidemarkUnverified",
        "warning",
        "No verification{{ with $labels.table }} of {{ . }}{{ end }} at {{ $labels.instance }} has been judged for "
        "long.",
        # The schedule sends a signal again ten minutes after each rejection: 36 times in the window.
        f"{metrics.UNJUDGED_IN_A_ROW.name} > 2 or on (job, instance) sum by (job, instance) (increase("
        f'{metrics.SIGNALS.name}{{{{channel="{VerifySchedule.name}", outcome="rejected"}}}}[{{window}}])) > 30',
        holds_s=0.0,
        window_s=6 * _HOUR,
    ),
    Alert(
        "TidemarkJournalNearQuota",
        "warning",
        "The journal of {{ $labels.instance }} has {{ $value | humanizePercentage }} of its quota.",
        f"{metrics.JOURNAL_SIZE.name} / {metrics.JOURNAL_QUOTA.name} > 0.8",
        holds_s=5 * _MINUTE,
    ),
    Alert(
        "TidemarkJournalFull",
        "critical",
        "Capture at {{ $labels.instance }} waits because its journal has no room.",
        f"{metrics.JOURNAL_FULL.name} == 1",
        holds_s=_MINUTE,
    ),
    Alert(
        "TidemarkLakeStalled",
        "critical",
        "The lake gets nothing from {{ $labels.instance }}, though {{ $value }} segments wait.",
        f"{metrics.SEALED_SEGMENT.name} - {metrics.DELIVERED_SEGMENT.name} > 0"
        f" and changes({metrics.DELIVERED_SEGMENT.name}[{{window}}]) == 0 and {_there('SparkSink')}",
        holds_s=5 * _MINUTE,
        window_s=5 * _MINUTE,
    ),
    Alert(
        "TidemarkLakeWorkFails",
        "warning",
        "Work on lake tables ({{ $labels.kind }}) fails again and again at {{ $labels.instance }}.",
        # It pauses for an hour at most. One failure in the window is a little more than 1, as Prometheus reckons.
        f"increase({metrics.WORK_FAILED.name}[{{window}}]) > 1.5",
        holds_s=0.0,
        window_s=3 * _HOUR,
    ),
    Alert(
        "TidemarkManyFiles",
        "warning",
        "Tidemark at {{ $labels.instance }} writes {{ $value | humanize }} files a second.",
        f"sum by (job, instance) (rate({metrics.JOURNAL_FILES.name}[{{window}}])"
        f" or rate({metrics.LAKE_FILES_WRITTEN.name}[{{window}}])) > {MANY_FILES}",
        holds_s=15 * _MINUTE,
        window_s=5 * _MINUTE,
    ),
    Alert(
        "TidemarkKafkaStalled",
        "critical",
        "The topics get nothing from {{ $labels.instance }}, though {{ $value }} segments wait.",
        f"{metrics.SEALED_SEGMENT.name} - {metrics.KAFKA_SEGMENT.name} > 0"
        f" and changes({metrics.KAFKA_SEGMENT.name}[{{window}}]) == 0 and {_there('KafkaSink')}",
        holds_s=5 * _MINUTE,
        window_s=5 * _MINUTE,
    ),
    Alert(
        "TidemarkCertificateEnds",
        "warning",
        "The certificate that {{ $labels.instance }} serves HTTP with ends in {{ $value | humanizeDuration }}.",
        f"{metrics.CERTIFICATE_END.name} - time() < {_RENEW_BEFORE_S}",
        holds_s=0.0,
    ),
)


def duration(seconds: float) -> str:
    """A time as Prometheus writes it, to the millisecond."""
    milliseconds = round(seconds * 1000)
    for unit, length in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def rules(scale: float = 1.0) -> str:
    """The file of rules, with all times multiplied by `scale`."""
    return _document(_groups(scale))


def manifest() -> str:
    """The same rules as a PrometheusRule."""
    return _document(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "tidemark", "labels": {"app.kubernetes.io/name": "tidemark"}},
            "spec": _groups(scale=1.0),
        }
    )


def _groups(scale: float) -> dict[str, Any]:
    return {"groups": [{"name": "tidemark", "rules": [alert.rule(scale) for alert in ALERTS]}]}


def _document(of: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(of, sort_keys=False, width=110)
    return _HEAD + text


if __name__ == "__main__":
    RULES.write_text(rules(), encoding="utf-8")
    MANIFEST.write_text(manifest(), encoding="utf-8")
