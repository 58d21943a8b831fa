"""SIGTERM amid work, and while others don't answer: the service ends soon, and no row is lost or doubled."""

import json
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.demo.service import Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.messages.topology import ActorName as Name
from tests.chaos.broken import LAKE, Deed
from tests.chaos.forks import ForkedService
from tests.servers.kafka_messages import committed_messages
from tests.servers.lake_oracle import unequal_lake, untrue_lake
from tests.servers.service_process import WITHIN_S, delivered, until
from tests.servers.shop import TABLES, writing
from tests.servers.spark import start_quickly
from tests.servers.stopped import stop

# Its own limits make 10 s. A busy machine takes its time beside them.
ENDS_WITHIN_S: Final = 15.0

# At this rate a snapshot of so many rows takes 200 s.
ROWS: Final = 2_000
ROWS_PER_S: Final = 10


@contextmanager
def hanging(*servers: KafkaBroker | MysqlServer) -> Iterator[None]:
    """The servers are there, and answer nothing."""
    pids = [server.pid for server in servers]
    try:
        for pid in pids:
            stop(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def ended(service: Service) -> float:
    """Sends SIGTERM. Returns how long (s) the service took to end, which it did cleanly."""
    began = time.monotonic()
    assert service.stop() == 0, service.last_words()
    return time.monotonic() - began


def configuration(
    folder: Path, mysql: MysqlServer, database: str, kafka: KafkaBroker, prefix: str, rows_per_s: int
) -> Path:
    """A first snapshot of many chunks into topics. With `rows_per_s` = 0 it is as fast as it can be."""
    account = mysql.create_capture_user(database)
    (folder / "password").write_text(account.password)
    path = folder / "shop.toml"
    path.write_text(f"""name = "{prefix}"
tables = ["{database}\\\\..*"]
journal = {{ path = "journal", seal_after_ms = 20 }}
snapshot = {{ mode = "initial", chunk_rows = 10, rows_per_s = {rows_per_s} }}
kafka = {{ bootstrap_servers = ["{kafka.address}"], topic_prefix = "{prefix}" }}

[source]
host = "{mysql.host}"
port = {mysql.port}
user = "{account.user}"
password_file = "password"
server_id = 81
tls = {{ mode = "disabled" }}
""")
    return path


def segments(status: dict[str, Any]) -> tuple[int, int]:
    """The last segment that the journal has, and the topics."""
    sealed, sent = (
        status["actors"][name].get("segment", 0) for name in (Name.JOURNAL_WRITER, Name.KAFKA_SINK)
    )
    return sealed, sent


def snapshot_state(status: dict[str, Any]) -> str | None:
    """How far the first snapshot's only table is."""
    return next((table["state"] for each in status["snapshots"] for table in each["tables"]), None)


async def test_amid_a_first_snapshot_while_source_and_broker_hang(
    mysql: MysqlServer, database: str, kafka: KafkaBroker, tmp_path: Path
) -> None:
    numbers = ", ".join(f"({id_})" for id_ in range(ROWS))
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", f"INSERT INTO t VALUES {numbers}", database=database)
    prefix = f"p{uuid.uuid4().hex[:8]}"
    config = configuration(tmp_path, mysql, database, kafka, prefix, ROWS_PER_S)
    service = ForkedService(config, tmp_path / "journal", tmp_path / "log")
    try:
        service.start()
        until(service, lambda status: segments(status)[1] > 0)
        with hanging(kafka):
            _, sent = segments(service.status())
            until(service, lambda status: segments(status)[0] > sent + 2)
            with hanging(mysql):
                assert snapshot_state(service.status()) == "chunking"
                assert ended(service) < ENDS_WITHIN_S
        configuration(tmp_path, mysql, database, kafka, prefix, 0)
        service.start()
        until(
            service,
            lambda status: snapshot_state(status) == "completed" and len({*segments(status)}) == 1,
        )
        assert ended(service) < ENDS_WITHIN_S
    finally:
        service.close()
    records = await committed_messages(kafka, f"{prefix}.{database}.t")
    ids = Counter(json.loads(record.value)["after"]["id"] for record in records)
    assert ids == dict.fromkeys(range(ROWS), 1)


def with_lake(folder: Path, mysql: MysqlServer, parts: Parts) -> Path:
    """A first snapshot of the shop into a lake whose mirrors are merged and compacted all the time."""
    account = mysql.create_capture_user("shop")
    (folder / "password").write_text(account.password)
    jars = json.dumps([str(jar) for jar in parts.jars])
    path = folder / "shop.toml"
    path.write_text(f"""name = "shop"
tables = ["shop\\\\..*"]
journal = {{ path = "journal", seal_after_ms = 500 }}
snapshot = {{ mode = "initial", chunk_rows = 100 }}
lake = {{ path = "lake", merge_rows = 1, merge_after_s = 0, compact_files = 2 }}
spark = {{ master = "local[2]", driver_memory = "512m", jars = {jars} }}
signals = {{ file = "signals" }}

[source]
host = "{mysql.host}"
port = {mysql.port}
user = "{account.user}"
password_file = "password"
server_id = 81
tls = {{ mode = "disabled" }}
""")
    return path


def seconds_to_end(service: Service, step: str, deed: Deed) -> float:
    """Returns how long (s) the service took to end, which gives itself SIGTERM at its step."""
    service.program = ("--at", step, "1", deed)
    service.launch()
    assert service.wait(WITHIN_S) == 0, service.last_words()
    lines = (json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{"))
    *_, began = (line["timestamp"] for line in lines if line["event"] == "stopping")
    return (datetime.now(UTC) - datetime.fromisoformat(began)).total_seconds()


# Transactions of the writer. With more, each life needs longer until a merge and a verification begin.
PER_S: Final = 25.0
# The steps at which it gets SIGTERM; where Spark begins to hang at the same moment, too.
AMID: Final = [
    ("asked, no row read", Deed.STOP),
    *((step, deed) for step in LAKE for deed in (Deed.STOP, Deed.STOP_WITHOUT_SPARK)),
]


@pytest.mark.full
def test_amid_each_kind_of_work_on_the_lake(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_quickly(monkeypatch, parts)
    service = ForkedService(with_lake(tmp_path, open_shop, parts), tmp_path / "journal", tmp_path / "log")
    first, *others = AMID
    try:
        # What is written before capture begins isn't in its changelogs.
        ends = {first: seconds_to_end(service, *first)}
        with writing(open_shop, PER_S) as tally, (tmp_path / "signals").open("a") as signals:
            for number, life in enumerate(others):
                signal = {"id": f"v{number}", "type": "verify", "data": {"data-collections": ["shop\\..*"]}}
                print(json.dumps(signal), file=signals, flush=True)
                ends[life] = seconds_to_end(service, *life)
        service.program = ()
        service.start()
        until(service, delivered(open_shop))
        assert ended(service) < ENDS_WITHIN_S
    finally:
        service.close()
    assert {life: seconds for life, seconds in ends.items() if seconds >= ENDS_WITHIN_S} == {}
    lake = str(tmp_path / "lake")
    assert untrue_lake(open_shop, lake, tally, *TABLES) + unequal_lake(open_shop, lake, *TABLES) == []
