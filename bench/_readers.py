"""Who reads a log: the raw socket, which is the limit, Tidemark's reader, and mysql-replication.

Each reads in a process of its own, several times over, and says how many seconds it took: the raw socket from its
request on, the others from their connecting on, so that what that costs (some 10 ms) is to their disadvantage.
"""

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any, Final, NamedTuple

import pymysql
import uvloop
from pymysql.constants import COMMAND
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from actors.binlog_reader import BinlogReader
from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from bench._logs import DATABASE, Log
from bench._report import say
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import DdlRead, LogAdvanced, TransactionsRead
from pipeline.messages.inboxes import ToBinlogReader, ToSchemaVerifier
from pipeline.messages.row_images import TableImages
from pipeline.messages.topology import EDGES, ActorName, inbox
from pipeline.schema.table_filter import TableFilter

# Flags of COM_BINLOG_DUMP_GTID: the server ends the stream at the log's end instead of waiting there, and reads the
# GTID set.
_NON_BLOCK: Final = 0x01
_THROUGH_GTID: Final = 0x04

_PIECE: Final = 1 << 20


class Reading(NamedTuple):
    """How fast a log was read: rows per second, and microseconds of processor time for each row in all threads."""

    rate: float
    processor_us: float


def readings(
    reads: Sequence[Callable[[Log, int], float]], log: Log, rows: int, times: int = 1
) -> list[Reading]:
    """The median of so many readings of each."""
    return in_turns([(read.__name__, partial(_reading, read, log, rows)) for read in reads], times)


def in_turns(
    reads: Sequence[tuple[str, Callable[[], Reading]]], times: int, warming: int = 0
) -> list[Reading]:
    """The median of so many readings of each, in a process of its own, behind some that warm the server.

    They take turns, so that a machine whose speed drifts does so for all of them.
    """
    with ExitStack() as running:
        context = get_context("spawn")
        processes = [running.enter_context(ProcessPoolExecutor(1, context)) for _ in reads]
        each: list[list[Reading]] = [[] for _ in reads]
        for _ in range(warming + times):
            for (_, read), process, done in zip(reads, processes, each, strict=True):
                done.append(process.submit(read).result())
    counted = [done[warming:] for done in each]
    for (name, _), done in zip(reads, counted, strict=True):
        say(f"  {name}: {', '.join(f'{reading.rate:,.0f}' for reading in done)} rows/s")
    return [Reading(*(median(values) for values in zip(*done, strict=True))) for done in counted]


def _reading(read: Callable[[Log, int], float], log: Log, rows: int) -> Reading:
    before = time.process_time()
    seconds = read(log, rows)
    return Reading(rows / seconds, (time.process_time() - before) / rows * 1e6)


def raw_socket(log: Log, _: int) -> float:
    """Take what the server sends and throw it away."""
    with pymysql.connect(
        host=log.source.host, port=log.source.port, user=log.source.user, password=log.source.password.value
    ) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @source_binlog_checksum = 'CRC32'")
        position = GtidSet.parse(log.gtids).encode()
        request = struct.pack("<HIIQI", _NON_BLOCK | _THROUGH_GTID, log.source.server_id, 0, 4, len(position))
        wire: Any = connection  # its type says nothing of what lies below the driver
        begun = time.perf_counter()
        wire._execute_command(COMMAND.COM_BINLOG_DUMP_GTID, request + position)
        buffer = bytearray(_PIECE)
        came = 0
        while size := wire._sock.recv_into(buffer):
            came += size
        seconds = time.perf_counter() - begun
        wire._force_close()
    assert came > log.bytes, f"{came} bytes came of a log of {log.bytes}"
    return seconds


def tidemark(log: Log, _: int) -> float:
    """Follow the log with the service's own actor until the end; every row is in Arrow columns then."""
    return _follow(log, rf"{DATABASE}\.{log.table}", log.images)


def tidemark_uncaptured(log: Log, _: int) -> float:
    """The same where no table of the log is captured, though others of its database may be."""
    return _follow(log, rf"{DATABASE}\.another", 0)


def _follow(log: Log, captured: str, expected: int) -> float:
    begun = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        images = runner.run(_followed(log, TableFilter((captured,))))
    seconds = time.perf_counter() - begun
    assert images == expected, f"{images} row images came of {expected}"
    return seconds


async def _followed(log: Log, captured: TableFilter) -> int:
    """How many row images came of the captured tables."""
    orders: Mailbox[ToBinlogReader] = Mailbox(inbox(ActorName.BINLOG_READER))
    read: Mailbox[ToSchemaVerifier] = Mailbox(inbox(ActorName.SCHEMA_VERIFIER))
    edge = next(edge for edge in EDGES if edge.sender is ActorName.BINLOG_READER)
    reader = BinlogReader(
        orders, Metrics(), log.source, captured, GtidSet.parse(log.gtids), Sender(edge, read)
    )
    following = asyncio.create_task(reader.run())
    following.add_done_callback(
        lambda _: read.close()
    )  # so that an error of the reader ends the waiting, too
    images = 0
    async for message in read:
        match message:
            case TransactionsRead(tables=tables, end=end):
                images += sum(table.images.num_rows for table in tables if isinstance(table, TableImages))
                if end.reaches(log.end):
                    break
            case LogAdvanced(end) | DdlRead(end=end):
                if end.reaches(log.end):
                    break
    orders.close()
    await following
    return images


def mysql_replication(log: Log, rows: int) -> float:
    """Read the first rows with mysql-replication and its decoder."""
    begun = time.perf_counter()
    reader = BinLogStreamReader(
        connection_settings={
            "host": log.source.host,
            "port": log.source.port,
            "user": log.source.user,
            "passwd": log.source.password.value,
        },
        server_id=log.source.server_id,
        auto_position=log.gtids,
        blocking=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    events, came = iter(reader), 0
    while came < rows:
        came += len(next(events).rows)
    seconds = time.perf_counter() - begun
    reader.close()
    return seconds * rows / came  # the last event may have more than was wanted
