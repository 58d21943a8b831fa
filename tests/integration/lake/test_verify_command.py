"""`tidemark verify` beside a writer: the lake is equal, then a row of it is tampered with, named, and read again."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner, Result
from py4j.protocol import Py4JJavaError

from actors.lake.delta_table import is_conflict
from actors.lake.live_view import live_view
from actors.lake.spark_session import Spark
from actors.service.cli import main
from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.lake.tables import Tier, findings_path, location, table_at
from pipeline.schema.table_schema import TableId
from tests.integration.service.test_run import configuration, delivered, until
from tests.servers.spark import quick_java

ROWS = 3000


@pytest.fixture
def config(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", quick_java(parts))
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "2")
    numbers = ", ".join(f"('k{number}', {number})" for number in range(ROWS))
    mysql.sql(
        "CREATE TABLE items (code VARCHAR(20) PRIMARY KEY, n INT)",
        f"INSERT INTO items VALUES {numbers}",
        database=database,
    )
    return configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    service = Service(config, config.parent / "journal", config.parent / "log")
    yield service
    service.kill()


def tidemark(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def beside_writes(mysql: MysqlServer, table: TableId, command: Callable[[], Result]) -> Result:
    """The command's result, while a writer changes rows and their keys."""
    ended = Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.1):  # without a bound the lake would be late, and the command waits for it
            number += 1
            mysql.sql(
                f"UPDATE {table} SET n = n + 1 WHERE code = 'k{number % 50 + 100}'",
                f"UPDATE {table} SET code = CONCAT('m', {number}) WHERE code = 'k{number % 50 + 200}'",
            )

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            return command()
        finally:
            ended.set()
            writing.result()


def tamper(spark: Spark, statement: str) -> None:
    """Changes the lake behind the service's back. A merge of the service's may come between."""
    while True:
        try:
            spark.session.sql(statement)
        except Py4JJavaError as error:
            if not is_conflict(error):
                raise
        else:
            return


def test_what_is_tampered_with_is_named_and_read_again(
    service: Service, config: Path, mysql: MysqlServer, database: str, spark: Spark
) -> None:
    table = TableId(database, "items")
    service.start()
    until(service, delivered(mysql))
    equal = beside_writes(mysql, table, lambda: tidemark("verify", config))
    assert (equal.exit_code, f"{table}: equal" in equal.output) == (0, True), equal.output

    lake = str(config.parent / "lake")
    mirror = table_at(location(lake, table, Tier.MIRROR))
    tamper(spark, f"UPDATE {mirror} SET n = -1 WHERE code = 'k7'")
    tamper(spark, f"DELETE FROM {mirror} WHERE code = 'k8'")
    tamper(spark, f"UPDATE {mirror} SET code = 'extra' WHERE code = 'k9'")
    different = beside_writes(mysql, table, lambda: tidemark("verify", config))
    assert (different.exit_code, "different" in different.output) == (1, True), different.output
    found = spark.session.sql(f"SELECT * FROM {table_at(findings_path(lake))}").collect()
    named = {(row["kind"], json.loads(row["key"])["code"], tuple(row["columns"] or ())) for row in found}
    assert named == {
        ("different", "k7", ("n",)),
        ("missing", "k8", ()),
        ("missing", "k9", ()),
        ("extra", "extra", ()),
    }

    mended = beside_writes(mysql, table, lambda: tidemark("verify", config, "--repair"))
    assert (mended.exit_code, "repaired: equal, 4 rows" in mended.output) == (0, True), mended.output
    rows = live_view(spark.session, lake, table).where("code IN ('k7', 'k8', 'k9', 'extra')").collect()
    assert {(row["code"], row["n"]) for row in rows} == {("k7", 7), ("k8", 8), ("k9", 9)}

    wrong = tidemark("verify", config, "--tables", "nowhere")
    assert (wrong.exit_code, "no captured table matches nowhere" in wrong.output) == (2, True), wrong.output
