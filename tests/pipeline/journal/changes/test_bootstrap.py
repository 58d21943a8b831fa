"""A reader is sent to the lake only where all tables have exactly the same changes."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pipeline.journal.applied.progress import TableProgress
from pipeline.journal.changes.bootstrap import (
    LakeBehind,
    LakePlace,
    LakeWithout,
    lake_place,
    needs_restarts,
    parse_bootstrap,
    restarted_after,
)
from pipeline.journal.changes.retained_range import RetainedRange
from pipeline.journal.entry import Entry
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.schema.ddl.alter_table import Alteration, Altered
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot, SnapshotFailed, SnapshotWaiting
from tests.pipeline.builders import ITEMS, ORDERS, gtids
from tests.pipeline.journal.applied.progress import Delivered, at, delivered
from tests.pipeline.lake.stream.entries import ORDERS as ENTRY_ORDERS
from tests.pipeline.lake.stream.entries import entry as sealed_entry
from tests.pipeline.lake.stream.entries import retained

BOTH = (ORDERS.table, ITEMS.table)
MIRRORS: dict[TableId, Mirror] = {ORDERS.table: Ready(3), ITEMS.table: Ready(5)}
WAITS = Snapshot("w", {ITEMS.table: SnapshotWaiting()})
T = ENTRY_ORDERS.table
NEWEST = Checkpoint(gtids("a:1-9"), 60, {each.table: each for each in (ORDERS, ITEMS)}, MIRRORS)


def lake_at_4(**tables: TableProgress) -> Delivered:
    """The lake through segment 4, with the checkpoint there."""
    reached = replace(NEWEST, position=gtids("a:1-7"), scn=40)
    return replace(delivered(4, "a:1-7", **tables), checkpoint=reached)


def found(
    lake: Delivered | None, tables: Iterable[TableId], newest: Checkpoint, *restarted: TableId
) -> LakePlace:
    """The place where the stream lacks changes of these tables after segment 4."""
    return lake_place(lake, tables, newest, restarted)


def test_the_place_has_the_versions_of_the_tables_that_are_asked_for() -> None:
    lake = lake_at_4(items=TableProgress(at(4, "a:1-7")))
    assert found(lake, BOTH, NEWEST) == LakePlace(
        at(4, "a:1-7"), {ITEMS.table: None, ORDERS.table: {"changelog": 4}}
    )
    assert list(found(lake, BOTH[:1], NEWEST).read_at) == [ORDERS.table]


def test_a_table_that_lacks_something_is_named_if_it_is_asked_for() -> None:
    filling = TableProgress(at(4, "a:1-7"), lacks="its mirror is being filled")
    stopped = TableProgress(at(4, "a:1-7"), stopped="no key")
    with pytest.raises(
        LakeBehind, match=r"tables: shop.items can't be read .* yet: its mirror is being filled"
    ):
        found(lake_at_4(items=filling), BOTH, NEWEST)
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: no key; recapture it"):
        found(lake_at_4(items=stopped), BOTH, NEWEST)
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: a MERGE table"):
        found(lake_at_4(), BOTH, replace(NEWEST, stopped={ITEMS.table: "a MERGE table"}))
    assert found(lake_at_4(items=filling), BOTH[:1], NEWEST).reached.segment == 4
    with pytest.raises(LakeBehind, match="nothing is known of the lake yet"):
        found(None, BOTH, NEWEST)


@pytest.mark.parametrize("again", [Filling(45), Ready(45)])
def test_a_table_that_began_again_after_what_the_lake_has_is_not_read_there(again: Mirror) -> None:
    """Its reader has the notice already, and would take the rows of before for those after it."""
    newest = replace(NEWEST, mirrors={**MIRRORS, ITEMS.table: again}, snapshots=(WAITS,))
    with pytest.raises(LakeBehind, match=r"shop.items .* it has begun again, .* through the SCN 40 only"):
        found(lake_at_4(), BOTH, newest, ITEMS.table)
    assert found(lake_at_4(), BOTH[:1], newest).reached.segment == 4
    assert found(replace(lake_at_4(), checkpoint=newest), BOTH, newest).reached.segment == 4


def test_a_table_that_a_statement_emptied_after_what_the_lake_has_is_read_there() -> None:
    """The stream has the statement: however often that comes, the lake has the rows of before."""
    newest = replace(NEWEST, mirrors={**MIRRORS, ITEMS.table: Ready(45)})
    assert found(lake_at_4(), BOTH, newest).reached.segment == 4
    assert needs_restarts(lake_at_4(), BOTH, newest)
    assert not needs_restarts(lake_at_4(), BOTH[:1], newest)
    with pytest.raises(
        LakeBehind, match="it was emptied or has begun again, and the lake is too many segments"
    ):
        lake_place(lake_at_4(), BOTH, newest, None)


def test_the_tables_that_begin_again_after_the_lake_are_those_of_the_notices() -> None:
    def entry(segment: int) -> Entry:
        since = {3: 9, 4: 9, 5: 45, 6: 45, 7: 65}[segment]
        mirrors: dict[TableId, Mirror] = {T: Ready(since)}
        if segment in (5, 6):
            mirrors = {T: Filling(since)}
        made, emptied = sealed_entry(segment), Alteration(ENTRY_ORDERS, "TRUNCATE TABLE", emptied=True)
        checkpoint = replace(made.checkpoint, mirrors=mirrors)
        return replace(
            made, checkpoint=checkpoint, alterations=(Altered(65, emptied),) if segment == 7 else ()
        )

    def after(segment: int, there: RetainedRange) -> list[frozenset[TableId] | None]:
        return list(restarted_after(segment, there, entry))

    assert after(4, retained(3, 4)) == [frozenset()]
    assert after(4, retained(3, 7)) == after(3, retained(4, 5)) == [frozenset({T})]
    # A statement has emptied it.
    assert after(6, retained(3, 7)) == [frozenset()]
    assert after(4, retained(6, 7)) == after(4, retained(3, 9999)) == [None]


def test_many_segments_after_the_lake_are_looked_through_in_pieces() -> None:
    def entry(segment: int) -> Entry:
        made, since = sealed_entry(segment), 45 if segment >= 20 else 9
        return replace(made, checkpoint=replace(made.checkpoint, mirrors={T: Filling(since)}))

    assert list(restarted_after(10, retained(3, 40), entry)) == [frozenset(), frozenset({T}), frozenset({T})]


def test_a_table_that_the_lake_does_not_keep_is_refused() -> None:
    trimmed = replace(lake_at_4(), trimmed=ITEMS.table)
    with pytest.raises(LakeWithout, match=r"tables: shop.items keeps a day, or name the other tables"):
        found(trimmed, BOTH, NEWEST)
    assert found(trimmed, BOTH[:1], NEWEST).reached.segment == 4


def test_a_table_whose_snapshot_ended_without_all_rows_is_refused() -> None:
    filling = replace(NEWEST, mirrors={**MIRRORS, ITEMS.table: Filling(5)})
    late = lake_at_4(items=TableProgress(at(4, "a:1-7"), filling=5))
    with pytest.raises(LakeBehind, match="its snapshot is being read"):
        found(late, BOTH, replace(filling, snapshots=(snapshot("s", failed=True), WAITS)))
    for ended in ((), (snapshot("s", failed=True),)):
        with pytest.raises(LakeWithout, match=r"shop.items has had no snapshot with all of its rows"):
            found(lake_at_4(), BOTH, replace(filling, snapshots=ended))


def keyless(*snapshots: Snapshot, scanned: bool) -> Checkpoint:
    """The checkpoint where one of the tables has no key, after these snapshots of it."""
    schemas = {ORDERS.table: ORDERS, ITEMS.table: replace(ITEMS, key=())}
    those = frozenset({ITEMS.table} if scanned else ())
    return replace(
        NEWEST, schemas=schemas, mirrors={ORDERS.table: Ready(3)}, snapshots=snapshots, scanned=those
    )


def snapshot(name: str, *, failed: bool = False) -> Snapshot:
    ended = SnapshotFailed("it has no primary key", Progress()) if failed else Completed(Progress())
    return Snapshot(name, {ITEMS.table: ended})


def test_one_without_a_key_is_read_in_the_lake_once_that_has_its_scan() -> None:
    """Before any scan, and after a recapture, nothing reads the rows by itself."""
    first = keyless(snapshot("s1"), scanned=True)
    again = keyless(snapshot("s1"), snapshot("r", failed=True), scanned=False)
    second = keyless(snapshot("s1"), snapshot("r", failed=True), snapshot("s2"), scanned=True)

    def place(reached: Checkpoint, newest: Checkpoint) -> int:
        return found(replace(lake_at_4(), checkpoint=reached), BOTH, newest).reached.segment

    for reached, newest in ((keyless(scanned=False), keyless(scanned=False)), (first, again), (again, again)):
        with pytest.raises(LakeWithout, match=r"shop.items has no primary key. .* request one, or name the"):
            place(reached, newest)
    requested = keyless(snapshot("s1"), scanned=False)
    for reached, newest in ((requested, first), (again, second), (first, second)):
        with pytest.raises(LakeBehind, match=r"shop.items can't be read in the lake yet: it has begun again"):
            place(reached, newest)
    assert place(first, first) == place(second, second) == 4


def test_a_table_without_a_snapshot_is_refused_and_one_whose_snapshot_is_read_into_its_changelog_waits() -> (
    None
):
    newest = replace(NEWEST, mirrors={ORDERS.table: Ready(3)})
    with pytest.raises(LakeWithout, match=r"shop.items has had no snapshot: request one, or name the other"):
        found(replace(lake_at_4(), checkpoint=newest), BOTH, newest)
    filling = TableProgress(at(4, "a:1-7"), filling=5)
    with pytest.raises(LakeBehind, match=r"shop.items .* yet: its snapshot is being read"):
        found(lake_at_4(items=filling), BOTH, NEWEST)


def test_a_request_names_tables_and_nothing_else() -> None:
    assert parse_bootstrap({}) == ()
    assert parse_bootstrap({"tables": "shop.a,shop.b"}) == (TableId("shop", "a"), TableId("shop", "b"))
    with pytest.raises(MalformedRequest, match="since: there is no such parameter; there is tables"):
        parse_bootstrap({"since": "1"})
    with pytest.raises(MalformedRequest, match=r"tables: 'a' isn't database.table"):
        parse_bootstrap({"tables": "a"})
