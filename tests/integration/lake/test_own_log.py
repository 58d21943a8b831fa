"""Commits that this process writes beside those of a real JVM, through whatever happens to the log.

`test_commit_conformance` has what holds for them and for the JVM's alike.
"""

import errno
import json
import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import deltalake
import pytest

from actors.lake.delta import delta_table
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.spark.spark_session import Spark
from actors.lake.threads.tables_at_work import TablesAtWork
from actors.lake.transaction_log import own_log
from actors.lake.transaction_log.delta_log import logged_files, read_version
from actors.lake.transaction_log.own_log import OwnLog
from actors.runtime.filesystem import sync, write_file
from pipeline.errors import Transient
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.column_changes import unchanged_plan
from pipeline.lake.tables.columns import META_COLUMNS, LakeColumn
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.properties import Property, properties_of
from pipeline.lake.tables.spark_sql import SPARK_TYPES
from pipeline.lake.tables.statements import create_sql
from pipeline.lake.tables.tier import Tier
from tests.integration.lake.test_commit_conformance import NO_INTERVAL, Written

# Longer than any commit takes.
WITHIN_S: Final = 60.0


@pytest.fixture
def written(spark: Spark, tmp_path: Path) -> Written:
    return Written(spark, tmp_path)


def test_an_append_says_its_version_and_whether_that_is_durable(written: Written) -> None:
    written.create()
    for segment in (1, 2):
        assert written.append(segment, segment) == segment
        assert written.table.is_durable(segment)
    assert written.append(2, 99) == 2, "it has that"
    assert not written.table.is_durable(2), "whoever has made it"


def test_the_files_of_each_version_are_those_that_delta_lists(written: Written) -> None:
    written.create(f"{NO_INTERVAL}, 'delta.enableDeletionVectors' = 'true'")
    for segment in range(1, 5):
        written.append(segment, segment, 10 + segment)
    for statement in ("DELETE FROM {} WHERE n IN (2, 11)", "DELETE FROM {} WHERE n = 12", "OPTIMIZE {}"):
        written.sql(statement.format(written.name))
    written.append(5, 5)
    written.sql(f"RESTORE TABLE {written.name} TO VERSION AS OF 3")
    written.append(6, 6)
    last, log = written.table.version(), written.delta._log()
    assert last == 10
    for version in range(last + 1):
        none = written.delta._none
        listed = log.getSnapshotAt(version, none, none, False).allFiles().toJSON().collectAsList()
        told = {(file["path"], json.dumps(file.get("deletionVector"))) for file in map(json.loads, listed)}
        found = logged_files(str(written.folder), version)
        assert found is not None
        assert len(found) == len(told)
        assert {(file["path"], json.dumps(file.get("deletionVector"))) for file in found} == told


@pytest.mark.parametrize("rounds", [7, pytest.param(20, marks=pytest.mark.full)])
def test_of_two_processes_at_once_none_loses_a_commit(written: Written, rounds: int) -> None:
    """Two threads commit as fast as they can, one by Delta, the other one here."""
    written.create()
    start = threading.Barrier(2)

    def by_delta() -> None:
        start.wait()
        for number in range(rounds):
            table, place = DeltaTable(written.session, str(written.folder)), written.place(1000 + number)
            marks = {"them": number}
            assert table._append_by_delta(table._log(), place, "them", range(number, number + 1), marks, "{}")

    def here() -> None:
        start.wait()
        for number in range(rounds):
            assert written.append(number + 1, number) is not None

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(by_delta), threads.submit(here)]:
            done.result()
    assert written.numbers() == [*range(rounds), *range(1000, 1000 + rounds)]
    assert len(written.engines()) == 2 * rounds + 1
    written.append(rounds + 1, 5000)
    written.is_sound()


def test_a_commit_gets_its_name_after_all_before_it_are_durable(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after those of another writer that come between."""
    written.create()
    written.append(1, 1)
    durable: list[tuple[str, int]] = []
    table = DeltaTable(written.session, str(written.folder), lambda *before: durable.append(before))
    place, named = written.place(1002), OwnLog._named

    def late(log: OwnLog, path: Path, version: int, lock: own_log.CommitLock) -> bool | None:
        assert durable == [(str(written.folder), each) for each in range(2, version + 1)]
        if log is table._own and version == 2:
            assert written.delta.append(written.place(1003), "them", range(1, 2), {}, "{}") == 2
        return named(log, path, version, lock)

    monkeypatch.setattr(OwnLog, "_named", late)
    assert table.append(place, "us", range(2, 3), {}, "{}") == 3


def test_an_append_waits_for_a_commit_of_delta(written: Written) -> None:
    """Delta looks whether a version is free, and takes it a moment later."""
    written.create()
    written.append(1, 1)
    lock = written.delta._log().snapshotLock()
    lock.lock()
    try:
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(written.append, 2, 2)
            while not lock.hasQueuedThreads():
                assert not waiting.done()
            assert not (written.log / f"{2:020}.json").exists()
            lock.unlock()
            assert waiting.result(WITHIN_S) == 2
    finally:
        if lock.isHeldByCurrentThread():
            lock.unlock()


def test_an_append_waits_for_delta_only_while_work_is_at_the_table(written: Written) -> None:
    written.create()
    written.append(1, 1)
    tables = TablesAtWork()
    table = DeltaTable(written.session, str(written.folder), without_work=tables.without)
    lock: Any = written.delta._log().snapshotLock()
    lock.lock()
    try:
        with ThreadPoolExecutor(1) as thread:
            alone = thread.submit(table.append, written.place(1002), "us", range(2, 3), {}, "{}")
            assert alone.result(WITHIN_S) == 2
            with tables.work([str(written.folder)]):
                waiting = thread.submit(table.append, written.place(1003), "us", range(3, 4), {}, "{}")
                while not lock.hasQueuedThreads():
                    assert not waiting.done()
                lock.unlock()
                assert waiting.result(WITHIN_S) == 3
    finally:
        if lock.isHeldByCurrentThread():
            lock.unlock()


def test_a_lock_that_delta_no_longer_has_is_not_kept(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.create()
    written.append(1, 1)
    old: Any = written.delta._log().snapshotLock()
    jvm: Any = written.session.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    later = time.monotonic() + 61.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    old.lock()
    try:
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(written.append, 2, 2).result(WITHIN_S) == 2
    finally:
        old.unlock()


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param("'delta.enableRowTracking' = 'true'", marks=pytest.mark.full),
        pytest.param("'delta.enableInCommitTimestamps' = 'true'", marks=pytest.mark.full),
        "'delta.enableChangeDataFeed' = 'true'",
    ],
)
def test_a_table_that_asks_more_is_left_to_delta(written: Written, properties: str) -> None:
    written.create(f"{properties}, {NO_INTERVAL}")
    for segment in (1, 2):
        assert written.append(segment, segment) == segment
    assert written.engines() == ["Apache-Spark"] * 3
    assert [row[0] for row in written.sql(f"SELECT n FROM {written.name} ORDER BY n").collect()] == [1, 2]


def test_the_version_of_a_checkpoint_is_left_to_delta(written: Written) -> None:
    written.create("'delta.checkpointInterval' = '3'")
    for segment in range(1, 5):
        assert written.append(segment, segment) == segment
    spark, own = "Apache-Spark", "Tidemark"
    assert written.engines() == [spark, own, own, spark, own]
    assert len(list(written.log.glob("*.checkpoint*.parquet"))) == 1
    written.is_sound()
    assert written.numbers() == [1, 2, 3, 4]


def test_without_a_checksum_delta_commits_and_brings_one(written: Written) -> None:
    written.create()
    written.append(1, 1)
    (written.log / f"{1:020}.crc").write_text('{"txnId":')
    table = DeltaTable(written.session, str(written.folder))
    place = written.place(2)
    assert table.append(place, "us", range(2, 3), {}, "{}") == 2
    assert table.append(written.place(3), "us", range(3, 4), {}, "{}") == 3
    assert written.engines()[2:] == ["Apache-Spark", "Tidemark"]
    written.is_sound()


def test_a_torn_checksum_is_none_to_those_who_read_the_log(written: Written) -> None:
    written.create()
    written.append(1, 1)
    (written.log / f"{1:020}.crc").write_text("")
    told = read_version(str(written.folder))
    assert told is not None
    assert (told.version, told.files) == (1, None)


def test_where_the_log_was_cleaned_meanwhile_the_newest_version_is_found(written: Written) -> None:
    """The name of an old version is free again then: its commit would be none that a reader sees."""
    written.create()
    written.append(1, 1)
    behind = DeltaTable(written.session, str(written.folder))
    assert behind.append(written.place(2), "us", range(2, 3), {}, "{}") == 2
    for segment in range(3, 6):
        written.append(segment, segment)
    written.table.checkpoint()
    for version in range(5):
        for path in written.log.glob(f"{version:020}.*"):
            path.unlink()
    assert behind.append(written.place(6), "us", range(6, 7), {}, "{}") == 6
    assert written.numbers() == [1, 2, 3, 4, 5, 6]


def written_over(written: Written, version: int) -> None:
    """Another JVM commits as Delta's store for local disks does, which has seen that the version was free."""
    foreign = written.folder / "foreign.tmp"
    foreign.write_text('{"commitInfo":{"operation":"OPTIMIZE","engineInfo":"Apache-Spark"}}\n')
    foreign.rename(written.log / f"{version:020}.json")


def test_a_commit_that_another_jvm_has_written_over_is_missed(written: Written) -> None:
    written.create()
    written.append(1, 1)
    commit = written.log / f"{1:020}.json"
    copy = written.folder / "copy.tmp"
    copy.write_bytes(commit.read_bytes())
    copy.rename(commit)
    assert written.append(2, 2) == 2, "a copy of it is no other commit"
    written_over(written, 2)
    for call in (written.table.version, written.table.snapshot, lambda: written.append(3, 3)):
        with pytest.raises(Transient, match=r"has written over version 2 of .* remove the table's folder"):
            call()
    shutil.rmtree(written.folder)
    assert written.table.snapshot() is None


def test_a_commit_that_is_written_over_during_the_next_append_is_missed(written: Written) -> None:
    written.create()
    written.append(1, 1)
    place = written.place(2)

    def placed(folder: str, there: Mapping[str, Stored]) -> Sequence[str]:
        written_over(written, 1)
        return place(folder, there)

    with pytest.raises(Transient, match="has written over version 1 of "):
        written.table.append(placed, "us", range(2, 3), {}, "{}")


def test_a_commit_that_is_written_over_as_it_gets_its_name_is_missed(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other JVM has seen the version free, so it renames its file within milliseconds."""
    written.create()
    written.append(1, 1)

    def late(path: str | os.PathLike[str]) -> None:
        written_over(written, 2)
        sync(path)

    with monkeypatch.context() as patched:
        patched.setattr(own_log, "sync", late)
        with pytest.raises(Transient, match="has written over version 2 of "):
            written.append(2, 2)
    assert not (written.log / f"{2:020}.crc").exists(), "no checksum of ours beside it"
    with pytest.raises(Transient, match="has written over version 2 of "):
        written.table.version()


def test_that_a_commit_was_written_over_is_remembered_until_the_folder_is_removed(written: Written) -> None:
    """The rows are gone from the journal, so a later process must not continue without them."""
    written.create()
    written.append(1, 1)
    written_over(written, 1)
    with pytest.raises(Transient):
        written.table.version()
    old = time.time() - 10 * 24 * 3600
    for path in written.folder.iterdir():
        os.utime(path, (old, old))
    written.sql(f"VACUUM {written.name}")
    later = DeltaTable(written.session, str(written.folder))
    for call in (later.version, later.snapshot):
        with pytest.raises(Transient, match=r"has written over version 1 of .* remove the table's folder"):
            call()
    shutil.rmtree(written.folder)
    assert later.snapshot() is None


def test_on_a_filesystem_without_links_delta_commits(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.create()

    def link(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr("os.link", link)
        assert written.append(1, 1) == 1
    assert written.append(2, 2) == 2
    assert written.table.version() == 2
    assert written.table.size() == TableSize(files=2, commits=3)
    assert written.engines() == ["Apache-Spark"] * 3
    assert written.numbers() == [1, 2]
    assert not list(written.folder.glob("*.tmp"))


@pytest.mark.parametrize("tier", list(Tier))
def test_a_table_that_is_made_here_is_the_one_that_delta_makes(
    written: Written, tmp_path: Path, tier: Tier
) -> None:
    """But for its number, and the moment: what is in its log, and what readers see of it."""
    types = [*SPARK_TYPES.values(), "DECIMAL(12,2)", "ARRAY<STRING>", "STRUCT<x:DOUBLE,y:DOUBLE>"]
    own = tuple(LakeColumn(f"c{number}", type_) for number, type_ in enumerate(types))
    of = (*META_COLUMNS, *own) if tier is Tier.CHANGELOG else own
    told = {**DeltaTable.checkpoints, Property.JOURNAL: "j", Property.ABOUT: "it's a table"}
    assert written.table.create(of, properties_of(tier, told), {"us": 3}, "{}")
    other = tmp_path / "other"
    written.sql(create_sql(str(other), tier, of, told))
    here, there = (
        {
            kind: value
            for line in (path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
            for kind, value in json.loads(line).items()
        }
        for path in (written.folder, other)
    )
    assert here["txn"]["version"] == 3
    for made in (here, there):
        made["metaData"]["schemaString"] = json.loads(made["metaData"]["schemaString"])
        for name in ("id", "createdTime"):
            del made["metaData"][name]
        if (
            tier is Tier.MIRROR
        ):  # only the statement for changelogs has comments, and mirrors have other columns
            assert "comment" not in json.dumps(made["metaData"]["schemaString"])
        for name, features in made["protocol"].items():
            made["protocol"][name] = set(features) if isinstance(features, list) else features
    assert here["metaData"] == there["metaData"]
    assert here["protocol"] == there["protocol"]
    assert not written.table.create(of, properties_of(tier, told), {}, None), "there is one"
    written.is_sound()
    snapshot = written.table.snapshot()
    assert snapshot is not None
    assert snapshot.applications == {"us": 3}
    assert written.sql(f"SELECT * FROM {written.name}").collect() == []
    assert deltalake.DeltaTable(str(written.folder)).metadata().description == "it's a table"
    written.sql(f"INSERT INTO {written.name} (c0) VALUES (true)")
    written.is_sound()


def test_other_properties_and_the_pin_come_in_one_commit(written: Written) -> None:
    written.create()
    written.append(1, 1)
    plan = unchanged_plan([LakeColumn("n", "BIGINT")], None)
    written.table.alter(plan, {Property.MERGED: "7", Property.ABOUT: "another"}, "__generation_3")
    written.sql(f"INSERT INTO {written.name} (n) VALUES (2)")
    written.table.alter(plan, {Property.MERGED: "8"})
    assert written.engines() == ["Apache-Spark", "Tidemark", "Tidemark", "Apache-Spark", "Tidemark"]
    snapshot = written.table.snapshot()
    assert snapshot is not None
    assert snapshot.properties[Property.MERGED] == "8"
    assert snapshot.pin == "__generation_3"
    assert set(snapshot.columns) == {"n", "__generation_3"}
    written.is_sound()
    assert deltalake.DeltaTable(str(written.folder)).metadata().description == "another"
    assert written.numbers() == [1, 2]


def test_properties_that_another_has_changed_meanwhile_are_not_overwritten(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.create()
    alter = OwnLog.alter

    def late(log: OwnLog, *arguments: Any) -> int | None:
        written.sql(f"ALTER TABLE {written.name} SET TBLPROPERTIES ('theirs' = 'yes')")
        return alter(log, *arguments)

    plan = unchanged_plan([LakeColumn("n", "BIGINT")], None)
    with monkeypatch.context() as patched:
        patched.setattr(OwnLog, "alter", late)
        with pytest.raises(Conflict, match="another writer has changed its metaData"):
            written.table.alter(plan, {Property.MERGED: "7"})
    written.table.alter(plan, {Property.MERGED: "7"})
    snapshot = written.table.snapshot()
    assert snapshot is not None
    assert (snapshot.properties["theirs"], snapshot.properties[Property.MERGED]) == ("yes", "7")


def test_where_settings_give_tables_properties_delta_makes_them(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_table, "_has_defaults", lambda _: True)
    assert not written.table.create((LakeColumn("n", "BIGINT"),), {}, {}, None)
    assert written.table.snapshot() is None


def test_what_a_kill_leaves_beside_the_log_is_no_part_of_it_and_vacuum_removes_it(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.create()
    written.append(1, 1)

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("os.link", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(Killed):
            written.append(2, 2)
    (left,) = written.folder.glob("*.tmp")
    assert written.append(2, 2) == 2
    assert written.numbers() == [1, 2]
    written.is_sound()
    old = left.stat().st_mtime - 10 * 24 * 3600
    os.utime(left, (old, old))
    written.sql(f"VACUUM {written.name}")
    assert not left.exists()
    assert written.numbers() == [1, 2]


def test_a_commit_without_room_for_its_checksum_is_made(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.create()

    def full(path: Path, content: bytes, *, durable: bool) -> os.stat_result:
        if not durable:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_file(path, content, durable=durable)

    with monkeypatch.context() as patched:
        patched.setattr(own_log, "write_file", full)
        assert written.append(1, 1) == 1
    assert not list(written.folder.glob("*.tmp"))
    assert written.append(2, 2) == 2
    assert written.append(3, 3) == 3
    assert written.engines() == ["Apache-Spark", "Tidemark", "Apache-Spark", "Tidemark"]
    assert written.numbers() == [1, 2, 3]
    written.is_sound()


def test_a_new_table_is_durable_in_each_folder_above_it(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut takes a folder whose name isn't synced, whatever was synced in it."""
    synced: list[Path] = []
    table = DeltaTable(spark.session, str(tmp_path / "shop" / "orders" / "changelog"))
    with monkeypatch.context() as patched:
        patched.setattr(own_log, "sync", synced.append)
        assert table.create((LakeColumn("n", "BIGINT"),), {}, {}, None)
    folder = Path(table.path)
    assert set(synced) == {tmp_path, tmp_path / "shop", folder.parent, folder, folder / "_delta_log"}
    assert synced[-1] == folder / "_delta_log", "the commit's own name comes last"


# Ours is classic; the newer one is what another writer may have chosen.
KINDS = pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.full), "v2"])


@KINDS
def test_where_only_a_checkpoint_is_left_there_is_a_table(written: Written, kind: str) -> None:
    """Of either kind: the first version's name is free, and its commit would be none that a reader sees."""
    written.create(f"'delta.checkpointPolicy' = '{kind}', {NO_INTERVAL}")
    written.append(1, 1)
    told = read_version(str(written.folder))
    written.table.checkpoint()
    for path in written.log.glob("*.json"):
        if ".checkpoint." not in path.name:
            path.unlink()
    assert read_version(str(written.folder)) == told is not None
    table = DeltaTable(written.session, str(written.folder))
    assert not table.create((LakeColumn("n", "BIGINT"),), {}, {}, None)
    assert not (written.log / f"{0:020}.json").exists()


@KINDS
def test_commits_are_counted_from_a_checkpoint_of_either_kind(written: Written, kind: str) -> None:
    written.create(f"'delta.checkpointPolicy' = '{kind}', {NO_INTERVAL}")
    for segment in range(1, 4):
        written.append(segment, segment)
    assert written.table.size() == TableSize(files=3, commits=4)
    written.table.checkpoint()
    assert written.append(4, 4) == 4
    assert written.table.size() == TableSize(files=4, commits=1)
    written.is_sound()


def test_properties_of_delta_s_are_set_by_delta(written: Written) -> None:
    """They may ask for another protocol."""
    written.create()
    written.append(1, 1)
    plan = unchanged_plan([LakeColumn("n", "BIGINT")], None)
    written.table.alter(plan, {"delta.enableDeletionVectors": "true"})
    assert written.engines() == ["Apache-Spark", "Tidemark", "Apache-Spark"]
    detail = written.sql(f"DESCRIBE DETAIL {written.name}").first()
    assert "deletionVectors" in detail["tableFeatures"]
