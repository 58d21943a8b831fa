"""SIGKILL of the service at each step of a Kafka transaction, under writes and with a snapshot: each change is once."""

import json
import signal
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.demo.service import POLL_S, Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from tests.chaos.broken import TOPICS, Deed
from tests.chaos.forks import ForkedService
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.executed import executed
from tests.servers.schema_registry import AvroReader
from tests.servers.shop import writing
from tests.servers.shop_topics import GrownTable, ShopTopics

# After all kills: what has piled up while the service was down is sent, and the snapshots end.
OF_ALL_WITHIN_S = 600.0


def write_config(
    path: Path, server: MysqlServer, account: Account, broker: KafkaBroker, name: str, converter: str
) -> Path:
    """A pipeline into topics alone. Its Kafka transactions are small, so that each life comes to several."""
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
transaction_rows = 2000
provide_transaction_metadata = true
include_schema_changes = true
notification_sink_topic_name = "{name}-notifications"
{converter}

[source]
host = "{server.host}"
port = {server.port}
user = "{account.user}"
password_file = "password"
server_id = 79
tls = {{ mode = "disabled" }}
""")
    return path


async def caught_up(service: Service, executed: GtidSet) -> None:
    """Until the snapshots have ended, and the topics have all that the server has executed."""

    def all_sent() -> bool:
        status = service.status()
        sealed, sent = (
            status["actors"][name].get("segment", -1) for name in (Name.JOURNAL_WRITER, Name.KAFKA_SINK)
        )
        ended = all(snapshot["state"] == "completed" for snapshot in status["snapshots"])
        return bool(ended and sent >= sealed and executed <= GtidSet.parse(status["position"]))

    # The service answers only so many questions in a second.
    await until(all_sent, "all is sent", OF_ALL_WITHIN_S, every_s=POLL_S)


async def killed_and_judged(
    server: MysqlServer,
    broker: KafkaBroker,
    folder: Path,
    kills: Sequence[tuple[str, int]],
    converter: str = "",
    read: Callable[[bytes], Any] = json.loads,
) -> None:
    """Kill the service at each of these steps, when it comes to it for the nth time, and judge the topics."""
    name = f"k{uuid.uuid4().hex[:8]}"
    account = server.create_capture_user("shop")
    config = write_config(folder / "shop.toml", server, account, broker, name, converter)
    service, grown, ids = (
        ForkedService(config, folder / "journal", folder / "log"),
        GrownTable(server),
        list[str](),
    )
    try:
        service.start()
        with writing(server), (folder / "signals").open("a") as signals:
            data = {"type": "incremental", "data-collections": [".*s"], "chunk-rows": 50}
            for i, (step, nth) in enumerate(kills):
                if step == kills[0][0]:
                    ids.append(f"s{i}")
                    signal_ = {"id": ids[-1], "type": "execute-snapshot", "data": data}
                    print(json.dumps(signal_), file=signals, flush=True)
                service.kill()
                service.program = ("--at", step, str(nth), Deed.KILL)
                service.launch()
                grown.grow()
                assert service.wait(WITHIN_S) == -signal.SIGKILL, service.last_words()
            service.program = ()
            service.start()
        await caught_up(service, executed(server))
        assert service.stop() == 0, service.last_words()
    finally:
        service.close()
    assert await ShopTopics(broker, name, read).faults(grown, ids) == []


async def test_killed_at_each_step_of_a_kafka_transaction(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    nths = (1, 2, 7, 2, 3)
    await killed_and_judged(open_shop, kafka, tmp_path, list(zip(TOPICS, nths, strict=True)))


# Ten kills at each of the five steps. With JSON and with Avro they are a hundred.
FIFTY: Final = [(step, 1 if "fenced" in step else 1 + nth) for nth in range(10) for step in TOPICS]


@pytest.mark.full
async def test_fifty_kills(open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path) -> None:
    await killed_and_judged(open_shop, kafka, tmp_path, FIFTY)


@pytest.mark.full
async def test_fifty_kills_with_avro(
    open_shop: MysqlServer, kafka: KafkaBroker, schema_registry: SchemaRegistryServer, tmp_path: Path
) -> None:
    converter = f'converter = "avro"\nschema_registry_url = "{schema_registry.url}"'
    read = AvroReader(schema_registry).read
    await killed_and_judged(open_shop, kafka, tmp_path, FIFTY, converter, read)
