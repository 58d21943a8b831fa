"""The dump itself, on a real server; what the BinlogReader makes of it is in test_binlog_reader.py."""

import asyncio
from dataclasses import replace

import pytest

from actors.source import binlog_dump
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from actors.source.server_facts import find_replicas
from deploy.toolchain.mysql_server import GTIDS, GTIDS_56, MysqlServer
from pipeline.binlog.event_type import Code
from pipeline.binlog.events import event as events
from pipeline.errors import Definite, Transient
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.file_positions import FIRST_OFFSET
from pipeline.gtid.gtid_set import GtidSet
from tests.servers.mysql import MysqlFactory
from tests.servers.source import settings

WITHIN_S = 60.0


async def codes_through(dump: BinlogDump, last: Code) -> list[int]:
    """The kinds of the events that come, until there is one of this kind."""
    found: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while True:
            await dump.receive()
            while (frames := dump.frames()) is not None:
                found += [events.header(frames.event(i)).code for i in range(len(frames))]
            if last in found:
                return found


async def test_what_is_not_in_the_position_comes_and_nothing_else(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", database=database)
    account = mysql.create_capture_user(database)
    dump = await BinlogDump.open(settings(mysql, account), GtidSet.parse(mysql.executed()))
    try:
        mysql.sql("INSERT INTO a VALUES (2)", database=database)
        came = await codes_through(dump, Code.XID)
    finally:
        dump.close()
    assert came[0] == Code.ROTATE
    assert came.count(Code.GTID) == came.count(Code.WRITE_ROWS) == 1


async def test_of_two_with_one_journal_the_older_is_ended_by_name(mysql: MysqlServer, database: str) -> None:
    account = mysql.create_capture_user(database)
    position = GtidSet.parse(mysql.executed())
    older = await BinlogDump.open(settings(mysql, account), position)
    await codes_through(older, Code.FORMAT_DESCRIPTION)
    newer = await BinlogDump.open(settings(mysql, account), position)
    try:
        with pytest.raises(Definite, match=r"same server_uuid.*copy of this journal: stop one"):
            await codes_through(older, Code.STOP)
    finally:
        older.close()
        newer.close()


@pytest.mark.parametrize("version", ["9.7", "5.6"])
@pytest.mark.parametrize("how", ["purged", "reset", "without GTIDs"])
async def test_a_log_that_goes_before_it_is_requested_is_decided_on_again(
    mysql_factory: MysqlFactory,
    mysql56_factory: MysqlFactory,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    how: str,
) -> None:
    """The server says it, since what was asked before is true no more."""

    async def passes(*_: object) -> tuple[str, int]:
        return files[0], FIRST_OFFSET

    old = version == "5.6"
    server = mysql56_factory(GTIDS_56) if old else mysql_factory(GTIDS)
    account = server.create_capture_user()
    server.sql("CREATE DATABASE d", "FLUSH BINARY LOGS", "CREATE DATABASE e")
    files = [name for name, *_ in server.sql("SHOW BINARY LOGS")]
    position = GtidSet()
    if how == "purged":
        server.sql(f"PURGE BINARY LOGS TO '{files[-1]}'")
        monkeypatch.setattr(binlog_dump, "_check", passes)
    elif how == "reset":
        position = GtidSet.parse(server.executed())
        server.sql("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS")
        monkeypatch.setattr(binlog_dump, "_check", passes)
    else:
        server.sql(f"PURGE BINARY LOGS TO '{files[-1]}'")
        position = file_positions.all_before(server.uuid, Coordinates(files[0], FIRST_OFFSET))
        monkeypatch.setattr(binlog_dump, "_checked_place", passes)
    dump = await BinlogDump.open(settings(server, account), position)
    try:
        with pytest.raises(Transient, match="error 1236"):
            await codes_through(dump, Code.STOP)
    finally:
        dump.close()


async def test_two_journals_replicas_with_one_id_live_side_by_side(mysql: MysqlServer, database: str) -> None:
    account, position = mysql.create_capture_user(database), GtidSet.parse(mysql.executed())
    dumps = [await BinlogDump.open(settings(mysql, account), position, journal=name) for name in ("a", "b")]
    try:
        for dump in dumps:
            await codes_through(dump, Code.FORMAT_DESCRIPTION)
        mysql.sql("CREATE TABLE still (id INT PRIMARY KEY)", database=database)
        for dump in dumps:
            await codes_through(dump, Code.QUERY)
    finally:
        for dump in dumps:
            dump.close()


async def test_the_server_tells_of_us_as_of_a_replica(mysql: MysqlServer, database: str) -> None:
    account = mysql.create_capture_user(database)
    ours = replace(settings(mysql, account), server_id=1007)  # the server may list other tests' for a while
    dump = await BinlogDump.open(ours, GtidSet.parse(mysql.executed()))
    try:
        await codes_through(dump, Code.FORMAT_DESCRIPTION)
        replicas = [each for each in mysql.sql("SHOW REPLICAS") if each[0] == 1007]
        source = await Source.connect(ours)
        (found,), others = await find_replicas(source, 1007), await find_replicas(source, 1008)
        source.close()
    finally:
        dump.close()
    assert found == f"tidemark ({replicas[0][4]})"
    assert others == []
    assert [(number, host, port) for number, host, port, *_ in replicas] == [(1007, "tidemark", 0)]
