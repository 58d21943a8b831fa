"""A lake that's down for long: capture goes on to the journal's quota, waits in bounded memory, and catches up."""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from actors.journal.store import JournalReader
from tests.chaos.nemesis import Snapshots
from tests.chaos.world import World, world
from tests.servers.journal_oracle import unequal, untrue
from tests.servers.lasting_writer import writing
from tests.servers.shop import TABLES

DOWN_S: Final = float(os.environ.get("CHAOS_DOWN_S", "600"))
TRANSACTIONS_PER_S: Final = 200.0
SETTINGS: Final = {"JOURNAL__KEEP_MIB": "0", "JOURNAL__KEEP_HOURS": "0", "JOURNAL__QUOTA_MIB": "8"}
# What the process may have grown by while it waited, and by what the journal may be larger than its quota.
GROWN_MIB: Final = 48
BEYOND_MIB: Final = 4


class Lake:
    """In the lake's place: keeps a copy of each segment, when it's up."""

    def __init__(self, there: World) -> None:
        self.copy = there.folder / "copy"
        self._journal = there.house / "journal"
        self._reader = JournalReader(self._journal)
        self._taken = 0
        self._reader.consumers.record_progress("lake", self._taken)

    def take(self) -> None:
        """What's there by now; then it may go."""
        last = self._reader.last_segment()
        shutil.copytree(
            self._journal, self.copy, dirs_exist_ok=True, copy_function=_once, ignore=self._ignored
        )
        self._taken = last
        self._reader.consumers.record_progress("lake", self._taken)

    def _ignored(self, folder: str, names: list[str]) -> list[str]:
        """What has been taken: it may go at any moment."""
        if Path(folder).name not in ("segments", "manifest"):
            return []
        return [name for name in names if int(name.partition("-")[0]) <= self._taken]


def _once(source: str, target: str) -> None:
    if not Path(target).exists() and not source.endswith(".tmp"):
        shutil.copy2(source, target)


def _mib(there: World) -> float:
    """Of the service's process, in memory."""
    [line] = [
        line
        for line in Path(f"/proc/{there.service.pid}/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


def _full(there: World) -> bool:
    return "quota" in (there.status().get("no_room") or "")


@pytest.mark.full
def test_a_lake_that_is_down_for_long(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    with world(tmp_path, lake=False, settings=SETTINGS) as there:
        there.service.start()
        lake, snapshots = Lake(there), Snapshots(there)
        with writing(there.address, TRANSACTIONS_PER_S) as tally:
            there.meanwhile.append(snapshots.look)
            there.wait(lambda: _full(there), "the quota is reached")
            waits = _mib(there)
            there.pass_time(DOWN_S / 2)  # what's under way still comes
            position = there.reached()
            there.pass_time(DOWN_S / 2)
            assert _full(there)
            assert there.reached() == position
            assert _mib(there) < waits + GROWN_MIB
            journal = sum(file.stat().st_size for file in (there.house / "journal").rglob("*.parquet"))
            assert journal < (int(SETTINGS["JOURNAL__QUOTA_MIB"]) + BEYOND_MIB) << 20
            there.meanwhile.append(lake.take)
            ended = sum(snapshots.ended.values())
            there.wait(lambda: sum(snapshots.ended.values()) > ended, "a snapshot's end")
            there.meanwhile.remove(snapshots.look)
        there.caught_up()
        assert snapshots.ended["completed"]
        assert there.service.stop() == 0
        lake.take()
        assert unequal(there.source, lake.copy, *TABLES) == []
        assert untrue(lake.copy, tally, *TABLES) == []
