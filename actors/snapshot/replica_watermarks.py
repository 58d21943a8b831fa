"""Chunks from another server than the stream: a replica, whose coordinates aren't the stream's.

High is a GTID set then, and has to hold every transaction that the SELECT can have seen. The replica's executed set
isn't one: a transaction is visible before its GTID is in the set, here as on any server
(pipeline/snapshot/watermark.py). But a replica commits nothing that it hasn't received. A transaction's GTID is in the
set of received ones before an applier can read the transaction's end. The receiver adds it there first, and only then
moves the end of the relay log (MYSQL_BIN_LOG::after_write_to_relay_log). Before MySQL 5.7 it adds it when the first
event comes. The GTID leaves that set only with the relay logs (RESET REPLICA, CHANGE REPLICATION SOURCE). For these the
appliers must have stopped, and then all that they committed is in the executed set. So with `received`, read after the
SELECT, and then `executed`,

    high = received + executed, as sets

is complete. It may hold transactions that the SELECT didn't see. These only make the window wait, at most until the
stream is where the replica's receiver is. The stream comes from the source of the replica's log.

A client's own write on the replica would be in neither set in time. So the replica has to be read-only, and earlier
writes there must be in the stream's history. Both are checked each time. A replica that leaves out changes by a filter
has executed their transactions all the same, so sets don't show it. So a table that a filter concerns isn't read there.

Low needs no more than on any server, but the same is checked before it, so that no SELECT is in vain.

**Another role.** The address may lead to a server that was promoted. If that's the stream's own server by now, its log
is the stream's, and the ordinary watermarks hold (`is_streams`). If it isn't, its own writes may be visible before any
set has them. Then nothing is read until the stream comes from it, or it is a read-only replica again. No table's
snapshot fails for that (`SourceUnready`). If the replica has kept a write of its own, the histories differ for good.

Source: MySQL 9.7, sql/binlog.cc; Reference Manual, "SHOW REPLICA STATUS Statement" (Retrieved_Gtid_Set).
"""

from actors.source.connection import Source
from actors.source.errors import SourceUnready
from pipeline.config.settings import ServerSettings
from pipeline.errors import Definite, Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId
from pipeline.source.replication_filters import ReplicaState, lacking_changes


class ReplicaWatermarks:
    """What watermarks are read from a replica of the stream's server, which calls itself `server`."""

    def __init__(self, settings: ServerSettings, stream: ServerSettings, server: str | None = None) -> None:
        self._name = f"[snapshot.source] {settings.host}:{settings.port}"
        self._stream = stream
        self._server = server
        self._shared = GtidSet()  # of this the stream's server is known to have it

    def is_streams(self, source: Source) -> bool:
        """Returns whether the connection leads to the server that the stream comes from."""
        return source.server == self._server

    async def low(self, source: Source) -> GtidSet:
        """What is visible on the replica.

        Raises SourceUnready as `high` does, and Transient if a read-only replica's history isn't the stream's.
        """
        await self._role(source)
        visible = await source.visible()
        await self._share(source, visible)
        return visible

    async def high(self, source: Source, table: TableId) -> GtidSet:
        """A set that has all transactions which SELECTs from the table before can have seen.

        Raises SourceUnready where that can't be known now: on what is no replica, or takes writes of its own. Raises
        Definite if it leaves out changes of the table. Also raises as `low` does.
        """
        replica = await self._role(source)
        if lacks := lacking_changes(replica.filters, (table,)):
            raise Definite(f"{self._name} {lacks}, or name another replica")
        executed = await source.executed()
        await self._share(source, executed)
        return replica.received | executed

    async def _role(self, source: Source) -> ReplicaState:
        """Returns what the server is as a replica. Raises SourceUnready if it's none, or takes writes of its own."""
        replica = await source.as_replica()
        if replica is None:
            raise SourceUnready(
                f"{self._name} is no replica; make it one, or remove it, so that chunks come from the stream's server"
            )
        if not await source.read_only():
            raise SourceUnready(f"{self._name} takes writes of its own; set read_only = ON there")
        return replica

    async def _share(self, source: Source, executed: GtidSet) -> None:
        """Ensures that the stream's history has what was written on the replica itself."""
        own = GtidSet(
            {
                origin: numbers
                for origin, numbers in executed.intervals.items()
                if origin.uuid == source.server
            }
        )
        if self._shared and own <= self._shared:
            return
        stream = await Source.connect(self._stream, self._server)
        try:
            done = await stream.executed()
        finally:
            stream.close()
        # Transient, since a transaction can be replicated before it's in its own server's executed set.
        if missing := (own if self._shared else executed) - done:
            raise Transient(
                f"{self._name} has transactions that the stream's server hasn't ({missing}): they don't share a history"
            )
        self._shared = done
