"""A consumer is sent to the lake only where all tables have exactly the same changes."""

from dataclasses import replace

import pytest

from pipeline.journal.applied.progress import TableProgress
from pipeline.journal.changes.bootstrap import (
    LakeBehind,
    LakePlace,
    LakeWithout,
    lake_place,
    parse_bootstrap,
)
from pipeline.journal.changes.query import MalformedRequest
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot, SnapshotFailed
from tests.pipeline.builders import ITEMS, ORDERS, gtids
from tests.pipeline.journal.applied.test_waiters import Delivered, at, delivered

BOTH = (ORDERS.table, ITEMS.table)
MIRRORS: dict[TableId, Mirror] = {ORDERS.table: Ready(3), ITEMS.table: Ready(5)}
NEWEST = Checkpoint(gtids("a:1-9"), 60, {each.table: each for each in (ORDERS, ITEMS)}, MIRRORS)


def lake_at_4(**tables: TableProgress) -> Delivered:
    """The lake through segment 4, with the checkpoint there."""
    reached = replace(NEWEST, position=gtids("a:1-7"), scn=40)
    return replace(delivered(4, "a:1-7", **tables), checkpoint=reached)


def test_the_place_has_the_versions_of_the_tables_that_are_asked_for() -> None:
    lake = lake_at_4(items=TableProgress(at(4, "a:1-7")))
    assert lake_place(lake, BOTH, NEWEST) == LakePlace(
        at(4, "a:1-7"), {ITEMS.table: None, ORDERS.table: {"changelog": 4}}
    )
    assert list(lake_place(lake, BOTH[:1], NEWEST).read_at) == [ORDERS.table]


def test_a_table_that_lacks_something_is_named_if_it_is_asked_for() -> None:
    filling = TableProgress(at(4, "a:1-7"), lacks="its mirror is being filled")
    stopped = TableProgress(at(4, "a:1-7"), stopped="no key")
    with pytest.raises(
        LakeBehind, match=r"tables: shop.items can't be read .* yet: its mirror is being filled"
    ):
        lake_place(lake_at_4(items=filling), BOTH, NEWEST)
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: no key; recapture it"):
        lake_place(lake_at_4(items=stopped), BOTH, NEWEST)
    with pytest.raises(LakeWithout, match=r"shop.items was stopped: a MERGE table"):
        lake_place(lake_at_4(), BOTH, replace(NEWEST, stopped={ITEMS.table: "a MERGE table"}))
    assert lake_place(lake_at_4(items=filling), BOTH[:1], NEWEST).reached.segment == 4
    with pytest.raises(LakeBehind, match="nothing is known of the lake yet"):
        lake_place(None, BOTH, NEWEST)


@pytest.mark.parametrize("again", [Filling(45), Ready(45)])
def test_a_table_that_began_again_after_what_the_lake_has_is_not_read_there(again: Mirror) -> None:
    """Its consumer has the notice already, and would take the rows of before for those after it."""
    newest = replace(NEWEST, mirrors={**MIRRORS, ITEMS.table: again})
    with pytest.raises(LakeBehind, match=r"shop.items .* it has begun again, .* through the SCN 40 only"):
        lake_place(lake_at_4(), BOTH, newest)
    assert lake_place(lake_at_4(), BOTH[:1], newest).reached.segment == 4
    assert lake_place(replace(lake_at_4(), checkpoint=newest), BOTH, newest).reached.segment == 4


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
        return lake_place(replace(lake_at_4(), checkpoint=reached), BOTH, newest).reached.segment

    for reached, newest in ((keyless(scanned=False), keyless(scanned=False)), (first, again), (again, again)):
        with pytest.raises(LakeWithout, match=r"shop.items has no primary key, .* request one, or name the"):
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
        lake_place(replace(lake_at_4(), checkpoint=newest), BOTH, newest)
    filling = TableProgress(at(4, "a:1-7"), filling=5)
    with pytest.raises(LakeBehind, match=r"shop.items .* yet: its snapshot is being read"):
        lake_place(lake_at_4(items=filling), BOTH, NEWEST)


def test_a_request_names_tables_and_nothing_else() -> None:
    assert parse_bootstrap({}) == ()
    assert parse_bootstrap({"tables": "shop.a,shop.b"}) == (TableId("shop", "a"), TableId("shop", "b"))
    with pytest.raises(MalformedRequest, match="since: there is no such parameter; there is tables"):
        parse_bootstrap({"since": "1"})
    with pytest.raises(MalformedRequest, match=r"tables: 'a' isn't database.table"):
        parse_bootstrap({"tables": "a"})
