"""The snapshots: how far each table is, when it will be done, and what a chunk's time goes into."""

from typing import Final

from grafana.boards import Board, Row
from grafana.panels import (
    GREEN,
    YELLOW,
    Column,
    Limits,
    Meaning,
    Query,
    Words,
    bars_panel,
    only,
    series_panel,
    stat_panel,
    states_panel,
    table_panel,
)
from grafana.promql import Scope, or_zero
from pipeline import metrics as of

CHOSEN: Final = Scope(("table",))

_SHARE_DONE: Final = f"{CHOSEN.max(of.RANGES_DONE, 'table')} / {CHOSEN.max(of.RANGES, 'table')}"
_GIVEN_UP: Final = f"{CHOSEN.rate(of.ROWS_GIVEN_UP, 'table')} / {CHOSEN.rate(of.SNAPSHOT_ROWS, 'table')}"

_HOW_FAR: Final = Row(
    "How far is it?",
    (
        stat_panel(
            "Running",
            Words(
                "Tables that are being read, or wait for their turn.",
                "More than zero for longer than the estimated time.",
                "See which table below makes no progress.",
            ),
            Query(
                f"{CHOSEN.sum(of.SNAPSHOT_TABLES, state='chunking')} + "
                f"{CHOSEN.sum(of.SNAPSHOT_TABLES, state='waiting')}"
            ),
            "none",
            Limits(1_000, 10_000),
        ),
        stat_panel(
            "Failed",
            Words(
                "Tables whose last snapshot failed, or was stopped by the user.",
                "Any that failed: the lake lacks rows of it.",
                "`tidemark status` has the reason. Remove it, and send execute-snapshot for the table.",
            ),
            Query(or_zero(CHOSEN.sum(of.SNAPSHOT_TABLES, state="failed"))),
            "none",
            only(1),
        ),
        stat_panel(
            "End in",
            Words(
                "How long the slowest of the chosen tables still takes at its present pace, by the server's estimate "
                "of its rows, which may be off by half.",
                "A time that grows.",
                "See whether rows are read at all, and which phase takes a chunk's time.",
            ),
            Query(CHOSEN.max(of.SNAPSHOT_LEFT)),
            "s",
            Limits(86_400, 604_800),
            nothing="none runs",
        ),
        stat_panel(
            "Rows a second",
            Words(
                "Rows that chunks read in a second.",
                "Zero while a snapshot runs and isn't paused.",
                "The source may be busy (below), the journal full, or capture lags, so that windows stay open.",
            ),
            Query(or_zero(CHOSEN.rate(of.SNAPSHOT_ROWS))),
            "rowsps",
            Limits(0, 0, falling=True),
        ),
        stat_panel(
            "Windows open",
            Words(
                "Chunks that are being read, or whose rows wait for the stream to pass their high watermark.",
                "Always at snapshot.windows though few rows come: the stream lags, and they wait for it.",
                "See how far capture lags.",
            ),
            Query(CHOSEN.max(of.WINDOWS_OPEN)),
            "none",
            Limits(1_000, 2_000),
        ),
        stat_panel(
            "Oldest window",
            Words(
                "How long the oldest open window has been open.",
                "Minutes: the stream doesn't reach its high watermark, or the SELECT doesn't end.",
                "See the phases below: a long `select` is the server's, a long `wait` the stream's.",
            ),
            Query(f"time() - {CHOSEN.max(of.OLDEST_WINDOW)} >= 0"),
            "s",
            Limits(60, 300),
            nothing="none",
        ),
        bars_panel(
            "Ranges done",
            Words(
                "How many of each table's ranges are completely in the stream.",
                "A table without progress while others proceed.",
                "Its rows may be much larger, or its ranges uneven. See `tidemark status`.",
            ),
            Query(_SHARE_DONE, "{{table}}"),
            "percentunit",
            Limits(0, 0, falling=True),
            greatest=1,
        ),
        series_panel(
            "Rows read",
            Words(
                "Rows that chunks read in a second, by table.",
                "A table that falls to zero before it's done.",
                "Look at the table's row below, and at what it waits for.",
            ),
            [Query(CHOSEN.rate(of.SNAPSHOT_ROWS, "table"), "{{table}}")],
            "rowsps",
            stacked=True,
        ),
        table_panel(
            "Tables",
            Words(
                "Each table's snapshot, the running or the last one: ranges, rows, and the time that's left.",
                "Rows done far above the estimate: the estimate was wrong, and so is the time left.",
                "ANALYZE TABLE on the source makes the estimate better.",
            ),
            "table",
            (
                Column(CHOSEN.max(of.RANGES, "table"), "Ranges", "none"),
                Column(CHOSEN.max(of.RANGES_DONE, "table"), "Ranges done", "none"),
                Column(CHOSEN.max(of.ROWS_EXPECTED, "table"), "Rows, about", "short"),
                Column(CHOSEN.max(of.ROWS_DONE, "table"), "Rows done", "short"),
                Column(CHOSEN.max(of.ROWS_UNREAD, "table"), "To be read again", "short", only(1)),
                Column(CHOSEN.max(of.SNAPSHOT_LEFT, "table"), "Time left", "s"),
            ),
        ),
    ),
)

_WHERE: Final = Row(
    "Where does a chunk's time go?",
    (
        series_panel(
            "Phases of a chunk",
            Words(
                "The mean time of a chunk in each phase: the low watermark, the SELECT, the high watermark, "
                "the wait for the stream to come there, and putting the rows into the stream.",
                "`select` grows: the server is slow. `wait` grows: capture is behind. `low` grows: a busy server's "
                "answers come before its transactions are executed.",
                "For `select` see the server's load and the chunk's size. For `wait` see the lag.",
            ),
            [Query(CHOSEN.mean(of.PHASE, "phase"), "{{phase}}")],
            "s",
            stacked=True,
        ),
        series_panel(
            "A chunk, and its window",
            Words(
                "How long the reading of a chunk takes, and how long its window is open: half are faster, one in a "
                "hundred slower.",
                "Reading takes more than some seconds: long transactions on the source hold its undo log.",
                "Make snapshot.chunk_rows smaller.",
            ),
            [
                Query(CHOSEN.quantile(0.5, of.CHUNK_READ), "reading, half"),
                Query(CHOSEN.quantile(0.99, of.CHUNK_READ), "reading, 99 %"),
                Query(CHOSEN.quantile(0.5, of.WINDOW), "window, half"),
                Query(CHOSEN.quantile(0.99, of.WINDOW), "window, 99 %"),
            ],
            "s",
        ),
        series_panel(
            "Chunks",
            Words(
                "Chunks by outcome.",
                "`failed`: after some tries that table's snapshot fails.",
                "The log says why, at `retrying`.",
            ),
            [Query(CHOSEN.rate(of.CHUNKS, "outcome"), "{{outcome}}")],
            "ops",
        ),
        series_panel(
            "Changes that won",
            Words(
                "The share of chunks' rows that a change in their window superseded.",
                "Near 1: windows are so long that most of their rows change meanwhile, so reading them is useless.",
                "The result is right all the same. Smaller chunks, or a quieter time of the day, waste less.",
            ),
            [Query(f"{_GIVEN_UP} >= 0", "{{table}}")],
            "percentunit",
            greatest=1,
        ),
        states_panel(
            "What holds snapshots back",
            Words(
                "When no chunk was ordered because the source was overloaded, and when the journal had no room.",
                "For hours, while nothing else loads the source.",
                "Its limits are rows_per_s, most_threads_running, most_replica_lag_s. The overview has the journal's.",
            ),
            [
                Query(CHOSEN.max(of.SOURCE_BUSY), "the source is busy"),
                Query(CHOSEN.max(of.JOURNAL_FULL), "the journal is full"),
            ],
            {0: Meaning("no", GREEN), 1: Meaning("yes", YELLOW)},
        ),
        series_panel(
            "Rows to be read again",
            Words(
                "Rows with a column that the log never had (binlog_row_image isn't FULL). The lake doesn't "
                "show until they've been read again.",
                "More and more: they come faster than Tidemark can read them again.",
                "binlog_row_image = FULL on the source ends it.",
            ),
            [Query(CHOSEN.max(of.ROWS_UNREAD, "table"), "{{table}}")],
            "short",
        ),
    ),
)

SNAPSHOTS: Final = Board(
    "snapshots",
    "How far is each table's snapshot, when will it be done, and what does a chunk's time go into?",
    ("table",),
    (_HOW_FAR, _WHERE),
)
