"""The proxy that holds the log back, on which tests and a benchmark rely."""

import asyncio
import time

from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.binlog.event_type import Code
from pipeline.gtid.gtid_set import GtidSet
from tests.integration.source.test_binlog_dump import codes_through
from tests.servers.delay import HELD, DelayedLog
from tests.servers.relay import HOST, hand_on
from tests.servers.source import settings

DELAY_S = 0.5


async def test_the_log_is_held_back_and_everything_else_is_not(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", database=database)
    account, position = mysql.create_capture_user(database), GtidSet.parse(mysql.executed())
    with DelayedLog(mysql.port) as proxy:
        through = settings(mysql, account, port=proxy.port)
        dump = await BinlogDump.open(through, position)
        mysql.sql("INSERT INTO a VALUES (0)", database=database)
        await codes_through(dump, Code.XID)  # so that nothing is left of what a dump begins with
        proxy.delay_s = HELD
        mysql.sql("INSERT INTO a VALUES (1)", database=database)
        log = asyncio.create_task(dump.receive())
        source = await Source.connect(through)
        assert not await source.executed() <= position
        source.close()
        assert not log.done()
        proxy.delay_s = 0
        assert await log
        dump.close()


async def test_each_event_comes_so_much_later(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", database=database)
    account, position = mysql.create_capture_user(database), GtidSet.parse(mysql.executed())
    with DelayedLog(mysql.port, DELAY_S) as proxy:
        dump = await BinlogDump.open(settings(mysql, account, port=proxy.port), position)
        for number in range(2):
            begun = time.monotonic()
            mysql.sql(f"INSERT INTO a VALUES ({number})", database=database)
            came = await codes_through(dump, Code.XID)
            assert time.monotonic() - begun >= DELAY_S
            assert came.count(Code.WRITE_ROWS) == 1
        dump.close()


async def test_both_ends_are_closed_though_the_link_is_cancelled_while_it_ends() -> None:
    cancelled, accepted = asyncio.Event(), asyncio.Queue[asyncio.StreamWriter]()

    async def ended() -> None:
        """The client's way, which is over."""

    async def flows() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), HOST)
    _, ours = await asyncio.open_connection(*server.sockets[0].getsockname())
    theirs = await accepted.get()
    link = asyncio.create_task(hand_on([ended(), flows()], [ours, theirs]))
    await cancelled.wait()
    link.cancel()
    await asyncio.wait({link})
    assert ours.is_closing()
    assert theirs.is_closing()
    server.close()
