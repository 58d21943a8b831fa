"""What verifications have found, and their results, in two Delta tables.

    LAKE/_tidemark/verification        each row that was found to differ
    LAKE/_tidemark/verification-runs   the result for each table of each verification

A finding that is in the table already doesn't come twice.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers and literals of ours
from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta.lake_table import TableOpener
from actors.lake.delta.statements import made_once
from actors.lake.spark.spark_session import side_session
from actors.lake.transaction_log.delta_log import NO_REPORT
from actors.lake.verification.held_files import digest_of
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.tables.paths import findings_path, judgements_path
from pipeline.lake.tables.spark_sql import table_at
from pipeline.lake.verification.queries import DOUBT, findings_sql, judgement_sql, of_table, stated_sql
from pipeline.lake.verification.runs import FindingKind, Judgement, LakeVerdict, VerificationRun

# So many findings are held in memory at most.
_FEW: Final = 10_000


class VerificationResults:
    """The findings and the results of the tables under `root`, which the journal with this id feeds."""

    def __init__(self, session: SparkSession, root: str, tables: TableOpener, journal: str) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._journal = journal

    def add_findings(
        self, session: SparkSession, work: VerifyRows, runs: Sequence[VerificationRun], queries: Sequence[str]
    ) -> None:
        """Commits findings of these verifications, if there are any, unless they are there already."""
        if not queries:
            return
        findings = " UNION ALL ".join(f"SELECT * FROM ({query})" for query in queries)
        path = findings_path(self._root)
        there = None if self._tables(path).snapshot() is None else self.findings(*runs)
        stated = session.sql(stated_sql(work.table, work.position, work.through, findings, there))
        some = stated.limit(_FEW + 1).toArrow()
        if len(some):
            # Few come back from here, without a Python in Spark. Many are found once more, wherever Spark works.
            rows = stated if len(some) > _FEW else session.createDataFrame(some, stated.schema)
            _append(rows, path)

    def findings(self, *runs: VerificationRun) -> str:
        """Returns the query for what these verifications have found."""
        path = judgements_path(self._root)
        results = None if self._tables(path).snapshot() is None else table_at(path)
        return findings_sql(table_at(findings_path(self._root)), results, runs)

    def found(self, run: VerificationRun) -> tuple[dict[FindingKind, int], str]:
        """Returns how many rows a verification has found to differ in a table, by kind, and why it can't tell."""
        path = findings_path(self._root)
        if self._tables(path).snapshot() is None:
            return {}, ""
        rows = self._session.sql(
            f"SELECT kind, count(DISTINCT key), max(key) FROM ({self.findings(run)}) GROUP BY kind"
        ).collect()
        doubts = [row[2] for row in rows if row[0] == DOUBT]
        return {FindingKind(row[0]): row[1] for row in rows if row[0] != DOUBT}, next(iter(doubts), "")

    def judged(self, run: VerificationRun) -> Judgement | None:
        """Returns the result that an earlier start has found."""
        path = judgements_path(self._root)
        if self._tables(path).snapshot() is None:
            return None
        row = self._session.sql(
            f"SELECT *, unix_micros(`at`) AS micros FROM {table_at(path)} "
            f"WHERE {of_table(run.run, run.table)} AND since = {run.since}"
        ).first()
        if row is None:
            return None
        found = {kind: row[kind.value] for kind in FindingKind if row[kind.value]}
        return Judgement(
            run.run,
            run.table,
            LakeVerdict(row["verdict"]),
            row["rows"],
            found,
            row["position"],
            row["micros"] / 1e6,
            row["reason"],
        )

    def record(self, run: VerificationRun, judgement: Judgement) -> None:
        """Commits a result."""
        with side_session(
            self._session, made_once(self._judged_once(run), run.since + 1, NO_REPORT)
        ) as session:
            _append(session.sql(judgement_sql(judgement, run.since)), judgements_path(self._root))

    def _judged_once(self, run: VerificationRun) -> str:
        """Returns the application whose version says that a run is judged: the SCN after its beginning.

        It keeps another Spark from recording the same result at the same moment. Delta forgets it after a time
        (`pipeline.lake.tables.properties.RESULTS`). After many other signals another verification may have the same id.
        """
        return f"{self._journal}/judged/{digest_of(f'{run.run} {run.table}')}"


def _append(rows: DataFrame, path: str) -> None:
    rows.write.format("delta").mode("append").save(path)
