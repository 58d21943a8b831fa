"""Durability can't be tested without a power cut; that it fails where there's nothing to make durable can."""

from pathlib import Path

import pytest

from actors.runtime.fsync import sync


def test_files_and_directories_can_be_made_durable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    sync(file)
    sync(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "gone")
