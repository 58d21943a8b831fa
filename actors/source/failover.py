"""Chooses the server with which capture continues: examines those of the list, and does what `pipeline.source.failover`
decides.

It's one decision for all connections, made whenever capture is built. Its result is an address and the UUID of the
server there, and a connection to another server is useless (`actors.source.errors`). So an address that leads to
another server by now, as with a virtual IP, counts like another entry of the list.
"""

import asyncio
from dataclasses import replace
from typing import Final, assert_never

import structlog

from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.source import gtid_history, witnesses
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from actors.source.errors import AccessDenied
from actors.source.preflight import Preflight, UnfitSource, inspect_source
from actors.source.unnamed_transactions import find_unnamed
from pipeline import metrics as catalogue
from pipeline.binlog.slice import Slice
from pipeline.binlog.stream import LogStream
from pipeline.binlog.transaction_assembler import Given
from pipeline.config.settings import Settings, SourceSettings
from pipeline.coordinator import resume
from pipeline.errors import Definite, Transient
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import DdlRead, TransactionsRead
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.source import failover
from pipeline.source.replication_filters import lacking_changes

log = structlog.get_logger()

# How long it takes until servers are looked at again, in seconds.
SERVERS_EVERY_S: Final = 0.5


def list_servers(source: SourceSettings) -> tuple[SourceSettings, ...]:
    """Each server by itself, in the list's order."""
    others = (replace(source, host=other.host, port=other.port, others=()) for other in source.others)
    return (replace(source, others=()), *others)


class Servers:
    """The servers of the list, and the one that capture is at."""

    def __init__(self, settings: Settings, journal: str, metrics: Metrics) -> None:
        self._settings = settings
        self._journal = journal
        self._metrics = metrics
        self._servers = list_servers(settings.source)
        self._at: int | None = None

    async def choose(self, last: Checkpoint | None) -> Preflight:
        """Returns the findings about the server at which to continue from the last sealed checkpoint, or to begin.

        Raises NoServer if none is suitable, Unfit if it's the only one, and Transient if none can be reached or none is
        suitable yet.
        """
        index, found = await _Search(self._settings, self._journal, self._servers, self._at, last).found()
        if last is not None and last.server not in ("", found.server):
            before = last.server if self._at is None else f"{_name(self._servers[self._at])} ({last.server})"
            here = f"{_name(found.source)} ({found.server})"
            log.warning("failed over", **{"from": before, "to": here})
            self._metrics.count(catalogue.FAILOVERS)
        self._at = index
        place = (found.source.host, str(found.source.port), found.server)
        self._metrics.replace(catalogue.SOURCE_INFO, {place: 1})
        return found


class _Search:
    """The search for a server with which to continue."""

    def __init__(
        self,
        settings: Settings,
        journal: str,
        servers: tuple[SourceSettings, ...],
        at: int | None,
        last: Checkpoint | None,
    ) -> None:
        position = NO_GTIDS if last is None else last.position
        self._places = file_positions.server_of(position) is not None
        self._servers = servers[:1] if self._places else servers
        self._settings = settings
        self._journal = journal
        self._at = at
        self._last = last
        # Those that have been found to be of no use when they were looked at more closely.
        self._refused: dict[int, failover.Refused] = {}
        # The connections that the last look was by. The next one makes its own, since an address may lead elsewhere.
        self._sources: dict[int, Source] = {}

    async def found(self) -> tuple[int, Preflight]:
        """The server's place in the list, and what was found of it."""
        try:
            return await self._search()
        finally:
            self._close()

    def _close(self) -> None:
        for source in self._sources.values():
            source.close()

    async def _search(self) -> tuple[int, Preflight]:
        clock = asyncio.get_running_loop().time
        began = nearer_at = clock()
        missing: list[int] = []
        told: tuple[failover.CandidateVerdict, ...] = ()
        while True:
            verdicts = await self._judge_all()
            if all(isinstance(verdict, failover.Unreachable) for verdict in verdicts):
                raise Transient(self._describe(verdicts))
            before, missing = missing, [_missing(verdict) for verdict in verdicts]
            if missing != before:
                nearer_at = clock()
            at = failover.last_server(verdicts, self._last_server) if self._at is None else self._at
            waited_s, stood_s = clock() - began, clock() - nearer_at
            failover_after_s, mode = self._settings.source.failover_after_s, self._settings.snapshot.mode
            match failover.choose_server(verdicts, at, waited_s, stood_s, failover_after_s, mode):
                case failover.ContinueAt(index):
                    if (found := await self._looked_closely(index, verdicts[index])) is not None:
                        return index, found
                case failover.WaitForServers():
                    if [type(each) for each in verdicts] != [type(each) for each in told]:
                        self._log_wait(verdicts)
                    told = tuple(verdicts)
                    await asyncio.sleep(SERVERS_EVERY_S)
                case failover.NoneServes():
                    raise failover.NoServer(self._describe(verdicts))
                case failover.NoneServesYet():
                    raise Transient(self._describe(verdicts))
                case never:
                    assert_never(never)

    @contain_errors
    def _log_wait(self, verdicts: list[failover.CandidateVerdict]) -> None:
        log.warning("waiting for a server", servers=self._each(verdicts))

    @property
    def _last_server(self) -> str:
        return "" if self._last is None else self._last.server

    def _describe(self, verdicts: list[failover.CandidateVerdict]) -> str:
        each = self._each(verdicts)
        if len(each) == 1:
            return failover.explain_verdict(verdicts[0])
        whys = (f"{name}: {why}" for name, why in each.items())
        return "\n  ".join(["capture can continue at none of the servers:", *whys])

    def _each(self, verdicts: list[failover.CandidateVerdict]) -> dict[str, str]:
        told = zip(self._servers, verdicts, strict=True)
        return {_name(server): failover.explain_verdict(verdict) for server, verdict in told}

    async def _judge_all(self) -> list[failover.CandidateVerdict]:
        """Returns the verdict on each server. If the present one is suitable, the others aren't queried."""
        self._close()
        first = self._at or 0
        verdict = await self._look(first)
        if isinstance(verdict, failover.CanContinue):
            ours = self._at is not None or self._last_server in ("", verdict.server)
            if ours or len(self._servers) == 1:
                not_queried = failover.Unreachable("it wasn't queried")
                return [verdict if index == first else not_queried for index in range(len(self._servers))]
        others = [index for index in range(len(self._servers)) if index != first]
        told = dict(zip(others, await asyncio.gather(*map(self._look, others)), strict=True))
        return [verdict if index == first else told[index] for index in range(len(self._servers))]

    async def _look(self, index: int) -> failover.CandidateVerdict:
        if index in self._refused:
            return self._refused[index]
        try:
            self._sources[index] = await Source.connect(self._servers[index])
            return await self._judge(self._sources[index])
        except AccessDenied as failure:
            # At a start it's an error in the configuration. Later the password may be about to change.
            return failover.Refused(str(failure)) if self._at is None else failover.Unreachable(str(failure))
        except Transient as failure:
            return failover.Unreachable(str(failure))
        except Definite as failure:
            return failover.Refused(str(failure))

    async def _judge(self, source: Source) -> failover.CandidateVerdict:
        if self._last is None or self._places:
            return failover.CanContinue(source.server)
        executed = await source.executed()
        purged = await source.purged()
        position = resume.resume_position(self._last, executed, purged)
        if position <= executed:
            history = failover.ServerHistory(source.server, executed, purged, replica=False)
        else:
            replica = await source.as_replica() is not None
            history = failover.ServerHistory(source.server, executed, purged, replica, await source.owned())
        return failover.candidate_verdict(position, history, self._last_server)

    async def _looked_closely(self, index: int, verdict: failover.CandidateVerdict) -> Preflight | None:
        """Returns what else must be known of a server; None if it can't provide that."""
        source = self._sources[index]
        position = NO_GTIDS if self._last is None else self._last.position
        if self._last is not None:
            contradiction = await witnesses.contradiction(
                source, self._servers[index], self._last, self._journal
            )
            if contradiction is not None:
                self._refused[index] = failover.Refused(contradiction)
                return None
        errant = await _errant(source, self._servers[index], verdict, position, self._journal)
        if errant:
            self._refused[index] = failover.Refused(failover.ERRANT.format(errant=errant))
            return None
        found = await inspect_source(source, replace(self._settings, source=self._servers[index]), position)
        try:
            found.raise_errors()
        except UnfitSource as unfit:
            if len(self._servers) == 1:
                raise
            self._refused[index] = failover.Refused(str(unfit))
            return None
        if (lacks := await self._left_out(source, found)) is not None:
            self._refused[index] = failover.Refused(lacks)
            return None
        if self._last is None:
            return found
        unnamed = await find_unnamed(source, self._servers[index], self._last, self._journal)
        return replace(found, unnamed=unnamed)

    async def _left_out(self, source: Source, found: Preflight) -> str | None:
        """Returns why this server's rows may not be those of the other servers, or of the one before; None if they
        are."""
        moved = self._last is not None and self._last_server not in ("", source.server)
        if moved and (renamed := await self._renamed(source, found)) is not None:
            return renamed
        if len(self._servers) == 1 and not moved:
            return None
        tables = sorted({*found.known.schemas, *(self._last.schemas if self._last else ())})
        replica = await source.as_replica()
        lacks = None if replica is None else lacking_changes(replica.filters, tables)
        return None if lacks is None else f"it {lacks}, or leave the server out of source.others"

    async def _renamed(self, source: Source, found: Preflight) -> str | None:
        """Returns why captured tables have other names at this server; None if they have not."""
        if self._last is None or not found.known.folds:
            return None
        captured = sorted(self._last.schemas.keys() - self._last.stopped.keys())
        return failover.folded_names(captured, frozenset(await source.tables()))


async def _errant(
    source: Source,
    settings: SourceSettings,
    verdict: failover.CandidateVerdict,
    position: GtidSet,
    journal: str,
) -> GtidSet:
    """Returns those of a server's doubtful transactions that its log has before something that has passed here."""
    if not isinstance(verdict, failover.CanContinue) or not verdict.doubtful:
        return NO_GTIDS
    end, _ = await source.end_of_log()
    file, before = await gtid_history.first_file(source, position)
    order = failover.TransactionOrder(verdict.doubtful, position - before)
    if not order.ahead:
        return NO_GTIDS
    log.info(
        "checking the order of the log", server=verdict.server, file=file, doubtful=str(verdict.doubtful)
    )
    dump = await BinlogDump.from_file(settings, file, verdict.server, journal)
    try:
        stream = LogStream(lambda _: False, lambda _: False)
        while order.ahead and not stream.reached(end):
            await dump.receive()
            order = await asyncio.to_thread(_follow, order, dump, stream)
    finally:
        dump.close()
    return order.errant


def _follow(
    order: failover.TransactionOrder, dump: BinlogDump, stream: LogStream
) -> failover.TransactionOrder:
    while (frames := dump.frames()) is not None:
        for given in stream.parse(frames):
            order = order.followed_by(_transactions(given))
    for given in stream.take():
        order = order.followed_by(_transactions(given))
    return order


def _transactions(given: Given) -> Transactions:
    read = given.read()[0] if isinstance(given, Slice) else given
    match read:
        case TransactionsRead(transactions):
            return transactions
        case DdlRead(gtid, commit_time):
            return Transactions.of([(gtid, commit_time)])
        case _:
            return Transactions.empty()


def _missing(verdict: failover.CandidateVerdict) -> int:
    """How much a server lacks."""
    return verdict.missing.count() if isinstance(verdict, failover.Behind | failover.StillCommitting) else 0


def _name(server: SourceSettings) -> str:
    return f"{server.host}:{server.port}"
