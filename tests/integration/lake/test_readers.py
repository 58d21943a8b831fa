"""Readers poll a table of 20,000 rows while its server alters it: each of them sees a state that the source had."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import duckdb
import pytest

from actors.lake.delta_log import read_version
from actors.service.assembly import Assembly
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import LakeSettings, SnapshotMode, SparkSettings
from pipeline.errors import Definite
from pipeline.lake import background, live_view
from pipeline.lake.batch import Batch
from pipeline.lake.sql_dialects import Dialect
from pipeline.lake.tables import Tier, location
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.service import Running, pipeline, running

ROWS: Final = 20_000
WITHIN_S: Final = 300.0
# An expression, whose values no log tells.
ALTER: Final = "ALTER TABLE t ADD COLUMN flag INT NOT NULL DEFAULT (1 + 1)"

# How many rows, the sum of `v`, that of `id * v`, and that of `flag`, None where there's no such column.
State = tuple[int, int, int, int | None]


@dataclass
class Readers:
    """Those who read the table by a text of just now, by texts from before, and in the mirror itself."""

    lake: str
    table: TableId
    states: list[State]
    texts: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seen: set[State] = field(default_factory=set)
    frozen: int = 0
    failed: int = 0
    duck: duckdb.DuckDBPyConnection = field(default_factory=engine)

    def look(self) -> None:
        """Poll once."""
        mirror = location(self.lake, self.table, Tier.MIRROR)
        told = read_version(mirror)
        self.frozen += told is not None and told.rebuilding is not None and not told.first
        try:
            fresh = live_view_text(self.lake, str(self.table), Dialect.DUCKDB)
        except Definite as error:
            self.wrong += [str(error)] if self.texts else []
            return
        if fresh not in self.texts:
            self.texts.append(fresh)
        old = {*self.texts[:1], *self.texts[-2:]} - {fresh}
        for text in (fresh, *sorted(old), f"SELECT * FROM delta_scan('file://{mirror}')"):
            try:
                state = _state(self.duck, text)
            except duckdb.Error as error:
                self.failed += 1
                self.wrong += [] if "__generation_" in str(error) else [f"{error} of {text}"]
                continue
            self.seen.add(state)
            self.wrong += [] if state in self.states else [f"{state} by {text}"]


def _state(duck: duckdb.DuckDBPyConnection, text: str) -> State:
    rows = duck.sql(f"FROM ({text})")
    flag = "sum(flag)" if "flag" in rows.columns else "NULL"
    found = rows.aggregate(f"count(*), coalesce(sum(v), 0), coalesce(sum(id * v), 0), {flag}").fetchone()
    assert found is not None
    count, v, weighed, flagged = found
    return int(count), int(v), int(weighed), None if flagged is None else int(flagged)


def in_place(patched: pytest.MonkeyPatch) -> None:
    """The next generation is filled where readers look."""
    patched.setattr(Batch, "tells_all_of", lambda *_: True)


def in_part(patched: pytest.MonkeyPatch) -> None:
    """The next generation is swapped in before all of its rows have come."""
    patched.setattr(background, "completable_tables", lambda known, _: list(known.rebuilding))


def unbound(patched: pytest.MonkeyPatch) -> None:
    """A text says nothing of the generation that it's for."""
    patched.setattr(live_view, "_bound", lambda *_: "")


@pytest.mark.parametrize(
    "bug",
    [
        None,
        *(pytest.param(bug, id=bug.__name__, marks=pytest.mark.full) for bug in (in_place, in_part, unbound)),
    ],
)
async def test_each_poll_sees_a_state_that_the_source_had(
    mysql: MysqlServer,
    database: str,
    tmp_path: Path,
    spark_settings: SparkSettings,
    monkeypatch: pytest.MonkeyPatch,
    bug: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    """Through an ALTER after which the table is read again; whatever is planted is found."""
    mysql.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)",
        f"SET SESSION cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT i, 0 FROM n",
        database=database,
    )
    settings = pipeline(
        mysql,
        tmp_path,
        database,
        mode=SnapshotMode.INITIAL,
        chunk_rows=1000,
        windows=1,
        connections=1,
        rows_per_s=2000,
    )
    lake = LakeSettings(str(tmp_path / "lake"), merge_after_s=1e6, compact_files=0)
    settings = replace(settings, spark=spark_settings, lake=lake)
    if bug is not None:
        bug(monkeypatch)
    readers = Readers(lake.path, TableId(database, "t"), [(ROWS, 0, 0, None)])
    changes = 0

    def change(flagged: bool) -> None:
        """Change a row; its state is known before it can be seen."""
        nonlocal changes
        changes += 1
        count, v, weighed, _ = readers.states[-1]
        key = changes * 37 % ROWS + 1
        flag = 2 * count if flagged else None
        readers.states.append((count, v + 1, weighed + key, flag))
        mysql.sql(f"UPDATE t SET v = v + 1 WHERE id = {key}", database=database)

    async def polled(done: Callable[[], bool], what: str, *, flagged: bool) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not done() and not readers.wrong:
                assert not service.outcome.done(), what
                if readers.texts:
                    await asyncio.to_thread(change, flagged)
                await asyncio.to_thread(readers.look)

    async with running(settings, Assembly) as service:
        await polled(lambda: bool(readers.texts), "a live view", flagged=False)
        polls = iter(range(5))
        await polled(lambda: next(polls, None) is None, "some polls", flagged=False)
        count, v, weighed, _ = readers.states[-1]
        readers.states.append((count, v, weighed, 2 * count))
        await asyncio.to_thread(mysql.sql, ALTER, database=database)
        await polled(lambda: _begun(service, readers), "it's being read again", flagged=True)
        await polled(lambda: not _rebuilding(service, readers), "it has been read again", flagged=True)
        polls = iter(range(3))
        await polled(lambda: next(polls, None) is None, "some more polls", flagged=True)
        await service.drop()
    if bug is not None:
        assert readers.wrong
        return
    assert readers.wrong == []
    assert readers.frozen > 3, "they looked while it was read again"
    assert readers.failed > 0, "texts of before it fail"
    assert any(state[3] for state in readers.seen), "the new column was seen"


def _begun(service: Running, readers: Readers) -> bool:
    return _rebuilding(service, readers) or any(state[3] for state in readers.seen)


def _rebuilding(service: Running, readers: Readers) -> bool:
    table = service.status(Name.SPARK_SINK).get("tables", {}).get(str(readers.table), {})
    return table.get("rebuilding_since") is not None
