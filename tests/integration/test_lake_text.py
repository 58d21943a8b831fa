"""The live view's text on a real lake: DuckDB reads what Spark wrote, deletion vectors and all, by its own reader."""

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal as Exact
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from actors.delta import DeltaTable
from actors.delta_log import logged
from actors.lake import Lake
from actors.lake_status import lake_status
from actors.lake_text import live_view_text
from actors.spark_session import Spark
from pipeline.checkpoint import Ready
from pipeline.delivery import next_batch
from pipeline.dialects import Dialect
from pipeline.errors import Definite
from pipeline.lake_tables import Tier, location
from pipeline.live_view import Reached
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import Date, Decimal, Integer, Text
from tests.integration.history import FILLING, History, Row, Table, random_step
from tests.servers.duckdb_engine import engine

# Names of which each part has to be quoted somewhere, and a key that may be null in part.
ODD = TableSchema(
    TableId("my.shop", "it's `odd`"),
    (
        Column("day", Date(), False),
        Column('a "key"', Text("utf8mb4"), False),
        Column("it's", Decimal(20, 3), True),
        Column("n", Integer(8, unsigned=True), True),
    ),
    (1, 0),
)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = engine()
    yield connection
    connection.close()


def row(some: random.Random) -> Row:
    day = some.choice([None, dt.date(1000, 1, 1), dt.date(2026, 11, 21)])
    number = some.choice([None, Exact(0), Exact(2**64 - 1)])
    return (
        day,
        some.choice(["a", "A", "", "ä'"]),
        some.choice([None, Exact("1.500"), Exact("-0.001")]),
        number,
    )


def expected(table: Table) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, values)) for values in table.rows.values())


def test_duckdb_reads_the_lake_as_it_is(
    spark: Spark, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    some = random.Random(11)
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    table = history.table(ODD, FILLING)
    table.source = {table.key(values): values for values in (row(some) for _ in range(20))}
    lake, delivered = Lake(spark.session, root, history.store), 0
    unread = list(table.source)
    for round_ in range(6):
        for _ in range(5):
            random_step(history, table, some, row)
        chunk, unread = unread[:6], unread[6:]
        history.chunk(table, chunk)
        if not unread:
            table.mirror = Ready(0)
        history.seal()
        batch = next_batch(history.store.entries(delivered, history.segment))
        present = lake.deliver(ODD.table, lake.find(ODD.table), batch)
        delivered = batch.through
        if unread:
            with pytest.raises(
                Definite, match=r"the first snapshot of my\.shop\.it's `odd` isn't in the lake yet"
            ):
                live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)
            continue
        lake.complete(ODD.table, 0, delivered, "position")
        text = live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)
        found = duck.execute(text).fetchall()
        assert sorted(tuple(map(str, values)) for values in found) == expected(table), f"round {round_}"
        assert present.schema is not None
        if round_ == 4:
            lake.merge(present.schema.table, Reached(0, lake.find(ODD.table).merged), delivered, "position")
    assert duck.execute(live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)).fetchall()
    mirror = location(root, ODD.table, Tier.MIRROR)
    log = "".join(file.read_text() for file in Path(mirror).glob("_delta_log/*.json"))
    assert '"deletionVector":{' in log, "the test is worth something only if there are such"
    console = Console(file=StringIO(), width=400)
    console.print(lake_status(root))
    assert isinstance(console.file, StringIO)
    _, changelog_, mirror_ = (line.split() for line in console.file.getvalue().splitlines())
    assert changelog_[:4] == ["my.shop.it's", "`odd`", "changelog", str(delivered)]
    assert mirror_[:3] == ["my.shop.it's", "`odd`", "mirror"]
    the_same_is_said(spark.session, mirror)
    history.store.close()


def the_same_is_said(session: SparkSession, path: str) -> None:
    """What the log says without Spark is what Delta says, from the first commit on and behind a checkpoint."""
    session.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '2', 'x' = 'y')")
    session.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('x' = 'z')")
    session.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('x')")
    folder = Path(path) / "_delta_log"
    for gone in (False, True):
        if gone:
            (newest, *_) = sorted(folder.glob("*.checkpoint.parquet"), reverse=True)
            for commit in folder.glob("*.json"):
                if int(commit.stem) < int(newest.name[:20]):
                    commit.unlink()
        delta, said = DeltaTable(session, path).snapshot(), logged(path)
        assert delta is not None
        assert said is not None
        assert (said.version, said.applications) == (delta.version, delta.applications)
        assert said.properties == delta.properties


def test_trino_is_told_where_the_tables_are(spark: Spark, tmp_path: Path) -> None:
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    history.table(ODD, Ready(0))
    history.seal()
    lake = Lake(spark.session, root, history.store)
    with pytest.raises(Definite, match=r"has no mirror of my\.shop\.it's `odd`"):
        live_view_text(root, "my.shop.it's `odd`", Dialect.TRINO)
    lake.deliver(ODD.table, lake.find(ODD.table), next_batch(history.store.entries(0, 1)))
    first, second, *query = live_view_text(root, "my.shop.it's `odd`", Dialect.TRINO).splitlines()
    assert first.startswith("-- once: CALL ")
    assert second.startswith("-- once: CALL ")
    assert query[0] == 'WITH "changed " AS ('
    history.store.close()
