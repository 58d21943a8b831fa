"""Verifies the lake's tables: compares what verifications have read, and keeps the results.

A comparison takes all files of a table up to a segment. It commits what it finds. It writes the keys of verifications
that haven't ended, and commits the results of those that have. Then it removes the files. After a kill between any two
of these the comparison is made again.
"""

import time
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from actors.lake.delta.lake_table import TableOpener
from actors.lake.files.file_placement import LakeFiles
from actors.lake.live_view import find_view
from actors.lake.spark.spark_session import MANY_PARTS, side_session
from actors.lake.verification.comparison import Comparison
from actors.lake.verification.held_files import HeldFiles
from actors.lake.verification.results import VerificationResults
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import Piece
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.value_conversion import usual_values
from pipeline.lake.verification.queries import found_keys_sql
from pipeline.lake.verification.runs import Judgement, LakeVerdict, VerificationRun
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.reselect_keys import key_rows

# How many keys a repair gets at once.
MOST_REPAIRED: Final = 1000


class LakeVerification:
    """Verifies the tables under `root`, which the journal with this id feeds."""

    def __init__(
        self, session: SparkSession, root: str, tables: TableOpener, files: LakeFiles, journal: str
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._held = HeldFiles(root, files)
        self._results = VerificationResults(session, root, tables, journal)

    def hold(self, table: TableId, pieces: Sequence[Piece]) -> None:
        """Places a table's files to be compared. Raises as `LakeFiles.place` does."""
        self._held.hold(table, pieces)

    def holds(self, table: TableId) -> bool:
        """Returns whether a table has files that aren't compared."""
        return bool(self._held.files(table))

    def verify(self, work: VerifyRows) -> tuple[Judgement, ...]:
        """Compares a table's files, and returns the results of the verifications that have ended, the earliest first.

        Raises Conflict while the live view lacks changes that came after columns which the mirror doesn't have yet.
        """
        known = {run: self._results.judged(run) for run in work.ended}
        view = None if work.stopped else find_view(self._session, self._root, work.table)
        if view is not None and not view.whole:
            raise Conflict("its live view lacks changes until its mirror has the changelog's columns")
        held = self._held.files(work.table, work.through)
        unjudged = [run for run in work.runs if known.get(run) is None]
        with side_session(self._session, MANY_PARTS) as session:
            comparison = Comparison(session, self._root, self._tables, self._held, work, view, held)
            # After a failure several may have ended, and each of them is shown to be equal by itself.
            equal = [run for run in unjudged if comparison.is_equal(run)]
            reasons = dict.fromkeys(equal, "")
            if rest := [run for run in unjudged if run not in equal]:
                reasons |= self._search(session, comparison, work, rest)
        judged = [known[run] or self._judge(work, run, reasons[run]) for run in work.ended]
        for run, judgement in zip(work.ended, judged, strict=True):
            if known[run] is None:
                self._results.record(run, judgement)
            self._held.remove_keys(run)
        self._held.remove_files(work.table, held)
        return tuple(sorted(judged, key=lambda each: each.at))

    def keys_to_repair(
        self, run: VerificationRun, most: int = MOST_REPAIRED
    ) -> tuple[pa.RecordBatch | None, bool]:
        """Returns the keys of the batch that a repair needs next, and whether it is the last one."""
        assert run.awaits is not None
        view = find_view(self._session, self._root, run.table)
        if view is None:
            return None, True
        after = (run.awaits - 1) * most
        query = found_keys_sql(self._results.findings(run), view.schema, after, most + 1)
        found = self._session.sql(query).toArrow().combine_chunks()
        if not len(found):
            return None, True
        values = [usual_values(found[column.name].chunk(0), column) for column in view.schema.key_columns]
        keys = key_rows(view.schema.unformed, values)
        return keys.slice(0, most), len(found) <= most

    def _search(
        self,
        session: SparkSession,
        comparison: Comparison,
        work: VerifyRows,
        runs: Sequence[VerificationRun],
    ) -> dict[VerificationRun, str]:
        """Commits what differs. Returns why not all of a verification that has ended can be told, or an empty text."""
        queries, compared = comparison.compare(runs)
        reasons = {run: run.reason or comparison.incomparable(run) for run in runs if run.ended}
        for run, reason in reasons.items():
            if not reason:
                reasons[run], left = comparison.left_over(run, compared)
                queries += left
        self._results.add_findings(session, work, runs, queries)
        return reasons

    def _judge(self, work: VerifyRows, run: VerificationRun, reason: str) -> Judgement:
        """`reason`: why not all of it can be told, or an empty text."""
        found, doubt = self._results.found(run)
        reason = run.reason or doubt or reason
        verdict = LakeVerdict.DIFFERENT if found else LakeVerdict.UNJUDGED if reason else LakeVerdict.EQUAL
        return Judgement(run.run, run.table, verdict, run.rows, found, work.position, time.time(), reason)
