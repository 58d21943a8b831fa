"""Secrets in files: as they are now, whenever they're used."""

from pathlib import Path

import pytest

from actors.runtime import secret_files
from pipeline.config.http_access import is_token
from pipeline.config.settings import Secret


@pytest.mark.parametrize("text", ["pässword", "pässword\n", "pässword\r\n"])
def test_the_end_of_its_line_is_no_part_of_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_text(text, encoding="utf-8", newline="")
    assert secret_files.read_secret(file) == Secret("pässword", file)


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    secret = secret_files.read_secret(file)
    file.write_text("new")
    assert secret_files.current_secret(secret) == "new"
    assert secret_files.current_secret(Secret("said")) == "said"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        secret_files.current_secret(secret)
    assert "old" not in repr(secret) and "old" not in str(secret)


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "journal" / "http-token"
    made = secret_files.made_secret(file)
    assert is_token(made.value)
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret_files.made_secret(file) == made == Secret(made.value, file)
