"""The messages of our schema-change topic beside those of a real Debezium that reads the same log."""

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from actors.kafka.batches import MessageBatches
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.coordinator.handle_schemas import statement_parts
from pipeline.gtid.gtid_set import GtidSet
from pipeline.kafka.messages.topic_records import Records
from pipeline.messages.changes import ChangesVerified, SchemaChanged
from pipeline.messages.journal import StatementPart
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from tests.servers.debezium_messages import PREFIX, LogStart, debezium_variants, log_end, printed
from tests.servers.log import read_log

# All that Debezium tells, in the order of its own messages; then what it doesn't.
STATEMENTS: Final = (
    "USE shop",
    "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) NOT NULL DEFAULT 'ü;,', e ENUM('x','y'))",
    "/* a job's */ ALTER TABLE a ADD COLUMN z INT NOT NULL DEFAULT 7 /* its end */",
    "ALTER TABLE shop.a ADD INDEX i (v), ALGORITHM=INPLACE",
    "CREATE INDEX i2 ON a (z)",
    "DROP INDEX i2 ON a",
    "CREATE TABLE like_a LIKE a",
    "CREATE TABLE `q``uote €` (k INT NOT NULL UNIQUE, x DOUBLE)",
    "ALTER TABLE `q``uote €` RENAME TO named",
    "INSERT INTO a (v) VALUES ('x')",
    "RENAME TABLE a TO b",
    "RENAME TABLE b TO c, /* and */ named TO named2",
    "ALTER TABLE c RENAME TO d, ADD y INT",
    "CREATE TABLE filled AS SELECT id AS one FROM d",
    "USE mysql",
    "ALTER TABLE shop.d DROP COLUMN y",
    "CREATE INDEX i3 ON shop.d (z)",  # OF_OTHER_DATABASE
    "CREATE DATABASE shop2 CHARACTER SET latin1",
    "ALTER DATABASE shop2 CHARACTER SET utf8mb4",
    "CREATE TABLE shop2.t (id INT PRIMARY KEY)",
    "RENAME TABLE shop2.t TO shop.t",
    "ALTER TABLE shop.t RENAME shop2.t",
    "DROP TABLE shop2.t",
    "DROP DATABASE shop2",
    "USE shop",
    "DROP TABLE like_a, filled, named2",
    "DROP TABLE IF EXISTS nothere",
    "TRUNCATE TABLE d",
    "CREATE TEMPORARY TABLE hidden (x INT)",
    "DROP TEMPORARY TABLE hidden",
    "CREATE VIEW seen AS SELECT id FROM d",
    "DROP VIEW seen",
    "CREATE PROCEDURE p() SELECT 1",
    "DROP PROCEDURE p",
    "CREATE TRIGGER t BEFORE INSERT ON d FOR EACH ROW SET NEW.v = 'z'",
    "DROP TRIGGER t",
    "CREATE USER x IDENTIFIED BY 'secret'",
    "GRANT SELECT ON shop.d TO x",
    "SET PASSWORD FOR x = 'secret'",
    "DROP USER x",
    "ANALYZE TABLE d",
    "OPTIMIZE TABLE d",
    "CREATE DATABASE elsewhere",
    "CREATE TABLE elsewhere.a (id INT PRIMARY KEY)",
    "DROP TABLE elsewhere.a",
    "DROP DATABASE elsewhere",
    "DROP TABLE d",
)
OF_OTHER_DATABASE: Final = "CREATE INDEX i3 ON shop.d (z)"
CAPTURED: Final = TableFilter((r"shop2?\..*",))
OPTIONS: Final = {"include.schema.changes": "true", "table.include.list": r"shop2?\..*,marker\..*"}

Told = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def server(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    options = {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA, "default_time_zone": "+00:00"}
    with MysqlServer(parts.mysql, tmp_path_factory.mktemp("schema_changes"), options) as server:
        server.sql("CREATE DATABASE marker", "CREATE TABLE marker.end (id INT PRIMARY KEY)")
        yield server


@pytest.fixture
def account(server: MysqlServer) -> Iterator[Account]:
    server.sql("CREATE DATABASE shop")
    yield server.create_capture_user("shop", "marker")
    server.sql("DROP DATABASE shop", "DELETE FROM marker.end")


def ours(server: MysqlServer, account: Account, start: LogStart, **form: Any) -> Records:
    """Our messages of the statements in the log."""
    position = GtidSet.parse(start.gtids)
    told = asyncio.run(
        read_log(server, account, CAPTURED, position, KnownSchemas({}, position), keeps=CAPTURED)
    )
    scn = 1
    found: list[StatementPart] = []
    for each in told:
        found += statement_parts(scn, each)
        match each:
            case ChangesVerified(transactions=run):
                scn += len(run)
            case SchemaChanged():
                scn += 1
    scns = [part.scn for part in found]
    assert scns == sorted(scns)
    return MessageBatches(KafkaSinkSettings(("kafka:1",), PREFIX, **form)).schema_changes(found, 0)


def messages_of_both(
    parts: Parts, server: MysqlServer, account: Account, folder: Path, variant: dict[str, str],
    options: dict[str, str], **form: Any,
) -> tuple[list[tuple[str | None, str | None]], list[tuple[str | None, str | None]]]:  # fmt: skip
    """Keys and values of us and of Debezium, which also tells its own start and tables that aren't captured."""
    start = log_end(server)
    server.sql(*STATEMENTS, "INSERT INTO marker.end VALUES (1)")
    found = debezium_variants(
        parts, server, account, start, "marker.end", folder, OPTIONS | options, {"plain": variant}
    )["plain"]
    theirs = [message for message in found if message.topic == PREFIX]
    assert {message.partition for message in theirs} == {0}
    records = ours(server, account, start, **form)
    assert records.topic == PREFIX
    assert records.partitions is not None and set(records.partitions.to_pylist()) == {0}
    return list(zip(*printed(records), strict=True)), [(each.key, each.value) for each in theirs]


def comparable(value: dict[str, Any], database: str) -> dict[str, Any]:
    """A value without the differences that `docs/kafka.md` lists, and without what differs in each run."""
    named = value["source"]["table"]
    changes = [each for each in value["tableChanges"] if each["type"] == "DROP"]
    source = {**value["source"], "version": "", "table": named and sorted(named.split(","))}
    if value["ddl"] == OF_OTHER_DATABASE:
        value, source = {**value, "databaseName": database}, {**source, "db": database}
    told = {f"source.{name}": each for name, each in source.items()}
    return {**value, **told, "source": list(source), "ts_ms": 0, "tableChanges": changes}


def assert_equal(mine: Sequence[Told], theirs: Sequence[Told]) -> None:
    """Hold keys and values against Debezium's."""
    streamed = [each for each in theirs if each[1]["source"]["snapshot"] == "false"]
    expected = [each for each in streamed if each[1]["databaseName"] != "elsewhere"]
    assert len(streamed) == len(expected) + 4
    assert [value["ddl"] for _, value in mine] == [value["ddl"] for _, value in expected]
    for (key, value), (their_key, their_value) in zip(mine, expected, strict=True):
        database = value["databaseName"]
        if value["ddl"] == OF_OTHER_DATABASE:
            assert their_key == {"databaseName": "mysql"}
        else:
            assert key == their_key
        wanted = comparable(their_value, database)
        differing = {
            name: (found, wanted[name])
            for name, found in comparable(value, database).items()
            if found != wanted[name]
        }
        if value["ddl"].endswith("START TRANSACTION"):
            assert differing.pop("source.thread")[0] is None
        assert not differing, value["ddl"]
        assert list(value) == list(their_value)


@pytest.mark.parametrize("enabled", [True, pytest.param(False, marks=pytest.mark.full)])
def test_messages_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, enabled: bool
) -> None:
    options = {"converter.schemas.enable": str(enabled).lower()}
    mine, theirs = messages_of_both(parts, server, account, tmp_path, {}, options, schemas_enable=enabled)
    read = [
        [(json.loads(str(key)), json.loads(str(value))) for key, value in each] for each in (mine, theirs)
    ]
    if enabled:
        (schemas,) = {json.dumps([key["schema"], value["schema"]]) for key, value in read[0]}
        assert {json.dumps([key["schema"], value["schema"]]) for key, value in read[1]} == {schemas}
        read = [[(key["payload"], value["payload"]) for key, value in each] for each in read]
    assert_equal(*read)


def test_avro_is_debeziums(parts: Parts, server: MysqlServer, account: Account, tmp_path: Path) -> None:
    mine, theirs = messages_of_both(
        parts, server, account, tmp_path, {"converter": "avro"},
        {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"},
        converter=ConverterKind.AVRO, schema_registry_url="http://registry:1",
    )  # fmt: skip
    (schemas,) = {tuple(str(each).split("\n")[0] for each in message) for message in mine}
    assert {tuple(str(each).split("\n")[0] for each in message) for message in theirs} == {schemas}
    assert_equal(*([(of_avro(key), of_avro(value)) for key, value in each] for each in (mine, theirs)))


def of_avro(message: str | None) -> dict[str, Any]:
    """What a schema's text and a message in base64 say."""
    schema, _, content = str(message).partition("\n")
    with BytesIO(base64.b64decode(content)) as stream:
        read = fastavro.schemaless_reader(stream, json.loads(schema), None)
    assert isinstance(read, dict)
    return read
