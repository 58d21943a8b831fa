"""Maintenance of the lake's tables, in Spark: the statements of `pipeline.lake.maintenance`. They block for seconds.

Delta lets each of them be overtaken by a commit that only adds files. Where another's commit took away what one of them
has read, or changed the table's columns, Delta gives it up, which `actors.lake.delta_table.is_conflict` tells; what it
wrote until then no version has, and VACUUM removes it.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers of ours
from contextlib import nullcontext
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from actors.lake.delta_table import is_conflict
from actors.lake.delta_tables import TableOpener
from actors.lake.spark_session import side_session
from actors.lake.table_locks import TableLocks
from pipeline.lake.maintenance import HIDDEN_PART, LARGE_BYTES, SMALL_BYTES, TableSize, Trim
from pipeline.lake.tables import SEGMENT, Tier, location, quoted, table_at
from pipeline.schema.table_schema import TableId

_COMPACTION: Final = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(LARGE_BYTES),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(HIDDEN_PART),
}
# Delta wants to be sure that nobody asks for less than a week by mistake. And a folder without folders needn't be
# listed in ten thousand tasks.
_VACUUM: Final = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
}


class Upkeep:
    """Maintains the lake tables under `root`; `changing` are held by whoever changes mirrors otherwise,
    `trimming` by whoever appends.
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
        """How large a lake table is, None where there's none."""
        return self._tables(location(self._root, table, tier)).size()

    def checkpoint(self, table: TableId, tier: Tier) -> None:
        """Write a checkpoint of a lake table's log."""
        with side_session(self._session, {}):
            self._tables(location(self._root, table, tier)).checkpoint()

    def compact(self, table: TableId, tier: Tier) -> None:
        """Write small files anew as large ones, and those that have much hidden without that."""
        # Else Delta would give up the commit that begins the mirror anew, and not this one.
        with (
            self._changing(table) if tier is Tier.MIRROR else nullcontext(),
            side_session(self._session, _COMPACTION) as session,
        ):
            session.sql(f"OPTIMIZE {self._at(table, tier)}")

    def trim(self, table: TableId, trim: Trim | None) -> None:
        """Delete changes from a table's changelog, if any are to be trimmed, and its log's expired part."""
        if trim is not None and (through := self._through(table, trim)):
            try:
                self._delete(table, through)
            except (Py4JError, PySparkException) as error:
                if not is_conflict(error):
                    raise
                # To Delta whatever is appended might have to be deleted as well: where appends never cease it would
                # give up each time.
                with self._trimming(table):
                    self._delete(table, through)
        self._tables(location(self._root, table, Tier.CHANGELOG)).clean_log()

    def _delete(self, table: TableId, through: int) -> None:
        changelog = self._at(table, Tier.CHANGELOG)
        with side_session(self._session, {}) as session:
            session.sql(f"DELETE FROM {changelog} WHERE {quoted(SEGMENT)} <= {through}")

    def _through(self, table: TableId, trim: Trim) -> int:
        """The segment through which changes are to be trimmed, 0 for none."""
        if trim.hours is None:
            return trim.merged or 0
        merged = "" if trim.merged is None else f" AND {quoted(SEGMENT)} <= {trim.merged}"
        ago = f"current_timestamp() - make_dt_interval(0, 0, 0, {3600 * trim.hours:.6f})"
        old = f"{quoted('__commit_time')} < {ago}{merged}"
        with side_session(self._session, {}) as session:
            row = session.sql(
                f"SELECT max({quoted(SEGMENT)}) FROM {self._at(table, Tier.CHANGELOG)} WHERE {old}"
            ).first()
        assert row is not None
        return row[0] or 0

    def vacuum(self, table: TableId, tier: Tier, hours: float) -> None:
        """Remove the files that no version of the last hours has."""
        with side_session(self._session, _VACUUM) as session:
            session.sql(f"VACUUM {self._at(table, tier)} RETAIN {hours} HOURS")

    def _at(self, table: TableId, tier: Tier) -> str:
        return table_at(location(self._root, table, tier))
