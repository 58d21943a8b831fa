"""What passes of the log: keys that are kept within bounds, rows of the signal table, mirrors that begin anew."""

from dataclasses import replace

import pytest

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import resume
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.state import Overlapping, Unsettled
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import MirrorInvalidated, SchemaVerified, TableStopped
from pipeline.messages.chunks import ChunkFailed, ReadChunk
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, ChangePart, MirrorDataExpired
from pipeline.messages.row_images import ImageKind
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.signals.signal import SourceSignal
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import Chunking, Completed, Progress, SnapshotWaiting, progress
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER, MarkerRow
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    Capture,
    altered,
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
    some,
    statement,
    update,
    wrote,
)
from tests.pipeline.mutations import broken_by

# What a window keeps while its chunk is being read

# A token of a key is a few bytes; this is less than three of them.
TIGHT = replace(LIMITS, chunk_rows=8, chunk_bytes=40)


def test_a_window_that_keeps_few_keys_is_left_alone() -> None:
    capture = Capture(ORDERS, limits=TIGHT)
    order = capture.begin(ORDERS)
    capture.give(passed(20, wrote("a:6", insert(1))), read(order, 2, high=20))
    assert capture.stream == ["orders a:6", "orders rows 2"]


@broken_by(mutations.the_keys_of_a_window_are_not_bounded, mutations.a_chunk_is_asked_for_again_as_it_was)
def test_a_chunk_is_asked_for_again_with_half_its_rows_where_too_much_passes_meanwhile() -> None:
    capture = Capture(ORDERS, limits=TIGHT)
    order = capture.begin(ORDERS)
    asked = of(ReadChunk, capture.give(passed(20, wrote("a:6", *map(insert, range(9))))))
    assert [(again.limit, again.after, again.asked_at) for again in asked] == [(4, None, gtids("a:1-6"))]
    assert capture.open == ["orders reading"]
    capture.give(read(order, *range(8), low="a:1-6", high=20))
    assert capture.stream == ["orders a:6"]
    capture.give(read(asked[0], 1, 2, 3, low="a:1-6", high=20))
    assert capture.stream == ["orders a:6", "orders rows 1 2 3"]


@broken_by(mutations.a_row_is_asked_for_again_and_again)
def test_a_chunk_of_one_row_is_never_given_up_whatever_passes() -> None:
    capture = Capture(ORDERS, limits=TIGHT)
    order = capture.begin(ORDERS)
    limits = [order.limit]
    for number in range(6, 20):
        again = of(ReadChunk, capture.give(passed(number + 20, wrote(f"a:{number}", *map(insert, range(9))))))
        for order in again:
            limits.append(order.limit)
    assert limits == [8, 4, 2, 1]
    capture.give(read(order, 30, low="a:1-19", high=20))
    assert capture.stream[-1] == "orders rows 30"


def test_the_rows_of_a_transaction_in_parts_are_kept_within_the_bound_as_well() -> None:
    capture = Capture(ORDERS, limits=TIGHT)
    capture.begin(ORDERS)
    capture.give(part("a:6", *map(insert, range(9))))
    assert capture.open == []
    assert [again.limit for again in of(ReadChunk, capture.give(passed(20, wrote("a:6"))))] == [4]


def test_a_chunk_that_is_here_gives_way_and_is_not_asked_for_again() -> None:
    capture = Capture(ORDERS, limits=TIGHT)
    capture.give(read(capture.begin(ORDERS), 1, 30, high=20))
    capture.give(passed(20, wrote("a:6", *map(insert, range(9)))))
    assert capture.stream == ["orders a:6", "orders rows 30"]


# Rows of the signal table


def row(id_: str, kind: str, data: str = "") -> SourceSignal:
    """A row that was inserted into the signal table."""
    return SourceSignal(id_, kind, data)


EXECUTE = row("s1", "execute-snapshot", r'{"data-collections": ["shop\\.orders"]}')


def test_a_row_takes_effect_with_the_transactions_that_it_came_in() -> None:
    capture = Capture(ORDERS)
    orders = capture.give(replace(passed(20, wrote("a:6", update(1))), signals=(EXECUTE,)))
    assert Capture.plans(orders) == [ORDERS.table]
    last = capture.appends[-1]
    assert (last.checkpoint.position, last.checkpoint.signals) == (gtids("a:1-6"), ("s1",))
    assert [answer for answer in last.answers if isinstance(answer, SignalState)] == [
        SignalState("s1", Outcome.ACCEPTED, "snapshot of shop.orders")
    ]


def test_a_row_that_is_no_signal_is_rejected_and_the_next_one_is_taken() -> None:
    capture = Capture(ORDERS)
    rows = (row("s0", "execute-snapshot", "{"), row("s2", "dance"), EXECUTE)
    orders = capture.give(replace(passed(20, wrote("a:6")), signals=rows))
    assert Capture.plans(orders) == [ORDERS.table]
    outcomes = [(a.id, a.outcome) for a in capture.appends[-1].answers if isinstance(a, SignalState)]
    assert outcomes == [("s0", Outcome.REJECTED), ("s2", Outcome.REJECTED), ("s1", Outcome.ACCEPTED)]


def marked(number: int, *rows: SourceSignal) -> ToWatermarkCoordinator:
    """A transaction a:<number> that inserted these rows into the signal table."""
    return replace(passed(20 + number, wrote(f"a:{number}")), signals=rows)


@broken_by(mutations.markers_never_pass)
def test_a_marker_row_closes_its_window_and_no_other() -> None:
    capture = Capture(ORDERS, ITEMS)
    orders, items = capture.begin(ORDERS), capture.begin(ITEMS, signal="s2")
    capture.give(read(orders, 1, high=MarkerRow("m1")), read(items, 2, high=MarkerRow("m2")))
    capture.give(marked(6, row("m0", CLOSE_MARKER), row("m2", OPEN_MARKER)), LogAdvanced(place(90)))
    assert capture.stream == []
    capture.give(marked(7, row("m2", CLOSE_MARKER)))
    assert capture.stream == ["items rows 2"]
    assert not any(isinstance(answer, SignalState) for answer in capture.answers)


@broken_by(mutations.markers_never_pass)
def test_a_marker_row_may_pass_before_its_chunk_comes() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(marked(6, row("m1", CLOSE_MARKER)), read(order, 1, high=MarkerRow("m1")))
    assert capture.stream == ["orders rows 1"]


def test_a_marker_row_may_pass_before_the_plan_of_an_empty_table_comes() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), marked(6, row("m1", CLOSE_MARKER)))
    capture.give(planned(ORDERS, end=None, high=MarkerRow("m1")))
    assert capture.table(ORDERS) == Completed(Progress())


@broken_by(mutations.markers_are_kept_for_ever)
def test_marker_rows_are_forgotten_when_nothing_waits_for_them() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(marked(6, row("m1", CLOSE_MARKER), row("m2", CLOSE_MARKER)))
    assert capture.state.markers == {"m1", "m2"}
    capture.give(read(order, 1, high=MarkerRow("m1")))
    assert capture.state.markers == frozenset()
    capture.give(marked(7, row("m3", CLOSE_MARKER)))
    assert capture.state.markers == frozenset()


# Schemas


@broken_by(mutations.windows_survive_another_schema)
def test_a_window_that_was_opened_under_another_schema_is_dropped() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(read(order, 1, 2, high=30), SchemaVerified(altered(ORDERS)))
    assert capture.open == []
    capture.give(LogAdvanced(place(30)))
    assert capture.stream == []


def test_a_window_stays_open_where_its_schema_is_verified_once_more() -> None:
    capture = Capture(ORDERS)
    capture.begin(ORDERS)
    capture.give(SchemaVerified(ORDERS))
    assert capture.open == ["orders reading"]


def test_new_tables_are_snapshotted_by_themselves_where_that_is_wanted() -> None:
    for unasked in (SnapshotMode.NO_DATA, SnapshotMode.INITIAL):
        checkpoint = Checkpoint(gtids("a:1-5"), schemas={ORDERS.table: ORDERS})
        state, _ = coordinator.start(checkpoint, LIMITS, Overlapping(4), unasked)
        begun = resume.begin_snapshot(checkpoint, unasked)
        assert state.checkpoint == replace(begun, scn=len(begun.mirrors)), (
            "no mirror will begin there once more"
        )
        state, orders = coordinator.step(state, SchemaVerified(ITEMS))
        assert (ITEMS.table in state.checkpoint.mirrors) == (unasked is SnapshotMode.INITIAL)
        assert (ITEMS.table in Capture.plans(orders)) == (unasked is SnapshotMode.INITIAL)


# Tables whose rows aren't so any more

ANEW, EMPTIED = (
    MirrorInvalidated(ORDERS.table, emptied, "a statement changed it") for emptied in (False, True)
)


def ready() -> Capture:
    """A coordinator with a complete snapshot s1 of ORDERS, whose mirror is ready; its SCN is 2."""
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(0)}
    return capture


@broken_by(mutations.a_mirror_has_one_generation)
def test_a_restarted_table_gets_a_new_generation_and_a_snapshot_that_fills_it() -> None:
    capture = ready()
    assert Capture.plans(capture.give(ANEW)) == [ORDERS.table]
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(2)}
    assert capture.table(ORDERS, "restart-2-shop.orders") == SnapshotWaiting()
    order = Capture.chunk(capture.give(planned(ORDERS)))
    state = capture.table(ORDERS, "restart-2-shop.orders")
    assert isinstance(state, Chunking) and state.first
    capture.give(read(order, 1))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(2)}


@broken_by(mutations.a_schema_comes_behind_its_restart)
def test_a_generation_has_no_checkpoint_without_the_schema_that_it_begins_for() -> None:
    capture = ready()
    rekeyed = replace(ORDERS, key=(0, 1))
    said = capture.give(statement("a:6", 20, ORDERS), SchemaVerified(rekeyed, (ANEW,)))
    since = [
        (append.checkpoint.mirrors[ORDERS.table].since, append.checkpoint.schemas[ORDERS.table])
        for append in said
        if isinstance(append, Append)
    ]
    assert since == [(0, ORDERS), (3, rekeyed)]


@broken_by(mutations.a_mirror_has_one_generation)
def test_a_table_that_is_restarted_while_it_is_read_is_read_anew_in_the_same_snapshot() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(read(order, 1, 2), ANEW)
    assert capture.open == []
    assert (capture.table(ORDERS), capture.checkpoint.mirrors) == (
        SnapshotWaiting(),
        {ORDERS.table: Filling(2)},
    )
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == ["s1"]


@broken_by(mutations.a_mirror_has_one_generation)
def test_two_restarts_in_a_row_are_two_generations() -> None:
    """The lake may have taken the first one's schema on by then."""
    capture = ready()
    capture.give(ANEW, ANEW)
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(3)}
    assert capture.checkpoint.scn == 4


def test_a_table_of_which_some_rows_are_read_is_restarted_as_a_whole_beside_that() -> None:
    capture = ready()
    capture.give(execute("s2", ORDERS, filters=some(ORDERS)), planned(ORDERS), ANEW)
    assert capture.table(ORDERS, "s2") == SnapshotWaiting()
    assert capture.table(ORDERS, "restart-2-shop.orders") == SnapshotWaiting()


def test_a_table_without_a_mirror_is_not_restarted() -> None:
    capture = Capture(ORDERS)
    before = capture.checkpoint
    capture.give(ANEW, EMPTIED)
    assert capture.checkpoint == before


def test_a_mirror_that_a_consumer_lacks_begins_anew_once() -> None:
    capture = ready()
    lacked = MirrorDataExpired({ORDERS.table: 0, ITEMS.table: 0})
    assert Capture.plans(capture.give(lacked)) == [ORDERS.table]
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(2)}
    assert capture.table(ORDERS, "restart-2-shop.orders") == SnapshotWaiting()
    before = capture.checkpoint
    capture.give(lacked)  # asked again before the answer was seen
    assert capture.checkpoint == before


def test_a_mirror_of_a_stopped_table_stays_as_it_is() -> None:
    capture = ready()
    capture.give(TableStopped(ORDERS.table, "why"))
    before = capture.checkpoint
    capture.give(MirrorDataExpired({ORDERS.table: 0}))
    assert capture.checkpoint == before


def test_a_table_that_was_emptied_before_its_first_chunk_has_a_mirror_that_begins_there() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), passed(20, wrote("a:6", insert(1))), EMPTIED)
    assert capture.table(ORDERS) == Completed(Progress())
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(2)}


def test_a_table_that_was_emptied_is_complete_and_its_mirror_is_empty() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2), execute("s2", ORDERS, filters=some(ORDERS)), EMPTIED)
    assert isinstance(capture.table(ORDERS), Completed) and progress(capture.table(ORDERS)).rows == 2
    assert isinstance(capture.table(ORDERS, "s2"), Completed)
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(2)}
    assert capture.open == [] and Capture.plans(capture.orders) == [ORDERS.table]


def test_a_table_may_be_restarted_within_a_transaction() -> None:
    capture = ready()
    capture.give(part("a:6", insert(1)), ANEW, passed(20, wrote("a:6", insert(2))))
    assert capture.appends[-1].checkpoint.mirrors == {ORDERS.table: Filling(2)}
    assert capture.appends[-1].checkpoint.scn == 3


def test_a_table_is_restarted_with_the_passing_of_what_changed_it() -> None:
    """No checkpoint has the one without the other."""
    capture = ready()
    capture.give(replace(statement("a:6", 20, ORDERS), restarted=(EMPTIED,)))
    [append] = capture.appends[-1:]
    assert append.checkpoint.mirrors == {ORDERS.table: Ready(3)}
    assert append.checkpoint.scn == 4
    capture = ready()
    capture.give(replace(passed(20, wrote("a:6", insert(2)), wrote("a:7")), restarted=(ANEW,)))
    [append] = capture.appends[-1:]
    assert append.checkpoint.mirrors == {ORDERS.table: Filling(4)}
    assert append.checkpoint.scn == 5


def test_what_a_statement_made_of_a_table_goes_out_with_it() -> None:
    """Names are known from here on, though not proven; a table's last row is followed by the word that it's empty."""
    capture = ready()
    renamed = Alteration(altered(ORDERS), "ALTER TABLE", ColumnChanges((("a", "b"),)))
    capture.give(replace(statement("a:6", 20, ORDERS), alterations=(renamed,)))
    [append] = capture.appends[-1:]
    assert (append.alterations, append.parts) == ((Altered(3, renamed),), ())
    assert append.checkpoint.schemas == {ORDERS.table: altered(ORDERS)}
    assert append.checkpoint.unproven == {ORDERS.table}
    emptied = Alteration(altered(ORDERS), "TRUNCATE TABLE", emptied=True)
    capture.give(replace(statement("a:7", 30, ORDERS), restarted=(EMPTIED,), alterations=(emptied,)))
    [append] = capture.appends[-1:]
    [said] = append.parts
    assert isinstance(said, ChangePart)
    assert (said.changes.schema, said.first_scn) == (altered(ORDERS), 4)
    assert said.transactions.gtid(0) == gtid("a:7")
    assert said.changes.images["kind"].to_pylist() == [ImageKind.EMPTIED]
    assert said.changes.rows.to_pylist() == [dict.fromkeys(altered(ORDERS).arrow.names)]
    assert append.checkpoint.mirrors == {ORDERS.table: Ready(4)}, (
        "nothing up to there counts, itself included"
    )


def test_a_schema_is_unproven_from_a_statement_on_until_it_is_verified() -> None:
    capture = ready()
    capture.give(statement("a:6", 20, ORDERS, ITEMS))
    assert capture.checkpoint.unproven == {ORDERS.table}
    capture.give(SchemaVerified(ORDERS))
    assert capture.checkpoint.unproven == frozenset()


@pytest.mark.parametrize("again", [statement("a:6", 20, ORDERS), SchemaVerified(ORDERS), ANEW])
def test_an_unsettled_table_is_planned_again_when_something_is_known_of_it(
    again: ToWatermarkCoordinator,
) -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(altered(ORDERS), high=40))
    assert isinstance(capture.state.runs[ORDERS.table], Unsettled)
    assert Capture.plans(capture.give(LogAdvanced(place(30)))) == []
    assert Capture.plans(capture.give(again)) == [ORDERS.table]


def test_a_failure_tells_what_was_not_read() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    first, second = of(ReadChunk, capture.give(planned(ORDERS, end=9, splits=[4])))
    capture.give(read(second, 5, 6), ChunkFailed(first.chunk, "lost connection"))
    failed = "lost connection (not read: through (4,), behind (6,) through (9,))"
    assert getattr(capture.table(ORDERS), "reason", None) == failed
