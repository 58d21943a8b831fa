"""Binlogs to read: a server of the benchmark's own, its tables, and transactions that fill a log as fast as it can.

Each log begins right behind one transaction, which makes the position to start from a GTID set that isn't empty
(Debezium's client can't ask for a log from its very beginning), and holds nothing but what is counted.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from deploy.toolchain.mysql_server import CAPTURE, FULL_METADATA, GTIDS, SMALL_AND_QUICK, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Secret, SourceSettings, TlsMode, TlsSettings
from pipeline.gtid.coordinates import Coordinates

DATABASE: Final = "bench"

# A log is filled by as many sessions: commits in groups cost less.
_SESSIONS: Final = 8

_SERVER: Final = {
    **SMALL_AND_QUICK,
    **GTIDS,
    **FULL_METADATA,
    "innodb_buffer_pool_size": "512M",
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_log_buffer_size": "16M",
    "innodb_redo_log_capacity": "1G",
}

# Transactions of `size` changed rows for the rows from `first` to `last` (exclusive).
_FILL: Final = """CREATE PROCEDURE fill_{name}(first INT, last INT, size INT)
WHILE first < last DO
    START TRANSACTION;
    INSERT INTO {name} SELECT {values}
        FROM (SELECT first + numbers.n AS n FROM numbers WHERE numbers.n < size - {updated}) AS r;
    {update};
    COMMIT;
    SET first = first + size;
END WHILE"""
# The last fifth of a transaction, if it's large enough to have one, updates what it has inserted.
_UPDATED: Final = "size DIV 5"
_UPDATE: Final = """IF {updated} > 0 THEN
        UPDATE {name} SET {change} WHERE id >= first AND id < first + {updated};
    END IF"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the key `id`; as SQL, what its row number `n` holds, and how a row is changed if it can be."""

    name: str
    columns: str
    values: str
    change: str = ""

    def updated(self, transaction: int) -> int:
        """How many of a transaction's rows are updates."""
        return transaction // 5 if self.change else 0

    @property
    def filling(self) -> str:
        """The procedure that fills it."""
        if not self.change:
            return _FILL.format(name=self.name, values=self.values, updated=0, update="DO 0")
        update = _UPDATE.format(name=self.name, change=self.change, updated=_UPDATED)
        return _FILL.format(name=self.name, values=self.values, updated=_UPDATED, update=update)


@dataclass(frozen=True, slots=True)
class Log:
    """A log to read: where it lies, where it begins and ends, and what's in it: an update is one row in two images."""

    source: SourceSettings
    table: str
    begin: Coordinates
    gtids: str  # the position at its beginning
    end: Coordinates
    rows: int
    images: int

    @property
    def bytes(self) -> int:
        """The log's length."""
        return self.end.offset - self.begin.offset


# The table of eleven columns that all figures of decoders are told for.
ELEVEN: Final = Table(
    "eleven",
    """id BIGINT UNSIGNED PRIMARY KEY, customer INT, status ENUM('placed', 'paid', 'shipped', 'returned'),
    total DECIMAL(12, 2), quantity SMALLINT, name VARCHAR(40), note VARCHAR(200), placed DATETIME(3), paid TIMESTAMP(6),
    stars TINYINT, weight DOUBLE""",
    """n, n * 7 % 1000000, 1 + n % 4, (n * 37 % 1000000) / 100, n % 900, CONCAT('Customer ', n),
    CONCAT('May be left with the neighbours at number ', n % 90, '; paid in advance by card, reference ', n),
    '2026-01-01' + INTERVAL n % 9999999 SECOND, '2026-01-01' + INTERVAL n % 9999999 SECOND, n % 5, n / 8""",
    "customer = customer + 1",
)
ONE: Final = Table("one", "id BIGINT UNSIGNED PRIMARY KEY", "n")
KINDS: Final = (
    ("INT", "n * 7 % 1000000"),
    ("DECIMAL(12, 2)", "n / 100"),
    ("VARCHAR(20)", "CONCAT('word ', n % 1000)"),
    ("DATETIME(3)", "'2026-01-01' + INTERVAL n % 9999999 SECOND"),
)
SIXTY: Final = Table(
    "sixty",
    ", ".join(["id BIGINT UNSIGNED PRIMARY KEY", *(f"c{i} {KINDS[i % 4][0]}" for i in range(1, 60))]),
    ", ".join(["n", *(KINDS[i % 4][1] for i in range(1, 60))]),
    "c4 = c4 + 1",
)
DOCUMENTS: Final = Table(
    "documents",
    "id BIGINT UNSIGNED PRIMARY KEY, document JSON, note TEXT",
    """n, JSON_OBJECT('number', n, 'tags', JSON_ARRAY('a', n % 10, NULL, true), 'rate', n / 16, 'name', 'schön'),
    REPEAT(CONCAT('Bestellung №', n, ' '), 8)""",
    "note = CONCAT(note, '!')",
)
# The same, to be filled with documents alone, of which a part is changed then.
PARTS: Final = replace(DOCUMENTS, name="parts", change="")
_CHANGED_PART: Final = "document = JSON_SET(document, '$.number', id + 1)"
TABLES: Final = (ELEVEN, ONE, SIXTY, DOCUMENTS, PARTS)


@contextmanager
def server(parts: Parts, options: Mapping[str, str] | None = None) -> Iterator[MysqlServer]:
    """A server with the tables, and a user that may do what a reader of logs has to."""
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        MysqlServer(parts.mysql, Path(folder), {**_SERVER, **(options or {})}) as mysql,
    ):
        mysql.sql(f"CREATE DATABASE {DATABASE}")
        mysql.sql(
            "CREATE TABLE numbers (n INT PRIMARY KEY)",
            "INSERT INTO numbers WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 999) "
            "SELECT n FROM r",
            *(f"CREATE TABLE {table.name} ({table.columns})" for table in TABLES),
            *(table.filling for table in TABLES),
            database=DATABASE,
        )
        mysql.create_capture_user(DATABASE)
        yield mysql


def write(mysql: MysqlServer, table: Table, rows: int, transaction: int, *, compressed: bool = False) -> Log:
    """Fill a new log with that many changed rows, so many in each transaction."""
    mysql.sql(f"TRUNCATE {table.name}", "RESET BINARY LOGS AND GTIDS", "TRUNCATE one", database=DATABASE)
    begin, gtids = _end(mysql)

    def fill(first: int, end: int) -> None:
        mysql.sql(
            f"SET SESSION binlog_transaction_compression = {compressed:d}",
            f"CALL fill_{table.name}({first}, {end}, {transaction})",
            database=DATABASE,
        )

    _in_sessions(fill, rows, transaction)
    end, _ = _end(mysql)
    images = rows + rows // transaction * table.updated(transaction)
    return Log(_source(mysql), table.name, begin, gtids, end, rows, images)


def write_diffs(mysql: MysqlServer, rows: int, transaction: int) -> Log:
    """Fill a new log with updates of that many JSON documents: of each it has the diff of one member."""
    filled = write(mysql, PARTS, rows, transaction)
    begin, gtids = _end(mysql)

    def change(first: int, end: int) -> None:
        mysql.sql(
            "SET SESSION binlog_row_value_options = PARTIAL_JSON",
            *(
                f"UPDATE {PARTS.name} SET {_CHANGED_PART} WHERE id >= {at} AND id < {at + transaction}"
                for at in range(first, end, transaction)
            ),
            database=DATABASE,
        )

    _in_sessions(change, rows, transaction)
    end, _ = _end(mysql)
    events = mysql.sql(f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {begin.offset} LIMIT 5")
    assert any(event[2] == "Update_rows_partial" for event in events), f"the log has no diffs: {events}"
    return replace(filled, begin=begin, gtids=gtids, end=end, images=2 * rows)


def _in_sessions(work: Callable[[int, int], None], rows: int, transaction: int) -> None:
    """Does it for parts of so many rows, in whole transactions, each in a session of its own."""
    share = -(-rows // (_SESSIONS * transaction)) * transaction
    with ThreadPoolExecutor(_SESSIONS) as sessions:
        firsts = range(0, rows, share)
        list(sessions.map(work, firsts, (min(first + share, rows) for first in firsts)))


def nothing(mysql: MysqlServer, table: Table) -> Log:
    """What will come from now on, if nobody writes."""
    end, gtids = _end(mysql)
    return Log(_source(mysql), table.name, end, gtids, end, rows=0, images=0)


def _source(mysql: MysqlServer) -> SourceSettings:
    return SourceSettings(
        host=mysql.host,
        port=mysql.port,
        user=CAPTURE.user,
        password=Secret(CAPTURE.password),
        tls=TlsSettings(TlsMode.DISABLED),
        server_id=mysql.server_id ^ 1,
    )


def _end(mysql: MysqlServer) -> tuple[Coordinates, str]:
    """The end of the server's log, and its executed set."""
    [(file, offset, *_, executed)] = mysql.sql("SHOW BINARY LOG STATUS")
    return Coordinates(file, int(offset)), executed.replace("\n", "")
