"""Queries the source for its position, on a separate connection: the actors can't report that while they hang.

It runs a few short statements now and then, which read and lock nothing. They return the end of the log with the
executed set, how long the log is kept, how far the source lags a source of its own, and the files of the log. The last
one runs only if the reader isn't in the last file. If the source doesn't answer, the watch reports that, and keeps what
it found before.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog

from actors.binlog_reader import BinlogReader
from actors.journal_writer import JournalWriter
from actors.runtime.actor import Actor
from actors.runtime.metrics import Metrics
from actors.source.connection import KeptSource, Source
from pipeline import metrics as catalogue
from pipeline.config.settings import SourceSettings
from pipeline.errors import Definite, Transient
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from pipeline.source import binlog_retention

log = structlog.get_logger()

LAG_EVERY_S: Final = 5.0


class LagWatch:
    """Compares the source's position with these actors'. They are replaced when they're built again.

    `settings`: the server to query before there's a reader, which may follow another server by then.
    """

    def __init__(self, settings: SourceSettings, actors: Mapping[Name, Actor[Any]], metrics: Metrics) -> None:
        self._settings = settings
        self._actors = actors
        self._metrics = metrics
        self._source = KeptSource()

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        self._metrics.set(catalogue.SOURCE_UP, 0)
        for unknown in (
            catalogue.LAG_BYTES,
            catalogue.LAG_TRANSACTIONS,
            catalogue.PURGE,
            catalogue.REPLICATION_LAG,
        ):
            self._metrics.set(unknown, math.nan)
        try:
            while True:
                await self._look()
                await asyncio.sleep(LAG_EVERY_S)
        finally:
            self._source.close()

    async def _look(self) -> None:
        try:
            reader = self._reader
            where = self._settings if reader is None else reader.source
            await self._compare(await self._source.connect(where))
        except (Transient, Definite) as failure:
            self._source.close()
            self._metrics.set(catalogue.SOURCE_UP, 0)
            log.info("the source's position is unknown", error=str(failure))
        else:
            self._metrics.set(catalogue.SOURCE_UP, 1)

    async def _compare(self, source: Source) -> None:
        """Reports how far capture lags."""
        self._metrics.set(catalogue.REPLICATION_LAG, await source.replication_lag_s())
        kept = binlog_retention.retention_s(await source.variables(binlog_retention.RETENTION))
        end, executed = await source.end_of_log()
        reader, sealed = self._reader, self._sealed
        position = None if reader is None else reader.position
        if position is None or sealed is None:
            return
        lag_bytes = lag = binlog_retention.bytes_behind(
            {} if position.file == end.file else await source.logs(), end, position
        )
        self._metrics.set(catalogue.LAG_BYTES, lag_bytes)
        if not lag_bytes:  # the reader has nothing to read by which it could say so
            self._metrics.set(catalogue.SOURCE_LAG, 0)
        if file_positions.server_of(sealed) is None:
            lag = (executed - sealed).count()
            self._metrics.set(catalogue.LAG_TRANSACTIONS, lag)
        newest = self._metrics.value(catalogue.SOURCE_COMMIT) or self._metrics.value(catalogue.SEALED_COMMIT)
        purged_at = binlog_retention.purged_at(time.time(), kept, newest or math.nan, behind=lag > 0)
        self._metrics.set(catalogue.PURGE, purged_at)

    @property
    def _reader(self) -> BinlogReader | None:
        reader = self._actors.get(Name.BINLOG_READER)
        return reader if isinstance(reader, BinlogReader) else None

    @property
    def _sealed(self) -> GtidSet | None:
        """All that's durable; None before the first segment."""
        writer = self._actors.get(Name.JOURNAL_WRITER)
        checkpoint = writer.sealed if isinstance(writer, JournalWriter) else None
        return None if checkpoint is None else checkpoint.position
