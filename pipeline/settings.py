"""What the configuration file says, as values. Units are in the names; a field's name is the key in the file.

A field's `metadata` says more of its value: `least` and `most` (both allowed), or a `pattern` with the words that
describe it. What's wrong with a whole section is told by `contradictions`. Reading the file is the business
of `actors.config`.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

from pipeline.signals import Tables
from pipeline.topology import MOST_WINDOWS


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with the value of `key`, and what to do about it."""

    key: str
    wrong: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.wrong}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that is never shown: printing it gives stars."""

    value: str

    def __repr__(self) -> str:
        return "********"

    __str__ = __repr__


class TlsMode(StrEnum):
    """How the connection to the source is protected."""

    DISABLED = "disabled"
    REQUIRED = "required"  # encrypted, whoever answers
    VERIFY = "verify"  # encrypted, and the server's certificate and name are checked


class WindowMode(StrEnum):
    """What the log does while a chunk is being read."""

    OVERLAP = "overlap"  # it flows on, and many windows are open at once
    PAUSE = "pause"  # it waits, and one window is open at a time


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`ca`: a file of certificates (PEM) to trust; without it, those that the machine trusts."""

    mode: TlsMode = TlsMode.DISABLED
    ca: PurePath | None = None


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The MySQL server. `server_id` must be unique among all replicas of it.

    A connection that has been silent for `read_timeout_s` counts as lost; the log's heartbeats are asked for
    well within that time.
    """

    host: str
    user: str
    server_id: int = field(metadata={"least": 1, "most": 2**32 - 1})
    port: int = field(default=3306, metadata={"least": 1, "most": 65535})
    password: Secret = Secret("")
    tls: TlsSettings = TlsSettings()
    connect_timeout_s: float = field(default=10.0, metadata={"least": 0.1, "most": 3600})
    read_timeout_s: float = field(default=30.0, metadata={"least": 1, "most": 86400})


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """`windows`: how many chunks may be under way at once, read over at most `connections` connections.

    With `window = "pause"` there's one at a time, whatever `windows` says.
    """

    chunk_rows: int = field(default=50_000, metadata={"least": 1, "most": 10_000_000})
    windows: int = field(default=4, metadata={"least": 1, "most": MOST_WINDOWS})
    connections: int = field(default=2, metadata={"least": 1, "most": MOST_WINDOWS})
    window: WindowMode = WindowMode.OVERLAP


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """`path`: the journal's folder. A segment is sealed when it's `seal_after_ms` old or `seal_mib` big."""

    path: PurePath
    seal_after_ms: int = field(default=200, metadata={"least": 1, "most": 600_000})
    seal_mib: int = field(default=32, metadata={"least": 1, "most": 4096})


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`path`: the folder of all lake tables, a local one or any URI that Spark can write to.

    A mirror merges its pending changes at `merge_rows` of them, or when the oldest is `merge_after_s` old.
    """

    path: str = field(metadata={"location": True})
    merge_rows: int = field(default=1_000_000, metadata={"least": 1})
    merge_after_s: float = field(default=300.0, metadata={"least": 0})


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`jars`: jar files, or folders of them, that PySpark lacks. `conf` wins over what's set without it."""

    master: str = "local[*]"
    jars: tuple[PurePath, ...] = ()
    driver_memory: str = field(
        default="1g", metadata={"pattern": "[1-9][0-9]*[mg]", "words": "a size as 512m or 4g"}
    )
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where to listen. Port 0 takes a free one; which, is written to `http.json` in the journal's folder."""

    host: str = "127.0.0.1"
    port: int = field(default=0, metadata={"least": 0, "most": 65535})


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """`file`: signals may be appended to it, one JSON object a line; answers go beside it (`.answers`)."""

    file: PurePath | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """One pipeline. `tables`: regular expressions over `database.table` that match the whole name."""

    name: str = field(
        metadata={
            "pattern": r"[a-z][a-z0-9_-]{0,62}",
            "words": "a-z, 0-9, _ and -, a letter first, at most 63",
        }
    )
    tables: Tables
    source: SourceSettings
    journal: JournalSettings
    lake: LakeSettings
    snapshot: SnapshotSettings = SnapshotSettings()
    spark: SparkSettings = SparkSettings()
    http: HttpSettings = HttpSettings()
    signals: SignalSettings = SignalSettings()


_SAID_ELSEWHERE = {
    "spark.master": "spark.master",
    "spark.jars": "spark.jars",
    "spark.driver.memory": "spark.driver_memory",
}


def contradictions(section: object) -> Iterator[Mistake]:
    """What the types and bounds of single fields can't tell, with keys relative to the section."""
    match section:
        case TlsSettings(mode, ca):
            if ca is not None and mode is not TlsMode.VERIFY:
                yield Mistake("ca", f'it has no use with mode = "{mode}"', 'set mode = "verify"')
        case HttpSettings(host):
            if not _loopback(host):
                yield Mistake(
                    "host",
                    f"{host!r} isn't a loopback address, and requests aren't authenticated yet",
                    'use "127.0.0.1" and put an authenticating proxy before it',
                )
        case SparkSettings(conf=conf):
            for twice in sorted(conf.keys() & _SAID_ELSEWHERE.keys()):
                yield Mistake(
                    "conf", f"{twice} has a key of its own", f"say it with {_SAID_ELSEWHERE[twice]}"
                )
        case Settings(tables=Tables(())):
            yield Mistake("tables", "it's empty", 'name at least one, as in ["shop\\\\.orders"]')


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
