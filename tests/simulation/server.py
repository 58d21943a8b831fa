"""A model of a MySQL server, just as treacherous as the real one where watermarks are concerned.

A transaction is first in the log, where a reader of the log sees it; then it commits, and SELECTs see it, in any order
within its group; and only later its GTID is in the executed set. A row that a transaction changes stays locked until
that transaction has committed. Statements (DDL) are in the log when they take effect, and wait for the table's writers.

Each table may refer to the one before it by a foreign key: rows go, or get other keys, with those that they refer to,
and the log doesn't tell.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.signals.signal import SourceSignal
from pipeline.types.column_types import Integer
from tests.simulation.story import Story
from tests.simulation.world import Alteration, Reads, References, World

SOURCES = (
    Tsid("00000000-0000-0000-0000-00000000000a", ""),
    Tsid("00000000-0000-0000-0000-00000000000a", "tagged"),
    Tsid("00000000-0000-0000-0000-00000000000b", ""),
)
TABLES = (TableId("shop", "orders"), TableId("shop", "items"), TableId("shop", "users"))

Row = tuple[int, int]  # key, value
Rows = dict[int, int]
Numbers = dict[Tsid, frozenset[int]]  # transactions, by where they come from

_NUMBER = Integer(8, unsigned=False)


@dataclass(frozen=True, slots=True)
class Change:
    """One row changed: None before for an insert, None after for a delete; keys may differ."""

    table: TableId
    before: Row | None
    after: Row | None

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys that it touches."""
        return tuple({row[0]: None for row in (self.before, self.after) if row})


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the schema that its table has afterwards; `rows`: those that it brings."""

    table: TableId
    kind: Alteration
    text: str
    schema: TableSchema
    rows: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction, the `number`th of the log, with where it ends, and the schemas under which its rows were logged.

    `cascades`: what foreign keys did to other tables along with its changes. `locks`: the rows that nobody else changes
    meanwhile. `time`: when it committed, in µs since the epoch.
    """

    number: int
    gtid: Gtid
    end: Coordinates
    changes: tuple[Change, ...]
    schemas: Mapping[TableId, TableSchema]
    statement: Statement | None = None
    committed: bool = False
    executed: bool = False
    marker: SourceSignal | None = None
    cascades: tuple[Change, ...] = ()
    locks: frozenset[tuple[TableId, int]] = frozenset()
    time: int = 0

    def __str__(self) -> str:
        if self.marker:
            return f"{self.gtid} a row of the signal table: {self.marker.type} {self.marker.id}"
        if self.statement:
            return f"{self.gtid} {self.statement.text}"
        rows, below = (
            ", ".join(f"{c.table.name} {c.before or ''}->{c.after or ''}" for c in changes)
            for changes in (self.changes, self.cascades)
        )
        return f"{self.gtid} {rows or 'nothing captured'}{' and below the log ' if below else ''}{below}"


def schema(table: TableId) -> TableSchema:
    """The table's schema before any statement: a key and a value."""
    return TableSchema(table, (Column("id", _NUMBER, False), Column("value", _NUMBER, False)), (0,))


@dataclass
class Server:
    """The server: `log` in order, `rows` as SELECTs see them, `initial` as they were before the log began.

    `end` is where the log ends, transactions included that haven't committed yet; `executed` lags behind what SELECTs
    see. `locked`: nobody may write. `pinned`: tables that an open transaction has read, so that they can't be altered.
    `number`: which of the servers of this history it is. `gone`: tables that were renamed away, as they were.
    `lost`: the GTIDs of what a crash of the server took out of its log.
    """

    random: Random
    world: World
    story: Story
    log: list[Transaction] = field(default_factory=list)
    rows: dict[TableId, Rows] = field(default_factory=dict)
    initial: dict[TableId, Rows] = field(default_factory=dict)
    schemas: Mapping[TableId, TableSchema] = field(default_factory=dict)
    executed: GtidSet = field(default_factory=GtidSet)
    uncommitted: list[Transaction] = field(default_factory=list)
    unexecuted: list[Transaction] = field(default_factory=list)
    by_gtid: dict[Gtid, Transaction] = field(default_factory=dict)
    used: dict[Tsid, set[int]] = field(default_factory=lambda: {source: set() for source in SOURCES})
    values: int = 0
    purged: GtidSet = field(default_factory=GtidSet)
    strays: set[Gtid] = field(default_factory=set)
    end: Coordinates = field(default_factory=lambda: Coordinates("binlog.000001", 4))
    locked: bool = False
    pinned: set[TableId] = field(default_factory=set)
    number: int = 0
    gone: dict[TableId, TableSchema] = field(default_factory=dict)
    lost: set[Gtid] = field(default_factory=set)
    clock: int = 1_700_000_000_000_000

    def __post_init__(self) -> None:
        for table in self.tables:
            parent = self._parent(table)
            there = self.world.keys if parent is None else sorted(self.rows[parent])
            self.rows[table] = {k: -k for k in there if self.random.random() < self.world.full}
            self.initial[table] = dict(self.rows[table])
        self.schemas = {table: schema(table) for table in self.tables}

    @property
    def tables(self) -> tuple[TableId, ...]:
        """The captured tables."""
        return TABLES[: self.world.tables]

    @property
    def foreign_keys(self) -> tuple[ForeignKey, ...]:
        """Those whose work isn't in the log."""
        updates = self.world.references is References.ALL
        pairs = ((table, self._parent(table)) for table in self.tables)
        return tuple(ForeignKey(child, parent, ("id",), True, updates) for child, parent in pairs if parent)

    def rotate(self) -> None:
        """End the log's file and begin the next one."""
        self.end = Coordinates(_next_file(self.end), 4)
        self.story.tell("the log is rotated, to", self.end)

    @property
    def unfinished(self) -> bool:
        """Whether there's something in the log that isn't in the executed set yet."""
        return bool(self.uncommitted or self.unexecuted)

    def write(self) -> None:
        """Flush a transaction over a few rows that nobody holds into the log."""
        if self.locked:
            return
        held, mine = self._held(), set[tuple[TableId, int]]()
        changes: list[Change] = []
        cascades: list[Change] = []
        for _ in range(self.random.choice(self.world.sizes)):
            change = self._change(self.random.choice(self.tables))
            follow = list(self._cascaded(change)) if change else []
            if change and not (locks := self._locks(change, follow)) & (held | mine):
                changes.append(change)
                cascades += follow
                mine |= locks
        if changes or self.random.random() < 0.2:
            self._flush(tuple(changes), None, cascades=tuple(cascades), locks=frozenset(mine))

    def write_hot_row(self) -> None:
        """Change the first row of the first table once more, or put it in."""
        table, key = self.tables[0], self.world.keys[0]
        if self.locked or table in self.gone or (table, key) in self._held():
            return
        self.values += 1
        before = (key, self.rows[table][key]) if key in self.rows[table] else None
        change = Change(table, before, (key, self.values))
        self._flush((change,), None, locks=frozenset(self._locks(change, ())))

    def alter(self) -> Statement | None:
        """Flush a statement about a table that nobody writes to; it's visible at once."""
        table = self.random.choice(self.tables)
        if table in self.gone or not self._alterable(table):
            return None
        return self._alter(self._statement(table, self.random.choice(self.world.alterations)))

    def add_column(self) -> TableId | None:
        """Flush a statement that adds a column to a table that nobody writes to, and let it be executed."""
        table = self.random.choice(self.tables)
        if table in self.gone or not self._alterable(table):
            return None
        self._alter(self._statement(table, Alteration.ADD))
        self.come_to_rest()
        return table

    def rename_column(self, table: TableId, name: str) -> None:
        """Flush a statement that gives this name to the table's last column; nobody may write to the table."""
        *others, last = self.schemas[table].columns
        after = replace(self.schemas[table], columns=(*others, replace(last, name=name)))
        text = f"ALTER TABLE {table.name} RENAME COLUMN {last.name} TO {name}"
        self._alter(Statement(table, Alteration.RENAME, text, after))

    def _alter(self, statement: Statement) -> Statement:
        self.schemas = {**self.schemas, statement.table: statement.schema}
        self._flush((), statement)
        self.commit(self.log[-1])
        return statement

    def swap(self) -> Statement | None:
        """Rename a table away, or give its name to another one with rows; foreign keys would forbid it."""
        table = self.random.choice(self.tables)
        if self.world.references is not References.NONE or not self._alterable(table):
            return None
        back = table in self.gone
        if back and self.random.random() < 0.5:  # it stays away for a while
            return None
        statement = self._renamed_back(table, self.gone.pop(table)) if back else self._renamed_away(table)
        self._flush((), statement)
        self.commit(self.log[-1])
        return statement

    def _renamed_away(self, table: TableId) -> Statement:
        self.gone[table] = self.schemas[table]
        self.schemas = {each: of for each, of in self.schemas.items() if each != table}
        text = f"RENAME TABLE {table.name} TO attic.{table.name}{len(self.log)}"
        return Statement(table, Alteration.RENAME_AWAY, text, self.gone[table])

    def _renamed_back(self, table: TableId, was: TableSchema) -> Statement:
        there = [key for key in self.world.keys if self.random.random() < self.world.full]
        rows = {key: self.values + place for place, key in enumerate(there, 1)}  # no value comes twice
        self.values += len(rows)
        is_ = self.random.choice((was, schema(table)))
        self.schemas = {**self.schemas, table: is_}
        text = f"RENAME TABLE attic.{table.name}_new TO {table.name}"
        return Statement(table, Alteration.RENAME_BACK, text, is_, rows)

    def _alterable(self, table: TableId) -> bool:
        """Whether nobody holds the table."""
        held = table in self.pinned or any(other == table for other, _ in self._held())
        return not (self.locked or held)

    def commit_one(self) -> None:
        """Let one flushed transaction commit, in any order; in the log's where marker rows have to mean something."""
        if self.uncommitted:
            ordered = self.world.reads is Reads.MARKED
            self.commit(self.uncommitted[0] if ordered else self.random.choice(self.uncommitted))

    def mark(self, id_: str, type_: str) -> Transaction:
        """Flush a row of the signal table."""
        self._flush((), None, SourceSignal(id_, type_, ""))
        return self.log[-1]

    def stray(self) -> None:
        """Let the executed set have a transaction that never comes, as SET gtid_purged does."""
        gtid = self._next_gtid()
        self.story.tell("executed and purged at once:", gtid)
        self.strays.add(gtid)
        self.used[gtid.source].add(gtid.number)
        self.executed = self.executed.with_gtid(gtid)
        self.purged = self.purged.with_gtid(gtid)

    def take_over(self) -> None:
        """Another server of the same history takes over: it has the same transactions at other places of its log."""
        self.come_to_rest()
        self.number += 1
        for i, transaction in enumerate(self.log):
            transaction.end = place_on(self.number, i + 1)
        self.end = place_on(self.number, len(self.log))
        self.story.tell("another server has taken over; its log ends at", self.end)

    def lose_tail(self) -> None:
        """Lose the end of the log, and what it did; others get the same GTIDs, as far as it goes."""
        self.come_to_rest()
        if not self.log:
            return
        count = self.random.choice((1, 2, len(self.log)))
        self.story.tell("the server crashes, and loses the last transactions:", count)
        for transaction in self.log[-count:]:
            self.lost.add(transaction.gtid)
            self.used[transaction.gtid.source].discard(transaction.gtid.number)
            del self.by_gtid[transaction.gtid]
        del self.log[-count:]
        self._recovered()
        for _ in range(self.random.randrange(3 * count)):
            self.write()
        self.come_to_rest()

    def _recovered(self) -> None:
        """Be what the log makes of it."""
        self.rows = {table: dict(rows) for table, rows in self.initial.items()}
        self.schemas, self.gone = {table: schema(table) for table in self.tables}, {}
        self.end = Coordinates("binlog.000001", 4)
        for transaction in self.log:
            apply(self.rows, transaction)
            self.schemas, self.end = transaction.schemas, transaction.end
            statement = transaction.statement
            if statement and statement.table not in self.schemas:
                self.gone[statement.table] = statement.schema
        self.gone = {table: of for table, of in self.gone.items() if table not in self.schemas}
        self.executed = gtid_set((*(each.gtid for each in self.log), *self.strays))

    def purge(self) -> None:
        """Forget the log up to now."""
        self.come_to_rest()
        self.purged = self.executed
        self.story.tell("the log is purged up to now")

    def execute_one(self) -> None:
        """Put the GTID of one committed transaction into the executed set, in any order."""
        if self.unexecuted:
            self.execute(self.random.choice(self.unexecuted))

    def commit(self, transaction: Transaction) -> None:
        """Let SELECTs see what the transaction did, and others change its rows."""
        self.story.tell("visible:", transaction.gtid)
        transaction.committed = True
        self.uncommitted.remove(transaction)
        self.unexecuted.append(transaction)
        apply(self.rows, transaction)

    def execute(self, transaction: Transaction) -> None:
        """Put the transaction's GTID into the executed set."""
        self.story.tell("executed:", transaction.gtid)
        transaction.executed = True
        self.unexecuted.remove(transaction)
        self.executed = self.executed.with_gtid(transaction.gtid)

    def come_to_rest(self) -> None:
        """Let everything that's in the log be visible and executed."""
        for transaction in list(self.uncommitted):
            self.commit(transaction)
        for transaction in list(self.unexecuted):
            self.execute(transaction)

    def close_gaps(self) -> None:
        """Let the executed set have all that's in the log before anything that it has (binlog_order_commits = ON)."""
        last = max((transaction.number for transaction in self.log if transaction.executed), default=0)
        for transaction in self.log[:last]:
            if not transaction.committed:
                self.commit(transaction)
            if not transaction.executed:
                self.execute(transaction)

    def _change(self, table: TableId) -> Change | None:
        """A change of one row; None where a foreign key forbids it, or there's no such table."""
        if table in self.gone:
            return None
        key, parent = self.random.choice(self.world.keys), self._parent(table)
        may_have = self.world.keys if parent is None else self.rows[parent]
        self.values += 1
        before = (key, self.rows[table][key]) if key in self.rows[table] else None
        if before is None:
            return Change(table, None, (key, self.values)) if key in may_have else None
        kind = self.random.random()
        if kind < 0.3:
            return Change(table, before, None)
        free = [k for k in self.world.keys if k not in self.rows[table] and k in may_have]
        if kind < 0.55 and free:
            child = self._child(table)
            stays = self.world.references is References.DELETES and child and key in self.rows[child]
            return None if stays else Change(table, before, (self.random.choice(free), self.values))
        return Change(table, before, (key, self.values))

    # Foreign keys

    def _parent(self, table: TableId) -> TableId | None:
        at = self.tables.index(table)
        return None if not at or self.world.references is References.NONE else self.tables[at - 1]

    def _child(self, table: TableId) -> TableId | None:
        return next((child for child in self.tables if self._parent(child) == table), None)

    def _cascaded(self, change: Change) -> Iterator[Change]:
        """What foreign keys do along with a change."""
        child = self._child(change.table)
        if child is None or change.before is None or change.before[0] not in self.rows[child]:
            return
        key, after = change.before[0], change.after and change.after[0]
        if after != key:
            value = self.rows[child][key]
            follows = Change(child, (key, value), None if after is None else (after, value))
            yield follows
            yield from self._cascaded(follows)

    def _locks(self, change: Change, follow: Iterable[Change]) -> set[tuple[TableId, int]]:
        """The rows that it changes, and the one that it refers to."""
        locks = {(each.table, key) for each in (change, *follow) for key in each.keys}
        parent = self._parent(change.table)
        return locks | {(parent, change.after[0])} if parent and change.after else locks

    def _held(self) -> set[tuple[TableId, int]]:
        return {lock for transaction in self.uncommitted for lock in transaction.locks}

    def _statement(self, table: TableId, kind: Alteration) -> Statement:
        present = self.schemas[table]
        *_, last = present.columns
        added = f"added{len(self.log)}"
        match kind:
            case Alteration.ADD:
                constant = len(self.log) % 2 == 1
                after = replace(present, columns=(*present.columns, Column(added, _NUMBER, not constant)))
                given = "NOT NULL DEFAULT 7" if constant else "NULL"
                text = f"ALTER TABLE {table.name} ADD COLUMN {added} BIGINT {given}"
            case Alteration.DROP if len(present.columns) > 2:
                after = replace(present, columns=present.columns[:-1])
                text = f"ALTER TABLE {table.name} DROP COLUMN {last.name}"
            case Alteration.RENAME if len(present.columns) > 2:
                after = replace(present, columns=(*present.columns[:-1], replace(last, name=added)))
                text = f"ALTER TABLE {table.name} RENAME COLUMN {last.name} TO {added}"
            case Alteration.REKEY:
                after = replace(present, key=(0, 1) if len(present.key) == 1 else (0,))
                names = ", ".join(after.key_names)
                text = f"ALTER TABLE {table.name} DROP PRIMARY KEY, ADD PRIMARY KEY ({names})"
            case Alteration.TRUNCATE if self._child(table) is None:
                after, text = present, f"TRUNCATE TABLE {table.name}"
            case _:
                kind, after, text = Alteration.ANALYZE, present, f"ANALYZE TABLE {table.name}"
        return Statement(table, kind, text, after)

    def _flush(
        self,
        changes: tuple[Change, ...],
        statement: Statement | None,
        marker: SourceSignal | None = None,
        cascades: tuple[Change, ...] = (),
        locks: frozenset[tuple[TableId, int]] = frozenset(),
    ) -> None:
        end, gtid = self._next_end(), self._next_gtid()
        self.clock += 1
        transaction = Transaction(
            len(self.log) + 1,
            gtid,
            end,
            changes,
            self.schemas,
            statement,
            marker=marker,
            cascades=cascades,
            locks=locks,
            time=self.clock,
        )
        self.story.tell("in the log:", transaction, "up to", end)
        self.end = end
        self.log.append(transaction)
        self.uncommitted.append(transaction)
        self.by_gtid[gtid] = transaction
        self.used[gtid.source].add(gtid.number)

    def _next_end(self) -> Coordinates:
        file = _next_file(self.end) if self.random.random() < 0.1 else self.end.file
        return Coordinates(file, self.end.offset + 10 if file == self.end.file else 10)

    def _next_gtid(self) -> Gtid:
        source = self.random.choice(SOURCES)
        used = self.used[source]
        most = max(used, default=0)
        gaps = [n for n in range(1, most) if n not in used]
        if gaps and self.random.random() < 0.3:  # as on a replica whose appliers commit out of order
            return Gtid(source, self.random.choice(gaps))
        return Gtid(source, most + self.random.choice((1, 1, 1, 2)))


def apply(rows: dict[TableId, Rows], transaction: Transaction) -> None:
    """Do to the rows what the transaction did."""
    for change in (*transaction.changes, *transaction.cascades):
        of_table = rows[change.table]
        if change.before:
            del of_table[change.before[0]]
        if change.after:
            of_table[change.after[0]] = change.after[1]
    match transaction.statement:
        case Statement(
            table, Alteration.TRUNCATE | Alteration.RENAME_AWAY | Alteration.RENAME_BACK, rows=new
        ):
            rows[table].clear()
            rows[table].update(new)
        case _:
            pass


def place_on(number: int, transactions: int) -> Coordinates:
    """Where so many transactions end in the log of the server with this number, if it takes over."""
    file, last = divmod(transactions, 6 + number)
    return Coordinates(f"binlog.{1 + file:06}", 4 + number * last)


def _next_file(end: Coordinates) -> str:
    return f"binlog.{int(end.file[-6:]) + 1:06}"


def numbers(position: GtidSet) -> Numbers:
    """Each transaction of a small set."""
    found: Numbers = {}
    for source, intervals in position.intervals.items():
        edges = intervals.edges.tolist()
        found[source] = frozenset(chain.from_iterable(map(range, edges[0::2], edges[1::2])))
    return found


def lacking(some: Numbers, others: Numbers) -> set[Gtid]:
    """Those that the others lack."""
    none = frozenset[int]()
    return {Gtid(source, n) for source, mine in some.items() for n in mine - others.get(source, none)}


def gtid_set(gtids: Iterable[Gtid]) -> GtidSet:
    """The set of these."""
    found = GtidSet()
    for gtid in gtids:
        found = found.with_gtid(gtid)
    return found
