"""SIGTERM amid work, and while others don't answer: the service ends soon, and no row is lost or doubled."""

import json
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.demo.service import Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.messages.topology import ActorName as Name
from tests.chaos.forks import ForkedService
from tests.integration.service.test_run import until
from tests.servers.kafka_messages import committed_messages
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
    """A first snapshot of many chunks into topics; with `rows_per_s` = 0 as fast as it can be."""
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
