"""The transaction in which a table without a primary key is read.

`pipeline.coordinator.halted.table_scan` says why all rows in it are those of one position. It has a connection of its
own to the server of the stream. Its session has no limit of time for a SELECT, because all rows come in one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from actors.runtime.retry import random_pause_s
from actors.snapshot.consistent_reads import MOMENT_BACKOFF
from actors.source.connection import Source
from actors.source.gtid_history import VISIBLE_WITHIN_S, wait_until_visible
from actors.source.watermark_table import SignalTable
from pipeline.config.settings import ServerSettings
from pipeline.errors import Definite
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import OpenScan, ReadScan, ScanOpened
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import chunk_queries
from pipeline.source.statement import Statement

# Only this one keeps the rows of a view.
_ENGINE: Final = "innodb"

# Rows are read no faster than the journal and the settings want them. A server gives up a connection that doesn't take
# what it sends for so long (s), or that asks nothing for so long, as while the stream comes to what the transaction
# sees. The limit of time for a SELECT goes, where there is one.
_SESSION: Final = (
    "SET SESSION net_write_timeout = 600, wait_timeout = 31536000 /*!50708 , max_execution_time = 0 */"
)


class TableScan:
    """A scan that is under way: the orders for rows that wait in it, and how many have come (None before the first)."""

    def __init__(self, order: OpenScan) -> None:
        self.order = order
        self.reads: asyncio.Queue[ReadScan] = asyncio.Queue()
        self.rows: int | None = None

    def status(self) -> str | None:
        """What a snapshot waits for meanwhile."""
        table, failed = self.order.table, self.order.failed
        if self.rows is not None:
            return f"all rows of {table} are being read, {self.rows:,} so far, and the log waits"
        if not failed:
            return None
        return f"all rows of {table} couldn't be read at one moment yet, {failed} times; it keeps trying"


@asynccontextmanager
async def scan_transaction(
    settings: ServerSettings, server: str | None, markers: SignalTable | None, order: OpenScan
) -> AsyncIterator[tuple[Source, ScanOpened]]:
    """The open transaction, and what it sees. Raises Transient or Definite.

    `markers`: where to write a row in place of the low watermark, if the server has no GTIDs.
    """
    if order.failed:
        await asyncio.sleep(random_pause_s(MOMENT_BACKOFF, order.failed))
    source = await Source.connect(settings, server)
    try:
        await source.ask(Statement(_SESSION))
        low = await _low(source, markers, order)
        await source.begin()
        schema = await _schema(source, order.table)
        # A view has the rows of whatever table has the name when it's read. From here on the name keeps its table.
        await source.ask(chunk_queries.open_table(order.table))
        high, _ = await source.end_of_log()
        yield source, ScanOpened(order.number, schema, low, high)
    finally:
        source.close()


async def _low(source: Source, markers: SignalTable | None, order: OpenScan) -> GtidSet:
    """The low watermark. Without GTIDs it's the stream's position at the order, so the way from there counts too."""
    if markers is None or file_positions.server_of(order.ordered_at) is None:
        return await wait_until_visible(source, order.ordered_at, VISIBLE_WITHIN_S)
    await markers.open(source, str(order.table))
    return order.ordered_at


async def _schema(source: Source, table: TableId) -> TableSchema:
    """The table's schema. Raises Definite if the transaction can't see the table's rows as they were."""
    told = await source.descriptions([table])
    described = told.described.get(table)
    if described is None:
        gone = f"{table} doesn't exist, or the user of the source may not SELECT from it"
        raise Definite(told.refused.get(table, gone))
    if described.traits.engine != _ENGINE:
        raise Definite(
            f"the engine of {table} is {described.traits.engine or 'unknown'}, and only InnoDB shows all rows as they "
            "were at one moment; its changes still stream"
        )
    return described.schema
