"""The JournalWriter over a real journal: when it seals, in which order it reports, and how it ends."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.journal.files import NoRoom
from actors.journal.store import JournalStore
from actors.journal_writer import JournalWriter
from actors.runtime import actor
from actors.runtime.failure_kinds import StartAgain
from pipeline import metrics as catalogue
from pipeline.config.settings import JournalSettings
from pipeline.errors import Transient
from pipeline.journal import segment as journal
from pipeline.journal import step as journal_writer
from pipeline.journal.entry import Entry, FileKind
from pipeline.messages import journal as journal_messages
from pipeline.messages.message_size import of_part
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import TableId
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.snapshot.checkpoint import Filling, Mirror, Moving
from tests.actors.journal_house import APPENDS, House
from tests.actors.segments import COMMIT_TIME, ITEMS, ROWS, append, moved, part, scattered
from tests.pipeline.builders import ORDERS, gtids
from tests.servers.awaiting import until

SOON = JournalSettings("journal", seal_after_ms=1)
LATE = JournalSettings("journal", seal_after_ms=600_000)
EACH = JournalSettings("journal", seal_after_ms=600_000, seal_mib=0)


class GatedStore(JournalStore):
    """A journal on a slow disk: it publishes when the gate is open, and says when it has come to the gate."""

    gate: threading.Event
    arrived: threading.Semaphore

    def publish(self, entry: Entry) -> None:
        self.arrived.release()
        assert self.gate.wait(30)
        super().publish(entry)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GatedStore]:
    opened = GatedStore.open_single_writer(tmp_path / "journal", "test")
    assert isinstance(opened, GatedStore)
    opened.gate = threading.Event()
    opened.gate.set()
    opened.arrived = threading.Semaphore(0)
    yield opened
    opened.gate.set()
    opened.close()


def entry_of(store: JournalStore, segment: int) -> Path:
    """What the segment's entry is written as."""
    return Path(store.files.path(f"{store._entry_name(segment)}.tmp"))


def stored(store: JournalStore, segment: int) -> int:
    """The bytes of a segment's files and its entry."""
    entry = Path(store.files.path(store._entry_name(segment))).stat().st_size
    return sum(file.bytes for file in store.entry(segment).files) + entry


async def arrived(store: GatedStore) -> None:
    assert await asyncio.to_thread(store.arrived.acquire, timeout=30)


async def settle() -> None:
    """Let everything run that can run without the gate."""
    for _ in range(20):
        await asyncio.sleep(0)


def ids(store: JournalStore) -> list[int]:
    entries = store.entries(0, store.last_segment())
    tables = [pq.read_table(store.path(entry, file)) for entry in entries for file in entry.files]
    return [number for table in tables for number in table.column("id").to_pylist()]


def unnamed(store: JournalStore) -> list[Path]:
    """Files of segments that aren't published."""
    return sorted((store.directory / "segments").glob("*.tmp/*"))


def has_unnamed(store: JournalStore, number: int = 1) -> bool:
    return len(unnamed(store)) == number


def rests(house: "House") -> bool:
    ahead: int = house.writer.status()["ahead_bytes"]
    return ahead == sum(path.stat().st_size for path in unnamed(house.store))


async def test_what_came_is_sealed_after_a_while(store: GatedStore) -> None:
    house = House(store, SOON)
    await house.put(append(1))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    await house.put(append(2))
    assert await house.sink.get() == journal_messages.SegmentSealed(2)
    assert ids(store) == list(range(ROWS, 3 * ROWS))
    await house.stop()
    assert store.last_segment() == 2


async def test_what_came_together_is_one_segment(store: GatedStore) -> None:
    house = House(store, LATE)
    await house.put(append(1), moved(1), append(2), append(3))
    await settle()
    assert house.sink.depth == 0
    await house.stop()
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    (entry,) = store.entries(0, store.last_segment())
    assert [file.rows for file in entry.files] == [3 * ROWS]
    assert entry.checkpoint == append(3).checkpoint


async def test_what_comes_behind_an_alteration_begins_a_segment(store: GatedStore) -> None:
    house = House(store, LATE)
    altered = Altered(5, Alteration(ITEMS, "ALTER TABLE", ColumnChanges(dropped=("note",))))
    store.gate.clear()
    await house.put(append(1), append(2), replace(moved(2), alterations=(altered,)), append(3))
    await arrived(store)
    store.gate.set()
    await house.stop()
    first, second = store.entries(0, 2)
    assert [file.rows for file in first.files] == [2 * ROWS]
    assert (first.alterations, second.alterations) == ((), (altered,))
    assert [file.rows for file in second.files] == [ROWS]


async def test_a_clean_stop_seals_a_position_as_well(store: GatedStore) -> None:
    house = House(store, LATE)
    await house.put(moved(1))
    await house.stop()
    assert [entry.checkpoint for entry in store.entries(0, 1)] == [moved(1).checkpoint]


async def test_a_stop_with_nothing_to_seal_seals_nothing(store: GatedStore) -> None:
    await House(store, LATE).stop()
    assert store.last_segment() == 0


async def test_a_full_segment_is_sealed_at_once(store: GatedStore) -> None:
    house = House(store, EACH)
    await house.put(append(1))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    await house.stop()


async def test_a_slow_disk_holds_up_the_appends_and_loses_none(store: GatedStore) -> None:
    store.gate.clear()
    house = House(store, EACH)
    await house.put(append(1))
    await arrived(store)
    # One is being sealed, one waits, and one is in the hand; the mailbox takes as many as its edge allows.
    await house.put(append(2), append(3))
    await settle()
    await house.put(*(append(number) for number in range(4, 4 + APPENDS.bound)))
    await settle()
    assert not house.mailbox.has_room(APPENDS)
    one_more = asyncio.create_task(house.put(append(4 + APPENDS.bound)))
    await settle()
    assert not one_more.done()
    store.gate.set()
    await one_more
    await house.stop()
    assert ids(store) == list(range(ROWS, (5 + APPENDS.bound) * ROWS))
    assert store.last_segment() == 4 + APPENDS.bound


async def test_the_next_segment_fills_while_one_is_being_sealed(store: GatedStore) -> None:
    store.gate.clear()
    house = House(store, SOON)
    await house.put(append(1))
    await arrived(store)
    await house.put(append(2), append(3))
    await settle()
    assert house.mailbox.depth == 0
    assert house.sink.depth == 0
    store.gate.set()
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    assert await house.sink.get() == journal_messages.SegmentSealed(2)
    await house.stop()
    assert [file.rows for entry in store.entries(0, 2) for file in entry.files] == [ROWS, 2 * ROWS]


async def test_a_transaction_larger_than_a_segment_is_written_before_its_end_and_seen_after_it(
    store: GatedStore,
) -> None:
    house = House(store, EACH)
    await house.put(append(1))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    for begin in range(0, 8, 2):
        await house.put(journal_messages.AppendRows((part(2, begin, begin + 2),)))
        await until(partial(has_unnamed, store, begin // 2 + 1), "a file more")
        await until(partial(rests, house), "the thread has ended")
        assert house.writer.status()["unfinished_bytes"] == 0
    assert ids(store) == list(range(ROWS, 2 * ROWS))
    assert house.sink.depth == 0
    await house.put(journal_messages.Append((part(2, 8, 10),), moved(2).checkpoint))
    assert await house.sink.get() == journal_messages.SegmentSealed(2)
    assert ids(store) == list(range(ROWS, 3 * ROWS))
    assert [file.rows for file in store.entry(2).files] == [2, 2, 2, 2, 2]
    assert store.entry(2).transactions == 1
    assert house.writer.status()["ahead_bytes"] == 0
    await house.stop()


async def test_a_transaction_whose_end_does_not_come_leaves_nothing(store: GatedStore) -> None:
    house = House(store, EACH)
    await house.put(append(1), journal_messages.AppendRows((part(2, 0, 5),)))
    await until(partial(has_unnamed, store), "a file that no entry names")
    await house.put(journal_messages.AppendRows((part(2, 5, 7),)))
    await house.stop()
    assert ids(store) == list(range(ROWS, 2 * ROWS))
    again = House(store, EACH)
    assert unnamed(store) == []
    await again.put(append(2))
    await again.stop()
    assert ids(store) == list(range(ROWS, 3 * ROWS))


async def test_what_is_whole_is_sealed_before_rows_are_written_ahead(store: GatedStore) -> None:
    house = House(store, replace(LATE, seal_mib=1))
    await house.put(append(1), journal_messages.AppendRows((part(2, 0, 5),)))
    await settle()
    assert house.sink.depth == 0
    await house.put(journal_messages.AppendRows((part(2, 5, 100_000),)))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    await until(partial(has_unnamed, store), "a file that no entry names")
    await house.put(journal_messages.Append((part(2, 100_000, 100_003),), moved(2).checkpoint))
    await house.stop()
    assert [[file.rows for file in store.entry(segment).files] for segment in (1, 2)] == [
        [ROWS],
        [100_000, 3],
    ]
    assert ids(store) == list(range(ROWS, 2 * ROWS + 100_003))


async def test_rows_are_not_taken_faster_than_they_can_be_written(store: GatedStore) -> None:
    store.gate.clear()
    house = House(store, EACH)
    await house.put(append(1))
    await arrived(store)
    parts = [journal_messages.AppendRows((part(2, at, at + 1),)) for at in range(2 + APPENDS.bound)]
    await house.put(*parts[:2])
    await settle()
    await house.put(*parts[2:])
    await settle()
    # One is being sealed, one is kept, one is in the hand; the next ones wait.
    assert house.writer.status()["unfinished_bytes"] > 0
    assert not house.mailbox.has_room(APPENDS)
    assert has_unnamed(store)  # that of the segment which is being sealed
    store.gate.set()
    await house.put(journal_messages.Append((), moved(2).checkpoint))
    await house.stop()
    assert ids(store) == list(range(ROWS, 2 * ROWS + len(parts)))


async def test_a_large_chunk_is_written_while_its_segment_fills_and_seen_when_that_is_sealed(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AHEAD", 1)
    house = House(store, LATE)
    for number in (1, 2):
        await house.put(append(number, chunk=True))
        await until(partial(has_unnamed, store, 2 * number), "a file of the chunk, and one of the changes")
        await until(partial(rests, house), "the thread has ended")
        assert await house.chunks.get() == journal_messages.ChunksFlushed(0)
    assert house.sink.depth == 0
    await house.stop()
    (entry,) = store.entries(0, store.last_segment())
    assert [(file.kind, file.rows) for file in entry.files] == [
        *[(FileKind.CHANGES, ROWS)] * 2,
        *[(FileKind.ROWS, ROWS)] * 2,
    ]
    assert [(sealed.chunk.number, sealed.rows) for sealed in entry.chunks] == [(1, ROWS), (2, ROWS)]
    assert (entry.transactions, entry.checkpoint) == (2 * ROWS, append(2).checkpoint)
    assert sorted(ids(store)) == sorted(2 * [*range(ROWS, 3 * ROWS)])


async def test_a_chunk_that_is_written_before_its_mirror_begins_anew_is_left_out(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AHEAD", 1)
    house = House(store, LATE)
    await house.put(append(1, chunk=True))
    await until(partial(has_unnamed, store, 2), "a file of the chunk, and one of the changes")
    anew: dict[TableId, Mirror] = {ITEMS.table: Filling(append(1).checkpoint.scn)}
    await house.put(journal_messages.Append((), replace(moved(2).checkpoint, mirrors=anew)))
    await house.stop()
    assert [file.kind for file in store.entry(1).files] == [FileKind.CHANGES]
    assert store.entry(1).chunks == ()
    assert len(list((store.directory / "segments").glob("*/*"))) == 1


async def test_a_table_that_is_withdrawn_has_no_file_of_the_transaction(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "POSITION_INTERVAL_S", 0.01)
    house = House(store, EACH)
    other = replace(ITEMS, table=TableId("shop", "others"))
    await house.put(journal_messages.AppendRows((part(1, 0, 5), part(1, 0, 5, other))))
    await until(partial(has_unnamed, store, 2), "two files that no entry names")
    await house.put(
        journal_messages.Append((part(1, 5, 10),), moved(1).checkpoint, withdrawn=frozenset({other.table}))
    )
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    assert ids(store) == list(range(ROWS, 2 * ROWS))
    assert {file.table for file in store.entry(1).files} == {ITEMS.table}
    assert len(list((store.directory / "segments").glob("*/*"))) == len(store.entry(1).files)
    await house.put(journal_messages.AppendRows((part(2, 0, 5),)))
    await until(partial(has_unnamed, store), "a file that no entry names")
    await house.put(journal_messages.Append((), moved(2).checkpoint, withdrawn=frozenset({ITEMS.table})))
    assert await house.sink.get() == journal_messages.SegmentSealed(2)
    assert store.entry(2).files == ()
    assert unnamed(store) == []
    await house.stop()


async def test_answers_are_given_when_they_are_durable(store: GatedStore) -> None:
    store.gate.clear()
    house = House(store, SOON)
    answers = (SignalAccepted("a", "begun"), SignalRejected("b", "no such table"))
    await house.put(moved(1, answers[:1]), moved(2, answers[1:]))
    await arrived(store)
    await settle()
    assert house.listener.depth == 0
    store.gate.set()
    told = [await house.listener.get()]
    while journal_messages.CheckpointSealed(moved(2).checkpoint, ()) not in told:
        told.append(await house.listener.get())
    assert [one for one in told if not isinstance(one, journal_messages.CheckpointSealed)] == list(answers)
    await house.stop()


@pytest.mark.parametrize(
    "wanted", [{"moving": Moving("m1", gtids("a:1-9"))}, {"recapturing": {ORDERS.table: "m1"}}]
)
async def test_what_only_a_start_can_do_ends_the_writer_once_it_is_durable_and_answered(
    store: GatedStore, wanted: dict[str, Any]
) -> None:
    house = House(store, SOON)
    accepted = SignalAccepted("m1", "capture goes on elsewhere")
    asked = moved(1, (accepted,))
    checkpoint = replace(asked.checkpoint, **wanted)
    await house.put(replace(asked, checkpoint=checkpoint))
    with pytest.raises(StartAgain, match="only a start of capture can do"):
        await house.task
    assert await house.listener.get() == accepted
    last = store.recover()
    assert last is not None
    assert last.checkpoint == checkpoint


async def test_how_rows_of_the_signal_table_were_judged_is_told_with_the_checkpoint(
    store: GatedStore,
) -> None:
    house = House(store, SOON)
    row = SignalState("r1", Outcome.REJECTED, "no such table")
    await house.put(moved(1, (SignalAccepted("a", "begun"), row)))
    assert await house.listener.get() == SignalAccepted("a", "begun")
    assert await house.listener.get() == journal_messages.CheckpointSealed(moved(1).checkpoint, (row,))
    await house.stop()


async def test_of_checkpoints_that_nobody_has_taken_the_newest_is_kept(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "POSITION_INTERVAL_S", 0.01)
    house = House(store, SOON)
    for number in (1, 2, 3):
        await house.put(moved(number))
        assert await house.sink.get() == journal_messages.SegmentSealed(number)
    assert house.listener.depth == 1
    assert await house.listener.get() == journal_messages.CheckpointSealed(moved(3).checkpoint, ())
    await house.stop()


async def test_a_cancellation_ends_when_no_file_changes_any_more(store: GatedStore) -> None:
    store.gate.clear()
    house = House(store, SOON)
    await house.put(append(1))
    await arrived(store)
    await house.put(append(2))
    house.task.cancel()
    await settle()
    assert not house.task.done()
    store.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await house.task
    # The segment under way is there, nothing reported it, and what waited is gone.
    assert house.sink.depth == 0
    assert ids(store) == list(range(ROWS, 2 * ROWS))


async def test_a_failure_is_raised_and_the_next_writer_goes_on(store: GatedStore) -> None:
    house = House(store, SOON)
    await house.put(append(1))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    in_the_way = entry_of(store, 2)
    in_the_way.mkdir()
    await house.put(append(2))
    with pytest.raises(Transient, match="Is a directory"):
        await house.task
    assert house.sink.depth == 0
    in_the_way.rmdir()
    again = House(store, SOON)
    await again.put(append(2))
    assert await again.sink.get() == journal_messages.SegmentSealed(2)
    await again.stop()
    assert ids(store) == list(range(ROWS, 3 * ROWS))
    first, second = store.entries(0, 2)
    assert (second.first_scn, second.last_scn) == (first.last_scn + 1, first.last_scn + ROWS)


async def test_what_there_is_no_room_for_waits_and_the_coordinator_is_told(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "PUBLISH_AGAIN_S", 0.01)
    house = House(store, SOON)
    await house.put(append(1))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    # Its files are kept already when there's no room for the entry, once.
    entry_of(store, 2).symlink_to("/dev/full")
    store.gate.clear()
    await house.put(append(2))
    await arrived(store)
    await house.put(append(3))
    await settle()
    store.gate.set()
    ended = await house.coordinator.get()
    assert isinstance(ended, journal_messages.JournalFull)
    assert "no room was left for the journal" in ended.reason
    assert await house.coordinator.get() == journal_messages.JournalHasSpace()
    await house.stop()
    assert house.metrics.value(catalogue.JOURNAL_FULL) == 0
    assert ids(store) == list(range(ROWS, 4 * ROWS))
    assert unnamed(store) == []


async def test_a_stop_does_not_wait_for_room(store: GatedStore) -> None:
    house = House(store, LATE)
    await house.put(append(1))
    entry_of(store, 1).symlink_to("/dev/full")
    with pytest.raises(NoRoom):
        await house.stop()
    assert store.recover() is None


async def test_capture_waits_at_the_quota_until_the_slowest_consumer_has_got_on(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "PUBLISH_AGAIN_S", 0.01)
    store.consumers.record_progress("lake", 0)
    store.consumers.record_progress("other", 1)
    house = House(store, replace(SOON, keep_mib=0, quota_mib=1))
    for number in range(1, 4):
        await house.put(scattered(number, rows=60_000))
        assert await house.sink.get() == journal_messages.SegmentSealed(number)
    ended = await house.coordinator.get()
    assert isinstance(ended, journal_messages.JournalFull)
    assert "journal.quota_mib" in ended.reason
    assert "'lake'" in ended.reason
    status = house.writer.status()
    assert (status["no_room"], status["no_room_since"] > 0) == (ended.reason, True)
    assert house.metrics.value(catalogue.JOURNAL_FULL) == 1
    assert house.metrics.value(catalogue.JOURNAL_QUOTA) == 1 << 20
    behind = {
        name: house.metrics.value(catalogue.CONSUMER_BEHIND, consumer=name) for name in ("lake", "other")
    }
    assert behind == {"lake": 3, "other": 2}
    # What's on its way is journalled still.
    await house.put(append(4))
    assert await house.sink.get() == journal_messages.SegmentSealed(4)
    store.consumers.record_progress("lake", 4)
    store.consumers.record_progress("other", 4)
    assert await house.coordinator.get() == journal_messages.JournalHasSpace()
    status = house.writer.status()
    assert (status["no_room"], status["no_room_since"]) == (None, None)
    assert status["bytes"] == stored(store, 4)
    await house.stop()


async def test_a_full_journal_that_no_consumer_holds_up_stops_nobody(store: GatedStore) -> None:
    house = House(store, replace(SOON, quota_mib=1))
    for number in range(1, 4):
        await house.put(scattered(number, rows=60_000))
        assert await house.sink.get() == journal_messages.SegmentSealed(number)
    await house.stop()
    assert house.coordinator.depth == 0


async def test_a_seal_that_takes_too_long_is_hanging(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.gate.clear()
    house = House(store, SOON)
    assert not house.writer.hung()
    await house.put(append(1))
    await arrived(store)
    monkeypatch.setattr(JournalWriter, "patience", 0.01)
    await until(house.writer.hung, "it's found")
    store.gate.set()
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    await until(lambda: not house.writer.hung(), "it's at rest again")
    await house.stop()


async def test_a_seal_of_very_many_bytes_may_take_longer(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row alone can have so many, and slow storage takes as long for it each time that it begins again."""
    one = append(1)
    monkeypatch.setattr(actor, "PATIENCE_BYTES", sum(map(of_part, one.parts)) / 10)
    store.gate.clear()
    house = House(store, SOON)
    await house.put(one)
    await arrived(store)
    now = house.writer.now
    monkeypatch.setattr(house.writer, "now", lambda: now() + 9 * JournalWriter.patience)
    assert not house.writer.hung()
    monkeypatch.setattr(house.writer, "now", lambda: now() + 10 * JournalWriter.patience)
    assert house.writer.hung() == "its thread was at one piece of work for more than 120 s"
    monkeypatch.undo()
    store.gate.set()
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    await house.stop()


async def test_metrics_and_status(store: GatedStore) -> None:
    house = House(store, SOON)
    assert house.writer.status()["segment"] == 0
    await house.put(append(1, chunk=True))
    assert await house.sink.get() == journal_messages.SegmentSealed(1)
    (entry,) = store.entries(0, 1)
    size = sum(file.bytes for file in entry.files)
    table = str(ITEMS.table)
    read = house.metrics.value
    assert read(catalogue.SEGMENTS_SEALED) == 1
    assert read(catalogue.JOURNAL_WRITTEN) == size
    there = [file for name in ("segments", "manifest") for file in (store.directory / name).rglob("*.*")]
    assert read(catalogue.JOURNAL_FILES) == len(there) == 3
    size = stored(store, 1)
    assert read(catalogue.JOURNAL_SIZE) == size
    assert read(catalogue.JOURNAL_ROWS, table=table, part="changes") == ROWS
    assert read(catalogue.JOURNAL_ROWS, table=table, part="chunks") == ROWS
    sample = house.metrics.registry.get_sample_value
    assert sample(f"{catalogue.SEALING.name}_count") == 1
    assert read(catalogue.SEALED_SEGMENT) == entry.segment
    assert read(catalogue.SEALED_COMMIT) == COMMIT_TIME / 1e6
    assert sample(f"{catalogue.COMMIT_TO_JOURNAL.name}_sum") == (entry.sealed_at - COMMIT_TIME) / 1e6
    status = house.writer.status()
    assert (status["segment"], status["bytes"]) == (1, size)
    assert status["position"] == str(append(1).checkpoint.position)
    await house.stop()
