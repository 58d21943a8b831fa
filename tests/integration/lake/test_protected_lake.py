"""A whole service with protected columns: the lake equals the source by the rules, and no byte of it has a value."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.service.live_view_text import live_view_text
from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.lake.reading.sql_dialects import Dialect
from tests.integration.service.test_protection import (
    PLANTED,
    SALT,
    changed,
    created,
    hashed,
    leaks,
    logins_at,
    rules,
)
from tests.servers.duckdb_engine import engine
from tests.servers.service_process import configuration, delivered, tidemark, until
from tests.servers.spark import start_quickly

RULE = """
[[protection.rules]]
tables = {tables}
columns = {columns}
treatment = "{treatment}"
"""


@pytest.fixture
def config(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    start_quickly(monkeypatch, parts)
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "1")
    monkeypatch.setenv("TIDEMARK__PROTECTION__SALT", SALT)
    created(mysql, database)
    path = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    with path.open("a") as file:
        for rule in rules(database).rules:
            tables, columns = json.dumps(rule.tables.patterns), json.dumps(rule.columns)
            file.write(RULE.format(tables=tables, columns=columns, treatment=rule.treatment))
            file.write("" if rule.length is None else f"length = {rule.length}\n")
    return path


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    service = Service(config, config.parent / "journal", config.parent / "log")
    yield service
    service.kill()


def served(service: Service) -> Iterator[tuple[str, str]]:
    """What the service tells those who ask it."""
    for path in (
        "/status",
        "/metrics",
        "/tables",
        "/events",
        "/snapshots",
        "/register",
        "/changes?since=earliest&through=now",
    ):
        with urllib.request.urlopen(f"{service.url}{path}", timeout=30) as answer:
            yield path, answer.read().decode(errors="replace")


@pytest.mark.full
def test_the_lake_has_what_the_rules_leave(
    service: Service, config: Path, mysql: MysqlServer, database: str
) -> None:
    service.start()
    until(service, delivered(mysql))
    changed(mysql, database)
    until(service, delivered(mysql))
    service.kill()
    mysql.sql("UPDATE people SET n = -3 WHERE id = 9", database=database)
    service.start()
    until(service, delivered(mysql))
    told = tidemark("verify", config)
    assert told.returncode == 0, told.stdout + told.stderr
    lake = str(config.parent / "lake")
    with closing(engine()) as duckdb:
        view = live_view_text(lake, f"{database}.people", Dialect.DUCKDB)
        found = {
            row[0]: row[1:]
            for row in duckdb.execute(f"SELECT id, email, phone, note, n FROM ({view})").fetchall()
        }
        columns = [each[0] for each in duckdb.execute(f"SELECT * FROM ({view}) LIMIT 0").description or ()]
        view = live_view_text(lake, f"{database}.logins", Dialect.DUCKDB)
        logins = dict(duckdb.execute(f"SELECT login, n FROM ({view})").fetchall())
    assert columns == ["id", "email", "phone", "note", "n"]
    assert found == {
        id_: (
            email and hashed(email),
            phone and "****",
            note[:3],
            n,
        )
        for id_, email, phone, note, n in mysql.sql(
            "SELECT id, email, phone, note, n FROM people", database=database
        )
    }
    assert logins == logins_at(mysql, database)
    assert [path for path, text in served(service) if PLANTED in text] == []
    service.stop()
    assert list(leaks(config.parent)) == []
