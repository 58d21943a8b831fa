"""Compares what verifications have read with the live view, in Spark, and keeps the results in two Delta tables.

    LAKE/_tidemark/verification        each row that was found to differ
    LAKE/_tidemark/verification-runs   the result for each table of each verification
    LAKE/_tidemark/verifying/database/table/rows/   files of the journal that aren't compared yet
    LAKE/_tidemark/verifying/database/table/keys/   the keys in those that are, by verification and segment
    LAKE/_tidemark/verifying/database/table/changed/   while a comparison runs: the changes, and the rows of their keys

A comparison takes all files of a table up to a segment. It commits what it finds. It writes the keys of verifications
that haven't ended, and commits the results of those that have. Then it removes the files. After a kill between any two
of these the comparison is made again. A finding that is in the table already doesn't come twice.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers and literals of ours
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta.changelog import GATHERED, gather
from actors.lake.delta.lake_table import TableOpener
from actors.lake.delta.statements import made_once
from actors.lake.files.compared_files import Side, divide_rows, plain_columns
from actors.lake.files.file_placement import LakeFiles, naming_table
from actors.lake.files.gathered_changes import read_numbered
from actors.lake.filesystem import lake_filesystem, passing_folder, remove_folder
from actors.lake.live_view import FoundView, find_view
from actors.lake.spark_session import read_parquet, side_session
from actors.lake.transaction_log.delta_log import NO_REPORT
from actors.runtime.filesystem import list_folder
from pipeline.journal.change_rows import META
from pipeline.lake.background import VerifyRows
from pipeline.lake.batch import Piece
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.files.value_conversion import usual_values
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.tables.columns import columns, ddl
from pipeline.lake.tables.paths import findings_path, judgements_path, location, verified_path
from pipeline.lake.tables.spark_sql import literal, table_at
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.queries import (
    DOUBT,
    ComparedTable,
    doubt_sql,
    findings_sql,
    found_keys_sql,
    judgement_sql,
    no_keys_sql,
    of_runs,
    of_table,
    stated_sql,
)
from pipeline.lake.verification.row_sums import RowHasher, RowSums
from pipeline.lake.verification.runs import (
    COLUMNS_CHANGED,
    MIRROR_CHANGED,
    NO_MIRROR,
    ROWS_LOST,
    FindingKind,
    Judgement,
    LakeVerdict,
    VerificationRun,
)
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.reselect_keys import key_rows

# How many keys a repair gets at once.
MOST_REPAIRED: Final = 1000

# So many findings are held in memory at most.
_FEW: Final = 10_000

# Rows of both sides are grouped in so many parts, however few the cores are. Spark joins small ones again.
_PARTITIONS: Final = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64"}

_ROWS: Final = "tidemark_verified_rows"
_KEYS: Final = "tidemark_verified_keys"
_MIRRORED: Final = "tidemark_mirrored_rows"


@dataclass(frozen=True, slots=True)
class _HeldFile:
    """A file that isn't compared yet."""

    segment: int
    version: str
    path: str
    name: str


class LakeVerification:
    """Verifies the tables under `root`, which the journal with this id feeds."""

    def __init__(
        self, session: SparkSession, root: str, tables: TableOpener, files: LakeFiles, journal: str
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._files = files
        self._journal = journal

    def hold(self, table: TableId, pieces: Sequence[Piece]) -> None:
        """Places a table's files to be compared. Raises as `LakeFiles.place` does."""
        if pieces:
            self._files.hold(self._folder(table, "rows"), pieces)

    def holds(self, table: TableId) -> bool:
        """Returns whether a table has files that aren't compared."""
        return bool(self._held(table, None))

    def verify(self, work: VerifyRows) -> tuple[Judgement, ...]:
        """Compares a table's files, and returns the results of the verifications that have ended, the earliest first.

        Raises Conflict while the live view lacks changes that came behind columns which the mirror doesn't have yet.
        """
        known = {run: self._judged(run) for run in work.ended}
        view = None if work.stopped else find_view(self._session, self._root, work.table)
        if view is not None and not view.whole:
            raise Conflict("its live view lacks changes until its mirror has the changelog's columns")
        held = self._held(work.table, work.through)
        unjudged = [run for run in work.runs if known.get(run) is None]
        with side_session(self._session, _PARTITIONS) as session:
            # After a failure several may have ended, and each of them is shown to be equal by itself.
            equal = [run for run in unjudged if self._is_equal(session, work, view, run, held)]
            reasons = dict.fromkeys(equal, "")
            if rest := [run for run in unjudged if run not in equal]:
                reasons |= self._search(session, work, view, rest, held)
        judged = [known[run] or self._judge(work, run, reasons[run]) for run in work.ended]
        for run, judgement in zip(work.ended, judged, strict=True):
            if known[run] is None:
                self._record(run, judgement)
            self._remove_keys(run)
        self._remove_rows(work.table, held)
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
        query = found_keys_sql(self._own_findings(run), view.schema, after, most + 1)
        found = self._session.sql(query).toArrow().combine_chunks()
        if not len(found):
            return None, True
        names = [view.schema.columns[index] for index in view.schema.key]
        values = [usual_values(found[column.name].chunk(0), column) for column in names]
        keys = key_rows(view.schema.unformed, values)
        return keys.slice(0, most), len(found) <= most

    def _is_equal(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView | None,
        run: VerificationRun,
        held: Sequence[_HeldFile],
    ) -> bool:
        """Returns whether one query shows that no row differs. If not, the others find out which ones do, and why.

        It can for a verification of a whole table that has ended, if all of its rows are in these files.
        """
        if run.narrowed or not run.ended or run.reason or run.of is not None:
            return False
        if view is None or work.unread is not None or self._incomparable(view, run):
            return False
        if (
            not held
            or any(file.version != view.schema.version for file in held)
            or self._listed(self._keys(run))
        ):
            return False
        compared = _compared(self._root, view, work)
        with passing_folder(self._folder(work.table, "changed")) as folder:
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
        held: Sequence[_HeldFile],
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
        rows, read = self._folder(run.table, "rows"), [({"path": file.name}, BitMap64()) for file in held]
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

    def _search(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView | None,
        runs: Sequence[VerificationRun],
        held: Sequence[_HeldFile],
    ) -> dict[VerificationRun, str]:
        """Commits what differs. Returns why not all of a verification that has ended can be told, or an empty text."""
        queries, compared = self._compare(session, work, view, runs, held)
        reasons = {run: run.reason or self._incomparable(view, run) for run in runs if run.ended}
        for run, reason in reasons.items():
            if not reason:
                assert view is not None
                reasons[run], left = self._left_over(session, work, view, run, compared)
                queries += left
        self._state(session, work, runs, queries)
        return reasons

    def _compare(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView | None,
        runs: Sequence[VerificationRun],
        held: Sequence[_HeldFile],
    ) -> tuple[list[str], int]:
        """Returns the queries for what differs in these files, and how many rows they compare, which are `_ROWS`."""
        if not held:
            return [], 0
        whole = [] if view is None else [file for file in held if file.version == view.schema.version]
        comparable = [run for run in runs if not self._incomparable(view, run)]
        doubtful = {run: COLUMNS_CHANGED for run in runs if len(whole) < len(held)}
        doubtful |= {run: _reason(view) for run in runs if run not in comparable}
        queries = [doubt_sql(run, reason) for run, reason in doubtful.items()]
        if view is None or not whole or not comparable:
            return queries, 0
        query, count = self._differing(session, work, view, whole, comparable)
        self._keep_keys(session, work, view, [run for run in comparable if not run.ended])
        return [*queries, query] if count else queries, count

    def _incomparable(self, view: FoundView | None, run: VerificationRun) -> str:
        """Returns why a run's rows can't be compared with the live view, or an empty text.

        A frozen mirror is an earlier state: its changelog has changes that the view doesn't show.
        """
        if view is None or view.reached.frozen or view.reached.generation >= run.since:
            return _reason(view)
        return ""

    def _differing(
        self,
        session: SparkSession,
        work: VerifyRows,
        view: FoundView,
        files: Sequence[_HeldFile],
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
        files: Sequence[_HeldFile],
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
            keys.write.mode("overwrite").parquet(f"{self._keys(run)}/{work.through}")

    def _state(
        self, session: SparkSession, work: VerifyRows, runs: Sequence[VerificationRun], queries: Sequence[str]
    ) -> None:
        """Commits findings of these verifications, if there are any, unless they are there already."""
        if not queries:
            return
        findings = " UNION ALL ".join(f"SELECT * FROM ({query})" for query in queries)
        path = findings_path(self._root)
        there = None if self._tables(path).snapshot() is None else self._own_findings(*runs)
        stated = session.sql(stated_sql(work.table, work.position, work.through, findings, there))
        some = stated.limit(_FEW + 1).toArrow()
        if len(some):
            # Few come back from here, without a Python in Spark. Many are found once more, wherever Spark works.
            rows = stated if len(some) > _FEW else session.createDataFrame(some, stated.schema)
            _append(rows, path)

    def _judge(self, work: VerifyRows, run: VerificationRun, reason: str) -> Judgement:
        """`reason`: why not all of it can be told, or an empty text."""
        found, doubt = self._found(run)
        reason = run.reason or doubt or reason
        verdict = LakeVerdict.DIFFERENT if found else LakeVerdict.UNJUDGED if reason else LakeVerdict.EQUAL
        return Judgement(run.run, run.table, verdict, run.rows, found, work.position, time.time(), reason)

    def _record(self, run: VerificationRun, judgement: Judgement) -> None:
        with side_session(
            self._session, made_once(self._judged_once(run), run.since + 1, NO_REPORT)
        ) as session:
            _append(session.sql(judgement_sql(judgement, run.since)), judgements_path(self._root))

    def _left_over(
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
        written = [f"{self._keys(run)}/{name}" for name in self._listed(self._keys(run))]
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

    def _found(self, run: VerificationRun) -> tuple[dict[FindingKind, int], str]:
        """Returns how many rows a verification has found to differ in a table, by kind, and why it can't tell."""
        path = findings_path(self._root)
        if self._tables(path).snapshot() is None:
            return {}, ""
        rows = self._session.sql(
            f"SELECT kind, count(DISTINCT key), max(key) FROM ({self._own_findings(run)}) GROUP BY kind"
        ).collect()
        doubts = [row[2] for row in rows if row[0] == DOUBT]
        return {FindingKind(row[0]): row[1] for row in rows if row[0] != DOUBT}, next(iter(doubts), "")

    def _own_findings(self, *runs: VerificationRun) -> str:
        """Returns the query for what these verifications have found."""
        path = judgements_path(self._root)
        results = None if self._tables(path).snapshot() is None else table_at(path)
        return findings_sql(table_at(findings_path(self._root)), results, runs)

    def _judged(self, run: VerificationRun) -> Judgement | None:
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

    def _judged_once(self, run: VerificationRun) -> str:
        """Returns the application whose version says that a run is judged: the SCN after its beginning.

        It keeps another Spark from recording the same result at the same moment. Delta forgets it after a time
        (`pipeline.lake.tables.properties.RESULTS`). After many other signals another verification may have the same id.
        """
        return f"{self._journal}/judged/{_digest(f'{run.run} {run.table}')}"

    def _held(self, table: TableId, through: int | None) -> list[_HeldFile]:
        """Returns the files of a table that aren't compared yet, up to a segment."""
        found = []
        for name in self._listed(self._folder(table, "rows")):
            segment, _, rest = name.partition("-")
            if (
                segment.isdecimal()
                and name.endswith(".parquet")
                and (through is None or int(segment) <= through)
            ):
                path = f"{self._folder(table, 'rows')}/{name}"
                found.append(_HeldFile(int(segment), rest.partition("-")[0], path, name))
        return found

    def _listed(self, folder: str) -> list[str]:
        lake, inside = lake_filesystem(folder)
        return sorted(info.base_name for info in list_folder(lake, inside))

    def _remove_rows(self, table: TableId, held: Sequence[_HeldFile]) -> None:
        lake, folder = lake_filesystem(self._folder(table, "rows"))
        for file in held:
            lake.delete_file(f"{folder}/{file.name}")

    def _remove_keys(self, run: VerificationRun) -> None:
        remove_folder(*lake_filesystem(self._keys(run)))

    def _keys(self, run: VerificationRun) -> str:
        return f"{self._folder(run.table, 'keys')}/{_digest(run.run)}"

    def _folder(self, table: TableId, what: str) -> str:
        return f"{verified_path(self._root, table)}/{what}"


def _have_equal_parts(session: SparkSession, query: str, rows: int) -> bool:
    """Returns whether a query of `compared_parts` shows no difference, and so many verified rows."""
    parts = session.sql(query).collect()
    return sum(part["rows"] for part in parts) == rows and not any(part["differs"] for part in parts)


def _compared(root: str, view: FoundView, work: VerifyRows) -> ComparedTable:
    return ComparedTable(root, view.schema, view.reached, view.at, work.unread)


def _reason(view: FoundView | None) -> str:
    return NO_MIRROR if view is None else MIRROR_CHANGED


def _append(rows: DataFrame, path: str) -> None:
    rows.write.format("delta").mode("append").save(path)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
