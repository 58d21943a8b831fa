"""The demonstration of the seed on read-only incremental snapshots, step for step, with Kafka's own console tools."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deploy.demo.service import Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from tests.servers.at_work import at_work
from tests.servers.kafka import appeared, create_topic
from tests.servers.kafka_console import consuming, produce
from tests.servers.kafka_messages import committed_messages, topics

_SIGNAL = (
    'dbserver1;{"type":"execute-snapshot","data": '
    '{"data-collections": ["inventory.orders"], "type": "INCREMENTAL"}}'
)
_CUSTOMERS, _ORDERS = "dbserver1.inventory.customers", "dbserver1.inventory.orders"


def configuration(server: MysqlServer, broker: KafkaBroker, folder: Path, tables: str, mode: str) -> str:
    """The file of docs/kafka.md, with this machine's ports and paths."""
    account = server.create_capture_user("inventory")
    (folder / "password").write_text(account.password)
    return f"""
name = "dbserver1"
tables = {tables}

[source]
host = "{server.host}"
port = {server.port}
user = "{account.user}"
password_file = "password"
server_id = 184054
tls = {{ mode = "disabled" }}

[snapshot]
mode = "{mode}"

[journal]
path = "journal"

[kafka]
bootstrap_servers = ["{broker.address}"]
topic_prefix = "dbserver1"

[signals.kafka]
topic = "dbz-signals"
bootstrap_servers = ["{broker.address}"]
"""


def values(lines: list[str]) -> list[dict[str, Any]]:
    """The envelopes that a console consumer has printed."""
    return [json.loads(line.split("\t")[1]) for line in lines]


async def test_the_demonstration_of_the_seed(mysql: MysqlServer, kafka: KafkaBroker, tmp_path: Path) -> None:
    mysql.sql(
        "CREATE DATABASE inventory",
        "CREATE TABLE inventory.customers (id INT AUTO_INCREMENT PRIMARY KEY, first_name VARCHAR(99), "
        "last_name VARCHAR(99), email VARCHAR(99))",
        "CREATE TABLE inventory.orders (order_number INT PRIMARY KEY, quantity INT)",
        "INSERT INTO inventory.customers VALUES (1001, 'Sally', 'Thomas', 'sally@example.com')",
        f"INSERT INTO inventory.orders VALUES {', '.join(f'({n}, 1)' for n in range(10_001, 10_501))}",
    )
    try:
        await demonstrate(mysql, kafka, tmp_path)
    finally:
        mysql.sql("DROP DATABASE inventory")


async def demonstrate(mysql: MysqlServer, kafka: KafkaBroker, folder: Path) -> None:
    """All of it, from the signaling topic to the snapshot's messages."""
    await create_topic(kafka, "dbz-signals")
    config = folder / "tidemark.toml"
    config.write_text(configuration(mysql, kafka, folder, r'["inventory\\.customers"]', "initial"))
    service = Service(config, folder / "journal", folder / "service.log")

    def write(stop: Any) -> None:
        """Insert customers, one after the other."""
        number = 0
        while not stop.wait(0.02):
            mysql.sql(f"INSERT INTO inventory.customers VALUES (default, 'name{number}', 'surname', 'email')")
            number += 1

    try:
        service.start()
        await appeared(kafka, _CUSTOMERS)
        with ExitStack() as windows:
            customers = windows.enter_context(consuming(kafka, _CUSTOMERS, folder))
            [first] = values(customers.wait(1))
            assert (first["op"], first["after"]["id"]) == ("r", 1001)
            windows.enter_context(at_work([write]))
            customers.wait(30)

            config.write_text(
                configuration(mysql, kafka, folder, r'["inventory\\.(customers|orders)"]', "no_data")
            )
            assert service.stop() == 0
            service.start()
            customers.wait(len(customers.lines()) + 30)
            assert await topics(kafka, _ORDERS) == []

            produce(kafka, "dbz-signals", [_SIGNAL], ";")
            await appeared(kafka, _ORDERS)
            with consuming(kafka, _ORDERS, folder) as orders:
                snapshot = values(orders.wait(500))
            customers.wait(len(customers.lines()) + 30)
        assert service.stop() == 0
    except AssertionError as failed:
        failed.add_note(service.last_words())
        raise
    finally:
        service.kill()
    assert {value["op"] for value in snapshot} == {"r"}
    assert sorted(value["after"]["order_number"] for value in snapshot) == [*range(10_001, 10_501)]
    ((rows,),) = mysql.sql("SELECT COUNT(*) FROM inventory.customers")
    ids = [json.loads(each.value)["after"]["id"] for each in await committed_messages(kafka, _CUSTOMERS)]
    assert ids == sorted(set(ids)) and len(ids) == int(rows)
