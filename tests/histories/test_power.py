"""What a power cut takes in these histories is what nobody has made durable."""

import os
from pathlib import Path

import pytest

from actors.journal.files import LocalFiles, wait_for_all
from actors.runtime.filesystem import put_file, sync
from tests.histories.power import Power


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def _there(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_is_synced_stays_and_nothing_else(journal: Path, lake: Path) -> None:
    power = Power()
    with power.noted():
        LocalFiles(journal).make(("entries",))
        put_file(journal / "entries" / "1", b"whole")
        put_file(journal / "entries" / "longer", b"half")
        (journal / "entries" / "nameless").write_text("x")
        sync(journal / "entries" / "nameless")
        (journal / "folder").mkdir()
        put_file(journal / "folder" / "1", b"x")  # the folder's own name isn't durable
        (journal / "entries" / "contentless").write_text("x")
        sync(journal / "entries")
        (journal / "entries" / "later").write_text("x")
        with (journal / "entries" / "longer").open("a") as file:
            file.write(" more")
    gone = power.cut(journal, lake)
    assert _there(journal) == {
        "entries/1": "whole",
        "entries/longer": "half",
        "entries/nameless": "x",
        "entries/contentless": "",
    }
    assert {path.name for path in gone} == {"longer", "contentless", "later", "folder"}


def test_a_copy_is_durable(journal: Path, lake: Path) -> None:
    (journal / "entries").mkdir(parents=True)
    (journal / "entries" / "1").write_text("x")
    power = Power()
    power.note_all(journal)
    assert power.cut(journal, lake) == []


def test_what_threads_sync_at_the_same_time_stays(journal: Path, lake: Path) -> None:
    power = Power()
    with power.noted():
        LocalFiles(journal).make(("schemas",))
        for turn in range(50):
            paths = [journal / "schemas" / f"{turn}-{number}" for number in range(32)]
            wait_for_all(lambda path: put_file(path, b"x"), paths)
            assert power.cut(journal, lake) == []


def test_a_lakes_log_loses_its_end(journal: Path, lake: Path) -> None:
    """An earlier commit that nobody synced stays: a kernel writes in order, and Delta would read nothing at all."""
    journal.mkdir()
    log, data = lake / "shop" / "t" / "mirror" / "_delta_log", lake / "shop" / "t" / "mirror" / "part.parquet"
    log.mkdir(parents=True)
    names = [f"{version:020}" for version in range(5)]
    for name in names:
        (log / f"{name}.json").write_text("{}")
    for path in (data, data.with_name("lost.parquet")):
        path.write_text("x")
    for beside in (f"{names[4]}.crc", f"{names[4]}.checkpoint.parquet", "_last_checkpoint"):
        (log / beside).write_text("x")
    power = Power()
    with power.noted():
        sync(log / f"{names[2]}.json")
        sync(log)
        sync(data)
        sync(data.parent)
        os.utime(log / f"{names[3]}.json")
    gone = power.cut(journal, lake)
    assert sorted(_there(log)) == [*(f"{name}.json" for name in names[:3]), "_last_checkpoint"]
    assert log / "_last_checkpoint" in gone
    assert _there(log)["_last_checkpoint"] == ""
    assert data.read_text() == "x"
    assert data.with_name("lost.parquet").read_text() == "", "its name is durable, and nothing in it"
