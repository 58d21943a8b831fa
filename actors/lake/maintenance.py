"""Maintenance of the lake's tables, in Spark: the statements of `pipeline.lake.tables.maintenance`.

They block for seconds. A commit that only adds files doesn't disturb them. If another commit removed what a statement
has read, or changed the table's columns, Delta gives the statement up (`actors.lake.delta.lake_table.is_conflict`). No
version has the files that it wrote until then, and VACUUM removes them.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
import time
from collections.abc import Collection
from contextlib import nullcontext
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from actors.lake.delta.lake_table import TableOpener, is_conflict
from actors.lake.spark.spark_session import side_session
from actors.lake.threads.table_locks import TableLocks
from pipeline.lake.tables.columns import SEGMENT
from pipeline.lake.tables.maintenance import (
    DAYS_OF_RESULTS,
    HIDDEN_PART,
    LARGE_BYTES,
    MANY_RESULTS,
    SMALL_BYTES,
    TableSize,
    Trim,
)
from pipeline.lake.tables.paths import findings_path, judgements_path, location
from pipeline.lake.tables.properties import CHANGELOG_VERSIONS_H, RESULTS
from pipeline.lake.tables.spark_sql import literal, quoted, table_at
from pipeline.lake.tables.statements import set_properties_sql
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

_COMPACTION: Final = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(LARGE_BYTES),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(HIDDEN_PART),
}
_LARGEST: Final = 2**63 - 1
# Delta refuses less than a week, to protect against mistakes. And listing a folder without subfolders needs no ten
# thousand tasks.
_VACUUM: Final = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
}


class Upkeep:
    """Maintains the lake tables under `root`. Other code that changes mirrors holds `changing`, and an append holds
    `trimming`.
    """

    def __init__(
        self,
        session: SparkSession,
        root: str,
        tables: TableOpener,
        changing: TableLocks,
        trimming: TableLocks,
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._changing = changing
        self._trimming = trimming

    def size(self, table: TableId, tier: Tier) -> TableSize | None:
        """Returns the size of a lake table; None if there is none."""
        return self._tables(location(self._root, table, tier)).size()

    def checkpoint(self, table: TableId, tier: Tier) -> None:
        """Writes a checkpoint of a lake table's log."""
        with side_session(self._session, {}):
            self._tables(location(self._root, table, tier)).checkpoint()

    def compact(self, table: TableId, tier: Tier) -> None:
        """Rewrites small files as large ones, and files of which deletion vectors hide much."""
        # Otherwise Delta would give up the commit with which the mirror begins again, and not this one.
        with (
            self._changing(table) if tier is Tier.MIRROR else nullcontext(),
            side_session(self._session, _COMPACTION) as session,
        ):
            session.sql(f"OPTIMIZE {self._at(table, tier)}")

    def trim(self, table: TableId, trim: Trim | None) -> None:
        """Deletes changes from a table's changelog, if any have expired, and the expired part of its log."""
        if trim is not None and (through := self._through(table, trim)):
            try:
                self._delete(table, through, trim.scn)
            except (Py4JError, PySparkException) as error:
                if not is_conflict(error):
                    raise
                # Delta assumes that the DELETE concerns every append, and would give it up each time while appends
                # never cease.
                with self._trimming(table):
                    self._delete(table, through, trim.scn)
        self._tables(location(self._root, table, Tier.CHANGELOG)).clean_log()

    def _delete(self, table: TableId, through: int, scn: int | None) -> None:
        changelog = self._at(table, Tier.CHANGELOG)
        with side_session(self._session, {}) as session:
            needless = "" if scn is None else f" AND {quoted('__scn')} <= {scn}"
            session.sql(f"DELETE FROM {changelog} WHERE {quoted(SEGMENT)} <= {through}{needless}")

    def _through(self, table: TableId, trim: Trim) -> int:
        """Returns the segment through which changes are deleted; 0 for none.

        The source may have an old time for a young transaction, as in a log that was replayed. So only segments before
        the first young one are deleted.
        """
        if trim.hours is None:
            return trim.merged or 0
        changelog, segment, committed = (
            self._at(table, Tier.CHANGELOG),
            quoted(SEGMENT),
            quoted("__commit_time"),
        )
        merged = "" if trim.merged is None else f" AND {segment} <= {trim.merged}"
        now = "current_timestamp()"
        if trim.until is not None:
            now = f"least({now}, timestamp_micros({trim.until}))"
        ago = f"{now} - make_dt_interval(0, 0, 0, {3600 * trim.hours:.6f})"
        young = f"SELECT min({segment}) FROM {changelog} WHERE {committed} >= {ago}"
        old = f"{committed} < {ago}{merged} AND {segment} < coalesce(({young}), {_LARGEST})"
        with side_session(self._session, {}) as session:
            row = session.sql(f"SELECT max({segment}) FROM {changelog} WHERE {old}").first()
        assert row is not None
        return row[0] or 0

    def vacuum(self, table: TableId, tier: Tier, hours: float) -> None:
        """Removes the files that no version of the last hours has."""
        with side_session(self._session, _VACUUM) as session:
            session.sql(f"VACUUM {self._at(table, tier)} RETAIN {hours} HOURS")

    def trim_results(self, runs: Collection[str]) -> None:
        """Deletes old findings and results of verifications, except those of these runs, and keeps their files few."""
        # A result goes after its findings: a later verification with its id would count them as its own.
        paths = findings_path(self._root), judgements_path(self._root)
        sizes = {table: size for table in map(self._tables, paths) if (size := table.size()) is not None}
        if all(size.files < MANY_RESULTS for size in sizes.values()):
            return
        before = int((time.time() - DAYS_OF_RESULTS * 86_400) * 1_000_000)
        known = ", ".join(map(literal, runs)) or "NULL"
        old = f"`at` < timestamp_micros({before}) AND coalesce(run NOT IN ({known}), true)"
        for table in sizes:
            at = table_at(table.path)
            with side_session(self._session, {**_COMPACTION, **_VACUUM}) as session:
                session.sql(set_properties_sql(table.path, RESULTS))
                session.sql(f"DELETE FROM {at} WHERE {old}")
                session.sql(f"OPTIMIZE {at}")
                session.sql(f"VACUUM {at} RETAIN {CHANGELOG_VERSIONS_H} HOURS")
            table.clean_log()

    def _at(self, table: TableId, tier: Tier) -> str:
        return table_at(location(self._root, table, tier))
