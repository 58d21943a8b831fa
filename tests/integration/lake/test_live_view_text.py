"""The live view's text on a real lake: DuckDB reads what Spark wrote, deletion vectors and all, by its own reader."""

import datetime as dt
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal as Exact
from io import StringIO
from pathlib import Path

import deltalake
import duckdb
import pytest
import sqlglot
from pyspark.sql import SparkSession
from rich.console import Console

from actors.lake.delta.delta_table import DeltaTable
from actors.lake.lake import Lake
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.service.lake.lake_status import lake_report, lake_status
from actors.service.live_view_text import live_view_text
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.errors import Definite
from pipeline.lake.batch import next_batch
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.reading.descriptions import describe_lake_table
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Ready
from pipeline.types.column_types import Date, DateTime, Decimal, Integer, Text
from tests.integration.history import FILLING, History, Row, Table, random_step
from tests.servers import delta_rs
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
    for round_ in range(4):
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
                Definite, match=r"the first snapshot of `my\.shop`\.`it's ``odd``` isn't in the lake yet"
            ):
                live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)
            continue
        lake.generations.complete(ODD.table, 0, delivered, "position")
        text = live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)
        found = duck.execute(text).fetchall()
        assert sorted(tuple(map(str, values)) for values in found) == expected(table), f"round {round_}"
        others = delta_rs.execute(live_view_text(root, "my.shop.it's `odd`", Dialect.DELTA_RS)).to_pylist()
        assert sorted(map(repr, (tuple(row.values()) for row in others))) == sorted(map(repr, found))
        assert present.schema is not None
        if round_ == 2:
            lake.merge(
                present.schema.table, MirrorPosition(0, lake.find(ODD.table).merged), delivered, "position"
            )
    assert duck.execute(live_view_text(root, "my.shop.it's `odd`", Dialect.DUCKDB)).fetchall()
    mirror = location(root, ODD.table, Tier.MIRROR)
    log = "".join(file.read_text() for file in Path(mirror).glob("_delta_log/*.json"))
    assert '"deletionVector":{' in log, "the test is worth something only if there are such"
    console = Console(file=StringIO(), width=400)
    console.print(lake_status(lake_report(root)))
    assert isinstance(console.file, StringIO)
    _, changelog_, mirror_ = (line.split() for line in console.file.getvalue().splitlines())
    name = ["`my.shop`.`it's", "``odd```"]
    assert changelog_[:4] == [*name, "changelog", str(delivered)]
    assert mirror_[:3] == [*name, "mirror"]
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
        delta, said = DeltaTable(session, path).snapshot(), read_version(path)
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


def test_of_two_tables_with_one_dotted_name_the_one_that_is_quoted_is_read(
    spark: Spark, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    names = (TableId("a.b", "c"), TableId("a", "b.c"))
    columns = (Column("id", Integer(4, unsigned=False), False),)
    tables = [history.table(TableSchema(name, columns, (0,)), Ready(0)) for name in names]
    for number, table in enumerate(tables):
        history.transaction((table, "c", (number,)))
    history.seal()
    lake = Lake(spark.session, root, history.store)
    for name in names:
        lake.deliver(name, lake.find(name), next_batch(history.store.entries(0, 1)))
    for number, name in enumerate(names):
        text = live_view_text(root, str(name), Dialect.DUCKDB)
        assert duck.execute(text).fetchall() == [(number,)]
    with pytest.raises(Definite, match=re.escape("a.b.c may be `a`.`b.c` or `a.b`.`c`")):
        live_view_text(root, "a.b.c", Dialect.DUCKDB)
    history.store.close()


BAG = TableSchema(
    TableId("shop", "bag"),
    (Column("m", Integer(8, unsigned=False), True), Column("c", Text("utf8mb4"), True)),
    (),
)


def test_a_table_without_a_key_is_the_sum_of_its_changes_and_a_stopped_one_says_so(
    spark: Spark, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    bag, keyed = history.table(BAG, None), history.table(replace(BAG, table=TableId("shop", "t"), key=(0,)))
    history.transaction(
        *((bag, op, (n, "x")) for op, n in [("c", 1), ("c", 1), ("c", 2), ("d", 2), ("c", 3)])
    )
    history.transaction((keyed, "c", (1, "x")))
    history.seal()
    lake = Lake(spark.session, root, history.store)
    for table in (BAG.table, keyed.schema.table):
        lake.deliver(table, lake.find(table), next_batch(history.store.entries(0, 1)))
    for dialect in Dialect:
        note, query = (text := live_view_text(root, "shop.bag", dialect)).split("\n", 1)
        assert note.startswith("-- shop.bag has no primary key")
        match dialect:
            case Dialect.SPARK:
                assert sorted(map(tuple, spark.session.sql(query).collect())) == [(1, "x", 2), (3, "x", 1)]
            case Dialect.DUCKDB:
                assert sorted(duck.execute(query).fetchall()) == [(1, "x", 2), (3, "x", 1)]
            case Dialect.TRINO:
                (parsed,) = sqlglot.parse(query, read="trino")
                assert isinstance(parsed, sqlglot.expressions.Select)
                assert parsed.named_selects == ["m", "c", "__rows"]
            case Dialect.DELTA_RS:
                rows = delta_rs.execute(text).to_pylist()
                assert sorted(tuple(row.values()) for row in rows) == [(1, "x", 2), (3, "x", 1)]
    # It's stopped in capture, and then in the lake.
    with pytest.raises(
        Definite, match=r"shop\.t was stopped.* of segment 1 \(position .*\): so\. With --stale"
    ):
        live_view_text(root, "shop.t", Dialect.DUCKDB, {keyed.schema.table: "so"})
    keyed.schema = replace(
        keyed.schema, columns=(replace(BAG.columns[0], type=Text("utf8mb4")), BAG.columns[1])
    )
    history.transaction((keyed, "c", ("2", "x")))
    history.seal()
    lake.deliver(keyed.schema.table, lake.find(keyed.schema.table), next_batch(history.store.entries(1, 2)))
    with pytest.raises(Definite, match=r"shop\.t was stopped.* of segment 1 .*from segment 2 on"):
        live_view_text(root, "shop.t", Dialect.DUCKDB)
    text = live_view_text(root, "shop.t", Dialect.DUCKDB, stale=True)
    assert duck.execute(text).fetchall() == [(1, "x")]
    history.store.close()


def test_lake_tables_say_what_they_are_also_those_of_an_earlier_version(spark: Spark, tmp_path: Path) -> None:
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    columns = (Column("id", Integer(4, unsigned=False), False),)
    plain = history.table(TableSchema(TableId("shop", "plain"), columns, (0,)), Ready(0))
    bag = history.table(BAG, None)
    history.transaction((plain, "c", (1,)), (bag, "c", (1, "x")))
    history.seal()
    lake = Lake(spark.session, root, history.store)
    batch = next_batch(history.store.entries(0, 1))
    for table in (plain.schema.table, BAG.table):
        lake.deliver(table, lake.find(table), batch)
    told = {tier: description(root, plain.schema.table, tier) for tier in Tier}
    assert told == {
        tier: describe_lake_table(plain.schema.table, tier, Tiers.BOTH, keyed=True) for tier in Tier
    }
    assert description(root, BAG.table, Tier.CHANGELOG).startswith(
        "The changes of shop.bag, a table of MySQL without"
    )
    shown = spark.session.sql(f"DESCRIBE delta.`{location(root, BAG.table, Tier.CHANGELOG)}`").collect()
    assert {row[0]: row[2] for row in shown}["__op"].startswith("c: a row came")
    # An earlier version said nothing, and another rule says something else: the next start sees to both, once.
    mirror = location(root, plain.schema.table, Tier.MIRROR)
    spark.session.sql(f"ALTER TABLE delta.`{mirror}` UNSET TBLPROPERTIES ('tidemark.about')")
    spark.session.sql(f"COMMENT ON TABLE delta.`{mirror}` IS NULL")
    rules = (LakeRule(TableFilter((".*",)), tiers=Tiers.MIRROR),)
    lake = Lake(spark.session, root, history.store, rules)
    found = lake.find(plain.schema.table)
    for tier in Tier:
        assert description(root, plain.schema.table, tier) == describe_lake_table(
            plain.schema.table, tier, Tiers.MIRROR, keyed=True
        )
    assert lake.find(plain.schema.table) == found
    # What capture has stopped is in the lake too, for those who have nothing else.
    history.stopped[plain.schema.table] = "its engine"
    history.seal()
    lake.deliver(plain.schema.table, found, next_batch(history.store.entries(1, 2)))
    with pytest.raises(Definite, match=r"shop\.plain was stopped.*: its engine\."):
        live_view_text(root, "shop.plain", Dialect.DUCKDB)
    assert lake.find(plain.schema.table).capture_stopped == "its engine"
    history.stopped.clear()
    history.seal()
    lake.deliver(plain.schema.table, lake.find(plain.schema.table), next_batch(history.store.entries(2, 3)))
    assert live_view_text(root, "shop.plain", Dialect.DUCKDB)
    history.store.close()


def description(root: str, table: TableId, tier: Tier) -> str:
    """What Delta says of a lake table, by delta-rs; the property says the same."""
    metadata = deltalake.DeltaTable(location(root, table, tier)).metadata()
    assert metadata.configuration["tidemark.about"] == metadata.description
    return metadata.description


def test_the_document_names_the_features_of_the_tables_that_are_made(
    spark: Spark, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    root, history = str(tmp_path / "lake"), History(tmp_path / "journal")
    small = (Column("id", Integer(4, unsigned=False), False), Column("v", Integer(4, unsigned=False), True))
    plain = history.table(TableSchema(TableId("shop", "plain"), small, (0,)), Ready(0))
    timed = (*small, Column("at", DateTime(6), True), Column("a b", Text("utf8mb4"), True))
    history.table(TableSchema(TableId("shop", "timed"), timed, (0,)), Ready(0))
    history.transaction((plain, "c", (1, 1)))
    history.seal()
    lake = Lake(spark.session, root, history.store)

    def deliver(segment: int) -> None:
        batch = next_batch(history.store.entries(segment - 1, segment))
        for table in history.tables:
            lake.deliver(table, lake.find(table), batch)

    deliver(1)
    assert "typeWidening" not in live_view_text(root, "shop.plain", Dialect.DELTA_RS)
    assert features(root, "plain", Tier.CHANGELOG) == set()
    assert features(root, "plain", Tier.MIRROR) == {"deletionVectors"}
    assert features(root, "timed", Tier.CHANGELOG) == {"timestampNtz", "columnMapping"}
    assert features(root, "timed", Tier.MIRROR) == {"deletionVectors", "timestampNtz", "columnMapping"}
    plain.schema = replace(
        plain.schema, columns=(small[0], replace(small[1], type=Integer(8, unsigned=False)))
    )
    history.transaction((plain, "u", (1, 2**40)))
    history.seal()
    deliver(2)
    assert features(root, "plain", Tier.MIRROR) == {"deletionVectors", "typeWidening"}
    assert duck.execute(live_view_text(root, "shop.plain", Dialect.DUCKDB)).fetchall() == [(1, 2**40)]
    warned = live_view_text(root, "shop.plain", Dialect.DELTA_RS)
    assert warned.startswith("-- a column got a wider type (Delta's typeWidening), and delta-rs refuses")
    with pytest.raises(Exception, match="TypeWidening"):
        delta_rs.execute(warned)
    told = (Path(__file__).parents[3] / "docs" / "lake.md").read_text(encoding="utf-8")
    for feature in ("deletionVectors", "timestampNtz", "columnMapping", "typeWidening"):
        assert f"| `{feature}` |" in told
    history.store.close()


def features(root: str, name: str, tier: Tier) -> set[str]:
    """What a reader has to have, by the newest protocol in a table's log."""
    folder = Path(location(root, TableId("shop", name), tier)) / "_delta_log"
    actions = [
        json.loads(line) for file in sorted(folder.glob("*.json")) for line in file.read_text().splitlines()
    ]
    protocol = [action["protocol"] for action in actions if "protocol" in action][-1]
    return set(protocol.get("readerFeatures", ()))
