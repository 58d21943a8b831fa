"""The overview: is it healthy, how far behind is it, how fresh is the lake? Answered by its first two lines."""

from typing import Final

from grafana.boards import Board, Row, uid
from grafana.panels import (
    GREEN,
    RED,
    YELLOW,
    Limits,
    Meaning,
    Query,
    Words,
    only,
    series_panel,
    stat_panel,
    states_panel,
)
from grafana.promql import Scope, or_zero
from pipeline import metrics as of

ALL: Final = Scope()

# What the goals say of lag, and what a lake's readers notice, in seconds.
LAG: Final = Limits(5, 60)
FRESHNESS: Final = Limits(10, 60)

_FIRING: Final = 'sum by (alertname) (ALERTS{alertstate="firing", alertname=~"Tidemark.+"})'
_NONE_FIRING: Final = 'label_replace(vector(0), "alertname", "none", "", "")'

# Of the newest commit that was read, as long as there's more to read: it grows also where the reader hangs. The
# reader's own figure is for a source whose log can't be asked for.
_AGE: Final = f"clamp_min(time() - {ALL.max(of.SOURCE_COMMIT)}, 0) * ({ALL.max(of.LAG_BYTES)} > bool 0)"
_BEHIND_BY: Final = f"{_AGE} or {ALL.max(of.SOURCE_LAG)}"

_STATE: Final = {0: Meaning("no", RED), 1: Meaning("yes", GREEN)}
_HINDRANCE: Final = {0: Meaning("no", GREEN), 1: Meaning("yes", YELLOW)}

_HEALTHY: Final = Row(
    "Is it healthy?",
    (
        stat_panel(
            "Running",
            Words(
                "Whether all actors of the pipeline run.",
                "Not running: an actor is restarting or has ended, or the process is gone.",
                "Look at the actors, then at the log for `failed`, which has the reason. readyz has it too.",
            ),
            Query(or_zero(ALL.min(of.UP))),
            "none",
            only(1, falling=True),
            meanings={0: Meaning("Not running", RED), 1: Meaning("Running", GREEN)},
            leads_to=uid("actors"),
        ),
        stat_panel(
            "Alerts",
            Words(
                "The firing alerts of all pipelines.",
                "Any name in red.",
                "Each alert has its section in docs/runbooks.md.",
            ),
            Query(f"{_FIRING} or on () {_NONE_FIRING}", "{{alertname}}"),
            "none",
            only(1),
            by_name=True,
        ),
        stat_panel(
            "Behind the source",
            Words(
                "The age of the newest commit that capture has read from the log; 0 when it has read everything.",
                "Above 5 s for minutes: the source writes faster than capture reads, or capture waits.",
                "See below what it waits for. The actors show where the bottleneck is.",
            ),
            Query(_BEHIND_BY),
            "s",
            LAG,
            leads_to=uid("actors"),
        ),
        stat_panel(
            "Fresh in the lake",
            Words(
                "The time from commit until the lake shows it, for 95 % of the last five minutes' batches.",
                "Above 10 s: slower than usual. Above a minute: readers notice.",
                "Look at the lake: batches that take long, or a backlog after a failure of Spark.",
            ),
            Query(f"{ALL.quantile(0.95, of.FRESHNESS, window='5m')} >= 0"),
            "s",
            FRESHNESS,
            nothing="no changes",
            leads_to=uid("lake"),
        ),
        stat_panel(
            "Tables stopped",
            Words(
                "Tables that are no longer captured or delivered. All others continue.",
                "Any. Its lake table stays as it was when it stopped.",
                "`tidemark status` names each with its reason, and the reason says what to do.",
            ),
            Query(or_zero(ALL.sum(of.STOPPED_TABLES))),
            "none",
            only(1),
        ),
        stat_panel(
            "Failures, last hour",
            Words(
                "Failures of actors in the last hour, of any kind.",
                "Many, or any kind except transient. A few transient ones come from outside.",
                "The panel below has the kind. The log's `failed` has the actor and the reason.",
            ),
            Query(or_zero(ALL.increase(of.ERRORS, window="1h"))),
            "none",
            Limits(1, 10),
            leads_to=uid("actors"),
        ),
        stat_panel(
            "Source",
            Words(
                "Whether the source answers the query for its position.",
                "No answer for longer than a failover takes.",
                "Check that the server is up and the account may connect. The log has the server's answer.",
            ),
            Query(or_zero(ALL.max(of.SOURCE_UP))),
            "none",
            only(1, falling=True),
            meanings={0: Meaning("No answer", RED), 1: Meaning("Answers", GREEN)},
        ),
        stat_panel(
            "Lake",
            Words(
                "Whether a Spark session is open.",
                "None for longer than a minute: the sink delivers nothing, and the journal fills.",
                "The log's `failed` of SparkSink says why: Java, memory, the master, or the lake's storage.",
            ),
            Query(or_zero(ALL.max(of.SPARK_UP))),
            "none",
            only(1, falling=True),
            meanings={0: Meaning("No Spark", RED), 1: Meaning("Spark runs", GREEN)},
            leads_to=uid("lake"),
        ),
        stat_panel(
            "Until the log is purged",
            Words(
                "How long the source keeps the needed part of its log at least.",
                "Less than half a day: if capture doesn't catch up by then, all tables need a new snapshot.",
                "Let it catch up, or raise binlog_expire_logs_seconds on the source.",
            ),
            Query(f"{ALL.min(of.PURGE)} - time()"),
            "s",
            Limits(86_400, 43_200, falling=True),
            nothing="unknown",
        ),
        stat_panel(
            "Journal",
            Words(
                "The share of its quota that the journal uses; 0 without a quota.",
                "Above 80 %: a consumer lags. At 100 % capture waits until there is room.",
                "Restore the lake (or the lagging consumer), or raise journal.quota_mib.",
            ),
            Query(f"{ALL.max(of.JOURNAL_SIZE)} / {ALL.max(of.JOURNAL_QUOTA)}"),
            "percentunit",
            Limits(0.5, 0.8),
            leads_to=uid("lake"),
        ),
        stat_panel(
            "Snapshots end in",
            Words(
                "How long the running snapshots still take at their present rate.",
                "A time that grows.",
                "Look at the snapshots: the source may be busy, or capture lags.",
            ),
            Query(ALL.max(of.SNAPSHOT_LEFT)),
            "s",
            Limits(86_400, 604_800),
            nothing="none runs",
            leads_to=uid("snapshots"),
        ),
        stat_panel(
            "Snapshots failed",
            Words(
                "Tables whose last snapshot failed.",
                "Any. The lake lacks rows of that table until its next snapshot.",
                "`tidemark status` has the reason. Remove it and send execute-snapshot for that table.",
            ),
            Query(or_zero(ALL.sum(of.SNAPSHOT_TABLES, state="failed"))),
            "none",
            only(1),
            leads_to=uid("snapshots"),
        ),
    ),
)

_BEHIND: Final = Row(
    "How far behind, how fresh?",
    (
        series_panel(
            "Behind the source, over time",
            Words(
                "The age of the newest commit that capture has read from the log.",
                "A rising slope: the source writes faster than capture reads. A saw is one large transaction.",
                "If the rate of rows below is at its usual maximum, the source writes more than this machine can take.",
            ),
            [Query(_BEHIND_BY, "behind")],
            "s",
            limits=LAG,
        ),
        series_panel(
            "From the commit on",
            Words(
                "How long after its commit a change is sealed in the journal, and visible in the lake: "
                "one half of the segments and batches is faster, one in a hundred slower.",
                "The journal above a second: capture is slow. Only the lake: delivery is.",
                "For the journal look at the actors, for the lake at the lake.",
            ),
            [
                Query(ALL.quantile(0.5, of.COMMIT_TO_JOURNAL), "in the journal, half"),
                Query(ALL.quantile(0.99, of.COMMIT_TO_JOURNAL), "in the journal, 99 %"),
                Query(ALL.quantile(0.5, of.FRESHNESS), "in the lake, half"),
                Query(ALL.quantile(0.99, of.FRESHNESS), "in the lake, 99 %"),
            ],
            "s",
            limits=FRESHNESS,
        ),
        series_panel(
            "Not read yet",
            Words(
                "Bytes of the source's log after the reader's position.",
                "More and more.",
                "Divide by the rate of read bytes to see when capture has caught up.",
            ),
            [Query(ALL.max(of.LAG_BYTES), "to read")],
            "bytes",
        ),
        series_panel(
            "Not sealed yet",
            Words(
                "Transactions that the source has executed and the journal doesn't have yet.",
                "More and more, while few bytes are left to read: sealing is slow.",
                "See the journal's panels in the lake's dashboard. The disk may be slow.",
            ),
            [Query(ALL.max(of.LAG_TRANSACTIONS), "to seal")],
            "short",
        ),
        series_panel(
            "Rows on their way",
            Words(
                "Row images read from the log, rows read by snapshots, rows sealed, rows appended to the lake.",
                "A stage that stays below the one before it: that stage is slow. Nothing at all, though the source is "
                "written to.",
                "Less appended than sealed: look at the lake. Less sealed than read: look at the journal's disk.",
            ),
            [
                Query(ALL.rate(of.ROWS_READ), "images from the log"),
                Query(ALL.rate(of.SNAPSHOT_ROWS), "read by snapshots"),
                Query(ALL.rate(of.JOURNAL_ROWS), "sealed"),
                Query(ALL.rate(of.DELIVERED), "appended to the lake"),
            ],
            "rowsps",
        ),
        series_panel(
            "The log",
            Words(
                "Transactions read from the log in a second, and bytes.",
                "Bytes without transactions: capture is reading one large transaction.",
                "Usually nothing. It explains a lag that grows and falls at once.",
            ),
            [
                Query(ALL.rate(of.TRANSACTIONS), "transactions"),
                Query(f"{ALL.rate(of.BINLOG_READ)} / 1024", "KiB"),
            ],
            "ops",
        ),
    ),
)

_HAPPENED: Final = Row(
    "What has happened?",
    (
        states_panel(
            "What runs",
            Words(
                "When all actors ran, when the source answered, and when a Spark session was open.",
                "Red that comes again and again: a loop of restarts.",
                "Look at the failures of that time beside it.",
            ),
            [
                Query(ALL.min(of.UP), "all actors"),
                Query(ALL.max(of.SOURCE_UP), "source"),
                Query(ALL.max(of.SPARK_UP), "Spark"),
            ],
            _STATE,
        ),
        series_panel(
            "Failures",
            Words(
                "Failures of actors by their kind, and failovers to another server of the list.",
                "`definite` stops a table or the pipeline, `invariant` the process; `hang` and `unforeseen` are bugs. "
                "`transient` comes from outside, and is bad if it doesn't end.",
                "The log's `failed` has the same kind, and the reason. Report a bug with that line.",
            ),
            [
                Query(ALL.increase(of.ERRORS, "kind"), "{{kind}}"),
                Query(ALL.increase(of.FAILOVERS), "failover"),
            ],
            "short",
            bars=True,
        ),
        states_panel(
            "What holds it back",
            Words(
                "When the reader was paused, when the journal had no room, and when no chunk was ordered because the "
                "source was overloaded.",
                "A journal without room: capture waits, and the source may purge its log.",
                "A pause alone is short: it limits memory, or waits for a schema. For the journal see its quota.",
            ),
            [
                Query(ALL.max(of.PAUSED), "reader paused"),
                Query(ALL.max(of.JOURNAL_FULL), "journal full"),
                Query(ALL.max(of.SOURCE_BUSY), "snapshots wait for the source"),
            ],
            _HINDRANCE,
        ),
        series_panel(
            "Changes of tables",
            Words(
                "Statements that changed a captured table, mirrors that began a new generation, and dates that are "
                "null in the lake because no calendar has them.",
                "New generations that you didn't expect: capture reads all of the table again.",
                "The metric has the table's name. docs/lake.md says which statements do it.",
            ),
            [
                Query(or_zero(ALL.increase(of.SCHEMA_CHANGES)), "schema changes"),
                Query(or_zero(ALL.increase(of.TABLE_RESTARTS)), "new generations"),
                Query(or_zero(ALL.increase(of.IMPOSSIBLE_DATES)), "impossible dates"),
            ],
            "short",
            bars=True,
        ),
    ),
)

OVERVIEW: Final = Board(
    "overview",
    "Is it healthy, how far behind is it, how fresh is the lake?",
    (),
    (_HEALTHY, _BEHIND, _HAPPENED),
)
