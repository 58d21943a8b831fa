"""The coordinator: each rule of its windows and snapshots is a test, and each test fails without its rule."""

from dataclasses import replace

import pytest

from pipeline import coordinator
from pipeline.checkpoint import Filling, Ready
from pipeline.coordinator_state import Overlapping, Pausing, WindowMode
from pipeline.errors import InvariantBroken
from pipeline.messages import (
    Append,
    AppendRows,
    ChangePart,
    ChunkPart,
    LogAdvanced,
    PauseReading,
    PlanTable,
    ReadChunk,
    ReadingPaused,
    ResumeReading,
    SchemaVerified,
    SignalAccepted,
    TableStopped,
)
from pipeline.settings import MOST_WINDOWS
from pipeline.snapshot import Chunking, Completed, Progress, Range, progress
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    USERS,
    Capture,
    altered,
    delete,
    execute,
    gtid,
    gtids,
    insert,
    of,
    part,
    passed,
    place,
    planned,
    read,
    statement,
    stop,
    update,
    wrote,
)
from tests.pipeline.mutations import broken_by

# Low: what had passed when the chunk was asked for, and what passes from then on


@broken_by(mutations.low_is_compared_with_nothing)
def test_a_chunk_is_asked_for_with_the_position_of_that_moment() -> None:
    capture = Capture(ORDERS)
    capture.give(passed(20, wrote("a:6"), wrote("b:1")))
    assert capture.begin(ORDERS).asked_at == gtids("a:1-6,b:1")


@broken_by(mutations.low_is_compared_at_the_answer)
def test_low_may_lack_what_passed_after_the_chunk_was_asked_for() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1))), read(order, 1, 3, low="a:1-5", high=20))
    assert capture.stream == ["orders a:6", "orders rows 3"]


@broken_by(mutations.any_low_is_usable)
def test_low_must_not_lack_what_passed_before_the_chunk_was_asked_for() -> None:
    capture = Capture(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1))))
    order = capture.begin(ORDERS)
    with pytest.raises(InvariantBroken, match="low watermark"):
        capture.give(read(order, 1, low="a:1-5", high=20))


# What touches


@broken_by(mutations.new_keys_alone_touch, mutations.old_keys_alone_touch)
def test_an_update_touches_its_old_and_its_new_key() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1, to=2))), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6"]


@broken_by(mutations.deletes_do_not_touch)
def test_a_deleted_row_does_not_come_back_with_the_chunk() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", delete(1))), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6", "orders rows 2"]


@broken_by(mutations.inserts_do_not_touch)
def test_an_inserted_row_gives_way_to_its_insert() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", insert(1))), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6", "orders rows 2"]


@broken_by(mutations.keys_are_forgotten_while_reading, mutations.keys_are_forgotten_while_reconciling)
def test_changes_touch_from_the_moment_of_asking_until_the_window_closes() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1))), read(order, 1, 2, high=30))
    capture.give(passed(30, wrote("a:7", update(2))))
    assert capture.stream == ["orders a:6", "orders a:7"]


@broken_by(mutations.inside_is_decided_by_the_latest)
def test_a_slice_touches_with_just_those_transactions_that_low_lacks() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    transactions = [wrote("a:8", update(1)), wrote("a:6", update(2)), wrote("b:1", update(1))]
    capture.give(passed(20, *transactions), read(order, 1, 2, low="a:1-5:8,b:1", high=20))
    assert capture.stream == ["orders a:8 a:6 b:1", "orders rows 1"]


@broken_by(mutations.every_table_is_touched)
def test_the_same_key_in_another_table_touches_nothing() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1, schema=ITEMS))), read(order, 1, 2, high=20))
    assert capture.stream == ["items a:6", "orders rows 1 2"]


# High: when a window closes


@broken_by(mutations.close_at_once)
def test_no_window_closes_before_the_stream_has_passed_high() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=30), passed(29, wrote("a:6")), LogAdvanced(place(29)))
    assert capture.stream == []
    capture.give(passed(30, wrote("a:7")))
    assert capture.stream == ["orders rows 1 2"]


@broken_by(mutations.close_on_changes_only)
def test_an_idle_source_closes_a_window_the_moment_its_chunk_comes() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, high=10))
    assert capture.stream == ["orders rows 1"]


@broken_by(mutations.close_on_changes_only)
def test_a_chunk_that_comes_after_the_stream_had_passed_high_closes_at_once() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(40, wrote("a:6", update(1))), read(order, 1, 2, high=30))
    assert capture.stream == ["orders a:6", "orders rows 2"]


@broken_by(mutations.close_on_changes_only)
def test_a_heartbeat_closes_a_window() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, high=30), LogAdvanced(place(30)))
    assert capture.stream == ["orders rows 1"]


@broken_by(mutations.close_on_changes_only, mutations.offsets_alone_are_compared)
def test_a_rotation_closes_a_window() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, high=30), LogAdvanced(place(4, file=2)))
    assert capture.stream == ["orders rows 1"]


@broken_by(mutations.close_on_changes_only, mutations.a_statement_drops_every_window)
def test_a_statement_about_another_table_closes_a_window() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(read(capture.begin(ORDERS), 1, high=30), statement("a:6", 30, ITEMS))
    assert capture.stream == ["orders rows 1"]


def test_no_window_closes_while_it_is_unknown_where_the_stream_is() -> None:
    first = Capture(ORDERS)
    first.begin(ORDERS)
    state, orders = coordinator.start(first.checkpoint, LIMITS, Overlapping(4))
    state, orders = coordinator.step(state, planned(ORDERS))
    state, _ = coordinator.step(state, read(Capture.chunk(orders), 1, high=4))
    assert state.stream is None and len(state.open) == 1


# Emission


@broken_by(mutations.rows_are_emitted_before_the_changes, mutations.rows_are_emitted_a_step_late)
def test_rows_are_emitted_behind_the_changes_that_close_and_before_the_next_transaction() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=20))
    capture.give(passed(20, wrote("a:6", update(1))), passed(30, wrote("a:7", update(2))))
    assert capture.stream == ["orders a:6", "orders rows 2", "orders a:7"]


@broken_by(mutations.touched_rows_are_emitted)
def test_a_snapshot_row_never_follows_a_newer_change_of_its_key() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1))), read(order, 1, high=20))
    assert capture.stream == ["orders a:6"]


def test_rows_carry_their_provenance() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(read(order, 1, 2, low="a:1-5", high=10))
    (part,) = of(ChunkPart, capture.parts)
    assert (part.chunk, part.schema, part.low, part.high) == (order.chunk, ORDERS, gtids("a:1-5"), place(10))


def test_scns_rise_by_one_over_transactions_chunks_statements_and_beginnings_of_mirrors() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(7)), wrote("a:7")), read(order, 1, 2, high=20))
    capture.give(statement("a:8", 30), passed(40, wrote("a:9", update(8))))
    scns = [p.first_scn if isinstance(p, ChangePart) else p.scn for p in capture.parts]
    assert scns == [2, 4, 6]
    assert capture.checkpoint.scn == 6


def test_progress_counts_chunks_rows_and_rows_given_up() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    next_ = Capture.chunk(capture.give(passed(20, wrote("a:6", update(1))), read(order, 1, 2, high=20)))
    assert progress(capture.table(ORDERS)) == Progress(chunks=1, rows=1, given_up=1, expected=7, ranges=1)
    capture.give(read(next_, 3, low="a:1-6", high=20))
    assert capture.table(ORDERS) == Completed(Progress(2, 2, 1, 7, ranges=1, ranges_done=1))


def test_a_chunk_whose_rows_all_gave_way_is_done_and_puts_nothing_into_the_stream() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1), update(2))), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6"]
    state = capture.table(ORDERS)
    assert isinstance(state, Chunking) and state.ranges == (Range(0, (2,), (9,)),)


# Several windows


@broken_by(mutations.close_the_newest_first)
def test_windows_of_one_table_close_in_the_order_asked() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    capture.give(read(second, 3, high=30), LogAdvanced(place(30)))
    assert capture.stream == ["orders rows 1 2", "orders rows 3"]


@broken_by(mutations.close_whichever_is_ready)
def test_a_window_waits_for_the_earlier_ones_of_its_table() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    capture.give(read(second, 3, 4, high=20), LogAdvanced(place(20)))
    assert capture.stream == []
    capture.give(LogAdvanced(place(30)))
    assert capture.stream == ["orders rows 1 2", "orders rows 3 4"]


@broken_by(mutations.tables_wait_for_each_other)
def test_tables_close_independently() -> None:
    capture = Capture(ORDERS, ITEMS)
    orders = capture.begin(ORDERS)
    items = capture.begin(ITEMS, signal="s2")
    capture.give(read(orders, 1, high=30), read(items, 7, high=20), LogAdvanced(place(20)))
    assert capture.stream == ["items rows 7"]
    capture.give(LogAdvanced(place(30)))
    assert capture.stream == ["items rows 7", "orders rows 1"]


@broken_by(mutations.keys_are_forgotten_while_reconciling)
def test_each_window_has_its_own_low_and_its_own_touched_keys() -> None:
    capture = Capture(ORDERS)
    first = capture.begin(ORDERS)
    second = Capture.chunk(capture.give(read(first, 1, 2, low="a:1-5", high=30)))
    capture.give(passed(20, wrote("a:6", update(1), update(3))))
    capture.give(read(second, 3, low="a:1-6", high=30), LogAdvanced(place(30)))
    assert capture.stream == ["orders a:6", "orders rows 2", "orders rows 3"]


# What's done


@broken_by(mutations.done_moves_when_a_chunk_is_read)
def test_done_moves_when_the_rows_are_in_the_stream_and_not_before() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=30))
    reading = capture.table(ORDERS)
    assert isinstance(reading, Chunking) and reading.ranges == (Range(0, None, (9,)),)
    capture.give(LogAdvanced(place(30)))
    emitted = capture.table(ORDERS)
    assert isinstance(emitted, Chunking) and emitted.ranges == (Range(0, (2,), (9,)),)


@broken_by(mutations.a_table_completes_when_it_is_read)
def test_a_table_is_completed_only_after_its_last_window_closed() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    capture.give(read(second, 3, high=40), LogAdvanced(place(30)))
    assert isinstance(capture.table(ORDERS), Chunking)
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(0)}
    capture.give(LogAdvanced(place(40)))
    assert isinstance(capture.table(ORDERS), Completed)
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(0)}


@broken_by(mutations.a_plan_begins_again)
def test_a_restart_goes_on_behind_what_is_done_up_to_the_frozen_end() -> None:
    before = Capture(ORDERS)
    before.give(read(before.begin(ORDERS, end=9), 1, 2, high=10))
    after = Capture(checkpoint=before.checkpoint)
    assert Capture.plans(after.first_orders) == [ORDERS.table]
    order = Capture.chunk(after.give(planned(ORDERS, end=12)))
    assert (order.after, order.end) == ((2,), (9,))


@broken_by(mutations.done_moves_when_a_chunk_is_read)
def test_a_restart_reads_again_what_was_not_emitted() -> None:
    before = Capture(ORDERS)
    before.give(read(before.begin(ORDERS), 1, 2, high=30))
    after = Capture(checkpoint=before.checkpoint)
    assert Capture.chunk(after.give(planned(ORDERS))).after is None


@broken_by(mutations.an_ended_table_has_no_mirror)
def test_an_empty_table_completes_at_once_and_its_mirror_is_ready() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(ORDERS, end=None))
    assert capture.table(ORDERS) == Completed(Progress())
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(0)}
    assert capture.stream == []


@broken_by(mutations.every_snapshot_is_a_first_one)
def test_the_first_snapshot_fills_the_mirror_and_the_second_comes_as_changes() -> None:
    capture = Capture(ORDERS)
    for signal in ("s1", "s2"):
        capture.give(read(capture.begin(ORDERS, signal=signal), 1, high=10))
    assert [part.first for part in of(ChunkPart, capture.parts)] == [True, False]


@broken_by(mutations.an_ended_table_has_no_mirror)
def test_a_mirror_that_was_filled_half_way_lacks_rows_until_another_snapshot_fills_it_from_the_beginning() -> (
    None
):
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=10), stop("s2", ORDERS))
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(0)}
    half_way = capture.checkpoint.scn
    capture.give(planned(ORDERS))  # the answer to the plan of the first, if one was under way
    order = capture.begin(ORDERS, signal="s3")
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(half_way)}
    capture.give(read(order, 1, high=10))
    assert [part.first for part in of(ChunkPart, capture.parts)] == [True, True]
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(half_way)}


@broken_by(mutations.rows_given_up_early_are_not_counted)
def test_rows_that_gave_way_are_counted_whenever_they_did() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", update(1), insert(7), insert(8))), read(order, 1, 2, high=30))
    capture.give(passed(30, wrote("a:7", delete(2))))
    assert progress(capture.table(ORDERS)) == Progress(chunks=1, rows=0, given_up=2, expected=7, ranges=1)


# The checkpoint


def test_what_passes_is_in_the_position() -> None:
    capture = Capture(ORDERS)
    capture.give(passed(20, wrote("a:6"), wrote("b:3")), statement("a:8", 30))
    assert capture.checkpoint.position == gtids("a:1-6:8,b:3")


def test_a_transaction_that_passes_twice_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    with pytest.raises(InvariantBroken, match="had passed before"):
        capture.give(passed(20, wrote("a:5", update(1))))


def test_a_statement_that_passes_twice_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    with pytest.raises(InvariantBroken, match="had passed before"):
        capture.give(statement("a:5", 20, ORDERS))
    assert gtid("a:5") in capture.checkpoint.position


def test_every_change_of_the_checkpoint_goes_out_with_an_append() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=10)))
    capture.give(SchemaVerified(altered(ORDERS)), statement("a:6", 20), stop("s2", ORDERS))
    capture.give(read(second, 3, high=10), TableStopped(ORDERS.table, "so"))
    assert capture.appends[-1].checkpoint is capture.checkpoint


def test_nothing_is_appended_where_nothing_durable_changed() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    assert capture.give(LogAdvanced(place(20))) == ()
    assert of(Append, capture.give(read(order, 1, 2, high=30))) == []


def test_a_verified_schema_holds_from_its_place_on() -> None:
    capture = Capture(ORDERS)
    capture.give(SchemaVerified(ITEMS), SchemaVerified(altered(ORDERS)))
    assert capture.checkpoint.schemas == {ORDERS.table: altered(ORDERS), ITEMS.table: ITEMS}


def test_a_start_appends_its_checkpoint_first() -> None:
    before = Capture(ORDERS)
    before.begin(ORDERS)
    after = Capture(checkpoint=before.checkpoint)
    assert after.first_orders[0] == Append((), before.checkpoint)


@pytest.mark.parametrize("most", [0, -1, MOST_WINDOWS + 1])
def test_a_number_of_windows_that_no_mailbox_holds_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to {MOST_WINDOWS}, not {most}"):
        Capture(ORDERS, mode=Overlapping(most))


@pytest.mark.parametrize("mode", [Overlapping(1), Overlapping(MOST_WINDOWS), Pausing()])
def test_a_start_without_snapshots_asks_for_nothing(mode: WindowMode) -> None:
    capture = Capture(ORDERS, mode=mode)
    assert capture.first_orders == (Append((), capture.checkpoint),)
    assert capture.give(passed(20, wrote("a:6", update(1)))) == (capture.appends[-1],)


def test_a_window_of_a_table_that_has_no_snapshot_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.state = replace(capture.state, checkpoint=replace(capture.checkpoint, snapshots=()))
    with pytest.raises(InvariantBroken, match=r"window of shop\.orders is open"):
        capture.give(read(order, 1, high=10))


def test_each_chunk_of_a_run_has_a_number_of_its_own() -> None:
    capture = Capture(ORDERS, ITEMS)
    first = capture.begin(ORDERS)
    second = capture.begin(ITEMS, signal="s2")
    orders = capture.give(read(first, 1, 2, high=10))
    asked = [first, second, *of(ReadChunk, orders)]
    assert [order.chunk.number for order in asked] == [1, 2, 3]


# A transaction in parts


@broken_by(mutations.a_part_is_a_slice)
def test_rows_go_on_at_once_and_are_in_the_stream_with_the_end() -> None:
    capture = Capture(ORDERS)
    (rows,) = capture.give(part("a:6", insert(1), insert(2)))
    assert isinstance(rows, AppendRows)
    (more,) = capture.give(part("a:6", insert(3), insert(4, ITEMS)))
    assert isinstance(more, AppendRows)
    assert [len(kept.changes.rows) for kept in (*rows.parts, *more.parts)] == [2, 1, 1]
    assert capture.stream == []
    capture.give(passed(20, wrote("a:6", insert(5)), wrote("a:7", insert(6))))
    assert capture.stream == ["orders a:6", "orders a:6", "items a:6", "orders a:6 a:7"]


def test_a_part_without_rows_of_captured_tables_orders_nothing() -> None:
    capture = Capture(ORDERS)
    assert capture.give(part("a:6")) == ()
    assert of(Append, capture.give(passed(20, wrote("a:6"))))


@broken_by(mutations.a_part_advances_the_position, mutations.a_part_is_a_slice)
def test_the_position_stays_until_the_end() -> None:
    capture = Capture(ORDERS)
    before = len(capture.appends)
    capture.give(part("a:6", insert(1)), part("a:6", insert(2)))
    assert capture.checkpoint.position == gtids("a:1-5")
    assert len(capture.appends) == before
    capture.give(passed(20, wrote("a:6"), wrote("a:7")))
    assert capture.checkpoint.position == gtids("a:1-7")


def test_all_parts_have_the_number_of_their_transaction() -> None:
    capture = Capture(ORDERS)
    capture.give(
        part("a:6", insert(1)), part("a:6", insert(2)), passed(20, wrote("a:6", insert(3)), wrote("a:7"))
    )
    capture.give(passed(30, wrote("a:8", insert(4))))
    assert [part.first_scn for part in of(ChangePart, capture.parts)] == [1, 1, 1, 3]


# Windows and parts


@broken_by(mutations.keys_of_parts_do_not_touch, mutations.keys_are_forgotten_while_reading)
def test_keys_of_a_part_touch_a_window_whose_chunk_is_being_read() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(part("a:6", update(1)), passed(20, wrote("a:6", delete(3))), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6", "orders a:6", "orders rows 2"]


@broken_by(mutations.keys_of_parts_do_not_touch, mutations.keys_are_forgotten_while_reconciling)
def test_keys_of_a_part_touch_a_window_whose_chunk_is_here() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=20))
    capture.give(part("a:6", insert(7)), part("a:6", update(2, to=8)), passed(20, wrote("a:6")))
    assert capture.stream[-1] == "orders rows 1"


@broken_by(mutations.what_low_holds_touches_too)
def test_keys_of_a_part_do_not_touch_where_low_holds_the_transaction() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(part("a:6", update(1)), read(order, 1, 2, low="a:1-6", high=20))
    capture.give(part("a:6", update(2)), passed(20, wrote("a:6")))
    assert capture.stream[-1] == "orders rows 1 2"


@broken_by(mutations.windows_close_within, mutations.a_part_is_a_slice)
def test_no_window_closes_before_the_end() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(part("a:6", update(1)), read(order, 1, 2, high=10))
    assert capture.open == ["orders reconciling"]
    capture.give(part("a:6", update(7)))
    assert capture.open == ["orders reconciling"]
    capture.give(passed(20, wrote("a:6")))
    assert capture.stream[-1] == "orders rows 2"


# What is asked for within a transaction


@broken_by(mutations.chunks_are_asked_for_within)
def test_nothing_is_asked_for_before_the_end() -> None:
    capture = Capture(ORDERS, ITEMS, USERS)
    capture.give(execute("s1", ORDERS), execute("s2", ITEMS))
    capture.give(read(Capture.chunk(capture.give(planned(ITEMS))), 1, 2, high=10))
    within = capture.give(part("a:6", insert(1)), planned(ORDERS), execute("s3", USERS))
    assert of(PlanTable, within) + of(ReadChunk, within) == []
    behind = capture.give(passed(20, wrote("a:6"), wrote("a:7")))
    assert {order.asked_at for order in of(ReadChunk, behind)} == {gtids("a:1-7")}
    assert Capture.plans(behind) == [USERS.table]


@broken_by(mutations.a_pause_within_lasts, mutations.a_pause_within_is_used)
def test_a_pause_that_comes_within_is_ended_and_ordered_again_behind_the_end() -> None:
    capture = Capture(ORDERS, mode=Pausing())
    capture.give(execute("s1", ORDERS))
    assert of(PauseReading, capture.give(planned(ORDERS)))
    assert capture.give(part("a:6", insert(1)), ReadingPaused())[1:] == (ResumeReading(),)
    assert of(PauseReading, capture.give(part("a:6", insert(2)))) == []
    behind = capture.give(passed(20, wrote("a:6")))
    assert of(PauseReading, behind)
    assert of(ReadChunk, capture.give(ReadingPaused()))


# What else goes out with the end


@broken_by(mutations.answers_within_are_lost, mutations.a_part_is_a_slice)
def test_signals_are_answered_with_the_end() -> None:
    capture = Capture(ORDERS)
    assert capture.give(part("a:6", insert(1)), execute("s1", ORDERS))[1:] == ()
    assert capture.answers == []
    (append, *_) = of(Append, capture.give(passed(20, wrote("a:6"))))
    assert [type(answer) for answer in append.answers] == [SignalAccepted]
    assert append.checkpoint.signals == ("s1",)
    assert of(Append, capture.give(passed(30, wrote("a:7"))))[0].answers == ()


@broken_by(mutations.a_part_is_a_slice)
def test_schemas_hold_with_the_end() -> None:
    capture = Capture(ORDERS)
    assert capture.give(part("a:6", insert(1)), SchemaVerified(ITEMS))[1:] == ()
    (append,) = of(Append, capture.give(passed(20, wrote("a:6"))))
    assert append.checkpoint.schemas == {ORDERS.table: ORDERS, ITEMS.table: ITEMS}


@broken_by(mutations.nothing_is_withdrawn, mutations.what_stopped_stays_withdrawn)
def test_a_table_that_stops_has_nothing_of_the_transaction() -> None:
    capture = Capture(ORDERS, ITEMS, USERS)
    capture.give(TableStopped(USERS.table, "long ago"))
    assert capture.appends[-1].withdrawn == frozenset()
    within = capture.give(part("a:6", insert(1), insert(1, ITEMS)), TableStopped(ITEMS.table, "so"))
    assert of(Append, within) == []
    capture.give(passed(20, wrote("a:6", insert(2))))
    assert capture.appends[-1].withdrawn == {ITEMS.table}
    assert capture.appends[-1].checkpoint.stopped == {USERS.table: "long ago", ITEMS.table: "so"}
    capture.give(passed(30, wrote("a:7")))
    assert capture.appends[-1].withdrawn == frozenset()


# What can't come within

WITHIN = r"within .*:6, which hadn't ended"


@broken_by(mutations.any_transaction_may_end_it)
def test_a_slice_that_begins_with_another_transaction_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    capture.give(part("a:6", insert(1)))
    with pytest.raises(InvariantBroken, match=WITHIN):
        capture.give(passed(20, wrote("a:7"), wrote("a:6")))


@broken_by(mutations.parts_of_any_transaction_may_follow)
def test_a_part_of_another_transaction_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    capture.give(part("a:6", insert(1)))
    with pytest.raises(InvariantBroken, match=WITHIN):
        capture.give(part("a:7", insert(1)))


@broken_by(mutations.anything_may_come_within)
def test_a_statement_within_a_transaction_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    capture.give(part("a:6", insert(1)))
    with pytest.raises(InvariantBroken, match=WITHIN):
        capture.give(statement("a:7", 20, ORDERS))


@broken_by(mutations.anything_may_come_within)
def test_an_advance_of_the_log_within_a_transaction_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    capture.give(part("a:6", insert(1)))
    with pytest.raises(InvariantBroken, match=WITHIN):
        capture.give(LogAdvanced(place(20)))
