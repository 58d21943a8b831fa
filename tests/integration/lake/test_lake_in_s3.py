"""A lake in S3, on a real Spark: rows come once, columns change, and the store itself refuses a second commit."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from actors.lake.delta import delta_table
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.filesystem import lake_filesystem
from actors.lake.lake import Lake
from actors.lake.live_view import live_view
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.service.lake.lake_status import lake_report
from actors.service.start_checks import lake_findings
from deploy.toolchain.parts import Parts
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.lake.batch import next_batch
from pipeline.lake.files import parquet_files
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text
from tests.integration.history import History, Row, Table
from tests.servers.s3 import S3Lake

INT: Final = Integer(8, unsigned=False)
ID, NOTE, MORE = Column("id", INT, False), Column("note", Text("utf8mb4"), True), Column("more", INT, True)
ORDERS: Final = TableId("shop", "orders")
FOREIGN: Final = b'{"commitInfo":{"operation":"WRITE","operationParameters":{}}}'


@pytest.fixture
def session(spark: Spark, s3_lake: S3Lake) -> Any:
    """Spark's session, which knows the store of this test's bucket."""
    conf: Any = spark.session.sparkContext._jsc.hadoopConfiguration()
    own = {
        "endpoint": s3_lake.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": "tidemark",
        "secret.key": "tidemark",
    }
    for name, value in own.items():
        conf.set(f"fs.s3a.bucket.{s3_lake.bucket}.{name}", value)
    return spark.session


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "journal")
    with closing(made.store):
        yield made


def deliver(session: Any, root: str, history: History, after: int) -> Lake:
    """Seal, and deliver what comes after a segment, with a lake that knows nothing but what is in the store."""
    history.seal()
    lake = Lake(session, root, history.store)
    batch = next_batch(history.store.entries(after, history.segment))
    lake.deliver(ORDERS, lake.find(ORDERS), batch)
    return lake


def view(session: Any, root: str) -> list[Row]:
    return sorted(tuple(row.values()) for row in live_view(session, root, ORDERS).toArrow().to_pylist())


def expected(table: Table) -> list[Row]:
    return sorted(table.rows.values())


@pytest.mark.full
def test_the_live_view_is_the_source_through_a_column_a_merge_and_a_replay(
    session: Any, s3_lake: S3Lake, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are gathered, and their files listed by Delta: a store takes a while for each commit."""
    monkeypatch.delattr(delta_table, "logged_files")
    root = s3_lake.path
    orders = history.table(TableSchema(ORDERS, (ID, NOTE), (0,)))
    history.transaction((orders, "c", (1, "a")), (orders, "c", (2, "b")))
    lake = deliver(session, root, history, 0)
    lake.merge(ORDERS, MirrorPosition(0, 0, False), history.segment, "position", 2)
    orders.schema = TableSchema(ORDERS, (ID, NOTE, MORE), (0,))
    for known in (orders.source, orders.rows):
        known.update({key: (*row, None) for key, row in known.items()})
    history.transaction((orders, "u", (2, "c", 7)), (orders, "c", (3, None, 8)))
    deliver(session, root, history, 1)
    deliver(session, root, history, 1)
    assert view(session, root) == expected(orders)
    changelog = location(root, ORDERS, Tier.CHANGELOG)
    assert session.read.format("delta").load(changelog).count() == 4
    (told, mirror) = lake_report(root)
    assert (told["segment"], mirror["merged"]) == (2, 1)
    lake.upkeep.vacuum(ORDERS, Tier.MIRROR, 168)
    assert view(session, root) == expected(orders)


def test_of_two_writers_that_know_nothing_of_each_other_one_lands(session: Any, s3_lake: S3Lake) -> None:
    """The other one writes when the first one may have looked, and found no such version."""
    path = f"{s3_lake.path}/table"
    session.sql(f"CREATE TABLE delta.`{path}` (n BIGINT) USING delta")
    jvm, conf = session.sparkContext._jvm, session.sparkContext._jsc.hadoopConfiguration()
    store = jvm.tidemark.S3LogStore(conf)
    version = f"{path}/_delta_log/{1:020}.json"
    actions = jvm.java.io.PipedOutputStream()
    unread = jvm.java.io.PipedInputStream(actions)
    lines = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(unread)).lines().iterator()
    with ThreadPoolExecutor(1) as thread:
        late = thread.submit(store.write, jvm.org.apache.hadoop.fs.Path(version), lines, False, conf)
        actions.write(b"{}\n")
        actions.flush()
        while unread.available():
            assert not late.done(), late.result()
        filesystem, place = lake_filesystem(version)
        with filesystem.open_output_stream(place) as other:
            other.write(FOREIGN)
        actions.close()
        with pytest.raises(Exception, match="FileAlreadyExistsException"):
            late.result()
    with filesystem.open_input_stream(place) as found:
        assert found.read() == FOREIGN
    # Delta begins with the version that it knows, and takes the next one.
    added = parquet_files.add("a.parquet", 1, 1_700_000_000_000, '{"numRecords": 0}')
    assert DeltaTable(session, path).append(lambda *_: [added], "us", range(7, 8), {}, "{}") == 2


def test_a_commit_of_a_foreign_writer_is_kept(session: Any, s3_lake: S3Lake, history: History) -> None:
    root = s3_lake.path
    orders = history.table(TableSchema(ORDERS, (ID, NOTE), (0,)))
    history.transaction((orders, "c", (1, "a")))
    deliver(session, root, history, 0)
    changelog = location(root, ORDERS, Tier.CHANGELOG)
    session.sql(f"ALTER TABLE delta.`{changelog}` SET TBLPROPERTIES ('tended.by' = 'somebody')")
    history.transaction((orders, "u", (1, "b")), (orders, "c", (2, "b")))
    deliver(session, root, history, 1)
    found = read_version(changelog)
    assert found is not None
    assert found.properties["tended.by"] == "somebody"
    assert view(session, root) == expected(orders)


def test_a_check_names_a_bucket_that_is_not_there(s3_lake: S3Lake, parts: Parts) -> None:
    assert parts.s3 is not None
    spark = SparkSettings(jars=(*parts.jars, parts.s3))
    assert list(lake_findings(LakeSettings(s3_lake.path), spark)) == []
    (finding,) = lake_findings(LakeSettings("s3a://nothing/lake"), spark)
    assert finding.wrong == "lake.path: there is no nothing in the store"
