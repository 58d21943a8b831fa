"""Compares what verifications have read with the live view, in Spark."""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers and literals of ours
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from actors.lake.delta.changelog import GATHERED, gather
from actors.lake.delta.lake_table import TableOpener
from actors.lake.files.compared_files import Side, divide_rows, plain_columns
from actors.lake.files.file_placement import naming_table
from actors.lake.files.gathered_changes import read_numbered
from actors.lake.files.mirror_files import ListedFile
from actors.lake.filesystem import passing_folder
from actors.lake.live_view import FoundView
from actors.lake.spark.spark_session import read_parquet
from actors.lake.verification.held_files import HeldFile, HeldFiles
from pipeline.journal.change_rows import META
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.tables.columns import columns, ddl
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import literal
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.queries import ComparedTable, doubt_sql, no_keys_sql, of_runs
from pipeline.lake.verification.row_sums import RowHasher, RowSums
from pipeline.lake.verification.runs import (
    COLUMNS_CHANGED,
    MIRROR_CHANGED,
    NO_MIRROR,
    ROWS_LOST,
    VerificationRun,
)
from pipeline.schema.spelling import fold_name

_ROWS: Final = "tidemark_verified_rows"
_KEYS: Final = "tidemark_verified_keys"
_MIRRORED: Final = "tidemark_mirrored_rows"


class Comparison:
    """Compares the rows of one table in these files with its live view, if it has one, for one piece of work.

    `session`: the names of the rows are its own. `root`: the lake's path.
    """

    def __init__(
        self,
        session: SparkSession,
        root: str,
        tables: TableOpener,
        held: HeldFiles,
        work: VerifyRows,
        view: FoundView | None,
        files: Sequence[HeldFile],
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._held = held
        self._work = work
        self._view = view
        self._files = files

    def is_equal(self, run: VerificationRun) -> bool:
        """Returns whether one query shows that no row differs. If not, `compare` and `left_over` find which ones do.

        It can for a verification of a whole table that has ended, if all of its rows are in these files.
        """
        view = self._view
        if run.narrowed or not run.ended or run.reason or run.of is not None:
            return False
        if view is None or self._work.unread is not None or self.incomparable(run):
            return False
        old = any(file.version != view.schema.version for file in self._files)
        if not self._files or old or self._held.keys(run):
            return False
        compared = self._compared(view)
        with passing_folder(self._held.changed_folder(run.table)) as folder:
            try:
                changed = self._gather(view, run.since, folder)
                verified, mirrored = self._divide(view, run, changed, folder)
            except ReadBySparkOnly:
                self._read_rows(view, self._files, [run])
                return _have_equal_parts(self._session, compared.compared_parts(_ROWS, run.since), run.rows)
            if verified != mirrored:
                return False
            self._read_divided(view, folder)
            gathered = replace(compared, gathered=GATHERED)
            query = gathered.compared_parts(_ROWS, run.since, _MIRRORED)
            return _have_equal_parts(self._session, query, run.rows - verified.rows)

    def _divide(
        self, view: FoundView, run: VerificationRun, changed: Sequence[pa.Array], folder: str
    ) -> list[RowSums]:
        """Returns the sums of V's and the mirror's rows whose keys haven't changed. The others come into the folder.

        Raises as `divide_rows`.
        """
        table = self._tables(location(self._root, run.table, Tier.MIRROR))
        assert view.at.mirror is not None
        mirror = table.files_at(view.at.mirror)
        if mirror is None:
            raise ReadBySparkOnly("the mirror's files can't be listed, or a deletion vector isn't read here")
        own: list[pa.Field] = list(view.schema.arrow)
        stored = {fold_name(name): each for name, each in table.snapshot_at(view.at.mirror).columns.items()}
        named = [(stored[fold_name(field.name)], field.type) for field in own]
        rows = self._held.rows_folder(run.table)
        read: list[ListedFile] = [({"path": file.name}, BitMap64()) for file in self._files]
        sides = [
            Side(rows, read, plain_columns(own), f"{folder}/{_ROWS}", run.run),
            Side(table.path, mirror, named, f"{folder}/{_MIRRORED}"),
        ]
        with naming_table(table.path):
            # A question to Spark fails once its JVM has ended, as a stop may want it.
            return divide_rows(
                RowHasher(view.schema, changed), view.schema.arrow, sides, lambda: self._session.version
            )

    def _gather(self, view: FoundView, since: int, folder: str) -> list[pa.Array]:
        """Returns the keys that have changed. Raises as `gather`, and ReadBySparkOnly for a partial table."""
        if view.reached.partial:
            raise ReadBySparkOnly("the rows of a partial table are in both of its lake tables")
        table = self._tables(location(self._root, view.schema.table, Tier.CHANGELOG))
        at, counted = table.snapshot_at(view.at.changelog), CountedChanges(view.reached, since=since)
        # A question to Spark fails once its JVM has ended, as a stop may want it.
        return gather(self._session, table, at, view.schema, counted, folder, lambda: self._session.version)

    def _read_divided(self, view: FoundView, folder: str) -> None:
        """Makes `_ROWS` and `_MIRRORED` of the rows of both sides whose keys have changed."""
        for name, described in ((_ROWS, [META.field("__scn")]), (_MIRRORED, [])):
            read_numbered(
                self._session, f"{folder}/{name}", pa.schema([*described, *view.schema.arrow]), name
            )

    def compare(self, runs: Sequence[VerificationRun]) -> tuple[list[str], int]:
        """Returns the queries for what differs in the files, and how many rows they compare, which are `_ROWS`."""
        if not self._files:
            return [], 0
        view = self._view
        whole = [] if view is None else [each for each in self._files if each.version == view.schema.version]
        comparable = [run for run in runs if not self.incomparable(run)]
        doubtful = {run: COLUMNS_CHANGED for run in runs if len(whole) < len(self._files)}
        doubtful |= {run: self._reason for run in runs if run not in comparable}
        queries = [doubt_sql(run, reason) for run, reason in doubtful.items()]
        if view is None or not whole or not comparable:
            return queries, 0
        query, count = self._differing(view, whole, comparable)
        self._keep_keys(view, [run for run in comparable if not run.ended])
        return [*queries, query] if count else queries, count

    def _differing(
        self, view: FoundView, files: Sequence[HeldFile], runs: Sequence[VerificationRun]
    ) -> tuple[str, int]:
        """Returns the query for rows that are missing or different, and how many rows it compares."""
        self._read_rows(view, files, runs)
        compared = self._compared(view)
        extent = self._session.sql(compared.extent(_ROWS)).first()
        assert extent is not None
        count, least_scn, *bounds = extent
        repaired = any(run.of is not None for run in runs)
        return compared.findings(_ROWS, least_scn, bounds, repaired=repaired), count

    def _read_rows(self, view: FoundView, files: Sequence[HeldFile], runs: Sequence[VerificationRun]) -> None:
        """Makes `_ROWS` of what these verifications have read."""
        names = ddl(columns(view.schema, Tier.CHANGELOG))
        read = read_parquet(self._session, names, *(file.path for file in files))
        read.where(of_runs(runs)).createOrReplaceTempView(_ROWS)

    def _keep_keys(self, view: FoundView, runs: Sequence[VerificationRun]) -> None:
        items = self._compared(view).key_items()
        for run in runs:
            keys = self._session.sql(f"SELECT {items} FROM {_ROWS} WHERE {of_runs([run])}")
            keys.write.mode("overwrite").parquet(f"{self._held.keys_folder(run)}/{self._work.through}")

    def left_over(self, run: VerificationRun, compared: int) -> tuple[str, list[str]]:
        """Returns the query for keys that only the live view has, or has more than once; or why there is none.

        `compared`: how many rows are in `_ROWS`.
        """
        view, session = self._view, self._session
        assert view is not None
        table = self._compared(view)
        types = {each.name: each.type for each in columns(view.schema, Tier.MIRROR)}
        own = [types[name] for name in view.schema.key_names]
        written = self._held.keys(run)
        keys = session.sql(no_keys_sql(own))
        if written:
            names = ", ".join(f"k{at} {type_}" for at, type_ in enumerate(own))
            keys = read_parquet(self._session, names, *written)
        if compared:
            keys = keys.unionAll(
                session.sql(f"SELECT {table.key_items()} FROM {_ROWS} WHERE {of_runs([run])}")
            )
        # If no other verification's rows are there, and none of its own were compared before, these are its rows.
        count = compared if self._work.runs == (run,) and not written else keys.count()
        if count < run.rows:
            return ROWS_LOST, []
        if run.of is not None:  # its rows say which keys the source has no row of
            return "", []
        name = f"{_KEYS}_{self._work.runs.index(run)}"
        keys.createOrReplaceTempView(name)
        left = table.left_over(run, name)
        return "", [
            f"SELECT {literal(run.run)} AS run, kind, key, NULL AS columns, NULL AS scn FROM ({left})"
        ]

    def incomparable(self, run: VerificationRun) -> str:
        """Returns why a run's rows can't be compared with the live view, or an empty text.

        A frozen mirror is an earlier state: its changelog has changes that the view doesn't show.
        """
        view = self._view
        if view is None or view.reached.frozen or view.reached.generation >= run.since:
            return self._reason
        return ""

    @property
    def _reason(self) -> str:
        return NO_MIRROR if self._view is None else MIRROR_CHANGED

    def _compared(self, view: FoundView) -> ComparedTable:
        return ComparedTable(self._root, view.schema, view.reached, view.at, self._work.unread)


def _have_equal_parts(session: SparkSession, query: str, rows: int) -> bool:
    """Returns whether a query of `compared_parts` shows no difference, and so many verified rows."""
    parts = session.sql(query).collect()
    return sum(part["rows"] for part in parts) == rows and not any(part["differs"] for part in parts)
