"""What of the sink needs no Spark; the rest is in tests/integration/lake/test_spark_sink.py."""

import shutil
import threading
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from actors import spark_sink
from actors.journal.store import JournalReader, JournalStore
from actors.lake.files.file_placement import LakeFull
from actors.lake.spark.spark_session import SparkLost
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.spark_sink import SparkSink, SparkUp
from pipeline import metrics as catalogue
from pipeline.config.settings import JournalSettings, LakeSettings, SparkSettings
from pipeline.errors import Definite, Transient
from pipeline.journal.consumer_names import LAKE_CONSUMER
from pipeline.lake.background.work import MaintainTable
from pipeline.lake.batch import Batch, LakeTableState
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.facts import (
    CursorFound,
    Fact,
    LakeTimerFired,
    StopRequested,
    WorkDone,
    WorkFailed,
    WorkGivenUp,
)
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.written_files import WrittenFiles
from pipeline.lake.step import next_batch_of
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize
from pipeline.lake.tables.tier import Tier
from pipeline.messages.journal import SegmentSealed
from pipeline.messages.topology import ActorName, inbox
from pipeline.metrics import Counter
from pipeline.schema.table_schema import TableId
from tests.integration.history import History
from tests.pipeline.lake.test_delivery import ITEMS, V1, entry
from tests.pipeline.lake.test_step import ORDERS, begun, had
from tests.servers.awaiting import until
from tests.servers.sink import sink_ports


@pytest.fixture
def reached() -> list[LakeConsumerProgress]:
    """What the sink has reported of how far the lake is."""
    return []


@pytest.fixture
async def sink(tmp_path: Path, reached: list[LakeConsumerProgress]) -> AsyncIterator[SparkSink]:
    history = History(tmp_path / "journal")
    for _ in range(3):
        history.seal()
    made = SparkSink(
        Mailbox(inbox(ActorName.SPARK_SINK)),
        Metrics(),
        LakeSettings(str(tmp_path / "lake")),
        SparkSettings(),
        history.store,
        sink_ports(Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))),
        reached.append,
    )
    yield made
    made.stop_listening()
    await made.release()
    history.store.close()


class FailingResults:
    """Trims a changelog, and not the tables of verifications."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.kept: frozenset[str] = frozenset()

    def trim(self, *_: object) -> None: ...

    def trim_results(self, runs: frozenset[str]) -> None:
        self.kept = runs
        raise self.error

    def size(self, *_: object) -> TableSize:
        return TableSize(1)


@pytest.mark.parametrize(
    ("error", "fact", "counted"),
    [
        (Conflict("somebody else"), WorkGivenUp(), catalogue.CONFLICTS),
        (OSError("its folder can't be read"), WorkFailed(), catalogue.WORK_FAILED),
    ],
)
async def test_work_beside_the_batches_that_fails_is_counted_and_is_its_tables_alone(
    sink: SparkSink, error: Exception, fact: Fact, counted: Counter
) -> None:
    class FailingUpkeep:
        def trim(self, *_: object) -> None:
            raise error

    lake: Any = SimpleNamespace(upkeep=FailingUpkeep(), version=lambda *_: 0, work=nullcontext)
    spark: Any = None
    kept = maintenance.found_table(TableId("shop", "orders"), Tier.CHANGELOG, TableSize(), 0.0, 0)
    trim = MaintainTable(Chore.TRIM, kept, None, 1.0, None)
    assert await sink._do_work(SparkUp(spark, lake), trim) == fact
    assert sink.metrics.value(counted, kind="trim") == 1


async def test_work_ends_the_sink_where_spark_has_gone(sink: SparkSink) -> None:
    class GoneUpkeep:
        def trim(self, *_: object) -> None:
            raise SparkLost("gone")

    lake: Any = SimpleNamespace(upkeep=GoneUpkeep(), version=lambda *_: 0, work=nullcontext)
    spark: Any = None
    kept = maintenance.found_table(TableId("shop", "orders"), Tier.CHANGELOG, TableSize(), 0.0, 0)
    with pytest.raises(SparkLost):
        await sink._do_work(SparkUp(spark, lake), MaintainTable(Chore.TRIM, kept, None, 1.0, None))


@pytest.mark.parametrize("error", [OSError("the table can't be read"), Conflict("somebody else")])
async def test_trouble_with_the_tables_of_verifications_fails_no_tables_trim(
    sink: SparkSink, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    upkeep = FailingResults(error)
    lake: Any = SimpleNamespace(
        upkeep=upkeep,
        version=lambda *_: 0,
        work=nullcontext,
        make_durable=lambda *_: None,
        written_between=lambda *_: WrittenFiles(),
        settled_versions=lambda _: None,
    )
    spark: Any = None
    kept = maintenance.found_table(TableId("shop", "orders"), Tier.CHANGELOG, TableSize(), 0.0, 0)
    trim = MaintainTable(Chore.TRIM, kept, None, 1.0, frozenset({"v1"}))
    assert await sink._do_work(SparkUp(spark, lake), trim) == WorkDone(TableSize(1), None, ())
    assert upkeep.kept == {"v1"}
    assert "the results of verifications can't be trimmed" in capsys.readouterr().out
    assert sink.metrics.value(catalogue.WORK_FAILED, kind="trim") == 1
    upkeep.error = SparkLost("gone")
    with pytest.raises(SparkLost):
        await sink._do_work(SparkUp(spark, lake), trim)


@pytest.mark.parametrize("readable", [True, pytest.param(False, marks=pytest.mark.measuring_fails)])
async def test_what_work_has_written_is_counted_and_work_does_not_fail_by_that(
    sink: SparkSink, readable: bool
) -> None:
    version, between = 7, list[tuple[int, ...]]()

    def commit(*_: object) -> None:
        nonlocal version
        version += 1

    def deliver(*_: object) -> TableSize:
        nonlocal version
        version += 64
        return TableSize(1)

    def written_between(_table: TableId, _tier: Tier, *versions: int) -> WrittenFiles:
        between.append(versions)
        if not readable:
            raise OSError("the log can't be read")
        return WrittenFiles(5, 1000)

    upkeep = SimpleNamespace(compact=commit, size=deliver)
    lake: Any = SimpleNamespace(
        upkeep=upkeep,
        version=lambda *_: version,
        work=nullcontext,
        make_durable=deliver,
        written_between=written_between,
        settled_versions=lambda _: None,
    )
    spark: Any = None
    kept = maintenance.found_table(TableId("shop", "orders"), Tier.CHANGELOG, TableSize(), 0.0, 0)
    compact = MaintainTable(Chore.COMPACT, kept, None, 1.0, None)
    assert await sink._do_work(SparkUp(spark, lake), compact) == WorkDone(TableSize(1), None, ())
    assert between == [(7, 8)], "not those of the deliveries since"
    read = sink.metrics.value
    assert read(catalogue.LAKE_FILES_WRITTEN, kind="compact") == 5 * readable
    assert read(catalogue.LAKE_REWRITTEN, kind="compact") == 1000 * readable


async def test_a_lake_whose_consumer_is_forgotten_while_it_lags_begins_again(
    sink: SparkSink, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    sink._join()
    history = sink._journal
    assert isinstance(history, JournalStore)
    history.consumers.forget(LAKE_CONSUMER)
    assert history.retain(JournalSettings(str(journal), keep_hours=0), time.time_ns() // 1000).segments == 2
    with pytest.raises(Transient, match="removed segments after 0, which the lake lacked"):
        sink._read_batch(0, 3)
    sink._journal = JournalReader(journal)  # which knows no entry yet
    shutil.rmtree(journal / "manifest")
    with pytest.raises(Definite, match="is missing: restore it"):
        sink._read_batch(2, 3)


async def test_each_call_that_ends_is_progress_of_a_batch(sink: SparkSink) -> None:
    def busy_since() -> float | None:
        return sink._busy_since

    sink.beat()
    began = busy_since()
    await sink._in_thread(lambda: None)
    later = busy_since()
    assert began is not None and later is not None
    assert later > began
    sink.rest()
    await sink._in_thread(lambda: None)  # beside the batches
    assert busy_since() is None


async def test_a_table_is_reported_as_soon_as_it_is_there_however_slow_another_one_is(
    sink: SparkSink, reached: list[LakeConsumerProgress]
) -> None:
    may_end = threading.Event()

    class SlowForItems:
        def deliver(self, table: TableId, _: LakeTableState, batch: Batch) -> LakeTableState:
            assert table != ITEMS.table or may_end.wait(10)
            return had(batch.through, batch.after)

    lake: Any = SlowForItems()
    spark: Any = SimpleNamespace(kill=lambda: None)
    both = entry(4, V1, ITEMS)
    story = begun({ORDERS: had(3, 2), ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint), both)
    sink._up, sink._state = SparkUp(spark, lake), story.after(SegmentSealed(4)).state
    await sink._take_in([next_batch_of(sink._state, iter([both]))])
    await sink._take_next()
    assert [reached[-1].of(table).reached.segment for table in (ORDERS, ITEMS.table)] == [4, 3]
    may_end.set()
    await sink._take_next()
    assert reached[-1].whole.segment == 4


async def test_a_lake_that_cannot_be_written_says_with_what_the_first_table_failed(sink: SparkSink) -> None:
    class Absent:
        def deliver(self, *_: object) -> LakeTableState:
            raise OSError("Read-only file system")

        def probe(self) -> None:
            raise FileNotFoundError("no such folder")

    lake: Any = Absent()
    spark: Any = SimpleNamespace(kill=lambda: None)
    sealed = entry(4, V1)
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), sealed)
    sink._up, sink._state = SparkUp(spark, lake), story.after(SegmentSealed(4)).state
    await sink._take_in([next_batch_of(sink._state, iter([sealed]))])
    with pytest.raises(
        Transient, match=r"no such folder; first a table failed: Read-only file system; see to"
    ):
        await sink._take_next()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("it can't be written"), [("a table failed in the lake", "it can't be written")]),
        (LakeFull("it is full"), [("work in the lake failed while the sink stopped", "it is full")]),
        (SparkLost("its JVM was killed"), []),
    ],
)
async def test_what_fails_while_spark_stops_is_logged(
    sink: SparkSink, error: Exception, told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sink, "BREAKS_OFF_WITHIN_S", 30.0)  # on a busy machine a thread may come late
    delivering, may_fail = threading.Event(), threading.Event()

    class FailsLate:
        def deliver(self, *_: object) -> LakeTableState:
            delivering.set()
            assert may_fail.wait(10)
            raise error

        def probe(self) -> None:
            raise AssertionError("nothing is asked of the lake any more")

    lake: Any = FailsLate()
    spark: Any = SimpleNamespace(kill=lambda: None, stop=lambda: None)
    sealed = entry(4, V1)
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), sealed)
    sink._up, sink._state = SparkUp(spark, lake), story.after(SegmentSealed(4)).state
    with capture_logs() as logged:
        await sink._take_in([next_batch_of(sink._state, iter([sealed]))])
        await until(delivering.is_set, "the table is being delivered")
        await sink._take_in([StopRequested(sink.now() - sink._settings.drain_s), LakeTimerFired()])
        await until(lambda: sink._breaks_off, "the sink begins nothing more")
        may_fail.set()
        while not sink.ended():
            await sink._take_next()
    rest = [each for each in logged if each["event"] != "the next start delivers the rest"]
    assert [(each["event"], each["reason"]) for each in rest] == told
