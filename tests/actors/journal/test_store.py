"""The journal's files: through crashes at every step, damage, a second writer and a full disk."""

import json
import os
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from actors.journal import recent_entries, writer_thread
from actors.journal import store as journal_store
from actors.journal.files import LocalFiles
from actors.journal.store import JournalReader, JournalStore, Removed
from actors.journal.writer_thread import WriterThread
from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import JournalSettings
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal import segment as journal
from pipeline.journal.consumer_names import CONSUMERS
from pipeline.journal.entry import Entry, FileKind
from pipeline.journal.state import ApplyRetention
from pipeline.journal.step import RetentionApplied
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot
from tests.actors import crashing_journal
from tests.actors.crashing_journal import ALL_OLD, GOING, GOOD_SEGMENTS, LATER, RETAINED, WAYS
from tests.actors.segments import COMMIT_TIME, ITEMS, ROWS, moved, part, seal

NEXT = GOOD_SEGMENTS + 1

# What has to be durable before what: files before their directory, that before the entry, that before its name.
STEPS = [
    "mkdir segments/000000000003-EPOCH.tmp",
    f"fsync 000000000003-EPOCH.tmp/0000.{ITEMS.version}.changes.parquet",
    f"fsync 000000000003-EPOCH.tmp/0001.{ITEMS.version}.changes.parquet",
    f"fsync 000000000003-EPOCH.tmp/0002.{ITEMS.version}.rows.parquet",
    "fsync segments/000000000003-EPOCH.tmp",
    "rename segments/000000000003-EPOCH.tmp",
    "fsync whole/segments",
    "fsync manifest/000000000003-EPOCH.json.tmp",
    "rename manifest/000000000003-EPOCH.json.tmp",
    "fsync whole/manifest",
]
PUBLISHING = STEPS.index("rename manifest/000000000003-EPOCH.json.tmp")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    opened = JournalStore.open_single_writer(tmp_path / "journal", "test")
    yield opened
    opened.close()


def check(known: JournalReader, last: int) -> None:
    """The journal holds just the segments through `last`, each with its rows, and no file more.

    Whoever reads it finds what its writer knows.
    """
    reader = JournalReader(known.directory)
    assert known.last_segment() == reader.last_segment() == last
    entries = list(reader.entries(0, last))
    assert list(known.entries(0, last)) == entries
    assert [entry.segment for entry in entries] == list(range(1, last + 1))
    for entry in entries:
        ids = list(range(ROWS * entry.segment, ROWS * (entry.segment + 1)))
        assert [file.kind for file in entry.files] == [FileKind.CHANGES, FileKind.CHANGES, FileKind.ROWS]
        tables = [pq.read_table(reader.path(entry, file)).column("id").to_pylist() for file in entry.files]
        assert [tables[0] + tables[1], tables[2]] == [ids, ids]
        assert entry.checkpoint == moved(entry.segment).checkpoint
    named = {reader.path(entry, file) for entry in entries for file in entry.files}
    named |= {manifest_path(reader, entry.segment) for entry in entries}
    named |= {reader.directory / "schemas" / f"{ITEMS.version}.json", reader.directory / "lock"}
    named |= {begun(reader), begun(reader).with_suffix("").with_suffix(".json")}
    assert {path for path in reader.directory.rglob("*") if path.is_file()} == named
    assert {path.name for path in (reader.directory / "segments").iterdir()} == {
        manifest_path(reader, entry.segment).stem for entry in entries
    }


def manifest_path(reader: JournalReader, segment: int) -> Path:
    return reader.directory / reader._entry_name(segment)


def begun(reader: JournalReader) -> Path:
    (path,) = (reader.directory / "claims").glob("*.begun.json")
    return path


def names(reader: JournalReader) -> list[str]:
    return sorted(path.name for path in (reader.directory / "segments").iterdir())


def stored(reader: JournalReader) -> int:
    """The bytes of all segments' files, and of their entries."""
    files = [*reader.directory.rglob("*.parquet"), *(reader.directory / "manifest").iterdir()]
    return sum(path.stat().st_size for path in files)


def start(directory: Path | str, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", crashing_journal.__name__, mode, str(directory)]
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journals whose writers were killed at each step of sealing, in each way."""
    directory = tmp_path_factory.mktemp("crashed")
    with start(directory, "seal") as process:
        process.communicate()
    assert process.returncode == 0
    return directory


def test_the_order_in_which_a_segment_becomes_durable(crashed: Path) -> None:
    assert json.loads((crashed / "steps.json").read_text()) == STEPS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_a_kill_at_any_step_leaves_the_last_published_segment(crashed: Path, step: int, way: str) -> None:
    published = step > PUBLISHING or (step == PUBLISHING and way == "after")
    store = JournalStore.open_single_writer(crashed / f"{step}-{way}", "test")
    try:
        recovered = store.recover()
        last = NEXT if published else GOOD_SEGMENTS
        assert recovered is not None
        assert recovered.segment == last
        check(store, last)
        assert store.bytes == stored(store)
        seal(store, last + 1)
        check(store, last + 1)
    finally:
        store.close()


def test_kills_at_random_moments(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    last = 0
    for _ in range(4):
        with start(directory, "loop") as process:
            assert process.stdout is not None
            numbers = [int(process.stdout.readline()) for _ in range(random.randint(1, 5))]
            # Any moment will do, so this one wait is not for an event.
            time.sleep(random.uniform(0, 0.02))
            process.kill()
            numbers += [int(line) for line in process.stdout]
        assert numbers == list(range(last + 1, last + 1 + len(numbers)))
        store = JournalStore.open_single_writer(directory, "test")
        try:
            recovered = store.recover()
            assert recovered is not None
            last = recovered.segment
            # The process may have been killed between a segment's publishing and its saying so.
            assert last - numbers[-1] in (0, 1)
            check(store, last)
        finally:
            store.close()


@pytest.fixture(scope="module")
def retained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journals whose writers were killed at each step of removing what they keep no longer, before and after it."""
    directory = tmp_path_factory.mktemp("retained")
    with start(directory, "retain") as process:
        process.communicate()
    assert process.returncode == 0
    return directory


def test_the_order_in_which_segments_go(retained: Path) -> None:
    steps = json.loads((retained / "steps.json").read_text())
    beginning = ["fsync first/000000000003.tmp", "rename first/000000000003.tmp", "fsync whole/first"]
    assert steps[:3] == beginning
    entries = [step for step in steps[3:] if "manifest" in step]
    assert entries == [f"unlink manifest/{n:012}-EPOCH.json" for n in (1, 2)]
    # Each entry goes after its files, and before those of the next one.
    assert [step for step in steps[3:] if "EPOCH" in step] == [
        step
        for n in (1, 2)
        for step in (f"rmdir segments/{n:012}-EPOCH", f"unlink manifest/{n:012}-EPOCH.json")
    ]


def test_a_kill_at_any_step_of_retention_leaves_a_journal_that_can_go_on(retained: Path) -> None:
    steps = json.loads((retained / "steps.json").read_text())
    for step, way in product(range(len(steps)), WAYS):
        store = JournalStore.open_single_writer(retained / f"{step}-{way}", "test")
        recovered = store.recover()
        assert recovered is not None
        assert recovered.segment == RETAINED
        assert len(list(store.entries(GOING, RETAINED))) == RETAINED - GOING
        assert store.bytes == stored(store)
        while store.retain(ALL_OLD, LATER).segments:
            pass
        left = [store._view.name(n) for n in range(GOING + 1, RETAINED + 1)]
        assert names(store) == left
        assert sorted(path.stem for path in (store.directory / "manifest").iterdir()) == left
        store.recover()
        assert store.bytes == stored(store)
        seal(store, RETAINED + 1)
        store.close()


def test_retention_keeps_what_a_consumer_lacks_and_the_last_segment(store: JournalStore) -> None:
    for number in (1, 2, 3):
        seal(store, number)
    store.recover()
    store.consumers.record_progress("lake", 0)
    assert store.retain(ALL_OLD, LATER) == Removed(0, 0)
    assert store.reported_segments == {"lake": 0}
    store.consumers.record_progress("lake", 3)
    store.recover()
    size = store.bytes
    assert size == stored(store)
    removed = store.retain(ALL_OLD, LATER)
    assert removed.segments == 2
    assert store.bytes == stored(store) == size - removed.bytes
    store.recover()
    assert store.bytes == size - removed.bytes
    assert store.retain(ALL_OLD, LATER) == Removed(0, 0)
    assert names(store) == [store._view.name(3)]
    assert store.consumers.first() == 3
    store = reopened(store)
    assert store.recover() == store.entry(3)
    seal(store, 4)
    assert store.retain(ALL_OLD, LATER).segments == 0  # the consumer is at the third one
    store.consumers.record_progress("lake", 4)
    assert store.retain(ALL_OLD, LATER).segments == 1
    assert names(store) == [store._view.name(4)]
    store.close()


def test_a_slow_storage_does_not_make_a_removal_long(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is silent for long counts as hung."""
    monkeypatch.setattr(journal_store, "_RETAINS_FOR_S", 0.0, raising=False)
    for number in range(1, 6):
        seal(store, number)
    store.bytes = stored(store)
    for left in (4, 3, 2, 1):
        assert store.retain(ALL_OLD, LATER).segments == 1
        assert len(names(store)) == left
        assert store.bytes == stored(store)
        assert store.consumers.first() == 6 - left
    assert store.retain(ALL_OLD, LATER) == Removed(0, 0)


@pytest.mark.parametrize("damage", [b"", b"\xff", None])
def test_a_damaged_entry_goes_with_the_others_and_stops_no_capture(
    store: JournalStore, damage: bytes | None
) -> None:
    for number in range(1, 6):
        seal(store, number)
    for number in (1, 2, 4):
        if damage is None:
            manifest_path(store, number).unlink()
        else:
            manifest_path(store, number).write_bytes(damage)
    store.bytes = stored(store)
    store.recent.clear()
    store.consumers.record_progress("lake", 0)
    assert store.retain(ALL_OLD, LATER) == Removed(0, 0)
    store.consumers.record_progress("lake", 5)
    sealed_at = store.entry(3).sealed_at
    hours = JournalSettings("journal", keep_hours=1)
    assert store.retain(hours, sealed_at + 3_600_000_000) == Removed(0, 0)
    assert store.retain(hours, sealed_at + 3_600_000_001).segments == 3
    assert store.bytes == stored(store)
    assert store.retain(ALL_OLD, LATER).segments == 1
    assert store.bytes == stored(store)
    assert names(store) == [store._view.name(5)]
    manifest_path(store, 5).write_bytes(b"")
    seal(store, 6)
    store.recent.clear()
    manifest_path(store, 6).write_bytes(b"")
    with pytest.raises(Definite, match=manifest_path(store, 6).name):
        store.retain(ALL_OLD, LATER)


def test_an_entry_that_the_disk_does_not_give_back_stops_no_capture(store: JournalStore) -> None:
    for number in range(1, 6):
        seal(store, number)
    store.recent.clear()
    entry = manifest_path(store, 2)
    entry.unlink()
    entry.symlink_to("/proc/self/mem")  # a read at its beginning is an error of input and output
    with pytest.raises(
        Transient, match=rf"{entry.name} couldn't be read \(.+\); if that stays so, see to the disk"
    ):
        store.entry(2)
    store.consumers.record_progress("lake", 5)
    assert store.retain(ALL_OLD, LATER).segments == 4
    assert names(store) == [store._view.name(5)]


def test_entries_count_when_the_journal_is_too_large(store: JournalStore) -> None:
    """With a thousand tables an entry has the checkpoint of each, and its segment may have a single row."""
    tables = [replace(ITEMS, table=TableId("shop", f"items{n:04}" + "x" * 50)) for n in range(1000)]
    checkpoint = replace(moved(1).checkpoint, schemas={each.table: each for each in tables})
    empty = replace(moved(1), checkpoint=checkpoint)
    last = 0
    while stored(store) <= 1 << 20:
        last += 1
        store.publish(journal.seal(last, [empty], (), checkpoint, LATER, UNPROTECTED))
    assert last > 2
    store.consumers.record_progress("lake", last)
    at = replace(ALL_OLD, keep_hours=1, keep_mib=1)
    assert store.retain(at, LATER).segments == 1
    assert store.bytes == stored(store) <= 1 << 20
    # Read from its file after a restart.
    store.recover()
    assert store.retain(replace(at, keep_mib=0), LATER).segments == last - 2
    assert store.bytes == stored(store)


def test_a_full_filesystem_gets_room_from_what_nobody_needs(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = JournalSettings("journal")
    thread = WriterThread(store, kept, (), UNPROTECTED)
    for number in range(1, 5):
        seal(store, number)
    store.consumers.record_progress("lake", 3)
    now = COMMIT_TIME + 4
    assert store.retain(kept, now).segments == 0
    monkeypatch.setattr(writer_thread, "_now", lambda: now)
    reserves = thread.do(ApplyRetention(reserve=True))
    assert isinstance(reserves, RetentionApplied)
    assert (reserves.removed, reserves.reserved) == (0, True)
    freed = thread.do(ApplyRetention(reserve=False))
    assert isinstance(freed, RetentionApplied)
    assert (freed.removed, freed.bytes) == (2, stored(store))
    assert names(store) == [store._view.name(n) for n in (3, 4)]
    # The reserve finds no room.
    store.consumers.record_progress("lake", 4)
    monkeypatch.setattr(LocalFiles, "reserve", lambda _: False)
    freed = thread.do(ApplyRetention(reserve=True))
    assert isinstance(freed, RetentionApplied)
    assert (freed.removed, freed.reserved) == (1, False)


@pytest.mark.parametrize("name", ["sprak", "lake"])
def test_no_consumer_is_forgotten_in_place_of_a_damaged_one(store: JournalStore, name: str) -> None:
    store.consumers.record_progress("spark", 0)
    (store.directory / CONSUMERS / "spark.json").write_text("{")
    with pytest.raises(Definite, match=f"'{name}' isn't a consumer .*; there are: spark"):
        store.forget_consumer(name)
    assert [path.name for path in (store.directory / CONSUMERS).iterdir()] == ["spark.json"]


def test_a_lake_whose_file_is_damaged_may_have_lost_each_scan(store: JournalStore) -> None:
    """It is forgotten, and returns. Nothing says any more what it lacks."""
    damaged = store.directory / CONSUMERS / "lake.json"
    damaged.write_text("{")
    store.forget_consumer("lake")
    store.consumers.record_progress("lake", 0)
    assert (store.consumers.all()["lake"].unchecked_end, store.consumers.all()["lake"].lost) == (0, {})
    scanned = replace(
        moved(1).checkpoint,
        scanned=frozenset({ITEMS.table}),
        snapshots=(Snapshot("s1", {ITEMS.table: Completed(Progress())}),),
    )
    store.publish(journal.seal(1, [replace(moved(1), checkpoint=scanned)], (), None, LATER, UNPROTECTED))
    damaged.write_text("{")
    store.forget_consumer("lake")
    assert store.consumers.all() == {}
    store.consumers.record_progress("lake", 0)
    told = store.consumers.all()["lake"]
    assert (told.unchecked_end, told.lost) == (1, {ITEMS.table: frozenset({"s1"})})
    with pytest.raises(Definite, match="there are: lake"):
        store.forget_consumer("topics")


def test_a_consumer_that_comes_while_segments_go_finds_what_it_saw(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3, 4):
        seal(store, number)
    real = store.consumers.begin_at

    def begin_at(segment: int) -> None:
        assert store.consumers.first() == 1
        store.consumers.record_progress("topics", 2)
        real(segment)

    with monkeypatch.context() as patched:
        patched.setattr(store.consumers, "begin_at", begin_at)
        assert store.retain(ALL_OLD, LATER).segments == 1
    assert [entry.segment for entry in store.entries(1, 4)] == [2, 3, 4]
    assert store.consumers.first() == 4
    store.consumers.forget("topics")
    assert store.retain(ALL_OLD, LATER).segments == 2
    assert names(store) == [store._view.name(4)]


def test_schemas_go_with_the_last_segment_that_names_them(store: JournalStore) -> None:
    other = replace(ITEMS, table=TableId("shop", "other"))
    tables = journal.segment_tables(1, [part(1, 0, 5, other)], (), UNPROTECTED)
    sealed = journal.seal(
        1, [replace(moved(1), parts=(part(1, 0, 5, other),))], store.write(1, tables), None, 5, UNPROTECTED
    )
    store.publish(sealed)
    seal(store, 2)
    seal(store, 3)
    schemas = store.directory / "schemas"
    assert {path.stem for path in schemas.iterdir()} == {ITEMS.version, other.version}
    assert store.retain(ALL_OLD, LATER).segments == 2
    assert {path.stem for path in schemas.iterdir()} == {ITEMS.version}
    sealed = replace(sealed, segment=4, files=store.write(4, tables))
    store.publish(sealed)
    assert JournalReader(store.directory).entry(4) == sealed


def test_few_schemas_go_at_once(store: JournalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealing waits meanwhile."""
    others = [replace(ITEMS, table=TableId("shop", f"other{number}")) for number in range(3)]
    sealed = journal.seal(1, [moved(1)], (), None, 5, UNPROTECTED)
    store.publish(replace(sealed, schemas={other.version: other for other in others}))
    seal(store, 2)
    seal(store, 3)
    monkeypatch.setattr(journal_store, "MOST_AT_ONCE", 2)
    schemas = store.directory / "schemas"
    for end, left in ((2, 1), (3, 0)):
        seal(store, end + 2)
        store.retain(ALL_OLD, LATER)
        assert len({path.stem for path in schemas.iterdir()} - {ITEMS.version}) == left


def test_a_reader_keeps_the_schemas_of_the_entry_that_it_read_last(store: JournalStore) -> None:
    reader = JournalReader(store.directory)
    others = [replace(ITEMS, table=TableId("shop", f"other{number}")) for number in (1, 2)]
    for number, other in enumerate(others, 1):
        sealed = journal.seal(
            number, [replace(moved(number), parts=(part(number, 0, 5, other),))], (), None, 5, UNPROTECTED
        )
        store.publish(replace(sealed, schemas={other.version: other}))
        assert reader.last_entry() == store.entry(number)
        assert reader._schemas == {other.version: other}
    assert set(reader.schemas()) == set(others)
    reader.entry(1)
    assert reader._schemas == {others[0].version: others[0]}


def test_entries_lost_at_the_end_behind_the_beginning_are_refused(store: JournalStore) -> None:
    for number in (1, 2, 3):
        seal(store, number)
    assert store.retain(ALL_OLD, LATER).segments == 2
    manifest_path(store, 3).unlink()
    with pytest.raises(Definite, match=r"000000000003-.*\.json is missing"):
        store.recover()


def test_a_start_lists_the_segments_and_reads_the_last_one(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 8):
        seal(store, number)
    read: list[str] = []
    real = LocalFiles.read

    def reading(files: LocalFiles, name: str) -> bytes:
        read.append(name)
        return real(files, name)

    monkeypatch.setattr(LocalFiles, "read", reading)
    store = reopened(store)
    store.recover()
    assert [name for name in read if name.startswith("manifest")] == [store._entry_name(7)]
    assert {name for name in read if name.startswith("segments")} == {
        f"{store._folder(7)}/{file.path}" for file in store.entry(7).files
    }
    store.close()


def test_a_new_journal_is_empty_and_keeps_its_identity(store: JournalStore) -> None:
    assert (store.recover(), store.bytes, store.last_segment()) == (None, 0, 0)
    store.close()
    again = JournalStore.open_single_writer(store.directory, "test")
    assert again.identity == store.identity == JournalReader(store.directory).identity
    assert again.identity.pipeline == "test"
    again.close()


def test_two_journals_have_two_identities(store: JournalStore, tmp_path: Path) -> None:
    other = JournalStore.open_single_writer(tmp_path / "other", "test")
    assert other.identity.id != store.identity.id
    other.close()


def test_a_segment_without_files(store: JournalStore) -> None:
    entry = journal.seal(1, [moved(1)], store.write(1, ()), None, 5, UNPROTECTED)
    store.publish(entry)
    assert store.recover() == entry
    assert list((store.directory / "segments").iterdir()) == []


def test_what_a_consumer_is_told_of_is_durable(
    store: JournalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.last_segment()
    assert synced == [store.directory / "manifest"]
    synced.clear()
    seal(store, 1)
    schema = store.directory / "schemas" / f"{ITEMS.version}.json.tmp"
    entry = manifest_path(store, 1).with_suffix(".json.tmp")
    assert synced[-4:] == [schema, schema.parent, entry, entry.parent]
    synced.clear()
    JournalStore.open_single_writer(tmp_path / "other", "test").close()
    assert {tmp_path, tmp_path / "other", tmp_path / "other" / "claims"} <= set(synced)


def test_a_schema_is_written_once(store: JournalStore) -> None:
    seal(store, 1)
    path = store.directory / "schemas" / f"{ITEMS.version}.json"
    written = path.stat().st_mtime_ns
    seal(store, 2)
    again = reopened(store)
    entry = seal(again, 3)
    assert path.stat().st_mtime_ns == written
    assert JournalReader(store.directory).entry(3) == entry
    again.close()


def test_entries_are_given_from_behind_a_cursor(store: JournalStore) -> None:
    reader = JournalReader(store.directory)
    assert reader.last_entry() is None
    sealed = [seal(store, number) for number in (1, 2, 3, 4)]
    assert reader.last_entry() == sealed[3]
    assert list(reader.entries(1, 3)) == sealed[1:3]
    assert list(reader.entries(4, 4)) == []


def test_a_segment_is_sealed_once(store: JournalStore) -> None:
    entry = seal(store, 1)
    with pytest.raises(InvariantBroken, match="segment 1"):
        store.publish(entry)


def test_a_second_writer_is_refused_and_told_who_the_first_is(store: JournalStore) -> None:
    with pytest.raises(Definite) as refusal:
        JournalStore.open_single_writer(store.directory, "test")
    assert f"process {os.getpid()} on {socket.gethostname()}: " in str(refusal.value)
    (store.directory / "lock").write_text("process 4711 on another machine, which was killed")
    store.close()
    again = JournalStore.open_single_writer(store.directory, "test")
    with pytest.raises(Definite, match=f"by process {os.getpid()} on {socket.gethostname()}: "):
        JournalStore.open_single_writer(store.directory, "test")
    again.close()
    JournalStore.open_single_writer(store.directory, "test").close()


def test_another_pipeline_is_refused(store: JournalStore) -> None:
    store.close()
    with pytest.raises(Definite, match=r"'test'.*'other'"):
        JournalStore.open_single_writer(store.directory, "other")
    # The refused one has given the lock back.
    JournalStore.open_single_writer(store.directory, "test").close()


def test_a_directory_without_a_journal_is_refused_to_a_reader(tmp_path: Path) -> None:
    with pytest.raises(Definite, match="holds no journal"):
        JournalReader(tmp_path)


def test_segments_without_epochs_are_refused(store: JournalStore) -> None:
    seal(store, 1)
    store.close()
    for path in (store.directory / "claims").iterdir():
        path.unlink()
    with pytest.raises(Definite, match="segments without claims"):
        JournalStore.open_single_writer(store.directory, "test")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", bytes(80)])
def test_a_damaged_epoch_is_refused(store: JournalStore, content: bytes) -> None:
    store.close()
    begun(store).write_bytes(content)
    with pytest.raises(Definite, match=r"begun\.json is damaged"):
        JournalStore.open_single_writer(store.directory, "test")


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]


def damages(content: bytes) -> Iterator[bytes]:
    middle = len(content) // 2
    yield b""
    yield bytes(len(content))
    yield content[:-1]
    yield content[:middle]
    yield content[:middle] + bytes(len(content) - middle)
    yield content + b"\n"
    yield from (flipped(content, at) for at in (0, 1, middle, len(content) - 5, len(content) - 1))


def paths(store: JournalStore, entry: Entry) -> tuple[Path, ...]:
    schemas = [store.directory / "schemas" / f"{version}.json" for version in entry.schemas]
    return manifest_path(store, entry.segment), *schemas, *(store.path(entry, file) for file in entry.files)


def reopened(store: JournalStore) -> JournalStore:
    store.close()
    return JournalStore.open_single_writer(store.directory, "test")


def test_a_damaged_last_segment_is_refused_by_the_name_of_the_file(store: JournalStore) -> None:
    seal(store, 1)
    last = seal(store, 2)
    for path in paths(store, last):
        content = path.read_bytes()
        for damaged in damages(content):
            path.write_bytes(damaged)
            store = reopened(store)
            with pytest.raises(Definite) as refusal:
                store.recover()
            assert str(path) in str(refusal.value)
        path.write_bytes(content)
    store = reopened(store)
    assert store.recover() == last
    store.close()


def test_a_missing_file_of_the_last_segment_is_refused_by_its_name(store: JournalStore) -> None:
    last = seal(store, 1)
    for path in paths(store, last)[1:]:
        path.rename(path.with_suffix(".away"))
        store = reopened(store)
        with pytest.raises(Definite) as refusal:
            store.recover()
        assert str(path) in str(refusal.value)
        path.with_suffix(".away").rename(path)
    store.close()


def test_a_consumer_is_told_of_a_damaged_a_missing_and_a_misplaced_entry(store: JournalStore) -> None:
    for number in (1, 2, 3):
        seal(store, number)
    path = manifest_path(store, 2)
    content = path.read_bytes()
    others = manifest_path(store, 3).read_bytes()
    reader = JournalReader(store.directory)
    for wrong in (b"\xff", content[:-1], others):
        path.write_bytes(wrong)
        with pytest.raises(Definite, match=path.name):
            list(reader.entries(1, 3))
    path.unlink()
    with pytest.raises(Definite, match=path.name):
        list(reader.entries(0, 3))


def test_what_was_just_published_is_not_read_again_until_it_is_removed(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_entries, "_MOST", 2)
    for number in (1, 2, 3):
        seal(store, number)
    assert store.last_segment() == 3
    whole = list(JournalReader(store.directory).entries(0, 3))
    for number in (2, 3):
        manifest_path(store, number).unlink()
    assert list(store.entries(0, 3)) == whole
    assert store.retain(ALL_OLD, LATER).segments == 2
    assert store.entry(3) == whole[2]
    with pytest.raises(Definite, match="is missing"):
        store.entry(2)


def test_segments_behind_a_lost_entry_are_not_taken_for_leftovers(store: JournalStore) -> None:
    for number in (1, 2, 3):
        seal(store, number)
    folder = store.path(store.entry(3), store.entry(3).files[0]).parent
    for number in (2, 3):
        manifest_path(store, number).unlink()
    with pytest.raises(Definite, match="entries have been lost"):
        store.recover()
    assert folder.exists()


@pytest.mark.parametrize("missing", [1, 2])
def test_a_gap_in_the_manifest_is_refused_by_the_name_of_what_is_missing(
    store: JournalStore, missing: int
) -> None:
    for number in (1, 2, 3):
        seal(store, number)
    path = manifest_path(store, missing)
    path.unlink()
    with pytest.raises(Definite, match=f"{path.stem} is missing|{path.name} is missing"):
        store.recover()
    store.close()
    with pytest.raises(Definite, match=f"{path.stem} is missing"):
        JournalStore.open_single_writer(store.directory, "test")


def test_a_foreign_file_in_the_manifest_and_an_entry_of_another_journal_are_refused(
    store: JournalStore, tmp_path: Path
) -> None:
    seal(store, 1)
    other = JournalStore.open_single_writer(tmp_path / "other", "test")
    seal(other, 1)
    other.close()
    manifest_path(store, 1).write_bytes(manifest_path(other, 1).read_bytes())
    with pytest.raises(Definite, match=f"it's of the journal {other.identity.id}"):
        store.recover()
    foreign = store.directory / "manifest" / "000000000002.json"
    foreign.write_text("{}")
    with pytest.raises(Definite, match=rf"{foreign} isn't a journal's"):
        store.recover()


def test_half_written_texts_are_removed(store: JournalStore) -> None:
    seal(store, 1)
    for directory in ("manifest", "schemas"):
        (store.directory / directory / "anything.json.tmp").write_text("{")
    store.recover()
    check(store, 1)


def test_a_file_of_somebody_else_is_left_alone(store: JournalStore) -> None:
    seal(store, 1)
    note = store.directory / "segments" / "README"
    note.write_text("kept")
    store.recover()
    assert note.read_text() == "kept"


def test_a_file_that_gets_no_more_room_is_transient(store: JournalStore) -> None:
    seal(store, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, hard))
    try:
        with pytest.raises(Transient, match="no room"):
            seal(store, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    last = store.recover()
    assert last is not None
    assert last.segment == 1
    check(store, 1)
    seal(store, 2)
    check(store, 2)


def test_a_full_disk_is_transient(store: JournalStore) -> None:
    seal(store, 1)
    temporary = manifest_path(store, 2).with_suffix(".json.tmp")
    temporary.symlink_to("/dev/full")
    with pytest.raises(Transient, match="no room") as failure:
        seal(store, 2)
    assert str(store.directory) in str(failure.value)
    store.recover()
    seal(store, 2)
    check(store, 2)


def test_a_path_through_a_file_is_definite(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Definite, match="can't be read or written"):
        JournalStore.open_single_writer(tmp_path / "file" / "journal", "test")
