"""Writes the tables of metrics into docs/metrics.md, from the catalogue (`pipeline.metrics`).

    python -m docs.metric_table

The second table says which metric replaces each JMX attribute of a Debezium connector. Its names are objects of the
catalogue, so none can be missing. A test compares the document with both.

Source: Debezium documentation, connector for MySQL, "Monitoring" (names of the attributes).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.draw import replaced
from pipeline import metrics as m
from pipeline.metrics import Metric, catalogue

DOCUMENT: Final = Path(__file__).parent / "metrics.md"
BEGIN: Final = "<!-- metrics: begin (python -m docs.metric_table) -->"
END: Final = "<!-- metrics: end -->"
JMX_BEGIN: Final = "<!-- jmx: begin (python -m docs.metric_table) -->"
JMX_END: Final = "<!-- jmx: end -->"

# Each section's first metric.
SECTIONS: Final = {
    m.PIPELINE: "The service",
    m.MAILBOX_DEPTH: "Every actor",
    m.BINLOG_POSITION: "The source and its log",
    m.WINDOWS_OPEN: "Snapshots",
    m.SEGMENTS_SEALED: "The journal",
    m.SPARK_UP: "The lake",
    m.KAFKA_UP: "The topics",
    m.SIGNALS: "Signals",
}

# An attribute of a Debezium connector, the metrics that replace it, and a remark.
JMX: Final[tuple[tuple[str, tuple[Metric, ...], str], ...]] = (
    ("`MilliSecondsSinceLastEvent`", (m.LAST_EVENT,), "a moment: `time() - …`"),
    (
        "`TotalNumberOfEventsSeen`, `TotalNumberOf{Create,Update,Delete}EventsSeen`",
        (m.ROWS_READ,),
        "rows, by kind",
    ),
    ("`NumberOf{Create,Update,Delete}EventsSeen` per table", (m.ROWS_READ,), "by table and kind"),
    (
        "`NumberOfErroneousEvents`",
        (m.ERRORS, m.STOPPED_TABLES),
        "an event that can't be decoded stops its table",
    ),
    ("`NumberOfEventsFiltered`, `NumberOfSkippedEvents`", (), "Tidemark skips nothing"),
    ("`QueueTotalCapacity`", (m.MAILBOX_CAPACITY,), "of each actor"),
    ("`QueueRemainingCapacity`", (m.MAILBOX_CAPACITY, m.MAILBOX_DEPTH), "the difference"),
    (
        "`MilliSecondsBehindSource` and its minimum, maximum, average, percentiles",
        (m.SOURCE_LAG,),
        "in seconds",
    ),
    (
        "",
        (m.COMMIT_TO_JOURNAL, m.FRESHNESS),
        "percentiles to the journal and to the lake: `histogram_quantile`",
    ),
    ("`NumberOfCommittedTransactions`", (m.TRANSACTIONS,), ""),
    ("`Connected`", (m.SOURCE_UP,), ""),
    ("`NumberOfDisconnects`", (m.ERRORS,), "of the kind `transient`, by actor"),
    ("`BinlogFilename`, `BinlogPosition`", (m.BINLOG_POSITION,), "the file is its label"),
    ("`GtidSet`, `LastTransactionId`, `IsGtidModeEnabled`", (), "`/status` has the position"),
    (
        "`NumberOfRolledBackTransactions`, `NumberOfNotWellFormedTransactions`",
        (),
        "a ROW log has none of them",
    ),
    ("`NumberOfLargeTransactions`", (), "a large transaction passes in parts"),
    ("`TotalTableCount`, `RemainingTableCount`", (m.SNAPSHOT_TABLES,), "by state"),
    (
        "`SnapshotRunning`, `SnapshotCompleted`, `SnapshotAborted`",
        (m.SNAPSHOT_TABLES,),
        "states chunking, completed, stopped",
    ),
    ("`SnapshotSkipped`", (m.SNAPSHOT_TABLES,), "Tidemark skips no table: a failed one has the state failed"),
    ("`SnapshotPaused`", (m.PAUSED,), "pauses of the reader; `/status` shows a paused snapshot"),
    ("`SnapshotDurationInSeconds`", (m.SNAPSHOT_LEFT,), "the time that is left"),
    (
        "`RowsScanned` (a map, by table)",
        (m.SNAPSHOT_ROWS, m.ROWS_DONE),
        "all rows read, and emitted rows of the present snapshot",
    ),
    ("`TableChunkCounts`, `TableChunksCompletedCounts`", (m.RANGES, m.RANGES_DONE, m.CHUNKS), ""),
    ("`ChunkId`, `ChunkFrom`, `ChunkTo`, `TableFrom`, `TableTo`", (), "`/status` has windows and ranges"),
    ("`HoldingGlobalLock`", (), "Tidemark holds no lock"),
    (
        "the schema history's `Status`, `ChangesRecovered`, `ChangesApplied`, …",
        (m.SCHEMA_CHANGES,),
        "Tidemark has no schema history to recover",
    ),
)


def kind(metric: Metric) -> str:
    """Returns a metric's type as Prometheus calls it."""
    return type(metric).__name__.lower()


def unit(metric: Metric) -> str:
    """Returns a metric's unit: the last word of its name."""
    return metric.name.removesuffix("_total").rpartition("_")[2]


def table() -> str:
    """Returns all metrics as Markdown tables, one for each section."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for metric in catalogue():
        if metric in SECTIONS:
            yield f"\n### {SECTIONS[metric]}\n"
            yield from ("| metric | type | unit | labels | meaning |", "|---|---|---|---|---|")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {kind(metric)} | {unit(metric)} | {labels} | {metric.help} |"
    yield ""


def jmx() -> str:
    """Returns the mapping from Debezium's names as a Markdown table."""
    lines = ["| Debezium's JMX attribute | metric | |", "|---|---|---|"]
    for attribute, metrics, remark in JMX:
        lines.append(f"| {attribute} | {', '.join(f'`{metric.name}`' for metric in metrics)} | {remark} |")
    return "\n".join(lines)


def written(document: str) -> str:
    """Returns the document with the present tables."""
    return replaced(replaced(document, BEGIN, END, table()), JMX_BEGIN, JMX_END, jmx())


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
