"""Our messages of a log beside those of a real Debezium that reads the same log."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.debezium_offsets import stopped_at
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import change_table
from pipeline.kafka.envelope import Envelope, SourceBlock
from pipeline.kafka.heartbeat import heartbeat
from pipeline.kafka.transactions import (
    ChangedRows,
    MessageOrders,
    TransactionBlocks,
    transaction_messages,
)
from pipeline.messages.changes import ChangesVerified
from pipeline.messages.journal import ChangePart
from pipeline.messages.row_images import TableChanges
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_messages, log_end
from tests.servers.log import read_log

# What a message says of its own making.
_TIMES: Final = re.compile(r'"op":"(.)","ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+}')
_VERSION: Final = re.compile(r'"version":"[^"]*"')
_OF_A_RUN: Final = "__debezium.context."

TYPES: Final = """
    id INT PRIMARY KEY, b TINYINT(1), ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, su SMALLINT UNSIGNED,
    mi MEDIUMINT, mu MEDIUMINT UNSIGNED, iu INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, dc DECIMAL(10,3),
    dz DECIMAL(5,0), ds DECIMAL(20,18), dl DECIMAL(65,30), fl FLOAT, db DOUBLE, b1 BIT(1), b10 BIT(10), y YEAR,
    d DATE, tm TIME, tm3 TIME(3), tm6 TIME(6), dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL,
    ts2 TIMESTAMP(2) NULL, ts6 TIMESTAMP(6) NULL, c CHAR(5), vc VARCHAR(60), l1 VARCHAR(9) CHARACTER SET latin1,
    tx TEXT, bin BINARY(4), vb VARBINARY(10), bl BLOB, en ENUM('a','b''c'), se SET('x','y','z'), js JSON, g GEOMETRY,
    ve VECTOR(3), nn INT NOT NULL, nd DATE NOT NULL, `q"uote €` INT
"""
ROWS: Final = (
    """1, 1, -5, 250, -3, 65000, -8000000, 16000000, 4000000000, -9223372036854775808, 18446744073709551615,
    1234567.891, -12345, 0.000000000000000001, '12345678901234567890123456789012345.123456789012345678901234567890',
    1.1, 1e16, 1, b'1000000011', 2024, '2024-02-29', '12:34:56', '-101:59:59.5', '00:00:00.000001',
    '2024-02-29 12:34:56', '2024-02-29 12:34:56.120', '1969-12-31 23:59:59.123456', '2024-02-29 12:34:56',
    '2024-02-29 12:34:56.12', '2024-02-29 12:34:56.120000', 'ab', 'q"\\\\\\n\\t\\r\\0\\Z /', 'äöü', 'ü€😀', x'0102',
    x'ff00', 'blöb', 'b''c', 'x,z', '["ü"]', ST_GeomFromText('LINESTRING(0 0,1 2)'),
    TO_VECTOR('[1,2.5,-3e-10]'), 3, '2024-01-01', 1""",
    """2, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.001, 0, -1.5, '-0.000000000000000000000000000001', -0.0, -123456.789, 0,
    b'0', 1901,
    '1000-01-01', '00:00:00', '23:59:59.999', '838:59:59', '1000-01-01 00:00:00', '9999-12-31 23:59:59.999',
    '2024-02-29 00:00:00.100000', '1970-01-01 00:00:01', '2038-01-19 03:14:07.99', '2024-02-29 12:34:56', '', '', '',
    '', x'', x'', '', '', '', 'null', ST_GeomFromText('POINT(1 2)', 4326), TO_VECTOR('[0]'), -1,
    '1970-01-01', NULL""",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server whose clock is UTC."""
    options = {
        **SMALL_AND_QUICK,
        **GTIDS,
        **FULL_METADATA,
        "default_time_zone": "+00:00",
        "sql_mode": "NO_ENGINE_SUBSTITUTION",
    }
    with MysqlServer(parts.mysql, tmp_path_factory.mktemp("kafka"), options) as server:
        server.sql("CREATE DATABASE marker", "CREATE TABLE marker.end (id INT PRIMARY KEY)")
        yield server


@pytest.fixture
def account(server: MysqlServer) -> Iterator[Account]:
    server.sql("CREATE DATABASE shop")
    yield server.create_capture_user("shop", "marker")
    server.sql("DROP DATABASE shop", "DELETE FROM marker.end")


def ours(
    server: MysqlServer, account: Account, start: LogStart, transactions: bool = False, **form: object
) -> dict[str, list[Message]]:
    """Our messages of the log, by topic; with `transactions` those of transactions as well."""
    position = GtidSet.parse(start.gtids)
    captured = TableFilter((r"shop\..*",))
    known = KnownSchemas({}, position)
    told = asyncio.run(read_log(server, account, captured, position, known, keeps_statements=True))
    found: dict[str, list[Message]] = {}
    scn = 1
    for each in told:
        if not isinstance(each, ChangesVerified):
            continue
        parts = [ChangePart(changes, each.transactions, scn) for changes in each.tables]
        rows = [change_table(1, part, before_images=True).combine_chunks().to_batches()[0] for part in parts]
        blocks: Sequence[TransactionBlocks | None] = [None] * len(rows)
        if transactions:
            blocks = of_transactions(each.tables, rows, found, schemas=bool(form.get("schemas")))
        for changes, of_table, block in zip(each.tables, rows, blocks, strict=True):
            envelope = Envelope(changes.schema, PREFIX, "0", **{"handling": Handling(), **form})  # type: ignore[arg-type]
            found.setdefault(f"{PREFIX}.{changes.schema.table}", []).extend(made(envelope, of_table, block))
        scn += len(each.transactions)
    return found


def of_transactions(
    tables: Sequence[TableChanges],
    batches: Sequence[pa.RecordBatch],
    found: dict[str, list[Message]],
    *,
    schemas: bool,
) -> Sequence[TransactionBlocks]:
    """The blocks of the rows of each table; what the transactions begin and end with is put into `found`."""
    changed = ChangedRows.of([(each.schema.table, rows) for each, rows in zip(tables, batches, strict=True)])
    messages = transaction_messages(changed, schemas=schemas)
    found.setdefault(f"{PREFIX}.transaction", []).extend(
        Message(f"{PREFIX}.transaction", key, value, ())
        for key, value in zip(messages.keys.to_pylist(), messages.values.to_pylist(), strict=True)
    )
    orders = MessageOrders(changed)
    return [orders.blocks(each.schema.table, rows) for each, rows in zip(tables, batches, strict=True)]


def made(
    envelope: Envelope, rows: pa.RecordBatch, transactions: TransactionBlocks | None = None
) -> list[Message]:
    """The messages of these rows."""
    messages = envelope.messages(rows, SourceBlock.of(rows, 0), 0, transactions)
    headers = zip(messages.new_keys.to_pylist(), messages.old_keys.to_pylist(), strict=True)
    names = ("__debezium.newkey", "__debezium.oldkey")
    return [
        Message(
            f"{envelope.prefix}.{envelope.schema.table}", key, value,
            tuple((name, text) for name, text in zip(names, texts, strict=True) if text is not None),
        )
        for key, value, texts in zip(messages.keys.to_pylist(), messages.values.to_pylist(), headers, strict=True)
    ]  # fmt: skip


def comparable(message: Message) -> Message:
    """The message without what differs in each run."""
    headers = tuple(header for header in message.headers if not str(header[0]).startswith(_OF_A_RUN))
    value = message.value and _VERSION.sub("", _TIMES.sub(r"\1", message.value))
    return replace(message, value=value, headers=headers)


def parted(one: Message, other: Message) -> tuple[object, object]:
    """Where two messages differ first: that and what follows of each."""
    for found, expected in ((one.key, other.key), (one.value, other.value)):
        if found and expected and found != expected:
            at = next(i for i, pair in enumerate(zip_longest(found, expected)) if pair[0] != pair[1])
            return found[max(0, at - 20) : at + 60], expected[max(0, at - 20) : at + 60]
    return one, other


def compare(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path, options: Mapping[str, str],
    *, transactions: bool = False, **form: object,
) -> list[Message]:  # fmt: skip
    """Hold our messages against Debezium's, and return Debezium's."""
    server.sql("INSERT INTO marker.end VALUES (1)")
    theirs = debezium_messages(parts, server, account, start, "marker.end", folder, options)[:-1]
    if transactions:  # the last one is that of the marker
        assert theirs.pop().topic == f"{PREFIX}.transaction"
    of_ours = ours(server, account, start, transactions, **form)
    for topic in {message.topic for message in theirs}:
        expected = [comparable(message) for message in theirs if message.topic == topic]
        found = [comparable(message) for message in of_ours.pop(topic)]
        differing = ((one, other) for one, other in zip(found, expected, strict=True) if one != other)
        assert next((parted(one, other) for one, other in differing), None) is None
    assert of_ours == {}
    return theirs


def changes_of_all_kinds(server: MysqlServer) -> LogStart:
    """Rows of all types, and each kind of change; returns where the log stood before."""
    server.sql(
        f"CREATE TABLE shop.types ({TYPES})",
        "CREATE TABLE shop.pairs (a INT, b VARCHAR(10), v INT, PRIMARY KEY (b, a))",
        "CREATE TABLE shop.keyless (a INT)",
    )
    start = log_end(server)
    server.sql(
        *(f"INSERT INTO shop.types VALUES ({row})" for row in ROWS),
        "INSERT INTO shop.types (id, nn, nd) VALUES (3, 0, '2000-01-01')",
        "UPDATE shop.types SET vc = 'x' WHERE id = 3",
        "UPDATE shop.types SET id = 4 WHERE id = 3",
        "INSERT INTO shop.pairs VALUES (1, 'x', 1), (2, 'y', 1)",
        "BEGIN",
        "UPDATE shop.pairs SET v = 2",
        "UPDATE shop.pairs SET a = a + 10, v = 3 WHERE a = 2",
        "DELETE FROM shop.pairs WHERE a = 1",
        "COMMIT",
        "DELETE FROM shop.types WHERE id = 4",
    )
    return start


def test_messages_are_debeziums(parts: Parts, server: MysqlServer, account: Account, tmp_path: Path) -> None:
    start = changes_of_all_kinds(server)
    theirs = compare(parts, server, account, start, tmp_path, {})
    assert {json.loads(m.value)["op"] for m in theirs if m.value} == set("cud")
    assert any(m.value is None for m in theirs)


@pytest.mark.parametrize(
    ("options", "handling"),
    [
        ({"time.precision.mode": "connect", "decimal.handling.mode": "string"},
         Handling(time=TimePrecision.CONNECT, decimal=DecimalHandling.STRING)),
        ({"time.precision.mode": "isostring", "decimal.handling.mode": "double"},
         Handling(time=TimePrecision.ISOSTRING, decimal=DecimalHandling.DOUBLE)),
        ({"time.precision.mode": "microseconds", "bigint.unsigned.handling.mode": "precise",
          "binary.handling.mode": "hex"},
         Handling(time=TimePrecision.MICROSECONDS, unsigned_bigint=UnsignedBigintHandling.PRECISE,
                  binary=BinaryHandling.HEX)),
        ({"binary.handling.mode": "base64-url-safe", "tombstones.on.delete": "false"},
         Handling(binary=BinaryHandling.BASE64_URL_SAFE)),
    ],
)  # fmt: skip
def test_messages_are_debeziums_in_each_mode(
    parts: Parts,
    server: MysqlServer,
    account: Account,
    tmp_path: Path,
    options: dict[str, str],
    handling: Handling,
) -> None:
    start = changes_of_all_kinds(server)
    tombstones = options.get("tombstones.on.delete") != "false"
    compare(parts, server, account, start, tmp_path, options, handling=handling, tombstones=tombstones)


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_statements_and_places_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, compressed: str
) -> None:
    server.sql(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE shop.b (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE shop.keyless (v INT)",
    )
    start = log_end(server)
    server.sql(
        "SET SESSION binlog_rows_query_log_events=ON",
        f"SET SESSION binlog_transaction_compression={compressed}",
        "INSERT INTO shop.a VALUES (1, 'x'), (2, 'ü'), (3, 'z')",
        "BEGIN",
        "UPDATE shop.a SET v = CONCAT(v, 'q')",
        "INSERT INTO shop.b /* ü */ VALUES (1, REPEAT('b', 70000))",
        "INSERT INTO shop.b SELECT id + 1, v FROM shop.b",
        "UPDATE shop.a SET id = id + 10 WHERE id = 1",
        "DELETE FROM shop.a WHERE id = 2",
        "INSERT INTO shop.keyless VALUES (1), (2)",
        "UPDATE shop.keyless SET v = v + 1",
        "COMMIT",
        "FLUSH LOGS",
        "SET SESSION binlog_rows_query_log_events=OFF",
        "INSERT INTO shop.a VALUES (7, 'x')",
        "SET SESSION binlog_rows_query_log_events=ON",
    )
    options = {"include.query": "true", "provide.transaction.metadata": "true"}
    theirs = compare(parts, server, account, start, tmp_path, options, transactions=True)
    values = [json.loads(message.value) for message in theirs if message.value]
    sources = [value["source"] for value in values if "source" in value]
    assert len({source["file"] for source in sources}) == 2
    assert len({source["query"] for source in sources}) == 9


def test_schemas_are_debeziums(parts: Parts, server: MysqlServer, account: Account, tmp_path: Path) -> None:
    start = changes_of_all_kinds(server)
    options = {"converter.schemas.enable": "true", "provide.transaction.metadata": "true"}
    compare(parts, server, account, start, tmp_path, options, transactions=True, schemas=True)


def test_what_a_halted_debezium_has_not_sent_comes_behind_its_offset(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = changes_of_all_kinds(server)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options = {"offset.flush.interval.ms": "0", "max.batch.size": "1", "max.queue.size": "2"}
    sent = debezium_messages(parts, server, account, start, "marker.end", tmp_path, options)
    server.sql("INSERT INTO shop.pairs VALUES (7, 'z', 1)", "DELETE FROM shop.pairs")
    stopped = stopped_at((tmp_path / "offsets").read_bytes(), PREFIX)
    begun = GtidSet.parse(start.gtids)
    assert begun <= stopped and begun != stopped
    later = ours(server, account, replace(start, gtids=str(stopped)))
    for topic, whole in ours(server, account, start).items():
        told = [comparable(message) for message in whole]
        before = [comparable(message) for message in sent if message.topic == topic]
        after = [comparable(message) for message in later.get(topic, [])]
        assert before == told[: len(before)]
        assert after == told[len(told) - len(after) :]
        assert len(before) + len(after) >= len(told)


@pytest.mark.parametrize("schemas", [False, True])
def test_heartbeats_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, schemas: bool
) -> None:
    start = changes_of_all_kinds(server)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options = {"heartbeat.interval.ms": "1", "converter.schemas.enable": str(schemas).lower()}
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path, options)
    found = [message for message in theirs if message.topic == f"__debezium-heartbeat.{PREFIX}"]
    assert found
    for message in found:
        [moment] = re.findall(r'"ts_ms":(\d+)', message.value or "")
        assert heartbeat(PREFIX, int(moment) * 1000, schemas=schemas) == (message.key, message.value)
