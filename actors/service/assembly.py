"""Builds the service from its parts: only connects, decides nothing.

Mailboxes and senders follow `pipeline.messages.topology`. A group of actors is built, and built again after a failure,
from only the settings and the last sealed segment.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import structlog

from actors import kafka_sink, watermark_coordinator
from actors.binlog_reader import BinlogReader
from actors.chunk_selector import ChunkSelector
from actors.http.changes.readers import ChangesReaders
from actors.http.server import HttpServer
from actors.journal import reselect_keys
from actors.journal.store import JournalStore
from actors.journal_writer import JournalWriter, JournalWriterPorts
from actors.kafka_sink import KafkaSink
from actors.runtime import malloc, measuring
from actors.runtime.actor import Actor, Sender
from actors.runtime.failure_kinds import FailureKind
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.runtime.recent_events import RecentEvents
from actors.runtime.secret_files import ensure_token
from actors.runtime.state_folder import unwritable_file
from actors.runtime.supervisor import RunOutcome, Supervisor
from actors.schema_verifier import SchemaVerifier
from actors.service import capture_start, start_checks
from actors.service.client import address_file, token_file
from actors.signal_listener import SignalListener
from actors.signals.channel import SignalChannel
from actors.signals.file import SignalFile
from actors.signals.kafka import SignalKafka
from actors.signals.rest import SignalRest
from actors.signals.verify_schedule import VerifySchedule
from actors.source import witnesses
from actors.source.failover import Servers
from actors.source.preflight import Preflight, query_tables, signal_table
from actors.spark_sink import SparkSink, SparkSinkPorts, register_lake
from actors.status.alert_webhook import AlertWebhook
from actors.status.applied_watch import AppliedWatch
from actors.status.lag_watch import LagWatch
from actors.status.status_board import StatusBoard
from actors.watermark_coordinator import WatermarkCoordinator
from pipeline import metrics as catalogue
from pipeline.config.settings import HttpSettings, Settings, Watermark
from pipeline.config.table_rules import LakeRule, with_before_images
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Overlapping, Pausing
from pipeline.journal.applied.progress import JournalProgress, Through
from pipeline.journal.consumer_names import KAFKA_CONSUMER, LAKE_CONSUMER
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.messages.journal import (
    CheckpointSealed,
    ChunksFlushed,
    DifferencesReported,
    JournalFull,
    MirrorDataExpired,
)
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import CAPTURE, CONTROL, DELIVERY, EDGES, GROUPS, KAFKA, Group, inbox
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.source.throttle import SourceLimits
from pipeline.verifier import step as schema_verifier
from pipeline.verifier.signal_table import SignalRows

log = structlog.get_logger()

# When what shows the lag or the status has failed, or what keeps memory small, it's tried again so much later (s).
LOOKS_AGAIN_S: Final = 10.0


async def serve(settings: Settings, recent: RecentEvents) -> RunOutcome:
    """Runs the pipeline until SIGTERM or SIGINT stops it, or it has to end. Raises Definite."""
    if settings.lake is not None:
        start_checks.refuse_lake(settings.lake, settings.spark)
    store = await asyncio.to_thread(JournalStore.open_single_writer, settings.journal.path, settings.name)
    try:
        assembly = Assembly(settings, store)
        supervisor = Supervisor(assembly.build, assembly.mailboxes, assembly.metrics)
        board = StatusBoard(settings.name, supervisor, assembly.mailboxes, assembly.metrics, recent)
        webhook = _webhook(settings, board)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.stop)
        async with HttpServer(
            _with_token(settings),
            address_file(settings),
            board,
            assembly.metrics,
            assembly.requests,
            assembly.applied,
            assembly.changes,
        ):
            watch = LagWatch(settings.source, supervisor.actors, assembly.metrics)
            looks = [board.run, watch.run, malloc.trim_regularly, *([webhook.run] if webhook else [])]
            looking = [asyncio.create_task(_look(each)) for each in looks]
            try:
                outcome = await supervisor.run()
            finally:
                for each in looking:
                    each.cancel()
                await asyncio.wait(looking)
            if webhook is not None and outcome.message:
                await webhook.end(outcome.message)
            return outcome
    finally:
        store.close()


class Assembly:
    """The parts that live as long as the service, and the making of those that don't."""

    def __init__(self, settings: Settings, store: JournalStore) -> None:
        self.metrics = Metrics()
        self.mailboxes: dict[Name, Mailbox[Any]] = {name: Mailbox(inbox(name)) for name in Name}
        self.requests = SignalRest()
        self.applied = AppliedWatch(settings, self.metrics)
        self.changes = ChangesReaders(settings, self.metrics, store.recent)
        self._settings = settings
        self._store = store
        self._servers = Servers(settings, store.identity.id, self.metrics)
        if settings.kafka is not None:
            kafka_sink.join_journal(store)
        if settings.lake is not None:
            register_lake(store)
        store.leave_unchecked(LAKE_CONSUMER, KAFKA_CONSUMER)
        _log_absent_consumers(settings, store)
        for name, mailbox in self.mailboxes.items():
            self.metrics.set(catalogue.MAILBOX_CAPACITY, mailbox.capacity, actor=name)
            self.metrics.watch(catalogue.MAILBOX_DEPTH, partial(getattr, mailbox, "depth"), actor=name)
        self.metrics.set(catalogue.PIPELINE, 1, pipeline=settings.name)
        _count_from_zero(self.metrics, settings)

    async def build(self, group: Group) -> tuple[Actor[Any], ...]:
        """The actors of a group, ready to run."""
        building = {
            CAPTURE: self._capture,
            DELIVERY: self._delivery,
            KAFKA: self._kafka,
            CONTROL: self._control,
        }
        return await building[group]()

    async def _capture(self) -> tuple[Actor[Any], ...]:
        settings = self._settings
        last = await asyncio.to_thread(self._store.recover)
        found = await self._servers.choose(None if last is None else last.checkpoint)
        sealed = None if last is None else JournalProgress(last.segment, last.checkpoint)
        checkpoint = capture_start.choose_beginning(last, found, settings)
        self.applied.capture_begins(found.source, sealed, checkpoint)
        capture_start.log_idle_rules(found, settings)
        if not checkpoint.witnesses:
            initial = await witnesses.initial_witnesses(
                found.source, found.server, checkpoint.position, self._store.identity.id
            )
            checkpoint = replace(checkpoint, witnesses=initial)
        segment = 0 if last is None else last.segment
        log.info("capture begins", segment=segment, position=str(checkpoint.position), server=found.server)
        journal = JournalWriter(
            self.mailboxes[Name.JOURNAL_WRITER],
            self.metrics,
            settings.journal,
            self._store,
            last,
            JournalWriterPorts(
                self._sender(Name.JOURNAL_WRITER, Name.SIGNAL_LISTENER, SignalAccepted),
                self._sender(Name.JOURNAL_WRITER, Name.SIGNAL_LISTENER, CheckpointSealed),
                tuple(self._sender(Name.JOURNAL_WRITER, sink) for sink in (Name.SPARK_SINK, Name.KAFKA_SINK)),
                self._sender(Name.JOURNAL_WRITER, Name.WATERMARK_COORDINATOR, JournalFull),
                self._sender(Name.JOURNAL_WRITER, Name.WATERMARK_COORDINATOR, ChunksFlushed),
                self._journal_progressed,
            ),
            _journal_rules(settings, self._store),
            settings.protection,
        )
        unread = await asyncio.to_thread(reselect_keys.unread_rows_keys, self._store, last, checkpoint)
        return (*self._stream(checkpoint, found), *self._snapshots(checkpoint, found, unread), journal)

    def _journal_progressed(self, progress: JournalProgress) -> None:
        """Tells those who wait for what the journal seals."""
        self.applied.journal_progressed(progress)
        self.changes.journal_progressed(progress)

    def _lake_progressed(self, progress: LakeConsumerProgress) -> None:
        """Tells those who wait for the lake, or read it."""
        self.applied.consumer_reached(Through.LAKE, progress)
        if progress.even:
            self.changes.lake_progressed(progress)

    def _stream(self, checkpoint: Checkpoint, found: Preflight) -> tuple[Actor[Any], ...]:
        """Those who read the log."""
        settings, signals = self._settings, _signal_rows(self._settings)
        verified, news = schema_verifier.start(
            settings.read,
            found.known,
            checkpoint,
            foreign_keys=found.foreign_keys,
            outdated_keys=found.outdated_keys,
            keeps=settings.keeps_statements_on,
            protection=settings.protection,
            signals=None if signals is None or signals.captured else signals.table,
        )
        reader = BinlogReader(
            self.mailboxes[Name.BINLOG_READER],
            self.metrics,
            found.source,
            settings.read,
            checkpoint.position,
            self._sender(Name.BINLOG_READER, Name.SCHEMA_VERIFIER),
            found.server,
            checkpoint.prepared,
            self._store.identity.id,
        )
        verifier = SchemaVerifier(
            self.mailboxes[Name.SCHEMA_VERIFIER],
            self.metrics,
            verified,
            news,
            self._sender(Name.SCHEMA_VERIFIER, Name.WATERMARK_COORDINATOR),
            partial(
                query_tables,
                found.source,
                found.server,
                markers=found.markers,
                cascades=found.outdated_keys is not None,
            ),
            signals,
        )
        return reader, verifier

    def _snapshots(
        self, checkpoint: Checkpoint, found: Preflight, unread: Mapping[TableId, pa.RecordBatch]
    ) -> tuple[Actor[Any], ...]:
        """Those who bring the chunks into it."""
        settings, snapshot = self._settings, self._settings.snapshot
        coordinator = WatermarkCoordinator(
            self.mailboxes[Name.WATERMARK_COORDINATOR],
            self.metrics,
            checkpoint,
            ChunkLimits.of(snapshot),
            Pausing() if snapshot.watermark is Watermark.PAUSE else Overlapping(snapshot.windows),
            watermark_coordinator.CoordinatorPorts(
                self._sender(Name.WATERMARK_COORDINATOR, Name.BINLOG_READER),
                self._sender(Name.WATERMARK_COORDINATOR, Name.CHUNK_SELECTOR),
                self._sender(Name.WATERMARK_COORDINATOR, Name.JOURNAL_WRITER),
            ),
            snapshot.mode,
            unread,
            has_lake=settings.lake is not None,
            protection=settings.protection,
            captured=settings.tables,
        )
        selector = ChunkSelector(
            self.mailboxes[Name.CHUNK_SELECTOR],
            self.metrics,
            found.source,
            snapshot.connections,
            self._sender(Name.CHUNK_SELECTOR, Name.WATERMARK_COORDINATOR),
            signal_table(settings),
            snapshot.allow_lock,
            SourceLimits(snapshot.rows_per_s, snapshot.most_threads_running, snapshot.most_replica_lag_s),
            snapshot.source,
            found.server,
        )
        return coordinator, selector

    async def _delivery(self) -> tuple[Actor[Any], ...]:
        settings = self._settings
        if settings.lake is None:
            return ()
        return (
            SparkSink(
                self.mailboxes[Name.SPARK_SINK],
                self.metrics,
                settings.lake,
                settings.spark,
                self._store,
                SparkSinkPorts(
                    self._sender(Name.SPARK_SINK, Name.WATERMARK_COORDINATOR, MirrorDataExpired),
                    self._sender(Name.SPARK_SINK, Name.WATERMARK_COORDINATOR, DifferencesReported),
                ),
                self._lake_progressed,
                settings.tables,
            ),
        )

    async def _kafka(self) -> tuple[Actor[Any], ...]:
        settings = self._settings
        if settings.kafka is None:
            return ()
        sink = KafkaSink(
            self.mailboxes[Name.KAFKA_SINK],
            self.metrics,
            settings.kafka,
            settings.name,
            self._store,
            partial(self.applied.consumer_reached, Through.KAFKA),
        )
        return (sink,)

    async def _control(self) -> tuple[Actor[Any], ...]:
        signals = self._settings.signals
        channels: list[SignalChannel] = [self.requests]
        if signals.file is not None:
            channels.append(SignalFile(Path(signals.file)))
        if signals.kafka is not None:
            channels.append(SignalKafka(signals.kafka, self._settings.name))
        if self._settings.verify is not None:
            channels.append(VerifySchedule(self._settings.verify))
        listener = SignalListener(
            self.mailboxes[Name.SIGNAL_LISTENER],
            self.metrics,
            self._sender(Name.SIGNAL_LISTENER, Name.WATERMARK_COORDINATOR),
            tuple(channels),
        )
        return (listener,)

    def _sender(self, sender: Name, receiver: Name, of: type | None = None) -> Sender[Any]:
        """Returns the sender between these two; where there are several, that of this message."""
        between = (edge for edge in EDGES if edge.sender is sender and edge.receiver is receiver)
        edge = next(edge for edge in between if of is None or of in edge.messages)
        return Sender(edge, self.mailboxes[receiver])


def _webhook(settings: Settings, board: StatusBoard) -> AlertWebhook | None:
    """What posts alerts, if the configuration has where to."""
    if settings.alerts is None:
        return None
    kept = address_file(settings).with_name("webhook.json")
    return AlertWebhook(settings.alerts, settings.name, kept, board.status, board.not_ready)


def _with_token(settings: Settings) -> HttpSettings:
    """Returns the settings of HTTP with a token: on loopback one that is made, if the configuration has none. Raises
    Definite."""
    if settings.http.token.value:
        return settings.http
    file = token_file(settings)
    try:
        return replace(settings.http, token=ensure_token(file))
    except OSError as error:
        raise unwritable_file(file, error) from error


async def _look(look: Callable[[], Awaitable[None]]) -> None:
    """Repeats a look after any error. An error there is a bug, but none to stop capture for."""
    while True:
        try:
            await look()
        except Exception as error:  # noqa: BLE001 - it's tried again after any error
            measuring.count_failure(look.__qualname__, error)
        await asyncio.sleep(LOOKS_AGAIN_S)


def _journal_rules(settings: Settings, store: JournalStore) -> tuple[LakeRule, ...]:
    """The rules that the journal is written by: a consumer in Kafka wants what each update found."""
    wanted = settings.kafka is not None or KAFKA_CONSUMER in store.consumers.all()
    return with_before_images(settings.lake_rules) if wanted else settings.lake_rules


@measuring.contain_errors
def _log_absent_consumers(settings: Settings, store: JournalStore) -> None:
    """Logs for which consumers the journal keeps segments that nothing here reads: up to its quota, and then capture
    waits.

    Whether they come back is for people to say: what they lack by then is read again.
    """
    sections = {LAKE_CONSUMER: settings.lake, KAFKA_CONSUMER: settings.kafka}
    for name in sorted(name for name in store.consumers.all() if sections.get(name, settings) is None):
        log.warning("the journal keeps segments for a consumer without a section", consumer=name)


def _count_from_zero(metrics: Metrics, settings: Settings) -> None:
    """Let there be a value before the first failure, for a counter that begins with 1 hasn't increased."""
    absent = {Name.SPARK_SINK} if settings.lake is None else set()
    absent |= {Name.KAFKA_SINK} if settings.kafka is None else set()
    for name in Name:
        if name in absent:
            continue
        metrics.set(catalogue.UP, 0, actor=name)
        metrics.count(catalogue.RESTARTS, 0, actor=name)
    for who in (*Name, *(group.name for group in GROUPS)):
        for kind in FailureKind:
            metrics.count(catalogue.ERRORS, 0, actor=who, kind=kind)


def _signal_rows(settings: Settings) -> SignalRows | None:
    """The table that signals may be inserted into, if there's one."""
    table = settings.signals.table
    return None if table is None else SignalRows(table, settings.tables.match(table))
