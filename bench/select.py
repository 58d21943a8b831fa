"""`make bench-select`: how fast a table's rows become Arrow columns, beside the raw socket and others who read rows.

Everyone selects the same columns of the same rows by the statement that a chunk is read with, while the server shares
the machine. The limit is the raw socket: the same connection and the same kind of result, its bytes thrown away. Then
come Tidemark's reader, which makes Arrow columns of them, and aiomysql and asyncmy, which make tuples, with the
cursors that don't hold a whole result (SSCursor). All run on uvloop, each in a process of its own. They take turns,
and a rate is the median of five readings from the request to the last row; the drivers read the first rows only.

The drivers know the text protocol alone, in which the server has more to do, so its raw socket is told as well.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from types import ModuleType
from typing import Final

import aiomysql
import asyncmy
import uvloop
from asyncmy.cursors import SSCursor
from pymysql.constants import COMMAND

from actors.chunk_selector import decoded
from actors.source import Source
from bench._logs import DATABASE, DOCUMENTS, ELEVEN, ONE, SIXTY, Table, server, write
from bench._readers import Reading
from bench._report import Figure, Peer, report
from deploy.toolchain.parts import locate
from pipeline import chunks
from pipeline.schema import TableId, TableSchema
from pipeline.settings import SourceSettings
from pipeline.walk import primary

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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(s.key for s in SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows; 1 is what's told")
    options = parser.parse_args()
    figures: list[Figure] = []
    for scenario in SCENARIOS:
        if not options.scenarios or scenario.key in options.scenarios:
            figures += _measured(scenario, options.scale)
    report("select", figures)


def _measured(scenario: Scenario, scale: float) -> list[Figure]:
    rows, few = int(scenario.rows * scale), int(scenario.drivers * scale)
    with server(locate()) as mysql:
        # Where a transaction inserts only a part of its rows, so many more are asked for.
        share = _TRANSACTION - scenario.table.updated(_TRANSACTION)
        written = write(mysql, scenario.table, rows * _TRANSACTION // share, _TRANSACTION)
        table = TableId(DATABASE, scenario.table.name)
        _say(f"{scenario.name}: {rows:,} rows")
        all_rows, first_rows = Asked(written.source, table, rows), Asked(written.source, table, few)
        ours, *others = _readings(
            [
                (tidemark, all_rows),
                (raw_socket, all_rows),
                (raw_socket_of_text, all_rows),
                (aiomysql_driver, first_rows),
                (asyncmy_driver, first_rows),
            ]
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


def _readings(readers: list[tuple[Reader, Asked]]) -> list[Reading]:
    """The median of each reader's readings, which take turns; the first turn warms the server and isn't counted."""
    with ExitStack() as stack:
        spawn = get_context("spawn")
        processes = [stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn)) for _ in readers]
        turns = [
            [
                process.submit(_reading, read, asked).result()
                for process, (read, asked) in zip(processes, readers, strict=True)
            ]
            for _ in range(1 + _TIMES)
        ]
    for (read, _), each in zip(readers, zip(*turns[1:], strict=True), strict=True):
        _say(f"  {read.__name__}: " + ", ".join(f"{reading.rate:,.0f}" for reading in each))
    return [
        Reading(*(median(values) for values in zip(*each, strict=True)))
        for each in zip(*turns[1:], strict=True)
    ]


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
    async with source.select(chunks.chunk(schema, primary(schema), None, (_LAST_KEY,), asked.rows)) as result:
        while (batch := await decoded(result, schema)) is not None:
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
    async with source.select(chunks.chunk(schema, primary(schema), None, (_LAST_KEY,), asked.rows)):
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
    [described] = (await source.describe([table])).values()
    return described.schema


def _text(schema: TableSchema, rows: int) -> str:
    statement = chunks.chunk(schema, primary(schema), None, (_LAST_KEY,), rows)
    return statement.sql % statement.parameters


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
