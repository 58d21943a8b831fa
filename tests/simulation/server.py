"""A model of a MySQL server, just as treacherous as the real one where watermarks are concerned.

A transaction is first in the log, where a reader of the log sees it; then it commits, and SELECTs see it, in any order
within its group; and only later its GTID is in the executed set. A row that a transaction changes stays locked until
that transaction has committed. Statements (DDL) add a column and, as MySQL's, are in the log when they take effect.
"""

from dataclasses import dataclass, field
from random import Random

from pipeline.gtid import Gtid, GtidSet, Source
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import Integer
from pipeline.watermark import Coordinates

SOURCES = (
    Source("00000000-0000-0000-0000-00000000000a", ""),
    Source("00000000-0000-0000-0000-00000000000a", "tagged"),
    Source("00000000-0000-0000-0000-00000000000b", ""),
)
TABLES = (TableId("shop", "orders"), TableId("shop", "items"))
KEYS = range(1, 6)

Row = tuple[int, int]  # key, value
Rows = dict[int, int]


@dataclass(frozen=True)
class Change:
    """One row changed: None before for an insert, None after for a delete; keys may differ."""

    table: TableId
    before: Row | None
    after: Row | None


@dataclass
class Transaction:
    """A transaction with its place in the log; `statement` names the table that it alters, if it's a statement."""

    gtid: Gtid
    end: Coordinates
    changes: tuple[Change, ...]
    statement: TableId | None = None
    committed: bool = False
    executed: bool = False


def schema(table: TableId, version: int) -> TableSchema:
    """The table's schema after `version` statements: a key, a value, and a column for each statement."""
    columns = [Column("id", Integer(8, unsigned=False), nullable=False)]
    columns += [Column("value", Integer(8, unsigned=False), nullable=True)]
    columns += [Column(f"added{i}", Integer(8, unsigned=False), nullable=True) for i in range(version)]
    return TableSchema(table, tuple(columns), (0,))


@dataclass
class Server:
    """The server: `log` in order, `rows` as SELECTs see them, `initial` as they were before the log began."""

    random: Random
    log: list[Transaction] = field(default_factory=list)
    rows: dict[TableId, Rows] = field(default_factory=dict)
    initial: dict[TableId, Rows] = field(default_factory=dict)
    versions: dict[TableId, int] = field(default_factory=dict)
    values: int = 0

    def __post_init__(self) -> None:
        for table in TABLES:
            self.rows[table] = {key: 0 for key in KEYS if self.random.random() < 0.6}
            self.initial[table] = dict(self.rows[table])
            self.versions[table] = 0

    def end_of_log(self) -> Coordinates:
        """Where the log ends, transactions included that haven't committed yet."""
        return self.log[-1].end if self.log else Coordinates("binlog.000001", 4)

    def executed(self) -> GtidSet:
        """The executed set, which lags behind what SELECTs see."""
        done = GtidSet.parse("")
        for transaction in self.log:
            if transaction.executed:
                done = done.with_gtid(transaction.gtid)
        return done

    def truth(self, table: TableId, position: GtidSet) -> Rows:
        """The table's rows at a position of the stream."""
        rows = dict(self.initial[table])
        for transaction in self.log:
            if transaction.gtid in position:
                _apply(rows, table, transaction)
        return rows

    def version(self, table: TableId, position: GtidSet) -> int:
        """How many statements had altered the table at a position."""
        return sum(t.statement == table and t.gtid in position for t in self.log)

    def write(self) -> None:
        """Flush a transaction over a few rows that nobody holds into the log."""
        changes: list[Change] = []
        held = {
            (change.table, row[0])
            for t in self.log
            if not t.committed
            for change in t.changes
            for row in (change.before, change.after)
            if row
        }
        altering = {t.statement for t in self.log if not t.committed}
        for _ in range(self.random.choice((1, 1, 2, 3))):
            table = self.random.choice(TABLES)
            change = self._change(table)
            keys = {(table, row[0]) for row in (change.before, change.after) if row}
            if not keys & held and table not in altering:
                changes.append(change)
                held |= keys
        if changes:
            self._flush(tuple(changes), None)

    def alter(self) -> None:
        """Flush a statement that adds a column to a table that nobody writes to."""
        table = self.random.choice(TABLES)
        if not any(table in {c.table for c in t.changes} for t in self.log if not t.committed):
            self._flush((), table)
            self.commit(self.log[-1])

    def commit_one(self) -> None:
        """Let one flushed transaction commit, in any order."""
        flushed = [t for t in self.log if not t.committed]
        if flushed:
            self.commit(self.random.choice(flushed))

    def execute_one(self) -> None:
        """Put the GTID of one committed transaction into the executed set, in any order."""
        committed = [t for t in self.log if t.committed and not t.executed]
        if committed:
            self.random.choice(committed).executed = True

    def _change(self, table: TableId) -> Change:
        key = self.random.choice(KEYS)
        self.values += 1
        before = (key, self.rows[table][key]) if key in self.rows[table] else None
        if before is None:
            return Change(table, None, (key, self.values))
        kind = self.random.random()
        if kind < 0.3:
            return Change(table, before, None)
        free = [k for k in KEYS if k not in self.rows[table]]
        if kind < 0.55 and free:
            return Change(table, before, (self.random.choice(free), self.values))
        return Change(table, before, (key, self.values))

    def _flush(self, changes: tuple[Change, ...], statement: TableId | None) -> None:
        source = self.random.choice(SOURCES)
        used = [t.gtid.number for t in self.log if t.gtid.source == source]
        number = max(used, default=0) + self.random.choice((1, 1, 1, 2))
        gaps = [n for n in range(1, max(used, default=0)) if n not in used]
        if gaps and self.random.random() < 0.3:  # as on a replica whose appliers commit out of order
            number = self.random.choice(gaps)
        last = self.end_of_log()
        file, offset = last.file, last.offset + 10
        if self.random.random() < 0.1:
            file, offset = f"binlog.{int(file[-6:]) + 1:06}", 10
        self.log.append(Transaction(Gtid(source, number), Coordinates(file, offset), changes, statement))

    def commit(self, transaction: Transaction) -> None:
        """Let SELECTs see what the transaction did, and others change its rows."""
        transaction.committed = True
        for table in TABLES:
            _apply(self.rows[table], table, transaction)
        if transaction.statement:
            self.versions[transaction.statement] += 1


def _apply(rows: Rows, table: TableId, transaction: Transaction) -> None:
    for change in transaction.changes:
        if change.table == table:
            if change.before:
                del rows[change.before[0]]
            if change.after:
                rows[change.after[0]] = change.after[1]
