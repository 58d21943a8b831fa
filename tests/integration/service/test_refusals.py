"""What the service can't work with is refused in words that say what's wrong and what to do."""

import subprocess
import sys
from asyncio import Event
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import ExitCode
from actors.service import assembly
from actors.service.start_checks import check_server_id, check_servers
from actors.source import gtid_history
from actors.source.binlog_dump import replica_uuid
from actors.source.connection import Source
from actors.source.preflight import preflight
from actors.source.watermark_table import SignalTable
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, Account, MysqlServer
from pipeline import metrics as catalogue
from pipeline.config.settings import AlertSettings, Secret, Settings, SnapshotMode
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.signals import SignalRejected
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.source.finding import Severity
from pipeline.source.information_schema import Descriptions
from tests.servers.journal_oracle import replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import WithoutLake, pipeline, running
from tests.servers.webhook import Receiver, receiver

__all__ = ["receiver"]


async def refusal(settings: Settings) -> str:
    """The last words of a service that ends by itself, for good."""
    async with running(settings) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    return outcome.message


@pytest.mark.parametrize("right", ["REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT"])
async def test_a_right_that_is_missing(mysql: MysqlServer, database: str, tmp_path: Path, right: str) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    account = Account(f"without {right[-6:].lower()}", "secret")
    mysql.create_capture_user(*(() if right == "SELECT" else (database,)), account=account)
    name = f"'{account.user}'@'%'"
    if right == "SELECT":  # who may insert into a table can see that it's there
        mysql.sql(f"GRANT INSERT ON {database}.t TO {name}")
    else:
        mysql.sql(f"REVOKE {right} ON *.* FROM {name}")
    settings = pipeline(mysql, tmp_path, database)
    source = replace(settings.source, user=account.user, password=Secret(account.password))
    told = await refusal(replace(settings, source=source))
    target = f"`{database}`.`t`" if right == "SELECT" else "*.*"
    assert f"GRANT {right} ON {target} TO {name}" in told
    assert "secret" not in told


async def test_statements_that_keep_coming_hold_up_no_start(
    mysql: MysqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One alters a table, and one creates another, whenever the server is asked for its tables."""
    calm, busy = (TableId(database, name) for name in ("calm", "busy"))
    mysql.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in ("calm", "busy")), database=database)
    descriptions, looks, coming = Source.descriptions, count(1), Event()
    coming.set()

    async def altering(
        source: Source, tables: Sequence[TableId], before: Descriptions | None = None, *, brief: bool = False
    ) -> Descriptions:
        look = next(looks)
        if coming.is_set():
            mysql.sql(
                f"ALTER TABLE busy ADD COLUMN c{look} INT",
                f"CREATE TABLE scratch_{look} (id INT PRIMARY KEY)",
                database=database,
            )
        return await descriptions(source, tables, before, brief=brief)

    monkeypatch.setattr(Source, "descriptions", altering)
    settings = pipeline(mysql, tmp_path, database)
    found = await preflight(settings)
    assert calm in found.known.settled.schemas
    assert busy in found.known.unsettled
    async with running(settings) as service:
        await service.begun()
        coming.clear()
        await service.execute("s", str(calm), str(busy))
        await service.completed("s")
        for table in ("calm", "busy"):
            mysql.sql(f"INSERT INTO {table} (id) VALUES (1)", database=database)
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", calm, busy) == []


async def test_statements_that_undo_each_other_while_the_start_looks(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looks show the same columns, and rows between them have others, which the log doesn't name."""
    server, t = mysql_factory(GTIDS), TableId("d", "t")
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)")
    visible, first = gtid_history.visible_transactions, Event()

    async def between(source: Source, markers: SignalTable | None) -> GtidSet:
        if first.is_set():
            return await visible(source, markers)
        first.set()
        server.sql("ALTER TABLE d.t MODIFY a INT AFTER b")
        at = await visible(source, markers)
        server.sql("INSERT INTO d.t (id, a, b) VALUES (1, 10, 20)", "ALTER TABLE d.t MODIFY b INT AFTER a")
        return at

    monkeypatch.setattr(gtid_history, "visible_transactions", between)
    async with running(pipeline(server, tmp_path, "d", mode=SnapshotMode.INITIAL)) as service:
        await service.begun()
        server.sql("INSERT INTO d.t (id, a, b) VALUES (2, 10, 20)")
        await service.caught_up(server)
        await service.execute("s", str(t))
        await service.completed("s")
        await service.stop()
    assert unequal(server, tmp_path / "journal", t) == []
    changes = replay(tmp_path / "journal", t, since=0).changes
    assert [change.row for change in changes if change.op == "c"] == [{"id": 2, "a": 10, "b": 20}]


async def test_a_wrong_password(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    settings = pipeline(mysql, tmp_path, database)
    told = await refusal(replace(settings, source=replace(settings.source, password=Secret("wrong"))))
    assert "Access denied for user 'tidemark'" in told


async def test_a_server_without_gtids(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = mysql_factory(
        {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF", "binlog_format": "STATEMENT"}
    )
    told = await refusal(pipeline(server, tmp_path, "shop"))
    for variable in ("gtid_mode", "enforce_gtid_consistency", "binlog_format"):  # all of them at once
        assert f"{variable} is" in told


async def test_a_binlog_that_was_purged(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.stop()
    before = server.executed()
    server.sql("INSERT INTO shop.t VALUES (1)")
    lost = int(before.rpartition("-")[2]) + 1
    server.purge_binlogs()
    told = await refusal(settings)
    assert f"the binlog that we need was purged: {server.uuid}:{lost}; restore it on the source" in told
    assert 'set snapshot.mode = "when_needed"' in told


async def test_a_check_refuses_the_journal_that_a_run_refuses(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    settings = pipeline(server, tmp_path, "shop")
    assert await mistakes(settings) == [], "there's no journal yet"
    async with running(settings) as service:
        await service.begun()
        server.sql("INSERT INTO shop.t VALUES (1)")
        await service.caught_up(server)
        assert await mistakes(settings) == []
        replicas = [finding.wrong async for finding in check_server_id(settings)]
        assert not any(str(replica_uuid(f"check of {settings.name}")) in each for each in replicas)
        server.sql("INSERT INTO shop.t VALUES (2)")
        await service.caught_up(server)
        restarts = service.assembly.metrics.value(catalogue.RESTARTS, actor=Name.BINLOG_READER.value)
        assert restarts == 0, "the check reads as another replica"
        await service.stop()
    assert await mistakes(settings) == []
    server.sql("INSERT INTO shop.t VALUES (3)")
    server.purge_binlogs()
    (purged,) = await mistakes(settings)
    assert purged.startswith("error: the binlog that we need was purged: ")
    assert (await refusal(settings)).removeprefix("capture: ") in purged
    again = replace(settings, snapshot=replace(settings.snapshot, mode=SnapshotMode.WHEN_NEEDED))
    assert await mistakes(again) == [], "a run begins again"
    server.sql("RESET BINARY LOGS AND GTIDS")
    (reset,) = await mistakes(settings)
    assert reset.startswith("error: the source is a divergent server: ")
    assert (await refusal(settings)).removeprefix("capture: ") in reset
    server.sql(*(f"INSERT INTO shop.t VALUES ({key})" for key in range(10, 60)))
    (renewed,) = await mistakes(settings)
    assert renewed.startswith("error: the source has another history: ")
    assert (await refusal(settings)).removeprefix("capture: ") in renewed


async def mistakes(settings: Settings) -> list[str]:
    """Returns what a check of the source says of why a run would end."""
    found = [finding async for finding in check_servers(settings)]
    return [str(finding) for finding in found if finding.severity is Severity.ERROR]


async def test_an_unknown_table_in_a_signal(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        answer = await service.tell("execute-snapshot", "s", r"shop\.oders")
        wanted = rf"no captured table matches shop\.oders; captured are: {database}.t"
        assert answer == SignalRejected("s", wanted)
        await service.stop()


async def test_the_end_by_a_definite_error_is_posted_to_the_webhook(
    mysql: MysqlServer, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "Assembly", WithoutLake)
    settings = pipeline(mysql, tmp_path, "shop")
    wrong = replace(settings.source, password=Secret("planted"))
    alerts = AlertSettings(Secret(receiver.address))
    outcome = await assembly.serve(replace(settings, source=wrong, alerts=alerts), RecentEvents())
    assert outcome.code is ExitCode.DEFINITE
    (told,) = receiver.got
    assert (told["kind"], told["reason"]) == ("service-ended", outcome.message)
    assert "planted" not in str(told)


def test_all_mistakes_of_a_configuration_at_once(tmp_path: Path) -> None:
    config = tmp_path / "shop.toml"
    config.write_text("""
nmae = "shop"
tables = ["shop\\\\.(orders"]
journal = { path = "journal", seal_after_ms = 0 }
lake = { path = "" }
source = { host = "127.0.0.1", user = "u", server_id = 7, password = "secret" }
""")
    told = subprocess.run(
        [sys.executable, "-m", "actors", "run", str(config)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 2
    first, *mistakes = told.stderr.splitlines()
    assert first == f"tidemark: {config} can't be used:"
    assert sorted(mistake.split(":")[0].strip() for mistake in mistakes) == [
        "journal.seal_after_ms",
        "lake.path",
        "name",
        "nmae",
        "source.password",
        "tables",
    ]
    assert "did you mean name?" in told.stderr
    assert "secret" not in told.stderr
