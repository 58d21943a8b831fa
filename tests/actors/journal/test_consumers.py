"""The consumers of a journal, and where it begins."""

from pathlib import Path

import pytest

from actors.journal.consumers import CONSUMERS, Consumers
from actors.journal.files import Files, LocalFiles
from actors.journal.writer_epochs import FIRST
from pipeline.errors import Definite


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = LocalFiles(tmp_path)
    made.make((CONSUMERS, FIRST))
    return made


def test_what_a_consumer_told_last_is_known_to_all(files: Files) -> None:
    consumers = Consumers(files)
    assert consumers.all() == {}
    consumers.tell("lake", 3)
    consumers.tell("topics", 9)
    consumers.tell("lake", 7, 5)
    told = Consumers(files).all()
    assert (told["lake"].said, told["topics"].said) == (5, None)
    assert {name: consumer.segment for name, consumer in told.items()} == {"lake": 7, "topics": 9}
    assert told["lake"].told_at >= told["topics"].told_at > 1_700_000_000_000_000


@pytest.mark.parametrize("name", ["", "Lake", "../lake", "a b", "x" * 64])
def test_a_name_that_will_not_do_is_refused(files: Files, name: str) -> None:
    with pytest.raises(Definite, match="can't be a consumer's name"):
        Consumers(files).tell(name, 1)


def test_a_consumer_is_forgotten(files: Files) -> None:
    consumers = Consumers(files)
    consumers.tell("lake", 3)
    with pytest.raises(Definite, match=r"'topics' isn't a consumer .* there are: lake"):
        consumers.forget("topics")
    consumers.forget("lake")
    with pytest.raises(Definite, match="there are: none"):
        consumers.forget("lake")


def test_a_damaged_cursor_is_refused_by_name_and_what_a_crash_left_is_passed_over(
    files: Files, tmp_path: Path
) -> None:
    consumers = Consumers(files)
    consumers.tell("lake", 3)
    (tmp_path / CONSUMERS / "lake.json.tmp").write_text("{")
    assert list(consumers.all()) == ["lake"]
    for damaged in ("", "{}", '{"segment": null, "told_at": 1}'):
        (tmp_path / CONSUMERS / "lake.json").write_text(damaged)
        with pytest.raises(Definite, match=r"consumers/lake\.json is damaged"):
            consumers.all()


def test_the_beginning_only_moves_on(files: Files) -> None:
    consumers = Consumers(files)
    assert consumers.first() == 1
    consumers.begin_at(7)
    consumers.begin_at(5)  # by a writer that is fenced, and late
    assert consumers.first() == 7
    consumers.begin_at(1000)
    assert consumers.first() == 1000
    assert files.listed(FIRST) == ["000000001000"]
