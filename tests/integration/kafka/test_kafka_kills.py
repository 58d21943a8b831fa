"""SIGKILL of the service at each step of a Kafka transaction, under writes and with a snapshot: each change is once."""

import json
import signal
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.demo.service import Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from tests.chaos.broken import TOPICS, Deed
from tests.servers.executed import executed
from tests.servers.kafka_messages import Judge, Transactions, committed_messages
from tests.servers.service import WITHIN_S, until
from tests.servers.shop import TABLES, writing

# After all kills: what has piled up while the service was down is sent, and the snapshots end.
OF_ALL_WITHIN_S = 600.0


def write_config(path: Path, server: MysqlServer, account: Account, broker: KafkaBroker, name: str) -> Path:
    """A pipeline into topics alone."""
    (path.parent / "password").write_text(account.password)
    path.write_text(f"""name = "{name}"
tables = ["shop\\\\..*"]
journal = {{ path = "journal", seal_after_ms = 20 }}
snapshot = {{ mode = "no_data" }}
signals = {{ file = "signals" }}

[kafka]
bootstrap_servers = ["{broker.address}"]
topic_prefix = "{name}"
partitions = 2
provide_transaction_metadata = true

[source]
host = "{server.host}"
port = {server.port}
user = "{account.user}"
password_file = "password"
server_id = 79
tls = {{ mode = "disabled" }}
""")
    return path


def has_all(service: Service) -> bool:
    """Whether the topics have all that's sealed."""
    actors = service.status()["actors"]
    sealed, sent = (actors[name].get("segment", -1) for name in (Name.JOURNAL_WRITER, Name.KAFKA_SINK))
    return bool(sent >= sealed)


async def killed_and_judged(
    server: MysqlServer, broker: KafkaBroker, folder: Path, kills: Sequence[tuple[str, int]]
) -> None:
    """Kill the service at each of these steps, when it comes to it for the nth time, and judge the topics."""
    name = f"k{uuid.uuid4().hex[:8]}"
    config = write_config(folder / "shop.toml", server, server.create_capture_user("shop"), broker, name)
    service = Service(config, folder / "journal", folder / "log")
    try:
        service.start()
        with writing(server), (folder / "signals").open("a") as signals:
            data = {"type": "incremental", "data-collections": [".*"], "chunk-rows": 50}
            for i, (step, nth) in enumerate(kills):
                if step == kills[0][0]:
                    signal_ = {"id": f"s{i}", "type": "execute-snapshot", "data": data}
                    print(json.dumps(signal_), file=signals, flush=True)
                service.kill()
                service.program = ("-m", "tests.chaos.broken", "--at", step, str(nth), Deed.KILL)
                service.launch()
                assert service.wait(WITHIN_S) == -signal.SIGKILL, service.last_words()
            service.program = ("-m", "actors")
            service.start()
        await until(
            lambda: all(snapshot["state"] == "completed" for snapshot in service.status()["snapshots"]),
            "the snapshots' end",
            OF_ALL_WITHIN_S,
        )
        all_of_it = executed(server)
        await until(
            lambda: all_of_it <= GtidSet.parse(service.status()["position"]),
            "all has passed",
            OF_ALL_WITHIN_S,
        )
        await until(lambda: has_all(service), "all is sent", OF_ALL_WITHIN_S)
        assert service.stop() == 0, service.last_words()
    finally:
        service.kill()
    transactions = Transactions()
    for table in TABLES:
        messages = await committed_messages(broker, f"{name}.{table}")
        judge = Judge().judge(messages)
        transactions.take(messages)
        assert judge.faults == []
        assert judge.read and judge.changes
        ((rows,),) = server.sql(f"SELECT COUNT(*) FROM {table}")
        assert sum(row is not None for row in judge.rows.values()) == rows
    assert transactions.faults(await committed_messages(broker, f"{name}.transaction")) == []


async def test_killed_at_each_step_of_a_kafka_transaction(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    nths = (1, 2, 7, 2, 3)
    await killed_and_judged(open_shop, kafka, tmp_path, list(zip(TOPICS, nths, strict=True)))


@pytest.mark.full
async def test_a_hundred_kills(open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path) -> None:
    kills = [(step, 1) if "fenced" in step else (step, 1 + nth) for nth in range(20) for step in TOPICS]
    await killed_and_judged(open_shop, kafka, tmp_path, kills)
