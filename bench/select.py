"""`make bench-select`: how fast a table's rows become Arrow columns, beside the raw socket and others who read rows.

Everyone selects the same columns of the same rows by the statement that a chunk is read with, while the server shares
the machine. The limit is the raw socket: the same connection and the same kind of result, its bytes thrown away. Then
come Tidemark's reader, which makes Arrow columns of them, and aiomysql and asyncmy, which make tuples, with the
cursors that don't hold a whole result (SSCursor). All run on uvloop, each in a process of its own. They take turns,
and a rate is the median of five readings from the request to the last row; the drivers read the first rows only.

The drivers know the text protocol alone, in which the server has more to do, so its raw socket is told as well.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Final

import aiomysql
import asyncmy
import uvloop
from asyncmy.cursors import SSCursor
from pymysql.constants import COMMAND

from actors.chunk_selector import next_rows
from actors.source.connection import Source
from bench._command import command_line
from bench._logs import DATABASE, DOCUMENTS, ELEVEN, ONE, SIXTY, Table, server, write
from bench._readers import Reading, in_turns
from bench._report import Figure, Peer, say, told
from deploy.toolchain.parts import locate
from pipeline.config.settings import SourceSettings
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import chunk_queries
from tests.pipeline.builders import primary_index

_TIMES: Final = 5
_TRANSACTION: Final = 1_000
_PIECE: Final = 1 << 20
_LAST_KEY: Final = 2**63
_TAKEN_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A table of so many rows, and how many of them the drivers read."""

    key: str
    name: str
    table: Table
    rows: int
    drivers: int


SCENARIOS: Final = (
    Scenario("eleven", "11 columns", ELEVEN, 1_000_000, 100_000),
    Scenario("one", "1 column", ONE, 1_000_000, 100_000),
    Scenario("sixty", "60 columns", SIXTY, 200_000, 20_000),
    Scenario("documents", "JSON and text", DOCUMENTS, 200_000, 20_000),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to read: the first `rows` rows of a table."""

    source: SourceSettings
    table: TableId
    rows: int


Reader = Callable[[Asked], Coroutine[None, None, float]]


def main() -> None:
    """Measure every scenario, or those that are named."""
    wanted = command_line(__doc__, (scenario.key for scenario in SCENARIOS))
    with told("select") as figures:
        for scenario in SCENARIOS:
            if scenario.key in wanted.names:
                figures.extend(_measured(scenario, wanted.scale))


def _measured(scenario: Scenario, scale: float) -> list[Figure]:
    rows, few = int(scenario.rows * scale), int(scenario.drivers * scale)
    with server(locate()) as mysql:
        # Where a transaction inserts only a part of its rows, so many more are asked for.
        share = _TRANSACTION - scenario.table.updated(_TRANSACTION)
        written = write(mysql, scenario.table, rows * _TRANSACTION // share, _TRANSACTION)
        table = TableId(DATABASE, scenario.table.name)
        say(f"{scenario.name}: {rows:,} rows")
        all_rows, first_rows = Asked(written.source, table, rows), Asked(written.source, table, few)
        readers: list[tuple[Reader, Asked]] = [
            (tidemark, all_rows),
            (raw_socket, all_rows),
            (raw_socket_of_text, all_rows),
            (aiomysql_driver, first_rows),
            (asyncmy_driver, first_rows),
        ]
        ours, *others = in_turns(
            [(read.__name__, partial(_reading, read, asked)) for read, asked in readers], _TIMES, warming=1
        )
    names = (
        "raw socket",
        "raw socket, text protocol",
        f"aiomysql, first {few:,} rows",
        f"asyncmy, first {few:,} rows",
    )
    rates = [
        Figure(scenario.name, ours.rate, "rows/s", Peer(name, reading.rate))
        for name, reading in zip(names, others, strict=True)
    ]
    limit = Peer(names[0], others[0].processor_us)
    return [*rates, Figure(f"{scenario.name}: processor time", ours.processor_us, "µs/row", limit)]


def _reading(read: Reader, asked: Asked) -> Reading:
    before = time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds = runner.run(read(asked))
    return Reading(asked.rows / seconds, (time.process_time() - before) / asked.rows * 1e6)


async def tidemark(asked: Asked) -> float:
    """Arrow columns, as the ChunkSelector makes them."""
    source = await Source.connect(asked.source)
    schema = await _schema(source, asked.table)
    rows = 0
    begun = time.perf_counter()
    async with source.select(
        chunk_queries.select_chunk(schema, primary_index(schema), None, (_LAST_KEY,), asked.rows)
    ) as result:
        while (batch := await next_rows(result, schema)) is not None:
            rows += batch[0].num_rows
    seconds = time.perf_counter() - begun
    source.close()
    assert rows == asked.rows, f"{rows} rows came of {asked.rows}"
    return seconds


async def raw_socket(asked: Asked) -> float:
    """The same result, thrown away."""
    source = await Source.connect(asked.source)
    schema = await _schema(source, asked.table)
    begun = time.perf_counter()
    async with source.select(
        chunk_queries.select_chunk(schema, primary_index(schema), None, (_LAST_KEY,), asked.rows)
    ):
        await _thrown_away(source, asked.rows)
        seconds = time.perf_counter() - begun
    source.close()
    return seconds


async def raw_socket_of_text(asked: Asked) -> float:
    """The same rows in the text protocol, thrown away."""
    source = await Source.connect(asked.source)
    sql = _text(await _schema(source, asked.table), asked.rows)
    begun = time.perf_counter()
    await source.stream(COMMAND.COM_QUERY, sql.encode())
    await _thrown_away(source, asked.rows)
    seconds = time.perf_counter() - begun
    source.close()
    return seconds


async def aiomysql_driver(asked: Asked) -> float:
    """aiomysql's tuples."""
    return await _with_driver(aiomysql, aiomysql.SSCursor, asked)


async def asyncmy_driver(asked: Asked) -> float:
    """asyncmy's tuples."""
    return await _with_driver(asyncmy, SSCursor, asked)


async def _with_driver(driver: ModuleType, cursor_class: type, asked: Asked) -> float:
    source = await Source.connect(asked.source)
    sql = _text(await _schema(source, asked.table), asked.rows)
    source.close()
    connection = await driver.connect(
        host=asked.source.host,
        port=asked.source.port,
        user=asked.source.user,
        password=asked.source.password.value,
        charset="utf8mb4",
    )
    rows = 0
    async with connection.cursor(cursor_class) as cursor:
        begun = time.perf_counter()
        await cursor.execute(sql)
        while batch := await cursor.fetchmany(_TAKEN_AT_ONCE):
            rows += len(batch)
        seconds = time.perf_counter() - begun
    connection.close()
    assert rows == asked.rows, f"{rows} rows came of {asked.rows}"
    return seconds


async def _thrown_away(source: Source, rows: int) -> None:
    """Read until the EOF packet: its header, its first byte, and four more; no row is as short as a byte."""
    room = memoryview(bytearray(_PIECE))
    end, came = b"", 0
    while not (came > rows and end[-9:-6] == b"\5\0\0" and end[-5:-4] == b"\xfe"):
        size = await source.receive(room)
        came += size
        end = (end + room[max(size - 9, 0) : size])[-9:]


async def _schema(source: Source, table: TableId) -> TableSchema:
    return (await source.describe([table]))[table].schema


def _text(schema: TableSchema, rows: int) -> str:
    statement = chunk_queries.select_chunk(schema, primary_index(schema), None, (_LAST_KEY,), rows)
    return statement.sql % statement.parameters


if __name__ == "__main__":
    main()
