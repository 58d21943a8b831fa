"""Servers that one test has after the other, each time as empty as a new one.

To start a server takes half a second of processor time, and to empty one a tenth of that. A server that can't be
emptied is removed, and so is one that a test has stopped: the next test has a new one.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymysql

from deploy.toolchain.mysql import MysqlParts
from deploy.toolchain.mysql_server import MysqlServer
from tests.servers.stopped import is_stopped

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

MysqlFactory = Callable[[Mapping[str, str]], MysqlServer]

# So many wait for a test that wants their settings, in each process of tests.
_MOST: Final = 2
_ENDED_WITHIN_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.005

# What the log's RESET sets back; all other variables are to be as they were.
_OF_THE_LOG: Final = ("gtid_executed", "gtid_purged")
# Where a server keeps users, rights, extensions and its source. A version without a table has NULL for its checksum.
_TABLES: Final = (
    "columns_priv", "component", "db", "default_roles", "func", "global_grants", "plugin", "procs_priv",
    "proxies_priv", "role_edges", "servers", "slave_master_info", "tables_priv", "time_zone_name", "user",
)  # fmt: skip
# What is in no such table, or in one that nobody may read; MySQL 5.6 knows none of it.
_ELSEWHERE: Final = (
    "SELECT COUNT(*), SUM(CRC32(definition)) FROM information_schema.st_spatial_reference_systems",
    "SELECT * FROM performance_schema.replication_applier_filters",
    "SELECT * FROM performance_schema.replication_applier_global_filters",
)
# Of these the server uses what they were when it read them last.
_OF_TLS: Final = ("ssl_", "tls_")
_LOG_FILE: Final = re.compile(r"\.(\d{6}|index)$")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")


class NotEmptied(Exception):
    """A server has something that a new one doesn't have."""


class Lender:
    """Starts servers, and keeps some of those that were given back. `folder` makes a folder for each."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._waiting: list[_Kept] = []

    def pids(self) -> set[int]:
        """The processes of the servers that wait."""
        return {kept.pid for kept in self._waiting}

    @contextmanager
    def lending(self, parts: Callable[[], MysqlParts], settings: Mapping[str, str]) -> Iterator[MysqlFactory]:
        """Lend servers with these settings and those that are asked for, until the context ends."""
        lent: list[_Kept] = []

        def lend(options: Mapping[str, str]) -> MysqlServer:
            lent.append(self._one(parts(), {**settings, **options}))
            return lent[-1].server

        try:
            yield lend
        finally:
            for kept in lent:
                if kept.runs():
                    self._waiting.append(kept)
                else:
                    kept.remove()
            while len(self._waiting) > _MOST:
                self._waiting.pop(0).remove()

    def close(self) -> None:
        """Remove all that wait."""
        while self._waiting:
            self._waiting.pop().remove()

    def _one(self, parts: MysqlParts, settings: dict[str, str]) -> "_Kept":
        for kept in self._waiting[::-1]:
            if (kept.server.parts, kept.settings, kept.zone) == (parts, settings, _zone()):
                self._waiting.remove(kept)
                try:
                    kept.empty()
                except (NotEmptied, pymysql.MySQLError):
                    kept.remove()
                else:
                    return kept
        return _Kept(parts, self._folder(), settings)


class _Kept:
    """A server, and what it had when it was new."""

    def __init__(self, parts: MysqlParts, folder: Path, settings: dict[str, str]) -> None:
        self.settings, self.zone = settings, _zone()
        self.server = MysqlServer(parts, folder / "mysql", settings)
        self.server.start()
        self.pid = self.server.pid
        with _session(self.server) as cursor:
            self._new = _found(self.server, cursor)

    def runs(self) -> bool:
        """Whether it runs, and has run all the time."""
        process: subprocess.Popen[bytes] | None = self.server._process
        if process is None or process.pid != self.pid or process.poll() is not None:
            return False
        return not is_stopped(self.pid)

    def remove(self) -> None:
        self.server.__exit__(None, None, None)

    def empty(self) -> None:
        """Remove what a test left; raises `NotEmptied`, or the server's error."""
        new, old = self._new, self._new.variables["version"].startswith("5.6")
        with _session(self.server) as cursor:
            cursor.execute("SET GLOBAL general_log = OFF")
            _end_others(cursor)
            # What is prepared keeps its locks, and a replica its filters.
            if _rows(cursor, "XA RECOVER") or _rows(cursor, f"SHOW {'SLAVE' if old else 'REPLICA'} STATUS"):
                raise NotEmptied
            _set_back(cursor, new.variables)
            _drop(cursor, new)
            cursor.execute("FLUSH LOCAL STATUS")
            if new.variables["log_bin"] == "ON":
                cursor.execute("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS")
            self.server.general_log.unlink(missing_ok=True)
            cursor.execute(f"SET GLOBAL general_log = {new.variables['general_log']}")
            if _found(self.server, cursor) != new:
                raise NotEmptied


def _zone() -> str | None:
    """The time zone that a server has which is started now."""
    return os.environ.get("TZ")


@dataclass(frozen=True, slots=True)
class _Found:
    """All that tests may change, as the server tells it."""

    variables: dict[str, str]
    databases: frozenset[str]
    users: frozenset[tuple[str, str]]
    checksums: tuple[Any, ...]
    elsewhere: tuple[Any, ...]
    files: frozenset[str]


def _found(server: MysqlServer, cursor: "Cursor") -> _Found:
    variables = _variables(cursor)
    old = variables["version"].startswith("5.6")
    return _Found(
        variables,
        frozenset(name for (name,) in _rows(cursor, "SHOW DATABASES")),
        frozenset(_rows(cursor, "SELECT user, host FROM mysql.user")),
        _rows(cursor, f"CHECKSUM TABLE {', '.join(f'mysql.{table}' for table in _TABLES)}"),
        () if old else tuple(_rows(cursor, question) for question in _ELSEWHERE),
        frozenset(path.name for path in server.data.iterdir() if not _LOG_FILE.search(path.name)),
    )


def _end_others(cursor: "Cursor") -> None:
    """End all connections of clients but this one."""
    deadline, ended = time.monotonic() + _ENDED_WITHIN_S, set[int]()
    clients = (
        "SELECT id FROM information_schema.processlist"
        " WHERE id != CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
    )
    while others := {number for (number,) in _rows(cursor, clients)}:
        for number in others - ended:
            with suppress(pymysql.OperationalError):  # it has just ended
                cursor.execute(f"KILL {number}")
        ended |= others
        if time.monotonic() > deadline:
            raise NotEmptied
        time.sleep(_LOOK_EVERY_S)


def _set_back(cursor: "Cursor", first: Mapping[str, str]) -> None:
    present = _variables(cursor)
    for name, value in first.items():
        if value == present.get(name) or name == "general_log":
            continue
        if name.startswith(_OF_TLS):
            raise NotEmptied
        text = value if _NUMBER.fullmatch(value) else cursor.connection.escape(value)
        cursor.execute(f"SET GLOBAL {name} = {text}")


def _drop(cursor: "Cursor", new: _Found) -> None:
    cursor.execute("SET SESSION foreign_key_checks = OFF")
    for (name,) in _rows(cursor, "SHOW DATABASES"):
        if name not in new.databases:
            cursor.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
    for user in _rows(cursor, "SELECT user, host FROM mysql.user"):
        if user not in new.users:
            cursor.execute("DROP USER %s@%s", user)


def _variables(cursor: "Cursor") -> dict[str, str]:
    return {name: value for name, value in _rows(cursor, "SHOW GLOBAL VARIABLES") if name not in _OF_THE_LOG}


def _rows(cursor: "Cursor", statement: str) -> tuple[Any, ...]:
    cursor.execute(statement)
    return tuple(cursor.fetchall())


@contextmanager
def _session(server: MysqlServer) -> "Iterator[Cursor]":
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        yield cursor
