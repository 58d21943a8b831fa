"""A SparkSink on a journal that somebody else writes, killed where that one says.

Each line of standard input is a life: which victims are to be killed, and where. Each is answered by a line: what of
that wasn't come to. Nothing answers for a process that was killed. What's planted is broken on purpose, to show that
it's noticed.
"""

import asyncio
import json
import os
import signal
import sys
import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from actors.actor import Outlet
from actors.delta import DeltaTable
from actors.journal_store import JournalReader
from actors.lake_files import LakeFiles
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.spark_sink import SparkSink
from deploy.toolchain.parts import locate
from pipeline import delivery
from pipeline.errors import Transient
from pipeline.messages import ToSparkSink
from pipeline.settings import LakeSettings, SparkSettings
from pipeline.topology import EDGES, Actor, inbox
from tests.chaos.delivery_steps import Deed, watch

LOOK_EVERY_S: Final = 0.02
(ASKING,) = (edge for edge in EDGES if edge.sender is Actor.SPARK_SINK)


class Victim(StrEnum):
    """Who's killed."""

    PROCESS = "process"
    JVM = "jvm"


class Planted(StrEnum):
    """What's broken."""

    NO_MARK = "a commit without its mark"
    MARK_FIRST = "a mark that's committed before the files"
    RANDOM_NAME = "files placed under random names"


@dataclass
class House:
    """The journal, the lake and Spark's settings; the sink of the present life, and who's to be killed in it."""

    journal: JournalReader
    lake: LakeSettings
    spark: SparkSettings
    sink: SparkSink | None = None
    kills: list[list[Any]] = field(default_factory=list)
    killed: bool = False

    def come_to(self, step: str) -> Deed | None:
        """Count the steps; what's to be done at this one."""
        for kill in self.kills:
            if kill[1] == step:
                kill[2] -= 1
                if kill[2] == 0:
                    self.kills.remove(kill)
                    return lambda: self.kill(Victim(kill[0]))
        return None

    def kill(self, victim: Victim) -> None:
        """By SIGKILL."""
        match victim:
            case Victim.PROCESS:
                os.kill(os.getpid(), signal.SIGKILL)
            case Victim.JVM:
                assert self.sink is not None
                assert self.sink._spark is not None
                self.killed = True
                os.kill(self.sink._spark.pid, signal.SIGKILL)

    async def live(self, kills: list[list[Any]]) -> None:
        """Deliver and merge all that there is, unless the JVM is killed on the way."""
        self.kills, self.killed = kills, False
        while True:
            try:
                return await self._live()
            except Transient:
                if self.killed:
                    return None
                await asyncio.sleep(LOOK_EVERY_S)  # the JVM of the process that was killed hasn't ended yet

    async def _live(self) -> None:
        mailbox: Mailbox[ToSparkSink] = Mailbox(inbox(Actor.SPARK_SINK))
        coordinator: Mailbox[Any] = Mailbox(inbox(Actor.WATERMARK_COORDINATOR))
        outlet = Outlet(ASKING, coordinator)
        self.sink = sink = SparkSink(mailbox, Metrics(), self.lake, self.spark, self.journal, outlet)
        last = self.journal.last_segment()
        running = asyncio.create_task(sink.run())
        while not running.done() and not (sink._segment == last and settled(sink)):
            await asyncio.wait({running}, timeout=LOOK_EVERY_S)
        mailbox.close()
        await running


def settled(sink: SparkSink) -> bool:
    """Whether nothing is left to be merged."""
    return sink._background is not None and sink._background.settled(sink._mirrors)


def plant(fault: Planted) -> None:
    """Break the product."""
    append, placed = DeltaTable.append, LakeFiles._placed

    def without_mark(table: DeltaTable, place: Any, _mark: str, *more: Any) -> int | None:
        return append(table, place, str(uuid.uuid4()), *more)

    def mark_first(table: DeltaTable, place: Any, mark: str, version: int, *more: Any) -> int | None:
        if append(table, lambda _: [], mark, version, *more) is None:
            return None
        return append(table, place, str(uuid.uuid4()), version, *more)

    def under_random_name(files: LakeFiles, lake: Any, folder: str, *more: Any) -> str:
        action = json.loads(placed(files, lake, folder, *more))
        name = f"{uuid.uuid4()}.parquet"
        Path(folder, action["add"]["path"]).rename(Path(folder, name))
        action["add"]["path"] = name
        return json.dumps(action)

    match fault:
        case Planted.NO_MARK:
            DeltaTable.append = without_mark  # type: ignore[assignment, method-assign]
        case Planted.MARK_FIRST:
            DeltaTable.append = mark_first  # type: ignore[assignment, method-assign]
        case Planted.RANDOM_NAME:
            LakeFiles._placed = under_random_name  # type: ignore[assignment, method-assign]


def main() -> None:
    """Live as often as there's a line."""
    told = json.loads(sys.argv[1])
    delivery.MOST_SEGMENTS = 2  # so that there's more than one batch
    if told["planted"] is not None:
        plant(Planted(told["planted"]))
    house = House(
        JournalReader(told["journal"]),
        LakeSettings(told["lake"], merge_rows=1, merge_after_s=0, catalog="spark_catalog"),
        SparkSettings("local[2]", locate().jars, conf=told["conf"]),
    )
    watch(house.come_to)
    for line in sys.stdin:
        asyncio.run(house.live(json.loads(line)))
        sys.stdout.write(f"{json.dumps(house.kills)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
