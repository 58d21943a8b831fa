"""One service with a lake and topics: the broker dies, the lake continues, the topics catch up, and both are right."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.service.assembly import Assembly
from actors.service.live_view_text import live_view_text
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import LakeSettings, SnapshotMode, SparkSettings
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.kafka_pipeline import judged, sent, to_topics
from tests.servers.lake_oracle import unequal_view
from tests.servers.service import Running, running
from tests.servers.shop import TABLES


def filled(service: Running) -> bool:
    """Whether the tables' first snapshots are complete."""
    tables = [table for snapshot in service.status().get("snapshots", []) for table in snapshot["tables"]]
    return len(tables) == len(TABLES) and all(table["state"] == "completed" for table in tables)


async def delivered(service: Running) -> None:
    """Until the lake has what has passed by now, and its mirrors are complete."""
    last = await service.sealed()
    await service.until(lambda: service.status(Name.SPARK_SINK).get("segment", -1) >= last, "the lake has it")
    await service.until(
        lambda: len(complete(service.status(Name.SPARK_SINK)["tables"])) == len(TABLES),
        "mirrors are complete",
    )


def complete(tables: dict[str, Any]) -> list[str]:
    """The tables whose mirrors are complete, of the sink's status."""
    return [name for name, table in tables.items() if table["mirror"] and table["rebuilding_since"] is None]


def unequal_lake(server: MysqlServer, lake: str, table: TableId) -> list[str]:
    """Where the lake's rows of a table aren't the source's; DuckDB reads them."""
    view = live_view_text(lake, str(table), Dialect.DUCKDB)
    with closing(engine()) as duck:
        return unequal_view(server, table, duck.sql(f"SELECT * FROM ({view}) v").to_arrow_table())


async def test_a_broker_that_is_gone_does_not_hold_up_the_lake(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path, spark_settings: SparkSettings
) -> None:
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        settings = to_topics(broker, open_shop, tmp_path)
        lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_rows=3, merge_after_s=1e6)
        snapshot = replace(settings.snapshot, mode=SnapshotMode.INITIAL)
        settings = replace(settings, lake=lake, snapshot=snapshot, spark=spark_settings)
        async with running(settings, Assembly) as service:
            await service.until(lambda: filled(service), "all are filled")
            await service.caught_up(open_shop)
            await sent(service)
            await delivered(service)
            await asyncio.to_thread(broker.kill)
            before = service.status(Name.SPARK_SINK)["segment"]
            open_shop.sql("UPDATE shop.orders SET total = total + 1 WHERE id < 50")
            await service.until(
                lambda: service.status(Name.SPARK_SINK).get("segment", -1) > before, "the lake goes on"
            )
            assert service.status(Name.KAFKA_SINK).get("segment", -1) <= before
            await asyncio.to_thread(broker.start)
            await sent(service)
            await delivered(service)
            await service.stop()
        await judged(broker, settings, open_shop)
    assert [fault for table in TABLES for fault in unequal_lake(open_shop, lake.path, table)] == []
