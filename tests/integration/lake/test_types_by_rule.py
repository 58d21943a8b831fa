"""Types by rule, on a real Spark: what each reader sees, a value that is refused, and a table that begins again."""

import uuid
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from actors.lake.spark_session import Spark
from actors.service.live_view_text import live_view_text
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.lake.sql_dialects import Dialect
from pipeline.lake.tables import Tier
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types import column_types as t
from tests.integration.history import FILLING, READY, Row, Table
from tests.integration.lake.test_lake import Delivery, schema
from tests.servers.duckdb_engine import engine

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
    with closing(engine()) as duckdb:
        text = live_view_text(lake, table, Dialect.DUCKDB)
        found = duckdb.execute(f"SELECT {columns} FROM ({text}) ORDER BY 1").fetchall()
    return list(map(_plain, found))


@pytest.mark.full
def test_columns_have_the_types_of_their_rules_until_other_rules_begin_the_table_again(
    delivery: Delivery,
) -> None:
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
