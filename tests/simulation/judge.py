"""The judge of a run: it holds whatever has been put into the stream against the server.

- Each chunk row equals the source's row at the very position at which it's emitted, under the schema that holds there.
- Whatever row the live view has is the source's, and it has each row of the keys that snapshots have covered.
- The changes between two positions are in the stream exactly once, with their rows and columns, and so are the
  statements on the schema; numbers (SCN) only rise. Only where a table's mirror begins again, changes before that may
  be left out whose columns nobody can name.
- What has ended stays as it ended. A table's snapshot is complete only if each row that it was asked for has been
  emitted or has changed since it was asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.journal import Append, ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.row_keys import Key
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Unfinished,
)
from tests.simulation.lake import Changed, Lake, Violation, changed, chunk_rows, gone_rows
from tests.simulation.reader import images
from tests.simulation.selector import along_key, order_of, walk_of, wanted
from tests.simulation.server import Numbers, Rows, Server, Transaction, apply, gtid_set, lacking, numbers
from tests.simulation.world import Alteration

# Kinds of statements that are no messages.
_NO_MESSAGES = (Alteration.ANALYZE, Alteration.TRUNCATE)

Of = tuple[str, TableId]  # a table in a snapshot


@dataclass
class Account:
    """A table in a snapshot: `keys` that were emitted or have changed since, `rows` emitted, where its ranges are.

    A table that begins anew, because its walk is another one or its mirror is emptied, has a new account. `at`: where
    the rows were emitted, if all of the snapshot's have to be at one place.
    """

    keys: set[int] = field(default_factory=set)
    rows: int = 0
    walk_version: str = ""
    ranges: dict[int, tuple[Key | None, Key]] = field(default_factory=dict)
    at: GtidSet | None = None


@dataclass
class Record:
    """What has been said up to some point of the stream: the judge's own copy of what should be true there."""

    checkpoint: Checkpoint
    rows: dict[TableId, Rows]
    passed: Numbers = field(default_factory=dict)
    schemas: dict[TableId, TableSchema] = field(default_factory=dict)
    lake: Lake = field(default_factory=Lake)
    complete: set[TableId] = field(default_factory=set)
    accounts: dict[Of, Account] = field(default_factory=dict)
    paused: bool = False
    emitted: int = 0
    effects: set[str] = field(default_factory=set)

    def copy(self) -> "Record":
        """The same, to be kept."""
        return Record(
            self.checkpoint,
            {table: dict(rows) for table, rows in self.rows.items()},
            self.passed,
            dict(self.schemas),
            self.lake.copy(),
            set(self.complete),
            {of: replace(a, keys=set(a.keys)) for of, a in self.accounts.items()},
            self.paused,
            self.emitted,
            set(self.effects),
        )


class Judge:
    """Takes what goes to the journal, in its order, and raises Violation."""

    def __init__(self, server: Server, begin: Checkpoint) -> None:
        self._server = server
        rows = {table: dict(rows) for table, rows in server.initial.items()}
        self._before = begin
        self._doubted: dict[TableId, int] = {}
        passed = [t for t in server.log if t.gtid in begin.position]
        self.record = Record(begin, rows, schemas=dict(begin.schemas), passed=numbers(begin.position))
        for transaction in passed:
            self.record.schemas.update(transaction.schemas)

    def take(self, append: Append) -> None:
        """The next append."""
        record, before = self.record, self.record.checkpoint
        self._before = before
        new = self._passed(append.checkpoint.position)
        self._judge_changes(append, new, before)
        _judge_statements(append, new, before)
        for transaction in new:
            apply(record.rows, transaction)
            record.schemas.update(transaction.schemas)
            self._account_changes(transaction)
        record.lake.take(append)
        self._judge_constants(append)
        for part in append.parts:
            if isinstance(part, ChunkPart):
                self._judge_chunk(part, before)
                self._judge_place(part, append.checkpoint)
        self._judge_snapshots(before, append.checkpoint)
        self._judge_views(append.checkpoint)
        record.checkpoint = append.checkpoint

    def stopped(self, tables: TableFilter) -> None:
        """A signal to stop these tables' snapshots has just taken effect."""
        for snapshot in self.record.checkpoint.snapshots:
            for table, state in snapshot.tables.items():
                was = _state(self._before, (snapshot.id, table))
                if tables.match(table) and was == state and isinstance(state, Unfinished):
                    raise Violation(f"{table} of {snapshot.id} was to be stopped, and is {state}")

    def started(self, checkpoint: Checkpoint, known: KnownSchemas) -> None:
        """Capture starts at the checkpoint's position; nobody knows the columns of some tables from there on.

        The server has shown its tables, too. Behind what it had executed nobody knows what statements do to them.
        """
        unknown = checkpoint.recapturing.keys() | checkpoint.unproven
        late = {t.statement.table for t in self._server.log if t.statement and t.gtid not in known.at}
        self._doubted.update(dict.fromkeys(late, self._last_of(known.at)))
        self._doubted.update(dict.fromkeys(unknown, self._last_of(checkpoint.position)))

    def _last_of(self, position: GtidSet) -> int:
        return max((t.number for t in self._server.log if t.gtid in position), default=0)

    def moved(self, checkpoint: Checkpoint) -> None:
        """Capture begins anew at another position, since the log lacks what lies between."""
        record = self.record
        # A second gap at the same SCN, at which nothing was emitted in between, begins the same snapshot once more.
        anew = {s.id for s in checkpoint.snapshots if not s.ended}
        ended = tuple(s for s in record.checkpoint.snapshots if s.id not in anew)
        record.checkpoint = replace(record.checkpoint, snapshots=ended)
        record.accounts = {of: each for of, each in record.accounts.items() if of[0] not in anew}
        record.rows = {table: dict(rows) for table, rows in self._server.initial.items()}
        passed = [t for t in self._server.log if t.gtid in checkpoint.position]
        for transaction in passed:
            apply(record.rows, transaction)
            record.schemas.update(transaction.schemas)
        record.passed = numbers(gtid_set(t.gtid for t in passed))

    def judge_end(self) -> None:
        """At rest, with nothing left to read, the live views of whole mirrors are the source's tables."""
        checkpoint = self.record.checkpoint
        for table in self.record.complete:
            if table in checkpoint.mirrors and table not in checkpoint.stopped:
                view, truth = self.record.lake.live_view(checkpoint.schemas[table]), self._server.rows[table]
                if view != truth:
                    raise Violation(f"at the end {table} is {view}, but the source is {truth}")

    # The log

    def _passed(self, position: GtidSet) -> list[Transaction]:
        before, now = self.record.passed, numbers(position)
        if lost := lacking(before, now):
            raise Violation(f"the position went back: it lacks {_told(lost)}")
        new = lacking(now, before) - self._server.strays
        self.record.passed = now
        if unknown := [gtid for gtid in new if gtid not in self._server.by_gtid]:
            raise Violation(f"the position has {_told(unknown)}, which the log doesn't have")
        return sorted((self._server.by_gtid[gtid] for gtid in new), key=lambda each: each.number)

    def _judge_changes(self, append: Append, new: Sequence[Transaction], before: Checkpoint) -> None:
        parts = [part for part in append.parts if isinstance(part, ChangePart)]
        if not parts and not new:
            return
        _judge_order(append)
        came: dict[TableId, list[Changed]] = {}
        for part in parts:
            came.setdefault(part.changes.schema.table, []).extend(changed(part))
        scns = {t.gtid: before.scn + i for i, t in enumerate(new, 1)}
        _judge_names(parts, {scns[t.gtid]: t for t in new})
        expected: dict[TableId, list[Changed]] = {}
        for transaction in new:
            for image in images(transaction):
                of_table = expected.setdefault(image.table, [])
                of_table.append(Changed(scns[transaction.gtid], image.ordinal, image.kind, *image.row))
            statement = transaction.statement
            if statement and statement.kind in (Alteration.TRUNCATE, Alteration.RENAME_AWAY):
                emptied = Changed(scns[transaction.gtid], 0, ImageKind.EMPTIED, None, None)
                expected.setdefault(statement.table, []).append(emptied)
        for table in came.keys() | expected.keys():
            wanted_ = expected.get(table, [])
            if table in append.checkpoint.stopped:  # in mid-stream, but never in the middle of a transaction
                last = max((image.scn for image in came.get(table, [])), default=0)
                wanted_ = [image for image in wanted_ if image.scn <= last]
            elif not self._server.world.full_metadata and _begins_again(table, before, append.checkpoint):
                # What nobody could name is left out, and just behind it the mirror begins again.
                mirror, there = append.checkpoint.mirrors.get(table), came.get(table, [])
                since = append.checkpoint.scn if mirror is None else mirror.since
                nameless = {scns[t.gtid] for t in new if self._between_statements(t, table)}
                wanted_ = [
                    image
                    for image in wanted_
                    if image.scn > since or image.scn not in nameless or image in there
                ]
            if came.get(table, []) != wanted_:
                raise Violation(
                    f"{table}: the changes up to {append.checkpoint.position} are {wanted_}, but the "
                    f"stream has {came.get(table, [])}"
                )

    def _between_statements(self, transaction: Transaction, table: TableId) -> bool:
        """Whether no answer of the server may have held for it: it lies between two places of doubt.

        The first is a statement, or a start with columns that nobody knows; the second is a statement.
        """
        altering = [
            each.number
            for each in self._server.log
            if (of := each.statement) and of.table == table and of.kind is not Alteration.ANALYZE
        ]
        doubted = [*altering, self._doubted.get(table, transaction.number)]
        return any(n < transaction.number for n in doubted) and any(n > transaction.number for n in altering)

    def _judge_constants(self, append: Append) -> None:
        """What chunks fill begins again with a column that has a constant in rows that were read before."""
        for altered in append.alterations:
            table, mirrors = altered.alteration.schema.table, append.checkpoint.mirrors
            filling = isinstance(mirror := mirrors.get(table), Filling) and mirror.since < altered.scn
            if altered.alteration.changes.added and filling:
                raise Violation(f"{table} goes on being filled, and its chunks lack a column's constant")

    def _account_changes(self, transaction: Transaction) -> None:
        for (_, table), account in self.record.accounts.items():
            for change in transaction.changes:
                if change.table == table:
                    account.keys.update(change.keys)

    # Chunks

    def _judge_chunk(self, part: ChunkPart, before: Checkpoint) -> None:
        table, record = part.schema.table, self.record
        state = _state(before, (part.chunk.snapshot, table))
        if not isinstance(state, Chunking if part.gone is None else Repairing):
            raise Violation(f"chunk {part.chunk} is emitted, but its table was {state}")
        if part.scn <= before.scn:
            raise Violation(f"chunk {part.chunk} has the SCN {part.scn}, and {before.scn} was given before")
        truth = record.rows[table]
        rows = chunk_rows(part)
        for key, value in rows:
            if truth.get(key) != value:
                raise Violation(
                    f"chunk {part.chunk}: row {key} is {value}, but the source had {truth.get(key)}"
                )
        whole = len(part.schema.key) > 1
        for key, value in gone_rows(part):
            if key in truth and (not whole or truth[key] == value):
                raise Violation(f"chunk {part.chunk}: row {key} is gone, but the source had {truth[key]}")
        if part.gone is not None:
            return
        if rows and part.schema != record.schemas[table]:
            raise Violation(f"chunk {part.chunk} has columns that the table didn't have there: {part.schema}")
        account = record.accounts.setdefault((part.chunk.snapshot, table), Account())
        account.keys.update(key for key, _ in rows)
        account.rows += len(rows)
        record.emitted += len(rows)

    def _judge_place(self, part: ChunkPart, after: Checkpoint) -> None:
        """All rows of a consistent snapshot are emitted at one place, but for tables that have failed or stopped."""
        id_, accounts = part.chunk.snapshot, self.record.accounts
        for snapshot in after.snapshots:
            if not snapshot.consistent or snapshot.id != id_:
                continue
            accounts[id_, part.schema.table].at = after.position
            places = {
                account.at
                for (of, table), account in accounts.items()
                if of == id_
                and account.at is not None
                and table not in after.stopped
                and not isinstance(snapshot.tables[table], SnapshotFailed | SnapshotStopped)
            }
            if len(places) > 1:
                raise Violation(f"the rows of {id_} are of several places: {', '.join(map(str, places))}")

    # Snapshots

    def _judge_snapshots(self, before: Checkpoint, after: Checkpoint) -> None:
        record = self.record
        if before.snapshots is after.snapshots and before.mirrors is after.mirrors:
            return
        anew = {
            table
            for table, mirror in after.mirrors.items()
            if _begins_anew(before.mirrors.get(table), mirror)
        }
        record.complete -= anew
        # One that was emptied begins whole.
        record.complete |= {table for table in anew if isinstance(after.mirrors[table], Ready)}
        for snapshot in after.snapshots:
            for table, state in snapshot.tables.items():
                of = (snapshot.id, table)
                was = _state(before, of)
                again = isinstance(was, Completed) and snapshot.consistent and not _ended(before, snapshot)
                if (
                    isinstance(was, Completed | SnapshotFailed | SnapshotStopped)
                    and was != state
                    and not again
                ):
                    raise Violation(f"{table} of {snapshot.id} was {was} and is {state}")
                if isinstance(was, Chunking | Completed) and (
                    table in anew or isinstance(state, SnapshotWaiting)
                ):
                    # One that ends because its table was emptied has emitted what it had emitted.
                    ended = isinstance(state, Completed) and of in record.accounts
                    record.accounts[of] = Account(rows=record.accounts[of].rows if ended else 0)
                account = record.accounts.setdefault(of, Account())
                if isinstance(state, Chunking) and account.walk_version != state.walk_version:
                    account.walk_version, account.ranges = state.walk_version, _ranges(state)
                if isinstance(state, Completed) and was != state:
                    # What was asked for is forgotten with the end.
                    asked = next((s for s in before.snapshots if s.id == snapshot.id), snapshot)
                    self._judge_completion(asked, table, state, account)
                    # One that was emptied may have got rows again in the same transaction.
                    rows, there = state.progress.rows, len(record.rows[table])
                    if snapshot.consistent and table not in anew and rows != there:
                        raise Violation(f"{table} of {snapshot.id} has {rows} of {there} rows at its place")
        kept = {(s.id, table) for s in after.snapshots for table in s.tables}
        record.accounts = {of: account for of, account in record.accounts.items() if of in kept}

    def _judge_completion(
        self, snapshot: Snapshot, table: TableId, state: Completed, account: Account
    ) -> None:
        request, rows = snapshot.request(table), self.record.rows[table]
        asked = {row[0] for row in rows.items() if wanted(row, request)}
        if lacking := asked - account.keys:
            raise Violation(f"{table} of {snapshot.id} is complete without {sorted(lacking)}")
        if state.progress.rows != account.rows:
            raise Violation(f"{table} of {snapshot.id} counts {state.progress.rows} rows of {account.rows}")
        if snapshot.fills(table):
            self.record.complete.add(table)

    # The lake

    def _judge_views(self, checkpoint: Checkpoint) -> None:
        for table in checkpoint.mirrors:
            if table not in checkpoint.stopped:
                self._judge_view(table, checkpoint)

    def _judge_view(self, table: TableId, checkpoint: Checkpoint) -> None:
        truth, view = self.record.rows[table], self.record.lake.live_view(checkpoint.schemas[table])
        if view == truth:
            return
        for key, value in view.items():
            if truth.get(key) != value:
                raise Violation(
                    f"{table}: key {key} is {value} in the live view, {truth.get(key)} in the source"
                )
        for row in truth.items():
            if row[0] not in view and self._covered(row, table, checkpoint):
                raise Violation(f"{table}: the live view lacks the row {row}, which a snapshot has covered")

    def _covered(self, row: tuple[int, int], table: TableId, checkpoint: Checkpoint) -> bool:
        """Whether the live view has to have the row: what some rows are read for fills no mirror that isn't whole."""
        if table not in checkpoint.mirrors:
            return False
        if table in self.record.complete:
            return True
        return any(
            isinstance(state := snapshot.tables.get(table), Chunking)
            and snapshot.fills(table)
            and self._in_done_range(row, snapshot, table, state)
            for snapshot in checkpoint.snapshots
        )

    def _in_done_range(
        self, row: tuple[int, int], snapshot: Snapshot, table: TableId, state: Chunking
    ) -> bool:
        along = walk_of(self.record.schemas[table], snapshot.request(table))
        if along.version(self.record.schemas[table]) != state.walk_version:
            return False
        if any(len(each.end) != len(along.columns) for each in state.ranges):
            raise Violation(f"{table} is in ranges of another walk than {along}")
        place = order_of(along)
        at = place(along_key(row, along))
        to_go = {each.number: each for each in state.ranges}
        for range_, (begin, end) in self.record.accounts[snapshot.id, table].ranges.items():
            if (begin is None or at > place(begin)) and at <= place(end):
                done = to_go[range_].done if range_ in to_go else end
                return done is not None and at <= place(done)
        return False


def _begins_again(table: TableId, before: Checkpoint, after: Checkpoint) -> bool:
    """Whether its mirror begins between the two, or will begin with the table's first schema."""
    was, mirror = before.mirrors.get(table), after.mirrors.get(table)
    if mirror is None:
        return table not in after.schemas
    return was is None or was.since < mirror.since


def _begins_anew(before: Mirror | None, after: Mirror) -> bool:
    match before, after:
        case None, _:
            return False
        case Ready(), Filling():
            return True
        case _:
            return before.since < after.since


def _judge_names(parts: Iterable[ChangePart], transactions: Mapping[int, Transaction]) -> None:
    """Rows have the columns that their table had when they were logged."""
    for part in parts:
        schema = part.changes.schema
        for change in changed(part):
            logged = (
                transactions[change.scn].schemas.get(schema.table) if change.scn in transactions else None
            )
            if logged and change.kind is not ImageKind.EMPTIED and schema.columns != logged.columns:
                raise Violation(f"{change} has the columns of {schema}, and was logged under {logged}")


def _judge_statements(append: Append, new: Sequence[Transaction], before: Checkpoint) -> None:
    """The statements on the schema are in the stream, each once and where it was executed."""
    came = [(each.scn, each.gtid, each.statement.text) for each in append.statements]
    expected = [
        (before.scn + i, str(transaction.gtid), statement.text)
        for i, transaction in enumerate(new, 1)
        if (statement := transaction.statement) and statement.kind not in _NO_MESSAGES
    ]
    if came != expected:
        raise Violation(
            f"the statements up to {append.checkpoint.position} are {expected}, but came as {came}"
        )


def _judge_order(append: Append) -> None:
    last = 0
    for part in append.parts:
        end = part.first_scn + len(part.transactions) - 1 if isinstance(part, ChangePart) else part.scn
        if end < last:
            raise Violation(f"a part that ends with the SCN {end} comes behind {last}")
        last = end


def _ranges(state: Chunking) -> dict[int, tuple[Key | None, Key]]:
    begin: Key | None = None
    found: dict[int, tuple[Key | None, Key]] = {}
    for each in sorted(state.ranges, key=lambda each: each.number):
        found[each.number] = (begin, each.end)
        begin = each.end
    return found


def _state(checkpoint: Checkpoint, of: Of) -> TableSnapshot | None:
    return next((s.tables.get(of[1]) for s in checkpoint.snapshots if s.id == of[0]), None)


def _ended(checkpoint: Checkpoint, snapshot: Snapshot) -> bool:
    return all(each.ended for each in checkpoint.snapshots if each.id == snapshot.id)


def _told(gtids: Iterable[Gtid]) -> str:
    return ", ".join(sorted(map(str, gtids)))
