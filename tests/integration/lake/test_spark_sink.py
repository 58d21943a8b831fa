"""The SparkSink with a real journal and a real Spark: it delivers, merges, and comes back from a killed JVM."""

import asyncio
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyspark
import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from actors import spark_sink
from actors.lake.live_view import live_view
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from actors.lake.threads.scheduler_pools import Pool
from actors.lake.threads.stall_detector import StallDetector
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.spark_sink import SparkSink, SparkUp
from deploy.toolchain.parts import Parts
from pipeline import metrics as catalogue
from pipeline.config.settings import JournalSettings, LakeSettings, SparkSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.errors import Definite, Transient
from pipeline.journal.consumer_names import CONSUMERS, LAKE_CONSUMER
from pipeline.journal.entry import CommitTimes
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.messages.inboxes import ToSparkSink
from pipeline.messages.journal import MirrorDataExpired, SegmentSealed
from pipeline.messages.topology import ActorName, inbox
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot
from pipeline.types.column_types import Integer, Text
from tests.integration.history import FILLING, History, Table
from tests.servers.sink import sink_ports
from tests.servers.spark import start_quickly
from tests.servers.stopped import stop

INT = Integer(8, unsigned=False)
(SEALED,) = inbox(ActorName.SPARK_SINK)
WITHIN_S = 120.0
# Its own limits make 3 s. A busy machine takes its time beside them.
STOPS_WITHIN_S = 30.0
# More than a sink delivers until a stop has broken it off.
TABLES = 60


def table(name: str) -> TableSchema:
    return TableSchema(TableId("shop", name), (Column("id", INT, False), Column("v", INT, True)), (0,))


class House:
    """A journal and a lake; `sink` and `mailbox` are those of the present life."""

    def __init__(self, directory: Path, spark: SparkSettings, lake: LakeSettings) -> None:
        self.history = History(directory / "journal")
        self.lake, self.spark, self.root = lake, spark, Path(lake.path)
        self.orders = self.history.table(table("orders"), FILLING)
        self.items = self.history.table(table("items"))

    @asynccontextmanager
    async def life(self) -> AsyncIterator[asyncio.Task[None]]:
        """A sink that runs. Whoever doesn't end it, kills it."""
        self.mailbox: Mailbox[ToSparkSink] = Mailbox(inbox(ActorName.SPARK_SINK))
        self.metrics = Metrics()
        self.coordinator: Mailbox[Any] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        self.reached: list[LakeConsumerProgress] = []
        self.sink = SparkSink(
            self.mailbox,
            self.metrics,
            self.lake,
            self.spark,
            self.history.store,
            sink_ports(self.coordinator),
            self.reached.append,
        )
        running = asyncio.create_task(self.sink.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def write(self, first: int, v: int) -> None:
        """Commit a row to both tables, seal, and tell the sink."""
        self.history.transaction((self.orders, "u", (first, v)), (self.items, "u", (first, v)))
        now = int(time.time() * 1e6)
        segment = self.history.seal(CommitTimes(now, now, (now,)))
        await self.mailbox.put(SEALED, SegmentSealed(segment))

    async def until(self, condition: Callable[[], bool], running: asyncio.Task[None]) -> None:
        """Wait for the sink to get there."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                if running.done():
                    running.result()
                    raise AssertionError("the sink has ended")
                await asyncio.sleep(0.05)

    async def at_work(self, running: asyncio.Task[None]) -> Spark:
        """The sink's Spark, once it has delivered a first row."""
        await self.until(lambda: self.metrics.value(catalogue.SPARK_UP) == 1, running)
        await self.write(1, 1)
        await self.until(self.arrived, running)
        assert isinstance(self.up.spark, Spark)
        return self.up.spark

    @property
    def up(self) -> SparkUp:
        """What the sink has since Spark has been up."""
        assert self.sink._up is not None
        return self.sink._up

    def is_filled(self, *tables: Table) -> None:
        """All rows of their mirrors have been read."""
        for each in tables:
            assert each.mirror is not None
            each.mirror = Ready(each.mirror.since)

    def complete(self) -> bool:
        """Whether readers have all mirrors' newest generations."""
        return not any(table["rebuilding_since"] for table in self.sink.status()["tables"].values())

    def arrived(self) -> bool:
        """Whether the last segment is delivered."""
        return bool(self.sink.status()["segment"] == self.history.segment)

    def stopped(self, name: str) -> str:
        """Why a table gets nothing, as the status has it; nothing where it isn't so."""
        return self.sink.status()["tables"].get(f"shop.{name}", {}).get("stopped") or ""

    def has(self, name: str) -> bool:
        """Whether the lake has a file of a table's changes."""
        return next((self.root / "shop" / name / "changelog").glob("*.parquet"), None) is not None

    def shown(self, name: str) -> list[tuple[int, int]]:
        """The live view of a table."""
        return sorted(
            map(tuple, live_view(self.up.spark.session, str(self.root), table(name).table).collect())
        )

    def changes(self, name: str) -> list[tuple[int, int, int]]:
        """(segment, id, v) of all files that the changelog was ever given: nothing ever removes one."""
        files = ds.dataset(
            str(self.root / "shop" / name / "changelog"), format="parquet", exclude_invalid_files=False
        )
        return sorted((r["__segment"], r["id"], r["v"]) for r in files.to_table().to_pylist())


@pytest.fixture
def house(spark_settings: SparkSettings, tmp_path: Path) -> Iterator[House]:
    lake = LakeSettings(str(tmp_path / "lake"), merge_rows=1000, merge_after_s=600, drain_s=WITHIN_S)
    made = House(tmp_path, spark_settings, lake)
    yield made
    made.history.store.close()


class Felt(StallDetector):
    """Counts what batches do without a task."""

    signs = 0

    def advanced(self, pool: Pool) -> None:
        super().advanced(pool)
        Felt.signs += pool is Pool.BATCHES


async def test_it_delivers_what_was_sealed_and_what_will_be_and_merges_when_due(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sink, "StallDetector", Felt)
    house.lake = replace(house.lake, merge_rows=3)
    history = house.history
    history.transaction((house.orders, "c", (1, 1)), (house.items, "c", (1, 1)))
    history.seal()
    async with house.life() as running:
        await house.until(house.arrived, running)
        assert house.metrics.value(catalogue.SPARK_UP) == 1
        house.orders.schema = replace(house.orders.schema, key=(1, 0))  # stops by name; the others go on
        await house.write(2, 2)
        await house.write(3, 3)
        await house.until(house.arrived, running)
        await house.until(lambda: house.sink.status()["tables"]["shop.items"]["merged"] == 3, running)
        assert house.sink.status()["tables"]["shop.items"]["pending"] == 0
        stopped = house.sink.status()["tables"]["shop.orders"]["stopped"]
        assert stopped == (
            "from segment 2 on: the primary key of shop.orders was (id) and is (v, id): the lake tables of shop.orders "
            "are laid out for its new schema when it begins again; then begin it again: tidemark signal CONFIG "
            r"recapture --tables 'shop\.orders'"
        )
        assert house.metrics.value(catalogue.DELIVERED, table="shop.items", tier="changelog") == 3
        assert house.metrics.value(catalogue.DELIVERED_SEGMENT) == 3
        observed = house.metrics.registry.get_sample_value("tidemark_freshness_seconds_count")
        assert observed == 2
        history.transaction((house.items, "c", (4, 4)))
        last = history.seal()
        await house.mailbox.put(SEALED, SegmentSealed(last))
        house.mailbox.close()
        await running  # a clean stop delivers the last segment
    assert house.changes("items") == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)]
    assert house.changes("orders") == [(1, 1, 1)]
    assert house.metrics.value(catalogue.SPARK_UP) == 0
    assert Felt.signs == 5 + 1, "each file is a sign of life, and the one of the merge when it is durable"


@pytest.mark.full
async def test_a_stop_ends_between_two_tables_and_the_next_start_delivers_the_rest(house: House) -> None:
    house.lake = replace(house.lake, drain_s=0.0)
    history = house.history
    many = [history.table(table(f"table_{number}")) for number in range(TABLES)]
    history.transaction(*((each, "c", (1, 1)) for each in many))
    history.seal()

    def there() -> list[str]:
        return [each.schema.table.name for each in many if house.has(each.schema.table.name)]

    async with house.life() as running:
        await house.until(lambda: bool(there()), running)
        house.mailbox.close()
        await running
    before = there()
    assert 0 < len(before) < TABLES
    assert house.history.store.consumers.all()[LAKE_CONSUMER].segment == 0
    async with house.life() as running:
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    assert [house.changes(each.schema.table.name) for each in many] == [[(1, 1, 1)]] * TABLES


@pytest.mark.full
async def test_a_life_that_is_broken_off_while_spark_starts_leaves_no_jvm_to_the_next(house: House) -> None:
    lock = house.history.store.local_folder / "spark" / "lock"
    async with house.life() as running:
        await house.until(lock.exists, running)
    async with house.life() as running:
        await house.at_work(running)
        house.mailbox.close()
        await running


@pytest.mark.full
async def test_what_spark_says_of_a_log_that_it_cannot_read_outlives_its_jvm(house: House) -> None:
    log = house.root / "shop" / "items" / "changelog" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("CANARY-4711")
    house.history.transaction((house.items, "c", (1, 1)), (house.orders, "c", (1, 1)))
    house.history.seal()
    async with house.life() as running:
        await house.until(house.arrived, running)
        text = house.stopped("items")
        assert "SparkFailed: An error occurred while calling" in text
        assert "FAILED_READ_FILE" in text
        assert "CANARY" not in text
        assert not house.stopped("orders")
        house.mailbox.close()
        await running


async def test_a_recapture_is_no_remedy_for_a_table_without_a_mirror(house: House) -> None:
    """It would begin a generation of a mirror, which the table is not to have."""
    house.lake = replace(house.lake, rules=(LakeRule(TableFilter(("shop\\.orders",)), Tiers.CHANGELOG),))
    house.orders.mirror = None
    async with house.life() as running:
        await house.write(1, 1)
        await house.until(house.arrived, running)
        id_, v = house.orders.schema.columns
        house.orders.schema = replace(house.orders.schema, columns=(id_, replace(v, type=Text("utf8mb4"))))
        house.history.transaction((house.orders, "u", (2, "a")))
        await house.mailbox.put(SEALED, SegmentSealed(house.history.seal()))
        await house.until(lambda: bool(house.stopped("orders")), running)
        assert house.stopped("orders").endswith(
            f"; then stop the service, move the table's folder ({house.lake.path}/shop/orders) away, and start it again"
        )
        assert "tidemark signal" not in house.stopped("orders")


@pytest.mark.full
async def test_it_compacts_its_tables_beside_the_batches(house: House) -> None:
    house.lake = replace(house.lake, compact_files=3)
    for n in (1, 2, 3):
        house.history.transaction((house.items, "c", (n, n)))
        house.history.seal()
    async with house.life() as running:
        count = "tidemark_maintenance_seconds_count"
        compacted = partial(house.metrics.registry.get_sample_value, count, {"kind": "compact"})
        await house.until(lambda: compacted() == 1, running)
        status = house.sink.status()["tables"]["shop.items"]
        assert (status["pending"], status["uncompacted"]["changelog"]) == (3, 0)
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert house.metrics.value(catalogue.FILES_COME, table="shop.items", tier="changelog") == 1
        shown = live_view(house.up.spark.session, str(house.root), house.items.schema.table).collect()
        assert sorted(map(tuple, shown)) == [(n, n) for n in range(1, 5)]
        house.mailbox.close()
        await running


@pytest.mark.full
async def test_it_tells_the_journal_how_far_it_is(house: House) -> None:
    async with house.life() as running:
        await house.until(lambda: LAKE_CONSUMER in house.history.store.consumers.all(), running)
        await house.write(1, 1)
        await house.until(lambda: house.history.store.consumers.all()[LAKE_CONSUMER].segment == 1, running)
        house.mailbox.close()
        await running
    assert house.changes("items") == [(1, 1, 1)]


@pytest.mark.full
async def test_a_rule_that_changes_is_followed_or_refused_by_name(house: House) -> None:
    items = house.items.schema.table
    plain = replace(house.lake, merge_rows=1)
    changelog_only = replace(plain, rules=(LakeRule(TableFilter(("shop\\.items",)), Tiers.CHANGELOG),))
    house.lake = changelog_only
    async with house.life() as running:
        for n in (1, 2):
            await house.write(n, n)
            await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    mirror = house.root / "shop" / "items" / "mirror"
    assert (house.root / "shop" / "orders" / "mirror").exists()
    assert not mirror.exists()
    # Rows of before may be anywhere by now: the mirror waits for a generation of its own, and asks for it.
    house.lake = plain
    async with house.life() as running:
        await house.until(lambda: bool(house.coordinator.depth), running)
        assert await house.coordinator.get() == MirrorDataExpired({items: 0})
        await house.write(3, 3)
        await house.until(house.arrived, running)
        assert not mirror.exists()
        house.history.restart(house.items, house.items.schema, Filling)
        await house.write(4, 4)
        await house.until(house.arrived, running)
        assert mirror.exists()
        house.mailbox.close()
        await running
    assert house.changes("items") == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)]
    house.lake = changelog_only
    async with house.life() as running:
        await house.write(5, 5)
        await house.until(house.arrived, running)
        assert "shop.items has a mirror in the lake" in house.stopped("items")
        assert not house.stopped("orders")
        # The sink looks for the table again by itself.
        shutil.rmtree(mirror)
        await house.until(lambda: len(house.changes("items")) == 5, running)
        house.mailbox.close()
        await running


@pytest.mark.full
async def test_tables_that_got_nothing_for_long_are_not_begun_anew_when_what_had_nothing_for_them_has_gone(
    house: House,
) -> None:
    history, store = house.history, house.history.store
    history.transaction((house.orders, "c", (1, 1)), (house.items, "c", (1, 1)))
    history.seal()
    async with house.life() as running:
        await house.until(house.arrived, running)
        for _ in range(3):
            await house.mailbox.put(SEALED, SegmentSealed(history.seal()))
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    store.recover()
    assert store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 3
    async with house.life() as running:
        await house.write(2, 2)
        await house.until(house.arrived, running)
        assert house.sink.status()["late"] == []
        assert house.coordinator.depth == 0
        house.mailbox.close()
        await running
    assert house.changes("items") == [(1, 1, 1), (5, 2, 2)]
    # Of tables of another time that's not known, however far this journal's consumer had come.
    store.recover()
    assert store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 1
    shutil.rmtree(house.root)
    async with house.life() as running:
        await house.until(lambda: house.sink.status()["late"] != [], running)


@pytest.mark.full
async def test_copies_of_the_lake_that_take_turns_all_get_what_they_lack(
    house: House, tmp_path: Path
) -> None:
    """One batch brings a copy to the journal's end, and nothing comes after it."""
    copy, newer = tmp_path / "copy", tmp_path / "newer"

    async def delivered(*rows: int) -> None:
        async with house.life() as running:
            for n in rows:
                await house.write(n, n)
                await house.until(house.arrived, running)
            await house.until(house.arrived, running)
            house.mailbox.close()
            await running

    await delivered(1, 2)
    shutil.copytree(house.root, copy)
    await delivered(3, 4)
    house.root.rename(newer)
    shutil.copytree(copy, house.root)
    house.history.transaction((house.orders, "u", (5, 5)), (house.items, "u", (5, 5)))
    house.history.seal()
    for lake in (None, newer, copy):
        if lake is not None:
            shutil.rmtree(house.root)
            lake.rename(house.root)
        await delivered()
        assert house.changes("items") == [(n, n, n) for n in range(1, 6)]


@pytest.mark.full
async def test_a_scan_that_the_lake_lacks_is_known_until_there_is_another(house: House) -> None:
    """A lake is added when the journal has removed the scan of a table without a key, and is forgotten twice."""
    history, store = house.history, house.history.store
    log = history.table(replace(table("log"), key=()), mirror=None)
    history.scanned = frozenset({log.schema.table})
    house.orders.mirror = house.items.mirror = None  # or a restart finds the gap again, while they are late

    def scan(name: str) -> None:
        history.snapshots += (Snapshot(name, {log.schema.table: Completed(Progress())}),)
        history.transaction((log, "c", (1, 1)))
        history.seal()

    def lost() -> str:
        return house.reached[-1].never_whole(log.schema.table) or ""

    scan("s1")
    history.seal()
    store.recover()
    assert store.retain(JournalSettings("journal", keep_hours=0), time.time_ns() // 1000).segments == 1
    for life in range(4):
        if life == 2:
            store.forget_consumer(LAKE_CONSUMER)
        if life == 3:
            (store.directory / CONSUMERS / f"{LAKE_CONSUMER}.json").write_text("")
            store.forget_consumer(LAKE_CONSUMER)
        async with house.life() as running:
            await house.until(lambda: house.metrics.value(catalogue.SPARK_UP) == 1, running)
            history.transaction((log, "c", (10 + life, 1)))  # so that the lake has something of it
            await house.write(life, 2)
            await house.until(house.arrived, running)
            assert "request a blocking snapshot" in lost(), life
            if life == 3:
                scan("s2")
                await house.mailbox.put(SEALED, SegmentSealed(history.segment))
                await house.until(house.arrived, running)
                assert not lost()
            house.mailbox.close()
            await running
    assert store.consumers.all()[LAKE_CONSUMER].lost == {}


def killed(spark: Spark) -> None:
    """End the JVM at once."""
    os.kill(spark.pid, signal.SIGKILL)


def out_of_memory(spark: Spark) -> None:
    """Have the JVM want more than it may have."""
    jvm: Any = spark.session.sparkContext._jvm
    with suppress(Py4JError, ConnectionError):
        jvm.java.nio.ByteBuffer.allocate(2**31 - 1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("end", "told"),
    [
        (killed, "Spark's JVM has ended, or was killed"),
        (out_of_memory, "Spark's JVM ran out of memory"),
    ],
)
async def test_a_jvm_that_ends_is_transient_and_the_next_life_goes_on_without_doubles(
    house: House, end: Callable[[Spark], None], told: str
) -> None:
    async with house.life() as running:
        await asyncio.to_thread(end, await house.at_work(running))
        await house.write(2, 2)
        with pytest.raises(Transient, match=told):
            await running
    async with house.life() as running:
        await house.until(house.arrived, running)
        scratch = house.sink._journal.local_folder / "spark" / "local"
        assert len(list(scratch.glob("blockmgr-*"))) == 1, "it has removed what the JVM before left"
        await house.write(3, 3)
        house.mailbox.close()
        await running
    assert house.changes("items") == house.changes("orders") == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]


async def test_a_stop_does_not_wait_for_a_spark_that_hangs(house: House) -> None:
    async with house.life() as running:
        stop((await house.at_work(running)).pid)
        house.mailbox.close()
        async with asyncio.timeout(STOPS_WITHIN_S):
            await running


@pytest.mark.full
async def test_a_jvm_that_stands_still_while_a_batch_is_delivered_is_found_and_the_next_life_goes_on(
    house: House,
) -> None:
    async with house.life() as running:
        stop((await house.at_work(running)).pid)
        await house.write(2, 2)
        await house.until(lambda: house.sink.hung() == "Spark hasn't answered for 12 s", running)
    async with house.life() as running:
        await house.write(3, 3)
        await house.until(house.arrived, running)
        house.mailbox.close()
        await running
    assert house.changes("items") == house.changes("orders") == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]


ORPHAN = """
import sys, time
from pathlib import Path
from actors.lake.spark import spark_session
from deploy.toolchain.parts import locate
from pipeline.config.settings import SparkSettings
spark = spark_session.start_local(SparkSettings(jars=locate().jars), Path(sys.argv[1]))
print(spark.pid, flush=True)
time.sleep(600)
"""


def test_the_jvm_ends_when_its_python_is_killed_and_no_other_begins_before(
    spark_settings: SparkSettings, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN, tmp_path], stdout=subprocess.PIPE) as python:
        assert python.stdout is not None
        handle = os.pidfd_open(int(python.stdout.readline()))
        with pytest.raises(Transient, match="an earlier run hasn't ended yet"):
            spark_session.start_local(spark_settings, tmp_path)
        python.kill()
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    assert ended.poll(60_000), "the JVM outlives its Python"
    os.close(handle)


MERGE = """
import sys
from pathlib import Path
from actors.lake.spark import spark_session
from deploy.toolchain.parts import locate
from pipeline.config.settings import SparkSettings
folder = Path(sys.argv[1])
(folder / "tmp").mkdir(exist_ok=True)
(folder / "tmp" / "of-a-killed-jvm").touch()
spark = spark_session.start_local(SparkSettings(jars=locate().jars), folder)
table = f"delta.`{folder / 'table'}`"
spark.session.range(3).write.format("delta").save(str(folder / "table"))
spark.session.sql(
    f"MERGE INTO {table} USING (SELECT explode(array(2, 3)) AS id) AS new ON {table}.id = new.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
)
print(sorted(row.id for row in spark.session.table(table).collect()))
print([path.name for path in (folder / "tmp").iterdir() if "snappy" in path.name or "killed" in path.name])
spark.stop()
"""


@pytest.mark.full
@pytest.mark.parametrize("mounted", ["noexec", "spark/tmp"])
def test_spark_merges_where_a_folder_is_mounted_noexec(
    mounted: str, tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Docker mounts a tmpfs at /tmp, or a hardened machine a volume of data: the codecs of Parquet can't load their
    native libraries from there."""
    start_quickly(monkeypatch, parts)
    noexec, folder = tmp_path / mounted, tmp_path / "spark"
    noexec.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    java_chooses = tmp_path / "noexec" if mounted == "noexec" else tmp_path
    mount = ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(noexec)]
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, *mount], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a filesystem of his own")
    script = [*namespace, "sh", "-c", f'{shlex.join(mount)} && exec "$@"', "sh", sys.executable, "-c", MERGE]
    java = {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={java_chooses}", "SPARK_LOCAL_DIRS": str(noexec)}
    ended = subprocess.run(
        [*script, folder], env={**os.environ, **java}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ids, files = ended.stdout.splitlines()
    assert ids == "[0, 1, 3]"
    assert ("snappy" in files) is (mounted == "noexec") and "of-a-killed-jvm" not in files


@pytest.mark.full
def test_a_jvm_that_is_killed_while_it_starts_is_not_taken_for_the_next_one(
    spark_settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, initialize = spark_session._launch_gateway, SparkContext._initialize_context

    def end(gateway: Any) -> None:
        gateway.proc.kill()
        gateway.proc.wait()

    def stillborn(*arguments: Any) -> Any:
        gateway = launch(*arguments)
        end(gateway)
        return gateway

    def struck(context: SparkContext, conf: Any) -> Any:
        end(SparkContext._gateway)
        return initialize(context, conf)

    for owner, step, dying in (
        (spark_session, "_launch_gateway", stillborn),
        (SparkContext, "_initialize_context", struck),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, dying)
            with pytest.raises(Transient, match="Spark didn't start at local"):
                spark_session.start_local(spark_settings, tmp_path)
    spark = spark_session.start_local(spark_settings, tmp_path)
    assert spark.session.range(3).count() == 3
    spark.stop()


@pytest.mark.parametrize(
    ("jars", "told"),
    [
        ([], "must hold just one Delta, delta-spark_4.2_2.13-4.4.0.jar .*none"),
        (["delta-spark_4.1_2.13-4.4.0.jar"], "delta-spark_4.1_2.13-4.4.0.jar doesn't fit PySpark 4.2.0"),
        (["delta-spark_2.13-4.4.0.jar"], "delta-spark_2.13-4.4.0.jar doesn't fit PySpark 4.2.0"),
        (
            ["delta-spark_4.2_2.13-4.4.1.jar"],
            "has Spark 4.2.0 with Delta 4.4.1, .* only with Spark 4.2 with Delta 4.4.0: .*`tidemark setup`",
        ),
        (["delta-spark_4.2_2.13-4.4.0.jar", "delta-spark_4.1_2.13-4.4.0.jar"], "just one Delta"),
    ],
)
def test_parts_that_do_not_fit_are_named(jars: list[str], told: str, tmp_path: Path) -> None:
    for jar in jars:
        (tmp_path / jar).touch()
    with pytest.raises(Definite, match=told):
        spark_session.start_local(SparkSettings(jars=(tmp_path,)), tmp_path)


def test_a_delta_for_a_spark_that_is_not_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fits its PySpark, and still nobody has run Tidemark with the two."""
    (tmp_path / "delta-spark_4.3_2.13-4.4.0.jar").touch()
    monkeypatch.setattr(pyspark, "__version__", "4.3.1")
    with pytest.raises(Definite, match=r"has Spark 4\.3\.1 with Delta 4\.4\.0, .* install the PySpark"):
        spark_session.check_spark(SparkSettings(jars=(tmp_path,)))


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Definite, match=r"gone\.jar, which isn't there"):
        spark_session.start_local(SparkSettings(jars=(tmp_path / "gone.jar",)), tmp_path)
