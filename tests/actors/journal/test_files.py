"""The storage of a journal: a local disk and an object store do the same, by different means."""

import errno
import os
from pathlib import Path

import pytest

from actors.journal.files import Files, LocalFiles, NoRoom, RemoteFiles, journal_errors, open_files
from pipeline.errors import Definite, Transient


@pytest.fixture(params=["local", "s3"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    place = tmp_path / "journal" if request.param == "local" else request.getfixturevalue("s3")
    made = open_files(place)
    made.make(("manifest", "segments"))
    return made


def test_a_put_file_is_there_whole_and_may_be_replaced_and_removed(files: Files) -> None:
    assert files.listed("manifest") == []
    files.put("manifest/b.json", b"before")
    files.put("manifest/b.json", b"after")
    files.put("manifest/a.json", b"")
    assert sorted(files.listed("manifest")) == ["a.json", "b.json"]
    assert files.read("manifest/b.json") == b"after"
    files.remove("manifest/b.json")
    files.remove("manifest/b.json")
    assert files.listed("manifest") == ["a.json"]
    with pytest.raises(FileNotFoundError):
        files.read("manifest/b.json")


def test_a_file_gets_the_name_of_another_one(files: Files) -> None:
    files.put("manifest/a.json", b"a")
    files.put("manifest/b.json", b"b")
    files.rename("manifest/a.json", "manifest/b.json")
    assert files.listed("manifest") == ["b.json"]
    assert files.read("manifest/b.json") == b"a"


def test_a_folder_that_is_not_there_is_empty(files: Files) -> None:
    assert files.listed("nowhere") == []
    files.make_durable("nowhere")
    files.remove_folder("nowhere")


def test_a_folder_is_kept_with_the_files_that_are_named(files: Files) -> None:
    for name in ("1", "2"):
        with files.written("segments/x", name) as file:
            file.write(b"abc")
            file.write(memoryview(b"de"))
    files.finish_folder("segments/x", frozenset({"2"}))
    assert files.listed("segments/x") == ["2"]
    assert files.read("segments/x/2") == b"abcde"
    with files.filesystem.open_input_file(files.path("segments/x/2")) as file:
        assert file.read() == b"abcde"
    assert files.sizes("segments") == {"x": 5}
    files.remove_folder("segments/x")
    assert files.listed("segments/x") == []
    assert files.sizes("segments").get("x", 0) == 0


def test_a_folder_without_named_files_leaves_nothing(files: Files) -> None:
    files.finish_folder("segments/never", frozenset())
    with files.written("segments/x", "1") as file:
        file.write(b"abc")
    files.finish_folder("segments/x", frozenset())
    assert sum(files.sizes("segments").values()) == 0


def test_a_folder_that_was_not_kept_is_removed_as_well(files: Files) -> None:
    with files.written("segments/x", "1") as file:
        file.write(b"abc")
    files.remove_folder("segments/x")
    assert sum(files.sizes("segments").values()) == 0


def test_making_it_again_changes_nothing(files: Files) -> None:
    files.put("manifest/a.json", b"{}")
    files.make(("manifest", "segments"))
    assert files.read("manifest/a.json") == b"{}"


def test_each_new_folder_above_a_journal_is_durable_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("actors.journal.files.sync", synced.append)
    files = LocalFiles(tmp_path / "a" / "b" / "journal")
    for new in (3, 1):
        files.make(["data"])
        above = [tmp_path / "a" / "b", tmp_path / "a", tmp_path][:new]
        assert synced == [*above, tmp_path / "a" / "b" / "journal"]
        synced.clear()


def test_a_file_is_written_beside_its_place_on_a_disk(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.make(("segments",))
    with files.written("segments/x", "1"):
        assert files.listed("segments") == ["x.tmp"]
        with pytest.raises(FileNotFoundError):
            files.read("segments/x/1")


@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_files_are_synced_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    files, names = written_files(tmp_path, count)
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    files.sync("segments/x", names)
    assert sorted(synced) == sorted(names)


@pytest.mark.parametrize("count", [1, 30])
def test_files_that_cannot_be_synced_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    files, names = written_files(tmp_path, count)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        files.sync("segments/x", names)
    assert files.listed("segments/x.tmp") == []


def written_files(folder: Path, count: int) -> tuple[LocalFiles, list[str]]:
    files = LocalFiles(folder)
    files.make(("segments",))
    names = [f"{place:04}" for place in range(count)]
    for name in names:
        with files.written("segments/x", name) as file:
            file.write(b"abc")
    return files, names


def test_only_a_disk_can_be_locked(tmp_path: Path, s3: str) -> None:
    files = LocalFiles(tmp_path)
    lock = files.lock()
    with pytest.raises(Definite, match=rf"{tmp_path} is being written to by process {os.getpid()} on "):
        LocalFiles(tmp_path).lock()
    lock.close()
    files.lock().close()
    remote = open_files(s3)
    assert remote.lock() is None


def test_paths_and_uris(tmp_path: Path, s3: str) -> None:
    for local in (tmp_path, str(tmp_path), f"file://{tmp_path}"):
        assert open_files(local).shown == str(tmp_path)
    remote = open_files(s3)
    assert isinstance(remote, RemoteFiles)
    assert remote.shown == s3.partition("?")[0]
    assert remote.path("manifest/x") == f"{s3.partition('?')[0].removeprefix('s3://')}/manifest/x"


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("gopher://x/y", r"journal\.path \(gopher://x/y\) can't be reached"),
        ("s3://key:secret@bucket/x", "doesn't belong into a URI"),
        ("mock://x", "isn't known to show files only when they are whole"),
    ],
)
def test_a_uri_that_will_not_do_is_refused_and_shows_no_secret(uri: str, wrong: str) -> None:
    with pytest.raises(Definite, match=wrong) as refusal:
        open_files(uri)
    assert "secret" not in str(refusal.value)


def test_a_store_that_is_not_there_is_transient(s3_server: str) -> None:  # noqa: ARG001 - its credentials are used
    nowhere = open_files("s3://bucket/x?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1")
    with pytest.raises(Transient, match="s3://bucket/x"), journal_errors(nowhere.shown):
        nowhere.listed("manifest")


def test_a_bucket_that_is_not_there_is_definite(s3_server: str) -> None:
    nowhere = open_files(f"s3://nobucket/x?endpoint_override={s3_server}&scheme=http&region=us-east-1")
    with pytest.raises(Definite, match="s3://nobucket/x"), journal_errors(nowhere.shown):
        nowhere.put("manifest/x", b"")


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, NoRoom), (errno.EDQUOT, NoRoom), (errno.EACCES, Definite), (errno.EIO, Transient)],
)
def test_what_a_filesystem_refuses_is_said_in_our_terms(number: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="/journal"), journal_errors("/journal"):
        raise OSError(number, os.strerror(number))


def test_a_file_in_the_place_of_the_journal_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Definite, match=r"journal\.path: .+/file is no folder; give another path"):
        LocalFiles(tmp_path / "file").make([])
