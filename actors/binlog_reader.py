"""The BinlogReader: reads the log from the checkpoint's position on, and gives it out in slices.

It listens to two things at once, the connection and its mailbox. What came over the connection is digested in a
thread, so that the other actors get on meanwhile. A slice is cut when nothing more is there to be read, or when it's
full: so a quiet source has each transaction in a slice of its own at once, and a busy one has large ones.
"""

import asyncio
import time
from typing import Any, Final, assert_never

import numpy as np

from actors.actor import Actor, Outlet
from actors.binlog_dump import BinlogDump
from actors.mailbox import Closed, Mailbox
from actors.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline import topology
from pipeline.binlog.stream import LogStream, Message
from pipeline.errors import Transient
from pipeline.gtid import GtidSet
from pipeline.messages import (
    CreationRead,
    Kind,
    LogAdvanced,
    LogRead,
    PauseReading,
    ReadingPaused,
    ResumeReading,
    StatementRead,
    TableImages,
    ToBinlogReader,
    ToSchemaVerifier,
)
from pipeline.settings import SourceSettings
from pipeline.signals import Tables
from pipeline.watermark import Coordinates

_MICROSECONDS: Final = 1_000_000


class BinlogReader(Actor[ToBinlogReader]):
    """Follows the log of one server; built anew for each connection."""

    name = topology.Actor.BINLOG_READER
    patience = 60.0  # a transaction is put into columns in one go

    def __init__(
        self,
        mailbox: Mailbox[ToBinlogReader],
        metrics: Metrics,
        settings: SourceSettings,
        captured: Tables,
        position: GtidSet,
        verifier: Outlet[ToSchemaVerifier],
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = settings
        self._position = position
        self._verifier = verifier
        self._stream = LogStream(captured.match, captured.may_match_in)
        self._dump: BinlogDump | None = None
        self._paused = False
        self._end: Coordinates | None = None

    async def run(self) -> None:
        """Read until the mailbox is closed, and give out what's whole by then."""
        try:
            self.beat()
            self._dump = await BinlogDump.open(self._settings, self._position)
            self.rest()
            await self._read(self._dump)
            await self._give(self._stream.take())
        finally:
            self.rest()
            await self.release()

    async def handle(self, message: ToBinlogReader) -> None:
        """Pause or go on."""
        match message:
            case PauseReading():
                await self._give(self._stream.take())
                self._paused = True
                await self.send(self._verifier, ReadingPaused())
            case ResumeReading():
                self._paused = False
            case _:
                assert_never(message)
        self.metrics.set(catalogue.PAUSED, self._paused)

    async def release(self) -> None:
        """Close the connection."""
        if self._dump is not None:
            self._dump.close()

    def status(self) -> dict[str, Any]:
        """Where in the log it is."""
        return {"log": str(self._end) if self._end else None, "paused": self._paused}

    def not_ready(self) -> str | None:
        """Not before the log has begun to come."""
        return None if self._end else "the source's log hasn't begun to come yet"

    async def _read(self, dump: BinlogDump) -> None:
        order = asyncio.create_task(self.mailbox.get())
        piece = asyncio.create_task(dump.piece())
        try:
            while True:
                await self._wait(order, piece)
                if order.done():
                    try:
                        message = order.result()
                    except Closed:
                        return
                    await self.take(message)
                    order = asyncio.create_task(self.mailbox.get())
                elif piece.done():
                    came = piece.result()
                    piece = asyncio.create_task(dump.piece())
                    await asyncio.sleep(0)  # one turn, in which the task takes what's already there
                    await self._digest(dump, came, cut=not piece.done())
        finally:
            order.cancel()
            piece.cancel()
            await asyncio.gather(order, piece, return_exceptions=True)

    async def _wait(self, order: asyncio.Task[ToBinlogReader], piece: asyncio.Task[bytes]) -> None:
        if self._paused:
            await asyncio.wait({order})
            return
        silence_s = self._settings.read_timeout_s
        done, _ = await asyncio.wait({order, piece}, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise Transient(f"the source's log was silent for {silence_s} s, heartbeats included")

    async def _digest(self, dump: BinlogDump, piece: bytes, *, cut: bool) -> None:
        self.beat()
        messages = await asyncio.to_thread(_digested, dump, self._stream, piece, cut)
        self.metrics.count(catalogue.BINLOG_READ, len(piece))
        self.metrics.set(catalogue.LAST_EVENT, time.time())
        await self._give(messages)
        self.rest()

    async def _give(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self._measure(message)
            await self.send(self._verifier, message)

    def _measure(self, message: Message) -> None:
        match message:
            case LogRead(transactions, tables, end):
                self.metrics.count(catalogue.TRANSACTIONS, len(transactions))
                self._measure_place(end, int(transactions.commit_time[-1]))
                for images in tables:
                    if isinstance(images, TableImages):
                        self._measure_images(images)
            case StatementRead(_, commit_time, end=end):
                self.metrics.count(catalogue.TRANSACTIONS)
                self.metrics.count(catalogue.STATEMENTS)
                self._measure_place(end, commit_time)
            case LogAdvanced(end):
                self._measure_place(end, None)
            case CreationRead():
                pass
            case _:
                assert_never(message)

    def _measure_images(self, images: TableImages) -> None:
        table = str(images.map.table)
        kinds = np.bincount(images.images.column("kind").to_numpy(), minlength=len(Kind))
        for kind in Kind:
            if kinds[kind]:
                self.metrics.count(catalogue.ROWS_READ, int(kinds[kind]), table=table, kind=kind.name.lower())
        if images.impossible_dates:
            self.metrics.count(
                catalogue.IMPOSSIBLE_DATES, images.impossible_dates, table=table, part="changes"
            )

    def _measure_place(self, end: Coordinates, commit_time: int | None) -> None:
        if self._end is None or self._end.file != end.file:
            self.metrics.forget(catalogue.BINLOG_POSITION)
        self._end = end
        self.metrics.set(catalogue.BINLOG_POSITION, end.offset, file=end.file)
        lag_s = 0.0 if commit_time is None else max(0.0, time.time() - commit_time / _MICROSECONDS)
        self.metrics.set(catalogue.SOURCE_LAG, lag_s)


def _digested(dump: BinlogDump, stream: LogStream, piece: bytes, cut: bool) -> tuple[Message, ...]:
    """What the piece made whole: everything if it's time to cut, else only slices that are full."""
    messages: list[Message] = []
    for event in dump.events(piece):
        stream.feed(event)
        if stream.full:
            messages += stream.take()
    if cut:
        messages += stream.take()
    return tuple(messages)
