"""`tidemark verify` beside a writer: the lake is equal, then a file of it is tampered with, named, and read again."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from actors.service.cli import main
from actors.service.live_view_text import live_view_text
from deploy.demo.service import Service
from deploy.demo.tamper import live_files, rewrite
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import findings_path, location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.actors.http.test_routes import conforms
from tests.servers.duckdb_engine import engine
from tests.servers.service_process import configuration, delivered, until
from tests.servers.spark import start_quickly

ROWS = 3000
# An exit code, and what was printed.
Ended = tuple[int, str]


@pytest.fixture
def config(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    start_quickly(monkeypatch, parts)
    # Merges come between, and not all the time: a comparison waits for the one that is under way.
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "10")
    # The writer writes all the time: else Spark would take a few rows with each batch, and one batch after the other.
    monkeypatch.setenv("TIDEMARK__JOURNAL__SEAL_AFTER_MS", "1000")
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


def verify(config: Path, *arguments: str) -> Ended:
    done = CliRunner().invoke(main, ["verify", str(config), *arguments])
    return done.exit_code, done.output


def asked(*arguments: str) -> str:
    """What a command that succeeds has printed."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def verify_daily(config: Path, *arguments: str) -> Ended:
    """The command, which would verify again tomorrow, and is interrupted after its first result."""
    command = [sys.executable, "-m", "actors", "verify", str(config), "--every", "24h", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        process.terminate()
        return process.wait(), told


def beside_writes(mysql: MysqlServer, table: TableId, command: Callable[[], Ended]) -> Ended:
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


def tamper(mirror: Path) -> str:
    """Changes a value and a key in the file of the first snapshot, and has a row twice, in place of the last one.

    Returns the last one's key. The places of the others stay, by which Delta knows which rows are deleted.
    """
    (path,) = (each for each in live_files(mirror) if "k7" in pq.read_table(each)["code"].to_pylist())
    last = str(pq.read_table(path)["code"][-1])

    def changed(rows: pa.Table) -> pa.Table:
        values = {name: rows[name].to_pylist() for name in ("code", "n")}
        values["n"][values["code"].index("k7")] = -1
        values["code"][values["code"].index("k9")] = "extra"
        for name, column in values.items():
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, pa.array(column, field.type))
        return pa.concat_tables([rows.slice(0, len(rows) - 1), rows.slice(values["code"].index("k8"), 1)])

    rewrite(path, changed)
    return last


def queried(query: str) -> list[tuple[Any, ...]]:
    with closing(engine()) as duckdb:
        found: list[tuple[Any, ...]] = duckdb.execute(query).fetchall()
        return found


def test_what_is_tampered_with_is_named_and_read_again(
    service: Service, config: Path, mysql: MysqlServer, database: str
) -> None:
    table, lake = TableId(database, "items"), str(config.parent / "lake")
    service.start()
    until(service, delivered(mysql))
    code, told = beside_writes(mysql, table, lambda: verify_daily(config, "--rows-per-s", "100000"))
    assert (code, f"{table}: equal" in told) == (0, True), told

    last = tamper(Path(location(lake, table, Tier.MIRROR)))
    began = time.time()
    code, told = beside_writes(mysql, table, lambda: verify(config, "--repair"))
    assert (code, f"{table}: different" in told, "repaired: equal, 5 rows" in told) == (0, True, True), told
    found = queried(f"SELECT kind, key, columns FROM delta_scan('{findings_path(lake)}')")
    named = {(kind, json.loads(key)["code"], tuple(columns or ())) for kind, key, columns in found}
    assert named == {
        ("different", "k7", ("n",)),
        ("missing", last, ()),
        ("missing", "k9", ()),
        ("extra", "extra", ()),
        ("duplicate", "k8", ()),
    }

    (listed,) = json.loads(asked("tables", str(config), "--json"))
    conforms("Table", listed)
    result = listed["verification"]["result"]
    assert result["found"] == {"different": 1, "missing": 2, "extra": 1, "duplicate": 1}
    assert (result["verdict"], result["repaired"]["verdict"]) == ("different", "equal")
    assert began < result["at"] < result["repaired"]["at"] < time.time()
    assert f"{table}  repaired (" in asked("status", str(config))

    view = live_view_text(lake, str(table), Dialect.DUCKDB)
    rows = queried(f"SELECT * FROM ({view}) WHERE code IN ('k7', '{last}', 'k9', 'extra', 'k8')")
    assert sorted(rows) == sorted([("k7", 7), (last, int(last[1:])), ("k8", 8), ("k9", 9)])

    code, told = verify(config, "--tables", "nowhere")
    assert (code, "no captured table matches nowhere" in told) == (2, True), told
