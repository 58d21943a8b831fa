"""The whole service as its users run it: a process, a real MySQL, a real Spark, and signals from the command line."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.source.preflight import preflight
from deploy.demo.service import Service
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import JournalSettings, LakeSettings, Settings
from pipeline.schema.table_filter import TableFilter
from tests.servers.service_process import configuration, delivered, tidemark, until
from tests.servers.source import settings as source_settings

STRANGER = Account("stranger", "stranger")


@pytest.fixture
def config(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__SNAPSHOT__MODE", "no_data")
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))", database=database)
    return configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    folder = config.parent
    service = Service(config, folder / "journal", folder / "log")
    yield service
    service.kill()


def rows(folder: Path, table: str, tier: str) -> pa.Table:
    """A lake table's rows that were only ever appended."""
    files = sorted((folder / "lake").glob(f"*/{table}/{tier}/*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files])


@pytest.mark.full
def test_from_the_source_to_the_lake_through_a_stop_and_a_kill(
    config: Path, service: Service, mysql: MysqlServer, database: str
) -> None:
    insert = "INSERT INTO orders VALUES ({0}, 'n{0}')"
    mysql.sql(*(insert.format(i) for i in range(10)), database=database)
    assert (tidemark("check", config).returncode, tidemark("status", config).returncode) == (0, 2)

    service.start()
    assert service.tell("execute", "--id", "s1").startswith("s1: ")
    mysql.sql(*(insert.format(i) for i in range(10, 20)), database=database)
    status = until(service, lambda s: all(t["state"] == "completed" for t in s["snapshots"][0]["tables"]))
    assert status["snapshots"][0]["id"] == "s1"
    until(service, delivered(mysql))
    assert "shop" in tidemark("status", config).stdout
    assert json.loads(tidemark("status", config, "--json").stdout)["ready"] is True
    query = tidemark("sql", config, f"{database}.orders")
    assert "changelog" in query.stdout
    again = tidemark("run", config)
    assert again.returncode == 2
    assert "journal" in again.stderr
    assert service.stop() == 0

    mysql.sql(*(insert.format(i) for i in range(20, 30)), database=database)
    service.start()
    mysql.sql(*(insert.format(i) for i in range(30, 40)), database=database)
    service.kill()
    mysql.sql(*(insert.format(i) for i in range(40, 50)), database=database)
    service.start()
    with (config.parent / "signals.jsonl").open("a") as signals:
        signals.write('{"id": "f1", "type": "pause-snapshot"}\n')
    until(service, delivered(mysql))
    until(service, lambda s: s["paused"])
    assert service.stop() == 0

    changes = rows(config.parent, "orders", "changelog")
    assert Counter(changes["id"].to_pylist()) == dict.fromkeys(range(10, 50), 1)
    assert sorted(rows(config.parent, "orders", "mirror")["id"].to_pylist())[:10] == list(range(10))
    (answer,) = (config.parent / "signals.jsonl.answers").read_text().splitlines()
    assert json.loads(answer)["id"] == "f1"
    assert not (config.parent / "journal" / "http.json").exists()


def test_a_check_of_what_can_run_names_what_it_runs_with(config: Path, database: str) -> None:
    checked = tidemark("check", config)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    *holds, last = checked.stdout.splitlines()
    assert any(line.startswith(f"{database}.orders  id  ") for line in holds)
    assert last.startswith("all is well, with PySpark 4.2.0, Delta 4.4.0 (")
    assert 'name = "shop"' in holds


def test_a_check_of_a_source_that_is_not_as_it_should_be_counts_no_tables(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK__SIGNALS__TABLE", "no.such")
    checked = tidemark("check", config)
    assert checked.returncode == 1
    assert "signals.table: there's no no.such that the user may see" in checked.stdout
    assert "0 tables" not in checked.stdout


def test_a_check_of_tables_that_nothing_matches_fails_with_what_was_meant(
    config: Path, database: str
) -> None:
    config.write_text(config.read_text().replace(f"{database}\\\\..*", "orders"))
    checked = tidemark("check", config)
    assert checked.returncode == 1
    assert "'orders' has no database before a dot: did you mean" in checked.stdout


def test_a_check_warns_of_a_pattern_that_matches_nothing_beside_one_that_does(
    config: Path, database: str
) -> None:
    text = config.read_text()
    both = text.replace(f'"{database}\\\\..*"', f'"{database}\\\\..*", "{database}\\\\.oders"')
    assert both != text
    config.write_text(both)
    checked = tidemark("check", config)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (warning,) = [line for line in checked.stdout.splitlines() if line.startswith("warning: tables: ")]
    assert f"matches no table: did you mean '{database}\\\\.orders'?" in warning


def test_a_check_lists_all_that_is_missing_and_a_run_refuses(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    mysql.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY)",
        f"CREATE USER IF NOT EXISTS '{STRANGER.user}'@'%' IDENTIFIED BY '{STRANGER.password}'",
        database=database,
    )
    config = configuration(tmp_path, mysql, parts, database, STRANGER)
    checked = tidemark("check", config)
    assert checked.returncode == 1
    for wrong in ("REPLICATION SLAVE", "REPLICATION CLIENT", "no Java at", "no table that the user may see"):
        assert wrong in checked.stdout
    refused = tidemark("run", config)
    assert refused.returncode == 2
    assert "REPLICATION SLAVE" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert STRANGER.password not in checked.stdout.replace(STRANGER.user, "")


async def test_schemas_are_known_at_a_position(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (x INT)", database=database)
    account = mysql.create_capture_user(database)
    settings = Settings(
        "shop",
        TableFilter((f"{database}\\.a",)),
        source_settings(mysql, account),
        JournalSettings(str(tmp_path / "journal")),
        LakeSettings(str(tmp_path)),
    )
    found = await preflight(settings)
    found.raise_errors()
    assert [str(table) for table in found.known.schemas] == [f"{database}.a"]
    assert str(found.known.at).replace("\n", "") == mysql.executed()
