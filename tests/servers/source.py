"""Connections to a test's server as the product makes them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pymysql
from pymysql.constants import ER

from actors.source.connection import Source
from deploy.toolchain.mysql_server import CAPTURE, Account, MysqlServer
from pipeline.config.settings import Secret, SourceSettings, TlsMode, TlsSettings
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot import chunk_queries
from pipeline.source import result_set
from pipeline.source.result_columns import ResultColumn, mismatch
from pipeline.source.statement import Statement
from tests.pipeline.builders import primary_index


@dataclass(frozen=True, slots=True)
class Connection:
    """A line of the server's process list: its `id` there, whose it is, and what it's at."""

    id: int
    user: str
    command: str
    state: str | None
    statement: str | None


def settings(server: MysqlServer, account: Account, **changes: Any) -> SourceSettings:
    """How the account gets to the server, without TLS; `changes` are of SourceSettings."""
    plain = SourceSettings(
        server.host,
        account.user,
        server.port,
        Secret(account.password),
        TlsSettings(TlsMode.DISABLED),
        server_id=7,
    )
    return replace(plain, **changes)


@asynccontextmanager
async def connected(server: MysqlServer, *databases: str, **changes: Any) -> AsyncIterator[Source]:
    """A connection of the user with the least rights, for these databases."""
    async with connected_with(server, server.create_capture_user(*databases), **changes) as source:
        yield source


@asynccontextmanager
async def connected_with(server: MysqlServer, account: Account, **changes: Any) -> AsyncIterator[Source]:
    """A connection of this user."""
    source = await Source.connect(settings(server, account, **changes))
    try:
        yield source
    finally:
        source.close()


def process_list(server: MysqlServer) -> list[Connection]:
    """All that the server has.

    In `information_schema` nothing can be read of them as long as any statement has a character of four bytes.
    """
    return [
        Connection(id_, user, command, state, statement)
        for id_, user, _host, _database, command, _time, state, statement in server.sql("SHOW PROCESSLIST")
    ]


def connections(server: MysqlServer, account: Account = CAPTURE) -> list[Connection]:
    """Those that a user has."""
    return [connection for connection in process_list(server) if connection.user == account.user]


def gives_log(connection: Connection) -> bool:
    """Whether the log comes over it."""
    return connection.command.startswith("Binlog Dump")


def waits_for_lock(connection: Connection) -> bool:
    """Returns whether its statement waits for a table that another session has locked."""
    return connection.state == "Waiting for table metadata lock"


def cut(
    server: MysqlServer, which: Callable[[Connection], bool] = lambda _: True, account: Account = CAPTURE
) -> int:
    """End those connections of a user at the server; how many there were."""
    ended = [connection for connection in connections(server, account) if which(connection)]
    for connection in ended:
        try:
            server.sql(f"KILL {connection.id}")
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.NO_SUCH_THREAD:  # else it has ended by then
                raise
    return len(ended)


async def ask(source: Source, sql: str) -> list[tuple[Any, ...]]:
    """The rows that this statement without parameters gives."""
    return await source.ask(Statement(sql.replace("%", "%%")))


async def read_whole(source: Source, schema: TableSchema) -> pa.RecordBatch:
    """All rows of a table with an integer for its key, in one chunk."""
    columns, located = await select(
        source, chunk_queries.select_chunk(schema, primary_index(schema), None, (2**31 - 1,), 2000)
    )
    assert mismatch(schema, columns) is None
    batch = pa.concat_batches([result_set.decode_rows(schema, rows) for rows in located])
    batch.validate(full=True)
    return batch


async def select(
    source: Source, statement: Statement
) -> tuple[tuple[ResultColumn, ...], list[result_set.LocatedRows]]:
    """The columns of a result, and where all its values lie."""
    located = []
    async with source.select(statement) as result:
        while rows := await result.rows():
            located.append(rows.located(result.columns))
        return result.columns, located
