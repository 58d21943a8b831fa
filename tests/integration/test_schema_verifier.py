"""Tables that begin to match while a journal is there: known before their first change, and open to snapshots."""

from dataclasses import replace
from pathlib import Path

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.signals import Tables
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running


async def known(service: Running, table: str) -> None:
    """Until a table can be asked for."""
    await service.until(lambda: table in service.status().get("captured", ()), f"{table} is captured")


async def test_a_table_that_the_configuration_takes_in_later(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE first (id INT PRIMARY KEY)", database=database)
    mysql.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)", database=database)
    settings = pipeline(mysql, tmp_path, database)
    narrow = replace(settings, tables=Tables((rf"{database}\.first",)))
    async with running(narrow) as service:
        await service.begun()
        assert service.status()["captured"] == [f"{database}.first"]
        await service.stop()
    async with running(settings) as service:
        await known(service, f"{database}.later")
        await service.execute("s", rf"{database}\.later")
        await service.completed("s")
        assert service.tables("s")["later"]["rows"] == 1
        await service.stop()
    # Taken out again it's stopped, since its further changes are missing.
    async with running(narrow) as service:
        await service.until(lambda: service.status().get("stopped"), "it's stopped")
        assert service.status()["stopped"].keys() == {f"{database}.later"}
        await service.stop()


async def test_a_table_that_was_created_in_between(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    """Its creation is still to come at the start, so that it's known behind it, be it empty or not."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.first (id INT PRIMARY KEY)")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.stop()
    server.sql("CREATE TABLE shop.empty (id INT PRIMARY KEY)", "INSERT INTO shop.first VALUES (1)")
    async with running(settings) as service:
        await known(service, "shop.empty")
        await service.execute("s", r"shop\.empty")
        await service.completed("s")
        await service.stop()
