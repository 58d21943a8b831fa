"""A stream of a real service's journal, while everything is killed again and again; at length, on two workers."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Event

import pymysql
import pytest

from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from deploy.toolchain.ports import take_port
from tests.servers.at_work import at_work
from tests.servers.duckdb_engine import engine
from tests.servers.service_process import configuration
from tests.servers.spark import quick
from tests.servers.spark_cluster import SparkCluster
from tests.servers.stream_driver import StreamDriver, Streaming

WITHIN_S = 600.0
LOOK_EVERY_S = 0.2
WRITE_EVERY_S = 0.05


class House:
    """A server that is written to, the service that captures it, and the driver that streams its journal."""

    def __init__(
        self, folder: Path, mysql: MysqlServer, database: str, parts: Parts, cluster: SparkCluster | None
    ) -> None:
        self.mysql = mysql
        self.database = database
        self.cluster = cluster
        config = configuration(folder, mysql, parts, database, mysql.create_capture_user(database))
        # The stream needs no lake, so the service's own Spark is one that can't be reached.
        lines = config.read_text().splitlines()
        spark = [place for place, line in enumerate(lines) if line.startswith("spark ")]
        lines[spark[0]] = f'spark = {{ master = "sc://127.0.0.1:{take_port()}" }}'
        config.write_text("\n".join(lines))
        self.service = Service(config, folder / "journal", folder / "log")
        streaming = Streaming(
            "local[2]" if cluster is None else cluster.master,
            {**quick(), **({} if cluster is None else cluster.conf)},
            tuple(map(str, parts.jars)),
            str(folder / "stream"),
            str(folder / "journal"),
            f"{database}.counts",
        )
        self.driver = StreamDriver(streaming)

    def write(self, over: Event) -> int:
        """Commits transactions of two rows, each of which changes once more; the number of transactions."""
        number = 0
        with closing(
            pymysql.connect(unix_socket=str(self.mysql.socket), user="root", database=self.database)
        ) as connection:
            while not over.wait(WRITE_EVERY_S):
                with connection.cursor() as cursor:
                    cursor.execute(f"INSERT INTO counts VALUES ({2 * number}, 1), ({2 * number + 1}, 1)")
                    cursor.execute(f"UPDATE counts SET n = n + 1 WHERE id >= {2 * number}")
                connection.commit()
                number += 1
        return number

    def until_more_arrives(self) -> None:
        """Waits for the next commit of the stream. Starts its driver again if the query has ended."""
        there, deadline = self.driver.streaming.commits, time.monotonic() + WITHIN_S
        while self.driver.streaming.commits <= there:
            if not self.driver.runs():
                self.driver.start()
            assert time.monotonic() < deadline, f"nothing arrives:\n{self.driver.last_words()}"
            time.sleep(LOOK_EVERY_S)

    def kill(self, number: int) -> None:
        """Kills the service, the driver, or all executors of a cluster, in turns."""
        match number % (2 if self.cluster is None else 3):
            case 0:
                self.service.kill()
                self.service.start("/livez")
            case 1:
                self.driver.kill()
                self.driver.start()
            case _:
                for executor in () if self.cluster is None else self.cluster.executors:
                    with suppress(ProcessLookupError):
                        os.kill(executor, signal.SIGKILL)

    def until_all_arrived(self, rows: int) -> None:
        """Waits until so many have come through the journal and the stream, or more."""
        deadline = time.monotonic() + WITHIN_S
        while len(self.arrived()) < rows:
            said = f"{self.service.last_words()}\n{self.driver.last_words()}"
            assert time.monotonic() < deadline, f"not all arrives:\n{said}"
            time.sleep(LOOK_EVERY_S)

    def arrived(self) -> list[tuple[str, int, int]]:
        """What the Delta table has: the operation, the key and the value."""
        with closing(engine()) as duckdb:
            found: list[tuple[str, int, int]] = duckdb.execute(
                f"SELECT __op, id, n FROM delta_scan('{self.driver.streaming.out}') ORDER BY ALL"
            ).fetchall()
            return found


@pytest.fixture
def make_house(
    tmp_path: Path, mysql: MysqlServer, database: str, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[SparkCluster | None], House]]:
    """Makes the house with a driver of this cluster, or without one."""
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__MODE", "no_data")
    mysql.sql("CREATE TABLE counts (id INT PRIMARY KEY, n INT NOT NULL)", database=database)
    with ExitStack() as ended:

        def make(cluster: SparkCluster | None) -> House:
            made = House(tmp_path, mysql, database, parts, cluster)
            ended.callback(made.service.kill)
            ended.callback(made.driver.kill)
            made.service.start("/livez")
            return made

        yield make


def stream_while_killing(house: House, kills: int) -> None:
    with at_work([house.write]) as written:
        house.driver.start()
        for number in range(kills):
            house.until_more_arrives()
            house.kill(number)
        house.until_more_arrives()
    (transactions,) = written
    rows = range(2 * transactions)
    house.until_all_arrived(2 * len(rows))
    assert house.arrived() == [*(("c", id_, 1) for id_ in rows), *(("u", id_, 2) for id_ in rows)]


@pytest.mark.full
def test_each_change_arrives_once_whatever_is_killed(
    make_house: Callable[[SparkCluster | None], House],
) -> None:
    stream_while_killing(make_house(None), 2)


@pytest.mark.full
def test_each_change_arrives_once_whatever_is_killed_of_a_cluster(
    spark_cluster: SparkCluster, make_house: Callable[[SparkCluster | None], House]
) -> None:
    stream_while_killing(make_house(spark_cluster), int(os.environ.get("TIDEMARK_STREAM_KILLS", "30")))
