"""Planted bugs: rules of capture left out or turned round, each of which the simulation has to find.

Those of the coordinator's rules are in `tests.simulation.mutations`; the others are here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipeline.coordinator import (
    handle_chunks,
    handle_schemas,
    handle_signals,
    handle_transactions,
    resume,
    schedule,
)
from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator import step as coordinator
from pipeline.coordinator import window as windows
from pipeline.coordinator.consistent_state import ApproachingPosition, AtPosition
from pipeline.coordinator.snapshots import recapture, table_snapshots
from pipeline.coordinator.state import InTransaction, Order, State
from pipeline.coordinator.verification import repair
from pipeline.coordinator.window import Reading, Reconciling, Window
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet, Tsid
from pipeline.gtid.witness import Witness
from pipeline.journal.applied.gtid_index import GtidIndex
from pipeline.journal.applied.query import Applied
from pipeline.journal.applied.waiters import Waiters
from pipeline.journal.entry import Entry
from pipeline.kafka import portions
from pipeline.kafka import position as positions
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.facts import PortionSent, TransactionCommitted
from pipeline.kafka.orders import SendPortion
from pipeline.kafka.portions import Portion
from pipeline.kafka.position import KafkaPosition, SinkPosition
from pipeline.kafka.state import AllTopicsBut, CommittingLast, OpenTransaction, SendingPortion
from pipeline.kafka.state import State as Sending
from pipeline.kafka.transaction_endings import Ending
from pipeline.lake import batch as batch_
from pipeline.lake import delivery
from pipeline.lake import step as spark_sink
from pipeline.lake.batch import Batch, LakeTableState, Pieces
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.state import Delivering
from pipeline.lake.state import State as SinkState
from pipeline.lake.verification.runs import Judgement, VerificationRun
from pipeline.messages.binlog import DdlRead
from pipeline.messages.changes import ChangesVerified, SchemaChanged
from pipeline.messages.chunks import ChunkRead
from pipeline.messages.journal import ChangePart, ChunkPart
from pipeline.messages.row_images import TableChanges
from pipeline.schema.ddl import effects
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot.checkpoint import Checkpoint, Mirror
from pipeline.snapshot.snapshot import Range, Repairing, TableSnapshot
from pipeline.snapshot.watermark import High, MarkerRow, StreamPosition
from pipeline.verifier import cascades, handle_images, handle_statements
from pipeline.verifier import state as verifier_state
from pipeline.verifier import step as schema_verifier
from pipeline.verifier.state import FromVerifier
from pipeline.verifier.state import State as Verifier
from pipeline.verifier.table_state import SchemaKnown
from tests.simulation import mutations
from tests.simulation.replica import Replica
from tests.simulation.selector import Chunk, Selector
from tests.simulation.server import Server, gtid_set
from tests.simulation.sink import Message, Sink
from tests.simulation.topics import STATEMENTS, Broker, Commit, Topics
from tests.simulation.verifying import Verifying
from tests.simulation.views import Views
from tests.simulation.world import Reads

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def high_is_the_executed_set(patch: Patch) -> None:
    """The seeds' and Debezium's high watermark, as far as a place can say it: the log up to what's executed."""

    def executed_end(self: Selector, _where: object) -> High:
        done = [t for t in self._server.log if t.executed]
        return done[-1].end if done else Coordinates("binlog.000001", 4)

    patch.setattr(Selector, "high_watermark", executed_end)


def low_is_what_is_in_the_log(patch: Patch) -> None:
    """The executed set of MySQL 5.6, which has a transaction as soon as it's in the log."""
    original = Selector._ask_low

    def ask_low(self: Selector, chunk: Chunk, where: Server | Replica) -> None:
        original(self, chunk, where)
        if chunk.views is None and self._world.reads is not Reads.MARKED and self._replica is None:
            chunk.low = gtid_set(transaction.gtid for transaction in self._server.log) | self._server.purged

    patch.setattr(Selector, "_ask_low", ask_low)


def high_is_read_with_low(patch: Patch) -> None:
    original = Selector._ask_low

    def ask_low(self: Selector, chunk: Chunk, where: Server | Replica) -> None:
        original(self, chunk, where)
        chunk.high = self.high_watermark(where)

    patch.setattr(Selector, "_ask_low", ask_low)


def two_beginnings_are_one_generation(patch: Patch) -> None:
    patch.setattr(coordinator, "_skip_begun_scn", lambda state: state)


def a_plan_is_older_than_the_stream(patch: Patch) -> None:
    original = schedule._place_order

    def asked(state: State, turn: object) -> object:
        after, order = original(state, turn)  # type: ignore[arg-type]
        return after, replace(order, ordered_at=type(order.ordered_at)()) if hasattr(
            order, "ranges"
        ) else order

    patch.setattr(schedule, "_place_order", asked)


def high_of_a_replica_is_not_whole(patch: Patch) -> None:
    patch.setattr(Selector, "_whole", lambda _self: True)


def what_never_comes_is_waited_for(patch: Patch) -> None:
    original = Selector.high_watermark

    def high_watermark(self: Selector, where: Server | Replica) -> High:
        return original(self, where) if self._replica is None else self._replica.executed

    patch.setattr(Selector, "high_watermark", high_watermark)


def a_set_is_reached_by_a_part_of_it(patch: Patch) -> None:
    original = StreamPosition.has

    def has(self: StreamPosition, high: High) -> bool:
        return bool(high & self.position) if isinstance(high, GtidSet) else original(self, high)

    patch.setattr(StreamPosition, "has", has)


def markers_are_not_waited_for(patch: Patch) -> None:
    original = StreamPosition.has
    patch.setattr(
        StreamPosition, "has", lambda self, high: isinstance(high, MarkerRow) or original(self, high)
    )


def a_mirror_has_one_generation(patch: Patch) -> None:
    original = coordinator_state.with_mirror

    def with_mirror(state: State, table: TableId, mirror: Mirror) -> State:
        before = state.checkpoint.mirrors.get(table)
        return original(state, table, replace(mirror, since=before.since) if before else mirror)

    for module in (table_snapshots, handle_schemas):
        patch.setattr(module, "with_mirror", with_mirror)


def strain_is_not_heeded(patch: Patch) -> None:
    original = schedule._turns
    patch.setattr(schedule, "_turns", lambda state: original(replace(state, overloaded=None)))


def want_of_room_is_not_heeded(patch: Patch) -> None:
    patch.setattr(schedule, "_pause_for_room", schedule._order_regular_reads)


def a_pause_for_want_of_room_ends_within(patch: Patch) -> None:
    original = schedule._pause_for_room

    def waiting_for_room(state: State) -> tuple[State, tuple[Order, ...]]:
        return (
            schedule._resume_within_transaction(state)
            if isinstance(state.phase, InTransaction)
            else original(state)
        )

    patch.setattr(schedule, "_pause_for_room", waiting_for_room)


def any_chunk_keeps_the_stream_standing(patch: Patch) -> None:
    patch.setattr(
        schedule, "_needs_pause", lambda state: any(isinstance(each, Reading) for each in state.windows)
    )


def the_next_chunk_begins_a_row_later(patch: Patch) -> None:
    original = handle_chunks.chunk_read

    def chunk_read(state: State, message: ChunkRead) -> State:
        upto = message.upto and (*message.upto[:-1], int(message.upto[-1]) + 1)
        return original(state, replace(message, upto=upto))

    patch.setattr(handle_chunks, "chunk_read", chunk_read)


def a_short_chunk_ends_the_table(patch: Patch) -> None:
    original = snapshots.advance_range

    def progressed(ranges: tuple[Range, ...], number: int, upto: Key | None) -> tuple[Range, ...]:
        return () if upto is None else original(ranges, number, upto)

    patch.setattr(coordinator, "advance_range", progressed)
    patch.setattr(handle_chunks, "advance_range", progressed)


def ranges_leave_out_their_first_keys(patch: Patch) -> None:
    def later(number: int, done: Key | None, end: Key) -> Range:
        return Range(number, done and (*done[:-1], int(done[-1]) + 1), end)

    patch.setattr(handle_chunks, "Range", later)


def a_done_range_is_the_first_one(patch: Patch) -> None:
    original = snapshots.advance_range

    def progressed(ranges: tuple[Range, ...], number: int, upto: Key | None) -> tuple[Range, ...]:
        return ranges[1:] if upto is None else original(ranges, number, upto)

    patch.setattr(coordinator, "advance_range", progressed)


def a_statement_does_not_pass(patch: Patch) -> None:
    original = handle_schemas.schema_changed

    def statement_passed(state: State, message: SchemaChanged) -> State:
        after = original(state, message)
        return coordinator_state.with_checkpoint(after, position=state.checkpoint.position)

    patch.setattr(handle_schemas, "schema_changed", statement_passed)


def a_pause_is_forgotten_by_a_crash(patch: Patch) -> None:
    original = coordinator.start

    def start(checkpoint: Checkpoint, *others: object) -> object:
        return original(replace(checkpoint, paused=False), *others)  # type: ignore[arg-type]

    patch.setattr(coordinator, "start", start)


def a_stop_is_forgotten(patch: Patch) -> None:
    patch.setattr(handle_signals, "end_table", lambda state, _snapshot, _table, _ended: state)


# Consistent snapshots


def views_are_opened_at_any_moment(patch: Patch) -> None:
    patch.setattr(Views, "is_quiet", lambda _self, _at: True)


def where_the_stream_stands_is_not_compared(patch: Patch) -> None:
    patch.setattr(ApproachingPosition, "holds", lambda self, passed: passed.position <= self.opened.visible)
    patch.setattr(AtPosition, "holds", lambda _self, _passed: True)


def views_may_lack_what_is_in_the_log(patch: Patch) -> None:
    patch.setattr(ApproachingPosition, "holds", lambda self, passed: passed.end == self.opened.at)


def what_was_read_elsewhere_counts(patch: Patch) -> None:
    patch.setattr(resume, "restart_consistent_snapshots", lambda checkpoint: checkpoint)


# Servers, and what isn't in the log


def any_server_will_do(patch: Patch) -> None:
    patch.setattr(Selector, "must_be_ours", lambda _self, _met: None)


def cascades_are_not_heeded(patch: Patch) -> None:
    patch.setattr(handle_images, "find_cascades", lambda _keys, _changes, before: before)


def cascades_go_no_further(patch: Patch) -> None:
    def direct(keys: tuple[ForeignKey, ...], changes: TableChanges) -> frozenset[TableId]:
        known = [key for key in keys if key.parent == changes.schema.table]
        return frozenset(key.child for key in known if cascades._works(key, changes))

    patch.setattr(cascades, "cascaded_tables", direct)


def keys_that_change_do_not_cascade(patch: Patch) -> None:
    patch.setattr(cascades, "_changes_referred", lambda _key, _changes, _kinds: False)


def cascades_of_parts_are_forgotten(patch: Patch) -> None:
    original = cascades.find_cascades
    patch.setattr(handle_images, "find_cascades", lambda keys, changes, _before: original(keys, changes, {}))


def children_go_on_without_their_parents(patch: Patch) -> None:
    patch.setattr(verifier_state, "stop_orphans", lambda _keys, _ended: ())


# Delivery


def what_the_lake_has_is_delivered_again(patch: Patch) -> None:
    patch.setattr(
        delivery, "missing_pieces", lambda _, table, batch: batch.tables.get(table, batch_.Pieces())
    )


def a_batch_says_its_own_end(patch: Patch) -> None:
    patch.setattr(Sink, "told_after", lambda _self, batch: batch.through)


def what_the_journal_was_told_counts_for_any_lake(patch: Patch) -> None:
    patch.setattr(spark_sink, "complete_through", lambda lake, told, *_: max(0, lake.reported, told))


def a_start_tells_the_journal_nothing(patch: Patch) -> None:
    patch.setattr(Sink, "tell_at_start", lambda *_: None)


def a_batch_ends_with_its_first_table(patch: Patch) -> None:
    original = spark_sink._continue_delivery

    def after_first(state: SinkState, delivering: Delivering, now: float) -> spark_sink._Next:
        return original(state, replace(delivering, left=frozenset()), now)

    patch.setattr(spark_sink, "_continue_delivery", after_first)


def a_mirror_in_the_lake_has_one_generation(patch: Patch) -> None:
    for module in (batch_, delivery):
        patch.setattr(module, "is_newer", lambda _generation, present: present is None)


def a_batch_leaves_out_its_first_segment(patch: Patch) -> None:
    original = batch_.missing_pieces

    def missing(delivered: LakeTableState, table: TableId, batch: Batch) -> Pieces:
        return original(replace(delivered, changes=delivered.changes + 1), table, batch)

    patch.setattr(delivery, "missing_pieces", missing)


# Topics


def a_position_is_outside_of_its_transaction(patch: Patch) -> None:
    def commits(_: Topics, at: SinkPosition) -> list[Commit]:
        return [Commit(None, last=False), Commit(positions.to_json(at), last=True)]

    patch.setattr(Topics, "commits", commits)


def a_predecessor_is_not_fenced(patch: Patch) -> None:
    patch.setattr(Broker, "fence", lambda _: None)


def what_a_broker_left_open_is_not_ended(patch: Patch) -> None:
    patch.setattr(Topics, "end_what_is_open", lambda *_: None)


def what_consumers_have_seen_in_part_is_aborted(patch: Patch) -> None:
    patch.setattr("tests.simulation.topics.ending_of", lambda _: Ending.ABORT)


def what_nobody_has_seen_is_left_open(patch: Patch) -> None:
    original = Topics.end_what_is_open

    def end(self: Topics, broker: Broker) -> None:
        if broker.left_position is None:
            original(self, broker)

    patch.setattr(Topics, "end_what_is_open", end)


def a_commit_does_not_wait_for_its_markers(patch: Patch) -> None:
    patch.setattr(Topics, "missed_markers", lambda _, life: life.facts.append(TransactionCommitted()))


def messages_are_visible_before_their_position(patch: Patch) -> None:
    original = Broker.take

    def take(self: Broker, epoch: int, messages: list[Message]) -> None:
        original(self, epoch, messages)
        self.commit(epoch, None)

    patch.setattr(Broker, "take", take)


def a_source_transaction_is_divided(patch: Patch) -> None:
    original = kafka_sink._send_next

    def going_on(state: Sending, sealed: int, opened: OpenTransaction, left: tuple[Portion, ...]) -> object:
        after, orders = original(state, sealed, opened, left)
        return after, tuple(
            replace(each, most=1) if isinstance(each, SendPortion) else each for each in orders
        )

    patch.setattr(kafka_sink, "_send_next", going_on)


def what_was_sent_of_a_large_transaction_is_sent_again(patch: Patch) -> None:
    original = kafka_sink._send_next

    def going_on(state: Sending, sealed: int, opened: OpenTransaction, left: tuple[Portion, ...]) -> object:
        after, orders = original(state, sealed, opened, left)
        return after, tuple(
            replace(each, skip=0) if isinstance(each, SendPortion) else each for each in orders
        )

    patch.setattr(kafka_sink, "_send_next", going_on)


def notifications_are_sent_after_their_position(patch: Patch) -> None:
    original = kafka_sink._segment_ended

    def segment_ended(state: Sending, sealed: int, opened: OpenTransaction) -> object:
        after, (report, *orders) = original(state, sealed, opened)
        return after, (*orders, report)

    patch.setattr(kafka_sink, "_segment_ended", segment_ended)


def a_statement_without_rows_is_left_out(patch: Patch) -> None:
    original = portions.whole_segment
    patch.setattr(
        portions, "whole_segment", lambda entry, files: original(replace(entry, statements=()), files)
    )


def a_statement_is_sent_with_each_part(patch: Patch) -> None:
    def sent(entry: Entry, portion: Portion, skip: int) -> object:
        statements = portions.statements_of(entry, portion)
        return statements, max(0, skip - len(statements))

    patch.setattr("tests.simulation.topics.unsent", sent)


def a_statement_is_sent_after_what_follows_it(patch: Patch) -> None:
    original, held = Broker.take, list[Message]()

    def take(self: Broker, epoch: int, messages: list[Message]) -> None:
        before, held[:] = list(held), [each for each in messages if each.topic == STATEMENTS]
        original(self, epoch, [*(each for each in messages if each.topic != STATEMENTS), *before])

    patch.setattr(Broker, "take", take)


def a_statement_has_the_number_of_the_next_transaction(patch: Patch) -> None:
    original = handle_schemas.statement_parts
    patch.setattr(handle_schemas, "statement_parts", lambda scn, message: original(scn + 1, message))


def the_rest_of_a_large_transaction_is_left_out(patch: Patch) -> None:
    original = kafka_sink._portion_sent

    def sent(state: Sending, fact: PortionSent, sending: SendingPortion) -> object:
        return original(state, replace(fact, ended=True), sending)

    patch.setattr(kafka_sink, "_portion_sent", sent)


def a_stop_commits_what_it_has_not_sent(patch: Patch) -> None:
    original = kafka_sink._commit

    def commit(state: Sending, sealed: int, opened: OpenTransaction, left: tuple[Portion, ...]) -> object:
        if isinstance(state.stop, CommittingLast):
            opened = replace(opened, reached=KafkaPosition(sealed))
        return original(state, sealed, opened, left)

    patch.setattr(kafka_sink, "_commit", commit)


def the_topics_begin_where_the_journal_was_told(patch: Patch) -> None:
    patch.setattr(kafka_sink, "_checked_position", lambda _, found: KafkaPosition(found.journal.joined))


def a_topic_that_is_set_aside_is_sent_to(patch: Patch) -> None:
    patch.setattr(kafka_sink, "_other_topics", lambda _: AllTopicsBut(frozenset()))


def what_is_set_aside_is_forgotten_by_a_kill(patch: Patch) -> None:
    original = positions.to_json
    patch.setattr(positions, "to_json", lambda at: original(replace(at, set_aside={})))


def what_a_set_aside_topic_lacks_is_left_out(patch: Patch) -> None:
    def retried(state: Sending, topic: str, _: int) -> object:
        left = {name: each for name, each in state.at.set_aside.items() if name != topic}
        return replace(state, at=replace(state.at, set_aside=left)), ()

    patch.setattr(kafka_sink, "_retry_topic", retried)


def the_journal_forgets_what_a_set_aside_topic_lacks(patch: Patch) -> None:
    patch.setattr(kafka_sink, "_unneeded_through", lambda state: state.at.position.segment)


def a_table_that_is_gone_is_forgotten(patch: Patch) -> None:
    original = handle_statements.handle_statement

    def statement_read(state: Verifier, message: DdlRead) -> tuple[Verifier, tuple[FromVerifier, ...]]:
        there = {table: schema for table, schema in state.reported.items() if table in state.tables}
        return original(replace(state, reported=there), message)

    patch.setattr(schema_verifier, "handle_statement", statement_read)


def what_comes_back_is_what_went(patch: Patch) -> None:
    original = effects.changed_unlogged

    def changed_unlogged(*arguments: Any, **named: Any) -> dict[TableId, Unlogged]:
        found = original(*arguments, **named)
        return {t: of for t, of in found.items() if (of.what, of.effect) != ("RENAME TABLE", Effect.CHANGED)}

    patch.setattr(effects, "changed_unlogged", changed_unlogged)


def what_comes_back_is_empty(patch: Patch) -> None:
    original = effects.changed_unlogged

    def changed_unlogged(*arguments: Any, **named: Any) -> dict[TableId, Unlogged]:
        found = original(*arguments, **named)
        return {
            t: replace(of, effect=Effect.EMPTIED) if of.what == "RENAME TABLE" else of
            for t, of in found.items()
        }

    patch.setattr(effects, "changed_unlogged", changed_unlogged)


def what_cannot_be_named_is_left_out_for_good(patch: Patch) -> None:
    patch.setattr(handle_images, "restarts_after_gaps", lambda *_: ())


def what_cannot_be_named_cascades_nowhere(patch: Patch) -> None:
    original = cascades.restarts_after_gaps
    patch.setattr(
        handle_images, "restarts_after_gaps", lambda unnamed, _keys, ended: original(unnamed, (), ended)
    )


def chunks_lack_a_constant(patch: Patch) -> None:
    """A column comes with a constant, and the chunks that were read before it stay."""
    patch.setattr(handle_schemas, "_invalidate_unextended", lambda *_: ())


def changes_of_what_begins_again_are_left_out(patch: Patch) -> None:
    """As a gap leaves them out, and where none is: their columns are known, and the changelog is to have them."""
    original = handle_transactions.changes_verified

    def changes_passed(state: State, message: ChangesVerified) -> tuple[State, tuple[ChangePart, ...]]:
        after, parts = original(state, message)
        again = {each.table for each in message.restarted}
        return after, tuple(part for part in parts if part.changes.schema.table not in again)

    patch.setattr(handle_transactions, "changes_verified", changes_passed)


def a_name_is_a_transaction(patch: Patch) -> None:
    patch.setattr(Witness, "differs", lambda *_: False)


def the_last_transaction_is_not_kept(patch: Patch) -> None:
    patch.setattr(handle_transactions, "add_transactions", lambda before, _run: before)


def a_recapture_goes_on_with_the_mirror(patch: Patch) -> None:
    original = recapture.recapture_tables

    def recaptured(checkpoint: Checkpoint, known: Mapping[TableId, TableSchema]) -> Checkpoint:
        return replace(original(checkpoint, known), mirrors=checkpoint.mirrors)

    patch.setattr(resume, "recapture_tables", recaptured)


def a_recapture_goes_on_with_the_chunks_of_before(patch: Patch) -> None:
    patch.setattr(recapture, "_wait_again", lambda snapshot, _tables: snapshot)


def a_commit_is_applied_once_it_is_sealed(patch: Patch) -> None:
    def look(waiters: Waiters, _question: object, tables: Iterable[TableId], _waiting: object) -> Applied:
        assert waiters._journal is not None
        return Applied(waiters._journal.whole, dict.fromkeys(tables))

    patch.setattr(Waiters, "_answer_of_consumer", look)


def a_table_has_a_batch_before_its_part_is_delivered(patch: Patch) -> None:
    original = LakeConsumerProgress.of
    patch.setattr(
        LakeConsumerProgress, "of", lambda lake, table: replace(original(lake, table), reached=lake.furthest)
    )


def who_waits_for_a_table_is_forgotten(patch: Patch) -> None:
    patch.setattr(
        Waiters,
        "_wake",
        lambda waiters, through, progress: waiters._by_gtid[through].advance(progress.furthest.position),
    )


def a_gap_that_is_filled_wakes_nobody(patch: Patch) -> None:
    """As if a source's transactions came in the order of their numbers."""
    original = GtidIndex._taken

    def taken(index: GtidIndex, source: Tsid, start: int, end: int) -> list[int]:
        position = index._position.intervals.get(source)
        return [] if position is not None and start < position.end else original(index, source, start, end)

    patch.setattr(GtidIndex, "_taken", taken)


def _is_verified(window: Window) -> bool:
    """Whether it's a window of a verification: the simulation names these so."""
    return window.order.chunk.snapshot.startswith("v")


def touched_rows_are_verified(patch: Patch) -> None:
    original = windows.untouched_rows

    def untouched_rows(window: Reconciling) -> pa.RecordBatch:
        return window.rows if _is_verified(window) else original(window)

    patch.setattr(windows, "untouched_rows", untouched_rows)


def a_verified_chunk_has_no_high_watermark(patch: Patch) -> None:
    original = windows.can_close

    def can_close(window: Reconciling, position: StreamPosition) -> bool:
        return _is_verified(window) or original(window, position)

    patch.setattr(windows, "can_close", can_close)


def what_changed_after_a_verified_chunk_is_compared(patch: Patch) -> None:
    """As if the live view were what it was at the chunk, whatever was merged since."""
    patch.setattr(Verifying, "is_current", lambda _self, _scn, _changed: True)


def a_verification_is_older_than_its_beginning(patch: Patch) -> None:
    """So keys that came after it seem to be too much."""
    original = Verifying._judge

    def judge(self: Verifying, run: VerificationRun, *others: Any) -> Judgement:
        return original(self, replace(run, since=1 << 60), *others)

    patch.setattr(Verifying, "_judge", judge)


def keys_without_a_row_are_left_out(patch: Patch) -> None:
    """So a row that only the lake has stays there."""
    patch.setattr(windows, "gone_keys", lambda window: window.order.keys.slice(0, 0))


def a_key_that_came_meanwhile_is_gone(patch: Patch) -> None:
    patch.setattr(windows, "gone_keys", lambda window: window.gone)


def a_repair_writes_nothing(patch: Patch) -> None:
    """Its rows are compared both times."""
    original = coordinator.close_windows

    def close_windows(state: State) -> tuple[State, tuple[ChunkPart, ...]]:
        after, parts = original(state)
        return after, tuple(part if part.gone is None else replace(part, verifies=True) for part in parts)

    patch.setattr(coordinator, "close_windows", close_windows)


def a_repair_is_compared_with_what_it_wrote(patch: Patch) -> None:
    """Its rows aren't read once more."""
    original = repair.batch_emitted

    def batch_emitted(state: State, compared: int) -> State:
        assert state.repair is not None
        return original(replace(state, repair=replace(state.repair, checks=True)), compared)

    patch.setattr(repair, "batch_emitted", batch_emitted)


def a_batch_to_repair_is_skipped(patch: Patch) -> None:
    """As if what a start has interrupted had passed."""
    original = coordinator.start

    def start(checkpoint: Checkpoint, *others: Any, **more: Any) -> object:
        snapshots = tuple(
            replace(each, tables={t: _after_one(state) for t, state in each.tables.items()})
            for each in checkpoint.snapshots
        )
        return original(replace(checkpoint, snapshots=snapshots), *others, **more)

    patch.setattr(coordinator, "start", start)


def _after_one(state: TableSnapshot) -> TableSnapshot:
    return replace(state, batches=state.batches + 1) if isinstance(state, Repairing) else state


def what_a_start_sees_is_proven(patch: Patch) -> None:
    """Two looks at the tables that show the same may have two statements between them, which undo each other."""
    for module in (verifier_state, schema_verifier):
        patch.setattr(module, "state_at_known", lambda _, schema: SchemaKnown(schema))


BUGS: tuple[Bug, ...] = (
    mutations.any_low_is_usable,
    mutations.low_is_compared_with_nothing,
    low_is_what_is_in_the_log,
    high_is_the_executed_set,
    mutations.offsets_alone_are_compared,
    mutations.a_place_is_reached_from_behind_only,
    mutations.close_at_once,
    mutations.keys_are_forgotten_while_reading,
    mutations.keys_are_forgotten_while_reconciling,
    mutations.inside_is_decided_by_the_latest,
    mutations.inside_is_decided_without_tags,
    mutations.inside_is_decided_without_sources,
    mutations.touched_rows_are_emitted,
    mutations.new_keys_alone_touch,
    mutations.deletes_do_not_touch,
    mutations.rows_are_emitted_a_step_late,
    mutations.done_moves_when_a_chunk_is_read,
    mutations.a_table_completes_when_it_is_read,
    mutations.close_the_newest_first,
    mutations.windows_survive_a_statement,
    mutations.a_failed_chunk_is_skipped,
    mutations.every_snapshot_is_a_first_one,
    mutations.every_chunk_begins_at_the_start,
    the_next_chunk_begins_a_row_later,
    a_short_chunk_ends_the_table,
    a_done_range_is_the_first_one,
    ranges_leave_out_their_first_keys,
    a_plan_is_older_than_the_stream,
    high_of_a_replica_is_not_whole,
    what_never_comes_is_waited_for,
    a_set_is_reached_by_a_part_of_it,
    markers_are_not_waited_for,
    a_mirror_has_one_generation,
    strain_is_not_heeded,
    want_of_room_is_not_heeded,
    a_pause_for_want_of_room_ends_within,
    any_chunk_keeps_the_stream_standing,
    a_statement_does_not_pass,
    mutations.a_pause_is_not_heeded,
    a_pause_is_forgotten_by_a_crash,
    a_stop_is_forgotten,
    mutations.signals_are_forgotten,
    mutations.the_reader_is_resumed_before_the_chunk_is_read,
    mutations.the_reader_is_never_resumed,
    mutations.a_part_advances_the_position,
    mutations.keys_of_parts_do_not_touch,
    mutations.windows_close_within,
    mutations.chunks_are_asked_for_within,
    mutations.nothing_is_withdrawn,
    mutations.rows_are_emitted_before_the_changes,
    mutations.an_empty_table_is_complete_at_once,
    views_may_lack_what_is_in_the_log,
    where_the_stream_stands_is_not_compared,
    cascades_are_not_heeded,
    keys_that_change_do_not_cascade,
    cascades_of_parts_are_forgotten,
    what_the_lake_has_is_delivered_again,
    a_batch_says_its_own_end,
    what_the_journal_was_told_counts_for_any_lake,
    a_start_tells_the_journal_nothing,
    a_batch_ends_with_its_first_table,
    a_mirror_in_the_lake_has_one_generation,
    a_batch_leaves_out_its_first_segment,
    a_position_is_outside_of_its_transaction,
    a_predecessor_is_not_fenced,
    what_a_broker_left_open_is_not_ended,
    what_consumers_have_seen_in_part_is_aborted,
    what_nobody_has_seen_is_left_open,
    a_commit_does_not_wait_for_its_markers,
    messages_are_visible_before_their_position,
    a_source_transaction_is_divided,
    what_was_sent_of_a_large_transaction_is_sent_again,
    notifications_are_sent_after_their_position,
    a_statement_without_rows_is_left_out,
    a_statement_is_sent_with_each_part,
    a_statement_is_sent_after_what_follows_it,
    a_statement_has_the_number_of_the_next_transaction,
    the_rest_of_a_large_transaction_is_left_out,
    a_stop_commits_what_it_has_not_sent,
    the_topics_begin_where_the_journal_was_told,
    a_topic_that_is_set_aside_is_sent_to,
    what_is_set_aside_is_forgotten_by_a_kill,
    what_a_set_aside_topic_lacks_is_left_out,
    the_journal_forgets_what_a_set_aside_topic_lacks,
    two_beginnings_are_one_generation,
    a_table_that_is_gone_is_forgotten,
    what_comes_back_is_what_went,
    what_comes_back_is_empty,
    what_cannot_be_named_is_left_out_for_good,
    what_cannot_be_named_cascades_nowhere,
    changes_of_what_begins_again_are_left_out,
    a_name_is_a_transaction,
    the_last_transaction_is_not_kept,
    a_recapture_goes_on_with_the_mirror,
    a_recapture_goes_on_with_the_chunks_of_before,
    chunks_lack_a_constant,
    a_commit_is_applied_once_it_is_sealed,
    a_table_has_a_batch_before_its_part_is_delivered,
    who_waits_for_a_table_is_forgotten,
    a_gap_that_is_filled_wakes_nobody,
    touched_rows_are_verified,
    a_verified_chunk_has_no_high_watermark,
    what_changed_after_a_verified_chunk_is_compared,
    a_verification_is_older_than_its_beginning,
    keys_without_a_row_are_left_out,
    a_repair_writes_nothing,
    a_repair_is_compared_with_what_it_wrote,
    a_batch_to_repair_is_skipped,
    what_a_start_sees_is_proven,
)

# It takes hundreds of seeds to find these, or seeds that take long, so that only `make test-full` looks for them.
RARE: tuple[Bug, ...] = (
    views_are_opened_at_any_moment,
    mutations.any_key_will_do,
    high_is_read_with_low,
    children_go_on_without_their_parents,
    mutations.an_empty_plan_is_anybodys,
    mutations.tables_that_stand_still_are_under_way,
    what_was_read_elsewhere_counts,
    any_server_will_do,
    cascades_go_no_further,
    a_key_that_came_meanwhile_is_gone,
)
