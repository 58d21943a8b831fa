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
from actors.lake.filesystem import passing_folder
from actors.lake.live_view import FoundView
from actors.lake.verification.held_rows import HeldFile, HeldRows
from pipeline.journal.change_rows import META
from pipeline.lake.background import VerifyRows
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
    """Compares the tables under `root`."""

    def __init__(self, session: SparkSession, root: str, tables: TableOpener, held: HeldRows) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._held = held

    def is_equal(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView | None,
        run: VerificationRun,
        held: Sequence[HeldFile],
    ) -> bool:
        """Returns whether one query shows that no row differs. If not, `compare` and `left_over` find which ones do.

        It can for a verification of a whole table that has ended, if all of its rows are in these files.
        """
        if run.narrowed or not run.ended or run.reason or run.of is not None:
            return False
        if view is None or work.unread is not None or incomparable(view, run):
            return False
        if not held or any(file.version != view.schema.version for file in held) or self._held.keys(run):
            return False
        compared = _compared(self._root, view, work)
        with passing_folder(self._held.changed_folder(work.table)) as folder:
            try:
                changed = self._gather(session, view, run.since, folder)
                verified, mirrored = self._divide(view, run, held, changed, folder)
            except ReadBySparkOnly:
                self._read_rows(session, view, held, [run])
                return _have_equal_parts(session, compared.compared_parts(_ROWS, run.since), run.rows)
            if verified != mirrored:
                return False
            self._read_divided(session, view, folder)
            gathered = replace(compared, gathered=GATHERED)
            query = gathered.compared_parts(_ROWS, run.since, _MIRRORED)
            return _have_equal_parts(session, query, run.rows - verified.rows)

    def _divide(
        self,
        view: FoundView,
        run: VerificationRun,
        held: Sequence[HeldFile],
        changed: Sequence[pa.Array],
        folder: str,
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
        rows, read = self._held.rows_folder(run.table), [({"path": file.name}, BitMap64()) for file in held]
        sides = [
            Side(rows, read, plain_columns(own), f"{folder}/{_ROWS}", run.run),
            Side(table.path, mirror, named, f"{folder}/{_MIRRORED}"),
        ]
        with naming_table(table.path):
            # A question to Spark fails once its JVM has ended, as a stop may want it.
            return divide_rows(
                RowHasher(view.schema, changed), view.schema.arrow, sides, lambda: self._session.version
            )

    def _gather(self, session: SparkSession, view: FoundView, since: int, folder: str) -> list[pa.Array]:
        """Returns the keys that have changed. Raises as `gather`, and ReadBySparkOnly for a partial table."""
        if view.reached.partial:
            raise ReadBySparkOnly("the rows of a partial table are in both of its lake tables")
        table = self._tables(location(self._root, view.schema.table, Tier.CHANGELOG))
        at, counted = table.snapshot_at(view.at.changelog), CountedChanges(view.reached, since=since)
        # A question to Spark fails once its JVM has ended, as a stop may want it.
        return gather(session, table, at, view.schema, counted, folder, lambda: self._session.version)

    def _read_divided(self, session: SparkSession, view: FoundView, folder: str) -> None:
        """Makes `_ROWS` and `_MIRRORED` of the rows of both sides whose keys have changed."""
        for name, described in ((_ROWS, [META.field("__scn")]), (_MIRRORED, [])):
            read_numbered(session, f"{folder}/{name}", pa.schema([*described, *view.schema.arrow]), name)

    def compare(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView | None,
        runs: Sequence[VerificationRun],
        held: Sequence[HeldFile],
    ) -> tuple[list[str], int]:
        """Returns the queries for what differs in these files, and how many rows they compare, which are `_ROWS`."""
        if not held:
            return [], 0
        whole = [] if view is None else [file for file in held if file.version == view.schema.version]
        comparable = [run for run in runs if not incomparable(view, run)]
        doubtful = {run: COLUMNS_CHANGED for run in runs if len(whole) < len(held)}
        doubtful |= {run: _reason(view) for run in runs if run not in comparable}
        queries = [doubt_sql(run, reason) for run, reason in doubtful.items()]
        if view is None or not whole or not comparable:
            return queries, 0
        query, count = self._differing(session, work, view, whole, comparable)
        self._keep_keys(session, work, view, [run for run in comparable if not run.ended])
        return [*queries, query] if count else queries, count

    def _differing(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView,
        files: Sequence[HeldFile],
        runs: Sequence[VerificationRun],
    ) -> tuple[str, int]:
        """Returns the query for rows that are missing or different, and how many rows it compares."""
        self._read_rows(session, view, files, runs)
        compared = _compared(self._root, view, work)
        extent = session.sql(compared.extent(_ROWS)).first()
        assert extent is not None
        count, least_scn, *bounds = extent
        repaired = any(run.of is not None for run in runs)
        return compared.findings(_ROWS, least_scn, bounds, repaired=repaired), count

    def _read_rows(
        self,
        session: SparkSession,
        view: FoundView,
        files: Sequence[HeldFile],
        runs: Sequence[VerificationRun],
    ) -> None:
        """Makes `_ROWS` of what these verifications have read."""
        names = ddl(columns(view.schema, Tier.CHANGELOG))
        read = read_parquet(session, names, *(file.path for file in files))
        read.where(of_runs(runs)).createOrReplaceTempView(_ROWS)

    def _keep_keys(
        self, session: SparkSession, work: VerifyRows, view: FoundView, runs: Sequence[VerificationRun]
    ) -> None:
        items = _compared(self._root, view, work).key_items()
        for run in runs:
            keys = session.sql(f"SELECT {items} FROM {_ROWS} WHERE {of_runs([run])}")
            keys.write.mode("overwrite").parquet(f"{self._held.keys_folder(run)}/{work.through}")

    def left_over(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView,
        run: VerificationRun,
        compared: int,
    ) -> tuple[str, list[str]]:
        """Returns the query for keys that only the live view has, or has more than once; or why there is none.

        `compared`: how many rows are in `_ROWS`.
        """
        table = _compared(self._root, view, work)
        types = {each.name: each.type for each in columns(view.schema, Tier.MIRROR)}
        own = [types[name] for name in view.schema.key_names]
        written = self._held.keys(run)
        keys = session.sql(no_keys_sql(own))
        if written:
            names = ", ".join(f"k{at} {type_}" for at, type_ in enumerate(own))
            keys = read_parquet(session, names, *written)
        if compared:
            keys = keys.unionAll(
                session.sql(f"SELECT {table.key_items()} FROM {_ROWS} WHERE {of_runs([run])}")
            )
        # If no other verification's rows are there, and none of its own were compared before, these are its rows.
        count = compared if work.runs == (run,) and not written else keys.count()
        if count < run.rows:
            return ROWS_LOST, []
        if run.of is not None:  # its rows say which keys the source has no row of
            return "", []
        name = f"{_KEYS}_{work.runs.index(run)}"
        keys.createOrReplaceTempView(name)
        left = table.left_over(run, name)
        return "", [
            f"SELECT {literal(run.run)} AS run, kind, key, NULL AS columns, NULL AS scn FROM ({left})"
        ]


def incomparable(view: FoundView | None, run: VerificationRun) -> str:
    """Returns why a run's rows can't be compared with the live view, or an empty text.

    A frozen mirror is an earlier state: its changelog has changes that the view doesn't show.
    """
    if view is None or view.reached.frozen or view.reached.generation >= run.since:
        return _reason(view)
    return ""


def _have_equal_parts(session: SparkSession, query: str, rows: int) -> bool:
    """Returns whether a query of `compared_parts` shows no difference, and so many verified rows."""
    parts = session.sql(query).collect()
    return sum(part["rows"] for part in parts) == rows and not any(part["differs"] for part in parts)


def _compared(root: str, view: FoundView, work: VerifyRows) -> ComparedTable:
    return ComparedTable(root, view.schema, view.reached, view.at, work.unread)


def _reason(view: FoundView | None) -> str:
    return NO_MIRROR if view is None else MIRROR_CHANGED
