"""A SparkSink on a journal that somebody else writes, killed where that one says.

Each line of standard input is a life: which victims are to be killed, and where, and the workers of Spark's cluster if
it has one. Each is answered by a line: what of that wasn't come to, and of a cluster what's read on it in the end.
Nothing answers for a process that was killed. What's planted is broken on purpose, to show that it's noticed.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from actors.journal.store import JournalReader
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.files.file_placement import LakeFiles
from actors.lake.lake import Lake
from actors.lake.live_view import live_view
from actors.lake.spark.spark_session import Spark
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.spark_sink import SparkSink
from deploy.toolchain.parts import locate
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.errors import Transient
from pipeline.lake import batch
from pipeline.lake.background.turns import completable_tables, mergeable_tables
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Trim
from pipeline.messages.inboxes import ToSparkSink
from pipeline.messages.topology import ActorName, inbox
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.chaos.delivery_steps import Deed, watch
from tests.chaos.hurried import hurry
from tests.servers.sink import sink_ports
from tests.servers.spark_cluster import children

LOOK_EVERY_S: Final = 0.02
# So many segments a batch has at most, so that there's more than one.
BATCH_SEGMENTS: Final = 2
# How long a step of maintenance is waited for once all the rest is done.
COME_TO_WITHIN_S: Final = 40.0
# What's due all the time would take it all.
DUE_AGAIN_S: Final = 3.0
# How long (s) a swap rests that met a change of its table's columns.
RESTS_S: Final = 1.0
# Of this table the changelog is only the mirror's inbox, where tables are maintained.
TRIMMED: Final = "customers"


class Victim(StrEnum):
    """Who's killed."""

    PROCESS = "process"
    JVM = "jvm"
    EXECUTOR = "executor"
    WORKER = "worker"


class Planted(StrEnum):
    """What's broken."""

    NO_MARK = "a commit without its mark"
    MARK_FIRST = "a mark that's committed before the files"
    RANDOM_NAME = "files placed under random names"
    TRIMMED_TOO_FAR = "changes trimmed that no mirror has merged"


@dataclass
class House:
    """The journal, the lake and Spark's settings; the sink of the present life, and who's to be killed in it.

    `maintained`: whether the tables are. `workers`: the processes of the cluster's workers. `killed`: whether the JVM
    was. `programs` that executors have begun, and the live `views` that were read, by the names of their tables.
    """

    journal: JournalReader
    lake: LakeSettings
    spark: SparkSettings
    maintained: bool
    workers: tuple[int, ...] = ()
    sink: SparkSink | None = None
    kills: list[list[Any]] = field(default_factory=list)
    killed: bool = False
    programs: list[int] = field(default_factory=list)
    views: dict[str, list[Any]] = field(default_factory=dict)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def awaits(self, step: str) -> bool:
        """Whether somebody is to be killed there."""
        return any(kill[1] == step for kill in list(self.kills))

    def come_to(self, step: str) -> Deed | None:
        """Count the steps since Spark is up; what's to be done at this one."""
        if self.sink is None or self.sink._up is None:
            return None
        with self.counting:
            for kill in list(self.kills):
                if kill[1] == step:
                    kill[2] -= 1
                    if kill[2] == 0:
                        return partial(self.kill, kill)
        return None

    def kill(self, kill: list[Any]) -> None:
        """By SIGKILL."""
        self.kills.remove(kill)
        match Victim(kill[0]):
            case Victim.PROCESS:
                os.kill(os.getpid(), signal.SIGKILL)
            case Victim.JVM:
                assert self.sink is not None
                assert self.sink._up is not None
                assert isinstance(self.sink._up.spark, Spark)
                self.killed = True
                os.kill(self.sink._up.spark.pid, signal.SIGKILL)
            case Victim.EXECUTOR:
                # Where it's the second one within a moment, the first one's successor may have to be waited for.
                while not any(map(killed, (pid for worker in self.workers for pid in children(worker)))):
                    time.sleep(LOOK_EVERY_S)
            case Victim.WORKER:
                os.kill(self.workers[0], signal.SIGKILL)

    async def live(self, kills: list[list[Any]]) -> None:
        """Deliver and merge all that there is, unless the JVM is killed on the way."""
        self.kills, self.killed = kills, False
        while True:
            try:
                return await self._live()
            except Transient:
                if self.killed:
                    return None
                # The JVM of the process that was killed hasn't ended yet, or too many executors were lost.
                await asyncio.sleep(LOOK_EVERY_S)

    async def _live(self) -> None:
        mailbox: Mailbox[ToSparkSink] = Mailbox(inbox(ActorName.SPARK_SINK))
        coordinator: Mailbox[Any] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        self.sink = sink = SparkSink(
            mailbox, Metrics(), self.lake, self.spark, self.journal, sink_ports(coordinator), lambda _: None
        )
        last = self.journal.last_segment()
        running = asyncio.create_task(sink.run())
        while not running.done() and not (sink._state.so_far.segment == last and merged(sink)):
            await asyncio.wait({running}, timeout=LOOK_EVERY_S)
        # Batches, swaps and merges have nothing left to do; maintenance is due again and again.
        deadline = time.monotonic() + COME_TO_WITHIN_S
        while self.maintained and not running.done() and self.kills and time.monotonic() < deadline:
            await asyncio.wait({running}, timeout=LOOK_EVERY_S)
        if self.workers and not running.done():
            await asyncio.to_thread(self._read, sink)
        mailbox.close()
        await running

    def _read(self, sink: SparkSink) -> None:
        """Read the live views as a user of the cluster would."""
        assert sink._up is not None
        for table in sink._state.so_far.checkpoint.mirrors:
            view = live_view(sink._up.spark.session, self.lake.path, table)
            self.views[table.name] = view.toArrow().to_pylist()
        executors = (executor for worker in self.workers for executor in children(worker))
        self.programs = [program for executor in executors for program in children(executor)]


def killed(executor: int) -> bool:
    """Kill it, unless it has ended just now: its worker takes a moment to notice that."""
    try:
        os.kill(executor, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def merged(sink: SparkSink) -> bool:
    """Whether nothing is left to be completed or merged."""
    if sink._up is None:
        return False
    state = sink._state
    lake = replace(state.lake_tables, mirrors=state.so_far.checkpoint.mirrors)
    return not completable_tables(state.background, lake) and not mergeable_tables(state.background, lake)


def plant(fault: Planted) -> None:
    """Break the product."""
    append, placed, merge = DeltaTable.append, LakeFiles._place, Lake.merge

    def without_mark(table: DeltaTable, place: Any, _mark: str, *more: Any) -> int | None:
        return append(table, place, str(uuid.uuid4()), *more)

    def mark_first(table: DeltaTable, place: Any, mark: str, segments: range, *more: Any) -> int | None:
        if append(table, lambda *_: [], mark, segments, *more) is None:
            return None
        return append(table, place, str(uuid.uuid4()), segments, *more)

    def under_random_name(files: LakeFiles, lake: Any, folder: str, *more: Any) -> str:
        action = json.loads(placed(files, lake, folder, *more))
        name = f"{uuid.uuid4()}.parquet"
        Path(folder, action["add"]["path"]).rename(Path(folder, name))
        action["add"]["path"] = name
        return json.dumps(action)

    def trimmed_first(lake: Lake, table: TableId, *more: Any) -> None:
        if table.name == TRIMMED:
            lake.upkeep.trim(table, Trim(1 << 40, None))
        merge(lake, table, *more)

    match fault:
        case Planted.NO_MARK:
            DeltaTable.append = without_mark  # type: ignore[assignment, method-assign]
        case Planted.MARK_FIRST:
            DeltaTable.append = mark_first  # type: ignore[assignment, method-assign]
        case Planted.RANDOM_NAME:
            LakeFiles._place = under_random_name  # type: ignore[assignment, method-assign]
        case Planted.TRIMMED_TOO_FAR:
            Lake.merge = trimmed_first  # type: ignore[assignment, method-assign]


def main() -> None:
    """Live as often as there's a line. Answers are all that standard output has: the log goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    told = json.loads(sys.argv[1])
    batch.MOST_BATCH_SEGMENTS = BATCH_SEGMENTS
    maintenance.REST_S = RESTS_S  # type: ignore[misc]
    if told["planted"] is not None:
        plant(Planted(told["planted"]))
    lake = LakeSettings(
        told["lake"], merge_rows=1, merge_after_s=0, compact_files=0, drain_s=60.0, catalog="spark_catalog"
    )
    if told["maintained"]:
        inbox_only = LakeRule(TableFilter((rf"shop\.{TRIMMED}",)), Tiers.MIRROR)
        lake = replace(lake, compact_files=2, rules=(inbox_only,))
        hurry(DUE_AGAIN_S, DUE_AGAIN_S)
    spark = SparkSettings(told["master"], locate().jars, conf=told["conf"])
    house = House(JournalReader(told["journal"]), lake, spark, told["maintained"])
    watch(house.come_to, house.awaits)
    for line in sys.stdin:
        life = json.loads(line)
        house.workers = tuple(life["workers"])
        asyncio.run(house.live(life["kills"]))
        answer = {"left": house.kills, "programs": house.programs, "views": house.views}
        answers.write(f"{json.dumps(answer)}\n")
        answers.flush()


if __name__ == "__main__":
    main()
