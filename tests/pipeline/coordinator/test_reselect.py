"""Rows of which the log has a part: random worlds first, then one thing after the other."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from pipeline.coordinator import reselect
from pipeline.coordinator.snapshots.table_snapshots import end_table
from pipeline.coordinator.state import Order, SchemaDiffers
from pipeline.gtid.transactions import Transactions
from pipeline.journal.change_rows import chunk_table
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkSchemaChanged,
    PlanFailed,
    ReadChunk,
    RepairRows,
    ReselectRows,
    SourceOverloaded,
    SourceRecovered,
)
from pipeline.messages.journal import ChangePart, ChunkPart, DifferencesReported, MirrorDataExpired
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot import reselect_keys
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready, stays_incomplete
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Repairing,
    Snapshot,
    SnapshotStopped,
    SnapshotWaiting,
    Verification,
)
from pipeline.types.column_types import ColumnType, Decimal, Integer
from tests.pipeline.builders import (
    COMMIT_TIME,
    ITEMS,
    ORDERS,
    Capture,
    altered,
    change_table,
    delete,
    execute,
    gtid,
    gtids,
    lacks,
    of,
    passed,
    place,
    planned,
    read,
    some,
    statement,
    stop,
    table,
    wrote,
)
from tests.pipeline.partial_world import TABLE, World, told

SEEDS = 20


def run(seed: int, surrogate: bool = False) -> World:
    world = World(seed, surrogate)
    for _ in range(80):
        world.act(most=40)
        if not world.within:
            judged(world)
    world.settle()
    judged(world)
    return world


def judged(world: World) -> None:
    """Each row that's shown is the source's at the place where the stream is."""
    live, source = world.live(), world.states[world.passed]
    wrong = {key: (row, source.get(key)) for key, row in live.items() if source.get(key) != row}
    assert not wrong


@pytest.mark.parametrize(
    "seeds", [range(SEEDS), pytest.param(range(SEEDS, 2 * SEEDS), marks=pytest.mark.full)], ids=str
)
@pytest.mark.parametrize("surrogate", [False, True], ids=["by the key", "by another index"])
def test_a_reader_sees_what_is_so_and_in_the_end_all_of_it(surrogate: bool, seeds: range) -> None:
    asked = 0
    for seed in seeds:
        world = run(seed, surrogate)
        assert world.live() == world.states[-1], seed
        assert not world.state.unread
        assert not world.state.checkpoint.unread
        assert isinstance(world.state.checkpoint.snapshots[0].tables[TABLE.table], Completed)
        asked += sum(isinstance(order, ReselectRows) for order in world.ordered)
    assert asked > SEEDS


# One thing after the other

LOCKED = "Lock wait timeout exceeded"
FILLED = Checkpoint(gtids("a:1-5"), scn=7, schemas={ORDERS.table: ORDERS}, mirrors={ORDERS.table: Ready(1)})


def partly(
    end: int, name: str, *images: tuple[ImageKind, dict[str, Any]], schema: TableSchema = ORDERS
) -> ChangesVerified:
    """A transaction whose images lack all columns that aren't given."""
    names = {column.name for column in schema.columns}
    absent = [lacks(schema, names - given.keys()) for _, given in images]
    fields = [
        {"kind": int(kind), "transaction": 0, "ordinal": n, "absent": absent[n]}
        for n, (kind, _) in enumerate(images)
    ]
    rows = pa.RecordBatch.from_pylist([given for _, given in images], schema.arrow)
    changes = TableChanges.unshared(schema, pa.RecordBatch.from_pylist(fields, IMAGE_FIELDS), rows)
    return ChangesVerified(Transactions.of([(gtid(name), COMMIT_TIME)]), (changes,), place(end))


def inserted(end: int, name: str, *keys: int) -> ChangesVerified:
    return partly(end, name, *((ImageKind.INSERT, {"id": key}) for key in keys))


def updated(end: int, name: str, key: int, value: int) -> ChangesVerified:
    return partly(
        end,
        name,
        (ImageKind.UPDATE_BEFORE, {"id": key}),
        (ImageKind.UPDATE_AFTER, {"id": key, "value": value}),
    )


def asked(orders: object) -> list[list[int]]:
    return [order.keys.column(0).to_pylist() for order in of(ReselectRows, orders)]  # type: ignore[arg-type]


def test_a_row_that_was_inserted_in_part_is_read_again() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(
        ReselectRows,
        capture.give(partly(20, "a:6", (ImageKind.INSERT, {"id": 1}), (ImageKind.INSERT, {"id": 2}))),
    )
    assert (order.keys.column(0).to_pylist(), order.ordered_at) == ([1, 2], gtids("a:1-6"))
    capture.give(read(order, 1, 2, low="a:1-6", high=20))
    assert capture.stream == ["orders a:6", "orders rows 1 2"]


def test_without_a_mirror_nothing_is_read_again() -> None:
    capture = Capture(ORDERS)
    assert not asked(capture.give(inserted(20, "a:6", 1)))


def test_a_whole_row_is_not_read_again() -> None:
    capture = Capture(checkpoint=FILLED)
    whole = partly(20, "a:6", (ImageKind.INSERT, {"id": 1, "value": 1}), (ImageKind.INSERT, {"id": 2}))
    assert asked(capture.give(whole)) == [[2]]
    assert not asked(capture.give(updated(30, "a:7", 1, 5)))


def test_a_row_that_is_gone_comes_not_at_all() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(passed(30, wrote("a:7", delete(1))), read(order, low="a:1-7", high=30))
    assert capture.stream == ["orders a:6", "orders a:7"]
    assert not capture.checkpoint.unread


def test_what_passes_in_part_meanwhile_is_laid_over_the_row() -> None:
    wide = table("orders", "id", "value", "more")
    capture = Capture(checkpoint=replace(FILLED, schemas={wide.table: wide}))
    (order,) = of(ReselectRows, capture.give(partly(20, "a:6", (ImageKind.INSERT, {"id": 1}), schema=wide)))
    images = (ImageKind.UPDATE_BEFORE, {"id": 1}), (ImageKind.UPDATE_AFTER, {"id": 1, "value": 5})
    row = pa.RecordBatch.from_pylist([{"id": 1, "value": 3, "more": 4}], wide.arrow)
    came = replace(read(order, 1, low="a:1-6", high=30), rows=row)
    capture.give(partly(30, "a:7", *images, schema=wide), came)
    part = capture.parts[-1]
    assert not isinstance(part, ChangePart)
    assert part.rows.to_pylist() == [{"id": 1, "value": 5, "more": 4}]


def test_a_row_under_another_key_of_the_same_collation_is_left_out() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(read(order, 8, low="a:1-6", high=20))
    assert capture.stream == ["orders a:6"]


def test_one_order_is_out_at_a_time_and_keys_are_asked_for_once() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    assert not asked(capture.give(inserted(30, "a:7", 3), inserted(40, "a:8", 2, 3)))
    assert asked(capture.give(read(order, 1, low="a:1-6", high=50))) == [[3, 2]]


def test_no_more_are_asked_for_than_a_chunk_may_have_bytes() -> None:
    capture = Capture(checkpoint=FILLED)
    many = inserted(20, "a:6", *range(1, 2 * reselect.FIRST_KEYS))
    (order,) = of(ReselectRows, capture.give(many))
    assert len(order.keys) == reselect.FIRST_KEYS
    big = replace(read(order, 1, low="a:1-6", high=20), bytes=capture.state.limits.chunk_bytes // 3)
    assert asked(capture.give(big)) == [[101, 102, 103]]


def test_the_checkpoint_says_up_to_where_no_row_is_unread() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    assert capture.checkpoint.unread == {ORDERS.table: 7}
    capture.give(inserted(30, "a:7", 2))
    assert capture.appends[-1].checkpoint.unread == {ORDERS.table: 7}
    assert reselect.unread_keys(capture.state) == {ORDERS.table: 2}
    capture.give(read(order, 1, low="a:1-6", high=30))
    assert capture.appends[-1].checkpoint.unread == {ORDERS.table: 8}


def test_keys_that_wait_are_in_few_parts_and_each_keeps_its_scn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of slices with a row or two may come while one order is out. Each looks at what waits."""
    capture, slices = Capture(checkpoint=FILLED), 100
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 0)))
    for number in range(1, slices):
        capture.give(inserted(20 + number, f"a:{6 + number}", number))
        assert len(capture.state.unread[ORDERS.table]) <= number.bit_length()
    listed = capture.state.unread[ORDERS.table]
    assert [scn for each in listed for scn in each.since.to_pylist()] == list(range(9, 8 + slices))
    monkeypatch.setattr(reselect, "MOST_KEYS", 30)
    orders = capture.give(read(order, 0, low="a:1-6", high=20 + slices))
    assert asked(orders) == [list(range(1, 31))]
    assert capture.checkpoint.unread == {ORDERS.table: 7}
    (order,) = of(ReselectRows, orders)
    assert (order.since, capture.state.unread[ORDERS.table][0].first) == (9, 39)


def test_a_start_asks_for_what_the_journal_has() -> None:
    unread = replace(FILLED, unread={ORDERS.table: 5})
    keys = pa.RecordBatch.from_pydict({"id": [4, 5]}, schema=reselect_keys.no_keys(ORDERS).schema)
    state = reselect.restore_keys(Capture(checkpoint=FILLED).state, {})
    assert not state.unread
    state = reselect.restore_keys(replace(state, checkpoint=unread), {ORDERS.table: keys})
    assert (state.unread[ORDERS.table][0].first, state.checkpoint.unread) == (6, {ORDERS.table: 5})
    state = reselect.restore_keys(
        replace(state, checkpoint=unread, unread={}), {ORDERS.table: keys.slice(0, 0)}
    )
    assert not state.checkpoint.unread


def test_a_table_whose_keys_the_journal_lacks_is_read_anew() -> None:
    unread = replace(Capture(checkpoint=FILLED).state, checkpoint=replace(FILLED, unread={ORDERS.table: 5}))
    (snapshot,) = reselect.restore_keys(unread, {}).checkpoint.snapshots
    assert snapshot.tables == {ORDERS.table: SnapshotWaiting()}


def test_too_many_keys_are_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(checkpoint=FILLED)
    orders = capture.give(inserted(20, "a:6", *range(50)))
    assert not asked(orders)
    assert Capture.plans(orders) == [ORDERS.table]
    assert not capture.checkpoint.unread
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(1)}, "its rows come as changes"


def test_a_window_of_rows_that_are_read_again_keeps_nothing_of_other_rows() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(passed(21, wrote("a:7", delete(2))))
    (opened,) = capture.state.windows
    assert not opened.passed_keys
    capture.give(read(order, 1, low="a:1-6", high=30))
    capture.give(passed(22, wrote("a:8", delete(3))))
    (opened,) = capture.state.windows
    assert not opened.passed_keys
    capture.give(passed(23, wrote("a:9", delete(1))))
    (opened,) = capture.state.windows
    assert [len(keys) for keys in opened.passed_keys] == [1]


def test_a_plan_that_is_under_way_when_the_table_is_found_altered_is_awaited_and_does_not_count() -> None:
    """Rows that are read again find the table altered, and the statement passes, before the plan's answer comes."""
    waits = Snapshot("s1", {ORDERS.table: SnapshotWaiting()})
    begin_at = replace(FILLED, mirrors={ORDERS.table: Filling(1)}, snapshots=(waits,))
    capture, now = Capture(checkpoint=begin_at), altered(ORDERS)
    assert Capture.plans(capture.first_orders) == [ORDERS.table]
    (again,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(ChunkSchemaChanged(again.chunk, "it was altered", place(30)))
    assert isinstance(capture.state.plans[ORDERS.table], SchemaDiffers)
    orders = capture.give(statement("a:7", 30, ORDERS), SchemasVerified((now,)))
    assert not Capture.plans(orders), "the answer to the first order would be taken for that of a second one"
    orders = capture.give(planned(now, end=9))
    assert Capture.plans(orders) == [ORDERS.table], "its last key is older than the order"
    assert Capture.chunk(capture.give(planned(now, end=12, high=30))).end == (12,)


@pytest.mark.parametrize(
    "ends", [stop("s1", ORDERS), PlanFailed(ORDERS.table, LOCKED)], ids=["stop", "failure"]
)
def test_a_mirror_whose_rows_no_snapshot_reads_again_is_not_complete(
    ends: SignalReceived | PlanFailed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(checkpoint=FILLED)
    capture.give(inserted(20, "a:6", *range(50)), ends)
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(8)}
    assert capture.checkpoint.scn == 9
    assert stays_incomplete(capture.checkpoint, ORDERS.table)
    capture.give(execute("s2", ORDERS))
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(9)}


def test_rows_of_a_mirror_that_begins_again_are_not_of_chunks_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(checkpoint=FILLED)
    capture.give(inserted(20, "a:6", *range(50)), execute("s1", ORDERS, priority=1), planned(ORDERS))
    capture.give(planned(ORDERS))
    assert isinstance(capture.table(ORDERS), Chunking)
    rereading = next(each for each in capture.checkpoint.snapshots if each.id != "s1")
    after = end_table(capture.state, rereading, ORDERS.table, SnapshotStopped(Progress())).checkpoint
    assert after.mirrors == {ORDERS.table: Filling(8)}
    assert [each.tables[ORDERS.table] for each in after.snapshots if each.id == "s1"] == [SnapshotWaiting()]


def test_a_snapshot_that_is_to_read_all_rows_again_is_not_requested_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(checkpoint=MIRRORED)
    capture.give(a_part(*range(50)), a_part(*range(50, 100)))
    capture.give(partly(20, "a:6", (ImageKind.INSERT, {"id": 100}), schema=TABLE))
    assert [each.id for each in capture.checkpoint.snapshots] == [f"reread-8-{TABLE.table}"]
    many = ((ImageKind.INSERT, {"id": key}) for key in range(200, 250))
    assert not Capture.plans(capture.give(partly(30, "a:7", *many, schema=TABLE)))
    assert Capture.plans(capture.give(planned(TABLE))) == [TABLE.table], "the last key may be of one of these"
    assert [each.id for each in capture.checkpoint.snapshots] == [f"reread-8-{TABLE.table}"]


def test_two_snapshots_of_our_own_never_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture, again = Capture(checkpoint=MIRRORED), MirrorInvalidated(TABLE.table, "so")
    capture.give(a_part(*range(50)), stop("s1", TABLE), a_part(*range(50)), stop("s2", TABLE))
    capture.give(again, stop("s3", TABLE), again)
    begun = (f"reread-8-{TABLE.table}", f"restart-7-{TABLE.table}")
    assert [each.id for each in capture.checkpoint.snapshots] == [
        name + more for name in begun for more in ("", "-again")
    ]


def test_a_table_that_stops_keeps_the_generation_of_its_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(checkpoint=FILLED)
    capture.give(inserted(20, "a:6", *range(50)), TableStopped(ORDERS.table, "so"))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(1)}


def test_too_many_keys_before_a_first_snapshot_are_left_to_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 100)
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    orders = capture.give(inserted(20, "a:6", *range(50)))
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == ["s1"]
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(capture.checkpoint.scn - 1)}
    assert not Capture.plans(orders), (
        "the plan on its way is stale, and another one is asked for when it has come"
    )
    assert Capture.plans(capture.give(planned(ORDERS))) == [ORDERS.table]


def test_a_statement_has_rows_asked_for_again_once_the_schema_is_proven() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    assert not asked(capture.give(statement("a:7", 30, ORDERS)))
    assert not asked(capture.give(read(order, 1, low="a:1-6", high=20))), "its window was dropped"
    assert asked(capture.give(SchemasVerified((altered(ORDERS),)))) == [[1]]


@pytest.mark.parametrize(
    ("kind", "key"), [(Integer(4, unsigned=False), 5_000_000_000), (Decimal(10, 0), 1)], ids=str
)
def test_a_table_whose_altered_key_has_no_room_for_unread_keys_is_read_again(
    kind: ColumnType, key: int
) -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", key)))
    capture.give(ChunkSchemaChanged(order.chunk), passed(25, wrote("a:7", delete(key))))
    narrow = replace(ORDERS, columns=(replace(ORDERS.columns[0], type=kind), ORDERS.columns[1]))
    orders = capture.give(statement("a:8", 30, ORDERS), SchemasVerified((narrow,)))
    assert not asked(orders)
    assert Capture.plans(orders) == [ORDERS.table]
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(1)}
    assert not capture.checkpoint.unread
    assert asked(capture.give(partly(40, "a:9", (ImageKind.INSERT, {"id": 5}), schema=narrow))) == [[5]]


def test_unread_keys_take_on_the_type_of_the_altered_key() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(ChunkSchemaChanged(order.chunk), statement("a:7", 30, ORDERS))
    kind = Integer(4, unsigned=False)
    narrow = replace(ORDERS, columns=(replace(ORDERS.columns[0], type=kind), ORDERS.columns[1]))
    (order,) = of(ReselectRows, capture.give(SchemasVerified((narrow,))))
    assert (order.keys.column(0).to_pylist(), order.keys.schema.types) == ([1], [pa.int32()])


def test_a_source_that_is_ahead_of_the_stream_is_asked_when_the_stream_is_there() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    assert not asked(capture.give(ChunkSchemaChanged(order.chunk)))
    capture.give(statement("a:7", 30, ORDERS))
    assert asked(capture.give(SchemasVerified((altered(ORDERS),)))) == [[1]]


def test_a_table_that_begins_anew_has_nothing_unread() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(MirrorInvalidated(ORDERS.table, "so"), read(order, 1, low="a:1-6", high=20))
    assert capture.stream == ["orders a:6"]
    assert not capture.checkpoint.unread


def test_a_source_that_is_strained_is_not_asked() -> None:
    capture = Capture(checkpoint=FILLED)
    assert not asked(capture.give(SourceOverloaded("so"), inserted(20, "a:6", 1)))
    assert asked(capture.give(SourceRecovered())) == [[1]]


def test_rows_that_cannot_be_read_again_stop_their_table_by_name() -> None:
    capture = Capture(checkpoint=FILLED)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    capture.give(ChunkFailed(order.chunk, "SELECT command denied"))
    assert "SELECT command denied" in capture.checkpoint.stopped[ORDERS.table]
    assert not capture.checkpoint.unread
    capture.give(inserted(30, "a:7", 2))
    assert capture.stream == ["orders a:6"], "changes of a table that has stopped don't go on"


TWO = replace(
    FILLED,
    schemas={each.table: each for each in (ORDERS, ITEMS)},
    mirrors=dict.fromkeys((ORDERS.table, ITEMS.table), Ready(1)),
)


def insert_items(end: int, name: str, *keys: int) -> ChangesVerified:
    return partly(end, name, *((ImageKind.INSERT, {"id": key}) for key in keys), schema=ITEMS)


def test_rows_that_do_not_come_for_now_are_ordered_again() -> None:
    capture = Capture(checkpoint=TWO)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1), inserted(30, "a:7", 2)))
    assert asked(capture.give(ChunkFailed(order.chunk, LOCKED, again=True))) == [[1, 2]]
    assert not capture.checkpoint.stopped
    assert capture.checkpoint.unread == {ORDERS.table: 7}
    capture.give(read(of(ReselectRows, capture.orders)[-1], 1, 2, low="a:1-7", high=30))
    assert capture.stream == ["orders a:6", "orders a:7", "orders rows 1 2"]
    assert not capture.checkpoint.unread


def test_a_table_whose_rows_do_not_come_lets_others_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reselect, "POSTPONED", 2)
    capture = Capture(checkpoint=TWO)
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1), insert_items(30, "a:7", 5)))
    (other,) = of(ReselectRows, capture.give(ChunkFailed(order.chunk, LOCKED, again=True)))
    assert other.schema == ITEMS
    capture.give(insert_items(40, "a:8", 6))
    (other,) = of(ReselectRows, capture.give(read(other, 5, low="a:1-7", high=30)))
    assert other.schema == ITEMS
    capture.give(insert_items(50, "a:9", 7))
    (order,) = of(ReselectRows, capture.give(read(other, 6, low="a:1-8", high=40)))
    assert order.schema == ORDERS, "not for ever"
    assert not capture.state.postponed


def test_a_table_whose_rows_do_not_come_lets_a_repair_first() -> None:
    verified = Verification(7, repairs=True)
    found = Snapshot("v1", {ITEMS.table: Repairing(Progress())}, verification=verified)
    capture = Capture(checkpoint=replace(TWO, snapshots=(found,)))
    (order,) = of(ReselectRows, capture.give(inserted(20, "a:6", 1)))
    keys = pa.RecordBatch.from_pydict({"id": pa.array([5], pa.int64())})
    capture.give(DifferencesReported("v1", ITEMS.table, 1, keys, last=True))
    (repair,) = of(RepairRows, capture.give(ChunkFailed(order.chunk, LOCKED, again=True)))
    assert repair.schema == ITEMS
    assert asked(capture.give(ChunkFailed(repair.chunk, LOCKED))) == [[1]]


def test_a_key_without_a_value_stops_its_table_by_name() -> None:
    capture = Capture(checkpoint=FILLED)
    capture.give(partly(20, "a:6", (ImageKind.INSERT, {"value": 1})))
    assert "zero or partial date" in capture.checkpoint.stopped[ORDERS.table]


def test_a_row_that_moves_along_the_index_of_a_snapshot_is_read_again() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, surrogate="value"))
    capture.give(planned(ORDERS))
    assert reselect.moving_columns(capture.state, ORDERS.table) == (), "the plan's walk is along the key"
    assert reselect.moving_columns(replace(capture.state, plans={}), ORDERS.table) == ("value",), (
        "it isn't known again yet"
    )


def moved(end: int, name: str, key: int) -> ChangesVerified:
    """A row that moves along column a."""
    images = (ImageKind.UPDATE_BEFORE, {"id": key}), (ImageKind.UPDATE_AFTER, {"id": key, "a": 500})
    return partly(end, name, *images, schema=TABLE)


def test_a_row_that_moves_beyond_the_end_of_a_plan_on_its_way_is_read_again() -> None:
    capture = Capture(TABLE)
    assert Capture.plans(capture.give(execute("s1", TABLE, surrogate="a"))) == [TABLE.table]
    (order,) = of(ReselectRows, capture.give(moved(20, "a:6", 1)))
    assert order.keys.column(0).to_pylist() == [1]
    along = ChunkIndex("a", (1,), (False,), (None,))
    chunk = Capture.chunk(capture.give(replace(planned(TABLE, end=100), walk=along)))
    capture.give(read(order, 1, low="a:1-6", high=20), read(chunk, low="a:1-6", high=20))
    assert capture.checkpoint.mirrors == {TABLE.table: Ready(0)}
    assert shown(capture) == [1]


def test_a_row_that_moves_before_its_table_is_planned_is_left_to_the_plan() -> None:
    capture = Capture(TABLE)
    capture.give(SourceOverloaded("so"), execute("s1", TABLE, surrogate="a"), moved(20, "a:6", 1))
    assert not capture.state.unread
    assert Capture.plans(capture.give(SourceRecovered())) == [TABLE.table]


# A mirror that begins within a transaction

WITHIN = Checkpoint(gtids("a:1-5"), scn=7, schemas={TABLE.table: TABLE})
MIRRORED = replace(WITHIN, mirrors={TABLE.table: Ready(1)})


def a_part(*keys: int) -> TransactionPartVerified:
    """Inserts with nothing but their keys, as a part of a transaction."""
    whole = partly(20, "a:6", *((ImageKind.INSERT, {"id": key}) for key in keys), schema=TABLE)
    return TransactionPartVerified(gtid("a:6"), COMMIT_TIME, whole.tables)


def shown(capture: Capture) -> list[int]:
    """The keys of the rows that a reader sees (`pipeline.lake.live_view`)."""
    since = capture.checkpoint.mirrors[TABLE.table].since
    mirror: dict[int, dict[str, Any]] = {}
    stories: dict[int, list[dict[str, Any]]] = {}
    for part in capture.parts:
        rows = change_table(1, part) if isinstance(part, ChangePart) else chunk_table(1, part)
        for row in rows.to_pylist():
            if isinstance(part, ChunkPart) and part.first:
                mirror[row["id"]] = row
            elif row["__scn"] > since:
                stories.setdefault(row["id"], []).append(row)
    known = {key: told(mirror.get(key), stories.get(key, [])) for key in mirror.keys() | stories.keys()}
    return sorted(key for key, row in known.items() if row is not None)


@pytest.mark.parametrize("surrogate", [None, "a"], ids=["by the key", "by another index"])
@pytest.mark.parametrize(
    "begins",
    [
        MirrorDataExpired({TABLE.table: 1}),
        MirrorInvalidated(TABLE.table, "a foreign key"),
        None,
    ],
    ids=["the lake lacks its rows", "its rows are no longer right", "its first snapshot"],
)
def test_no_part_of_a_transaction_counts_for_a_mirror_that_begins_within_it(
    begins: MirrorDataExpired | MirrorInvalidated | None, surrogate: str | None
) -> None:
    first = execute("s1", TABLE, surrogate=surrogate)
    capture = Capture(checkpoint=MIRRORED if begins else WITHIN)
    capture.give(a_part(1), begins or first, a_part(2))
    assert capture.checkpoint.mirrors == {TABLE.table: Filling(8)}
    orders = capture.give(partly(20, "a:6", (ImageKind.INSERT, {"id": 3}), schema=TABLE))
    assert capture.checkpoint.scn == 9, "no mirror begins at the SCN of a checkpoint that is sent"
    again = of(ReselectRows, orders)
    capture.give(*(read(order, *order.keys.column(0).to_pylist(), low="a:1-6", high=20) for order in again))
    chunk = Capture.chunk(capture.give(planned(TABLE)))
    chunk = Capture.chunk(capture.give(read(chunk, 1, 2, low="a:1-6", high=20)))
    capture.give(read(chunk, 3, low="a:1-6", high=20))
    assert capture.checkpoint.mirrors == {TABLE.table: Ready(8)}
    assert shown(capture) == [1, 2, 3]


def test_a_transaction_counts_for_a_table_that_was_emptied_before_its_rows() -> None:
    capture = Capture(checkpoint=MIRRORED)
    capture.give(a_part(), MirrorInvalidated(TABLE.table, "so", emptied=True), a_part(1))
    (order,) = of(ReselectRows, capture.give(partly(20, "a:6", (ImageKind.INSERT, {"id": 2}), schema=TABLE)))
    capture.give(read(order, 1, 2, low="a:1-6", high=20))
    assert capture.checkpoint.mirrors == {TABLE.table: Ready(7)}
    assert shown(capture) == [1, 2]


# Rows that are read again into a mirror that another snapshot leaves incomplete


def overflow(end: int, name: str, *keys: int) -> ChangesVerified:
    """Inserts with nothing but their keys, which are too many to be kept."""
    return partly(end, name, *((ImageKind.INSERT, {"id": key}) for key in keys), schema=TABLE)


def read_rows(capture: Capture, orders: Iterable[Order], high: int, *keys: int) -> tuple[Order, ...]:
    """Answers the orders for chunks with these rows until there are no more, and returns the last orders."""
    rows, last = iter(keys), tuple(orders)
    while chunks := of(ReadChunk, last):
        (order,) = chunks
        last = capture.give(read(order, *islice(rows, order.limit), low="a:1-7", high=high))
    return last


def test_rows_that_became_unknown_beside_another_snapshot_are_in_the_filled_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 8)
    capture = Capture(checkpoint=MIRRORED)
    capture.give(overflow(20, "a:6", 1, 2), MirrorInvalidated(TABLE.table, "so"))
    assert capture.checkpoint.mirrors == {TABLE.table: Filling(8)}
    capture.give(execute("s1", TABLE, priority=1, filters=some(TABLE)), planned(TABLE))
    orders = capture.give(planned(TABLE))
    capture.give(overflow(30, "a:7", 3, 4))
    assert Capture.plans(read_rows(capture, orders, 30)) == [TABLE.table]
    assert isinstance(capture.table(TABLE), Completed)
    read_rows(capture, capture.give(planned(TABLE)), 30, 1, 2, 3, 4)
    assert isinstance(capture.checkpoint.mirrors[TABLE.table], Ready)
    assert shown(capture) == [1, 2, 3, 4]


def test_rows_that_became_unknown_before_a_first_snapshot_failed_are_in_the_filled_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 8)
    capture = Capture(checkpoint=WITHIN)
    capture.give(execute("s1", TABLE, surrogate="a"))
    along = ChunkIndex("a", (1,), (False,), (None,))
    chunk = Capture.chunk(capture.give(replace(planned(TABLE), walk=along)))
    capture.give(overflow(20, "a:6", 1, 2))
    assert Capture.plans(capture.give(ChunkFailed(chunk.chunk, "it is broken"))) == [TABLE.table]
    read_rows(capture, capture.give(planned(TABLE)), 20, 1, 2)
    assert isinstance(capture.checkpoint.mirrors[TABLE.table], Ready)
    assert shown(capture) == [1, 2]


def test_a_row_beyond_the_end_of_a_plan_on_its_way_counts_for_the_filled_mirror() -> None:
    """The mirror begins where its plan is ordered, and not where the plan comes."""
    rereading = Snapshot(f"reread-7-{TABLE.table}", {TABLE.table: SnapshotWaiting()})
    begins = replace(MIRRORED, mirrors={TABLE.table: Filling(1)}, snapshots=(rereading,))
    capture = Capture(checkpoint=begins)
    row = (ImageKind.INSERT, {"id": 20, "a": 1, "b": 1})
    capture.give(partly(20, "a:6", row, schema=TABLE))
    read_rows(capture, capture.give(planned(TABLE, end=9)), 20, 1, 2)
    assert isinstance(capture.checkpoint.mirrors[TABLE.table], Ready)
    assert shown(capture) == [1, 2, 20]


def test_rows_that_are_to_be_read_again_leave_the_windows_of_another_snapshot_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reselect, "MOST_KEY_BYTES", 8)
    capture = Capture(checkpoint=MIRRORED)
    capture.give(overflow(20, "a:6", 1, 2), execute("s1", TABLE, priority=1), planned(TABLE))
    capture.give(planned(TABLE))
    assert capture.windows == ["partial reading"]
    assert not Capture.plans(capture.give(overflow(30, "a:7", 3, 4)))
    assert capture.windows == ["partial reading"]
