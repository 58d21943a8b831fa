"""Each kind of event that MySQL 5.6 to 9.7 knows, and what the stream does with it.

The kinds that this server can write are in its own binlog files, which are read as they lie on its disk; the others'
bytes are made as the source documents them. `KINDS` is the whole list: what isn't in it stops the pipeline.

Sources: MySQL 9.7 source documentation, mysql::binlog::event::Log_event_type and the classes named there.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest
from pymysql.constants import COMMAND

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.binlog.event_type import Code
from pipeline.binlog.stream import LogMessage
from pipeline.errors import UndecodableError
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import DdlRead, LogAdvanced, TransactionsRead
from tests.pipeline.binlog import test_transaction_assembler as logs
from tests.pipeline.binlog.events.test_event import made


class Does(Enum):
    """What the stream does with a kind of event."""

    FOLLOW = "it changes what passes, or where the log stands"
    SKIP = "it changes nothing that we need, so it passes unread"
    NOT_KNOW = "no server since 5.6 writes it into a binlog"


KINDS: Final = {
    0: ("UNKNOWN", Does.NOT_KNOW),
    1: ("START_V3", Does.NOT_KNOW),
    2: ("QUERY", Does.FOLLOW),
    3: ("STOP", Does.FOLLOW),
    4: ("ROTATE", Does.FOLLOW),
    5: ("INTVAR", Does.SKIP),  # a statement's values: the statement after them is refused
    6: ("LOAD", Does.NOT_KNOW),
    7: ("SLAVE", Does.NOT_KNOW),
    8: ("CREATE_FILE", Does.NOT_KNOW),
    9: ("APPEND_BLOCK", Does.SKIP),
    10: ("EXEC_LOAD", Does.NOT_KNOW),
    11: ("DELETE_FILE", Does.SKIP),
    12: ("NEW_LOAD", Does.NOT_KNOW),
    13: ("RAND", Does.SKIP),
    14: ("USER_VAR", Does.SKIP),
    15: ("FORMAT_DESCRIPTION", Does.FOLLOW),
    16: ("XID", Does.FOLLOW),
    17: ("BEGIN_LOAD_QUERY", Does.SKIP),
    18: ("EXECUTE_LOAD_QUERY", Does.FOLLOW),
    19: ("TABLE_MAP", Does.FOLLOW),
    20: ("PRE_GA_WRITE_ROWS", Does.NOT_KNOW),
    21: ("PRE_GA_UPDATE_ROWS", Does.NOT_KNOW),
    22: ("PRE_GA_DELETE_ROWS", Does.NOT_KNOW),
    23: ("WRITE_ROWS_V1", Does.FOLLOW),
    24: ("UPDATE_ROWS_V1", Does.FOLLOW),
    25: ("DELETE_ROWS_V1", Does.FOLLOW),
    26: ("INCIDENT", Does.FOLLOW),
    27: ("HEARTBEAT", Does.FOLLOW),
    28: ("IGNORABLE", Does.SKIP),
    29: ("ROWS_QUERY", Does.SKIP),
    30: ("WRITE_ROWS", Does.FOLLOW),
    31: ("UPDATE_ROWS", Does.FOLLOW),
    32: ("DELETE_ROWS", Does.FOLLOW),
    33: ("GTID", Does.FOLLOW),
    34: ("ANONYMOUS_GTID", Does.FOLLOW),
    35: ("PREVIOUS_GTIDS", Does.FOLLOW),
    36: ("TRANSACTION_CONTEXT", Does.SKIP),
    37: ("VIEW_CHANGE", Does.SKIP),
    38: ("XA_PREPARE", Does.FOLLOW),
    39: ("PARTIAL_UPDATE_ROWS", Does.FOLLOW),
    40: ("TRANSACTION_PAYLOAD", Does.FOLLOW),
    41: ("HEARTBEAT_V2", Does.FOLLOW),
    42: ("TAGGED_GTID", Does.FOLLOW),
}

IGNORABLE_FLAG: Final = 0x80
LOST_EVENTS: Final = 1

# As the source documents them: what group replication writes, and an incident.
_CONTEXT: Final = (
    struct.pack("<BIBIII", 36, 7, 1, 8, 1, 0) + b"3e11fa47-71ca-11e1-9e33-c80aa9429562" + bytes(8)
)
_CONTEXT_SETS: Final = b"\x02\x00ws"
_VIEW: Final = b"15:2".ljust(40, b"\0") + struct.pack("<QI", 3, 1) + b"\x04\x00uuid" + b"\x02\x00\x00\x00x7"
BODIES: Final = {
    Code.INCIDENT: struct.pack("<HB", LOST_EVENTS, 4) + b"gone",
    Code.TRANSACTION_CONTEXT: _CONTEXT + _CONTEXT_SETS,
    Code.VIEW_CHANGE: _VIEW,
}


def kinds(does: Does) -> list[int]:
    return [code for code, (_, this) in KINDS.items() if this is does]


def test_the_list_is_whole() -> None:
    """Each number from 0 on is in it, and each kind that the sources name."""
    assert list(KINDS) == list(range(len(KINDS)))
    assert {code.value: code.name for code in Code} == {
        code: name for code, (name, does) in KINDS.items() if does is not Does.NOT_KNOW
    }


# -- each kind by itself


def within(event: bytes) -> list[bytes]:
    return [logs.rotate(), *logs.transaction(1, logs.MAP, event, logs.ROW)]


@pytest.mark.parametrize("code", kinds(Does.SKIP))
def test_what_is_skipped_changes_nothing(code: int) -> None:
    event = made(code, BODIES.get(Code(code), b"\x05hello"))
    for read in (logs.parsed, logs.folded):
        with_it, without_it = (
            read(logs.stream(), within(event)),
            read(logs.stream(), [logs.rotate(), *logs.transaction(1, logs.MAP, logs.ROW)]),
        )
        assert [logs.images(message) for message in with_it] == [
            logs.images(message) for message in without_it
        ]
        assert logs.images(with_it[-1]) == [(0, 0, ("orders", "INSERT", [5]))]


INCIDENT: Final = made(Code.INCIDENT, BODIES[Code.INCIDENT])


@pytest.mark.parametrize(
    ("log", "passed"),
    [
        pytest.param(
            [logs.begin(1), INCIDENT, logs.begin(2), logs.query("BEGIN"), logs.query("COMMIT")],
            2,
            id="its own transaction",
        ),
        pytest.param(within(INCIDENT)[1:], 1, id="within a transaction"),
        pytest.param([*logs.transaction(1, logs.MAP, logs.ROW), INCIDENT], 1, id="between two"),
        pytest.param([INCIDENT], 0, id="first of all"),
    ],
)
def test_an_incident_leaves_all_tables_unread(log: list[bytes], passed: int) -> None:
    for read in (logs.parsed, logs.folded):
        said = read(logs.stream(), [logs.rotate(), *log, logs.rotate("binlog.000002")])
        told = [each for m in said if isinstance(m, TransactionsRead | LogAdvanced) for each in m.unread]
        assert [(each.databases, each.lost, "gone" in each.reason) for each in told] == [(None, True, True)]
        assert sum(len(m.transactions) for m in said if isinstance(m, TransactionsRead)) == passed


@pytest.mark.parametrize("code", [*kinds(Does.NOT_KNOW), 43, 99, 163, 255])
def test_what_is_not_known_is_refused_unless_it_is_marked_as_ignorable(code: int) -> None:
    """MariaDB's own kinds begin with 160; later versions of MySQL number on."""
    words = rf"type {code}: .*isn't known.*at binlog\.000001:\d+, in the transaction [0-9a-f-]{{36}}:1"
    ignorable = within(made(code, b"whatever", flags=IGNORABLE_FLAG))
    for read in (logs.parsed, logs.folded):
        with pytest.raises(UndecodableError, match=words):
            read(logs.stream(), within(made(code, b"whatever")))
        assert logs.images(read(logs.stream(), ignorable)[-1]) == [(0, 0, ("orders", "INSERT", [5]))]


def test_a_view_change_of_a_group_passes_as_a_transaction_without_rows() -> None:
    view = made(Code.VIEW_CHANGE, BODIES[Code.VIEW_CHANGE])
    log = [logs.rotate(), logs.begin(1), logs.query("BEGIN"), view, logs.query("COMMIT")]
    [slice_] = logs.parsed(logs.stream(), log)
    assert isinstance(slice_, TransactionsRead)
    assert (len(slice_.transactions), slice_.tables) == (1, ())


def test_a_transaction_context_comes_before_its_gtid() -> None:
    context = made(Code.TRANSACTION_CONTEXT, BODIES[Code.TRANSACTION_CONTEXT])
    [slice_] = logs.parsed(logs.stream(), [logs.rotate(), context, *logs.transaction(1, logs.MAP, logs.ROW)])
    assert logs.images(slice_) == [(0, 0, ("orders", "INSERT", [5]))]


# -- a server's own


_ROWS: Final = ("INSERT INTO d.t (v) VALUES (1), (2)", "UPDATE d.t SET v = v + 1", "DELETE FROM d.t")
_DOCUMENTS: Final = (
    """INSERT INTO d.docs VALUES (1, '{"a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b": 1}')""",
    "UPDATE d.docs SET j = JSON_SET(j, '$.b', 2)",
)
_XA: Final = (
    *("XA START 'a'", "INSERT INTO d.xa VALUES (3)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
    *("XA START 'b'", "INSERT INTO d.xa VALUES (4)", "XA END 'b'", "XA PREPARE 'b'", "XA ROLLBACK 'b'"),
    *("XA START 'c'", "INSERT INTO d.xa VALUES (5)", "XA END 'c'", "XA COMMIT 'c' ONE PHASE"),
)
_DDL: Final = (
    "CREATE TABLE d.x (a INT)",
    "RENAME TABLE d.x TO d.y",
    "ALTER TABLE d.y ADD b INT",
    "DROP TABLE d.y",
)

# Statements, and a kind of event that comes with each.
AS_STATEMENTS: Final = {
    "INSERT INTO d.t (v) VALUES (6)": Code.INTVAR,
    "UPDATE d.t SET v = RAND() * 100": Code.RAND,
    "UPDATE d.t SET v = @n": Code.USER_VAR,
    "LOAD DATA INFILE '{file}' INTO TABLE d.t": Code.BEGIN_LOAD_QUERY,
    "LOAD DATA INFILE '{long}' INTO TABLE d.t": Code.APPEND_BLOCK,
}

# What it doesn't write: events of another version, of a debugger or of a group, made-up ones, and the rest of a LOAD
# DATA that failed.
NOT_IN_FILES: Final = {
    *("WRITE_ROWS_V1", "UPDATE_ROWS_V1", "DELETE_ROWS_V1"),
    *("INCIDENT", "IGNORABLE", "TRANSACTION_CONTEXT", "VIEW_CHANGE"),
    *("HEARTBEAT", "HEARTBEAT_V2", "DELETE_FILE"),
}


@pytest.fixture(scope="module")
def server(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    folder = tmp_path_factory.mktemp("every-event")
    (folder / "few").write_text("101\t1\n")
    (folder / "many").write_text("".join(f"{i}\t{i}\n" for i in range(1000, 40_000)))
    options = {**GTIDS, **FULL_METADATA, "secure_file_priv": str(folder)}
    with MysqlServer(parts.mysql, folder / "mysql", options) as server:
        server.sql(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
            "CREATE TABLE d.docs (id INT PRIMARY KEY, j JSON)",
            "CREATE TABLE d.xa (v INT)",
            *_ROWS,
            *_DDL,
            *_XA,
        )
        server.sql("SET binlog_transaction_compression = ON", *_ROWS)
        server.sql("SET binlog_rows_query_log_events = ON", *_ROWS)
        server.sql("SET binlog_row_value_options = PARTIAL_JSON", *_DOCUMENTS)
        server.sql("SET gtid_next = 'AUTOMATIC:tagged'", *_ROWS)
        server.sql("FLUSH BINARY LOGS", *_ROWS)
        server.stop()
        server.start()
        server.sql(
            *("SET SESSION binlog_format = 'STATEMENT'", "SET @n = 4"),
            *(text.format(file=folder / "few", long=folder / "many") for text in AS_STATEMENTS),
        )
        server.sql(
            *("SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE"),
            *("SET gtid_next = 'ANONYMOUS'", "INSERT INTO d.t (v) VALUES (8)"),
        )
        yield server


def files(server: MysqlServer) -> list[list[bytes]]:
    """The events in each of the server's binlog files."""
    [(base,)] = server.sql("SELECT @@log_bin_basename")
    names = [name for name, *_ in server.sql("SHOW BINARY LOGS")]
    return [list(events_in(Path(base).with_name(name).read_bytes())) for name in names]


def events_in(file: bytes) -> Iterator[bytes]:
    at = 4
    while at < len(file):
        size = int.from_bytes(file[at + 9 : at + 13], "little")
        event = file[at : at + size]
        # In a file that's being written the first event's flags say so, which its checksum doesn't count.
        yield event[:17] + bytes(2) + event[19:] if event[4] == Code.FORMAT_DESCRIPTION else event
        at += size


def transactions(events: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The events of each transaction."""
    found: list[list[bytes]] = []
    for event in events:
        if event[4] in (Code.GTID, Code.TAGGED_GTID, Code.ANONYMOUS_GTID):
            found.append([])
        if found and event[4] not in (Code.ROTATE, Code.STOP):
            found[-1].append(event)
    yield from found


def test_the_servers_files_have_every_kind_that_it_can_write(server: MysqlServer) -> None:
    seen = {KINDS[event[4]][0] for file in files(server) for event in file}
    known = {name for name, does in KINDS.values() if does is not Does.NOT_KNOW}
    assert seen == known - NOT_IN_FILES


def test_all_that_is_rows_or_ddl_passes(server: MysqlServer) -> None:
    first, second, *_ = files(server)
    for read in (logs.parsed, logs.folded):
        said = read(logs.stream(), [logs.rotate(), *first, *second])
        statements = [message.statement.split()[0] for message in said if isinstance(message, DdlRead)]
        assert statements == [*["CREATE"] * 5, "RENAME", "ALTER", "DROP"]
        counts = [len(m.transactions) for m in said if isinstance(m, TransactionsRead)]
        # Plain, in a payload, with the statement, with a tag, and after the rotation.
        assert sum(counts) == 5 * len(_ROWS) + len(_DOCUMENTS) + len(("a", "a", "b", "b", "c"))
        assert len(list(transactions([*first, *second]))) == sum(counts) + len(statements)
        assert rows_of(said) == {"t": 5 * (2 + 4 + 2), "xa": 2, "docs": 1 + 2}


def rows_of(said: list[LogMessage]) -> dict[str, int]:
    """How many row images there are of each table."""
    counts: dict[str, int] = {}
    for message in said:
        for _, _, (table, _, _) in logs.images(message) if isinstance(message, TransactionsRead) else ():
            counts[table] = counts.get(table, 0) + 1
    return counts


def test_statements_pass_and_leave_their_databases_tables_unread(server: MysqlServer) -> None:
    description, previous, *events = files(server)[2]
    logged = list(transactions(events))
    assert {event[4] for each in logged for event in each} >= set(AS_STATEMENTS.values())
    for each in logged:
        for read in (logs.parsed, logs.folded):
            slice_ = read(logs.stream(), [logs.rotate(), description, previous, *each])[-1]
            assert isinstance(slice_, TransactionsRead)
            assert len(slice_.transactions) == 1
            assert {name for of in slice_.unread for name in of.databases or ("d",)} == {"d"}
            assert all("binlog_format=ROW" in of.reason for of in slice_.unread)


def test_anonymous_transactions_are_refused(server: MysqlServer) -> None:
    *_, last = files(server)
    anonymous = [t for t in transactions(last) if t[0][4] == Code.ANONYMOUS_GTID]
    assert anonymous
    for read in (logs.parsed, logs.folded):
        with pytest.raises(UndecodableError, match=r"no GTID.*gtid_mode=ON.*at binlog\.000004:\d+"):
            read(logs.stream(), [logs.rotate("binlog.000004"), *last[:2], *anonymous[0]])


@pytest.mark.parametrize(("flags", "code"), [(4, Code.HEARTBEAT), (4 | 2, Code.HEARTBEAT_V2)])
def test_heartbeats_say_where_the_log_stands(
    mysql: MysqlServer, database: str, flags: int, code: Code
) -> None:
    mysql.rotate_binlog()
    mysql.sql("CREATE TABLE t (a INT)", database=database)  # is skipped, so no transaction says where it ends
    events = until(mysql, flags, code)
    [(file, offset, *_)] = mysql.sql("SHOW BINARY LOG STATUS")
    for read in (logs.parsed, logs.folded):
        *_, last = read(logs.stream("none"), events)
        assert (last.end.file, last.end.offset) == (file, offset)  # type: ignore[union-attr]


def until(server: MysqlServer, flags: int, code: Code) -> list[bytes]:
    """What the server sends of its log after all that was executed, up to the first event of this kind."""
    executed = GtidSet.parse(server.executed()).encode()
    connection: Any = server.connect()  # PyMySQL's raw commands are private, and so without types
    with closing(connection):
        connection.query("SET @source_binlog_checksum = 'CRC32', @source_heartbeat_period = 100000000")
        request = struct.pack("<HIIQI", flags, 4243, 0, 4, len(executed)) + executed
        connection._execute_command(COMMAND.COM_BINLOG_DUMP_GTID, request)
        events: list[bytes] = []
        while not events or events[-1][4] != code:
            events.append(connection._read_packet().get_all_data()[1:])
        return events
