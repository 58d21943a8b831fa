"""The data to mutate: the log of a live server that has written every kind of thing that a log can hold.

A corpus is transactions, each a list of events from header to checksum, and the two events that begin a log. What the
present server can't write any more is derived from what it wrote: rows events of version 1, and a log without
checksums.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.binlog.event_type import Code
from tests.pipeline.binlog.golden import dumped
from tests.servers.value_tables import TWO_OF_EACH

HEADER: Final = 19
CHECKSUM: Final = 4

OPTIONS: Final = {**GTIDS, **FULL_METADATA}

_WIDE: Final = ", ".join(f"c{i} TINYINT" for i in range(300))
_DOCUMENTS: Final = (
    '{"a": 1, "b": [true, false, null, {"c": "text", "d": 1.5}], "e": -70000, "f": 18446744073709551615}',
    '["", "x", [], {}, [[[[[]]]]], 1e308, -1, 32767, 4294967296]',
    '{"k": "' + "long " * 60 + '"}',
    '"alone"',
    "17",
)
_OPAQUE: Final = (
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('-12:34:56.789' AS TIME(3)), CAST('2024-02-29 1:2:3' AS DATETIME), "
    "CAST(-1234567890.987654321 AS DECIMAL(30,9)), b'1011', x'c0ffee', ST_GeomFromText('POINT(1 2)'))"
)

_SETUP: Final = (
    "CREATE DATABASE fuzz",
    "CREATE TABLE fuzz.one (id INT)",
    "CREATE TABLE fuzz.two (a VARCHAR(300), b BIGINT UNSIGNED, PRIMARY KEY (b, a(7)))",
    "CREATE TABLE fuzz.docs (id INT PRIMARY KEY, j JSON, k JSON)",
    f"CREATE TABLE fuzz.wide ({_WIDE})",
    "CREATE TABLE fuzz.log (id INT PRIMARY KEY) ENGINE=MyISAM",
)

_ROWS: Final = (
    "INSERT INTO fuzz.one VALUES (1), (NULL), (-3)",
    "INSERT INTO fuzz.two VALUES ('', 0), (REPEAT('ä', 200), 18446744073709551615)",
    "INSERT INTO fuzz.wide (c0, c7, c8, c299) VALUES (1, 2, 3, 4), (5, 6, 7, 8)",
    "UPDATE fuzz.one SET id = id + 1",
    "UPDATE fuzz.two SET a = 'short', b = b - 1 WHERE b > 0",
    "UPDATE fuzz.wide SET c299 = NULL",
    "DELETE FROM fuzz.two",
    "DELETE FROM fuzz.one LIMIT 1",
    *(f"REPLACE INTO fuzz.docs VALUES ({i}, '{text}', {_OPAQUE})" for i, text in enumerate(_DOCUMENTS)),
    "UPDATE fuzz.docs SET j = JSON_SET(j, '$.a', 'b', '$[1]', 2), k = JSON_REMOVE(k, '$[0]')",
    "UPDATE fuzz.docs SET j = JSON_REPLACE(j, '$.e', 5), k = JSON_SET(k, '$[0]', 'x', '$[9]', 1.5)",
    "DELETE FROM fuzz.docs",
)

_TOGETHER: Final = (
    "BEGIN",
    "INSERT INTO fuzz.one VALUES (1), (2)",
    "INSERT INTO fuzz.two VALUES ('a', 1)",
    "SAVEPOINT s",
    "UPDATE fuzz.one SET id = 7",
    "INSERT INTO fuzz.two VALUES ('b', 2)",
    "DELETE FROM fuzz.one",
    "DELETE FROM fuzz.two",
    "COMMIT",
)

_XA: Final = (
    *(
        "XA START 'p', 'q', 7",
        "INSERT INTO fuzz.one VALUES (1)",
        "XA END 'p', 'q', 7",
        "XA PREPARE 'p', 'q', 7",
    ),
    "XA COMMIT 'p', 'q', 7",
    *("XA START 'r'", "INSERT INTO fuzz.one VALUES (2)", "XA END 'r'", "XA PREPARE 'r'", "XA ROLLBACK 'r'"),
    *("XA START 'o'", "INSERT INTO fuzz.one VALUES (3)", "XA END 'o'", "XA COMMIT 'o' ONE PHASE"),
)

_STATEMENTS: Final = (
    "CREATE TABLE fuzz.copy AS SELECT * FROM fuzz.one",
    "RENAME TABLE fuzz.copy TO fuzz.copied",
    "ALTER TABLE fuzz.copied ADD COLUMN c INT",
    "TRUNCATE fuzz.copied",
    "DROP TABLE fuzz.copied",
    "CREATE USER nobody",
    "DROP USER nobody",
    "INSERT INTO fuzz.log VALUES (7)",
    "DELETE FROM fuzz.log",
)

_AS_STATEMENTS: Final = (
    "SET SESSION binlog_format = 'STATEMENT'",
    "SET @x = 'text'",
    "INSERT INTO fuzz.one VALUES (LENGTH(@x)), (RAND() * 9)",
    "DELETE FROM fuzz.one",
    "SET SESSION binlog_format = 'ROW'",
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """`head`: how a log begins, with the made-up ROTATE; `tail`: what comes between transactions; and these."""

    head: tuple[bytes, ...]
    transactions: tuple[tuple[bytes, ...], ...]
    tail: tuple[bytes, ...]


def taken(server: MysqlServer) -> Corpus:
    """Tell the server everything, and take its log; the server is started with OPTIONS."""
    server.sql(*_SETUP)
    server.sql(*_types())
    for session in (
        (),
        ("SET binlog_transaction_compression = ON",),
        ("SET binlog_row_image = MINIMAL",),
        ("SET binlog_row_image = NOBLOB", "SET binlog_rows_query_log_events = ON"),
        ("SET binlog_row_value_options = PARTIAL_JSON",),
        ("SET binlog_row_value_options = PARTIAL_JSON", "SET binlog_transaction_compression = ON"),
        ("SET gtid_next = 'AUTOMATIC:some_tag'",),
    ):
        server.sql(*session, *_ROWS, *_TOGETHER)
    server.sql(*_XA)
    server.sql(*_STATEMENTS)
    server.sql(*_AS_STATEMENTS)
    server.sql("SET GLOBAL binlog_row_metadata = MINIMAL", "FLUSH BINARY LOGS")
    server.sql(*_ROWS, *_TOGETHER)
    events = list(dumped(server))
    return _corpus(events)


def _types() -> Iterator[str]:
    """For each kind of column a small table, filled, changed and emptied: damage to short events finds more."""
    yield "SET sql_mode = 'ALLOW_INVALID_DATES', explicit_defaults_for_timestamp = ON, time_zone = '+00:00'"
    yield "USE fuzz"
    for i, kind in enumerate(TWO_OF_EACH):
        literals = [literal for literal in kind.edges if "REPEAT" not in literal and len(literal) < 300][:6]
        values = ", ".join(f"({literal}, NULL)" for literal in literals)
        yield f"CREATE TABLE t{i} (c {kind.definition} NULL, d {kind.definition} NULL)"
        yield f"INSERT INTO t{i} VALUES {values or '(NULL, NULL)'}"
        yield f"UPDATE t{i} SET d = c"
        yield f"DELETE FROM t{i}"


def _corpus(events: list[bytes]) -> Corpus:
    head: list[bytes] = []
    tail: list[bytes] = []
    transactions: list[list[bytes]] = []
    for event in events:
        code = event[4]
        if code in (Code.GTID, Code.TAGGED_GTID):
            transactions.append([event])
        elif code in (Code.ROTATE, Code.FORMAT_DESCRIPTION, Code.PREVIOUS_GTIDS, Code.STOP):
            (tail if transactions else head).append(event)
        else:
            transactions[-1].append(event)
    old = [[_version_1(event) for event in events] for events in transactions[:200]]
    return Corpus(tuple(head), tuple(map(tuple, [*transactions, *old])), (*tail, *_heartbeats(head[0])))


def _heartbeats(rotate: bytes) -> Iterator[bytes]:
    """Both forms, which a server sends when there's nothing else for a second: 5.6's, and 8.0.26's."""
    file = rotate[HEADER + 8 : -CHECKSUM]
    yield rebuilt(rotate[:4] + bytes([Code.HEARTBEAT]) + rotate[5:HEADER], file)
    body = b"\x01" + bytes([len(file)]) + file + b"\x02\x03\xfc\xff\xff\x00"
    yield rebuilt(rotate[:4] + bytes([Code.HEARTBEAT_V2]) + rotate[5:HEADER], body)


_OLD: Final = {
    Code.WRITE_ROWS: Code.WRITE_ROWS_V1,
    Code.UPDATE_ROWS: Code.UPDATE_ROWS_V1,
    Code.DELETE_ROWS: Code.DELETE_ROWS_V1,
}


def _version_1(event: bytes) -> bytes:
    """A rows event as MySQL 5.5 wrote it: its header has no extra data, here 2 bytes."""
    code = event[4]
    if code not in _OLD:
        return event
    body = event[HEADER:-CHECKSUM]
    return rebuilt(event[:4] + bytes([_OLD[Code(code)]]) + event[5:HEADER], body[:8] + body[10:])


def rebuilt(header: bytes, body: bytes, *, checksum: bool = True) -> bytes:
    """An event with this body, and the length and the checksum that are right for it."""
    size = HEADER + len(body) + (CHECKSUM if checksum else 0)
    whole = header[:9] + size.to_bytes(4, "little") + header[13:HEADER] + body
    return whole + zlib.crc32(whole).to_bytes(4, "little") if checksum else whole
