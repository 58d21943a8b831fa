"""The lake by a real Spark Connect server: what's delivered is the source, each change once, whatever falls over."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from actors.journal.files import LocalFiles, open_files
from actors.lake.delta.delta_connect import ConnectTable
from actors.lake.delta.lake_table import PlaceFiles, is_conflict
from actors.lake.delta.table_opener import delta_tables
from actors.lake.live_view import live_view
from actors.lake.spark import spark_connect, spark_session
from actors.lake.spark.spark_connect import KEPT_SESSION, ConnectSpark, connect
from actors.runtime.redaction import redacted_traceback
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.errors import Definite, Transient
from pipeline.lake.alter_statements import ColumnAlteration, beginning, remaining
from pipeline.lake.files import known_versions
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.known_versions import KnownPair
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.column_changes import ColumnPlan, PlannedColumn
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.maintenance import Trim
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import Integer
from tests.integration.history import FILLING, READY
from tests.integration.lake.test_lake import (
    ORDERS,
    USERS,
    Delivery,
    deliver_beside_a_predecessor,
    expected,
    rows,
)
from tests.integration.lake.test_spark_sink import House
from tests.integration.lake.test_types_by_rule import follow_rules
from tests.servers.s3 import s3, s3_server
from tests.servers.spark_connect import SparkConnectServer, connect_server

__all__ = ["connect_server", "s3", "s3_server"]

# It warns when it's imported, of what isn't used here.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def connected(connect_server: SparkConnectServer, tmp_path: Path) -> Iterator[ConnectSpark]:
    made = connect(connect_server.settings, LocalFiles(tmp_path))
    yield made
    made.stop()


@pytest.fixture
def delivery(connected: ConnectSpark, tmp_path: Path) -> Iterator[Delivery]:
    made = Delivery(connected, tmp_path)
    with closing(made.history.store):
        yield made


@pytest.mark.full
def test_a_journal_lands_once_and_whole_whatever_is_repeated(delivery: Delivery) -> None:
    history = delivery.history
    orders, users = history.table(ORDERS, FILLING), history.table(USERS)
    orders.source = {(key,): (key, "old") for key in (7, 8, 9)}
    history.transaction((orders, "c", (1, "it's")), (users, "c", (None, "ann", 1)))
    history.chunk(orders, [(7,), (8,)])
    delivery.deliver()
    history.transaction((orders, "d", (7, "old")), (users, "u", (None, "ann", 2)))
    history.chunk(orders, [(9,)])
    orders.mirror = READY
    history.seal()
    before, batch = delivery.delivered[ORDERS.table], delivery.batch()
    delivery.deliver_table(ORDERS.table, batch)
    delivery.lake.deliver(
        ORDERS.table, before, batch
    )  # by whoever didn't learn of it; and then everything fails
    delivery.begin()
    found = [delivery.lake.find(table) for table in (ORDERS.table, USERS.table)]
    assert [each.changes for each in found] == [2, 1]
    assert max(each.after for each in found) == 1
    delivery.segment = 1
    delivery.deliver()
    assert delivery.tier(orders, Tier.CHANGELOG).count() == 2
    assert delivery.tier(users, Tier.CHANGELOG).count() == 2
    for table in (orders, users):
        assert delivery.view(table) == expected(table)
    # A wider table, and a column more.
    wider = replace(ORDERS, columns=(*ORDERS.columns, Column("n", Integer(8, unsigned=False), nullable=True)))
    orders.schema = wider
    orders.source = {key: (*row, None) for key, row in orders.source.items()}
    orders.rows = {key: (*row, None) for key, row in orders.rows.items()}
    history.transaction((orders, "u", (1, "ß", 5)), (orders, "c", (2, None, 6)))
    delivery.deliver()
    reached = MirrorPosition(READY.since)
    delivery.lake.merge(ORDERS.table, reached, delivery.segment, "once")
    merged = delivery.lake.find(ORDERS.table)
    delivery.lake.merge(ORDERS.table, reached, delivery.segment, "and once more")
    assert delivery.lake.find(ORDERS.table) == merged
    assert rows(delivery.tier(orders, Tier.MIRROR)) == delivery.view(orders) == expected(orders)
    upkeep = delivery.lake.upkeep
    upkeep.compact(ORDERS.table, Tier.MIRROR)
    upkeep.vacuum(ORDERS.table, Tier.CHANGELOG, 1)
    upkeep.trim(ORDERS.table, Trim(merged=2, hours=None))
    assert delivery.tier(orders, Tier.CHANGELOG).count() == 2
    assert delivery.view(orders) == expected(orders)
    assert delivery.lake.find(ORDERS.table).pending == 0
    assert not [*Path(delivery.root).glob("shop/orders/placed/*/*")]


@pytest.mark.full
def test_a_first_mirror_is_merged_also_while_the_changelog_has_no_checksum(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta writes it after the commit, and other writers write none."""
    history = delivery.history
    orders = history.table(ORDERS, FILLING)
    orders.source = {(7,): (7, "old")}
    history.transaction((orders, "c", (1, "a")))
    history.chunk(orders, [(7,)])
    history.transaction((orders, "u", (7, "new")))
    orders.mirror = READY
    complete = delivery.lake.generations.complete

    def without_checksums(*arguments: Any) -> None:
        for checksum in Path(location(delivery.root, ORDERS.table, Tier.CHANGELOG)).glob("_delta_log/*.crc"):
            checksum.unlink()
        complete(*arguments)

    monkeypatch.setattr(delivery.lake.generations, "complete", without_checksums)
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "a"), (7, "new")]


@pytest.mark.full
def test_columns_have_the_types_of_their_rules_by_connect_too(delivery: Delivery) -> None:
    follow_rules(delivery)


@pytest.fixture
def table(connected: ConnectSpark, tmp_path: Path) -> ConnectTable:
    """A table of two columns and a row."""
    path = str(tmp_path / "lake" / "table")
    connected.session.sql(
        f"CREATE TABLE delta.`{path}` (a INT, b INT) USING delta TBLPROPERTIES ("
        "'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
    )
    connected.session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 2)")
    found = delta_tables(connected.session)(path)
    assert isinstance(found, ConnectTable)
    return found


def read(connected: ConnectSpark, table: ConnectTable) -> list[dict[str, Any]]:
    rows = connected.session.read.format("delta").load(table.path).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: str(list(row.values())))


def test_a_server_that_leaves_damaged_files_out_leaves_none_of_ours_out(
    connected: ConnectSpark, table: ConnectTable
) -> None:
    """Its owner's settings say so, and that a value that doesn't fit becomes NULL."""

    def place(folder: str, _: object) -> list[str]:
        for name, value in (("whole", 3), ("damaged", 4)):
            columns = {"a": pa.array([value], pa.int32()), "b": pa.array([value], pa.int32())}
            pq.write_table(pa.table(columns), f"{folder}/{name}.parquet")
        os.truncate(f"{folder}/damaged.parquet", 20)
        return [json.dumps({"add": {"path": f"{name}.parquet"}}) for name in ("whole", "damaged")]

    with pytest.raises(PySparkException, match=r"damaged\.parquet"):
        table.append(place, "journal", range(1, 2), {}, "{}")
    assert read(connected, table) == [{"a": 1, "b": 2}]
    with pytest.raises(PySparkException, match="CAST_OVERFLOW"):
        connected.session.sql("SELECT CAST(9999999999 AS INT)").collect()


EXCHANGED = ColumnPlan(
    (
        PlannedColumn(LakeColumn("B", "BIGINT"), LakeColumn("a", "INT")),
        PlannedColumn(LakeColumn("new", "STRING"), None),
        PlannedColumn(LakeColumn("A", "INT"), LakeColumn("b", "INT")),
        PlannedColumn(LakeColumn("last", "TIMESTAMP"), None),
    )
)


def test_columns_change_at_once_for_whoever_reads_and_are_finished_by_whoever_comes(
    connected: ConnectSpark, table: ConnectTable
) -> None:
    before = table.snapshot()
    assert before is not None
    becoming = ColumnAlteration.by(EXCHANGED, before.columns, {Property.SINCE: "7"})
    connected.session.sql(beginning(table.path, becoming))
    for done, statement in enumerate(remaining(table.path, becoming, before.columns)):
        found = table.snapshot()
        assert found is not None
        assert found.altering
        if done == 4:
            break
        connected.session.sql(statement)
    assert table.snapshot_at(before.version) == before
    # Here it was cut off.
    settled = table.finish_alter()
    assert settled is not None
    assert (settled.altering, settled.since) == (False, 7)
    assert [*settled.columns] == ["B", "new", "A", "last"]
    assert table.finish_alter() == settled
    assert read(connected, table) == [{"B": 1, "new": None, "A": 2, "last": None}]


@pytest.mark.full
def test_delta_itself_refuses_what_has_come_already(connected: ConnectSpark, table: ConnectTable) -> None:
    rows = connected.session.sql("SELECT 3 AS a, 4 AS b")
    for _ in range(2):
        table._write(rows, "us", 5, "{}")
    table._write(rows, "us", 4, "{}")
    table.set_transaction("after", 3)
    found = table.snapshot()
    assert found is not None
    assert found.applications == {"us": 5, "after": 3}
    assert len(read(connected, table)) == 2


@pytest.mark.full
def test_a_batch_of_which_a_predecessor_has_delivered_a_part_lands_once_by_connect_too(
    delivery: Delivery,
) -> None:
    """Here the rows are copied, so a file's name doesn't show that they are there."""
    deliver_beside_a_predecessor(delivery)


def test_what_a_predecessor_commits_while_files_are_placed_does_not_come_twice(
    connected: ConnectSpark, table: ConnectTable
) -> None:
    """Its server was still busy with it. Delta compares the last segments only."""

    def placing(through: int) -> PlaceFiles:
        def place(folder: str, _: object) -> list[str]:
            table._write(connected.session.sql("SELECT 3 AS a, 4 AS b"), "journal", through, "{}")
            pq.write_table(
                pa.table({"a": pa.array([3], pa.int32()), "b": pa.array([4], pa.int32())}),
                f"{folder}/same.parquet",
            )
            return [json.dumps({"add": {"path": "same.parquet"}})]

        return place

    with pytest.raises(Conflict, match="through segment 10"):
        table.append(placing(10), "journal", range(5, 13), {}, "{}")
    table.append(placing(12), "journal", range(11, 13), {}, "{}")
    assert read(connected, table) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 3, "b": 4}]


def test_a_conflict_is_told_from_a_failure(connected: ConnectSpark, table: ConnectTable) -> None:
    with pytest.raises(PySparkException) as raised:
        connected.session.sql(f"SELECT raise_error('x') FROM delta.`{table.path}`").collect()
    assert not is_conflict(raised.value)
    assert connected.lost(raised.value) is None


def test_a_session_ends_its_predecessor(connect_server: SparkConnectServer, tmp_path: Path) -> None:
    first = connect(connect_server.settings, LocalFiles(tmp_path))
    second = connect(connect_server.settings, LocalFiles(tmp_path))
    with pytest.raises(PySparkException) as raised:
        first.session.sql("SELECT 1").collect()
    assert first.lost(raised.value)
    assert second.session.sql("SELECT 1").collect() == [(1,)]
    second.kill()
    with pytest.raises(PySparkException):
        second.session.sql("SELECT 1").collect()


def test_a_session_on_another_machine_ends_its_predecessor(
    connect_server: SparkConnectServer, s3: str
) -> None:
    """They have nothing in common but the journal, which is in a store."""
    open_files(s3).make(())
    first, second = (connect(connect_server.settings, open_files(s3)) for _ in range(2))
    with pytest.raises(PySparkException) as raised:
        first.session.sql("SELECT 1").collect()
    assert first.lost(raised.value)
    second.stop()


@pytest.mark.parametrize("whole", [True, False])
def test_a_predecessor_of_an_earlier_version_is_ended(
    connect_server: SparkConnectServer, tmp_path: Path, whole: bool
) -> None:
    """It kept its number beside Spark's scratch. A kill may have left an empty file."""
    journal, folder = LocalFiles(tmp_path), tmp_path / "spark"
    folder.mkdir()
    first = connect(connect_server.settings, journal)
    (folder / KEPT_SESSION).write_bytes((tmp_path / KEPT_SESSION).read_bytes() if whole else b"")
    (tmp_path / KEPT_SESSION).unlink()
    second = spark_session.open_session(connect_server.settings, folder, journal)
    if whole:
        with pytest.raises(PySparkException) as raised:
            first.session.sql("SELECT 1").collect()
        assert first.lost(raised.value)
    assert not (folder / KEPT_SESSION).exists()
    second.stop()
    first.kill()


def test_a_predecessor_is_not_forgotten_while_the_server_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / KEPT_SESSION).write_text(predecessor := str(uuid.uuid4()))
    with pytest.raises(Transient, match=r"can.t be reached"):
        connect(SparkSettings("sc://127.0.0.1:1"), LocalFiles(tmp_path))
    assert (tmp_path / KEPT_SESSION).read_text() == predecessor


def test_a_predecessor_that_the_server_does_not_know_is_nobody(
    connect_server: SparkConnectServer, tmp_path: Path
) -> None:
    connect(connect_server.settings, LocalFiles(tmp_path)).stop()
    assert connect(connect_server.settings, LocalFiles(tmp_path)).session.sql("SELECT 1").collect() == [(1,)]


def test_what_cannot_be_set_is_named(connect_server: SparkConnectServer, tmp_path: Path) -> None:
    settings = replace(connect_server.settings, conf={"spark.sql.warehouse.dir": "/elsewhere"})
    with pytest.raises(Definite, match=r"spark\.conf: spark\.sql\.warehouse\.dir can't be set"):
        connect(settings, LocalFiles(tmp_path))


@pytest.mark.parametrize(
    ("pair", "tells", "told"),
    [
        (
            KnownPair("4.2", "4.5.0", ""),
            "",
            r"Spark 4\.2\.0 with Delta 4\.4\.0, .* only with Spark 4\.2 with Delta 4\.5",
        ),
        (
            KnownPair("4.3", "4.4.0", ""),
            "",
            r"Spark 4\.2\.0 with Delta 4\.4\.0, .* only with Spark 4\.3 with Delta 4\.4",
        ),
        (
            KnownPair("4.2", "4.4.0", ""),
            "java_method('gone', 'VERSION')",
            r"Spark 4\.2\.0 with Delta of an unknown version",
        ),
    ],
)
def test_a_server_of_versions_that_are_not_known_is_refused(
    connect_server: SparkConnectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pair: KnownPair,
    tells: str,
    told: str,
) -> None:
    monkeypatch.setattr(known_versions, "KNOWN_PAIRS", (pair,))
    if tells:
        monkeypatch.setattr(spark_connect, "_DELTA_VERSION", tells)
    with pytest.raises(Definite, match=rf"sc://127.* has {told}.*: start that server with"):
        connect(connect_server.settings, LocalFiles(tmp_path))


def test_a_server_that_is_not_there_is_a_matter_of_time(tmp_path: Path) -> None:
    with pytest.raises(Transient, match=r"sc://127\.0\.0\.1:1 can.t be reached"):
        spark_session.open_session(SparkSettings("sc://127.0.0.1:1"), tmp_path, LocalFiles(tmp_path))


def test_no_error_has_the_token_of_a_server(tmp_path: Path) -> None:
    """The log, the status and a webhook have what it says."""
    settings = SparkSettings("sc://127.0.0.1:1/;token=canary;user_id=ops")
    with pytest.raises(
        Transient, match=r"sc://127\.0\.0\.1:1/;token=\*+;user_id=ops can.t be reached"
    ) as raised:
        connect(settings, LocalFiles(tmp_path))
    assert "canary" not in redacted_traceback(raised.value)


@pytest.mark.full
async def test_a_server_that_is_killed_comes_back_and_nothing_is_lost_or_doubled(
    connect_server: SparkConnectServer, tmp_path: Path
) -> None:
    lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_rows=1000, merge_after_s=600)
    house = House(tmp_path, connect_server.settings, lake)
    with closing(house.history.store):
        async with house.life() as running:
            await house.write(1, 1)
            await house.until(house.arrived, running)
            connect_server.kill()
            await house.write(2, 2)
            with pytest.raises(Transient, match="can't be reached"):
                await running
        connect_server.start()
        async with house.life() as running:
            # Its first snapshot ends here, and readers get it without a merge.
            house.is_filled(house.orders)
            await house.write(3, 3)
            await house.until(lambda: house.arrived() and house.complete(), running)
            session = house.up.spark.session
            for each in (house.items, house.orders):
                table = each.schema.table
                assert rows(live_view(session, lake.path, table)) == expected(each)
                changelog = session.read.format("delta").load(location(lake.path, table, Tier.CHANGELOG))
                assert sorted(tuple(row) for row in changelog.select("__segment", "id", "v").collect()) == [
                    (1, 1, 1),
                    (2, 2, 2),
                    (3, 3, 3),
                ]
            house.mailbox.close()
            await running
    connect_server.kill()  # a process of this test by now; no other test comes behind it
