"""The live view: DuckDB, which shares its SQL with Spark, evaluates it on thousands of histories."""

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from deltalake import write_deltalake

from pipeline.errors import Definite
from pipeline.lake.live_view import MirrorPosition, Versions, filled_sql, live_view_sql, same_key
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.reading.sql_dialects import Dialect, registered_tables
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.report import Constant
from pipeline.lake.tables.spark_sql import quoted
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Date, Integer
from tests.pipeline.live_view_cases import SCHEMA, Schedule, Sealed, by_story
from tests.servers.delta_rs import execute

INT = Integer(8, unsigned=False)
MIRROR, CHANGELOG = (location("lake", SCHEMA.table, tier) for tier in (Tier.MIRROR, Tier.CHANGELOG))

_OWN = 'history BIGINT, id BIGINT, part VARCHAR, n BIGINT, "it\'s" VARCHAR'


class Lake:
    """The two tables in DuckDB, under the names that Spark's SQL has for them; DuckDB's reads them by their paths."""

    def __init__(self) -> None:
        self.engine = duckdb.connect()
        self.engine.execute("CREATE SCHEMA delta")
        self.engine.execute(f'CREATE TABLE delta."{MIRROR}" ({_OWN})')
        self.engine.execute(
            f'CREATE TABLE delta."{CHANGELOG}" '
            f"(__op VARCHAR, __scn BIGINT, __ordinal INT, __absent VARCHAR[], __segment BIGINT, {_OWN})"
        )
        for path in (MIRROR, CHANGELOG):
            self.engine.execute(f'CREATE VIEW "{path}" AS FROM delta."{path}"')
        self.engine.execute("CREATE MACRO delta_scan(path) AS TABLE FROM query_table(path)")
        self.reached = MirrorPosition()

    def empty(self) -> None:
        for path in (MIRROR, CHANGELOG):
            self.engine.execute(f'DELETE FROM delta."{path}"')

    def take(self, sealed: Sealed, partial: bool) -> None:
        """Deliver a segment."""
        if sealed.begun is not None:
            self.engine.execute(f'DELETE FROM delta."{MIRROR}"')
            self.reached = MirrorPosition(sealed.begun, 0, partial)
        for path, rows in ((MIRROR, sealed.rows), (CHANGELOG, sealed.changes)):
            if rows:
                given = pa.table([*zip(*rows, strict=True)], [f"c{at}" for at in range(len(rows[0]))])
                self.engine.register("given", given)
                self.engine.execute(f'INSERT INTO delta."{path}" FROM given')

    def merge(self, through: int, by_statement: bool) -> None:
        """Run Spark's MERGE, or its two halves that are one transaction there, in DuckDB's words."""
        merge = Merge("lake", SCHEMA, self.reached, through)
        extent = merge.extent()
        assert extent is not None
        row = self.engine.execute(in_duckdb(extent)).fetchone()
        assert row is not None
        merge = merge.within(row)
        if by_statement:
            self.engine.execute(in_duckdb(merge.statement()))
        else:
            keys, rows = in_duckdb(merge.keys()), in_duckdb(merge.rows(1).replace("VERSION AS OF 1", ""))
            self.engine.execute(f"CREATE OR REPLACE TEMP TABLE brought AS {rows}")
            self.engine.execute(
                f'DELETE FROM delta."{MIRROR}" AS "mirror " WHERE EXISTS '
                f'(FROM ({keys}) AS "changed " WHERE {same_key(SCHEMA, Dialect.DUCKDB)})'
            )
            self.engine.execute(f'INSERT INTO delta."{MIRROR}" FROM brought')
        self.reached = MirrorPosition(self.reached.generation, through, self.reached.partial)

    def view(self, counted_from: int) -> list[tuple[object, ...]]:
        reached = MirrorPosition(self.reached.generation, counted_from, self.reached.partial)
        return self.engine.execute(live_view_sql("lake", SCHEMA, reached, dialect=Dialect.DUCKDB)).fetchall()


def in_duckdb(text: str) -> str:
    """Spark's SQL in DuckDB's words."""
    (said,) = sqlglot.transpile(text, read="spark", write="duckdb")
    return said


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    made = Lake()
    yield made
    made.engine.close()


@pytest.mark.parametrize(
    "seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(15, 30))]
)
def test_the_live_view_is_the_source_at_each_segment_whatever_was_merged(lake: Lake, seed: int) -> None:
    """At 8 segments of 100 histories each; merges, and what is known of them, come at random."""
    schedule = Schedule.random(seed, histories=100)
    some = random.Random(seed)
    lake.empty()
    for sealed in schedule.segments(8):
        lake.take(sealed, schedule.partial)
        if sealed.ready and some.random() < 0.5:
            lake.merge(some.randint(lake.reached.merged, sealed.number), some.random() < 0.5)
        known = some.choice([lake.reached.merged, some.randint(0, lake.reached.merged)])
        shown = by_story(lake.view(known))  # type: ignore[arg-type]
        for story in schedule.stories:
            assert not story.judged(shown.get(story.number, [])), (
                f"story {story.number} of seed {seed} at segment {sealed.number}, merged {lake.reached}, known {known}"
            )


@pytest.mark.parametrize("seed", range(4))
def test_delta_rs_reads_what_duckdb_reads(lake: Lake, tmp_path: Path, seed: int) -> None:
    schedule = Schedule.random(seed, histories=100)
    lake.empty()
    for sealed in schedule.segments(8):
        lake.take(sealed, schedule.partial)
        if sealed.ready and sealed.number == 4:
            lake.merge(3, by_statement=True)
    root = str(tmp_path)
    for tier in Tier:
        rows = lake.engine.execute(f'FROM delta."{location("lake", SCHEMA.table, tier)}"').to_arrow_table()
        write_deltalake(location(root, SCHEMA.table, tier), rows)
    told = registered_tables(root, SCHEMA.table, Tier, {})
    text = live_view_sql(root, SCHEMA, lake.reached, dialect=Dialect.DELTA_RS)
    found = execute("\n".join((*(f"-- before each query: {call}" for call in told), text)))
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert sorted(map(repr, rows)) == sorted(map(repr, lake.view(lake.reached.merged)))
    assert rows


def test_a_query_can_be_bound_to_versions() -> None:
    text = live_view_sql("lake", SCHEMA, MirrorPosition(2, 7), Versions(mirror=3, changelog=5))
    assert f"{quoted(MIRROR)} VERSION AS OF 3" in text
    assert f"{quoted(CHANGELOG)} VERSION AS OF 5" in text
    assert text.index("mirror") > text.index("`__segment` > 7 AND `__scn` > 2")


def test_a_table_without_a_key_has_no_live_view() -> None:
    with pytest.raises(Definite, match=r"shop\.bag has no primary key"):
        live_view_sql("lake", TableSchema(TableId("shop", "bag"), SCHEMA.columns, ()), MirrorPosition())


DAYS = TableSchema(TableId("shop", "days"), (Column("day", Date(), False), Column("id", INT, False)), (0, 1))


def test_a_key_that_may_be_null_here_is_compared_so_that_null_equals_null() -> None:
    for partial in (False, True):
        text = live_view_sql("lake", DAYS, MirrorPosition(partial=partial))
        assert (
            "(`mirror `.`day` IS NOT DISTINCT FROM `changed `.`day`) AND `mirror `.`id` = `changed `.`id`"
            in text
        )


@pytest.mark.parametrize("partial", [False, True])
def test_delta_rs_reads_a_table_whose_key_begins_with_a_day(tmp_path: Path, partial: bool) -> None:
    """DataFusion takes all that comes after IS NOT DISTINCT FROM for its second side."""
    first, second = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
    mirror = {"day": [first, first, second], "id": [1, 2, 1]}
    changes = {
        "__op": ["d", "c"],
        "__scn": [1, 2],
        "__ordinal": [0, 0],
        "__absent": pa.array([None, None], pa.list_(pa.string())),
        "__segment": [1, 1],
        "day": [first, None],
        "id": [2, 1],
    }
    root = str(tmp_path)
    for tier, rows in ((Tier.MIRROR, mirror), (Tier.CHANGELOG, changes)):
        write_deltalake(location(root, DAYS.table, tier), pa.table(rows))
    told = registered_tables(root, DAYS.table, Tier, {})
    text = live_view_sql(root, DAYS, MirrorPosition(partial=partial), dialect=Dialect.DELTA_RS)
    found = execute("\n".join((*(f"-- before each query: {call}" for call in told), text)))
    assert {tuple(row.values()) for row in found.to_pylist()} == {(first, 1), (second, 1), (None, 1)}


FLAGGED = TableSchema(
    TableId("shop", "flagged"), tuple(Column(name, INT, True) for name in ("id", "v", "flag")), (0,)
)


@pytest.mark.parametrize("seed", range(20))
def test_a_mirror_gets_the_constant_of_a_column_where_nothing_newer_is_told(seed: int) -> None:
    """A column comes with 7 in all rows, at a random segment; the mirror lacks it, whatever it has merged before."""
    some, partial = random.Random(seed), seed % 2 == 1
    came = some.randint(2, 6)
    merged, through = some.randint(0, came - 1), some.randint(came, 8)
    source: dict[int, list[int | None]] = {key: [key, None] for key in range(1, 4)}
    states, changes = [_copied(source)], list[tuple[object, ...]]()
    for segment in range(1, 9):
        if segment == came:
            source = {key: [v, 7] for key, (v, _) in source.items()}
        for _ in range(some.randint(0, 4)):
            key, scn = some.randint(1, 6), len(changes) + 1
            names = ["v", "flag"] if segment >= came else ["v"]
            given = {name: some.choice((None, 7, 8)) for name in names}
            if key not in source or some.random() < 0.3:
                op = "d" if key in source else "c"
            else:
                op = "u"
                given = {name: given[name] for name in names if not partial or some.random() < 0.5}
            absent = [name for name in names if name not in given] or None
            changes.append((op, scn, 0, absent, segment, key, given.get("v"), given.get("flag")))
            if op == "d":
                del source[key]
                continue
            row = source.setdefault(key, [None, None])
            for name, value in given.items():
                row[names.index(name)] = value
        states.append(_copied(source))
    mirror, changelog = (location("lake", FLAGGED.table, tier) for tier in (Tier.MIRROR, Tier.CHANGELOG))
    with duckdb.connect() as engine:
        engine.execute("CREATE SCHEMA delta")
        engine.execute(f'CREATE TABLE delta."{mirror}" (id BIGINT, v BIGINT)')
        engine.execute(
            f'CREATE TABLE delta."{changelog}" (__op VARCHAR, __scn BIGINT, __ordinal INT, __absent VARCHAR[], '
            "__segment BIGINT, id BIGINT, v BIGINT, flag BIGINT)"
        )
        for path, rows in (
            (mirror, [(key, v) for key, (v, _) in states[merged].items()]),
            (changelog, changes),
        ):
            if rows:
                engine.executemany(
                    f'INSERT INTO delta."{path}" VALUES ({", ".join("?" * len(rows[0]))})', rows
                )
        reached = MirrorPosition(0, merged, partial, "pin")
        text = filled_sql("lake", FLAGGED, reached, through, mirror, (Constant("flag", "7", came),))
        found = engine.execute(in_duckdb(text)).fetchall()
    assert sorted(found) == sorted((key, *row, None) for key, row in states[through].items())


def _copied(source: dict[int, list[int | None]]) -> dict[int, list[int | None]]:
    return {key: list(row) for key, row in source.items()}
