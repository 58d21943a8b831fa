"""The lake: how fresh it is, what its batches and merges take, and whether its tables stay small."""

from typing import Final

from grafana.boards import Board, Row
from grafana.overview import FRESHNESS
from grafana.panels import (
    Column,
    Limits,
    Query,
    Words,
    heat_panel,
    only,
    series_panel,
    stat_panel,
    table_panel,
)
from grafana.promql import Scope, or_zero
from pipeline import metrics as of

CHOSEN: Final = Scope(("table",))

_BACKLOG: Final = f"{CHOSEN.max(of.SEALED_SEGMENT)} - {CHOSEN.max(of.DELIVERED_SEGMENT)}"
_BEHIND: Final = f"{CHOSEN.max(of.SEALED_COMMIT)} - {CHOSEN.max(of.DELIVERED_COMMIT)}"


def _amplification(**exactly: str) -> str:
    """The bytes that work of this kind has rewritten, for each byte that was delivered."""
    rewritten = CHOSEN.increase(of.LAKE_REWRITTEN, window="1h", **exactly)
    return f"{rewritten} / ({CHOSEN.increase(of.DELIVERED_BYTES, window='1h')} > 0)"


_FRESH: Final = Row(
    "How fresh is it?",
    (
        stat_panel(
            "Fresh, 95 %",
            Words(
                "The time from commit until the lake shows it, for 95 % of the last five minutes' batches.",
                "Above 10 s: slower than usual. Above a minute: readers notice.",
                "See how long a batch takes, and whether there's a backlog.",
            ),
            Query(f"{CHOSEN.quantile(0.95, of.FRESHNESS, window='5m')} >= 0"),
            "s",
            FRESHNESS,
            nothing="no changes",
            width=5,
        ),
        stat_panel(
            "Behind the journal",
            Words(
                "How much older the newest change in the lake is than the newest one in the journal.",
                "Growing: delivery is slower than capture, or has stopped.",
                "See whether Spark is there and what a batch takes.",
            ),
            Query(_BEHIND),
            "s",
            FRESHNESS,
            width=5,
        ),
        stat_panel(
            "Segments to deliver",
            Words(
                "Segments that are sealed and not yet in the lake.",
                "Growing for minutes. A batch takes all that wait, so some dozens are normal.",
                "See whether Spark is there and what a batch takes.",
            ),
            Query(_BACKLOG),
            "none",
            Limits(200, 2_000),
            width=5,
        ),
        stat_panel(
            "Changes to merge",
            Words(
                "Changes that the chosen tables' mirrors haven't merged. The live view has them.",
                "Far above lake.merge_rows: merges don't keep up, and the live view becomes slow.",
                "See how long merges take. Use a larger Spark, or only the changelog tier for tables without joins.",
            ),
            Query(CHOSEN.sum(of.MIRROR_PENDING)),
            "short",
            Limits(2_000_000, 10_000_000),
            width=5,
        ),
        stat_panel(
            "Tables stopped",
            Words(
                "Tables that are no longer delivered.",
                "Any. Its rows in the lake stay as they were.",
                "`tidemark status` names each with its reason.",
            ),
            Query(or_zero(CHOSEN.sum(of.STOPPED_TABLES, part="lake"))),
            "none",
            only(1),
            width=4,
        ),
        heat_panel(
            "From the commit to the lake",
            Words(
                "How fresh batches were, by the oldest change of each, and how many.",
                "A band that climbs, or a second one far above the first.",
                "A second band waits for Spark's slower commits, for example a checkpoint each tenth. A climb is load.",
            ),
            Query(CHOSEN.buckets(of.FRESHNESS), "{{le}}"),
            "s",
        ),
        series_panel(
            "Consumers behind",
            Words(
                "Segments that each of the journal's consumers hasn't read yet. `lake` is one of them.",
                "One without progress while segments are sealed: the journal keeps all that it lacks, up to its quota.",
                "Restore it, or remove it if you no longer need it.",
            ),
            [Query(CHOSEN.max(of.CONSUMER_BEHIND, "consumer"), "{{consumer}}")],
            "short",
        ),
    ),
)

_WORK: Final = Row(
    "What do batches and merges take?",
    (
        series_panel(
            "A batch",
            Words(
                "How long it takes to append one batch to all of its tables: half are faster, one in a hundred slower.",
                "Half of them take seconds: the storage is slow, or Spark has too few cores for so many tables.",
                "Use more cores, or nearer storage. Batches grow by themselves, so it costs only freshness.",
            ),
            [
                Query(CHOSEN.quantile(0.5, of.SPARK_BATCH), "half"),
                Query(CHOSEN.quantile(0.99, of.SPARK_BATCH), "99 %"),
            ],
            "s",
        ),
        series_panel(
            "Rows appended",
            Words(
                "Rows appended in a second, by tier: changes to changelogs, a first snapshot's rows to mirrors.",
                "None while segments wait.",
                "See the failures of SparkSink.",
            ),
            [Query(CHOSEN.rate(of.DELIVERED, "tier"), "{{tier}}")],
            "rowsps",
        ),
        series_panel(
            "A merge",
            Words(
                "How long merges take: half are faster, one in a hundred slower.",
                "Longer than lake.merge_after_s: then one table's changes wait for another's merge.",
                "Make lake.merge_after_s longer: a merge of a million changes takes hardly longer than one of a "
                "thousand.",
            ),
            [
                Query(f"{CHOSEN.quantile(0.5, of.MERGE)} >= 0", "half"),
                Query(f"{CHOSEN.quantile(0.99, of.MERGE)} >= 0", "99 %"),
            ],
            "s",
        ),
        series_panel(
            "Changes to merge, by table",
            Words(
                "Changes that each table's mirror hasn't merged yet: a saw, which falls with each merge.",
                "A line that doesn't fall.",
                "The table may be in its first snapshot, which ends before the first merge. Or merges fail (below).",
            ),
            [Query(CHOSEN.max(of.MIRROR_PENDING, "table"), "{{table}}")],
            "short",
        ),
        series_panel(
            "Rows that differ from the source",
            Words(
                "Rows that the last verification of each table found missing, extra, different or twice.",
                "Any. The lake isn't what the source is.",
                "The table _tidemark/verification under the lake's path has each of them: docs/verify.md.",
            ),
            [Query(CHOSEN.sum(of.FINDINGS, "table", "kind"), "{{table}} {{kind}}")],
            "short",
            width=8,
        ),
        series_panel(
            "Time since a table was verified",
            Words(
                "How long ago a verification last found each table equal to the source.",
                "Longer than the time between two verifications.",
                "Send one, and see how it ends: `tidemark verify shop.toml`.",
            ),
            [Query(f"time() - {CHOSEN.max(of.VERIFIED_AT, 'table')}", "{{table}}")],
            "s",
            width=8,
        ),
        series_panel(
            "Verifications that couldn't be judged",
            Words(
                "How many verifications of each table in a row had no result, since the last one that had.",
                "More than 2, or a line that rises. Nothing shows that the lake is what the source is.",
                "The runbook of TidemarkUnverified has what to do: docs/runbooks.md.",
            ),
            [Query(CHOSEN.max(of.UNJUDGED_IN_A_ROW, "table"), "{{table}}")],
            "short",
            width=8,
        ),
        series_panel(
            "What Spark does beside the batches",
            Words(
                "The share of time of merges and of each kind of maintenance. One runs at a time.",
                "The sum near 1: something is always due, and merges come late.",
                "Make lake.merge_after_s or lake.compact_files larger.",
            ),
            [
                Query(CHOSEN.spent(of.MERGE), "merge"),
                Query(CHOSEN.spent(of.MAINTENANCE, "kind"), "{{kind}}"),
            ],
            "percentunit",
            stacked=True,
            width=8,
        ),
        series_panel(
            "Conflicts",
            Words(
                "Merges and maintenance that Delta refused after another writer's commit. The sink retries them.",
                "Each time: then another writer works on the table whenever it's due.",
                "Stop your own OPTIMIZE and VACUUM: Tidemark maintains the tables already.",
            ),
            [Query(CHOSEN.increase(of.CONFLICTS, "kind"), "{{kind}}")],
            "short",
            bars=True,
            width=8,
        ),
        series_panel(
            "Work that failed",
            Words(
                "Merges and maintenance that failed. The sink retries each after a pause that doubles up to an hour.",
                "One again and again: that table isn't merged or maintained any more, though batches arrive.",
                "The log's `work on a lake table failed` has the table and the reason.",
            ),
            [Query(CHOSEN.increase(of.WORK_FAILED, "kind"), "{{kind}}")],
            "short",
            bars=True,
            width=8,
        ),
    ),
)

_FILES: Final = Row(
    "Does it stay small?",
    (
        table_panel(
            "Tables",
            Words(
                "Each table's changes that aren't merged, its files, and those that came since its last compaction.",
                "Files to compact far above lake.compact_files: compaction never runs.",
                "See what Spark does beside the batches.",
            ),
            "table",
            (
                Column(CHOSEN.max(of.MIRROR_PENDING, "table"), "Changes to merge", "short"),
                Column(CHOSEN.max(of.LAKE_FILES, "table", tier="mirror"), "Mirror's files", "short"),
                Column(CHOSEN.max(of.LAKE_FILES, "table", tier="changelog"), "Changelog's files", "short"),
                Column(CHOSEN.sum(of.FILES_COME, "table"), "To compact", "short", Limits(200, 1_000)),
            ),
        ),
        series_panel(
            "Files taken",
            Words(
                "Files of the journal that were added to lake tables in a second, by tier.",
                "Many small ones: each is a file to compact.",
                "Raise journal.seal_after_ms, at the cost of freshness.",
            ),
            [Query(CHOSEN.rate(of.DELIVERED_FILES, "tier"), "{{tier}}")],
            "short",
        ),
        series_panel(
            "Files written",
            Words(
                "Files in a second that sealed segments have, and that each kind of work writes into lake tables. "
                "Delta's log counts.",
                "More than 200 for long: changes come later then, and each file is a request to an object store.",
                "Raise journal.seal_after_ms, or capture fewer tables.",
            ),
            [
                Query(CHOSEN.rate(of.JOURNAL_FILES), "journal"),
                Query(CHOSEN.rate(of.LAKE_FILES_WRITTEN, "kind"), "lake: {{kind}}"),
            ],
            "short",
            limits=only(200),
            stacked=True,
        ),
        series_panel(
            "Write amplification",
            Words(
                "How many bytes merges and maintenance write for each byte that is delivered, over an hour.",
                "Far above what it was: the lake is written again and again for few changes.",
                "Make lake.merge_after_s longer for a merge, lake.compact_files larger for compaction.",
            ),
            [
                Query(_amplification(), "all"),
                Query(_amplification(kind="merge"), "merges"),
                Query(_amplification(kind="compact"), "compaction"),
            ],
            "short",
        ),
        series_panel(
            "The journal's size",
            Words(
                "Bytes of the journal, and its quota.",
                "Near its quota: then capture waits, and the source may purge its log.",
                "Restore the lagging consumer, or raise journal.quota_mib.",
            ),
            [
                Query(CHOSEN.max(of.JOURNAL_SIZE), "kept"),
                Query(f"{CHOSEN.max(of.JOURNAL_QUOTA)} < +Inf", "quota"),
            ],
            "bytes",
        ),
        series_panel(
            "Sealing",
            Words(
                "How long it takes to write, sync and publish a segment (half are faster, one in a hundred slower), "
                "and segments sealed in a second.",
                "Above journal.seal_after_ms: the disk's sync is slow, and each change waits for it.",
                "Use a disk with a faster sync. Longer segments cost as much freshness as they save.",
            ),
            [
                Query(CHOSEN.quantile(0.5, of.SEALING), "half"),
                Query(CHOSEN.quantile(0.99, of.SEALING), "99 %"),
            ],
            "s",
        ),
        series_panel(
            "Bytes",
            Words(
                "Bytes written into segments in a second, and bytes of files added to lake tables, by tier.",
                "As many as the disk or the storage can take.",
                "Compare it with sealing and a batch's time to find the bottleneck.",
            ),
            [
                Query(CHOSEN.rate(of.JOURNAL_WRITTEN), "written"),
                Query(CHOSEN.rate(of.DELIVERED_BYTES, "tier"), "taken: {{tier}}"),
            ],
            "Bps",
        ),
    ),
)

LAKE: Final = Board(
    "lake",
    "How fresh is the lake, what do its batches and merges take, and do its tables stay small?",
    ("table",),
    (_FRESH, _WORK, _FILES),
)
