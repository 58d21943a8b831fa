"""Recapture: which tables begin again at a start, which don't and why, and that all others stay as they are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.column_protection import UNPROTECTED, Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import handle_signals, resume
from pipeline.coordinator.snapshots.recapture import recapture_reprotected, recapture_tables, stop_reason
from pipeline.coordinator.snapshots.table_snapshots import stop_table
from pipeline.messages.changes import TableStopped
from pipeline.messages.signals import SignalAccepted, SignalReceived, SignalRejected
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.notifications import NotificationType, find_notifications
from pipeline.signals.signal import Recapture
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Moving, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Request,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
)
from tests.pipeline.builders import ITEMS, ORDERS, USERS, Capture, altered, execute, gtids, table
from tests.pipeline.strategies import checkpoints, table_ids, table_schemas

KEYLESS = table("keyless", "a", "b", key=())
SO = "its rows can't be decoded"
STOPPED = Checkpoint(
    gtids("a:1-5"),
    scn=7,
    schemas={each.table: each for each in (ORDERS, ITEMS)},
    mirrors={ORDERS.table: Ready(2), ITEMS.table: Ready(2)},
    stopped={ORDERS.table: SO},
)


def asked(checkpoint: Checkpoint, *tables: TableId) -> Checkpoint:
    """Returns the checkpoint in which a signal has requested these tables."""
    return replace(checkpoint, recapturing=dict.fromkeys(tables, "r1"))


def known(*schemas: TableSchema) -> dict[TableId, TableSchema]:
    return {each.table: each for each in schemas}


def recapture(id_: str, *patterns: str) -> SignalReceived:
    return SignalReceived(Recapture(id_, TableFilter(patterns)))


# The signal


def test_a_stopped_table_is_taken_down_for_the_next_start() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(TableStopped(ORDERS.table, SO), recapture("r1", r"shop\.orders"))
    assert capture.answers[-1] == SignalAccepted("r1", "recapture of shop.orders, which had stopped")
    assert capture.checkpoint.recapturing == {ORDERS.table: "r1"}
    assert capture.checkpoint.stopped == {ORDERS.table: SO}, "until the start"
    assert capture.checkpoint.to_be_resumed


def test_a_table_that_has_not_stopped_may_be_begun_again_by_hand() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(TableStopped(ORDERS.table, SO), recapture("r1", r"shop\..*"))
    accepted = capture.answers[-1]
    assert accepted == SignalAccepted(
        "r1", "recapture of shop.orders, which had stopped, and of shop.items, though capture hadn't stopped"
    )
    assert capture.checkpoint.recapturing.keys() == {ORDERS.table, ITEMS.table}


def test_a_table_that_was_never_proven_may_be_meant() -> None:
    state = Capture(ORDERS).state
    state = replace(state, checkpoint=replace(state.checkpoint, stopped={USERS.table: SO}))
    state, answer = handle_signals.signal_received(state, recapture("r1", r"shop\.users").signal)
    assert isinstance(answer, SignalAccepted)
    assert state.checkpoint.recapturing == {USERS.table: "r1"}


def test_it_is_taken_once_and_refused_where_it_means_nothing() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(recapture("r1", r"shop\.orders"), recapture("r1", r"shop\.orders"))
    assert "taken before" in str(capture.answers[-1])
    capture.give(recapture("r2", r"shop\.orders"))
    assert capture.answers[-1] == SignalRejected("r2", "shop.orders is being recaptured already, by r1")
    capture.give(recapture("r3", r"shop\..*"))
    assert capture.checkpoint.recapturing == {ORDERS.table: "r1", ITEMS.table: "r3"}
    capture.give(recapture("r4", r"shop\.orderz"))
    assert isinstance(capture.answers[-1], SignalRejected)
    assert "matches shop\\.orderz" in capture.answers[-1].reason


@pytest.mark.parametrize("proven", [True, False])
def test_a_snapshot_of_a_stopped_table_says_so_and_names_the_signal(proven: bool) -> None:
    state = Capture(*((ORDERS, ITEMS) if proven else (ITEMS,))).state
    state = replace(state, checkpoint=replace(state.checkpoint, stopped={ORDERS.table: SO}))
    _, answer = handle_signals.signal_received(state, execute("s1", ORDERS).signal)
    assert isinstance(answer, SignalRejected)
    assert answer.reason == f"shop.orders: it has stopped: {stop_reason(ORDERS.table, SO)}"
    assert r"tidemark signal CONFIG recapture --tables 'shop\.orders'" in answer.reason


# The start


def test_a_stopped_table_begins_again_with_a_snapshot_of_the_whole() -> None:
    again = recapture_tables(asked(STOPPED, ORDERS.table), known(altered(ORDERS), ITEMS))
    assert again.stopped == {}
    assert again.recapturing == {}
    assert again.unproven == {ORDERS.table}
    assert again.schemas == STOPPED.schemas, "what holds here is proven by the stream"
    assert again.mirrors == {ORDERS.table: Filling(7), ITEMS.table: Ready(2)}
    assert again.snapshots == (Snapshot("r1", {ORDERS.table: SnapshotWaiting()}),)


def test_a_table_that_begins_again_keeps_its_foreign_keys() -> None:
    """One of a stopped parent may be gone, and what it did may be to come: the verifier decides on it."""
    keys = (ForeignKey(ORDERS.table, USERS.table, ("id",), deletes=True, updates=True),)
    stopped = replace(STOPPED, stopped={each.table: SO for each in (ORDERS, USERS)}, foreign_keys=keys)
    again = recapture_tables(asked(stopped, ORDERS.table), known(ORDERS, ITEMS, USERS))
    assert again.foreign_keys == keys


def test_what_the_source_does_not_show_stays_stopped_and_fails_by_name() -> None:
    again = recapture_tables(asked(STOPPED, ORDERS.table), known(ITEMS))
    assert again.stopped == STOPPED.stopped
    assert again.mirrors == STOPPED.mirrors
    assert again.unproven == frozenset()
    (snapshot,) = again.snapshots
    failed = snapshot.tables[ORDERS.table]
    assert isinstance(failed, SnapshotFailed) and "doesn't show it" in failed.reason
    aborted = find_notifications(STOPPED, again)[-1]
    assert (aborted.id, aborted.type) == ("r1", NotificationType.ABORTED)


def test_without_a_key_changes_stream_again_and_the_snapshot_fails() -> None:
    stopped = replace(STOPPED, stopped={KEYLESS.table: SO}, mirrors={KEYLESS.table: Ready(2)})
    again = recapture_tables(asked(stopped, KEYLESS.table), known(KEYLESS))
    assert (again.stopped, again.mirrors) == ({}, {})
    assert again.schemas[KEYLESS.table] == KEYLESS
    assert isinstance(again.snapshots[0].tables[KEYLESS.table], SnapshotFailed)


def test_chunks_of_the_generation_before_do_not_go_on() -> None:
    chunking = Chunking((Range(0, (3,), (9,)),), "v", True, Progress(rows=3))
    under_way = Snapshot(
        "s1", {ITEMS.table: chunking, USERS.table: chunking, ORDERS.table: Completed(Progress())}
    )
    again = recapture_tables(asked(replace(STOPPED, snapshots=(under_way,)), ITEMS.table), known(ITEMS))
    before, own = again.snapshots
    assert before.tables == {**under_way.tables, ITEMS.table: SnapshotWaiting()}
    assert own.tables == {ITEMS.table: SnapshotWaiting()}


def test_a_start_recaptures_where_it_goes_on_or_begins_anew() -> None:
    at = KnownSchemas(known(ORDERS, ITEMS), gtids("a:1-9"))
    waiting = asked(STOPPED, ORDERS.table)
    again = resume.resume_checkpoint(waiting, at, gtids(""), SnapshotMode.INITIAL)
    assert (again.position, again.stopped) == (STOPPED.position, {})
    moved = resume.resume_checkpoint(
        replace(waiting, moving=Moving("m1", gtids("a:1-7"))), at, gtids(""), SnapshotMode.INITIAL
    )
    assert (moved.position, moved.stopped) == (gtids("a:1-7"), {})
    assert [each.id for each in moved.snapshots] == ["m1", "r1"]
    assert resume.begin_snapshot(again, SnapshotMode.INITIAL) is again


@given(
    checkpoints(),
    st.lists(table_schemas(), max_size=3),
    st.dictionaries(table_ids, st.sampled_from(["r1", "r2"]), max_size=3),
)
def test_any_tables_begin_again_and_all_others_stay_as_they_are(
    checkpoint: Checkpoint, present: list[TableSchema], recapturing: dict[TableId, str]
) -> None:
    source = {schema.table: schema for schema in present}
    before = replace(checkpoint, recapturing=recapturing)
    after = recapture_tables(before, source)
    assert after == recapture_tables(before, source)
    assert after.recapturing == {}
    back = recapturing.keys() & source.keys()
    for table_ in {*before.schemas, *before.mirrors, *before.stopped, *before.unread} - back:
        for field in ("schemas", "mirrors", "stopped", "unread"):
            assert getattr(after, field).get(table_) == getattr(before, field).get(table_)
    assert after.unproven - back == before.unproven - back
    for table_ in back:
        assert table_ not in after.stopped
        assert table_ in after.unproven
        assert table_ in after.schemas
        assert table_ not in after.unread
        assert after.mirrors.get(table_) == (Filling(before.scn) if source[table_].key else None)
        assert not any(isinstance(each.tables.get(table_), Chunking) for each in after.snapshots)
    for table_, signal in recapturing.items():
        states = [
            each.tables[table_] for each in after.snapshots if each.id == signal and table_ in each.tables
        ]
        filled = table_ in source and bool(source[table_].key)
        assert isinstance(states[-1], SnapshotWaiting if filled else SnapshotFailed)
    kept = [each for each in after.snapshots if not each.ended]
    assert {each.id for each in before.snapshots if not each.ended} <= {each.id for each in kept}


# Other rules for columns

HASHED = Protection(
    Secret("s" * 16), (ProtectionRule(TableFilter((r"shop\.items",)), ("note",), Treatment.HASH),)
)


def test_a_table_with_other_rules_begins_again_and_only_that_one() -> None:
    before = replace(STOPPED, stopped={})
    asked_again = recapture_reprotected(before, {}, HASHED)
    assert asked_again.recapturing == {ITEMS.table: "protection-7"}
    digest = HASHED.digest(ITEMS.table) or ""
    assert recapture_reprotected(before, {ITEMS.table: digest}, HASHED) is before, "the same rules"
    none = recapture_reprotected(before, {ITEMS.table: digest}, UNPROTECTED)
    assert none.recapturing == {ITEMS.table: "protection-7"}, "none is another rule, too"
    other = replace(HASHED, salt=Secret("t" * 16))
    assert recapture_reprotected(before, {ITEMS.table: digest}, other).recapturing


def test_a_stopped_table_stays_stopped_whatever_its_rules_are() -> None:
    stopped = replace(STOPPED, stopped={ITEMS.table: SO})
    assert recapture_reprotected(stopped, {}, HASHED) == stopped


@given(checkpoints())
def test_no_value_that_a_signal_brought_stays_in_the_checkpoint(checkpoint: Checkpoint) -> None:
    everything = Protection(rules=(ProtectionRule(ALL_TABLES, ("x",), Treatment.EXCLUDE),))
    after = recapture_reprotected(replace(checkpoint, stopped={}), {}, everything)
    for snapshot in after.snapshots:
        for found in snapshot.tables.keys() & after.schemas.keys():
            request = snapshot.request(found)
            assert request.condition is None and request.surrogate is None
    assert after.recapturing.keys() >= after.schemas.keys()


@pytest.mark.parametrize("stopped", [False, True])
def test_what_was_read_before_is_named_by_no_key_any_more(stopped: bool) -> None:
    rule = ProtectionRule(TableFilter((r"shop\.items",)), (ITEMS.key_names[0],), Treatment.HASH)
    capture = Capture(ITEMS)
    capture.give(execute("s1", ITEMS))
    chunking = Chunking((Range(0, (4711,), (4999,)),), "", first=False, progress=Progress())
    [snapshot] = capture.checkpoint.snapshots
    asked = Request("note = 'canary'", keys=((4711,),))
    under_way = replace(snapshot, tables={ITEMS.table: chunking}, requests={ITEMS.table: asked})
    state = replace(capture.state, checkpoint=replace(capture.checkpoint, snapshots=(under_way,)))
    ended = stop_table(state, ITEMS.table, SO).checkpoint
    assert "4711" in str(ended.snapshots), "without a rule it may say so"
    before = ended if stopped else replace(ended, stopped={})
    after = recapture_reprotected(before, {}, Protection(Secret("s" * 16), (rule,)))
    assert "4711" not in str(after) and "4999" not in str(after) and "canary" not in str(after)
    assert after.stopped == before.stopped
    assert bool(after.recapturing) is not stopped
    [failed] = after.snapshots[0].tables.values()
    assert isinstance(failed, SnapshotFailed) and failed.reason == SO


def test_rows_that_wait_for_keys_that_nobody_has_begin_their_table_again() -> None:
    rule = ProtectionRule(TableFilter((r"shop\.items",)), (ITEMS.key_names[0],), Treatment.HASH)
    hashed = Protection(Secret("s" * 16), (rule,))
    digests = {ITEMS.table: hashed.digest(ITEMS.table) or ""}
    before = replace(STOPPED, stopped={})
    assert recapture_reprotected(before, digests, hashed) is before
    waiting = replace(before, unread={ITEMS.table: 5, ORDERS.table: 5})
    assert recapture_reprotected(waiting, digests, hashed).recapturing.keys() == {ITEMS.table}
