"""Where a pipeline keeps data of this machine only."""

import errno
import os
from pathlib import Path

import pytest

from actors.runtime.state_folder import local_folder, unwritable_file


@pytest.mark.parametrize("location", ["/var/lib/journal", "file:///var/lib/journal"])
def test_a_local_journals_folder_is_its_own(location: str) -> None:
    assert local_folder(location, "shop") == Path("/var/lib/journal")


def test_a_remote_journals_folder_is_of_the_users_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert local_folder("s3://bucket/journal", "shop") == Path("/state/tidemark/shop")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert local_folder("s3://bucket/journal", "shop") == Path("/home/someone/.local/state/tidemark/shop")


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "make room"), (errno.EACCES, "let the service's")]
)
def test_a_file_that_cannot_be_written_is_named_with_what_to_do(number: int, remedy: str) -> None:
    told = str(unwritable_file(Path("/state/http-token"), OSError(number, os.strerror(number))))
    assert told.startswith(f"/state/http-token can't be written ({os.strerror(number)}); {remedy}")
