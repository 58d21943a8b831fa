"""Requests: what each signal changes, how it's answered, and that it's taken once."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.coordinator import handle_signals
from pipeline.coordinator.handle_signals import MOST_REQUESTED_TABLES, SIGNALS_REMEMBERED
from pipeline.coordinator.state import Overlapping, State
from pipeline.messages.journal import Append
from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalReceived, SignalRejected
from pipeline.schema.row_keys import Key
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.outcomes import SignalState
from pipeline.signals.signal import (
    ExecuteSnapshot,
    Filter,
    KeyList,
    ResumeSnapshot,
    SetBinlogPosition,
    VerifyTables,
)
from pipeline.snapshot.checkpoint import Checkpoint, Mirror, Ready
from pipeline.snapshot.snapshot import (
    LEFT_OUT,
    Completed,
    Progress,
    Repairing,
    Request,
    Snapshot,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
)
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    USERS,
    Capture,
    execute,
    gtids,
    of,
    stop,
    table,
)


def matching(id_: str, *patterns: str) -> SignalReceived:
    """Asks for a snapshot of the tables that these regular expressions match."""
    return SignalReceived(ExecuteSnapshot(id_, TableFilter(patterns)))


def answer(capture: Capture, signal: SignalReceived) -> SignalAnswer:
    """The one answer to the signal."""
    (append,) = of(Append, capture.give(signal))
    (given,) = append.answers
    assert not isinstance(given, SignalState)
    return given


# Taking a snapshot


def test_a_snapshot_is_accepted_by_the_names_of_its_tables() -> None:
    capture = Capture(ORDERS, ITEMS, USERS)
    assert answer(capture, matching("s1", "shop.orders", r"shop\.i.*")) == SignalAccepted(
        "s1", "snapshot of shop.items, shop.orders"
    )
    (snapshot,) = capture.checkpoint.snapshots
    assert snapshot.tables == {ITEMS.table: SnapshotWaiting(), ORDERS.table: SnapshotWaiting()}


def test_tables_that_are_not_captured_are_rejected_with_those_that_are() -> None:
    capture = Capture(ORDERS, ITEMS)
    assert answer(capture, matching("s1", "shop.order", "crm.*")) == SignalRejected(
        "s1", "no captured table matches shop.order or crm.*; captured are: shop.items, shop.orders"
    )
    assert capture.checkpoint.snapshots == ()


def test_a_table_that_the_configuration_leaves_out_is_meant_only_by_its_own_name() -> None:
    """Else no signal for all tables could be done, and no verification of them could find all equal."""
    known = {each.table: each for each in (ORDERS, ITEMS)}
    mirrors: dict[TableId, Mirror] = dict.fromkeys(known, Ready(0))
    stopped = {ITEMS.table: LEFT_OUT}
    capture = Capture(checkpoint=Checkpoint(gtids("a:1-5"), schemas=known, mirrors=mirrors, stopped=stopped))
    capture.state = replace(capture.state, captured=TableFilter((r"shop\.orders",)))
    assert answer(capture, matching("s1", ".*")) == SignalAccepted("s1", "snapshot of shop.orders")
    verification = SignalReceived(VerifyTables("v1"))
    assert answer(capture, verification) == SignalAccepted("v1", "verification of shop.orders")
    named = answer(capture, matching("s2", r"shop\.items"))
    assert isinstance(named, SignalRejected)
    assert named.reason.startswith(f"shop.items: it has stopped: {LEFT_OUT}")
    both = answer(capture, matching("s3", r"shop\.items", r"shop\.o.*"))
    assert isinstance(both, SignalAccepted)
    assert both.detail.startswith("snapshot of shop.orders (refused: shop.items: it has stopped")
    unknown = answer(capture, matching("s4", r"shop\.nope"))
    assert unknown == SignalRejected("s4", r"no captured table matches shop\.nope; captured are: shop.orders")


def test_of_several_patterns_each_has_to_mean_a_table() -> None:
    refused = answer(Capture(ORDERS, ITEMS), matching("s1", "shop.orders", "shop.order_items"))
    assert refused == SignalRejected(
        "s1", "no captured table matches shop.order_items; captured are: shop.items, shop.orders"
    )


def test_a_signal_that_names_each_of_many_tables_takes_no_time_for_each_pair_of_name_and_table() -> None:
    """The service does nothing else meanwhile."""
    schemas = [table(f"t{number}") for number in range(500)]
    capture = Capture(*schemas)
    began = time.process_time()
    capture.give(execute("s1", *schemas))
    capture.give(stop("s2", *schemas))
    assert time.process_time() - began < 5
    [snapshot] = capture.checkpoint.snapshots
    assert snapshot.ended


def test_a_table_of_which_two_snapshots_are_stopped_is_named_once() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    capture.give(execute("s2", ORDERS))
    assert answer(capture, stop("s3", ORDERS)) == SignalAccepted("s3", "stopped the snapshot of shop.orders")


# Narrowing it


def narrowed(
    *filters: tuple[str, str], keys: tuple[tuple[str, Key], ...] = (), **more: Any
) -> SignalReceived:
    """Asks for a snapshot of all tables of `shop`, narrowed by pairs of a pattern and a condition, or a key."""
    return SignalReceived(
        ExecuteSnapshot(
            "s1",
            TableFilter(("shop.*",)),
            tuple(Filter(TableFilter((pattern,)), condition) for pattern, condition in filters),
            tuple(KeyList(TableFilter((pattern,)), (key,)) for pattern, key in keys),
            **more,
        )
    )


def requested(capture: Capture) -> dict[str, Request]:
    """By table, what the one snapshot asks for beyond all of it."""
    (snapshot,) = capture.checkpoint.snapshots
    return {table.name: request for table, request in snapshot.requests.items()}


def test_a_condition_is_about_the_tables_that_its_pattern_matches() -> None:
    capture = Capture(ORDERS, ITEMS)
    accepted = answer(capture, narrowed(("shop.o.*", "id > 5 AND Value IS NOT NULL")))
    assert accepted == SignalAccepted("s1", "snapshot of shop.items, shop.orders")
    assert requested(capture) == {"orders": Request(condition="id > 5 AND Value IS NOT NULL")}


def test_keys_are_bound_and_come_once() -> None:
    capture = Capture(ORDERS, ITEMS)
    answer(capture, narrowed(keys=(("shop.items", (7,)), ("shop.i.*", (7,)), ("shop.items", (8,)))))
    assert requested(capture) == {"items": Request(keys=((7,), (8,)))}


def test_what_holds_for_the_signal_holds_for_each_of_its_tables() -> None:
    capture = Capture(ORDERS, ITEMS)
    answer(capture, narrowed(surrogate="uid", chunk_rows=500, blocking=True, priority=7, rows_per_s=9))
    each = Request(surrogate="uid", chunk_rows=500, rows_per_s=9)
    assert requested(capture) == {"orders": each, "items": each}
    (snapshot,) = capture.checkpoint.snapshots
    assert (snapshot.blocking, snapshot.priority) == (True, 7)


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        (
            narrowed(("shop.orders", "nope = 1")),
            "of shop.orders, there is no column 'nope'; the table has id, value",
        ),
        (narrowed(("shop.orders", "id = 'x'")), "of shop.orders, column id is INTEGER"),
        (narrowed(("crm.*", "id = 1")), "none of the signal's tables matches crm.*: shop.items, shop.orders"),
        (narrowed(("SHOP.ORDERS", "id = 1")), "none of the signal's tables matches SHOP.ORDERS"),
        (
            narrowed(("shop.orders", "id = 1"), ("shop.*", "id = 2")),
            "more than one filter is about shop.orders; join them with AND or OR",
        ),
        (narrowed(keys=(("shop.orders", (1, 2)),)), "of shop.orders, [1, 2] has 2 parts"),
        (narrowed(keys=(("shop.orders", ("1",)),)), "of shop.orders, '1' is no value of the key's column id"),
        (narrowed(keys=(("shop.order", (1,)),)), "none of the signal's tables matches shop.order:"),
    ],
)
def test_what_does_not_fit_refuses_the_whole_signal(signal: SignalReceived, reason: str) -> None:
    capture = Capture(ORDERS, ITEMS)
    refused = answer(capture, signal)
    assert isinstance(refused, SignalRejected) and refused.reason.startswith(reason)
    assert capture.checkpoint.snapshots == ()


# The position


def moving_to(text: str) -> SignalReceived:
    """Asks for the position that is this set of `gtids`."""
    return SignalReceived(SetBinlogPosition("m1", gtids(text)))


def test_the_position_moves_once_at_a_time() -> None:
    state = Capture(ORDERS).state
    state, _ = handle_signals.signal_received(state, SetBinlogPosition("m1", gtids("a:1-9")))
    again, refused = handle_signals.signal_received(state, SetBinlogPosition("m2", gtids("a:1-9")))
    assert refused == SignalRejected("m2", "the signal m1 is moving the position already")
    assert again is state


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:1-5", "it's the position already"),
        ("a:1-4", "it lacks {a:5}, which has passed: rows would go back in time"),
        ("a:1-4:6-9,b:1", "it lacks {a:5}, which has passed"),
        ("b:1-100", "it lacks {a:1-5}, which has passed"),
    ],
)
def test_the_position_never_goes_back(text: str, reason: str) -> None:
    capture = Capture(ORDERS)
    refused = answer(capture, moving_to(text))
    assert isinstance(refused, SignalRejected)
    expected = re.sub(r"\{(.*?)\}", lambda set_: str(gtids(set_[1])), reason)
    assert refused.reason.startswith(expected)
    assert capture.checkpoint.moving is None


# Once


def after_many_signals(checkpoint: Checkpoint) -> State:
    """The state after as many further signals as are remembered."""
    state = State(LIMITS, Overlapping(4), checkpoint)
    for number in range(SIGNALS_REMEMBERED):
        state, _ = handle_signals.signal_received(state, ResumeSnapshot(f"r{number}"))
    return state


def test_the_last_signals_are_remembered_and_no_more() -> None:
    signals = after_many_signals(Checkpoint(gtids(""), signals=("old",))).checkpoint.signals
    assert len(signals) == SIGNALS_REMEMBERED
    assert (signals[0], signals[-1]) == ("r0", f"r{SIGNALS_REMEMBERED - 1}")


def test_no_more_tables_are_requested_than_checkpoints_shall_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle_signals, "MOST_REQUESTED_TABLES", 2)
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, ITEMS), execute("s2", ITEMS))
    answer = capture.answers[-1]
    assert isinstance(answer, SignalRejected)
    assert answer.reason.startswith(
        "2 tables of earlier signals aren't finished, and with this one more than 2 would be"
    )
    capture.give(stop("x", ORDERS, ITEMS), execute("s2", ITEMS))
    assert isinstance(capture.answers[-1], SignalAccepted)
    monkeypatch.setattr(handle_signals, "MOST_REQUESTED_TABLES", 1)
    capture.give(stop("y", ITEMS), execute("s3", ORDERS, ITEMS))
    assert isinstance(capture.answers[-1], SignalAccepted), "one may have more"


def test_what_is_done_or_was_not_requested_by_a_signal_leaves_room_for_other_signals() -> None:
    names = [TableId("shop", f"t{number}") for number in range(MOST_REQUESTED_TABLES // 20)]
    done: dict[TableId, TableSnapshot] = dict.fromkeys(names, Completed(Progress()))
    tables: dict[TableId, TableSnapshot] = {**done, names[0]: Repairing(Progress())}
    repairing = Verification(7, repairs=True)
    verifications = [Snapshot(f"v{number}", tables, verification=repairing) for number in range(20)]
    many = (TableId("crm", f"t{number}") for number in range(MOST_REQUESTED_TABLES + 1))
    initial = Snapshot("initial-0", dict.fromkeys(many, SnapshotWaiting()))
    schemas = {ORDERS.table: ORDERS}
    before = Checkpoint(gtids("a:1-5"), schemas=schemas, snapshots=(*verifications, initial))
    _, given = handle_signals.signal_received(
        State(LIMITS, Overlapping(4), before), ExecuteSnapshot("s1", TableFilter((r"shop\.orders",)))
    )
    assert given == SignalAccepted("s1", "snapshot of shop.orders")


def test_tables_that_are_refused_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle_signals, "MOST_REQUESTED_TABLES", 2)
    keyless = replace(ITEMS, key=())
    capture = Capture(ORDERS, USERS, keyless)
    capture.give(execute("s1", USERS), execute("s2", ORDERS, keyless))
    assert isinstance(capture.answers[-1], SignalAccepted)


def test_a_snapshot_that_is_still_remembered_is_not_begun_a_second_time_however_old_its_signal() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    state = after_many_signals(capture.checkpoint)
    asked_again = ExecuteSnapshot(order.chunk.snapshot, TableFilter(("shop.orders",)))
    again, given = handle_signals.signal_received(state, asked_again)
    assert isinstance(given, SignalAccepted) and "nothing was done again" in given.detail
    assert again is state


@pytest.mark.parametrize("still_under_way", [False, True])
def test_a_signal_that_an_earlier_version_took_by_another_id_is_not_taken_again(
    still_under_way: bool,
) -> None:
    capture = Capture(ORDERS)
    capture.give(execute("signals-0", ORDERS))
    if still_under_way:
        capture.state = after_many_signals(capture.checkpoint)
    before = capture.state
    again = SignalReceived(execute("signals-0-17", ORDERS).signal, former_id="signals-0")
    given = answer(capture, again)
    assert isinstance(given, SignalAccepted) and "nothing was done again" in given.detail
    assert given.id == "signals-0-17"
    assert capture.checkpoint.snapshots == before.checkpoint.snapshots
    assert capture.checkpoint.signals == before.checkpoint.signals


def test_a_signal_that_an_earlier_version_did_not_take_is_taken() -> None:
    capture = Capture(ORDERS)
    capture.give(SignalReceived(execute("signals-0-17", ORDERS).signal, former_id="signals-0"))
    assert capture.checkpoint.signals == ("signals-0-17",)


# Protected columns


def guarded(*schemas: TableSchema) -> Capture:
    """A capture that protects a column of orders."""
    capture = Capture(*schemas)
    rule = ProtectionRule(TableFilter((r"shop\.orders",)), ("value",), Treatment.EXCLUDE)
    capture.state = replace(capture.state, protection=Protection(rules=(rule,)))
    return capture


@pytest.mark.parametrize(
    "condition",
    [
        "value = 'x'",
        "id > 1 AND NOT VALUE IN ('x', 'y')",
        "id = 1 OR `Value` LIKE 'x%'",
        "value BETWEEN 1 AND 2",
    ],
)
def test_no_signal_compares_a_protected_column(condition: str) -> None:
    """Its text would be in the checkpoint, and so in the journal."""
    filters = (Filter(TableFilter((r"shop\.orders",)), condition),)
    capture = guarded(ORDERS)
    refused = answer(capture, execute("s1", ORDERS, filters=filters))
    assert isinstance(refused, SignalRejected)
    assert "which [protection] protects" in refused.reason
    assert "'x" not in refused.reason
    assert capture.checkpoint.snapshots == ()


def test_other_columns_may_be_compared() -> None:
    filters = (Filter(TableFilter((r"shop\.orders",)), "id > 1"),)
    assert isinstance(answer(guarded(ORDERS), execute("s1", ORDERS, filters=filters)), SignalAccepted)


def test_a_table_with_protected_columns_has_no_surrogate_key() -> None:
    """The bounds of its chunks would be values of the journal."""
    refused = answer(guarded(ORDERS), execute("s1", ORDERS, surrogate="value"))
    assert isinstance(refused, SignalRejected)
    assert "surrogate-key" in refused.reason
    assert isinstance(answer(guarded(ITEMS), execute("s1", ITEMS, surrogate="value")), SignalAccepted)


def test_no_signal_names_rows_by_protected_keys() -> None:
    """Nor does a verification read rows again that only the lake names."""
    capture = Capture(ORDERS, ITEMS)
    rule = ProtectionRule(TableFilter((r"shop\.orders",)), (ORDERS.key_names[0],), Treatment.HASH)
    mirrors: dict[TableId, Mirror] = {each.table: Ready(1) for each in (ORDERS, ITEMS)}
    checkpoint = replace(capture.state.checkpoint, mirrors=mirrors)
    capture.state = replace(
        capture.state, checkpoint=checkpoint, protection=Protection(Secret("s" * 16), (rule,))
    )
    keys = (KeyList(TableFilter((r"shop\.orders",)), ((1,),)),)
    refused = answer(capture, execute("s1", ORDERS, keys=keys))
    assert isinstance(refused, SignalRejected)
    assert "protects the primary key of shop.orders" in refused.reason
    repairing = SignalReceived(VerifyTables("v1", TableFilter((r"shop\.orders",)), repair=True))
    refused = answer(capture, repairing)
    assert isinstance(refused, SignalRejected)
    assert "verify it without a repair" in refused.reason
    looking = SignalReceived(VerifyTables("v2", TableFilter((r"shop\.orders",))))
    assert isinstance(answer(capture, looking), SignalAccepted)
    other = SignalReceived(VerifyTables("v3", TableFilter((r"shop\.items",)), repair=True))
    assert isinstance(answer(capture, other), SignalAccepted)
