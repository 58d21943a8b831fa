"""Between the BinlogReader and those who use the log: slices, statements, and the orders to pause."""

from dataclasses import dataclass, field

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.row_images import TableImages, TableUnreadable
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.prepared_xa import XaPrepared


@dataclass(frozen=True, slots=True)
class RowsUnread:
    """Rows of `tables`, and of all captured tables of `databases`, may have changed. The log doesn't say which.

    `databases` is None if it may be any captured table. `lost`: the log has lost changes, so a changelog certainly
    lacks them.
    """

    reason: str
    tables: frozenset[TableId] = frozenset()
    databases: frozenset[str] | None = frozenset()
    lost: bool = False


@dataclass(frozen=True, slots=True)
class TransactionsRead:
    """A slice of the log: its transactions, for each table map its images, and where the last transaction ends.

    `covered`, also below: without GTIDs, the places up to there where no transaction to come begins (`file_positions`).
    `prepared`, also below: the XA transactions that wait for their second phase there.
    """

    transactions: Transactions
    tables: tuple[TableImages | TableUnreadable, ...]
    end: Coordinates
    covered: GtidSet = NO_GTIDS
    unread: tuple[RowsUnread, ...] = ()
    prepared: tuple[XaPrepared, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionPartRead:
    """Rows of a transaction that hasn't ended. Its index is 0, and the ordinals continue from part to part."""

    gtid: Gtid
    commit_time: int
    tables: tuple[TableImages | TableUnreadable, ...]
    original_time: int = 0


@dataclass(frozen=True, slots=True)
class DdlRead:
    """A transaction that is a statement and has no rows. Its text may hold a password, and is never sent on.

    `strict`: whether the session's sql_mode is known to have refused values that don't fit. `begins`: where its event
    begins, and `server` the id of the server that wrote it. `failed`: whether the statement ended with an error, so
    that it may have done all, a part, or nothing of what it says. `thread_specific`: whether a name in it may mean a
    temporary table of its session. `zone`: its session's time_zone if it read or wrote local times, else "". `escapes`:
    whether a backslash escapes in its strings, None if that isn't known.
    """

    gtid: Gtid
    commit_time: int
    database: str
    statement: str = field(repr=False)
    end: Coordinates
    covered: GtidSet = NO_GTIDS
    strict: bool = False
    original_time: int = 0
    begins: Coordinates | None = None
    server: int = 0
    failed: bool = False
    thread_specific: bool = False
    zone: str = ""
    escapes: bool | None = None


@dataclass(frozen=True, slots=True)
class CreateTableSelectRead:
    """The statement of a transaction that creates a table and fills it (WL#13355); its rows come next.

    `begins`, `server` and `escapes`: as of `DdlRead`.
    """

    database: str
    statement: str = field(repr=False)
    begins: Coordinates | None = None
    server: int = 0
    escapes: bool | None = None


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """The stream is at `end` with no transaction open: a heartbeat, a rotation, or nothing but filtered events.

    `unread`: what the server has lost there, outside of any transaction.
    """

    end: Coordinates
    covered: GtidSet = NO_GTIDS
    prepared: tuple[XaPrepared, ...] = ()
    unread: tuple[RowsUnread, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingPaused:
    """The reader sends no slice until it is ordered to resume."""


@dataclass(frozen=True, slots=True)
class PauseReading:
    """Read no further slice once the stream has reached `at`. Send ReadingPaused after the slices that were read."""

    at: Coordinates | None = None


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """Continue to read."""
