"""The BinlogReader: reads the log from the checkpoint's position, and sends it in slices.

It waits for three things at once: the connection, its mailbox, and the slices that are being decoded into columns. A
thread parses the bytes of the connection, so that the other actors can work meanwhile.

A slice is cut when it's full, or when nothing more can be read and a thread is free to decode it. So a quiet source has
each transaction in its own slice at once. A busy one has large slices, with everything that comes while the ones before
are decoded. In between, where single transactions come fast, the reader waits for a moment and joins them. The fixed
work for each slice, through all actors, takes as long as the rows of hundreds of transactions. Each table in a slice
adds to that work. So with many tables the reader waits eight times as long as it took to decode the last slice. Then
decoding takes a ninth of a core, however many tables there are.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Never, assert_never

import numpy as np

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.source.binlog_dump import BinlogDump
from actors.source.decoder_threads import DecoderThreads
from actors.source.log_watch import Here, ReadLogWatch
from pipeline import metrics as catalogue
from pipeline.binlog.stream import LogMessage, LogStream
from pipeline.binlog.transaction_assembler import Given
from pipeline.config.settings import SourceSettings
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages import binlog, topology
from pipeline.messages.inboxes import ToBinlogReader, ToSchemaVerifier
from pipeline.messages.row_images import ImageKind, TableImages, TableUnreadable
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.prepared_xa import XaPrepared

_MICROSECONDS: Final = 1_000_000

# For so long the stream has to be silent to have nothing more at present, in seconds.
_LINGER_S: Final = 0.001

# The stream trickles where less than _TRICKLE bytes come in _GATHERING_S (s). Then it's read again so much later.
_TRICKLE: Final = 1 << 16
_GATHERING_S: Final = 0.02
# With many tables it's so many times the time that the last slice's decoding took: _GATHERING_S for each table at most,
# and no more than this (s). After a longer silence the last slice says nothing of what comes.
_PAUSES_PER_DECODING: Final = 8
_GATHERING_MOST_S: Final = 2.0
_SILENCE_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class ReadingLog:
    """What comes is read."""


@dataclass(frozen=True, slots=True)
class PausingAt:
    """What comes is read as far as these coordinates."""

    until: Coordinates


@dataclass(frozen=True, slots=True)
class ReaderPaused:
    """Nothing is read."""


class BinlogReader(Actor[ToBinlogReader]):
    """Follows the log of one server; built again for each connection."""

    name = topology.ActorName.BINLOG_READER

    def __init__(
        self,
        mailbox: Mailbox[ToBinlogReader],
        metrics: Metrics,
        settings: SourceSettings,
        captured: TableFilter,
        position: GtidSet,
        verifier: Sender[ToSchemaVerifier],
        server: str | None = None,
        prepared: tuple[XaPrepared, ...] = (),
        journal: str = "",
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = settings
        self._server = server
        self._position = position
        self._journal = journal
        self._verifier = verifier
        self._stream = LogStream(
            captured.match,
            captured.may_match_in,
            position=position,
            prepared=prepared,
            keeps_statements=settings.keep_statements,
        )
        self._dump: BinlogDump | None = None
        self._decoding = DecoderThreads()
        self._uncut = False  # whether events have come since the last cut
        self._going: ReadingLog | PausingAt | ReaderPaused = ReadingLog()
        self._end: Coordinates | None = None
        self._came_at = 0.0  # when bytes came last, by the loop's clock
        self._again_at = 0.0  # when it's read again, by the same
        self._arrivals = 0  # how many times bytes have come

    async def run(self) -> None:
        """Reads until the mailbox is closed, and sends what's complete by then."""
        try:
            by_coordinates = file_positions.server_of(self._position) is not None
            watch = ReadLogWatch(self._settings, self._server, self._here, by_coordinates=by_coordinates)
            await watch.look()
            self._dump = await BinlogDump.open(self._settings, self._position, self._server, self._journal)
            await self._read(self._dump, watch)
            self._cut()
            while self._decoding.oldest is not None:
                await self._give()
        finally:
            self.rest()
            await self.release()

    async def handle(self, message: ToBinlogReader) -> None:
        """Pauses or resumes reading."""
        match message:
            case binlog.PauseReading(until) if until is not None:
                self._going = PausingAt(until)
                self._pause_there()
            case binlog.PauseReading():
                self._pause()
            case binlog.ResumeReading():
                self._going = ReadingLog()
                self.metrics.set(catalogue.PAUSED, False)
            case _:
                assert_never(message)

    async def release(self) -> None:
        """Close the connection, and decode no more."""
        self._decoding.close()
        if self._dump is not None:
            self._dump.close()

    @property
    def source(self) -> SourceSettings:
        """Whose log it is."""
        return self._settings

    @property
    def position(self) -> Coordinates | None:
        """Where in the log it is; None before the log has begun to come."""
        return self._end

    def status(self) -> dict[str, Any]:
        """Returns where in which server's log it is, and the XA transactions that wait for their second phase there."""
        return {
            "log": str(self._end) if self._end else None,
            "paused": self._is_paused(),
            "source": f"{self._settings.host}:{self._settings.port}",
            "server": self._server,
            "prepared_xa": [_xa_json(each) for each in self._stream.prepared],
        }

    def work_bytes(self) -> int:
        """Returns how many bytes of the log are in its hands, be they parsed or decoded."""
        return self._decoding.bytes + (0 if self._dump is None else self._dump.held_bytes)

    def not_ready(self) -> str | None:
        """Not before the log has begun to come."""
        return None if self._end else "the source's log hasn't begun to come yet"

    async def _read(self, dump: BinlogDump, log_watch: ReadLogWatch) -> None:
        self.listen()
        arrival = asyncio.create_task(dump.receive())
        watch = asyncio.create_task(log_watch.run())
        try:
            while (order := self._taking) is not None:
                await self._wait(order, arrival, watch)
                if watch.done():
                    watch.result()
                if order.done():
                    await self.taken(order)
                elif (oldest := self._decoding.oldest) is not None and oldest.done():
                    await self._give()
                elif arrival.done() and not self._is_paused():
                    self._count(arrival.result())
                    await self._parse(dump)
                    arrival = asyncio.create_task(self._receive(dump))
                else:
                    self._cut()
        finally:
            self.stop_listening()
            arrival.cancel()
            watch.cancel()
            await asyncio.gather(arrival, watch, return_exceptions=True)

    def _here(self) -> Here:
        """Where in the log the stream is, whether it rests there, and how many times bytes have come."""
        resting = self._end is not None and self._stream.between == self._end and not self._is_paused()
        return self._end, resting, self._arrivals

    async def _wait(
        self, order: asyncio.Task[ToBinlogReader], arrival: asyncio.Task[int], watch: asyncio.Task[Never]
    ) -> None:
        """Waits for something to do; only a short while if a slice is to be cut."""
        self.rest()
        awaited: set[asyncio.Future[Any]] = {order, watch}
        if not self._is_paused():
            awaited.add(arrival)
        if (oldest := self._decoding.oldest) is not None:
            awaited.add(oldest)
            self.beat()
        to_cut = self._uncut and self._decoding.free
        timeout_s = _LINGER_S if to_cut else None
        await asyncio.wait(awaited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        self.beat()

    async def _receive(self, dump: BinlogDump) -> int:
        """Wait for bytes. While it's paused for none: those of events that were left mustn't move before they go."""
        if self._is_paused():
            return 0
        await asyncio.sleep(max(0.0, self._again_at - self.now()))
        came = await dump.receive()
        before, self._came_at = self._came_at, self.now()
        self._again_at = self._came_at + gathering_s(
            came, self._came_at - before, self._decoding.took_s, self._decoding.tables
        )
        return came

    def _count(self, came: int) -> None:
        self._arrivals += 1
        self.metrics.count(catalogue.BINLOG_READ, came)
        self.metrics.set(catalogue.LAST_EVENT, time.time())

    async def _parse(self, dump: BinlogDump) -> None:
        """Parses what has come, in a thread, and queues the results for decoding."""
        until = self._going.until if isinstance(self._going, PausingAt) else None
        parsed = _read_frames(dump, self._stream, until)
        while (given := await asyncio.to_thread(next, parsed, None)) is not None:
            while self._decoding.full:
                await self._give()
            self._decoding.put(given)
            self.beat()
        self._uncut = True
        self._pause_there()

    def _is_paused(self) -> bool:
        return isinstance(self._going, ReaderPaused)

    def _pause_there(self) -> None:
        if isinstance(self._going, PausingAt) and self._stream.reached(self._going.until):
            self._pause()

    def _pause(self) -> None:
        self._cut()
        self._going = ReaderPaused()
        self._decoding.put(binlog.ReadingPaused())
        self.metrics.set(catalogue.PAUSED, True)

    def _cut(self) -> None:
        for given in self._stream.take():
            self._decoding.put(given)
        self._uncut = False

    async def _give(self) -> None:
        message = await self._decoding.give()
        if not isinstance(message, binlog.ReadingPaused):
            self._measure(message)
            self._end = (
                message.end
                if isinstance(message, binlog.TransactionsRead | binlog.DdlRead | binlog.LogAdvanced)
                else self._end
            )
        await self.send(self._verifier, message)

    @contain_errors
    def _measure(self, message: LogMessage) -> None:
        match message:
            case binlog.TransactionsRead(transactions, tables, end):
                self.metrics.count(catalogue.TRANSACTIONS, len(transactions))
                self._measure_position(end, int(transactions.commit_time[-1]))
                self._measure_tables(tables)
            case binlog.TransactionPartRead(tables=tables):
                self._measure_tables(tables)
            case binlog.DdlRead(_, commit_time, end=end):
                self.metrics.count(catalogue.TRANSACTIONS)
                self.metrics.count(catalogue.STATEMENTS)
                self._measure_position(end, commit_time)
            case binlog.LogAdvanced(end):
                self._measure_position(end, None)
            case binlog.CreateTableSelectRead():
                pass
            case _:
                assert_never(message)

    @contain_errors
    def _measure_tables(self, tables: tuple[TableImages | TableUnreadable, ...]) -> None:
        for table in tables:
            if isinstance(table, TableImages):
                self._measure_images(table)

    @contain_errors
    def _measure_images(self, images: TableImages) -> None:
        table = str(images.map.table)
        kinds = np.bincount(images.images.column("kind").to_numpy(), minlength=len(ImageKind))
        for kind in ImageKind:
            if kinds[kind]:
                self.metrics.count(catalogue.ROWS_READ, int(kinds[kind]), table=table, kind=kind.name.lower())
        if images.impossible_dates:
            self.metrics.count(
                catalogue.IMPOSSIBLE_DATES, images.impossible_dates, table=table, part="changes"
            )

    @contain_errors
    def _measure_position(self, end: Coordinates, commit_time: int | None) -> None:
        if self._end is None or self._end.file != end.file:
            self.metrics.replace(catalogue.BINLOG_POSITION, {(end.file,): end.offset})
        self.metrics.set(catalogue.BINLOG_POSITION, end.offset, file=end.file)
        lag_s = 0.0 if commit_time is None else max(0.0, time.time() - commit_time / _MICROSECONDS)
        self.metrics.set(catalogue.SOURCE_LAG, lag_s)
        if commit_time is not None:
            self.metrics.set(catalogue.SOURCE_COMMIT, commit_time / _MICROSECONDS)


def _xa_json(prepared: XaPrepared) -> dict[str, Any]:
    """An XA transaction that waits for its second phase, as JSON values."""
    return {
        "xid": prepared.xid,
        "since": datetime.fromtimestamp(prepared.since / _MICROSECONDS, UTC).isoformat(),
        "tables": list(map(str, prepared.tables)),
        "holds_the_position": bool(prepared.left_out),
    }


def gathering_s(came: int, within_s: float, took_s: float, tables: int) -> float:
    """Returns how long (s) to wait before the stream is read again.

    So many bytes have come within that time. Decoding the last slice, of so many tables, took so long (s).
    """
    if came * _GATHERING_S >= _TRICKLE * max(within_s, _GATHERING_S):
        return 0.0
    if within_s > _SILENCE_S:
        return _GATHERING_S
    most_s = min(_GATHERING_S * max(1, tables), _GATHERING_MOST_S)
    return min(max(_GATHERING_S, _PAUSES_PER_DECODING * took_s), most_s)


def _read_frames(dump: BinlogDump, stream: LogStream, until: Coordinates | None) -> Iterator[Given]:
    """Parses the bytes that have come, up to that position at most."""
    while (frames := dump.frames()) is not None:
        pieces = iter([frames]) if until is None else frames.pieces(until.offset)
        for piece in pieces:
            yield from stream.parse(piece)
            if until is not None and stream.reached(until):
                dump.leave(pieces)
                return
