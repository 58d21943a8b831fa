"""A model of what the sink does with the rows that verifications read: it compares them with the live view.

Somebody changes rows of a mirror behind the sink's back. Whatever else is found is a false alarm.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import Piece
from pipeline.lake.verification.runs import FindingKind, Judgement, LakeVerdict, VerificationRun
from pipeline.schema.table_schema import TableId, TableSchema
from tests.simulation.lake import Violation
from tests.simulation.server import Row, Rows

Key = tuple[int | None, ...]


@dataclass(frozen=True)
class VerifiedRow:
    """A row that a verification read, and the SCN at which its window closed; or that the source has no such row."""

    run: str
    scn: int
    row: Row
    gone: bool = False


@dataclass
class LakeOfTable:
    """What the comparison sees of a table: its live view, and where each key has changed last."""

    schema: TableSchema
    generation: int
    view: Rows
    changed: dict[Key, int]

    def key(self, row: Row) -> Key:
        """Returns the row's key."""
        return row if len(self.schema.key) > 1 else row[:1]


@dataclass
class Verifying:
    """What lies beside the lake: placed files that aren't compared yet, the keys of those that are, and what was found.

    `tampered`: the ids of rows that somebody changed, by table.
    """

    placed: dict[TableId, dict[tuple[int, int], tuple[str, list[VerifiedRow]]]] = field(default_factory=dict)
    keys: dict[tuple[str, TableId], list[Key]] = field(default_factory=dict)
    results: dict[tuple[str, TableId], Judgement] = field(default_factory=dict)
    doubtful: set[tuple[str, TableId]] = field(default_factory=set)
    found: dict[tuple[str, TableId], set[Key]] = field(default_factory=dict)
    tampered: dict[TableId, set[int]] = field(default_factory=dict)

    def place(self, table: TableId, pieces: Iterable[Piece], rows: Iterable[list[VerifiedRow]]) -> None:
        """Place files, however often."""
        of = self.placed.setdefault(table, {})
        of.update(
            ((piece.segment, piece.place), (piece.schema.version, here))
            for piece, here in zip(pieces, rows, strict=True)
        )

    def compare(
        self, work: VerifyRows, lake: LakeOfTable | None, reached: Counter[str]
    ) -> tuple[Judgement, ...]:
        """Compare what came through a segment, and end what has ended. Raises Violation."""
        runs = {run.run: run for run in work.runs}
        of = self.placed.get(work.table, {})
        for at in [at for at in of if at[0] <= work.through]:
            version, rows = of.pop(at)
            for each in rows:
                run = runs.get(each.run)
                if (
                    run is not None
                    and self._comparable(run, lake)
                    and lake
                    and version == lake.schema.version
                ):
                    self._compare_row(work.table, lake, each, reached)
                else:
                    self.doubtful.add((each.run, work.table))
        for run in work.ended:
            if (run.run, run.table) not in self.results:  # an earlier life of the sink may have judged it
                self.results[run.run, run.table] = self._judge(run, lake, work.position, reached)
        return tuple(self.results[run.run, run.table] for run in work.ended)

    def _comparable(self, run: VerificationRun, lake: LakeOfTable | None) -> bool:
        return lake is not None and lake.generation < run.since

    def _compare_row(
        self, table: TableId, lake: LakeOfTable, read: VerifiedRow, reached: Counter[str]
    ) -> None:
        key = lake.key(read.row)
        self.keys.setdefault((read.run, table), []).append(key)
        if not self.is_current(read.scn, lake.changed.get(key, 0)):
            reached["a key had changed behind its verification"] += 1
            return
        reached["a row was verified"] += 1
        reached["a key without a row was verified"] += read.gone
        has = key in {lake.key(row) for row in lake.view.items()}
        if has if read.gone else lake.view.get(read.row[0]) != read.row[1]:
            said = f"{table}: {read} is {lake.view.get(read.row[0])} in the lake, says {read.run}"
            self._find(read.run, table, key, said)

    def _find(self, run: str, table: TableId, key: Key, said: str) -> None:
        if key[0] not in self.tampered.get(table, ()):
            raise Violation(said)
        self.found.setdefault((run, table), set()).add(key)

    def keys_to_repair(self, run: VerificationRun, most: int) -> tuple[list[Key], bool]:
        """Returns the keys of the batch that a repair needs next, and whether it is the last one."""
        assert run.awaits is not None
        found = sorted(self.found.get((run.run, run.table), ()), key=str)[(run.awaits - 1) * most :]
        return found[:most], len(found) <= most

    def _judge(
        self, run: VerificationRun, lake: LakeOfTable | None, position: str, reached: Counter[str]
    ) -> Judgement:
        of = (run.run, run.table)
        known = self.keys.pop(of, [])
        if run.reason or lake is None or not self._comparable(run, lake) or of in self.doubtful:
            return Judgement(
                run.run, run.table, LakeVerdict.UNJUDGED, run.rows, {}, position, 0.0, run.reason
            )
        if len(known) < run.rows:
            raise Violation(
                f"{run.table}: {run.run} has read {run.rows} rows, and {len(known)} were compared"
            )
        for row in lake.view.items() if run.of is None else ():
            key = lake.key(row)
            if key not in known and self.is_current(run.since, lake.changed.get(key, 0)):
                said = f"{run.table}: {row} is in the lake, and not in the source, says {run.run}"
                self._find(run.run, run.table, key, said)
                reached["a row too much was found"] += 1
        found = len(self.found.get(of, ()))
        reached["a verification found a table equal"] += not found
        reached["a verification found a row to differ"] += bool(found)
        reached["a repair mended a table"] += run.of is not None and not found
        verdict = LakeVerdict.DIFFERENT if found else LakeVerdict.EQUAL
        counts = {FindingKind.DIFFERENT: found} if found else {}
        return Judgement(run.run, run.table, verdict, run.rows, counts, position, 0.0)

    def is_current(self, scn: int, changed: int) -> bool:
        """Whether what was true at an SCN has to be in the lake, if the key has changed there last."""
        return changed <= scn
