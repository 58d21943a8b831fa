"""Starts: where a first start and a later one continue, and which tables are snapshotted without a signal."""

from dataclasses import replace

import pytest

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import resume
from pipeline.coordinator.resume import ChangeLeftOut, LogPurged
from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Moving, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    Verification,
)
from tests.pipeline.builders import ITEMS, ORDERS, USERS, altered, gtids, table

KEYLESS = table("keyless", "a", "b", key=())
KNOWN = KnownSchemas({each.table: each for each in (ORDERS, ITEMS, KEYLESS)}, gtids("a:1-9"))
SEALED = Checkpoint(
    gtids("a:1-5"),
    scn=7,
    schemas=dict(KNOWN.schemas),
    mirrors={ORDERS.table: Ready(0), ITEMS.table: Ready(2)},
)
ELSE = [mode for mode in SnapshotMode if mode is not SnapshotMode.WHEN_NEEDED]


def needed(checkpoint: Checkpoint, known: KnownSchemas = KNOWN, purged: str = "a:1-6") -> Checkpoint:
    """Returns where a start continues that may begin again."""
    return resume.resume_checkpoint(checkpoint, known, gtids(purged), SnapshotMode.WHEN_NEEDED)


def test_a_first_start_is_at_the_present() -> None:
    assert resume.first_checkpoint(KNOWN) == Checkpoint(gtids("a:1-9"), schemas=dict(KNOWN.schemas))
    unsettled = replace(KNOWN, unsettled=frozenset({ORDERS.table}))
    assert resume.first_checkpoint(unsettled).unproven == {ORDERS.table}
    until = replace(KNOWN, end=Coordinates("binlog.000001", 4))
    assert resume.first_checkpoint(until).unproven == KNOWN.schemas.keys()


def test_a_new_journal_begins_where_another_reader_stopped() -> None:
    position = gtids("a:1-5")
    assert resume.continued_checkpoint(position, KNOWN, gtids("a:1-4")) == Checkpoint(position)
    with pytest.raises(LogPurged, match="6"):
        resume.continued_checkpoint(position, KNOWN, gtids("a:1-6"))
    with pytest.raises(Definite, match="hasn't executed"):
        resume.continued_checkpoint(gtids("a:1-12"), KNOWN, gtids("a:1-4"))


@pytest.mark.parametrize(
    ("server", "had", "position", "has"),
    [
        ("one", None, "a:1-9", Coordinates("binlog.000001", 9)),
        ("", None, "a:1-9", Coordinates("binlog.000001", 9)),
        ("one", None, "a:1-5", None),
        ("one", Coordinates("binlog.000001", 4), "a:1-9", Coordinates("binlog.000001", 4)),
        ("two", Coordinates("binlog.000002", 4), "a:1-9", None),
    ],
    ids=["has all", "of before the field", "lacks some", "knows its place", "of another server"],
)
def test_a_place_in_the_log_is_one_of_this_server_with_all_before_it(
    server: str, had: Coordinates | None, position: str, has: Coordinates | None
) -> None:
    before = replace(SEALED, server=server, position=gtids(position), log_end=had)
    at = resume.checkpoint_at_server(before, "one", KNOWN, Coordinates("binlog.000001", 9))
    assert at == replace(before, server="one", log_end=has)


@pytest.mark.parametrize("mode", SnapshotMode)
@pytest.mark.parametrize("purged", ["", "a:1-4", "a:1-5"])
def test_a_log_that_goes_back_far_enough_is_read_on(mode: SnapshotMode, purged: str) -> None:
    assert resume.resume_checkpoint(SEALED, KNOWN, gtids(purged), mode) is SEALED


@pytest.mark.parametrize("mode", ELSE)
@pytest.mark.parametrize("purged", ["a:1-6", "a:6", "a:1-2,b:1"])
def test_a_purged_log_stops_by_name(mode: SnapshotMode, purged: str) -> None:
    with pytest.raises(LogPurged, match=r'was purged: .*(a:6|b:1); .*snapshot.mode = "when_needed"'):
        resume.resume_checkpoint(SEALED, KNOWN, gtids(purged), mode)


@pytest.mark.parametrize("mode", ELSE)
def test_a_change_that_the_log_leaves_out_stops_by_name(mode: SnapshotMode) -> None:
    with pytest.raises(ChangeLeftOut, match=r'bring it: at 7; set snapshot.mode = "when_needed"'):
        resume.resume_checkpoint(SEALED, KNOWN, NO_GTIDS, mode, "at 7")


def test_everything_begins_anew_after_a_change_that_the_log_leaves_out_where_it_is_needed() -> None:
    sealed = replace(SEALED, log_end=Coordinates("binlog.000007", 4))
    begun = resume.resume_checkpoint(sealed, KNOWN, NO_GTIDS, SnapshotMode.WHEN_NEEDED, "at 7")
    assert (begun.position, begun.log_end) == (KNOWN.at, None)
    assert begun.mirrors == {ORDERS.table: Filling(7), ITEMS.table: Filling(7)}
    assert "without a GTID was committed after" in begun.stopped[KEYLESS.table]
    assert resume.resume_checkpoint(sealed, KNOWN, NO_GTIDS, SnapshotMode.WHEN_NEEDED) is sealed


def test_a_signal_that_moves_the_position_begins_everything_once() -> None:
    moving = replace(SEALED, moving=Moving("m1", gtids("a:1-7")))
    for mode in SnapshotMode:
        begun = resume.resume_checkpoint(moving, KNOWN, NO_GTIDS, mode, "at 7")
        assert (begun.position, [each.id for each in begun.snapshots]) == (gtids("a:1-7"), ["m1"])


@pytest.mark.parametrize("mode", SnapshotMode)
def test_a_divergent_server_is_not_begun_anew_at(mode: SnapshotMode) -> None:
    known = replace(KNOWN, at=gtids("a:1-4,a:6-9"))
    assert resume.resume_checkpoint(SEALED, known, gtids("a:6"), mode) is SEALED


def test_where_it_is_needed_everything_begins_anew_at_the_present() -> None:
    begun = needed(SEALED)
    assert begun.position == KNOWN.at
    assert begun.scn == SEALED.scn
    assert begun.snapshots == (
        Snapshot("anew-7", {ITEMS.table: SnapshotWaiting(), ORDERS.table: SnapshotWaiting()}),
    )
    assert begun.mirrors == {ORDERS.table: Filling(7), ITEMS.table: Filling(7)}


def test_beginning_anew_takes_the_schemas_of_the_present() -> None:
    changed = altered(ORDERS)
    known = KnownSchemas({ORDERS.table: changed, ITEMS.table: ITEMS, USERS.table: USERS}, KNOWN.at)
    begun = needed(SEALED, known)
    assert begun.schemas == {**SEALED.schemas, **known.schemas}
    assert begun.mirrors[USERS.table] == Filling(7)


def test_where_everything_begins_no_row_waits_to_be_read_by_the_key_that_it_had() -> None:
    """The table may have got another primary key in the gap. The journal has its rows' keys by the one before."""
    waiting = replace(SEALED, unread={ORDERS.table: 3, KEYLESS.table: 4})
    other = KnownSchemas({ORDERS.table: replace(ORDERS, key=(0, 1)), ITEMS.table: ITEMS}, KNOWN.at)
    assert needed(waiting, other).unread == {}
    assert moved("a:1-7", waiting).unread == {}
    assert needed(waiting, purged="a:1-4").unread == waiting.unread


def test_beginning_anew_ends_what_was_under_way() -> None:
    chunking = Chunking((Range(0, (3,), (9,)),), "v", True, Progress(rows=3))
    under_way = Snapshot(
        "s1",
        {ORDERS.table: chunking, ITEMS.table: SnapshotWaiting(), USERS.table: SnapshotStopped(Progress())},
    )
    over = Snapshot("s0", {ORDERS.table: Completed(Progress(rows=1))})
    first, second, anew = needed(replace(SEALED, snapshots=(over, under_way))).snapshots
    assert first == over
    ended = second.tables[ORDERS.table]
    assert isinstance(ended, SnapshotFailed)
    assert ended.progress == Progress(rows=3)
    assert "purged" in ended.reason
    assert isinstance(second.tables[ITEMS.table], SnapshotFailed)
    assert second.tables[USERS.table] == SnapshotStopped(Progress())
    assert anew.id == "anew-7"


def test_what_begins_anew_has_a_name_that_nothing_else_has() -> None:
    """A signal may have any id, also this one; and the same may happen twice before anything has passed."""
    begun = needed(replace(SEALED, signals=("anew-7",)))
    assert [snapshot.id for snapshot in begun.snapshots] == ["anew-7-again"]
    taken = Snapshot("anew-7", {ORDERS.table: Completed(Progress(rows=1))})
    first, second = needed(replace(SEALED, snapshots=(taken,))).snapshots
    assert (first, second.id) == (taken, "anew-7-again")


def test_beginning_anew_stops_what_it_cannot_fill() -> None:
    begun = needed(
        replace(SEALED, schemas={**SEALED.schemas, USERS.table: USERS}, stopped={ITEMS.table: "so"})
    )
    assert "no primary key" in begun.stopped[KEYLESS.table]
    assert "isn't among the tables" in begun.stopped[USERS.table]
    assert begun.stopped[ITEMS.table] == "so"
    assert begun.stopped.keys() == {KEYLESS.table, USERS.table, ITEMS.table}
    assert begun.snapshots[-1].tables == {ORDERS.table: SnapshotWaiting()}
    assert begun.mirrors == {ORDERS.table: Filling(7), ITEMS.table: Ready(2)}


def test_a_consistent_snapshot_begins_anew_without_a_table_that_has_stopped() -> None:
    tables = {ORDERS.table: Completed(Progress(rows=1)), ITEMS.table: Completed(Progress(rows=1))}
    snapshot = Snapshot("c", {**tables, USERS.table: SnapshotWaiting()}, consistent=True)
    checkpoint = replace(SEALED, snapshots=(snapshot,), stopped={ITEMS.table: "so"})
    [anew] = resume.restart_consistent_snapshots(checkpoint).snapshots
    assert anew.tables == {
        **tables, ORDERS.table: SnapshotWaiting(), USERS.table: SnapshotWaiting()
    }  # fmt: skip


def test_a_start_that_fell_before_its_first_segment_decides_the_same() -> None:
    assert needed(SEALED) == needed(SEALED)
    assert needed(needed(SEALED)) == needed(SEALED)


def moved(to: str, checkpoint: Checkpoint = SEALED, known: KnownSchemas = KNOWN) -> Checkpoint:
    """Returns where a start continues after a signal that set the position."""
    asked = replace(checkpoint, moving=Moving("m1", gtids(to)))
    return resume.resume_checkpoint(asked, known, gtids(""), SnapshotMode.INITIAL)


def test_a_signal_sets_the_position_and_everything_begins_anew_there() -> None:
    begun = moved("a:1-7")
    assert begun.position == gtids("a:1-7")
    assert begun.moving is None
    assert begun.snapshots == (
        Snapshot("m1", {ITEMS.table: SnapshotWaiting(), ORDERS.table: SnapshotWaiting()}),
    )
    assert begun.mirrors == {ORDERS.table: Filling(7), ITEMS.table: Filling(7)}
    assert begun.stopped.keys() == {KEYLESS.table}
    assert "the signal m1 skipped the binlog after" in begun.stopped[KEYLESS.table]
    # What holds at the present doesn't have to hold there.
    assert (
        moved("a:1-7", known=replace(KNOWN, schemas={ORDERS.table: altered(ORDERS)})).schemas
        == SEALED.schemas
    )


def test_what_passed_since_the_signal_came_stays_passed() -> None:
    assert moved("a:1-4,a:7").position == gtids("a:1-5,a:7")


@pytest.mark.parametrize("to", ["a:1-5", "a:1-10", "b:1", ""])
def test_where_the_server_is_not_or_where_we_are_already_nothing_moves(to: str) -> None:
    assert moved(to) == SEALED


def test_a_purged_log_behind_a_signal_that_does_not_move_is_judged_as_ever() -> None:
    with pytest.raises(LogPurged):
        resume.resume_checkpoint(
            replace(SEALED, moving=Moving("m1", gtids("b:1"))), KNOWN, gtids("a:6"), SnapshotMode.INITIAL
        )


def test_what_is_new_is_begun() -> None:
    begun = resume.begin_snapshot(resume.first_checkpoint(KNOWN), SnapshotMode.INITIAL)
    assert begun.snapshots == (
        Snapshot("initial-0", {ITEMS.table: SnapshotWaiting(), ORDERS.table: SnapshotWaiting()}),
    )
    assert begun.mirrors == {ORDERS.table: Filling(0), ITEMS.table: Filling(0)}
    assert resume.keyless_tables(begun) == (KEYLESS.table,)


def test_it_is_begun_once_whatever_becomes_of_it() -> None:
    begun = resume.begin_snapshot(resume.first_checkpoint(KNOWN), SnapshotMode.INITIAL)
    assert resume.begin_snapshot(begun, SnapshotMode.INITIAL) is begun
    for mirror in (Filling(0), Ready(0)):
        forgotten = replace(begun, snapshots=(), mirrors=dict.fromkeys(begun.mirrors, mirror))
        assert resume.begin_snapshot(forgotten, SnapshotMode.INITIAL) is forgotten


def test_tables_that_come_later_are_new_then() -> None:
    later = replace(SEALED, schemas={**SEALED.schemas, USERS.table: USERS})
    begun = resume.begin_snapshot(later, SnapshotMode.INITIAL)
    assert begun.snapshots == (Snapshot("initial-7", {USERS.table: SnapshotWaiting()}),)
    assert begun.mirrors == {**SEALED.mirrors, USERS.table: Filling(7)}


def test_they_join_those_that_are_under_way() -> None:
    under_way = Snapshot("initial-3", {ORDERS.table: SnapshotWaiting()})
    later = replace(SEALED, snapshots=(under_way,), schemas={**SEALED.schemas, USERS.table: USERS})
    assert resume.begin_snapshot(later, SnapshotMode.INITIAL).snapshots == (
        Snapshot("initial-3", {ORDERS.table: SnapshotWaiting(), USERS.table: SnapshotWaiting()}),
    )


def test_they_do_not_join_a_signals_snapshot_whatever_its_id() -> None:
    """A verification fills no mirror: a table that joined it would never get its rows."""
    asked = Snapshot("initial-check", {ORDERS.table: SnapshotWaiting()}, verification=Verification(3))
    later = replace(SEALED, snapshots=(asked,), schemas={**SEALED.schemas, USERS.table: USERS})
    assert resume.begin_snapshot(later, SnapshotMode.INITIAL).snapshots == (
        asked,
        Snapshot("initial-7", {USERS.table: SnapshotWaiting()}),
    )


def test_they_do_not_join_those_that_have_ended() -> None:
    over = Snapshot("initial-3", {ORDERS.table: Completed(Progress())})
    later = replace(SEALED, snapshots=(over,), schemas={**SEALED.schemas, USERS.table: USERS})
    assert [each.id for each in resume.begin_snapshot(later, SnapshotMode.INITIAL).snapshots] == [
        "initial-3",
        "initial-7",
    ]


def test_an_id_is_given_once() -> None:
    over = Snapshot("initial-7", {ORDERS.table: Completed(Progress())})
    later = replace(SEALED, snapshots=(over,), schemas={**SEALED.schemas, USERS.table: USERS})
    assert resume.begin_snapshot(later, SnapshotMode.INITIAL).snapshots == (
        Snapshot("initial-7", {ORDERS.table: Completed(Progress()), USERS.table: SnapshotWaiting()}),
    )


def test_a_table_gets_its_snapshot_with_its_key() -> None:
    keyed = replace(KEYLESS, key=(0,))
    begun = resume.begin_snapshot(
        replace(SEALED, schemas={**SEALED.schemas, KEYLESS.table: keyed}), SnapshotMode.INITIAL
    )
    assert begun.mirrors[KEYLESS.table] == Filling(7)


def test_a_stopped_table_is_left_alone() -> None:
    stopped = replace(resume.first_checkpoint(KNOWN), stopped={ORDERS.table: "so", KEYLESS.table: "so"})
    assert resume.begin_snapshot(stopped, SnapshotMode.INITIAL).mirrors == {ITEMS.table: Filling(0)}
    assert resume.keyless_tables(stopped) == ()
