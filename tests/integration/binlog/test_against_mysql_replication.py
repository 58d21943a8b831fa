"""The same log, read by mysql-replication and by us: the same transactions with the same rows, value by value.

What it can't give is left out: tagged GTIDs, VECTOR, SET labels in their order, and negative TIME values with a
fraction, whose fraction it adds where it has to be taken away. Forms that are its own are brought into ours (`as_our`).
"""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, timedelta
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

# Columns, and values for three rows.
COLUMNS: Final[dict[str, tuple[str, str, str]]] = {
    "ti TINYINT": ("-128", "127", "NULL"),
    "tu TINYINT UNSIGNED": ("0", "255", "1"),
    "si SMALLINT UNSIGNED": ("0", "65535", "NULL"),
    "mi MEDIUMINT": ("-8388608", "8388607", "-1"),
    "mu MEDIUMINT UNSIGNED": ("0", "16777215", "NULL"),
    "i INT": ("-2147483648", "2147483647", "0"),
    "u INT UNSIGNED": ("0", "4294967295", "7"),
    "b BIGINT": ("-9223372036854775808", "9223372036854775807", "NULL"),
    "bu BIGINT UNSIGNED": ("0", "18446744073709551615", "9223372036854775808"),
    "de DECIMAL(30,10)": ("-0.0000000001", "99999999999999999999.9999999999", "NULL"),
    "d1 DECIMAL(5,0)": ("-99999", "0", "12345"),
    "f FLOAT": ("0.1", "-3.4028234e38", "NULL"),
    "dd DOUBLE": ("0.1", "1.7976931348623157e308", "5e-324"),
    "b1 BIT(1)": ("0", "1", "NULL"),
    "b9 BIT(9)": ("0", "511", "258"),
    "y YEAR": ("1901", "2155", "NULL"),
    "da DATE": ("'1000-01-01'", "'9999-12-31'", "NULL"),
    "d0 DATETIME": ("'1000-01-01 00:00:00'", "'2024-02-29 23:59:59'", "NULL"),
    "d6 DATETIME(6)": ("'1969-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.000001'", "'2024-01-01'"),
    "ts TIMESTAMP(3) NULL": ("'1970-01-01 00:00:01.001'", "'2038-01-19 03:14:07.999'", "NULL"),
    "tm TIME": ("'-838:59:59'", "'838:59:59'", "NULL"),
    "t6 TIME(6)": ("'-01:00:00'", "'100:00:00.123456'", "NULL"),
    "c CHAR(5)": ("'ü€'", "''", "NULL"),
    "cl VARCHAR(9) CHARACTER SET latin1": ("'naïve'", "''", "'ß'"),
    "v VARCHAR(300)": ("'😀 '", "REPEAT('ä', 300)", "'\\\\'"),
    "tx MEDIUMTEXT": ("'text'", "REPEAT('x', 70000)", "NULL"),
    "vb VARBINARY(9)": ("x'00ff'", "''", "NULL"),
    "bl LONGBLOB": ("x'00ff'", "REPEAT(x'fb', 70000)", "NULL"),
    "e ENUM('a','ü')": ("'a'", "'ü'", "NULL"),
    "s SET('x','y','z')": ("'x,z'", "'y'", "NULL"),
    "j JSON": ('\'{"a": [1, -2.5, null, true, "ü"], "b": {}}\'', "'[18446744073709551615, 1e3]'", "NULL"),
    "g GEOMETRY": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 2)')", "NULL"),
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
        story.setdefault(transaction, []).append((table, kind, with_json(row)))
    return [(str(changes.transactions.gtid(transaction)), of_it) for transaction, of_it in story.items()]


def with_json(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its JSON read, since the library gives it so."""
    return {name: json.loads(v) if name == "j" and v is not None else v for name, v in row.items()}


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
                yield event.table, "INSERT", as_ours(row["values"])
            case UpdateRowsEvent():
                yield event.table, "UPDATE_BEFORE", as_ours(row["before_values"])
                yield event.table, "UPDATE_AFTER", as_ours(row["after_values"])
            case DeleteRowsEvent():
                yield event.table, "DELETE", as_ours(row["values"])


def as_ours(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value is None else as_our(name, value) for name, value in row.items()}


def as_our(name: str, value: Any) -> Any:
    """A value of theirs in our form."""
    match name:
        case "b1":
            return value == "1"
        case "b9":
            return int(value, 2).to_bytes(2, "big")
        case "ts":
            return value.replace(tzinfo=UTC)
        case "tm" | "t6":
            return value // timedelta(microseconds=1)
        case "s":
            return ",".join(sorted(value))
        case "vb":
            return value or b""
        case "j":
            return texts(value)
        case _:
            return value


def texts(value: Any) -> Any:
    """JSON whose texts are UTF-8 bytes."""
    match value:
        case bytes():
            return value.decode()
        case list():
            return [texts(each) for each in value]
        case dict():
            return {texts(name): texts(each) for name, each in value.items()}
        case _:
            return value


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
