"""The same log, read by mysql-replication and by us: the same transactions with the same rows.

What it can't give is left out: tagged GTIDs.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.constants import BINLOG, FIELD_TYPE
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.binlog.event_type import Code
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ChangesVerified
from pipeline.messages.row_images import ImageKind
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.types.field_types import FieldType
from tests.servers.log import read_log
from tests.servers.mysql import MysqlFactory

SHOP: Final = TableFilter((r"shop\..*",))

# A transaction's GTID, and what each row image in it is: its table, its kind, its values by column.
Story = list[tuple[str, list[tuple[str, str, dict[str, Any]]]]]

# Columns, and values for three rows; all types' are in test_value_conformance.py.
COLUMNS: Final[dict[str, tuple[str, str, str]]] = {
    "u INT UNSIGNED": ("0", "4294967295", "7"),
    "de DECIMAL(30,10)": ("-0.0000000001", "99999999999999999999.9999999999", "NULL"),
    "d6 DATETIME(6)": ("'1969-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.000001'", "'2024-01-01'"),
    "v VARCHAR(300)": ("'😀 '", "REPEAT('ä', 300)", "'\\\\'"),
    "e ENUM('a','ü')": ("'a'", "'ü'", "NULL"),
}
NAMES: Final = [column.split()[0] for column in COLUMNS]


def write(server: MysqlServer) -> None:
    """The history that both read: inserts, updates of values and keys, deletes, over two tables and two files."""
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.other (id INT PRIMARY KEY, v VARCHAR(9))")
    server.sql(f"CREATE TABLE shop.t (id INT PRIMARY KEY, {', '.join(COLUMNS)})")
    rows = [f"({n}, {', '.join(values)})" for n, values in enumerate(zip(*COLUMNS.values(), strict=True))]
    server.sql(
        "SET time_zone = '+00:00'",
        f"INSERT INTO t VALUES {', '.join(rows)}",
        "BEGIN",
        "INSERT INTO other VALUES (1, 'a'), (2, NULL)",
        f"UPDATE t SET {', '.join(f'{name} = NULL' for name in NAMES)} WHERE id = 1",
        "UPDATE other SET id = id + 10",
        "DELETE FROM t WHERE id = 2",
        "COMMIT",
        "FLUSH BINARY LOGS",
        "ALTER TABLE other ADD w INT FIRST",
        "UPDATE other SET w = 5",
        "DELETE FROM other",
        "DELETE FROM t",
        database="shop",
    )


async def ours(server: MysqlServer, position: GtidSet) -> Story:
    """Returns what BinlogDump, LogStream and SchemaVerifier make of the log after the position."""
    account = server.create_capture_user("shop")
    told = await read_log(server, account, SHOP, position, KnownSchemas({}, GtidSet()))
    return [each for changes in told if isinstance(changes, ChangesVerified) for each in images(changes)]


def images(changes: ChangesVerified) -> Story:
    """The images of a slice in their order, for each transaction that has any."""
    found = sorted(
        (image["transaction"], image["ordinal"], table.schema.table.name, ImageKind(image["kind"]).name, row)
        for table in changes.tables
        for image, row in zip(table.images.to_pylist(), table.rows.to_pylist(), strict=True)
    )
    story: dict[int, list[tuple[str, str, dict[str, Any]]]] = {}
    for transaction, _, table, kind, row in found:
        story.setdefault(transaction, []).append((table, kind, row))
    return [(str(changes.transactions.gtid(transaction)), of_it) for transaction, of_it in story.items()]


def theirs(server: MysqlServer, position: GtidSet) -> Story:
    """What mysql-replication makes of it, in our forms."""
    account = server.create_capture_user("shop")
    reader = BinLogStreamReader(
        {"host": server.host, "port": server.port, "user": account.user, "password": account.password},
        server_id=8,
        auto_position=str(position),
        only_events=[GtidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=["shop"],
        enable_logging=False,
    )
    story: Story = []
    with closing(reader):
        for event in reader:
            if isinstance(event, GtidEvent):
                story.append((event.gtid.lower(), []))
            else:
                story[-1][1].extend(told(event))
    return [(gtid, of_it) for gtid, of_it in story if of_it]


def told(
    event: WriteRowsEvent | UpdateRowsEvent | DeleteRowsEvent,
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The images of a rows event."""
    for row in event.rows:
        match event:
            case WriteRowsEvent():
                yield event.table, "INSERT", row["values"]
            case UpdateRowsEvent():
                yield event.table, "UPDATE_BEFORE", row["before_values"]
                yield event.table, "UPDATE_AFTER", row["after_values"]
            case DeleteRowsEvent():
                yield event.table, "DELETE", row["values"]


@pytest.mark.filterwarnings("ignore:.db. is deprecated:DeprecationWarning")  # by the library itself
async def test_the_same_log_is_the_same_story(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.create_capture_user("shop")  # an empty position would be none at all for the library
    position = GtidSet.parse(server.executed())
    write(server)
    story = await ours(server, position)
    assert sum(len(of_it) for _, of_it in story) == 20
    assert story == theirs(server, position)


def test_the_codes_of_events_are_theirs() -> None:
    named = {
        name.replace("_EVENT", "").replace("_LOG", "").replace("_V2", ""): code
        for name, code in vars(BINLOG).items()
        if name.isupper()
    }
    assert {code.name for code in Code if code.name not in named} == {
        "TRANSACTION_CONTEXT",
        "VIEW_CHANGE",
        "TRANSACTION_PAYLOAD",
        "HEARTBEAT_V2",
        "TAGGED_GTID",
    }
    assert all(named[code.name] == code for code in Code if code.name in named)


def test_the_codes_of_types_are_theirs() -> None:
    named = vars(FIELD_TYPE)
    assert [kind.name for kind in FieldType if kind.name not in named] == ["VECTOR"]
    assert all(named[kind.name] == kind for kind in FieldType if kind.name in named)
