"""What a service, its JVM and its folders take, looked at again and again, and whether all of it has a bound.

A time has three thirds. In the first one caches fill and code is compiled. What grows evenly from nothing is half as
large again at the end of the last third as at the end of the second. What has a bound isn't larger, but for a slack.
Of files the least counts that was seen in a third: what cleaning leaves. If nothing cleans, that doubles.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from actors.lake.transaction_log.delta_log import LOG
from deploy.demo.service import Service
from tests.servers.spark_cluster import jvm_of

# How the JVM is started: all of its heap is resident at once, so that what else it takes shows. It logs collections.
JAVA: Final = "-Xms{heap} -XX:+AlwaysPreTouch -Xlog:gc:file={log}"
GC_LOG: Final = "gc.log"
_COLLECTED: Final = re.compile(r"\d+M->(\d+)M\(\d+M\)")
# At the end of the folder of a mirror that is being filled.
_GENERATION: Final = re.compile(r"-\d+$")

Count = tuple[str, float]


@dataclass(frozen=True, slots=True)
class Slack:
    """How much there may be in the last third: so many times as much as in the second, and so much more.

    `of`: what of all that was seen in a third is compared.
    """

    times: float
    more: float
    of: Callable[[Sequence[float]], float] = max


# Of each kind of count. Its name comes before a colon, and what it is of after that.
SLACKS: Final = {
    "Python MiB": Slack(1.0, 16),
    "Python threads": Slack(1.0, 8),
    "Python descriptors": Slack(1.0, 8),
    "JVM MiB": Slack(1.0, 64),
    "JVM heap MiB": Slack(1.0, 64, min),
    "JVM threads": Slack(1.0, 64),
    "JVM descriptors": Slack(1.0, 16),
    "journal files": Slack(1.2, 20, min),
    "journal KiB": Slack(1.2, 200, min),
    "Spark's files": Slack(1.2, 40, min),
    "Spark's KiB": Slack(1.2, 200, min),
    "checkpoint KiB": Slack(1.0, 0.5),
    "schemas": Slack(1.0, 0),
    "signals": Slack(1.0, 0),
    "snapshots": Slack(1.0, 1),
    "states of signals": Slack(1.0, 0),
    "answers KiB": Slack(1.0, 1),
    "status KiB": Slack(1.1, 2),
    "series": Slack(1.0, 6),
    "log files": Slack(1.2, 30, min),
    "log KiB": Slack(1.2, 200, min),
    "data files": Slack(1.2, 30, min),
    "data KiB": Slack(1.2, 200, min),
}


@dataclass
class Growth:
    """What is seen of a service whose files are all in `folder`. `keeps`: the lake tables that lose no row."""

    service: Service
    folder: Path
    keeps: Collection[str]
    seen: list[dict[str, list[float]]] = field(default_factory=lambda: [defaultdict(list) for _ in range(3)])

    def look(self, third: int) -> None:
        """See what there is, in this third (0, 1 or 2)."""
        python = self.service.pid
        self._saw(third, _of_process("Python", python))
        if (java := jvm_of(python)) is not None:
            self._saw(third, _of_process("JVM", java))
        self._saw(third, _of_heap(self.folder / GC_LOG))
        self._saw(third, _of_journal(self.folder / "journal"))
        self._saw(third, _of_lake(self.folder / "lake", self.keeps))

    def ask(self, third: int) -> None:
        """See what the service says, and what its last checkpoint has."""
        status = self.service.status()
        states = status["actors"]["SignalListener"]["signals"]
        lines = self.service.metrics().splitlines()
        series = sum(not line.startswith("#") and "_bucket{" not in line for line in lines)
        told: list[Count] = [
            ("status KiB", len(json.dumps(status)) / 1024),
            ("states of signals", len(states)),
            ("series", series),
        ]
        self._saw(third, told)
        self._saw(third, _of_checkpoint(self.folder / "journal" / "manifest"))
        self._saw(third, [("answers KiB", (self.folder / "signals.answers").stat().st_size / 1024)])

    def most(self, what: str) -> float:
        """The most that was seen of it."""
        return max(max(third.get(what, [0.0])) for third in self.seen)

    def compared(self) -> dict[str, list[float]]:
        """What is compared of each count, by thirds."""
        names = dict.fromkeys(name for third in self.seen for name in third)
        return {name: [_slack(name).of(third.get(name, [0.0])) for third in self.seen] for name in names}

    def unbounded(self) -> dict[str, list[float]]:
        """The counts of which there is too much in the last third."""
        return {
            name: thirds
            for name, thirds in self.compared().items()
            if thirds[2] > _slack(name).times * thirds[1] + _slack(name).more
        }

    def _saw(self, third: int, counts: Iterable[Count]) -> None:
        for name, count in counts:
            self.seen[third][name].append(count)


def _slack(name: str) -> Slack:
    return SLACKS[name.partition(":")[0]]


def _of_process(what: str, pid: int) -> Iterator[Count]:
    with suppress(FileNotFoundError, ProcessLookupError):  # a JVM that ends
        status = Path(f"/proc/{pid}/status").read_text()
        for name, field_, unit in (("MiB", "VmRSS", 1024), ("threads", "Threads", 1)):
            found = re.search(rf"^{field_}:\s+(\d+)", status, re.MULTILINE)
            if found is not None:  # a process that ends has no memory
                yield f"{what} {name}", int(found[1]) / unit
        yield f"{what} descriptors", sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _of_heap(log: Path) -> Iterator[Count]:
    if log.exists() and (collected := _COLLECTED.findall(log.read_text())):
        yield "JVM heap MiB", float(collected[-1])


def _of_journal(journal: Path) -> Iterator[Count]:
    """The journal's files, and those with which Spark works."""
    found: defaultdict[str, float] = defaultdict(float)
    for parent, _, files in os.walk(journal):
        whose = "Spark's" if "spark" in Path(parent).relative_to(journal).parts[:1] else "journal"
        count, size = _size(parent, files)
        found[f"{whose} files"] += count
        found[f"{whose} KiB"] += size
    yield from found.items()


def _of_checkpoint(manifest: Path) -> Iterator[Count]:
    """Of the newest entry, which may be removed once there's another one."""
    with suppress(FileNotFoundError):
        text = max(manifest.glob("*.json")).read_text()
        checkpoint = json.loads(text)["entry"]["checkpoint"]
        yield "checkpoint KiB", len(json.dumps(checkpoint)) / 1024
        for name in ("schemas", "signals", "snapshots"):
            yield name, len(checkpoint[name])


def _of_lake(lake: Path, keeps: Collection[str]) -> Iterator[Count]:
    """Each lake table's log and files; what lies elsewhere counts by its folder."""
    found: defaultdict[str, float] = defaultdict(float)
    for parent, _, files in os.walk(lake):
        parts = Path(parent).relative_to(lake).parts
        kind = "log" if LOG in parts else "data"
        table = _GENERATION.sub("", "/".join(parts[: parts.index(LOG)] if LOG in parts else parts[:3]))
        count, size = _size(parent, files)
        found[f"{kind} files: {table}"] += count
        if kind == "log" or table not in keeps:
            found[f"{kind} KiB: {table}"] += size
    yield from found.items()


def _size(folder: str, files: Sequence[str]) -> tuple[int, float]:
    """How many of these files there are, and their KiB."""
    sizes = []
    for file in files:
        with suppress(FileNotFoundError):
            sizes.append(os.stat(f"{folder}/{file}").st_size)  # noqa: PTH116 - of thousands of files
    return len(sizes), sum(sizes) / 1024
