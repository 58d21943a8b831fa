"""Epochs of a journal, on a disk whose lock isn't seen by the other one and in an object store."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from actors.journal import writer_epochs
from actors.journal.files import Files, LocalFiles, RemoteFiles
from actors.journal.store import JournalReader, JournalStore
from actors.journal.writer_epochs import Fenced, NoJournal
from pipeline.config.column_protection import UNPROTECTED
from pipeline.errors import Definite, Transient
from pipeline.journal import segment as journal
from pipeline.journal.entry import Entry
from pipeline.journal.writer_epochs import EpochRecord
from pipeline.schema.table_schema import TableId, TableSchema
from tests.actors import crashing_journal
from tests.actors.crashing_journal import ALL_OLD, LATER
from tests.actors.segments import ITEMS, ROWS, moved, seal
from tests.servers.late_puts import LatePuts
from tests.servers.stopped import stop

OTHER = replace(ITEMS, table=TableId("shop", "other"))


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """On a disk, two processes on two machines don't see each other's lock."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3"))
    monkeypatch.setattr(LocalFiles, "lock", lambda _: None)
    return str(tmp_path / "journal")


def opened(place: str) -> JournalStore:
    store = JournalStore.open_single_writer(place, "test")
    store.recover()
    return store


def test_there_is_no_journal_before_one_begins(place: str) -> None:
    with pytest.raises(NoJournal, match="holds no journal"):
        JournalReader(place)


def test_the_newer_writer_goes_on_and_the_older_one_is_fenced(place: str) -> None:
    older = opened(place)
    seal(older, 1)
    newer = opened(place)
    assert newer.identity == older.identity
    seal(newer, 2)
    with pytest.raises(Fenced, match="another instance took the journal"):
        seal(older, 2)
    with pytest.raises(Fenced):
        older.recover()
    seal(newer, 3)
    reader = JournalReader(place)
    assert reader.last_segment() == newer.last_segment() == 3
    assert [entry.checkpoint for entry in reader.entries(0, 3)] == [moved(n).checkpoint for n in (1, 2, 3)]


def test_what_the_older_one_publishes_after_the_epoch_does_not_count(place: str) -> None:
    older = opened(place)
    seal(older, 1)
    newer = opened(place)
    with pytest.raises(Fenced):
        seal(older, 2)  # its entry is there now, and the newer one has begun without it
    reader = JournalReader(place)
    assert reader.last_segment() == 1
    entry = seal(newer, 2)
    assert reader.last_segment() == 2
    assert reader.entry(2) == entry
    again = opened(place)
    assert sorted(writer_epochs.list_entries(again.files)) == [
        (1, older._own.epoch),
        (2, newer._own.epoch),
    ]
    assert len(again.files.sizes("segments")) == 2


def test_a_segment_that_is_being_published_while_an_epoch_is_taken_is_kept_or_not_for_all(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry comes after the newer one's epoch and before its listing: it's in its past, and the older one ends."""
    older = opened(place)
    seal(older, 1)
    real = writer_epochs._past

    def past(files: object, pipeline: str) -> object:
        with pytest.raises(Fenced):
            seal(older, 2)
        return real(files, pipeline)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(writer_epochs, "_past", past)
        newer = opened(place)
    assert newer.last_segment() == 2
    seal(newer, 3)
    assert JournalReader(place).last_segment() == 3


def test_of_two_that_take_an_epoch_at_once_one_goes_on(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(opened(place), 1)
    real, others = writer_epochs._past, []

    def past(files: object, pipeline: str) -> object:
        monkeypatch.setattr(writer_epochs, "_past", real)
        others.append(opened(place))
        return real(files, pipeline)  # type: ignore[arg-type]

    monkeypatch.setattr(writer_epochs, "_past", past)
    with pytest.raises(Fenced):
        opened(place)
    (other,) = others
    seal(other, 2)
    assert JournalReader(place).last_segment() == 2


def test_while_an_epoch_has_not_begun_only_the_past_is_certain(place: str) -> None:
    store = opened(place)
    seal(store, 1)
    again = opened(place)
    seal(again, 2)
    again.files.put("claims/00000099-00000000.json", b"{}")
    assert JournalReader(place).last_segment() == 1
    after = opened(place)
    assert after.last_segment() == 2
    assert sorted(after.files.listed("claims")) == [
        f"{after._own.epoch}.begun.json",
        f"{after._own.epoch}.json",
    ]


def test_what_counted_before_an_epoch_counts_while_it_has_not_begun(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that begins then lacks nothing that it had: a service takes another epoch after a failure."""
    store = opened(place)
    for segment in (1, 2):
        seal(store, segment)
    real, seen = writer_epochs._past, list[int]()

    def past(files: Files, pipeline: str) -> EpochRecord:
        seen.append(JournalReader(place).last_segment())
        return real(files, pipeline)

    monkeypatch.setattr(writer_epochs, "_past", past)
    assert opened(place).last_segment() == 2
    assert seen == [2]


def test_another_pipeline_is_refused_and_fences_nobody(place: str) -> None:
    store = opened(place)
    with pytest.raises(Definite, match=r"'test'.*'other'"):
        JournalStore.open_single_writer(place, "other")
    seal(store, 1)
    assert store.last_segment() == 1


@pytest.fixture
def sealing(place: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs a process that seals endlessly, and prints the number of each segment."""
    command = [sys.executable, "-m", crashing_journal.__name__, "loop", place]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_stopped_writer_that_awakes_is_fenced(place: str, sealing: "subprocess.Popen[str]") -> None:
    assert sealing.stdout is not None
    assert sealing.stderr is not None
    assert int(sealing.stdout.readline()) == 1
    stop(sealing.pid)
    newer = opened(place)
    last = newer.last_segment()
    assert last >= 1
    seal(newer, last + 1)
    os.kill(sealing.pid, signal.SIGCONT)
    assert sealing.wait(60) == 1
    assert "Fenced" in sealing.stderr.read()
    # What it said was sealed is in the past of the newer one.
    said = [1, *map(int, sealing.stdout)]
    assert said == list(range(1, len(said) + 1))
    assert last - len(said) in (0, 1)
    seal(newer, last + 2)
    reader = JournalReader(place)
    entries = list(reader.entries(0, reader.last_segment()))
    assert [entry.first_scn for entry in entries] == [
        ROWS * n + 1 if n > 1 else 1 for n in range(1, last + 3)
    ]


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_killed_writer_leaves_what_it_said(place: str, sealing: "subprocess.Popen[str]") -> None:
    assert sealing.stdout is not None
    numbers = [int(sealing.stdout.readline()) for _ in range(3)]
    sealing.kill()
    numbers += [int(line) for line in sealing.stdout]
    store = opened(place)
    last = store.last_segment()
    assert numbers == list(range(1, numbers[-1] + 1))
    assert last - numbers[-1] in (0, 1)
    assert set(store.files.sizes("segments")) == {store._view.name(n) for n in range(1, last + 1)}
    seal(store, last + 1)


def test_on_a_disk_a_stopped_writer_keeps_its_lock_and_a_killed_one_does_not(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    command = [sys.executable, "-m", crashing_journal.__name__, "loop", str(directory)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stop(process.pid)
        with pytest.raises(Definite, match=f"is being written to by process {process.pid} on "):
            JournalStore.open_single_writer(directory, "test")
        process.kill()
        process.wait()
        opened(str(directory)).close()


@contextmanager
def late_store(place: str) -> Iterator[tuple[JournalStore, LatePuts]]:
    """A journal in an object store that carries requests out late."""
    url = urlsplit(place)
    query = dict(parse_qsl(url.query))
    with LatePuts(int(query["endpoint_override"].rpartition(":")[2])) as proxy:
        query["endpoint_override"] = f"127.0.0.1:{proxy.port}"
        yield opened(url._replace(query=urlencode(query)).geturl()), proxy


@pytest.mark.parametrize("late", ["claims/", ".begun.json"])
@pytest.mark.parametrize("after", ["the next epoch", "the next segment"])
def test_an_epoch_that_a_store_carries_out_late_fences_nobody_of_its_process(
    s3: str, late: str, after: str
) -> None:
    with late_store(s3) as (store, proxy):
        seal(store, 1)
        proxy.holds = late.encode()
        with pytest.raises(Transient):
            store.recover()
        proxy.holds = b""
        if after == "the next epoch":
            proxy.pass_on()
        recovered = store.recover()
        assert recovered is not None and recovered.segment == 1
        seal(store, 2)
        if after == "the next segment":
            proxy.pass_on()
        seal(store, 3)
        store.recover()
    assert JournalReader(s3).last_segment() == 3


@pytest.mark.parametrize("late", ["manifest/000000000002", "segments/000000000002"])
def test_what_a_store_carries_out_after_it_has_failed_replaces_nothing(s3: str, late: str) -> None:
    with late_store(s3) as (store, proxy):
        seal(store, 1)
        proxy.holds = late.encode()
        with pytest.raises(Transient):
            seal(store, 2, content=7)
        proxy.holds = b""
        recovered = store.recover()
        assert recovered is not None and recovered.segment == 1
        sealed = seal(store, 2)
        proxy.pass_on()
        store.recover()
        seal(store, 3)
    reader = JournalReader(s3)
    assert reader.last_segment() == 3
    assert reader.entry(2) == sealed
    for file in sealed.files:
        with reader.files.filesystem.open_input_stream(reader.file(2, file.path)) as opened_file:
            assert hashlib.sha256(opened_file.read()).hexdigest() == file.sha256


def test_a_reader_that_follows_takes_no_segment_of_a_former_epoch(s3: str) -> None:
    """What a store puts late is there, under the epoch that the reader knows. The reader has read nothing since."""
    with late_store(s3) as (store, proxy):
        seal(store, 1)
        reader, later = JournalReader(s3), JournalReader(s3)
        assert reader.last_segment() == later.last_segment() == 1
        proxy.holds = b"manifest/000000000002"
        with pytest.raises(Transient):
            seal(store, 2, content=7)
        proxy.holds = b""
        store.recover()
        sealed = seal(store, 2)
        proxy.pass_on()
        assert reader.entry(2) == sealed
        for each in (reader, later):
            for file in sealed.files:
                with each.files.filesystem.open_input_stream(each.file(2, file.path)) as opened_file:
                    assert hashlib.sha256(opened_file.read()).hexdigest() == file.sha256
        assert store.recover() == sealed == reader.entry(2)


def seal_of(store: JournalStore, segment: int, schema: TableSchema) -> Entry:
    """Seals a segment without rows that names this schema alone."""
    sealed = journal.seal(segment, [moved(segment)], (), None, 5, UNPROTECTED)
    entry = replace(sealed, schemas={schema.version: schema})
    store.publish(entry)
    return entry


def test_in_a_store_schemas_go_too(s3: str) -> None:
    """A version that comes again has another file. Neither a restart nor a reader takes the one of before for it."""
    store, reader = opened(s3), JournalReader(s3)
    seal_of(store, 1, ITEMS)
    assert reader.last_segment() == 1 and reader.entry(1).schemas == {ITEMS.version: ITEMS}
    seal_of(store, 2, OTHER)
    seal_of(store, 3, OTHER)
    assert store.retain(ALL_OLD, LATER).segments == 2
    assert [name.partition("-")[0] for name in store.files.listed("schemas")] == [OTHER.version]
    [first] = store.files.listed("schemas")
    seal_of(store, 4, ITEMS)
    again = opened(s3)
    recovered = again.recover()
    assert recovered is not None and recovered.schemas == {ITEMS.version: ITEMS}
    seal_of(again, 5, OTHER)
    assert len(again.files.listed("schemas")) == 3, "an earlier writer may have tried to remove the other one"
    again.files.remove(f"schemas/{first}")
    assert reader.last_segment() == 5
    assert [reader.entry(segment).schemas for segment in (4, 5)] == [
        {ITEMS.version: ITEMS},
        {OTHER.version: OTHER},
    ]
    assert set(reader.schemas()) == {ITEMS, OTHER}


def test_a_schema_whose_removal_a_store_carries_out_late_may_come_again(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, late, remove = opened(s3), list[str](), RemoteFiles.remove

    def removed(files: RemoteFiles, name: str) -> None:
        if name.startswith("schemas/"):
            late.append(name)
            raise OSError("no answer has come in time")
        remove(files, name)

    seal_of(store, 1, ITEMS)
    seal_of(store, 2, OTHER)
    with monkeypatch.context() as patched:
        patched.setattr(RemoteFiles, "remove", removed)
        with pytest.raises(Transient):
            store.retain(ALL_OLD, LATER)
    store.recover()
    seal_of(store, 3, ITEMS)
    store.recover()
    seal_of(store, 4, ITEMS)
    [name] = late
    store.files.remove(name)
    reader = JournalReader(s3)
    assert [entry.schemas for entry in reader.entries(2, reader.last_segment())] == [
        {ITEMS.version: ITEMS}
    ] * 2
    assert store.retain(ALL_OLD, LATER).segments
    assert len(store.files.listed("schemas")) == 1
