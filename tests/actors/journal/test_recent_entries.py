"""The entries that a reader gets from the writer in its process are those of the files, and they are few."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.journal import recent_entries
from actors.journal.store import JournalReader, JournalStore
from pipeline.errors import Definite
from tests.actors.crashing_journal import ALL_OLD, LATER
from tests.actors.segments import seal

SEGMENTS = (1, 2, 3)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as opened:
        yield opened


def seal_all(store: JournalStore) -> None:
    for number in SEGMENTS:
        seal(store, number)


def empty_entries(store: JournalStore) -> None:
    for path in (store.directory / "manifest").iterdir():
        path.write_text("")


def test_a_reader_needs_no_entry_that_the_writer_keeps(store: JournalStore) -> None:
    seal_all(store)
    from_files = list(JournalReader(store.directory).entries(0, 3))
    empty_entries(store)
    assert list(JournalReader(store.directory, store.recent).entries(0, 3)) == from_files
    with pytest.raises(Definite, match="can't be used"):
        JournalReader(store.directory).entry(1)


def test_what_retention_removes_is_kept_no_longer(store: JournalStore) -> None:
    seal_all(store)
    reader = JournalReader(store.directory, store.recent)
    assert store.retain(ALL_OLD, LATER).segments == 2
    assert reader.entry(3).segment == 3
    with pytest.raises(Definite, match="is missing"):
        reader.entry(2)


def test_a_recovery_reads_the_last_entry(store: JournalStore) -> None:
    seal_all(store)
    empty_entries(store)
    with pytest.raises(Definite, match="can't be used"):
        store.recover()


def test_the_oldest_goes(store: JournalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_entries, "_MOST", 2)
    seal_all(store)
    empty_entries(store)
    reader = JournalReader(store.directory, store.recent)
    assert [entry.segment for entry in reader.entries(1, 3)] == [2, 3]
    with pytest.raises(Definite, match="can't be used"):
        reader.entry(1)
