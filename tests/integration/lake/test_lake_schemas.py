"""Columns change, tables are emptied and made anew, on a live server: what comes of it in the lake.

One service captures all tables at once, each with a story of its own, and the lake is brought to three moments of it:
before the statements, between them and behind them. At each, the live view is the source's table, columns and all; and
wherever the mirror is merged it's the source's table too.
"""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from actors.journal.store import JournalReader
from actors.journal_writer import JournalWriter
from actors.lake.lake import Lake
from actors.lake.live_view import live_view
from actors.lake.spark.spark_session import Spark
from actors.spark_sink import TABLES_DELIVERED_AT_ONCE
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import FileKind
from pipeline.lake.batch import Batch, LakeTableState, next_batch
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.messages.topology import ActorName
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Ready
from tests.servers.journal_oracle import entries, source_rows
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

COLUMNS: Final = (
    "id INT PRIMARY KEY, v INT, note VARCHAR(20), d DECIMAL(10,2), f FLOAT, day DATE, s VARCHAR(20)"
)
STRICT: Final = "SET sql_mode = 'STRICT_TRANS_TABLES'"
# No shorter names are allowed, and no longer ones.
LONGEST: Final = "x" * 60 + "\u00e9n.`"


@dataclass(frozen=True)
class Story:
    """What's done to a table `{t}` first and then; whether its mirror begins anew, and why it stops, if it does."""

    first: tuple[str, ...]
    then: tuple[str, ...] = ()
    anew: bool = False
    stops: str | None = None
    emptied: int = 0


STORIES: Final[dict[str, Story]] = {
    "added": Story(("ALTER TABLE {t} ADD x INT",), ("ALTER TABLE {t} ADD COLUMN y DATETIME(3) FIRST",)),
    "added with values": Story(
        ("ALTER TABLE {t} ADD x INT NOT NULL DEFAULT 7", "ALTER TABLE {t} ADD c CHAR(3) NOT NULL AFTER id"),
        (
            "ALTER TABLE {t} ADD y DECIMAL(5,2) DEFAULT -1.5, ADD z DATE NOT NULL DEFAULT '2024-02-29'",
            "UPDATE {t} SET y = NULL WHERE id < 9",
            "ALTER TABLE {t} ADD at DATETIME DEFAULT '2024-02-29 23:59:59', ADD p BIGINT UNSIGNED DEFAULT 5",
        ),
    ),
    "added with values, renamed and dropped": Story(
        (
            "ALTER TABLE {t} ADD x INT NOT NULL DEFAULT 7, ADD y VARCHAR(9) DEFAULT 'new'",
            "ALTER TABLE {t} RENAME COLUMN x TO w",
            "UPDATE {t} SET w = 8, y = NULL WHERE id < 4",
            "ALTER TABLE {t} DROP COLUMN y, RENAME COLUMN note TO remark, ADD note INT",
        ),
        (
            "ALTER TABLE {t} DROP COLUMN w",
            "ALTER TABLE {t} ADD w INT DEFAULT 5",
            STRICT,
            "ALTER TABLE {t} MODIFY w BIGINT",
        ),
        anew=True,
    ),
    "added with a value and read again": Story(
        (
            "ALTER TABLE {t} ADD x INT DEFAULT 7",
            "UPDATE {t} SET x = 8 WHERE id < 4",
            "ALTER TABLE {t} ADD y INT DEFAULT (7)",
        ),
        ("ALTER TABLE {t} ADD z INT DEFAULT 9",),
        anew=True,
    ),
    "added with a value and truncated": Story(
        ("ALTER TABLE {t} ADD x INT DEFAULT 7", "TRUNCATE {t}"),
        ("ALTER TABLE {t} ADD y INT DEFAULT 7",),
        anew=True,
        emptied=1,
    ),
    "dropped": Story(("ALTER TABLE {t} DROP note",), ("ALTER TABLE {t} DROP COLUMN v, DROP COLUMN f",)),
    "dropped and added": Story(("ALTER TABLE {t} DROP note",), ("ALTER TABLE {t} ADD note VARCHAR(20)",)),
    "dropped and added at once": Story(("ALTER TABLE {t} DROP note", "ALTER TABLE {t} ADD note VARCHAR(20)")),
    "dropped and added with another type": Story(
        ("ALTER TABLE {t} DROP note",), ("ALTER TABLE {t} ADD note INT",)
    ),
    "replaced": Story(("ALTER TABLE {t} DROP note, ADD note INT",), anew=True),
    "renamed": Story(
        ("ALTER TABLE {t} RENAME COLUMN note TO remark",), ("ALTER TABLE {t} RENAME COLUMN remark TO note",)
    ),
    "renamed over a dropped one": Story(
        ("ALTER TABLE {t} DROP note",), ("ALTER TABLE {t} RENAME COLUMN s TO note",)
    ),
    "the key renamed": Story(("ALTER TABLE {t} RENAME COLUMN id TO `key`",)),
    "exchanged": Story(("ALTER TABLE {t} RENAME COLUMN note TO s, RENAME COLUMN s TO note",), anew=True),
    "renamed and widened": Story((STRICT, "ALTER TABLE {t} CHANGE v w BIGINT")),
    "widened": Story(
        (
            STRICT,
            "ALTER TABLE {t} MODIFY v BIGINT, MODIFY d DECIMAL(14,4), MODIFY f DOUBLE, MODIFY day DATETIME",
        ),
        (STRICT, "ALTER TABLE {t} MODIFY v BIGINT UNSIGNED, MODIFY id BIGINT"),
    ),
    "narrowed": Story(
        (STRICT, "ALTER TABLE {t} MODIFY v SMALLINT, MODIFY d DECIMAL(9,2)"),
        (STRICT, "ALTER TABLE {t} MODIFY v INT"),
    ),
    # A strict server, too, cuts spaces off.
    "shortened": Story((STRICT, "ALTER TABLE {t} MODIFY note VARCHAR(12)"), anew=True),
    "cut": Story(("SET sql_mode = ''", "ALTER TABLE {t} MODIFY note VARCHAR(2)"), anew=True),
    "not null and null": Story(
        (STRICT, "ALTER TABLE {t} MODIFY v INT NOT NULL"), (STRICT, "ALTER TABLE {t} MODIFY v INT NULL")
    ),
    "moved": Story((STRICT, "ALTER TABLE {t} MODIFY note VARCHAR(20) AFTER id")),
    "truncated": Story(
        ("TRUNCATE {t}",), ("TRUNCATE {t}", "ALTER TABLE {t} ADD x INT"), anew=True, emptied=2
    ),
    "made anew": Story(
        ("DROP TABLE {t}", "CREATE TABLE {t} (" + COLUMNS + ")"),
        (
            "DROP TABLE {t}",
            "CREATE TABLE {t} (code VARCHAR(9) PRIMARY KEY, note VARCHAR(9), v BIGINT, id INT, at DATETIME)",
        ),
        anew=True,
        emptied=2,
    ),
    "made anew with wider and narrower types": Story(
        (
            "DROP TABLE {t}",
            "CREATE TABLE {t} (id DOUBLE PRIMARY KEY, v BIGINT, note TEXT, d DECIMAL(14,4), f DOUBLE, day DATETIME)",
        ),
        ("DROP TABLE {t}", "CREATE TABLE {t} (" + COLUMNS + ")"),
        anew=True,
        emptied=2,
    ),
    "swapped": Story(
        (
            "CREATE TABLE {t}_new LIKE {t}",
            "ALTER TABLE {t}_new DROP s, ADD x INT NOT NULL DEFAULT 3",
            "INSERT INTO {t}_new (id, v, note, d, f, day) SELECT id, v, note, d, f, day FROM {t}",
            "RENAME TABLE {t} TO {t}_old, {t}_new TO {t}",
        ),
        anew=True,
    ),
    "another key": Story(("ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (note, id)",), anew=True),
    "odd names": Story(
        (
            "ALTER TABLE {t} ADD `a.b 'c' \"d\" ;{{}}()\t=%` INT, ADD `select` INT",
            "ALTER TABLE {t} RENAME COLUMN note TO `" + LONGEST.replace("`", "``") + "`",
        ),
        ("ALTER TABLE {t} RENAME COLUMN v TO V, RENAME COLUMN s TO `\u00fcber, from`",),
    ),
    "retyped": Story(
        (STRICT, "ALTER TABLE {t} MODIFY v VARCHAR(20)"), (STRICT, "ALTER TABLE {t} MODIFY v INT"), anew=True
    ),
    "retyped and back": Story(
        (STRICT, "ALTER TABLE {t} MODIFY note VARCHAR(20), MODIFY day VARCHAR(20)"),
        (STRICT, "ALTER TABLE {t} MODIFY day DATE"),
        anew=True,
    ),
}


@dataclass
class Moment:
    """The lake's segment, and what the source's tables have there, by name."""

    segment: int
    rows: dict[str, list[dict[str, Any]]]


@dataclass
class Told:
    """A journal in which all stories are told, and the moments before, between and behind their statements."""

    journal: Path
    database: str
    tables: dict[str, str]
    moments: list[Moment] = field(default_factory=list)


@pytest.fixture
async def told(
    request: pytest.FixtureRequest, mysql: MysqlServer, mysql_factory: MysqlFactory, tmp_path: Path
) -> AsyncIterator[Told]:
    metadata, names = request.param
    server = mysql if metadata == "FULL" else mysql_factory(GTIDS)
    database = f"schemas_{metadata.lower()}"
    story = Told(tmp_path / "journal", database, {f"t{i}": name for i, name in enumerate(names)})
    server.sql(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    for table in story.tables:
        values = (f"({i}, {i}, 'note {i}', {i}.25, {i}.5, '2026-11-{i:02}', 's{i}')" for i in range(1, 21))
        server.sql(
            f"CREATE TABLE {database}.{table} ({COLUMNS})",
            f"INSERT INTO {database}.{table} VALUES {', '.join(values)}",
        )
    settings = replace(pipeline(server, tmp_path, database), tables=TableFilter((rf"{database}\.t\d+",)))
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", rf"{database}\.t\d+")
        await service.completed("s")
        await asyncio.to_thread(change, server, story, 100)
        await _moment(service, server, story)
        for step, key in (("first", 200), ("then", 400)):
            await asyncio.to_thread(change, server, story, key)
            for table, name in story.tables.items():
                await alter(service, server, TableId(database, table), getattr(STORIES[name], step), metadata)
            await asyncio.to_thread(change, server, story, key + 100)
            await _moment(service, server, story)
        await service.stop()
    yield story
    server.sql(f"DROP DATABASE {database}")


async def _moment(service: Running, server: MysqlServer, story: Told) -> None:
    """Once everything's sealed, and all mirrors are complete there: tables that began anew have been read again."""
    executed = GtidSet.parse(server.executed())
    writer = service.supervisor.actors[ActorName.JOURNAL_WRITER]
    assert isinstance(writer, JournalWriter)

    def arrived() -> bool:
        sealed = writer.sealed
        return (
            sealed is not None
            and executed <= sealed.position
            and all(isinstance(mirror, Ready) for mirror in sealed.mirrors.values())
        )

    await service.until(arrived, "everything is sealed")
    assert service.status()["stopped"] == {}
    tables = {t: list(source_rows(server, TableId(story.database, t)).values()) for t in story.tables}
    segment = int(service.status(ActorName.JOURNAL_WRITER)["segment"])
    story.moments.append(Moment(segment, tables))  # type: ignore[arg-type]


async def alter(
    service: Running, server: MysqlServer, table: TableId, statements: tuple[str, ...], metadata: str
) -> None:
    """In one session, as sql_mode is the session's.

    A log that names no columns can't say what came between two statements, so each of them is captured by itself then.
    """
    with closing(server.connect(database=table.database)) as connection, connection.cursor() as cursor:
        for statement in statements:
            await asyncio.to_thread(cursor.execute, statement.format(t=table.name))
            connection.commit()
            if metadata == "MINIMAL":
                await service.caught_up(server)


def change(server: MysqlServer, story: Told, key: int) -> None:
    """Rows of each table come, change and go, whatever its columns are by now."""
    for table in story.tables:
        with closing(server.connect(database=story.database)) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")  # some column is too short by now
            cursor.execute(f"SHOW COLUMNS FROM {table}")
            columns = {quoted(row[0]): str(row[1]) for row in cursor.fetchall()}
            cursor.execute(f"SHOW KEYS FROM {table} WHERE Key_name = 'PRIMARY'")
            id_ = [quoted(row[4]) for row in cursor.fetchall()][-1]
            changed = next(
                name for name, kind in columns.items() if name not in (id_, "`day`") and "date" not in kind
            )
            names = ", ".join(columns)
            for n in (key, key + 1, key + 2):
                # A day that is text for a while has to be a day again.
                days = ["date" in kind or name == "`day`" for name, kind in columns.items()]
                values = ", ".join("'2026-01-02'" if day else f"'{n}'" for day in days)
                cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({values})")
            cursor.execute(f"UPDATE {table} SET {changed} = 7 WHERE {id_} IN ('3', '4', '{key}')")
            cursor.execute(f"DELETE FROM {table} WHERE {id_} IN ('5', '{key + 1}')")
            cursor.execute(f"UPDATE {table} SET {id_} = '{key + 50}' WHERE {id_} = '{key + 2}'")
            connection.commit()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Delivery:
    """A lake that's fed from a journal as far as a test wants."""

    def __init__(self, spark: Spark, root: str, told: Told) -> None:
        self.spark, self.root, self.told = spark, root, told
        self.journal = JournalReader(told.journal)
        self.lake = Lake(spark.session, root, self.journal)
        self.delivered: dict[TableId, LakeTableState] = {}
        self.segment = 0

    def first(self, table: TableId) -> int:
        """The first generation of a table's mirror."""
        mirrors = (entry.checkpoint.mirrors.get(table) for entry in entries(self.told.journal))
        return next(mirror.since for mirror in mirrors if mirror is not None)

    def deliver(self, through: int) -> None:
        while self.segment < through:
            batch = next_batch(self.journal.entries(self.segment, through))
            tables = dict.fromkeys([*batch.tables, *batch.generations, *batch.alterations])
            with ThreadPoolExecutor(TABLES_DELIVERED_AT_ONCE) as threads:
                self.delivered |= dict(threads.map(partial(self._delivered, batch), tables))
            self.segment = batch.through
            for table, mirror in batch.checkpoint.mirrors.items():
                there = self.delivered[table]
                lacking = there.stopped is None and there.rebuilding is not None
                at_once = self.segment == through or int(table.name.removeprefix("t")) % 2
                if isinstance(mirror, Ready) and lacking and at_once:
                    self.lake.generations.complete(table, mirror.since, self.segment, "position")
                    self.delivered[table] = replace(there, rebuilding=None)

    def _delivered(self, batch: Batch, table: TableId) -> tuple[TableId, LakeTableState]:
        present = self.delivered.get(table, LakeTableState())
        return table, present if present.stopped else self.lake.deliver(table, present, batch)

    def merge(self, table: TableId) -> None:
        found = self.lake.find(table)
        assert found.generation is not None
        self.lake.merge(table, MirrorPosition(found.generation, found.merged), self.segment, "position")

    def view(self, table: TableId) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = live_view(self.spark.session, self.root, table).toArrow().to_pylist()
        return rows

    def tier(self, table: TableId, tier: Tier) -> list[dict[str, Any]]:
        frame = self.spark.session.read.format("delta").load(location(self.root, table, tier))
        frame = frame.drop(*(name for name in frame.columns if name.startswith("__generation_")))
        rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
        return rows


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Whether these are the same rows, whatever type holds their numbers and days."""
    return sorted(map(_plain, found)) == sorted(map(_plain, wanted))


def _plain(row: dict[str, Any]) -> str:
    values = {name: _value(value) for name, value in row.items()}
    return repr(sorted(values.items()))


def _value(value: Any) -> Any:
    if isinstance(value, int | float | Decimal):
        return float(value)
    return dt.datetime.combine(value, dt.time()) if type(value) is dt.date else value


@pytest.mark.full
@pytest.mark.parametrize(
    "told",
    [pytest.param((metadata, tuple(STORIES)), id=metadata) for metadata in ("FULL", "MINIMAL")],
    indirect=True,
)
async def test_the_lake_is_the_source_before_between_and_behind_the_statements(
    told: Told, spark: Spark, tmp_path: Path
) -> None:
    """Each table is merged at the end, and at another of the three moments, too."""
    delivery = Delivery(spark, str(tmp_path / "lake"), told)
    for number, moment in enumerate(told.moments):
        await asyncio.to_thread(delivery.deliver, moment.segment)
        for place, (name, story) in enumerate(told.tables.items()):
            table = TableId(told.database, name)
            if delivery.delivered[table].stopped is not None:
                continue
            found = await asyncio.to_thread(delivery.view, table)
            assert same(found, moment.rows[name]), (story, number, found, moment.rows[name])
            if number == 2 or place % 3 == number:
                await asyncio.to_thread(delivery.merge, table)
                mirror = await asyncio.to_thread(delivery.tier, table, Tier.MIRROR)
                here = [{column: row[column] for column in found[0]} for row in mirror]
                assert same(here, moment.rows[name]), (story, number, here)
    for name, story in told.tables.items():
        table, expected = TableId(told.database, name), STORIES[story]
        stopped = delivery.delivered[table].stopped
        assert (stopped is None) is (expected.stops is None), (story, stopped)
        assert expected.stops is None or expected.stops.format(t=table) in (stopped.reason if stopped else "")
        changelog = await asyncio.to_thread(delivery.tier, table, Tier.CHANGELOG)
        if stopped is None:
            assert len(changelog) == sealed(told, table), story
        assert sum(row["__op"] == "t" for row in changelog) == expected.emptied, story
        generation = delivery.delivered[table].generation
        assert generation is not None and (generation > delivery.first(table)) is expected.anew, story


def sealed(told: Told, table: TableId) -> int:
    """How many changes of a table the journal has."""
    files = (file for entry in entries(told.journal) for file in entry.files)
    return sum(file.rows for file in files if file.table == table and file.kind is FileKind.CHANGES)
