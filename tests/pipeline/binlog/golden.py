"""Events as MySQL 9.7 wrote them, one file for each story; `python -m tests.pipeline.binlog.golden` makes them again.

Each line is one event in hexadecimal, from its header to its checksum, after the kind's number. A new server runs a
story. Then the module requests its log as a replica does, without waiting for more (BINLOG_DUMP_NON_BLOCK).
"""

import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from pymysql.constants import COMMAND

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, MysqlServer
from deploy.toolchain.parts import locate

FOLDER: Final = Path(__file__).parent / "events"

TYPES: Final = """
CREATE TABLE shop.kinds (
  id BIGINT UNSIGNED, ti TINYINT, si SMALLINT UNSIGNED, me MEDIUMINT, i INT NOT NULL, y YEAR,
  de DECIMAL(10,3) UNSIGNED, fl FLOAT, do DOUBLE UNSIGNED, b1 BIT, b9 BIT(9), da DATE, t TIME, t3 TIME(3),
  dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL,
  c CHAR(10), cl CHAR(20) CHARACTER SET latin1, big CHAR(255), v VARCHAR(10), vl VARCHAR(300), bi BINARY(4),
  vb VARBINARY(9), bl BLOB, mb MEDIUMBLOB, tx TEXT CHARACTER SET latin1, lt LONGTEXT,
  e ENUM('a','b''c','ü'), el ENUM('ä','z') CHARACTER SET latin1, s SET('x','y'),
  j JSON, g GEOMETRY, p POINT, ve VECTOR(5), `weird ``näme` INT INVISIBLE,
  vg INT AS (i + 1) VIRTUAL, sg INT AS (i + 2) STORED, PRIMARY KEY (i, v(3)), INDEX ((i * 2))
)"""

STORIES: Final[Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]]] = {
    "transactions": (
        {},
        (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, v VARCHAR(10))",
            "CREATE TABLE shop.items (id INT PRIMARY KEY, n INT)",
            "CREATE TABLE shop.log (id INT PRIMARY KEY) ENGINE=MyISAM",
            "BEGIN",
            "INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO shop.items VALUES (10, 1)",
            "UPDATE shop.orders SET v = 'c' WHERE id = 2",
            "SAVEPOINT s",
            "DELETE FROM shop.orders WHERE id = 1",
            "ROLLBACK TO s",
            "DELETE FROM shop.items",
            "COMMIT",
            "SET gtid_next = 'AUTOMATIC:mytag'",
            "INSERT INTO shop.orders VALUES (3, 'tagged')",
            "SET gtid_next = 'AUTOMATIC'",
            "INSERT INTO shop.log VALUES (7)",
            "CREATE TABLE shop.copy AS SELECT * FROM shop.orders",
            "FLUSH BINARY LOGS",
            "TRUNCATE shop.copy",
        ),
    ),
    "xa": (
        {},
        (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "XA START 'two', 'branch', 7",
            "INSERT INTO shop.orders VALUES (1)",
            "XA END 'two', 'branch', 7",
            "XA PREPARE 'two', 'branch', 7",
            "INSERT INTO shop.orders VALUES (2)",
            "XA COMMIT 'two', 'branch', 7",
            "XA START 'back'",
            "INSERT INTO shop.orders VALUES (3)",
            "XA END 'back'",
            "XA PREPARE 'back'",
            "XA ROLLBACK 'back'",
            "XA START 'one'",
            "INSERT INTO shop.orders VALUES (4)",
            "XA END 'one'",
            "XA COMMIT 'one' ONE PHASE",
        ),
    ),
    "types": ({}, ("CREATE DATABASE shop", TYPES, "INSERT INTO shop.kinds (i, v) VALUES (1, 'abcdef')")),
    "types_minimal": (
        {"binlog_row_metadata": "MINIMAL"},
        ("CREATE DATABASE shop", TYPES, "INSERT INTO shop.kinds (i, v) VALUES (1, 'abcdef')"),
    ),
    "statement_format": (
        {},
        (
            "CREATE DATABASE shop",
            "CREATE DATABASE other",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "CREATE TABLE other.things (id INT PRIMARY KEY)",
            "SET SESSION binlog_format = 'STATEMENT'",
            "INSERT INTO other.things VALUES (1)",
            "INSERT INTO shop.orders VALUES (1)",
        ),
    ),
    "compressed": (
        {"binlog_transaction_compression": "ON"},
        (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "INSERT INTO shop.orders VALUES (1)",
        ),
    ),
    "partial_json": (
        {"binlog_row_value_options": "PARTIAL_JSON"},
        (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.docs (id INT PRIMARY KEY, j JSON)",
            'INSERT INTO shop.docs VALUES (1, \'{"a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b": 1}\')',
            "UPDATE shop.docs SET j = JSON_SET(j, '$.b', 2)",
        ),
    ),
    "without_checksums": (
        {"binlog_checksum": "NONE"},
        (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "INSERT INTO shop.orders VALUES (1)",
        ),
    ),
}


def story(name: str) -> list[bytes]:
    """The events of a story, in their order."""
    lines = (FOLDER / f"{name}.hex").read_text().splitlines()
    return [bytes.fromhex(line.split()[1]) for line in lines]


def dumped(server: MysqlServer) -> Iterator[bytes]:
    """All events of the server's log."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = 'CRC32'")
        no_gtids, non_block, through_gtid = bytes(8), 1, 4
        request = struct.pack("<HIIQI", non_block | through_gtid, 4242, 0, 4, len(no_gtids)) + no_gtids
        connection._execute_command(COMMAND.COM_BINLOG_DUMP_GTID, request)  # type: ignore[attr-defined]
        while True:
            packet = connection._read_packet().get_all_data()  # type: ignore[no-untyped-call]
            if packet[0] == 254:
                return
            yield packet[1:]


def _tell(name: str, options: Mapping[str, str], statements: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA, **options}
        with MysqlServer(locate().mysql, Path(folder) / "mysql", settings) as server:
            server.sql(*statements)
            lines = [f"{event[4]} {event.hex()}\n" for event in dumped(server)]
    (FOLDER / f"{name}.hex").write_text("".join(lines))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (options, statements) in STORIES.items():
        _tell(name, options, statements)
