"""A journal on a filesystem of a few MiB, of which others have most.

    python -m tests.actors.full_disk DIRECTORY            all of it, with a filesystem of its own at DIRECTORY
    python -m tests.actors.full_disk DIRECTORY killed     writes until there's no room, and is killed then
    python -m tests.actors.full_disk DIRECTORY goes-on    writes on, until there's no room, and until there's room again

To be run where mounting is allowed: in a user and mount namespace of its own, which takes the filesystem with it.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalStore
from pipeline.config.settings import JournalSettings
from pipeline.journal import step
from pipeline.messages.journal import JournalFull, JournalHasSpace, SegmentSealed
from tests.actors.journal_house import House
from tests.actors.segments import ROWS, scattered
from tests.servers.awaiting import until

SIZE_MIB = 8
OTHERS_MIB = 5
APPENDS = 30  # of 160 KB each: more than there's room for beside the others
APPEND_ROWS = 20_000
RESERVED = 1 << 20
SETTINGS = JournalSettings("journal", seal_after_ms=1, seal_mib=1)


def main(directory: Path) -> None:
    """Fills the disk, is killed, continues."""
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(directory)],
        check=True,
    )
    (directory / "others").write_bytes(bytes(OTHERS_MIB << 20))
    again = [sys.executable, "-m", "tests.actors.full_disk", str(directory)]
    asyncio.run(need_reserve(directory))
    asyncio.run(make_room(directory))
    killed = subprocess.run([*again, "killed"], check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    subprocess.run([*again, "goes-on"], check=True)


def free(directory: Path) -> int:
    """The bytes that are free."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def take_all(others: Path) -> None:
    """Leave no block of the filesystem free."""
    others.write_bytes(bytes(free(others.parent)))
    assert free(others.parent) == 0


async def reserved(journal: Path) -> None:
    """Until the journal has its reserve."""
    reserve = journal / "reserve"
    await until(lambda: reserve.exists() and reserve.stat().st_size == RESERVED, "the reserve is there")


async def need_reserve(directory: Path) -> None:
    """Others take all the room but the reserve: consumers get on by it, and a next writer can begin."""
    journal, others = directory / "reserving", directory / "more"
    store = JournalStore.open_single_writer(journal, "test")
    store.recover()
    house = House(store, SETTINGS)
    await house.put(scattered(1, 1))
    assert await house.sink.get() == SegmentSealed(1)
    await reserved(journal)
    take_all(others)
    with pytest.raises(OSError, match="No space left"):
        store.consumers.record_progress("lake", 0)
    await house.put(scattered(2, APPEND_ROWS))
    assert isinstance(await house.coordinator.get(), JournalFull)
    store.consumers.record_progress("lake", 1)
    others.unlink()
    assert await house.coordinator.get() == JournalHasSpace()
    assert await house.sink.get() == SegmentSealed(2)
    await reserved(journal)
    take_all(others)
    await house.stop()
    store.close()
    again = JournalStore.open_single_writer(journal, "test")
    last = again.recover()
    assert last is not None
    assert last.segment == 2
    again.close()
    others.unlink()
    shutil.rmtree(journal)


async def make_room(directory: Path) -> None:
    """A consumer has all that is sealed: that goes, however young it is, and the others needn't make room."""
    journal = directory / "delivered"
    store = JournalStore.open_single_writer(journal, "test")
    store.recover()
    house = House(store, SETTINGS)
    for number in range(1, APPENDS + 1):
        await house.put(scattered(number, APPEND_ROWS))
        while (await house.sink.get()).segment < number:
            pass
        store.consumers.record_progress("lake", number)
    last = store.last_entry()
    assert last is not None
    assert (last.segment, last.checkpoint) == (APPENDS, scattered(APPENDS, 1).checkpoint)
    # More than a few are kept, since no more has gone than had to.
    assert 1 < store.consumers.first() < APPENDS - 5
    await reserved(journal)
    await house.stop()
    store.close()
    shutil.rmtree(journal)


async def until_no_room(directory: Path) -> tuple[House, asyncio.Task[None]]:
    """Runs a writer with more messages than there's room for, and senders that continue to send."""
    store = JournalStore.open_single_writer(directory / "journal", "test")
    last = store.recover()
    begun = last.checkpoint.scn // ROWS if last else 1
    store.consumers.record_progress("lake", 0)  # else what it lacks would go
    house = House(store, SETTINGS)
    if begun == 1:
        await house.put(scattered(begun, APPEND_ROWS))
        assert await house.sink.get() == SegmentSealed(begun)
        begun += 1
    telling = asyncio.create_task(house.put(*(scattered(n, APPEND_ROWS) for n in range(begun, APPENDS + 1))))
    ended = await house.coordinator.get()
    assert isinstance(ended, JournalFull), ended
    assert "no room was left" in ended.reason, ended
    return house, telling


async def fill(directory: Path) -> None:
    """Writes until there's no room, and looks at what exists then."""
    house, telling = await until_no_room(directory)
    telling.cancel()
    assert house.store.last_segment() >= 1
    os.kill(os.getpid(), signal.SIGKILL)


async def go_on(directory: Path) -> None:
    """Write until there's no room again; then the others make some."""
    house, telling = await until_no_room(directory)
    assert not house.writer.hung()
    # A consumer can say where it is, though there's no room for anything else.
    house.store.consumers.record_progress("lake", 1)
    (directory / "others").unlink()
    assert await house.coordinator.get() == JournalHasSpace()
    await telling
    await house.stop()
    store = house.store
    entries = list(store.entries(0, store.last_segment()))
    assert [chunk.chunk.number for entry in entries for chunk in entry.chunks] == list(range(1, APPENDS + 1))
    rows = [
        number
        for entry in entries
        for file in entry.files
        for number in pq.read_table(store.path(entry, file)).column("id").to_pylist()
    ]
    expected = [scattered(n, APPEND_ROWS).parts[0] for n in range(1, APPENDS + 1)]
    assert rows == [number for part in expected for number in part.rows.column("id").to_pylist()]  # type: ignore[union-attr]
    assert not list((directory / "journal").rglob("*.tmp"))


if __name__ == "__main__":
    pytest.MonkeyPatch().setattr(step, "PUBLISH_AGAIN_S", 0.05)  # it looks for room so often
    match sys.argv[2:]:
        case ["killed"]:
            asyncio.run(fill(Path(sys.argv[1])))
        case ["goes-on"]:
            asyncio.run(go_on(Path(sys.argv[1])))
        case _:
            main(Path(sys.argv[1]))
