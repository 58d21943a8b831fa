"""Whoever waits for transactions is answered by what a real source has executed and a real journal has sealed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.toolchain.mysql_server import GTIDS, WITHOUT_GTIDS, MysqlServer
from pipeline.config.settings import HttpSettings, ServerAddress, Settings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.snapshot.checkpoint import Checkpoint
from tests.integration.service import test_without_gtids as without_gtids
from tests.servers.executed import executed
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import follow
from tests.servers.service import Running, pipeline, running
from tests.servers.source import connections
from tests.servers.web import web

OTHER = "0a1b2c3d-0000-4000-8000-000000000001"


class Asking:
    """A service with its HTTP server, and a client."""

    def __init__(self, service: Running, session: aiohttp.ClientSession) -> None:
        self.service, self._session = service, session

    async def applied(self, gtid_set: str, **more: str) -> tuple[int, dict[str, Any]]:
        """The answer to a request that waits; through the journal, unless `more` says otherwise."""
        parameters = {"through": "journal", "timeout_s": "60", **more, "gtid_set": gtid_set}
        async with self._session.get("/applied", params=parameters) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def asking(settings: Settings, folder: Path) -> AsyncIterator[Asking]:
    settings = replace(settings, lake=None)
    async with running(settings) as service, web(service, HttpSettings(), folder) as served:
        await service.begun()
        async with aiohttp.ClientSession(served.url) as session:
            yield Asking(service, session)


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    return stocked(mysql_factory(GTIDS))


def stocked(server: MysqlServer) -> MysqlServer:
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "CREATE DATABASE other",
        "CREATE TABLE other.t (id INT PRIMARY KEY)",
    )
    return server


def written(server: MysqlServer, *statements: str) -> str:
    """What these statements commit."""
    before = executed(server)
    server.sql(*statements)
    return str(executed(server) - before)


async def test_commits_with_tags_gaps_and_of_other_sources_are_waited_for(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with asking(pipeline(server, tmp_path, "shop"), tmp_path) as asked:
        own = written(server, "INSERT INTO shop.t VALUES (1)", "SET gtid_next = 'AUTOMATIC:app'",
                      "INSERT INTO shop.t VALUES (2)", "SET gtid_next = 'AUTOMATIC'",
                      f"SET gtid_next = '{OTHER}:7'", "INSERT INTO shop.t VALUES (3)",
                      f"SET gtid_next = '{OTHER}:9'", "INSERT INTO other.t VALUES (3)",
                      "SET gtid_next = 'AUTOMATIC'")  # fmt: skip
        assert ":app:1" in own and f"{OTHER}:7:9" in own
        status, told = await asked.applied(own)
        assert (status, told["through"], told["tables"]) == (200, "journal", {})
        assert GtidSet.parse(own) <= GtidSet.parse(told["position"])
        assert told["segment"] >= 1 and told["scn"] >= 3
        # A transaction in a gap is none that was executed, though a later one was.
        status, told = await asked.applied(f"{OTHER}:7-9")
        assert (status, told) == (409, {"error": f"the source hasn't executed {OTHER}:8"})


async def test_it_answers_once_a_commit_is_sealed_and_says_how_far_it_is_before(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with asking(pipeline(server, tmp_path, "shop"), tmp_path) as asked:
        with closing(server.connect()) as session, session.cursor() as cursor:
            # The transaction that is held up owns the first of the two.
            cursor.execute(f"SET gtid_next = '{OTHER}:1'")
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO shop.t VALUES (5)")
            status, told = await asked.applied(f"{OTHER}:1")
            assert (status, told["error"]) == (409, f"the source hasn't executed {OTHER}:1")
            cursor.execute("COMMIT")
        status, told = await asked.applied(f"{OTHER}:1", tables="shop.t")
        assert status == 200


async def test_tables_that_are_not_there_and_parameters_that_are_wrong_are_named(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with asking(pipeline(server, tmp_path, "shop"), tmp_path) as asked:
        own = written(server, "INSERT INTO shop.t VALUES (1)", "INSERT INTO other.t VALUES (1)")
        for tables, status, said in (
            ("other.t", 409, "other.t isn't captured"),
            ("shop.nothing", 409, "the source has no table shop.nothing"),
            ("t", 400, "tables: 't' isn't database.table"),
        ):
            got, told = await asked.applied(own, tables=tables)
            assert (got, told["error"][: len(said)]) == (status, said)
        assert (await asked.applied("7"))[0] == 400
        got, told = await asked.applied(own, through="lake")
        assert (got, told) == (400, {"error": "through: the configuration has no [lake]"})


async def test_a_server_without_gtids_is_refused_by_name(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = without_gtids.stocked(mysql_factory(WITHOUT_GTIDS))
    async with asking(without_gtids.settings(server, tmp_path), tmp_path) as asked:
        status, told = await asked.applied(f"{OTHER}:1")
        assert (status, told["error"][:23]) == (409, "the source has no GTIDs")


async def test_what_a_replica_has_not_received_yet_may_still_come(
    server: MysqlServer, mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    replica = mysql_factory(GTIDS)
    server.create_capture_user("shop")
    follow(replica, server)
    replica.sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(server)}', 60)")
    async with asking(pipeline(replica, tmp_path, "shop"), tmp_path) as asked:
        replica.sql("STOP REPLICA IO_THREAD")
        own = written(server, "INSERT INTO shop.t VALUES (1)")
        status, told = await asked.applied(own, timeout_s="0.2")
        assert (status, told["missing"]) == (504, own)
        assert told["error"] == f"the journal hasn't reached {own}"
        assert not GtidSet.parse(own) <= GtidSet.parse(told["position"])
        waits = asyncio.create_task(asked.applied(own))
        replica.sql("START REPLICA IO_THREAD")
        assert (await waits)[0] == 200


async def test_many_who_wait_share_one_question_to_the_source(server: MysqlServer, tmp_path: Path) -> None:
    async with asking(pipeline(server, tmp_path, "shop"), tmp_path) as asked:
        [(before,)] = [row[1:] for row in server.sql("SHOW GLOBAL STATUS LIKE 'Com_show_replica_status'")]
        answers = await asyncio.gather(*(asked.applied(f"{OTHER}:{number}") for number in range(1, 301)))
        assert {status for status, _ in answers} == {409}
        [(after,)] = [row[1:] for row in server.sql("SHOW GLOBAL STATUS LIKE 'Com_show_replica_status'")]
        assert 1 <= int(after) - int(before) < 100
        assert len(connections(server)) < 12


async def test_a_source_that_does_not_answer_lets_them_wait_and_the_end_lets_them_go(
    server: MysqlServer, tmp_path: Path
) -> None:
    async with asking(pipeline(server, tmp_path, "shop"), tmp_path) as asked:
        watch = asked.service.assembly.applied
        away = replace(watch._where, port=1, others=tuple[ServerAddress, ...]())
        watch.capture_begins(away, None, Checkpoint(GtidSet()))
        status, told = await asked.applied(f"{OTHER}:1", timeout_s="0.2")
        assert (status, told["error"]) == (504, f"the journal hasn't reached {OTHER}:1")
        waits = asyncio.create_task(asked.applied(f"{OTHER}:2"))
        await asked.service.until(lambda: len(watch._futures), "it waits")
        await watch.close()
        assert await waits == (503, {"error": "the service is stopping"})
        assert len(watch._waiters) == 0
