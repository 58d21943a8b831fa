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


def test_a_file_in_another_encoding_is_one_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("pässword".encode("latin-1"))
    with pytest.raises(OSError, match="it isn't UTF-8") as refused:
        secret_files.read_secret(file)
    assert refused.value.filename == str(file) and refused.value.__cause__ is None


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


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "journal" / "http-token"
    made = secret_files.ensure_token(file)
    assert is_token(made.value)
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret_files.ensure_token(file) == made == Secret(made.value, file)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("left", [b"", b"\n", b"0" * 15, bytes(65), b"\xff" * 65])
def test_what_a_power_cut_left_of_a_token_is_replaced(tmp_path: Path, left: bytes) -> None:
    file = tmp_path / "http-token"
    file.write_bytes(left)
    made = secret_files.ensure_token(file)
    assert is_token(made.value)
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret_files.ensure_token(file) == made


def test_a_token_that_cannot_be_written_leaves_no_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="full"):
        secret_files.ensure_token(tmp_path / "http-token")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert is_token(secret_files.ensure_token(tmp_path / "http-token").value)
