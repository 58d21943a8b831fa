"""Durability can't be tested without a power cut; that files appear whole or not at all can."""

import resource
import threading
from pathlib import Path

import pytest
from pyarrow import fs

from actors.runtime.filesystem import TEMPORARY, filesystem_at, list_folder, put_file, sync, write_file


def test_files_and_directories_can_be_made_durable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    sync(file)
    sync(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "gone")


def test_a_file_is_put_in_the_place_of_another(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"x", b"yz"):
        put_file(file, content)
        assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_was_not_written_to_its_end_takes_no_room(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # the first write takes so many bytes
    try:
        with pytest.raises(OSError, match="File too large"):
            write_file(tmp_path / f"file{TEMPORARY}", bytes(1001), durable=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_uri_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    assert filesystem_at(f"file://{tmp_path}")[1] == str(tmp_path)
    with pytest.raises(ValueError, match="dbfs"):
        filesystem_at("dbfs://lake")


def test_a_folder_that_appears_while_it_is_listed_is_empty_or_not_there(tmp_path: Path) -> None:
    # Of these some thirty appear just between Arrow's two looks.
    folders = [tmp_path / str(number) for number in range(10_000)]

    def make() -> None:
        for folder in folders:
            folder.mkdir()

    making = threading.Thread(target=make)
    making.start()
    for folder in folders:
        assert list_folder(fs.LocalFileSystem(), str(folder)) == []
        while not folder.exists():
            assert list_folder(fs.LocalFileSystem(), str(folder)) == []
    making.join()
    assert len(list_folder(fs.LocalFileSystem(), str(tmp_path))) == len(folders)
