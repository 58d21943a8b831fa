"""A connection that receives the binlog: checks, registration, the request, and the packets after it.

The request names the GTID set that has passed, and the server sends the rest. So the server's executed set must contain
the position, and the position must contain everything that the server has purged. Otherwise `pipeline.source.failover`
has decided what to do before the reader was built. If that has changed since, it decides again.

**Silence** means two things. Once the log has begun to come, the server sends a heartbeat if it has nothing else, so a
silent connection is a dead one. Before that it sends nothing: it searches for our position, in the heads of all files
of its log, and then in one of them. That may take any time, and a new connection makes it begin again. So during that
time a second connection queries whether the server still has a thread for us.

A position of files and offsets (`pipeline.gtid.file_positions`) is requested from the first one that it lacks. The
reader leaves out what it has after that (`pipeline.binlog.transaction_ids`). The request has four bytes for an offset,
so a larger offset is read from its file's beginning.

Source: MySQL 9.7 source documentation, "COM_REGISTER_REPLICA", "COM_BINLOG_DUMP_GTID" and "COM_BINLOG_DUMP";
sql/rpl_binlog_sender.cc for the session's variables.
"""

import asyncio
import struct
import uuid
from collections.abc import Iterable
from typing import Final

import structlog
from pymysql.constants import COMMAND
from pymysqlreplication.binlogstream import ReportSlave

from actors.source.connection import Source
from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.packets import Packets
from pipeline.config.settings import ServerSettings, SourceSettings
from pipeline.errors import NEW_JOURNAL, Definite, Transient
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.file_positions import FIRST_OFFSET
from pipeline.gtid.gtid_set import GtidSet
from pipeline.source.statement import Statement

log = structlog.get_logger()

# The server sends a heartbeat when it had nothing to send for so long, in seconds.
_HEARTBEAT_S: Final = 5.0

# For so long we wait for the first bytes of a log that the server says it has sent, in seconds.
_ON_THE_WAY_S: Final = 300.0

# What a server's thread says of itself then; its other words differ from version to version.
_SENT: Final = "has sent all"

# How long the server waits for us to take what it sends, in seconds; while the reading is paused we take nothing.
_PATIENCE_S: Final = 86_400

_HEARTBEAT_V2: Final = 0x02
_THROUGH_GTID: Final = 0x04
_OFFSETS: Final = 2**32  # that COM_BINLOG_DUMP has room for

_PACKET_HEAD: Final = 5  # the payload's length (3 bytes), the packet's number, and the command

# The old names are those of servers before 8.0.26, and a server looks at one of the two.
_SESSION: Final = (
    "SET @source_heartbeat_period = {heartbeat_ns:d}, @master_heartbeat_period = {heartbeat_ns:d},"
    " @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32',"
    " @replica_uuid = '{uuid}', @slave_uuid = '{uuid}',"
    " SESSION net_write_timeout = {patience_s:d}"
)


def _heartbeat_s(settings: ServerSettings) -> float:
    """Returns the longest time between two packets."""
    return min(_HEARTBEAT_S, settings.read_timeout_s / 2)


class BinlogDump:
    """The binlog from a position on, as it comes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._packets = Packets(number=1)
        self._begun = False  # whether anything has come
        self._silence_s = 2 * _heartbeat_s(source.settings)

    @staticmethod
    async def open(
        settings: SourceSettings, position: GtidSet, server: str | None = None, journal: str = ""
    ) -> "BinlogDump":
        """Connects and requests what isn't in the position, for the journal of this identity.

        Raises Definite if the server can't send it all, Transient if it can't be reached, or could a moment ago, or its
        UUID isn't `server`.
        """
        source = await Source.connect(settings, server)
        try:
            if file_positions.server_of(position) is None:
                await _check(source, position)
                command, request = COMMAND.COM_BINLOG_DUMP_GTID, _request(settings.server_id, position)
            else:
                file, offset = await _checked_place(source, position)
                command, request = COMMAND.COM_BINLOG_DUMP, _from_place(settings.server_id, file, offset)
            await _prepare(source, settings, journal)
            await source.stream(command, request)
        except BaseException:
            source.close()
            raise
        return BinlogDump(source)

    @staticmethod
    async def from_file(
        settings: SourceSettings, file: str, server: str, journal: str, offset: int = FIRST_OFFSET
    ) -> "BinlogDump":
        """Connect and ask for all that's in the log from an offset of this file on. Raises as `open`.

        From its beginning, if the request has no room for the offset.
        """
        source = await Source.connect(settings, server)
        try:
            await _prepare(source, settings, journal)
            request = _from_place(settings.server_id, file, offset if offset < _OFFSETS else FIRST_OFFSET)
            await source.stream(COMMAND.COM_BINLOG_DUMP, request)
        except BaseException:
            source.close()
            raise
        return BinlogDump(source)

    async def receive(self) -> int:
        """Wait for the next bytes, and return how many came; no frames may be in use.

        Raises Transient if the connection is lost, or silent. Cancelled, it's closed.
        """
        count = await (self._next() if self._begun else self._first())
        self._begun = True
        self._packets.arrived(count)
        return count

    async def _next(self) -> int:
        try:
            async with asyncio.timeout(self._silence_s):
                return await self._source.receive(self._packets.room())
        except TimeoutError as error:
            raise Transient(
                f"the source's log was silent for {self._silence_s} s, for which two heartbeats were due"
            ) from error

    async def _first(self) -> int:
        """Wait for the first bytes for as long as the server is at work on them."""
        clock = asyncio.get_running_loop().time
        began = clock()
        arrival = asyncio.create_task(self._source.receive(self._packets.room()))
        try:
            while not (await asyncio.wait({arrival}, timeout=self._silence_s))[0]:
                await self._check_at_work(clock() - began)
            return arrival.result()
        finally:
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)

    async def _check_at_work(self, waited_s: float) -> None:
        """Raises Transient if the server doesn't answer, has no thread for us, or has sent what doesn't come."""
        other = await Source.connect(self._source.settings, self._source.server)
        try:
            state = (await other.threads()).get(self._source.thread)
        finally:
            other.close()
        if state is None or (_SENT in state and waited_s > _ON_THE_WAY_S):
            raise Transient(
                f"the source's log didn't begin to come within {waited_s:.0f} s, and the server "
                + ("has no thread for it any more" if state is None else f"says of its thread: {state}")
            )
        log.info("waiting for the log to begin", waited_s=round(waited_s), state=state)

    def frames(self) -> Frames | None:
        """The next events that are whole; see `Packets.frames`."""
        return self._packets.frames()

    @property
    def held_bytes(self) -> int:
        """How many bytes there are of the frames that were given last, and of those to come."""
        return self._packets.end

    def leave(self, frames: Iterable[Frames]) -> None:
        """See `Packets.leave`."""
        self._packets.leave(frames)

    def close(self) -> None:
        """Close without ado."""
        self._source.close()


async def _check(source: Source, position: GtidSet) -> None:
    """Raises Definite or Transient if the server can't send all that isn't in the position."""
    [(mode,)] = await source.ask(Statement("SELECT @@GLOBAL.gtid_mode"))
    if mode != "ON":
        raise Definite(f"gtid_mode is {mode} on the source; it has to be ON")
    if unknown := position - await source.executed():
        raise Transient(f"the source hasn't executed {unknown}, which has passed here")
    if missing := await source.purged() - position:
        raise Transient(f"the binlog that we need was purged: {missing}")


async def _checked_place(source: Source, position: GtidSet) -> tuple[str, int]:
    """The file and the offset that the log is to be read from. Raises Definite or Transient as `_check`."""
    number, offset = file_positions.file_and_offset(file_positions.first_missing(position))
    end, _ = await source.end_of_log()
    if not position <= file_positions.all_before(source.server, end):
        raise Definite(
            f"the source's log ends at {end}, but capture has passed that: {position}; the log was reset "
            f"(RESET MASTER), or the server lost the end of it; {NEW_JOURNAL}"
        )
    files = {Coordinates(name, 0).number: name for name in await source.logs()}
    if number not in files:
        raise Transient(f"the binlog that we need was purged: file number {number}, from offset {offset} on")
    return files[number], offset if offset < _OFFSETS else FIRST_OFFSET


def replica_uuid(journal: str) -> uuid.UUID:
    """Returns the UUID by which the source knows the replica that fills this journal.

    The server ends the older of two connections with one UUID, such as a connection that we lost and it didn't. So two
    pipelines never share it, whatever server_id they have.
    """
    return uuid.uuid5(uuid.NAMESPACE_OID, f"tidemark {journal}")


async def _prepare(source: Source, settings: SourceSettings, journal: str) -> None:
    heartbeat_ns = int(_heartbeat_s(settings) * 1e9)
    session = _SESSION.format(heartbeat_ns=heartbeat_ns, uuid=replica_uuid(journal), patience_s=_PATIENCE_S)
    await source.ask(Statement(session))
    # SHOW REPLICAS shows the host's name for us.
    registration = ReportSlave("tidemark").encoded(settings.server_id)
    await source.command(COMMAND.COM_REGISTER_SLAVE, registration[_PACKET_HEAD:])


def _request(server_id: int, position: GtidSet) -> bytes:
    """Returns the request: flags, our id, no file's name (its length is 0), the offset, and the GTID set after its
    length."""
    encoded = position.encode()
    flags = _HEARTBEAT_V2 | _THROUGH_GTID
    return struct.pack("<HIIQI", flags, server_id, 0, FIRST_OFFSET, len(encoded)) + encoded


def _from_place(server_id: int, file: str, offset: int) -> bytes:
    """The offset, flags, our id, and the file's name."""
    return struct.pack("<IHI", offset, _HEARTBEAT_V2, server_id) + file.encode()
