"""The actors: which of them is the bottleneck, which of them fails, and what the process takes."""

from typing import Final

from grafana.boards import Board, Row
from grafana.panels import (
    GREEN,
    RED,
    Limits,
    Meaning,
    Query,
    Words,
    series_panel,
    stat_panel,
    states_panel,
)
from grafana.promql import WINDOW, Scope
from pipeline import metrics as of

CHOSEN: Final = Scope(("actor",))

# Of the process itself, by prometheus-client.
_STARTED: Final = 'process_start_time_seconds{instance=~"$instance"}'
_CPU: Final = 'process_cpu_seconds_total{instance=~"$instance"}'
_MEMORY: Final = 'process_resident_memory_bytes{instance=~"$instance"}'
_OPEN: Final = 'process_open_fds{instance=~"$instance"}'
_MAY_OPEN: Final = 'process_max_fds{instance=~"$instance"}'

_FILL: Final = f"{CHOSEN.max(of.MAILBOX_DEPTH, 'actor')} / {CHOSEN.max(of.MAILBOX_CAPACITY, 'actor')}"

_BOTTLENECK: Final = Row(
    "Where is the bottleneck?",
    (
        series_panel(
            "Mailboxes, how full",
            Words(
                "How full each actor's mailbox is. One with a limit in bytes may have no room below 100 %.",
                "Full for minutes.",
                "The bottleneck is the last actor of the flow whose mailbox is full. Later actors wait for work, "
                "and earlier ones for room.",
            ),
            [Query(_FILL, "{{actor}}")],
            "percentunit",
            limits=Limits(0.5, 0.9),
            greatest=1,
        ),
        series_panel(
            "Busy",
            Words(
                "The share of its time that each actor spends on messages, including waits for room at the next one.",
                "1 with an empty mailbox after it: that actor is the bottleneck.",
                "JournalWriter: see the disk. SparkSink: see the lake. BinlogReader isn't here: it takes few messages.",
            ),
            [Query(CHOSEN.spent(of.HANDLING, "actor"), "{{actor}}")],
            "percentunit",
        ),
        series_panel(
            "Messages",
            Words(
                "Messages that each actor handles in a second.",
                "None for an actor while the one before it works.",
                "Look whether it's full, busy or down.",
            ),
            [Query(CHOSEN.rate(of.HANDLED, "actor"), "{{actor}}")],
            "mps",
        ),
        series_panel(
            "Time of a message, 99 %",
            Words(
                "99 of 100 messages take less than this time, including waits for room.",
                "Some seconds, except for SparkSink, whose batches take that long. The supervisor restarts an actor "
                "after 12 s without progress, because it hangs. It restarts SparkSink only if Spark doesn't answer, or "
                "makes no progress for 180 s.",
                "See below which message it is.",
            ),
            [Query(f"{CHOSEN.quantile(0.99, of.HANDLING, 'actor')} >= 0", "{{actor}}")],
            "s",
        ),
        series_panel(
            "Time by message",
            Words(
                "The actors' time by message.",
                "A message that takes most of it and has little to do.",
                "Choose the bottleneck's actor above to see which of its work is slow.",
            ),
            [Query(CHOSEN.spent(of.HANDLING, "actor", "message"), "{{actor}}: {{message}}")],
            "percentunit",
            stacked=True,
            width=24,
        ),
    ),
)

_FAILS: Final = Row(
    "Which of them fails?",
    (
        states_panel(
            "Running",
            Words(
                "When each actor ran.",
                "Red that comes again and again. Capture's five actors restart together.",
                "See which of them failed at that time.",
            ),
            [Query(CHOSEN.max(of.UP, "actor"), "{{actor}}")],
            {0: Meaning("no", RED), 1: Meaning("yes", GREEN)},
            width=24,
        ),
        series_panel(
            "Failures",
            Words(
                "Failures by actor, or by group if it couldn't be built. Actors that restart with it don't count.",
                "Any but some `transient` ones.",
                "The overview has their kinds, and the log's `failed` says why.",
            ),
            [Query(CHOSEN.increase(of.ERRORS, "actor"), "{{actor}}")],
            "short",
            bars=True,
        ),
        series_panel(
            "Restarts",
            Words(
                "Restarts of each actor.",
                "Every few minutes for longer than an outage of the source or the lake takes.",
                "Find the reason early: more than five unforeseen failures in five minutes end the process.",
            ),
            [Query(CHOSEN.increase(of.RESTARTS, "actor"), "{{actor}}")],
            "short",
            bars=True,
        ),
        series_panel(
            "Since the last progress",
            Words(
                "How long ago each actor last made progress.",
                "Long, while its mailbox isn't empty: it hangs, or waits for the next actor.",
                "Without messages it's harmless. The supervisor finds and restarts a hung actor by itself.",
            ),
            [Query(f"time() - {CHOSEN.max(of.PROGRESS, 'actor')}", "{{actor}}")],
            "s",
        ),
        series_panel(
            "Signals",
            Words(
                "Signals by outcome, and those that wait for their answer.",
                "`malformed` and `rejected`: these signals have no effect. Unanswered for minutes: "
                "capture doesn't run.",
                "The answer has the reason: query GET /signals/<id>, or read the channel's answers.",
            ),
            [
                Query(CHOSEN.increase(of.SIGNALS, "outcome"), "{{outcome}}"),
                Query(CHOSEN.max(of.SIGNALS_UNANSWERED), "unanswered"),
            ],
            "short",
        ),
        series_panel(
            "Waits for own writes",
            Words(
                "Requests at /applied by outcome, and those that wait until their transactions can be read.",
                "`never`: clients ask for what can't come. `timeout`: delivery takes longer than they wait.",
                "The answers have the reason. See how fresh the lake is, and which tables were stopped.",
            ),
            [
                Query(CHOSEN.increase(of.WAITED, "outcome"), "{{outcome}}"),
                Query(CHOSEN.max(of.WAITS), "waiting"),
            ],
            "short",
        ),
        series_panel(
            "A wait for own writes",
            Words(
                "How long requests at /applied waited until their transactions could be read.",
                "Far above the lake's freshness.",
                "Let clients name the tables that they read, so that no other table's trouble holds them up.",
            ),
            [
                Query(f"{CHOSEN.quantile(0.5, of.WAIT)} >= 0", "half"),
                Query(f"{CHOSEN.quantile(0.99, of.WAIT)} >= 0", "99 %"),
            ],
            "s",
        ),
        series_panel(
            "Changes sent to readers",
            Words(
                "Programs that read /changes, and rows each second that were sent to them, by format.",
                "128 readers: no other gets in. Far more rows than are captured: one reads the same again and again.",
                "Find programs that don't close a stream, or don't keep their checkpoint.",
            ),
            [
                Query(CHOSEN.max(of.CHANGES_READERS), "readers"),
                Query(CHOSEN.rate(of.CHANGES_ROWS, "format"), "{{format}}"),
            ],
            "short",
        ),
        series_panel(
            "Bytes sent to readers",
            Words(
                "Bytes each second that /changes has sent, by format.",
                "Near what the network can carry.",
                "Let readers name their tables, or ask for Arrow with compression.",
            ),
            [Query(CHOSEN.rate(of.CHANGES_BYTES, "format"), "{{format}}")],
            "Bps",
        ),
    ),
)

_PROCESS: Final = Row(
    "What does the process take?",
    (
        stat_panel(
            "Runs for",
            Words(
                "How long this process has run.",
                "Minutes, though you didn't restart it: it ends and is started again.",
                "The log's last lines before the start say how it ended; so does the exit code.",
            ),
            Query(f"time() - max({_STARTED})"),
            "s",
            Limits(600, 120, falling=True),
            width=12,
        ),
        stat_panel(
            "Files open",
            Words(
                "Open files and sockets, as a share of the limit.",
                "Growing from day to day: files or sockets stay open.",
                "Report it, with what `ls -l /proc/<pid>/fd` shows.",
            ),
            Query(f"max({_OPEN} / {_MAY_OPEN})"),
            "percentunit",
            Limits(0.5, 0.8),
            width=12,
        ),
        series_panel(
            "Processor",
            Words(
                "Cores that the process keeps busy, without Spark's JVM, which is another process.",
                "At 1 while capture lags: its Python is the bottleneck.",
                "A faster core helps. More cores don't.",
            ),
            [Query(f"sum(rate({_CPU}[{WINDOW}]))", "cores")],
            "none",
        ),
        series_panel(
            "Memory",
            Words(
                "Memory of the process, without Spark's JVM, which is another process.",
                "Growing from day to day.",
                "Report it: the mailboxes, snapshot.memory_mib and the journal's open segment limit it.",
            ),
            [Query(f"max({_MEMORY})", "resident")],
            "bytes",
        ),
    ),
)

ACTORS: Final = Board(
    "actors",
    "Which actor is the bottleneck, which one fails, and what does the process take?",
    ("actor",),
    (_BOTTLENECK, _FAILS, _PROCESS),
)
