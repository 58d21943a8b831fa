"""The fold from events to messages: whole transactions, in slices, in the log's order.

A transaction is collected as the bytes of its rows events and enters the slice only with the event that commits it,
so that what a slice holds has happened. It may be cut between any two transactions, whenever there's nothing more to
read or it has reached its bound.

**Each transaction passes exactly once**, with images or without: one whose tables aren't captured passes as well,
since the position has to be whole. A statement that isn't rows (DDL and its like) ends the slice before it and
passes by itself. CREATE TABLE … SELECT is both in one transaction (WL#13355): it ends the slice before it as
`CreationRead`, and begins the next slice with its rows, where it passes.

**XA transactions** have two GTIDs: one for what was prepared, with the rows, and one for the XA COMMIT, which may
come much later or not at all. Before it nobody sees the rows, and after an XA ROLLBACK nobody ever will. So nothing
of the first passes before the second comes; then both pass together, and the rows belong to the second, since a
snapshot whose low watermark holds only the first didn't see them. The position has a gap meanwhile, so that after a
restart the server sends the prepared transaction again.

Nothing is dropped silently: what can't be followed is an error that names the place in the log and the GTID.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, assert_never

from pipeline.binlog import events, tablemap_event
from pipeline.binlog.codes import Code
from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.events import (
    FormatDescription,
    Header,
    Heartbeat,
    Rotate,
    RowsChanged,
    RowsPartlyChanged,
    Skipped,
    StatementLoaded,
    Stop,
    TableMapped,
    XaPrepare,
    Xid,
)
from pipeline.binlog.gtid_event import TransactionBegins
from pipeline.binlog.query_event import Query
from pipeline.binlog.slice import RowsEvent, Slice
from pipeline.errors import Definite
from pipeline.gtid import Gtid
from pipeline.messages import CreationRead, LogAdvanced, LogRead, StatementRead
from pipeline.schema import TableId
from pipeline.tablemap import TableMap
from pipeline.watermark import Coordinates

Message = LogRead | StatementRead | CreationRead | LogAdvanced

# How many different table maps are remembered. A server with more tables than this has them parsed more often.
_MAPS_REMEMBERED: Final = 10_000

_OFFSET_BITS: Final = 32  # that a header has room for


@dataclass(frozen=True, slots=True)
class Bound:
    """When a slice is full: as many transactions, or as many bytes of row images (it may pass this by one)."""

    transactions: int = 20_000
    bytes: int = 16 * 2**20


@dataclass(slots=True)
class _Transaction:
    """The transaction that is being read: its rows events of captured tables, and what it began with.

    `xid` is "" where it isn't an XA transaction; `creation` is the statement of a CREATE TABLE … SELECT.
    """

    gtid: Gtid
    commit_time: int
    framed: bool = False
    xid: str = ""
    creation: CreationRead | None = None
    rows: list[RowsEvent] = field(default_factory=list)


class LogStream:
    """Takes one event after the other (`feed`) and gives messages (`take`).

    `captured` says which tables' rows are wanted, `captures_in` whether there can be such a table in a database.
    The first event is one that the server makes up for the connection (a ROTATE), which has a checksum if the
    replica says that it can read one; ours always does. What follows is as the format description says.

    After an error the stream is of no use any more.
    """

    def __init__(
        self,
        captured: Callable[[TableId], bool],
        captures_in: Callable[[str], bool],
        bound: Bound | None = None,
    ) -> None:
        self._captured = captured
        self._captures_in = captures_in
        self._bound = bound or Bound()
        self.full = False  # whether the slice has reached its bound, so that it's time to `take`
        self._checksum = True
        self._file: str | None = None
        self._offset = 0  # behind the last event in that file
        self._told: Coordinates | None = None  # the end of the last message
        self._transaction: _Transaction | None = None
        self._prepared: dict[str, _Transaction] = {}
        self._maps: dict[bytes, TableMap | None] = {}
        self._by_id: dict[int, TableMap | None] = {}
        self._slice = Slice()
        self._ready: list[Message] = []

    def take(self) -> tuple[Message, ...]:
        """All that's complete: statements, a slice of what passed since, and how far the log is without it."""
        self._cut()
        if self._transaction is None and self._file is not None and self._at() != self._told:
            self._tell(LogAdvanced(self._at()))
        ready, self._ready = self._ready, []
        return tuple(ready)

    def feed(self, event: bytes) -> None:
        """Take the next event, from its header to its checksum.

        Raises UndecodableError, with the event's place in the log, where it can't be read or followed.
        """
        try:
            head = events.header(event)
            self._take_in(head, events.parse(head, event, checksum=self._checksum))
        except Definite as error:
            raise UndecodableError(f"{error} ({self._place()})") from error

    def _take_in(self, head: Header, event: events.Event) -> None:
        self._advance(head)
        match event:
            case TableMapped():
                self._map(event)
            case RowsChanged() | RowsPartlyChanged():
                self._rows(event)
            case TransactionBegins():
                self._begin(event)
            case Query():
                self._query(event)
            case Xid():
                self._commit(self._in_transaction("an XID"))
            case XaPrepare():
                self._prepare(event)
            case StatementLoaded():
                self._refuse_statement("a LOAD DATA")
            case Heartbeat(file, offset):
                self._heartbeat(file, offset)
            case Rotate(file, offset):
                self._between_transactions("ROTATE")
                self._file, self._offset = file, offset
            case FormatDescription(checksum):
                self._between_transactions("FORMAT_DESCRIPTION")
                self._checksum = checksum
            case Stop():
                self._between_transactions("STOP")
            case Skipped():
                pass
            case _:
                assert_never(event)

    # Where the log stands

    def _advance(self, head: Header) -> None:
        """Go to the event's end. Its header has the offset's lowest 32 bits only: a file with one very large
        transaction is longer than that, but goes on from the place before."""
        if head.end and head.code != Code.HEARTBEAT_V2:
            self._offset += (head.end - self._offset) % 2**_OFFSET_BITS

    def _heartbeat(self, file: str, offset: int | None) -> None:
        if file != self._file:
            raise UndecodableError(f"a heartbeat came from the file {file}")
        if offset is None:
            return
        if offset < self._offset:
            raise UndecodableError(f"a heartbeat came from {file}:{offset}, which lies behind")
        self._offset = offset

    def _between_transactions(self, what: str) -> None:
        if self._transaction is not None:
            raise UndecodableError(f"{what} came before the transaction's end, so that the log isn't whole")

    def _place(self) -> str:
        at = f"at {self._at()}" if self._file is not None else "before the log's first event"
        return f"{at}, in the transaction {self._transaction.gtid}" if self._transaction else at

    # Rows

    def _map(self, event: TableMapped) -> None:
        described = event.body[8:]  # without the table id, which changes with each opening of the table
        if described not in self._maps:
            table = tablemap_event.table_id(event.body)
            wanted = self._captured(table)
            self._maps[described] = tablemap_event.table_map(event.body) if wanted else None
        self._by_id[event.table_id] = self._maps[described]

    def _rows(self, event: RowsChanged | RowsPartlyChanged) -> None:
        transaction = self._in_transaction("a rows event")
        if event.table_id not in self._by_id:
            raise UndecodableError(
                f"rows came for the table id {event.table_id}, which no table map explains"
            )
        table_map = self._by_id[event.table_id]
        if table_map is None:
            return
        if isinstance(event, RowsPartlyChanged):
            raise UndecodableError(
                f"{table_map.table}: its JSON values are logged in part only; "
                "set binlog_row_value_options='' on the source, for all of its sessions"
            )
        transaction.rows.append(RowsEvent(table_map, event.code, event.body))

    # Transactions

    def _begin(self, event: TransactionBegins) -> None:
        self._between_transactions("the next transaction")
        self._transaction = _Transaction(event.gtid, event.commit_time)

    def _in_transaction(self, what: str) -> _Transaction:
        if self._transaction is None:
            raise UndecodableError(f"{what} came without a GTID before it; set gtid_mode=ON on the source")
        return self._transaction

    def _query(self, event: Query) -> None:
        transaction = self._in_transaction("a statement")
        if transaction.framed:
            self._framed_query(transaction, event)
            return
        match event.statement.split(" ", 2):
            case ["BEGIN"]:
                transaction.framed = True
            case ["XA", "START", xid]:
                transaction.framed = True
                transaction.xid = xid
            case ["XA", "COMMIT", xid]:
                self._commit_prepared(transaction, xid)
            case ["XA", "ROLLBACK", xid]:
                self._roll_back_prepared(transaction, xid)
            case _:
                self._statement(transaction, event)

    def _framed_query(self, transaction: _Transaction, event: Query) -> None:
        match event.statement.split(" ", 2):
            case ["COMMIT"]:
                self._commit(transaction)
            case ["ROLLBACK"]:
                self._refuse_partial(transaction)
                self._commit(transaction)
            case ["ROLLBACK", "TO", _]:
                self._refuse_partial(transaction)
            case ["SAVEPOINT", *_] | ["XA", "END", _]:
                pass
            case ["CREATE", *_] if event.statement.endswith("START TRANSACTION"):
                transaction.creation = CreationRead(event.database, event.statement)
            case _ if event.updated is None or any(self._captures_in(name) for name in event.updated):
                self._refuse_statement("a change")
            case _:
                pass

    def _refuse_statement(self, what: str) -> None:
        raise UndecodableError(
            f"{what} was logged as a statement, whose rows can't be known; "
            "set binlog_format=ROW on the source, for all of its sessions"
        )

    def _refuse_partial(self, transaction: _Transaction) -> None:
        """What a ROLLBACK in the log takes back are its transactional tables' rows, and which these are isn't said.

        It's logged only if the transaction also changed others, which GTIDs don't allow.
        """
        if transaction.rows:
            raise UndecodableError(
                "a transaction that changed captured tables was partly rolled back; "
                "set enforce_gtid_consistency=ON on the source"
            )

    def _commit(self, transaction: _Transaction) -> None:
        if transaction.creation is not None:
            self._cut()
            self._ready.append(transaction.creation)
        self._pass(transaction, transaction.rows)

    def _prepare(self, event: XaPrepare) -> None:
        transaction = self._in_transaction("an XA PREPARE")
        if event.xid != transaction.xid:
            raise UndecodableError(f"XA PREPARE of {event.xid} came in the transaction {transaction.xid!r}")
        if event.one_phase:
            self._commit(transaction)
            return
        self._prepared[event.xid] = transaction
        self._leave()

    def _commit_prepared(self, transaction: _Transaction, xid: str) -> None:
        prepared = self._prepared.pop(xid, None)
        if prepared is None:
            raise UndecodableError(
                f"XA COMMIT {xid}: it was prepared before the log's part that is read, so that its rows aren't "
                "known; start from a position behind it and snapshot the tables again"
            )
        self._pass_prepared(prepared)
        self._pass(transaction, prepared.rows)

    def _roll_back_prepared(self, transaction: _Transaction, xid: str) -> None:
        prepared = self._prepared.pop(xid, None)
        if prepared is not None:
            self._pass_prepared(prepared)
        self._pass(transaction, [])

    def _pass_prepared(self, prepared: _Transaction) -> None:
        self._slice.add(prepared.gtid, prepared.commit_time, [])

    def _pass(self, transaction: _Transaction, rows: list[RowsEvent]) -> None:
        self._slice.add(transaction.gtid, transaction.commit_time, rows)
        self._slice.end = self._at()
        self.full = len(self._slice) >= self._bound.transactions or self._slice.bytes >= self._bound.bytes
        self._leave()

    def _statement(self, transaction: _Transaction, event: Query) -> None:
        self._cut()
        end = self._at()
        self._leave()
        self._tell(
            StatementRead(transaction.gtid, transaction.commit_time, event.database, event.statement, end)
        )

    def _leave(self) -> None:
        self._transaction = None
        self._by_id.clear()

    # Messages

    def _at(self) -> Coordinates:
        if self._file is None:
            raise UndecodableError("a transaction came before the log had said in which file it is")
        return Coordinates(self._file, self._offset)

    def _cut(self) -> None:
        if len(self._maps) > _MAPS_REMEMBERED:
            self._maps.clear()
        if len(self._slice):
            done, self._slice, self.full = self._slice, Slice(), False
            try:
                self._tell(done.read())
            except Definite as error:
                raise UndecodableError(f"{error} (in the transactions up to {done.end})") from error

    def _tell(self, message: LogRead | StatementRead | LogAdvanced) -> None:
        self._ready.append(message)
        self._told = message.end
