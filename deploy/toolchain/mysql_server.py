"""A private MySQL server for tests, benchmarks and the demo. Needs PyMySQL, so it runs in the environment.

A server has a folder of its own (data directory, socket, logs), a free port on 127.0.0.1, and a UUID and a
server id that no other one has. Its data directory is copied from one that was initialised once for each
version of MySQL and lies in the cache, since copying takes a tenth of initialising; or from one that came with the
programs.
"""

import os
import random
import re
import socket
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymysql

from deploy.toolchain.cache import ToolchainError, digest, ensure, is_complete, locked, root, run
from deploy.toolchain.mysql import MysqlParts
from deploy.toolchain.ports import take_port
from deploy.toolchain.server_process import READY_WITHIN, ServerProcess

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

LONGEST_SOCKET_PATH: Final = 107  # bytes: unix(7), sun_path without its final zero

GTIDS: Final[Mapping[str, str]] = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
WITHOUT_GTIDS: Final[Mapping[str, str]] = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
FULL_METADATA: Final[Mapping[str, str]] = {"binlog_row_metadata": "FULL"}
# Little memory and no waiting for the disk: for tests, which kill processes but never cut the power.
SMALL_AND_QUICK: Final[Mapping[str, str]] = {
    "innodb_buffer_pool_size": "32M",
    "innodb_doublewrite": "OFF",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_log_buffer_size": "1M",
    "innodb_redo_log_capacity": "32M",
    "performance_schema": "OFF",
    "sync_binlog": "0",
}
# The same of MySQL 5.6, which keeps no log by itself, writes statements into it, and has GTIDs only if a replica's
# changes are to be in it as well.
WITHOUT_GTIDS_56: Final[Mapping[str, str]] = {"binlog_format": "ROW", "log_bin": "binlog"}
GTIDS_56: Final[Mapping[str, str]] = {**GTIDS, **WITHOUT_GTIDS_56, "log_slave_updates": "ON"}
SMALL_AND_QUICK_56: Final[Mapping[str, str]] = {
    **{name: value for name, value in SMALL_AND_QUICK.items() if name != "innodb_redo_log_capacity"},
    "explicit_defaults_for_timestamp": "ON",
    "innodb_log_file_size": "16M",
}
# A time zone whose clocks go back on the last Sunday in October, from 03:00 to 02:00.
CENTRAL_EUROPE: Final = "CET-1CEST,M3.5.0,M10.5.0/3"
# Options that hold for the whole life of a data directory, so that its template depends on them.
SET_AT_BIRTH: Final = frozenset({"innodb_page_size", "lower_case_table_names"})

_LOG_ENTRY = re.compile(r"^\S+Z\t *(\d+) ([A-Z][A-Za-z ]*)\t(.*)$")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the server."""

    user: str
    password: str


CAPTURE: Final = Account("tidemark", "tidemark")


@dataclass(frozen=True, slots=True)
class LoggedCommand:
    """One entry of the general query log; `kind` is such as `Connect`, `Query`, `Binlog Dump GTID`."""

    connection: int
    kind: str
    text: str


class MysqlServer(ServerProcess):
    """One server. `options` are mysqld's own, by their names as system variables: `{"gtid_mode": "ON"}`.

    `zone`: the time zone of its system, as TZ has it; this machine's if it is empty.
    """

    what = "MySQL server"
    program = "mysqld"

    def __init__(
        self, parts: MysqlParts, folder: Path, options: Mapping[str, str] | None = None, zone: str = ""
    ) -> None:
        super().__init__(folder / "data", folder / "error.log")
        self.parts = parts
        self.folder = folder
        self.options = dict(options or {})
        self.zone = zone
        self.host = "127.0.0.1"
        self.port = take_port()
        self.uuid = str(uuid.uuid4())
        self.server_id = random.randrange(1, 2**32)
        self.socket = folder / "mysql.sock"
        self.general_log = folder / "general.log"
        if len(bytes(self.socket)) > LONGEST_SOCKET_PATH:
            raise ToolchainError(f"{self.socket} is too long for a Unix socket; choose a shorter folder")

    # -- use

    def connect(
        self, account: Account | None = None, database: str | None = None
    ) -> "pymysql.Connection[Cursor]":
        """Connect over TCP as `account`, or over the socket as root, with autocommit on."""
        if account is None:
            return pymysql.connect(
                unix_socket=str(self.socket),
                user="root",
                database=database,
                charset="utf8mb4",
                autocommit=True,
                ssl_disabled=True,  # it would read all the certificates of the machine, for each connection
            )
        return pymysql.connect(
            host=self.host, port=self.port, user=account.user, password=account.password, database=database,
            charset="utf8mb4", autocommit=True,
        )  # fmt: skip

    def sql(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as root on one new connection, and return the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        with closing(self.connect(database=database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def create_capture_user(self, *databases: str, account: Account = CAPTURE) -> Account:
        """Give a user the least that capture needs: to read the databases and to follow the binlog.

        May be called again for further databases.
        """
        name = f"'{account.user}'@'%'"
        # MySQL 5.6 has no CREATE USER IF NOT EXISTS.
        if not self.sql(f"SELECT 1 FROM mysql.user WHERE User = '{account.user}' AND Host = '%'"):
            self.sql(f"CREATE USER {name} IDENTIFIED BY '{account.password}'")
        self.sql(
            f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {name}",
            # In a GRANT the underscore of a database's name is a wildcard.
            *(
                f"GRANT SELECT ON `{database.replace('_', chr(92) + '_')}`.* TO {name}"
                for database in databases
            ),
        )
        return account

    def executed(self) -> str:
        """Return the executed GTID set, on one line."""
        return str(self.sql("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")

    def rotate_binlog(self) -> str:
        """Begin a new binlog file, and return its name."""
        self.sql("FLUSH BINARY LOGS")
        return str(self.sql("SHOW BINARY LOGS")[-1][0])

    def purge_binlogs(self) -> None:
        """Remove every binlog file but a new one."""
        self.sql(f"PURGE BINARY LOGS TO '{self.rotate_binlog()}'")

    def logged(self) -> list[LoggedCommand]:
        """Return what clients sent while the server's variable `general_log` was ON, in its order."""
        if not self.general_log.exists():
            return []
        commands: list[LoggedCommand] = []
        for line in self.general_log.read_text(errors="replace").splitlines():
            if entry := _LOG_ENTRY.match(line):
                commands.append(LoggedCommand(int(entry[1]), entry[2], entry[3]))
            elif commands:  # a statement's further lines; before the first entry there is the log's own head
                last = commands[-1]
                commands[-1] = LoggedCommand(last.connection, last.kind, f"{last.text}\n{line}")
        return commands

    # -- inside

    def _make_data(self) -> None:
        _new_data_directory(self.parts, self.data, self.options, self.uuid)

    def _command(self) -> list[str | Path]:
        zone = ["env", f"TZ={self.zone}"] if self.zone else []
        return [*zone, self.parts.bin / "mysqld", *self._arguments()]

    def _arguments(self) -> list[str]:
        settings = {
            "bind_address": self.host,
            "datadir": str(self.data),
            "general_log_file": str(self.general_log),
            "log_error": str(self.log),
            "log_output": "FILE",
            "loose_mysqlx": "OFF",  # loose: older servers don't know it
            "pid_file": str(self.folder / "mysqld.pid"),
            "port": str(self.port),
            "secure_file_priv": "",
            "server_id": str(self.server_id),
            "skip_name_resolve": "ON",
            "socket": str(self.socket),
            # Its own: a server that starts removes the temporary tables that it finds there.
            "tmpdir": str(self.folder),
        }
        return _as_arguments(settings | self.options)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(READY_WITHIN)
            try:
                probe.connect(str(self.socket))
                return probe.recv(1) != b""
            except (FileNotFoundError, ConnectionError):
                return False


def _as_arguments(settings: Mapping[str, str]) -> list[str]:
    """Return mysqld's arguments; it runs as root only if it's told to."""
    user = ["--user=root"] if os.geteuid() == 0 else []
    return ["--no-defaults", *(f"--{name}={value}" for name, value in settings.items()), *user]


def _new_data_directory(parts: MysqlParts, data: Path, options: Mapping[str, str], server: str) -> None:
    """Copy an initialised data directory (root without a password, no binlog) and give it its own UUID."""
    template = parts.data or _template(parts, options)
    data.parent.mkdir(parents=True, exist_ok=True)
    run(["cp", "--archive", "--reflink=auto", template, data])
    (data / "auto.cnf").write_text(f"[auto]\nserver-uuid={server}\n")


def _template(parts: MysqlParts, options: Mapping[str, str]) -> Path:
    """Return a data directory that these programs initialised; it's made if there is none yet."""
    lasting = {name: value for name, value in options.items() if name in SET_AT_BIRTH}
    template = root() / f"mysql-data-{digest(str(parts.bin), parts.version, repr(sorted(lasting.items())))}"

    def build() -> None:
        settings = {"datadir": str(template / "data"), "innodb_redo_log_capacity": "8M"} | lasting
        run([parts.bin / "mysqld", *_as_arguments(settings), "--initialize-insecure"])

    if not is_complete(template):  # whoever makes another part, which may take minutes, isn't waited for
        with locked():
            ensure("an empty MySQL data directory", template, build)
    return template / "data"
