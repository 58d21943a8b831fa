"""Types by rule, on a real Spark: what each reader sees, a value that is refused, and a table that begins again.

The second test has a real source too: the lake equals it, by the server's own functions and by `tidemark verify`.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.service.live_view_text import live_view_text
from deploy.demo.service import Service
from deploy.demo.tamper import tamper_with_column
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.errors import Definite
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types import column_types as t
from tests.integration.history import FILLING, READY, Row, Table
from tests.integration.lake.test_lake import Delivery, schema
from tests.servers.duckdb_engine import engine
from tests.servers.service_process import configuration, delivered, tidemark, until
from tests.servers.spark import start_quickly

# A name that Delta maps to another one, so that the parts of a geometry have other names in files too.
PLACE = "the place"
DEVICES = schema(
    "devices",
    Column("id", t.FixedBinary(16), False),
    Column("seen", t.Integer(8, unsigned=True), True),
    Column("on", t.Integer(1, unsigned=False), True),
    Column("at", t.Time(3), True),
    Column(PLACE, t.Geometry(), True),
    Column("changed", t.Integer(8, unsigned=True), True),
)


def rule(columns: str, type_: LakeType) -> LakeTypeRule:
    return LakeTypeRule(TableFilter(("shop\\.devices",)), (columns,), type_)


RULES = (
    rule("ID", LakeType.UUID),
    rule("changed", LakeType.DEFAULT),
    rule(".*", LakeType.LONG),
    rule("on|off", LakeType.BOOLEAN),
    rule("a.", LakeType.TEXT),
    rule(".* place", LakeType.WKB),
)


@pytest.fixture
def delivery(spark: Spark, tmp_path: Path) -> Any:
    made = Delivery(spark, tmp_path)
    yield made
    made.history.store.close()


def device(number: int, seen: int | None = 7) -> Row:
    """A row of the journal."""
    if seen is None:
        return (uuid.UUID(int=number).bytes, None, None, None, None, None)
    at = -(number * 3_600_000_000 + 500_000)
    place = (4326).to_bytes(4, "little") + b"\x01point"
    return (uuid.UUID(int=number).bytes, Decimal(seen), number % 2, at, place, Decimal(2**64 - 1))


def in_lake(row: Row) -> Row:
    """The same row in the lake, by RULES."""
    id_, seen, on, _, place, changed = row
    if seen is None:
        return (str(uuid.UUID(bytes=id_)), None, None, None, None, None)
    at = f"-{uuid.UUID(bytes=id_).int:02}:00:00.5"
    return (str(uuid.UUID(bytes=id_)), int(seen), bool(on), at, (4326, place[4:]), changed)


def wanted(table: Table) -> list[Row]:
    return sorted(map(in_lake, table.rows.values()), key=lambda row: row[0])


def seen(delivery: Delivery, table: Table) -> list[Row]:
    return sorted((_plain(row) for row in delivery.view(table)), key=lambda row: row[0])


def _plain(row: Row) -> Row:
    return tuple(tuple(value.values()) if isinstance(value, dict) else value for value in row)


def by_duckdb(delivery: Delivery, table: Table) -> list[Row]:
    return duckdb_rows(delivery.root, str(table.schema.table), "*")


def duckdb_rows(lake: str, table: str, columns: str) -> list[Row]:
    with closing(engine()) as connection:
        text = live_view_text(lake, table, Dialect.DUCKDB)
        found = connection.execute(f"SELECT {columns} FROM ({text}) ORDER BY 1").fetchall()
    return list(map(_plain, found))


@pytest.mark.full
def test_columns_have_the_types_of_their_rules_until_other_rules_begin_the_table_again(
    delivery: Delivery,
) -> None:
    follow_rules(delivery)


def follow_rules(delivery: Delivery) -> None:
    """A table's columns have the types of its rules in snapshots, changes and merges; then there are no rules."""
    delivery.types = RULES
    delivery.begin()
    history = delivery.history
    devices = history.table(DEVICES, FILLING)
    devices.source = {devices.key(row): row for row in (device(1), device(2, None), device(3))}
    history.chunk(devices, list(devices.source))
    devices.mirror = READY
    delivery.deliver()
    assert seen(delivery, devices) == wanted(devices)
    types = dict(delivery.tier(devices, Tier.MIRROR).dtypes)
    assert list(types.values()) == [
        "string",
        "bigint",
        "boolean",
        "string",
        "struct<srid:bigint,wkb:binary>",
        "decimal(20,0)",
    ]

    history.transaction((devices, "u", device(1, 2**63 - 1)), (devices, "d", device(3)))
    history.transaction((devices, "c", device(4)), (devices, "c", device(5, None)))
    delivery.deliver()
    assert seen(delivery, devices) == wanted(devices) == by_duckdb(delivery, devices)
    delivery.merge(devices)
    assert seen(delivery, devices) == wanted(devices) == by_duckdb(delivery, devices)
    complete = wanted(devices)

    # A value that the type lacks stops the table, with the segment before it.
    history.transaction((devices, "c", device(6, 2**63)))
    delivery.deliver()
    stopped = delivery.lake.find(DEVICES.table).stopped
    assert stopped is not None
    assert stopped.reason.startswith(
        "from segment 3 on: a value of column 'seen' of shop.devices is greater than"
    )
    assert seen(delivery, devices) == complete

    # Without the rules the table begins again. Until it is read, readers see it as it was.
    delivery.types = ()
    delivery.begin()
    history.restart(devices, DEVICES, Filling)
    history.chunk(devices, list(devices.source)[:1])
    delivery.deliver()
    assert seen(delivery, devices) == complete
    history.chunk(devices, list(devices.source)[1:])
    generation = devices.mirror
    assert generation is not None
    devices.mirror = Ready(generation.since)
    delivery.deliver()
    found = delivery.lake.find(DEVICES.table)
    assert (found.stopped, found.schema) == (None, DEVICES)
    assert seen(delivery, devices) == sorted(devices.source.values())


TYPES = """
[[lake.types]]
tables = ['.*\\.devices']
columns = ["id"]
type = "uuid"

[[lake.types]]
tables = ['.*\\.devices']
columns = ["swapped"]
type = "uuid-swapped"

[[lake.types]]
tables = ['.*']
columns = [".*"]
type = "long"

[[lake.types]]
tables = ['.*']
columns = ["is_.*"]
type = "boolean"

[[lake.types]]
tables = ['.*']
columns = ["at"]
type = "text"

[[lake.types]]
tables = ['.*']
columns = [".*"]
type = "wkb"
"""
EXCEPTION = """
[[lake.types]]
tables = ['.*\\.posts']
columns = ["ID"]
type = "decimal"
"""
DEVICE = "(UUID_TO_BIN('{0}'), UUID_TO_BIN('{0}', 1), {1}, {2}, '{3}', ST_GeomFromText('POINT(52.5 {4})', 4326), '[1]')"
# What the server itself says of each value.
SOURCE = """SELECT BIN_TO_UUID(id), BIN_TO_UUID(swapped, 1), seen, is_on,
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(at AS CHAR))), ST_SRID(place),
  ST_AsWKB(place, 'axis-order=long-lat'), CAST(doc AS CHAR) FROM devices ORDER BY 1"""
IN_LAKE = 'id, swapped, seen, is_on, "at", place.srid, place.wkb, doc'


def device_of(number: int) -> str:
    at = f"{'-' if number % 2 else ''}{number % 800}:05:07.{number:06}"
    key = uuid.UUID(int=number << 64 | number)
    return DEVICE.format(key, 2**62 + number, number % 2, at, number % 100)


@pytest.fixture
def config(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    start_quickly(monkeypatch, parts)
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "1")
    mysql.sql(
        "CREATE TABLE devices (id BINARY(16) PRIMARY KEY, swapped BINARY(16), seen BIGINT UNSIGNED, "
        "is_on TINYINT(1), at TIME(6), place POINT SRID 4326, doc JSON)",
        f"INSERT INTO devices VALUES {', '.join(map(device_of, range(1, 100)))}",
        "CREATE TABLE posts (ID BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, is_open BOOL)",
        "INSERT INTO posts VALUES (1, 0), (2, 1), (3, NULL)",
        database=database,
    )
    path = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    text = path.read_text().replace('lake = { path = "lake" }', "")
    path.write_text(f'{text}\n[lake]\npath = "lake"\n{TYPES}')
    return path


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    service = Service(config, config.parent / "journal", config.parent / "log")
    yield service
    service.kill()


def shown(lake: str, table: TableId) -> list[Row] | None:
    """A table's rows, None as long as it is stopped."""
    try:
        return duckdb_rows(lake, str(table), "*")
    except (Definite, duckdb.Error):  # a text that was printed just before its generation ended
        return None


def pin(lake: str, table: TableId) -> str:
    """The generation of a table's mirror that readers see."""
    found = read_version(location(lake, table, Tier.MIRROR))
    assert found is not None
    return found.properties[Property.PIN]


@pytest.mark.full
def test_the_lake_equals_a_source_by_the_rules_and_a_table_of_another_rule_begins_again(
    service: Service, config: Path, mysql: MysqlServer, database: str
) -> None:
    lake, posts, devices = (
        str(config.parent / "lake"),
        TableId(database, "posts"),
        TableId(database, "devices"),
    )
    told = tidemark("check", config)
    assert "in the lake ID as long, is_open as boolean" in told.stdout, told.stdout + told.stderr

    def equal() -> None:
        until(service, delivered(mysql))
        source = mysql.sql(SOURCE, database=database)
        assert duckdb_rows(lake, str(devices), IN_LAKE) == [
            (*row[:3], bool(row[3]), *row[4:]) for row in source
        ]

    service.start()
    equal()
    mysql.sql(
        f"INSERT INTO devices VALUES {device_of(1000)}",
        "UPDATE devices SET is_on = NOT is_on, at = '-838:59:59', seen = 9223372036854775807 LIMIT 5",
        "DELETE FROM devices ORDER BY id DESC LIMIT 3",
        "ALTER TABLE posts ADD COLUMN is_new TINYINT(1) NOT NULL DEFAULT 1",
        "INSERT INTO posts VALUES (4, 1, 0)",
        database=database,
    )
    equal()
    of_posts = [(1, False, True), (2, True, True), (3, None, True), (4, True, False)]
    until(service, lambda _: shown(lake, posts) == of_posts)

    assert tidemark("verify", config).returncode == 0
    keys = [str(uuid.UUID(int=number << 64 | number)) for number in range(10, 20)]
    mirror = Path(location(lake, devices, Tier.MIRROR))
    changed = tamper_with_column(mirror, "id", keys, "at", "23:59:59")
    told = tidemark("verify", config, "--repair")
    assert (told.returncode, f"repaired: equal, {len(changed)} rows" in told.stdout) == (0, True), told.stdout
    equal()

    # A value beyond the type stops its table alone. Another rule begins it again, and no other table.
    before = pin(lake, devices)
    mysql.sql("INSERT INTO posts VALUES (9223372036854775808, 1, 1)", database=database)
    mysql.sql(f"INSERT INTO devices VALUES {device_of(1001)}", database=database)
    until(service, lambda status: "is greater than 9223372036854775807" in json.dumps(status))
    equal()
    told = tidemark("sql", config, f"{database}.posts")
    assert "a value of column 'ID'" in told.stdout + told.stderr
    assert told.returncode != 0
    service.stop()
    config.write_text(config.read_text().replace(TYPES, EXCEPTION + TYPES))
    service.start()
    wanted = [*((Decimal(id_), *rest) for id_, *rest in of_posts), (Decimal(2**63), True, True)]
    until(service, delivered(mysql))
    until(service, lambda _: shown(lake, posts) == wanted)
    equal()
    assert pin(lake, devices) == before
    assert tidemark("verify", config).returncode == 0
    service.stop()
