"""`tidemark wait` without GTIDs, on a real service: the journal's place stands for any reader's."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.service import assembly
from actors.service.cli import main
from actors.service.config_file import load
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.gtid.gtid_set import GtidSet
from tests.integration.service.test_alerts import serving
from tests.servers.service import WithoutLake
from tests.servers.service_process import configuration


async def test_it_waits_for_all_that_the_source_has_by_now(
    mysql: MysqlServer, parts: Parts, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "Assembly", WithoutLake)
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    config = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    async with serving(load(config)):
        mysql.sql("INSERT INTO t VALUES (1)", database=database)
        executed = GtidSet.parse(mysql.executed())
        told = await asyncio.to_thread(
            CliRunner().invoke, main, ["wait", str(config), "--through", "journal"]
        )
    assert told.exit_code == 0, told.output
    assert executed <= GtidSet.parse(json.loads(told.output)["position"])
