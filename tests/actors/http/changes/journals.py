"""A service over a real journal, which a test seals segment by segment."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from pipeline.config.settings import HttpSettings, JournalSettings
from pipeline.journal.applied.progress import JournalProgress
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import Decimal, Integer, Json
from tests.actors.http.served_actors import Bench, served
from tests.integration.history import History
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS

WIDER = replace(ORDERS, columns=(*ORDERS.columns, Column("price", Decimal(10, 2), True)))
TYPED = replace(
    ITEMS,
    columns=(
        *ITEMS.columns,
        Column("big", Integer(8, unsigned=True), True),
        Column("document", Json(), True),
    ),
)


class Tapped:
    """A journal with two tables, and the service before it."""

    def __init__(self, bench: Bench, history: History) -> None:
        self.bench, self.history = bench, history
        self.orders = history.table(ORDERS)
        self.items = history.table(ITEMS)

    @property
    def url(self) -> str:
        return self.bench.server.url

    def commit(self, transactions: int = 1, rows: int = 2, text: str = "ö") -> None:
        """Transactions in which rows of both tables alternate; a row's id says which one it is of all."""
        for _ in range(transactions):
            first = 1000 * self.history.scn
            self.history.transaction(
                *(
                    (self.orders, "c", (first + n, f"{text}{n}"))
                    if n % 2 == 0
                    else (self.items, "c", (first + n,))
                    for n in range(rows)
                )
            )

    def seal(self, *, idle: bool = False) -> None:
        """Seals a segment, and reports it as the journal's writer does. `idle`: the source has committed nothing."""
        segment = self.history.seal(idle=idle)
        checkpoint = self.history.store.entry(segment).checkpoint
        self.bench.changes.journal_progressed(JournalProgress(segment, checkpoint))

    def forget(self, through: int) -> None:
        """Removes the segments before this one, which the journal's consumer has."""
        store = self.history.store
        store.consumers.record_progress("another", through)
        store.retain(JournalSettings(str(store.directory), keep_hours=0), 10**18)

    async def lines(self, **asked: str) -> list[dict[str, Any]]:
        """The answer's lines, through the end of the journal."""
        parameters = {"since": "earliest", "through": "now", **asked}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/changes", params=parameters) as answer,
        ):
            return [json.loads(line) for line in (await answer.text()).splitlines()]


@asynccontextmanager
async def tapped(folder: Path, http: HttpSettings = HttpSettings()) -> AsyncIterator[Tapped]:  # noqa: B008 - it's frozen
    history = History(folder / "journal" / "journal")
    with closing(history.store):
        async with served(folder, settings=http) as bench:
            yield Tapped(bench, history)
