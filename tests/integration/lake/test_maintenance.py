"""Maintenance on a real Spark: tables stay small, and whoever reads sees nothing of it."""

import os
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from actors.lake.background_work import do_work
from actors.lake.delta import delta_table
from actors.lake.files import file_placement
from actors.lake.live_view import live_view
from actors.lake.maintenance import Upkeep
from actors.lake.spark.spark_session import Spark
from actors.runtime.filesystem import sync
from pipeline.config.settings import LakeSettings
from pipeline.lake.background.recording import files_delivered, tables_met, work_done, work_given_up
from pipeline.lake.background.state import Background, LakeTables
from pipeline.lake.background.turns import background_due_at, next_work
from pipeline.lake.background.work import MaintainTable, MergeMirror
from pipeline.lake.batch import Pieces
from pipeline.lake.files.written_files import WrittenFiles
from pipeline.lake.live_view import MirrorPosition, live_view_sql
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize, Trim, bound_trim
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Ready
from tests.histories.power import Power
from tests.integration.history import READY, Table
from tests.integration.lake.test_lake import ORDERS, Delivery, expected, lost_of_lake, rows
from tests.servers.at_work import at_work

SEGMENTS = 3
ID = ORDERS.table


@pytest.fixture
def delivery(spark: Spark, tmp_path: Path) -> Any:
    made = Delivery(spark, tmp_path)
    yield made
    made.history.store.close()


def change(delivery: Delivery, table: Table, number: int) -> None:
    """A segment with an insert, an update and a delete."""
    history = delivery.history
    history.transaction((table, "c", (100 + number, "new")))
    history.transaction((table, "u", (1, f"changed {number}")))
    if number:
        history.transaction((table, "d", table.rows[100 + number - 1,]))
    delivery.deliver()


def filled(delivery: Delivery) -> Table:
    """A table whose changelog has a file for each of some segments."""
    table = delivery.history.table(ORDERS, READY)
    for number in range(SEGMENTS):
        change(delivery, table, number)
    return table


def size(delivery: Delivery, tier: Tier) -> TableSize:
    found = delivery.lake.upkeep.size(ID, tier)
    assert found is not None
    return found


@pytest.mark.full
def test_compaction_leaves_few_files_and_what_is_seen(delivery: Delivery) -> None:
    table = filled(delivery)
    assert size(delivery, Tier.CHANGELOG).files == SEGMENTS
    held, then = live_view(delivery.spark.session, delivery.root, ID), expected(table)
    everything = rows(delivery.tier(table, Tier.CHANGELOG))
    delivery.lake.upkeep.compact(ID, Tier.CHANGELOG)
    assert size(delivery, Tier.CHANGELOG).files == 1
    assert rows(delivery.tier(table, Tier.CHANGELOG)) == everything
    assert delivery.view(table) == expected(table)
    change(delivery, table, SEGMENTS)
    delivery.merge(table)
    for tier in Tier:
        delivery.lake.upkeep.compact(ID, tier)
        delivery.lake.upkeep.vacuum(ID, tier, 1.0)
        assert size(delivery, tier).files == 1
    assert delivery.view(table) == expected(table)
    assert rows(held) == then, "a reader's old version is still there"


@pytest.mark.parametrize("chore", [Chore.COMPACT, Chore.TRIM])
def test_a_power_cut_takes_nothing_of_a_table_that_spark_has_rewritten(
    delivery: Delivery, chore: Chore
) -> None:
    """Spark syncs no file, and the next batch's commit is durable."""
    table, power = filled(delivery), Power()
    if chore is Chore.TRIM:  # otherwise it removes a whole file
        delivery.lake.upkeep.compact(ID, Tier.CHANGELOG)
    power.note_all(Path(delivery.root))
    with power.noted():
        if chore is Chore.COMPACT:
            delivery.lake.upkeep.compact(ID, Tier.CHANGELOG)
        else:
            delivery.lake.upkeep.trim(ID, Trim(1, None))
        assert len(sparks_files(delivery)) == (1 if chore is Chore.COMPACT else 2)
        change(delivery, table, SEGMENTS)
    everything = rows(delivery.tier(table, Tier.CHANGELOG))
    assert lost_of_lake(power, delivery) == []
    assert rows(delivery.tier(table, Tier.CHANGELOG)) == everything


def sparks_files(delivery: Delivery) -> list[Path]:
    """The files that Spark has written into the changelog."""
    return list(Path(location(delivery.root, ID, Tier.CHANGELOG)).glob("part-*"))


def test_work_beside_the_batches_is_durable_at_its_end(delivery: Delivery) -> None:
    table, power = filled(delivery), Power()
    found = delivery.lake.find(ID)
    assert found.generation is not None
    reached = MirrorPosition(found.generation, found.merged, found.partial)
    kept = maintenance.found_table(ID, Tier.CHANGELOG, TableSize(), 0.0, 0)
    power.note_all(Path(delivery.root))
    with power.noted():
        merged = MergeMirror(ID, reached, delivery.segment, "position", found.pending)
        for work in (merged, MaintainTable(Chore.COMPACT, kept, None, 1.0, frozenset())):
            _, _, _, written = do_work(delivery.lake, work)
            assert written.files
    assert lost_of_lake(power, delivery) == []
    assert delivery.view(table) == expected(table)


def checkpoints(delivery: Delivery) -> int:
    """How many checkpoints the changelog's log has."""
    log = Path(location(delivery.root, ID, Tier.CHANGELOG)) / "_delta_log"
    return len(list(log.glob("*.checkpoint*.parquet")))


def test_a_batch_leaves_the_checkpoint_of_a_log_to_maintenance(delivery: Delivery) -> None:
    table = delivery.history.table(ORDERS, READY)
    change(delivery, table, 0)
    commits = size(delivery, Tier.CHANGELOG).commits
    for number in range(1, 12):  # of its own Delta makes one each ten commits
        change(delivery, table, number)
    assert checkpoints(delivery) == 0
    assert size(delivery, Tier.CHANGELOG).commits == commits + 11
    delivery.lake.upkeep.checkpoint(ID, Tier.CHANGELOG)
    assert checkpoints(delivery) == 1
    assert size(delivery, Tier.CHANGELOG).commits == 0
    change(delivery, table, 12)
    assert size(delivery, Tier.CHANGELOG).commits == 1
    assert delivery.view(table) == expected(table)


def test_a_checkpoint_is_durable_before_the_commits_that_it_stands_for_go(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta removes what has expired with each checkpoint, and syncs nothing."""
    table, power = filled(delivery), Power()
    log = Path(location(delivery.root, ID, Tier.CHANGELOG)) / "_delta_log"
    commits = sorted(log.glob("*.json"))
    for commit in commits[:-1]:
        os.utime(commit, (1.7e9, 1.7e9))
    power.note_all(Path(delivery.root))
    synced = []

    def noted(path: Path) -> None:
        assert all(commit.exists() for commit in commits)
        synced.append(Path(path).name)
        sync(path)

    with power.noted(), monkeypatch.context() as patched:
        patched.setattr(file_placement, "sync", noted)
        delivery.lake.upkeep.checkpoint(ID, Tier.CHANGELOG)
    assert synced[-3:] == [f"{commits[-1].stem}.checkpoint.parquet", "_last_checkpoint", "_delta_log"]
    assert not commits[0].exists(), "it has expired"
    assert lost_of_lake(power, delivery) == []
    assert delivery.view(table) == expected(table)


def test_a_checkpoint_syncs_no_commit_again_while_batches_come(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, module, synced = filled(delivery), delta_table._module, list[str]()
    log = Path(location(delivery.root, ID, Tier.CHANGELOG)) / "_delta_log"
    before = {commit.name for commit in log.glob("*.json")}

    def written(classes: object, name: str) -> object:
        if name == "LastCheckpointInfo$":
            change(delivery, table, SEGMENTS)
            monkeypatch.setattr(file_placement, "sync", lambda path: synced.append(Path(path).name))
        return module(classes, name)

    monkeypatch.setattr(delta_table, "_module", written)
    delivery.lake.upkeep.checkpoint(ID, Tier.CHANGELOG)
    assert len({commit.name for commit in log.glob("*.json")} - before) == 1, "a batch has come"
    assert "_last_checkpoint" in synced and not before & set(synced)


def test_what_the_jvm_prints_is_not_in_our_own_log(spark: Spark) -> None:
    assert {Path(f"/proc/{spark.pid}/fd/{number}").readlink().name for number in (1, 2)} == {"output.log"}


@pytest.mark.full
def test_compaction_of_a_mirror_takes_what_is_hidden(delivery: Delivery) -> None:
    table = filled(delivery)
    delivery.merge(table)
    for number in range(2):
        change(delivery, table, number)
        delivery.merge(table)
    before = size(delivery, Tier.MIRROR)
    assert before.files > 1
    assert before.hidden > 0
    delivery.lake.upkeep.compact(ID, Tier.MIRROR)
    after = size(delivery, Tier.MIRROR)
    assert (after.files, after.hidden) == (1, 0)
    assert rows(delivery.tier(table, Tier.MIRROR)) == delivery.view(table) == expected(table)


@pytest.mark.full
def test_what_has_been_merged_is_trimmed_and_a_text_of_before_stays_right(delivery: Delivery) -> None:
    table = filled(delivery)
    early = live_view_sql(delivery.root, ORDERS, MirrorPosition())
    delivery.merge(table)
    merged = delivery.segment
    change(delivery, table, SEGMENTS)
    last = rows(delivery.tier(table, Tier.CHANGELOG).where(f"__segment > {merged}"))
    upkeep: Upkeep = delivery.lake.upkeep
    for kept in (Trim(0, 1.0), Trim(merged, 1e6)):
        upkeep.trim(ID, kept)
        assert size(delivery, Tier.CHANGELOG).files == SEGMENTS + 1, kept
    upkeep.trim(ID, Trim(2, None))
    assert size(delivery, Tier.CHANGELOG).files == SEGMENTS + 1 - 2
    assert delivery.view(table) == rows(delivery.spark.session.sql(early)) == expected(table)
    upkeep.trim(ID, Trim(merged, 1.0))  # all that's here was committed long ago
    assert rows(delivery.tier(table, Tier.CHANGELOG)) == last
    assert delivery.view(table) == rows(delivery.spark.session.sql(early)) == expected(table)
    delivery.begin()
    change(delivery, table, SEGMENTS + 1)
    assert delivery.view(table) == expected(table)
    delivery.merge(table)
    assert rows(delivery.tier(table, Tier.MIRROR)) == expected(table)
    upkeep.trim(ID, Trim(None, 1.0))
    assert rows(delivery.tier(table, Tier.CHANGELOG)) == []
    assert delivery.view(table) == expected(table)


@pytest.mark.full
def test_what_is_old_by_a_clock_far_ahead_alone_stays(delivery: Delivery) -> None:
    """All that's here was committed long ago, and so was the newest commit of the source."""
    table = filled(delivery)
    told = delivery.tier(table, Tier.CHANGELOG).selectExpr("unix_micros(max(__commit_time))")
    [[newest]] = told.collect()
    everything = rows(delivery.tier(table, Tier.CHANGELOG))
    for hours in (25.0, 23.0, 1.0):
        delivery.lake.upkeep.trim(ID, bound_trim(Trim(None, hours), newest))
        assert rows(delivery.tier(table, Tier.CHANGELOG)) == everything
    delivery.lake.upkeep.trim(ID, Trim(None, 25.0))
    assert rows(delivery.tier(table, Tier.CHANGELOG)) == []


def test_what_is_young_stays_although_a_later_commit_has_an_old_time(delivery: Delivery) -> None:
    """A server before MySQL 8.0.1 has the time of the session, as of a log that is replayed into it."""
    table, history = delivery.history.table(ORDERS, READY), delivery.history
    for key, young in enumerate((False, True, False)):
        history.transaction((table, "c", (key, "new")))
        since = time.time_ns() // 1000 - 1_700_000_000_000_000
        table.us_apart = since // history.scn if young else 1
        delivery.deliver()
    delivery.lake.upkeep.trim(ID, Trim(None, 1.0))
    assert [row[0] for row in rows(delivery.tier(table, Tier.CHANGELOG).select("id"))] == [1, 2]


@pytest.mark.full
def test_a_changelog_is_trimmed_although_changes_never_cease(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(delivery)
    delivery.merge(table)
    merged, delete = delivery.segment, Upkeep._delete
    numbers, changing, gave_up = count(SEGMENTS), threading.Event(), threading.Event()

    def change_for_ever(stop: threading.Event) -> None:
        while not stop.is_set():
            change(delivery, table, next(numbers))
            changing.set()

    def watched(upkeep: Upkeep, *which: Any) -> None:
        changing.wait()
        try:
            delete(upkeep, *which)
        except Py4JError:
            gave_up.set()
            raise

    monkeypatch.setattr(Upkeep, "_delete", watched)
    with at_work([change_for_ever]):
        delivery.lake.upkeep.trim(ID, Trim(merged, None))
    assert gave_up.is_set()
    segments = [segment for (segment,) in delivery.tier(table, Tier.CHANGELOG).select("__segment").collect()]
    assert min(segments) == merged + 1
    assert delivery.view(table) == expected(table)


@pytest.mark.full
def test_a_users_own_optimize_is_in_nobodys_way(delivery: Delivery) -> None:
    table = filled(delivery)

    def optimize(stop: threading.Event) -> None:
        session = delivery.spark.session.newSession()
        while not stop.is_set():
            session.sql(f"OPTIMIZE delta.`{location(delivery.root, ID, Tier.CHANGELOG)}`")

    with at_work([optimize]):
        for number in range(2):
            change(delivery, table, number)
            assert delivery.view(table) == expected(table)
    delivery.lake.upkeep.compact(ID, Tier.CHANGELOG)
    assert size(delivery, Tier.CHANGELOG).files == 1
    found = rows(delivery.tier(table, Tier.CHANGELOG).groupBy("__scn", "__ordinal").count())
    assert {count for *_, count in found} == {1}


def on_disk(delivery: Delivery, tier: Tier) -> dict[Path, int]:
    """The files of a lake table and of its log, with their sizes."""
    files = Path(location(delivery.root, ID, tier)).rglob("*.*")
    return {path: path.stat().st_size for path in files}


def test_what_work_says_that_it_has_written_is_on_the_disk(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what is delivered meanwhile. A merge writes rows and vectors that hide rows of older files."""
    table = filled(delivery)
    delivery.history.transaction((table, "c", (50, "stays")))  # otherwise the second merge hides a whole file
    delivery.deliver()
    for number in range(2):
        found, before = delivery.lake.find(ID), on_disk(delivery, Tier.MIRROR)
        assert found.generation is not None
        reached = MirrorPosition(found.generation, found.merged, found.partial)
        merge = MergeMirror(ID, reached, delivery.segment, "position", found.pending)
        _, _, _, written = do_work(delivery.lake, merge)
        new = {path: size for path, size in on_disk(delivery, Tier.MIRROR).items() if path not in before}
        stored = {path: size for path, size in new.items() if path.suffix in (".parquet", ".bin")}
        assert written.files == len(new) == len(stored) + 2
        # A file of vectors has some bytes beside them.
        assert sum(stored.values()) - 16 <= written.bytes <= sum(stored.values())
        assert any(path.suffix == ".bin" for path in stored) is bool(number)
        change(delivery, table, SEGMENTS + number)
    compact, before = Upkeep.compact, on_disk(delivery, Tier.CHANGELOG)

    def beside_a_delivery(upkeep: Upkeep, *of: Any) -> None:
        change(delivery, table, SEGMENTS + 2)
        compact(upkeep, *of)

    monkeypatch.setattr(Upkeep, "compact", beside_a_delivery)
    kept = maintenance.found_table(ID, Tier.CHANGELOG, TableSize(), 0.0, 0)
    _, _, _, written = do_work(delivery.lake, MaintainTable(Chore.COMPACT, kept, None, 1.0, None))
    new = {path: size for path, size in on_disk(delivery, Tier.CHANGELOG).items() if path not in before}
    (compacted,) = (size for path, size in new.items() if path.name.startswith("part-"))
    assert len(new) == (1 + 2) + (1 + 2)
    assert written == WrittenFiles(1 + 2, compacted)


def test_no_commit_counts_on_it_that_delta_commits_nothing_while_work_is_at_the_table(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(delivery)
    compacted, alone = Upkeep.compact, list[bool]()

    def look() -> None:
        for tier in Tier:
            with delivery.lake._at_work.without(location(delivery.root, ID, tier)) as without_work:
                alone.append(without_work)

    def compact(upkeep: Upkeep, table: TableId, tier: Tier) -> None:
        look()
        compacted(upkeep, table, tier)

    monkeypatch.setattr(Upkeep, "compact", compact)
    kept = maintenance.found_table(ID, Tier.CHANGELOG, TableSize(), 0.0, 0)
    do_work(delivery.lake, MaintainTable(Chore.COMPACT, kept, None, 1.0, None))
    assert alone == [False, False]
    look()
    assert alone[2:] == [True, True]


def test_work_that_delta_gave_up_is_tried_again(delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "REST_S", 0.0)
    table = filled(delivery)
    settings = LakeSettings(delivery.root, merge_rows=1, compact_files=SEGMENTS, keep_changelog_hours=1.0)
    found = delivery.lake.find(ID)
    lake = LakeTables(settings, {ID: found}, {ID: Ready(0)})
    sizes = {(ID, tier): has for tier in Tier if (has := delivery.lake.upkeep.size(ID, tier)) is not None}
    background = tables_met(Background(), {ID: found}, sizes, time.monotonic())
    done: list[str] = []
    # What was given up is due again at once, and yet what had been due before comes first.
    for gives_up in (True, True, False, False):
        now = time.monotonic()
        due_at = background_due_at(background, lake)
        assert due_at is not None and due_at <= now
        background, work = next_work(background, lake, delivery.segment, "position", now)
        assert work is not None
        done.append(work.kind)
        if gives_up:
            background = work_given_up(background, now)
        else:
            became, _, _, _ = do_work(delivery.lake, work)
            background = work_done(background, became, now)
    assert done == ["merge", "compact", "merge", "compact"]
    mirrored = background.mirrored[ID]
    assert (mirrored.pending, mirrored.reached.merged) == (0, delivery.segment)
    assert background.kept[ID, Tier.CHANGELOG].come == 0
    assert size(delivery, Tier.CHANGELOG).files == 1
    assert delivery.view(table) == expected(table)
    after = delivery.lake.find(ID)
    background = files_delivered(background, ID, found, after, Pieces(), time.monotonic())
    due_at = background_due_at(background, lake)
    assert due_at is None or due_at > time.monotonic()
