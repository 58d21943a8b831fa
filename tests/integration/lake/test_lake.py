"""The lake on a real Spark: at every segment the live view is what a plain dictionary says, and nothing comes twice."""

import datetime as dt
import json
import random
import shutil
import string
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal as Exact
from itertools import cycle, product, repeat
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import DeltaProtocolError
from py4j.protocol import Py4JJavaError
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from actors.journal.store import JournalStore
from actors.lake.delta import statements
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.delta.lake_table import is_conflict
from actors.lake.generations import Generations
from actors.lake.lake import Lake
from actors.lake.live_view import live_view
from actors.lake.spark.spark_session import RunningSpark, Spark
from actors.lake.table_commits import TableCommits
from actors.lake.transaction_log import delta_log, own_log
from actors.lake.transaction_log.delta_log import NO_REPORT, read_version
from actors.lake.transaction_log.own_log import OwnLog
from actors.service.live_view_text import live_view_text
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule
from pipeline.errors import Definite, Transient
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import Batch, LakeTableState, next_batch
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.delivery import accept_batch
from pipeline.lake.files import parquet_files
from pipeline.lake.files.delta_commit import Conflict, LogEnd
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.deletion_vector import vector_bytes
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.state import Idle, LakeProgress, State
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.spark_sql import table_at
from pipeline.lake.tables.tier import Tier
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types import column_types as t
from tests.histories.power import Power
from tests.integration.history import FILLING, READY, History, Row, Table, random_step

WITHIN_S = 120.0

INT = t.Integer(8, unsigned=False)
TEXT = t.Text("utf8mb4")


def schema(name: str, *columns: Column, key: tuple[int, ...] = (0,)) -> TableSchema:
    return TableSchema(TableId("shop", name), columns, key)


ORDERS = schema("orders", Column("id", INT, False), Column("note", TEXT, True))
# Keys in two parts, of which one differs by case and the other may be null here (a zero date).
USERS = schema(
    "users", Column("day", t.Date(), False), Column("name", TEXT, False), Column("n", INT, True), key=(1, 0)
)


class Delivery:
    """A journal, the lake that's fed from it, and what the lake has. `rules`, `types`: its rules."""

    def __init__(self, spark: RunningSpark, directory: Path) -> None:
        self.spark = spark
        self.rules: tuple[LakeRule, ...] = ()
        self.types: tuple[LakeTypeRule, ...] = ()
        self.root = str(directory / "lake")
        self.history = History(directory / "journal")
        self.few: Iterator[bool] = cycle((True, False))
        self.segment = 0
        self.begin()

    def begin(self) -> None:
        """Forget all but what's durable, as a restart does."""
        store = self.history.store
        self.lake = Lake(self.spark.session, self.root, store, self.rules, types=self.types)
        self.delivered: dict[TableId, LakeTableState] = {}

    def batch(self) -> Batch:
        return next_batch(self.history.store.entries(self.segment, self.history.segment))

    def deliver(self) -> None:
        """Seal, and deliver all of it."""
        self.history.seal()
        self.deliver_sealed()

    def deliver_sealed(self) -> None:
        """Deliver all that's sealed, batch by batch, and do what's done beside the batches."""
        while self.segment < self.history.segment:
            batch = self.batch()
            for table in dict.fromkeys([*batch.tables, *batch.generations]):
                self.deliver_table(table, batch)
            self.segment = batch.through
            self.complete(batch)

    def complete(self, batch: Batch) -> None:
        """Show readers the mirrors that are filled, as is done beside the batches."""
        for table, mirror in batch.checkpoint.mirrors.items():
            there = self.delivered[table]
            whole = mirror == Ready(there.generation or 0)
            if whole and there.stopped is None and there.rebuilding is not None:
                self.lake.generations.complete(table, mirror.since, self.segment, "position")
                self.delivered[table] = replace(there, rebuilding=None)

    def deliver_table(self, table: TableId, batch: Batch) -> None:
        before = self.delivered.get(table) or self.lake.find(table)
        if before.stopped is None or batch.resumed(table, before):
            self.delivered[table] = self.lake.deliver(table, before, batch)

    def merge(self, table: Table) -> None:
        id_ = table.schema.table
        found = self.lake.find(id_)
        assert found.schema is not None
        assert found.generation is not None
        # Whether the changes are few enough to look for their keys without Spark: in turns.
        changes = found.pending if next(self.few) else None
        self.lake.merge(
            id_,
            MirrorPosition(found.generation, found.merged, found.partial),
            self.segment,
            "position",
            changes,
        )

    def view(self, table: Table) -> list[Row]:
        return rows(live_view(self.spark.session, self.root, table.schema.table))

    def properties(self, table: Table, tier: Tier) -> Mapping[str, str]:
        found = read_version(location(self.root, table.schema.table, tier))
        assert found is not None
        return found.properties

    def tier(self, table: Table, tier: Tier) -> DataFrame:
        """A lake table, without the column that texts are bound to."""
        frame = self.spark.session.read.format("delta").load(location(self.root, table.schema.table, tier))
        return frame.drop(*(name for name in frame.columns if name.startswith("__generation_")))


@pytest.fixture
def delivery(spark: Spark, tmp_path: Path) -> Any:
    made = Delivery(spark, tmp_path)
    yield made
    made.history.store.close()


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame as Arrow has them, in an order of their own."""
    found = frame.toArrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def expected(table: Table) -> list[Row]:
    return sorted(table.rows.values(), key=repr)


@pytest.mark.full
def test_a_mirror_without_deletion_vectors_is_one_that_delta_rs_itself_reads(delivery: Delivery) -> None:
    delivery.rules = (LakeRule(TableFilter((r"shop\.orders",)), deletion_vectors=False),)
    delivery.begin()
    history = delivery.history
    orders, users = history.table(ORDERS, FILLING), history.table(USERS, READY)
    orders.source = {(key,): (key, "old") for key in range(10)}
    history.chunk(orders, list(orders.source))
    orders.mirror = READY
    history.transaction((users, "c", (None, "ann", 1)))
    delivery.deliver()
    assert by_delta_rs(delivery, orders) == expected(orders)
    history.transaction((orders, "u", (1, "new")), (orders, "d", (2, "old")), (orders, "c", (11, None)))
    history.transaction((users, "u", (None, "ann", 2)))
    delivery.deliver()
    assert by_delta_rs(delivery, orders) != delivery.view(orders) == expected(orders)
    for table in (orders, users):
        delivery.merge(table)
    assert by_delta_rs(delivery, orders) == delivery.view(orders) == expected(orders)
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        by_delta_rs(delivery, users)
    # The next generation is filled beside it, and takes its place.
    history.restart(orders, ORDERS, Filling)
    history.chunk(orders, list(orders.source)[:4])
    delivery.deliver()
    assert orders.mirror is not None
    history.chunk(orders, list(orders.source)[4:])
    orders.mirror = Ready(orders.mirror.since)
    history.transaction((orders, "u", (1, "newer")))
    delivery.deliver()
    delivery.merge(orders)
    assert by_delta_rs(delivery, orders) == delivery.view(orders) == expected(orders)
    log = Path(location(delivery.root, ORDERS.table, Tier.MIRROR)) / "_delta_log"
    assert '"deletionVector"' not in "".join(commit.read_text() for commit in log.glob("*.json"))


def by_delta_rs(delivery: Delivery, table: Table) -> list[Row]:
    """A table's mirror by delta-rs without DataFusion, which has the fewest features of Delta."""
    found = deltalake.DeltaTable(location(delivery.root, table.schema.table, Tier.MIRROR)).to_pyarrow_table()
    names = [column.name for column in table.schema.columns]
    return sorted((tuple(row.values()) for row in found.select(names).to_pylist()), key=repr)


def order(some: random.Random) -> Row:
    return (some.randint(0, 12), some.choice([None, "a", "b", "ß"]))


def user(some: random.Random) -> Row:
    day = some.choice([None, dt.date(1000, 1, 1), dt.date(2026, 11, 21)])
    return (day, some.choice(["ann", "Ann", "ANN", "änn", ""]), some.randint(0, 1000))


@pytest.mark.full
def test_the_live_view_is_the_source_at_each_segment_whatever_was_merged(delivery: Delivery) -> None:
    some = random.Random(4711)
    history = delivery.history
    orders, users = history.table(ORDERS, FILLING), history.table(USERS, READY)
    orders.source = {(key,): (key, "old") for key in range(13)}
    unread = list(orders.source)
    for round_ in range(3):
        for _ in range(2):
            for _ in range(some.randint(1, 8)):
                random_step(history, orders, some, order)
                random_step(history, users, some, user)
            chunk, unread = unread[:4], unread[4:]
            history.chunk(orders, chunk)
            orders.mirror = FILLING if unread else READY
            history.seal()
        delivery.deliver()
        if orders.mirror is READY:
            assert delivery.view(orders) == expected(orders), round_
        assert delivery.view(users) == expected(users), round_
        for table in (orders, users):
            if table.mirror is READY and some.random() < 0.7:
                delivery.merge(table)
                assert rows(delivery.tier(table, Tier.MIRROR)) == expected(table), round_


def test_a_replay_after_a_failure_between_two_tables_lands_once(delivery: Delivery) -> None:
    history = delivery.history
    orders, users = history.table(ORDERS, FILLING), history.table(USERS)
    history.transaction((orders, "c", (1, "a")), (users, "c", (None, "ann", 1)))
    delivery.deliver()
    history.transaction((orders, "c", (2, "b")), (users, "c", (None, "Ann", 2)))
    orders.source[7,] = (7, "old")
    history.chunk(orders, [(7,)])
    history.seal()
    delivery.deliver_table(ORDERS.table, delivery.batch())  # and then everything fails
    history.transaction((orders, "u", (2, "c")), (users, "d", (None, "ann", 1)))
    history.seal()
    delivery.begin()
    found = [delivery.lake.find(table) for table in (ORDERS.table, USERS.table)]
    assert [each.changes for each in found] == [2, 1]
    delivery.segment = max(each.after for each in found)
    assert delivery.segment == 1
    delivery.deliver()
    assert delivery.tier(orders, Tier.CHANGELOG).count() == 3
    assert delivery.tier(users, Tier.CHANGELOG).count() == 3
    assert delivery.tier(orders, Tier.MIRROR).count() == 1
    orders.mirror = READY
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "a"), (2, "c"), (7, "old")]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)
    assert delivery.view(users) == expected(users)


def three_rows(table: Path, name: str) -> Any:
    """What places a file of three rows in the folder of a lake table, and tells of it."""

    def place(_folder: str, _columns: Any) -> list[str]:
        file = table / f"{name}.parquet"
        pq.write_table(pa.table({"n": pa.array(range(3), pa.int64())}), file)
        return [parquet_files.add(file.name, file.stat().st_size, 1_700_000_000_000, '{"numRecords": 3}')]

    return place


@pytest.mark.parametrize("own", [True, False], ids=["own commits", "Delta's commits"])
def test_of_two_writers_of_the_same_segment_one_lands(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    if not own:
        monkeypatch.setattr(OwnLog, "end", lambda *_: None)
    session, path = spark.session, str(tmp_path / "table")
    session.sql(f"CREATE TABLE delta.`{path}` (n BIGINT) USING delta")
    table = DeltaTable(session, path)

    def rows(name: str, meanwhile: Any = lambda: None) -> Any:
        """A place whose rows come after something that somebody else does meanwhile."""

        def place(folder: str, columns: Any) -> list[str]:
            meanwhile()
            return list(three_rows(tmp_path / "table", name)(folder, columns))

        return place

    assert table.append(rows("a"), "us", range(7, 8), {"other": 1}, "{}") == 1
    assert table.append(rows("b"), "us", range(7, 8), {}, "{}") == 1, (
        "it was there when the transaction began"
    )
    assert not table.is_durable(1)

    def rival() -> None:
        assert DeltaTable(session.newSession(), path).append(rows("c"), "us", range(8, 9), {}, "{}") == 2

    why = "another writer has delivered to it, in version 2" if own else "ConcurrentTransactionException"
    with pytest.raises(Exception, match=why) as raised:
        table.append(rows("d", rival), "us", range(8, 9), {}, "{}")
    assert is_conflict(raised.value)

    def rival_of_another() -> None:
        assert table.append(rows("e"), "them", range(9, 10), {}, "{}") == 3

    assert table.append(rows("f", rival_of_another), "us", range(9, 10), {}, "{}") == 4
    assert session.read.format("delta").load(path).count() == 12
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.applications == {"us": 9, "them": 9, "other": 1}


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(True, id="own commits"),
        pytest.param(False, id="Delta's commits", marks=pytest.mark.full),
    ],
)
def test_a_batch_of_which_a_predecessor_has_delivered_a_part_is_refused_and_lands_once(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    if not own:
        monkeypatch.setattr(OwnLog, "end", lambda *_: None)
    deliver_beside_a_predecessor(delivery)


def deliver_beside_a_predecessor(delivery: Delivery) -> None:
    """The predecessor was held up when it had looked. It awakes between its successor's look and its commit."""
    history = delivery.history
    orders = history.table(ORDERS, READY)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    predecessor = Lake(delivery.spark.session, delivery.root, history.store)
    found = delivery.lake.find(ORDERS.table)
    history.transaction((orders, "c", (2, "b")))
    history.seal()
    earlier = delivery.batch()
    history.transaction((orders, "c", (3, "c")))
    history.seal()
    batch = delivery.batch()
    assert predecessor.deliver(ORDERS.table, found, earlier).changes == earlier.through < batch.through
    rows(delivery.tier(orders, Tier.CHANGELOG))  # as a merge does: then Delta knows the commit
    with pytest.raises(Conflict, match=f"has delivered to .*, through segment {earlier.through}"):
        delivery.lake.deliver(ORDERS.table, found, batch)
    delivery.lake.deliver(ORDERS.table, delivery.lake.find(ORDERS.table), batch)
    changes = [row[0] for row in rows(delivery.tier(orders, Tier.CHANGELOG).select("id"))]
    assert changes == [1, 2, 3]
    assert delivery.view(orders) == expected(orders)


class Killed(BaseException):
    """The process is gone."""


def kill(*_: object, **__: object) -> None:
    raise Killed


def kill_delivery(delivery: Delivery, monkeypatch: pytest.MonkeyPatch, where: object, called: str) -> None:
    """Kills the delivery of what isn't sealed yet in a call, and begins a successor."""
    delivery.history.seal()
    with monkeypatch.context() as patched:
        patched.setattr(where, called, kill)
        with pytest.raises(Killed):
            delivery.deliver_sealed()
    delivery.begin()


def lost_of_lake(power: Power, delivery: Delivery) -> list[Path]:
    """What a power cut takes of the lake alone."""
    none = Path(delivery.root, "none")
    none.mkdir()
    return power.cut(none, Path(delivery.root))


def test_a_power_cut_does_not_take_what_a_killed_predecessor_has_committed(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill comes before the commit is durable. The successor finds it, and doesn't deliver it again."""
    orders, power = delivery.history.table(ORDERS, READY), Power()
    with power.noted():
        delivery.history.transaction((orders, "c", (1, "a")))
        delivery.deliver()
        delivery.history.transaction((orders, "c", (2, "b")))
        kill_delivery(delivery, monkeypatch, own_log, "sync")
        delivery.deliver_sealed()
    assert lost_of_lake(power, delivery) == []
    assert [row[0] for row in rows(delivery.tier(orders, Tier.CHANGELOG).select("id"))] == [1, 2]


def test_a_power_cut_does_not_take_the_stop_that_a_killed_predecessor_has_set(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink delivers nothing to a table that it finds stopped."""
    orders, power = delivery.history.table(ORDERS, READY), Power()
    with power.noted():
        delivery.history.transaction((orders, "c", (1, "a")))
        delivery.deliver()
        orders.schema = replace(ORDERS, key=(1, 0))
        delivery.history.transaction((orders, "c", (2, "b")))
        kill_delivery(delivery, monkeypatch, TableCommits, "make_durable")
        assert delivery.lake.find(ORDERS.table).stopped is not None
    assert lost_of_lake(power, delivery) == []


def test_without_checksums_the_log_itself_is_asked(spark: Spark, tmp_path: Path) -> None:
    session, path = spark.session, str(tmp_path / "table")
    session.sql(f"CREATE TABLE delta.`{path}` (n BIGINT) USING delta")
    table = DeltaTable(session, path)
    table.append(three_rows(tmp_path / "table", "a"), "us", range(6, 7), {}, "{}")
    table.checkpoint()
    table.append(three_rows(tmp_path / "table", "b"), "us", range(7, 8), {}, "{}")
    for checksum in (tmp_path / "table" / "_delta_log").glob("*.crc"):
        checksum.unlink()
    table = DeltaTable(session, path)
    session.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    # As the sink's are: a thread that Spark has seen nothing of yet, and whose session it can't know.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(table.size).result() == TableSize(files=2, commits=1)
        place = three_rows(tmp_path / "table", "c")
        assert thread.submit(table.append, place, "us", range(7, 8), {}, "{}").result() == 2, "as it was"


def test_a_log_without_a_version_as_a_kill_leaves_it_is_no_table(delivery: Delivery) -> None:
    for tier in Tier:
        Path(location(delivery.root, ORDERS.table, tier), "_delta_log", "_staged_commits").mkdir(parents=True)
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    assert delivery.view(orders) == expected(orders)


@pytest.fixture
def untouched(delivery: Delivery) -> Table:
    """A table whose first snapshot is in the mirror, which readers don't see yet. No change has come."""
    orders = delivery.history.table(ORDERS, FILLING)
    orders.source = {(1,): (1, "a"), (2,): (2, "b")}
    delivery.history.chunk(orders, [(1,), (2,)])
    delivery.deliver()
    orders.mirror = READY
    delivery.history.seal()
    batch = delivery.batch()
    delivery.deliver_table(ORDERS.table, batch)
    delivery.segment = batch.through
    return orders


def test_a_first_mirror_without_a_change_is_shown_without_the_jvm(
    delivery: Delivery, untouched: Table
) -> None:
    """Delta reads the table's log to have its lock: a second if it's the JVM's first, and memory for each table."""
    jvm: Any = delivery.spark.session.sparkContext._jvm
    path = location(delivery.root, ORDERS.table, Tier.MIRROR)
    log: Any = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(delivery.spark.session._jsparkSession, path)
    lock: Any = log.snapshotLock()
    complete = delivery.lake.generations.complete
    with ThreadPoolExecutor(1) as thread:
        lock.lock()
        try:
            thread.submit(complete, ORDERS.table, 0, delivery.segment, "position").result(WITHIN_S)
        finally:
            lock.unlock()
    assert delivery.view(untouched) == expected(untouched)


def test_batches_bring_nothing_to_a_first_mirror_while_it_is_shown_without_the_jvm(
    delivery: Delivery, untouched: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta may make a batch's commit, and takes a version's name a moment after it has looked whether it's free."""
    alter = OwnLog.alter
    free: list[bool] = []

    def altered(log: OwnLog, *arguments: Any) -> int | None:
        locks = (delivery.lake._changing(ORDERS.table), delivery.lake._trimming(ORDERS.table))
        with ThreadPoolExecutor(1) as thread:
            free.extend(thread.submit(lock.acquire, blocking=False).result() for lock in locks)
        return alter(log, *arguments)

    monkeypatch.setattr(OwnLog, "alter", altered)
    delivery.lake.generations.complete(ORDERS.table, 0, delivery.segment, "position")
    assert free == [False, False]
    assert delivery.view(untouched) == expected(untouched)


@pytest.mark.parametrize("first", [True, False], ids=["first", "beside another"])
def test_a_generation_in_whose_place_another_one_begins_is_not_taken_for_shown(
    delivery: Delivery, untouched: Table, first: bool
) -> None:
    """The batch that begins it may still be under way. Until its end the sink knows of no other generation."""
    history = delivery.history
    if not first:
        delivery.lake.generations.complete(ORDERS.table, 0, delivery.segment, "position")
        history.restart(untouched, ORDERS, Filling)
        history.transaction((untouched, "u", (1, "b")))
        delivery.deliver()
    filled = untouched.mirror
    assert filled is not None
    history.restart(untouched, ORDERS, Filling)
    history.seal()
    delivery.deliver_table(ORDERS.table, delivery.batch())
    with pytest.raises(Conflict, match="another generation of its mirror has begun meanwhile"):
        delivery.lake.generations.complete(ORDERS.table, filled.since, delivery.segment, "position")


def test_a_swap_that_ends_while_its_table_is_looked_for_is_found(
    delivery: Delivery, untouched: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that has failed is looked for again, and work at it may be under way all the time."""
    history, generations = delivery.history, delivery.lake.generations
    generations.complete(ORDERS.table, 0, delivery.segment, "position")
    history.restart(untouched, ORDERS, Filling)
    begun = history.scn
    history.chunk(untouched, [(1,), (2,)])
    untouched.mirror = Ready(begun)
    history.seal()
    batch = delivery.batch()
    delivery.deliver_table(ORDERS.table, batch)
    finish, beside = DeltaTable.finish_alter, f"mirror-next-{begun}"

    def after_the_swap(table: DeltaTable) -> Any:
        if table.path.endswith(beside):
            generations.complete(ORDERS.table, begun, batch.through, "position")
        return finish(table)

    monkeypatch.setattr(DeltaTable, "finish_alter", after_the_swap)
    found = delivery.lake.find(ORDERS.table)
    assert (found.generation, found.rebuilding, found.merged) == (begun, None, batch.through)
    assert delivery.view(untouched) == expected(untouched) == [(1, "a"), (2, "b")]


def test_a_first_mirror_without_a_change_is_shown_without_a_merge(
    delivery: Delivery, untouched: Table
) -> None:
    delivery.lake.generations.complete(ORDERS.table, 0, delivery.segment, "position")
    path = location(delivery.root, ORDERS.table, Tier.MIRROR)
    history = delivery.spark.session.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row["operation"] for row in history] == ["SET TBLPROPERTIES", "WRITE", "CREATE TABLE"]
    assert delivery.view(untouched) == expected(untouched) == [(1, "a"), (2, "b")]
    delivery.begin()
    found = delivery.lake.find(ORDERS.table)
    assert (found.merged, found.rows, found.rebuilding, found.pending) == (2, 2, None, 0)
    delivery.history.transaction((untouched, "u", (1, "c")))
    delivery.deliver()
    assert delivery.view(untouched) == expected(untouched)
    delivery.merge(untouched)
    assert rows(delivery.tier(untouched, Tier.MIRROR)) == expected(untouched) == [(1, "c"), (2, "b")]


def test_a_first_mirror_with_a_change_is_merged_before_it_is_shown(delivery: Delivery) -> None:
    orders = delivery.history.table(ORDERS, FILLING)
    orders.source = {(1,): (1, "a"), (2,): (2, "b")}
    delivery.history.chunk(orders, [(1,), (2,)])
    delivery.history.transaction((orders, "u", (1, "c")))
    delivery.deliver()
    orders.mirror = READY
    delivery.history.seal()
    delivery.deliver()
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders) == [(1, "c"), (2, "b")]
    found = delivery.lake.find(ORDERS.table)
    assert (found.merged, found.rebuilding, found.pending) == (delivery.segment, None, 0)


def test_a_merge_that_was_made_is_not_made_again(delivery: Delivery) -> None:
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    delivery.merge(orders)
    version = DeltaTable(
        delivery.spark.session, location(delivery.root, ORDERS.table, Tier.MIRROR)
    ).snapshot()
    delivery.lake.merge(ORDERS.table, MirrorPosition(), delivery.segment, "position")
    again = DeltaTable(delivery.spark.session, location(delivery.root, ORDERS.table, Tier.MIRROR)).snapshot()
    assert version == again
    assert delivery.lake.find(ORDERS.table).pending == 0


@pytest.mark.parametrize(
    ("few", "error"), [(True, FileNotFoundError), pytest.param(False, Py4JJavaError, marks=pytest.mark.full)]
)
def test_a_merge_reads_no_file_that_has_none_of_the_keys(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, few: bool, error: type[Exception]
) -> None:
    delivery.few = repeat(few)
    monkeypatch.setattr(statements, "FILES_TO_LEAVE_OUT", 1)
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction(*((orders, "c", (number, "old")) for number in range(1, 4)))
    delivery.deliver()
    delivery.merge(orders)
    old = list(Path(location(delivery.root, ORDERS.table, Tier.MIRROR)).glob("*.parquet"))
    for path in old:
        path.rename(path.with_suffix(".aside"))
    delivery.history.transaction((orders, "c", (4, "new")), (orders, "c", (6, "new")))
    delivery.deliver()
    delivery.merge(orders)
    delivery.history.transaction((orders, "u", (3, "changed")), (orders, "d", (4, "new")))
    delivery.deliver()
    with pytest.raises(error, match=r"\.parquet"):
        delivery.merge(orders)
    for path in old:
        path.with_suffix(".aside").rename(path)
    delivery.merge(orders)
    assert delivery.lake.find(ORDERS.table).pending == 0
    assert rows(delivery.tier(orders, Tier.MIRROR)) == delivery.view(orders) == expected(orders)


@pytest.mark.full
def test_deletion_vectors_grow_merge_by_merge_and_a_file_without_rows_goes(delivery: Delivery) -> None:
    """By few changes: their keys are looked up here, and Delta stores the vectors. Its own readers check them."""
    delivery.few = repeat(True)
    users = delivery.history.table(USERS)
    days = [None, dt.date(2024, 1, 1)]
    keys = [(day, name) for name in ("a", "A", "b ") for day in days]
    delivery.history.transaction(*((users, "c", (*key, 0)) for key in keys))
    delivery.deliver()
    delivery.merge(users)
    mirror = DeltaTable(delivery.spark.session, location(delivery.root, USERS.table, Tier.MIRROR))
    hidden = []
    for number, key in enumerate(keys, 1):
        delivery.history.transaction((users, "u", (*key, number)))
        if number == 4:
            delivery.history.transaction((users, "d", (*keys[0], 1)), (users, "c", (*keys[0], 9)))
        delivery.deliver()
        delivery.merge(users)
        assert rows(delivery.tier(users, Tier.MIRROR)) == delivery.view(users) == expected(users)
        size = mirror.size()
        assert size is not None
        hidden.append(size.hidden)
    assert hidden == [1, 2, 3, 4, 5, 0]
    # Each merge has brought a file. The first file has lost all of its six rows, and the second its only one.
    frame = delivery.spark.session.sql(f"DESCRIBE DETAIL delta.`{mirror.path}`").first()
    assert frame is not None
    assert frame["numFiles"] == 5


@pytest.mark.full
def test_a_key_that_changes_in_each_merge_has_no_older_vectors_written_again(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are listed by Delta here, as those of a table with many commits are."""
    monkeypatch.setattr(LogEnd, "files", None)
    monkeypatch.setattr(delta_log, "MOST_COMMITS_READ", 0)
    delivery.few = repeat(True)
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction(*((orders, "c", (number, "\u2028")) for number in range(3)))
    for number in range(4):
        delivery.deliver()
        delivery.merge(orders)
        delivery.history.transaction((orders, "u", (0, f"{number}")), (orders, "c", (10 + number, "x")))
    delivery.deliver()
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == delivery.view(orders) == expected(orders)
    # The key was hidden once in the first file, and once in the file of each merge but the last.
    mirror = Path(location(delivery.root, ORDERS.table, Tier.MIRROR))
    sizes = [path.stat().st_size for path in mirror.glob("deletion_vector_*.bin")]
    assert sizes == [1 + 4 + len(vector_bytes(BitMap64([0]))) + 4] * 4


# Of each type a few values that a key may have.
_KEY_PARTS: Final[dict[str, tuple[t.ColumnType, tuple[object, ...]]]] = {
    "wide": (t.Integer(8, unsigned=True), (Exact(0), Exact(1), Exact(2**64 - 1))),
    "number": (t.Integer(2, unsigned=True), (0, 1, 2**16 - 1)),
    "price": (t.Decimal(30, 4), tuple(map(Exact, ("-1.5000", "0.0000", "99999999999999999999.0001")))),
    "text": (TEXT, ("", "a ", "\U0001f600")),
    "label": (t.Enum(("a", "b", "A")), ("a", "b", "A")),
    "bytes": (t.Binary(), (b"", b"\0", b"\xff\0")),
    "date": (t.Date(), (None, dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "when": (
        t.DateTime(6),
        (*map(dt.datetime.fromisoformat, ("1000-01-01", "2024-01-01T00:00:00.000001")), None),
    ),
    "at": (t.Timestamp(6), (dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC), None)),
    "time": (t.Time(6), (-1, 0, 838 * 3_600_000_000)),
    "double": (t.Double(), (0.0, -1.5, 1e300)),
    "bit": (t.Bit(1), (False, True)),
}


# Keys differ by these parts, and have the first value of each other part.
_TOGETHER: Final = (
    ("wide", "price", "label"),
    ("number", "text", "date"),
    ("at", "bytes", "when"),
    ("bit", "time", "double"),
)


def test_a_key_of_each_type_is_found_in_files_of_the_journal_and_of_spark(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a key that has another form in one of the two kinds of files lets no key be found.

    The files are listed by the log's commits here, as those of a large table are.
    """
    monkeypatch.setattr(LogEnd, "files", None)
    delivery.few = repeat(True)
    columns = [Column(name, type_, False) for name, (type_, _) in _KEY_PARTS.items()]
    keyed = schema("keyed", Column("n", INT, True), *columns, key=tuple(range(1, 1 + len(columns))))
    table = delivery.history.table(keyed, FILLING)
    keys: list[Row] = []
    for named in _TOGETHER:
        parts = (values if name in named else values[:1] for name, (_, values) in _KEY_PARTS.items())
        keys += [key for key in product(*parts) if key not in keys]
    table.source = {key: (0, *key) for key in keys}
    delivery.history.chunk(table, keys)
    delivery.deliver()
    table.mirror = READY
    for number in (1, 2):
        delivery.history.transaction(*((table, "u", (number, *key)) for key in keys[::2]))
        delivery.deliver()
        delivery.merge(table)
        assert rows(delivery.tier(table, Tier.MIRROR)) == delivery.view(table) == expected(table)


@pytest.mark.full
def test_added_columns_are_taken_on_and_older_segments_stay_readable(delivery: Delivery) -> None:
    history, id_, note = delivery.history, *ORDERS.columns
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")), (orders, "c", (2, "b")))
    delivery.deliver()
    delivery.merge(orders)
    history.transaction((orders, "u", (2, "c")))
    orders.close_version()
    first, middle, last = (Column(name, INT, True) for name in ("first", "middle", "last"))
    orders.schema = replace(ORDERS, columns=(first, id_, middle, note, last), key=(1,))
    orders.rows = {key: (None, row[0], None, row[1], None) for key, row in orders.rows.items()}
    history.transaction((orders, "c", (10, 3, 30, "x", 40)))
    # The columns have been added when everything fails, and then the same files come again.
    delivery.history.seal()
    wanted, present = orders.schema, delivery.delivered[ORDERS.table]
    batch = delivery.batch()
    todo = accept_batch(present, ORDERS.table, batch)
    delivery.lake._prepare(ORDERS.table, present, todo, wanted, batch)
    delivery.begin()
    delivery.deliver()
    assert delivery.delivered[ORDERS.table].stopped is None
    assert delivery.tier(orders, Tier.MIRROR).columns == [c.name for c in wanted.columns]
    assert delivery.tier(orders, Tier.CHANGELOG).columns[-5:] == [c.name for c in wanted.columns]
    assert delivery.view(orders) == expected(orders)
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


def filled_beside(delivery: Delivery) -> tuple[Table, Ready]:
    """A table of one row, whose mirror's next generation has all rows and isn't swapped in yet."""
    history = delivery.history
    orders = history.table(ORDERS, READY)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    history.restart(orders, ORDERS, Filling)
    begun = Ready(history.scn)
    history.chunk(orders, [(1,)])
    delivery.deliver()
    orders.mirror = begun
    return orders, begun


def test_columns_change_while_a_mirror_is_written_and_the_swap_begins_again(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch doesn't wait for it: it has been delivered when the swap commits, which Delta refuses then."""
    history, (orders, begun) = delivery.history, filled_beside(delivery)
    before = expected(orders)
    history.seal()
    replace_table, views = TableCommits.replace_table, list[list[Row]]()

    def wide() -> None:
        """A segment with a column more, while the mirror is about to be written."""
        monkeypatch.setattr(TableCommits, "replace_table", replace_table)
        orders.schema = replace(ORDERS, columns=(*ORDERS.columns, Column("n", INT, True)))
        orders.rows = {key: (*row, None) for key, row in orders.rows.items()}
        history.transaction((orders, "u", (2, "b", 22)))
        history.seal()
        batch = next_batch(history.store.entries(2, history.segment))
        delivery.delivered[ORDERS.table] = delivery.lake.deliver(
            ORDERS.table, delivery.delivered[ORDERS.table], batch
        )
        delivery.segment = batch.through
        views.append(delivery.view(orders))

    def swap(*arguments: Any, **more: Any) -> None:
        other = ThreadPoolExecutor(1)
        try:
            other.submit(wide).result(WITHIN_S)
        finally:
            other.shutdown(wait=False)
        replace_table(*arguments, **more)

    monkeypatch.setattr(TableCommits, "replace_table", swap)
    with pytest.raises(Conflict, match="the table's columns have changed"):
        delivery.lake.generations.complete(ORDERS.table, begun.since, 2, "position")
    assert [*views, delivery.view(orders)] == [before, before]
    delivery.lake.generations.complete(ORDERS.table, begun.since, delivery.segment, "position")
    assert delivery.view(orders) == expected(orders) == [(1, "a", None), (2, "b", 22)]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


@pytest.mark.full
def test_a_swap_that_commits_just_before_columns_change_has_come_before_them(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch goes on with what it brought, and doesn't fail."""
    history, (orders, begun) = delivery.history, filled_beside(delivery)
    orders.schema = replace(ORDERS, columns=(*ORDERS.columns, Column("n", INT, True)))
    orders.rows = {key: (*row, None) for key, row in orders.rows.items()}
    history.transaction((orders, "c", (2, "b", 22)))
    history.seal()
    mirror = delivery.lake._commits.table(ORDERS.table, Tier.MIRROR)
    mirrored = mirror.snapshot()
    assert mirrored is not None
    planned = delivery.lake.generations._planned(
        ORDERS.table, mirrored, begun.since, delivery.segment, "position"
    )
    tries: list[int] = []

    def told(self: DeltaTable, application: str, version: int) -> None:
        """It has looked at a mirror that isn't swapped yet when it is."""
        tries.append(version)
        alone = range(version, version + 1)
        self._append_by_delta(self._log(), swapped, application, alone, {application: version}, NO_REPORT)

    def swapped(*_: object) -> Sequence[str]:
        if len(tries) == 1:
            delivery.lake.generations._swap(ORDERS.table, mirror, planned)
        return ()

    monkeypatch.setattr(DeltaTable, "set_transaction", told)
    delivery.deliver_sealed()
    assert len(tries) == 1
    assert delivery.view(orders) == expected(orders) == [(1, "a", None), (2, "b", 22)]


@pytest.mark.full
def test_a_generation_that_begins_right_after_a_swap_keeps_its_rows(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins as soon as it can, and what was filled before is removed meanwhile."""
    history, (orders, begun) = delivery.history, filled_beside(delivery)
    delivery.history.seal()
    delivery.deliver_table(ORDERS.table, delivery.batch())
    delivery.segment += 1
    history.restart(orders, ORDERS, Filling)
    later = Ready(history.scn)
    history.chunk(orders, [(1,)])
    history.seal()
    replace_table, snapshot, begins = TableCommits.replace_table, DeltaTable.snapshot, list[Batch]()

    def swapped(*arguments: Any, **more: Any) -> None:
        replace_table(*arguments, **more)
        begins.append(delivery.batch())

    def next_one() -> None:
        lock = delivery.lake._changing(ORDERS.table)
        if lock.acquire(blocking=False):
            delivery.deliver_table(ORDERS.table, begins.pop())
            lock.release()

    def looked(table: DeltaTable) -> Any:
        found = snapshot(table)
        if begins and table.path == location(delivery.root, ORDERS.table, Tier.MIRROR):
            monkeypatch.undo()
            with ThreadPoolExecutor(1) as other:
                other.submit(next_one).result(WITHIN_S)
        return found

    monkeypatch.setattr(TableCommits, "replace_table", swapped)
    monkeypatch.setattr(DeltaTable, "snapshot", looked)
    delivery.lake.generations.complete(ORDERS.table, begun.since, 3, "position")
    assert delivery.view(orders) == [(1, "a")]
    if begins:
        delivery.deliver_table(ORDERS.table, begins.pop())
    delivery.segment += 1
    orders.mirror = later
    history.transaction((orders, "c", (2, "b")))
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "a"), (2, "b")]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


@pytest.mark.parametrize("killed", [False, True])
def test_a_power_cut_after_a_swap_does_not_take_the_mirror(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """What was filled beside it is removed, and the journal may have removed the rows."""
    power = Power()
    with power.noted():
        _, begun = filled_beside(delivery)
        delivery.history.seal()
        delivery.deliver_table(ORDERS.table, delivery.batch())
        with monkeypatch.context() as patched:
            patched.setattr(TableCommits, "make_durable" if killed else "sweep", kill)
            with pytest.raises(Killed):
                delivery.lake.generations.complete(ORDERS.table, begun.since, 3, "position")
        if killed:
            delivery.begin()
            with monkeypatch.context() as patched:
                patched.setattr(TableCommits, "sweep", kill)
                with pytest.raises(Killed):
                    delivery.lake.find(ORDERS.table)
    assert lost_of_lake(power, delivery) == []


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_generation_that_a_kill_kept_from_its_table_begins_in_a_shorter_batch(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """The changelog has a column of a later segment already, with which the first batch ended."""
    history = delivery.history
    orders = history.table(ORDERS, FILLING if first else READY)
    if not first:
        history.transaction((orders, "c", (1, "a")))
        delivery.deliver()
        history.restart(orders, ORDERS, Filling)
    assert orders.mirror is not None
    filled, before = Ready(orders.mirror.since), delivery.segment
    orders.source |= {(1,): (1, "a"), (2,): (2, "b")}
    history.chunk(orders, [(1,)])
    history.seal()
    history.chunk(orders, [(2,)])
    history.transaction((orders, "u", (1, "c")))
    history.seal()
    orders.schema = replace(ORDERS, columns=(*ORDERS.columns, Column("n", INT, True)))
    orders.rows = {key: (*row, None) for key, row in orders.rows.items()}
    history.transaction((orders, "c", (3, "d", 33)))
    kill_delivery(delivery, monkeypatch, TableCommits, "replace_table")
    found = delivery.lake.find(ORDERS.table)
    assert (found.since, found.rows) == (before + 3, 0)
    shorter = next_batch(history.store.entries(before, before + 2))
    delivery.deliver_table(ORDERS.table, shorter)
    delivery.segment = shorter.through
    delivery.deliver_sealed()
    orders.mirror = filled
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "c", None), (2, "b", None), (3, "d", 33)]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


def test_a_merge_names_a_column_that_somebody_has_renamed(delivery: Delivery) -> None:
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    mirror = table_at(location(delivery.root, ORDERS.table, Tier.MIRROR))
    mapped = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    for altered in (mapped, "RENAME COLUMN note TO remark"):
        delivery.spark.session.sql(f"ALTER TABLE {mirror} {altered}")
    with pytest.raises(Definite, match=r"orders/mirror has no column note; if somebody has renamed"):
        delivery.merge(orders)
    delivery.spark.session.sql(f"ALTER TABLE {mirror} RENAME COLUMN remark TO note")
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


@pytest.mark.parametrize("tier", Tier)
def test_a_statement_that_alters_a_lake_table_does_not_make_one_that_was_removed(
    delivery: Delivery, tier: Tier
) -> None:
    """It would lack all of its rows, and its table would be taken for whole."""
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    removed = location(delivery.root, ORDERS.table, tier)
    shutil.rmtree(removed)
    orders.schema = replace(ORDERS, columns=(*ORDERS.columns, Column("more", INT, True)))
    history.transaction((orders, "c", (2, "b", 3)))
    with pytest.raises(Transient, match=rf"{removed} was removed while the service runs"):
        delivery.deliver()
    assert not Path(removed).exists()


@pytest.mark.full
def test_a_mirror_whose_changelog_was_removed_takes_no_change_of_the_next_one(delivery: Delivery) -> None:
    """That lacks changes. Readers get the mirror as it was, once another generation is filled beside it."""
    history, session = delivery.history, delivery.spark.session
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    delivery.merge(orders)
    history.transaction((orders, "c", (2, "b")))
    delivery.deliver()
    shutil.rmtree(location(delivery.root, ORDERS.table, Tier.CHANGELOG))
    session.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    delivery.begin()
    found = delivery.lake.find(ORDERS.table)
    assert found.generation is None
    history.transaction((orders, "c", (3, "c")))
    history.seal()
    delivery.lake.deliver(ORDERS.table, found, replace(delivery.batch(), generations={}))
    delivery.segment += 1
    delivery.begin()
    assert delivery.lake.find(ORDERS.table).generation is None
    with pytest.raises(Definite, match=r"no mirror of shop\.orders"):
        delivery.view(orders)
    history.restart(orders, ORDERS, Filling)
    filled = Ready(history.scn)
    history.chunk(orders, list(orders.source))
    delivery.deliver()
    assert delivery.view(orders) == [(1, "a")]
    orders.mirror = filled
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_that_comes_again_takes_no_stop_of_capture_back(delivery: Delivery) -> None:
    """It comes for another table, which catches up."""
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    history.seal()
    older = delivery.batch()
    delivery.deliver_sealed()
    history.stopped[ORDERS.table] = "so"
    delivery.deliver()
    again = delivery.lake.deliver(ORDERS.table, delivery.delivered[ORDERS.table], older)
    assert (
        again.capture_stopped == delivery.properties(orders, Tier.CHANGELOG)[Property.CAPTURE_STOPPED] == "so"
    )


# A column went, and the key is another one.
RENEWED = schema("orders", Column("code", TEXT, False), Column("id", INT, False))


class Cut(Exception):
    """The end of a delivery, at the step where a test wants it."""


def test_a_generation_takes_a_stop_of_capture_back_before_it_begins(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If capture stopped the table again after a crash, the lake would seem to have all of the generation."""
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    history.stopped[ORDERS.table] = "so"
    delivery.deliver()
    del history.stopped[ORDERS.table]
    history.restart(orders, ORDERS, Filling)
    history.transaction((orders, "c", (2, "b")))
    history.seal()
    monkeypatch.setattr(Lake, "_append_pieces", cut)
    with pytest.raises(Cut):
        delivery.deliver_sealed()
    delivery.begin()
    found = delivery.lake.find(ORDERS.table)
    assert orders.mirror is not None
    assert (found.generation, found.capture_stopped) == (orders.mirror.since, "")


STEPS = [
    (TableCommits, "create_changelog"),
    (Generations, "_freeze"),
    (TableCommits, "evolve_changelog"),
    (TableCommits, "replace_table"),
    (Generations, "begin"),
    (DeltaTable, "append"),
    (Generations, "complete"),
    (Generations, "_swap"),
    (TableCommits, "sweep"),
]


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        pytest.param(*each, id=each[1], marks=() if each[1] == "append" else pytest.mark.full)
        for each in STEPS
    ],
)
def test_a_mirror_that_begins_anew_is_never_seen_in_part_whatever_fails(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    history, session = delivery.history, delivery.spark.session
    orders = history.table(ORDERS, FILLING)
    orders.source[7,] = (7, "old")
    history.chunk(orders, [(7,)])
    history.transaction((orders, "c", (1, "a")))
    before, first, text = list[Row](), step == "create_changelog", ""
    if not first:  # else the very first batch has both generations in it
        delivery.deliver()
        with pytest.raises(Definite, match=r"the first snapshot of shop\.orders isn't in the lake yet"):
            delivery.view(orders)
        orders.mirror = READY
        history.transaction((orders, "c", (2, "b")))
        delivery.deliver()
        before, text = expected(orders), live_view_text(delivery.root, "shop.orders", Dialect.SPARK)
        assert rows(session.sql(text)) == delivery.view(orders) == before
        assert rows(delivery.tier(orders, Tier.MIRROR)) == before

    def seen(*wanted: list[Row]) -> None:
        """What readers see, of the mirror and of the live view, with fresh texts and old ones."""
        if first:
            return
        assert delivery.view(orders) in wanted
        assert rows(session.sql(live_view_text(delivery.root, "shop.orders", Dialect.SPARK))) in wanted
        assert rows(delivery.tier(orders, Tier.MIRROR)) in wanted
        with suppress(AnalysisException):  # it fails, or is right
            assert rows(session.sql(text)) == before

    def cut(one: Any, *arguments: Any, **more: Any) -> Any:
        original(one, *arguments, **more)
        raise Cut

    def delivered_at_last() -> None:
        """It's cut off once, and begins again."""
        try:
            delivery.deliver()
        except Cut:
            seen(before, expected(orders))
            patched.undo()
            delivery.begin()
            delivery.segment = delivery.lake.find(ORDERS.table).after
            delivery.deliver_sealed()
            cuts.append(step)

    original, cuts = getattr(owner, step), list[str]()
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, cut)
        history.transaction((orders, "u", (1, "gone")))
        history.restart(orders, RENEWED, Filling)
        begun = Filling(history.scn)
        orders.source = {("x",): ("x", 1), ("y",): ("y", 2)}
        history.transaction((orders, "u", ("y", 3)), (orders, "c", ("z", 4)))
        history.chunk(orders, [("x",)])
        delivered_at_last()
        seen(before)
        if not first:
            rebuilding = read_version(location(delivery.root, ORDERS.table, Tier.MIRROR))
            assert rebuilding is not None
            assert rebuilding.rebuilding is not None
            assert (rebuilding.rebuilding.generation, rebuilding.rebuilding.segment) == (
                begun.since,
                2,
            )
        history.chunk(orders, [("y",)])
        orders.mirror = Ready(begun.since)
        history.transaction((orders, "c", ("w", 5)))
        delivered_at_last()
    assert cuts == [step]
    assert delivery.view(orders) == expected(orders) == [("w", 5), ("x", 1), ("y", 3), ("z", 4)]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)
    assert delivery.tier(orders, Tier.CHANGELOG).count() == (5 if first else 6)
    beside = Path(location(delivery.root, ORDERS.table, Tier.MIRROR)).parent
    assert sorted(path.name for path in beside.iterdir()) == ["changelog", "mirror"]
    if not first:
        with pytest.raises(AnalysisException, match="__generation_0"):
            session.sql(text)
    history.transaction((orders, "d", ("x", 1)))
    delivery.deliver()
    assert delivery.lake.find(ORDERS.table).pending == 1
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == delivery.view(orders) == expected(orders)
    # The changelog still has what the table had before.
    told = rows(delivery.tier(orders, Tier.CHANGELOG).where("code IS NULL").select("__op", "id", "note"))
    assert told == [("c", 1, "a"), *([] if first else [("c", 2, "b")]), ("u", 1, "gone")]


PAIRS = schema("pairs", Column("id", INT, False), Column("a", TEXT, True), Column("b", TEXT, True))
SWAPPED = replace(PAIRS, columns=(PAIRS.columns[0], PAIRS.columns[2], PAIRS.columns[1]))


@pytest.mark.parametrize(
    "what", ["few", *(pytest.param(what, marks=pytest.mark.full) for what in ("many", "complete"))]
)
def test_what_is_merged_between_the_two_tables_changes_of_columns_keeps_its_columns(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The changelog has the new names already when the service is killed, and the mirror has the old ones."""
    history = delivery.history
    pairs = history.table(PAIRS)
    history.transaction((pairs, "c", (1, "a", "b")), (pairs, "c", (2, "c", "d")))
    delivery.deliver()
    if what == "complete":
        pairs.source = dict(pairs.rows)
        history.restart(pairs, PAIRS, Filling)
        assert pairs.mirror is not None
        history.chunk(pairs, [(1,), (2,)])
        history.transaction((pairs, "u", (1, "e", "f")))
        delivery.deliver()
        pairs.mirror = Ready(pairs.mirror.since)
        history.transaction((pairs, "u", (2, "g", "h")))
        history.seal()
        batch = delivery.batch()
        delivery.deliver_table(PAIRS.table, batch)
        delivery.segment = batch.through
    before = expected(pairs)
    changes = ColumnChanges(renamed=(("a", "b"), ("b", "a")))
    history.altered.append(Altered(history.scn, Alteration(SWAPPED, "ALTER TABLE", changes)))
    pairs.schema = SWAPPED
    history.transaction((pairs, "c", (3, "i", "j")))
    with monkeypatch.context() as patched:
        patched.setattr(Generations, "evolve", cut)
        with pytest.raises(Cut):
            delivery.deliver()
    delivery.begin()
    amid = delivery.lake.find(PAIRS.table)
    assert amid.schema == SWAPPED
    assert amid.since > amid.mirror_since
    if what == "complete":
        assert amid.generation is not None
        delivery.lake.generations.complete(PAIRS.table, amid.generation, delivery.segment, "position")
    else:
        delivery.few = repeat(what == "few")
        delivery.merge(pairs)
    assert rows(delivery.tier(pairs, Tier.MIRROR)) == before
    delivery.deliver_sealed()
    assert delivery.view(pairs) == expected(pairs)
    delivery.merge(pairs)
    assert rows(delivery.tier(pairs, Tier.MIRROR)) == delivery.view(pairs) == expected(pairs)


def bring_changes_behind_columns(delivery: Delivery, monkeypatch: pytest.MonkeyPatch, orders: Table) -> Batch:
    """The kill comes in a batch whose last segment has a column more. The next batch ends before that segment."""
    history = delivery.history
    history.transaction((orders, "c", (2, "b")))
    history.seal()
    delivery.deliver_table(ORDERS.table, batch := delivery.batch())
    delivery.segment = batch.through
    history.transaction((orders, "u", (2, "c")))
    history.seal()
    history.transaction((orders, "c", (3, "d")))
    history.seal()
    orders.schema = replace(ORDERS, columns=(*ORDERS.columns, Column("n", INT, True)))
    for known in (orders.source, orders.rows):
        known.update({key: (*row, None) for key, row in known.items()})
    history.transaction((orders, "c", (4, "e", 44)))
    kill_delivery(delivery, monkeypatch, Generations, "evolve")
    shorter = next_batch(history.store.entries(delivery.segment, history.segment - 1))
    delivery.deliver_table(ORDERS.table, shorter)
    delivery.segment = shorter.through
    return shorter


@pytest.mark.parametrize("what", [pytest.param("merge", marks=pytest.mark.full), "complete"])
def test_changes_that_come_behind_columns_which_the_mirror_lacks_wait_for_these(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    filled = what == "complete"
    orders = filled_beside(delivery)[0] if filled else delivery.history.table(ORDERS)
    shorter = bring_changes_behind_columns(delivery, monkeypatch, orders)
    amid = delivery.lake.find(ORDERS.table)
    assert (amid.changes, amid.since) == (shorter.through, shorter.through + 1)
    before = delivery.view(orders)
    assert before == ([(1, "a")] if filled else [(2, "b")])
    assert amid.generation is not None
    through = delivery.segment, "position"
    with pytest.raises(Conflict, match="have to wait for the mirror's columns"):
        delivery.lake.generations.complete(ORDERS.table, amid.generation, *through)
    if not filled:  # a frozen mirror is read alone
        with pytest.raises(Conflict, match="have to wait for the mirror's columns"):
            delivery.merge(orders)
        with pytest.raises(Conflict, match="lacks changes until its mirror has"):
            delivery.lake.verification.verify(VerifyRows(ORDERS.table, (), *through, 0, None))
        so_far = LakeProgress(shorter.through, shorter.checkpoint, delivery.delivered)
        told = LakeConsumerProgress(State(LakeSettings(delivery.root), so_far, Idle()))
        assert told.of(ORDERS.table).lacks == "its mirror doesn't have the new columns yet"
        with pytest.raises(Definite, match=r"the live view of shop\.orders lacks changes"):
            live_view(delivery.spark.session, delivery.root, ORDERS.table, at=amid.at)
        with pytest.raises(Definite, match=r"the live view of shop\.orders lacks changes"):
            live_view_text(delivery.root, "shop.orders", Dialect.SPARK, at=amid.at)
    assert delivery.view(orders) == before
    delivery.deliver_sealed()
    assert delivery.view(orders) == expected(orders)
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == delivery.view(orders) == expected(orders)


def test_a_table_begins_again_though_changes_wait_for_columns_that_its_mirror_never_gets(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has removed the segment with these columns. Readers keep the state before them."""
    history = delivery.history
    orders = history.table(ORDERS)
    bring_changes_behind_columns(delivery, monkeypatch, orders)
    before = delivery.view(orders)
    delivery.segment = history.segment
    history.restart(orders, orders.schema, Filling)
    begun = Ready(history.scn)
    history.chunk(orders, list(orders.source))
    delivery.deliver()
    assert delivery.view(orders) == rows(delivery.tier(orders, Tier.MIRROR)) == before == [(2, "b")]
    orders.mirror = begun
    history.transaction((orders, "u", (2, "f", 22)))
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(2, "f", 22), (3, "d", None), (4, "e", 44)]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == expected(orders)


def cut(*_: object, **__: object) -> None:
    """Ends a delivery in place of a step."""
    raise Cut


@pytest.mark.full
def test_a_table_that_was_emptied_is_empty_at_once(delivery: Delivery) -> None:
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")), (orders, "c", (2, "b")))
    delivery.deliver()
    before = delivery.lake.find(ORDERS.table)
    history.restart(orders, ORDERS, Ready)
    delivery.deliver()
    assert delivery.view(orders) == []
    # A merge that was ordered before doesn't bring the old rows back.
    assert before.generation is not None
    delivery.lake.merge(ORDERS.table, MirrorPosition(before.generation, before.merged), 1, "position")
    assert delivery.tier(orders, Tier.MIRROR).count() == 0
    history.transaction((orders, "c", (2, "c")))
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(2, "c")]
    delivery.merge(orders)
    assert rows(delivery.tier(orders, Tier.MIRROR)) == [(2, "c")]


@pytest.mark.parametrize("emptied", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_generation_that_leaves_its_table_leaves_how_far_all_tables_are(
    delivery: Delivery, *, emptied: bool
) -> None:
    """Otherwise a start would believe that the lake lacks segments which the journal has removed."""
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    history.restart(orders, ORDERS, Filling)
    history.chunk(orders, [(1,)])
    delivery.deliver()
    history.scn += 1
    if emptied:
        history.restart(orders, ORDERS, Ready)
    else:
        orders.mirror = Ready(1)
    delivery.deliver()
    delivery.begin()
    assert delivery.lake.find(ORDERS.table).after == 1
    assert delivery.view(orders) == expected(orders)


@pytest.mark.full
@pytest.mark.parametrize("shown", [True, False], ids=["read again", "first snapshot"])
def test_a_snapshot_that_changes_have_superseded_within_a_segment_shows_no_empty_table(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    history = delivery.history
    orders = history.table(ORDERS)
    if shown:
        history.transaction((orders, "c", (1, "a")))
        delivery.deliver()
        history.restart(orders, ORDERS, Filling)
    history.chunk(orders, [])  # its only row was superseded
    history.transaction((orders, "u", (1, "b")))
    orders.mirror = Ready(history.sealed_scn)
    with monkeypatch.context() as patched:

        def cut(*_: object, **__: object) -> None:
            raise Cut

        patched.setattr(DeltaTable, "append", cut)
        with pytest.raises(Cut):
            delivery.deliver()
    if shown:
        assert delivery.view(orders) == [(1, "a")], "what was there before, until the change has come"
    else:
        with pytest.raises(Definite, match=r"the first snapshot of shop\.orders isn't in the lake yet"):
            delivery.view(orders)
    delivery.deliver()
    assert delivery.view(orders) == expected(orders) == [(1, "b")]
    assert rows(delivery.tier(orders, Tier.MIRROR)) == [(1, "b")]


def test_any_other_schema_change_stops_the_table_by_name_and_for_good(delivery: Delivery) -> None:
    history = delivery.history
    orders, users = history.table(ORDERS), history.table(USERS)
    history.transaction((orders, "c", (1, "a")), (users, "c", (None, "ann", 1)))
    history.seal()
    orders.schema = replace(ORDERS, columns=(ORDERS.columns[0], Column("note", INT, True)))
    history.transaction((orders, "c", (2, 5)))
    history.seal()
    orders.schema = ORDERS
    history.transaction((orders, "c", (3, "a")), (users, "c", (None, "Ann", 2)))
    delivery.deliver()
    delivery.begin()
    found = delivery.lake.find(ORDERS.table)
    assert found.stopped is not None
    assert found.stopped.reason.startswith("from segment 2 on: column 'note' of shop.orders was Text")
    assert found.changes == 1
    assert delivery.view(orders) == [(1, "a")]
    assert delivery.view(users) == expected(users)


@pytest.mark.parametrize("last", [TEXT, t.Date()], ids=["as before", "a third type"])
def test_a_segment_may_have_rows_of_types_that_have_nothing_in_common(
    delivery: Delivery, last: t.ColumnType
) -> None:
    history = delivery.history
    orders = history.table(ORDERS, READY)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    history.transaction((orders, "c", (2, "b")))
    value = "d" if last == TEXT else dt.date(2024, 2, 29)
    for type_, row in ((INT, (3, 7)), (last, (4, value))):
        columns = (ORDERS.columns[0], Column("note", type_, True))
        history.restart(orders, replace(ORDERS, columns=columns), Filling)
        history.transaction((orders, "c", row))
    delivery.deliver()
    assert delivery.lake.find(ORDERS.table).stopped is None
    told = delivery.tier(orders, Tier.CHANGELOG)
    aside = ("note__until_2", "note__until_2_")
    found = sorted(map(tuple, told.select("id", "note", *aside).collect()))
    before = (2, "b", None, None) if last == TEXT else (2, None, "b", None)
    assert found == [(1, None, "a", None), before, (3, None, None, 7), (4, value, None, None)]


def test_a_stopped_table_comes_back_with_the_next_generation_of_its_mirror(delivery: Delivery) -> None:
    history = delivery.history
    orders = history.table(ORDERS)
    history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    retyped = replace(ORDERS, columns=(ORDERS.columns[0], Column("note", INT, True)))
    orders.schema = retyped  # and the mirror doesn't begin anew
    history.transaction((orders, "c", (2, 5)))
    delivery.deliver()
    stopped = delivery.lake.find(ORDERS.table).stopped
    assert stopped is not None
    assert "was Text" in stopped.reason
    history.transaction((orders, "c", (3, 6)))
    delivery.deliver()
    assert delivery.view(orders) == [(1, "a")]
    orders.source = {(1,): (1, 7), (2,): (2, 5)}
    history.restart(orders, retyped, Filling)
    history.chunk(orders, [(1,), (2,)])
    history.transaction((orders, "c", (4, 8)))
    delivery.begin()
    delivery.deliver()
    mirrored = read_version(location(delivery.root, ORDERS.table, Tier.MIRROR))
    assert mirrored is not None
    assert mirrored.rebuilding is not None
    assert mirrored.rebuilding.segment == 1, "what is shown meanwhile is of before the stop"
    assert delivery.view(orders) == [(1, "a")]
    for _ in range(2):
        orders.mirror = Ready(mirrored.rebuilding.generation)
        history.transaction((orders, "c", (1, 7)))
        delivery.begin()
        delivery.deliver()
        found = delivery.lake.find(ORDERS.table)
        assert (found.stopped, found.schema) == (None, retyped)
        assert delivery.view(orders) == [(1, 7), (2, 5), (4, 8)]
    told = delivery.tier(orders, Tier.CHANGELOG).select("id", "note", "note__until_4").collect()
    assert {tuple(row) for row in told} == {(1, None, "a"), (4, 8, None), (1, 7, None)}


@pytest.mark.full
def test_rows_that_lack_columns_are_merged_column_by_column_and_never_become_null(delivery: Delivery) -> None:
    history, session = delivery.history, delivery.spark.session
    id_, note = ORDERS.columns
    wide = history.table(replace(ORDERS, columns=(id_, note, Column("n", INT, True))))

    def lacking(op: str, row: Row, *absent: str) -> None:
        history.transaction((wide, op, row))
        wide.absent[history.scn, 0] = list(absent)

    history.transaction((wide, "c", (1, "a", 1)), (wide, "c", (2, "b", 2)))
    delivery.deliver()
    assert Property.PARTIAL not in delivery.properties(wide, Tier.CHANGELOG)
    lacking("u", (1, None, 5), "note")
    lacking("u", (1, None, None), "note")
    lacking("d", (2, None, None), "note", "n")
    lacking("c", (2, None, 7), "note")
    delivery.deliver()
    assert delivery.properties(wide, Tier.CHANGELOG)[Property.PARTIAL] == "true"
    assert delivery.view(wide) == [(1, "a", None)], "what the new row 2 has as its note was never told"
    text = live_view_text(delivery.root, "shop.orders", Dialect.SPARK)
    assert rows(session.sql(text)) == [(1, "a", None)]
    delivery.merge(wide)
    assert rows(delivery.tier(wide, Tier.MIRROR)) == delivery.view(wide) == [(1, "a", None)]
    lacking("u", (2, None, 8), "note")
    history.transaction((wide, "r", (2, "new", 8)))
    lacking("u", (1, "c", None), "n")
    delivery.begin()
    delivery.deliver()
    assert delivery.view(wide) == [(1, "c", None), (2, "new", 8)]
    delivery.merge(wide)
    assert rows(delivery.tier(wide, Tier.MIRROR)) == [(1, "c", None), (2, "new", 8)]


def test_a_table_that_cannot_be_represented_is_stopped_from_the_start(delivery: Delivery) -> None:
    history = delivery.history
    odd = history.table(schema("odd", Column("id", INT, False), Column("__SCN", INT, True)))
    delivery.deliver()
    stopped = delivery.lake.find(odd.schema.table).stopped
    assert stopped is not None
    assert "'__SCN' of shop.odd has the name of a column that Tidemark adds" in stopped.reason


def test_names_of_any_kind(delivery: Delivery) -> None:
    awkward = TableSchema(
        TableId("_héé lo", "a/../b`.'c%2F*"),
        (Column("the `key`", INT, False), Column("v,;{}()=\t'", TEXT, True), Column("c", TEXT, True)),
        (0,),
    )
    table = delivery.history.table(awkward, FILLING)
    delivery.history.transaction((table, "c", (1, "it's", "\\")))
    table.source[2,] = (2, "old", "`")
    delivery.history.chunk(table, [(2,)])
    delivery.deliver()
    table.mirror = READY
    delivery.history.transaction((table, "u", (2, "new", None)))
    delivery.deliver()
    assert delivery.view(table) == expected(table)
    delivery.merge(table)
    assert rows(delivery.tier(table, Tier.MIRROR)) == expected(table)
    used = set("".join(path.name for path in Path(delivery.root).glob("*/*")))
    assert used <= set(string.ascii_letters + string.digits + "~-_")


def test_values_of_each_type_come_through(delivery: Delivery) -> None:
    utc = dt.UTC
    values: list[tuple[Any, Any]] = [
        (t.Integer(8, unsigned=False), -(2**63)),
        (t.Integer(8, unsigned=True), Exact(2**64 - 1)),
        (t.Integer(1, unsigned=False), -128),
        (t.Integer(2, unsigned=False), -32768),
        (t.Integer(4, unsigned=True), 2**32 - 1),
        (t.Decimal(38, 30), Exact("-12345678.000000000000000000000000000001")),
        (t.Decimal(65, 0), "9" * 65),
        (t.Float(), 0.5),
        (t.Double(), 1e300),
        (t.Bit(1), True),
        (t.Bit(64), b"\x80\0\0\0\0\0\0\1"),
        (t.Year(), 2155),
        (t.Date(), dt.date(1000, 1, 1)),
        (t.Time(6), -838 * 3_600_000_000),
        (t.DateTime(6), dt.datetime.fromisoformat("1000-01-01T00:00:00.000001")),
        (t.DateTime(6), dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")),
        (t.Timestamp(6), dt.datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=utc)),
        (TEXT, "\U0001f30a\0'"),
        (t.Enum(("a", "b")), "b"),
        (t.Json(), '{"a": 1}'),
        (t.Binary(), b"\0\xff"),
        (t.Vector(), [0.5, -1.0]),
        (t.Integer(8, unsigned=True), Exact(2**63 - 1)),  # a long in the lake, which is equal to it
    ]
    last = f"c{len(values) - 1}"
    delivery.types = (LakeTypeRule(TableFilter((r"shop\.types",)), (last,), LakeType.LONG),)
    delivery.begin()
    columns = tuple(Column(f"c{i}", type_, i > 0) for i, (type_, _) in enumerate(values))
    table = delivery.history.table(schema("types", *columns), FILLING)
    row = tuple(value for _, value in values)
    table.source[table.key(row)] = row
    delivery.history.chunk(table, [table.key(row)])
    delivery.history.transaction((table, "c", (1, *row[1:])), (table, "c", (2, *[None] * (len(row) - 1))))
    table.mirror = READY
    delivery.deliver()
    assert delivery.view(table) == expected(table)
    types = dict(delivery.tier(table, Tier.CHANGELOG).dtypes)
    assert (types["c1"], types[last]) == ("decimal(20,0)", "bigint")


def test_a_table_without_a_key_has_a_changelog_only(delivery: Delivery) -> None:
    bag = delivery.history.table(schema("bag", Column("v", TEXT, True), key=()), mirror=None)
    bag.changes = [("c", 1, 0, ("x",)), ("c", 1, 1, ("x",)), ("d", 2, 0, ("x",))]
    delivery.deliver()
    changelog = delivery.tier(bag, Tier.CHANGELOG)
    assert rows(changelog.select("__op", "__segment", "v")) == [("c", 1, "x"), ("c", 1, "x"), ("d", 1, "x")]
    with pytest.raises(Definite, match=r"no mirror of shop\.bag"):
        delivery.view(bag)


def test_a_lake_of_another_journal_is_refused(delivery: Delivery, tmp_path: Path) -> None:
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction((orders, "c", (1, "a")))
    delivery.deliver()
    with closing(JournalStore.open_single_writer(tmp_path / "another", "test")) as another:
        lake = Lake(delivery.spark.session, delivery.root, another)
        with pytest.raises(Definite, match="give this pipeline a lake of its own"):
            lake.find(ORDERS.table)


def test_a_table_that_another_pipeline_makes_first_is_refused(
    delivery: Delivery, spark: Spark, tmp_path: Path
) -> None:
    """Both have found that there is none."""
    other = Delivery(spark, tmp_path / "other")
    other.root = delivery.root
    other.begin()
    for each in (delivery, other):
        orders = each.history.table(ORDERS)
        each.history.transaction((orders, "c", (1, "a")))
        each.history.seal()
        each.delivered[ORDERS.table] = each.lake.find(ORDERS.table)
    delivery.deliver_sealed()
    with pytest.raises(Definite, match="give this pipeline a lake of its own"):
        other.deliver_sealed()
    assert delivery.tier(delivery.history.tables[ORDERS.table], Tier.CHANGELOG).count() == 1
    other.history.store.close()


def test_a_commit_tells_its_position(delivery: Delivery) -> None:
    orders = delivery.history.table(ORDERS)
    delivery.history.transaction((orders, "c", (1, "a")))
    delivery.history.seal()
    batch = delivery.batch()
    delivery.deliver_table(ORDERS.table, batch)
    path = location(delivery.root, ORDERS.table, Tier.CHANGELOG)
    (newest, *_) = delivery.spark.session.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    told = json.loads(newest.userMetadata)
    assert (told["segment"], told["position"]) == (1, str(batch.checkpoint.position))
