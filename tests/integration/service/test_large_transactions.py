"""A transaction that is larger than the service may become passes through it, and a row of 64 MiB with it.

**How much memory that takes.** Each place on the way holds one message at most, where a message is as large as the
largest event: a slice ends with the event that fills it, and a mailbox, the decoder and the journal's open segment
take one more as long as they aren't full. So the places are counted, and the bound is made of that count and the
largest event: here an update, which is in the log with the row's image before and its image after, each larger than
any of these bounds. How large the transaction is doesn't come into it.
"""

import hashlib
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalReader
from deploy.demo.service import Service, write_config
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.gtid.gtid_set import GtidSet
from tests.servers.mysql import MysqlFactory

MIB = 1 << 20
WITHOUT_LAKE = ("-m", "tests.chaos.broken", "--without-lake")
WITHIN_S = 300.0

# Where an event can be at the same time, as it is in the log or as the columns of its images.
PLACES = {
    "the socket's buffer": 1,
    "the slice that is being filled": 1,
    "the slice that is being decoded, its columns, and those of the one before it": 3,
    "the mailboxes on the way": 3,
    "in the hands of the verifier, of the coordinator and of the writer": 3,
    "the rows that the writer gathers, and those that its thread writes": 2,
    "what is made of these: the rows without images before, a page, the page compressed": 2,
}
# How many rows a reader of `/changes` costs: two that are read, two that follow them, and these as they are sent, which
# takes three more, as columns, as text and as bytes.
READERS_ROWS = 7
# What the process takes besides, once it has work: small things, and what its allocators keep.
BESIDES = 96 * MIB


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """A server that takes large rows."""
    large = {"max_allowed_packet": "1G", "innodb_redo_log_capacity": "512M"}
    server = mysql_factory({**GTIDS, **FULL_METADATA, **large})
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.documents (id INT PRIMARY KEY, n INT NOT NULL, body LONGBLOB NOT NULL)",
    )
    return server


@pytest.fixture
def service(server: MysqlServer, parts: Parts, tmp_path: Path) -> Iterator[Service]:
    path = tmp_path / "shop.toml"
    write_config(path, server, server.create_capture_user("shop"), parts, tmp_path)
    service = Service(path, tmp_path / "journal", tmp_path / "log", WITHOUT_LAKE)
    yield service
    service.kill()


def insert(server: MysqlServer, size: int) -> None:
    """A row of this size, which isn't the same all along."""
    server.sql(f"INSERT INTO shop.documents VALUES (1, 0, REPEAT(RANDOM_BYTES(1024), {size // 1024}))")


def update(server: MysqlServer, times: int) -> GtidSet:
    """Change the row so often in one transaction, which has as many events; the executed set with it."""
    server.sql("BEGIN", *["UPDATE shop.documents SET n = n + 1"] * times, "COMMIT")
    return GtidSet.parse(server.executed())


def until(told: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not told():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def begin(service: Service, folder: Path) -> None:
    """Start the service, until its first segment is sealed: from here on nothing is missed."""
    service.start()
    until(lambda: JournalReader(folder / "journal").last_segment() > 0, "the first segment")


def position(folder: Path) -> GtidSet:
    """What has durably passed."""
    reader = JournalReader(folder / "journal")
    return reader.entry(reader.last_segment()).checkpoint.position


def unnamed(folder: Path) -> int:
    """How many files are written that no entry names yet."""
    return len(list((folder / "journal" / "segments").glob("*.tmp/*")))


def numbers(folder: Path, server: MysqlServer) -> list[int]:
    """The row's numbers, in the order of the journal; each time its body must be the server's."""
    ((wanted,),) = server.sql("SELECT SHA2(body, 256) FROM shop.documents")
    found: list[int] = []
    reader = JournalReader(folder / "journal")
    for entry in reader.entries(0, reader.last_segment()):
        for file in entry.files:
            for batch in pq.ParquetFile(reader.path(entry, file)).iter_batches(1):
                assert batch["__op"].to_pylist() == ["u"]
                assert hashlib.sha256(batch["body"][0].as_buffer()).hexdigest() == wanted
                found += batch["n"].to_pylist()
    return found


class Memory:
    """The most that a process has had in memory since."""

    def __init__(self, pid: int) -> None:
        self._process = Path("/proc") / str(pid)
        (self._process / "clear_refs").write_text("5")
        self.before = self._most()

    def grown(self) -> int:
        """By how many bytes it has grown at most."""
        return self._most() - self.before

    def _most(self) -> int:
        status = (self._process / "status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024


@pytest.mark.parametrize(
    ("row", "times"),
    [
        pytest.param(8 * MIB, 32, id="512 MiB"),
        pytest.param(16 * MIB, 24, id="768 MiB", marks=pytest.mark.full),
        pytest.param(64 * MIB, 16, id="2 GiB", marks=pytest.mark.full),
    ],
)
def test_memory_is_bounded_by_the_largest_event_and_not_by_the_transaction(
    server: MysqlServer, service: Service, tmp_path: Path, row: int, times: int
) -> None:
    insert(server, row)
    begin(service, tmp_path)
    memory = Memory(service.pid)
    executed = update(server, times)
    until(lambda: executed <= position(tmp_path), "the transaction's end")
    assert memory.grown() < sum(PLACES.values()) * 2 * row + BESIDES
    assert service.stop() == 0
    assert numbers(tmp_path, server) == list(range(1, times + 1))


def test_a_kill_in_the_middle_of_a_transaction(server: MysqlServer, service: Service, tmp_path: Path) -> None:
    insert(server, 64 * MIB)
    begin(service, tmp_path)
    before = position(tmp_path)
    executed = update(server, 4)
    until(lambda: unnamed(tmp_path) > 0, "rows are written ahead")
    service.kill()
    assert position(tmp_path) == before
    assert unnamed(tmp_path) > 0
    assert numbers(tmp_path, server) == []
    service.start()
    until(lambda: executed <= position(tmp_path), "the transaction's end")
    assert service.stop() == 0
    assert numbers(tmp_path, server) == [1, 2, 3, 4]
    assert unnamed(tmp_path) == 0


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_a_reader_of_changes_has_a_few_rows_of_the_transaction_in_memory(
    server: MysqlServer, service: Service, tmp_path: Path, form: str
) -> None:
    row, times = 8 * MIB, 32
    insert(server, row)
    begin(service, tmp_path)
    executed = update(server, times)
    until(lambda: executed <= position(tmp_path), "the transaction's end")
    memory = Memory(service.pid)
    with urllib.request.urlopen(f"{service.url}/changes?since=earliest&through=now&format={form}") as answer:
        size = sum(map(len, iter(lambda: answer.read(MIB), b"")))
    assert size > times * row
    assert memory.grown() < READERS_ROWS * row + BESIDES
    assert service.stop() == 0
