"""Readers of a lake while histories are played: what they see is a state that the source had, or they are refused.

A reader prints the text of a table's live view and runs it at once, runs texts that were printed earlier, and reads the
mirror as it is. The states of the source are taken behind each statement. Whether a reader saw one of them is judged at
the next rest, when all states up to there are known.

Not judged are tables whose changes lack columns: there a row is missing until it has been read again
(`docs/guarantees.md`). Nor is a mirror that its first snapshot still fills, which says so (`docs/lake.md`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from threading import Lock
from typing import Final

import duckdb
import pyarrow as pa
import pymysql
from pymysql.constants import ER

from actors.lake.transaction_log.delta_log import LOG, read_version
from actors.service.live_view_text import live_view_text
from deploy.oracle.forms import forms
from deploy.oracle.source import source_table
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.errors import Definite
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine

# How many texts of a table are kept to be run again, and how many differences are told at once.
_TEXTS: Final = 4
_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader saw of a table, and how it read."""

    table: TableId
    how: str
    rows: pa.Table


@dataclass(slots=True)
class Readers:
    """What the source had, and what readers saw of it since the last rest. `reads`: how often a reader saw rows."""

    server: MysqlServer
    lake: str
    some: Random
    had: dict[TableId, list[pa.Table]] = field(default_factory=dict)
    texts: dict[TableId, list[str]] = field(default_factory=dict)
    polled: dict[TableId, list[int]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    reads: int = 0
    refused: int = 0
    judging: Lock = field(default_factory=Lock)
    polling: Lock = field(default_factory=Lock)

    def look(self, tables: Sequence[TableId]) -> None:
        """Take down what the source has of these tables now, and of those that it had."""
        databases = {table.database for table in tables}
        for table in {*tables, *(each for each in tuple(self.had) if each.database in databases)}:
            states = self.had.setdefault(table, [pa.table({})])  # before it was there it had no rows
            try:
                rows = source_table(self.server, table, locked_s=1)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (ER.LOCK_WAIT_TIMEOUT, ER.WRONG_MRG_TABLE):
                    raise
                # The history has locked it, and does nothing else before it unlocks it. Or it is a MERGE table whose
                # part has another engine by now.
                continue
            if not any(_alike(rows, each) for each in states[-1:]):
                states.append(rows)

    def moved(self, lake: str) -> None:
        """Another lake has been begun."""
        self.lake = lake
        self.texts.clear()
        self.polled.clear()

    @asynccontextmanager
    async def without(self) -> AsyncIterator[None]:
        """Let nobody read, while the lake's tables are set back; texts of before are of no use then."""
        await asyncio.to_thread(self.polling.acquire)
        try:
            yield
            self.moved(self.lake)
        finally:
            self.polling.release()

    def poll(self) -> None:
        """Read each table that the lake has in another state than at the last time, in each way."""
        with self.polling, closing(engine()) as connection:
            for table in sorted(self.had):
                if self.polled.get(table) == (now := self._changed(table)):
                    continue
                self.polled[table] = now
                for how, text in self._texts(table):
                    try:
                        read = connection.sql(text).to_arrow_table()
                    except duckdb.Error:  # the text is of another generation, or of columns that have gone
                        self.refused += 1
                        continue
                    self.reads += 1
                    with self.judging:
                        self.seen.append(Seen(table, how, forms(read)))

    def _changed(self, table: TableId) -> list[int]:
        """When the lake last committed something of a table: its logs get a file each time."""
        logs = (Path(location(self.lake, table, tier)) / LOG for tier in Tier)
        return [log.stat().st_mtime_ns for log in logs if log.exists()]

    def _texts(self, table: TableId) -> Iterator[tuple[str, str]]:
        """The queries of this moment, and how each of them reads."""
        lake = self.lake  # another one may be begun meanwhile
        told = read_version(location(lake, table, Tier.MIRROR))
        changes = read_version(location(lake, table, Tier.CHANGELOG))
        if told is None or told.first or changes is None or Property.PARTIAL in changes.properties:
            return
        old = self.texts.setdefault(table, [])
        yield from (("an old text", each) for each in self.some.sample(old, k=min(len(old), 2)))
        yield "the mirror", f"SELECT * FROM delta_scan('file://{location(lake, table, Tier.MIRROR)}')"
        if changes.schema is None or not changes.schema.key:  # the text is a sum of changes, and no live view
            return
        try:
            text = live_view_text(lake, str(table), Dialect.DUCKDB)
        except (Definite, OSError):
            self.refused += 1
            return
        if text not in old:
            old[_TEXTS - 1 :] = []
            old.insert(0, text)
        yield "the live view", text

    def judged(self, database: str) -> list[str]:
        """What readers saw of a database's tables that the source never had; it's forgotten then."""
        with self.judging:
            mine = [each for each in self.seen if each.table.database == database]
            self.seen = [each for each in self.seen if each.table.database != database]
        wrong = (
            f"{each.table}: {each.how} had {len(each.rows)} rows, which the source never had:"
            f" {each.rows.slice(0, _TOLD).to_pylist()}"
            for each in mine
            if not any(_is(each.rows, state) for state in self.had[each.table])
        )
        return list(islice(wrong, _TOLD))


def _is(rows: pa.Table, state: pa.Table) -> bool:
    """Whether these are the rows of a state, as far as both have its columns.

    A text of before has no columns that came later, and a mirror keeps those that have gone.
    """
    if not rows or not state:
        return len(rows) == len(state) == 0
    names = sorted(set(rows.column_names) & set(state.column_names))
    return bool(names) and _bag(rows, names) == _bag(state, names)


def _alike(one: pa.Table, other: pa.Table) -> bool:
    return one.column_names == other.column_names and _is(one, other)


def _bag(rows: pa.Table, names: list[str]) -> list[str]:
    return sorted(map(repr, zip(*(rows[name].to_pylist() for name in names), strict=True)))
