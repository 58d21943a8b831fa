"""A model of the transactions of a consistent snapshot: each step of their opening by itself, and what they see."""

from random import Random

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import OpenTransactions, TransactionsOpened
from pipeline.schema.table_schema import TableId, TableSchema
from tests.simulation.server import Rows, Server

# So many tries find no quiet moment before the server is locked, where that's allowed.
TRIES_WITHOUT_LOCK = 3


class Lost(Exception):
    """A connection that capture can't go on without is gone, or leads to another server: it begins anew."""


class View:
    """What one transaction sees of the tables, for as long as nobody alters them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rows = {table: dict(rows) for table, rows in server.rows.items()}
        self._schemas = server.schemas
        self._statements = sum(transaction.statement is not None for transaction in server.log)

    def read(self, table: TableId) -> tuple[Rows, TableSchema | None]:
        """Its rows and its schema, None where there was no such table; from now on nobody alters it.

        Raises Lost if somebody has (error 1412).
        """
        statements = [t.statement.table for t in self._server.log if t.statement]
        if table in statements[self._statements :]:
            raise Lost(f"{table} was altered since the transaction was opened")
        self._server.pinned.add(table)
        return self._rows[table], self._schemas.get(table)


class Views:
    """A search for a moment at which the transactions can be opened, and then these."""

    def __init__(
        self, order: OpenTransactions, connections: int, server: Server, random: Random, locks: bool
    ) -> None:
        self.order = order
        self.opened: TransactionsOpened | None = None
        self.tries = order.failed
        self._connections, self._server, self._random, self._locks = connections, server, random, locks
        self._before: tuple[Coordinates, GtidSet] | None = None
        self._views: list[View] = []

    def go_on(self) -> TransactionsOpened | None:
        """Take the next step; the fact, if that was the last one."""
        server = self._server
        if self._before is None:
            if self._locks and self.tries >= TRIES_WITHOUT_LOCK:
                server.come_to_rest()
                server.locked = True
            self._before = server.end, server.executed
        elif len(self._views) < self._connections:
            self._views.append(View(server))
        else:
            server.locked = False
            self._found(*self._before)
        return self.opened

    def _found(self, at: Coordinates, visible: GtidSet) -> None:
        if self.is_quiet(at):
            self.opened = TransactionsOpened(self.order.number, at, visible)
            return
        self.tries += 1
        self._before, self._views = None, []

    def is_quiet(self, at: Coordinates) -> bool:
        """Whether the log ends where it ended before they were opened."""
        return self._server.end == at

    def any(self) -> View:
        """One of the transactions."""
        return self._random.choice(self._views)

    def close(self) -> None:
        """End them."""
        self._server.locked = False
        self._server.pinned.clear()
