"""The demo's load with everything on, for ten minutes: memory, files, open descriptors and freshness stay as they are.

Everything: before-images, merges, compaction, trimming, VACUUM, retention of the journal, and a snapshot of all tables
now and then. What's judged begins when a third of the time is over, since until then tables fill and code is compiled.
`TIDEMARK_ENDURANCE_S` makes it last for as many seconds.
"""

import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from actors.lake import spark_session
from actors.lake.live_view import live_view
from deploy.demo.judge import KEYS, same_changes, same_rows
from deploy.demo.service import Service, write_config
from deploy.demo.shop import DATABASE
from deploy.demo.writer import save
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.tables import Tier, location
from pipeline.schema.table_schema import TableId
from tests.servers.mysql import MysqlFactory
from tests.servers.shop import stocked, writing

LASTS_S: Final = float(os.environ.get("TIDEMARK_ENDURANCE_S", "600"))
SNAPSHOTS: Final = 4
LOOK_EVERY_S: Final = 1.0
WITHIN_S: Final = 180.0
TRIMMED: Final = "customers"

# How much any of it may rise in a minute: resident memory of Python and the JVM's heap after its collections (MiB).
PYTHON_MIB: Final = 3.0
HEAP_MIB: Final = 6.0
# How many more files there may be in the last third than in the one before, and how much older may be what's read. What
# grows evenly from nothing is half as large again there, as to the most of it, and two thirds as to its median.
FILES: Final = 1.25
FILES_MORE: Final = 20
DESCRIPTORS: Final = 8
FRESHNESS: Final = 1.3
FRESHNESS_S: Final = 0.5

RULES: Final = rf"""
[[lake.rules]]
tables = ["{DATABASE}\\.orders"]
before_images = true

[[lake.rules]]
tables = ["{DATABASE}\\.{TRIMMED}"]
tiers = "mirror"

[spark.conf]
"spark.driver.extraJavaOptions" = "-Xlog:gc:file={{log}} -XX:InitiatingHeapOccupancyPercent=10 -XX:-G1UseAdaptiveIHOP"
"""
_COLLECTED: Final = re.compile(r"\[([\d.]+)s\].* \d+M->(\d+)M\(\d+M\)")


@dataclass(frozen=True, slots=True)
class Sample:
    """What it takes, so many seconds after the beginning."""

    at: float
    python_mib: float
    heap_mib: float
    lake_files: int
    journal_files: int
    descriptors: int
    freshness: float


class Watched:
    """A service, its folder and what's seen of both."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.began = time.monotonic()
        self.samples: list[Sample] = []

    def look(self) -> None:
        pid = self.service.pid
        resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert resident is not None
        collected = _COLLECTED.findall((self.folder / "gc.log").read_text())
        self.samples.append(
            Sample(
                time.monotonic() - self.began,
                int(resident[1]) / 1024,
                float(collected[-1][1]) if collected else 0.0,
                sum(1 for _ in (self.folder / "lake").glob("*/*/*/*.parquet")),
                # `walk` doesn't mind a folder that's removed meanwhile.
                sum(len(files) for *_, files in os.walk(self.folder / "journal" / "segments")),
                sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
                float(self.service.status()["freshness_seconds"] or 0.0),
            )
        )

    def go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(LOOK_EVERY_S)

    def third(self, which: int) -> list[Sample]:
        """The samples of the first, second or last third, by 0, 1 and 2."""
        longest = self.samples[-1].at
        return [sample for sample in self.samples if min(int(3 * sample.at / longest), 2) == which]

    def thirds(
        self, what: Callable[[Sample], float], of: Callable[[Sequence[float]], float]
    ) -> tuple[float, float]:
        """What there is of it in the second third and in the last."""
        second, last = (of([what(sample) for sample in self.third(which)]) for which in (1, 2))
        return second, last

    def rise(self, what: Callable[[Sample], float], of: Callable[[Sequence[float]], float]) -> float:
        """By how much it rises in a minute, from the second third to the last."""
        second, last = self.thirds(what, of)
        return (last - second) / (self.samples[-1].at / 3 / 60)

    def findings(self) -> dict[str, Any]:
        """Everything that's judged, and what's too much of it."""
        middle = statistics.median
        python = self.rise(lambda sample: sample.python_mib, middle)
        heap = self.rise(lambda sample: sample.heap_mib, min)
        lake = self.thirds(lambda sample: sample.lake_files, max)
        journal = self.thirds(lambda sample: sample.journal_files, max)
        descriptors = self.thirds(lambda sample: sample.descriptors, max)
        freshness = self.thirds(lambda sample: sample.freshness, middle)
        return {
            "python MiB/min": (python, python <= PYTHON_MIB),
            "heap MiB/min": (heap, heap <= HEAP_MIB),
            "lake files": (lake, lake[1] <= FILES * lake[0] + FILES_MORE),
            "journal files": (journal, journal[1] <= FILES * journal[0] + FILES_MORE),
            "descriptors": (descriptors, descriptors[1] <= descriptors[0] + DESCRIPTORS),
            "freshness s": (freshness, freshness[1] <= FRESHNESS * freshness[0] + FRESHNESS_S),
        }


def configured(server: MysqlServer, parts: Parts, folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """The demo's configuration, and everything else on."""
    for name, value in {
        "SNAPSHOT__CHUNK_ROWS": "200",
        "JOURNAL__KEEP_HOURS": "0",
        "JOURNAL__KEEP_MIB": "0",
        "LAKE__MERGE_AFTER_S": "15",
        "LAKE__COMPACT_FILES": "30",
        "SPARK__DRIVER_MEMORY": "1g",
    }.items():
        patch.setenv(f"TIDEMARK__{name}", value)
    patch.setenv("JAVA_HOME", str(parts.java_home))
    config = folder / "tidemark.toml"
    write_config(config, server, server.create_capture_user(DATABASE), parts, folder)
    with config.open("a") as more:
        more.write(RULES.format(log=folder / "gc.log"))
    return config


def wrong(server: MysqlServer, parts: Parts, folder: Path) -> list[str]:
    """How the lake differs from the source and from what was written."""
    spark = spark_session.start_local(SparkSettings("local[2]", parts.jars), folder / "judge")
    try:
        findings = []
        tally = pq.read_table(folder / "tally.parquet")
        for table, key in KEYS.items():
            id_, lake = TableId(DATABASE, table), str(folder / "lake")
            findings.append(same_rows(server, id_, live_view(spark.session, lake, id_).toArrow(), key))
            if table == TRIMMED:
                continue
            changelog = spark.session.read.format("delta").load(location(lake, id_, Tier.CHANGELOG))
            assert (changelog.where("__op = 'b'").count() > 0) is (table == "orders")
            told = changelog.where("__op NOT IN ('b', 'r')").toArrow()
            findings.append(same_changes(id_, told, key, tally))
    finally:
        spark.stop()
    return [difference for finding in findings for difference in finding.differences]


def _readable(status: dict[str, Any], executed: GtidSet) -> bool:
    """Whether the live views show all that was executed."""
    return executed <= GtidSet.parse(status["delivered_position"] or "") and not status["rebuilding"]


@pytest.mark.full
def test_nothing_grows_with_everything_on(
    mysql_factory: MysqlFactory, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    with stocked(server):
        config = configured(server, parts, tmp_path, monkeypatch)
        service = Service(config, tmp_path / "journal", tmp_path / "log", ("-m", "tests.chaos.hurried"))
        try:
            service.start()
            watched = Watched(service, tmp_path)
            with writing(server) as tally:
                for number in range(SNAPSHOTS):
                    service.tell("execute", "--id", f"s{number}", "--tables", rf"{DATABASE}\..*")
                    watched.go_on(LASTS_S / SNAPSHOTS)
            executed, deadline = GtidSet.parse(server.executed()), time.monotonic() + WITHIN_S
            while not _readable(service.status(), executed):
                assert time.monotonic() < deadline, service.last_words()
                time.sleep(LOOK_EVERY_S)
            assert service.stop() == 0
        finally:
            service.kill()
        save(tally, tmp_path / "tally.parquet")
        assert wrong(server, parts, tmp_path) == []
    found = watched.findings()
    assert all(fine for _, fine in found.values()), found
