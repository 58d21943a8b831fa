"""The fold from events to messages: complete transactions, in slices, in the log's order.

A transaction's rows events are laid after those that have passed, and pass with the event that commits it. A slice may
be cut between any two transactions, when there's nothing more to read or it has reached its bound. The open transaction
goes to the next one.

**Each transaction passes exactly once**, with images or without. One whose tables aren't captured passes too, because
the position has to be complete. A statement without rows (DDL and the like) ends the slice before it and passes by
itself. CREATE TABLE … SELECT is both in one transaction (WL#13355). It ends the slice before it as
`CreateTableSelectRead`, and begins the next slice with its rows, where it passes. Without GTIDs that was so before
(MySQL 5.6).

**A transaction that is larger than a slice** comes in parts, which say that it hasn't ended. What has passed before it
is cut off first. So only further parts follow a part, until the slice with which the transaction passes, as the first
in it.
A transaction in which the server says that it has emptied a table has no parts: the statement that says so may be all
that passes of it. Its rows need not wait, since their tables are read again.

**XA transactions** have two GTIDs: one for the prepared part, with the rows, and one for the XA COMMIT. That may come
much later or not at all. Before the second one no reader of the source sees the rows, and after an XA ROLLBACK none
ever will. So nothing of the first passes before the second comes. Then both pass together, and the rows belong to the
second, because a snapshot whose low watermark has only the first didn't see them. Until then the position has a gap, so
that after a restart the server sends the prepared transaction again. The rows wait here, so there's a limit for them.
If they are more than a slice has, they come in parts of the second one. It passes with the last of them, and the first
one after it in the same slice.
Where they don't wait, the first part passes, and the second one has its tables read again. The same holds if the log
has statements in place of rows.

Nothing is dropped silently: an event that can't be followed is an error. The fold works on the same state as the
compiled parser of the usual events (`stream_state`), and alone knows the others.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, assert_never

import numpy as np

from pipeline.binlog.events import table_map_event
from pipeline.binlog.events.event import (
    CHECKSUM_BYTES,
    Event,
    FormatDescription,
    Heartbeat,
    Incident,
    PreviousGtids,
    Rotate,
    RowsChanged,
    RowsStatement,
    Skipped,
    StatementLoaded,
    Stop,
    TableMapped,
    XaPrepare,
    Xid,
    as_prepared,
)
from pipeline.binlog.events.gtid_event import TransactionBegins
from pipeline.binlog.events.payload_event import Payload
from pipeline.binlog.events.query_event import Query
from pipeline.binlog.log_position import LogPosition
from pipeline.binlog.logged_gtids import LoggedGtids
from pipeline.binlog.registries import TableMapRegistry, TsidRegistry
from pipeline.binlog.slice import (
    HeldRows,
    Slice,
    SliceBound,
    SliceBuilder,
    Transaction,
    TransactionPart,
    WholeTransactions,
)
from pipeline.binlog.stream_state import BEGUN, BETWEEN, FRAMED, MAP, SPECIAL, StreamState, widened
from pipeline.binlog.transaction_ids import TransactionNames
from pipeline.binlog.xa_transactions import Prepared, PreparedTransactions
from pipeline.errors import Definite, UndecodableError
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, DdlRead, LogAdvanced, RowsUnread
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.ddl.statement_kinds import emptied_memory_table, has_query
from pipeline.schema.table_map import TableMap
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.prepared_xa import XaPrepared, left_out

# The results of the fold; a slice becomes a LogRead or a TransactionPartRead (`Slice.read`).
Given = Slice | DdlRead | CreateTableSelectRead | LogAdvanced

# How many different table maps are remembered. A server with more tables than this has them parsed more often.
_MAPS_REMEMBERED: Final = 10_000


# How a CREATE TABLE … SELECT begins. The server writes it itself, but a session may write one with START TRANSACTION.
# Each comment ends at its first end alone: a text of many comments is read once, not in each way to join them.
_CREATION: Final = re.compile(r"(?>\s|/\*(?!!).*?\*/)*+CREATE\s+TABLE\s", re.IGNORECASE | re.DOTALL)

# Why rows of tables must be read again.
_STATEMENT: Final = (
    "{what} was logged as a statement, which doesn't say which rows it changes; set binlog_format=ROW on the source, "
    "for all of its sessions"
)
_ROLLED_BACK: Final = (
    "a transaction that changed it was partly rolled back, and the log doesn't say what of it stayed; set "
    "enforce_gtid_consistency=ON on the source"
)
_LET_GO: Final = (
    "the XA transaction {xid} changed its rows, and these aren't at hand; there were too many of them to wait for its "
    "second phase, or the log that has them was purged before that came"
)
_INCIDENT: Final = (
    "the server says that its log lacks changes ({why}); raise max_binlog_stmt_cache_size on the source if a statement "
    "was too large for it, and read the server's error log"
)
_MISSING: Final = (
    "the transactions {gtids} never came, though the server executed them before its log's file {file}: somebody has "
    "removed a file of the log, or added to gtid_purged; let PURGE BINARY LOGS alone remove files"
)
_EMPTIED: Final = "a restart of the server has emptied it"
_UNKNOWN: Final = (
    "the XA transaction {xid} may have changed its rows: it was committed here, and prepared before the log's part "
    "that is read"
)


class EmptiedTable(NamedTuple):
    """A statement by which the server says that its restart emptied a MEMORY table."""

    table: TableId
    query: Query


class TransactionAssembler:
    """Takes one event after the other (`advance`, `take_in`); what they make is `given`.

    `captured` says which tables' rows are wanted, `captures_in` whether there can be such a table in a database.
    `keeps_statements`: whether the rows get the texts of their statements, where the log has them.
    """

    def __init__(
        self,
        captured: Callable[[TableId], bool],
        captures_in: Callable[[str], bool],
        bound: SliceBound,
        names: TransactionNames,
        prepared: Iterable[XaPrepared],
        keeps_statements: bool,
    ) -> None:
        self._captured = captured
        self._captures_in = captures_in
        self.state = StreamState(bound.transactions, bound.bytes, bound.cells)
        self.state.keeps_statements = int(keeps_statements)
        self.sources = TsidRegistry()
        self.maps = TableMapRegistry()
        self.explained = np.empty((2, 16), np.int64)  # table ids of the open transaction, and their maps
        self._names = names
        self._reached = LogPosition(self.state)
        self._logged = LoggedGtids(names.position)
        self.slice = SliceBuilder(self.state, self.sources, self.maps, self._reached.files)
        self.advance = self._reached.advance
        self._given_until: Coordinates | None = None  # the end of the last message
        self._passed_before = False  # whether the open transaction has, or, between two, the last one
        # Of the open transaction: its XA identifier, the statement of a CREATE TABLE … SELECT, and the ones by which a
        # server says that its restart has emptied MEMORY tables (`bare`: where the first of them begins, if no BEGIN is
        # there). `changed`: the tables whose rows were too many to wait for the end of such a one.
        self._xid = ""
        self._creation: CreateTableSelectRead | None = None
        self._emptied: tuple[EmptiedTable, ...] = ()
        self._bare: Coordinates | None = None
        self._changed: frozenset[TableId] = frozenset()
        self._prepared = PreparedTransactions(bound.held, prepared)
        self._let_go = False  # whether there was no room for its rows, of an XA transaction
        # What changed rows and isn't in the slice's own: of the open transaction, and of those that have passed in it.
        # Each once, however many statements say the same: no bound of a slice counts them.
        self._open_unread: dict[RowsUnread, None] = {}
        self._unread: dict[RowsUnread, None] = {}
        self._ready: list[Given] = []

    @property
    def placed(self) -> bool:
        """Returns whether the log has named its file."""
        return self._reached.file is not None

    @property
    def prepared(self) -> tuple[XaPrepared, ...]:
        """The XA transactions that wait for their second phase."""
        return self._prepared.noted

    def make_room(self, event_bytes: int) -> None:
        """Have room for what an event of so many bytes can bring."""
        self.slice.make_room(event_bytes)
        self.explained = widened(self.explained, self.state.tables + 1)

    def take_in(self, event: Event) -> None:
        """Takes an event, with `state` at its end. Raises Definite if it can't be followed."""
        self._refuse_within(event)
        if self._bare and not self._in_bare_group(event):
            self._add_emptied(self._reached.at(self._reached.begins))
        self._take_in(event)
        if self.slice.full:
            self.relieve()

    def _refuse_within(self, event: Event) -> None:
        """A payload has the events between a GTID and the next alone, none about the log itself."""
        if self.state.within and isinstance(
            event, TransactionBegins | Rotate | PreviousGtids | Heartbeat | FormatDescription | Stop
        ):
            raise UndecodableError("an event that is no part of a transaction came in a compressed one")

    def _in_bare_group(self, event: Event) -> bool:
        """Whether the event belongs to the group in which MEMORY tables were emptied.

        MySQL 5.6 logs all that one statement found empty, and a CREATE or LOAD DATA of that statement, after one GTID.
        """
        if isinstance(event, Query):
            return not self._names.by_coordinates
        return isinstance(event, TableMapped | RowsChanged | RowsStatement | StatementLoaded | Skipped)

    def _take_in(self, event: Event) -> None:
        match event:
            case TableMapped():
                self._take_map(event)
            case RowsChanged():
                self._take_rows(event)
            case RowsStatement(text):
                self.slice.set_statement(text)
            case TransactionBegins():
                self._begin_transaction(event)
            case Query():
                self._take_query(event)
            case Xid():
                self._require_transaction("an XID")
                self._refute_emptied()
                self._take_commit()
            case XaPrepare():
                self._take_prepare(event)
            case StatementLoaded(updated):
                self._require_transaction("a LOAD DATA")
                if updated is None or any(map(self._captures_in, updated)):
                    self._changed_by_statement("a LOAD DATA", updated)
            case Heartbeat(file, offset):
                self._reached.heartbeat(file, offset)
            case Rotate(file, offset):
                self._take_rotate(file, offset)
            case PreviousGtids(gtids):
                self._take_previous(gtids)
            case FormatDescription(checksum):
                self.require_between("FORMAT_DESCRIPTION")
                self.state.checksum_bytes = CHECKSUM_BYTES if checksum else 0
            case Stop():
                self.require_between("STOP")
            case Incident(why):
                self._take_incident(why)
            case Skipped():
                pass
            case Payload():
                raise AssertionError("a payload's events are taken, not itself")
            case _:
                assert_never(event)

    # The position of the log

    def _take_rotate(self, file: str, offset: int) -> None:
        """Moves to the next file. A slice ends in the file in which it began, so an offset alone is its end."""
        self.require_between("ROTATE")
        self.cut()
        self._reached.rotate(file, offset)

    def _take_previous(self, gtids: GtidSet) -> None:
        """The transactions that never came pass here, and any table may have rows of them."""
        self.require_between("PREVIOUS_GTIDS")
        self.cut()
        if self._names.by_coordinates:
            return
        missing = self._logged.begin_file(gtids, left_out(self._prepared.noted))
        if missing:
            at = self._reached.at()
            why = _MISSING.format(gtids=missing.on_one_line, file=at.file)
            lost = RowsUnread(why, frozenset(), None, lost=True)
            self._give(LogAdvanced(at, missing, self._prepared.noted, (lost,)), at)

    def require_between(self, what: str) -> None:
        """Raises UndecodableError if a transaction is open when this comes."""
        if self.state.phase != BETWEEN:
            raise UndecodableError(f"{what} came before the transaction's end, so that the log isn't whole")

    def position_text(self) -> str:
        """Where in the log it is, for an error's text."""
        at = f"at {self._reached.at()}" if self.placed else "before the log's first event"
        return f"{at}, in the transaction {self._gtid()}" if self.state.phase != BETWEEN else at

    def _take_incident(self, why: str) -> None:
        """The server has lost changes. It says so in a transaction of its own, or, before MySQL 5.7, in none."""
        lost = RowsUnread(_INCIDENT.format(why=why), frozenset(), None, lost=True)
        match self.state.phase:
            case phase if phase == BETWEEN:
                self.cut()
                at = self._reached.at()
                self._give(LogAdvanced(at, self._covered(at), self._prepared.noted, (lost,)), at)
            case phase if phase == BEGUN:
                self._open_unread[lost] = None
                self._add_passed(self._transaction())
                self._close()
            case _:
                self._add_unread(lost)

    # Rows

    def _take_map(self, event: TableMapped) -> None:
        described = event.body[8:]  # without the table id, which changes with each opening of the table
        number = self.maps.number(described)
        if number is None:
            number = self.maps.add(described, self._parse_map(event.body))
        state = self.state
        self.explained = widened(self.explained, state.tables + 1)
        [known] = np.nonzero(self.explained[0, : state.tables] == event.table_id)
        column = int(known[0]) if len(known) else state.tables
        self.explained[:, column] = event.table_id, number
        state.tables = max(state.tables, column + 1)

    def _parse_map(self, body: bytes) -> TableMap | TableUnreadable | None:
        table = table_map_event.table_id(body)
        if not self._captured(table):
            return None
        try:
            return table_map_event.table_map(body)
        except Definite as error:
            return TableUnreadable(table, str(error))

    def _take_rows(self, event: RowsChanged) -> None:
        self._require_transaction("a rows event")
        if self.state.phase == BEGUN:
            raise UndecodableError("a rows event came before its transaction's BEGIN")
        table_ids, maps = self.explained[:, : self.state.tables]
        numbers = maps[table_ids == event.table_id]
        if not len(numbers):
            raise UndecodableError(
                f"rows came for the table id {event.table_id}, which no table map explains"
            )
        [number] = numbers.tolist()
        if self.maps.wants(number):
            self.slice.add_rows(number, event.code, event.body)

    # Transactions

    def _begin_transaction(self, event: TransactionBegins) -> None:
        self.require_between("the next transaction")
        name = self._names.name(event.gtid, self._reached.at(self._reached.begins))
        passed_before = self._names.has_passed(name)
        if passed_before or self._passed_before:  # what is left out is never cut together with what isn't
            self.cut()
        state, self._passed_before = self.state, passed_before
        state.phase = BEGUN
        state.thread = state.statement = -1
        state.source = self.sources.number(name.source)
        state.number = name.number
        state.commit_time, state.original_time = event.commit_time, event.original_time

    def _gtid(self) -> Gtid:
        return Gtid(self.sources.all[self.state.source], self.state.number)

    def _transaction(self) -> Transaction:
        state = self.state
        return Transaction(state.source, state.number, state.commit_time, state.original_time)

    def _require_transaction(self, what: str) -> None:
        if self.state.phase == BETWEEN:
            raise UndecodableError(f"{what} came without a GTID before it; set gtid_mode=ON on the source")

    def _take_query(self, event: Query) -> None:
        emptied = emptied_memory_table(event.statement)
        if self._bare:
            self._bare_query(event, emptied)
            return
        if self.state.phase == BETWEEN:  # before MySQL 5.7 nothing comes before it where there are no GTIDs
            self._begin_transaction(TransactionBegins(None, self._reached.time))
        if self.state.phase != BEGUN:
            self._framed_query(event, emptied)
            return
        match event.statement.split(" ", 2):
            case ["BEGIN"]:
                self.state.phase, self.state.thread = FRAMED, event.thread
            case ["XA", "START", xid]:
                self.state.phase, self._xid = SPECIAL, xid
            case ["XA", "COMMIT", xid]:
                self._commit_prepared(xid)
            case ["XA", "ROLLBACK", xid]:
                self._roll_back_prepared(xid)
            case _ if emptied is not None:
                self.state.phase, self._emptied = SPECIAL, (EmptiedTable(emptied, event),)
                self._bare = self._reached.at(self._reached.begins)
            case _:
                self._give_statement(event, self._reached.at())

    def _bare_query(self, event: Query, emptied: TableId | None) -> None:
        """Takes one more statement of the group in which MEMORY tables were emptied."""
        if emptied is not None:
            self._emptied = (*self._emptied, EmptiedTable(emptied, event))
            return
        self._give_emptied(self._emptied, self._take_changed())
        self._give_statement(event, self._reached.at())

    def _framed_query(self, event: Query, emptied: TableId | None) -> None:
        match event.statement.split(" ", 2):
            case ["COMMIT"]:
                self._take_commit()
            case ["ROLLBACK"]:
                self._rolled_back()
                self._take_commit()
            case ["ROLLBACK", "TO", _]:
                self._rolled_back()
            case ["SAVEPOINT", *_] | ["XA", "END", _] | ["DROP", "TEMPORARY", _]:
                pass
            case _ if _CREATION.match(event.statement):
                if has_query(event.statement, escapes=event.escapes):
                    self._changed_by_statement("a CREATE TABLE … SELECT", event.updated)
                self.state.phase = SPECIAL
                begins = self._reached.at(self.state.begins)
                self._creation = CreateTableSelectRead(
                    event.database, event.statement, begins, self.state.server, event.escapes
                )
            case _ if event.updated is None or any(self._captures_in(name) for name in event.updated):
                # A session's DELETE says in which databases it changed rows. The server's own says it nowhere.
                if not self._emptied and not self._xid and emptied is not None and event.updated is None:
                    self.state.phase, self._emptied = SPECIAL, (EmptiedTable(emptied, event),)
                else:
                    self._changed_by_statement("a change", event.updated)
            case _:
                pass

    def _changed_by_statement(self, what: str, databases: Iterable[str] | None) -> None:
        """A change of these databases came as a statement, and a statement doesn't say which rows it changes."""
        self._require_transaction(what)
        of = None if databases is None else frozenset(databases)
        self._add_unread(RowsUnread(_STATEMENT.format(what=what), frozenset(), of))

    def _refute_emptied(self) -> None:
        """A DELETE that an engine with transactions commits isn't the server's own: it has changed rows by itself."""
        for each in self._emptied:
            self._changed_by_statement("a change", each.query.updated)
        if self._changed:
            self._add_unread(RowsUnread(_STATEMENT.format(what="a change"), self._changed))
        self._emptied, self._changed = (), frozenset()

    def _add_unread(self, unread: RowsUnread) -> None:
        """The open transaction changes more than its rows. So the compiled parser doesn't handle its end."""
        self._open_unread[unread] = None
        self.state.phase = SPECIAL

    def _rolled_back(self) -> None:
        """What a ROLLBACK in the log takes back are its transactional tables' rows, and which these are isn't said.

        It's logged only if the transaction also changed others, which GTIDs don't allow.
        """
        if self.slice.open_rows:
            self.slice.hold()
            self._add_unread(RowsUnread(_ROLLED_BACK, self._open_tables()))

    def _take_commit(self) -> None:
        if self._emptied:
            self._add_emptied(self._reached.at())
            return
        self._give_creation()
        if self._let_go:
            self.slice.hold()
            self._add_unread(RowsUnread(_LET_GO.format(xid=self._xid), self._open_tables()))
        self._add_passed(self._transaction())
        self._close()

    def _take_prepare(self, event: XaPrepare) -> None:
        self._require_transaction("an XA PREPARE")
        if event.xid != as_prepared(self._xid):
            raise UndecodableError(f"XA PREPARE of {event.xid} came in the transaction {self._xid!r}")
        if event.one_phase:
            self._take_commit()
            return
        if self._passed_before:
            self.slice.hold()
        else:
            self._prepared_now(self._xid)
        self._close()

    def _prepared_now(self, xid: str) -> None:
        """Lets the rows wait for the second phase. Without any, or with too many, the first one passes.

        It also does if the log has some of the changes as statements only. An earlier one of this name passes without
        its rows: it ended, or a crash took it, and the log doesn't have that. Else it would leave a gap for good.
        """
        held, at = self.slice.hold(), self._reached.at()
        unread, self._open_unread = self._open_unread, {}
        if isinstance(former := self._prepared.take(xid), Prepared):
            self._add_passed(former.transaction)
        tables = self._open_tables().union(*(each.tables for each in unread))
        noted = XaPrepared(xid, self.state.commit_time, tuple(sorted(tables)), databases=_databases(unread))
        numbers: list[int] = np.unique(held.events[MAP]).tolist()
        waits = bool(numbers) and not unread and not self._let_go
        if waits and self._prepared.has_room(len(held.body)):
            self._prepared.note(replace(noted, left_out=self._names.left_out(self._gtid(), at)))
            maps = tuple(self.maps.described(number) for number in numbers)
            self._prepared.hold(xid, Prepared(self._transaction(), at, held, maps))
        else:
            self._prepared.note(noted)
            self._add_passed(self._transaction())

    def _open_tables(self) -> frozenset[TableId]:
        """The tables that the open transaction has rows of, captured ones and others."""
        return frozenset(map(self.maps.table, self.explained[1, : self.state.tables].tolist()))

    def _commit_prepared(self, xid: str) -> None:
        if not self._passed_before:
            bounds, waiting = (self.state.most_bytes, self.state.most_cells), self._prepared.rows(xid)
            in_parts = waiting is not None and waiting.fills(*bounds)
            if in_parts:
                self.cut()  # while it's noted that this one waits
            match self._prepared.take(xid):
                case Prepared(transaction, rows=rows, maps=maps):
                    numbers = {each.number: self.maps.number_of(each) for each in maps}
                    rows.events[MAP] = [numbers[number] for number in rows.events[MAP].tolist()]
                    if in_parts:
                        self._add_in_parts(rows.pieces(*bounds))
                        self._take_commit()
                        self._add_passed(transaction)
                        return
                    self._add_passed(transaction)
                    self.slice.add_held(rows)
                case XaPrepared(tables=tables, databases=databases):
                    why = _LET_GO.format(xid=xid)
                    if databases != frozenset():
                        why = _STATEMENT.format(what=f"a change by the XA transaction {xid}")
                    self._add_unread(RowsUnread(why, frozenset(tables), databases))
                case None:
                    self._add_unread(RowsUnread(_UNKNOWN.format(xid=xid), frozenset(), None))
        self._take_commit()

    def _add_in_parts(self, pieces: Iterable[HeldRows]) -> None:
        """Gives all but the last of these pieces as parts of the open transaction, which gets the last one."""
        for piece in pieces:
            if self.slice.open_bytes:
                self._give_part()
            self.slice.add_held(piece)

    def _roll_back_prepared(self, xid: str) -> None:
        if not self._passed_before:
            prepared = self._prepared.take(xid)
            if isinstance(prepared, Prepared):
                self._add_passed(prepared.transaction)
        self._take_commit()

    def _add_passed(self, transaction: Transaction) -> None:
        self.slice.add_transaction(transaction)
        self._unread |= self._open_unread
        self._open_unread = {}
        self.state.end = self._reached.at().offset

    def _add_emptied(self, end: Coordinates) -> None:
        """Ends the group in which MEMORY tables were emptied, and which may hold rows that came into them since.

        Such a table is read again as a whole, and these with it. Before MySQL 5.7 such a group has no end of its own.
        """
        *others, last = self._emptied
        changed = self._take_changed()
        in_parts = self.slice.open_rows  # before the first of these statements
        if not in_parts and not self._open_unread and changed <= {each.table for each in self._emptied}:
            self._give_emptied(others)
            self._give_statement(last.query, end)
            return
        databases = {name for each in self._emptied for name in each.query.updated or (each.query.database,)}
        tables = self._open_tables() | {each.table for each in self._emptied}
        self._add_unread(RowsUnread(_STATEMENT.format(what="a change"), tables, frozenset(databases)))
        self._add_passed(self._transaction())
        self.state.end = end.offset
        self._close()

    def _take_changed(self) -> frozenset[TableId]:
        """Takes the rows of a transaction with `_emptied` out of the slice. Returns the tables of all that it had."""
        numbers = np.unique(self.slice.hold().events[MAP])
        self._changed |= {self.maps.captured(int(number)).table for number in numbers}
        return self._changed

    def _give_emptied(self, statements: Sequence[EmptiedTable], changed: Collection[TableId] = ()) -> None:
        """Gives which tables the group's earlier statements emptied, before its last one lets its GTID pass.

        If that doesn't come any more, the server sends the group again, and they are read again twice.
        """
        tables = frozenset((*(each.table for each in statements), *changed))
        if self._bare is None or not tables or self._passed_before:
            return
        self.cut()
        lost = RowsUnread(_EMPTIED, tables, lost=True)
        self._give(
            LogAdvanced(self._bare, self._covered(self._bare), self._prepared.noted, (lost,)), self._bare
        )

    def _give_statement(self, event: Query, end: Coordinates) -> None:
        self.cut()
        state = self.state
        statement = DdlRead(
            self._gtid(),
            state.commit_time,
            event.database,
            event.statement,
            end,
            self._covered(end),
            event.strict,
            state.original_time,
            self._reached.at(state.begins),
            state.server,
            event.failed,
            event.thread_specific,
            event.zone,
            event.escapes,
        )
        self._close()
        if not self._passed_before:
            self._give(statement, end)

    def _close(self) -> None:
        self.state.phase = BETWEEN
        self.state.tables = 0
        self._xid, self._creation = "", None
        self._emptied, self._bare, self._changed = (), None, frozenset()
        self._open_unread, self._let_go = {}, False

    # Messages

    def relieve(self) -> None:
        """Cuts a slice that's full, and also the open rows if they alone fill it; an XA transaction waits.

        Of one that may pass as a statement the rows go.
        """
        self.cut()
        if not self.slice.full:
            return
        if self._xid:
            if self._let_go or not self._prepared.has_room(self.slice.open_bytes):
                self.slice.hold()
                self._let_go = True
            return
        if self._emptied:
            self._take_changed()
            return
        self._give_creation()
        self._give_part()

    def _give_part(self) -> None:
        of = TransactionPart(self._gtid(), self.state.commit_time, self.state.original_time)
        part = self.slice.cut_part(of)
        if not self._passed_before:
            self._ready.append(part)

    def _give_creation(self) -> None:
        """Gives a table's creation before its rows. To what follows, it's a transaction like any other."""
        if self._creation is not None:
            self.cut()
            if not self._passed_before:
                self._ready.append(self._creation)
            self._creation, self.state.phase = None, FRAMED

    def cut(self) -> None:
        """Ends the slice, if it has any transactions that have passed."""
        if self.slice.passed:
            end = self._reached.at(self.state.end)
            passed = WholeTransactions(end, self._covered(end), tuple(self._unread), self._prepared.noted)
            cut, self._unread = self.slice.cut(passed), {}
            if not self._passed_before:
                self._give(cut, end)
        if len(self.maps) > _MAPS_REMEMBERED and self.state.phase == BETWEEN:
            self.maps.forget()

    def _covered(self, end: Coordinates) -> GtidSet:
        return self._names.covered(end, self._prepared.waiting())

    def _give(self, given: Given, end: Coordinates) -> None:
        self._ready.append(given)
        self._given_until = end
        match given:
            case Slice():
                self._logged.add(given.gtids())
            case DdlRead(gtid):
                self._logged.add(NO_GTIDS.with_gtid(gtid))
            case _:
                pass

    @property
    def between(self) -> Coordinates | None:
        """Where the log is, if that's between two transactions."""
        return self._reached.at() if self.state.phase == BETWEEN and self.placed else None

    def give_progress(self) -> None:
        """Gives how far the log is, if it's between two transactions and no message said it yet."""
        if (at := self.between) is not None and at != self._given_until:
            self._give(LogAdvanced(at, self._covered(at), self._prepared.noted), at)

    def given(self) -> list[Given]:
        """Returns what was made since the last call."""
        ready, self._ready = self._ready, []
        return ready


def _databases(unread: Iterable[RowsUnread]) -> frozenset[str] | None:
    """The databases of all of them, None if one may be of any."""
    found: frozenset[str] = frozenset()
    for each in unread:
        if each.databases is None:
            return None
        found |= each.databases
    return found
