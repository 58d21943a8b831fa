"""The consumers of a journal, and where it begins."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.journal.consumers import Consumer, ConsumerDamaged, Consumers
from actors.journal.files import Files, LocalFiles
from actors.journal.writer_epochs import FIRST
from pipeline.errors import Definite
from pipeline.journal.consumer_names import CONSUMERS
from pipeline.kafka.position import KafkaPosition, NamedPosition
from pipeline.schema.table_schema import TableId


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = LocalFiles(tmp_path)
    made.make((CONSUMERS, FIRST))
    return made


def test_what_a_consumer_told_last_is_known_to_all(files: Files) -> None:
    consumers = Consumers(files)
    assert consumers.all() == {}
    consumers.record_progress("lake", 3)
    consumers.record_progress("topics", 9)
    consumers.record_progress("lake", 7, 5, brought=6)
    told = Consumers(files).all()
    assert (told["lake"].reported, told["topics"].reported) == (5, None)
    assert (told["lake"].brought, told["topics"].brought) == (6, 0)
    assert {name: consumer.segment for name, consumer in told.items()} == {"lake": 7, "topics": 9}
    sent = NamedPosition("positions", KafkaPosition(8, 4, 2))
    consumers.record_progress("kafka", 8, 8, sent=sent)
    consumers.leave_unchecked("kafka", 9)
    assert (consumers.all()["kafka"].sent, told["topics"].sent) == (sent, None)
    assert told["lake"].reported_at >= told["topics"].reported_at > 1_700_000_000_000_000


def test_what_a_consumer_has_lost_is_remembered_until_it_reports_otherwise(files: Files) -> None:
    consumers, lost = Consumers(files), {TableId("shop", "log"): frozenset({"s1", "s2"})}
    consumers.record_lost("lake", lost)
    assert consumers.all() == {}
    consumers.record_progress("lake", 3)
    assert consumers.all()["lake"].lost == {}
    consumers.record_lost("lake", lost)
    consumers.leave_unchecked("lake", 4)
    consumers.checked("lake")
    assert (consumers.all()["lake"].segment, consumers.all()["lake"].lost) == (3, lost)
    consumers.record_progress("lake", 5, 5, lost)
    assert consumers.all()["lake"].lost == lost
    consumers.record_progress("lake", 6, 5)
    assert consumers.all()["lake"].lost == {}


@pytest.mark.parametrize("name", ["", "Lake", "../lake", "a b", "x" * 64])
def test_a_name_that_will_not_do_is_refused(files: Files, name: str) -> None:
    with pytest.raises(Definite, match="can't be a consumer's name"):
        Consumers(files).record_progress(name, 1)


def test_a_consumer_is_forgotten(files: Files) -> None:
    consumers = Consumers(files)
    consumers.record_progress("lake", 3)
    with pytest.raises(Definite, match=r"'topics' isn't a consumer .* there are: lake"):
        consumers.forget("topics")
    consumers.forget("lake")
    with pytest.raises(Definite, match="there are: none"):
        consumers.forget("lake")


def test_what_the_lake_has_lost_is_known_when_its_consumer_returns(files: Files) -> None:
    """Its output stays as it is meanwhile."""
    consumers, orders = Consumers(files), TableId("shop", "orders")
    lost, more = (
        {TableId("shop", "log"): frozenset({"s1"})},
        {TableId("shop", "log"): frozenset({"s1", "s2"})},
    )
    consumers.record_progress("lake", 3, 2, lost)
    consumers.leave_unchecked("lake", 4)
    consumers.checked("lake", {orders: 4})
    consumers.forget("lake")
    assert consumers.all() == {}
    consumers.leave_unchecked("lake", 9)
    consumers.leave_unchecked("lake", 12)
    assert consumers.all() == {}
    consumers.record_progress("lake", 5)
    told = consumers.all()["lake"]
    assert (told.segment, told.reported) == (5, None)
    assert (told.unchecked_end, told.unseen, told.lost) == (9, {orders: 4}, lost)
    consumers.forget("lake")  # while the sink runs, which knows better
    consumers.checked("lake")
    consumers.record_lost("lake", more)
    consumers.record_progress("lake", 6)
    told = consumers.all()["lake"]
    assert (told.unchecked_end, told.unseen, told.lost) == (None, {}, more)
    consumers.forget("lake")
    consumers.record_progress("lake", 7, 7, {})
    assert consumers.all()["lake"].lost == {}
    consumers.record_progress("topics", 9, 9, lost)
    consumers.forget("topics")
    consumers.record_progress("topics", 9)
    assert consumers.all()["topics"].lost == {}


def test_what_the_lake_has_lost_isnt_known_if_its_file_is_damaged(files: Files, tmp_path: Path) -> None:
    consumers, lost = Consumers(files), {TableId("shop", "log"): frozenset({"s1"})}
    may_be = Consumer(7, 0, None, unchecked_end=7, lost=lost)
    for suffix in (".json", ".forgotten"):
        (tmp_path / CONSUMERS / f"lake{suffix}").write_text("{")
        with pytest.raises(ConsumerDamaged, match=rf"lake\{suffix} is damaged: run tidemark forget-consumer"):
            consumers.record_progress("lake", 3)
        with pytest.raises(ConsumerDamaged):
            consumers.forget("lake")
        consumers.forget_damaged("lake", may_be)
        assert consumers.all() == {}
        consumers.record_progress("lake", 3)
        told = consumers.all()["lake"]
        assert (told.segment, told.unchecked_end, told.lost) == (3, 7, lost)
        consumers.forget("lake")
    (tmp_path / CONSUMERS / "topics.json").write_text("{")
    consumers.forget("topics")


def test_a_damaged_cursor_is_refused_by_name_and_what_a_crash_left_is_passed_over(
    files: Files, tmp_path: Path
) -> None:
    consumers = Consumers(files)
    consumers.record_progress("lake", 3)
    (tmp_path / CONSUMERS / "lake.json.tmp").write_text("{")
    assert list(consumers.all()) == ["lake"]
    for damaged in ("", "{}", '{"segment": null, "told_at": 1}'):
        (tmp_path / CONSUMERS / "lake.json").write_text(damaged)
        with pytest.raises(Definite, match=r"consumers/lake\.json is damaged"):
            consumers.all()


def test_an_output_is_unchecked_from_the_first_end_on_until_it_was_compared(files: Files) -> None:
    consumers = Consumers(files)

    def unchecked() -> int | None:
        return consumers.all()["lake"].unchecked_end

    consumers.leave_unchecked("lake", 3)
    assert consumers.all() == {}
    consumers.record_progress("lake", 3, 2)
    told = consumers.all()["lake"]
    consumers.checked("lake")
    assert consumers.all()["lake"] == told
    for end in (4, 9):  # two starts: what is sealed between them was not compared either
        consumers.leave_unchecked("lake", end)
        assert consumers.all()["lake"] == replace(told, unchecked_end=4)
    consumers.checked("lake")
    assert consumers.all()["lake"] == told
    consumers.leave_unchecked("lake", 9)
    assert unchecked() == 9
    consumers.record_progress("lake", 10)
    assert unchecked() == 9, "progress says nothing of a table that couldn't be looked at"


def test_a_store_that_is_late_brings_no_unchecked_end_back(files: Files) -> None:
    """It stalls, the write is repeated, and it carries the first request out ten seconds later."""
    consumers, orders, path = Consumers(files), TableId("shop", "orders"), "consumers/lake.json"
    consumers.record_progress("lake", 3, 3)
    consumers.leave_unchecked("lake", 4)
    late = files.read(path)
    for unseen in ({orders: 4}, {}):
        consumers.checked("lake", unseen)
        files.put(path, late)
        told = consumers.all()["lake"]
        assert (told.unchecked_end, told.unseen) == (None, unseen), "the sink may begin again in this process"
        consumers.record_progress("lake", 5, 5)
        told = Consumers(files).all()["lake"]
        assert (told.segment, told.unchecked_end, told.unseen) == (5, None, unseen)
    consumers.leave_unchecked("lake", 9)
    assert Consumers(files).all()["lake"].unchecked_end == 9


def test_a_table_that_could_not_be_looked_at_stays_unchecked_alone(files: Files) -> None:
    consumers, orders = Consumers(files), TableId("shop", "orders")
    consumers.record_progress("lake", 3, 2)
    consumers.leave_unchecked("lake", 4)
    consumers.checked("lake", {orders: 4})
    consumers.record_progress("lake", 8, 8)
    consumers.record_lost("lake", {})
    consumers.leave_unchecked("lake", 9)
    told = consumers.all()["lake"]
    assert (told.segment, told.unchecked_end, told.unseen) == (8, 9, {orders: 4})
    consumers.checked("lake")
    assert consumers.all()["lake"] == replace(told, unchecked_end=None, unseen={})


def test_the_beginning_only_moves_on(files: Files) -> None:
    consumers = Consumers(files)
    assert consumers.first() == 1
    consumers.begin_at(7)
    consumers.begin_at(5)  # by a writer that is fenced, and late
    assert consumers.first() == 7
    consumers.begin_at(1000)
    assert consumers.first() == 1000
    assert files.listed(FIRST) == ["000000001000"]
