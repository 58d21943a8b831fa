"""A service as its users run it, under load and in some trouble, which a real Prometheus scrapes."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from deploy.demo import shop
from deploy.demo.service import Service
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline import metrics as catalogue
from pipeline.config.settings import SparkSettings
from pipeline.schema.table_schema import TableId
from tests.servers.prometheus import Prometheus
from tests.servers.shop import FEW_PER_S, stocked, writing
from tests.servers.source import cut, gives_log
from tests.servers.spark import toml

# So many snapshots are tried until Prometheus has found one, and a row has given way to a change.
_MOST_SNAPSHOTS: Final = 20

# A busy machine takes its time to start Spark.
WITHIN_S: Final = 240.0

# What must not be told: a password of ours and one of a statement in the log, and values of rows, those that the shop
# is filled with among them.
PASSWORD: Final = "CANARY-password"
_ACCOUNT: Final = Account("watched", PASSWORD)
SECRETS: Final = ("CANARY", "Bestellung", "@example.com", "SKU-", "Customer ")

_ORDERS: Final = TableId(shop.DATABASE, "orders")
_ORDERED: Final = rf"{shop.DATABASE}\\.(customers|orders|order_items)"
# Tables for what goes wrong; the writer leaves them alone.
_ODDITIES: Final = f"{shop.DATABASE}.oddities"
_EMPTIED: Final = f"{shop.DATABASE}.emptied"


@dataclass(frozen=True, slots=True)
class Watched:
    """What there is to ask, and what the service has written so far."""

    service: Service
    prometheus: Prometheus
    server: MysqlServer

    def get(self, path: str) -> str:
        """What the service answers over HTTP."""
        with urllib.request.urlopen(f"{self.service.url}{path}", timeout=WITHIN_S) as answer:
            text: bytes = answer.read()
        return text.decode()

    def snapshot(self, id_: str, tables: str) -> None:
        """Ask for a snapshot of the tables."""
        data = {"type": "incremental", "data-collections": [tables]}
        self._send({"id": id_, "type": "execute-snapshot", "data": data})

    def verify(self, id_: str, table: str) -> None:
        """Verify a table, and wait for the result."""
        self._send({"id": id_, "type": "verify", "data": {"data-collections": [table]}})
        until(lambda: self._verified(id_), "the result of a verification")

    def _verified(self, id_: str) -> bool:
        tables = json.loads(self.get(f"/snapshots/{id_}"))["tables"]
        return None not in [table["result"] for table in tables]

    def _send(self, signal: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"{self.service.url}/signals",
            json.dumps(signal).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self.service.token()}"},
        )
        urllib.request.urlopen(request, timeout=WITHIN_S).close()

    def rows_gave_way(self) -> bool:
        """Whether any row of a chunk has given way to a change."""
        given_up = re.findall(
            rf"^{catalogue.ROWS_GIVEN_UP.name}{{.*}} (\S+)$", self.get("/metrics"), re.MULTILINE
        )
        return any(float(value) for value in given_up)

    def saw_a_snapshot(self) -> bool:
        """Whether Prometheus has found a snapshot under way that was ahead of its rate: a busy machine scrapes late."""
        gauges = catalogue.SNAPSHOT_LEFT, catalogue.SOURCE_BUSY
        return all(self.prometheus.has_had(f"{gauge.name} > 0") for gauge in gauges)

    def completed(self, id_: str) -> bool:
        """Whether the snapshot has ended, with all of its tables complete."""
        return {table["state"] for table in self._tables(id_)} == {"completed"}

    def begun(self, id_: str, table: TableId) -> bool:
        """Whether the snapshot has rows of the table."""
        return any(
            TableId(each["database"], each["table"]) == table and each["rows"] for each in self._tables(id_)
        )

    def _tables(self, id_: str) -> list[dict[str, Any]]:
        snapshots = json.loads(self.get("/status"))["snapshots"]
        return [table for each in snapshots if each["id"] == id_ for table in each["tables"]]

    def see_a_window(self) -> None:
        """Have a chunk of the orders wait for so long that who asks later for a time with an open window finds it."""
        until(lambda: self.begun("s1", _ORDERS), "the snapshot of the orders")
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {_ORDERS} WRITE")
            until(lambda: self.prometheus.has_had(catalogue.OLDEST_WINDOW.name), "a window is seen")

    def wait_for_own_writes(self) -> None:
        """Write and ask for it, until somebody who looks meanwhile has found a request that waits."""

        def seen() -> bool:
            self.oddities("UPDATE {} SET number = number + 1")
            gtids = quote(self.server.executed())
            self.get(f"/applied?gtid_set={gtids}&tables={_ODDITIES}&timeout_s={WITHIN_S:.0f}")
            return self.prometheus.has_had(f"{catalogue.WAITS.name} > 0")

        until(seen, "a request waits")

    def read_changes(self) -> None:
        """Read the changes until somebody who looks meanwhile has found a reader."""
        with (
            urllib.request.urlopen(f"{self.service.url}/changes?since=earliest", timeout=WITHIN_S) as lines,
            urllib.request.urlopen(
                f"{self.service.url}/changes?since=earliest&format=arrow&tables={_ODDITIES}",
                timeout=WITHIN_S,
            ) as arrow,
        ):
            assert lines.readline() and arrow.read(8)
            until(lambda: self.prometheus.has_had(f"{catalogue.CHANGES_READERS.name} > 1"), "both read")

    def stopped(self) -> bool:
        """Whether the lake takes nothing of the odd table any more."""
        tables = json.loads(self.get("/status"))["actors"]["SparkSink"]["tables"]
        return tables[_ODDITIES]["stopped"] is not None

    def oddities(self, *statements: str) -> None:
        """Do to the odd table what is said of it, as `{}`."""
        self.server.sql(*(statement.format(_ODDITIES) for statement in statements))


class NotYet(AssertionError):
    """It didn't come to hold in time."""


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until it holds. Raises NotYet with `what` if it doesn't in time."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise NotYet(f"not within {WITHIN_S} s: {what}")
        time.sleep(0.2)


@contextmanager
def watched(
    server: MysqlServer, kafka: KafkaBroker, parts: Parts, spark: SparkSettings, folder: Path
) -> Iterator[Watched]:
    """The shop, its service with a lake and topics, and Prometheus."""
    assert parts.prometheus is not None, "run `make setup-tests`"
    with ExitStack() as all_of_it:
        all_of_it.enter_context(stocked(server))
        server.sql(
            f"CREATE TABLE {_ODDITIES} (id INT PRIMARY KEY, day DATE, number INT, note VARCHAR(40))",
            f"CREATE TABLE {_EMPTIED} (id INT PRIMARY KEY)",
            f"INSERT INTO {_ODDITIES} VALUES (1, '2024-01-01', 1, 'CANARY-old'), (2, NULL, 2, 'CANARY-older')",
        )
        account = server.create_capture_user(shop.DATABASE, account=_ACCOUNT)
        service = Service(
            configuration(folder, server, account, kafka, parts, spark), folder / "journal", folder / "log"
        )
        all_of_it.callback(service.kill)
        service.start()
        prometheus = all_of_it.enter_context(Prometheus(parts.prometheus, folder / "prometheus"))
        prometheus.watch(service.url)
        until(prometheus.scraped, "scraped")
        yield Watched(service, prometheus, server)


def configuration(
    folder: Path,
    server: MysqlServer,
    account: Account,
    kafka: KafkaBroker,
    parts: Parts,
    spark: SparkSettings,
) -> Path:
    """All that takes its time is due at once, but the snapshot, which is made to take some seconds.

    The topics are without the oddities, since they take no rows that lack columns.
    """
    (folder / "password").write_text(account.password)
    conf = {**spark.conf, "spark.ui.enabled": "false"}
    path = folder / "shop.toml"
    path.write_text(f"""name = "shop"
tables = ["{shop.DATABASE}\\\\..*"]
journal = {{ path = "journal", seal_after_ms = 1000 }}
lake = {{ path = "lake", merge_after_s = 10, compact_files = 4 }}
kafka = {{ bootstrap_servers = ["{kafka.address}"], topic_prefix = "watched", tables = ["{_ORDERED}"] }}
snapshot = {{ mode = "no_data", chunk_rows = 50, rows_per_s = 400 }}

[spark]
master = "local[2]"
driver_memory = "512m"
jars = {json.dumps([str(jar) for jar in parts.jars])}
conf = {toml(conf)}

[source]
host = "{server.host}"
port = {server.port}
user = "{account.user}"
password_file = "password"
server_id = 79
tls = {{ mode = "disabled" }}
""")
    return path


def trouble(watched: Watched) -> None:
    """What happens to a service: odd rows, an altered table, then under load a snapshot, a lost connection and an
    emptied table, after it clients who wait and a verification, at last a row without all of its columns.

    Who waits and who verifies waits for the mirror, which a load without a bound keeps late on two cores.
    """
    watched.oddities(
        "SET SESSION sql_mode = ''",
        "INSERT INTO {} VALUES (3, '0000-00-00', 3, 'CANARY-odd')",
        "ALTER TABLE {} ADD COLUMN more VARCHAR(40) COMMENT 'CANARY-comment'",
    )
    watched.server.sql("CREATE USER canary IDENTIFIED BY 'CANARY-user'", "DROP USER canary")
    with writing(watched.server, FEW_PER_S):
        watched.snapshot("s1", r"shop\..*")
        watched.see_a_window()
        assert cut(watched.server, gives_log, _ACCOUNT)
        watched.server.sql(f"TRUNCATE {_EMPTIED}")
        until(lambda: watched.completed("s1"), "the snapshot's end")
        # Whether a row changes within its window is chance, and so is when Prometheus looks.
        more = iter(range(2, _MOST_SNAPSHOTS))
        while not (watched.rows_gave_way() and watched.saw_a_snapshot()):
            id_ = f"s{next(more)}"
            watched.snapshot(id_, r"shop\..*")
            until(partial(watched.completed, id_), "a further snapshot's end")
    watched.wait_for_own_writes()
    watched.read_changes()
    watched.verify("v1", r"shop\.customers")
    watched.oddities("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO {} (id) VALUES (4)")
