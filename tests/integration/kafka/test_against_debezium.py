"""Our messages of a log beside those of a real Debezium that reads the same log."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords

from actors.kafka.batches import MessageBatches
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.column_rules import ColumnRule, HashAlgorithm, MessageKey
from pipeline.config.debezium.offsets import stopped_at
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.config.message_routes import TopicRoute
from pipeline.config.outbox import Missing, NullsInPayload, Outbox
from pipeline.config.secret import Secret
from pipeline.config.settings import HeaderConverterKind, KafkaSinkSettings
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Overlapping
from pipeline.gtid.gtid_set import GtidSet
from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JsonFormat
from pipeline.kafka.debezium.transactions import ChangedRows, MessageOrders
from pipeline.kafka.messages.records import NO_VALUE
from pipeline.kafka.messages.topic_records import Records
from pipeline.kafka.rows_in_step import TableRows
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, ChangePart
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Checkpoint
from tests.pipeline.builders import change_table
from tests.servers.debezium_messages import (
    PREFIX,
    LogStart,
    Message,
    debezium_messages,
    debezium_variants,
    log_end,
    printed,
)
from tests.servers.log import read_log

# What a message says of its own making.
_TIMES: Final = re.compile(r'"op":"(.)","ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+}')
_THIS_TEST_MS: Final = 1_735_000_000_000
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
        "cte_max_recursion_depth": "100000",
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
    server: MysqlServer, account: Account, start: LogStart, **form: Any
) -> dict[str, list[Message]]:  # fmt: skip
    """Our messages of the log, by topic."""
    position = GtidSet.parse(start.gtids)
    captured = TableFilter((r"shop\..*",))
    known = KnownSchemas({}, position)
    told = asyncio.run(read_log(server, account, captured, position, known, keeps_statements=True))
    settings = KafkaSinkSettings(("kafka:1",), PREFIX, **form)
    making = MessageBatches(settings)
    found: dict[str, list[Message]] = {}
    for parts in appended(told, position):
        tables = [
            TableRows(
                part.changes.schema,
                change_table(1, part, before_images=True).combine_chunks().to_batches()[0],
            )
            for part in parts
        ]
        orders = None
        if settings.provide_transaction_metadata:
            narrowed = [(of.schema.table, making.narrowed(of.schema, of.rows)) for of in tables]
            changed = ChangedRows.of(narrowed)
            orders = MessageOrders(changed)
            put(found, making.marks(changed))
        made: dict[str, list[Records]] = {}
        for of in tables:
            for records in making.records(making.rows(of, orders), 0):
                made.setdefault(records.topic, []).append(records)
        for topic, of_topic in made.items():
            messages = [message for records in of_topic for message in messages_of(records)]
            found.setdefault(topic, []).extend(messages[at] for at in sent_order(making, of_topic))
    return found


def sent_order(making: MessageBatches, parts: Sequence[Records]) -> list[int]:
    """In which order the sink sends the messages of several tables to their topic: the number of each."""
    numbered, count = list[Records](), 0
    for part in parts:
        numbers = pa.array([str(number) for number in range(count, count + len(part.keys))], pa.string())
        bare = replace(part, keys=numbers, values=numbers, headers=(), schemas=None, partitions=None)
        numbered, count = [*numbered, bare], count + len(numbers)
    order: list[int] = []
    for batch in making.batches_of([part for part in numbered if len(part.keys)], 1, 0) if count else ():
        batch.records._set_producer_state(1, 0, 0)
        read = MemoryRecords(bytes(batch.records._build())).next_batch()
        order += [int(record.key or b"") for record in read or ()]
    assert sorted(order) == list(range(count))
    return order


def appended(told: Sequence[ToWatermarkCoordinator], position: GtidSet) -> Iterator[list[ChangePart]]:
    """The changes that the journal is to take in of what the verifier says, those of a transaction together."""
    state, _ = coordinator.start(Checkpoint(position), ChunkLimits(1), Overlapping(1))
    parts: list[Any] = []
    for message in told:
        state, orders = coordinator.step(state, message)
        for order in orders:
            if isinstance(order, Append | AppendRows):
                parts += order.parts
            if isinstance(order, Append):
                yield parts
                parts = []


def put(found: dict[str, list[Message]], records: Records) -> None:
    """Put messages to those of their topic."""
    found.setdefault(records.topic, []).extend(messages_of(records))


def messages_of(records: Records) -> Iterator[Message]:
    """The messages as text."""
    headers = [(name, texts.to_pylist()) for name, texts in records.headers]
    places = [None] * len(records.keys) if records.partitions is None else records.partitions.to_pylist()
    times = [None] * len(records.keys) if records.times is None else records.times.to_pylist()
    for at, (key, value) in enumerate(zip(*printed(records), strict=True)):
        named = tuple((name, header_text(texts[at])) for name, texts in headers if texts[at] is not None)
        yield Message(records.topic, key, value, named, places[at], times[at])


def header_text(value: str | bytes) -> str | None:
    """A header's value as text, None if it has none."""
    whole = value if isinstance(value, bytes) else value.encode()
    return None if whole == NO_VALUE else whole.decode()


def _at(message: Message) -> int | None:
    """The message's time, if it isn't that of its making."""
    return message.at_ms if message.at_ms is not None and message.at_ms < _THIS_TEST_MS else None


def comparable(message: Message) -> Message:
    """The message without what differs in each run."""
    headers = tuple(header for header in message.headers if not str(header[0]).startswith(_OF_A_RUN))
    value = message.value and _VERSION.sub("", _TIMES.sub(r"\1", message.value))
    return replace(message, value=value, headers=headers, at_ms=_at(message))


def parted(one: Message, other: Message) -> object:
    """Where two messages differ first: that and what follows of each."""
    for found, expected in ((one.key, other.key), (one.value, other.value)):
        if found and expected and found != expected:
            at = next(i for i, pair in enumerate(zip_longest(found, expected)) if pair[0] != pair[1])
            return found[max(0, at - 20) : at + 60], expected[max(0, at - 20) : at + 60]
    return (one.key, one.value and one.value[:40], one.headers, one.partition), other


def compare(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path, options: Mapping[str, str],
    **form: Any,
) -> list[Message]:  # fmt: skip
    """Hold our messages against Debezium's, and return Debezium's."""
    variants: dict[str, tuple[dict[str, str], dict[str, Any]]] = {"plain": ({}, form)}
    return compare_variants(parts, server, account, start, folder, options, variants)["plain"]


def compare_variants(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path, options: Mapping[str, str],
    variants: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]], empty: re.Pattern[str] | None = None,
) -> dict[str, list[Message]]:  # fmt: skip
    """Hold our messages against Debezium's in each variant: its transformations, and our settings for them.

    `empty`: which values of Debezium's are tombstones with us.
    """
    server.sql("INSERT INTO marker.end VALUES (1)")
    said = {name: transformations for name, (transformations, _) in variants.items()}
    found = debezium_variants(parts, server, account, start, "marker.end", folder, options, said)
    differing = {}
    for name, (_, form) in variants.items():
        found[name] = [message for message in found[name] if message.topic != f"{PREFIX}.marker.end"]
        if empty is not None:
            found[name] = [
                replace(each, value=None) if each.value and empty.fullmatch(each.value) else each
                for each in found[name]
            ]
        if form.get("provide_transaction_metadata"):  # the last one is that of the marker
            assert found[name].pop().topic == f"{PREFIX}.transaction"
        differing[name] = difference(ours(server, account, start, **form), found[name])
    faults = "\n".join(f"{name}: {told}" for name, told in differing.items() if told)
    assert not faults, faults
    return found


def difference(of_ours: dict[str, list[Message]], theirs: Sequence[Message]) -> object:
    """Where our messages differ first from Debezium's, None where they don't."""
    for topic in {message.topic for message in theirs} | of_ours.keys():
        expected = [comparable(message) for message in theirs if message.topic == topic]
        found = [comparable(message) for message in of_ours.get(topic, [])]
        for one, other in zip_longest(found, expected):
            if one is None or other is None or one != other:
                return (one and other and parted(one, other)) or (topic, one, other)
    return None


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
    simple = {"headers": "simple"}, SIMPLE_HEADERS
    variants: dict[str, tuple[dict[str, str], dict[str, Any]]] = {"plain": ({}, {}), "simple": simple}
    theirs = compare_variants(parts, server, account, start, tmp_path, {}, variants)["plain"]
    assert {json.loads(m.value)["op"] for m in theirs if m.value} == set("cud")
    assert any(m.value is None for m in theirs)


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"time.precision.mode": "connect", "decimal.handling.mode": "string",
          "binary.handling.mode": "base64-url-safe", "tombstones.on.delete": "false"},
         {"time_precision_mode": TimePrecision.CONNECT, "decimal_handling_mode": DecimalHandling.STRING,
          "binary_handling_mode": BinaryHandling.BASE64_URL_SAFE, "tombstones_on_delete": False}),
        ({"time.precision.mode": "microseconds", "decimal.handling.mode": "double",
          "bigint.unsigned.handling.mode": "precise", "binary.handling.mode": "hex"},
         {"time_precision_mode": TimePrecision.MICROSECONDS, "decimal_handling_mode": DecimalHandling.DOUBLE,
          "bigint_unsigned_handling_mode": UnsignedBigintHandling.PRECISE,
          "binary_handling_mode": BinaryHandling.HEX}),
        # In Avro `make test` has it.
        pytest.param({"time.precision.mode": "isostring"}, {"time_precision_mode": TimePrecision.ISOSTRING},
                     marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_messages_are_debeziums_in_each_mode(
    parts: Parts,
    server: MysqlServer,
    account: Account,
    tmp_path: Path,
    options: dict[str, str],
    form: dict[str, Any],
) -> None:
    start = changes_of_all_kinds(server)
    compare(parts, server, account, start, tmp_path, options, **form)


@pytest.mark.full
def test_headers_without_json_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    """Keys of all types that a key may have, in the headers of updates that change them."""
    kinds = (
        "INT", "BIGINT UNSIGNED", "DECIMAL(20,9)", "DOUBLE", "BIT(10)", "DATE", "TIME(3)", "DATETIME(3)",
        "TIMESTAMP(2)", "VARCHAR(60)", "VARBINARY(10)", "ENUM('a','b''c')",
    )  # fmt: skip
    values = (
        "1", "18446744073709551615", "0.000000001", "1e16", "b'1000000011'", "'2024-02-29'", "'12:34:56.5'",
        "'2024-02-29 12:34:56.120'", "'2024-02-29 12:34:56.12'", "'q\"\\\\\\n€😀'", "x'ff00'", "'b''c'",
    )  # fmt: skip
    names = [f"c{number}" for number in range(len(kinds))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    server.sql(f"CREATE TABLE shop.kinds ({columns}, PRIMARY KEY ({', '.join(names)}))")
    start = log_end(server)
    server.sql(f"INSERT INTO shop.kinds VALUES ({', '.join(values)})", "UPDATE shop.kinds SET c0 = 2")
    modes: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "plain": ({"headers": "simple"}, {**SIMPLE_HEADERS}),
    }
    found = compare_variants(parts, server, account, start, tmp_path, {}, modes)
    assert len([header for message in found["plain"] for header in message.headers]) > 1
    connect = {"time.precision.mode": "connect", "bigint.unsigned.handling.mode": "precise"}
    form = {
        "time_precision_mode": TimePrecision.CONNECT,
        "bigint_unsigned_handling_mode": UnsignedBigintHandling.PRECISE,
    }
    modes = {"connect": ({"headers": "simple"}, {**SIMPLE_HEADERS, **form})}
    server.sql("DELETE FROM marker.end")
    compare_variants(parts, server, account, start, tmp_path, connect, modes)


def statements(compressed: str) -> list[str]:
    """Changes of tables of their own in two files of the log, in transactions that are compressed or not."""
    a, b, keyless = (f"shop.{name}_{compressed}" for name in ("a", "b", "keyless"))
    return [
        f"CREATE TABLE {a} (id INT PRIMARY KEY, v TEXT)",
        f"CREATE TABLE {b} (id INT PRIMARY KEY, v TEXT)",
        f"CREATE TABLE {keyless} (v INT)",
        "SET SESSION binlog_rows_query_log_events=ON",
        f"SET SESSION binlog_transaction_compression={compressed}",
        f"INSERT INTO {a} VALUES (1, 'x'), (2, 'ü'), (3, 'z')",
        "BEGIN",
        f"UPDATE {a} SET v = CONCAT(v, 'q')",
        f"INSERT INTO {b} /* ü */ VALUES (1, REPEAT('b', 70000))",
        f"INSERT INTO {b} SELECT id + 1, v FROM {b}",
        f"UPDATE {a} SET id = id + 10 WHERE id = 1",
        f"DELETE FROM {a} WHERE id = 2",
        f"INSERT INTO {keyless} VALUES (1), (2)",
        f"UPDATE {keyless} SET v = v + 1",
        "COMMIT",
        "FLUSH LOGS",
        "SET SESSION binlog_rows_query_log_events=OFF",
        f"INSERT INTO {a} VALUES (7, 'x')",
        "SET SESSION binlog_rows_query_log_events=ON",
    ]


def test_statements_and_places_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = log_end(server)
    server.sql(*statements("OFF"), *statements("ON"))
    options = {"include.query": "true", "provide.transaction.metadata": "true"}
    theirs = compare(parts, server, account, start, tmp_path, options, provide_transaction_metadata=True)
    values = [json.loads(message.value) for message in theirs if message.value]
    sources = [value["source"] for value in values if "source" in value]
    assert len({source["file"] for source in sources}) == 3
    assert len({source["query"] for source in sources}) == 17


def test_schemas_are_debeziums(parts: Parts, server: MysqlServer, account: Account, tmp_path: Path) -> None:
    start = changes_of_all_kinds(server)
    options = {"converter.schemas.enable": "true", "provide.transaction.metadata": "true"}
    compare(
        parts,
        server,
        account,
        start,
        tmp_path,
        options,
        provide_transaction_metadata=True,
        schemas_enable=True,
    )


def test_what_a_halted_debezium_has_not_sent_comes_behind_its_offset(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = changes_of_all_kinds(server)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options = {"offset.flush.interval.ms": "0", "max.batch.size": "1", "max.queue.size": "2"}
    sent = debezium_messages(parts, server, account, start, tmp_path, options)
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


@pytest.mark.parametrize("schemas", [pytest.param(False, marks=pytest.mark.full), True])
def test_heartbeats_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, schemas: bool
) -> None:
    start = changes_of_all_kinds(server)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options = {"heartbeat.interval.ms": "1", "converter.schemas.enable": str(schemas).lower()}
    theirs = debezium_messages(parts, server, account, start, tmp_path, options)
    found = [message for message in theirs if message.topic == f"__debezium-heartbeat.{PREFIX}"]
    assert found
    for message in found:
        [moment] = re.findall(r'"ts_ms":(\d+)', message.value or "")
        made = heartbeat(PREFIX, int(moment) * 1000, JsonFormat(schemas))
        assert (made.keys.to_pylist(), made.values.to_pylist()) == ([message.key], [message.value])


UNWRAPPED: Final = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}


def flat(mode: DeleteHandling, **more: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Debezium's options of the flat form, and ours."""
    unwrap = Unwrap(mode, **more)
    said = {"delete.tombstone.handling.mode": mode.value, "add.fields.prefix": unwrap.add_fields_prefix}
    said |= {"add.fields": ",".join(unwrap.add_fields), "add.headers": ",".join(unwrap.add_headers)}
    said |= {"route.by.field": unwrap.route_by_field} if unwrap.route_by_field is not None else {}
    options = {f"transforms.unwrap.{name}": value for name, value in said.items()}
    return {**UNWRAPPED, **options}, {"unwrap": unwrap}


@pytest.mark.parametrize("schemas", [pytest.param(False, marks=pytest.mark.full), True])
def test_flat_messages_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, schemas: bool
) -> None:
    start = changes_of_all_kinds(server)
    server.sql("TRUNCATE shop.pairs")
    added = {
        "add_fields": ("op", "table", "source.ts_ms:at", "transaction.id"),
        "add_fields_prefix": "_",
    }
    variants = {mode.value: flat(mode) for mode in DeleteHandling}
    variants |= {
        f"{mode}-added": flat(mode, **added, add_headers=("op", "db", "source.gtid"))
        for mode in DeleteHandling
    }
    form = {"schemas_enable": schemas, "skipped_operations": ("none",)}
    options = {"converter.schemas.enable": str(schemas).lower(), "skipped.operations": "none"}
    whole = {name: (said, {**more, **form}) for name, (said, more) in variants.items()}
    said, more = whole[f"{DeleteHandling.REWRITE_WITH_TOMBSTONE}-added"]
    whole["simple-headers"] = {**said, "headers": "simple"}, {**more, **SIMPLE_HEADERS}
    compare_variants(parts, server, account, start, tmp_path, options, whole, empty=_EMPTY)


# What Debezium sends instead of a tombstone in the mode `tombstone`; compaction wouldn't remove it.
_EMPTY: Final = re.compile(r'null|\{"schema":.*,"payload":null\}')


@pytest.mark.parametrize("schemas", [pytest.param(False, marks=pytest.mark.full), True])
def test_columns_keys_and_routes_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, schemas: bool
) -> None:
    server.sql(
        "CREATE TABLE shop.people (id INT PRIMARY KEY, name VARCHAR(20), mail VARCHAR(100), note TEXT,"
        " bin VARBINARY(9), born DATE, kind ENUM('a','bcd'), secret VARCHAR(9) NOT NULL,"
        " goes VARCHAR(9) NOT NULL)",
        "CREATE TABLE shop.heap (a INT NOT NULL, b VARCHAR(200), c INT, goes VARCHAR(9) NOT NULL)",
    )
    start = log_end(server)
    server.sql(
        "INSERT INTO shop.people VALUES (1, 'äöü€', 'a@b', 'long note', x'0102030405', '2000-01-02', 'bcd',"
        " 's', 'some.p'), (2, NULL, NULL, NULL, NULL, NULL, NULL, 't', 'some.p')",
        "UPDATE shop.people SET name = 'B' WHERE id = 2",
        "UPDATE shop.people SET note = 'n', goes = 'other' WHERE id = 2",
        "UPDATE shop.people SET id = 7 WHERE id = 2",
        "INSERT INTO shop.heap VALUES (1, 'x', 1, 'some.h'), (2, NULL, 2, 'some.h')",
        "BEGIN",
        "DELETE FROM shop.people WHERE id = 7",
        "UPDATE shop.heap SET c = 9",
        "UPDATE shop.people SET kind = 'a'",
        "UPDATE shop.heap SET a = a + 1",
        "UPDATE shop.people SET kind = NULL",
        "DELETE FROM shop.heap",
        "COMMIT",
    )
    hashed = "column.mask.hash.v2.SHA-256.with.salt.pepper"
    options = {
        "converter.schemas.enable": str(schemas).lower(),
        "provide.transaction.metadata": "true",
        "message.key.columns": "shop.people:name,id;shop.heap:b,a",
        "column.exclude.list": "shop.people.(secret|id)",
        "column.mask.with.3.chars": "shop.people.(kind|born)",
        hashed: "shop.people.mail",
        "column.mask.hash.SHA-512.with.salt.salt": "shop.heap.b",
        "column.truncate.to.2.chars": "shop.people.(name|note|bin)",
        "skipped.operations": "d",
    }
    columns = (
        ColumnRule((r"shop\.people\.(kind|born)",), mask_with_length=3),
        ColumnRule((r"shop\.people\.mail",), hash=HashAlgorithm.SHA_256, salt=Secret("pepper")),
        ColumnRule((r"shop\.heap\.b",), hash=HashAlgorithm.SHA_512, salt=Secret("salt"), hash_version=1),
        ColumnRule((r"shop\.people\.(name|note|bin)",), truncate_to_length=2),
    )
    keys = (
        MessageKey(TableFilter((r"shop\.people",)), ("name", "id")),
        MessageKey(TableFilter((r"shop\.heap",)), ("b", "a")),
    )
    form = {
        "schemas_enable": schemas,
        "provide_transaction_metadata": True,
        "columns": columns,
        "message_keys": keys,
        "column_exclude_list": (r"shop\.people\.(secret|id)",),
        "skipped_operations": ("d",),
    }
    routed = {
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.route.topic.regex": "(.*)[.](people|heap)",
        "transforms.route.topic.replacement": "$1.all",
    }
    renamed = {
        **routed,
        "transforms.route.key.field.name": "of",
        "transforms.route.key.field.regex": ".*[.](?<table>.*)",
        "transforms.route.key.field.replacement": "T${table}",
    }
    alone = {**routed, "transforms.route.key.enforce.uniqueness": "false"}
    route = TopicRoute("(.*)[.](people|heap)", "$1.all")
    named = replace(
        route, key_field_name="of", key_field_regex=".*[.](?<table>.*)", key_field_replacement="T${table}"
    )
    variants: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "plain": ({}, form),
        "routed": (routed, {**form, "topic_routes": (route,)}),
        "renamed": (renamed, {**form, "topic_routes": (named,)}),
        "alone": (alone, {**form, "topic_routes": (replace(route, key_enforce_uniqueness=False),)}),
    }
    for mode in (DeleteHandling.REWRITE, DeleteHandling.DELETE_TO_TOMBSTONE):
        said, unwrap = flat(mode, route_by_field="goes", add_fields=("op",), add_fields_prefix="")
        variants[f"by-field-{mode}"] = (said, {**form, **unwrap})
    compare_variants(parts, server, account, start, tmp_path, options, variants)


SIMPLE_HEADERS: Final = {"header_converter": HeaderConverterKind.SIMPLE}

EVENTS: Final = (
    (
        "1",
        "Order",
        "7",
        "Created",
        '{"a": 1, "b": [1.5, 2.5], "c": {"d": null, "é": "x"}, "e": 1e20, "f": true}',
        0,
    ),
    ("2", "Order", "7", "Changed", "plain text", 1),
    ("3", "Customer", None, "Created", "", 1),
    ("4", "Order", "8", "Gone", None, 0),
    ("5", "Customer", "9", "Listed", '{"l": [{"x": 1}, {"x": 2}]}', 1),
    ("6", "Customer", "9", "Listed", '{"empty": {}, "no": [], "text": "q\\"\\n", "big": 12345678901234}', 0),
    ("7", "Order", "7", "Constant", '{"a": NaN}', 0),
    ("8", "Order", "7", "Beyond", '{"a": 1e999, "b": [-1e999]} and more', 1),
    ("9", "Order", "7", "Deep", "[" * 1001 + "]" * 1001, 0),
)


OUTBOX: Final = "id, aggregatetype, aggregateid, type, payload, part, at"


def routed(**options: str) -> dict[str, str]:
    """Debezium's options of an outbox; `__` stands for a dot."""
    said = {f"transforms.box.{name.replace('__', '.')}": value for name, value in options.items()}
    return {"transforms": "box", "transforms.box.type": "io.debezium.transforms.outbox.EventRouter", **said}


@pytest.mark.parametrize("schemas", [pytest.param(False, marks=pytest.mark.full), True])
def test_events_of_an_outbox_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, schemas: bool
) -> None:
    server.sql(
        "CREATE TABLE shop.outbox (id CHAR(9) PRIMARY KEY, aggregatetype VARCHAR(20) NOT NULL, aggregateid VARCHAR(20),"
        " type VARCHAR(20), payload TEXT, part INT NOT NULL, at DATETIME(3),"
        " version INT AS (LENGTH(aggregatetype)) STORED)"
    )
    start = log_end(server)
    quoted = (
        "NULL" if value is None else "'" + str(value).replace("\\", "\\\\") + "'"
        for row in EVENTS
        for value in row
    )
    rows = zip(*[iter(quoted)] * 6, strict=True)
    server.sql(
        *(
            f"INSERT INTO shop.outbox ({OUTBOX}) VALUES ({', '.join(row)}, '2024-05-06 07:08:09.123')"
            for row in rows
        ),
        "UPDATE shop.outbox SET part = 0 WHERE id = '2'",
        "DELETE FROM shop.outbox",
    )
    tables = TableFilter((r"shop\.outbox",))
    # An envelope's schema has the name of the first event's route with Debezium, and of its own route with us.
    enveloped = () if schemas else ("part:envelope:where", "at:envelope")
    placed = ("type:header:eventType", *enveloped, "aggregatetype:header")
    in_headers = ("type:header:eventType", "payload:header", "aggregateid:header", "part:header", "at:header")
    variants = {
        "plain": (routed(), Outbox(tables)),
        "placed": (
            routed(table__fields__additional__placement=",".join(placed)),
            Outbox(tables, table_fields_additional_placement=placed),
        ),
        "headers": (
            routed(table__fields__additional__placement=",".join(in_headers)),
            Outbox(tables, table_fields_additional_placement=in_headers),
        ),
        # All events of a version go to the same place here.
        "versions": (
            routed(
                table__fields__additional__placement="part:envelope",
                table__field__event__schema__version="version",
            ),
            Outbox(
                tables, table_fields_additional_placement=("part:envelope",),
                table_field_event_schema_version="version",
            ),
        ),
        "tombstones": (
            routed(
                route__tombstone__on__empty__payload="true", table__field__event__key="type",
                table__fields__additional__placement="part:partition,none:header",
                table__field__additional__missing="ignore", table__field__event__timestamp="at",
                route__topic__regex="(Or)(.*)", route__topic__replacement="$2.$1",
            ),
            Outbox(
                tables, route_tombstone_on_empty_payload=True, table_field_event_key="type",
                table_fields_additional_placement=("part:partition", "none:header"),
                table_field_additional_missing=Missing.IGNORE, table_field_event_timestamp="at",
                route_topic_regex="(Or)(.*)", route_topic_replacement="$2.$1",
            ),
        ),
    }  # fmt: skip
    if not schemas:
        nulls = NullsInPayload.OPTIONAL_BYTES
        expanding = Outbox(tables, table_expand_json_payload=True)
        variants |= {
            "expanded": (routed(table__expand__json__payload="true"), expanding),
            "nulls": (
                routed(table__expand__json__payload="true", table__json__payload__null__behavior=nulls.value),
                replace(expanding, table_json_payload_null_behavior=nulls),
            ),
        }
    options = {"converter.schemas.enable": str(schemas).lower()}
    whole = {
        name: (said, {"schemas_enable": schemas, "outboxes": (box,)})
        for name, (said, box) in variants.items()
    }
    said, form = whole["headers"]
    whole["simple-headers"] = {**said, "headers": "simple"}, {**form, **SIMPLE_HEADERS}
    theirs = compare_variants(parts, server, account, start, tmp_path, options, whole)
    assert {message.partition for message in theirs["tombstones"]} == {0, 1}
