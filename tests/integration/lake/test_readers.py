"""Readers poll a table of 20,000 rows while its server alters it: each of them sees a state that the source had.

First it gets a column of which no log tells the values, so that it's read again. Then it gets one with a constant.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.lake import generations
from actors.lake.transaction_log.delta_log import read_version
from actors.service.assembly import Assembly
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import LakeSettings, SnapshotMode, SparkSettings
from pipeline.errors import Definite
from pipeline.lake import live_view
from pipeline.lake.background import turns
from pipeline.lake.batch import Batch
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.service import Running, pipeline, running

ROWS: Final = 20_000
WITHIN_S: Final = 300.0
# An expression, whose values no log tells; and a constant, which the mirror gets without a read.
ALTER: Final = "ALTER TABLE t ADD COLUMN flag INT NOT NULL DEFAULT (1 + 1)"
EXTEND: Final = "ALTER TABLE t ADD COLUMN kind INT NOT NULL DEFAULT 3"


class State(NamedTuple):
    """How many rows, the sum of `v`, of `id * v`, of `flag` and of `kind`, None where there's no such column."""

    rows: int
    v: int = 0
    weighed: int = 0
    flag: int | None = None
    kind: int | None = None


class Odd(NamedTuple):
    """A state that the source never had, by what, whether that's an old text, and how often the mirror was swapped."""

    state: State
    text: str
    old: bool
    swaps: int


@dataclass
class Readers:
    """Those who read the table by a text of just now, by texts from before, and in the mirror itself."""

    lake: str
    table: TableId
    states: list[State]
    texts: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    odd: list[Odd] = field(default_factory=list)
    seen: set[State] = field(default_factory=set)
    frozen: int = 0
    failed: int = 0
    duck: duckdb.DuckDBPyConnection = field(default_factory=engine)

    def look(self) -> None:
        """Poll once."""
        mirror = location(self.lake, self.table, Tier.MIRROR)
        told = read_version(mirror)
        self.frozen += told is not None and told.frozen
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
            if state not in self.states:
                self.wrong.append(f"{state} by {text}")
                now = read_version(mirror)  # it may have been swapped since
                swaps = 0 if now is None else now.mark("swap")
                self.odd.append(Odd(state, text, text in old, swaps))


def _state(duck: duckdb.DuckDBPyConnection, text: str) -> State:
    """What one execution reads. A relation that is asked twice looks for the table's columns twice."""
    rows = duck.execute(text).to_arrow_table()

    def total(of: pa.ChunkedArray) -> int:
        return int(pc.sum(of, min_count=0).as_py())

    flag, kind = (total(rows[name]) if name in rows.column_names else None for name in ("flag", "kind"))
    return State(len(rows), total(rows["v"]), total(pc.multiply(rows["id"], rows["v"])), flag, kind)


@dataclass(frozen=True)
class Bug:
    """A fault that's planted, and whether what a reader saw is what comes of it, and of nothing else."""

    planted: Callable[[pytest.MonkeyPatch], None]
    seen: Callable[[Odd], bool]


BUGS: Final = {
    "the next generation is filled where readers look": Bug(
        lambda patched: patched.setattr(Batch, "completes", lambda *_: True),
        lambda odd: odd.state.rows < ROWS and odd.swaps == 0,
    ),
    "the next generation is swapped in before all of its rows have come": Bug(
        lambda patched: patched.setattr(turns, "completable_tables", lambda known, _: list(known.rebuilding)),
        lambda odd: odd.state.rows < ROWS and odd.swaps > 0,
    ),
    "a text says nothing of the generation that it's for": Bug(
        lambda patched: patched.setattr(live_view, "_bound", lambda *_: ""),
        lambda odd: odd.old and odd.state.rows == ROWS and odd.state.flag is None,
    ),
    "a mirror takes a column as null in the rows that there were": Bug(
        lambda patched: patched.setattr(
            generations, "owe_constants", lambda owed, steps: (owed, tuple(steps))
        ),
        lambda odd: odd.state.rows == ROWS and odd.state.flag == 2 * ROWS and odd.state.kind != 3 * ROWS,
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("bug", [None, *(pytest.param(bug, id=name) for name, bug in BUGS.items())])
async def test_each_poll_sees_a_state_that_the_source_had(
    mysql: MysqlServer,
    database: str,
    tmp_path: Path,
    spark_settings: SparkSettings,
    monkeypatch: pytest.MonkeyPatch,
    bug: Bug | None,
) -> None:
    """Whatever is planted is found, and it's that which is found."""
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
    of_lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_after_s=1e6, compact_files=0)
    settings = replace(settings, spark=spark_settings, lake=of_lake)
    readers = Readers(of_lake.path, TableId(database, "t"), [State(ROWS)])
    changes = 0

    def change() -> None:
        """Change a row; its state is known before it can be seen, with the last column and perhaps without."""
        nonlocal changes
        changes += 1
        last = readers.states[-1]
        key = changes * 37 % ROWS + 1
        after = last._replace(v=last.v + 1, weighed=last.weighed + key)
        readers.states += [after._replace(kind=None), after]
        mysql.sql(f"UPDATE t SET v = v + 1 WHERE id = {key}", database=database)

    async def polled(done: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not done() and not readers.wrong:
                assert not service.outcome.done(), what
                if readers.texts:
                    await asyncio.to_thread(change)
                await asyncio.to_thread(readers.look)

    async def polls(number: int) -> None:
        left = iter(range(number))
        await polled(lambda: next(left, None) is None, "some polls")

    async with running(settings, Assembly) as service:
        await polled(lambda: bool(readers.texts), "a live view")
        if bug is not None:
            bug.planted(monkeypatch)
        await polls(5)
        readers.states.append(readers.states[-1]._replace(flag=2 * ROWS))
        await asyncio.to_thread(mysql.sql, ALTER, database=database)
        await polled(lambda: _begun(service, readers), "it's being read again")
        await polled(lambda: not _rebuilding(service, readers), "it has been read again")
        await polls(3)
        readers.texts[:] = readers.texts[-1:]
        frozen, failed, mirrors = readers.frozen, readers.failed, service.status()["mirrors"]
        of_before = len(readers.states)
        readers.states.append(readers.states[-1]._replace(kind=3 * ROWS))
        await asyncio.to_thread(mysql.sql, EXTEND, database=database)
        await polled(lambda: any(state.kind for state in readers.seen), "the constants")
        await polls(3)
        again = service.status()["mirrors"]
        await service.drop()
    if bug is not None:
        assert readers.odd, readers.wrong
        assert all(map(bug.seen, readers.odd)), readers.odd
        return
    assert readers.wrong == []
    assert frozen > 3, "they looked while it was read again"
    assert failed > 0, "texts of before it fail"
    assert any(state.flag for state in readers.seen), "the new column was seen"
    assert mirrors == again, "nothing is read again for a constant"
    assert readers.failed == failed, "no text of before a constant fails"
    assert any(state.kind is None for state in readers.seen & set(readers.states[of_before:])), (
        "changes go on"
    )


def _begun(service: Running, readers: Readers) -> bool:
    return _rebuilding(service, readers) or any(state.flag for state in readers.seen)


def _rebuilding(service: Running, readers: Readers) -> bool:
    table = service.status(Name.SPARK_SINK).get("tables", {}).get(str(readers.table), {})
    return table.get("rebuilding_since") is not None
