"""Signals to a whole service with a real server: rows of a signal table and records of a Kafka topic."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.source.preflight import UnfitSource, preflight
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import KafkaSettings, Settings, SignalSettings, SnapshotMode
from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalRejected
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import progress
from pipeline.verifier.signal_table import CREATE_SIGNAL_TABLE
from tests.servers.awaiting import WITHIN_S
from tests.servers.journal_oracle import entries, unequal
from tests.servers.kafka import Told, create_topic, send
from tests.servers.service import Running, pipeline, running

SNAPSHOT = "execute-snapshot"


@pytest.fixture
def table(mysql: MysqlServer, database: str) -> TableId:
    """A table with ten rows, which is captured, beside a signal table, which isn't."""
    return stocked(mysql, database)


def stocked(mysql: MysqlServer, database: str) -> TableId:
    """Make such tables."""
    numbers = ", ".join(f"({number}, 'row {number}')" for number in range(10))
    mysql.sql(
        f"CREATE TABLE `{database}`.numbers (id INT PRIMARY KEY, text VARCHAR(20) NOT NULL)",
        f"INSERT INTO `{database}`.numbers VALUES {numbers}",
        CREATE_SIGNAL_TABLE.format(table=f"`{database}`.signals"),
    )
    return TableId(database, "numbers")


def with_table(server: MysqlServer, folder: Path, table: TableId) -> Settings:
    """A pipeline of the table alone, that takes signals from the signal table."""
    settings = pipeline(server, folder, table.database)
    signals = SignalSettings(table=TableId(table.database, "signals"))
    return replace(settings, tables=type(settings.tables)((f"{table.database}.numbers",)), signals=signals)


def initial(settings: Settings) -> Settings:
    """The same pipeline, which takes snapshots of its tables at its first start."""
    return replace(settings, snapshot=replace(settings.snapshot, mode=SnapshotMode.INITIAL))


def insert(server: MysqlServer, table: TableId, *rows: tuple[str, str, str | dict[str, Any]]) -> None:
    """Insert rows into the signal table, in one transaction."""
    with server.connect(database=table.database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for id_, kind, data in rows:
            text = data if isinstance(data, str) else json.dumps(data)
            cursor.execute("INSERT INTO signals VALUES (%s, %s, %s)", (id_, kind, text))
        cursor.execute("COMMIT")


async def come(service: Running, id_: str, outcome: str) -> dict[str, str]:
    """Returns the report on the signal, once it has come so far."""

    def told() -> dict[str, str] | None:
        signals = service.status(Name.SIGNAL_LISTENER).get("signals", [])
        return next((s for s in signals if (s["id"], s["outcome"]) == (id_, outcome)), None)

    found = await service.until(told, f"signal {id_} is {outcome}")
    assert found is not None
    return found


async def test_rows_of_a_signal_table_are_signals(mysql: MysqlServer, table: TableId, tmp_path: Path) -> None:
    async with running(with_table(mysql, tmp_path, table)) as service:
        await service.begun()
        wanted = {"data-collections": [str(table)]}
        insert(
            mysql,
            table,
            ("bad1", SNAPSHOT, "{"),
            ("bad2", SNAPSHOT, {"data-collections": ["nope"]}),
            ("bad3", "explode", ""),
            ("s1", SNAPSHOT, wanted),
        )
        await service.completed("s1")
        await come(service, "s1", "done")
        assert "isn't JSON" in (await come(service, "bad1", "rejected"))["reason"]
        assert "no captured table matches nope" in (await come(service, "bad2", "rejected"))["reason"]
        assert "no signal of the type" in (await come(service, "bad3", "rejected"))["reason"]
        assert service.status()["captured"] == [str(table)]

        # The same id again, and a table that's emptied, do nothing.
        mysql.sql(f"DELETE FROM `{table.database}`.signals")
        insert(mysql, table, ("s1", SNAPSHOT, wanted), ("l1", "log", {"message": "at {}"}))
        assert "nothing was done again" in (await come(service, "s1", "accepted"))["detail"]
        assert (await come(service, "l1", "accepted"))["detail"].startswith("at ")
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_a_row_that_was_inserted_while_the_service_was_away_is_taken_once(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    settings = with_table(mysql, tmp_path, table)
    async with running(settings) as service:
        await service.begun()
        insert(mysql, table, ("p1", "pause-snapshot", ""))
        await come(service, "p1", "accepted")
    insert(mysql, table, ("s1", SNAPSHOT, {"data-collections": [".*numbers"]}))
    async with running(settings) as service:
        await come(service, "s1", "running")
        assert service.status()["paused"]
        insert(mysql, table, ("r1", "resume-snapshot", "{}"))
        await service.completed("s1")
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        assert [snapshot["id"] for snapshot in service.status()["snapshots"]] == ["s1"]
        assert not service.status()["paused"]
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_rows_are_signals_where_the_log_names_no_columns_and_when_the_table_was_altered(
    mysql56: MysqlServer, database56: str, tmp_path: Path
) -> None:
    table = stocked(mysql56, database56)
    async with running(with_table(mysql56, tmp_path, table)) as service:
        await service.begun()
        insert(mysql56, table, ("bä", "explode", ""), ("s1", SNAPSHOT, {"data-collections": [str(table)]}))
        await service.completed("s1")
        await come(service, "bä", "rejected")
        signals = f"`{table.database}`.signals"
        mysql56.sql(f"ALTER TABLE {signals} ADD COLUMN more INT", f"ALTER TABLE {signals} DROP COLUMN more")
        insert(mysql56, table, ("l1", "log", {"message": "x"}))
        await come(service, "l1", "accepted")
        await service.stop()
    assert unequal(mysql56, tmp_path / "journal", table) == []


async def test_a_signal_table_that_becomes_another_is_named(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    def problem() -> str | None:
        told: str | None = service.status(Name.SCHEMA_VERIFIER).get("unread_signals")
        return told

    async with running(with_table(mysql, tmp_path, table)) as service:
        await service.begun()
        mysql.sql("ALTER TABLE signals MODIFY data VARBINARY(99)", database=table.database)
        insert(mysql, table, ("s1", "pause-snapshot", ""))
        await service.until(lambda: "three columns of text" in (problem() or ""), "its problem is named")
        mysql.sql("ALTER TABLE signals MODIFY data VARCHAR(99)", database=table.database)
        insert(mysql, table, ("s2", "pause-snapshot", ""))
        await come(service, "s2", "accepted")
        assert problem() is None


async def test_a_signal_table_that_is_emptied_or_made_again_is_not_captured_by_that(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    settings, signals = initial(with_table(mysql, tmp_path, table)), TableId(table.database, "signals")
    async with running(settings) as service:
        await service.begun()
        insert(mysql, table, ("l1", "log", {"message": "x"}))
        mysql.sql(
            "TRUNCATE TABLE signals",
            "ALTER TABLE signals ADD COLUMN more INT NOT NULL DEFAULT 0",
            "ALTER TABLE signals DROP COLUMN more",
            "DROP TABLE signals",
            CREATE_SIGNAL_TABLE.format(table="signals"),
            "ALTER TABLE numbers ADD COLUMN more INT NOT NULL DEFAULT 0",
            "UPDATE numbers SET more = 1 WHERE id = 3",
            database=table.database,
        )
        insert(mysql, table, ("l2", "log", {"message": "x"}))
        await come(service, "l2", "accepted")
        assert service.status()["captured"] == [str(table)]
        await service.stop()
    async with running(settings) as service:
        insert(mysql, table, ("l3", "log", {"message": "x"}))
        await come(service, "l3", "accepted")
        assert list(service.status()["mirrors"]) == [str(table)]
        await service.stop()
    journal = tmp_path / "journal"
    assert not [each for each in entries(journal) if signals in each.checkpoint.schemas]
    assert not [file for each in entries(journal) for file in each.files if file.table == signals]
    assert unequal(mysql, journal, table) == []


async def test_a_captured_table_that_becomes_only_the_signal_table_stops_and_its_rows_are_signals(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    narrow, signals = initial(with_table(mysql, tmp_path, table)), TableId(table.database, "signals")
    async with running(replace(narrow, tables=pipeline(mysql, tmp_path, table.database).tables)) as service:
        await service.begun()
        insert(mysql, table, ("l1", "log", {"message": "x"}))
        await come(service, "l1", "accepted")
        assert service.status()["captured"] == [str(table), str(signals)]
        await service.stop()
    for id_ in ("l2", "l3"):  # stopped by this start, and before it
        async with running(narrow) as service:
            insert(mysql, table, (id_, "log", {"message": "x"}))
            await come(service, id_, "accepted")
            stopped = service.status()["stopped"]
            assert list(stopped) == [str(signals)]
            assert "the configuration doesn't capture it any more" in stopped[str(signals)]
            await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_a_signal_table_that_is_none_is_named_before_the_start(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    settings = with_table(mysql, tmp_path, table)
    mysql.sql(f"ALTER TABLE `{table.database}`.signals DROP COLUMN data")
    with pytest.raises(UnfitSource, match="hasn't three columns of text"):
        (await preflight(settings)).raise_errors()
    mysql.sql(f"DROP TABLE `{table.database}`.signals")
    with pytest.raises(UnfitSource, match=r"there's no .*signals that the user may see; CREATE TABLE"):
        (await preflight(settings)).raise_errors()


async def ask(service: Running, id_: str, **data: Any) -> SignalAnswer:
    """Ask for a snapshot by REST."""
    text = json.dumps({"id": id_, "type": SNAPSHOT, "data": data})
    return await service.assembly.requests.ask(text.encode(), WITHIN_S)


async def test_two_blocking_snapshots_are_taken_one_after_the_other_while_a_bad_one_is_refused(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    async with running(with_table(mysql, tmp_path, table)) as service:
        await service.begun()
        both = {"data-collections": [str(table)], "type": "blocking", "chunk-rows": 3}
        first, bad, second = await asyncio.gather(
            ask(service, "s1", **both),
            ask(service, "bad", **both, **{"surrogate-key": ["x"]}),
            ask(service, "s2", **both),
        )
        assert isinstance(first, SignalAccepted) and isinstance(second, SignalAccepted)
        assert isinstance(bad, SignalRejected)
        mysql.sql(f"UPDATE `{table.database}`.numbers SET text = 'changed' WHERE id = 5")
        await service.completed("s1")
        await service.completed("s2")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_single_keys_are_read_again_and_one_that_cannot_be_walked_fails_by_name(
    mysql: MysqlServer, table: TableId, tmp_path: Path
) -> None:
    async with running(with_table(mysql, tmp_path, table)) as service:
        await service.begun()
        keys = [{"data-collection": str(table), "keys": [3, 7, 7, 99]}]
        await ask(service, "s1", **{"data-collections": [str(table)], "keys": keys})
        await service.completed("s1")
        assert service.tables("s1")["numbers"]["rows"] == 2
        await ask(service, "s2", **{"data-collections": [str(table)], "surrogate-key": "text"})
        assert "numbers" in (await come(service, "s2", "failed"))["reason"]
        await come(service, "s1", "done")
        await service.stop()


async def test_a_snapshot_by_kafka_is_answered_until_it_is_done(
    mysql: MysqlServer, kafka: KafkaBroker, table: TableId, tmp_path: Path
) -> None:
    topic, answers = f"{table.database}-signals", f"{table.database}-answers"
    await create_topic(kafka, topic)
    await create_topic(kafka, answers)
    settings = with_table(mysql, tmp_path, table)
    signals = SignalSettings(kafka=KafkaSettings((kafka.address,), topic, answers))
    settings = replace(settings, signals=signals)
    async with running(settings) as service, Told(kafka, answers) as told:
        await service.begun()
        wanted = {
            "data-collections": [str(table)],
            "additional-conditions": [
                {"data-collection": str(table), "filter": "id >= 7 AND text LIKE 'row%'"}
            ],
        }
        await send(
            kafka,
            topic,
            ("test", json.dumps({"id": "bad", "type": SNAPSHOT, "data": {"data-collections": [["x"]]}})),
            ("test", json.dumps({"id": "s1", "type": SNAPSHOT, "data": wanted})),
        )
        outcomes: list[str] = []
        types: list[str] = []
        while outcomes[-1:] != ["done"]:
            record = await told.next()
            if "outcome" in record:
                outcomes.append(record["outcome"])
            elif record["id"] == "s1":
                types.append(record["type"])
        assert outcomes == ["rejected", "accepted", "running", "done"]
        assert (types[0], types[-1]) == ("STARTED", "COMPLETED")
        assert service.tables("s1")["numbers"]["rows"] == 3
        await service.stop()


async def test_a_filter_takes_about_as_many_chunks_as_the_whole_table(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        "SET SESSION cte_max_recursion_depth = 50000",
        "CREATE TABLE numbers (id INT PRIMARY KEY, part INT NOT NULL)",
        "INSERT INTO numbers WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
        " SELECT i, i % 100 FROM n",
        database=database,
    )
    settings = pipeline(mysql, tmp_path, database)
    settings = replace(settings, snapshot=replace(settings.snapshot, chunk_rows=1000))
    table = TableId(database, "numbers")
    filters = {"some": "part = 5", "none": "part = 100"}
    async with running(settings) as service:
        await service.begun()
        await service.execute("whole", str(table))
        await service.completed("whole")
        for id_, text in filters.items():
            conditions = [{"data-collection": str(table), "filter": text}]
            await service.execute(id_, str(table), additional_conditions=conditions)
            await service.completed(id_)
        counts = {each.id: progress(each.tables[table]) for each in service.checkpoint().snapshots}
    assert {id_: each.rows for id_, each in counts.items()} == {"whole": 50_000, "some": 500, "none": 0}
    chunks = {id_: each.chunks for id_, each in counts.items()}
    assert max(chunks.values()) <= 2 * chunks["whole"], chunks
