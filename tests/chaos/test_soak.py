"""A month of a service, as fast as it can be: what grows with time has a bound, and the lake equals the source.

A month has 30 days. A source that changes once a minute makes 1,440 segments a day, 43,200 in all. Each day a statement
alters a table, a snapshot reads all tables, a verification compares all, and the source ends all connections, so that
capture starts again. Each week the service is killed. Everything is on: before-images, merges, compaction, trimming,
VACUUM, retention.

Time is compressed where it's only waited for. A segment is sealed each few milliseconds. What is done hourly comes
after seconds (`tests.chaos.hurried`). The journal keeps only what a consumer needs. At a day's end each file of a lake
table's log becomes ten days older, since a mirror's log is kept for thirty. Delta removes none of the present hour.

The service is killed early only, so that one process lives for two thirds of the time. `Growth` compares these two. The
short form has six days of 40 segments, one table and one verification. Its service isn't killed.
"""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from actors.lake.transaction_log.delta_log import LOG
from deploy.demo.service import Service, write_config
from deploy.demo.shop import DATABASE
from deploy.demo.writer import Thread
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.tables.maintenance import Chore
from pipeline.schema.table_schema import TableId
from tests.chaos.growth import GC_LOG, JAVA, Growth
from tests.chaos.hurried import SIGNALS, SNAPSHOTS
from tests.servers import spark
from tests.servers.lake_oracle import unequal_lake, untrue_lake
from tests.servers.shop import TABLES, writer_by_hand
from tests.servers.source import cut

# Of this one the lake keeps all changes. Of the others the changelog is only the mirror's inbox.
KEPT: Final = TableId(DATABASE, "orders")
RULES: Final = rf"""
[[lake.rules]]
tables = ["{KEPT.database}\\.{KEPT.name}"]
before_images = true

[[lake.rules]]
tables = ["{DATABASE}\\..*"]
tiers = "mirror"
"""
# What each seventh day's statement adds. Each other one gives a column another label. The writer knows of neither.
ADD: Final = "ADD COLUMN day_{day} INT INVISIBLE"

CHORES: Final = re.compile(r'^tidemark_maintenance_seconds_count{kind="(\w+)"} (\d+)', re.MULTILINE)

DAY_S: Final = 86_400
OLDER_BY_DAYS: Final = 10
# So many segments the lake may be late by before the writer waits.
MOST_WAITING: Final = 60
LOOK_EVERY_S: Final = 0.5
PAUSE_S: Final = 0.01
# How often Spark has garbage collected. It takes a third of a second.
COLLECT_EVERY_S: Final = 5
# For each thing that is waited for.
WITHIN_S: Final = 300.0


def labelled(verb: str, day: int) -> str:
    """The part of a statement that gives a table's column a label for each day up to this one."""
    labels = ", ".join(f"'of day {number}'" for number in range(day + 1))
    return f"{verb} COLUMN mood ENUM({labels}) NOT NULL DEFAULT 'of day 0' INVISIBLE"


@dataclass(frozen=True, slots=True)
class Month:
    """`kills` and `verified`: the days that begin with a kill of the service, and those with a verification.

    `every_s`: how often changelogs are trimmed.

    `settings`: the service's, by the names of their variables.
    """

    tables: tuple[TableId, ...]
    days: int
    segments_a_day: int
    kills: frozenset[int]
    every_s: int
    verified: frozenset[int]
    heap: str
    settings: Mapping[str, str]

    def third(self, day: int) -> int:
        """0, 1 or 2."""
        return 3 * day // self.days


MONTH: Final = Month(
    tables=TABLES,
    days=30,
    segments_a_day=1_440,
    kills=frozenset({2, 4, 6, 8}),
    every_s=10,
    verified=frozenset(range(30)),
    heap="1g",
    settings={"SNAPSHOT__CHUNK_ROWS": "200", "LAKE__MERGE_AFTER_S": "5", "LAKE__COMPACT_FILES": "200"},
)
SHORT: Final = Month(
    tables=(TableId(DATABASE, "customers"),),
    days=6,
    segments_a_day=40,
    kills=frozenset(),
    every_s=3,
    verified=frozenset({3}),
    heap="512m",
    settings={"SNAPSHOT__CHUNK_ROWS": "1000", "LAKE__MERGE_AFTER_S": "3", "LAKE__COMPACT_FILES": "40"},
)


@dataclass
class Soak:
    """A service that lives through a month, and who writes meanwhile."""

    month: Month
    service: Service
    server: MysqlServer
    writer: Thread
    folder: Path
    growth: Growth = field(init=False)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.growth = Growth(self.service, self.folder, {f"{KEPT.database}/{KEPT.name}/changelog"})

    def live(self) -> None:
        """All days, until the lake has everything."""
        self.service.start()
        self._tell("first", "execute-snapshot", ".*")
        self._until(0, 0, lambda: _completed(self.service.status(), "first"), "the first snapshot")
        executed = GtidSet.parse(self.server.executed())
        self._until(0, 0, lambda: _readable(self.service.status(), executed), "complete mirrors")
        for day in range(self.month.days):
            if day in self.month.kills:
                self.service.kill()
                self.service.start()
            self._day(day, self._segment() + self.month.segments_a_day)
        executed = GtidSet.parse(self.server.executed())
        self._until(
            self.month.days - 1, 0, lambda: _readable(self.service.status(), executed), "a lake with all"
        )
        assert self.service.stop() == 0, self.service.last_words()

    def _day(self, day: int, last: int) -> None:
        """Everything that a day brings, until segment `last`.

        Capture has passed the statement when the connections end. So it knows how the table was before each statement.
        The last day of each third that is compared ends when maintenance has been everywhere.
        """
        noon = last - self.month.segments_a_day // 2
        table = self.month.tables[day % len(self.month.tables)]
        self.server.sql(f"ALTER TABLE {table} {labelled('MODIFY', day) if day % 7 else ADD.format(day=day)}")
        self._tell(f"pause{day}", "pause-snapshot")
        self._tell(f"resume{day}", "resume-snapshot")
        self._tell(f"snapshot{day}", "execute-snapshot", ".*")
        self._until(day, noon, lambda: _completed(self.service.status(), f"snapshot{day}"), f"snapshot {day}")
        cut(self.server)
        self._until(day, last, lambda: True, f"day {day}")
        if day in self.month.verified:
            self._tell(f"verify{day}", "verify", ".*")
            self._until(day, last, lambda: self._is_equal(day), f"verification {day}")
        self._age()
        # All lines have their answers. Whoever writes the file empties it, and then the answers.
        for name in ("signals", "signals.answers"):
            (self.folder / name).write_text("")
        if 0 < self.month.third(day) < self.month.third(day + 1):
            before = self._chores()
            self._until(day, last, lambda: self._tidied(before), "maintenance")

    def _until(self, day: int, last: int, told: Callable[[], bool], what: str) -> None:
        """Write until segment `last`, and wait until it's so. Look now and then."""
        third = self.month.third(day)
        deadline = time.monotonic() + WITHIN_S
        while (
            (segment := self._segment()) < last
            or time.monotonic() < self._looked_at + LOOK_EVERY_S
            or not told()
        ):
            if segment < last and segment - self._delivered() < MOST_WAITING:
                self.writer.transaction()
                deadline = time.monotonic() + WITHIN_S
            if time.monotonic() > self._looked_at + LOOK_EVERY_S:
                self.growth.look(third)
                self._looked_at = time.monotonic()
            assert time.monotonic() < deadline, (
                f"{what}\n{self.service.status()}\n{self.service.last_words()}"
            )
            time.sleep(PAUSE_S)
        self.growth.look(third)
        self.growth.ask(third)

    def _tell(self, id_: str, kind: str, tables: str | None = None) -> None:
        data = {} if tables is None else {"data-collections": [tables]}
        with (self.folder / "signals").open("a") as file:
            file.write(json.dumps({"id": id_, "type": kind, "data": data}) + "\n")

    def _is_equal(self, day: int) -> bool:
        """Whether the day's verification has ended. It must have found everything equal."""
        tables = _tables(self.service.status(), f"verify{day}")
        verdicts = [table["result"] and table["result"]["verdict"] for table in tables]
        assert set(verdicts) <= {None, "equal"}, tables
        return bool(verdicts) and None not in verdicts

    def _chores(self) -> Counter[str]:
        """How often each kind of maintenance has been done since the service's start."""
        return Counter({kind: int(done) for kind, done in CHORES.findall(self.service.metrics())})

    def _tidied(self, before: Counter[str]) -> bool:
        """Whether each changelog has been trimmed since, and each lake table vacuumed. A TRIM may have begun before."""
        done, tables = self._chores() - before, len(self.month.tables)
        return done[Chore.TRIM] > tables and done[Chore.VACUUM] >= 2 * tables

    def _segment(self) -> int:
        """The last one that was sealed."""
        names = os.listdir(self.folder / "journal" / "manifest")  # noqa: PTH208 - it's asked all the time
        return max((int(name.partition("-")[0]) for name in names), default=0)

    def _delivered(self) -> int:
        """The last one that the lake has."""
        told = json.loads((self.folder / "journal" / "consumers" / "lake.json").read_text())
        return int(told["segment"])

    def _age(self) -> None:
        """Let the logs of all lake tables become older."""
        for parent, _, files in os.walk(self.folder / "lake"):
            if LOG not in Path(parent).parts:
                continue
            for file in files:
                with suppress(FileNotFoundError):
                    path = Path(parent, file)
                    moment = path.stat().st_mtime_ns - OLDER_BY_DAYS * DAY_S * 10**9
                    os.utime(path, ns=(moment, moment))


def _tables(status: dict[str, Any], id_: str) -> list[dict[str, Any]]:
    """The tables of a snapshot or a verification."""
    return [each for snapshot in status["snapshots"] if snapshot["id"] == id_ for each in snapshot["tables"]]


def _completed(status: dict[str, Any], id_: str) -> bool:
    states = [table["state"] for table in _tables(status, id_)]
    assert set(states) <= {"waiting", "chunking", "completed"}, states
    return bool(states) and set(states) == {"completed"}


def _readable(status: dict[str, Any], executed: GtidSet) -> bool:
    """Whether the live views show all that was executed."""
    return executed <= GtidSet.parse(status["delivered_position"] or "") and not status["rebuilding"]


@pytest.fixture
def shop(open_shop: MysqlServer) -> MysqlServer:
    """With a column in each table that statements may change, and the writer doesn't know."""
    for table in TABLES:
        open_shop.sql(f"ALTER TABLE {table} {labelled('ADD', 0)}")
    return open_shop


def configured(
    month: Month, server: MysqlServer, parts: Parts, folder: Path, patch: pytest.MonkeyPatch
) -> Path:
    """The demo's configuration, and everything else on."""
    conf = {} if month is MONTH else spark.quick()
    java = JAVA.format(heap=month.heap, log=folder / GC_LOG)
    # Spark removes the files of its shuffles once the JVM has collected what named them.
    conf["spark.cleaner.periodicGC.interval"] = f"{COLLECT_EVERY_S}s"
    conf[spark.JAVA_OPTIONS] = f"{conf.get(spark.JAVA_OPTIONS, '')} {java}".strip()
    for name, value in {
        "TABLES": json.dumps([re.escape(str(table)) for table in month.tables]),
        "JOURNAL__SEAL_AFTER_MS": "1",
        "JOURNAL__KEEP_HOURS": "0",
        "JOURNAL__KEEP_MIB": "0",
        "SIGNALS__FILE": str(folder / "signals"),
        "SPARK__DRIVER_MEMORY": month.heap,
        "SPARK__CONF": spark.toml(conf),
        **month.settings,
    }.items():
        patch.setenv(f"TIDEMARK__{name}", value)
    patch.setenv("JAVA_HOME", str(parts.java_home))
    config = folder / "tidemark.toml"
    write_config(config, server, server.create_capture_user(DATABASE), parts, folder)
    with config.open("a") as more:
        more.write(RULES)
    return config


@pytest.fixture(
    params=[
        pytest.param(month, id=name, marks=pytest.mark.full)
        for name, month in (("short", SHORT), ("month", MONTH))
    ]
)
def soak(
    request: pytest.FixtureRequest,
    shop: MysqlServer,
    parts: Parts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Soak]:
    month: Month = request.param
    config = configured(month, shop, parts, tmp_path, monkeypatch)
    program = ("-m", "tests.chaos.hurried", str(month.every_s))
    service = Service(config, tmp_path / "journal", tmp_path / "log", program)
    with writer_by_hand(shop) as writer:
        try:
            yield Soak(month, service, shop, writer, tmp_path)
        finally:
            service.kill()


def test_what_grows_has_a_bound_and_the_lake_equals_the_source(soak: Soak) -> None:
    soak.live()
    lake = str(soak.folder / "lake")
    assert unequal_lake(soak.server, lake, *soak.month.tables) == []
    kept = [table for table in soak.month.tables if table == KEPT]
    assert untrue_lake(soak.server, lake, soak.writer.tally, *kept) == []
    growth = soak.growth
    # What is remembered is full: so it would be seen if it had no bound.
    assert (growth.most("signals"), growth.most("states of signals")) == (SIGNALS, SIGNALS)
    assert growth.most("snapshots") > SNAPSHOTS
    assert growth.unbounded() == {}, growth.compared()
