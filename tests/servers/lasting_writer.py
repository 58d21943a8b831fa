"""The demo's writer where its server goes and comes back, or another one takes its place: it knows what it committed.

A connection that's lost at a COMMIT leaves open whether there was one. So each transaction writes its own number into a
table beside the shop (`witness`), which isn't captured, and the next connection looks whether it's there.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pymysql

from deploy.demo import writer
from deploy.demo.writer import THREADS, Line, Row, Thread
from deploy.toolchain.mysql_server import Account, MysqlServer
from tests.servers.at_work import at_work
from tests.servers.shop import SIZE

WRITER: Final = Account("writer", "writer")
_LOST: Final = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError)
_TRY_EVERY_S: Final = 0.05


def admit(server: MysqlServer) -> None:
    """Make the account and the witnesses."""
    server.sql(
        "CREATE DATABASE witness",
        "CREATE TABLE witness.transactions (thread INT PRIMARY KEY, number INT NOT NULL)",
        f"INSERT INTO witness.transactions VALUES {', '.join(f'({i}, 0)' for i in range(THREADS))}",
        f"CREATE USER '{WRITER.user}'@'%' IDENTIFIED BY '{WRITER.password}'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO '{WRITER.user}'@'%'",
        f"GRANT SELECT, UPDATE ON witness.* TO '{WRITER.user}'@'%'",
    )


@dataclass
class Address:
    """Where the writers connect to. A writer holds its own lock for each transaction."""

    server: MysqlServer
    locks: list[threading.Lock] = field(default_factory=lambda: [threading.Lock() for _ in range(THREADS)])

    @contextmanager
    def moving(self) -> Iterator[None]:
        """No transaction is under way, for a while."""
        with ExitStack() as held:
            for lock in self.locks:
                held.enter_context(lock)
            yield


@dataclass(kw_only=True)
class LastingThread(Thread):
    """One writing connection, replaced when it's lost."""

    address: Address
    pace_s: float
    number: int = 0
    before: dict[tuple[str, str], Row] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, stop: threading.Event) -> None:
        """Writes transactions at an even pace until stopped, to the end of the last one."""
        self.stop = stop
        while not stop.wait(self.pace_s * self.random.uniform(0, 2)):
            self.transaction()
        self.connection.close()

    def transaction(self) -> None:
        """One that's committed or not, and it's known which."""
        with self.address.locks[self.index]:
            server = self.address.server
            if server.port != self.connection.port:
                self.connection.close()
            self.before = {}
            self.number += 1
            try:
                super().transaction()
            except _LOST:
                self._find_out()

    def changes(self, cursor: "pymysql.cursors.Cursor") -> None:
        """With the witness."""
        statement = "UPDATE witness.transactions SET number = %s WHERE thread = %s"
        self.execute(cursor, statement, (self.number, self.index))
        super().changes(cursor)

    def row(self, table: str, key: str, there: bool) -> Row:
        """Also kept as it was before this transaction."""
        row = super().row(table, key, there)
        self.before.setdefault((table, key), replace(row))
        return row

    def _find_out(self) -> None:
        """Connects again, as soon as a server answers, and checks whether the transaction has happened."""
        while (last := self._last_number()) is None:
            self.stop.wait(_TRY_EVERY_S)
        if last == self.number:
            self.tally += self.pending
        else:
            self.known |= self.before

    def _last_number(self) -> int | None:
        """Of this thread's last transaction, on a new connection; None where there's none to be had."""
        try:
            self.connection = connected(self.address.server)
            with self.connection.cursor() as cursor:
                # Waits for the transaction, if the server hasn't noticed yet that its connection is gone.
                statement = "SELECT number FROM witness.transactions WHERE thread = %s FOR UPDATE"
                cursor.execute(statement, (self.index,))
                [(number,)] = cursor.fetchall()
            self.connection.rollback()
        except _LOST:
            return None
        return int(number)


def connected(server: MysqlServer) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    """A writer's connection."""
    return writer._connect(server.host, server.port, WRITER.user, WRITER.password)


@contextmanager
def writing(address: Address, per_s: float) -> Iterator[list[Line]]:
    """Runs writers with so many transactions a second; after the context the list has all that's committed."""
    tally = list[Line]()
    threads = [
        LastingThread(
            i, SIZE, connected(address.server), random.Random(i), address=address, pace_s=THREADS / per_s
        )
        for i in range(THREADS)
    ]
    with at_work([thread.run for thread in threads]):
        yield tally
    tally += [line for thread in threads for line in thread.tally]
